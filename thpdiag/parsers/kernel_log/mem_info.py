"""Memory state that the kernel prints when an allocation fails: watermarks and free blocks of each zone.

    Mem-Info:
    Node 0 Normal free:487600kB min:90112kB low:112640kB high:135168kB ...
    lowmem_reserve[]: 0 0 0 0 0
    Node 0 Normal: 120*4kB (UEM) 33*8kB (UM) 0*16kB ... 0*4096kB = 744kB

Units: kB, pages (lowmem_reserve), blocks. The smallest block is the page, so `4096kB` is order 10 on x86. The letters
(migrate types, from 3.x) are optional, as is `Node 0` (32-bit and old kernels); `boost:` precedes `min:` from 5.14 on.
SysRq m and the out-of-memory killer print the same. The numbers of blocks are those of /proc/buddyinfo, with the same
names. A row whose blocks do not add up to its total is cut or damaged: it is omitted.

A zone serves a request if more than `min` plus its `lowmem_reserve` is free, and a block of the size or a larger one.
Blocks of only the types H (a reserve for requests that cannot wait), C (for CMA) and I (isolated) serve few requests.
The list is printed after the failure, so a free block in it proves nothing. Source: kernel tree, mm/page_alloc.c
(__zone_watermark_ok), mm/show_mem.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ZONE = r"(?:Node (?P<node>\d{1,4}) )?(?P<zone>[A-Z]\w{1,15})"
FREE_BLOCKS = re.compile(rf"{_ZONE}: \d{{1,15}}\*\d{{1,9}}kB\b")
_ROW = re.compile(rf"{_ZONE}: (?P<blocks>\d{{1,15}}\*\d{{1,9}}kB\b.{{0,800}}?)= (?P<total>\d{{1,15}})kB\s*$")
_BLOCKS = re.compile(r"(\d{1,15})\*(\d{1,9})kB(?: \(([A-Z]{1,8})\))?")
_WATERMARKS = re.compile(rf"{_ZONE} free:(?P<free>\d{{1,15}})kB (?:boost:\d{{1,15}}kB )?min:(?P<min>\d{{1,15}})kB")
_RESERVE = re.compile(r"lowmem_reserve\[\]:(?P<pages>(?: \d{1,15}){1,8})\s*$")
_OTHER = re.compile(
    r"Mem-Info|Node \d|CPU {1,6}\d{1,5}: hi:"
    r"|[ \t]{0,4}(?:active_|inactive_|isolated_|free:|free_|unevictable:|slab_|mapped:|kernel_|sec_)"
    r"|\d{1,15} (?:total pagecache|pages |reserved|pagecache|slab)|Swap cache stats|(?:Free|Total) swap  ?="
    r"|[\w:.\[\]-]{1,16} cpuset=|warn_alloc_show_mem|Tasks? "
)
_MAX_ORDERS = 20
_GENERAL_TYPES = frozenset("UMER")

_WAIT_FLAGS = re.compile(
    r"(?:^|[(|])(?:GFP_(?:KERNEL|NOIO|NOFS|USER|HIGHUSER|TEMPORARY)|GFP_TRANSHUGE\b|__GFP_(?:DIRECT_)?RECLAIM\b)"
)
_DMA, _HIGH, _DMA32, _MOVABLE, _OLD_WAIT, _DIRECT_RECLAIM_4_4 = 0x1, 0x20, 0x4, 0x8, 0x10, 0x400000


def parse_free_blocks(text: str) -> dict[str, float]:
    """Return the blocks of a zone by order; empty if the row is damaged."""
    match = _ROW.match(text)
    if not match:
        return {}
    sizes = [(int(size), int(count)) for count, size, _ in _BLOCKS.findall(match["blocks"])]
    page = min(size for size, _ in sizes)
    if page <= 0 or sum(size * count for size, count in sizes) != int(match["total"]):
        return {}
    values: dict[str, float] = {}
    for size, count in sizes:
        order = (size // page).bit_length() - 1
        if size != page << order or order >= _MAX_ORDERS:
            return {}
        values[f"node_buddyinfo_blocks_order{order}"] = count
    return values


def may_not_wait(mode: str) -> bool:
    """Whether the flags of a request come from a context in which the kernel cannot free or compact memory for it.

    Without names, to 4.5, 0x20 is set by interrupts; 0x10, and in 4.4 and 4.5 0x400000, permit waiting.
    """
    if "(" in mode:
        return not _WAIT_FLAGS.search(mode)
    bits = int(mode, 16)
    return bool(bits & _HIGH) and not bits & (_OLD_WAIT | _DIRECT_RECLAIM_4_4)


@dataclass(slots=True)
class _Zone:
    """A zone: memory in kB, pages reserved for others, the largest order of which a block is free for all requests."""

    free: int | None = None
    minimum: int = 0
    reserve: int = 0
    page: int = 4
    largest: int | None = None


@dataclass(slots=True)
class MemInfo:
    """The zones of a report so far."""

    zones: dict[tuple[str, str], _Zone] = field(default_factory=dict)
    begun: bool = False
    _last: _Zone | None = None

    def feed(self, text: str) -> bool:
        """Take a line; return False if it is not about memory."""
        if match := _WATERMARKS.match(text):
            self._last = self._zone(match)
            self._last.free, self._last.minimum = int(match["free"]), int(match["min"])
        elif (match := _RESERVE.match(text)) and self._last:
            self._last.reserve = int(match["pages"].split()[-1])
            self._last = None
        elif (match := FREE_BLOCKS.match(text)) and parse_free_blocks(text):
            zone, blocks = self._zone(match), _BLOCKS.findall(text)
            zone.page = min(int(size) for _, size, _ in blocks)
            orders = [
                (int(size) // zone.page).bit_length() - 1
                for count, size, types in blocks
                if int(count) and (not types or not _GENERAL_TYPES.isdisjoint(types))
            ]
            zone.largest = max(orders, default=-1)
        elif not (match or _OTHER.match(text)):
            return False
        self.begun = True
        return True

    def _zone(self, match: re.Match[str]) -> _Zone:
        return self.zones.setdefault((match["node"] or "0", match["zone"]), _Zone())

    def lack(self, order: int, mode: str) -> str:
        """Return what was missing: `memory`, or `blocks` where memory was free; empty if that is unknown."""
        zones, reserves = self._zones_for(mode)
        if not zones or any(zone.free is None for zone in zones):
            return ""
        usable = [z for z in zones if (z.free or 0) > z.minimum + (z.reserve * z.page if reserves else 0)]
        if not usable:
            return "memory"
        return "blocks" if all(zone.largest is not None and zone.largest < order for zone in usable) else ""

    def _zones_for(self, mode: str) -> tuple[list[_Zone], bool]:
        """Return the zones that may serve a request with these flags, and whether it must leave their reserves.

        No zones where that is unknown: requests bound to a node, and the other reserves of 32-bit kernels.
        """
        names, nodes = ({key[index] for key in self.zones} for index in (1, 0))
        if not mode or "HighMem" in names or (len(nodes) > 1 and "THISNODE" in mode):
            return [], True
        bits = int(mode.partition("(")[0], 16)
        low_zones = {"DMA"} if bits & _DMA else {"DMA", "DMA32"} if bits & _DMA32 else set()
        wanted = low_zones or names - ({"Device"} if bits & _MOVABLE else {"Device", "Movable"})
        return [zone for (_, name), zone in self.zones.items() if name in wanted], not low_zones
