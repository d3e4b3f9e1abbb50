"""/proc/pagetypeinfo: free blocks by zone, migrate type and order, and how many page blocks belong to each type.

    Node    0, zone   Normal, type      Movable    597    178    646    575 ...
    Node 0, zone   Normal           48          484           44            0            0

Units: blocks of 2^order pages in the first table, page blocks (2 MiB on x86-64) in the second. Migrate types differ:
RHEL 6 and 7 have Reserve, later kernels HighAtomic, CMA and Isolate. Since 5.5 counts stop at `>100000`, which is read
as 100000. Readable by root only since 4.15. With page_owner there is a third table of mixed blocks, which is not read.
Source: kernel tree, mm/vmstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities

_OPENS = re.compile(r"\s*(?:Page block order:\s+\d+|Node\s+\d+, zone\s+\w+, type\s+\w+\s)")
_HEAD = re.compile(r"\s*(?:Page block order:|Pages per block:|Free pages count per migrate type)")
_FREE = re.compile(r"\s*Node\s+(\d+), zone\s+(\w+), type\s+(\w+)((?:\s+\S+)*)\s*$")
_TYPES = re.compile(r"\s*Number of (blocks|mixed blocks) type((?:\s+\w+)+)\s*$")
_BLOCKS = re.compile(r"\s*Node\s+(\d+), zone\s+(\w+)((?:\s+[^\s,]+)*)\s*$")
_CONTINUES = re.compile(  # at most 8 migrate types; the rows of /proc/buddyinfo look alike but have more columns
    r"\s*(?:Page block order|Pages per block|Free pages count|Number of (?:mixed )?blocks type|"
    r"Node\s+\d+, zone\s+\w+(?:, type\s|(?:\s+\d+){3,8}\s*$)|$)"
)


class _Zones:
    """The zones of the snapshot that is being read: values and first line of each."""

    def __init__(self, source: Source, odd: Oddities) -> None:
        self._source = source
        self._odd = odd
        self._found: dict[tuple[str, str], tuple[dict[str, float], int, str]] = {}
        self.mixed = ""
        self.types: list[str] = []

    def take(self) -> Iterator[Sample]:
        """The zones read so far, which are then forgotten."""
        for (node, zone), (values, number, line) in self._found.items():
            cite = self._source.cite(number, line)
            yield Sample("zone", values, cite, READER.name, (("node", node), ("zone", zone)))
        self._found, self.types = {}, []

    def has(self, zone: tuple[str, str], name: str) -> bool:
        return zone in self._found and name in self._found[zone][0]

    def add(self, zone: tuple[str, str], names: list[str], columns: list[str], number: int, line: str) -> None:
        values = self._found.setdefault(zone, ({}, number, line))[0]
        for name, text in zip(names, columns, strict=False):
            count = whole(text.removeprefix(">"))
            if count is None:
                self._odd.note(number, line, NOT_A_COUNT)
            else:
                values[name] = count
        if not values:
            del self._found[zone]


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per zone and snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    zones, orders = _Zones(source, odd), 0
    for number, line in lines:
        if free := _FREE.match(line):
            zone, columns = (free[1], free[2]), free[4].split()
            orders = max(orders, len(columns))
            names = [f"node_pagetypeinfo_free_{free[3]}_order{order}" for order in range(len(columns))]
            if names and zones.has(zone, names[0]):
                yield from zones.take()
            if not names or len(columns) < orders:
                odd.note(number, line, "the row is shorter than the rows above; it is left out")
            else:
                zones.add(zone, names, columns, number, line)
        elif types := _TYPES.match(line):
            zones.types, zones.mixed = types[2].split(), types[1]
        elif blocks := _BLOCKS.match(line):
            _blocks(zones, blocks, number, line, odd)
        elif line.strip() and not _HEAD.match(line):
            odd.note(number, line, "not a row of this table")
    yield from zones.take()


def _blocks(zones: _Zones, row: re.Match[str], number: int, line: str, odd: Oddities) -> None:
    """A row of the second table, which is worth nothing without its heading."""
    columns = row[3].split()
    if zones.mixed == "mixed blocks":
        return
    if not zones.types or len(columns) != len(zones.types):
        odd.note(number, line, "the row does not fit a heading that names its columns; it is left out")
        return
    names = [f"node_pagetypeinfo_blocks_{name}" for name in zones.types]
    zones.add((row[1], row[2]), names, columns, number, line)


READER = Reader(
    name="pagetypeinfo",
    title="/proc/pagetypeinfo",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
    priority=1,  # before buddyinfo
)
