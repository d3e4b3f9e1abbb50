"""slabtop -o, or frames of slabtop: sums, then the largest caches of the kernel's slab allocator.

     Active / Total Size (% used)       : 454257.51K / 456909.56K (99.4%)
      OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
    287406 287284  99%    0.19K  13686       21     54744K dentry

Units: KiB with two decimals (of an object: a quantum of 10 bytes); the sum counts objects, not the pages they lie in,
so it is a little below Slab of /proc/meminfo. Caches below 16 MiB are left out.
Varies: columns by width in procps 4; `Active / Total Caches`, `Slabs`. Source: procps slabtop.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import Quantity, number, quantity
from thpdiag.readers.procfs.slab_caches import cache

SUM = re.compile(
    r"\s?(?:Active / Total|Minimum / Average / Maximum) (Objects?|Slabs|Caches|Size)(?: \(% used\))?\s*:\s"
)
SIZES = re.compile(r".*:\s+(\d\S{0,20}) / (\d\S{0,20}) \(")
HEADER = re.compile(r"\s*OBJS\s+ACTIVE\s+USE\s+OBJ SIZE\s+SLABS\s+OBJ/SLAB\s+CACHE SIZE\s+NAME\s*$")
ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+\d{1,3}%\s+(\S{1,20})\s+\d+\s+\d+\s+(\S{1,20})\s+(\S{1,64})\s*$")


def belongs(text: str) -> bool:
    """An empty line stands between the sums and the caches."""
    return not text.strip() or any(p.match(text) for p in (SUM, HEADER, ROW))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample of the host from the sums, one per cache that is not small."""
    odd = Oddities(source, "slabtop")
    yield from dated(source, _samples(source, odd, lines))
    yield from odd.problems()


def _samples(source: Source, odd: Oddities, lines: Lines) -> Iterator[Sample]:
    for line, text in lines:
        cite = source.cite(line, text)
        if total := SUM.match(text):
            sizes = SIZES.match(text)
            if total[1] == "Size" and sizes and (size := _kib(sizes[2])):
                resolution = {"node_slabinfo_all_bytes": size.resolution}
                yield Sample("system", {"node_slabinfo_all_bytes": size.value}, cite, "slabtop", (), None, resolution)
        elif row := ROW.match(text):
            objects, active, size = number(row[1]), number(row[2]), _kib(row[3])
            if objects is None or active is None or size is None:
                odd.note(line, text, "an impossible number of slabtop: not used")
                continue
            yield from cache("slabtop", cite, None, row[5], (active, objects), size.value, size.resolution)
        elif text.strip() and not HEADER.match(text):
            odd.note(line, text, "a line that is none of slabtop's")


def _kib(text: str) -> Quantity | None:
    """`0.19K`; without a suffix it would be something else."""
    return quantity(text) if text.endswith("K") else None


READER = Reader("slabtop", "slabtop", read, opens=re.compile(f"{SUM.pattern}|{HEADER.pattern}"), continues=belongs)
