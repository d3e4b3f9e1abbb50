"""One clock for all records of a host: what can be put on UTC is, with how far it may be wrong.

Wall clock times go by the host's zone (`timezone`), times of day without a date by the name of their file or the time
of the capture, times since boot by the time of the boot (`anchors`). What cannot be placed stays as it was read;
citations never change. Recordings of stacks keep the clock by which `perf script` prints their times: `HostClock` says
when that was, and reports name both.

Summer time: a wall clock shows one hour twice when it ends. In a source that goes on, a jump back by an hour less one
interval is the second pass of that hour; where the source begins inside it, only what follows tells which pass it was.
Without a zone the clock goes on as it was at the start, and may be wrong by that hour. A jump forward is missing data.
Any other jump back from one row to the next is a clock that was set: no rate is made of that interval, and what came
before was wrong by as much. Rows farther apart than usual in the text are of another recording.

Dates in names of files and of outputs:

    collectl-20261120.txt, top_2026-11-20_09-40-00.log     the day on which the file was begun
    sos_commands/process/top                               the output of a command: it ran while the capture was made
    top.txt beside host.txt                                likewise, of the capture script

A first row that is earlier in the day than the time in the name is of the next day. The date in the name of a folder
is that of the bundle, and rotated logs are named after the day on which they ended: neither says anything here.
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

COUNTED = (Clock.BOOT, Clock.SESSION)  # clocks that count seconds, which nobody sets
MIN_STEP_SECONDS = 1.0  # seconds that a clock must have been set back: rows of one round are not always in order
MAX_LINES_APART = 3  # lines between two rows of one recording, where it has a row in every line


class ConvertedTimes(NamedTuple):
    """Seconds on `clock`, right to `within`. `steps` are rows before which the clock was set back, and by how much."""

    seconds: Floats
    clock: Clock
    within: float = 0.0
    steps: Sequence[tuple[int, float]] = ()


def convert_times(seconds: Floats, lines: Ints, clock: Clock, zone: Timezone | None) -> ConvertedTimes:
    """The times of one source, in reading order; `lines` are those that they stand in. NaN stays NaN."""
    known = seconds == seconds
    if not known.all():
        part = convert_times(seconds[known], lines[known], clock, zone)
        whole = np.full(len(seconds), np.nan)
        whole[known] = part.seconds
        places = np.flatnonzero(known)
        return part._replace(seconds=whole, steps=[(int(places[row]), by) for row, by in part.steps])
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
    """Rows that are earlier than the one before, though both are of one recording, and by how much."""
    by = np.diff(seconds)
    if not len(by) or by.min() >= -MIN_STEP_SECONDS:
        return []
    apart = np.diff(lines)
    usual = max(_median(apart) * 1.5, MAX_LINES_APART)
    rows = np.flatnonzero((by < -MIN_STEP_SECONDS) & (by > -DAY / 2) & (apart > 0) & (apart <= usual))
    return [(int(row) + 1, -float(by[row])) for row in rows]


def _median(numbers: Array[Any]) -> float:
    """As `np.median`, which imports numpy.ma (10 ms) to look for masked arrays."""
    ordered, middle = numbers.copy(), len(numbers) // 2
    ordered.sort()
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _unfold_repeated_hour(seconds: Floats, lines: Ints) -> tuple[Floats, float]:
    """Times that go on where they jump back by an hour, and by how much they may be wrong for it."""
    jumps = _jumps_back(seconds, lines)
    if not jumps:
        return seconds, 0.0
    forward = np.diff(seconds)
    forward = forward[forward > 0]
    interval = _median(forward) if len(forward) else 0.0
    least, most = HOUR - 2 * interval - MIN_STEP_SECONDS, HOUR + MIN_STEP_SECONDS
    folds = [row for row, by in jumps if least <= by <= most]
    if not folds or interval > HOUR / 4:
        return seconds, 0.0
    passes = np.zeros(len(seconds))
    passes[folds] = HOUR
    return seconds + np.cumsum(passes), HOUR


def _offsets(local: Floats, zone: Timezone) -> tuple[Floats, Floats]:
    """Seconds ahead of UTC for the first and the second time that the wall clock showed each of these."""
    quarters, places = np.unique(np.floor_divide(local, QUARTER), return_inverse=True)
    both = np.array([zone.offsets(float(quarter) * QUARTER) for quarter in quarters])
    return both[places, 0], both[places, 1]


def local_times(utc: Floats, zone: Timezone) -> Floats:
    """What the wall clock of a zone shows at these times."""
    quarters, places = np.unique(np.floor_divide(utc, QUARTER), return_inverse=True)
    found: Floats = utc + np.array([zone.local(q * QUARTER) - q * QUARTER for q in quarters.tolist()])[places]
    return found


def _convert_by_rules(local: Floats, zone: Timezone) -> tuple[Floats, float]:
    """The times in UTC, and by how much they may be wrong."""
    first, second = _offsets(local, zone)
    twice = first > second
    if not twice.any():
        off = float(abs(first - second).max())  # a time that the clock left out: it was another clock
        return local - first, off
    edges = np.flatnonzero(np.diff(twice.astype(np.int8), prepend=0, append=0))
    offset, off = first.copy(), 0.0
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        shift = float((first - second)[start])
        again = _second_pass(local, start, end, shift)
        if again is None:
            off = max(off, shift)
        else:
            offset[again:end] = second[again:end]
    return local - offset, off


def _second_pass(local: Floats, start: int, end: int, shift: float) -> int | None:
    """From which row on an hour that is shown twice is shown again; None if that cannot be told."""
    back = next((row for row in range(start + 1, end) if local[row] < local[row - 1] - MIN_STEP_SECONDS), None)
    if back is not None:
        return back
    if start > 0 and 0 <= local[start] - local[start - 1] < shift / 2:
        return end  # it goes on from before: the first pass
    if end < len(local):
        gap = local[end] - local[end - 1]
        if 0 <= gap < shift / 2:
            return start  # and goes on behind it: the second
        if gap < 0:
            return end
    return None


_FILE_DATE = re.compile(
    r"(?<!\d)(20\d\d)([-_.]?)([01]\d)\2([0-3]\d)(?:[-_.T]([0-2]\d)[-_.:h]?([0-5]\d)(?:[-_.:m]?([0-5]\d))?)?(?!\d)",
    re.ASCII,
)
_OF_OTHER_DAYS = re.compile(r"sa|journalctl|dmesg")  # sar and sadf print recordings of the last days
_OF_SCRIPT = "host.txt"  # in which the capture script begins, with `date` and `uptime`
_EARLY, _LATE = 600.0, 3600.0  # seconds before and after the times of a capture in which its commands may have run
_EARLIER = 60.0  # seconds: a recorder makes the name of its file before or after its first row


def add_dates(records: Sequence[Record], zone: Timezone | None) -> list[Record]:
    """The records; rows and uptimes on the clock of a day get a date where it is known.

    Not in members whose times go over midnight from one recording to the next.
    """
    firsts: dict[str, float] = {}
    lasts: dict[str, float] = {}
    torn: set[str] = set()
    times = list(map(_time_of_day, records))
    for record, at in zip(records, times, strict=True):
        if at is not None:
            member = member_of(record)
            if lasts.get(member, at) - at > DAY / 2:
                torn.add(member)
            firsts.setdefault(member, at)
            lasts[member] = at
    if not firsts:
        return list(records)
    captures = _capture_spans(records, zone)
    midnights = {member: _midnight(member, at, captures) for member, at in firsts.items() if member not in torn}
    return [
        record if at is None else _add_date(record, midnights.get(member_of(record)))
        for record, at in zip(records, times, strict=True)
    ]


def _time_of_day(record: Record) -> float | None:
    """When a row, or an uptime, was read, if its clock has no date. Kernel messages tell of other days than their
    file's.
    """
    if isinstance(record, Fact) and record.name != "uptime.seconds":
        return None
    at = begin_of(record) if isinstance(record, Sample | Series | Fact) else None
    return at.seconds if at is not None and at.clock is Clock.DAY else None


def _capture_spans(records: Iterable[Record], zone: Timezone | None) -> dict[str, tuple[float, float]]:
    """From when to when each bundle was made, by the host's wall clock; of the capture script by its first file."""
    times: dict[str, list[float]] = {}
    for fact in records:
        if not isinstance(fact, Fact) or fact.time is None:
            continue
        member = fact.cite.member
        if fact.name == "capture.time":
            place = root_of(member)
        elif fact.name == "uptime.seconds" and member.rpartition("/")[2] == _OF_SCRIPT:
            place = member
        else:
            continue
        if fact.time.clock is Clock.LOCAL:
            times.setdefault(place, []).append(fact.time.seconds)
        elif zone and fact.time.clock is Clock.UTC:
            times.setdefault(place, []).append(zone.local(fact.time.seconds))
    return {place: (min(seconds), max(seconds)) for place, seconds in times.items()}


def _midnight(member: str, first: float, captures: dict[str, tuple[float, float]]) -> float | None:
    """Midnight of the day that the times of a member count from; `first` is the first of them."""
    if output := output_of(member):
        return None if _OF_OTHER_DAYS.match(output) else _midnight_of_capture(first, captures.get(root_of(member)))
    folder, _, name = member.rpartition("/")
    if of_script := captures.get(f"{folder}/{_OF_SCRIPT}".lstrip("/")):
        return _midnight_of_capture(first, of_script)
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
    begun = int(hour) * 3600.0 + int(minute) * 60 + int(second or 0)
    return midnight + (DAY if first < begun - _EARLIER else 0.0)


def _midnight_of_capture(first: float, span: tuple[float, float] | None) -> float | None:
    """Midnight of the one day on which a time of day lies in a capture."""
    if span is None or span[1] - span[0] > DAY / 4:
        return None
    start, end = span[0] - _EARLY, span[1] + _LATE
    midnight = start - (start % DAY)
    found = [midnight + DAY * day for day in (0, 1) if start <= midnight + DAY * day + first % DAY <= end]
    return found[0] - (first - first % DAY) if found else None


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
    """What is known of a host's clocks. `anchors` are the times of its boots."""

    zone: Timezone | None = None
    anchors: tuple[ClockAnchor, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()

    def span(self, record: Record) -> tuple[Moment | None, Moment | None]:
        """When a record was read or began, and when its last part was; on the wall clock if that is known."""
        begun, ended = begin_of(record), end_of(record)
        if not any(moment and moment.clock is Clock.BOOT for moment in (begun, ended)):
            return begun, ended
        if isinstance(record, Profile):
            found = anchors_of_profile(record, self.anchors)
        else:
            found = list(anchors_of_boot(self.anchors, record.cite))
        return _to_wall(begun, found) or begun, _to_wall(ended, found) or ended


def unify_clocks(records: Sequence[Record]) -> tuple[list[Record], HostClock]:
    """The records, each on UTC where its time is known, and what is known of the host's clocks."""
    if all(map(_tells_no_time, records)):
        return list(records), HostClock()
    zone, problems = host_timezone(records)
    if zone is None and not problems:
        zone = timezone_of_boots(boot_times(records)[0])
    dated = add_dates(records, zone)
    if zone:  # it must be known for all times of the wall clock: what is on one clock must stay on one
        wall = [m.seconds for r in dated for m in (begin_of(r), end_of(r)) if m and m.clock is Clock.LOCAL]
        zone = zone if not wall or zone.uncertainty(min(wall), max(wall)) == 0 else None
    placed, steps = _convert_records(dated, zone)
    anchors, contradictions = boot_times(placed)
    notes: tuple[Note, ...] = ()
    moved = ((begin_of(r), begin_of(q)) for r, q in zip(records, placed, strict=True) if r is not q)
    if zone and any(one and other and round(one.seconds - other.seconds) % DAY for one, other in moved):
        notes = (Note(f"times of the host's wall clock are given in UTC; its zone is {quoted(zone.name)}", zone.cite),)
    clock = HostClock(zone, tuple(anchors), (*problems, *steps, *contradictions), notes)
    if anchors:
        placed = [_boot_time_to_wall(record, anchors) for record in placed]
    return placed, clock


def _tells_no_time(record: Record) -> bool:
    if isinstance(record, Sample | Series) and "node_boot_time_seconds" not in record.values:
        return (record.time if isinstance(record, Sample) else record.seconds) is None
    return isinstance(record, Problem)


def _convert_records(records: Sequence[Record], zone: Timezone | None) -> tuple[list[Record], list[Problem]]:
    """Wall clocks put on UTC, rows of one source together: what comes after the other tells the hour shown twice."""
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
    found = convert_times(series.seconds, series.lines, series.clock, zone)
    problems = [_step(series.citation(row), by, series.reader) for row, by in found.steps]
    if found.seconds is series.seconds and not found.within:
        return series, problems
    return replace(series, seconds=found.seconds, clock=found.clock, within=found.within), problems


def _convert_rows(rows: list[Sample], zone: Timezone | None) -> tuple[list[Sample], list[Problem]]:
    first = rows[0].time
    if first is None or first.clock in COUNTED:
        return rows, []
    if len(rows) == 1:
        return [replace(rows[0], time=_to_utc(first, zone))], []
    times = [row.time.seconds for row in rows if row.time]
    if first.clock is Clock.UTC and all(one <= other for one, other in pairwise(times)):
        return rows, []
    lines = np.array([row.cite.line or 0 for row in rows], np.int64)
    found = convert_times(np.array(times), lines, first.clock, zone)
    problems = [_step(rows[row].cite, by, rows[row].reader) for row, by in found.steps]
    moments = [Moment(seconds, found.clock, found.within) for seconds in found.seconds.tolist()]
    return [
        replace(row, time=replace(moment, pace=row.time.pace if row.time else None))
        for row, moment in zip(rows, moments, strict=True)
    ], problems


def _step(cite: Citation, by: float, reader: str) -> Problem:
    text = f"the clock was set back by {by:.0f} s before this row; times above it may be wrong by as much"
    return Problem(cite, text, reader=reader)


def _convert_single(record: Record, zone: Timezone | None) -> Record:
    """What has a time of its own."""
    if isinstance(record, (Fact, Event)) and record.time and record.time.clock is Clock.LOCAL and zone:
        return replace(record, time=_to_utc(record.time, zone))
    if isinstance(record, Profile) and record.start and record.start.clock is Clock.LOCAL and zone:
        end = _to_utc(record.end, zone) if record.end else None
        return replace(record, start=_to_utc(record.start, zone), end=end)
    return record


def _to_utc(moment: Moment, zone: Timezone | None) -> Moment:
    """A single time on UTC, right to the hour that it may belong to where it is shown twice."""
    if moment.clock is not Clock.LOCAL or zone is None:
        return moment
    first, second = zone.offsets(moment.seconds)
    within = abs(first - second) + zone.uncertainty(moment.seconds, moment.seconds)
    return replace(moment, seconds=moment.seconds - first, clock=Clock.UTC, within=moment.within + within)


def _boot_time_to_wall(record: Record, known: Sequence[ClockAnchor]) -> Record:
    """Rows and messages with times since boot, on the wall clock if the boot is known."""
    if not isinstance(record, Sample | Series | Event | Fact):
        return record
    first = begin_of(record)
    if first is None or first.clock is not Clock.BOOT:
        return record
    meant = anchors_of_boot(known, record.cite)
    placed = _to_wall(first, meant)
    if placed is None:
        return record
    if not isinstance(record, Series):
        return replace(record, time=placed)
    if (seconds := record.seconds) is None:
        return record
    last = _to_wall(Moment(float(seconds[seconds == seconds].max()), Clock.BOOT), meant)
    moved = seconds + (placed.seconds - first.seconds)
    return replace(record, seconds=moved, clock=placed.clock, within=last.within if last else 0.0)


def _to_wall(moment: Moment | None, known: Iterable[ClockAnchor]) -> Moment | None:
    """A time since boot on the wall clock, by an anchor to UTC rather than to a clock without zone."""
    anchor = next((anchor for clock in WALL for anchor in known if anchor.zero.clock is clock), None)
    if anchor is None or moment is None or moment.clock is not Clock.BOOT:
        return None
    wall = anchor.wall_time(moment)
    return Moment(wall.seconds, wall.clock, anchor.uncertainty(moment))
