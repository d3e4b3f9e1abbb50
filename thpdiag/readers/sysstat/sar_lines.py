"""sar's text line by line: headers, rows, restarts, averages. The reader is `sar`; long files go another way to it.

Each report of a file begins the day anew: every table has a clock of its own, which starts at the date of the first
line and counts midnights. A row is told from a header by its numbers, so no word of another language matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Event, Record, Sample
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.sar_tables import Table, table
from thpdiag.readers.sysstat.tables import AVERAGE, BANNER, CLOCK, Times, banner_facts

NAME = "sar"
RESTART = re.compile(rf"{CLOCK}\s+LINUX RESTART(?:\s+\((\d{{1,5}}) CPUs?\))?\s*$")
COMMENT = re.compile(rf"{CLOCK}\s+COM\s")
# first columns of every report of 8.0 to 12.7, so that a table in the middle of a mail is known too
FIRST = (
    r"(?:CPU\s+(?:%us(?:e)?r\s+%nice\s+%sys(?:tem)?\s+%iowait\s+%(?:steal|idle)|MHz|total/s|wghMHz)|pgpgin/s|kbmemfree"
    r"|kbswpfree|frmpg/s|pswpin/s|proc/s|cswch/s|runq-sz|kbhugfree|INTR\s+(?:intr/s|all)|IFACE\s+rx|DEV\s+tps"
    r"|TTY\s+rcvin/s|tps\s+rtps|totsck|tcp6sck|dentunusd|%s(?:cpu|io|mem)-10|(?:FILESYSTEM\s+)?MBfsfree"
    r"|s?call/s|irec6?/s|ihdrer|imsg6?/s|ierr6?/s|active/s|atmptf/s|idgm6?/s|(?:FAN|TEMP|IN)\s+\S|BUS\s+idvend)"
)
HEADER = re.compile(rf"{CLOCK}\s+{FIRST}")
OTHER_TOOL = re.compile(  # pidstat's, mpstat's and iostat's headers: rows below them look like sar's
    rf"(?:{CLOCK}|#\s*Time)\s+(?:(?:UID\s+|USER\s+)?(?:PID|TGID)\s|NODE\s|CPU\s+intr/s"
    r"|CPU\s+%us(?:e)?r\s+%nice\s+%sys\s+%iowait\s+%irq\s)|avg-cpu:\s"
)
_ANY_HEADER = re.compile(rf"({CLOCK})\s+(?=\D*(?:/s|%|kb|sck|-sz))(?!.*\s-?\d[\d.,]*[KMGTP%]?(?:\s|$))\S")
ROW = re.compile(rf"{CLOCK}\s+(?:\S.{{0,200}}\s)?-?\d[\d.,]*[KMGTP%]?(?:\s|$)")


def belongs(text: str) -> bool:
    """Empty lines stand between the reports."""
    if not text.strip() or any(p.match(text) for p in (ROW, RESTART, AVERAGE, HEADER, COMMENT)):
        return True
    return bool(_ANY_HEADER.match(text)) and not OTHER_TOOL.match(text)


def is_header(text: str) -> bool:
    return bool(HEADER.match(text) or (_ANY_HEADER.match(text) and not OTHER_TOOL.match(text)))


@dataclass(slots=True)
class SarText:
    """Reads lines in order.

    `date` and `machine` are those of the first line, `table` and `times` belong to the last header.
    """

    source: Source
    odd: Oddities
    date: str = ""
    machine: str = ""
    table: Table | None = None
    times: Times = field(default_factory=Times)
    _all: dict[tuple[str, ...], Times] = field(default_factory=dict)
    _held: list[tuple[int, str, str]] = field(default_factory=list)  # restarts, until a header tells the report
    _restarts: set[object] = field(default_factory=set)
    blank: bool = True  # the line before was empty
    lost: bool = False  # the header of the rows was not understood

    def line(self, number: int, text: str) -> Iterator[Record]:
        """What a line says."""
        if banner := BANNER.match(text):
            yield from self.end()
            self.date, self.machine = banner[3], banner[4] or ""
            self._all, self.times = {}, Times(self.date, source=self.source)
            self.table, self.lost = None, False
            yield from banner_facts(self.source, number, text)
        elif restart := RESTART.match(text):
            self._held.append((number, text, restart[1] or ""))
        elif is_header(text):
            yield from self.header(number, text)
        elif not belongs(text):
            self.odd.note(number, text, "a line that is none of sar's")
            self.lost |= self.blank  # where a header should be
        elif text.strip() and not AVERAGE.match(text) and not COMMENT.match(text):
            yield from self._row(number, text)
        self.blank = not text.strip()

    def header(self, number: int, text: str) -> Iterator[Event]:
        """Begins a report or goes on with one."""
        columns = tuple(Times().header(text).split())
        self.times = self._all.setdefault(columns, Times(self.date, source=self.source))
        self.table, self.lost = table(columns, self.machine), False
        yield from self.end()
        self.times.header(text)
        if self.times.undated and len(self._all) == 1:
            self.odd.note(number, text, f"the date {self.date} may be two days: the times are without a date")

    def end(self) -> Iterator[Event]:
        """The restarts that were seen since the last header; every report tells them again."""
        for number, text, cpus in self._held:
            timed = self.times.row(text)
            time = timed.time if timed else None
            if time not in self._restarts:
                self._restarts.add(time)
                yield Event("restart", self.source.cite(number, text), time, {"cpus": cpus} if cpus else {})
        self._held = []

    def _row(self, number: int, text: str) -> Iterator[Sample]:
        table = self.table
        if self.lost:
            self.odd.note(number, text, "a row without its header")
            return
        if table is None or (table.columns[0] == "INTR" and " sum " not in text):  # one of hundreds
            return
        timed = self.times.row(text)
        found = table.row(timed.cells.split()) if timed else "a line that is none of sar's"
        if isinstance(found, str):
            self.odd.note(number, text, found)
        elif found is not None and timed is not None:
            cite, boot = self.source.cite(number, text), bool(timed.average)
            yield Sample(found.kind, found.values, cite, NAME, found.entity, timed.time, found.resolution, boot)
