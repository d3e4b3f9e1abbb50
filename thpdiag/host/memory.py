"""Memory of a host: the size of its huge pages, shares of available, reserved and unmapped memory, free blocks.

The size of a huge page is 2 MiB on x86-64 and on 64-bit ARM with pages of 4 KiB, 512 MiB there with pages of 64 KiB.
The kernel reports it in hpage_pmd_size (4.10 and later). On older kernels, Hugepagesize of /proc/meminfo is the same,
unless an administrator chose another default for reserved pages (1 GiB); page faults never bring pages of that size.

Unmapped memory: an allocator that frees a part of a huge page leaves that part in it. No process maps it any more, but
the kernel frees it only under memory pressure (from 4.5 on). It is not part of AnonPages, AnonHugePages or RSS, but the
whole page is still on the lists of anonymous pages. Measured on 6.18: 512 huge pages of which seven eighths were freed
show as 128 MiB of RSS and 1,024 MiB on the lists; hosts without such pages differ by less than 0.1 % of the memory.

Unlisted memory: all memory minus free pages, the lists of pages that programs and files use, objects of the kernel
(Slab), its stacks, page tables, vmalloc areas and reserved huge pages. Drivers, network buffers, zram and memory that
the kernel has leaked are in none of these.

Unusable index = (free pages - pages in blocks that are large enough) / free pages; 0 none unusable, 1 all. Linux
mm/vmstat.c prints it times 1000 as extfrag/unusable_index. It is not meaningful for a zone with little free memory.

Free memory of a NUMA node, as a share of its memory: from its own row (numastat -m, numactl -H, node meminfo), else
summed over its zones. It is not computed for a host with one node, and not for nodes of less than 1 GiB.

Mixed blocks: blocks for movable pages that hold a page of another kind, which compaction cannot empty; pagetypeinfo
counts them if page_owner is on.

The largest slab cache that the kernel cannot reclaim: it grows if a driver or the kernel itself leaks.

SUnreclaim of /proc/meminfo counts the unreclaimable caches; /proc/slabinfo and slabtop name caches but do not mark the
unreclaimable ones. A cache is taken for one of them if it is larger than all reclaimable caches (SReclaimable) or as
large as half of the unreclaimable ones, and its name is not one that the kernel marks as reclaimable: names and inodes
of files, nodes of the page cache's trees, buffer heads. The cache of ZFS is in unreclaimable caches but can be shrunk
(thpdiag rules ALT-20, ALT-28). Sizes are those of the objects, without the rounding loss of slabs. Source: kernel tree,
SLAB_RECLAIM_ACCOUNT in fs/, lib/radix-tree.c and mm/slab_common.c (kmalloc-rcl).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.host.series import last_row_having
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Case, Entity, Fact, Sample, Series
from thpdiag.model.case import member_of

HUGE_PAGE_FACT = "memory.huge_page_bytes"
DEFAULT_HUGE_PAGE_BYTES = 2.0 * 2**20
_MAX_HUGE_PAGE_BYTES = 512.0 * 2**20
_HUGE_PAGE_BYTES = {65536: _MAX_HUGE_PAGE_BYTES, 16384: 32.0 * 2**20, 4096: DEFAULT_HUGE_PAGE_BYTES}  # by page size
_MIN_RESERVED_DEFAULT_BYTES = 2.0**30  # from this size on, Hugepagesize is a default that was chosen for reserved pages
_OTHER_ARCHITECTURE = re.compile(r"aarch64|arm64|64k|ppc64|s390|riscv|loongarch|mips|sparc")
ERROR_LABEL = "within"  # label of a fact: its error, due to rounding by the source
_PARTIALLY_MAPPED = "node_thp_nr_anon_partially_mapped"
_ORDER = re.compile(r"node_buddyinfo_blocks_order(\d+)")
MIN_FREE_PAGES = 16384  # 64 MiB of 4 KiB pages
MIN_NODE_BYTES = 2.0**30
MIN_NODE_PAGES = 1 << 18  # 1 GiB of 4 KiB pages
MIN_MOVABLE_BLOCKS = 512  # 1 GiB
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages; other architectures have other orders


def huge_page_fact(case: Case) -> Fact | None:
    """Return the size of a huge page as a fact, from the most reliable source.

    None if it is unknown: on machines that support several page sizes the kernel release does not determine it.
    """
    facts = [*case.facts, *(f for state in case.states for f in state.facts)]
    numbers = {f.name: f for f in facts if not isinstance(f.value, str) and f.value > 0}
    if (fact := numbers.get("thp.hpage_pmd_size")) is not None:
        return Fact(HUGE_PAGE_FACT, float(fact.value), fact.cite)
    if (pages := numbers.get("kernel.page_size")) is not None and int(pages.value) in _HUGE_PAGE_BYTES:
        return Fact(HUGE_PAGE_FACT, _HUGE_PAGE_BYTES[int(pages.value)], pages.cite)
    name = "node_memory_Hugepagesize_bytes"
    row = last_row_having((sample for state in case.states for sample in state.samples), name)
    if row and 0 < row.values[name] < _MIN_RESERVED_DEFAULT_BYTES:
        return Fact(HUGE_PAGE_FACT, row.values[name], row.cite)
    release = next((f for f in facts if f.name == "kernel.release" and not f.provenance), None)
    if release is None or _OTHER_ARCHITECTURE.search(str(release.value)):
        return None
    return Fact(HUGE_PAGE_FACT, DEFAULT_HUGE_PAGE_BYTES, release.cite)


def max_huge_page_size(case: Case) -> float:
    """Return the size of a huge page in bytes, or the largest possible one if it is unknown."""
    if (fact := huge_page_fact(case)) is not None:
        return float(fact.value)
    releases = (str(f.value) for f in case.facts if f.name == "kernel.release")
    return _MAX_HUGE_PAGE_BYTES if any(map(_OTHER_ARCHITECTURE.search, releases)) else DEFAULT_HUGE_PAGE_BYTES


MAX_UNMAP_SECONDS = 60.0  # in this time a large unmap completes
_AVAILABLE = ("MemFree", "Cached", "Buffers", "SReclaimable")  # estimate of MemAvailable on kernels without it
_RESERVED = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "Hugepagesize")
_LISTED = ("MemFree", "Active", "Inactive", "Unevictable", "Slab")
_LISTED_IF_THERE = ("KernelStack", "PageTables", "SecPageTables", "Percpu", "VmallocUsed", "Zswap", "Hugetlb")
_ANONYMOUS = ("Active_anon", "Inactive_anon", "AnonPages", "Shmem")


def memory_shares(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield shares of available, reserved, unmapped and unlisted memory, each from the last row that has the figures.

    Unmapped memory is the smaller of the last two rows. top and free print only a part of /proc/meminfo; what they omit
    is taken from an earlier row.
    """
    rows = (_last_memory_row(samples, *names) for names in ((), ("MemAvailable",), _AVAILABLE[:2]))
    for last in rows:
        if last is not None and (available := _available_bytes(values := _short_names(last))) is not None:
            used = ("MemAvailable",) if "MemAvailable" in values else (*_AVAILABLE, "Shmem")
            error = sum(last.resolution.get(f"node_memory_{name}_bytes", 0.0) for name in used) / values["MemTotal"]
            labels = ((ERROR_LABEL, f"{min(error, 1.0):.4f}"),) if error else ()
            yield Fact("memory.available_ratio", available / values["MemTotal"], last.cite, labels, last.time)
            break
    known = set[str]()
    shares = (
        (_RESERVED, _reserved_bytes),
        (("Hugetlb",), _all_reserved_bytes),
        (_ANONYMOUS, _unmapped_bytes),
        ((*_LISTED, *_RESERVED), _unlisted_bytes),
    )
    for names, sizes in shares:
        if (last := _last_memory_row(samples, *names)) is not None:
            values = _short_names(last)
            # A large unmap decreases one count after the other; the difference in between is gone a moment later.
            before = _row_before(samples, last, *names) if names is _ANONYMOUS else None
            earlier = dict(sizes(_short_names(before))) if before else {}
            for name, size in sizes(values):
                if name in known:
                    continue
                known.add(name)
                lasting = min(size, earlier.get(name, size))
                yield Fact(f"memory.{name}_ratio", lasting / values["MemTotal"], last.cite, time=last.time)


def _metrics(*names: str) -> list[str]:
    return [f"node_memory_{name}{'' if name.startswith('HugePages_') else '_bytes'}" for name in ("MemTotal", *names)]


def _last_memory_row(samples: Sequence[Sample | Series], *names: str) -> Sample | None:
    """Return the last row that has these figures of /proc/meminfo and MemTotal."""
    last = last_row_having(samples, *_metrics(*names))
    return last if last is not None and last.values["node_memory_MemTotal_bytes"] > 0 else None


def _row_before(samples: Sequence[Sample | Series], last: Sample, *names: str) -> Sample | None:
    """Return the row before the last one in its member, if it is at most a moment older."""
    others = [s for s in samples if s.cite.member == last.cite.member and s.cite.line != last.cite.line]
    before = last_row_having(others, *_metrics(*names)) if others else None
    if before is None or before.time is None or last.time is None or before.time.clock is not last.time.clock:
        return None
    return before if 0 < last.time.seconds - before.time.seconds <= MAX_UNMAP_SECONDS else None


def _short_names(row: Sample) -> dict[str, float]:
    return {name.removeprefix("node_memory_").removesuffix("_bytes"): value for name, value in row.values.items()}


def _available_bytes(values: Mapping[str, float]) -> float | None:
    if "MemAvailable" in values or "MemFree" not in values or "Cached" not in values:
        return values.get("MemAvailable")
    return sum(values.get(part, 0.0) for part in _AVAILABLE) - values.get("Shmem", 0.0)


def _reserved_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the size of all reserved huge pages (`Hugetlb` counts all sizes, from 4.19), and of the unused ones."""
    reserved, free, promised, size = (values[name] for name in _RESERVED)
    yield "hugetlb", max(values.get("Hugetlb", 0.0), reserved * size)
    yield "hugetlb_unused", max(free - promised, 0.0) * size


def _all_reserved_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the size of all reserved huge pages; the number of free ones is unknown."""
    yield "hugetlb", values["Hugetlb"]


def _unmapped_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the size of anonymous pages that no process maps."""
    active, inactive, anon, shmem = (values[name] for name in _ANONYMOUS)
    yield "anon_unmapped", max(active + inactive - (anon + shmem + values.get("SwapCached", 0.0)), 0.0)


def partially_mapped_share(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield memory.partially_mapped_ratio: partially mapped huge pages (6.12) as a share of all memory."""
    last: dict[str, Sample] = {}
    for sample in samples:
        if sample.kind == "thp_size" and not isinstance(sample, Series) and _PARTIALLY_MAPPED in sample.values:
            last[dict(sample.entity).get("size", "")] = sample
    sizes = {
        size: row.values[_PARTIALLY_MAPPED] * float(kilobytes) * 1024
        for size, row in last.items()
        if (kilobytes := size.removesuffix("kB")).isdigit()
    }
    memory = last_row_having(samples, "node_memory_MemTotal_bytes") if sizes else None
    if memory and (total := memory.values["node_memory_MemTotal_bytes"]) > 0:
        largest = max(sizes, key=sizes.__getitem__)
        yield Fact("memory.partially_mapped_ratio", sum(sizes.values()) / total, last[largest].cite)


def java_shares(facts: Iterable[Fact], samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield java.uncommitted_ratio: resident memory beyond what a JVM has committed, relative to the committed memory.

    Not with ZGC, which maps its heap several times.
    """
    known = list(facts)
    texts = (str(f.value) for f in known if f.name == "process.command")
    options = (f.label("option") for f in known if f.name == "java.option" and f.value == "true")
    if any("+UseZGC" in text for text in texts) or "UseZGC" in options:
        return
    for fact in known:
        is_total = fact.name == "java.memory" and (fact.label("part"), fact.label("kind")) == ("total", "committed")
        if not is_total or not (pid := fact.label("pid")) or not float(fact.value):
            continue
        rows = [s for s in samples if s.kind == "process" and dict(s.entity).get("pid") == pid]
        if row := last_row_having(rows, "process_resident_memory_bytes"):
            excess = row.values["process_resident_memory_bytes"] / float(fact.value) - 1
            yield Fact("java.uncommitted_ratio", round(max(excess, 0.0), 6), row.cite, (("pid", pid),), row.time)


def min_free_share(facts: Iterable[Fact], samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield memory.min_free_ratio: vm.min_free_kbytes as a share of all memory."""
    reserves = (f for f in facts if f.name == "sysctl.vm.min_free_kbytes" and isinstance(f.value, int))
    reserve = min(reserves, key=lambda fact: fact.provenance != "", default=None)  # a measured value first
    memory = last_row_having(samples, "node_memory_MemTotal_bytes") if reserve else None
    if reserve and memory and (total := memory.values["node_memory_MemTotal_bytes"]) > 0:
        ratio = int(reserve.value) * 1024 / total
        yield Fact("memory.min_free_ratio", ratio, reserve.cite, provenance=reserve.provenance)


def free_blocks(sample: Sample) -> dict[int, float]:
    """Return the free blocks by order of a zone's sample."""
    return {int(m[1]): v for name, v in sample.values.items() if (m := _ORDER.fullmatch(name))}


def zone_facts(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield order9_free_blocks, unusable_index and mixed_blocks_ratio of each zone, numa_free_ratio of each node."""
    zones = _rows_by_entity(samples, "zone")
    yield from _free_shares_of_nodes(_rows_by_entity(samples, "node"), zones)
    for entity, rows in zones.items():
        yield from _mixed_blocks(entity, rows)
        if (sample := last_row_having(rows, "node_buddyinfo_blocks_order0")) is None:
            continue
        blocks = free_blocks(sample)
        if max(blocks) < HUGE_ORDER:
            continue
        large = sum(count * 2 ** (order - HUGE_ORDER) for order, count in blocks.items() if order >= HUGE_ORDER)
        pages = sum(count * 2**order for order, count in blocks.items())
        yield Fact("memory.order9_free_blocks", large, sample.cite, entity, sample.time)
        if pages >= MIN_FREE_PAGES:
            index = (pages - large * 2**HUGE_ORDER) / pages
            yield Fact("memory.unusable_index", index, sample.cite, entity, sample.time)


def _rows_by_entity(samples: Sequence[Sample | Series], kind: str) -> dict[Entity, list[Sample | Series]]:
    rows: dict[Entity, list[Sample | Series]] = {}
    for sample in samples:
        if sample.kind == kind:
            rows.setdefault(sample.entity, []).append(sample)
    return rows


def _mixed_blocks(zone: Entity, rows: Sequence[Sample | Series]) -> Iterator[Fact]:
    names = ("node_pagetypeinfo_mixed_blocks_Movable", "node_pagetypeinfo_blocks_Movable")
    if (row := last_row_having(rows, *names)) is not None and row.values[names[1]] >= MIN_MOVABLE_BLOCKS:
        yield Fact("memory.mixed_blocks_ratio", row.values[names[0]] / row.values[names[1]], row.cite, zone, row.time)


def _free_shares_of_nodes(
    nodes: Mapping[Entity, Sequence[Sample | Series]], zones: Mapping[Entity, Sequence[Sample | Series]]
) -> Iterator[Fact]:
    """Yield memory.numa_free_ratio of each node if there are several."""
    names = ("node_memory_numa_MemFree_bytes", "node_memory_numa_MemTotal_bytes")
    sizes: dict[str, tuple[float, float, Sample]] = {}  # free and total size with the cited row
    for entity, rows in nodes.items():
        row = last_row_having(rows, *names)
        if row is not None and row.values[names[1]] >= MIN_NODE_BYTES:
            sizes[dict(entity).get("node", "")] = (row.values[names[0]], row.values[names[1]], row)
    if not sizes:
        sizes = {node: sums for node, sums in _sum_zones(zones).items() if sums[1] >= MIN_NODE_PAGES}
    if len(sizes) > 1:
        for node, (free, size, row) in sizes.items():
            yield Fact("memory.numa_free_ratio", free / size, row.cite, (("node", node),), row.time)


def _sum_zones(zones: Mapping[Entity, Sequence[Sample | Series]]) -> dict[str, tuple[float, float, Sample]]:
    """Return the free pages and all pages of each node, citing its last zone."""
    sums: dict[str, tuple[float, float, Sample]] = {}
    for entity, rows in zones.items():
        row = last_row_having(rows, "node_zoneinfo_nr_free_pages", "node_zoneinfo_managed_pages")
        if row is not None:
            node = dict(entity).get("node", "")
            free, size, _ = sums.get(node, (0.0, 0.0, row))
            values = row.values
            free, size = free + values["node_zoneinfo_nr_free_pages"], size + values["node_zoneinfo_managed_pages"]
            sums[node] = free, size, row
    return sums


def _unlisted_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the memory that is in none of the kernel's figures; figures that older kernels do not print are small."""
    reserved = 0.0 if "Hugetlb" in values else values["HugePages_Total"] * values["Hugepagesize"]
    listed = sum(values[name] for name in _LISTED) + sum(values.get(name, 0.0) for name in _LISTED_IF_THERE)
    yield "unlisted", max(values["MemTotal"] - listed - reserved, 0.0)


OBJECTS, SIZE = "node_slabinfo_objects", "node_slabinfo_object_size_bytes"
MEM_TOTAL, UNRECLAIMABLE = "node_memory_MemTotal_bytes", "node_memory_SUnreclaim_bytes"
RECLAIMABLE = "node_memory_SReclaimable_bytes"
ALL_SLABS = "node_slabinfo_all_bytes"
MIN_LARGEST_CACHE_SHARE = 0.6  # of all slabs
MAX_CACHE_SHARE = 1.05  # of SUnreclaim, which was read at another moment
_RECLAIMABLE = re.compile(
    r"inode|dentry|radix_tree_node|xa_node|buffer_head|rcl|extent_status|xfs_ili|zio_|zfs_|arc_|abd_"
)


def slab_facts(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Yield memory.slab_cache_bytes and its share of all memory, with the label cache.

    If the memory size is unknown, yield memory.slab_cache_alone_bytes for a cache that holds most of all slabs.
    """
    caches = {row.entity: row for row in samples if row.kind == "slab" and isinstance(row, Sample) and row.values}
    sizes = {
        entity: row.values[OBJECTS] * row.values[SIZE]
        for entity, row in caches.items()
        if not _RECLAIMABLE.search(dict(entity).get("slab", ""))
    }
    if not sizes:
        return
    largest = max(sizes, key=sizes.__getitem__)
    row, size = caches[largest], sizes[largest]
    rows = [s for s in samples if root_of(member_of(s)) == root_of(row.cite.member)]
    memory = last_row_having(rows, MEM_TOTAL, UNRECLAIMABLE)
    labels = (("cache", dict(largest)["slab"]),)
    if memory is None:
        slabs = last_row_having(rows, ALL_SLABS)
        total = slabs.values[ALL_SLABS] if slabs else math.nan
        if MIN_LARGEST_CACHE_SHARE * total <= size <= MAX_CACHE_SHARE * total:
            yield Fact("memory.slab_cache_alone_bytes", round(size), row.cite, labels, row.time)
        return
    if memory.values[MEM_TOTAL] <= 0 or not 0 < size <= MAX_CACHE_SHARE * memory.values[UNRECLAIMABLE]:
        return
    if size < memory.values[UNRECLAIMABLE] / 2 and size <= memory.values.get(RECLAIMABLE, size):
        return
    for name, value in (("bytes", size), ("ratio", size / memory.values[MEM_TOTAL])):
        yield Fact(f"memory.slab_cache_{name}", value, row.cite, labels, row.time)
