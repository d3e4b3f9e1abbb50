"""numactl -H: CPUs, memory and free memory of each NUMA node.

    available: 2 nodes (0-1)
    node 0 cpus: 0 1 2 3
    node 0 size: 65391 MB
    node 0 free: 120 MB
    node distances:
    node   0   1
      0:  10  21

Units: MiB, cut (the quantum is 1 MiB). A node without memory has size and free 0 MB, one without CPUs an empty list.
Distances are taken as part of the block, no more: no rule asks for them. Varies: `No NUMA available on this system`.
Source: numactl numactl.c (hardware, print_distances), 2.0.12 to 2.0.18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from thpdiag.model import Citation, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import MAX_QUANTITY, parse_number

MIB = 2.0**20
HEAD = re.compile(r"available: (\d{1,4}) nodes? \([-\d,]{1,400}\)\s*$")
ROW = re.compile(r"node (\d{1,4}) (?:cpus:((?: \d{1,5})*)|(size|free): (\S{1,20})(?: MB)?)\s*$")
DISTANCES = re.compile(r"node distances:|node(?:\s+\d{1,4})+\s*$|\s*\d{1,4}:(?:\s+\d{1,3})+\s*$")
METRICS = {"size": "node_memory_numa_MemTotal_bytes", "free": "node_memory_numa_MemFree_bytes"}


@with_errors("numactl")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample a node, numa.nodes, and how many CPUs all nodes have if none is missing."""
    nodes: dict[str, tuple[dict[str, float], int, str]] = {}
    cpus: dict[str, int] = {}
    head: tuple[int, int, str] | None = None
    for line, text in lines:
        if found := HEAD.match(text):
            head = int(found[1]), line, text
        elif (row := ROW.match(text)) and row[3]:
            value = parse_number(row[4])
            if value is None or value * MIB > MAX_QUANTITY or not text.rstrip().endswith(" MB"):
                odd.note(line, text, "an impossible size of a node: not used")
            else:
                nodes.setdefault(row[1], ({}, line, text))[0][METRICS[row[3]]] = value * MIB
        elif row:
            cpus[row[1]] = len(row[2].split())
        elif text.strip() and not DISTANCES.match(text):
            odd.note(line, text, "not a line of numactl")
    for node, (values, line, text) in nodes.items():
        quanta = dict.fromkeys(values, MIB)
        yield Sample("node", values, source.cite(line, text), "numactl", (("node", node),), source.time, quanta)
    if head:
        yield from _counts(source.cite(*head[1:]), head[0], cpus)
        if len(cpus) < head[0]:
            odd.note(*head[1:], "the CPUs of some nodes are missing: they are not counted")


def _counts(cite: Citation, nodes: int, cpus: Mapping[str, int]) -> Iterator[Fact]:
    if nodes:
        yield Fact("numa.nodes", nodes, cite)
    if len(cpus) == nodes and (count := sum(cpus.values())):
        yield Fact("cpu.count", count, cite)


PARSER = Parser("numactl", "numactl -H", read, opens=HEAD, continues=any_of(ROW, DISTANCES))
