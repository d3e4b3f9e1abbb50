"""One clock for all that is known of a host: what can be put on UTC is, with how far it may be wrong.

The wall clock by the host's zone (`host_zone`), clock times without a date by the name of their file or the time of the
capture (`dates`), times since boot by the time of the boot (`boot_clock`). What cannot be placed stays as it was read;
citations are never changed. Recordings of stacks keep the clock by which `perf script` prints their times: `HostClock`
says when that was, and reports name both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from thpdiag.derive.boot_clock import Join, boot_times, joins, joins_of, of_one_boot, reboots
from thpdiag.derive.dates import with_dates
from thpdiag.derive.host_zone import DAY, Zone, host_zone, of_boots
from thpdiag.derive.wall_times import walked
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Note, Problem, Profile, Record, Sample, Series
from thpdiag.model.record import begun, ended

WALL = (Clock.UTC, Clock.LOCAL)


@dataclass(frozen=True, slots=True)
class HostClock:
    """What is known of a host's clocks. `facts` are the times of its boots (boot.time)."""

    zone: Zone | None = None
    facts: tuple[Fact, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def joins(self) -> list[Join]:
        return joins(self.facts)

    @property
    def boots(self) -> list[Moment]:
        """The boots of the host on the wall clock, in time."""
        return reboots(self.joins)

    def begun(self, record: Record) -> Moment | None:
        """When a record was read or began, on the wall clock if that is known."""
        return self._placed(record, begun(record))

    def ended(self, record: Record) -> Moment | None:
        """When its last part was recorded."""
        return self._placed(record, ended(record))

    def _placed(self, record: Record, moment: Moment | None) -> Moment | None:
        if moment is None or moment.clock is not Clock.BOOT:
            return moment
        known = self.joins
        found = joins_of(record, known) if isinstance(record, Profile) else of_one_boot(known, record.cite)
        return _of_boot(moment, found) or moment


def on_one_clock(records: Sequence[Record]) -> tuple[list[Record], HostClock]:
    """The records, each on UTC where its time is known, and what is known of the host's clocks."""
    zone, problems = host_zone(records)
    if zone is None and not problems:
        zone = of_boots((join.zero, join.within, join.cite) for join in joins(boot_times(records)[0]))
    dated = with_dates(records, zone)
    zone = zone if zone and _sure(dated, zone) else None
    placed, steps = _on_utc(dated, zone)
    facts, contradictions = boot_times(placed)
    clock = HostClock(zone, tuple(facts), (*problems, *steps, *contradictions), tuple(_notes(records, placed, zone)))
    known = clock.joins
    return [_since_boot(record, known) for record in placed], clock


def _sure(records: Iterable[Record], zone: Zone) -> bool:
    """Whether the zone is known for all times of the wall clock: what is on one clock must stay on one."""
    times = [m.seconds for r in records for m in (begun(r), ended(r)) if m and m.clock is Clock.LOCAL]
    return not times or zone.within(min(times), max(times)) == 0


def _notes(records: Sequence[Record], placed: Sequence[Record], zone: Zone | None) -> Iterator[Note]:
    """That times were moved, for those who look for them in the files."""
    pairs = (
        (begun(before), begun(after)) for before, after in zip(records, placed, strict=True) if before is not after
    )
    if zone and any(one and other and round(one.seconds - other.seconds) % DAY for one, other in pairs):
        yield Note(f"times of the host's wall clock are given in UTC; its zone is {zone.name}", zone.cite)


def _on_utc(records: Sequence[Record], zone: Zone | None) -> tuple[list[Record], list[Problem]]:
    """Wall clocks put on UTC, rows of one source together: what comes after the other tells the hour shown twice."""
    found: list[Record] = []
    groups: dict[tuple[object, ...], list[int]] = {}
    problems: list[Problem] = []
    for number, record in enumerate(records):
        if isinstance(record, Series):
            moved, told = _columns(record, zone)
            problems += told
            found.append(moved)
        else:
            if isinstance(record, Sample) and record.time:
                key = (record.cite.member, record.reader, record.kind, record.entity, tuple(record.values))
                groups.setdefault((*key, record.time.clock), []).append(number)
            found.append(record if isinstance(record, Sample) else _single(record, zone))
    for numbers in groups.values():
        rows = [row for n in numbers if isinstance(row := records[n], Sample)]
        moved_rows, told = _rows(rows, zone)
        problems += told
        for number, row in zip(numbers, moved_rows, strict=True):
            found[number] = row
    return found, list({(p.cite.member, p.cite.line): p for p in problems}.values())


def _columns(series: Series, zone: Zone | None) -> tuple[Series, list[Problem]]:
    if series.seconds is None or series.clock is None or series.clock is Clock.BOOT:
        return series, []
    found = walked(series.seconds, series.lines, series.clock, zone)
    problems = [_step(series.citation(row), by, series.reader) for row, by in found.steps]
    if found.seconds is series.seconds and not found.within:
        return series, problems
    return replace(series, seconds=found.seconds, clock=found.clock, within=found.within), problems


def _rows(rows: list[Sample], zone: Zone | None) -> tuple[list[Sample], list[Problem]]:
    first = rows[0].time
    if first is None or first.clock is Clock.BOOT:
        return rows, []
    if len(rows) == 1:
        return [replace(rows[0], time=_utc(first, zone))], []
    times = [row.time.seconds for row in rows if row.time]
    if first.clock is Clock.UTC and all(one <= other for one, other in pairwise(times)):
        return rows, []
    import numpy as np

    lines = np.array([row.cite.line or 0 for row in rows], np.int64)
    found = walked(np.array(times), lines, first.clock, zone)
    problems = [_step(rows[row].cite, by, rows[row].reader) for row, by in found.steps]
    moments = [Moment(seconds, found.clock, found.within) for seconds in found.seconds.tolist()]
    return [replace(row, time=moment) for row, moment in zip(rows, moments, strict=True)], problems


def _step(cite: Citation, by: float, reader: str) -> Problem:
    text = f"the clock was set back by {by:.0f} s before this row; times above it may be wrong by as much"
    return Problem(cite, text, reader=reader)


def _single(record: Record, zone: Zone | None) -> Record:
    """What has a time of its own."""
    if isinstance(record, (Fact, Event)) and record.time and record.time.clock is Clock.LOCAL and zone:
        return replace(record, time=_utc(record.time, zone))
    if isinstance(record, Profile) and record.start and record.start.clock is Clock.LOCAL and zone:
        end = _utc(record.end, zone) if record.end else None
        return replace(record, start=_utc(record.start, zone), end=end)
    return record


def _utc(moment: Moment, zone: Zone | None) -> Moment:
    """A single time on UTC, right to the hour that it may belong to where it is shown twice."""
    if moment.clock is not Clock.LOCAL or zone is None:
        return moment
    first, second = zone.offsets(moment.seconds)
    within = abs(first - second) + zone.within(moment.seconds, moment.seconds)
    return Moment(moment.seconds - first, Clock.UTC, moment.within + within)


def _since_boot(record: Record, known: Sequence[Join]) -> Record:
    """Rows and messages with times since boot, on the wall clock if the boot is known."""
    first = begun(record) if isinstance(record, (Sample, Series, Event, Fact)) else None
    if first is None or first.clock is not Clock.BOOT:
        return record
    meant = of_one_boot(known, record.cite)
    placed = _of_boot(first, meant)
    if placed is None:
        return record
    if isinstance(record, Series):
        return _columns_since_boot(record, placed.seconds - first.seconds, meant, placed.clock)
    return replace(record, time=placed) if isinstance(record, (Sample, Event, Fact)) else record


def _columns_since_boot(series: Series, zero: float, meant: Sequence[Join], clock: Clock) -> Series:
    seconds = series.seconds
    if seconds is None:
        return series
    last = _of_boot(Moment(float(seconds[seconds == seconds].max()), Clock.BOOT), meant)
    return replace(series, seconds=seconds + zero, clock=clock, within=last.within if last else 0.0)


def _of_boot(moment: Moment, known: Iterable[Join]) -> Moment | None:
    """A time since boot on the wall clock, by a join to UTC rather than to a clock without zone."""
    options = [join for clock in WALL for join in known if join.zero.clock is clock]
    if not options:
        return None
    wall = options[0].wall(moment)
    return Moment(wall.seconds, wall.clock, options[0].off(moment))
