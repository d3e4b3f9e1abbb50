"""Whether AFTER did the work that BEFORE did. Without that nothing can be called mended.

Pages handed out are the best measure that the kernel has: they count the same with and without huge pages, and stand
still when the workload does. Page faults come second (huge pages make fewer of them). The CPU time of programs comes
last, since any program fills it; the kernel's own time is no load at all, as it is what a fix takes away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thpdiag.compare.change import Change, change
from thpdiag.compare.figures import Figure
from thpdiag.reports.quantity import quantity

Figures = Mapping[str, Figure]

PAGES_OF_HUGE = 512  # on the machines where huge pages hurt most
LESS, MORE = 0.5, 2.0  # times the work: in between it is the same
NAMES = {
    "node_vmstat_pgalloc_normal": "memory pages handed out",
    "node_vmstat_pgfault": "page faults",
    "node_vmstat_pgfault:rate": "page faults",
    "cpu_ratio.user_total": "CPU time of programs",
}
_IDLE_FAULTS = 100.0  # a second; of fewer no program lives
_IDLE = {"cpu_ratio.user_total": 0.05}  # below this nothing ran on either side


@dataclass(frozen=True, slots=True)
class Load:
    """`word` is same, more, less or unknown; `work` how many times the work was done, where the measure is one of work.

    `weak`: by a measure that other programs may fill, so that nothing can be called fixed by it.
    """

    word: str
    text: str
    by: Change | None = None
    work: float | None = None
    weak: str = ""

    @property
    def comparable(self) -> bool:
        return self.word in ("same", "more")


def load(before: Figures, after: Figures) -> Load:
    """By the best measure that both sides have."""
    name = next((name for name in NAMES if name in before and name in after), None)
    if name is None:
        return Load("unknown", "nothing that both sides have tells how much work was done")
    measured = change(before[name], after[name])
    old, new = before[name].value, after[name].value
    told = f"{NAMES[name]} {quantity(old, before[name].unit)} before, {quantity(new, after[name].unit)} after"
    if old <= _IDLE.get(name, 1.0) and new <= _IDLE.get(name, 1.0):
        return Load("unknown", f"hardly any work was done on either side ({told})", measured)
    ratio = new / old if old > 0 else float("inf")
    word = "less" if ratio < LESS else "more" if ratio > MORE else "same"
    weak = "of which programs is not known" if name.startswith("cpu_ratio") else ""
    work = ratio if not weak and 0 < ratio < float("inf") else None
    return Load(word, f"{_WORDS[word]} ({told}{'; ' if weak else ''}{weak})", measured, work, weak)


def with_processes(judged: Load, before: frozenset[str], after: frozenset[str]) -> Load:
    """The same work is that of the same programs, as far as both sides show any.

    Of many processes the timelines show the few that grew most: others may be there. So where pages tell the load
    nothing can be called fixed, and CPU time tells nothing.
    """
    if not judged.comparable or not before or not after or before & after:
        return judged
    names = ", ".join(sorted(before)[:3])
    if judged.weak:
        return Load(
            "unknown", f"the programs of BEFORE ({names}) are not seen after, others may use the CPU", judged.by
        )
    weak = f"the programs of BEFORE ({names}) are not seen after"
    return Load(judged.word, f"{judged.text}, but {weak}", judged.by, judged.work, weak)


def with_program(
    judged: Load, faults: tuple[Mapping[str, float], Mapping[str, float]], sides: tuple[Figures, Figures]
) -> Load:
    """Not the same work, if the program that makes most page faults did much less or more, whatever others did."""
    if judged.word != "same":
        return judged
    for word, (one, other), (busy, calm) in (("less", faults, sides), ("more", faults[::-1], sides[::-1])):
        name = max(one, key=lambda name: (one[name], name), default="")
        times = _times_less(one.get(name, 0.0), other.get(name), busy, calm)
        if times is not None and times > MORE:
            before, after = (quantity(side[name], "1/s") for side in faults)
            told = f"{_WORDS[word]} (page faults of {name} {before} before, {after} after)"
            return Load(word, told, judged.by, times if word == "more" else None)
    return judged


def _times_less(most: float, left: float | None, busy: Figures, calm: Figures) -> float | None:
    """How many times less the program did at least; None if it is not the one that counts, or not known.

    A huge page saves at most 511 faults, so with all huge pages of the host counted as its own this is the most that
    it can have touched.
    """
    total, huge = busy.get("node_vmstat_pgfault"), calm.get("node_vmstat_thp_fault_alloc")
    if left is None or total is None or huge is None or most < max(total.value / 2, _IDLE_FAULTS):
        return None
    touched = left + (PAGES_OF_HUGE - 1) * huge.value
    return most / touched if touched > 0 else None


def of_process(name: str, after: frozenset[str]) -> Load:
    """For what happens to one process and needs no load: that it is there."""
    if name in after:
        return Load("same", f"{name} is there after")
    return Load("unknown", f"{name} is not seen after")


_WORDS = {
    "same": "the load is comparable",
    "more": "more work was done after",
    "less": "much less work was done after",
}
