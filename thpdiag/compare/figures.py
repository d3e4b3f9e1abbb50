"""What two results are compared by: levels, rates and shares of one host, each with its samples and their spread.

Only what was measured over time: a total since boot says nothing about now, and is left out. A figure changed if it did
so by more than the noise of its samples. Kernel time is no mechanism's own figure: it may stay high after a fix (small
faults and clearing fill the CPUs), and falls with the load. A mechanism that stands in `OWN` is called mended or better
only if a figure of its own says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import fmean, pstdev
from typing import Any, TypeGuard

from thpdiag.compare.model import Direction
from thpdiag.model.result import Finding, FreeBlocks, Measure, Profile, Result, TimelineSeries

SHARE = "stacks:"  # begins the name of a share of call stacks
UNUSABLE = "free memory in blocks too small for a huge page"
_MOST = 1e100
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages
_SETTINGS = (("thp.defrag", "defrag"), ("thp.enabled", "enabled"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in a base unit. `samples` is None where the document does not say how many there were."""

    name: str
    value: float
    unit: str
    samples: int | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    member: str = ""
    line: int | None = None

    @property
    def error(self) -> float | None:
        """The standard error of the value; None if it cannot be told."""
        if self.samples is None or self.deviation is None:
            return None
        return self.deviation / sqrt(max(self.samples - 1, 1))  # `deviation` is that of these samples alone

    @property
    def per_work(self) -> bool:
        """Whether more work makes more of it: a rate does, a share or a level does not; what counts the work is no
        rate of it."""
        return self.unit == "1/s" and not self.name.startswith(WORK)

    @property
    def nothing(self) -> float:
        """Up to which value it is as good as nothing."""
        return 0.02 if self.unit == "ratio" else NOTHING.get(self.name, 0.0)


def numeric(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be compared; neither NaN nor beyond what scaling bears."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def states(host: Result) -> list[str]:
    """The names of the states of settings that measures tell apart; none if there is only one."""
    return list(dict.fromkeys(name.partition(" [")[2][:-1] for name in host.host.measures if " [" in name))


def state(host: Result) -> str:
    """The state that the settings of the document are of; empty if there is only one."""
    known, settings = states(host), host.host.settings
    own = ", ".join(f"{short} {settings[name].value}" for name, short in _SETTINGS if name in settings)
    fitting = [label for label in known if label == own]
    fitting += [label for label in known if label and all(part in own.split(", ") for part in label.split(", "))]
    return next(iter(fitting), known[-1] if known else "")


def _measures(host: Result) -> Iterator[Figure]:
    chosen = state(host)
    for key, measure in host.host.measures.items():
        name, _, label = key.partition(" [")
        value, window = measure.value, measure.window or ""
        over_time = window not in ("since boot", "") and not window.startswith("growth over")
        if numeric(value) and over_time and label[:-1] == chosen:
            yield Figure(
                name, float(value), measure.unit or "", **_spread(host, name, measure), **_place(measure.source or "")
            )


def _levels_of_timeline(host: Result) -> Iterator[Figure]:
    """Levels and rates of the whole host that only the timeline has: documents of older versions tell the load so."""
    for series in () if states(host) else host.timeline.series:
        means = series_means(series)
        if series.entity or series.unit not in ("ratio", "1/s") or not means or series.panel == "call_stacks":
            continue
        name = series.metric.removesuffix(":rate")
        yield Figure(name, fmean(means), series.unit or "", **_spread_of(means), **_place(series.source or ""))


def series_means(series: TimelineSeries) -> list[float]:
    return [row[3] for row in series.points if numeric(row[3])]


def _spread(host: Result, name: str, measure: Measure) -> dict[str, Any]:
    """The spread of a measure; of a document that does not tell it, that of the points of its timeline."""
    told = {
        "samples": measure.samples, "low": measure.min, "high": measure.max, "deviation": measure.deviation,
    }  # fmt: skip
    if all(map(numeric, told.values())):
        return told
    base = name.removesuffix(":rate")
    for series in host.timeline.series:
        same = series.metric.removesuffix(":rate") == base and series.source == measure.source
        if same and (means := series_means(series)):
            return _spread_of(means)
    return {}


def _spread_of(means: Sequence[float]) -> dict[str, Any]:
    return {"samples": len(means), "low": min(means), "high": max(means), "deviation": pstdev(means)}


def _place(source: str) -> dict[str, Any]:
    """`member:line` apart."""
    member, sign, line = source.rpartition(":")
    cited = sign and line.isascii() and line.isdigit() and len(line) < 19
    return {"member": member, "line": int(line)} if cited else {"member": source}


def _stack_shares(recorded: Sequence[Profile]) -> Iterator[Figure]:
    """The share of each family of functions in the recordings, those with more samples weighing more.

    A family that a recording does not show had no sample in it.
    """
    counts = [profile.samples or 0 for profile in recorded]
    for name in sorted({name for profile in recorded for name in profile.families}):
        shares = [float(profile.families.get(name, 0.0)) for profile in recorded]
        share = sum(s * n for s, n in zip(shares, counts, strict=True)) / sum(counts) if sum(counts) else fmean(shares)
        yield _share(name, share, sum(counts), recorded[0])


def _share(name: str, share: float, samples: int, profile: Profile) -> Figure:
    """With the spread that a share of so many samples has by chance; one sample more or less is always thinkable."""
    member, line = profile.member or "", profile.line
    if not samples:
        return Figure(SHARE + name, share, "ratio", member=member, line=line)
    likely = (share * samples + 1) / (samples + 2)
    return Figure(SHARE + name, share, "ratio", samples, None, None, sqrt(likely * (1 - likely)), member, line)


def _unusable_memory(rows: Sequence[FreeBlocks]) -> Figure | None:
    """Of the zone with most memory the free share in blocks smaller than a huge page, when it was read last."""
    largest = max(rows, key=lambda row: sum(_pages(row.counts)), default=None)
    if largest is None:
        return None
    last = [row for row in rows if (row.node, row.zone) == (largest.node, largest.zone)][-1]
    pages = list(_pages(last.counts))
    if not sum(pages):
        return None
    small = sum(pages[:HUGE_ORDER]) / sum(pages)
    return Figure(UNUSABLE, small, "ratio", member=last.member or "", line=last.line)


def _pages(counts: Iterable[int]) -> Iterator[int]:
    return (count << order for order, count in enumerate(counts) if order < 64)


CLEAR = 1.5  # times: what changed less is not called better or worse
ERRORS = 2.0  # standard errors of the difference, about 95 %
FEW = 3.0  # more errors for few samples, whose spread is told badly
FEWEST = 3  # samples by which a spread can be told
MUCH = 2.0  # times, where the samples do not tell the spread
WORK = ("node_vmstat_pgalloc", "node_vmstat_pgfault")  # begin the names of counters of work
# What is nothing: 0.1/s is what a cured host shows (compaction stalls), 100/s of huge faults are a tenth of a CPU of
# clearing, 2 % of samples cannot be felt.
NOTHING = {
    "node_vmstat_compact_stall": 0.1, "node_vmstat_compact_fail": 0.1, "node_allocstall_total": 0.1,
    "node_vmstat_thp_collapse_alloc": 0.05, "node_vmstat_thp_fault_alloc": 1.0, "node_vmstat_thp_fault_fallback": 1.0,
    "node_memory_AnonHugePages_bytes": 64.0 * 1024**2, "node_memory_MemFree_bytes": 256.0 * 1024**2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A figure on both sides. `ratio` is None where it was nothing before; `direction` is up, down, same or noise, of
    a rate for the same work; `alone` is what it would be without regard to the work."""

    before: Figure
    after: Figure
    direction: Direction
    alone: Direction

    @property
    def has_moved(self) -> bool:
        return self.direction in ("up", "down")

    @property
    def difference(self) -> float:
        return self.after.value - self.before.value

    @property
    def ratio(self) -> float | None:
        return self.after.value / self.before.value if self.before.value else None

    @property
    def of_stacks(self) -> bool:
        """Whether it is a share of call stacks, which has other parts where less is done."""
        return self.before.name.startswith(SHARE)


def change(before: Figure, after: Figure, work: float | None = None) -> Change:
    """`work` is how many times the work was done after: a rate is compared by what it is for the same work.

    What counts the work is no exact measure of it (huge pages hand out more pages for the same work), so nothing went
    up for the same work only, nor down though there is more of it. A share that fell may have been thinned by more work
    of another kind.
    """
    alone = way = _direction(before, after, 1.0)
    if work and before.per_work:
        way = _direction(before, after, 1.0 / work)
        if (way == "up" and alone != "up") or (way == "down" and alone == "up"):
            way = "same"
    elif work and work > 1.0 and before.name.startswith(SHARE) and alone == "down":
        way = "down" if _direction(before, after, work) == "down" else "same"
    return Change(before, after, way, alone)


def _direction(before: Figure, after: Figure, scale: float) -> Direction:
    """For the same work, by at least `CLEAR` times, by more than nothing, and by more than noise."""
    old, new = before.value, after.value * scale
    low, high = sorted((old, new))
    if low < 0 or high - low <= before.nothing or high < CLEAR * low:
        return "same"
    if not _exceeds_noise(before, after, scale):
        return "noise"
    return "up" if new > old else "down"


def _exceeds_noise(before: Figure, after: Figure, scale: float) -> bool:
    if before.name.startswith(SHARE) and not (before.samples and after.samples):
        return _much(before.value, after.value) and abs(after.value - before.value) >= 0.05
    counts = (before.samples or 0, after.samples or 0)
    if before.error is None or after.error is None:
        return before.unit != "1/s" and _much(before.value, after.value * scale)
    if min(counts) < FEWEST:
        return min(counts) > 1 and _ranges_apart(before, after, scale)
    errors = ERRORS + FEW / (sum(counts) - 2)  # near the quantiles of Student's t
    return abs(after.value * scale - before.value) > errors * hypot(before.error, after.error * scale)


def _much(old: float, new: float) -> bool:
    low, high = sorted((old, new))
    return high >= MUCH * low


def _ranges_apart(before: Figure, after: Figure, scale: float) -> bool:
    """Whether no sample of the one reaches into the range of the other."""
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return False
    return before.high < after.low * scale or after.high * scale < before.low


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
    "small-page-faults": (SHARE + "page_fault",),
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
    """The figures of one result; a share of stacks that its recordings do not show is one without samples in it."""

    figures: Mapping[str, Figure]
    unseen: Figure | None

    def get(self, name: str) -> Figure | None:
        found = self.figures.get(name)
        if found is None and name.startswith(SHARE) and self.unseen is not None:
            return replace(self.unseen, name=name)
        return found


def side(host: Result) -> Side:
    """Measures of the state that the verdict is about, shares of call stacks, free memory by size."""
    recorded = [profile for profile in host.profiles if profile.families and profile.samples != 0]
    samples = sum(profile.samples or 0 for profile in recorded)
    known = [*_levels_of_timeline(host), *_measures(host), *_stack_shares(recorded)]
    known += filter(None, [_unusable_memory(host.host.free_blocks)])
    return Side({figure.name: figure for figure in known}, _share("", 0.0, samples, recorded[0]) if recorded else None)


def own_names(finding: Finding) -> tuple[str, ...]:
    """The figures of what a finding is about."""
    if finding.mechanism != "fragmentation":
        return OWN.get(finding.mechanism or "", ())
    told = " ".join(evidence.text or "" for evidence in finding.evidence)
    return tuple(name for words, name in FRAGMENTATION.items() if words in told)[:1]


def own_changes(finding: Finding, before: Side, after: Side, work: float | None) -> list[Change]:
    """The changes of a finding's own figures that both sides have."""
    found = []
    for name in own_names(finding):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and (name in before.figures or name in after.figures):
            found.append(change(old, new, work))
    return found


def direction(changes: Sequence[Change]) -> str:
    """Where they went together: up, down, same (also what is only noise), apart, or none at all."""
    moved = {one.direction for one in changes if one.has_moved}
    if len(moved) == 2:
        return "apart"
    return moved.pop() if moved else "same" if changes else "none"
