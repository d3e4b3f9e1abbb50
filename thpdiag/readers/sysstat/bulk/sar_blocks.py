"""sar's text in bulk: reports are taken apart as blocks between empty lines, rows of a useful one all at once.

Most of `sar -A` are tables per interrupt, device and interface: they are stepped over. A block that is not regular in
every cell goes line by line through `sar_lines`, which is the one that decides what is odd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from thpdiag.bundle.transcript import clean
from thpdiag.model import Entity, Problem, ProblemKind, Record, Sample
from thpdiag.reader import Foreign, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.bulk.blocks import blocks
from thpdiag.readers.sysstat.bulk.cpu_columns import shares
from thpdiag.readers.sysstat.bulk.gather import Floats, Gather, Ints, Part
from thpdiag.readers.sysstat.bulk.grid import grid_of, seconds_of
from thpdiag.readers.sysstat.sar_lines import HEADER, NAME, OTHER_TOOL, SarText, belongs, is_header
from thpdiag.readers.sysstat.sar_tables import PERCENT, Table, cpu_entity
from thpdiag.readers.sysstat.tables import BANNER
from thpdiag.recordings.hosts import Hosts

MOST_FOREIGN = 500_000  # lines of other formats that are handed on
_REGULAR = re.compile(rb"\d\d:\d\d:\d\d(?: [AP]M)? {2,}\S")
_NO_ROW = re.compile(rb"^(?!\d)", re.MULTILINE)
_NEXT = b"\nLinux "
_INSIDE = (b"/s", b"%", b"RESTART", b"runq-sz")  # no row has one of these, but for odd names
_LARGEST = 2.0**60


def read_blocks(source: Source, chunks: Iterator[bytes]) -> Iterator[Record | Foreign]:
    """Facts and events as they come, then Problems, then a Series per entity, by host."""
    reading = _Blocks(source)
    for number, block in blocks(chunks):
        yield from reading.block(number, block)
    yield from reading.text.end()
    yield from reading.odd.problems()
    yield from reading.hosts.series()
    yield from reading.others()


@dataclass(slots=True)
class _Blocks:
    """What was read so far."""

    source: Source
    foreign: list[tuple[int, str]] = field(default_factory=list)
    beyond: tuple[int, int] = (0, 0)  # the first line that is not handed on, and how many are not
    banner: tuple[tuple[int, str], ...] = ()  # the first line of the last file, if it was not handed on
    elsewhere: bool = False  # in reports of another tool of sysstat
    odd: Oddities = field(init=False)
    text: SarText = field(init=False)
    hosts: Hosts[Gather] = field(init=False)

    def __post_init__(self) -> None:
        self.odd = Oddities(self.source, NAME)
        self.text = SarText(self.source, self.odd)
        self.hosts = Hosts(lambda: Gather(self.source.member, NAME))

    @property
    def gather(self) -> Gather:
        """What was gathered of the host that the last first line named."""
        return self.hosts.now

    def block(self, number: int, block: bytes) -> Iterator[Record]:
        """A header with its rows, or lines of whatever kind."""
        head, _, body = block.partition(b"\n")
        line = clean(head.decode("utf-8", "replace"))
        self.text.blank = True
        if OTHER_TOOL.match(line) or (self.elsewhere and not (HEADER.match(line) or BANNER.match(line))):
            self._elsewhere(_numbered(number, block))
            return
        self.elsewhere = False
        if is_header(line) and not any(word in body for word in _INSIDE) and not body.startswith(_NEXT[1:]):
            self.text.blank, self.banner = False, ()
            yield from self.text.header(number, line)
            body, _, banner = body.partition(_NEXT)  # no empty line stands before the next file
            if self.text.table is not None and body:
                yield from self._rows(self.text.table, number + 1, head, body)
            if banner:
                yield from self._lines(_numbered(number + 2 + body.count(b"\n"), _NEXT[1:] + banner))
            return
        yield from self._lines(_numbered(number, block))

    def _aside(self, lines: Iterable[tuple[int, str]]) -> None:
        """Lines of another format."""
        for number, text in lines:
            if len(self.foreign) < MOST_FOREIGN:
                self.foreign.append((number, text))
            else:
                self.beyond = (self.beyond[0] or number, self.beyond[1] + 1)

    def others(self) -> Iterator[Problem | Foreign]:
        """What is of other formats, and that it is not all of it."""
        if self.foreign:
            yield Foreign(tuple(self.foreign))
        if self.beyond[1]:
            text = f"more than {MOST_FOREIGN} lines of other formats beside reports of sar: the rest was not read"
            yield Problem(self.source.cite(self.beyond[0]), text, ProblemKind.LIMIT, NAME, self.beyond[1])

    def _lines(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        """Lines of sar, and stretches of others; a single one is a row that was cut, or a message to all terminals."""
        given = list(lines)
        other = next((place for place, (_, text) in enumerate(given) if OTHER_TOOL.match(text)), len(given))
        if other and other < len(given) and not self._ours(given[other - 1]):  # iostat's time line
            other -= 1
        for ours, stretch in groupby(given[:other], self._ours):
            some = list(stretch)
            if ours or len(some) == 1 < len(given):
                yield from self._read(some)
            else:
                self._aside(some)
                self.text.lost |= self.text.blank
        if other < len(given):
            self._elsewhere(given[other:])

    @staticmethod
    def _ours(line: tuple[int, str]) -> bool:
        return belongs(line[1]) or bool(BANNER.match(line[1]))

    def _elsewhere(self, lines: Iterable[tuple[int, str]]) -> None:
        """A report of another tool begins, or goes on."""
        self._aside(self.banner)
        self._aside(lines)
        self.banner, self.elsewhere, self.text.lost = (), True, True

    def _read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        for at, line in lines:
            self.banner = ((at, line),) if BANNER.match(line) else ()
            for record in self.text.line(at, line):
                if isinstance(record, Sample):
                    self.gather.rows.add(record)
                else:
                    self.hosts.named(record)
                    yield record

    def _rows(self, table: Table, number: int, head: bytes, body: bytes) -> Iterator[Record]:
        if table.columns[0] == "INTR":  # the sum is one row of hundreds
            for at, line in enumerate(body.split(b"\n"), number):
                if b" sum " in line:
                    yield from self._lines(_numbered(at, line))
            return
        other = _NO_ROW.search(body)  # averages, and the first line of the next day
        rows, rest = (body[: other.start() - 1], body[other.start() :]) if other else (body, b"")
        half = b"M " in head[8:12]
        grid = grid_of(rows, len(table.columns), half=half) if rows and _REGULAR.match(head) else None
        if grid is None or not self._regular(table, number, rows, grid, head):
            yield from self._lines(_numbered(number, body))
        elif rest:
            yield from self._lines(_numbered(number + len(grid), rest))

    def _regular(self, table: Table, number: int, rows: bytes, grid: Floats, head: bytes) -> bool:
        """Takes rows all at once; False if one of them needs a closer look."""
        found = shares(table, grid) if table.modes else _plain(table, grid)
        clock = self.text.times.clock
        first = rows[: rows.find(b"\n")] if b"\n" in rows else rows
        if found is None or clock is None or first[:11].rstrip() == head[:11].rstrip():
            return False
        values, keep = found
        seconds = clock.all_at(seconds_of(grid))
        lines = np.arange(number, number + len(grid), dtype=np.int64)
        starts, ends = _places(rows, self.gather.keep(rows))
        resolution = _resolution(table, first.split()[-len(table.columns) :], values)
        for place, entity in _entities(table, grid, keep):
            part = Part(
                {name: column[place] for name, column in values.items()},
                lines[place], seconds[place], starts[place], ends[place],
            )  # fmt: skip
            self.gather.part(entity, clock.clock, part, resolution)
        return True


def _numbered(number: int, block: bytes) -> Iterator[tuple[int, str]]:
    return enumerate((clean(line) for line in block.decode("utf-8", "replace").split("\n")), number)


def _plain(table: Table, grid: Floats) -> tuple[Mapping[str, Floats], NDArray[np.bool_]] | None:
    """The columns of a table without instances."""
    values = {m.name: grid[:, place + 3] * m.scale for place, metrics in table.metrics.items() for m in metrics}
    if any(bool((column > _LARGEST).any()) for column in values.values()):
        return None
    return values, np.ones(len(grid), np.bool_)


def _entities(table: Table, grid: Floats, keep: NDArray[np.bool_]) -> Iterator[tuple[Ints, Entity]]:
    """The rows of each entity."""
    if not table.modes:
        yield np.flatnonzero(keep), ()
        return
    cpus = grid[:, 3]
    for cpu in np.unique(cpus).tolist():
        place = np.flatnonzero((cpus == cpu) & keep)
        if len(place):
            yield place, cpu_entity(str(int(cpu)))[1]


def _places(rows: bytes, begin: int) -> tuple[Ints, Ints]:
    """Where each row begins and ends in the text that is kept."""
    breaks = np.flatnonzero(np.frombuffer(rows, np.uint8) == 10).astype(np.int64)
    if begin < 0:
        nowhere = np.zeros(len(breaks) + 1, np.int64)
        return nowhere, nowhere
    starts = np.concatenate([[0], breaks + 1]) + begin
    ends = np.concatenate([breaks, [len(rows)]]) + begin
    return starts, ends


def _resolution(table: Table, cells: list[bytes], values: Mapping[str, Floats]) -> Mapping[str, float]:
    """The quantum of each metric, by the decimals of the first row."""
    quanta = [10.0 ** -len(cell.replace(b",", b".").partition(b".")[2]) for cell in cells]
    if table.modes:
        return dict.fromkeys(values, PERCENT * max(quanta[place] for place in table.modes))
    return {m.name: m.scale * quanta[place] for place, metrics in table.metrics.items() for m in metrics}
