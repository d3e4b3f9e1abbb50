"""Metrics that are sums of others, added to the rows they belong to; CPU shares and swap rates from counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from thpdiag.derive.catalogue import tables, track
from thpdiag.derive.rates import rates
from thpdiag.derive.series import Table, having
from thpdiag.model import Fact, Sample, Series

SUMS: Mapping[str, tuple[str, ...]] = {
    "process_faults_total": ("process_minor_faults_total", "process_major_faults_total"),
    "node_thp_faults_total": ("node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback"),
}
ALLOCSTALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall")
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NEEDED = tuple(f"node_cpu_seconds_total.{mode}" for mode in MODES[:4])
PAGE = 4096.0  # pswpin and pswpout count base pages; the page size of other architectures is not in these files


def with_sums(sample: Sample | Series) -> Sample | Series:
    """The row, or rows, with sums added where all parts are there."""
    if isinstance(sample, Series):
        return _columns_with_sums(sample)
    added = {
        name: sum(sample.values[p] for p in parts)
        for name, parts in SUMS.items()
        if name not in sample.values and all(p in sample.values for p in parts)
    }
    stalls = [sample.values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in sample.values]
    if stalls:
        added["node_allocstall_total"] = sum(stalls)
    return replace(sample, values={**sample.values, **added}) if added else sample


def _columns_with_sums(series: Series) -> Series:
    """The same for columns; where a part is missing in a row (NaN), so is the sum."""
    added = {
        name: sum((series.values[part] for part in parts[1:]), series.values[parts[0]])
        for name, parts in SUMS.items()
        if name not in series.values and all(part in series.values for part in parts)
    }
    stalls = [series.values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in series.values]
    if stalls:
        added["node_allocstall_total"] = sum(stalls[1:], stalls[0])
    return series.with_values({**series.values, **added}) if added else series


def rates_of_counters(samples: Iterable[Sample | Series]) -> Iterator[Sample]:
    """CPU shares from /proc/stat and swap rates from /proc/vmstat, one row per interval."""
    for table in tables(samples):
        if table.kind == "system" and len(table.samples) > 1:
            yield from _cpu(table)
            yield from _swap(table)


def _cpu(table: Table) -> Iterator[Sample]:
    if not table.metrics >= set(NEEDED):
        return
    rows = [s for s in table.samples if all(name in s.values for name in NEEDED)]
    for before, after in pairwise(rows):
        delta = {m: _delta(before, after, m) for m in MODES}
        total = sum(delta.values())
        if total <= 0 or min(delta.values()) < 0:
            continue
        kernel = delta["system"] + delta["irq"] + delta["softirq"]
        user = delta["user"] + delta["nice"]
        values = {
            "cpu_ratio.user_total": user / total,
            "cpu_ratio.sys_total": kernel / total,
            "cpu_ratio.idle": delta["idle"] / total,
            "cpu_ratio.busy": (user + kernel) / total,
        }
        for mode in ("iowait", "softirq", "steal"):
            if f"node_cpu_seconds_total.{mode}" in after.values:
                values[f"cpu_ratio.{mode}"] = delta[mode] / total
        if user + kernel > 0:
            values["cpu_ratio.sys_share"] = kernel / (user + kernel)
        yield Sample("system", values, after.cite, f"{table.reader} (rates)", time=after.time)


def _delta(before: Sample, after: Sample, mode: str) -> float:
    name = f"node_cpu_seconds_total.{mode}"
    return after.values.get(name, 0.0) - before.values.get(name, 0.0)


def _swap(table: Table) -> Iterator[Sample]:
    for counter, name in (("node_vmstat_pswpin", "swap_in_bytes:rate"), ("node_vmstat_pswpout", "swap_out_bytes:rate")):
        found = track(table, counter)
        points = rates(found) if found else None
        if points is None:
            continue
        for value, sample in zip(points.values * PAGE, points.samples, strict=True):
            yield Sample("system", {name: float(value)}, sample.cite, f"{table.reader} ({name})", time=sample.time)


def available(samples: Iterable[Sample | Series]) -> Iterator[Fact]:
    """memory.available_ratio from the last /proc/meminfo.

    MemAvailable, or free + cached + reclaimable before it existed.
    """
    last = None
    for sample in having(samples, "node_memory_MemTotal_bytes"):
        last = sample
    if last is None or last.values["node_memory_MemTotal_bytes"] <= 0:
        return
    values, parts = last.values, ("MemFree", "Cached", "Buffers", "SReclaimable")
    have = values.get("node_memory_MemAvailable_bytes")
    if have is None and "node_memory_MemFree_bytes" in values and "node_memory_Cached_bytes" in values:
        have = sum(values.get(f"node_memory_{p}_bytes", 0.0) for p in parts) - values.get(
            "node_memory_Shmem_bytes", 0.0
        )
    if have is not None:
        yield Fact(
            "memory.available_ratio", round(have / values["node_memory_MemTotal_bytes"], 4), last.cite, time=last.time
        )
