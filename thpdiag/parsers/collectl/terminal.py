"""What collectl prints at a terminal: the brief and the verbose form, process tables, many hosts by colmux.

collectl on a terminal, brief form: one row per interval, columns of the chosen subsystems side by side.

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

colmux: collectl of many hosts, a row of each, as one table an interval.

    # Sat Nov 28 17:19:14 2026  Connected: 2 of 2
    #         <--------CPU--------><-----------Memory----------->
    #Host     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map
    node2      99   3   696    452  19G  48M   2G   1G 612M   1G
    node1      99   3   698    454  19G  48M   2G   1G 612M   1G

Columns and units are those of collectl's brief form. The line above names the time of all rows; of a recording that is
played back it is a span (`# 17:19:14-17:19:19  Reporting: 2 of 2`), and rows are known by the time before them (-oT,
-oD). Without it they stand in the order of a column, which says nothing of when they were, and are left out.
Varies: in 4.3.1 the titles of the time come again and again. Left out: hosts side by side in one row (-cols).
Source: colmux 5.0; recorded with collectl 4.3.1.

collectl on a terminal, verbose form and process tables: CPU SUMMARY, MEMORY SUMMARY, PROCESS SUMMARY, TOP PROCESSES.

    ### RECORD    1 >>> host <<< (1795154603.001) (Fri Nov 20 06:03:23 2026) ###
    # CPU SUMMARY (INTR, CTXSW & PROC /sec)
    # User  Nice   Sys  Wait   IRQ  Soft Steal Guest NiceG  Idle  CPUs  Intr  Ctxsw  Proc  RunQ   Run   Avg1  ...
         2     0    48     0     0     0     0     0     0    48     2   374    206     0   104     1   0.77  ...

Units: percent of all CPUs (of one in SINGLE CPU STATISTICS), Sys without interrupts and steal, guests inside User;
memory in KiB, cut to the column with K M G; VSZ and RSS cut to four characters (a 50 GiB process hides steps under
1 GiB: see the resolution); Pct of one CPU; MajF and MinF per second unless the title says cumulative; THRD is threads
less one, RunT is without collectl itself. Inact is the last line of /proc/meminfo that begins so, Inactive(file) since
2.6.28; that of a NUMA node (MEMORY STATISTICS with Node) is all of it. MEMORY FRAGMENTATION counts free blocks.
Varies: Guest, NiceG since 3.7.4, RunT, BlkT, Anon since 3.6.0, AnonH since 4.0.3; `--procopts m` has VmSize to VmSwp
in KiB; the RECORD line is absent for a single subsystem; times as in the brief form. Columns go by name. Not read:
`--memopts R` (changes instead of sizes), `--memopts V` (its Total and Free are of swap), rates with -on (per interval:
`/int` in the title), other subsystems.
Source: collectl formatit.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Clock, Fact, Moment, Record, Sample, Subject
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, cpu_seconds, is_plausible, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, parse_command, with_errors
from thpdiag.parsers._time import DayClock
from thpdiag.parsers._units import Column, Readings, columns, parse_number, parse_share
from thpdiag.parsers.collectl import _columns as collectl
from thpdiag.parsers.collectl._columns import BRIEF, TIME, VERBOSE, WAITING, fragments, rate, row_moment, size

BRIEF_NAME = "collectl_text"
BRIEF_BANNER = re.compile(r"#\s*(?:<-*[A-Z][\w \[\]-]*>)+\s*$|#\s*$")
BRIEF_COLUMNS = re.compile(
    r"#\s*(?:Date\s+)?(?:Time\s+)?(?:cpu\s+sys\s+inter|Cpu\d+(?:\s|$)|Free\s+Buff\s+Cach|Fragments\s*$|"
    r"KBRead\s+Reads|KBIn\s+PktIn)"
)
BRIEF_ROW = re.compile(
    r"\s*(?:(?:\d{8}|\d\d/\d\d)\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+)?"
    r"(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)(?>(?:[0-9a-z]{11}(?!\S)\s*)?)(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*)*)$"
)
INTERRUPTS = Column("node_intr_total:rate", rate)


def _is_brief(text: str) -> bool:
    if not text.strip():
        return False
    return bool(BRIEF_ROW.match(text) or BRIEF_COLUMNS.match(text) or BRIEF_BANNER.match(text) or WAITING.match(text))


@dataclass(slots=True)
class BriefTable:
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
            yield Sample("system", found.values, cite, BRIEF_NAME, (), time, found.resolution)
        if "Fragments" in named:
            yield from self._fragments(number, text, named["Fragments"], time)
        for title, cell in zip(self.titles, cells, strict=True):
            if (cpu := re.fullmatch(r"C(?:p|pu)?(\d+)", title)) and (found := Readings()).put(INTERRUPTS, rate(cell)):
                yield Sample("cpu", found.values, cite, BRIEF_NAME, (("cpu", cpu[1]),), time, found.resolution)

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
        yield Sample("zone", values, self.source.cite(line, text), BRIEF_NAME, entity, time, resolution)


@with_errors(BRIEF_NAME)
def read_brief(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """One Sample of the host per row; with -sb one of all zones, with -sj one per CPU."""
    table = BriefTable(source, odd)
    for number, text in lines:
        if waiting := WAITING.match(text):
            table.interval, table.rows = parse_number(waiting[1]), 0
        elif BRIEF_COLUMNS.match(text):
            table.header(text)
        elif table.titles and text.strip() and BRIEF_ROW.match(text):
            yield from table.row(number, text)
        elif text.strip() and not BRIEF_BANNER.match(text):
            odd.note(number, text, "not a row of collectl")


BRIEF_PARSER = Parser(
    BRIEF_NAME, "collectl, brief terminal output", read_brief,
    opens=re.compile(f"{WAITING.pattern}|{BRIEF_COLUMNS.pattern}|#\\s*(?:<-*[A-Z][\\w \\[\\]-]*>)+\\s*$"),
    continues=_is_brief, confirm=any_of_first(4, BRIEF_COLUMNS),  # `waiting for` begins any output of collectl
)  # fmt: skip


COLMUX = "colmux"
_SCREEN = re.compile(r"#+ (?P<time>\S.{4,60}?)  (?:Connected|Reporting): \d{1,6} of \d{1,6}\b")
_COLMUX_HEAD = re.compile(r"#Host\s+(?P<titles>\S.*)$")
_REPEATED = re.compile(r"\b(?:Date|Time|e)\s+")
_COLMUX_ROW = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252})\s+(?P<row>\d[\d.:/KMGTPgt\s-]{3,400})$")


@with_errors(COLMUX)
def read_colmux(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of each host behind its name."""
    table, host, when = BriefTable(source, odd), "", source.time
    for number, text in lines:
        if screen := _SCREEN.match(text):
            when = parse_timestamp(screen["time"])
        elif head := _COLMUX_HEAD.match(text):
            table.header(_REPEATED.sub("", head["titles"]))
        elif table.titles and (found := _COLMUX_ROW.match(text)) and BRIEF_ROW.match(found["row"]):
            at = TIME.match(found["row"])
            if at is None and when is None:
                odd.note(number, text, "a row of colmux without its time; run it with -oT")
                continue
            if found["host"] != host:
                host = found["host"]
                yield Fact("host.name", host, source.cite(number, text))
            table.clock = DayClock()  # rows are not in the order of time
            for sample in table.row(number, found["row"]):
                cite = source.cite(number, text)
                yield replace(sample, cite=cite, reader=COLMUX, time=sample.time if at else when)
        elif text.strip() and not BRIEF_BANNER.match(text):
            odd.note(number, text, "not a row of colmux")


COLMUX_PARSER = Parser(
    COLMUX, "colmux, collectl of many hosts", read_colmux, opens=_SCREEN, priority=1,
    continues=any_of(_SCREEN, _COLMUX_HEAD, BRIEF_BANNER, _COLMUX_ROW, blank=True),
)  # fmt: skip


VERBOSE_NAME = "collectl_verbose"
RECORD = re.compile(r"### RECORD\s+\d+ >>> (\S{0,255}) <<< \((\d{9,10}\.\d+)[^)]{0,20}\)")
TITLE = re.compile(
    r"# (?:CPU(?:\[HYPER\])? SUMMARY|MEMORY (?:SUMMARY|STATISTICS|FRAGMENTATION)|SINGLE CPU(?:\[HYPER\])? STATISTICS|"
    r"PROCESS SUMMARY|TOP PROCESSES) ?(.*)"
)
# of subsystems that are not read; their tables stand between the others
OTHER = re.compile(
    r"# [A-Z][A-Z /\[\]]{0,40} (?:SUMMARY|STATISTICS|DETAILS?|\([\w/ ]{1,20}\))(?: .*)?$|# ENVIRONMENTALS?\b"
)
HEADER = re.compile(
    r"#(?:Date\s+Time|Time)?\s*(?=User\s+Nice|Total\s+Used\s+Free|PID\s+User|Node\s+Total|Cpu\s+User|(?:Node\s+Zone\s+)?1Pg\s)"
)
NAMES = re.compile(
    r"#(?:\s{2,20}|(?! ))[A-Za-z]\w{0,20}(?:\s{1,20}[\w%/.-]{1,20}){2,60}\s*$"
)  # columns of another table
NUMBERS = re.compile(r"\s*(?:(?!#)\S{1,40}\s+){0,4}?(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*){3,60})$")
VERBOSE_BANNER = re.compile(r"#\s*<-+\w")
VERBOSE_ROW = re.compile(
    r"\s*(?:(?:\d{8}|\d\d/\d\d)\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+)?\d[\d.KMGTPgt]*(?:\s+\S+){8,}\s*$"
)
MODES = {("IRQ" if title == "Irq" else title): mode for title, mode in collectl.MODES.items()}
MEMORY = collectl.sizes(collectl.MEMORY, VERBOSE, "node_memory_{}_bytes")
NODE_MEMORY = collectl.sizes(collectl.NODE_MEMORY, VERBOSE, "node_memory_numa_{}_bytes")
RATES = collectl.rates(VERBOSE)
COUNTS = columns({"RunT": "node_procs_running", "BlkT": "node_procs_blocked", "Avg1": "node_load1"})
TASK_SIZES = columns(
    {
        "VSZ": "process_virtual_memory_bytes",
        "RSS": "process_resident_memory_bytes",
        "VmSize": "process_virtual_memory_bytes",
        "VmRSS": "process_resident_memory_bytes",
        "VmSwp": "process_swap_bytes",
    },
    size,
)
TASK = {
    "Pct": Column("process_cpu_ratio", factor=0.01, quantum=0.01),
    "AccuTime": Column("process_cpu_seconds_total", cpu_seconds),
}
FAULTS = {"MajF": "process_major_faults_total", "MinF": "process_minor_faults_total"}
FAULT_TOTALS = columns(FAULTS, rate)
FAULT_RATES = columns({title: f"{name}:rate" for title, name in FAULTS.items()}, rate)


@dataclass(slots=True)
class Tables:
    """The tables of one recording."""

    source: Source
    odd: ParseErrors
    titles: Sequence[str] = ()
    cumulative: bool = False
    changes: bool = False  # sizes are changes
    by_interval: bool = False  # rates are not per second
    host: str = ""
    record_time: Moment | None = None
    clock: DayClock = field(default_factory=DayClock)

    def record(self, line: int, text: str, found: re.Match[str]) -> Iterator[Fact]:
        """A record begins: its time, and the host when it is another one than that before it."""
        self.record_time = Moment(float(found[2]), Clock.UTC)
        if found[1] and found[1] != self.host:
            self.host = found[1]
            yield Fact("host.name", self.host, self.source.cite(line, text))

    def title(self, rest: str) -> None:
        self.titles = ()
        self.cumulative, self.changes = "cumulative" in rest, "change" in rest
        self.by_interval |= "/int" in rest and not self.changes

    def row(self, line: int, text: str) -> Iterator[Sample]:
        if self.changes:
            return
        at = TIME.match(text.lstrip())
        cells = text.lstrip()[at.end() if at else 0 :].split(None, max(len(self.titles) - 1, 0))
        if len(cells) != len(self.titles) or (self.titles[-1] != "Command" and " " in cells[-1]):
            self.odd.note(line, text, "a row of collectl with other columns than its header")
            return
        named = dict(zip(reversed(self.titles), reversed(cells), strict=True))  # of twin columns the first is kept
        time = self.record_time  # an epoch: better than the local clock
        if time is None and at:
            time = row_moment(at, self.clock)
        found = Readings()
        kind, entity = self._take(line, text, named, found)
        if found.values:
            yield Sample(kind, found.values, self.source.cite(line, text), VERBOSE_NAME, entity, time, found.resolution)

    def _take(self, line: int, text: str, cells: Mapping[str, str], found: Readings) -> Subject:
        """The numbers of a row, and whose they are."""
        if "PID" in cells:
            self._take_task(line, text, cells, found)
            return "process", process_entity(cells["PID"], task_name(cells.get("Command", "")))
        if "1Pg" in cells:
            self._take_blocks(line, text, cells, found)
            return "zone", (("node", cells.get("Node", "all")), ("zone", cells.get("Zone", "all")))
        if "Idle" in cells:
            self._take_cpu(line, text, cells, found)
        else:
            sizes = NODE_MEMORY if "Node" in cells else MEMORY if "Buff" in cells else {}  # without Buff of swap
            self._take_sizes(line, text, cells, found, sizes)
        for title in found.take({} if self.by_interval else RATES, cells):
            self.odd.note(line, text, f"an impossible number in column {title} of collectl: not used")
        if "Node" in cells:
            return "node", (("node", cells["Node"]),)
        return ("cpu", (("cpu", cells["Cpu"]),)) if "Cpu" in cells else ("system", ())

    def _take_sizes(
        self, line: int, text: str, cells: Mapping[str, str], found: Readings, sizes: Mapping[str, Column]
    ) -> None:
        for title in found.take(sizes, cells):
            self.odd.note(line, text, f"an impossible number for {sizes[title].metric}: not used")

    def _take_task(self, line: int, text: str, cells: Mapping[str, str], found: Readings) -> None:
        self._take_sizes(line, text, cells, found, TASK_SIZES)
        found.take(TASK, cells)
        if "THRD" in cells and (threads := parse_number(cells["THRD"])) is not None:
            found.values["process_threads"] = threads + 1
        found.take(FAULT_TOTALS if self.cumulative else FAULT_RATES, cells)

    def _take_blocks(self, line: int, text: str, cells: Mapping[str, str], found: Readings) -> None:
        for title, cell in cells.items():
            blocks = parse_number(cell) if title.endswith(("Pg", "Pgs")) else None
            if blocks is not None:
                order = int(title.rstrip("Pgs")).bit_length() - 1
                found.values[f"node_buddyinfo_blocks_order{order}"] = blocks
            elif title.endswith(("Pg", "Pgs")):
                self.odd.note(line, text, f"an impossible number in column {title} of collectl: not used")

    def _take_cpu(self, line: int, text: str, cells: Mapping[str, str], found: Readings) -> None:
        shares = {mode: parse_share(cells[title]) for title, mode in MODES.items() if title in cells}
        parts = {mode: value for mode, value in shares.items() if value is not None}
        if len(parts) == len(shares) and is_plausible(parts):
            found.values.update(cpu_ratios(parts))
            found.resolution.update(dict.fromkeys(found.values, 0.01))
        else:
            self.odd.note(line, text, "CPU columns of collectl that do not add up to 100 %: not used")
        found.take(COUNTS, cells)


@with_errors(VERBOSE_NAME)
def read_verbose(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample per row: of the host from the summaries, of a process, CPU, zone or NUMA node from their tables.

    RECORD lines name the host.
    """
    tables = Tables(source, odd)
    for line, text in lines:
        if found := RECORD.match(text):
            yield from tables.record(line, text, found)
        elif found := TITLE.match(text):
            tables.title(found[1])
        elif found := HEADER.match(text):
            tables.titles = text[found.end() :].split()
        elif tables.titles and not text.startswith("#") and (VERBOSE_ROW.match(text) or NUMBERS.match(text)):
            yield from tables.row(line, text)
        elif text.strip() and not any(p.match(text) for p in (VERBOSE_BANNER, WAITING, OTHER, NAMES, NUMBERS)):
            odd.note(line, text, "not a row of collectl")
        elif text.startswith("#") and not VERBOSE_BANNER.match(text):
            tables.titles = ()  # of a table that is not read


VERBOSE_PARSER = Parser(
    VERBOSE_NAME, "collectl, verbose terminal output", read_verbose,
    opens=re.compile(f"{WAITING.pattern}|{RECORD.pattern}|{TITLE.pattern}|{HEADER.pattern}"),
    continues=any_of(RECORD, TITLE, HEADER, VERBOSE_BANNER, VERBOSE_ROW, WAITING, OTHER, NAMES, NUMBERS, blank=True),
    confirm=any_of_first(5, RECORD, TITLE, HEADER),
)  # fmt: skip
