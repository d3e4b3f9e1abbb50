"""Caches of the kernel's slab allocator, from /proc/slabinfo or slabtop. Not a reader.

A host has some 200 caches, most of them small: those below 16 MiB are left out, for they explain nothing, and recorders
copy the file every few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.model import Citation, Moment, Sample
from thpdiag.readers.elements.quantities import LARGEST

SMALLEST = 16 << 20  # bytes


def cache(
    reader: str,
    cite: Citation,
    time: Moment | None,
    name: str,
    counts: tuple[float, float],
    size: float,
    quantum: float,
) -> Iterator[Sample]:
    """A cache by its name: active and all objects, and the size of one with its quantum in bytes."""
    active, objects = counts
    if not 0 <= objects * size <= LARGEST:
        return
    if objects * size >= SMALLEST:
        values = {
            "node_slabinfo_active_objects": active,
            "node_slabinfo_objects": objects,
            "node_slabinfo_object_size_bytes": size,
        }
        resolution = {"node_slabinfo_object_size_bytes": quantum} if quantum else {}
        yield Sample("slab", values, cite, reader, (("slab", name),), time, resolution)
