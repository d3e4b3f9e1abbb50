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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Moment, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.collectl.columns import BYTES, fragments, quantum, rate
from thpdiag.readers.collectl.times import TIME, WAITING, when
from thpdiag.readers.elements.daytime import DayClock
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.elements.typed_command import typed

BANNER = re.compile(r"#\s*(?:<-*[A-Z][\w \[\]-]*>)+\s*$|#\s*$")
COLUMNS = re.compile(
    r"#\s*(?:Date\s+)?(?:Time\s+)?(?:cpu\s+sys\s+inter|Cpu\d+(?:\s|$)|Free\s+Buff\s+Cach|Fragments\s*$|"
    r"KBRead\s+Reads|KBIn\s+PktIn)"
)
ROW = re.compile(
    r"\s*(?:(?:\d{8}|\d\d/\d\d)\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+)?"
    r"(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)(?>(?:[0-9a-z]{11}(?!\S)\s*)?)(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)$"
)
CPU = ("cpu", "sys")
INTERRUPTS = "node_intr_total:rate"


def belongs(text: str) -> bool:
    if not text.strip():
        return False
    return bool(ROW.match(text) or COLUMNS.match(text) or BANNER.match(text) or WAITING.match(text))


def confirm(lines: list[str]) -> bool:
    """`waiting for` begins any output of collectl: the columns of the brief form must follow."""
    return any(COLUMNS.match(text) for text in lines[:4])


@dataclass(slots=True)
class Table:
    """Rows under one header."""

    source: Source
    odd: Oddities
    columns: Sequence[str] = ()
    changes: bool = False  # memory columns hold changes, not sizes
    by_interval: bool = False  # rates are not per second
    interval: float | None = None
    clock: DayClock = field(default_factory=DayClock)
    rows: int = 0

    def __post_init__(self) -> None:
        if command := typed(self.source.command, "collectl", with_value="siocfpPRrtAC"):
            self.interval = number(command.options.get("i", "1").partition(":")[0])
            self.by_interval = "n" in command.options.get("o", "")

    def header(self, text: str) -> None:
        self.changes = bool(re.search(r"Free {2,}Buff {2,}", text))
        self.columns = [word for word in text.lstrip("# ").split() if word not in ("Date", "Time")]

    def row(self, number: int, text: str) -> Iterator[Sample]:
        at = TIME.match(text.lstrip())
        time = when(at, self.clock) if at else self._computed()
        self.rows += 1
        cells = text.lstrip()[at.end() if at else 0 :].split()
        if len(cells) != len(self.columns):
            self.odd.note(number, text, "a row of collectl with other columns than its header")
            return
        cite = self.source.cite(number, text)
        values, resolution = self._values(number, text, dict(zip(reversed(self.columns), reversed(cells), strict=True)))
        if values:
            yield Sample("system", values, cite, "collectl_text", time=time, resolution=resolution)
        if "Fragments" in self.columns:
            yield from self._fragments(number, text, cells[self.columns.index("Fragments")], time)
        for name, cell in zip(self.columns, cells, strict=True):
            if (cpu := re.fullmatch(r"C(?:p|pu)?(\d+)", name)) and (found := rate(cell)):
                value, quantum_ = {INTERRUPTS: found.value}, {INTERRUPTS: found.resolution}
                yield Sample("cpu", value, cite, "collectl_text", (("cpu", cpu[1]),), time, quantum_)

    def _computed(self) -> Moment | None:
        """The first row comes one interval after the start."""
        if self.source.time is None or not self.interval:
            return None
        return self.source.time.plus((self.rows + 1) * self.interval)

    def _values(self, line: int, text: str, cells: dict[str, str]) -> tuple[dict[str, float], dict[str, float]]:
        values, resolution = self._cpu(line, text, cells)
        for column, (name, unit) in BYTES.items():
            if column not in cells or (self.changes if unit == "size" else self.by_interval):
                continue
            found = quantum(cells[column], unit)
            if found is None:
                self.odd.note(line, text, f"an impossible number in column {column} of collectl: not used")
                continue
            values[name], resolution[name] = found.value, found.resolution
        for column, name in (("inter", INTERRUPTS), ("ctxsw", "node_context_switches_total:rate")):
            if column not in cells or self.by_interval:
                continue
            if found := rate(cells[column]):
                values[name], resolution[name] = found.value, found.resolution
            else:
                self.odd.note(line, text, f"an impossible number in column {column} of collectl: not used")
        return values, resolution

    def _cpu(self, line: int, text: str, cells: dict[str, str]) -> tuple[dict[str, float], dict[str, float]]:
        if not set(CPU) <= cells.keys():
            return {}, {}
        busy, system = number(cells["cpu"]), number(cells["sys"])
        if busy is None or system is None or busy > 101 or system > busy + 2:
            self.odd.note(line, text, "CPU columns of collectl that cannot be percentages: not used")
            return {}, {}
        busy, system = min(busy, 100), min(system, busy, 100)
        values = {
            "cpu_ratio.busy": busy / 100,
            "cpu_ratio.sys_total_steal": system / 100,
            "cpu_ratio.user_total": (busy - system) / 100,
        }
        resolution = dict.fromkeys(values, 0.01)
        if busy:
            values["cpu_ratio.sys_share"] = system / busy
        return values, resolution

    def _fragments(self, line: int, text: str, cell: str, time: Moment | None) -> Iterator[Sample]:
        blocks = fragments(cell)
        if blocks is None:
            self.odd.note(line, text, "a Fragments column of collectl that is none: not used")
            return
        values = {f"node_buddyinfo_blocks_order{i}": b.value for i, b in enumerate(blocks)}
        resolution = {f"node_buddyinfo_blocks_order{i}": b.resolution for i, b in enumerate(blocks)}
        entity = (("node", "all"), ("zone", "all"))
        yield Sample("zone", values, self.source.cite(line, text), "collectl_text", entity, time, resolution)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One Sample of the host per row; with -sb one of all zones, with -sj one per CPU."""
    odd = Oddities(source, "collectl_text")
    table = Table(source, odd)
    for number_, text in lines:
        if waiting := WAITING.match(text):
            table.interval, table.rows = number(waiting[1]), 0
        elif COLUMNS.match(text):
            table.header(text)
        elif table.columns and text.strip() and ROW.match(text):
            yield from table.row(number_, text)
        elif text.strip() and not BANNER.match(text):
            odd.note(number_, text, "a line that is no row of collectl")
    yield from odd.problems()


READER = Reader(
    "collectl_text",
    "collectl, brief terminal output",
    read,
    opens=re.compile(f"{WAITING.pattern}|{COLUMNS.pattern}|#\\s*(?:<-*[A-Z][\\w \\[\\]-]*>)+\\s*$"),
    continues=belongs,
    confirm=confirm,
)
