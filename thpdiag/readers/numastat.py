"""numastat: allocations by NUMA node, and memory by node and kind (-m), or of processes (-p).

                               node0           node1
    numa_hit                76557759        92126519

    Per-node system memory usage (in MBs):
                              Node 0          Node 1           Total
    MemFree                 16176.01        16102.80        32278.81

    Per-node process memory usage (in MBs) for PID 4711 (java)
    Private                     12.84            0.00           12.84

Units: plain numastat and /sys/devices/system/node/node*/numastat (`node0` above `name value` lines, as pt-stalk copies
them) count pages since boot; -n and the tables of -m and -p are MiB with two decimals. `Huge` of a process is
hugetlbfs, not transparent huge pages. Of -p with several processes only the total of each is shown.
Varies: warnings (`Token ... not in hash table.`) above the table of -m; further lines by kernel.
Source: numactl numastat.c, 2.0.7 to 2.0.18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST, number
from thpdiag.readers.elements.tasks import entity

MIB = 2.0**20
QUANTUM = MIB / 100
COUNTERS = r"(?:numa_hit|numa_miss|numa_foreign|interleave_hit|local_node|other_node)"
NODES = re.compile(r"\s{8,40}(?:node\d{1,4}\s*)+$")
NODE = re.compile(r"node(\d{1,4})\s*$")
TITLE = re.compile(
    r"Per-node (?:system memory usage|numastat info|process memory usage) \(in MBs\)"
    r"(?: for PID (\d{1,10}) \((.{1,64})\))?:?\s*$"
)
LISTING = re.compile(r"PID\s+Node \d")
WARNING = re.compile(r"Token \S{1,60} not in hash table\.")
COLUMNS = re.compile(r"\s{4,40}(?:Node\s{1,3}\d{1,4}\s*)+(?:Total)?\s*$")
RULE = re.compile(r"\s*-{6,}(?:\s+-{6,})*\s*$")
ROW = re.compile(rf"({COUNTERS})((?:\s+\S+)+)\s*$|(\S{{1,40}}(?: \(.{{1,64}}?\))?)((?:\s+\d{{1,15}}\.\d\d)+)\s*$")
PROCESS = re.compile(r"(\d{1,10}) \((.{1,64})\)$")
NAMES = re.compile(r"[A-Z]\w{2,30}(?:\((?:anon|file)\))?$")
KINDS = {"Huge": "huge", "Heap": "heap", "Stack": "stack", "Private": "private", "Total": "total"}
_OPENS = re.compile(f"{TITLE.pattern}|{NODES.pattern}|{NODE.pattern}|{WARNING.pattern}")


def confirm(lines: list[str]) -> bool:
    """`node0` alone may be a host's name; counters follow it here."""
    if NODE.match(lines[0]) or NODES.match(lines[0]):
        return len(lines) > 1 and bool(re.match(rf"{COUNTERS}\s+\d", lines[1]))
    return True


def belongs(text: str) -> bool:
    if not text.strip():
        return True
    return any(p.match(text) for p in (TITLE, NODES, NODE, LISTING, WARNING, COLUMNS, RULE, ROW))


@dataclass(slots=True)
class Table:
    """One table; values gather by node."""

    source: Source
    of: str = "other"  # counters, memory, process, listing (of processes)
    pid: str = ""
    comm: str = ""
    nodes: Sequence[str] = ()
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)

    def row(self, line: int, text: str, name: str, cells: Sequence[str]) -> bool:
        """Whether it fits."""
        if len(cells) != len(self.nodes):
            return False
        for node, cell in zip(self.nodes, cells, strict=True):
            value = number(cell)
            if value is None or value * MIB > LARGEST:
                return False
            if metric := self._metric(name, node):
                self.values.setdefault(node, {})[metric] = value if self._counts(name) else value * MIB
                self.first.setdefault(node, (line, text))
        return True

    def _counts(self, name: str) -> bool:
        return self.of == "counters" or name.startswith("HugePages_")

    def _metric(self, name: str, node: str) -> str:
        if self.of == "counters":
            return f"node_memory_numa_{name}_total" if re.fullmatch(COUNTERS, name) else ""
        if self.of == "process":
            return f"process_numa_{KINDS[name]}_bytes" if node == "Total" and name in KINDS else ""
        if self.of != "memory" or not NAMES.match(name):
            return ""
        plain = name.replace("(", "_").replace(")", "")
        if name.startswith("HugePages_"):  # printed as MiB of the pool
            return ""
        return f"node_memory_{plain}_bytes" if node == "Total" else f"node_memory_numa_{plain}_bytes"

    def samples(self) -> Iterator[Sample]:
        for node, values in self.values.items():
            quanta = {} if self.of == "counters" else dict.fromkeys(values, QUANTUM)
            cite, time = self.source.cite(*self.first[node]), self.source.time
            if self.of == "process":
                yield Sample("process", values, cite, "numastat", entity(self.pid, self.comm), time, quanta)
            elif node == "Total":
                yield Sample("system", values, cite, "numastat", (), time, quanta)
            else:
                yield Sample("node", values, cite, "numastat", (("node", node),), time, quanta)


def _nodes(text: str) -> list[str]:
    """The columns of a head: `node0 node1`, `Node 0 Node 1 Total`."""
    found = re.findall(r"[Nn]ode ?(\d{1,4})", re.sub(r"Node\s+", "Node ", text))
    return [*found, "Total"] if "Total" in text else found


@dataclass(slots=True)
class Tables:
    """The tables of one output, in order; long ones are printed a few nodes at a time."""

    source: Source
    odd: Oddities
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        self.table = Table(self.source)

    def line(self, line: int, text: str) -> Iterator[Sample]:
        if node := NODE.match(text):
            yield from self._begin(Table(self.source, "counters", nodes=[node[1]]))
        elif NODES.match(text):
            yield from self._begin(Table(self.source, "counters", nodes=_nodes(text)))
        elif title := TITLE.match(text):
            kind = "memory" if "system" in text else "process" if title[1] else "other"
            yield from self._begin(Table(self.source, kind, title[1] or "", title[2] or ""))
        elif COLUMNS.match(text):
            self.table.nodes = _nodes(text)
        elif LISTING.match(text):
            yield from self._begin(Table(self.source, "listing", nodes=_nodes(text)))
        elif row := ROW.match(text):
            yield from self._row(line, text, row[1] or row[3], (row[2] or row[4]).split())
        elif text.strip() and not any(p.match(text) for p in (RULE, WARNING)):
            self.odd.note(line, text, "a line that is none of numastat's")

    def _row(self, line: int, text: str, name: str, cells: Sequence[str]) -> Iterator[Sample]:
        table, task = self.table, PROCESS.match(name)
        if table.of == "listing" and task:
            table = Table(self.source, "process", task[1], task[2], table.nodes)
            name = "Total"
        if table.of not in ("other", "listing") and not table.row(line, text, name, cells):
            self.odd.note(line, text, "a row of numastat with other columns than its nodes, or no numbers")
        elif task:
            yield from table.samples()

    def _begin(self, table: Table) -> Iterator[Sample]:
        yield from self.table.samples()
        self.table = table


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Samples of the nodes, of the host (-m) or of one process (-p)."""
    odd = Oddities(source, "numastat")
    tables = Tables(source, odd)
    for line, text in lines:
        yield from tables.line(line, text)
    yield from tables.table.samples()
    yield from odd.problems()


READER = Reader(
    "numastat",
    "numastat tables",
    read,
    opens=_OPENS,
    continues=belongs,
    confirm=confirm,
    priority=2,  # before /proc/vmstat, whose counters have the same names
)
