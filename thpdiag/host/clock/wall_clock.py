"""Conversion of all records of a host to one clock: UTC if possible, with the error of each time.

Wall-clock times are converted by the host's zone (`timezone`), times of day without a date by the name of their file or
the time of the capture, times since boot by the time of the boot (`anchors`). Times that cannot be converted stay as
read; citations never change. Recordings of stacks keep the clock by which `perf script` prints their times: `HostClock`
gives their time on the wall clock, and reports name both.

Summer time: a wall clock shows one hour twice when it ends. In a continuous source, a jump back by an hour less one
interval starts the second pass of that hour; if the source begins inside it, only later rows can show which pass it
was. Without a zone, the clock continues as at the start, and may be wrong by that hour. A jump forward is missing data.
Any other jump back between two rows means that the clock was set: no rate is computed for that interval, and earlier
times may be wrong by as much. Rows that are farther apart in the text than usual belong to another recording.

Dates in names of files and of outputs:

    collectl-20261120.txt, top_2026-11-20_09-40-00.log     the day on which the file was begun
    sos_commands/process/top                               the output of a command: it ran while the capture was made
    top.txt beside host.txt                                likewise, of the capture script

If the first row is earlier in the day than the time in the name, it is of the next day. The date in a folder name is
that of the bundle, and rotated logs are named after the day on which they ended: neither is used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

from thpdiag.host.clock.anchors import anchors_of_boot, anchors_of_profile, boot_times
from thpdiag.host.clock.timezone import HOUR, QUARTER, Timezone, host_timezone, timezone_of_boots
from thpdiag.knowledge.paths import output_of, root_of
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Note, Problem, Profile, Record, Sample, Series
from thpdiag.model.case import begin_of, end_of, member_of
from thpdiag.model.facts import DAY, ClockAnchor
from thpdiag.model.numeric import Array, Floats, Ints, np
from thpdiag.model.text import quoted

COUNTED = (Clock.BOOT, Clock.SESSION)  # clocks that count seconds and are never set
MIN_STEP_SECONDS = 1.0  # by which a clock must have been set back: rows of one round may be slightly out of order
MAX_LINES_APART = 3  # between two rows of a recording with a row in every line


class ConvertedTimes(NamedTuple):
    """Seconds on `clock` with the error `within`; `steps` are rows before which it was set back, and by how much."""

    seconds: Floats
    clock: Clock
    within: float = 0.0
    steps: Sequence[tuple[int, float]] = ()


def convert_times(seconds: Floats, lines: Ints, clock: Clock, zone: Timezone | None) -> ConvertedTimes:
    """Return the converted times of one source, given in reading order with their line numbers. NaN stays NaN."""
    known = seconds == seconds
    if not known.all():
        part = convert_times(seconds[known], lines[known], clock, zone)
        converted = np.full(len(seconds), np.nan)
        converted[known] = part.seconds
        rows = np.flatnonzero(known)
        return part._replace(seconds=converted, steps=[(int(rows[row]), by) for row, by in part.steps])
    if not len(seconds) or clock in COUNTED:
        return ConvertedTimes(seconds, clock)
    zone = zone if clock is Clock.LOCAL else None
    within = 0.0
    if zone is not None and zone.rules is not None:
        seconds, within = _convert_by_rules(seconds, zone)
    elif clock is not Clock.UTC:
        seconds, within = _unfold_repeated_hour(seconds, lines)
        if zone is not None:
            within = max(within, zone.uncertainty(float(seconds.min()), float(seconds.max())))
            seconds = seconds - _offsets(seconds, zone)[0]
    steps = _jumps_back(seconds, lines)
    return ConvertedTimes(seconds, Clock.UTC if zone else clock, max((within, *(by for _, by in steps))), steps)


def _jumps_back(seconds: Floats, lines: Ints) -> list[tuple[int, float]]:
    """Return the rows that are earlier than the previous row of the same recording, and by how much."""
    steps = np.diff(seconds)
    if not len(steps) or steps.min() >= -MIN_STEP_SECONDS:
        return []
    distances = np.diff(lines)
    usual = max(_median(distances) * 1.5, MAX_LINES_APART)
    rows = np.flatnonzero((steps < -MIN_STEP_SECONDS) & (steps > -DAY / 2) & (distances > 0) & (distances <= usual))
    return [(int(row) + 1, -float(steps[row])) for row in rows]


def _median(numbers: Array[Any]) -> float:
    """Return what `np.median` returns, which imports numpy.ma (10 ms) to look for masked arrays."""
    ordered, middle = numbers.copy(), len(numbers) // 2
    ordered.sort()
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _unfold_repeated_hour(seconds: Floats, lines: Ints) -> tuple[Floats, float]:
    """Return the times continued where they jump back by an hour, and their error."""
    jumps = _jumps_back(seconds, lines)
    if not jumps:
        return seconds, 0.0
    forward = np.diff(seconds)
    forward = forward[forward > 0]
    interval = _median(forward) if len(forward) else 0.0
    min_jump, max_jump = HOUR - 2 * interval - MIN_STEP_SECONDS, HOUR + MIN_STEP_SECONDS
    folds = [row for row, by in jumps if min_jump <= by <= max_jump]
    if not folds or interval > HOUR / 4:
        return seconds, 0.0
    passes = np.zeros(len(seconds))
    passes[folds] = HOUR
    return seconds + np.cumsum(passes), HOUR


def _offsets(local: Floats, zone: Timezone) -> tuple[Floats, Floats]:
    """Return the offsets from UTC at the first and the second occurrence of each wall-clock time."""
    quarters, indices = np.unique(np.floor_divide(local, QUARTER), return_inverse=True)
    offsets = np.array([zone.offsets(float(quarter) * QUARTER) for quarter in quarters])
    return offsets[indices, 0], offsets[indices, 1]


def local_times(utc: Floats, zone: Timezone) -> Floats:
    """Return the wall-clock times of a zone at these times in UTC."""
    quarters, indices = np.unique(np.floor_divide(utc, QUARTER), return_inverse=True)
    local: Floats = utc + np.array([zone.local(q * QUARTER) - q * QUARTER for q in quarters.tolist()])[indices]
    return local


def _convert_by_rules(local: Floats, zone: Timezone) -> tuple[Floats, float]:
    """Return the times in UTC, and their error."""
    first, second = _offsets(local, zone)
    is_repeated = first > second
    if not is_repeated.any():
        error = float(abs(first - second).max())  # a skipped hour: the times are of another clock
        return local - first, error
    edges = np.flatnonzero(np.diff(is_repeated.astype(np.int8), prepend=0, append=0))
    offset, error = first.copy(), 0.0
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        shift = float((first - second)[start])
        second_start = _second_pass(local, start, end, shift)
        if second_start is None:
            error = max(error, shift)
        else:
            offset[second_start:end] = second[second_start:end]
    return local - offset, error


def _second_pass(local: Floats, start: int, end: int, shift: float) -> int | None:
    """Return the first row of the second pass of a repeated hour; None if it is unknown."""
    jump = next((row for row in range(start + 1, end) if local[row] < local[row - 1] - MIN_STEP_SECONDS), None)
    if jump is not None:
        return jump
    if start > 0 and 0 <= local[start] - local[start - 1] < shift / 2:
        return end  # continues the rows before: the first pass
    if end < len(local):
        gap = local[end] - local[end - 1]
        if 0 <= gap < shift / 2:
            return start  # continues in the rows after: the second pass
        if gap < 0:
            return end
    return None


_FILE_DATE = re.compile(
    r"(?<!\d)(20\d\d)([-_.]?)([01]\d)\2([0-3]\d)(?:[-_.T]([0-2]\d)[-_.:h]?([0-5]\d)(?:[-_.:m]?([0-5]\d))?)?(?!\d)",
    re.ASCII,
)
_MULTI_DAY_OUTPUT = re.compile(r"sa|journalctl|dmesg")  # sar and sadf print recordings of the last days
_SCRIPT_HOST_FILE = "host.txt"  # the first file of the capture script, with `date` and `uptime`
MAX_EARLY_SECONDS, MAX_LATE_SECONDS = 600.0, 3600.0  # before and after a capture's times, for its commands
MAX_NAME_DELAY_SECONDS = 60.0  # a recorder names its file shortly before or after its first row


def add_dates(records: Sequence[Record], zone: Timezone | None) -> list[Record]:
    """Return the records; rows and uptimes on a clock without date get a date if it is known.

    Members whose times pass midnight between two recordings are left unchanged.
    """
    firsts: dict[str, float] = {}
    lasts: dict[str, float] = {}
    crossing: set[str] = set()
    times = list(map(_time_of_day, records))
    for record, seconds in zip(records, times, strict=True):
        if seconds is not None:
            member = member_of(record)
            if lasts.get(member, seconds) - seconds > DAY / 2:
                crossing.add(member)
            firsts.setdefault(member, seconds)
            lasts[member] = seconds
    if not firsts:
        return list(records)
    captures = _capture_spans(records, zone)
    dated = {member: seconds for member, seconds in firsts.items() if member not in crossing}
    midnights = {member: _midnight(member, seconds, captures) for member, seconds in dated.items()}
    return [
        record if seconds is None else _add_date(record, midnights.get(member_of(record)))
        for record, seconds in zip(records, times, strict=True)
    ]


def _time_of_day(record: Record) -> float | None:
    """Return the seconds of the day of a row or uptime whose clock has no date. Kernel messages are excluded: they may
    be of other days than their file."""
    if isinstance(record, Fact) and record.name != "uptime.seconds":
        return None
    moment = begin_of(record) if isinstance(record, Sample | Series | Fact) else None
    return moment.seconds if moment is not None and moment.clock is Clock.DAY else None


def _capture_spans(records: Iterable[Record], zone: Timezone | None) -> dict[str, tuple[float, float]]:
    """Return the first and last wall-clock time of each bundle, or of the capture script's first file."""
    times: dict[str, list[float]] = {}
    for fact in records:
        if not isinstance(fact, Fact) or fact.time is None:
            continue
        member = fact.cite.member
        if fact.name == "capture.time":
            key = root_of(member)
        elif fact.name == "uptime.seconds" and member.rpartition("/")[2] == _SCRIPT_HOST_FILE:
            key = member
        else:
            continue
        if fact.time.clock is Clock.LOCAL:
            times.setdefault(key, []).append(fact.time.seconds)
        elif zone and fact.time.clock is Clock.UTC:
            times.setdefault(key, []).append(zone.local(fact.time.seconds))
    return {key: (min(seconds), max(seconds)) for key, seconds in times.items()}


def _midnight(member: str, first: float, captures: dict[str, tuple[float, float]]) -> float | None:
    """Return midnight of the day from which a member's times of day count; `first` is the first of them."""
    if output := output_of(member):
        return None if _MULTI_DAY_OUTPUT.match(output) else _midnight_of_capture(first, captures.get(root_of(member)))
    folder, _, name = member.rpartition("/")
    if script_span := captures.get(f"{folder}/{_SCRIPT_HOST_FILE}".lstrip("/")):
        return _midnight_of_capture(first, script_span)
    dates = list(_FILE_DATE.finditer(name))
    if len(dates) != 1 or first >= DAY:
        return None
    year, _, month, day, hour, minute, second = dates[0].groups()
    try:
        midnight = datetime(int(year), int(month), int(day), tzinfo=UTC).timestamp()
    except ValueError:
        return None
    if hour is None:
        return midnight
    begin = int(hour) * 3600.0 + int(minute) * 60 + int(second or 0)
    return midnight + (DAY if first < begin - MAX_NAME_DELAY_SECONDS else 0.0)


def _midnight_of_capture(first: float, span: tuple[float, float] | None) -> float | None:
    """Return midnight of the only day on which a time of day lies in a capture."""
    if span is None or span[1] - span[0] > DAY / 4:
        return None
    start, end = span[0] - MAX_EARLY_SECONDS, span[1] + MAX_LATE_SECONDS
    midnight = start - (start % DAY)
    days = [midnight + DAY * day for day in (0, 1) if start <= midnight + DAY * day + first % DAY <= end]
    return days[0] - (first - first % DAY) if days else None


def _add_date(record: Record, midnight: float | None) -> Record:
    if midnight is None:
        return record
    if isinstance(record, Series):
        return replace(record, seconds=None if record.seconds is None else record.seconds + midnight, clock=Clock.LOCAL)
    if isinstance(record, Sample | Fact) and record.time:
        return replace(record, time=Moment(record.time.seconds + midnight, Clock.LOCAL))
    return record


WALL = (Clock.UTC, Clock.LOCAL)


@dataclass(frozen=True)
class HostClock:
    """The time zone of a host, the anchors of its boots, and the problems and notes of the conversion."""

    zone: Timezone | None = None
    anchors: tuple[ClockAnchor, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()

    def span(self, record: Record) -> tuple[Moment | None, Moment | None]:
        """Return when a record was read or began, and when its last part was; on the wall clock if possible."""
        begun, ended = begin_of(record), end_of(record)
        if not any(moment and moment.clock is Clock.BOOT for moment in (begun, ended)):
            return begun, ended
        if isinstance(record, Profile):
            anchors: Sequence[ClockAnchor] = anchors_of_profile(record, self.anchors)
        else:
            anchors = anchors_of_boot(self.anchors, record.cite)
        return _to_wall(begun, anchors) or begun, _to_wall(ended, anchors) or ended


def unify_clocks(records: Sequence[Record]) -> tuple[list[Record], HostClock]:
    """Return the records, on UTC where possible, and the clock of the host."""
    if all(map(_is_untimed, records)):
        return list(records), HostClock()
    zone, problems = host_timezone(records)
    if zone is None and not problems:
        zone = timezone_of_boots(boot_times(records)[0])
    dated = add_dates(records, zone)
    if zone:  # it must be valid for all wall-clock times, so that times on one clock stay comparable
        wall = [m.seconds for r in dated for m in (begin_of(r), end_of(r)) if m and m.clock is Clock.LOCAL]
        zone = zone if not wall or zone.uncertainty(min(wall), max(wall)) == 0 else None
    converted, steps = _convert_records(dated, zone)
    anchors, contradictions = boot_times(converted)
    notes: tuple[Note, ...] = ()
    moved = ((begin_of(r), begin_of(q)) for r, q in zip(records, converted, strict=True) if r is not q)
    if zone and any(before and after and round(before.seconds - after.seconds) % DAY for before, after in moved):
        notes = (Note(f"times of the host's wall clock are given in UTC; its zone is {quoted(zone.name)}", zone.cite),)
    clock = HostClock(zone, tuple(anchors), (*problems, *steps, *contradictions), notes)
    if anchors:
        converted = [_boot_time_to_wall(record, anchors) for record in converted]
    return converted, clock


def _is_untimed(record: Record) -> bool:
    if isinstance(record, Sample | Series) and "node_boot_time_seconds" not in record.values:
        return (record.time if isinstance(record, Sample) else record.seconds) is None
    return isinstance(record, Problem)


def _convert_records(records: Sequence[Record], zone: Timezone | None) -> tuple[list[Record], list[Problem]]:
    """Return the records in UTC; rows of one source together, as later ones determine the pass of a repeated hour."""
    converted: list[Record] = []
    groups: dict[tuple[object, ...], list[int]] = {}
    problems: list[Problem] = []
    for number, record in enumerate(records):
        if isinstance(record, Series):
            moved, steps = _convert_series(record, zone)
            problems += steps
            converted.append(moved)
        else:
            if isinstance(record, Sample) and record.time:
                key = (record.cite.member, record.reader, record.kind, record.entity, tuple(record.values))
                groups.setdefault((*key, record.time.clock), []).append(number)
            converted.append(record if isinstance(record, Sample) else _convert_single(record, zone))
    for numbers in groups.values():
        rows = [row for n in numbers if isinstance(row := records[n], Sample)]
        moved_rows, steps = _convert_rows(rows, zone)
        problems += steps
        for number, row in zip(numbers, moved_rows, strict=True):
            converted[number] = row
    return converted, list({(p.cite.member, p.cite.line): p for p in problems}.values())


def _convert_series(series: Series, zone: Timezone | None) -> tuple[Series, list[Problem]]:
    if series.seconds is None or series.clock is None or series.clock in COUNTED:
        return series, []
    times = convert_times(series.seconds, series.lines, series.clock, zone)
    problems = [_step_problem(series.citation(row), by, series.reader) for row, by in times.steps]
    if times.seconds is series.seconds and not times.within:
        return series, problems
    return replace(series, seconds=times.seconds, clock=times.clock, within=times.within), problems


def _convert_rows(rows: list[Sample], zone: Timezone | None) -> tuple[list[Sample], list[Problem]]:
    first = rows[0].time
    if first is None or first.clock in COUNTED:
        return rows, []
    if len(rows) == 1:
        return [replace(rows[0], time=_to_utc(first, zone))], []
    seconds = [row.time.seconds for row in rows if row.time]
    if first.clock is Clock.UTC and all(earlier <= later for earlier, later in pairwise(seconds)):
        return rows, []
    lines = np.array([row.cite.line or 0 for row in rows], np.int64)
    converted = convert_times(np.array(seconds), lines, first.clock, zone)
    problems = [_step_problem(rows[row].cite, by, rows[row].reader) for row, by in converted.steps]
    moments = [Moment(second, converted.clock, converted.within) for second in converted.seconds.tolist()]
    return [
        replace(row, time=replace(moment, pace=row.time.pace if row.time else None))
        for row, moment in zip(rows, moments, strict=True)
    ], problems


def _step_problem(cite: Citation, by: float, reader: str) -> Problem:
    text = f"the clock was set back by {by:.0f} s before this row; times above it may be wrong by as much"
    return Problem(cite, text, reader=reader)


def _convert_single(record: Record, zone: Timezone | None) -> Record:
    """Return a fact, event or profile with its time in UTC."""
    if isinstance(record, (Fact, Event)) and record.time and record.time.clock is Clock.LOCAL and zone:
        return replace(record, time=_to_utc(record.time, zone))
    if isinstance(record, Profile) and record.start and record.start.clock is Clock.LOCAL and zone:
        end = _to_utc(record.end, zone) if record.end else None
        return replace(record, start=_to_utc(record.start, zone), end=end)
    return record


def _to_utc(moment: Moment, zone: Timezone | None) -> Moment:
    """Return a single time in UTC; in a repeated hour its error is that hour."""
    if moment.clock is not Clock.LOCAL or zone is None:
        return moment
    first, second = zone.offsets(moment.seconds)
    within = abs(first - second) + zone.uncertainty(moment.seconds, moment.seconds)
    return replace(moment, seconds=moment.seconds - first, clock=Clock.UTC, within=moment.within + within)


def _boot_time_to_wall(record: Record, host_anchors: Sequence[ClockAnchor]) -> Record:
    """Return rows and messages with times since boot on the wall clock, if the boot is known."""
    if not isinstance(record, Sample | Series | Event | Fact):
        return record
    first = begin_of(record)
    if first is None or first.clock is not Clock.BOOT:
        return record
    anchors = anchors_of_boot(host_anchors, record.cite)
    placed = _to_wall(first, anchors)
    if placed is None:
        return record
    if not isinstance(record, Series):
        return replace(record, time=placed)
    if (seconds := record.seconds) is None:
        return record
    last = _to_wall(Moment(float(seconds[seconds == seconds].max()), Clock.BOOT), anchors)
    moved = seconds + (placed.seconds - first.seconds)
    return replace(record, seconds=moved, clock=placed.clock, within=last.within if last else 0.0)


def _to_wall(moment: Moment | None, anchors: Iterable[ClockAnchor]) -> Moment | None:
    """Return a time since boot on the wall clock, preferably by an anchor in UTC."""
    anchor = next((anchor for clock in WALL for anchor in anchors if anchor.zero.clock is clock), None)
    if anchor is None or moment is None or moment.clock is not Clock.BOOT:
        return None
    wall = anchor.wall_time(moment)
    return Moment(wall.seconds, wall.clock, anchor.uncertainty(moment))
