"""Times from events of the kernel: of compaction, of direct reclaim, of a collapse by khugepaged, by task and purpose.

A time is from the event that begins it to the one that ends it in the same task. What a cut, lost events or a second
beginning leave without its other end is not known, and never counted as nothing.

Who compacts, and what for: `mm_compaction_try_to_compact_pages` comes before direct compaction only and has the order
and the flags of the request. Flags of huge pages of programs have a name of their own (GFP_TRANSHUGE); printed as a
number they have the bits of GFP_HIGHUSER_MOVABLE, __GFP_NOWARN, __GFP_COMP and __GFP_NOMEMALLOC together, as no other
request has (since 5.1). A task that compacts in mode sync without that event obeys vm.compact_memory. kcompactd,
khugepaged and kswapd work in the background.
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
PAIRS = {
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
# What the kernel counts in /proc/vmstat as well. Beside 14,864 compact_stall and 4,958 allocstall there were 14,515 and
# 4,841 of the first two in a window that was 2 % shorter (6.18). mm_compaction_begin is of each zone, and of kcompactd
# too.
COUNTERS: Mapping[str, str] = {
    REQUEST: "node_vmstat_compact_stall",
    "mm_vmscan_direct_reclaim_begin": "node_allocstall_total",
    "try_to_compact_pages": "node_vmstat_compact_stall",
}
MAX_DISTRIBUTIONS = 20  # callers, by name and purpose, of which the spread of durations is given
MAX_ROWS = 300  # of a recording
MIN_ROW_SECONDS = 1.0
LOST_REQUEST_SECONDS = 0.05  # a request so short after the beginning of the recording may stand before it
STALE_REQUEST_SECONDS = 0.01  # from a request, or the end of its last run, to a run that cannot be of it any more
MIN_THP_ORDER = 9
KERNEL_THREAD = re.compile(r"(?:kcompactd|kswapd)\d+$|khugepaged$|kcompac$|khugepa$")  # of function_graph seven signs
_ORDER = re.compile(r"\border[=:] ?(-?\d{1,3})\b")
_FLAGS = re.compile(r"\bgfp_(?:mask|flags)[=:] ?(\S{1,400})")
_NUMERIC = re.compile(r"(?:0x(?P<hex>[0-9a-f]{1,16})|(?P<decimal>\d{1,19}))\)?,?$")
# GFP_TRANSHUGE since 5.1: HIGHMEM, MOVABLE, NOWARN, COMP, NOMEMALLOC (include/linux/gfp_types.h).
_THP_BITS = 1 << 1 | 1 << 3 | 1 << 13 | 1 << 18 | 1 << 19
_SYNC = re.compile(r"\bmode=sync\b|\bsync: 1\b")
_SUCCEEDED = re.compile(r"\bstatus[=:] ?(?:succeeded|1)\b")
_WHOLE_NUMBER = re.compile(r"\bfragmenting[=:] ?(\d{1,9})\b")


class KernelEvent(NamedTuple):
    """One line of a trace. `rest` are the fields of the event as printed."""

    seconds: float
    comm: str
    pid: str
    name: str
    rest: str
    line: int
    text: str


@dataclass(slots=True)
class _Open:
    """What began and has not ended."""

    seconds: float
    purpose: str


class _Duration(NamedTuple):
    begin: float
    seconds: float
    line: int
    text: str


@dataclass(slots=True)
class _Request:
    """A request for direct compaction of a task; `last` is when it, or a run for it, was seen last."""

    purpose: str
    last: float


@dataclass(slots=True)
class Durations:
    """Takes the events in order; `first` and `last` are the times of the first and last line, of any event."""

    source: Source
    reader: str
    clock: Clock = Clock.BOOT
    first: float | None = None
    last: float | None = None
    lost: int = 0  # events, as far as the tracer counts them
    lost_line: tuple[int, str] | None = None
    unpaired: int = 0
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)  # by task and kind
    _requests: dict[str, _Request] = field(default_factory=dict)  # by task
    _names: dict[str, str] = field(default_factory=dict)
    _done: dict[tuple[str, str, str], list[_Duration]] = field(default_factory=lambda: defaultdict(list))
    _seen: set[str] = field(default_factory=set)  # names of events
    _fragmenting: list[tuple[float, int, str]] = field(default_factory=list)
    _begun: tuple[int, str] | None = None  # line of the first event

    def see(self, seconds: float) -> None:
        """A line of the trace, of whatever event."""
        self.first = seconds if self.first is None else min(self.first, seconds)
        self.last = seconds if self.last is None else max(self.last, seconds)

    def lose(self, count: int, line: int, text: str) -> None:
        """The tracer says that events are missing here: of what has begun the end may be among them."""
        self.lost += count
        self.lost_line = self.lost_line or (line, text)
        self.forget()

    def forget(self) -> None:
        """What has begun is not known to end."""
        self.unpaired += len(self._open)
        self._open.clear()
        self._requests.clear()

    def take(self, event: KernelEvent) -> None:
        self.see(event.seconds)
        self._seen.add(event.name)
        self._begun = self._begun or (event.line, event.text)
        if event.comm and not event.comm.startswith("<"):
            self._names[event.pid] = event.comm
        if event.name == REQUEST:
            self._requests[event.pid] = _Request(_purpose_of_request(event.rest), event.seconds)
        elif event.name == FRAGMENTING:
            found = _WHOLE_NUMBER.search(event.rest)
            if found and int(found[1]):
                self._fragmenting.append((event.seconds, event.line, event.text))
        elif (kind := PAIRS[event.name])[1]:
            self._begin(kind[0], event)
        else:
            self._end(kind[0], event)

    def _begin(self, kind: str, event: KernelEvent) -> None:
        if kind == COLLAPSE and not _SUCCEEDED.search(event.rest):
            return  # given up before anything is copied
        key = (event.pid, kind)
        self.unpaired += key in self._open
        self._open[key] = _Open(event.seconds, self._purpose(kind, event))

    def _end(self, kind: str, event: KernelEvent) -> None:
        begun = self._open.pop((event.pid, kind), None)
        if begun is None:
            self.unpaired += kind != COLLAPSE  # what fails early has no beginning
            return
        seconds = event.seconds - begun.seconds
        if seconds < 0:
            self.unpaired += 1
            return
        if (request := self._requests.get(event.pid)) and kind == COMPACTION:
            request.last = event.seconds
        self._done[kind, begun.purpose, event.pid].append(_Duration(begun.seconds, seconds, event.line, event.text))

    def done(self, kind: str, event: KernelEvent, seconds: float, order: int | None) -> None:
        """What a tool measured itself, in a task, for a block of this order (-1: for none); `event` is its end."""
        names = {name for name, (of, _) in PAIRS.items() if of == kind}
        self._seen |= {*names, REQUEST} if order is not None else names
        self._begun = self._begun or (event.line, event.text)
        self._names[event.pid] = event.comm
        if KERNEL_THREAD.match(event.comm):
            purpose = BACKGROUND
        elif order is None or order > 3:  # the kernel's costly order: larger blocks are for caches, or huge pages
            purpose = UNKNOWN
        else:
            purpose = COMMAND if order < 0 else OTHER
        begin = event.seconds - seconds
        self._done[kind, purpose, event.pid].append(_Duration(begin, seconds, event.line, event.text))

    def _purpose(self, kind: str, event: KernelEvent) -> str:
        if KERNEL_THREAD.match(event.comm):
            return BACKGROUND
        if kind == COLLAPSE:
            return COMMAND  # madvise(MADV_COLLAPSE)
        if kind == RECLAIM:
            return _purpose_of_request(event.rest)
        request = self._requests.get(event.pid)
        is_sync = _SYNC.search(event.rest) is not None
        if request and not (is_sync and event.seconds - request.last > STALE_REQUEST_SECONDS):
            return request.purpose
        early = self.first is None or event.seconds - self.first < LOST_REQUEST_SECONDS
        return COMMAND if is_sync and REQUEST in self._seen and not early else UNKNOWN

    def records(self) -> Iterator[Record]:
        """Seconds so far by task and purpose, second by second; the spread of the durations; what was lost."""
        yield from self._problems()
        yield from self._distributions()
        if self.first is None or self.last is None:
            return
        edges = _edges(self.first, self.last)
        if len(edges) < 2:
            return
        yield from self._rows_of_host(edges)

    def _rows_of_host(self, edges: list[float]) -> Iterator[Record]:
        """Zero is known of what would have been recorded: of both ends of a pair, and of requests."""
        columns: dict[str, list[tuple[float, _Duration | None]]] = {}
        for kind, purposes in PURPOSES.items():
            if not {name for name, (of, _) in PAIRS.items() if of == kind} <= self._seen:
                continue
            for purpose in purposes:
                found = [d for (k, p, _), own in self._done.items() if (k, p) == (kind, purpose) for d in own]
                told = REQUEST in self._seen or kind != COMPACTION or purpose == BACKGROUND
                if found or (told and purpose != UNKNOWN):
                    columns[f"node_{kind}_seconds_total.{purpose}"] = _sums(edges, found)
        if FRAGMENTING in self._seen:
            columns["node_extfrag_events_total"] = _counts(edges, self._fragmenting)
        line, text = self._begun or (0, "")
        for at, edge in enumerate(edges):
            cells = [column[at] for column in columns.values()]
            latest = max((d for _, d in cells if d), key=lambda d: d.begin, default=None)
            line, text = (latest.line, latest.text) if latest else (line, text)
            values = {name: value for name, (value, _) in zip(columns, cells, strict=True)}
            if values:
                yield Sample("system", values, self.source.cite(line, text), self.reader, (), Moment(edge, self.clock))

    def _distributions(self) -> Iterator[Fact]:
        """The longest first: its caller is the one to look at."""
        callers: dict[tuple[str, str, str], list[_Duration]] = defaultdict(list)
        tasks: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for (kind, purpose, pid), found in self._done.items():
            caller = (kind, purpose, self._names.get(pid, "<...>"))
            callers[caller] += found
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

    def _share(self, found: list[_Duration]) -> str:
        """Of the time of the recording; nothing where that is not known."""
        whole = 0.0 if self.first is None or self.last is None else self.last - self.first
        return f"{100 * sum(d.seconds for d in found) / whole:.3g} % of the time; " if whole else ""

    def _problems(self) -> Iterator[Problem]:
        if self.lost_line and self._seen:
            count = f"{self.lost:,}" if self.lost else "an unknown number of"
            text = f"the tracer lost {count} events: times that they would begin or end are not known"
            yield Problem(self.source.cite(*self.lost_line), text, ProblemKind.DAMAGED, self.reader)
        if self._begun and (left := self.unpaired + len(self._open)):
            text = "events whose beginning or end is not in the recording: how long that took is not known"
            yield Problem(self.source.cite(*self._begun), text, ProblemKind.ODD, self.reader, left)


def _purpose_of_request(rest: str) -> str:
    """What a large block is for, by the flags and the order of the request."""
    flags, order = _FLAGS.search(rest), _ORDER.search(rest)
    if flags is None or order is None:
        return UNKNOWN
    if "GFP_TRANSHUGE" in flags[1]:
        return HUGE_PAGE
    number = _NUMERIC.match(flags[1])
    if number is None:
        return OTHER
    mask = int(number["hex"], 16) if number["hex"] else int(number["decimal"])
    if mask & _THP_BITS == _THP_BITS:
        return HUGE_PAGE
    return OTHER if int(order[1]) < MIN_THP_ORDER else UNKNOWN  # before 5.1 the bits lie elsewhere


def _nearest_rank(by_length: list[_Duration], share: float) -> _Duration:
    """The nearest rank."""
    return by_length[max(0, ceil(share * len(by_length)) - 1)]


def format_seconds(seconds: float) -> str:
    """As people say it; three digits are more than the clock of a busy host is good for."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _edges(first: float, last: float) -> list[float]:
    """From the beginning to the end, a second or more apart."""
    step = max(MIN_ROW_SECONDS, (last - first) / MAX_ROWS)
    count = int((last - first) / step)
    edges = [first + step * at for at in range(count + 1)]
    if count and last - edges[-1] > step / 2:
        edges.append(last)
    elif count:
        edges[-1] = last
    elif last > first:
        edges.append(last)
    return edges


def _sums(edges: list[float], found: Iterable[_Duration]) -> list[tuple[float, _Duration | None]]:
    """Seconds up to each edge, and what began last before it; what reaches over an edge counts on both sides of it."""
    waiting = sorted(found, key=lambda d: d.begin)
    sums: list[tuple[float, _Duration | None]] = []
    total, at, latest = 0.0, 0, None
    running: list[_Duration] = []
    for edge in edges:
        while at < len(waiting) and waiting[at].begin < edge:
            latest = waiting[at]
            running.append(latest)
            at += 1
        total += sum(d.seconds for d in running if d.begin + d.seconds <= edge)
        running = [d for d in running if d.begin + d.seconds > edge]
        sums.append((round(total + sum(edge - d.begin for d in running), 9), latest))
    return sums


def _counts(edges: list[float], found: list[tuple[float, int, str]]) -> list[tuple[float, _Duration | None]]:
    """Events up to each edge."""
    marks = [_Duration(seconds, 0.0, line, text) for seconds, line, text in sorted(found)]
    counts: list[tuple[float, _Duration | None]] = []
    at = 0
    for edge in edges:
        while at < len(marks) and marks[at].begin <= edge:
            at += 1
        counts.append((float(at), marks[at - 1] if at else None))
    return counts


def comm_of(text: str) -> str:
    """A task's name, harmless to print."""
    return printable(text.strip())
