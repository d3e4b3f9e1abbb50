"""Cut a host's records into states: stretches in which the huge-page settings did not change.

A state ends where an operator wrote another value at a prompt, where a later reading of a setting differs in the
same member, where another bundle of the same host was recorded under other settings, or at a reboot that may have
brought what was read after it (`thpdiag.case.reboots`). Records that cannot be placed are a state of their own with
unknown settings, so that a profile from before a fix never meets the setting after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeGuard

from thpdiag.case.reboots import before_reboot
from thpdiag.case.roots import roots
from thpdiag.case.series_parts import at_lines, at_times
from thpdiag.derive.clock import HostClock
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Profile, Record, Sample, Series, State

UNPLACED = "unplaced"


@dataclass(frozen=True, slots=True)
class Span:
    """First and last second on a clock, right to `within`."""

    first: float
    last: float
    within: float

    def holds(self, moment: Moment) -> bool:
        """Whether the moment may be inside."""
        off = self.within + moment.within
        return self.first - off <= moment.seconds <= self.last + off


Spans = Mapping[Clock, Span | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting got a value at a line of a member."""

    cite: Citation
    setting: str
    value: str

    @property
    def line(self) -> int:
        return self.cite.line or 0


@dataclass(slots=True)
class Segment:
    """A stretch of one member (or one bundle root) between changes."""

    key: str
    settings: dict[str, str]
    order: int | None
    facts: list[Fact]
    records: list[Record]


def runtime_setting(name: str) -> bool:
    """Whether a fact is a setting that can change while the host runs."""
    return name.startswith("thp.") and not name.endswith((".accepts", ".hpage_pmd_size", ".directory", ".applicable"))


def _is_setting(record: Record) -> TypeGuard[Fact]:
    return isinstance(record, Fact) and runtime_setting(record.name)


def _is_measured(record: Record) -> TypeGuard[Fact]:
    """Whether a record says what the kernel itself shows of a setting of the whole host."""
    return _is_setting(record) and not record.labels and not record.provenance


def states(records: Sequence[Record], clock: HostClock | None = None) -> tuple[State, ...]:
    """The states of one host, in the order of their places."""
    clock = clock or HostClock()
    placed = [r for r in records if isinstance(r, (Sample, Series, Profile, Event)) or _is_setting(r)]
    placed += [r for r in records if isinstance(r, Fact) and r.name == "work.seconds"]
    changes = _changes(placed)
    segments = _by_line(placed, changes, clock) if changes else _by_root(placed, clock)
    cut = [part for segment in segments for part in _at_reboot(segment, clock)]
    return tuple(_state(s) for s in cut if s.records or s.facts) or (State("all", {}, 0),)


def effective(records: Iterable[Record]) -> list[Record]:
    """The records with writes marked `no-effect` that the next reading of the same setting contradicts."""
    result = list(records)
    for i, record in enumerate(result):
        if isinstance(record, Event) and record.kind == "setting_written" and record.fields.get("how") == "prompt":
            seen = _next_reading(result[i + 1 :], record)
            if seen is not None and str(seen.value) != _written(record):
                result[i] = replace(record, fields={**record.fields, "how": "no-effect"})
    return result


def _written(event: Event) -> str:
    return event.fields["value"]


def _next_reading(later: Iterable[Record], event: Event) -> Fact | None:
    for record in later:
        if isinstance(record, Event) and record.fields.get("setting") == event.fields["setting"]:
            return None
        if isinstance(record, (Sample, Series, Profile)):
            return None
        if (
            isinstance(record, Fact)
            and record.name == event.fields["setting"]
            and record.cite.member == event.cite.member
        ):
            return record
    return None


def _changes(records: Sequence[Record]) -> dict[str, list[Change]]:
    """Real changes by member, in line order: writes at a prompt, and readings that differ from the one before."""
    found: dict[str, list[Change]] = defaultdict(list)
    known: dict[tuple[str, str], str] = {}
    for record in sorted(records, key=lambda r: (r.cite.member, r.cite.line or 0)):
        change = _change(record)
        if change is None:
            continue
        key = (change.cite.member, change.setting)
        before, known[key] = known.get(key), change.value
        if before != change.value and (before is not None or isinstance(record, Event)):
            found[change.cite.member].append(change)
    return found


def _change(record: Record) -> Change | None:
    if isinstance(record, Event) and record.kind == "setting_written" and record.fields.get("how") == "prompt":
        setting = record.fields["setting"]
        return Change(record.cite, setting, _written(record)) if runtime_setting(setting) else None
    if _is_measured(record):
        return Change(record.cite, record.name, str(record.value))
    return None


def _by_line(records: Sequence[Record], changes: dict[str, list[Change]], clock: HostClock) -> list[Segment]:
    """Segments of the members that hold changes; what stands elsewhere is placed by time, else left unplaced."""
    segments: list[Segment] = []
    for member, cuts in changes.items():
        own = [r for r in records if r.cite.member == member]
        segments += _member_segments(member, own, cuts, ordered=len(changes) == 1, first=len(segments))
    unplaced = Segment(UNPLACED, {}, None, [], [])
    spans = [(segment, {of: _span(segment, of, clock) for of in Clock}) for segment in segments]
    for record in (part for r in records if r.cite.member not in changes for part in _parts(r, spans)):
        _put(record, _at_time(record, spans, clock) or unplaced)
    return [*segments, unplaced]


def _parts(record: Record, spans: Sequence[tuple[Segment, Spans]]) -> Sequence[Record]:
    """A recording in parts, for a row belongs to the state it was recorded in."""
    if not isinstance(record, Series) or record.seconds is None or record.clock is None:
        return [record]
    known = [span for _, times in spans if (span := times[record.clock])]
    return at_times(record, [(s.first - s.within - record.within, s.last + s.within + record.within) for s in known])


def _member_segments(
    member: str, records: Sequence[Record], cuts: Sequence[Change], *, ordered: bool, first: int
) -> list[Segment]:
    lines: list[int] = sorted({cut.line for cut in cuts})
    settings = dict(_before(records, lines[0]))
    segments = [Segment(f"{member}:1", dict(settings), first if ordered else None, [], [])]
    for number, line in enumerate(lines, start=1):
        here = [cut for cut in cuts if cut.line == line]
        settings |= {cut.setting: cut.value for cut in here}
        facts = [Fact(cut.setting, cut.value, cut.cite) for cut in here]
        segments.append(Segment(f"{member}:{line}", dict(settings), first + number if ordered else None, facts, []))
    parts = (part for r in records for part in (at_lines(r, lines) if isinstance(r, Series) else (r,)))
    for record in sorted(parts, key=lambda r: r.cite.line or 0):
        _put(record, segments[bisect_right(lines, record.cite.line or 0)])
    return segments


def _before(records: Sequence[Record], line: int) -> Iterable[tuple[str, str]]:
    """Settings read in a member before its first change."""
    for record in records:
        if _is_setting(record) and not record.labels and (record.cite.line or 0) < line:
            yield record.name, str(record.value)


def _put(record: Record, segment: Segment) -> None:
    if isinstance(record, Fact):
        segment.facts.append(record)
        if _is_measured(record):
            segment.settings[record.name] = str(record.value)
    else:
        segment.records.append(record)


def _at_time(record: Record, spans: Sequence[tuple[Segment, Spans]], clock: HostClock) -> Segment | None:
    """The segment whose own times hold the record's; None if they cannot be compared, or it may be of two."""
    begun, ended = clock.begun(record), clock.ended(record)
    if begun is None or ended is None:
        return None
    first, last = (
        [(segment, span) for segment, times in spans if (span := times[moment.clock]) and span.holds(moment)]
        for moment in (begun, ended)
    )
    if not first or (len(first) > 1 and (begun.within or any(span.within for _, span in first))):
        return None
    segment = first[0][0]
    return segment if not last or any(other is segment for other, _ in last) else None


def _by_root(records: Sequence[Record], clock: HostClock) -> list[Segment]:
    """One segment, or one per bundle root where two of the host's bundles were recorded under different settings."""
    place = _places(records)
    settings: dict[str, dict[str, str]] = defaultdict(dict)
    for fact in _readings(records):
        settings[place(fact.cite.member)].setdefault(fact.name, str(fact.value))
    if not _differ(list(settings.values())):
        segment = Segment("all", {}, 0, [], [])
        for record in records:
            _put(record, segment)
        return [segment]
    segments = {key: Segment(key or "input", dict(known), None, [], []) for key, known in settings.items()}
    unplaced = Segment(UNPLACED, {}, None, [], [])
    for record in records:
        _put(record, segments.get(place(record.cite.member), unplaced))
    return [*_in_time(list(segments.values()), clock), unplaced]


def _at_reboot(segment: Segment, clock: HostClock) -> Iterable[Segment]:
    """A segment in two, if its settings may hold only since the host was booted."""
    past = before_reboot(segment.facts, segment.records, clock)
    if past is None:
        return [segment]
    order = None if segment.order is None else 2 * segment.order
    earlier = Segment(f"{segment.key} before the boot", {}, order, [], past.before)
    for fact in past.kept:
        _put(fact, earlier)
    segment.order, segment.records = None if order is None else order + 1, past.after
    return [earlier, segment]


def _readings(records: Iterable[Record]) -> Iterable[Fact]:
    """Facts that say what a setting is."""
    return (record for record in records if _is_measured(record))


def _places(records: Sequence[Record]) -> Callable[[str], str]:
    """What a member belongs to: the bundle root above it, else its folder; itself where a folder's files disagree."""
    root = roots({r.cite.member for r in records})

    def folder(member: str) -> str:
        return root(member) or member.rpartition("/")[0]

    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in _readings(records):
        seen[(folder(fact.cite.member), fact.name)].add(str(fact.value))
    torn = {key for (key, _), values in seen.items() if len(values) > 1}
    return lambda member: member if folder(member) in torn else folder(member)


def _differ(settings: Sequence[dict[str, str]]) -> bool:
    return any(one.get(k) != other[k] for one in settings for other in settings for k in other if k in one)


def _in_time(segments: list[Segment], clock: HostClock) -> list[Segment]:
    """Segments with an order where all have times of one clock and these do not overlap."""
    for of in (Clock.UTC, Clock.LOCAL, Clock.BOOT):
        spans = [_span(segment, of, clock) for segment in segments]
        known = [(span, segment) for span, segment in zip(spans, segments, strict=True) if span]
        if len(known) < len(segments):
            continue
        known.sort(key=lambda item: (item[0].first, item[0].last))
        if any(one.last + one.within > other.first - other.within for (one, _), (other, _) in pairwise(known)):
            return segments
        for number, (_, segment) in enumerate(known):
            segment.order = number
        return [segment for _, segment in known]
    return segments


def _span(segment: Segment, of: Clock, clock: HostClock) -> Span | None:
    """First and last second of the segment's records on a clock."""
    times = [m for r in segment.records for m in (clock.begun(r), clock.ended(r)) if m and m.clock is of]
    if not times:
        return None
    seconds = [moment.seconds for moment in times]
    return Span(min(seconds), max(seconds), max(moment.within for moment in times))


def _state(segment: Segment) -> State:
    samples = tuple(r for r in segment.records if isinstance(r, (Sample, Series)))
    profiles = tuple(r for r in segment.records if isinstance(r, Profile))
    events = tuple(r for r in segment.records if isinstance(r, Event))
    return State(segment.key, segment.settings, segment.order, tuple(segment.facts), samples, profiles, events)
