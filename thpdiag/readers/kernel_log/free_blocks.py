"""Free memory by block size, as SysRq m, allocation failures and the out-of-memory killer print it.

    Node 0 Normal: 120*4kB (UEM) 33*8kB (UM) 0*16kB ... 0*4096kB = 744kB

Units: blocks. The smallest size is the page, so `4096kB` is order 10 on x86. The letters (migrate types, from 3.x)
are optional, so is `Node 0` (32-bit and old kernels). The same numbers as /proc/buddyinfo, and under the same names.
A row whose blocks do not add up to its total is cut or garbled: it is left out. Source: mm/page_alloc.c
(show_free_areas). Not a format of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROW = re.compile(
    r"(?:Node (?P<node>\d{1,4}) )?(?P<zone>[A-Z]\w{1,15}): "
    r"(?P<blocks>\d{1,15}\*\d{1,9}kB\b.{0,800}?)= (?P<total>\d{1,15})kB\s*$"
)
_BLOCKS = re.compile(r"(\d{1,15})\*(\d{1,9})kB")
_START = re.compile(r"(?:Node \d{1,4} )?[A-Z]\w{1,15}: \d{1,15}\*\d{1,9}kB\b")
_MOST_ORDERS = 20


@dataclass(frozen=True, slots=True)
class FreeBlocks:
    """One zone; `values` is empty if the row is not to be trusted."""

    node: str
    zone: str
    values: dict[str, float]


def free_blocks(text: str) -> FreeBlocks | None:
    """The row of a zone, None if the line is something else."""
    if not _START.match(text):
        return None
    found = _ROW.match(text)
    if not found:
        return FreeBlocks("", "", {})
    sizes = [(int(size), int(count)) for count, size in _BLOCKS.findall(found["blocks"])]
    page = min(size for size, _ in sizes)
    adds_up = page > 0 and sum(size * count for size, count in sizes) == int(found["total"])
    values: dict[str, float] = {}
    for size, count in sizes if adds_up else ():
        order = (size // page).bit_length() - 1
        if size != page << order or order >= _MOST_ORDERS:
            return FreeBlocks("", "", {})
        values[f"node_buddyinfo_blocks_order{order}"] = count
    return FreeBlocks(found["node"] or "0", found["zone"], values)
