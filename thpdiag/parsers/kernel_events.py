"""Events of the kernel in text: `trace-cmd report`, ftrace's own file (/sys/kernel/tracing/trace), `perf trace -e`.

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
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from thpdiag.bundle.member import LineDamage
from thpdiag.model import Clock, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._kernel_events import EVENTS, Durations, KernelEvent, comm_of
from thpdiag.parsers._lines import ParseErrors, numbered_lines, undecoded_problems

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


def read(source: Source, lines: Lines) -> Iterator[Record]:
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


def confirm(ahead: list[str]) -> bool:
    """Nothing foreign below; below ftrace's head a line of events, or none at all."""
    return all(map(belongs, ahead[:3]))


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


PARSER = Parser(
    NAME, "events of the kernel (trace-cmd report, ftrace, perf trace)", read, opens=OPENS, continues=belongs,
    confirm=confirm, priority=1,
)  # fmt: skip
BULK_PARSER = BulkParser(
    PARSER.name, PARSER.title, _claims, _read_bulk, opens=re.compile(rb"[ #cv]"), min_size=_MIN_BULK_BYTES
)
