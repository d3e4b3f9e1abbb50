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
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import MAX_QUANTITY, parse_number

NAME = "numastat"
MIB = 2.0**20
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


def confirm(lines: list[str]) -> bool:
    """`node0` alone may be a host's name; counters follow it here."""
    if NODE.match(lines[0]) or NODES.match(lines[0]):
        return len(lines) > 1 and bool(re.match(rf"{COUNTERS}\s+\d", lines[1]))
    return True


def _nodes(text: str) -> list[str]:
    """The columns of a head: `node0 node1`, `Node 0 Node 1 Total`."""
    found = re.findall(r"[Nn]ode ?(\d{1,4})", re.sub(r"Node\s+", "Node ", text))
    return [*found, "Total"] if "Total" in text else found


@dataclass(slots=True)
class Table:
    """One table, of which long ones are printed a few nodes at a time; values gather by node."""

    source: Source
    kind: str = "other"  # counters, allocations (-n), memory, process, listing (of processes)
    pid: str = ""
    comm: str = ""
    nodes: Sequence[str] = ()
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    quantum: float = QUANTUM

    def row(self, line: int, text: str, name: str, cells: Sequence[str]) -> bool:
        """Whether it fits."""
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
        if self.kind != "memory" or not METRIC.match(name) or name.startswith("HugePages_"):  # MiB of the pool
            return ""
        return f"node_memory_{'' if node == 'Total' else 'numa_'}{name.replace('(', '_').replace(')', '')}_bytes"

    def samples(self) -> Iterator[Sample]:
        for node, values in self.values.items():
            quanta = {} if self.kind == "counters" else dict.fromkeys(values, self.quantum)
            cite, time = self.source.cite(*self.first[node]), self.source.time
            if self.kind == "process":
                yield Sample("process", values, cite, NAME, process_entity(self.pid, self.comm), time, quanta)
            elif node == "Total":
                yield Sample("system", values, cite, NAME, (), time, quanta)
            else:
                yield Sample("node", values, cite, NAME, (("node", node),), time, quanta)


def _table_of(source: Source, text: str) -> Table | None:
    """The table that a line begins."""
    if node := NODE.match(text):
        return Table(source, "counters", nodes=[node[1]])
    if NODES.match(text):
        return Table(source, "counters", nodes=_nodes(text))
    if title := TITLE.match(text):
        kind = (
            "memory"
            if "system" in text
            else "allocations"
            if "info" in text[:25]
            else "process"
            if title[1]
            else "other"
        )
        return Table(source, kind, title[1] or "", title[2] or "")
    return Table(source, "listing", nodes=_nodes(text)) if LISTING.match(text) else None


def _row(table: Table, odd: ParseErrors, at: tuple[int, str], name: str, cells: Sequence[str]) -> Iterator[Sample]:
    """Takes a row; one of a listing is a process."""
    task = PROCESS.match(name)
    if table.kind == "listing" and task:
        table, name = Table(table.source, "process", task[1], task[2], table.nodes), "Total"
    if table.kind == "allocations":
        odd.note(*at, "allocations since boot in MB: not used, `numastat -m` and plain `numastat` are")
    elif table.kind not in ("other", "listing") and not table.row(*at, name, cells):
        odd.note(*at, "a row of numastat with other columns than its nodes, or no numbers")
    elif task:
        yield from table.samples()


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the nodes, of the host (-m) or of one process (-p)."""
    table = Table(source)
    for line, text in lines:
        if begun := _table_of(source, text):
            yield from table.samples()
            table = begun
        elif COLUMNS.match(text):
            table.nodes = _nodes(text)
        elif row := ROW.match(text):
            yield from _row(table, odd, (line, text), row[1] or row[3] or row[5], (row[2] or row[4] or row[6]).split())
        elif text.strip() and not RULE.match(text) and not WARNING.match(text):
            odd.note(line, text, "not a line of numastat")
    yield from table.samples()


PARSER = Parser(
    NAME, "numastat tables", read,
    opens=re.compile(f"{TITLE.pattern}|{NODES.pattern}|{NODE.pattern}|{WARNING.pattern}"),
    continues=any_of(ROW, TITLE, NODES, NODE, LISTING, WARNING, COLUMNS, RULE, blank=True), confirm=confirm,
    priority=2,  # before /proc/vmstat, whose counters have the same names
)  # fmt: skip
