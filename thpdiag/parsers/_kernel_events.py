"""Durations from kernel events: compaction, direct reclaim, collapse by khugepaged, by task and purpose.

A duration is the time from the begin event to the end event in the same task. If a cut, lost events or a second begin
event leave an event without its partner, the duration is unknown; it is never counted as zero.

Purpose of a compaction: `mm_compaction_try_to_compact_pages` precedes direct compaction only, and has the order and the
flags of the request. Requests for huge pages of programs have the flags GFP_TRANSHUGE; printed as a number, they have
the bits of GFP_HIGHUSER_MOVABLE, __GFP_NOWARN, __GFP_COMP and __GFP_NOMEMALLOC together, which no other request has
(since 5.1). A task that compacts in mode sync without that event executes vm.compact_memory. kcompactd, khugepaged and
kswapd work in the background.
Source: include/trace/events/compaction.h, huge_memory.h, vmscan.h, kmem.h; mm/compaction.c, mm/khugepaged.c.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from thpdiag.model import Clock, Fact, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers._lines import printable

COMPACTION, RECLAIM, COLLAPSE = "compaction", "direct_reclaim", "collapse"
HUGE_PAGE, OTHER, UNKNOWN, BACKGROUND, COMMAND = "huge_page", "other", "unknown", "background", "command"
PURPOSES: Mapping[str, tuple[str, ...]] = {
    COMPACTION: (HUGE_PAGE, OTHER, UNKNOWN, BACKGROUND, COMMAND),
    RECLAIM: (HUGE_PAGE, OTHER, UNKNOWN, BACKGROUND),
    COLLAPSE: (BACKGROUND, COMMAND),
}
PAIRS = {  # event -> (kind, whether it is the begin event)
    "mm_compaction_begin": (COMPACTION, True),
    "mm_compaction_end": (COMPACTION, False),
    "mm_vmscan_direct_reclaim_begin": (RECLAIM, True),
    "mm_vmscan_direct_reclaim_end": (RECLAIM, False),
    "mm_collapse_huge_page_isolate": (COLLAPSE, True),
    "mm_collapse_huge_page": (COLLAPSE, False),
}
REQUEST = "mm_compaction_try_to_compact_pages"
FRAGMENTING = "mm_page_alloc_extfrag"
EVENTS = (*PAIRS, REQUEST, FRAGMENTING)
# Events that the kernel also counts in /proc/vmstat. A window 2 % shorter than one with 14,864 compact_stall and 4,958
# allocstall had 14,515 and 4,841 of the first two events (6.18). mm_compaction_begin occurs once per zone, and also for
# kcompactd.
COUNTERS: Mapping[str, str] = {
    REQUEST: "node_vmstat_compact_stall",
    "mm_vmscan_direct_reclaim_begin": "node_allocstall_total",
    "try_to_compact_pages": "node_vmstat_compact_stall",
}
MAX_DISTRIBUTIONS = 20  # callers, by name and purpose, whose distribution of durations is reported
MAX_ROWS = 300  # rows of the series of one recording
MIN_ROW_SECONDS = 1.0
LOST_REQUEST_SECONDS = 0.05  # the request of a run this early may precede the beginning of the recording
STALE_REQUEST_SECONDS = 0.01  # a run this long after a request, or after its last run, does not belong to it
MIN_THP_ORDER = 9
KERNEL_THREAD = re.compile(r"(?:kcompactd|kswapd)\d+$|khugepaged$|kcompac$|khugepa$")  # function_graph prints 7 letters
_ORDER = re.compile(r"\border[=:] ?(-?\d{1,3})\b")
_FLAGS = re.compile(r"\bgfp_(?:mask|flags)[=:] ?(\S{1,400})")
_NUMERIC_FLAGS = re.compile(r"(?:0x(?P<hex>[0-9a-f]{1,16})|(?P<decimal>\d{1,19}))\)?,?$")
# GFP_TRANSHUGE since 5.1: HIGHMEM, MOVABLE, NOWARN, COMP, NOMEMALLOC (include/linux/gfp_types.h).
_THP_BITS = 1 << 1 | 1 << 3 | 1 << 13 | 1 << 18 | 1 << 19
_SYNC = re.compile(r"\bmode=sync\b|\bsync: 1\b")
_SUCCEEDED = re.compile(r"\bstatus[=:] ?(?:succeeded|1)\b")
_FRAGMENTING_FIELD = re.compile(r"\bfragmenting[=:] ?(\d{1,9})\b")


class KernelEvent(NamedTuple):
    """One line of a trace. `rest` holds the fields of the event as printed."""

    seconds: float
    comm: str
    pid: str
    name: str
    rest: str
    line: int
    text: str


class _OpenRun(NamedTuple):
    """A compaction, reclaim or collapse that has begun and not ended."""

    seconds: float
    purpose: str


class _Duration(NamedTuple):
    begin: float
    seconds: float
    line: int
    text: str


@dataclass(slots=True)
class _Request:
    """A request of a task for direct compaction; `last_seen` is its time, or the end of the last run that served it."""

    purpose: str
    last_seen: float


@dataclass(slots=True)
class Durations:
    """Collects durations from events in order.

    `first` and `last` are the times of the first and last line of any event; `lost` is the number of lost events, as
    far as the tracer reports it.
    """

    source: Source
    reader: str
    clock: Clock = Clock.BOOT
    first: float | None = None
    last: float | None = None
    lost: int = 0
    lost_line: tuple[int, str] | None = None
    unpaired: int = 0
    _open: dict[tuple[str, str], _OpenRun] = field(default_factory=dict)  # by task and kind
    _requests: dict[str, _Request] = field(default_factory=dict)  # by task
    _names: dict[str, str] = field(default_factory=dict)  # by task
    _durations: dict[tuple[str, str, str], list[_Duration]] = field(default_factory=lambda: defaultdict(list))
    _event_names: set[str] = field(default_factory=set)
    _fragmenting: list[tuple[float, int, str]] = field(default_factory=list)
    _first_event: tuple[int, str] | None = None  # its line

    def see(self, seconds: float) -> None:
        """Note the time of a line, of any event."""
        self.first = seconds if self.first is None else min(self.first, seconds)
        self.last = seconds if self.last is None else max(self.last, seconds)

    def lose(self, count: int, line: int, text: str) -> None:
        """Note that the tracer lost events here; the ends of open runs may be among them."""
        self.lost += count
        self.lost_line = self.lost_line or (line, text)
        self.forget()

    def forget(self) -> None:
        """Drop all open runs and requests, because their ends are unknown."""
        self.unpaired += len(self._open)
        self._open.clear()
        self._requests.clear()

    def take(self, event: KernelEvent) -> None:
        self.see(event.seconds)
        self._event_names.add(event.name)
        self._first_event = self._first_event or (event.line, event.text)
        if event.comm and not event.comm.startswith("<"):
            self._names[event.pid] = event.comm
        if event.name == REQUEST:
            self._requests[event.pid] = _Request(_purpose_of_request(event.rest), event.seconds)
        elif event.name == FRAGMENTING:
            match = _FRAGMENTING_FIELD.search(event.rest)
            if match and int(match[1]):
                self._fragmenting.append((event.seconds, event.line, event.text))
        elif (kind := PAIRS[event.name])[1]:
            self._begin(kind[0], event)
        else:
            self._end(kind[0], event)

    def _begin(self, kind: str, event: KernelEvent) -> None:
        if kind == COLLAPSE and not _SUCCEEDED.search(event.rest):
            return  # the collapse failed before it copied anything
        key = (event.pid, kind)
        self.unpaired += key in self._open
        self._open[key] = _OpenRun(event.seconds, self._purpose(kind, event))

    def _end(self, kind: str, event: KernelEvent) -> None:
        run = self._open.pop((event.pid, kind), None)
        if run is None:
            self.unpaired += kind != COLLAPSE  # a collapse that fails early has no begin event
            return
        seconds = event.seconds - run.seconds
        if seconds < 0:
            self.unpaired += 1
            return
        if (request := self._requests.get(event.pid)) and kind == COMPACTION:
            request.last_seen = event.seconds
        self._durations[kind, run.purpose, event.pid].append(_Duration(run.seconds, seconds, event.line, event.text))

    def done(self, kind: str, event: KernelEvent, seconds: float, order: int | None) -> None:
        """Add a duration that a tool measured; `event` is its end, `order` that of the requested block (-1: none)."""
        names = {name for name, (pair_kind, _) in PAIRS.items() if pair_kind == kind}
        self._event_names |= {*names, REQUEST} if order is not None else names
        self._first_event = self._first_event or (event.line, event.text)
        self._names[event.pid] = event.comm
        if KERNEL_THREAD.match(event.comm):
            purpose = BACKGROUND
        elif order is None or order > 3:  # above the kernel's costly order the block is for a cache or a huge page
            purpose = UNKNOWN
        else:
            purpose = COMMAND if order < 0 else OTHER
        begin = event.seconds - seconds
        self._durations[kind, purpose, event.pid].append(_Duration(begin, seconds, event.line, event.text))

    def _purpose(self, kind: str, event: KernelEvent) -> str:
        if KERNEL_THREAD.match(event.comm):
            return BACKGROUND
        if kind == COLLAPSE:
            return COMMAND  # madvise(MADV_COLLAPSE)
        if kind == RECLAIM:
            return _purpose_of_request(event.rest)
        request = self._requests.get(event.pid)
        is_sync = _SYNC.search(event.rest) is not None
        if request and not (is_sync and event.seconds - request.last_seen > STALE_REQUEST_SECONDS):
            return request.purpose
        is_early = self.first is None or event.seconds - self.first < LOST_REQUEST_SECONDS
        return COMMAND if is_sync and REQUEST in self._event_names and not is_early else UNKNOWN

    def records(self) -> Iterator[Record]:
        """Yield problems, the distributions of durations, and samples of cumulative seconds by kind and purpose."""
        yield from self._problems()
        yield from self._distributions()
        if self.first is not None and self.last is not None and len(edges := _edges(self.first, self.last)) > 1:
            yield from self._samples(edges)

    def _samples(self, edges: list[float]) -> Iterator[Record]:
        """Yield one sample per edge.

        A sum of zero is reported only if the events were recorded: both events of a pair, and requests for compaction.
        """
        columns: dict[str, list[tuple[float, _Duration | None]]] = {}
        for kind, purposes in PURPOSES.items():
            if not {name for name, (pair_kind, _) in PAIRS.items() if pair_kind == kind} <= self._event_names:
                continue
            for purpose in purposes:
                durations = [d for (k, p, _), ds in self._durations.items() if (k, p) == (kind, purpose) for d in ds]
                is_recorded = REQUEST in self._event_names or kind != COMPACTION or purpose == BACKGROUND
                if durations or (is_recorded and purpose != UNKNOWN):
                    columns[f"node_{kind}_seconds_total.{purpose}"] = _sums(edges, durations)
        if FRAGMENTING in self._event_names:
            columns["node_extfrag_events_total"] = _counts(edges, self._fragmenting)
        line, text = self._first_event or (0, "")
        for index, edge in enumerate(edges):
            cells = [column[index] for column in columns.values()]
            latest = max((d for _, d in cells if d), key=lambda d: d.begin, default=None)
            line, text = (latest.line, latest.text) if latest else (line, text)
            values = {name: value for name, (value, _) in zip(columns, cells, strict=True)}
            if values:
                yield Sample("system", values, self.source.cite(line, text), self.reader, (), Moment(edge, self.clock))

    def _distributions(self) -> Iterator[Fact]:
        """Yield the distribution of durations of each caller, the largest sum first."""
        callers: dict[tuple[str, str, str], list[_Duration]] = defaultdict(list)
        tasks: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for (kind, purpose, pid), durations in self._durations.items():
            caller = (kind, purpose, self._names.get(pid, "<...>"))
            callers[caller] += durations
            tasks[caller].add(pid)
        ranked = sorted(callers, key=lambda caller: (-sum(d.seconds for d in callers[caller]), caller))
        for caller in ranked[:MAX_DISTRIBUTIONS]:
            kind, purpose, comm = caller
            by_length = sorted(callers[caller], key=lambda d: d.seconds)
            counts = (("times", str(len(by_length))), ("tasks", str(len(tasks[caller]))))
            longest, labels = by_length[-1], (("comm", comm), ("purpose", purpose), *counts)
            ranks = (("median", 0.5), ("99 % within", 0.99), ("longest", 1.0))
            figures = ", ".join(
                f"{word} {format_seconds(_nearest_rank(by_length, share).seconds)}" for word, share in ranks
            )
            text = f"{self._share(by_length)}{figures}"
            cite = self.source.cite(longest.line, longest.text)
            moment = None if self.first is None else Moment(longest.begin, self.clock)
            yield Fact(f"{kind}.spread", text, cite, labels, moment)
            if kind == COMPACTION:
                yield Fact("compaction.longest", round(longest.seconds, 9), cite, labels, moment)

    def _share(self, durations: list[_Duration]) -> str:
        """Describe the share of the recording's time, or return "" if that time is unknown."""
        total = 0.0 if self.first is None or self.last is None else self.last - self.first
        return f"{100 * sum(d.seconds for d in durations) / total:.3g} % of the time; " if total else ""

    def _problems(self) -> Iterator[Problem]:
        if self.lost_line and self._event_names:
            count = f"{self.lost:,}" if self.lost else "an unknown number of"
            text = f"the tracer lost {count} events: times that they would begin or end are not known"
            yield Problem(self.source.cite(*self.lost_line), text, ProblemKind.DAMAGED, self.reader)
        if self._first_event and (left := self.unpaired + len(self._open)):
            text = "events whose beginning or end is not in the recording: how long that took is not known"
            yield Problem(self.source.cite(*self._first_event), text, ProblemKind.ODD, self.reader, left)


def _purpose_of_request(rest: str) -> str:
    """Return the purpose of a requested block, from the flags and the order of the request."""
    flags, order = _FLAGS.search(rest), _ORDER.search(rest)
    if flags is None or order is None:
        return UNKNOWN
    if "GFP_TRANSHUGE" in flags[1]:
        return HUGE_PAGE
    number = _NUMERIC_FLAGS.match(flags[1])
    if number is None:
        return OTHER
    mask = int(number["hex"], 16) if number["hex"] else int(number["decimal"])
    if mask & _THP_BITS == _THP_BITS:
        return HUGE_PAGE
    return OTHER if int(order[1]) < MIN_THP_ORDER else UNKNOWN  # before 5.1 the flags have other bits


def _nearest_rank(by_length: list[_Duration], share: float) -> _Duration:
    return by_length[max(0, ceil(share * len(by_length)) - 1)]


def format_seconds(seconds: float) -> str:
    """Format a duration with three digits, which is more than the clock of a busy host resolves."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _edges(first: float, last: float) -> list[float]:
    """Return times from the first to the last, at least `MIN_ROW_SECONDS` apart."""
    step = max(MIN_ROW_SECONDS, (last - first) / MAX_ROWS)
    count = int((last - first) / step)
    edges = [first + step * index for index in range(count + 1)]
    if count and last - edges[-1] <= step / 2:
        edges[-1] = last
    elif last > first:
        edges.append(last)
    return edges


def _sums(edges: list[float], durations: Iterable[_Duration]) -> list[tuple[float, _Duration | None]]:
    """Return the seconds up to each edge and the duration that began last before it.

    A duration that spans an edge is divided at the edge.
    """
    waiting = sorted(durations, key=lambda d: d.begin)
    sums: list[tuple[float, _Duration | None]] = []
    total, index, latest = 0.0, 0, None
    running: list[_Duration] = []
    for edge in edges:
        while index < len(waiting) and waiting[index].begin < edge:
            latest = waiting[index]
            running.append(latest)
            index += 1
        total += sum(d.seconds for d in running if d.begin + d.seconds <= edge)
        running = [d for d in running if d.begin + d.seconds > edge]
        sums.append((round(total + sum(edge - d.begin for d in running), 9), latest))
    return sums


def _counts(edges: list[float], events: list[tuple[float, int, str]]) -> list[tuple[float, _Duration | None]]:
    """Return the number of events up to each edge, and the last of them."""
    marks = [_Duration(seconds, 0.0, line, text) for seconds, line, text in sorted(events)]
    counts: list[tuple[float, _Duration | None]] = []
    count = 0
    for edge in edges:
        while count < len(marks) and marks[count].begin <= edge:
            count += 1
        counts.append((float(count), marks[count - 1] if count else None))
    return counts


def comm_of(text: str) -> str:
    """Return a task name without blanks at its ends and without unprintable characters."""
    return printable(text.strip())
