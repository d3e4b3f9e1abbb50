"""/proc/slabinfo: the caches of the kernel's slab allocator, one per line.

    slabinfo - version: 2.1
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ...
    dentry            287284 287406    192   21    1 : tunables    0    0    0 : slabdata  13686  13686      0

Units: objects, and bytes per object. Caches below 16 MiB are left out. Readable by root only since 2013.
Varies: version 1.1 (2.4 kernels) has other columns and is not read. Source: kernel tree, mm/slab_common.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.procfs.slab_caches import cache

HEAD = re.compile(r"slabinfo - version: 2\.\d\s*$")
NAMES = re.compile(r"# name\s+<active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>")
ROW = re.compile(r"(\S{1,64})\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+\d+ : (?:globalstat .{0,200} : )?tunables\s")


def belongs(text: str) -> bool:
    return bool(ROW.match(text) or NAMES.match(text))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample per cache that is not small."""
    odd = Oddities(source, "slabinfo")
    for line, text in lines:
        found = ROW.match(text)
        if found:
            counts = [number(part) for part in found.groups()[1:]]
            active, objects, size = counts
            if active is None or objects is None or size is None:
                odd.note(line, text, "an impossible number of slabinfo: not used")
                continue
            cite = source.cite(line, text)
            yield from cache("slabinfo", cite, source.time, found[1], (active, objects), size, 0.0)
        elif text.strip() and not HEAD.match(text) and not NAMES.match(text):
            odd.note(line, text, "a line that is none of slabinfo's")
    yield from odd.problems()


READER = Reader(
    "slabinfo", "/proc/slabinfo", read, opens=re.compile(f"{HEAD.pattern}|{NAMES.pattern}"), continues=belongs
)
