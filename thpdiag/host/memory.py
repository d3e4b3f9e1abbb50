"""Memory of a host: the size of its huge pages, shares of available, reserved and unmapped memory, free blocks.

The size of a huge page is 2 MiB on x86-64 and on 64-bit ARM with pages of 4 KiB, 512 MiB there with pages of 64 KiB.
The kernel says it in hpage_pmd_size (4.10 and later). Before, Hugepagesize of /proc/meminfo is the same unless
somebody chose another default for reserved pages (1 GiB), which is no size that page faults bring.

Unmapped memory: an allocator that gives back a part of a huge page leaves the rest in it: no process maps what was
given back, yet the kernel frees it only under pressure (from 4.5 on). It is in no AnonPages, AnonHugePages or RSS, but
the whole page is still on the lists of anonymous pages. Measured on 6.18: 512 huge pages of which seven eighths were
given back show as 128 MiB of RSS and 1,024 MiB on the lists; hosts without such pages differ by less than 0.1 % of the
memory.

Unlisted memory: what is left of all memory without free pages, the lists of pages that programs and files use, objects
of the kernel (Slab), its stacks, page tables, vmalloc areas and reserved huge pages. Drivers, network buffers, zram and
memory that the kernel has lost are in none of these.

Unusable index = (free pages - pages in blocks that are large enough) / free pages; 0 none unusable, 1 all. Linux
mm/vmstat.c prints it times 1000 as extfrag/unusable_index. A zone with little free memory says nothing.

Free memory of a NUMA node, as a share of its memory: from its own row (numastat -m, numactl -H, node meminfo), else
summed over its zones. A host with one node, and nodes of less than 1 GiB, have none.

Mixed blocks: blocks for movable pages that hold a page of another kind, which compaction cannot empty; pagetypeinfo
counts them where page_owner is on.

The largest slab cache that the kernel cannot empty: what a leak in a driver or in the kernel itself looks like.

SUnreclaim of /proc/meminfo counts the caches that nothing shrinks; /proc/slabinfo and slabtop name them, but do not say
which they are. A cache is taken for one of them if it is larger than all that can be reclaimed (SReclaimable), or as
large as half of what cannot be, and has no name of those that the kernel marks as reclaimable: names and inodes of
files, nodes of the page cache's trees, heads of buffers. The cache of ZFS lies in unreclaimable caches and is emptied
all the same (thpdiag rules ALT-20, ALT-28). Sizes are those of the objects, what the slabs lose by rounding is not in
them. Source: kernel tree, SLAB_RECLAIM_ACCOUNT in fs/, lib/radix-tree.c and mm/slab_common.c (kmalloc-rcl).
"""

from __future__ import annotations

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
_MIN_CHOSEN_BYTES = 2.0**30  # the default of reserved pages was chosen, it is not the size of transparent ones
_OTHER_MACHINE = re.compile(r"aarch64|arm64|64k|ppc64|s390|riscv|loongarch|mips|sparc")
ERROR_LABEL = "within"  # label of a fact: by how much it may be wrong, for its source rounded
_PARTIALLY_MAPPED = "node_thp_nr_anon_partially_mapped"
_ORDER = re.compile(r"node_buddyinfo_blocks_order(\d+)")
MIN_FREE_PAGES = 16384  # 64 MiB of 4 KiB pages
MIN_NODE_BYTES = 2.0**30
MIN_NODE_PAGES = 1 << 18  # 1 GiB of 4 KiB pages
MIN_MOVABLE_BLOCKS = 512  # 1 GiB
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages; the size differs on other architectures


def huge_page_fact(case: Case) -> Fact | None:
    """The size as a fact, from the best place that says it.

    None where it may be any: on machines with pages of several sizes the release of the kernel does not tell.
    """
    facts = [*case.facts, *(f for state in case.states for f in state.facts)]
    told = {f.name: f for f in facts if not isinstance(f.value, str) and f.value > 0}
    if (fact := told.get("thp.hpage_pmd_size")) is not None:
        return Fact(HUGE_PAGE_FACT, float(fact.value), fact.cite)
    if (pages := told.get("kernel.page_size")) is not None and int(pages.value) in _HUGE_PAGE_BYTES:
        return Fact(HUGE_PAGE_FACT, _HUGE_PAGE_BYTES[int(pages.value)], pages.cite)
    name = "node_memory_Hugepagesize_bytes"
    row = last_row_having((sample for state in case.states for sample in state.samples), name)
    if row and 0 < row.values[name] < _MIN_CHOSEN_BYTES:
        return Fact(HUGE_PAGE_FACT, row.values[name], row.cite)
    release = next((f for f in facts if f.name == "kernel.release" and not f.provenance), None)
    if release is None or _OTHER_MACHINE.search(str(release.value)):
        return None
    return Fact(HUGE_PAGE_FACT, DEFAULT_HUGE_PAGE_BYTES, release.cite)


def max_huge_page_size(case: Case) -> float:
    """In bytes, the most that it may be: the largest on machines with pages of several sizes, if nothing says which."""
    if (fact := huge_page_fact(case)) is not None:
        return float(fact.value)
    releases = (str(f.value) for f in case.facts if f.name == "kernel.release")
    return _MAX_HUGE_PAGE_BYTES if any(map(_OTHER_MACHINE.search, releases)) else DEFAULT_HUGE_PAGE_BYTES


MAX_MOMENT_SECONDS = 60.0  # in which a large unmap is done
_AVAILABLE = ("MemFree", "Cached", "Buffers", "SReclaimable")  # what MemAvailable was guessed from before it existed
_RESERVED = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "Hugepagesize")
_LISTED = ("MemFree", "Active", "Inactive", "Unevictable", "Slab")
_LISTED_IF_THERE = ("KernelStack", "PageTables", "SecPageTables", "Percpu", "VmallocUsed", "Zswap", "Hugetlb")
_ANONYMOUS = ("Active_anon", "Inactive_anon", "AnonPages", "Shmem")


def memory_shares(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """Shares of available, reserved, unmapped and unlisted memory, each from the last row that tells it; of unmapped
    memory the less of the last two rows.

    top and free print a part of /proc/meminfo: what they leave out stands in an earlier row all the same.
    """
    rows = (_last_memory_row(samples, *names) for names in ((), ("MemAvailable",), _AVAILABLE[:2]))
    for last in rows:
        if last is not None and (available := _available_bytes(values := _short_names(last))) is not None:
            used = ("MemAvailable",) if "MemAvailable" in values else (*_AVAILABLE, "Shmem")
            off = sum(last.resolution.get(f"node_memory_{name}_bytes", 0.0) for name in used) / values["MemTotal"]
            labels = ((ERROR_LABEL, f"{min(off, 1.0):.4f}"),) if off else ()
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
            # A large unmap takes pages out of one count after the other: what is in between is gone a moment later.
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
    """The last row that has these figures of /proc/meminfo and all memory, of which they are a share."""
    last = last_row_having(samples, *_metrics(*names))
    return last if last is not None and last.values["node_memory_MemTotal_bytes"] > 0 else None


def _row_before(samples: Sequence[Sample | Series], last: Sample, *names: str) -> Sample | None:
    """The row before the last one in its member, if that was a moment earlier."""
    of_member = [one for one in samples if one.cite.member == last.cite.member and one.cite.line != last.cite.line]
    before = last_row_having(of_member, *_metrics(*names)) if of_member else None
    if before is None or before.time is None or last.time is None or before.time.clock is not last.time.clock:
        return None
    return before if 0 < last.time.seconds - before.time.seconds <= MAX_MOMENT_SECONDS else None


def _short_names(row: Sample) -> dict[str, float]:
    return {name.removeprefix("node_memory_").removesuffix("_bytes"): value for name, value in row.values.items()}


def _available_bytes(values: Mapping[str, float]) -> float | None:
    if "MemAvailable" in values or "MemFree" not in values or "Cached" not in values:
        return values.get("MemAvailable")
    return sum(values.get(part, 0.0) for part in _AVAILABLE) - values.get("Shmem", 0.0)


def _reserved_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Of all reserved huge pages (`Hugetlb` counts all sizes, from 4.19), and of those nobody may want."""
    reserved, free, promised, size = (values[name] for name in _RESERVED)
    yield "hugetlb", max(values.get("Hugetlb", 0.0), reserved * size)
    yield "hugetlb_unused", max(free - promised, 0.0) * size


def _all_reserved_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Of all reserved huge pages, where nothing shows how many of them are free."""
    yield "hugetlb", values["Hugetlb"]


def _unmapped_bytes(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Of anonymous pages that nobody maps."""
    active, inactive, anon, shmem = (values[name] for name in _ANONYMOUS)
    yield "anon_unmapped", max(active + inactive - (anon + shmem + values.get("SwapCached", 0.0)), 0.0)


def partially_mapped_share(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """memory.partially_mapped_ratio from the counts of huge pages by size (6.12), as a share of all memory."""
    last: dict[str, Sample] = {}
    for sample in samples:
        if sample.kind == "thp_size" and not isinstance(sample, Series) and _PARTIALLY_MAPPED in sample.values:
            last[dict(sample.entity).get("size", "")] = sample
    held = {
        size: row.values[_PARTIALLY_MAPPED] * float(kilobytes) * 1024
        for size, row in last.items()
        if (kilobytes := size.removesuffix("kB")).isdigit()
    }
    memory = last_row_having(samples, "node_memory_MemTotal_bytes") if held else None
    if memory and (total := memory.values["node_memory_MemTotal_bytes"]) > 0:
        largest = max(held, key=lambda size: held[size])
        yield Fact("memory.partially_mapped_ratio", sum(held.values()) / total, last[largest].cite)


def java_shares(facts: Iterable[Fact], samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """java.uncommitted_ratio: resident memory beyond what a Java virtual machine has committed, as a share of that.

    Not with ZGC, which maps its heap several times.
    """
    known = list(facts)
    texts = (str(f.value) for f in known if f.name == "process.command")
    options = (f.label("option") for f in known if f.name == "java.option" and f.value == "true")
    if any("+UseZGC" in text for text in texts) or "UseZGC" in options:
        return
    for fact in known:
        of_all = fact.name == "java.memory" and (fact.label("part"), fact.label("kind")) == ("total", "committed")
        if not of_all or not (pid := fact.label("pid")) or not float(fact.value):
            continue
        own = [one for one in samples if one.kind == "process" and dict(one.entity).get("pid") == pid]
        if row := last_row_having(own, "process_resident_memory_bytes"):
            beyond = row.values["process_resident_memory_bytes"] / float(fact.value) - 1
            yield Fact("java.uncommitted_ratio", round(max(beyond, 0.0), 6), row.cite, (("pid", pid),), row.time)


def min_free_share(facts: Iterable[Fact], samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """memory.min_free_ratio: vm.min_free_kbytes as a share of all memory."""
    reserves = (f for f in facts if f.name == "sysctl.vm.min_free_kbytes" and isinstance(f.value, int))
    reserve = min(reserves, key=lambda fact: fact.provenance != "", default=None)  # what runs before what a file says
    memory = last_row_having(samples, "node_memory_MemTotal_bytes") if reserve else None
    if reserve and memory and (total := memory.values["node_memory_MemTotal_bytes"]) > 0:
        ratio = int(reserve.value) * 1024 / total
        yield Fact("memory.min_free_ratio", ratio, reserve.cite, provenance=reserve.provenance)


def free_blocks(sample: Sample) -> dict[int, float]:
    """Free blocks by order of a zone's sample."""
    return {int(m[1]): v for name, v in sample.values.items() if (m := _ORDER.fullmatch(name))}


def zone_facts(samples: Sequence[Sample | Series]) -> Iterator[Fact]:
    """memory.order9_free_blocks, unusable_index and mixed_blocks_ratio of each zone, numa_free_ratio of each node."""
    zones = _rows_by_entity(samples, "zone")
    yield from _free_of_nodes(_rows_by_entity(samples, "node"), zones)
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
    for given in samples:
        if given.kind == kind:
            rows.setdefault(given.entity, []).append(given)
    return rows


def _mixed_blocks(zone: Entity, rows: Sequence[Sample | Series]) -> Iterator[Fact]:
    names = ("node_pagetypeinfo_mixed_blocks_Movable", "node_pagetypeinfo_blocks_Movable")
    if (row := last_row_having(rows, *names)) is not None and row.values[names[1]] >= MIN_MOVABLE_BLOCKS:
        yield Fact("memory.mixed_blocks_ratio", row.values[names[0]] / row.values[names[1]], row.cite, zone, row.time)


def _free_of_nodes(
    nodes: Mapping[Entity, Sequence[Sample | Series]], zones: Mapping[Entity, Sequence[Sample | Series]]
) -> Iterator[Fact]:
    """memory.numa_free_ratio of each node where there are several."""
    names = ("node_memory_numa_MemFree_bytes", "node_memory_numa_MemTotal_bytes")
    found: dict[str, tuple[float, float, Sample]] = {}  # free, all, place
    for entity, rows in nodes.items():
        row = last_row_having(rows, *names)
        if row is not None and row.values[names[1]] >= MIN_NODE_BYTES:
            found[dict(entity).get("node", "")] = (row.values[names[0]], row.values[names[1]], row)
    if not found:
        found = {node: sums for node, sums in _sums_of_zones(zones).items() if sums[1] >= MIN_NODE_PAGES}
    if len(found) > 1:
        for node, (free, size, row) in found.items():
            yield Fact("memory.numa_free_ratio", free / size, row.cite, (("node", node),), row.time)


def _sums_of_zones(zones: Mapping[Entity, Sequence[Sample | Series]]) -> dict[str, tuple[float, float, Sample]]:
    """Free and all pages of each node, cited at its last zone."""
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
    """Of memory that is in use by nothing that the kernel lists; sizes that older kernels do not print are small."""
    reserved = 0.0 if "Hugetlb" in values else values["HugePages_Total"] * values["Hugepagesize"]
    listed = sum(values[name] for name in _LISTED) + sum(values.get(name, 0.0) for name in _LISTED_IF_THERE)
    yield "unlisted", max(values["MemTotal"] - listed - reserved, 0.0)


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
