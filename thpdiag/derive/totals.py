"""Metrics that are sums or shares of others, added to their rows; CPU shares and swap rates from counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from thpdiag.derive.catalogue import tables, track
from thpdiag.derive.cpu_shares import as_rows, cpu_shares
from thpdiag.derive.huge_page_size import USUAL
from thpdiag.derive.rates import rates
from thpdiag.derive.series import Table, last_having
from thpdiag.model import Fact, Sample, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUMS: Mapping[str, tuple[str, ...]] = {
    "process_faults_total": ("process_minor_faults_total", "process_major_faults_total"),
    "process_cpu_seconds_total": ("process_cpu_seconds_total.user", "process_cpu_seconds_total.system"),
    "node_thp_faults_total": ("node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback"),
}
SHARES: Mapping[str, tuple[str, str]] = {  # of the first in the second
    "process_resident_share": ("process_resident_memory_bytes", "process_virtual_memory_bytes"),
    "process_anon_huge_share": ("process_anon_huge_bytes", "process_resident_memory_bytes"),
    "process_lazy_free_share": ("process_lazy_free_bytes", "process_resident_memory_bytes"),
    "process_locked_share": ("process_locked_bytes", "process_resident_memory_bytes"),
    "node_memory_MemFree_share": ("node_memory_MemFree_bytes", "node_memory_MemTotal_bytes"),
    "node_memory_SUnreclaim_share": ("node_memory_SUnreclaim_bytes", "node_memory_MemTotal_bytes"),
    "cgroup_memory_anon_thp_share": ("cgroup_memory_anon_thp_bytes", "cgroup_memory_anon_bytes"),
}
ON_LISTS = ("cgroup_memory_active_anon_bytes", "cgroup_memory_inactive_anon_bytes")
MAPPED = ("cgroup_memory_anon_bytes", "cgroup_memory_shmem_bytes")
LEAST_LISTED = 256.0 * 2**20  # bytes; of a smaller control group nobody asks where they went
ALLOCSTALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall")
WITHIN = "within"  # label of a fact: by how much it may be wrong, for its source rounded
PAGE = 4096.0  # pswpin and pswpout count base pages; the page size of other architectures is not in these files


def with_sums(sample: Sample | Series, huge_page: float = USUAL) -> Sample | Series:
    """The row, or rows, with sums and shares added where all parts are there.

    process_fault_bytes_total is the most that the faults can have brought: one huge page each.
    """
    if isinstance(sample, Series):
        return _columns_with_sums(sample, huge_page)
    added = {
        name: sum(sample.values[p] for p in parts)
        for name, parts in SUMS.items()
        if name not in sample.values and all(p in sample.values for p in parts)
    }
    stalls = [sample.values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in sample.values]
    if stalls:
        added["node_allocstall_total"] = sum(stalls)
    faults = added.get("process_faults_total", sample.values.get("process_faults_total"))
    if faults is not None:
        added["process_fault_bytes_total"] = faults * huge_page
    for name, (part, whole) in SHARES.items():
        if part in sample.values and sample.values.get(whole, 0.0) > 0:
            added[name] = sample.values[part] / sample.values[whole]
    if sample.kind == "cgroup" and all(name in sample.values for name in (*ON_LISTS, *MAPPED)):
        listed = sum(sample.values[name] for name in ON_LISTS)
        mapped = sum(sample.values.get(name, 0.0) for name in (*MAPPED, "cgroup_memory_swapcached_bytes"))
        if listed >= LEAST_LISTED:
            added["cgroup_memory_unmapped_share"] = max(listed - mapped, 0.0) / listed
    return replace(sample, values={**sample.values, **added}) if added else sample


def _columns_with_sums(series: Series, huge_page: float) -> Series:
    """The same for columns; where a part is missing in a row (NaN), so is the sum."""
    added = {
        name: sum((series.values[part] for part in parts[1:]), series.values[parts[0]])
        for name, parts in SUMS.items()
        if name not in series.values and all(part in series.values for part in parts)
    }
    stalls = [series.values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in series.values]
    if stalls:
        added["node_allocstall_total"] = sum(stalls[1:], stalls[0])
    faults = added.get("process_faults_total", series.values.get("process_faults_total"))
    if faults is not None:
        added["process_fault_bytes_total"] = faults * huge_page
    for name, (part, whole) in SHARES.items():
        if part in series.values and whole in series.values:
            added[name] = _share(series.values[part], series.values[whole])
    return series.with_values({**series.values, **added}) if added else series


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row; nothing where there is no whole."""
    import numpy as np

    shares = np.full(len(whole), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def rates_of_counters(samples: Iterable[Sample | Series]) -> Iterator[Sample | Series]:
    """CPU shares from /proc/stat and swap rates from /proc/vmstat, a row per interval."""
    for table in tables(samples):
        if table.kind == "system" and len(table.samples) > 1:
            yield from cpu_shares(table)
            yield from _swap(table)


def _swap(table: Table) -> Iterator[Sample | Series]:
    for counter, name in (("node_vmstat_pswpin", "swap_in_bytes:rate"), ("node_vmstat_pswpout", "swap_out_bytes:rate")):
        found = track(table, counter)
        points = rates(found) if found else None
        if points is not None:
            yield from as_rows(points.samples, {name: points.values * PAGE}, f"{table.reader} ({name})")


def available(samples: Iterable[Sample | Series]) -> Iterator[Fact]:
    """memory.available_ratio from the last /proc/meminfo.

    MemAvailable, or free + cached + reclaimable before it existed.
    """
    last = last_having(samples, "node_memory_MemTotal_bytes")
    if last is None or last.values["node_memory_MemTotal_bytes"] <= 0:
        return
    values, parts = last.values, ("MemFree", "Cached", "Buffers", "SReclaimable")
    have = values.get("node_memory_MemAvailable_bytes")
    if have is None and "node_memory_MemFree_bytes" in values and "node_memory_Cached_bytes" in values:
        have = sum(values.get(f"node_memory_{p}_bytes", 0.0) for p in parts) - values.get(
            "node_memory_Shmem_bytes", 0.0
        )
    if have is not None:
        total = values["node_memory_MemTotal_bytes"]
        used = ("MemAvailable",) if "node_memory_MemAvailable_bytes" in values else (*parts, "Shmem")
        off = sum(last.resolution.get(f"node_memory_{name}_bytes", 0.0) for name in used)
        labels = ((WITHIN, f"{min(off / total, 1.0):.4f}"),) if off else ()
        yield Fact("memory.available_ratio", round(have / total, 4), last.cite, labels, last.time)
