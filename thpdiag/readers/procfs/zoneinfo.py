"""/proc/zoneinfo: watermarks, sizes and page counts of every zone.

    Node 0, zone   Normal
      pages free     246795
            min      4649

Units: pages. Names follow node_exporter: `min` becomes node_zoneinfo_min_pages, `nr_free_pages`
node_zoneinfo_nr_free_pages (also from the `pages free` line of kernels that print no such row), numa_*
node_zoneinfo_numa_*_total. The per-node statistics (4.8 and later, in a node's first zone) and the per-CPU page sets
are not read: /proc/vmstat has their sums. `boost` exists from 5.0, `managed` from 3.8, `scanned` until 4.7. Source:
kernel tree, mm/vmstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities

_HEAD = re.compile(r"\s*Node (\d+), +zone +(\w+)\s*$")
_ROW = re.compile(r"\s+(?:(pages) +)?([a-z]\w*):? +(\S+)\s*$")
_CONTINUES = re.compile(
    r"\s*Node \d+, +zone +\w+\s*$|\s+(?:(?:pages free|vm stats threshold|[a-z][a-z_]{0,60})\b:? +[-+\w.]+|"
    r"protection: \(.*|pagesets|per-node stats|per-cpu.*|[a-z_]+)\s*$"
)
_SIZES = frozenset({"boost", "min", "low", "high", "promo", "scanned", "spanned", "present", "managed", "cma"})
_PER_CPU = re.compile(r"\s+(?:pagesets|cpu: \d)")
_PER_NODE = re.compile(r"\s+per-node stats\s*$")


class _Zone:
    """The zone that is being read."""

    def __init__(self, source: Source, number: int, line: str, head: re.Match[str]) -> None:
        self.cite = source.cite(number, line)
        self.entity = (("node", head[1]), ("zone", head[2]))
        self.values: dict[str, float] = {}
        self.reading = True  # False inside the per-node statistics and the per-CPU page sets

    def sample(self) -> Iterator[Sample]:
        if self.values:
            yield Sample("zone", self.values, self.cite, READER.name, self.entity)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per zone and snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    zone: _Zone | None = None
    for number, line in lines:
        if head := _HEAD.match(line):
            if zone:
                yield from zone.sample()
            zone = _Zone(source, number, line, head)
        elif zone:
            _row(zone, number, line, odd)
        elif line.strip():
            odd.note(number, line, "a row above the first zone")
    if zone:
        yield from zone.sample()


def _row(zone: _Zone, number: int, line: str, odd: Oddities) -> None:
    if _PER_NODE.match(line) or _PER_CPU.match(line):
        zone.reading = False
        return
    row = _ROW.match(line)
    if row and row[1]:
        zone.reading = True
    name = _name(row) if row else None
    if not zone.reading or row is None or name is None:
        if line.strip() and not row and not _CONTINUES.match(line):
            odd.note(number, line, "not a row of a zone")
        return
    value = whole(row[3])
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
    else:
        zone.values[name] = value


def _name(row: re.Match[str]) -> str | None:
    """The metric of a row, None for rows that are not read."""
    name = row[2]
    if row[1]:
        return "node_zoneinfo_nr_free_pages" if name == "free" else None
    if name in _SIZES:
        return f"node_zoneinfo_{name}_pages"
    if name.startswith("nr_"):
        return f"node_zoneinfo_{name}"
    return f"node_zoneinfo_{name}_total" if name.startswith("numa_") else None


READER = Reader(
    name="zoneinfo",
    title="/proc/zoneinfo",
    read=read,
    opens=_HEAD,
    continues=_CONTINUES.match,
)
