"""NUMA nodes: numactl -H and numastat.

numactl -H: CPUs, memory and free memory of each node.

    available: 2 nodes (0-1)
    node 0 cpus: 0 1 2 3
    node 0 size: 65391 MB
    node 0 free: 120 MB
    node distances:
    node   0   1
      0:  10  21

Units: MiB, truncated (the quantum is 1 MiB). A node without memory has size and free 0 MB, one without CPUs an empty
list. Distances are accepted but not read, because no rule uses them. Varies: `No NUMA available on this system`.
Source: numactl numactl.c (hardware, print_distances), 2.0.12 to 2.0.18.

numastat: allocations by node, memory by node and kind (-m), or memory of processes (-p).

                               node0           node1
    numa_hit                76557759        92126519

    Per-node system memory usage (in MBs):
                              Node 0          Node 1           Total
    MemFree                 16176.01        16102.80        32278.81

    Per-node process memory usage (in MBs) for PID 4711 (java)
    Private                     12.84            0.00           12.84

Units: plain numastat and /sys/devices/system/node/node*/numastat (`node0` above `name value` lines, as pt-stalk copies
them) count pages since boot; -n and the tables of -m and -p are MiB with two decimals. `Huge` of a process is
hugetlbfs, not transparent huge pages. -p with several processes prints only the total of each.
Varies: warnings (`Token ... not in hash table.`) above the table of -m; further lines by kernel.
Source: numactl numastat.c, 2.0.7 to 2.0.18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import MAX_QUANTITY, parse_number

MIB = 2.0**20
NUMACTL_HEAD = re.compile(r"available: (\d{1,4}) nodes? \([-\d,]{1,400}\)\s*$")
NUMACTL_ROW = re.compile(r"node (\d{1,4}) (?:cpus:((?: \d{1,5})*)|(size|free): (\S{1,20})(?: MB)?)\s*$")
DISTANCES = re.compile(r"node distances:|node(?:\s+\d{1,4})+\s*$|\s*\d{1,4}:(?:\s+\d{1,3})+\s*$")
NUMACTL_METRICS = {"size": "node_memory_numa_MemTotal_bytes", "free": "node_memory_numa_MemFree_bytes"}


@with_errors("numactl")
def read_numactl(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample per node, numa.nodes, and cpu.count if the CPUs of all nodes are listed."""
    nodes: dict[str, tuple[dict[str, float], int, str]] = {}
    cpus: dict[str, int] = {}
    head: tuple[int, int, str] | None = None
    for line, text in lines:
        if match := NUMACTL_HEAD.match(text):
            head = int(match[1]), line, text
        elif (row := NUMACTL_ROW.match(text)) and row[3]:
            value = parse_number(row[4])
            if value is None or value * MIB > MAX_QUANTITY or not text.rstrip().endswith(" MB"):
                errors.note(line, text, "an impossible size of a node: not used")
            else:
                nodes.setdefault(row[1], ({}, line, text))[0][NUMACTL_METRICS[row[3]]] = value * MIB
        elif row:
            cpus[row[1]] = len(row[2].split())
        elif text.strip() and not DISTANCES.match(text):
            errors.note(line, text, "not a line of numactl")
    for node, (values, line, text) in nodes.items():
        quanta = dict.fromkeys(values, MIB)
        yield Sample("node", values, source.cite(line, text), "numactl", (("node", node),), source.time, quanta)
    if head:
        yield from _node_counts(source.cite(*head[1:]), head[0], cpus)
        if len(cpus) < head[0]:
            errors.note(*head[1:], "the CPUs of some nodes are missing: they are not counted")


def _node_counts(cite: Citation, nodes: int, cpus: Mapping[str, int]) -> Iterator[Fact]:
    if nodes:
        yield Fact("numa.nodes", nodes, cite)
    if len(cpus) == nodes and any(cpus.values()):
        yield Fact("cpu.count", sum(cpus.values()), cite)


NUMACTL = Parser("numactl", "numactl -H", read_numactl, opens=NUMACTL_HEAD, continues=any_of(NUMACTL_ROW, DISTANCES))


NUMASTAT_NAME = "numastat"
QUANTUM = MIB / 100
COMPACT_QUANTUM = MIB
COUNTERS = r"(?:numa_hit|numa_miss|numa_foreign|interleave_hit|local_node|other_node)"
NODES = re.compile(r"\s{0,40}node\d{1,4}(?:\s+node\d{1,4})*\s*$")
NODE = re.compile(r"node(\d{1,4})\s*$")
TITLE = re.compile(
    r"Per-node (?:system memory usage|numastat info|process memory usage) \(in MBs\)"
    r"(?: for PID (\d{1,10}) \((.{1,64})\))?:?\s*$"
)
LISTING = re.compile(r"PID\s+Node \d")
WARNING = re.compile(r"Token \S{1,60} not in hash table\.")
COLUMNS = re.compile(r"\s{0,40}(?:Node\s{1,3}\d{1,4}\s*+)+(?:Total\s*)?$")
RULE = re.compile(r"\s*-{4,}(?:\s+-{4,})*\s*$")
ROW = re.compile(
    rf"({COUNTERS})((?:\s+\S+)+)\s*$|(\S{{1,40}}(?: \(.{{1,64}}?\))?)((?:\s+\d{{1,15}}\.\d\d)+)\s*$|"
    r"([A-Z][\w()]{1,40}|\d{1,10} \(.{1,64}?\))((?:\s+\d{1,15}){2,})\s*$"
)
PROCESS = re.compile(r"(\d{1,10}) \((.{1,64})\)$")
METRIC = re.compile(r"[A-Z]\w{2,30}(?:\((?:anon|file)\))?$")
KINDS = {"Huge": "huge", "Heap": "heap", "Stack": "stack", "Private": "private", "Total": "total"}


def _numastat_confirm(lines: list[str]) -> bool:
    """Require counters after a line such as `node0`, which may also be a host name."""
    if NODE.match(lines[0]) or NODES.match(lines[0]):
        return len(lines) > 1 and bool(re.match(rf"{COUNTERS}\s+\d", lines[1]))
    return True


def _nodes(text: str) -> list[str]:
    """Return the columns of a header: `node0 node1`, `Node 0 Node 1 Total`."""
    nodes = re.findall(r"[Nn]ode ?(\d{1,4})", re.sub(r"Node\s+", "Node ", text))
    return [*nodes, "Total"] if "Total" in text else nodes


@dataclass(slots=True)
class NumastatTable:
    """One table with its values by node. numastat prints a wide table in several parts of a few nodes each."""

    source: Source
    kind: str = "other"  # counters, allocations (-n), memory, process, listing (of several processes)
    pid: str = ""
    comm: str = ""
    nodes: Sequence[str] = ()
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    quantum: float = QUANTUM

    def add_row(self, line: int, text: str, name: str, cells: Sequence[str]) -> bool:
        """Store a row; return False if its cells do not fit the table."""
        if len(cells) != len(self.nodes):
            return False
        self.quantum = QUANTUM if "." in cells[0] else COMPACT_QUANTUM
        unit = 1.0 if self.kind == "counters" or name.startswith("HugePages_") else MIB
        for node, cell in zip(self.nodes, cells, strict=True):
            value = parse_number(cell)
            if value is None or value * MIB > MAX_QUANTITY:
                return False
            if metric := self._metric(name, node):
                self.values.setdefault(node, {})[metric] = value * unit
                self.first.setdefault(node, (line, text))
        return True

    def _metric(self, name: str, node: str) -> str:
        if self.kind == "counters":
            return f"node_memory_numa_{name}_total" if re.fullmatch(COUNTERS, name) else ""
        if self.kind == "process":
            return f"process_numa_{KINDS[name]}_bytes" if node == "Total" and name in KINDS else ""
        if self.kind != "memory" or not METRIC.match(name) or name.startswith("HugePages_"):  # printed in MiB
            return ""
        return f"node_memory_{'' if node == 'Total' else 'numa_'}{name.replace('(', '_').replace(')', '')}_bytes"

    def samples(self) -> Iterator[Sample]:
        for node, values in self.values.items():
            quanta = {} if self.kind == "counters" else dict.fromkeys(values, self.quantum)
            cite, time = self.source.cite(*self.first[node]), self.source.time
            if self.kind == "process":
                yield Sample("process", values, cite, NUMASTAT_NAME, process_entity(self.pid, self.comm), time, quanta)
            elif node == "Total":
                yield Sample("system", values, cite, NUMASTAT_NAME, (), time, quanta)
            else:
                yield Sample("node", values, cite, NUMASTAT_NAME, (("node", node),), time, quanta)


def _begin_table(source: Source, text: str) -> NumastatTable | None:
    """Return the table that a line begins."""
    if node := NODE.match(text):
        return NumastatTable(source, "counters", nodes=[node[1]])
    if NODES.match(text):
        return NumastatTable(source, "counters", nodes=_nodes(text))
    if title := TITLE.match(text):
        kind = "process" if title[1] else "other"
        kind = "memory" if "system" in text else "allocations" if "info" in text[:25] else kind
        return NumastatTable(source, kind, title[1] or "", title[2] or "")
    return NumastatTable(source, "listing", nodes=_nodes(text)) if LISTING.match(text) else None


def _parse_row(
    table: NumastatTable, errors: ParseErrors, line: tuple[int, str], name: str, cells: Sequence[str]
) -> Iterator[Sample]:
    """Add a row to its table; a row of a listing is a process and yields its sample."""
    task = PROCESS.match(name)
    if table.kind == "listing" and task:
        table, name = NumastatTable(table.source, "process", task[1], task[2], table.nodes), "Total"
    if table.kind == "allocations":
        errors.note(*line, "allocations since boot in MB: not used, `numastat -m` and plain `numastat` are")
    elif table.kind not in ("other", "listing") and not table.add_row(*line, name, cells):
        errors.note(*line, "a row of numastat with other columns than its nodes, or no numbers")
    elif task:
        yield from table.samples()


@with_errors(NUMASTAT_NAME)
def read_numastat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of the nodes, of the host (-m) or of processes (-p)."""
    table = NumastatTable(source)
    for line, text in lines:
        if next_table := _begin_table(source, text):
            yield from table.samples()
            table = next_table
        elif COLUMNS.match(text):
            table.nodes = _nodes(text)
        elif row := ROW.match(text):
            name, cells = row[1] or row[3] or row[5], (row[2] or row[4] or row[6]).split()
            yield from _parse_row(table, errors, (line, text), name, cells)
        elif text.strip() and not RULE.match(text) and not WARNING.match(text):
            errors.note(line, text, "not a line of numastat")
    yield from table.samples()


NUMASTAT = Parser(
    NUMASTAT_NAME, "numastat tables", read_numastat,
    opens=re.compile(f"{TITLE.pattern}|{NODES.pattern}|{NODE.pattern}|{WARNING.pattern}"),
    continues=any_of(ROW, TITLE, NODES, NODE, LISTING, WARNING, COLUMNS, RULE, blank=True), confirm=_numastat_confirm,
    priority=2,  # takes precedence over /proc/vmstat, whose counters have the same names
)  # fmt: skip
