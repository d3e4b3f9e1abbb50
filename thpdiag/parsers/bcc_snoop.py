"""compactsnoop and drsnoop of bcc: each run of compaction, each direct reclaim, with its latency.

    TIME(s)        COMM           PID    NODE ZONE         ORDER MODE      LAT(ms)           STATUS
    0.000000000    store          23685  0    ZONE_NORMAL  9     ASYNC       3.925          success

    COMM           PID     LAT(ms) PAGES
    summond        17678      0.19   143

Units: milliseconds; TIME counts seconds from the first row and is there with -T only. Order -1 is compaction on command
(vm.compact_memory). With -e columns of the zone stand before the latency, with -K the kernel's stack below a row, with
-U the user, with -v free memory. A name has 14 characters and may have blanks.
Source: bcc tools/compactsnoop.py, tools/drsnoop.py (0.26, with their examples).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from thpdiag.model import Clock, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._kernel_events import COMPACTION, RECLAIM, Durations, KernelEvent, comm_of
from thpdiag.parsers._lines import ParseErrors, any_of

_TIME = r"(?:(?P<time>\d{1,9}\.\d{9})\s+)?"
_WHO = r"(?P<comm>\S.{0,15}?)\s{1,16}(?P<pid>\d{1,10})\s"
COMPACT_HEADER = re.compile(r"(?:TIME\(s\)\s+)?COMM\s+PID\s+NODE\s+ZONE\s+ORDER\s+MODE\s.*LAT\(ms\)\s+STATUS\s*$")
COMPACT_ROW = re.compile(
    rf"\s{{0,2}}{_TIME}{_WHO}+\d{{1,4}}\s+\S{{1,20}}\s+(?P<order>-?\d{{1,2}})\s+A?SYNC\s+(?:[\d.-]{{1,20}}\s+){{0,5}}?"
    r"(?P<ms>\d{1,12}(?:\.\d{1,9})?)\s+(?:[a-z_]{2,30}|\d{1,3})\s*$"
)
STACK = re.compile(r"\s*\S{1,120}\+0x[0-9a-f]{1,8}$")
RECLAIM_HEADER = re.compile(r"(?:TIME\(s\)\s+)?(?:UID\s+)?COMM\s+[PT]ID\s+LAT\(ms\)\s+PAGES(?:\s+FREE\(KB\))?\s*$")
RECLAIM_ROW = re.compile(
    rf"\s{{0,2}}{_TIME}(?:\d{{1,10}}\s+)??{_WHO}+(?P<ms>\d{{1,12}}\.\d\d)\s+\d{{1,12}}(?:\s+\d{{1,15}})?\s*$"
)


def _reader(
    name: str, kind: str, header: re.Pattern[str], row: re.Pattern[str]
) -> Callable[[Source, Lines], Iterator[Record]]:
    def read(source: Source, lines: Lines) -> Iterator[Record]:
        """The spread of the latencies, by task; with times the seconds so far too."""
        errors, durations = ParseErrors(source, name), Durations(source, name, Clock.SESSION)
        for number, text in lines:
            found = row.match(text)
            if found and found["ms"]:
                order = int(found["order"]) if kind == COMPACTION else None
                seconds = float(found["time"] or 0.0)
                if found["time"]:
                    durations.see(seconds)
                event = KernelEvent(seconds, comm_of(found["comm"]), found["pid"], kind, "", number, text)
                durations.done(kind, event, float(found["ms"]) / 1000, order)
            elif text.strip() and not header.match(text) and not STACK.match(text):
                errors.note(number, text, f"a line that {name} does not print")
        yield from errors.problems()
        yield from durations.records()

    return read


COMPACTSNOOP = Parser(
    "compactsnoop", "compactsnoop (bcc)", _reader("compactsnoop", COMPACTION, COMPACT_HEADER, COMPACT_ROW),
    opens=COMPACT_HEADER, continues=any_of(COMPACT_HEADER, COMPACT_ROW, STACK, blank=True),
)  # fmt: skip
DRSNOOP = Parser(
    "drsnoop", "drsnoop (bcc)", _reader("drsnoop", RECLAIM, RECLAIM_HEADER, RECLAIM_ROW),
    opens=RECLAIM_HEADER, continues=any_of(RECLAIM_HEADER, RECLAIM_ROW, blank=True),
)  # fmt: skip
