"""How long compaction, direct reclaim and collapses take: events and functions of the kernel, compactsnoop, drsnoop,
bpftrace.

Events of the kernel in text: `trace-cmd report`, ftrace's own file (/sys/kernel/tracing/trace), `perf trace -e`.

         store-31870 [000]  1223.307884: mm_compaction_begin:  zone_start=0x100000 ... zone_end=0x640000, mode=async
         store-31870   [000] .N...  1223.309130: mm_compaction_begin: zone_start=0x100000 ... mode=async
     0.111 store/31870 compaction:mm_compaction_begin(zone_start: 1048576, ..., sync: 1)

Times are seconds since boot; those of perf trace are milliseconds since its start. The file of ftrace may have a column
with the process (`(31870)`) before the CPU; flags precede the time since 2.6.34, and with `-l` in trace-cmd. Comments
begin with `#`. `CPU:1 [LOST 12 EVENTS]` and `[EVENTS DROPPED]` report lost events, and
`##### CPU 1 buffer started ####` that earlier events of that CPU were overwritten. perf trace omits fields that are 0
and prints numbers instead of names. `_kernel_events` computes durations from the events. Sources:
kernel/trace/trace_output.c, trace.c; trace-cmd lib/traceevent/event-parse.c, tracecmd/trace-read.c;
tools/perf/builtin-trace.c; recorded with trace-cmd 3.1.6, kernel 6.18 and perf 6.1.

The function_graph tracer: functions with their durations. Only the outermost function that compacts, reclaims or
collapses is counted.

     0)               |  try_to_compact_pages() {
     0) * 13822.1 us  |    compact_zone_order();
     0) * 13825.3 us  |  }
     ------------------------------------------
     0)  java-991     =>   mysqld-2044
     ------------------------------------------

Units: microseconds, after a sign for their size. With funcgraph-abstime a column with the time (seconds) precedes the
CPU, with funcgraph-proc one with the task follows it; otherwise the last switch on that CPU names the task. A comment
after the closing brace may name the function (funcgraph-tail). Reconstructed from
kernel/trace/trace_functions_graph.c, 4.18 to 6.18.

compactsnoop and drsnoop of bcc: each run of compaction, each direct reclaim, with its latency.

    TIME(s)        COMM           PID    NODE ZONE         ORDER MODE      LAT(ms)           STATUS
    0.000000000    store          23685  0    ZONE_NORMAL  9     ASYNC       3.925          success

    COMM           PID     LAT(ms) PAGES
    summond        17678      0.19   143

Units: milliseconds; TIME counts seconds from the first row and is printed with -T only. Order -1 is compaction on
command (vm.compact_memory). -e adds columns of the zone before the latency, -K the kernel stack below a row, -U the
user, -v free memory. A name has 14 characters and may contain blanks.
Source: bcc tools/compactsnoop.py, tools/drsnoop.py (0.26, with their examples).

Maps that bpftrace prints at its end: histograms, sums and counts.

    @compact_us[store, 9]:
    [256, 512)            17 |                                                    |
    [512, 1K)           1258 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

    @total_us[store]: count 1529, average 916, total 1401668
    @[java, 991]: 4021

Units: those of the expression in the program (`(nsecs - @start[tid]) / 1000`), else those of a word in the name of the
map (ns, nsec, nsecs, the same for us and ms: `@nsecs_compact`); a map without either is not used. The name of the map
or the probes of the command above it determine what is measured: compaction, direct reclaim or a collapse. K, M, G are
powers of 1024. The script defines the keys; the first word is taken as the task name. Sums and counts become rates if
one known probe without a filter was counted for the time in the command (`interval:s:10 { exit(); }`, `timeout 10`,
`-c 'sleep 10'`) and ^C did not end it earlier; otherwise they are not used.
hist() has buckets of powers of two, lhist() of equal size with `(..., 0)` and `[100, ...)` at the ends.
Source: bpftrace src/output.cpp (0.17); recorded with 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from thpdiag.bundle.member import LineDamage
from thpdiag.model import Clock, Fact, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._kernel_events import (
    BACKGROUND,
    COLLAPSE,
    COMPACTION,
    COUNTERS,
    EVENTS,
    KERNEL_THREAD,
    RECLAIM,
    REQUEST,
    UNKNOWN,
    Durations,
    KernelEvent,
    comm_of,
    format_seconds,
)
from thpdiag.parsers._lines import ParseErrors, any_of, numbered_lines, undecoded_problems, with_errors

NAME = "kernel_events"
_TASK = r"\s{0,40}(?P<comm>\S.{0,30}?)-(?P<pid>\d{1,10})"
_CPU = r"(?:\s{1,12}\(\s{0,8}(?:\d{1,10}|-{1,8})\))?\s{1,20}\[\d{1,5}\]"
_TIME = r"(?:\s{1,8}[A-Za-z0-9.#]{4,8})?\s{1,16}(?P<time>\d{1,12}\.\d{6,9}):\s"
LINE = re.compile(
    rf"{_TASK}{_CPU}{_TIME}\s{{0,20}}(?:[a-z_]{{1,40}}:)?(?P<event>[a-zA-Z_]\w{{0,80}}):\s{{0,8}}(?P<rest>.*)$"
)
PERF_LINE = re.compile(
    r"\s{0,16}(?P<time>\d{1,12}\.\d{3})\s{1,4}(?:\([^)]{0,20}\):?\s{1,4})?(?P<comm>\S.{0,30}?)/(?P<pid>\d{1,10})"
    r"\s{1,4}[a-z_]{1,40}:(?P<event>\w{1,80})\((?P<rest>.*)\)$"
)
LOSS = re.compile(r"\s{0,8}CPU:\s?\d{1,5}\s\[(?:LOST (?P<count>\d{1,18}) EVENTS|EVENTS DROPPED)\]")
RESTART = re.compile(r"##### CPU \d{1,5} buffer started ####")
HEAD = re.compile(r"# tracer: |# entries-in-buffer|cpus=\d{1,5}$|version = \d{1,3}$|CPU \d{1,5} is empty$")
OPENS = re.compile(
    rf"# tracer: |{_TASK}{_CPU}{_TIME}\s{{0,20}}(?:\w{{1,40}}:)?mm_(?:compaction|khugepaged|collapse|vmscan|page_al)"
    r"|\s{0,16}\d{1,12}\.\d{3}\s{1,4}(?:\([^)]{0,20}\):?\s{1,4})?\S.{0,30}?/\d{1,10}\s{1,4}"
    r"(?:compaction|huge_memory|vmscan|kmem):mm_"
)
_COMPLETE_ENDINGS = {  # the end of an event that is not cut off
    "mm_compaction_begin": re.compile(r"mode=a?sync\s*$"),
    "mm_compaction_end": re.compile(r"mode=a?sync\s+status=\S+\s*$|status=\S+\s*$"),
}
_MIN_BULK_BYTES = 1 << 20
_EVENT_BYTES = (
    rb"mm_(?:compaction_(?:begin|end|try_to_compact_pages)|vmscan_direct_reclaim_(?:begin|end)"
    rb"|collapse_huge_page(?:_isolate)?|page_alloc_extfrag)[:(]"
)
_EVENT = re.compile(_EVENT_BYTES)  # fast, because it begins with a literal
_EVENT_OR_LOSS = re.compile(_EVENT_BYTES + rb"|\[LOST |\[EVENTS DROPPED|##### CPU")


def read_kernel_events(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield samples of seconds, the distributions of durations, and problems for lost events."""
    errors = ParseErrors(source, NAME)
    trace = _Trace(source, errors)
    for number, text in lines:
        if not trace.add_line(number, text) and text.strip():
            errors.note(number, text, "not a line of a tracer of kernel events")
    yield from errors.problems()
    yield from trace.durations.records()


class _Trace:
    def __init__(self, source: Source, errors: ParseErrors) -> None:
        self.durations = Durations(source, NAME)
        self._errors = errors

    def add_line(self, number: int, text: str) -> bool:
        """Process a line; return False if it is not a line of a tracer."""
        if match := LINE.match(text):
            seconds = float(match["time"])
        elif match := PERF_LINE.match(text):
            seconds, self.durations.clock = float(match["time"]) / 1000, Clock.SESSION
        else:
            return self._add_other_line(number, text)
        name, rest = match["event"], match["rest"]
        if name not in EVENTS:
            self.durations.see(seconds)
        elif (ending := _COMPLETE_ENDINGS.get(name)) and "=" in rest and not ending.search(rest):
            self._errors.note(number, text, "an event that is cut off")
        else:
            self.durations.take(KernelEvent(seconds, comm_of(match["comm"]), match["pid"], name, rest, number, text))
        return True

    def _add_other_line(self, number: int, text: str) -> bool:
        if lost := LOSS.match(text):
            self.durations.lose(int(lost["count"] or 0), number, text)
        elif RESTART.match(text):
            self.durations.forget()
        else:
            return text.startswith("#") or bool(HEAD.match(text))
        return True


def is_trace_line(text: str) -> bool:
    """Return whether the line is an event of any subsystem, a comment, a report of lost events, or empty."""
    return not text.strip() or text[0] == "#" or any(p.match(text) for p in (LINE, PERF_LINE, LOSS, HEAD))


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """Return whether all first lines of the member are lines of a trace, and some are of memory management."""
    lines = head[: head.rfind(b"\n")].decode("utf-8", "replace").split("\n")[:200]
    return bool(lines) and all(map(is_trace_line, lines)) and any(map(OPENS.match, lines))


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Parse like `read_kernel_events`, but of lines without a known event only the first and the last."""
    errors, damage = ParseErrors(source, NAME), LineDamage()
    trace = _Trace(source, errors)
    number, rest = 1, b""
    for chunk in content.chunks:
        window = rest + chunk
        end = window.rfind(b"\n") + 1
        window, rest = window[:end], window[end:]
        number = _read_window(trace, window, number)
    for _, text in numbered_lines(Content(iter((rest,))), damage):
        trace.add_line(number, text)
    yield from errors.problems()
    yield from undecoded_problems(source, damage, NAME)
    yield from trace.durations.records()


def _read_window(trace: _Trace, window: bytes, number: int) -> int:
    """Parse a window of whole lines; return the number of the line after it."""
    counted = parsed = 0  # offsets: lines up to `counted` are numbered, lines up to `parsed` are parsed
    is_lossy = b"[LOST " in window or b"[EVENTS DROPPED" in window or b"##### CPU" in window
    pattern = _EVENT_OR_LOSS if is_lossy else _EVENT
    offsets = chain((0,), (match.start() for match in pattern.finditer(window)), (len(window) - 1,))
    for offset in offsets:
        if offset < parsed or not window:
            continue
        start, end = window.rfind(b"\n", 0, offset) + 1, window.find(b"\n", offset)
        number += window.count(b"\n", counted, start)
        counted, parsed = start, end + 1
        trace.add_line(number, window[start:end].decode("utf-8", "replace").rstrip())
    return number + window.count(b"\n", counted)


KERNEL_EVENTS = Parser(
    NAME, "events of the kernel (trace-cmd report, ftrace, perf trace)", read_kernel_events, opens=OPENS,
    continues=is_trace_line, confirm=lambda ahead: all(map(is_trace_line, ahead[:3])), priority=1,
)  # fmt: skip
KERNEL_EVENTS_BULK = BulkParser(
    KERNEL_EVENTS.name, KERNEL_EVENTS.title, _claims, _read_bulk, opens=re.compile(rb"[ #cv]"), min_size=_MIN_BULK_BYTES
)


FUNCTIONS = "function_graph"
_KIND_OF_FUNCTION = {
    **dict.fromkeys(("__alloc_pages_direct_compact", "try_to_compact_pages", "compact_zone_order", "compact_zone",
                     "kcompactd_do_work", "compact_node", "compact_nodes", "compact_store"), COMPACTION),
    **dict.fromkeys(("__alloc_pages_direct_reclaim", "__perform_reclaim", "try_to_free_pages"), RECLAIM),
    "collapse_huge_page": COLLAPSE,
}  # fmt: skip
GRAPH_HEAD = re.compile(r"# tracer: function_graph\s*$")
GRAPH_ROW = re.compile(
    r"\s{0,4}(?:(?P<time>\d{1,10}\.\d{6}) \|\s)?\s{0,4}(?P<cpu>\d{1,4})\)\s"
    r"(?:\s{0,12}(?P<task>\S.{0,20}-\d{1,10})\s+\|\s)?"
    r"\s?[ +!#*@$]?\s?(?:\s{0,12}(?P<us>\d{1,12}(?:\.\d{1,3})?) us)?\s+\|\s\s(?P<indent>\s{0,400})"
    r"(?:(?P<function>[\w.]{1,120})(?: \[\w{1,60}\])?\(.{0,200}?\)(?P<opens>;| \{)|(?P<closes>\}).{0,160}|/\*.{0,400})"
    r"\s*$"
)
GRAPH_SWITCH = re.compile(r"\s{0,4}(?P<cpu>\d{1,4})\)\s+\S.{0,20}-\d{1,10}\s+=>\s+(?P<task>\S.{0,20}-\d{1,10})\s*$")


@dataclass(slots=True)
class _OpenFunction:
    """The outermost compacting, reclaiming or collapsing function that runs on a CPU."""

    kind: str
    indent: int


@with_errors(FUNCTIONS)
def read_function_graph(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield the distributions of durations and, if the rows have times, samples of seconds."""
    durations = Durations(source, FUNCTIONS)
    running: dict[str, _OpenFunction] = {}
    tasks: dict[str, str] = {}
    untimed = False
    for number, text in lines:
        if switch := GRAPH_SWITCH.match(text):
            tasks[switch["cpu"]] = switch["task"]
            running.pop(switch["cpu"], None)  # the old task may continue on another CPU
        elif row := GRAPH_ROW.match(text):
            untimed |= not row["time"]
            if row["time"]:
                durations.see(float(row["time"]))
            kind = _completed_kind(row, running)
            if kind and row["us"]:
                comm, _, pid = (row["task"] or tasks.get(row["cpu"], "all tasks-?")).rpartition("-")
                event = KernelEvent(float(row["time"] or 0.0), comm_of(comm), pid, kind, "", number, text)
                durations.done(kind, event, float(row["us"]) * 1e-6, None)
        elif text.strip() and text[0] != "#" and not LOSS.match(text) and set(text.strip()) != {"-"}:
            errors.note(number, text, "not a line of the function_graph tracer")
    if untimed:
        durations.first = durations.last = None  # a share of the recording's time needs the times of all rows
    yield from durations.records()


def _completed_kind(row: re.Match[str], running: dict[str, _OpenFunction]) -> str | None:
    """Update the running function of the row's CPU; return its kind if it ends with this row."""
    cpu, indent = row["cpu"], len(row["indent"])
    outer, kind = running.get(cpu), _KIND_OF_FUNCTION.get(row["function"] or "")
    if outer and indent <= outer.indent:
        del running[cpu]
        if row["closes"] and indent == outer.indent:
            return outer.kind
        outer = None
    if kind is None or outer:
        return None
    if row["opens"] == ";":
        return kind
    running[cpu] = _OpenFunction(kind, indent)
    return None


FUNCTION_GRAPH = Parser(
    FUNCTIONS, "functions of the kernel (function_graph tracer)", read_function_graph,
    opens=re.compile(rf"{GRAPH_HEAD.pattern}|.{{0,40}}\d\)\s.{{0,60}} us\s+\|\s\s\s{{0,400}}[\w}}]"),
    continues=any_of(GRAPH_ROW, GRAPH_SWITCH, LOSS, re.compile(r"#|\s{0,4}-{20}"), blank=True),
    confirm=lambda ahead: GRAPH_HEAD.match(ahead[0]) or sum(bool(GRAPH_ROW.match(text)) for text in ahead[:4]) > 2,
    priority=2,  # both tracers print the same first comment
)  # fmt: skip


_SNOOP_TIME = r"(?:(?P<time>\d{1,9}\.\d{9})\s+)?"
_SNOOP_TASK = r"(?P<comm>\S.{0,15}?)\s{1,16}(?P<pid>\d{1,10})\s"
COMPACT_HEADER = re.compile(r"(?:TIME\(s\)\s+)?COMM\s+PID\s+NODE\s+ZONE\s+ORDER\s+MODE\s.*LAT\(ms\)\s+STATUS\s*$")
COMPACT_ROW = re.compile(
    rf"\s{{0,2}}{_SNOOP_TIME}{_SNOOP_TASK}+\d{{1,4}}\s+\S{{1,20}}\s+(?P<order>-?\d{{1,2}})\s+A?SYNC\s+(?:[\d.-]{{1,20}}\s+){{0,5}}?"
    r"(?P<ms>\d{1,12}(?:\.\d{1,9})?)\s+(?:[a-z_]{2,30}|\d{1,3})\s*$"
)
STACK = re.compile(r"\s*\S{1,120}\+0x[0-9a-f]{1,8}$")
RECLAIM_HEADER = re.compile(r"(?:TIME\(s\)\s+)?(?:UID\s+)?COMM\s+[PT]ID\s+LAT\(ms\)\s+PAGES(?:\s+FREE\(KB\))?\s*$")
RECLAIM_ROW = re.compile(
    rf"\s{{0,2}}{_SNOOP_TIME}(?P<comm>\S.{{0,26}}?)\s{{1,16}}(?P<pid>\d{{1,10}})\s+(?P<ms>\d{{1,12}}\.\d\d)\s+\d{{1,12}}(?:\s+\d{{1,15}})?\s*$"
)


def _snoop_parser(
    name: str, kind: str, header: re.Pattern[str], row: re.Pattern[str]
) -> Callable[[Source, Lines], Iterator[Record]]:
    def read(source: Source, lines: Lines) -> Iterator[Record]:
        """Yield the distributions of latencies by task and, if the rows have times, samples of seconds."""
        errors, durations = ParseErrors(source, name), Durations(source, name, Clock.SESSION)
        has_user = False
        for number, text in lines:
            match = row.match(text)
            if match and match["ms"]:
                order = int(match["order"]) if kind == COMPACTION else None
                seconds = float(match["time"] or 0.0)
                if match["time"]:
                    durations.see(seconds)
                comm = match["comm"].partition(" ")[2].strip() if has_user else match["comm"]
                event = KernelEvent(seconds, comm_of(comm), match["pid"], kind, "", number, text)
                durations.done(kind, event, float(match["ms"]) / 1000, order)
            elif header.match(text):
                has_user = bool(re.search(r"\bUID\b", text))
            elif text.strip() and not STACK.match(text):
                errors.note(number, text, f"a line that {name} does not print")
        yield from errors.problems()
        yield from durations.records()

    return read


COMPACTSNOOP = Parser(
    "compactsnoop", "compactsnoop (bcc)", _snoop_parser("compactsnoop", COMPACTION, COMPACT_HEADER, COMPACT_ROW),
    opens=COMPACT_HEADER, continues=any_of(COMPACT_HEADER, COMPACT_ROW, STACK, blank=True),
)  # fmt: skip
DRSNOOP = Parser(
    "drsnoop", "drsnoop (bcc)", _snoop_parser("drsnoop", RECLAIM, RECLAIM_HEADER, RECLAIM_ROW),
    opens=RECLAIM_HEADER, continues=any_of(RECLAIM_HEADER, RECLAIM_ROW, blank=True),
)  # fmt: skip


HISTOGRAMS = "bpftrace_histograms"
BPFTRACE_MAP = re.compile(r"@(?P<map>\w{0,60})(?:\[(?P<keys>[^\]]{0,120})\])?:\s*(?P<rest>.*)$")
_EDGE = r"(?:-?\d{1,18}[KMGTPE]?|\.\.\.)"
BUCKET = re.compile(rf"[\[(](?P<low>{_EDGE})(?:, (?P<high>{_EDGE}))?[\])]\s+(?P<count>\d{{1,18}}) \|[@ ]{{0,60}}\|\s*$")
VALUE = re.compile(
    r"(?:count (?P<count>\d{1,18}), average -?\d{1,18}, total (?P<total>\d{1,18})|(?P<value>\d{1,18}))\s*$"
)
ATTACHING = re.compile(r"Attaching \d{1,5} probes?\.\.\.$|(?:ERROR|WARNING|stdin:\d|Lost \d)|\^C$")
_UNITS = {
    f"{prefix}{word}": size for prefix, size in (("n", 1e-9), ("u", 1e-6), ("m", 1e-3)) for word in ("s", "sec", "secs")
}
_KINDS = (
    (COLLAPSE, re.compile("collapse")), (RECLAIM, re.compile("reclaim")), (COMPACTION, re.compile("compact")),
)  # fmt: skip
_POWERS = {letter: 1024**power for power, letter in enumerate("KMGTPE", 1)}
# A clause of a program: probes, an optional filter, and a body such as `@us[comm] = sum((nsecs - @start[tid]) / 1000)`.
_CLAUSE = re.compile(
    r"(?P<probes>\w{1,20}:[^{}/]{1,400})(?:/(?P<filter>[^/{}]{1,200})/\s*)?\{(?P<body>[^{}]{0,2000})\}"
)
_ASSIGNED = (
    r"@{}(?:\[\s*(?P<key>\w{{0,20}})[^\]]{{0,120}}\])?\s*=\s*(?P<function>count|sum|stats|hist|lhist)\("
    r"\s*(?P<of>[^;]{{0,200}})"
)
_START_FILTER = re.compile(r"@\w{0,60}\[[^\]]{1,60}\]\s*$")  # tests whether the begin event was seen
_ELAPSED = re.compile(r"\(?nsecs\s*-\s*@\w{0,60}(?:\[[^\]]{0,60}\])?\s*\)?(?:\s*/\s*(?P<by>1e\d|\d{1,10}))?")
_INTERVAL = re.compile(r"\binterval:(?P<unit>s|ms):(?P<count>\d{1,6})\s*\{\s*exit\(")
_TIMEOUT = re.compile(
    r"\btimeout(?:\s+-(?:[ks]\s*\S{1,12}|-\S{1,40})){0,4}\s+(\d{1,6})(s|m)?\s+(?:\S{0,60}/)?bpftrace\s"
)
_SLEEP = re.compile(r"-c\s*['\"]?sleep (\d{1,6})\b['\"]?")
_OTHER_PRINTS = re.compile(r"\b(?:print|clear|zero)\(|\s(?:-p|--pid)\s")
_PROBE = re.compile(
    r"(?:tracepoint:\w{1,30}|t:\w{1,30}|kprobe|kretprobe|k|kr|kfunc|kretfunc|fentry|fexit):(?P<name>\w{1,60})\s*$"
)
# Probes whose time belongs to one kind: those that both programs and kernel threads reach, and those of programs only.
_TIMED_PROBES = {
    COMPACTION: (frozenset({"mm_compaction_end"}), frozenset({"try_to_compact_pages"})),
    RECLAIM: (frozenset({"try_to_free_pages"}), frozenset({"mm_vmscan_direct_reclaim_end"})),
}
MAX_PROGRAM_CHARS = 4000


@dataclass(slots=True)
class _Map:
    """One key of a map: its buckets (low, high, count; an open end has the value of the other end), or its number."""

    line: int
    text: str
    map: str
    keys: str
    buckets: list[tuple[float, float, int]] = field(default_factory=list)
    count: int | None = None
    total: int | None = None

    def quantile_bucket(self, share: float) -> tuple[float, float]:
        """Return the edges of the bucket up to which this share of all values lies."""
        left = share * sum(count for _, _, count in self.buckets)
        filled = [bucket for bucket in self.buckets if bucket[2]]
        for low, high, count in filled:
            left -= count
            if left <= 0:
                return low, high
        return filled[-1][:2]

    @classmethod
    def begin(cls, number: int, start: re.Match[str]) -> _Map | None:
        """Return the map that a line begins; None if its value is not a number."""
        value = VALUE.match(start["rest"])
        if start["rest"] and not value:
            return None
        new = cls(number, start.string, start["map"], start["keys"] or "")
        if value:
            new.count = int(value["count"] or value["value"])
            new.total = int(value["total"] or value["value"])
        return new

    def add_bucket(self, bucket: re.Match[str]) -> None:
        low, high = _bucket_edge(bucket["low"]), _bucket_edge(bucket["high"] or bucket["low"])
        low, high = (high if low is None else low), (low if high is None else high)
        if low is not None and high is not None:
            self.buckets.append((low, high, int(bucket["count"])))

    @property
    def comm(self) -> str:
        return comm_of(self.keys.partition(",")[0])


class _Clause(NamedTuple):
    """How a map is filled: the probes, the function, its argument, and the first element of the key."""

    probes: str = ""
    function: str = ""
    argument: str = ""
    key: str = ""


class _Program:
    """The bpftrace program in a command; `is_cut_short` if ^C ended it."""

    def __init__(self, command: str, *, is_cut_short: bool = False) -> None:
        self.command, self.is_cut_short = command[:MAX_PROGRAM_CHARS], is_cut_short
        self._clauses = [(match["probes"], match["body"]) for match in _CLAUSE.finditer(self.command)]
        filters = (match["filter"] for match in _CLAUSE.finditer(self.command))
        self.is_whole = all(text is None or _START_FILTER.match(text.strip()) for text in filters)
        self._clause_by_map: dict[str, _Clause] = {}

    def seconds(self) -> float | None:
        """Return how long the program ran, if it ended by itself and printed its maps once."""
        if self.is_cut_short or _OTHER_PRINTS.search(self.command):
            return None
        if match := _INTERVAL.search(self.command):
            return int(match["count"]) * (1.0 if match["unit"] == "s" else 1e-3)
        if match := _TIMEOUT.search(self.command):
            return float(match[1]) * (60 if match[2] == "m" else 1)
        match = _SLEEP.search(self.command)
        return float(match[1]) if match else None

    def clause(self, name: str) -> _Clause:
        """Return the clause that fills a map; an empty one if there is none or several."""
        if name not in self._clause_by_map:
            pattern = re.compile(_ASSIGNED.format(re.escape(name)))
            matches = [(probes, match) for probes, body in self._clauses for match in pattern.finditer(body)]
            probes, match = matches[0] if len(matches) == 1 else ("", None)
            clause = _Clause(probes, match["function"], match["of"], match["key"] or "") if match else _Clause()
            self._clause_by_map[name] = clause
        return self._clause_by_map[name]

    def probe(self, name: str) -> str:
        """Return the kernel function or event that fills a map, or "" if several do."""
        match = _PROBE.match(self.clause(name).probes.strip())
        return match["name"] if match else ""

    def unit(self, name: str) -> float | None:
        """Return the seconds per unit of a map's values, from the computed expression, else from the map's name."""
        elapsed = _ELAPSED.match(self.clause(name).argument)
        units = {_UNITS[word] for word in name.lower().split("_") if word in _UNITS}
        if elapsed:
            return round(1e-9 * float(elapsed["by"] or 1), 12)
        return units.pop() if len(units) == 1 else None

    def kind(self, name: str) -> str | None:
        text = f"{name} {self.clause(name).probes or self.command}"
        return next((kind for kind, words in _KINDS if words.search(text)), None)


@with_errors(HISTOGRAMS)
def read_maps(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield the distribution of each histogram, and samples of seconds and events per second."""
    current: _Map | None = None
    by_map: dict[str, list[_Map]] = {}
    is_cut_short = False
    for number, text in lines:
        is_cut_short |= text.startswith("^C")
        if start := BPFTRACE_MAP.match(text):
            current = _Map.begin(number, start)
            if current:
                by_map.setdefault(current.map, []).append(current)
        elif (bucket := BUCKET.match(text)) and current is not None:
            current.add_bucket(bucket)
        elif text.strip() and not ATTACHING.match(text):
            errors.note(number, text, "a line that bpftrace does not print for a map")
    program, metrics = _Program(source.command, is_cut_short=is_cut_short), set[str]()
    for maps in by_map.values():
        for histogram in maps:
            yield from _distribution(histogram, program, source)
        for metric, (value, largest) in _rates(maps, program, errors).items():
            if metric not in metrics:  # two maps may count the same event
                metrics.add(metric)
                cite = source.cite(largest.line, largest.text)
                yield Sample("system", {metric: value}, cite, HISTOGRAMS, (), source.time)


def _bucket_edge(text: str) -> float | None:
    if text == "...":
        return None
    return float(text[:-1]) * _POWERS[text[-1]] if text[-1] in _POWERS else float(text)


def _distribution(histogram: _Map, program: _Program, source: Source) -> Iterator[Record]:
    size, kind = program.unit(histogram.map), program.kind(histogram.map)
    count = sum(count for _, _, count in histogram.buckets)
    if size is None or kind is None or not count:
        return
    comm = histogram.comm or "all tasks"
    purpose = BACKGROUND if KERNEL_THREAD.match(comm) else UNKNOWN
    labels = (("comm", comm), ("purpose", purpose), ("times", str(count)))
    parts = ((0.5, "median"), (0.99, "99 % within"), (1.0, "longest"))
    words = [
        f"{word} {format_seconds(low * size)} to {format_seconds(high * size)}"
        for s, word in parts
        for low, high in (histogram.quantile_bucket(s),)
    ]
    cite = source.cite(histogram.line, histogram.text)
    yield Fact(f"{kind}.spread", ", ".join(words), cite, labels)
    if kind == COMPACTION:
        yield Fact("compaction.longest", histogram.quantile_bucket(1.0)[0] * size, cite, labels)


def _rates(maps: list[_Map], program: _Program, errors: ParseErrors) -> dict[str, tuple[float, _Map]]:
    """Return by metric the rate of all keys of a map (seconds by purpose, or events, per second), and the largest key.

    Only if the program shows what was added up, by one probe, on the whole host, and for how long.
    """
    first, clause = maps[0], program.clause(maps[0].map)
    probe, size, kind = program.probe(first.map), program.unit(first.map), program.kind(first.map)
    counter = COUNTERS.get(probe) if clause.function in ("count", "hist", "lhist") else None
    mixed, programs_only = _TIMED_PROBES.get(kind or "", (frozenset(), frozenset()))
    is_time = size is not None and clause.function in ("sum", "stats") and probe in mixed | programs_only
    text = ""
    seconds = program.seconds()
    if not (is_time or counter):
        if kind is None or any(key.buckets for key in maps):
            return {}
        text = f"a count or sum that is not known: count {REQUEST}, or add up nsecs of compaction by comm"
    elif not seconds or len({key.keys for key in maps}) < len(maps):
        text = "what a map adds up is used where the command shows how long it ran: add interval:s:30 { exit(); }"
    elif not program.is_whole:
        text = "a count or sum of a part of the host: not used, count without a filter"
    elif is_time and probe in mixed and clause.key != "comm":
        text = "times of programs and of threads of the kernel in one: add [comm] to the map"
    if text or not seconds:
        errors.note(first.line, first.text, text)
        return {}
    largest = max(maps, key=lambda key: key.total or key.count or 0)
    if counter:
        counts = (key.count if key.count is not None else sum(count for _, _, count in key.buckets) for key in maps)
        return {f"{counter}:rate": (sum(counts) / seconds, largest)}
    sums: dict[str, float] = {}
    for key in maps:
        purpose = BACKGROUND if KERNEL_THREAD.match(key.comm) else UNKNOWN
        metric = f"node_{kind}_seconds_total.{purpose}:rate"
        sums[metric] = sums.get(metric, 0.0) + (key.total or 0) * (size or 0.0) / seconds
    return {metric: (value, largest) for metric, value in sums.items()}


def _confirm_map(ahead: list[str]) -> bool:
    """Return whether a number or the first bucket of a histogram follows, also after the ^C that ended the program."""
    rest = [text for text in ahead if text.strip() and not text.startswith("^C")]
    match = BPFTRACE_MAP.match(rest[0]) if rest else None
    return bool(match and (VALUE.match(match["rest"]) or any(BUCKET.match(text) for text in rest[1:2])))


BPFTRACE_HISTOGRAMS = Parser(
    HISTOGRAMS, "histograms, sums and counts of bpftrace", read_maps,
    opens=re.compile(r"\^C\s*$|@\w{0,60}(?:\[[^\]]{0,120}\])?:\s*(?:$|\d{1,18}\s*$|count \d{1,18}, average )"),
    continues=any_of(BPFTRACE_MAP, BUCKET, ATTACHING, blank=True),
    confirm=_confirm_map,
)  # fmt: skip
