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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import Quantity, quantity
from thpdiag.readers.elements.tasks import COMM, entity, name_of
from thpdiag.readers.elements.typed_command import typed
from thpdiag.readers.sysstat.tables import AVERAGE_WORD, BANNER, CLOCK, Times, banner_facts

HEADER = re.compile(
    rf"(?:#\s*Time|{CLOCK})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s+(?:TID\s+)?"
    r"(?:%usr|%user|minflt/s|kB_rd/s|StkSize|cswch/s|threads|prio)\s"
)
OTHER_HEADER = re.compile(rf"(?:#\s*Time|{CLOCK}|{AVERAGE_WORD})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s")
ROW = re.compile(rf"\s*(?:{CLOCK}|\d{{9,10}}|{AVERAGE_WORD})\s+(?:\S+\s+)?(?:\d+|-)\s+(?:-|\d)")
AVERAGE = re.compile(rf"{AVERAGE_WORD}\s")
RATIOS = {
    "%usr": "process_cpu_ratio.user",
    "%user": "process_cpu_ratio.user",
    "%system": "process_cpu_ratio.system",
    "%CPU": "process_cpu_ratio",
}
RATES = {
    "minflt/s": "process_minor_faults_total:rate",
    "majflt/s": "process_major_faults_total:rate",
    "threads": "process_threads",
}
KIB = {"VSZ": "process_virtual_memory_bytes", "RSS": "process_resident_memory_bytes"}
HUNDREDTH = 100


@lru_cache(64)
def _metrics(columns: tuple[str, ...]) -> tuple[tuple[int, str, str], ...]:
    """Place, word and metric of the columns that are of use."""
    named = {**RATIOS, **RATES, **KIB}
    return tuple((place, column, named[column]) for place, column in enumerate(columns) if column in named)


def belongs(text: str) -> bool:
    """Empty lines stand between the reports."""
    return not text.strip() or bool(ROW.match(text)) or is_header(text)


def is_header(text: str) -> bool:
    """A header of the rows, or of the averages below them."""
    return ("PID" in text or "TGID" in text) and bool(HEADER.match(text) or OTHER_HEADER.match(text))


def confirm(lines: list[str]) -> bool:
    return any(HEADER.match(text) for text in lines[:4])


@dataclass(slots=True)
class Table:
    """Rows under one header."""

    source: Source
    odd: Oddities
    times: Times
    columns: tuple[str, ...] = ()

    def row(self, line: int, text: str) -> Iterator[Sample]:
        timed = self.times.row(text)
        cells = timed.cells.split(None, len(self.columns) - 1) if timed and self.columns else []
        if timed is None or len(cells) != len(self.columns):
            self.odd.note(line, text, "a row of pidstat that does not fit its header")
            return
        pid = self._cell(cells, "TGID") or self._cell(cells, "PID")
        if not pid.isdecimal():  # a thread's row: its process has its own
            return
        values, resolution = self._values(line, text, cells)
        if values:
            who = entity(pid, _comm(self._cell(cells, "Command").strip()))
            cite = self.source.cite(line, text)
            boot = bool(timed.average)
            yield Sample("process", values, cite, "pidstat", who, timed.time, resolution, boot)

    def _cell(self, cells: Sequence[str], column: str) -> str:
        return cells[self.columns.index(column)] if column in self.columns else ""

    def _values(self, line: int, text: str, cells: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
        values: dict[str, float] = {}
        resolution: dict[str, float] = {}
        for place, column, name in _metrics(self.columns):
            cell = cells[place]
            if cell.startswith("-1"):
                continue
            found = self._quantity(column, cell)
            if found is None:
                self.odd.note(line, text, f"an impossible number in column {column} of pidstat: not used")
                continue
            values[name], resolution[name] = found.value, found.resolution
        return values, resolution

    @staticmethod
    def _quantity(column: str, cell: str) -> Quantity | None:
        found = quantity(cell.rstrip("%"), 1024 if column in KIB else 1)
        if found and column in RATIOS:
            return Quantity(found.value / HUNDREDTH, found.resolution / HUNDREDTH)
        return found


def _comm(command: str) -> str:
    """The task's name; with -l there is a command line, which may be longer than a name can be."""
    line = command.startswith(("/", "./", "../")) or " -" in command or len(command) > COMM
    return name_of(command) if line and not command.startswith("kworker/") else command


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample per row and process; averages at the end are left out."""
    odd = Oddities(source, "pidstat")
    table = Table(source, odd, Times(source=source))
    command = typed(source.command, "pidstat", with_value="pCGTe")
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
    yield from odd.problems()


READER = Reader(
    "pidstat",
    "pidstat tables",
    read,
    opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"),
    continues=belongs,
    confirm=confirm,
)
