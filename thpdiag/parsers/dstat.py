"""Output of dstat and pcp-dstat: CSV (--output FILE), and the table on a terminal.

The CSV begins with header lines.

    "Dstat 0.8.0 CSV output"
    "Cmdline:","dstat -tcms --output dstat.csv 2 5",,,,"Date:","20 Nov 2026 11:09:02 CET"
    "system","total cpu usage",,,,,"memory usage",,,,"swap",
    "time","usr","sys","idl","wai","stl","used","free","buff","cach","used","free"
    20-11 11:09:02,68.479,7.558,23.709,0.109,0.145,1012166656,16299692032,354381824,7007039488,0,0

Units: percent of all CPUs, usr includes nice, sys includes interrupts unless there are columns hiq and siq; bytes; per
second. CPU shares in the first row of a run are averages since boot; its other rates are totals and are not used. Times
have no year, which Date in the header gives, or are epochs (-T). Varies: a run appended to the file has its own header.
pcp-dstat names a column `total usage:usr`, counts interrupts in usr, prints memory in KiB and paging in pages; its int
and csw are counts of an interval that it does not state, and are not used. Its first row has sizes only, and a group
without values has a single empty cell.

    ----system---- --total-cpu-usage-- ------memory-usage----- ----swap--- ---system--
         time     |usr sys idl wai stl| used  free  buff  cach| used  free| int   csw
    30-11 14:15:55| 50   9  41   0   0| 146M 22.5G 54.9M  501M|   0     0 | 595  1170

The table has the same columns, with the names of the groups above them. Sizes have units of 1024 (k, M, G, T), counts
of 1000; shares are whole percents. Its times have no year, so they are times of day without a date. Columns that
--top-cpu and similar options add are not read.
Source: dstat 0.6 to 0.8, pcp-dstat 4.1 to 6.0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from thpdiag.detect.timestamps import FIRST_EPOCH, LAST_EPOCH, MONTHS
from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._time import DAY, date_seconds, day_seconds
from thpdiag.parsers._units import BINARY, MAX_QUANTITY, parse_number, parse_quantity

NAME = "dstat"
HEAD = re.compile(r'"(Dstat|pcp-dstat) [\w.]{1,20} CSV [Oo]utput"')
MARK = re.compile(r'"(Author|Host|Cmdline):"|"(?:[\w/% .:-]{1,60})?"(?:,|\s*$)')
ROW = re.compile(r"\d[\d.:, -]{0,2000}[\d,]\s*$|\d(?:\s*$)")
_DATE = re.compile(r"(\d{1,2}) ([^\W\d]{3,9})\.? (\d{4}) ")
_TIME = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)|(\d\d)-(\d\d)) (\d\d:\d\d:\d\d(?:\.\d{1,3})?)\s*$", re.ASCII)
MODES = {"idl": "idle", "wai": "iowait", "hiq": "irq", "siq": "softirq", "stl": "steal"}
CPU_GROUPS = ("total cpu usage", "total usage")
Title = tuple[str, str]  # group and name of a column
SIZES: dict[Title, str] = {
    ("memory usage", "free"): "node_memory_MemFree_bytes",
    ("memory usage", "buff"): "node_memory_Buffers_bytes",
    ("memory usage", "cach"): "vmstat_cache_bytes",
    ("swap", "used"): "node_memory_SwapUsed_bytes",
    ("swap", "free"): "node_memory_SwapFree_bytes",
    ("load avg", "1m"): "node_load1",
}
QUEUE = {("procs", "run"): "node_procs_running", ("procs", "blk"): "node_procs_blocked"}
FAULTS = {
    ("procs", "new"): "node_forks_total:rate",
    ("virtual memory", "majpf"): "node_vmstat_pgmajfault:rate",
    ("virtual memory", "minpf"): "node_vmstat_pgfault:rate",  # dstat prints all faults in this column
}
RATES = {
    ("paging", "in"): "swap_in_bytes:rate",
    ("paging", "out"): "swap_out_bytes:rate",
    ("system", "int"): "node_intr_total:rate",
    ("system", "csw"): "node_context_switches_total:rate",
} | FAULTS
PCP_KIB: dict[Title, str] = {
    ("memory usage", "free"): "node_memory_MemFree_bytes",
    ("memory usage", "buf"): "node_memory_Buffers_bytes",
    ("memory usage", "cach"): "node_memory_Cached_bytes",
}
PCP_RATES = {("paging", "in"): "node_vmstat_pswpin:rate", ("paging", "out"): "node_vmstat_pswpout:rate"} | FAULTS
TIMES = ("time", "epoch", "date/time")


def _cells(text: str) -> list[str]:
    """Return the fields of a CSV line, or [] if it is malformed."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


@dataclass(slots=True)
class Run:
    """A header and the rows below it."""

    source: Source
    errors: ParseErrors
    pcp: bool = False
    start: tuple[int, float] | None = None  # year, and midnight of the first day
    groups: Sequence[str] = ()
    columns: Sequence[Title] = ()
    instances: Collection[str] = ()  # groups for which pcp-dstat prints a single empty cell if they have no values
    rows: int = 0
    on_terminal: bool = False

    def parse_head(self, number: int, text: str) -> Iterator[Record]:
        words = _cells(text)
        label = words[0] if words else ""
        if label == "Host:":
            if len(words) > 1 and words[1]:
                yield Fact("host.name", words[1], self.source.cite(number, text))
            else:
                self._add_titles(words)
        elif label == "Cmdline:":
            date = _DATE.match(words[-1])
            month = MONTHS.get(date[2].lower()[:3]) if date else None
            midnight = date_seconds(int(date[3]), month, int(date[1])) if date and month else None
            self.start = None if midnight is None or not date else (int(date[3]), midnight)
        elif label != "Author:":
            self._add_titles(words)

    def _add_titles(self, words: Sequence[str]) -> None:
        """Store the groups (first line, each above its first column), or the columns (second line)."""
        if not self.groups:
            group = ""
            self.groups = [group := word or group for word in words]
        elif not self.columns:
            pairs = list(zip(self.groups, words, strict=False))
            self.columns = [(group, word.rpartition(":")[2]) for group, word in pairs]
            self.instances = {group for group, word in pairs if ":" in word}

    def parse_row(
        self, number: int, text: str, words: Sequence[str], quantum: float = 0.00001, last_digits: Sequence[float] = ()
    ) -> Iterator[Record]:
        """Yield the samples of a row.

        `quantum` is the last printed digit of the CPU shares, `last_digits` those of cells with a unit, by column.
        """
        if len(words) != len(self.columns):
            self.errors.note(number, text, "a row of dstat with other columns than its head")
            return
        self.rows += 1
        cells = dict(zip(self.columns, words, strict=True))
        time, cite = self._time(cells), self.source.cite(number, text)
        gauges = self._numbers(number, text, cells, PCP_KIB if self.pcp else SIZES, 1024 if self.pcp else 1)
        gauges |= self._numbers(number, text, cells, QUEUE)
        rates = self._numbers(number, text, cells, PCP_RATES if self.pcp else RATES)
        shares = self._shares(cells)
        if shares is None:
            self.errors.note(number, text, "CPU shares of dstat that do not add up: not used")
            shares = {}
        quanta = {name: quantum for name in shares if name != "cpu_ratio.sys_share"}
        digits = dict(zip(self.columns, last_digits, strict=False))
        rounded = {n: digits[t] for t, n in (SIZES | RATES).items() if digits.get(t) and n in gauges | rates}
        if self.rows > 1 or self.pcp:
            parts = [(gauges | rates | shares, quanta | rounded, False)]
        else:  # the rates of the first row are totals divided by the delay, which are meaningless
            parts = [(gauges, {n: q for n, q in rounded.items() if n in gauges}, False), (shares, quanta, True)]
        for values, resolution, since_boot in parts:
            if values:
                yield Sample("system", values, cite, NAME, (), time, resolution, since_boot)

    def expand_empty_groups(self, words: list[str]) -> list[str]:
        """Return the cells of a row with the single cell of each empty group expanded to all its columns."""
        missing, index, cells = len(self.columns) - len(words), 0, []
        while missing > 0 and index < len(self.columns) and words:
            group = self.columns[index][0]
            size = len(list(takewhile(lambda column, group=group: column[0] == group, self.columns[index:])))  # type: ignore[misc]
            if group in self.instances and not words[0] and missing >= size - 1:
                cells += [""] * size
                missing -= size - 1
                del words[0]
            else:
                cells += words[:size]
                del words[:size]
            index += size
        return cells + words

    def _numbers(
        self, number: int, text: str, cells: Mapping[Title, str], names: Mapping[Title, str], unit: float = 1
    ) -> dict[str, float]:
        parsed = {name: parse_number(cells[title]) for title, name in names.items() if cells.get(title)}
        numbers = {n: value * unit for n, value in parsed.items() if value is not None and value <= MAX_QUANTITY / 1024}
        if len(numbers) < len(parsed):
            self.errors.note(number, text, "an impossible number of dstat: not used")
        return numbers

    def _shares(self, cells: Mapping[Title, str]) -> dict[str, float] | None:
        """Return the CPU ratios of a row; None if its cells are not plausible shares."""
        group = next((g for g in CPU_GROUPS if (g, "usr") in cells), None)
        parsed = {name: parse_number(text) for (g, name), text in cells.items() if g == group and text}
        shares = {name: value / 100 for name, value in parsed.items() if value is not None}
        if not parsed:
            return {}
        if len(shares) < len(parsed) or not is_plausible(shares) or not {"usr", "sys"} <= shares.keys():
            return None
        parts = {mode: shares[name] for name, mode in MODES.items() if name in shares}
        if self.pcp and "hiq" not in shares:  # usr includes interrupts
            busy = min(shares["usr"] + shares["sys"], 1.0)
            values = {f"cpu_ratio.{mode}": value for mode, value in parts.items()}
            return values | {"cpu_ratio.system": shares["sys"], "cpu_ratio.busy": busy}
        ratios = cpu_ratios({**parts, "user": shares["usr"], "system": shares["sys"]})
        hidden = {"cpu_ratio.user"} | (set() if "hiq" in shares else {"cpu_ratio.system"})
        return {name: value for name, value in ratios.items() if name not in hidden}

    def _time(self, cells: Mapping[Title, str]) -> Moment | None:
        """Return the time of an epoch or a clock time. A date without a year is on or after the date in the header."""
        text = next((text for (_, name), text in cells.items() if name in TIMES), "")
        epoch = parse_number(text.strip())
        if epoch is not None and FIRST_EPOCH <= epoch <= LAST_EPOCH:
            return Moment(epoch, Clock.UTC)
        match = _TIME.match(text)
        clock = day_seconds(match[6]) if match else None
        if not match or clock is None:
            return None
        if not match[1] and self.on_terminal:
            return Moment(clock, Clock.DAY)
        midnight = None
        if match[1]:
            midnight = date_seconds(int(match[1]), int(match[2]), int(match[3]))
        elif self.start is not None:
            year, first_midnight = self.start
            midnight = date_seconds(year, int(match[5]), int(match[4]))
            if midnight is not None and midnight < first_midnight - DAY:
                midnight = date_seconds(year + 1, int(match[5]), int(match[4]))
        return None if midnight is None else Moment(midnight + clock, Clock.LOCAL)


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of the host per row."""
    run = Run(source, errors)
    for number, text in lines:
        if head := HEAD.match(text):
            run = Run(source, errors, pcp=head[1] == "pcp-dstat")
        elif MARK.match(text):
            if text.startswith('"Host:"') and run.columns:
                run = Run(source, errors, pcp=run.pcp)
            yield from run.parse_head(number, text)
        elif run.columns and ROW.match(text):
            yield from run.parse_row(number, text, run.expand_empty_groups(_cells(text)))
        elif text.strip():
            errors.note(number, text, "not a line of dstat")


PARSER = Parser(NAME, "dstat and pcp-dstat CSV", read, opens=HEAD, continues=any_of(ROW, MARK, HEAD, blank=True))


TABLE = "dstat_table"
GROUPS = re.compile(
    r"\s{0,4}-{1,12}(?:total|memory|system|dsk/|procs|load|net/|paging|swap|epoch|io/|virtual)-?[a-z0-9/ -]{2,400}$"
)
COLUMNS = re.compile(r"(?=.{0,300}(?:\busr sys idl\b|\bused  (?:free|buff)\b|\brun blk new\b))[ a-z0-9/#%_|-]{1,600}$")
TABLE_ROW = re.compile(r"\s{0,8}\d[\s\d.:|BkMGT-]{4,400}(?:\|[^|]{0,120}){0,4}$")
TICKS = re.compile(r"\s{0,8}missed \d{1,9} ticks")
COUNTS = ("system", "procs", "virtual memory", "load avg", "total cpu usage", "total usage")
THOUSANDS = {"k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
WHOLE_PERCENT = 0.01


def _parse_titles(groups: str, columns: str) -> list[tuple[str, list[str]]]:
    """Return each group with the names of its columns."""
    names = [name.strip("-").replace("-", " ") for name in groups.split()]
    parts = [part.split() for part in columns.split("|")]
    return [(group, words) for group, words in zip(names, parts, strict=False) if words]


def _cells_of_row(text: str, parts: Sequence[tuple[str, list[str]]]) -> tuple[list[str], list[float]]:
    """Return the cells as plain numbers, and the last printed digit of each cell with a unit (0 without a unit).

    Cells are empty in a group whose cells do not fit its columns, as with names of programs.
    """
    cells: list[str] = []
    last_digits: list[float] = []
    for part, (group, columns) in zip(text.split("|"), parts, strict=False):
        words = [part.strip()] if columns[0] in TIMES else part.split()
        for word in words if len(words) == len(columns) else [""] * len(columns):
            suffixes = THOUSANDS if group in COUNTS else BINARY
            quantity = parse_quantity(word, suffixes=suffixes) if word[-1:].isalpha() else None
            cells.append(f"{quantity.value:.3f}" if quantity else word)
            last_digits.append(quantity.resolution if quantity else 0.0)
    return cells, last_digits


@with_errors(TABLE)
def read_table(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of the host per row of a table."""
    run = Run(source, errors, on_terminal=True)
    groups = ""
    parts: list[tuple[str, list[str]]] = []
    for number, text in lines:
        if GROUPS.match(text):
            groups = text
        elif COLUMNS.match(text):
            parts = _parse_titles(groups, text)
            titles = [(group, word) for group, words in parts for word in words]
            if titles != run.columns:
                is_pcp = any(group == "total usage" for group, _ in titles)
                run = Run(source, errors, pcp=is_pcp, columns=titles, on_terminal=True)
        elif run.columns and TABLE_ROW.match(text):
            cells, last_digits = _cells_of_row(text, parts)
            yield from run.parse_row(number, text, cells, WHOLE_PERCENT, last_digits)
        elif text.strip() and not TICKS.match(text):
            errors.note(number, text, "not a line of dstat")


TABLE_PARSER = Parser(
    TABLE, "dstat on a terminal", read_table, opens=GROUPS, continues=any_of(GROUPS, COLUMNS, TABLE_ROW, TICKS),
    confirm=lambda lines: any(map(COLUMNS.match, lines)), lookahead=3,
)  # fmt: skip
