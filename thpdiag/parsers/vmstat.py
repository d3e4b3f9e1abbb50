"""vmstat (procps): CPU, memory, swap and block I/O of the host, one row per interval; the totals of vmstat -s.

    procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
     r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
     2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0

Units: memory and swap in KiB unless -S selects another unit, which the table does not show: values that are not
multiples of 4 are not KiB. bi and bo are always KiB/s, CPU columns whole percents. The first row of a run is an average
since boot (except its memory columns), unless -y is given.
Varies: no st before 3.3.9 upstream; gu (guest, then not part of us) from 4.0.4 on or with -w in 4.0; -a prints inact
and active instead of buff and cache; -t appends a local time, with the zone only in the header; header words 3 to 6 are
translated; 4.0.0 to 4.0.2 never update memory after the first row. Rows are read by order of columns, not by position.
The tables of -d, -D, -m, -p and -f are detected but not used. Rows whose header was cut off (`tail`) are detected by
their numbers; the first of them may be the average since boot.
Long recordings are parsed in the same way, except that runs of plain rows are parsed as arrays (`NumberLines`).

    24684096 K total memory
       80124 non-nice user cpu ticks

Units of -s: K is 1024 bytes (other letters with -S), ticks are 1/100 s, pages are pages. Varies: page cache is labelled
`swap cache` up to procps 3.2 and `total cache` since; translated labels are not read.
Source: procps vmstat.c, 3.2.7 to 4.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import takewhile
from operator import mul
from typing import TYPE_CHECKING, Any

from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.detect.transcript import clean, parse_prompt, parse_speaker
from thpdiag.model import Citation, Clock, Moment, Problem, ProblemKind, Record, Sample, Series
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._lines import MAX_LINE_BYTES, Command, ParseErrors, parse_command, undecoded_problems, with_errors
from thpdiag.parsers._units import MAX_QUANTITY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thpdiag.parsers._table import NumberLines

NAME = "vmstat"
HEADER = re.compile(r"\s*r\s+b(?:\s+\S+){4}\s+si\s+so\s+bi\s+bo\s+in\s+cs\s+us\s+sy\s+id\s+wa(?:\s|$)")
BANNER = re.compile(
    r"\s*-{0,2}[^\W\d]+-{0,2}\s+-{3,}[^\W\d]+-{3,}\s+-+[^\W\d]+-+(?:\s+-*[^\W\d]+(?:/[^\W\d]+)?-*){2,4}\s*$"
)
ROW = re.compile(r"\s*-?\d+(?:\s+[-+]?\d[\d:.,+-]*){9,22}(?:\s+[A-Z]{2,5})?\s*$")
OTHER = re.compile(
    r"disk-+ -+reads-+ |\s+total merged sectors\s+ms\s+total|Cache\s+Num\s+Total\s+Size\s+Pages\s*$|"
    r"\S+\s+reads\s+read sectors\s+writes\s+requested writes|\s+\d+ (?:disks|forks)\s*$"
)
OTHER_ROW = re.compile(
    r"(?!cpu)[a-z][\w!-]*(?:\s+\d+){10}\s*$|[A-Za-z][\w:.()-]*(?:\s+\d+){4}\s*$|"
    r"\s+(?:\d+\s+){3}\d+\s*$|\s+\d+ [a-z][a-z ]{3,30}$"
)
_ANY_LINE = re.compile("|".join(pattern.pattern for pattern in (ROW, HEADER, BANNER, OTHER, OTHER_ROW)))
_OPENS = re.compile(f"{HEADER.pattern}|{BANNER.pattern}|{OTHER.pattern}")
_BARE_ROW = re.compile(r"\s*\d{1,9}(?:\s+\d{1,18}){15,17}\s*$")
_ZONE = re.compile(r"[A-Z]{2,5}|[+-]\d{2,4}")
_DIGITS = "0123456789"

# Columns in order: metric, and bytes per unit (0 for the unit of -S); the CPU columns follow them.
COLUMNS = (
    ("node_procs_running", 1),
    ("node_procs_blocked", 1),
    ("node_memory_SwapUsed_bytes", 0),
    ("node_memory_MemFree_bytes", 0),
    ("", 0),  # buff or inact
    ("", 0),  # cache or active
    ("swap_in_bytes:rate", 0),
    ("swap_out_bytes:rate", 0),
    ("block_in_bytes:rate", 1024),
    ("block_out_bytes:rate", 1024),
    ("node_intr_total:rate", 1),
    ("node_context_switches_total:rate", 1),
)
CPU = len(COLUMNS)  # index of us; sy, id, wa, st and gu follow
MEMORY = slice(2, 6)
BUFF_CACHE = ("node_memory_Buffers_bytes", "vmstat_cache_bytes")
INACT_ACTIVE = ("node_memory_Inactive_bytes", "node_memory_Active_bytes")
CPU_NAMES = ("cpu_ratio.idle", "cpu_ratio.iowait", "cpu_ratio.steal", "cpu_ratio.guest")
SUMS = ("cpu_ratio.user_total", "cpu_ratio.sys_total", "cpu_ratio.busy")
MIN_WIDTH, MAX_WIDTH = 16, 18  # columns, without and with st and gu
# Assumed for rows without a header, in which columns 5 and 6 may be buff and cache, or inact and active (-a).
DEFAULT_WORDS = (
    "r", "b", "swpd", "free", "?", "?", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st", "gu",
)  # fmt: skip
# Rows without a header are those of vmstat if their CPU columns, each rounded, add up to about 100.
MIN_BARE_ROWS, BARE_PERCENT = 3, range(97, 104)

UNITS = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
MIN_MEMORY_KIB = 100_000  # free + buff + cache of a host in KiB; a smaller sum suggests -S
MAX_FROZEN_ROWS = 20  # free memory of a busy host changes within fewer rows
MIN_SCREEN_ROWS = 10  # a header repeated after fewer rows begins a new run
MAX_VALUE = 2**50
MAX_PERCENT = 105  # the sum of the rounded CPU columns may exceed 100
SHARES = tuple(min(i / 100, 1.0) for i in range(MAX_PERCENT + 1))

NO_ROW = "not a row of vmstat"
OTHER_COLUMNS = "a row of vmstat with other columns than its header"
NO_TIME = "a row of vmstat with an invalid time"
UNKNOWN_UNIT = "the unit of the memory columns is not known (vmstat -S?): they are not used"
FROZEN = "the memory columns never change (vmstat 4.0.0 to 4.0.2 reads them once): only the first is used"
BAD_CPU = "CPU columns of vmstat that do not add up to 100 %: not used"


def is_vmstat_line(text: str) -> bool:
    return bool(_ANY_LINE.match(text))


# A command without a delay prints one row, which is an average since boot.
_COMMAND_WITHOUT_DELAY = re.compile(r"\bvmstat(?:\s+-[anwt]{1,4})*\s*(?:[|;&)]|$)")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a header, and the zone of the times that -t appends."""

    words: tuple[str, ...]
    width: int
    zone: str

    @property
    def has_guest(self) -> bool:
        return self.width == MAX_WIDTH


@lru_cache(64)  # vmstat repeats the header for each screen of a terminal, OSWatcher for every third row
def parse_header(text: str, *, after_banner: bool) -> Header | None:
    """Parse a header; after a banner its words may be of any language."""
    words = text.split()
    if not HEADER.match(text) and not (after_banner and len(words) >= MIN_WIDTH and words[0][-1] not in _DIGITS):
        return None
    extra = words[MIN_WIDTH:]
    zone = next((word for word in extra if _ZONE.fullmatch(word)), "")
    width = MIN_WIDTH + min(len([word for word in extra if not _ZONE.fullmatch(word)]), 2)
    return Header(tuple(words[:width]), width, zone)


def is_bare_row(text: str) -> bool:
    """Return whether a line has the integers of a vmstat row, with CPU columns that add up to about 100 %."""
    return bool(_BARE_ROW.match(text)) and sum(map(int, text.split()[CPU:])) in BARE_PERCENT


def are_bare_rows(lines: Sequence[str]) -> bool:
    """Return whether the lines begin a table whose header was cut off."""
    rows = list(takewhile(is_bare_row, lines[:MIN_BARE_ROWS]))
    return len(rows) == MIN_BARE_ROWS and len({len(row.split()) for row in rows}) == 1


@lru_cache(64)
def is_banner(text: str) -> bool:
    return bool(BANNER.match(text))


@lru_cache(64)
def parse_screen_head(lines: bytes) -> Header | None:
    """Parse lines that consist of a header and an optional banner before it; None for other lines."""
    *above, text = lines.decode("utf-8", "replace").split("\n")
    if len(above) > 1 or not all(map(is_banner, above)) or not "".join((*above, text)).isprintable():
        return None
    return parse_header(text, after_banner=bool(above)) if lines.isascii() else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns before those of CPU time (index, metric, factor), the number of all columns, and the resolution."""

    columns: tuple[tuple[int, str, int], ...]
    width: int
    resolution: Mapping[str, float]

    def values(self, cells: Sequence[Any], shares: Any, times: Callable[[Any, int], Any] = mul) -> dict[str, Any]:
        """Return values in base units by metric, of the cells of one row or of whole columns.

        `shares` maps a percentage to a ratio, `times` multiplies. Guest time is part of us until 4.0.3; where gu is
        separate it is added to us again, so that values of all versions are comparable.
        """
        values = {name: times(cells[index], factor) for index, name, factor in self.columns}
        values |= zip(CPU_NAMES, (shares[percent] for percent in cells[CPU + 2 : self.width]), strict=False)
        user, system = cells[CPU], cells[CPU + 1]
        if self.width == MAX_WIDTH:
            user = user + cells[self.width - 1]
        return values | dict(zip(SUMS, (shares[user], shares[system], shares[user + system]), strict=True))


@lru_cache(64)
def layout_of(words: tuple[str, ...], unit: int | None) -> Layout:
    """Return the layout of a header.

    Memory columns are left out without a unit, and two of them if the translated words do not identify them.
    """
    first, second = words[4].lower(), words[5].lower()
    pair = ("", "")
    if first.startswith(("ina", "inak", "nieak")):
        pair = INACT_ACTIVE
    elif first.startswith(("buf", "puf")) or second.startswith("cach"):
        pair = BUFF_CACHE
    names = [name or pair[index % 2] for index, (name, _) in enumerate(COLUMNS)]
    factors = [factor or unit or 0 for _, factor in COLUMNS]
    columns = tuple((index, names[index], factors[index]) for index in range(CPU) if names[index] and factors[index])
    shares = (*SUMS, *CPU_NAMES[: len(words) - CPU - 2])
    return Layout(columns, len(words), dict.fromkeys(shares, 0.01))


def clock_of(zone: str) -> Clock:
    return Clock.UTC if zone in ("UTC", "GMT") else Clock.LOCAL


def _parse_timestamp(words: Sequence[str], zone: str) -> Moment | None:
    """Parse the time that -t appends to a row; very old versions print the zone here instead of in the header."""
    zone = words[2] if len(words) == 3 else zone
    try:
        seconds = datetime.fromisoformat(f"{words[0]}T{words[1]}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Moment(seconds, clock_of(zone))


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its numbers in printed units."""

    number: int
    text: str
    values: list[int]
    time: Moment | None


@dataclass(slots=True)
class Table:
    """Parser of one block, line by line. A block may contain several runs."""

    source: Source
    errors: ParseErrors
    header: Header | None = None
    layout: Layout | None = None  # set at the first row of a run
    rows: int = 0  # rows of the current run
    ended: bool = False  # another kind of table of vmstat follows
    command: Command | None = field(init=False)
    _previous_line: str = ""
    _rows_since_header: int = 0
    _screen_rows: int = 0  # rows between repeated headers
    _held: list[Row] = field(default_factory=list)  # rows held back until a memory column changes
    _is_holding: bool = True

    def __post_init__(self) -> None:
        self.command = parse_command(self.source.command, "vmstat", with_value="SpT")

    @property
    def has_boot_row(self) -> bool:
        """Return whether the first row of a run is an average since boot."""
        return self.command is None or not {"y", "no-first"} & self.command.options.keys()

    def parse_line(self, number: int, text: str) -> Iterator[Sample]:
        """Parse a line of the block; yield the samples that are complete."""
        previous, self._previous_line = self._previous_line, text
        words = text.split()
        if not words or self.ended:
            return
        if self.header is None and is_bare_row(text):
            self.header = Header(DEFAULT_WORDS[: len(words)], len(words), "")
        if self.header and words[0][-1] in _DIGITS:
            if row := self.parse_row(number, text, words):
                yield from self.add_row(row)
        elif header := parse_header(text, after_banner=is_banner(previous)):
            if not self._repeats(header):
                yield from self.finish_run()
                self.header, self.layout, self.rows, self._is_holding = header, None, 0, True
        elif OTHER.match(text):
            self.ended = True
        elif not is_banner(text):
            self.errors.note(number, text, NO_ROW)

    def repeats_screen_head(self, lines: bytes) -> bool:
        """Return whether these lines are a header, with or without banner, that repeats the header of this run."""
        header = parse_screen_head(lines)
        return header is not None and self._repeats(header)

    def _repeats(self, header: Header) -> bool:
        """Return whether a header repeats that of this run. The zone may differ, as it changes with summer time."""
        gap, self._rows_since_header = self._rows_since_header, 0
        if self.header is None or not self.rows or header.words != self.header.words:
            return False
        if gap < (self._screen_rows or MIN_SCREEN_ROWS):
            return False
        self._screen_rows, self.header = self._screen_rows or gap, header
        return True

    def parse_row(self, number: int, text: str, words: Sequence[str]) -> Row | None:
        """Parse a row; None if its cells do not fit the header."""
        assert self.header is not None
        self._rows_since_header += 1
        width, zone = self.header.width, self.header.zone
        try:
            values = list(map(int, words[:width]))
        except ValueError:
            values = []
        timestamp = words[width:]
        if len(values) != width or len(timestamp) not in (0, 2, 3):
            self.errors.note(number, text, OTHER_COLUMNS)
            return None
        time = _parse_timestamp(timestamp, zone) if timestamp else self._computed_time()
        if timestamp and time is None:
            self.errors.note(number, text, NO_TIME)
        self.begin_run(number, text, values)
        self.rows += 1
        return Row(number, text, values, time)

    def begin_run(self, number: int, text: str, values: Sequence[int]) -> None:
        """Set the layout at the first row of a run, with the memory unit of the command, or KiB if the values fit.

        Memory in KiB is a multiple of 4, because the kernel counts pages.
        """
        if self.layout is not None or self.header is None:
            return
        unit, memory = None, values[MEMORY]
        if self.command is not None:
            unit = UNITS.get((self.command.options.get("S") or self.command.options.get("unit") or "K")[0])
        elif sum(memory[1:]) >= MIN_MEMORY_KIB and all(value % 4 == 0 for value in memory):
            unit = UNITS["K"]
        else:
            self.errors.note(number, text, UNKNOWN_UNIT)
        self.layout = layout_of(self.header.words, unit)

    def _computed_time(self) -> Moment | None:
        delay = self.command.interval() if self.command else None
        return None if self.source.time is None or delay is None else self.source.time.plus(self.rows * delay)

    def add_row(self, row: Row) -> Iterator[Sample]:
        """Hold a row until a memory column changes; then yield it with the rows held before."""
        self._held.append(row)
        if not self._is_holding or row.values[MEMORY] != self._held[0].values[MEMORY]:
            yield from self._release()

    def finish_run(self) -> Iterator[Sample]:
        """Yield the rows held back, without memory if it never changed while the host was active."""
        held = self._held
        is_frozen = len(held) > MAX_FROZEN_ROWS and len({(row.values[0], row.values[CPU - 1]) for row in held}) > 1
        if is_frozen:
            self.errors.note(held[0].number, held[0].text, FROZEN)
        yield from self._release(is_frozen=is_frozen)

    def _release(self, *, is_frozen: bool = False) -> Iterator[Sample]:
        held, self._held, is_first, self._is_holding = self._held, [], self._is_holding, False
        has_no_delay = _COMMAND_WITHOUT_DELAY.search(self.source.command) is not None
        for row in held:
            since_boot = has_no_delay or (self.has_boot_row and is_first)
            yield self.sample(row, since_boot=since_boot, is_frozen=is_frozen and not is_first)
            is_first = False

    def sample(self, row: Row, *, since_boot: bool, is_frozen: bool) -> Sample:
        """Return a row in base units, without impossible numbers and, if `is_frozen`, without memory."""
        assert self.layout is not None
        layout, cells, left_out = self.layout, row.values, set()
        for index, name, _ in layout.columns:
            if not 0 <= cells[index] <= MAX_VALUE:
                self.errors.note(row.number, row.text, f"an impossible number for {name}: not used")
                left_out.add(name)
            elif is_frozen and 2 <= index <= 5:
                left_out.add(name)
        percents = cells[CPU:]
        if min(percents) < 0 or not 0 < sum(percents) <= MAX_PERCENT:
            self.errors.note(row.number, row.text, BAD_CPU)
            values: dict[str, float] = {name: cells[index] * factor for index, name, factor in layout.columns}
        else:
            values = layout.values(cells, SHARES)
            if busy := percents[0] + percents[1] + (percents[-1] if layout.width == MAX_WIDTH else 0):
                values["cpu_ratio.sys_share"] = percents[1] / busy
        for name in left_out:
            del values[name]
        cite = self.source.cite(row.number, row.text)
        return Sample("system", values, cite, NAME, (), row.time, layout.resolution, since_boot)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield one sample of the host per row."""
    table = Table(source, ParseErrors(source, NAME))
    for number, text in lines:
        yield from table.parse_line(number, text)
        if table.ended:
            break
    yield from table.finish_run()
    yield from table.errors.problems()


MIN_BULK_BYTES = 1 << 20  # smaller members are not worth importing numpy
MIN_HEAD_BYTES = 1 << 15  # bytes of the beginning that the detection needs
MAX_LINES_BEFORE_HEADER = 8
MAX_FOREIGN_SHARE = 0.02  # of the lines at the beginning
MAX_BYTES = 256 * 1024 * 1024  # a month of one row per second


@dataclass(slots=True)
class LongTable(Table):
    """Parser of one block of a long text. Plain rows are noted as ranges (first, end, clock); a run gives a series."""

    lines: NumberLines = field(kw_only=True)
    parts: list[Series] = field(kw_only=True)
    _ranges: list[tuple[int, int, Clock]] = field(default_factory=list)

    def add_plain_rows(self, first: int, end: int) -> None:
        """Note a range of plain rows with as many columns as the header."""
        assert self.header is not None
        if self.layout is None:
            text = self.lines.text_of(first)
            self.begin_run(first + 1, text, list(map(int, text.split()[: self.header.width])))
        self.rows += end - first
        self._rows_since_header += end - first
        self._ranges.append((first, end, clock_of(self.header.zone)))
        self._previous_line = ""

    def add_row(self, row: Row) -> Iterator[Sample]:
        self._held.append(row)
        yield from ()

    def finish_run(self) -> Iterator[Sample]:
        """Convert the plain rows to columns; yield rows that are not plain or have an impossible number as samples."""
        import numpy as np

        others, self._held, lines = self._held, [], self.lines
        ranges, self._ranges = self._ranges, []
        if (not ranges and not others) or self.layout is None:
            return
        firsts, ends = (np.array([bounds[side] for bounds in ranges], np.int64) for side in (0, 1))
        places = lines.places(firsts, ends)
        indices, numbers, seconds = lines.rows[places], lines.numbers[places], lines.seconds[places]
        is_utc = np.repeat([clock is Clock.UTC for _, _, clock in ranges], ends - firsts).astype(np.bool_)
        percents = numbers[:, CPU:].sum(axis=1)
        good = (numbers[:, :CPU].max(axis=1, initial=0) <= MAX_VALUE) & (percents > 0) & (percents <= MAX_PERCENT)
        for bad in np.flatnonzero(~good).tolist():
            clock, text = Clock.UTC if is_utc[bad] else Clock.LOCAL, lines.text_of(int(indices[bad]))
            time = Moment(float(seconds[bad]), clock) if seconds[bad] == seconds[bad] else None
            others.append(Row(int(indices[bad]) + 1, text, list(map(int, text.split()[: self.layout.width])), time))
        others.sort(key=lambda row: row.number)
        first = min([*indices[:1].tolist(), *(row.number - 1 for row in others[:1])])
        is_frozen = self._is_frozen(numbers, others)
        if is_frozen:
            self.errors.note(first + 1, lines.text_of(first), FROZEN)
        for row in others:
            is_first = row.number == first + 1
            yield self.sample(row, since_boot=self.has_boot_row and is_first, is_frozen=is_frozen and not is_first)
        if not ranges:
            return
        if not good.all():
            indices, numbers, seconds, is_utc = indices[good], numbers[good], seconds[good], is_utc[good]
        columns = self._columns(numbers)
        for _, name, _ in [column for column in self.layout.columns if 2 <= column[0] <= 5] if is_frozen else ():
            columns[name][indices != first] = np.nan
        run = Series(
            "system", columns, self.source.member, indices + 1, NAME, (), seconds, Clock.LOCAL, self.layout.resolution,
            (indices == first) & self.has_boot_row, lines.text, lines.starts[indices], lines.ends[indices],
        )  # fmt: skip
        if is_utc.any() and not is_utc.all():  # a zone such as GMT in winter and BST in summer
            self.parts += [run.only(~is_utc), replace(run.only(is_utc), clock=Clock.UTC)]
        else:
            self.parts.append(replace(run, clock=Clock.UTC if is_utc.any() else Clock.LOCAL))

    def _columns(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        import numpy as np

        assert self.layout is not None
        times = partial(np.multiply, dtype=np.float64)
        values = self.layout.values(list(numbers.T), np.array(SHARES), times)
        user, system = numbers[:, CPU], numbers[:, CPU + 1]
        if self.layout.width == MAX_WIDTH:
            user = user + numbers[:, MAX_WIDTH - 1]
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: the host was idle
            return values | {"cpu_ratio.sys_share": system / (user + system)}

    @staticmethod
    def _is_frozen(numbers: NDArray[Any], others: Sequence[Row]) -> bool:
        """Return whether the memory columns never change while the host is active."""
        import numpy as np

        # The second row is compared first, because memory nearly always differs there.
        if (numbers[1:2, MEMORY] != numbers[:1, MEMORY]).any() or (numbers[1:, MEMORY] != numbers[:1, MEMORY]).any():
            return False
        rows = [[min(max(value, -1), MAX_VALUE + 1) for value in row.values[: CPU + 1]] for row in others]
        table = np.concatenate((numbers[:, : CPU + 1], np.array(rows, np.float64).reshape(-1, CPU + 1)))
        if len(table) <= MAX_FROZEN_ROWS or (table[:, MEMORY] != table[0, MEMORY]).any():
            return False
        return bool((table[:, [0, CPU - 1]] != table[0, [0, CPU - 1]]).any())


@dataclass(slots=True)
class Recording:
    """A long text: its blocks of vmstat, and the lines left to other parsers."""

    source: Source
    lines: NumberLines
    undecoded: LineDamage = field(default_factory=LineDamage)
    foreign: list[tuple[int, str]] = field(default_factory=list)
    tables: list[LongTable] = field(default_factory=list)
    parts: list[Series] = field(default_factory=list)

    def samples(self) -> Iterator[Sample]:
        """Yield the rows that are not plain; the others are added to `parts`.

        A block begins at a banner or header and consists of rows, banners and headers. A single foreign line does not
        end it unless that is a prompt, a time line or a speaker.
        """
        table: LongTable | None = None
        for first, end, width in self.lines.runs():
            if table and table.header and not table.ended:
                if width == table.header.width:
                    table.add_plain_rows(first, end)
                    continue
                if width == 0 and end - first <= 2 and table.repeats_screen_head(self.lines.raw(first, end)):
                    continue
            for number, text in self._texts(first, end if width >= 0 else first + 1):  # of empty lines only the first
                if table and not self._continues(table, number, text):
                    yield from table.finish_run()
                    table = None
                if table is None and _OPENS.match(text):
                    errors = ParseErrors(self.source, NAME)
                    table = LongTable(self.source, errors, lines=self.lines, parts=self.parts)
                    self.tables.append(table)
                if table:
                    yield from table.parse_line(number, text)
                else:
                    # A line for other parsers; an empty line marks where lines were taken out.
                    if self.foreign and self.foreign[-1][0] < number - 1:
                        self.foreign.append((number, ""))
                    self.foreign.append((number, text))
        yield from table.finish_run() if table else ()

    def _texts(self, first: int, end: int) -> Iterator[tuple[int, str]]:
        """Yield these lines, numbered from 1; a line with carriage returns inside becomes several."""
        for line in range(first, end):
            raw = self.lines.raw(line)
            if raw.isascii() and (text := raw.decode()).isprintable():
                yield line + 1, text
                continue
            damage = LineDamage()
            for _, text in number_lines(b"", iter((raw + b"\n",)), MAX_LINE_BYTES, damage):
                yield line + 1, clean(text)
            self.undecoded.add(damage, line)

    def _continues(self, table: LongTable, number: int, text: str) -> bool:
        """Return whether a line is part of the block, or a single foreign line inside it."""
        if is_banner(text) or parse_header(text, after_banner=is_banner(table._previous_line)) or is_vmstat_line(text):
            return True
        if not text.strip() or number >= len(self.lines):
            return False
        next_line = self.lines.text_of(number)
        if not is_vmstat_line(clean(next_line)):
            return False
        return parse_prompt(text) is None and parse_timestamp(text) is None and parse_speaker(text, next_line) is None


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield the series of the host, the lines for other parsers, and problems."""
    from thpdiag.parsers._table import NumberLines, SeriesBuilder  # imported late: numpy is needed only for recordings

    text, is_cut = _text(content)
    recording = Recording(source, NumberLines.of_text(text, range(MIN_WIDTH, MAX_WIDTH + 1)))
    others = SeriesBuilder()
    for sample in recording.samples():
        others.add(sample)
    if any(text for _, text in recording.foreign):
        yield Foreign(tuple(recording.foreign))
    series = [*_series(recording.parts), *others.series()]
    yield from series
    if is_cut:
        yield _cut_problem(source, len(recording.lines), series, content.size)
    for table in recording.tables:
        yield from table.errors.problems()
    yield from undecoded_problems(source, recording.undecoded, NAME)


def _series(parts: Sequence[Series]) -> Iterator[Series]:
    """Yield the plain rows of all runs as one series per clock; without a clock if no row has a time."""
    from thpdiag.parsers._table import join_series

    for clock in dict.fromkeys(part.clock for part in parts if len(part)):
        series = join_series([part for part in parts if part.clock is clock and len(part)])
        if series.seconds is not None and not (series.seconds == series.seconds).any():
            series = replace(series, seconds=None, clock=None)
        yield series if series.since_boot is None or series.since_boot.any() else replace(series, since_boot=None)


def _cut_problem(source: Source, lines: int, series: Sequence[Series], size: int | None) -> Problem:
    """Return the problem that a recording is too long, with the line and time up to which it was read."""
    times = [time.seconds for part in series if (time := part.time(len(part) - 1))]
    until = datetime.fromtimestamp(max(times), UTC).strftime(", up to %Y-%m-%d %H:%M:%S by its clock") if times else ""
    total = f" of {size}" if size else ""
    text = f"only the first {MAX_BYTES} bytes{total} were read, {lines} lines{until}"
    cite = Citation(source.member, lines + 1)
    return Problem(cite, f"{text}; what comes from this line on is not known", ProblemKind.LIMIT, NAME)


def _text(content: Content) -> tuple[bytes, bool]:
    """Return whole lines of at most `MAX_BYTES`, and whether the content was longer."""
    chunks, size = [], 0
    for chunk in content.chunks:
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            text = b"".join(chunks)[:MAX_BYTES]
            return text[: text.rfind(b"\n") + 1], True
    text = b"".join(chunks)
    return text if text.endswith(b"\n") else text + b"\n", False


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """Return whether a long member begins with a header and has almost only lines of vmstat, and no typed command."""
    if len(head) < MIN_HEAD_BYTES:
        return False
    rows = head.split(b"\n", MAX_LINES_BEFORE_HEADER)
    if not any(b" us " in row and b" si " in row for row in rows[:MAX_LINES_BEFORE_HEADER]):
        return False
    lines = [clean(line) for line in head.decode("utf-8", "replace").split("\n")[:-1]]
    foreign = [line for line in lines if not is_vmstat_line(line)]
    if len(foreign) > MAX_FOREIGN_SHARE * len(lines) or not any(HEADER.match(line) for line in lines):
        return False
    return not any(parse_prompt(line) for line in foreign)


PARSER = Parser(NAME, "vmstat table", read, opens=_OPENS, continues=is_vmstat_line)
ROWS_PARSER = Parser(
    "vmstat_rows", "rows of vmstat without their header", read, opens=_BARE_ROW, continues=is_vmstat_line,
    confirm=are_bare_rows, priority=-1,
)  # fmt: skip
BULK_PARSER = BulkParser(NAME, PARSER.title, _claims, _read_bulk, min_size=MIN_BULK_BYTES)


STATS_LINE = re.compile(r"\s*(-?\d{1,24}) (?:([kKmM]) )?([A-Za-z][A-Za-z -]{4,40})$", re.ASCII)
STATS_MEMORY = {
    "total memory": "node_memory_MemTotal_bytes",
    "active memory": "node_memory_Active_bytes",
    "inactive memory": "node_memory_Inactive_bytes",
    "free memory": "node_memory_MemFree_bytes",
    "buffer memory": "node_memory_Buffers_bytes",
    "swap cache": "vmstat_cache_bytes",
    "total cache": "vmstat_cache_bytes",
    "total swap": "node_memory_SwapTotal_bytes",
    "used swap": "node_memory_SwapUsed_bytes",
    "free swap": "node_memory_SwapFree_bytes",
}
STATS_TICKS = {
    "non-nice user cpu ticks": "user",
    "nice user cpu ticks": "nice",
    "system cpu ticks": "system",
    "idle cpu ticks": "idle",
    "IO-wait cpu ticks": "iowait",
    "IRQ cpu ticks": "irq",
    "softirq cpu ticks": "softirq",
    "stolen cpu ticks": "steal",
    "non-nice guest cpu ticks": "guest",
    "nice guest cpu ticks": "guest_nice",
}
TICKS_PER_SECOND = 100
STATS_COUNTS = {
    "pages swapped in": "node_vmstat_pswpin",
    "pages swapped out": "node_vmstat_pswpout",
    "interrupts": "node_intr_total",
    "CPU context switches": "node_context_switches_total",
    "boot time": "node_boot_time_seconds",
    "forks": "node_forks_total",
}
STATS_UNUSED = {"used memory", "pages paged in", "pages paged out", "paged in", "paged out"}


def _stats_metric(value: int, unit: str | None, label: str) -> tuple[str, float] | None:
    """Return the metric and value of a line, or None if no metric corresponds to it."""
    if label in STATS_MEMORY and unit:
        return STATS_MEMORY[label], value * UNITS[unit]
    if label in STATS_TICKS:
        return f"node_cpu_seconds_total.{STATS_TICKS[label]}", value / TICKS_PER_SECOND
    return (STATS_COUNTS[label], value) if label in STATS_COUNTS else None


@with_errors("vmstat_stats")
def read_stats(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield one sample of the host."""
    values: dict[str, float] = {}
    first: tuple[int, str] | None = None
    for number, text in lines:
        if not (line := STATS_LINE.match(text)):
            if text.strip():
                errors.note(number, text, "not a counter of vmstat -s")
            continue
        first = first or (number, text)
        metric = _stats_metric(int(line[1]), line[2], line[3].strip())
        if metric and 0 <= metric[1] <= MAX_QUANTITY:
            values[metric[0]] = metric[1]
        elif metric or line[3].strip() not in STATS_UNUSED:
            errors.note(number, text, "a counter of vmstat -s with an unknown label or an impossible number: not used")
    if values and first:
        yield Sample("system", values, source.cite(*first), "vmstat_stats", time=source.time)


STATS_PARSER = Parser(
    "vmstat_stats", "vmstat -s counters", read_stats, opens=re.compile(r"\s*\d{1,24} [kKmM] (?:total|used) memory$"),
    continues=STATS_LINE.match,
)  # fmt: skip
