"""Free memory by block size: can a zone serve a huge page, and how much of its free memory cannot?

unusable index = (free pages - pages in blocks that are large enough) / free pages; 0 none unusable, 1 all. Linux
mm/vmstat.c prints it times 1000 as extfrag/unusable_index. A zone with little free memory says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thpdiag.model import Entity, Fact, Sample, Series

_ORDER = re.compile(r"node_buddyinfo_blocks_order(\d+)")
LEAST_FREE_PAGES = 16384  # 64 MiB of 4 KiB pages
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages; the size differs on other architectures


def free_blocks(sample: Sample) -> dict[int, float]:
    """Free blocks by order of a zone's sample."""
    return {int(m[1]): v for name, v in sample.values.items() if (m := _ORDER.fullmatch(name))}


def zone_facts(samples: Iterable[Sample | Series]) -> Iterator[Fact]:
    """memory.order9_free_blocks and memory.unusable_index of every zone's last sample."""
    last: dict[Entity, Sample] = {}
    for given in samples:
        if given.kind == "zone" and len(given.values):
            sample = given[len(given) - 1] if isinstance(given, Series) else given
            if free_blocks(sample):
                last[sample.entity] = sample
    for entity, sample in last.items():
        blocks = free_blocks(sample)
        if max(blocks) < HUGE_ORDER:
            continue
        large = sum(count * 2 ** (order - HUGE_ORDER) for order, count in blocks.items() if order >= HUGE_ORDER)
        pages = sum(count * 2**order for order, count in blocks.items())
        yield Fact("memory.order9_free_blocks", large, sample.cite, entity, sample.time)
        if pages >= LEAST_FREE_PAGES:
            index = (pages - large * 2**HUGE_ORDER) / pages
            yield Fact("memory.unusable_index", round(index, 4), sample.cite, entity, sample.time)
