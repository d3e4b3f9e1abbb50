"""Figures and their changes in words."""

from __future__ import annotations

from collections.abc import Iterable

from thpdiag.compare.change import Change
from thpdiag.compare.figures import SHARE
from thpdiag.reports.quantity import quantity

MOST = 3  # changes in one sentence
_NAMES = {
    "cpu_ratio.sys_share": "kernel share of busy CPU time",
    "cpu_ratio.sys_total": "CPU time in the kernel",
    "cpu_ratio.sys_total_steal": "CPU time in the kernel or stolen",
    "cpu_ratio.user_total": "CPU time of programs",
    "cpu_ratio.busy": "busy CPU time",
    "cpu_ratio.softirq": "CPU time in soft interrupts",
    "cpu_ratio.iowait": "CPU time waiting for I/O",
    "cpu_ratio.steal": "CPU time stolen by the hypervisor",
    "node_vmstat_pgalloc_normal": "memory pages handed out",
    "node_vmstat_pgfault": "page faults",
    "node_allocstall_total": "direct reclaim (allocstall)",
    "node_memory_AnonHugePages_bytes": "memory in huge pages (AnonHugePages)",
    "node_memory_MemFree_bytes": "free memory (MemFree)",
    "node_memory_MemTotal_bytes": "memory (MemTotal)",
}
_FAMILIES = {
    "direct_compact": "direct compaction", "compaction": "memory compaction", "spin_lock": "spin locks",
    "thp_fault": "huge-page faults", "zeroing": "clearing of pages", "migrate": "page migration",
    "reclaim": "memory reclaim", "tlb_flush": "TLB flushes", "page_fault": "page faults",
    "base_page_fault": "faults of small pages", "fork_cow": "fork and copy on write",
}  # fmt: skip


def named(name: str) -> str:
    """A figure as people call it."""
    if name.startswith(SHARE):
        family = name.removeprefix(SHARE)
        return f"share of samples in {_FAMILIES.get(family, family.replace('_', ' '))}"
    base = name.removesuffix(":rate")
    return _NAMES.get(base, base.removeprefix("node_vmstat_"))


def told(changes: Iterable[Change]) -> str:
    """The changes that matter most, those that moved first: `compact_stall 890/s to 0/s`."""
    ordered = sorted(changes, key=lambda one: one.direction not in ("up", "down"))
    return ", ".join(said(one) for one in ordered[:MOST])


def said(one: Change) -> str:
    before, after = (quantity(figure.value, figure.unit) for figure in (one.before, one.after))
    less = " (less for the same work)" if one.direction == "down" != one.alone else ""
    return f"{named(one.before.name)} {before} to {after}{less}"
