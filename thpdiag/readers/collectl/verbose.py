"""collectl on a terminal, verbose form and process tables: CPU SUMMARY, MEMORY SUMMARY, PROCESS SUMMARY, TOP PROCESSES.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Clock, Fact, Moment, Record, Sample, Subject
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.collectl.columns import quantum, rate
from thpdiag.readers.collectl.times import TIME, WAITING, when
from thpdiag.readers.elements.cpu_parts import plausible, with_sums
from thpdiag.readers.elements.daytime import DayClock
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST, number, share
from thpdiag.readers.elements.tasks import cpu_seconds, entity, name_of

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
BANNER = re.compile(r"#\s*<-+\w")
ROW = re.compile(r"\s*(?:(?:\d{8}|\d\d/\d\d)\s+)?(?:\d\d:\d\d:\d\d(?:\.\d+)?\s+)?\d[\d.KMGTPgt]*(?:\s+\S+){8,}\s*$")
MODES = {
    "User": "user",
    "Nice": "nice",
    "Sys": "system",
    "Wait": "iowait",
    "IRQ": "irq",
    "Soft": "softirq",
    "Steal": "steal",
    "Idle": "idle",
}
MEMORY = {
    "Total": "node_memory_MemTotal_bytes",
    "Free": "node_memory_MemFree_bytes",
    "Buff": "node_memory_Buffers_bytes",
    "Cached": "node_memory_Cached_bytes",
    "Slab": "node_memory_Slab_bytes",
    "Mapped": "node_memory_Mapped_bytes",
    "Anon": "node_memory_AnonPages_bytes",
    "AnonH": "node_memory_AnonHugePages_bytes",
    "Inact": "node_memory_Inactive_file_bytes",
}
NODE_MEMORY = {
    "Used": "node_memory_numa_MemUsed_bytes",
    "Free": "node_memory_numa_MemFree_bytes",
    "Slab": "node_memory_numa_Slab_bytes",
    "Mapped": "node_memory_numa_Mapped_bytes",
    "Anon": "node_memory_numa_AnonPages_bytes",
    "AnonH": "node_memory_numa_AnonHugePages_bytes",
    "Locked": "node_memory_numa_Mlocked_bytes",
    "Inact": "node_memory_numa_Inactive_bytes",
}
RATES = {
    "Intr": "node_intr_total:rate",
    "Ctxsw": "node_context_switches_total:rate",
    "Fault": "node_vmstat_pgfault:rate",
    "MajFt": "node_vmstat_pgmajfault:rate",
}
COUNTS = {"RunT": "node_procs_running", "BlkT": "node_procs_blocked", "Avg1": "node_load1"}
TASK_SIZES = {
    "VSZ": "process_virtual_memory_bytes",
    "RSS": "process_resident_memory_bytes",
    "VmSize": "process_virtual_memory_bytes",
    "VmRSS": "process_resident_memory_bytes",
    "VmSwp": "process_swap_bytes",
}
FAULTS = {"MajF": "process_major_faults_total", "MinF": "process_minor_faults_total"}
Values = tuple[dict[str, float], dict[str, float]]


def belongs(text: str) -> bool:
    """Empty lines stand between the tables."""
    known = (RECORD, TITLE, HEADER, BANNER, ROW, WAITING, OTHER, NAMES, NUMBERS)
    return not text.strip() or any(p.match(text) for p in known)


def confirm(lines: list[str]) -> bool:
    return any(RECORD.match(text) or TITLE.match(text) or HEADER.match(text) for text in lines[:5])


@dataclass(slots=True)
class Tables:
    """The tables of one recording."""

    source: Source
    odd: Oddities
    columns: Sequence[str] = ()
    cumulative: bool = False
    changes: bool = False  # sizes are changes
    by_interval: bool = False  # rates are not per second
    host: str = ""
    record_time: Moment | None = None
    clock: DayClock = field(default_factory=DayClock)

    def named(self, line: int, text: str, host: str) -> Iterator[Fact]:
        """The host, when a record tells another one than that before it."""
        if host and host != self.host:
            self.host = host
            yield Fact("host.name", host, self.source.cite(line, text))

    def title(self, rest: str) -> None:
        self.columns = ()
        self.cumulative, self.changes = "cumulative" in rest, "change" in rest
        self.by_interval |= "/int" in rest and not self.changes

    def row(self, line: int, text: str) -> Iterator[Sample]:
        if self.changes:
            return
        at = TIME.match(text.lstrip())
        cells = text.lstrip()[at.end() if at else 0 :].split(None, max(len(self.columns) - 1, 0))
        if len(cells) != len(self.columns) or (self.columns[-1] != "Command" and " " in cells[-1]):
            self.odd.note(line, text, "a row of collectl with other columns than its header")
            return
        named = dict(zip(reversed(self.columns), reversed(cells), strict=True))  # of twin columns the first is kept
        time = self.record_time  # an epoch: better than the local clock
        if time is None and at:
            time = when(at, self.clock)
        (kind, who), (values, resolution) = self._entity(named), self._numbers(line, text, named)
        if values:
            yield Sample(kind, values, self.source.cite(line, text), "collectl_verbose", who, time, resolution)

    def _entity(self, cells: dict[str, str]) -> Subject:
        if "PID" in cells:
            return "process", entity(cells["PID"], name_of(cells.get("Command", "")))
        if "1Pg" in cells:
            return "zone", (("node", cells.get("Node", "all")), ("zone", cells.get("Zone", "all")))
        if "Node" in cells:
            return "node", (("node", cells["Node"]),)
        return ("cpu", (("cpu", cells["Cpu"]),)) if "Cpu" in cells else ("system", ())

    def _numbers(self, line: int, text: str, cells: dict[str, str]) -> Values:
        if "PID" in cells:
            return self._task(line, text, cells)
        if "1Pg" in cells:
            return self._blocks(line, text, cells)
        if "Idle" in cells:
            return self._cpu(line, text, cells)
        return self._memory(line, text, cells)

    def _blocks(self, line: int, text: str, cells: dict[str, str]) -> Values:
        found: Values = ({}, {})
        for column, cell in cells.items():
            if not column.endswith(("Pg", "Pgs")):
                continue
            blocks = number(cell)
            if blocks is None:
                self.odd.note(line, text, f"an impossible number in column {column} of collectl: not used")
            else:
                order = int(column.rstrip("Pgs")).bit_length() - 1
                found[0][f"node_buddyinfo_blocks_order{order}"] = blocks
        return found

    def _cpu(self, line: int, text: str, cells: dict[str, str]) -> Values:
        read_ = {mode: share(cells[column]) for column, mode in MODES.items() if column in cells}
        parts = {mode: value for mode, value in read_.items() if value is not None}
        values: dict[str, float] = {}
        if len(parts) == len(read_) and plausible(parts):
            values = with_sums(parts)
        else:
            self.odd.note(line, text, "CPU columns of collectl that do not add up to 100 %: not used")
        resolution = dict.fromkeys(values, 0.01)
        for column, name in COUNTS.items():
            if column in cells and (count := number(cells[column])) is not None:
                values[name] = count
        self._rates(line, text, cells, (values, resolution))
        return values, resolution

    def _memory(self, line: int, text: str, cells: dict[str, str]) -> Values:
        found: Values = ({}, {})
        sizes = NODE_MEMORY if "Node" in cells else MEMORY if "Buff" in cells else {}  # without Buff they are of swap
        self._sizes(line, text, {name: cells[column] for column, name in sizes.items() if column in cells}, found)
        self._rates(line, text, cells, found)
        return found

    def _task(self, line: int, text: str, cells: dict[str, str]) -> Values:
        values: dict[str, float] = {}
        resolution: dict[str, float] = {}
        found = (values, resolution)
        self._sizes(line, text, {name: cells[column] for column, name in TASK_SIZES.items() if column in cells}, found)
        if "Pct" in cells and (used := number(cells["Pct"])) is not None:
            values["process_cpu_ratio"], resolution["process_cpu_ratio"] = used / 100, 0.01
        if "AccuTime" in cells and (seconds := cpu_seconds(cells["AccuTime"])) is not None:
            values["process_cpu_seconds_total"] = seconds
        if "THRD" in cells and (threads := number(cells["THRD"])) is not None:
            values["process_threads"] = threads + 1
        for column, name in FAULTS.items():
            if column in cells and (faults := rate(cells[column])):
                name = name if self.cumulative else f"{name}:rate"
                values[name], resolution[name] = faults.value, faults.resolution
        return found

    def _sizes(self, line: int, text: str, cells: dict[str, str], found: Values) -> None:
        for name, cell in cells.items():
            size = quantum(cell)
            if size is None or size.value > LARGEST:
                self.odd.note(line, text, f"an impossible number for {name}: not used")
                continue
            found[0][name], found[1][name] = size.value, size.resolution

    def _rates(self, line: int, text: str, cells: dict[str, str], found: Values) -> None:
        for column, name in RATES.items():
            if column not in cells or self.by_interval:
                continue
            if events := rate(cells[column]):
                found[0][name], found[1][name] = events.value, events.resolution
            else:
                self.odd.note(line, text, f"an impossible number in column {column} of collectl: not used")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample per row: of the host from the summaries, of a process, CPU, zone or NUMA node from their tables.

    RECORD lines name the host.
    """
    odd = Oddities(source, "collectl_verbose")
    tables = Tables(source, odd)
    for line, text in lines:
        if found := RECORD.match(text):
            tables.record_time = Moment(float(found[2]), Clock.UTC)
            yield from tables.named(line, text, found[1])
        elif found := TITLE.match(text):
            tables.title(found[1])
        elif found := HEADER.match(text):
            tables.columns = text[found.end() :].split()
        elif tables.columns and not text.startswith("#") and (ROW.match(text) or NUMBERS.match(text)):
            yield from tables.row(line, text)
        elif _says_something(text):
            odd.note(line, text, "a line that is no row of collectl")
        elif text.startswith("#") and not BANNER.match(text):
            tables.columns = ()  # of a table that is not read
    yield from odd.problems()


def _says_something(text: str) -> bool:
    known = (BANNER, WAITING, OTHER, NAMES, NUMBERS)
    return bool(text.strip()) and not any(pattern.match(text) for pattern in known)


READER = Reader(
    "collectl_verbose",
    "collectl, verbose terminal output",
    read,
    opens=re.compile(f"{WAITING.pattern}|{RECORD.pattern}|{TITLE.pattern}|{HEADER.pattern}"),
    continues=belongs,
    confirm=confirm,
)
