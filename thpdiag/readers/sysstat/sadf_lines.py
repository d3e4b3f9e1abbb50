"""sadf's line forms: -d for databases, -p for tools such as awk. The reader is `sadf`.

A header of -d names the columns of the rows below it; with -h all tables stand in one row, where `[...]` ends columns
that repeat for each CPU or device. -p has one value per line; values of one time and item that follow each other are
one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Fact, Record, Sample
from thpdiag.readers.sysstat.sadf_rows import Rows, moment

D_HEADER = re.compile(r"# hostname;interval;timestamp(?:;|$)")
_STAMP = r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z+\-\d]{1,6})?|\d{9,10})"
D_ROW = re.compile(rf"([^;\s]{{1,255}});(-?\d{{1,9}});({_STAMP});(.+)")
P_ROW = re.compile(rf"([^;\s]{{1,255}})\t(-?\d{{1,9}})\t({_STAMP})\t(\S{{1,255}})\t(\S{{1,40}})\t(-?[\d.,]+)\s*$")
P_RESTART = re.compile(rf"([^;\s]{{1,255}})\t-1\t({_STAMP})\tLINUX-RESTART(?:\s+\((\d{{1,5}}) CPUs?\))?\s*$")
_RESTART = re.compile(r"LINUX-RESTART(?:\s+\((\d{1,5}) CPUs?\))?\s*$")
_FIRST = frozenset(
    ("pgpgin/s", "kbmemfree", "kbswpfree", "runq-sz", "pswpin/s", "proc/s", "%user", "%usr", "all", "intr/s")
)
_INSTANCE = frozenset(("CPU", "INTR", "DEV", "IFACE", "TTY"))
MOST = 64  # values of one row; no table has as many
_CPU = re.compile(r"cpu(\d{1,5})$")


@dataclass(slots=True)
class Group:
    """Values of -p that are one row."""

    at: tuple[int, str]
    stamp: str
    item: str
    columns: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)

    def takes(self, stamp: str, item: str, metric: str) -> bool:
        fresh = metric in _FIRST or (metric.startswith("%s") and metric.endswith("-10")) or metric in self.columns
        return not fresh and len(self.columns) < MOST and (stamp, item) == (self.stamp, self.item)

    def row(self) -> tuple[Sequence[str], Sequence[str]]:
        """Columns and cells as -d would print them."""
        if self.item == "-":
            return self.columns, self.cells
        cpu = _CPU.match(self.item)
        kind = "INTR" if self.columns[0] in ("all", "intr/s") else "CPU"
        return [kind, *self.columns], [cpu[1] if cpu else self.item, *self.cells]


@dataclass(slots=True)
class SadfLines:
    """Reads lines in order."""

    rows: Rows
    host: str = ""
    _columns: Sequence[str] = ()
    _group: Group | None = None

    def line(self, number: int, text: str) -> Iterator[Record]:
        """What a line says."""
        if D_HEADER.match(text):
            self._columns = text.rstrip().split(";")[3:]
        elif found := D_ROW.match(text):
            yield from self._named(number, text, found[1])
            yield from self._d_row(number, text, found)
        elif found := P_ROW.match(text):
            yield from self._named(number, text, found[1])
            yield from self._p_row(number, text, found)
        elif found := P_RESTART.match(text):
            yield from self.rows.restart((number, text), moment(found[2]), found[3] or "")
        elif text.strip():
            self.rows.odd.note(number, text, "a line that is none of sadf's")

    def end(self) -> Iterator[Sample]:
        """The row that -p left open."""
        if self._group is not None:
            group, self._group = self._group, None
            yield from self.rows.row(group.at, moment(group.stamp), *group.row())

    def _named(self, number: int, text: str, host: str) -> Iterator[Record]:
        if host != self.host:
            yield from self.end()
            self.host = host
            yield Fact("host.name", host, self.rows.source.cite(number, text))

    def _d_row(self, number: int, text: str, found: re.Match[str]) -> Iterator[Record]:
        at, time = (number, text), moment(found[3])
        if restart := _RESTART.match(found[4]):
            yield from self.rows.restart(at, time, restart[1] or "")
        elif not found[4].startswith("COM ") or ";" in found[4]:
            cells = found[4].rstrip().split(";")
            if not self._columns:
                self.rows.odd.note(number, text, "a row of sadf without its header")
            for columns, part in _tables(self._columns, cells):
                if part is None:
                    self.rows.odd.note(number, text, "a row with other columns than its header")
                else:
                    yield from self.rows.row(at, time, columns, part)

    def _p_row(self, number: int, text: str, found: re.Match[str]) -> Iterator[Sample]:
        _, _, stamp, item, metric, cell = found.groups()
        if self._group is None or not self._group.takes(stamp, item, metric):
            yield from self.end()
            self._group = Group((number, text), stamp, item)
        self._group.columns.append(metric)
        self._group.cells.append(cell)


def _tables(columns: Sequence[str], cells: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str] | None]]:
    """The tables of a row: one, or with -h all; cells of None do not fit their columns."""
    if tuple(columns) == ("INTR", "CPU*"):  # `all`, and each CPU if they were asked for
        yield ("INTR", "all"), cells[:2]
        return
    repeating = [place for place, column in enumerate(columns) if column.endswith("[...]")]
    if not repeating:
        yield columns, cells if len(cells) == len(columns) else None
        return
    end = repeating[0] + 1
    begin = max((p for p in range(end) if columns[p] in _INSTANCE), default=0)
    width, others = end - begin, len(columns) - (end - begin)
    times, left = divmod(len(cells) - others, width)
    if len(repeating) > 1 or left or times < 1:  # several that repeat: which cell is whose cannot be told
        yield columns, None
        return
    group = [column.removesuffix("[...]") for column in columns[begin:end]]
    yield columns[:begin], cells[:begin]
    for turn in range(times):
        yield group, cells[begin + turn * width : begin + (turn + 1) * width]
    yield columns[end:], cells[begin + times * width :]
