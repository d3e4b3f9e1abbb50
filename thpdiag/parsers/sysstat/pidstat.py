"""pidstat (sysstat): CPU time, page faults and memory of tasks per interval.

    06:09:50      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
    06:09:51        0     17684 311996.00      0.00  278744  212732   0.86  python3

Units: VSZ and RSS in KiB, rates per second, percent of one CPU; -1.00 means not available. With --human numbers have
suffixes and percent signs.
Varies: one table per report, or with -h one table of all columns under `# Time`, where Time is the epoch in 10.1.5 and
with -H, else a clock time. The date stands in the first line only. UID is absent before 10.1.4 and USER with -U; with
-t the process is TGID and its threads are further rows (not used). A report whose header has the time of its rows, or
which is the only one under `# Time`, is an average since the start of the tasks.
Source: sysstat pidstat.c, 9.0 to 12.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from thpdiag.model import Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import MAX_COMM_CHARS, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of_first, parse_command, with_errors
from thpdiag.parsers._units import Column, Quantity, Readings, columns, parse_quantity
from thpdiag.parsers.sysstat._tables import AVERAGE_WORD, BANNER, CLOCK, Times, banner_facts

HEADER = re.compile(
    rf"(?:#\s*Time|{CLOCK})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s+(?:TID\s+)?"
    r"(?:%usr|%user|minflt/s|kB_rd/s|StkSize|cswch/s|threads|prio)\s"
)
OTHER_HEADER = re.compile(rf"(?:#\s*Time|{CLOCK}|{AVERAGE_WORD})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s")
ROW = re.compile(rf"\s*(?:{CLOCK}|\d{{9,10}}|{AVERAGE_WORD})\s+(?:\S+\s+)?(?:\d+|-)\s+(?:-|\d)")
AVERAGE = re.compile(rf"{AVERAGE_WORD}\s")


def _number(text: str) -> Quantity | None:
    return parse_quantity(text.rstrip("%"))


def _percent(text: str) -> Quantity | None:
    found = _number(text)
    return found and Quantity(found.value / 100, found.resolution / 100)


def _kib(text: str) -> Quantity | None:
    return parse_quantity(text.rstrip("%"), 1024)


TASK = {
    **columns(dict.fromkeys(("%usr", "%user"), "process_cpu_ratio.user"), _percent),
    **columns({"%system": "process_cpu_ratio.system", "%CPU": "process_cpu_ratio"}, _percent),
    **columns({"minflt/s": "process_minor_faults_total:rate", "majflt/s": "process_major_faults_total:rate"}, _number),
    **columns({"threads": "process_threads"}, _number),
    **columns({"VSZ": "process_virtual_memory_bytes", "RSS": "process_resident_memory_bytes"}, _kib),
}


@lru_cache(64)
def _read_columns(titles: tuple[str, ...]) -> Mapping[str, Column]:
    return {title: TASK[title] for title in titles if title in TASK}


def belongs(text: str) -> bool:
    """Empty lines stand between the reports."""
    return not text.strip() or bool(ROW.match(text)) or is_header(text)


def is_header(text: str) -> bool:
    """A header of the rows, or of the averages below them."""
    return ("PID" in text or "TGID" in text) and bool(HEADER.match(text) or OTHER_HEADER.match(text))


@dataclass(slots=True)
class Table:
    """Rows under one header."""

    source: Source
    odd: ParseErrors
    times: Times
    columns: tuple[str, ...] = ()

    def row(self, line: int, text: str) -> Iterator[Sample]:
        timed = self.times.row(text)
        cells = timed.cells.split(None, len(self.columns) - 1) if timed and self.columns else []
        if timed is None or len(cells) != len(self.columns):
            self.odd.note(line, text, "a row of pidstat that does not fit its header")
            return
        named = dict(zip(self.columns, cells, strict=True))
        pid = named.get("TGID") or named.get("PID") or ""
        if not pid.isdecimal():  # a thread's row: its process has its own
            return
        found, printed = Readings(), {title: cell for title, cell in named.items() if not cell.startswith("-1")}
        for title in found.take(_read_columns(self.columns), printed):
            self.odd.note(line, text, f"an impossible number in column {title} of pidstat: not used")
        if found.values:
            who = process_entity(pid, _comm(named.get("Command", "").strip()))
            cite, boot = self.source.cite(line, text), bool(timed.average)
            yield Sample("process", found.values, cite, "pidstat", who, timed.time, found.resolution, boot)


def _comm(command: str) -> str:
    """The task's name; with -l there is a command line, which may be longer than a name can be."""
    line = command.startswith(("/", "./", "../")) or " -" in command or len(command) > MAX_COMM_CHARS
    return task_name(command) if line and not command.startswith("kworker/") else command


@with_errors("pidstat")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample per row and process; averages at the end are left out."""
    table = Table(source, odd, Times(source=source))
    command = parse_command(source.command, "pidstat", with_value="pCGTe")
    held: list[Sample] = []  # rows of the first time under `# Time`: since boot if there is no second
    alone = command is None or command.interval() is None
    for line, text in lines:
        if banner := BANNER.match(text):
            table.times.date = banner[3]
            yield from banner_facts(source, line, text)
        elif is_header(text) and not AVERAGE.match(text):
            table.columns = tuple(table.times.header(text).split())
        elif text.strip() and not AVERAGE.match(text):
            for sample in table.row(line, text):
                if alone and not table.times.header_time and (not held or held[0].time == sample.time):
                    held.append(sample)
                    continue
                yield from held
                held, alone = [], False
                yield sample
    yield from (replace(sample, since_boot=True) for sample in held)


PARSER = Parser(
    "pidstat", "pidstat tables", read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"), continues=belongs,
    confirm=any_of_first(4, HEADER),
)  # fmt: skip
