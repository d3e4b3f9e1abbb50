"""Terminal output of collectl: the brief and the verbose form, process tables, and colmux for many hosts.

Brief form: one row per interval, with the columns of all selected subsystems.

    #         <--------CPU--------><-----------Memory----------->
    #Time     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map
    06:02:28   50  48   366    197  23G   1M 206M  66M 108M 162M

Units: cpu and sys in percent of all CPUs; cpu = user + nice + sys, and sys includes interrupts and steal (so it is
sys_total_steal); user is cpu - sys. Memory is in KiB and KB columns in KiB/s, truncated (not rounded) to the column
width with K M G T, so 1.99 GiB prints `1G`: the value is the lower end, the resolution is the unit. Fragments has one
character per order of free blocks of all zones: 0-9 exact, a-i tens, j-r hundreds, from s on thousands.
Varies: the columns (-s), the time before them (-oT, -od, -oD, with m also milliseconds); -oG and -og print fractions
(`9.4G`, `9g37`), -w full numbers, `--memopts R` changes per second instead of sizes (not used), -on rates per interval
(not used if the command is known). Inac is the last line of /proc/meminfo with that prefix, Inactive(file) since
2.6.28; Map is Mapped and AnonPages. Web pages drop the `<---->` line as an HTML tag, so columns are identified by the
names in the second header line.
Source: collectl formatit.ph, 3.5 to 4.3.

colmux: collectl of many hosts as one table per interval, with a row per host.

    # Sat Nov 28 17:19:14 2026  Connected: 2 of 2
    #         <--------CPU--------><-----------Memory----------->
    #Host     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map
    node2      99   3   696    452  19G  48M   2G   1G 612M   1G
    node1      99   3   698    454  19G  48M   2G   1G 612M   1G

Columns and units are those of the brief form. The first line has the time of all rows; in playback of a recording it is
an interval (`# 17:19:14-17:19:19  Reporting: 2 of 2`), and each row needs a time before it (-oT, -oD). Rows without it
are sorted by a column, so their times are unknown and they are not used.
Varies: 4.3.1 repeats the titles of the time. Not read: hosts next to each other in one row (-cols).
Source: colmux 5.0; recorded with collectl 4.3.1.

Verbose form and process tables: CPU SUMMARY, MEMORY SUMMARY, PROCESS SUMMARY, TOP PROCESSES.

    ### RECORD    1 >>> host <<< (1795154603.001) (Fri Nov 20 06:03:23 2026) ###
    # CPU SUMMARY (INTR, CTXSW & PROC /sec)
    # User  Nice   Sys  Wait   IRQ  Soft Steal Guest NiceG  Idle  CPUs  Intr  Ctxsw  Proc  RunQ   Run   Avg1  ...
         2     0    48     0     0     0     0     0     0    48     2   374    206     0   104     1   0.77  ...

Units: percent of all CPUs (of one in SINGLE CPU STATISTICS), Sys excludes interrupts and steal, User includes guests;
memory in KiB, truncated to the column width with K M G; VSZ and RSS truncated to four characters (changes below 1 GiB
of a 50 GiB process are invisible: see the resolution); Pct of one CPU; MajF and MinF per second unless the title has
`cumulative`; THRD is threads less one, RunT excludes collectl itself. Inact is the last line of /proc/meminfo with that
prefix, Inactive(file) since 2.6.28; that of a NUMA node (MEMORY STATISTICS with Node) is the sum. MEMORY FRAGMENTATION
counts free blocks.
Varies: Guest, NiceG since 3.7.4, RunT, BlkT, Anon since 3.6.0, AnonH since 4.0.3; `--procopts m` has VmSize to VmSwp
in KiB; the RECORD line is absent for a single subsystem; times as in the brief form. Columns are identified by name.
Not read: `--memopts R` (changes instead of sizes), `--memopts V` (Total and Free are those of swap), rates with -on
(per interval: `/int` in the title), other subsystems.
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
    """The rows below one header."""

    source: Source
    errors: ParseErrors
    titles: Sequence[str] = ()
    columns: Mapping[str, Column] = field(default_factory=lambda: BRIEF)
    by_interval: bool = False  # rates are per interval, not per second
    interval: float | None = None
    clock: DayClock = field(default_factory=DayClock)
    rows: int = 0

    def __post_init__(self) -> None:
        if command := parse_command(self.source.command, "collectl", with_value="siocfpPRrtAC"):
            self.interval = parse_number(command.options.get("i", "1").partition(":")[0])
            self.by_interval = "n" in command.options.get("o", "")

    def parse_header(self, text: str) -> None:
        """Set the titles and the usable columns: memory may show changes instead of sizes."""
        has_changes = bool(re.search(r"Free {2,}Buff {2,}", text))
        self.titles = [word for word in text.lstrip("# ").split() if word not in ("Date", "Time")]
        self.columns = {
            title: column
            for title, column in BRIEF.items()
            if not (self.by_interval if column.metric.endswith(":rate") else has_changes)
        }

    def parse_row(self, number: int, text: str) -> Iterator[Sample]:
        match = TIME.match(text.lstrip())
        time = row_moment(match, self.clock) if match else self._computed_moment()
        self.rows += 1
        cells = text.lstrip()[match.end() if match else 0 :].split()
        if len(cells) != len(self.titles):
            self.errors.note(number, text, "a row of collectl with other columns than its header")
            return
        cite = self.source.cite(number, text)
        by_title, readings = dict(zip(reversed(self.titles), reversed(cells), strict=True)), Readings()
        self._parse_cpu(number, text, by_title, readings)
        for title in readings.take(self.columns, by_title):
            self.errors.note(number, text, f"an impossible number in column {title} of collectl: not used")
        if readings.values:
            yield Sample("system", readings.values, cite, BRIEF_NAME, (), time, readings.resolution)
        if "Fragments" in by_title:
            yield from self._fragments(number, text, by_title["Fragments"], time)
        for title, cell in zip(self.titles, cells, strict=True):
            if (cpu := re.fullmatch(r"C(?:p|pu)?(\d+)", title)) and (readings := Readings()).put(
                INTERRUPTS, rate(cell)
            ):
                yield Sample("cpu", readings.values, cite, BRIEF_NAME, (("cpu", cpu[1]),), time, readings.resolution)

    def _computed_moment(self) -> Moment | None:
        """Return the time of a row without a printed time; the first row is printed one interval after the start."""
        if self.source.time is None or not self.interval:
            return None
        return self.source.time.plus((self.rows + 1) * self.interval)

    def _parse_cpu(self, line: int, text: str, cells: Mapping[str, str], readings: Readings) -> None:
        if "cpu" not in cells or "sys" not in cells:
            return
        busy, system = parse_number(cells["cpu"]), parse_number(cells["sys"])
        if busy is None or system is None or busy > 101 or system > busy + 2:
            self.errors.note(line, text, "CPU columns of collectl that cannot be percentages: not used")
            return
        busy, system = min(busy, 100), min(system, busy, 100)
        readings.values["cpu_ratio.busy"] = busy / 100
        readings.values["cpu_ratio.sys_total_steal"] = system / 100
        readings.values["cpu_ratio.user_total"] = (busy - system) / 100
        readings.resolution.update(dict.fromkeys(readings.values, 0.01))
        if busy:
            readings.values["cpu_ratio.sys_share"] = system / busy

    def _fragments(self, line: int, text: str, cell: str, time: Moment | None) -> Iterator[Sample]:
        blocks = fragments(cell)
        if blocks is None:
            self.errors.note(line, text, "an invalid Fragments column of collectl: not used")
            return
        values = {f"node_buddyinfo_blocks_order{i}": b.value for i, b in enumerate(blocks)}
        resolution = {f"node_buddyinfo_blocks_order{i}": b.resolution for i, b in enumerate(blocks)}
        entity = (("node", "all"), ("zone", "all"))
        yield Sample("zone", values, self.source.cite(line, text), BRIEF_NAME, entity, time, resolution)


@with_errors(BRIEF_NAME)
def read_brief(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield one sample of the host per row; with -sb also one of all zones, with -sj one per CPU."""
    table = BriefTable(source, errors)
    for number, text in lines:
        if waiting := WAITING.match(text):
            table.interval, table.rows = parse_number(waiting[1]), 0
        elif BRIEF_COLUMNS.match(text):
            table.parse_header(text)
        elif table.titles and text.strip() and BRIEF_ROW.match(text):
            yield from table.parse_row(number, text)
        elif text.strip() and not BRIEF_BANNER.match(text):
            errors.note(number, text, "not a row of collectl")


BRIEF_PARSER = Parser(
    BRIEF_NAME, "collectl, brief terminal output", read_brief,
    opens=re.compile(f"{WAITING.pattern}|{BRIEF_COLUMNS.pattern}|#\\s*(?:<-*[A-Z][\\w \\[\\]-]*>)+\\s*$"),
    continues=_is_brief, confirm=any_of_first(4, BRIEF_COLUMNS),  # because `waiting for` begins any output of collectl
)  # fmt: skip


COLMUX = "colmux"
_SCREEN = re.compile(r"#+ (?P<time>\S.{4,60}?)  (?:Connected|Reporting): \d{1,6} of \d{1,6}\b")
_COLMUX_HEAD = re.compile(r"#Host\s+(?P<titles>\S.*)$")
_REPEATED = re.compile(r"\b(?:Date|Time|e)\s+")
_COLMUX_ROW = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252})\s+(?P<row>\d[\d.:/KMGTPgt\s-]{3,400})$")


@with_errors(COLMUX)
def read_colmux(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield the samples of each host after its name."""
    table, host, screen_time = BriefTable(source, errors), "", source.time
    for number, text in lines:
        if screen := _SCREEN.match(text):
            screen_time = parse_timestamp(screen["time"])
        elif head := _COLMUX_HEAD.match(text):
            table.parse_header(_REPEATED.sub("", head["titles"]))
        elif table.titles and (row := _COLMUX_ROW.match(text)) and BRIEF_ROW.match(row["row"]):
            has_time = TIME.match(row["row"]) is not None
            if not has_time and screen_time is None:
                errors.note(number, text, "a row of colmux without its time; run it with -oT")
                continue
            if row["host"] != host:
                host = row["host"]
                yield Fact("host.name", host, source.cite(number, text))
            table.clock = DayClock()  # rows are not in chronological order
            for sample in table.parse_row(number, row["row"]):
                cite = source.cite(number, text)
                yield replace(sample, cite=cite, reader=COLMUX, time=sample.time if has_time else screen_time)
        elif text.strip() and not BRIEF_BANNER.match(text):
            errors.note(number, text, "not a row of colmux")


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
# Titles of subsystems that are not read.
OTHER_TITLE = re.compile(
    r"# [A-Z][A-Z /\[\]]{0,40} (?:SUMMARY|STATISTICS|DETAILS?|\([\w/ ]{1,20}\))(?: .*)?$|# ENVIRONMENTALS?\b"
)
HEADER = re.compile(
    r"#(?:Date\s+Time|Time)?\s*(?=User\s+Nice|Total\s+Used\s+Free|PID\s+User|Node\s+Total|Cpu\s+User|(?:Node\s+Zone\s+)?1Pg\s)"
)
OTHER_HEADER = re.compile(r"#(?:\s{2,20}|(?! ))[A-Za-z]\w{0,20}(?:\s{1,20}[\w%/.-]{1,20}){2,60}\s*$")
OTHER_ROW = re.compile(r"\s*(?:(?!#)\S{1,40}\s+){0,4}?(?>(?:-?\d[\d.KMGTPgt]*(?!\S)\s*){3,60})$")
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
    """State of the parser over the tables of one recording."""

    source: Source
    errors: ParseErrors
    titles: Sequence[str] = ()
    cumulative: bool = False
    has_changes: bool = False  # the table has changes instead of sizes
    by_interval: bool = False  # rates are per interval, not per second
    host: str = ""
    record_time: Moment | None = None
    clock: DayClock = field(default_factory=DayClock)

    def begin_record(self, line: int, text: str, match: re.Match[str]) -> Iterator[Fact]:
        """Set the time of the following rows; yield the host name if it differs from the one before."""
        self.record_time = Moment(float(match[2]), Clock.UTC)
        if match[1] and match[1] != self.host:
            self.host = match[1]
            yield Fact("host.name", self.host, self.source.cite(line, text))

    def begin_table(self, rest: str) -> None:
        self.titles = ()
        self.cumulative, self.has_changes = "cumulative" in rest, "change" in rest
        self.by_interval |= "/int" in rest and not self.has_changes

    def parse_row(self, line: int, text: str) -> Iterator[Sample]:
        if self.has_changes:
            return
        match = TIME.match(text.lstrip())
        cells = text.lstrip()[match.end() if match else 0 :].split(None, max(len(self.titles) - 1, 0))
        if len(cells) != len(self.titles) or (self.titles[-1] != "Command" and " " in cells[-1]):
            self.errors.note(line, text, "a row of collectl with other columns than its header")
            return
        by_title = dict(zip(reversed(self.titles), reversed(cells), strict=True))  # the first of equal titles wins
        time = self.record_time  # an epoch, which is better than a local time
        if time is None and match:
            time = row_moment(match, self.clock)
        readings = Readings()
        kind, entity = self._parse_cells(line, text, by_title, readings)
        if readings.values:
            yield Sample(
                kind, readings.values, self.source.cite(line, text), VERBOSE_NAME, entity, time, readings.resolution
            )

    def _parse_cells(self, line: int, text: str, cells: Mapping[str, str], readings: Readings) -> Subject:
        """Parse the cells of a row; return the kind and entity to which they belong."""
        if "PID" in cells:
            self._parse_task(line, text, cells, readings)
            return "process", process_entity(cells["PID"], task_name(cells.get("Command", "")))
        if "1Pg" in cells:
            self._parse_blocks(line, text, cells, readings)
            return "zone", (("node", cells.get("Node", "all")), ("zone", cells.get("Zone", "all")))
        if "Idle" in cells:
            self._parse_cpu(line, text, cells, readings)
        else:
            sizes = (
                NODE_MEMORY if "Node" in cells else MEMORY if "Buff" in cells else {}
            )  # the table of swap has no Buff
            self._parse_sizes(line, text, cells, readings, sizes)
        for title in readings.take({} if self.by_interval else RATES, cells):
            self.errors.note(line, text, f"an impossible number in column {title} of collectl: not used")
        if "Node" in cells:
            return "node", (("node", cells["Node"]),)
        return ("cpu", (("cpu", cells["Cpu"]),)) if "Cpu" in cells else ("system", ())

    def _parse_sizes(
        self, line: int, text: str, cells: Mapping[str, str], readings: Readings, sizes: Mapping[str, Column]
    ) -> None:
        for title in readings.take(sizes, cells):
            self.errors.note(line, text, f"an impossible number for {sizes[title].metric}: not used")

    def _parse_task(self, line: int, text: str, cells: Mapping[str, str], readings: Readings) -> None:
        self._parse_sizes(line, text, cells, readings, TASK_SIZES)
        readings.take(TASK, cells)
        if "THRD" in cells and (threads := parse_number(cells["THRD"])) is not None:
            readings.values["process_threads"] = threads + 1
        readings.take(FAULT_TOTALS if self.cumulative else FAULT_RATES, cells)

    def _parse_blocks(self, line: int, text: str, cells: Mapping[str, str], readings: Readings) -> None:
        for title, cell in cells.items():
            blocks = parse_number(cell) if title.endswith(("Pg", "Pgs")) else None
            if blocks is not None:
                order = int(title.rstrip("Pgs")).bit_length() - 1
                readings.values[f"node_buddyinfo_blocks_order{order}"] = blocks
            elif title.endswith(("Pg", "Pgs")):
                self.errors.note(line, text, f"an impossible number in column {title} of collectl: not used")

    def _parse_cpu(self, line: int, text: str, cells: Mapping[str, str], readings: Readings) -> None:
        shares = {mode: parse_share(cells[title]) for title, mode in MODES.items() if title in cells}
        parts = {mode: value for mode, value in shares.items() if value is not None}
        if len(parts) == len(shares) and is_plausible(parts):
            readings.values.update(cpu_ratios(parts))
            readings.resolution.update(dict.fromkeys(readings.values, 0.01))
        else:
            self.errors.note(line, text, "CPU columns of collectl that do not add up to 100 %: not used")
        readings.take(COUNTS, cells)


@with_errors(VERBOSE_NAME)
def read_verbose(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample per row: of the host from the summaries, else of a process, CPU, zone or NUMA node.

    RECORD lines name the host.
    """
    tables = Tables(source, errors)
    for line, text in lines:
        if match := RECORD.match(text):
            yield from tables.begin_record(line, text, match)
        elif match := TITLE.match(text):
            tables.begin_table(match[1])
        elif match := HEADER.match(text):
            tables.titles = text[match.end() :].split()
        elif tables.titles and not text.startswith("#") and (VERBOSE_ROW.match(text) or OTHER_ROW.match(text)):
            yield from tables.parse_row(line, text)
        elif text.strip() and not _is_other_line(text):
            errors.note(line, text, "not a row of collectl")
        elif text.startswith("#") and not VERBOSE_BANNER.match(text):
            tables.titles = ()  # a table that is not read begins


_is_other_line = any_of(VERBOSE_BANNER, WAITING, OTHER_TITLE, OTHER_HEADER, OTHER_ROW)
VERBOSE_PARSER = Parser(
    VERBOSE_NAME, "collectl, verbose terminal output", read_verbose,
    opens=re.compile(f"{WAITING.pattern}|{RECORD.pattern}|{TITLE.pattern}|{HEADER.pattern}"),
    continues=any_of(
        RECORD, TITLE, HEADER, VERBOSE_BANNER, VERBOSE_ROW, WAITING, OTHER_TITLE, OTHER_HEADER, OTHER_ROW, blank=True
    ),
    confirm=any_of_first(5, RECORD, TITLE, HEADER),
)  # fmt: skip
