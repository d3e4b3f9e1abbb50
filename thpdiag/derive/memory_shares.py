"""What part of the memory is in reserved huge pages, and what part nobody maps though it counts as used by programs.

An allocator that gives back a part of a huge page leaves the rest in it: no process maps what was given back, yet the
kernel frees it only under pressure (from 4.5 on). It is in no AnonPages, AnonHugePages or RSS, but the page as a whole
is still on the lists of anonymous pages. Measured on 6.18: 512 huge pages of which seven eighths were given back show
as 128 MiB of RSS and 1,024 MiB on the lists, and not one page became free; hosts without such pages differ by less than
0.1 % of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from thpdiag.derive.series import last_having
from thpdiag.model import Fact, Sample, Series

_ON_LISTS = ("Active_anon", "Inactive_anon")
_MAPPED = ("AnonPages", "Shmem")
_KIB = 1024.0


def memory_shares(samples: Iterable[Sample | Series]) -> Iterator[Fact]:
    """memory.hugetlb_ratio, memory.hugetlb_unused_ratio and memory.anon_unmapped_ratio of the last /proc/meminfo."""
    last = last_having(samples, "node_memory_MemTotal_bytes")
    if last is None or last.values["node_memory_MemTotal_bytes"] <= 0:
        return
    values = {name.removeprefix("node_memory_"): value for name, value in last.values.items()}
    for name, size in (*_reserved(values), *_unmapped(values)):
        share = round(size / values["MemTotal_bytes"], 4)
        yield Fact(f"memory.{name}_ratio", share, last.cite, time=last.time)


def _reserved(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Bytes of all reserved huge pages (`Hugetlb` counts all sizes, from 4.19), and of those nobody may want."""
    names = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "Hugepagesize_bytes")
    if not all(name in values for name in names):
        return
    total, free, promised, size = (values[name] for name in names)
    yield "hugetlb", max(values.get("Hugetlb_bytes", 0.0), total * size)
    yield "hugetlb_unused", max(free - promised, 0.0) * size


def _unmapped(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    lists, mapped = ([f"{name}_bytes" for name in names] for names in (_ON_LISTS, _MAPPED))
    if all(name in values for name in (*lists, *mapped)):
        known = sum(values[name] for name in mapped) + values.get("SwapCached_bytes", 0.0)
        yield "anon_unmapped", max(sum(values[name] for name in lists) - known, 0.0)


def partially_mapped(samples: Iterable[Sample | Series], memory: float) -> Iterator[Fact]:
    """memory.partially_mapped_ratio from the counts of huge pages by size (6.12), as a share of `memory` in bytes."""
    last: dict[str, Sample] = {}
    for sample in samples:
        if sample.kind == "thp_size" and not isinstance(sample, Series) and _PARTS in sample.values:
            last[dict(sample.entity).get("size", "")] = sample
    sizes = {size: float(size.removesuffix("kB")) * _KIB for size in last if size.removesuffix("kB").isdigit()}
    if sizes and memory > 0:
        total = sum(last[size].values[_PARTS] * bytes_ for size, bytes_ in sizes.items())
        largest = max(sizes, key=lambda size: last[size].values[_PARTS] * sizes[size])
        yield Fact("memory.partially_mapped_ratio", round(total / memory, 4), last[largest].cite)


_PARTS = "node_thp_nr_anon_partially_mapped"
