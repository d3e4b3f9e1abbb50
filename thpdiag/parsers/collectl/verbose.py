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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Clock, Fact, Moment, Record, Sample, Subject
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, cpu_seconds, is_plausible, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, with_errors
from thpdiag.parsers._time import DayClock
from thpdiag.parsers._units import Column, Readings, columns, parse_number, parse_share
from thpdiag.parsers.collectl import _columns as collectl
from thpdiag.parsers.collectl._columns import TIME, VERBOSE, WAITING, rate, row_moment, size

NAME = "collectl_verbose"
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
            yield Sample(kind, found.values, self.source.cite(line, text), NAME, entity, time, found.resolution)

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


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
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
        elif tables.titles and not text.startswith("#") and (ROW.match(text) or NUMBERS.match(text)):
            yield from tables.row(line, text)
        elif text.strip() and not any(p.match(text) for p in (BANNER, WAITING, OTHER, NAMES, NUMBERS)):
            odd.note(line, text, "not a row of collectl")
        elif text.startswith("#") and not BANNER.match(text):
            tables.titles = ()  # of a table that is not read


PARSER = Parser(
    NAME, "collectl, verbose terminal output", read,
    opens=re.compile(f"{WAITING.pattern}|{RECORD.pattern}|{TITLE.pattern}|{HEADER.pattern}"),
    continues=any_of(RECORD, TITLE, HEADER, BANNER, ROW, WAITING, OTHER, NAMES, NUMBERS, blank=True),
    confirm=any_of_first(5, RECORD, TITLE, HEADER),
)  # fmt: skip
