"""The largest slab cache that the kernel cannot empty: what a leak in a driver or in the kernel itself looks like.

SUnreclaim of /proc/meminfo counts the caches that nothing shrinks; /proc/slabinfo and slabtop name them, but do not say
which they are. A cache is taken for one of them if it is larger than all that can be reclaimed (SReclaimable), or as
large as half of what cannot be, and has no name of those that the kernel marks as reclaimable: names and inodes of
files, nodes of the page cache's trees, heads of buffers. The cache of ZFS lies in unreclaimable caches and is emptied
all the same (thpdiag rules ALT-20, ALT-28). Sizes are those of the objects, what the slabs lose by rounding is not in
them. Source: kernel tree, SLAB_RECLAIM_ACCOUNT in fs/, lib/radix-tree.c and mm/slab_common.c (kmalloc-rcl).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from thpdiag.host.series import last_row_having
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Fact, Sample, Series
from thpdiag.model.case import member_of

OBJECTS, SIZE = "node_slabinfo_objects", "node_slabinfo_object_size_bytes"
TOTAL, FIXED = "node_memory_MemTotal_bytes", "node_memory_SUnreclaim_bytes"
FREED = "node_memory_SReclaimable_bytes"
ALL = "node_slabinfo_all_bytes"
MOSTLY = 0.6  # of all slabs: one cache that is so much of them
ROUNDING = 1.05  # the cache as a part of SUnreclaim, which was read at another moment
_RECLAIMABLE = re.compile(
    r"inode|dentry|radix_tree_node|xa_node|buffer_head|rcl|extent_status|xfs_ili|zio_|zfs_|arc_|abd_"
)


def slab_facts(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """memory.slab_cache_bytes and its share of all memory, with the label cache.

    Where nothing tells how large memory is, memory.slab_cache_alone_bytes of a cache that is most of all slabs.
    """
    caches = {row.entity: row for row in samples if row.kind == "slab" and isinstance(row, Sample) and row.values}
    sizes = {
        entity: row.values[OBJECTS] * row.values[SIZE]
        for entity, row in caches.items()
        if not _RECLAIMABLE.search(dict(entity).get("slab", ""))
    }
    if not sizes:
        return
    largest = max(sizes, key=lambda entity: sizes[entity])
    row, size = caches[largest], sizes[largest]
    of_capture = [s for s in samples if root_of(member_of(s)) == root_of(row.cite.member)]
    memory = last_row_having(of_capture, TOTAL, FIXED)
    labels = (("cache", dict(largest)["slab"]),)
    if memory is None:
        slabs = last_row_having(of_capture, ALL)
        if slabs is not None and MOSTLY * slabs.values[ALL] <= size <= ROUNDING * slabs.values[ALL]:
            yield Fact("memory.slab_cache_alone_bytes", round(size), row.cite, labels, row.time)
        return
    if memory.values[TOTAL] <= 0 or not 0 < size <= ROUNDING * memory.values[FIXED]:
        return
    if size < memory.values[FIXED] / 2 and size <= memory.values.get(FREED, size):
        return
    for name, value in (("bytes", size), ("ratio", size / memory.values[TOTAL])):
        yield Fact(f"memory.slab_cache_{name}", value, row.cite, labels, row.time)
