"""Cases: one per host of the input, with its records on one clock, cut into states, and with derived facts.

A state is a stretch in which the huge-page settings did not change. It ends where an operator wrote another value at a
prompt, where a later reading of a setting differs in the same member, where another bundle of the same host was
recorded under other settings, or at a reboot that may have brought what was read after it. Records that cannot be
placed are a state of their own with unknown settings, so that a profile from before a fix is never combined with the
setting after it. A recording of many rows is cut where the states of its host change; each part lies in one of them.

Reboots: a bundle describes the host since its last boot; its recordings (sar of a month) may be older. `never` that is
read after the boot may be the fix, together with the reboot that brought it: what was recorded before is a state of its
own, in which that setting is unknown. A setting that allows huge pages is assumed to have held before as well, so that
a boot outside of the input raises no confidence. Counters restart at a boot; that is a gap (`thpdiag.host.rates`).

Impossible values are those that no kernel reports: parts that are larger than their whole, sizes that are no power of
two. A damaged digit yields another number, and nothing in its line shows that. A value that contradicts arithmetic is
left out with a Problem, so that rules which need it are unknown. Counters of one snapshot are not read at one moment,
and each CPU caches some of its pages, so a little more than the whole is no damage. Nor do two files of one capture
differ in a setting: if they do, neither value is used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, TypeGuard

from thpdiag.detect.labels import path_settings
from thpdiag.host.captures import collector_notes, drop_repeated_messages, growth_notes, order_by_capture
from thpdiag.host.clock.anchors import boot_facts, reboots
from thpdiag.host.clock.uptime import uptime_facts
from thpdiag.host.clock.wall_clock import HostClock, unify_clocks
from thpdiag.host.derived import add_derived_facts
from thpdiag.host.hosts import HostRecords, group_by_host, root_finder
from thpdiag.host.options import Options, check_process, records_in_window, unplaced_recordings
from thpdiag.host.reading import ParsedInput
from thpdiag.host.series import select_marked
from thpdiag.host.settings import profile_switches
from thpdiag.host.text_order import LINE_ORDER, TextOrder, text_order
from thpdiag.knowledge.paths import root_of
from thpdiag.model import (
    Case,
    Citation,
    Clock,
    Event,
    Fact,
    Moment,
    Note,
    Problem,
    ProblemKind,
    Profile,
    Record,
    Sample,
    Series,
    State,
)
from thpdiag.model.case import member_of
from thpdiag.model.numeric import Ints, np
from thpdiag.model.text import path_name

MEM_TOTAL = "node_memory_MemTotal_bytes"
RESIDENT = "process_resident_memory_bytes"
MAX_EXCESS_SHARE, MAX_EXCESS_BYTES = 0.02, 64.0 * 2**20
MIN_PAGE_BYTES = 4096.0
MIN_HUGE_PAGE_BYTES, MAX_HUGE_PAGE_BYTES = 2.0**16, 2.0**34  # of all architectures, PMD-sized or not
_POWER_OF_TWO_BOUNDS = {
    "thp.hpage_pmd_size": (MIN_HUGE_PAGE_BYTES, MAX_HUGE_PAGE_BYTES),
    "kernel.page_size": (MIN_PAGE_BYTES, MIN_HUGE_PAGE_BYTES),
}
# Accepted by the kernel: the tables of mm/*.c and kernel/sysctl.c, tested on 6.18; the widest range of all versions.
_SETTING_BOUNDS = {
    "sysctl.vm.swappiness": (0, 200),
    "sysctl.vm.compaction_proactiveness": (0, 100),
    "sysctl.vm.extfrag_threshold": (0, 1000),
    "sysctl.vm.dirty_ratio": (0, 100),
    "sysctl.vm.dirty_background_ratio": (0, 100),
    "sysctl.vm.watermark_scale_factor": (1, 3000),
    "sysctl.vm.watermark_boost_factor": (0, 2**31 - 1),
    "sysctl.vm.min_free_kbytes": (0, 2**31 - 1),
    "sysctl.vm.zone_reclaim_mode": (0, 2**31 - 1),
    "sysctl.vm.overcommit_memory": (0, 2),
    "sysctl.vm.defrag_mode": (0, 1),
}
_PARTS = {
    "MemTotal": (
        "MemFree", "MemAvailable", "Buffers", "Cached", "Active", "Inactive", "Unevictable", "AnonPages", "Mapped",
        "Shmem", "Slab", "KernelStack", "PageTables", "AnonHugePages", "ShmemHugePages", "FileHugePages",
    ),
    "Slab": ("SReclaimable", "SUnreclaim"),
    "Active": ("Active_anon", "Active_file"),
    "Inactive": ("Inactive_anon", "Inactive_file"),
    "SwapTotal": ("SwapFree", "SwapUsed"),
}  # fmt: skip
_METRIC_PARTS = {
    f"node_memory_{whole}_bytes": tuple(f"node_memory_{part}_bytes" for part in parts)
    for whole, parts in _PARTS.items()
} | {"node_memory_HugePages_Total": ("node_memory_HugePages_Free", "node_memory_HugePages_Rsvd")}


def remove_impossible_values(records: Iterable[Record]) -> tuple[list[Record], list[Problem]]:
    """Return the records without impossible values, and a problem for each of those."""
    records = list(records)
    totals = [r.values[MEM_TOTAL] for r in records if isinstance(r, Sample) and MEM_TOTAL in r.values]
    memory, problems = max(totals, default=0.0), list[Problem]()
    kept: list[Record] = []
    for record in records:
        if isinstance(record, Fact):
            if reason := _size_error(record) or _setting_error(record):
                problems.append(_problem(record.cite, reason))
                continue
        elif isinstance(record, Sample):
            names = dict(_impossible_values(record.values, memory))
            problems += (_problem(record.cite, reason) for reason in dict.fromkeys(names.values()))
            if names:
                rest = {name: value for name, value in record.values.items() if name not in names}
                record = replace(record, values=rest)
        kept.append(record)
    for facts in _contradictory_settings(kept):
        problems += (_contradiction(fact, facts) for fact in facts)
        contradictory = set(map(id, facts))
        kept = [record for record in kept if id(record) not in contradictory]
    return kept, problems


def _contradictory_settings(records: Iterable[Record]) -> Iterator[list[Fact]]:
    """Yield values of a sysctl setting that differ between two files of one capture at the same time."""
    settings: dict[tuple[object, ...], list[Fact]] = defaultdict(list)
    for record in records:
        if isinstance(record, Fact) and record.name.startswith("sysctl.") and not record.provenance:
            settings[root_of(record.cite.member), record.name, record.labels, record.time].append(record)
    for (root, *_), facts in settings.items():
        values, members = {fact.value for fact in facts}, {fact.cite.member for fact in facts}
        differing = {(fact.cite.member, fact.value) for fact in facts}
        if root and len(values) > 1 and len(members) == len(differing):  # two values in one file are a change
            yield facts


def _contradiction(fact: Fact, facts: Sequence[Fact]) -> Problem:
    other = next(f for f in facts if f.value != fact.value)
    setting, place = fact.name.removeprefix("sysctl."), path_name(other.cite.member)
    text = f"{setting} is {fact.value} here and {other.value} in {place}; neither value is used"
    return Problem(fact.cite, text, ProblemKind.DISAGREEMENT)


def _problem(cite: Citation, reason: str) -> Problem:
    return Problem(cite, reason, hides=True)


def _size_error(fact: Fact) -> str:
    bounds = _POWER_OF_TWO_BOUNDS.get(fact.name)
    if bounds is None or isinstance(fact.value, str):
        return ""
    size = int(fact.value)
    is_valid = bounds[0] <= size <= bounds[1] and size & (size - 1) == 0
    return "" if is_valid else f"{size} bytes is not a page size; it is not used"


def _setting_error(fact: Fact) -> str:
    """Return an error for an effective value out of bounds; the kernel may reject a configured one."""
    bounds = _SETTING_BOUNDS.get(fact.name)
    if bounds is None or fact.provenance or not isinstance(fact.value, int):
        return ""
    low, high = bounds
    if low <= fact.value <= high:
        return ""
    setting = fact.name.removeprefix("sysctl.")
    return f"{setting} cannot be {fact.value}: the kernel accepts {low} to {high}; the value is not used"


def _impossible_values(values: Mapping[str, float], memory: float) -> Iterator[tuple[str, str]]:
    """Yield names of impossible values, each with the reason."""
    for whole, parts in _METRIC_PARTS.items():
        if (size := values.get(whole)) is None:
            continue
        limit = size * (1 + MAX_EXCESS_SHARE) + (MAX_EXCESS_BYTES if whole == MEM_TOTAL else 0.0)
        for part in parts:
            if values.get(part, 0.0) > limit:
                reason = f"{_kernel_name(part)} is more than {_kernel_name(whole)}, which includes it; neither is used"
                yield part, reason
                yield whole, reason
    if memory and values.get(RESIDENT, 0.0) > memory * (1 + MAX_EXCESS_SHARE) + MAX_EXCESS_BYTES:
        yield RESIDENT, "the resident memory of a process is more than all memory; it is not used"


def _kernel_name(metric: str) -> str:
    return metric.removeprefix("node_memory_").removesuffix("_bytes")


FORBIDDING_SETTINGS = frozenset({("thp.enabled", "never"), ("thp.defrag", "never")})
COMPACTION_SETTINGS = frozenset({"sysctl.vm.compaction_proactiveness", "sysctl.vm.extfrag_threshold"})
UNPLACED = "unplaced"
SHARED_CLOCKS: tuple[Clock, ...] = (Clock.UTC, Clock.LOCAL, Clock.DAY, Clock.BOOT)  # clocks that members may share


class Span(NamedTuple):
    """The first and last second on a clock, with the error `within`."""

    first: float
    last: float
    within: float

    def holds(self, moment: Moment) -> bool:
        """Whether the moment may be inside the span."""
        error = self.within + moment.within
        return self.first - error <= moment.seconds <= self.last + error


@dataclass(slots=True)
class Segment:
    """A stretch of one member (or one bundle root) between changes."""

    key: str
    settings: dict[str, str] = field(default_factory=dict)
    order: int | None = None
    labels: dict[str, str] = field(default_factory=dict)  # settings that a heading or a file name states
    facts: list[Fact] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        if not isinstance(record, Fact):
            self.records.append(record)
            return
        if record.name not in COMPACTION_SETTINGS:  # these belong to the whole case
            self.facts.append(record)
        if _is_measured(record):
            self.settings[_setting_name(record)] = str(record.value)


def _setting_name(fact: Fact) -> str:
    """Return the name of a fact's setting; for a huge-page size with its directory, as it is written."""
    size = fact.label("size")
    return f"thp.hugepages-{size}.{fact.name.rpartition('.')[2]}" if size else fact.name


def _cuts_state(name: str) -> bool:
    """Whether a written setting starts a new state: those of huge pages and of compaction."""
    return is_runtime_setting(name) or name in COMPACTION_SETTINGS


def is_runtime_setting(name: str) -> bool:
    """Whether a fact is a setting that can change while the host runs."""
    return name.startswith("thp.") and not name.endswith((".accepts", ".hpage_pmd_size", ".directory", ".applicable"))


def _is_measured(record: Record) -> TypeGuard[Fact]:
    """Whether a record is a reading from the kernel of a setting of the whole host."""
    if not isinstance(record, Fact) or record.provenance or {key for key, _ in record.labels} - {"size"}:
        return False
    return _cuts_state(record.name)


def _is_written(record: Record) -> TypeGuard[Event]:
    """Whether a record is a write of a setting at a prompt."""
    return isinstance(record, Event) and record.kind == "setting_written" and record.fields.get("how") == "prompt"


def _is_unclear(record: Record) -> TypeGuard[Event]:
    """Whether a record is a write after which the value for the following lines is unknown."""
    return isinstance(record, Event) and record.kind == "setting_written" and record.fields.get("how") == "unclear"


def _is_label(record: Record) -> TypeGuard[Event]:
    """Whether a heading names a setting."""
    return isinstance(record, Event) and record.kind == "setting_label"


def cut_states(
    records: Sequence[Record], clock: HostClock | None = None, order: TextOrder = LINE_ORDER
) -> tuple[State, ...]:
    """Return the states of one host, in the order of their segments."""
    clock = clock or HostClock()
    placed: list[Record] = [
        r
        for r in records
        if isinstance(r, Sample | Series | Profile | Event) or (isinstance(r, Fact) and _cuts_state(r.name))
    ]
    placed += [r for r in records if isinstance(r, Fact) and r.name.startswith("work.")]
    changes = _setting_changes(placed, order)
    segments = _segments_by_line(placed, changes, clock, order) if changes else _segments_by_root(placed, clock)
    states = [
        State(
            part.key,
            part.settings,
            part.order,
            tuple(part.facts),
            tuple(r for r in part.records if isinstance(r, Sample | Series)),
            tuple(r for r in part.records if isinstance(r, Profile)),
            tuple(r for r in part.records if isinstance(r, Event)),
            {name: value for name, value in part.labels.items() if name not in part.settings},
        )
        for segment in segments
        for part in _split_at_reboot(segment, clock)
        if part.records or part.facts
    ]
    return tuple(states) or (State("all", {}, 0),)


def mark_ineffective_writes(records: Iterable[Record]) -> list[Record]:
    """The records with writes marked `no-effect` that the next reading of the same setting contradicts."""
    result = list(records)
    for number, record in enumerate(result):
        if _is_written(record):
            reading = _next_reading(result[number + 1 :], record)
            if reading is not None and str(reading.value) != record.fields["value"]:
                result[number] = replace(record, fields={**record.fields, "how": "no-effect"})
    return result


def _next_reading(later: Iterable[Record], event: Event) -> Fact | None:
    setting = event.fields["setting"]
    for record in later:
        if isinstance(record, Sample | Series | Profile):
            return None
        if isinstance(record, Event) and record.fields.get("setting") == setting:
            return None
        if isinstance(record, Fact) and record.name == setting and record.cite.member == event.cite.member:
            return record
    return None


def _setting_changes(records: Sequence[Record], order: TextOrder) -> dict[str, list[Fact]]:
    """Return the setting changes of each member in text order, as facts with the new value (empty if unknown): writes
    at a prompt, and readings that differ from the previous one."""
    changes: dict[str, list[Fact]] = defaultdict(list)
    known: dict[tuple[str, str], str] = {}
    relevant = [
        r
        for r in records
        if _is_measured(r) or _is_label(r) or ((_is_written(r) or _is_unclear(r)) and _cuts_state(r.fields["setting"]))
    ]
    for record in sorted(relevant, key=lambda r: (r.cite.member, order.place(r.cite))):
        if isinstance(record, Event):
            value = "" if _is_unclear(record) else record.fields["value"]
            change = Fact(record.fields["setting"], value, record.cite, provenance="label" * _is_label(record))
        else:
            change = Fact(_setting_name(record), str(record.value), record.cite)
        key = (change.cite.member, change.name)
        previous, known[key] = known.get(key), str(change.value)
        if previous != change.value and (previous is not None or isinstance(record, Event)):
            changes[change.cite.member].append(change)
    return changes


def _segments_by_line(
    records: Sequence[Record], changes: Mapping[str, Sequence[Fact]], clock: HostClock, order: TextOrder
) -> list[Segment]:
    """Return the segments of members with changes, and the records of other members placed by time or left unplaced."""
    segments: list[Segment] = []
    for member, cuts in changes.items():
        in_member = [r for r in records if member_of(r) == member]
        segments += _member_segments(member, in_member, cuts, len(segments) if len(changes) == 1 else None, order)
    unplaced = Segment(UNPLACED)
    spans = [(segment, {c: _span(segment, c, clock) for c in SHARED_CLOCKS}) for segment in segments]
    for record in (r for r in records if member_of(r) not in changes):
        parts: Sequence[Record] = [record]
        if isinstance(record, Series) and record.seconds is not None and record.clock is not None:
            # each row belongs to the state in which it was recorded
            known = [(span, span.within + record.within) for _, times in spans if (span := times.get(record.clock))]
            parts = split_at_times(record, [(span.first - error, span.last + error) for span, error in known])
        for part in parts:
            (_segment_at_time(part, spans, clock) or unplaced).add(part)
    return [*segments, unplaced]


def _member_segments(
    member: str, records: Sequence[Record], cuts: Sequence[Fact], first: int | None, order: TextOrder
) -> list[Segment]:
    """Return the segments of a member between its changes; `first` is the order number of the first one."""
    places = sorted({order.place(cut.cite) for cut in cuts})
    before = [r for r in records if _is_measured(r) and order.place(r.cite) < places[0]]
    settings = {_setting_name(record): str(record.value) for record in before}
    readings = {_setting_name(record): record for record in before}  # the last reading or write of each setting
    segments = [Segment(f"{member}:1", dict(settings), first)]
    labels: dict[str, str] = {}
    for number, place in enumerate(places, start=1):
        for cut in (cut for cut in cuts if order.place(cut.cite) == place):
            stated, replaced = (labels, settings) if cut.provenance else (settings, labels)
            stated[cut.name] = str(cut.value)
            replaced.pop(cut.name, None)
            readings[cut.name] = cut
        known = {name: value for name, value in settings.items() if value}
        sources = [readings[name] for name in known if name in readings]
        number_in_time = None if first is None else first + number
        segments.append(Segment(f"{member}:{place[1]}", known, number_in_time, dict(labels), sources))
    parts = (
        part
        for r in records
        for part in (_split_by_code(r, order.numbers(member, r.lines, places)) if isinstance(r, Series) else (r,))
    )
    for record in sorted(parts, key=lambda r: order.place(r.cite)):
        segments[bisect_right(places, order.place(record.cite))].add(record)
    return segments


def split_at_times(series: Series, spans: Iterable[tuple[float, float]]) -> list[Series]:
    """Return the rows of a series grouped by the spans (first and last second) that contain them."""
    code = np.zeros(len(series), np.int64)
    for first, last in spans:
        if series.seconds is not None:
            inside = (series.seconds >= first) & (series.seconds <= last)
            code = np.unique(code * 2 + inside, return_inverse=True)[1]  # one small number per set of spans
    return _split_by_code(series, code)


def _split_by_code(series: Series, code: Ints) -> list[Series]:
    return [select_marked(series, code == value) for value in np.unique(code)]


def _segment_at_time(
    record: Record, spans: Sequence[tuple[Segment, Mapping[Clock, Span | None]]], clock: HostClock
) -> Segment | None:
    """Return the segment with the times of the record; None if that cannot be decided."""
    begin, end = clock.span(record)
    if begin is None or end is None:
        return None
    first, last = (
        [(segment, span) for segment, times in spans if (span := times.get(moment.clock)) and span.holds(moment)]
        for moment in (begin, end)
    )
    if not first or (len(first) > 1 and (begin.within or any(span.within for _, span in first))):
        return None
    segment = first[0][0]
    return segment if not last or any(other is segment for other, _ in last) else None


def _segments_by_root(records: Sequence[Record], clock: HostClock) -> list[Segment]:
    """Return one segment, or one per bundle root or label if their settings differ."""
    measured = [record for record in records if _is_measured(record)]
    labels = path_settings(set(map(member_of, records)))
    segments: dict[str, Segment] = {}
    unplaced = Segment(UNPLACED)
    if labels or len({fact.cite.member for fact in measured}) > 1:
        place = _bundle_finder(records, measured, {member: key for member, (key, _) in labels.items()})
        for fact in measured:
            key = place(fact.cite.member)
            segments.setdefault(key, Segment(key or "input")).settings.setdefault(_setting_name(fact), str(fact.value))
        for member, (_, settings) in labels.items():
            segments.setdefault(place(member), Segment(place(member))).labels |= settings
    known = [segment.labels | segment.settings for segment in segments.values()]
    if not any(a[name] != value for a in known for b in known for name, value in b.items() if name in a):
        segment = Segment("all", order=0)
        for record in records:
            segment.add(record)
        return [segment]
    for record in records:
        segments.get(place(member_of(record)), unplaced).add(record)
    return [*_order_by_time(list(segments.values()), clock), unplaced]


def _bundle_finder(
    records: Sequence[Record], measured: Sequence[Fact], labels: Mapping[str, str]
) -> Callable[[str], str]:
    """Return a function from member to label, bundle root or folder; to itself if the files there disagree."""
    root = root_finder(set(map(member_of, records)))

    def folder(member: str) -> str:
        return labels.get(member) or root(member) or member.rpartition("/")[0]

    values_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in measured:
        values_of[folder(fact.cite.member), _setting_name(fact)].add(str(fact.value))
    inconsistent = {key for (key, _), values in values_of.items() if len(values) > 1}
    return lambda member: member if folder(member) in inconsistent else folder(member)


def _order_by_time(segments: list[Segment], clock: HostClock) -> list[Segment]:
    """Return the segments, ordered and numbered if all have times of one clock that do not overlap."""
    for time_base in (Clock.UTC, Clock.LOCAL, Clock.BOOT):
        spans = [_span(segment, time_base, clock) for segment in segments]
        known = [(span, segment) for span, segment in zip(spans, segments, strict=True) if span]
        if len(known) < len(segments):
            continue
        known.sort(key=lambda item: (item[0].first, item[0].last))
        if any(a.last + a.within > b.first - b.within for (a, _), (b, _) in pairwise(known)):
            return segments
        for number, (_, segment) in enumerate(known):
            segment.order = number
        return [segment for _, segment in known]
    return segments


def _span(segment: Segment, time_base: Clock, clock: HostClock) -> Span | None:
    """Return the first and last second of the segment's records on a clock."""
    times = [moment for r in segment.records for moment in clock.span(r) if moment and moment.clock is time_base]
    if not times:
        return None
    seconds = [moment.seconds for moment in times]
    return Span(min(seconds), max(seconds), max(moment.within for moment in times))


def _split_at_reboot(segment: Segment, clock: HostClock) -> Sequence[Segment]:
    """Return a segment, split if its settings may hold only since the last boot; records in doubt are after it."""
    if not segment.facts or not clock.anchors:
        return [segment]
    roots = {root_of(fact.cite.member) for fact in segment.facts}
    boots = reboots(anchor for anchor in clock.anchors if root_of(anchor.cite.member) in roots)
    if not boots:
        return [segment]
    forbidding = [f for f in segment.facts if (f.name, str(f.value)) in FORBIDDING_SETTINGS]
    unknown = {id(fact) for fact in forbidding if not _is_before(fact.time, boots[-1])}
    if not unknown:
        return [segment]
    before, after = Segment(f"{segment.key} before the boot"), list[Record]()
    for record in segment.records:
        early, late = _split_record(record, boots[-1], clock)
        before.records += early
        after += late
    if not before.records:
        return [segment]
    for fact in segment.facts:
        if id(fact) not in unknown:
            before.add(fact)
    if segment.order is not None:
        before.order, segment.order = 2 * segment.order, 2 * segment.order + 1
    segment.records = after
    return [before, segment]


def _split_record(record: Record, boot: Moment, clock: HostClock) -> tuple[list[Record], list[Record]]:
    """Return a record split into the rows before the boot and those after; rows in doubt are after it."""
    if isinstance(record, Series) and record.seconds is not None and record.clock is boot.clock:
        early = record.seconds < boot.seconds - boot.within - record.within
        if early.any() and not early.all():
            return [record.only(early)], [record.only(~early)]
    return ([record], []) if _is_before(clock.span(record)[1], boot) else ([], [record])


def _is_before(moment: Moment | None, boot: Moment) -> bool:
    if moment is None or moment.clock is not boot.clock:
        return False
    return moment.seconds + moment.within < boot.seconds - boot.within


def host_cases(parsed: ParsedInput, options: Options) -> list[Case]:
    """Return one case per host, cut into states, with derived facts."""
    groups = group_by_host(parsed.readings)
    hosts = groups.hosts or [HostRecords("", "")]
    if options.process:
        check_process((record for host in hosts for record in host.records), options.process)
    if options.case and len(hosts) > 1:
        options = replace(options, case="")  # the name is for a single host
    return [add_derived_facts(_host_case(host, parsed, groups.notes, options)) for host in hosts]


def _host_case(host: HostRecords, parsed: ParsedInput, notes: Sequence[Note], options: Options) -> Case:
    records, clock = unify_clocks(host.records)
    records, impossible = remove_impossible_values(drop_repeated_messages(order_by_capture(records)))
    notes = (*notes, *collector_notes(host.records), *clock.notes, *growth_notes(records))
    problems = (*impossible, *clock.problems)
    if options.window or options.process:
        window = options.window.on_host_clock(clock.zone) if options.window else None
        problems = (*problems, *unplaced_recordings(records, window, clock.anchors))
        records = records_in_window(records, window, options.process, clock.anchors)
    facts = [
        r for r in records if isinstance(r, Fact) and not is_runtime_setting(r.name) and not r.name.startswith("work.")
    ]
    order = text_order(parsed.parts, [r.cite for r in records if _is_measured(r) or _is_written(r)])
    records = mark_ineffective_writes(order.sort([*records, *profile_switches(records)]))
    uptimes, doubts = uptime_facts(facts, clock.anchors, host.records, clock.zone)
    members = set(map(member_of, host.records))
    readable = frozenset(parsed.readings)

    def concerns_host(member: str) -> bool:
        return member in members or not parsed.readings.get(member)

    hiding = [p.cite.member for p in (*parsed.problems, *impossible) if p.hides_data]
    hidden = {member if parsed.readings.get(member) else "*" for member in hiding}
    tainted = frozenset(p.cite.member for p in parsed.problems if p.taints)
    tainted = tainted if tainted <= readable else readable
    return Case(
        name=options.case or host.host or host.root or "host",
        facts=(*order_by_capture([*facts, *uptimes]), *boot_facts(clock.anchors)),
        states=cut_states(records, clock, order),
        events=tuple(r for r in records if isinstance(r, Event) and r.fields.get("setting") and not _is_label(r)),
        problems=(*(p for p in parsed.problems if concerns_host(p.cite.member)), *problems, *doubts),
        inputs=tuple(row for row in parsed.inputs if concerns_host(row.member)),
        notes=notes,
        hidden=tainted | hidden,
        tainted=tainted,
        process=options.process,
        host=host.host or host.root,
        anchors=clock.anchors,
    )
