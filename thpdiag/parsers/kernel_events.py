"""How long compaction, direct reclaim and collapses take: events of the kernel, compactsnoop, drsnoop, bpftrace.

Events of the kernel in text: `trace-cmd report`, ftrace's own file (/sys/kernel/tracing/trace), `perf trace -e`.

         store-31870 [000]  1223.307884: mm_compaction_begin:  zone_start=0x100000 ... zone_end=0x640000, mode=async
         store-31870   [000] .N...  1223.309130: mm_compaction_begin: zone_start=0x100000 ... mode=async
     0.111 store/31870 compaction:mm_compaction_begin(zone_start: 1048576, ..., sync: 1)

Times are seconds since boot, of perf trace milliseconds since its start. ftrace's file may have a column of the
process (`(31870)`) before the CPU; flags stand before the time since 2.6.34, and with `-l` in trace-cmd. Comments begin
with `#`; `CPU:1 [LOST 12 EVENTS]` and `[EVENTS DROPPED]` name what is missing, `##### CPU 1 buffer started ####` says
that what came before on that CPU was overwritten. perf trace leaves out fields that are 0 and prints numbers for names.
What is made of the events: `_kernel_events`. Sources: kernel/trace/trace_output.c, trace.c; trace-cmd
lib/traceevent/event-parse.c, tracecmd/trace-read.c; tools/perf/builtin-trace.c; recorded with trace-cmd 3.1.6, kernel
6.18 and perf 6.1.

compactsnoop and drsnoop of bcc: each run of compaction, each direct reclaim, with its latency.

    TIME(s)        COMM           PID    NODE ZONE         ORDER MODE      LAT(ms)           STATUS
    0.000000000    store          23685  0    ZONE_NORMAL  9     ASYNC       3.925          success

    COMM           PID     LAT(ms) PAGES
    summond        17678      0.19   143

Units: milliseconds; TIME counts seconds from the first row and is there with -T only. Order -1 is compaction on command
(vm.compact_memory). With -e columns of the zone stand before the latency, with -K the kernel's stack below a row, with
-U the user, with -v free memory. A name has 14 characters and may have blanks.
Source: bcc tools/compactsnoop.py, tools/drsnoop.py (0.26, with their examples).

Maps that bpftrace prints at its end: histograms and sums, of which the names say what they measure.

    @compact_us[store, 9]:
    [256, 512)            17 |                                                    |
    [512, 1K)           1258 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

    @total_us[store]: count 1529, average 916, total 1401668

Units: as the script says; a word of the name tells (ns, nsec, nsecs, the same of us and ms: `@nsecs_compact`), else it
is not used. What is measured is taken from the name of the map or from the probes of the command above it: compaction,
direct reclaim, a collapse. K, M, G are powers of 1024. Keys are what the script made them; the first word is taken for
the task's name.
hist() has buckets of powers of two, lhist() of equal size with `(..., 0)` and `[100, ...)` at the ends.
Source: bpftrace src/output.cpp (0.17); recorded with 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from thpdiag.bundle.member import LineDamage
from thpdiag.model import Clock, Fact, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._kernel_events import (
    BACKGROUND,
    COLLAPSE,
    COMPACTION,
    EVENTS,
    KERNEL_THREAD,
    RECLAIM,
    UNKNOWN,
    Durations,
    KernelEvent,
    comm_of,
    format_seconds,
)
from thpdiag.parsers._lines import ParseErrors, any_of, numbered_lines, undecoded_problems, with_errors

NAME = "kernel_events"
_WHO = r"\s{0,40}(?P<comm>\S.{0,30}?)-(?P<pid>\d{1,10})"
_PLACE = r"(?:\s{1,12}\(\s{0,8}(?:\d{1,10}|-{1,8})\))?\s{1,20}\[\d{1,5}\]"
_WHEN = r"(?:\s{1,8}[A-Za-z0-9.#]{4,8})?\s{1,16}(?P<time>\d{1,12}\.\d{6,9}):\s"
LINE = re.compile(
    rf"{_WHO}{_PLACE}{_WHEN}\s{{0,20}}(?:[a-z_]{{1,40}}:)?(?P<event>[a-zA-Z_]\w{{0,80}}):\s{{0,8}}(?P<rest>.*)$"
)
PERF_LINE = re.compile(
    r"\s{0,16}(?P<time>\d{1,12}\.\d{3})\s{1,4}(?:\([^)]{0,20}\):?\s{1,4})?(?P<comm>\S.{0,30}?)/(?P<pid>\d{1,10})"
    r"\s{1,4}[a-z_]{1,40}:(?P<event>\w{1,80})\((?P<rest>.*)\)$"
)
LOSS = re.compile(r"\s{0,8}CPU:\s?\d{1,5}\s\[(?:LOST (?P<count>\d{1,18}) EVENTS|EVENTS DROPPED)\]")
RESTART = re.compile(r"##### CPU \d{1,5} buffer started ####")
HEAD = re.compile(r"# tracer: |# entries-in-buffer|cpus=\d{1,5}$|version = \d{1,3}$|CPU \d{1,5} is empty$")
OPENS = re.compile(
    rf"# tracer: |{_WHO}{_PLACE}{_WHEN}\s{{0,20}}(?:\w{{1,40}}:)?mm_(?:compaction|khugepaged|collapse|vmscan|page_al)"
    r"|\s{0,16}\d{1,12}\.\d{3}\s{1,4}(?:\([^)]{0,20}\):?\s{1,4})?\S.{0,30}?/\d{1,10}\s{1,4}"
    r"(?:compaction|huge_memory|vmscan|kmem):mm_"
)
_ENDINGS = {  # what an event ends with when it is not cut
    "mm_compaction_begin": re.compile(r"mode=a?sync\s*$"),
    "mm_compaction_end": re.compile(r"mode=a?sync\s+status=\S+\s*$|status=\S+\s*$"),
}
_MIN_BULK_BYTES = 1 << 20
_EVENT_BYTES = (
    rb"mm_(?:compaction_(?:begin|end|try_to_compact_pages)|vmscan_direct_reclaim_(?:begin|end)"
    rb"|collapse_huge_page(?:_isolate)?|page_alloc_extfrag)[:(]"
)
_EVENT = re.compile(_EVENT_BYTES)  # begins with a literal: quick
_EVENT_OR_LOSS = re.compile(_EVENT_BYTES + rb"|\[LOST |\[EVENTS DROPPED|##### CPU")


def read_kernel_events(source: Source, lines: Lines) -> Iterator[Record]:
    """Series of seconds, the spread of durations, and what was lost."""
    errors = ParseErrors(source, NAME)
    trace = _Trace(source, errors)
    for number, text in lines:
        if not trace.line(number, text) and text.strip():
            errors.note(number, text, "not a line of a tracer of kernel events")
    yield from errors.problems()
    yield from trace.durations.records()


class _Trace:
    """Line by line."""

    def __init__(self, source: Source, errors: ParseErrors) -> None:
        self.durations = Durations(source, NAME)
        self._errors = errors

    def line(self, number: int, text: str) -> bool:
        """Whether a tracer prints such lines."""
        if found := LINE.match(text):
            seconds = float(found["time"])
        elif found := PERF_LINE.match(text):
            seconds, self.durations.clock = float(found["time"]) / 1000, Clock.SESSION
        else:
            return self._other(number, text)
        name, rest = found["event"], found["rest"]
        if name not in EVENTS:
            self.durations.see(seconds)
        elif (ending := _ENDINGS.get(name)) and "=" in rest and not ending.search(rest):
            self._errors.note(number, text, "an event that is cut off")
        else:
            self.durations.take(KernelEvent(seconds, comm_of(found["comm"]), found["pid"], name, rest, number, text))
        return True

    def _other(self, number: int, text: str) -> bool:
        if lost := LOSS.match(text):
            self.durations.lose(int(lost["count"] or 0), number, text)
        elif RESTART.match(text):
            self.durations.forget()
        else:
            return text.startswith("#") or bool(HEAD.match(text))
        return True


def belongs(text: str) -> bool:
    """Lines of events, of whatever subsystem; comments; what was lost; empty lines."""
    return not text.strip() or text[0] == "#" or any(p.match(text) for p in (LINE, PERF_LINE, LOSS, HEAD))


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A member whose first lines are all of a trace, some of them of memory management."""
    lines = head[: head.rfind(b"\n")].decode("utf-8", "replace").split("\n")[:200]
    return bool(lines) and all(map(belongs, lines)) and any(map(OPENS.match, lines))


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """As `read`; of the lines that hold no event of interest only the first and the last are looked at."""
    errors, damage = ParseErrors(source, NAME), LineDamage()
    trace = _Trace(source, errors)
    number, rest = 1, b""
    for chunk in content.chunks:
        window = rest + chunk
        end = window.rfind(b"\n") + 1
        window, rest = window[:end], window[end:]
        number = _read_window(trace, window, number)
    for _, text in numbered_lines(Content(iter((rest,))), damage):
        trace.line(number, text)
    yield from errors.problems()
    yield from undecoded_problems(source, damage, NAME)
    yield from trace.durations.records()


def _read_window(trace: _Trace, window: bytes, number: int) -> int:
    """Whole lines; gives the number of the line behind them."""
    counted = taken = 0  # bytes whose lines are counted, and behind the last line that was read
    is_lossy = b"[LOST " in window or b"[EVENTS DROPPED" in window or b"##### CPU" in window
    pattern = _EVENT_OR_LOSS if is_lossy else _EVENT
    places = chain((0,), (found.start() for found in pattern.finditer(window)), (len(window) - 1,))
    for at in places:
        if at < taken or not window:
            continue
        start, end = window.rfind(b"\n", 0, at) + 1, window.find(b"\n", at)
        number += window.count(b"\n", counted, start)
        counted, taken = start, end + 1
        trace.line(number, window[start:end].decode("utf-8", "replace").rstrip())
    return number + window.count(b"\n", counted)


KERNEL_EVENTS = Parser(
    NAME, "events of the kernel (trace-cmd report, ftrace, perf trace)", read_kernel_events, opens=OPENS,
    continues=belongs, confirm=lambda ahead: all(map(belongs, ahead[:3])), priority=1,
)  # fmt: skip
KERNEL_EVENTS_BULK = BulkParser(
    KERNEL_EVENTS.name, KERNEL_EVENTS.title, _claims, _read_bulk, opens=re.compile(rb"[ #cv]"), min_size=_MIN_BULK_BYTES
)


_SNOOP_TIME = r"(?:(?P<time>\d{1,9}\.\d{9})\s+)?"
_SNOOP_WHO = r"(?P<comm>\S.{0,15}?)\s{1,16}(?P<pid>\d{1,10})\s"
COMPACT_HEADER = re.compile(r"(?:TIME\(s\)\s+)?COMM\s+PID\s+NODE\s+ZONE\s+ORDER\s+MODE\s.*LAT\(ms\)\s+STATUS\s*$")
COMPACT_ROW = re.compile(
    rf"\s{{0,2}}{_SNOOP_TIME}{_SNOOP_WHO}+\d{{1,4}}\s+\S{{1,20}}\s+(?P<order>-?\d{{1,2}})\s+A?SYNC\s+(?:[\d.-]{{1,20}}\s+){{0,5}}?"
    r"(?P<ms>\d{1,12}(?:\.\d{1,9})?)\s+(?:[a-z_]{2,30}|\d{1,3})\s*$"
)
STACK = re.compile(r"\s*\S{1,120}\+0x[0-9a-f]{1,8}$")
RECLAIM_HEADER = re.compile(r"(?:TIME\(s\)\s+)?(?:UID\s+)?COMM\s+[PT]ID\s+LAT\(ms\)\s+PAGES(?:\s+FREE\(KB\))?\s*$")
RECLAIM_ROW = re.compile(
    rf"\s{{0,2}}{_SNOOP_TIME}(?P<comm>\S.{{0,26}}?)\s{{1,16}}(?P<pid>\d{{1,10}})\s+(?P<ms>\d{{1,12}}\.\d\d)\s+\d{{1,12}}(?:\s+\d{{1,15}})?\s*$"
)


def _snoop_reader(
    name: str, kind: str, header: re.Pattern[str], row: re.Pattern[str]
) -> Callable[[Source, Lines], Iterator[Record]]:
    def read(source: Source, lines: Lines) -> Iterator[Record]:
        """The spread of the latencies, by task; with times the seconds so far too."""
        errors, durations = ParseErrors(source, name), Durations(source, name, Clock.SESSION)
        with_user = False
        for number, text in lines:
            found = row.match(text)
            if found and found["ms"]:
                order = int(found["order"]) if kind == COMPACTION else None
                seconds = float(found["time"] or 0.0)
                if found["time"]:
                    durations.see(seconds)
                comm = found["comm"].partition(" ")[2].strip() if with_user else found["comm"]
                event = KernelEvent(seconds, comm_of(comm), found["pid"], kind, "", number, text)
                durations.done(kind, event, float(found["ms"]) / 1000, order)
            elif header.match(text):
                with_user = bool(re.search(r"\bUID\b", text))
            elif text.strip() and not STACK.match(text):
                errors.note(number, text, f"a line that {name} does not print")
        yield from errors.problems()
        yield from durations.records()

    return read


COMPACTSNOOP = Parser(
    "compactsnoop", "compactsnoop (bcc)", _snoop_reader("compactsnoop", COMPACTION, COMPACT_HEADER, COMPACT_ROW),
    opens=COMPACT_HEADER, continues=any_of(COMPACT_HEADER, COMPACT_ROW, STACK, blank=True),
)  # fmt: skip
DRSNOOP = Parser(
    "drsnoop", "drsnoop (bcc)", _snoop_reader("drsnoop", RECLAIM, RECLAIM_HEADER, RECLAIM_ROW),
    opens=RECLAIM_HEADER, continues=any_of(RECLAIM_HEADER, RECLAIM_ROW, blank=True),
)  # fmt: skip


HISTOGRAMS = "bpftrace_histograms"
BPFTRACE_MAP = re.compile(r"@(?P<map>\w{0,60})(?:\[(?P<keys>[^\]]{0,120})\])?:\s*(?P<rest>.*)$")
_EDGE = r"(?:-?\d{1,18}[KMGTPE]?|\.\.\.)"
BUCKET = re.compile(rf"[\[(](?P<low>{_EDGE})(?:, (?P<high>{_EDGE}))?[\])]\s+(?P<count>\d{{1,18}}) \|[@ ]{{0,60}}\|\s*$")
ATTACHING = re.compile(r"Attaching \d{1,5} probes?\.\.\.$|(?:ERROR|WARNING|stdin:\d|Lost \d)")
_UNITS = {
    f"{prefix}{word}": size for prefix, size in (("n", 1e-9), ("u", 1e-6), ("m", 1e-3)) for word in ("s", "sec", "secs")
}
_KINDS = (
    (COLLAPSE, re.compile("collapse")), (RECLAIM, re.compile("reclaim")), (COMPACTION, re.compile("compact")),
)  # fmt: skip
_POWERS = {letter: 1024**power for power, letter in enumerate("KMGTPE", 1)}


@dataclass(slots=True)
class _Histogram:
    """Buckets (low, high, count) of one key of a map; an open end has the other end's value."""

    line: int
    text: str
    map: str
    keys: str
    buckets: list[tuple[float, float, int]] = field(default_factory=list)

    def at(self, share: float) -> tuple[float, float]:
        """The bucket that so many of all lie in or below."""
        left = share * sum(count for _, _, count in self.buckets)
        filled = [bucket for bucket in self.buckets if bucket[2]]
        for low, high, count in filled:
            left -= count
            if left <= 0:
                return low, high
        return filled[-1][:2]


@with_errors(HISTOGRAMS)
def read_histograms(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The spread of what a histogram is of."""
    current: _Histogram | None = None
    found: list[_Histogram] = []
    for number, text in lines:
        if start := BPFTRACE_MAP.match(text):
            current = None
            if not start["rest"]:
                current = _Histogram(number, text, start["map"], start["keys"] or "")
                found.append(current)
        elif (bucket := BUCKET.match(text)) and current is not None:
            low, high = _bucket_edge(bucket["low"]), _bucket_edge(bucket["high"] or bucket["low"])
            low, high = (high if low is None else low), (low if high is None else high)
            if low is not None and high is not None:
                current.buckets.append((low, high, int(bucket["count"])))
        elif text.strip() and not ATTACHING.match(text):
            errors.note(number, text, "a line that bpftrace does not print for a map")
    for histogram in found:
        yield from _spread(histogram, source)


def _bucket_edge(text: str) -> float | None:
    if text == "...":
        return None
    return float(text[:-1]) * _POWERS[text[-1]] if text[-1] in _POWERS else float(text)


def _spread(histogram: _Histogram, source: Source) -> Iterator[Record]:
    units = {_UNITS[word] for word in histogram.map.lower().split("_") if word in _UNITS}
    said = f"{histogram.map} {source.command}"
    kind = next((kind for kind, words in _KINDS if words.search(said)), None)
    count = sum(count for _, _, count in histogram.buckets)
    if len(units) != 1 or kind is None or not count:
        return
    (size,) = units
    comm = comm_of(histogram.keys.partition(",")[0]) or "all tasks"
    purpose = BACKGROUND if KERNEL_THREAD.match(comm) else UNKNOWN
    labels = (("comm", comm), ("purpose", purpose), ("times", str(count)))
    parts = ((0.5, "median"), (0.99, "99 % within"), (1.0, "longest"))
    words = [
        f"{word} {format_seconds(low * size)} to {format_seconds(high * size)}"
        for s, word in parts
        for low, high in (histogram.at(s),)
    ]
    cite = source.cite(histogram.line, histogram.text)
    yield Fact(f"{kind}.spread", ", ".join(words), cite, labels)
    if kind == COMPACTION:
        yield Fact("compaction.longest", histogram.at(1.0)[0] * size, cite, labels)


BPFTRACE_HISTOGRAMS = Parser(
    HISTOGRAMS, "histograms of bpftrace", read_histograms, opens=re.compile(r"@\w{0,60}(?:\[[^\]]{0,120}\])?:\s*$"),
    continues=any_of(BPFTRACE_MAP, BUCKET, ATTACHING, blank=True),
    confirm=lambda ahead: any(BUCKET.match(text) for text in ahead[1:2]),
)  # fmt: skip
