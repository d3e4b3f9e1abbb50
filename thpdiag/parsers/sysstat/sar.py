"""sar (sysstat): CPU time, paging, memory, swap, load and pressure of a host over hours to weeks.

    Linux 2.6.32-431.el6.x86_64 (web1)  11/20/2026  _x86_64_  (8 CPU)

    12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
    12:10:01 AM     all      2.50      0.00     41.20      0.31      0.00     55.99

Units: percent, KiB, per second (see `_tables`); a row stands for the interval that ends at its time.
Varies: columns by version, so the header decides; dates, times and decimal commas by locale; from a file each report
comes whole, live every sample prints all headers again. A row has no date. `LINUX RESTART` rows are events; averages at
the end are left out, so are tables per device, interface and interrupt.
Source: sysstat sar.c, pr_stats.c, 8.0 to 12.7.

Each report of a file begins the day anew: every table has a clock of its own, which starts at the date of the first
line and counts midnights. A row is told from a header by its numbers, so no word of another language matters.
Of a long file the blocks between empty lines whose rows are nothing but a time and plain numbers go through numpy at
once, those of one table together, a Series per table and entity over all days; every other line takes the way of a
pasted one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from thpdiag.detect.transcript import clean
from thpdiag.model import Clock, Entity, Event, Problem, ProblemKind, Record, Sample, Series, Subject
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._cpu import MAX_CPU_SUM
from thpdiag.parsers._lines import ParseErrors, any_of_first, with_errors
from thpdiag.parsers._table import Floats, HostSeries, Ints, SeriesBuilder, join_series
from thpdiag.parsers._time import DayClock
from thpdiag.parsers._units import MAX_QUANTITY
from thpdiag.parsers.sysstat._tables import (
    AVERAGE,
    BANNER,
    CLOCK,
    PERCENT,
    Table,
    Times,
    banner_facts,
    cpu_entity,
    table_of,
)

MAX_TEXT_BYTES = 64 << 20  # bytes of rows that are kept for citations
Chosen = tuple[Mapping[str, Floats], NDArray[np.bool_]]  # columns by metric, and which of their rows count


@dataclass(slots=True)
class SarColumns:
    """The rows of one host in reading order."""

    member: str
    reader: str
    rows: SeriesBuilder = field(default_factory=SeriesBuilder)
    _parts: dict[tuple[Entity, Clock, tuple[str, ...]], list[Series]] = field(default_factory=dict)
    _text: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add_rows(self, table: Table, blocks: list[tuple[int, bytes]], clock: DayClock, *, half: bool) -> bool:
        """Takes the rows below headers with the number of the first of each block, or none if one of them is odd."""
        rows = b"\n".join(block for _, block in blocks)
        grid = grid_of(rows, table, half=half)
        chosen = None if grid is None else (_cpu_columns if table.modes else _plain_columns)(table, grid[:, 3:])
        if grid is None or chosen is None:
            return False
        values, keep = chosen
        seconds = clock.all_at(grid[:, 0] * 3600 + grid[:, 1] * 60 + grid[:, 2])
        lines = np.array([line for first, block in blocks for line in range(first, first + block.count(b"\n") + 1)])
        starts, ends = self._places(rows)
        resolution = _resolution(table, rows.partition(b"\n")[0].split()[-len(table.columns) :], values)
        for at, (kind, entity) in _subjects(table, grid[:, 3], keep):
            part = {name: column[at] for name, column in values.items()}
            series = Series(
                kind, part, self.member, lines[at], self.reader, entity, seconds[at], clock.clock, resolution,
                None, b"", starts[at], ends[at],
            )  # fmt: skip
            self._parts.setdefault((entity, clock.clock, tuple(values)), []).append(series)
        return True

    def _places(self, rows: bytes) -> tuple[Ints, Ints]:
        """Where each row begins and ends in the text that is kept for citations; nowhere if it is too much."""
        breaks = np.flatnonzero(np.frombuffer(rows, np.uint8) == 10).astype(np.int64)
        if self._size + len(rows) > MAX_TEXT_BYTES:
            nowhere = np.zeros(len(breaks) + 1, np.int64)
            return nowhere, nowhere
        begin, self._size = self._size, self._size + len(rows)
        self._text.append(rows)
        return np.concatenate([[0], breaks + 1]) + begin, np.concatenate([breaks, [len(rows)]]) + begin

    def series(self) -> Iterator[Series]:
        """One Series per table, entity and clock."""
        text = b"".join(self._text)
        yield from (replace(join_series(parts), text=text) for parts in self._parts.values())
        yield from self.rows.series()


def grid_of(rows: bytes, table: Table, *, half: bool) -> Floats | None:
    """The rows as numbers: hour, minute, second, cells; the one of all CPUs or interrupts is -1.

    None unless every cell is a plain number.
    """
    if not _begin_with_times(rows):
        return None
    text = rows
    if half:
        text = text.replace(b" AM ", b":0 ").replace(b" PM ", b":1 ")
    if b"-" in text or (b"," in text and b"." in text):
        return None
    whole = b" sum " if table.columns[0] == "INTR" else b" all "
    text = text.replace(b",", b".").replace(b":", b" ").replace(whole, b" -1 ")
    if text.translate(None, b"0123456789. \n-"):
        return None
    count, width = rows.count(b"\n") + 1, len(table.columns) + 3 + half
    if not _has_even_rows(text, count, width):
        return None
    grid = np.fromstring(text, sep=" ").reshape(count, width)
    if half:
        grid[:, 0] = grid[:, 0] % 12 + 12 * grid[:, 3]
        grid = np.delete(grid, 3, axis=1)
    return grid if (grid[:, :3] < (24, 60, 61)).all() else None


def _begin_with_times(rows: bytes) -> bool:
    """Whether each row begins with a time, dd:dd:dd, and has no other colon."""
    letters = np.frombuffer(rows + b"\n", np.uint8)
    ends = np.flatnonzero(letters == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if (ends - starts < 9).any() or rows.count(b":") != 2 * len(starts):
        return False
    times = letters[starts[:, None] + np.arange(8)]
    digits = times[:, [0, 1, 3, 4, 6, 7]]
    return bool((times[:, [2, 5]] == ord(":")).all() and ((digits >= ord("0")) & (digits <= ord("9"))).all())


def _has_even_rows(text: bytes, count: int, width: int) -> bool:
    """Whether each row has that many cells, and no cell more than one dot, with digits around it."""
    letters = np.frombuffer(b" " + text + b"\n", np.uint8)
    blank = letters <= 32
    cells = np.cumsum(blank[:-1] & ~blank[1:], dtype=np.int32)
    dots = np.flatnonzero(letters == ord("."))
    if (letters[dots - 1] < ord("0")).any() or (letters[dots + 1] < ord("0")).any():
        return False
    if (np.diff(cells[dots - 1]) == 0).any():
        return False
    counts = np.diff(cells[np.flatnonzero(letters == 10) - 1], prepend=0)
    return len(counts) == count and bool((counts == width).all())


def _cpu_columns(table: Table, cells: Floats) -> Chosen | None:
    """`cpu_ratio.*` of all rows and which of them count; None if a row is implausible and needs a word."""
    parts = {mode: cells[:, place] * PERCENT for place, mode in table.modes.items()}
    sums, cpus = sum(parts.values()), cells[:, 0]
    offline = (sums == 0) & (cpus >= 0)
    good = (sums > 0) & (sums <= MAX_CPU_SUM) | offline
    if not good.all() or (cpus != np.floor(cpus)).any() or (cpus > 99_999).any():
        return None
    return table.ratios({mode: np.minimum(column, 1.0) for mode, column in parts.items()}), ~offline


def _plain_columns(table: Table, cells: Floats) -> Chosen | None:
    """The columns of a table without instances."""
    values = {m.name: cells[:, place] * m.scale for place, metrics in table.metrics.items() for m in metrics}
    if any(bool((column > MAX_QUANTITY).any()) for column in values.values()):
        return None
    return values, np.ones(len(cells), np.bool_)


def _subjects(table: Table, cpus: Floats, keep: NDArray[np.bool_]) -> Iterator[tuple[Ints, Subject]]:
    """The rows of each entity."""
    if not table.modes:
        yield np.flatnonzero(keep), ("system", ())
        return
    for cpu in np.unique(cpus).tolist():
        place = np.flatnonzero((cpus == cpu) & keep)
        if len(place):
            yield place, cpu_entity(str(int(cpu)))


def _resolution(table: Table, cells: list[bytes], values: Mapping[str, Floats]) -> Mapping[str, float]:
    """The quantum of each metric, by the decimals of the first row."""
    quanta = [10.0 ** -len(cell.replace(b",", b".").partition(b".")[2]) for cell in cells]
    if table.modes:
        return dict.fromkeys(values, PERCENT * max(quanta[place] for place in table.modes))
    return {m.name: m.scale * quanta[place] for place, metrics in table.metrics.items() for m in metrics}


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
_ANY_HEADER = re.compile(rf"({CLOCK})\s++(?=\D*(?:/s|%|kb|sck|-sz))(?!.*\s-?\d[\d.,]*[KMGTP%]?(?:\s|$))\S")
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
    odd: ParseErrors
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
            self.table, self.lost = None, True  # until a header comes
            yield from banner_facts(self.source, number, text)
        elif restart := RESTART.match(text):
            self._held.append((number, text, restart[1] or ""))
        elif is_header(text):
            yield from self.header(number, text)
        elif not belongs(text):
            self.odd.note(number, text, "not a line of sar")
            self.lost |= self.blank  # where a header should be
        elif text.strip() and not AVERAGE.match(text) and not COMMENT.match(text):
            yield from self._row(number, text)
        self.blank = not text.strip()

    def header(self, number: int, text: str) -> Iterator[Event]:
        """Begins a report or goes on with one."""
        columns = tuple(Times().header(text).split())
        self.times = self._all.setdefault(columns, Times(self.date, source=self.source))
        self.table = table_of(columns, self.machine)
        # No column is a number: this header is damaged, and not one of the tables that are left out.
        self.lost = self.table is None and any(name[0].isdigit() for name in columns)
        yield from self.end()
        self.times.header(text)
        if self.times.is_without_day and len(self._all) == 1:
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
        found = table.row(timed.cells.split()) if timed else "not a line of sar"
        if isinstance(found, str):
            self.odd.note(number, text, found)
        elif found is not None and timed is not None:
            cite, boot = self.source.cite(number, text), bool(timed.average)
            yield Sample(found.kind, found.values, cite, NAME, found.entity, timed.time, found.resolution, boot)


MAX_FOREIGN_LINES = 500_000  # lines of other formats that are handed on
MAX_HELD_BYTES = 1 << 20  # of rows that become columns at once
_REGULAR = re.compile(rb"\d\d:\d\d:\d\d(?: [AP]M)? {2,}\S")
_NO_ROW = re.compile(rb"\n(?!\d)")
_NEXT = b"\nLinux "
# no row has one of these, but for odd names; behind a letter of each, which is found ten times as fast
_INSIDE = ((b"/", b"/s"), (b"%", b"%"), (b"R", b"RESTART"), (b"q", b"runq-sz"), (b"L", _NEXT))


@dataclass(slots=True)
class _Blocks:
    """Blocks of a long text in order: a header with its rows, or lines of whatever kind.

    Most of `sar -A` are tables per interrupt, device and interface: they are stepped over.
    """

    source: Source
    odd: ParseErrors
    text: SarText
    hosts: HostSeries[SarColumns]
    foreign: list[tuple[int, str]] = field(default_factory=list)
    beyond: tuple[int, int] = (0, 0)  # the first line that is not handed on, and how many are not
    banner: tuple[tuple[int, str], ...] = ()  # the first line of the last file, if it was not handed on
    elsewhere: bool = False  # in reports of another tool of sysstat
    head: bytes = b""  # above the rows that are held
    held: list[tuple[int, bytes]] = field(default_factory=list)  # rows of one table by block, the line of the first
    held_bytes: int = 0

    def block(self, number: int, block: bytes) -> Iterator[Record]:
        """A header with its rows, or lines of whatever kind."""
        head, _, body = block.partition(b"\n")
        if self._repeats(head, body) and self.text.table is not None:
            yield from self._rows(self.text.table, number + 1, head, body)
            return
        yield from self.end_rows()
        line = clean(head.decode("utf-8", "replace"))
        self.text.blank = True
        if OTHER_TOOL.match(line) or (self.elsewhere and not (HEADER.match(line) or BANNER.match(line))):
            self._elsewhere(_number_lines(number, block))
            return
        self.elsewhere = False
        body, _, banner = body.partition(_NEXT)  # no empty line stands before the next file
        if is_header(line) and not _has_other_lines(body) and not body.startswith(_NEXT[1:]):
            self.text.blank, self.banner = False, ()
            yield from self.text.header(number, line)
            if self.text.table is not None and body:
                yield from self._rows(self.text.table, number + 1, head, body)
            elif self.text.lost and body:
                yield from self._lines(_number_lines(number + 1, body))
            if banner:
                yield from self._lines(_number_lines(number + 2 + body.count(b"\n"), _NEXT[1:] + banner))
            return
        yield from self._lines(_number_lines(number, block))

    def _other_format(self, lines: Iterable[tuple[int, str]]) -> None:
        """Lines of another format."""
        for number, text in lines:
            if len(self.foreign) < MAX_FOREIGN_LINES:
                self.foreign.append((number, text))
            else:
                self.beyond = (self.beyond[0] or number, self.beyond[1] + 1)

    def others(self) -> Iterator[Problem | Foreign]:
        """What is of other formats, and that it is not all of it."""
        if self.foreign:
            yield Foreign(tuple(self.foreign))
        if self.beyond[1]:
            text = f"more than {MAX_FOREIGN_LINES} lines of other formats beside reports of sar: the rest was not read"
            yield Problem(self.source.cite(self.beyond[0]), text, ProblemKind.LIMIT, NAME, self.beyond[1])

    def _lines(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        """Lines of sar, and stretches of others; a single one is a row that was cut, or a message to all terminals."""
        yield from self.end_rows()
        given = list(lines)
        other = next((place for place, (_, text) in enumerate(given) if OTHER_TOOL.match(text)), len(given))
        if other and other < len(given) and not self._ours(given[other - 1]):  # iostat's time line
            other -= 1
        for ours, stretch in groupby(given[:other], self._ours):
            some = list(stretch)
            if ours or len(some) == 1 < len(given):
                yield from self._read(some)
            else:
                self._other_format(some)
                self.text.lost |= self.text.blank
        if other < len(given):
            self._elsewhere(given[other:])

    @staticmethod
    def _ours(line: tuple[int, str]) -> bool:
        return belongs(line[1]) or bool(BANNER.match(line[1]))

    def _elsewhere(self, lines: Iterable[tuple[int, str]]) -> None:
        """A report of another tool begins, or goes on."""
        self._other_format(self.banner)
        self._other_format(lines)
        self.banner, self.elsewhere, self.text.lost = (), True, True

    def _read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        for at, line in lines:
            self.banner = ((at, line),) if BANNER.match(line) else ()
            for record in self.text.line(at, line):
                if isinstance(record, Sample):
                    self.hosts.current.rows.add(record)
                else:
                    self.hosts.note_host(record)
                    yield record

    def _repeats(self, head: bytes, body: bytes) -> bool:
        """Whether a header repeats that of the rows held, at the time of the last of them, as below each screenful."""
        if not 0 < self.held_bytes < MAX_HELD_BYTES or head[11:] != self.head[11:]:
            return False
        last = self.held[-1][1].rpartition(b"\n")[2]
        return head[:11].rstrip() == last[:11].rstrip() and not _has_other_lines(body)

    def _rows(self, table: Table, number: int, head: bytes, body: bytes) -> Iterator[Record]:
        """The rows below a header are held, in case that the next block goes on with them; others are read."""
        blocks = _sums(number, body) if table.columns[0] == "INTR" else iter(((number, body),))
        for first, block in blocks:
            other = _NO_ROW.search(b"\n" + block)  # averages, and the first line of the next day
            rows, rest = (block[: max(other.start() - 1, 0)], block[other.start() :]) if other else (block, b"")
            since_boot = rows[:11].rstrip() == head[:11].rstrip()  # its header has the time of its first row
            if rows and self.text.times.clock is not None and not since_boot and _REGULAR.match(head):
                self.held.append((first, rows))
                self.head, self.held_bytes = head, self.held_bytes + len(rows)
            else:
                rest, rows = block, b""
            if rest:
                yield from self._lines(_number_lines(first + rows.count(b"\n") + bool(rows), rest))

    def end_rows(self) -> Iterator[Record]:
        """The rows that are held become columns, or are read one by one."""
        held, self.held, self.held_bytes = self.held, [], 0
        table, clock = self.text.table, self.text.times.clock
        if not held or table is None or clock is None:
            return
        add_rows = partial(self.hosts.current.add_rows, table, clock=clock, half=b"M " in self.head[8:12])
        if not add_rows(held):
            for block in held:  # one of them is odd
                if len(held) == 1 or not add_rows([block]):
                    yield from self._lines(_number_lines(*block))


def _has_other_lines(body: bytes) -> bool:
    """Whether there may be more than rows: headers, restarts, the next file."""
    return any(letter in body and word in body for letter, word in _INSIDE)


def _sums(number: int, rows: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of all interrupts, one of hundreds, with their numbers."""
    at = rows.find(b" sum ")
    while at >= 0:
        end = rows.find(b"\n", at)
        end = len(rows) if end < 0 else end
        yield number + rows.count(b"\n", 0, at), rows[rows.rfind(b"\n", 0, at) + 1 : end]
        at = rows.find(b" sum ", end)


def _number_lines(number: int, block: bytes) -> Iterator[tuple[int, str]]:
    return enumerate((clean(line) for line in block.decode("utf-8", "replace").split("\n")), number)


MAX_BLOCK_BYTES = 16 << 20  # bytes without an empty line, after which a block is cut at a line end
_BREAK = re.compile(rb"\n\r?\n")


def blocks(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """What stands between empty lines, with the number of its first line."""
    number = 1
    for whole in _stretches(chunks):
        for block in whole.split(b"\n\n"):
            text = block.strip(b"\n")
            if text:
                yield number + len(block) - len(block.lstrip(b"\n")), text
            number += block.count(b"\n") + 2
        number -= 2  # no empty line stands behind the last


def _stretches(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The text cut behind empty lines; where there is none for long, behind any line, or anywhere."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        last = held[-1][-2:] if held else b""  # a break may be cut in two
        if b"\n" not in chunk or not _BREAK.search(last + chunk):
            held.append(chunk)
            size += len(chunk)
            if size < MAX_BLOCK_BYTES:
                continue
            text = b"".join(held)
            end = text.rfind(b"\n") + 1 or len(text)
        else:
            text = b"".join([*held, chunk])
            end = max(text.rfind(b"\n\n") + 2, text.rfind(b"\n\r\n") + 3 if b"\r" in chunk else 0)
        yield _without_returns(text[:end])
        held, size = [text[end:]], len(text) - end
    yield _without_returns(b"".join(held))


def _without_returns(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text  # to look for two letters takes 30 times as long


_TITLE = "sar reports"
MIN_BULK_BYTES = 64 * 1024  # bytes; what is shorter is read line by line
_FIRST_LINES = 12  # lines of the head in which the first report begins


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample per row and entity, an event per restart."""
    text = SarText(source, odd)
    for number, line in lines:
        yield from text.line(number, line)
    yield from text.end()


confirm = any_of_first(8, HEADER, RESTART)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A whole file of sar: it begins as one, and every line that is seen of it is one."""
    if len(head) < MIN_BULK_BYTES:
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    first = next((at for at, text in enumerate(lines) if text.strip()), 0)
    if not lines or not BANNER.match(lines[first].rstrip("\r")):
        return False
    if not confirm([text.rstrip("\r") for text in lines[first : first + _FIRST_LINES]]):
        return False
    step = max(len(lines) // 200, 1)
    return all(belongs(text.rstrip("\r")) or BANNER.match(text) for text in lines[first + 1 :: step])


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts and events as they come, then Problems, then a Series per entity, by host."""
    odd = ParseErrors(source, NAME)
    reading = _Blocks(source, odd, SarText(source, odd), HostSeries(lambda: SarColumns(source.member, NAME)))
    for number, block in blocks(content.chunks):
        yield from reading.block(number, block)
    yield from reading.end_rows()
    yield from reading.text.end()
    yield from odd.problems()
    yield from reading.hosts.series()
    yield from reading.others()


PARSER = Parser(
    NAME, _TITLE, read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"), continues=belongs, confirm=confirm
)
BULK_PARSER = BulkParser(NAME, _TITLE, _claims, read_bulk, opens=re.compile(rb"\s*Linux "), min_size=MIN_BULK_BYTES)
