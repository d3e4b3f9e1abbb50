"""collectl on a terminal, brief form: one row per interval, columns of the chosen subsystems side by side.

    #         <--------CPU--------><-----------Memory----------->
    #Time     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map
    06:02:28   50  48   366    197  23G   1M 206M  66M 108M 162M

Units: cpu and sys in percent of all CPUs; cpu = user + nice + sys, and sys has interrupts and steal in it (so it is
sys_total_steal), user is cpu - sys. Memory in KiB and KB columns in KiB/s, cut (not rounded) to the column width with
K M G T, so 1.99 GiB prints `1G`: the value given is the lower end, its resolution the unit. Fragments has one sign per
order of free blocks, all zones together: 0-9 exact, a-i tens, j-r hundreds, s and further thousands.
Varies: the columns (-s), the time before them (-oT, -od, -oD, with m also milliseconds), -oG and -og print fractions
(`9.4G`, `9g37`), -w full numbers, `--memopts R` changes per second instead of sizes (not used), -on rates per interval
(not used where the command is known). Inac is the last line of /proc/meminfo that begins so, Inactive(file) since
2.6.28; Map is Mapped and AnonPages. Web pages eat the `<---->` line as a tag. Columns are taken from the second header
line by name.
Source: collectl formatit.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of_first, parse_command, with_errors
from thpdiag.parsers._time import DayClock
from thpdiag.parsers._units import Column, Readings, parse_number
from thpdiag.parsers.collectl._columns import BRIEF, TIME, WAITING, fragments, rate, row_moment

NAME = "collectl_text"
BANNER = re.compile(r"#\s*(?:<-*[A-Z][\w \[\]-]*>)+\s*$|#\s*$")
COLUMNS = re.compile(
    r"#\s*(?:Date\s+)?(?:Time\s+)?(?:cpu\s+sys\s+inter|Cpu\d+(?:\s|$)|Free\s+Buff\s+Cach|Fragments\s*$|"
    r"KBRead\s+Reads|KBIn\s+PktIn)"
)
ROW = re.compile(
    r"\s*(?:(?:\d{8}|\d\d/\d\d)\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+)?"
    r"(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)(?>(?:[0-9a-z]{11}(?!\S)\s*)?)(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)$"
)
INTERRUPTS = Column("node_intr_total:rate", rate)


def belongs(text: str) -> bool:
    if not text.strip():
        return False
    return bool(ROW.match(text) or COLUMNS.match(text) or BANNER.match(text) or WAITING.match(text))


@dataclass(slots=True)
class Table:
    """Rows under one header."""

    source: Source
    odd: ParseErrors
    titles: Sequence[str] = ()
    columns: Mapping[str, Column] = field(default_factory=lambda: BRIEF)
    by_interval: bool = False  # rates are not per second
    interval: float | None = None
    clock: DayClock = field(default_factory=DayClock)
    rows: int = 0

    def __post_init__(self) -> None:
        if command := parse_command(self.source.command, "collectl", with_value="siocfpPRrtAC"):
            self.interval = parse_number(command.options.get("i", "1").partition(":")[0])
            self.by_interval = "n" in command.options.get("o", "")

    def header(self, text: str) -> None:
        """The titles, and which columns are of use: memory may show changes, not sizes."""
        changes = bool(re.search(r"Free {2,}Buff {2,}", text))
        self.titles = [word for word in text.lstrip("# ").split() if word not in ("Date", "Time")]
        self.columns = {
            title: column
            for title, column in BRIEF.items()
            if not (self.by_interval if column.metric.endswith(":rate") else changes)
        }

    def row(self, number: int, text: str) -> Iterator[Sample]:
        at = TIME.match(text.lstrip())
        time = row_moment(at, self.clock) if at else self._first_row_moment()
        self.rows += 1
        cells = text.lstrip()[at.end() if at else 0 :].split()
        if len(cells) != len(self.titles):
            self.odd.note(number, text, "a row of collectl with other columns than its header")
            return
        cite = self.source.cite(number, text)
        named, found = dict(zip(reversed(self.titles), reversed(cells), strict=True)), Readings()
        self._take_cpu(number, text, named, found)
        for title in found.take(self.columns, named):
            self.odd.note(number, text, f"an impossible number in column {title} of collectl: not used")
        if found.values:
            yield Sample("system", found.values, cite, NAME, (), time, found.resolution)
        if "Fragments" in named:
            yield from self._fragments(number, text, named["Fragments"], time)
        for title, cell in zip(self.titles, cells, strict=True):
            if (cpu := re.fullmatch(r"C(?:p|pu)?(\d+)", title)) and (found := Readings()).put(INTERRUPTS, rate(cell)):
                yield Sample("cpu", found.values, cite, NAME, (("cpu", cpu[1]),), time, found.resolution)

    def _first_row_moment(self) -> Moment | None:
        """The first row comes one interval after the start."""
        if self.source.time is None or not self.interval:
            return None
        return self.source.time.plus((self.rows + 1) * self.interval)

    def _take_cpu(self, line: int, text: str, cells: Mapping[str, str], found: Readings) -> None:
        if "cpu" not in cells or "sys" not in cells:
            return
        busy, system = parse_number(cells["cpu"]), parse_number(cells["sys"])
        if busy is None or system is None or busy > 101 or system > busy + 2:
            self.odd.note(line, text, "CPU columns of collectl that cannot be percentages: not used")
            return
        busy, system = min(busy, 100), min(system, busy, 100)
        found.values["cpu_ratio.busy"] = busy / 100
        found.values["cpu_ratio.sys_total_steal"] = system / 100
        found.values["cpu_ratio.user_total"] = (busy - system) / 100
        found.resolution.update(dict.fromkeys(found.values, 0.01))
        if busy:
            found.values["cpu_ratio.sys_share"] = system / busy

    def _fragments(self, line: int, text: str, cell: str, time: Moment | None) -> Iterator[Sample]:
        blocks = fragments(cell)
        if blocks is None:
            self.odd.note(line, text, "an invalid Fragments column of collectl: not used")
            return
        values = {f"node_buddyinfo_blocks_order{i}": b.value for i, b in enumerate(blocks)}
        resolution = {f"node_buddyinfo_blocks_order{i}": b.resolution for i, b in enumerate(blocks)}
        entity = (("node", "all"), ("zone", "all"))
        yield Sample("zone", values, self.source.cite(line, text), NAME, entity, time, resolution)


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """One Sample of the host per row; with -sb one of all zones, with -sj one per CPU."""
    table = Table(source, odd)
    for number, text in lines:
        if waiting := WAITING.match(text):
            table.interval, table.rows = parse_number(waiting[1]), 0
        elif COLUMNS.match(text):
            table.header(text)
        elif table.titles and text.strip() and ROW.match(text):
            yield from table.row(number, text)
        elif text.strip() and not BANNER.match(text):
            odd.note(number, text, "not a row of collectl")


PARSER = Parser(
    NAME, "collectl, brief terminal output", read,
    opens=re.compile(f"{WAITING.pattern}|{COLUMNS.pattern}|#\\s*(?:<-*[A-Z][\\w \\[\\]-]*>)+\\s*$"), continues=belongs,
    confirm=any_of_first(4, COLUMNS),  # `waiting for` begins any output of collectl
)  # fmt: skip
