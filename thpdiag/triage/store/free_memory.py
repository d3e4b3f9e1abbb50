"""How much of the free memory is of no use for a huge page, from the lists of free blocks of a document.

The kernel calls it the unusable free space index (extfrag/unusable_index of debugfs): the share of free memory in
blocks that are smaller than what is asked for. 0 is one piece, 1 is nothing large enough. Here the size is that of
order 9, which is a huge page of 2 MiB where pages have 4 KiB (x86, most of arm64); with pages of 64 KiB order 9 is
32 MiB and a huge page 512 MiB, so hosts are only compared with their like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

NAME: Final = "node_buddyinfo_unusable_order9"
_ORDER: Final = 9
_MOST_ORDERS: Final = 64


def unusable(free_blocks: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the last list of each zone that the document has, all zones together; None without any free block.

    A list without a time counts for a zone that has none with a time.
    """
    latest: dict[tuple[str, str], tuple[str, Sequence[int]]] = {}
    for one in free_blocks:
        counts = one.get("counts")
        if not isinstance(counts, list) or not all(isinstance(count, int) and count >= 0 for count in counts):
            continue
        zone, when = (str(one.get("node")), str(one.get("zone"))), str(one.get("when") or "")
        if zone not in latest or when >= latest[zone][0]:
            latest[zone] = (when, counts[:_MOST_ORDERS])
    free = sum(_pages(counts) for _, counts in latest.values())
    large = sum(_pages(counts, _ORDER) for _, counts in latest.values())
    return round(1 - large / free, 6) if free else None


def _pages(counts: Sequence[int], order: int = 0) -> int:
    return sum(count << place for place, count in enumerate(counts) if place >= order)
