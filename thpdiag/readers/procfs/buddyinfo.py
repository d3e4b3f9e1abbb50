"""/proc/buddyinfo: how many free blocks of each order a zone has.

    Node 0, zone   Normal   1207    600    811    713    515    456    276    105     69     44    138
    Node 1, zone   Normal      0     22      8     10      1      1      2     11     13      0      0

Units: blocks of 2^order pages, order 0 first. Eleven columns on most kernels; other page sizes and configurations have
fewer or more. Rows that are shorter than the longest of the block are cut off and left out, because their last number
may be cut too. Source: kernel tree, mm/vmstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities

_GREP = r"\s*(?:\S{0,200}proc/buddyinfo:)?"
_OPENS = re.compile(_GREP + r"Node\s+\d+,\s+zone\s+\w+(?:\s+\d+){4}")
_LINE = re.compile(_GREP + r"Node\s+(\d+),\s+zone\s+(\w+)((?:\s+[^\s,]+)*)\s*$")
_CONTINUES = re.compile(_GREP + r"Node\s+\d+,\s+zone\s+\w+(?:\s+[^\s,]+)+\s*$")
FEWEST_ORDERS, MOST_ORDERS = 9, 20  # s390x and ppc64 have 9, ia64 17


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per zone and snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _zones(source, lines, odd))
    yield from odd.problems()


def _zones(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    orders = FEWEST_ORDERS
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a row of a zone")
            continue
        node, zone, rest = found.groups()
        columns = rest.split()
        orders = max(orders, min(len(columns), MOST_ORDERS))
        if not FEWEST_ORDERS <= len(columns) <= MOST_ORDERS or len(columns) < orders:
            odd.note(number, line, "the row has too few or too many orders, it may be cut; it is left out")
            continue
        values = _counts(number, line, columns, odd)
        if values:
            entity = (("node", node), ("zone", zone))
            yield Sample("zone", values, source.cite(number, line), READER.name, entity)


def _counts(number: int, line: str, columns: list[str], odd: Oddities) -> dict[str, float]:
    values: dict[str, float] = {}
    for order, text in enumerate(columns):
        count = whole(text)
        if count is None:
            odd.note(number, line, NOT_A_COUNT)
        else:
            values[f"node_buddyinfo_blocks_order{order}"] = count
    return values


READER = Reader(
    name="buddyinfo",
    title="/proc/buddyinfo",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
)
