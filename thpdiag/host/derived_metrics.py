"""Metrics computed from others: sums and shares of a row, CPU shares and swap rates from counters.

CPU shares come from the counters of /proc/stat, one row per interval, as other tools print them. An interval in which a
counter fell (a reset) or none moved says nothing. Modes that a kernel does not have count as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from thpdiag.host.catalogue import make_tables, make_track
from thpdiag.host.memory import DEFAULT_HUGE_PAGE_BYTES
from thpdiag.host.rates import rates
from thpdiag.host.series import Samples, Table, Track, find_gaps, select_rows
from thpdiag.model import Sample, Series
from thpdiag.model.numeric import Array, np

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
ALLOCSTALLS = ("allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable", "allocstall")
CGROUP_ANON = ("active_anon", "inactive_anon", "anon", "shmem")  # the lists of anonymous pages, and what is mapped
MIN_LISTED_BYTES = 256.0 * 2**20  # bytes; of a smaller control group nobody asks where they went
PAGE_BYTES = 4096.0  # pswpin and pswpout count base pages; the page size of other architectures is not in these files
SWAP_RATES = {"node_vmstat_pswpin": "swap_in_bytes:rate", "node_vmstat_pswpout": "swap_out_bytes:rate"}
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NEEDED_COUNTERS = tuple(f"node_cpu_seconds_total.{mode}" for mode in CPU_MODES[:4])
OPTIONAL_MODES = ("iowait", "softirq", "steal")  # where the source has them


def with_sums(sample: Sample | Series, huge_page: float = DEFAULT_HUGE_PAGE_BYTES) -> Sample | Series:
    """The row, or rows, with sums and shares added where all parts are there.

    process_fault_bytes_total is the most that the faults can have brought: one huge page each.
    """
    values: Mapping[str, Any] = sample.values
    added = {
        name: sum(values[part] for part in parts)
        for name, parts in SUMS.items()
        if name not in values and all(part in values for part in parts)
    }
    if stalls := [values[n] for s in ALLOCSTALLS if (n := f"node_vmstat_{s}") in values]:
        added["node_allocstall_total"] = sum(stalls)
    if (faults := added.get("process_faults_total", values.get("process_faults_total"))) is not None:
        added["process_fault_bytes_total"] = faults * huge_page
    for name, (part, whole) in SHARES.items():
        if part in values and whole in values and (share := _share(values[part], values[whole])) is not None:
            added[name] = share
    if isinstance(sample, Series):
        return sample.with_values({**values, **added}) if added else sample
    if sample.kind == "cgroup" and all(f"cgroup_memory_{name}_bytes" in values for name in CGROUP_ANON):
        *listed, anon, shmem = (values[f"cgroup_memory_{name}_bytes"] for name in CGROUP_ANON)
        mapped = anon + shmem + values.get("cgroup_memory_swapcached_bytes", 0.0)
        if (total := sum(listed)) >= MIN_LISTED_BYTES:
            added["cgroup_memory_unmapped_share"] = max(total - mapped, 0.0) / total
    return replace(sample, values={**values, **added}) if added else sample


def _share(part: Any, whole: Any) -> Any:
    """A share, or one per row; None, or NaN in a row, where there is no whole."""
    if isinstance(whole, float | int):
        return part / whole if whole > 0 else None
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def rates_of_counters(samples: Iterable[Sample | Series]) -> Iterator[Sample | Series]:
    """CPU shares from /proc/stat and swap rates from /proc/vmstat, a row per interval."""
    for table in make_tables(sample for sample in samples if sample.kind == "system"):
        if len(table.samples) < 2:
            continue
        if table.metrics >= set(NEEDED_COUNTERS):
            yield from _cpu_shares(table)
        for counter, name in SWAP_RATES.items():
            if counter in table.metrics and (track := make_track(table, counter)) and (points := rates(track)):
                yield from _as_rows(points.samples, {name: points.values * PAGE_BYTES}, f"{table.reader} ({name})")


def _cpu_shares(table: Table) -> Iterator[Sample | Series]:
    """The shares of CPU time between the rows of a table that have all needed counters."""
    rows = Track(NEEDED_COUNTERS[0], table, table.samples)
    known = np.logical_and.reduce([(column := rows.column_of(name)) == column for name in NEEDED_COUNTERS])
    if known.sum() < 2:
        return
    rows = Track(NEEDED_COUNTERS[0], table, select_rows(table.samples, known))
    counters = {mode: rows.column_of(f"node_cpu_seconds_total.{mode}") for mode in CPU_MODES}
    grown = {mode: np.diff(np.nan_to_num(column, nan=0.0)) for mode, column in counters.items()}
    total = sum(grown.values(), np.zeros(len(rows) - 1))
    good = (total > 0) & (np.minimum.reduce(list(grown.values())) >= 0)
    if rows.seconds is not None:
        good &= ~find_gaps(rows.seconds)
    if not good.any():
        return
    grown, total = {mode: column[good] for mode, column in grown.items()}, total[good]
    kernel, user = grown["system"] + grown["irq"] + grown["softirq"], grown["user"] + grown["nice"]
    busy = user + kernel
    values = {
        "cpu_ratio.user_total": user / total,
        "cpu_ratio.sys_total": kernel / total,
        "cpu_ratio.idle": grown["idle"] / total,
        "cpu_ratio.busy": busy / total,
        "cpu_ratio.sys_share": np.divide(kernel, busy, out=np.full(len(busy), np.nan), where=busy > 0),
    }
    for mode in OPTIONAL_MODES:
        present = counters[mode][1:][good]
        if (present == present).any():
            values[f"cpu_ratio.{mode}"] = np.where(present == present, grown[mode] / total, np.nan)
    yield from _as_rows(select_rows(rows.samples, np.concatenate(([False], good))), values, f"{table.reader} (rates)")


def _as_rows(
    samples: Samples, columns: Mapping[str, Array[np.floating[Any]]], reader: str
) -> Iterator[Sample | Series]:
    """Rows of the host with these values at the places and times of others: a Series of a Series, else samples."""
    if isinstance(samples, Series):
        values = {name: column.astype(float) for name, column in columns.items()}
        yield replace(samples, values=values, reader=reader, resolution={}, since_boot=None)
        return
    for at, sample in enumerate(samples):
        row = {name: float(column[at]) for name, column in columns.items() if column[at] == column[at]}
        yield Sample("system", row, sample.cite, reader, time=sample.time)
