"""Which figures are a mechanism's own: what it counts or where its call stacks are, the surest first.

Kernel time is none of them: it may stay high after a fix (small faults and clearing fill the CPUs), and falls with the
load. A mechanism that stands here is called mended or better only if a figure of its own says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.compare.change import Change, change
from thpdiag.compare.figures import SHARE, UNUSABLE, Figure

_STALL, _FAIL = "node_vmstat_compact_stall", "node_vmstat_compact_fail"
_COMPACTING = (SHARE + "direct_compact", SHARE + "compaction")
_ALLOCATED, FALLBACK = "node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback"
_COLLAPSED, _HUGE = "node_vmstat_thp_collapse_alloc", "node_memory_AnonHugePages_bytes"
OWN: Mapping[str, tuple[str, ...]] = {
    "compaction-lock-convoy": (_STALL, *_COMPACTING, SHARE + "spin_lock"),
    "compaction-tlb-shootdown": (_STALL, *_COMPACTING, SHARE + "migrate"),
    "fault-compaction": (_STALL, *_COMPACTING),
    "allocation-knee": (_STALL, *_COMPACTING),
    "madvise-region-stalls": (_STALL, *_COMPACTING),
    "sync-compaction-writeback": (_STALL, *_COMPACTING),
    "compaction-lockup": (_STALL, *_COMPACTING),
    "operator-compaction": (SHARE + "compaction",),
    "thp-direct-reclaim": ("node_allocstall_total", SHARE + "reclaim"),
    "khugepaged-bloat": (_COLLAPSED, _HUGE),
    "khugepaged-cpu": (SHARE + "khugepaged", _COLLAPSED),
    "huge-page-zeroing": (_ALLOCATED, SHARE + "thp_fault", SHARE + "zeroing"),
    "first-touch-bloat": (_ALLOCATED, _HUGE),
    "fork-cow": (SHARE + "fork_cow",),
    "split-storm": (SHARE + "split",),
    "background-compaction": (SHARE + "kcompactd",),
    "kswapd-high-order": (SHARE + "kswapd",),
    "memory-pressure": ("node_allocstall_total",),
    "network-softirq": ("cpu_ratio.softirq", SHARE + "softirq_net"),
    "io-wait": ("cpu_ratio.iowait",),
    "steal-or-balloon": ("cpu_ratio.steal",),
    "plain-syscall-load": (SHARE + "syscall",),
}
# Several rules are about fragmentation, each by a figure of its own; their evidence says which.
FRAGMENTATION = {"cannot serve a huge page": UNUSABLE, "compact_fail": _FAIL, "thp_fault_fallback": FALLBACK}
# Mechanisms that the counters of a whole host can rule out: the all-clear "nothing found" speaks of each of these.
CORE = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "allocation-knee", "thp-direct-reclaim",
    "khugepaged-bloat", "huge-page-zeroing",
)  # fmt: skip
# Those that take CPU time, so that switching huge pages off and on under one load tells.
IN_CPU_TIME = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "thp-direct-reclaim", "huge-page-zeroing",
)  # fmt: skip
# Those that a reboot ends for a while, since it makes free memory whole and lets every process begin anew.
ENDED_BY_BOOT = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "allocation-knee", "thp-direct-reclaim",
    "fragmentation", "madvise-region-stalls", "sync-compaction-writeback", "compaction-lockup", "background-compaction",
    "kswapd-high-order", "khugepaged-bloat", "first-touch-bloat", "memory-leak", "slab-growth", "memory-pressure",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one document, and what a share of stacks is that its recordings do not show."""

    figures: Mapping[str, Figure]
    unseen: Figure | None

    def get(self, name: str) -> Figure | None:
        found = self.figures.get(name)
        if found is None and name.startswith(SHARE) and self.unseen is not None:
            return Figure(
                name, 0.0, "ratio", self.unseen.samples, None, None, self.unseen.deviation,
                self.unseen.member, self.unseen.line,
            )  # fmt: skip
        return found


def names(finding: Mapping[str, Any]) -> tuple[str, ...]:
    """The figures of what a finding is about."""
    if finding["mechanism"] != "fragmentation":
        return OWN.get(finding["mechanism"] or "", ())
    told = " ".join(evidence["text"] or "" for evidence in finding["evidence"])
    return tuple(name for words, name in FRAGMENTATION.items() if words in told)[:1]


def own(finding: Mapping[str, Any], before: Side, after: Side, work: float | None) -> list[Change]:
    """The changes of a finding's own figures that both sides have."""
    found = []
    for name in names(finding):
        old, new = before.get(name), after.get(name)
        shown = name in before.figures or name in after.figures
        if old is not None and new is not None and shown:
            found.append(change(old, new, work))
    return found


def shares(one: Change) -> bool:
    """Whether it is a share of call stacks, which has other parts where less is done."""
    return one.before.name.startswith(SHARE)


def direction(changes: Sequence[Change]) -> str:
    """Where they went together: up, down, same (also what is only noise), apart, or none at all."""
    moved = {one.direction for one in changes} & {"up", "down"}
    if len(moved) == 2:
        return "apart"
    if moved:
        return moved.pop()
    return "same" if changes else "none"
