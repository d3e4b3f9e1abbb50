"""sar (sysstat): CPU time, paging, memory, swap, load and pressure of a host over hours to weeks.

    Linux 2.6.32-431.el6.x86_64 (web1)  11/20/2026  _x86_64_  (8 CPU)

    12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
    12:10:01 AM     all      2.50      0.00     41.20      0.31      0.00     55.99

Units: percent, KiB, per second (see `_tables`); a row is the interval that ends at its time. Varies: columns by
version, so the header decides; dates, times and decimal commas by locale; sar prints each report of a file as a whole,
but live all headers again for every sample. A row has no date. `LINUX RESTART` rows are events; averages at the end and
tables per device, interface and interrupt are omitted. Source: sysstat sar.c, pr_stats.c, 8.0 to 12.7.

Each report of a file starts the day again: every table has its own clock, which starts at the date of the first line
and counts midnights. Numbers distinguish a row from a header, so translated words do not matter. In a long file, blocks
between empty lines whose rows are only a time and plain numbers are parsed by numpy, those of one table together, into
a Series per table and entity over all days; all other lines are parsed one by one.
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

MAX_TEXT_BYTES = 64 << 20  # of rows that are kept for citations
SelectedRows = tuple[Mapping[str, Floats], NDArray[np.bool_]]  # columns by metric, and the rows that count


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
        """Add blocks of rows, each with the number of its first line; add none and return False if a row is odd."""
        rows = b"\n".join(block for _, block in blocks)
        grid = parse_grid(rows, table, half=half)
        selected = None if grid is None else (_cpu_columns if table.modes else _plain_columns)(table, grid[:, 3:])
        if grid is None or selected is None:
            return False
        values, is_counted = selected
        seconds = clock.all_at(grid[:, 0] * 3600 + grid[:, 1] * 60 + grid[:, 2])
        lines = np.array([line for first, block in blocks for line in range(first, first + block.count(b"\n") + 1)])
        starts, ends = self._places(rows)
        resolution = _resolution(table, rows.partition(b"\n")[0].split()[-len(table.columns) :], values)
        for indices, (kind, entity) in _subjects(table, grid[:, 3], is_counted):
            part = {name: column[indices] for name, column in values.items()}
            series = Series(
                kind, part, self.member, lines[indices], self.reader, entity, seconds[indices], clock.clock, resolution,
                None, b"", starts[indices], ends[indices],
            )  # fmt: skip
            self._parts.setdefault((entity, clock.clock, tuple(values)), []).append(series)
        return True

    def _places(self, rows: bytes) -> tuple[Ints, Ints]:
        """Return start and end of each row in the text for citations, 0 if that gets too long."""
        breaks = np.flatnonzero(np.frombuffer(rows, np.uint8) == 10).astype(np.int64)
        if self._size + len(rows) > MAX_TEXT_BYTES:
            nowhere = np.zeros(len(breaks) + 1, np.int64)
            return nowhere, nowhere
        begin, self._size = self._size, self._size + len(rows)
        self._text.append(rows)
        return np.concatenate([[0], breaks + 1]) + begin, np.concatenate([breaks, [len(rows)]]) + begin

    def series(self) -> Iterator[Series]:
        """Yield one Series per table, entity and clock."""
        text = b"".join(self._text)
        yield from (replace(join_series(parts), text=text) for parts in self._parts.values())
        yield from self.rows.series()


def parse_grid(rows: bytes, table: Table, *, half: bool) -> Floats | None:
    """Return the rows as numbers: hour, minute, second, cells; `all` CPUs and `sum` of interrupts are -1.

    None unless every cell is a plain number.
    """
    if not _begin_with_times(rows):
        return None
    text = rows
    if half:
        text = text.replace(b" AM ", b":0 ").replace(b" PM ", b":1 ")
    if b"-" in text or (b"," in text and b"." in text):
        return None
    total_cell = b" sum " if table.columns[0] == "INTR" else b" all "
    text = text.replace(b",", b".").replace(b":", b" ").replace(total_cell, b" -1 ")
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
    """Whether each row has `width` cells, and each cell at most one dot, with digits on both sides."""
    letters = np.frombuffer(b" " + text + b"\n", np.uint8)
    is_blank = letters <= 32
    cells = np.cumsum(is_blank[:-1] & ~is_blank[1:], dtype=np.int32)
    dots = np.flatnonzero(letters == ord("."))
    if (letters[dots - 1] < ord("0")).any() or (letters[dots + 1] < ord("0")).any():
        return False
    if (np.diff(cells[dots - 1]) == 0).any():
        return False
    counts = np.diff(cells[np.flatnonzero(letters == 10) - 1], prepend=0)
    return len(counts) == count and bool((counts == width).all())


def _cpu_columns(table: Table, cells: Floats) -> SelectedRows | None:
    """Return `cpu_ratio.*` of all rows and the rows that count; None if a row is implausible."""
    parts = {mode: cells[:, place] * PERCENT for place, mode in table.modes.items()}
    sums, cpus = sum(parts.values()), cells[:, 0]
    is_offline = (sums == 0) & (cpus >= 0)
    is_valid = (sums > 0) & (sums <= MAX_CPU_SUM) | is_offline
    if not is_valid.all() or (cpus != np.floor(cpus)).any() or (cpus > 99_999).any():
        return None
    return table.ratios({mode: np.minimum(column, 1.0) for mode, column in parts.items()}), ~is_offline


def _plain_columns(table: Table, cells: Floats) -> SelectedRows | None:
    """Return the columns of a table without instances."""
    values = {m.name: cells[:, place] * m.scale for place, metrics in table.metrics.items() for m in metrics}
    if any(bool((column > MAX_QUANTITY).any()) for column in values.values()):
        return None
    return values, np.ones(len(cells), np.bool_)


def _subjects(table: Table, cpus: Floats, is_counted: NDArray[np.bool_]) -> Iterator[tuple[Ints, Subject]]:
    """Yield the row indices of each entity."""
    if not table.modes:
        yield np.flatnonzero(is_counted), ("system", ())
        return
    for cpu in np.unique(cpus).tolist():
        indices = np.flatnonzero((cpus == cpu) & is_counted)
        if len(indices):
            yield indices, cpu_entity(str(int(cpu)))


def _resolution(table: Table, cells: list[bytes], values: Mapping[str, Floats]) -> Mapping[str, float]:
    """Return the quantum of each metric, from the decimals of the first row."""
    quanta = [10.0 ** -len(cell.replace(b",", b".").partition(b".")[2]) for cell in cells]
    if table.modes:
        return dict.fromkeys(values, PERCENT * max(quanta[place] for place in table.modes))
    return {m.name: m.scale * quanta[place] for place, metrics in table.metrics.items() for m in metrics}


NAME = "sar"
RESTART = re.compile(rf"{CLOCK}\s+LINUX RESTART(?:\s+\((\d{{1,5}}) CPUs?\))?\s*$")
COMMENT = re.compile(rf"{CLOCK}\s+COM\s")
# first columns of every report of 8.0 to 12.7: also a table in the middle of a mail is recognised
FIRST_COLUMNS = (
    r"(?:CPU\s+(?:%us(?:e)?r\s+%nice\s+%sys(?:tem)?\s+%iowait\s+%(?:steal|idle)|MHz|total/s|wghMHz)|pgpgin/s|kbmemfree"
    r"|kbswpfree|frmpg/s|pswpin/s|proc/s|cswch/s|runq-sz|kbhugfree|INTR\s+(?:intr/s|all)|IFACE\s+rx|DEV\s+tps"
    r"|TTY\s+rcvin/s|tps\s+rtps|totsck|tcp6sck|dentunusd|%s(?:cpu|io|mem)-10|(?:FILESYSTEM\s+)?MBfsfree"
    r"|s?call/s|irec6?/s|ihdrer|imsg6?/s|ierr6?/s|active/s|atmptf/s|idgm6?/s|(?:FAN|TEMP|IN)\s+\S|BUS\s+idvend)"
)
HEADER = re.compile(rf"{CLOCK}\s+{FIRST_COLUMNS}")
OTHER_TOOL = re.compile(  # headers of pidstat, mpstat and iostat, whose rows look like sar's
    rf"(?:{CLOCK}|#\s*Time)\s+(?:(?:UID\s+|USER\s+)?(?:PID|TGID)\s|NODE\s|CPU\s+intr/s"
    r"|CPU\s+%us(?:e)?r\s+%nice\s+%sys\s+%iowait\s+%irq\s)|avg-cpu:\s"
)
_ANY_HEADER = re.compile(rf"({CLOCK})\s++(?=\D*(?:/s|%|kb|sck|-sz))(?!.*\s-?\d[\d.,]*[KMGTP%]?(?:\s|$))\S")
ROW = re.compile(rf"{CLOCK}\s+(?:\S.{{0,200}}\s)?-?\d[\d.,]*[KMGTP%]?(?:\s|$)")


def is_sar_line(text: str) -> bool:
    """Whether it is a line of sar; empty lines are between the reports."""
    if not text.strip() or any(p.match(text) for p in (ROW, RESTART, AVERAGE, HEADER, COMMENT)):
        return True
    return bool(_ANY_HEADER.match(text)) and not OTHER_TOOL.match(text)


def is_header(text: str) -> bool:
    return bool(HEADER.match(text) or (_ANY_HEADER.match(text) and not OTHER_TOOL.match(text)))


@dataclass(slots=True)
class SarText:
    """Parses lines in order.

    `date` and `machine` are those of the first line, `table` and `times` those of the last header.
    """

    source: Source
    odd: ParseErrors
    date: str = ""
    machine: str = ""
    table: Table | None = None
    times: Times = field(default_factory=Times)
    _times_of_columns: dict[tuple[str, ...], Times] = field(default_factory=dict)
    _held: list[tuple[int, str, str]] = field(default_factory=list)  # restarts, until a header shows the report
    _restarts: set[object] = field(default_factory=set)
    after_blank: bool = True  # the previous line was empty
    is_header_lost: bool = False  # the header of the rows is missing or damaged

    def line(self, number: int, text: str) -> Iterator[Record]:
        """Yield the records of a line."""
        if banner := BANNER.match(text):
            yield from self.end()
            self.date, self.machine = banner[3], banner[4] or ""
            self._times_of_columns, self.times = {}, Times(self.date, source=self.source)
            self.table, self.is_header_lost = None, True  # until the next header
            yield from banner_facts(self.source, number, text)
        elif restart := RESTART.match(text):
            self._held.append((number, text, restart[1] or ""))
        elif is_header(text):
            yield from self.header(number, text)
        elif not is_sar_line(text):
            self.odd.note(number, text, "not a line of sar")
            self.is_header_lost |= self.after_blank  # a header was expected
        elif text.strip() and not AVERAGE.match(text) and not COMMENT.match(text):
            yield from self._row(number, text)
        self.after_blank = not text.strip()

    def header(self, number: int, text: str) -> Iterator[Event]:
        """Begin or continue a report."""
        columns = tuple(Times().header(text).split())
        self.times = self._times_of_columns.setdefault(columns, Times(self.date, source=self.source))
        self.table = table_of(columns, self.machine)
        # Titles do not begin with a digit: this header is damaged, and not that of an omitted table.
        self.is_header_lost = self.table is None and any(name[0].isdigit() for name in columns)
        yield from self.end()
        self.times.header(text)
        if self.times.is_without_day and len(self._times_of_columns) == 1:
            self.odd.note(number, text, f"the date {self.date} may be two days: the times are without a date")

    def end(self) -> Iterator[Event]:
        """Yield the restarts since the last header once; every report repeats them."""
        for number, text, cpus in self._held:
            timed = self.times.row(text)
            time = timed.time if timed else None
            if time not in self._restarts:
                self._restarts.add(time)
                yield Event("restart", self.source.cite(number, text), time, {"cpus": cpus} if cpus else {})
        self._held = []

    def _row(self, number: int, text: str) -> Iterator[Sample]:
        table = self.table
        if self.is_header_lost:
            self.odd.note(number, text, "a row without its header")
            return
        if table is None or (table.columns[0] == "INTR" and " sum " not in text):  # most rows are of single interrupts
            return
        timed = self.times.row(text)
        row = table.row(timed.cells.split()) if timed else "not a line of sar"
        if isinstance(row, str):
            self.odd.note(number, text, row)
        elif row is not None and timed is not None:
            cite, boot = self.source.cite(number, text), bool(timed.average)
            yield Sample(row.kind, row.values, cite, NAME, row.entity, timed.time, row.resolution, boot)


MAX_FOREIGN_LINES = 500_000  # of other formats, that are passed on
MAX_HELD_BYTES = 1 << 20  # of rows that are converted to columns at once
_PLAIN_HEADER = re.compile(rb"\d\d:\d\d:\d\d(?: [AP]M)? {2,}\S")
_NON_ROW = re.compile(rb"\n(?!\d)")
_NEXT_BANNER = b"\nLinux "
# (letter, text): no row contains these texts, except odd names; the letter is found ten times as fast
_NON_ROW_TEXTS = ((b"/", b"/s"), (b"%", b"%"), (b"R", b"RESTART"), (b"q", b"runq-sz"), (b"L", _NEXT_BANNER))


@dataclass(slots=True)
class _Blocks:
    """Blocks of a long text in order: a header with its rows, or any other lines.

    Most of `sar -A` are tables per interrupt, device and interface, which are skipped.
    """

    source: Source
    odd: ParseErrors
    text: SarText
    hosts: HostSeries[SarColumns]
    foreign_lines: list[tuple[int, str]] = field(default_factory=list)
    unread_lines: tuple[int, int] = (0, 0)  # the first line that is not passed on, and their number
    banner: tuple[tuple[int, str], ...] = ()  # the first line of the last file, if it was not passed on
    in_other_tool: bool = False  # within reports of another tool of sysstat
    head: bytes = b""  # header of the held rows
    held: list[tuple[int, bytes]] = field(
        default_factory=list
    )  # rows of one table by block, with the first line number
    held_bytes: int = 0

    def block(self, number: int, block: bytes) -> Iterator[Record]:
        """Read a header with its rows, or any other lines."""
        head, _, body = block.partition(b"\n")
        if self._repeats_header(head, body) and self.text.table is not None:
            yield from self._rows(self.text.table, number + 1, head, body)
            return
        yield from self.end_rows()
        line = clean(head.decode("utf-8", "replace"))
        self.text.after_blank = True
        if OTHER_TOOL.match(line) or (self.in_other_tool and not (HEADER.match(line) or BANNER.match(line))):
            self._take_other_tool(_number_lines(number, block))
            return
        self.in_other_tool = False
        body, _, banner = body.partition(_NEXT_BANNER)  # no empty line precedes the next file
        if is_header(line) and not _has_other_lines(body) and not body.startswith(_NEXT_BANNER[1:]):
            self.text.after_blank, self.banner = False, ()
            yield from self.text.header(number, line)
            if self.text.table is not None and body:
                yield from self._rows(self.text.table, number + 1, head, body)
            elif self.text.is_header_lost and body:
                yield from self._lines(_number_lines(number + 1, body))
            if banner:
                yield from self._lines(_number_lines(number + 2 + body.count(b"\n"), _NEXT_BANNER[1:] + banner))
            return
        yield from self._lines(_number_lines(number, block))

    def _take_foreign(self, lines: Iterable[tuple[int, str]]) -> None:
        """Keep lines of another format."""
        for number, text in lines:
            if len(self.foreign_lines) < MAX_FOREIGN_LINES:
                self.foreign_lines.append((number, text))
            else:
                self.unread_lines = (self.unread_lines[0] or number, self.unread_lines[1] + 1)

    def foreign_records(self) -> Iterator[Problem | Foreign]:
        """Yield the lines of other formats, and a problem if there are more than the limit."""
        if self.foreign_lines:
            yield Foreign(tuple(self.foreign_lines))
        if self.unread_lines[1]:
            text = f"more than {MAX_FOREIGN_LINES} lines of other formats beside reports of sar: the rest was not read"
            yield Problem(self.source.cite(self.unread_lines[0]), text, ProblemKind.LIMIT, NAME, self.unread_lines[1])

    def _lines(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        """Read lines of sar and other formats; a single other line is a cut row, or a message to all terminals."""
        yield from self.end_rows()
        numbered = list(lines)
        first_other = next((place for place, (_, text) in enumerate(numbered) if OTHER_TOOL.match(text)), len(numbered))
        if 0 < first_other < len(numbered) and not self._is_ours(numbered[first_other - 1]):  # a time line of iostat
            first_other -= 1
        for is_sar, stretch in groupby(numbered[:first_other], self._is_ours):
            part = list(stretch)
            if is_sar or len(part) == 1 < len(numbered):
                yield from self._read(part)
            else:
                self._take_foreign(part)
                self.text.is_header_lost |= self.text.after_blank
        if first_other < len(numbered):
            self._take_other_tool(numbered[first_other:])

    @staticmethod
    def _is_ours(line: tuple[int, str]) -> bool:
        return is_sar_line(line[1]) or bool(BANNER.match(line[1]))

    def _take_other_tool(self, lines: Iterable[tuple[int, str]]) -> None:
        """Begin or continue a report of another tool."""
        self._take_foreign(self.banner)
        self._take_foreign(lines)
        self.banner, self.in_other_tool, self.text.is_header_lost = (), True, True

    def _read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        for number, line in lines:
            self.banner = ((number, line),) if BANNER.match(line) else ()
            for record in self.text.line(number, line):
                if isinstance(record, Sample):
                    self.hosts.current.rows.add(record)
                else:
                    self.hosts.note_host(record)
                    yield record

    def _repeats_header(self, head: bytes, body: bytes) -> bool:
        """Whether a header repeats that of the held rows at the time of the last of them, as below each screenful."""
        if not 0 < self.held_bytes < MAX_HELD_BYTES or head[11:] != self.head[11:]:
            return False
        last = self.held[-1][1].rpartition(b"\n")[2]
        return head[:11].rstrip() == last[:11].rstrip() and not _has_other_lines(body)

    def _rows(self, table: Table, number: int, head: bytes, body: bytes) -> Iterator[Record]:
        """Hold the rows below a header, as the next block may continue them; read other lines."""
        blocks = _sum_rows(number, body) if table.columns[0] == "INTR" else iter(((number, body),))
        for first, block in blocks:
            non_row = _NON_ROW.search(b"\n" + block)  # averages, or the first line of the next day
            rows, rest = (block[: max(non_row.start() - 1, 0)], block[non_row.start() :]) if non_row else (block, b"")
            since_boot = rows[:11].rstrip() == head[:11].rstrip()  # the header has the time of the first row
            if rows and self.text.times.clock is not None and not since_boot and _PLAIN_HEADER.match(head):
                self.held.append((first, rows))
                self.head, self.held_bytes = head, self.held_bytes + len(rows)
            else:
                rest, rows = block, b""
            if rest:
                yield from self._lines(_number_lines(first + rows.count(b"\n") + bool(rows), rest))

    def end_rows(self) -> Iterator[Record]:
        """Convert the held rows to columns, or read them one by one."""
        held, self.held, self.held_bytes = self.held, [], 0
        table, clock = self.text.table, self.text.times.clock
        if not held or table is None or clock is None:
            return
        add_rows = partial(self.hosts.current.add_rows, table, clock=clock, half=b"M " in self.head[8:12])
        if not add_rows(held):
            for block in held:  # a row is odd
                if len(held) == 1 or not add_rows([block]):
                    yield from self._lines(_number_lines(*block))


def _has_other_lines(body: bytes) -> bool:
    """Whether there may be lines other than rows: headers, restarts, the next file."""
    return any(letter in body and word in body for letter, word in _NON_ROW_TEXTS)


def _sum_rows(number: int, rows: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of all interrupts together, with their numbers; most lines are of single interrupts."""
    position = rows.find(b" sum ")
    while position >= 0:
        end = rows.find(b"\n", position)
        end = len(rows) if end < 0 else end
        yield number + rows.count(b"\n", 0, position), rows[rows.rfind(b"\n", 0, position) + 1 : end]
        position = rows.find(b" sum ", end)


def _number_lines(number: int, block: bytes) -> Iterator[tuple[int, str]]:
    return enumerate((clean(line) for line in block.decode("utf-8", "replace").split("\n")), number)


MAX_BLOCK_BYTES = 16 << 20  # without an empty line; then a block is cut at a line end
_EMPTY_LINE = re.compile(rb"\n\r?\n")


def blocks(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks between empty lines, with the number of the first line."""
    number = 1
    for stretch in _split_at_empty_lines(chunks):
        for block in stretch.split(b"\n\n"):
            text = block.strip(b"\n")
            if text:
                yield number + len(block) - len(block.lstrip(b"\n")), text
            number += block.count(b"\n") + 2
        number -= 2  # no empty line follows the last


def _split_at_empty_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text cut after empty lines; if there is none for long, after a line or anywhere."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        last = held[-1][-2:] if held else b""  # a break may be split between chunks
        if b"\n" not in chunk or not _EMPTY_LINE.search(last + chunk):
            held.append(chunk)
            size += len(chunk)
            if size < MAX_BLOCK_BYTES:
                continue
            text = b"".join(held)
            end = text.rfind(b"\n") + 1 or len(text)
        else:
            text = b"".join([*held, chunk])
            end = max(text.rfind(b"\n\n") + 2, text.rfind(b"\n\r\n") + 3 if b"\r" in chunk else 0)
        yield _remove_returns(text[:end])
        held, size = [text[end:]], len(text) - end
    yield _remove_returns(b"".join(held))


def _remove_returns(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n") if b"\r" in text else text  # searching for two letters takes 30 times as long


_TITLE = "sar reports"
MIN_BULK_BYTES = 64 * 1024  # shorter files are read line by line
_FIRST_LINES = 12  # of the head, in which the first report begins


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample per row and entity, an event per restart."""
    text = SarText(source, odd)
    for number, line in lines:
        yield from text.line(number, line)
    yield from text.end()


confirm = any_of_first(8, HEADER, RESTART)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is a whole file of sar: it begins as one, and every sampled line is one."""
    if len(head) < MIN_BULK_BYTES:
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    first = next((index for index, text in enumerate(lines) if text.strip()), 0)
    if not lines or not BANNER.match(lines[first].rstrip("\r")):
        return False
    if not confirm([text.rstrip("\r") for text in lines[first : first + _FIRST_LINES]]):
        return False
    step = max(len(lines) // 200, 1)
    return all(is_sar_line(text.rstrip("\r")) or BANNER.match(text) for text in lines[first + 1 :: step])


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts and events in order, then Problems, then a Series per entity, by host."""
    odd = ParseErrors(source, NAME)
    reading = _Blocks(source, odd, SarText(source, odd), HostSeries(lambda: SarColumns(source.member, NAME)))
    for number, block in blocks(content.chunks):
        yield from reading.block(number, block)
    yield from reading.end_rows()
    yield from reading.text.end()
    yield from odd.problems()
    yield from reading.hosts.series()
    yield from reading.foreign_records()


PARSER = Parser(
    NAME, _TITLE, read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"), continues=is_sar_line, confirm=confirm
)
BULK_PARSER = BulkParser(NAME, _TITLE, _claims, read_bulk, opens=re.compile(rb"\s*Linux "), min_size=MIN_BULK_BYTES)
