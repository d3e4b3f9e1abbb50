"""Metric names and facts as people say them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from thpdiag.derive.totals import ALLOCSTALLS, SHARES, SUMS
from thpdiag.knowledge.vocabulary import term

_OWN = re.compile(r"node_(?:vmstat_(?P<counter>\w+)|memory_(?P<size>\w+)_bytes)")  # names of /proc/vmstat and meminfo
_SPELLED: Mapping[str, tuple[str, ...]] = {  # in status, smaps, stat, vmstat, meminfo, memory.stat; the head of top
    "process_resident_memory_bytes": ("VmRSS", "Rss"),
    "process_virtual_memory_bytes": ("VmSize",),
    "process_anon_huge_bytes": ("AnonHugePages",),
    "process_lazy_free_bytes": ("LazyFree",),
    "process_locked_bytes": ("VmLck",),
    "node_forks_total": ("processes",),
    "node_procs_blocked": ("procs_blocked",),
    "swap_in_bytes:rate": ("pswpin",),
    "swap_out_bytes:rate": ("pswpout",),
    "cgroup_memory_anon_bytes": ("anon", "total_rss", "rss"),
    "cgroup_memory_anon_thp_bytes": ("anon_thp", "total_rss_huge", "rss_huge"),
    "cgroup_memory_max_events_total": ("max",),
    "cgroup_memory_high_events_total": ("high",),
    "memory.available_ratio": ("MemTotal", "MemAvailable", "Mem", "Swap"),
    "memory.hugetlb_ratio": ("MemTotal", "HugePages_Total", "Hugepagesize", "Hugetlb"),
    "memory.hugetlb_unused_ratio": ("MemTotal", "HugePages_Free", "HugePages_Rsvd", "Hugepagesize"),
    "memory.anon_unmapped_ratio": ("MemTotal", "Active(anon)", "Inactive(anon)", "AnonPages", "Shmem", "SwapCached"),
    "node_allocstall_total": ALLOCSTALLS,
}
_ASIDE = re.compile(r" \((?:labels?|fields|yes, no|total since boot)\b[^()]*(?:\([^()]*\)[^()]*)*\)")


def spelled(names: Sequence[str], entity: str = "") -> str:
    """Metrics for people: what the vocabulary says of them; what /proc/vmstat and meminfo name, by its name there."""
    told = " + ".join(map(_called, names)).replace("of the process", f"of {entity}" if entity else "of the process")
    return f"{told} of {entity}" if entity and entity not in told else told


@lru_cache(4096)
def _called(name: str) -> str:
    if own := _OWN.fullmatch(name):
        return own["counter"] or own["size"]
    if order := re.fullmatch(r"node_buddyinfo_blocks_order(\d+)", name):
        return f"free blocks of order {order[1]}"
    return meaning(name)


def raw(name: str) -> tuple[str, ...]:
    """How files of the kernel name a metric, or the parts of a sum or share; nothing where they do not."""
    if own := _OWN.fullmatch(name):
        return (own["counter"] or own["size"],)
    if name.startswith("cpu_ratio."):
        return ("Cpu(s)",)
    parts = SUMS.get(name) or SHARES.get(name) or ()
    return _SPELLED.get(name) or tuple(spelling for part in parts for spelling in raw(part))


def meaning(name: str) -> str:
    """What the vocabulary says of a name, without what only rules need to know."""
    known = term(name)
    return _ASIDE.sub("", known.means) if known else name


def fact_text(name: str, labels: str, value: str) -> str:
    """A fact as a sentence: settings as the kernel names them, other facts by what they mean."""
    if name == "setting.contradiction":
        return value
    if name == "boot.transparent_hugepage":
        return f"the boot line has transparent_hugepage={value}"
    if _is_setting(name):
        return f"{fact_name(name)}{' of ' + labels if labels else ''} is {value}"
    return f"{fact_name(name).removeprefix('whether ')}{', ' + labels if labels else ''}: {value}"


def fact_name(name: str) -> str:
    """A setting as the kernel names it, any other fact by what it means."""
    if _is_setting(name):
        return name.removeprefix("sysctl.").replace("thp.khugepaged.", "thp.khugepaged/")
    return meaning(name)


def _is_setting(name: str) -> bool:
    known = term(name)
    return name.startswith(("thp.", "sysctl.")) and known is not None and known.kind == "setting"
