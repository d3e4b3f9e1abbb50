"""Figures that two results are compared by: levels, rates and shares of one host, with their samples and spread.

Only figures measured over time are used; a total since boot does not describe the current state. A figure changed if
the difference exceeds the noise of its samples. Kernel time is no figure of a mechanism: it may stay high after a fix
(small faults and clearing fill the CPUs), and it falls with the load. A mechanism in `MECHANISM_FIGURES` is called
fixed or improved only if a figure of its own shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import fmean, pstdev
from typing import Any, TypeGuard

from thpdiag.compare.model import Direction
from thpdiag.model.result import Finding, FreeBlocks, Measure, Profile, Result, TimelineSeries

SHARE = "stacks:"  # prefix of the names of call-stack shares
UNUSABLE = "free memory in blocks too small for a huge page"
_MAX_VALUE = 1e100  # larger numbers would overflow when scaled
HUGE_ORDER = 9  # 2 MiB of 4 KiB pages
_SETTINGS = (("thp.defrag", "defrag"), ("thp.enabled", "enabled"))


@dataclass(frozen=True, slots=True)
class Figure:
    """A value in a base unit. `samples` is None if the document does not state their number."""

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
        """The standard error of the value; None if it is unknown."""
        if self.samples is None or self.deviation is None:
            return None
        return self.deviation / sqrt(max(self.samples - 1, 1))  # `deviation` is that of these samples alone

    @property
    def per_work(self) -> bool:
        """Whether more work increases it: a rate does, a share or level does not; nor does a counter that measures the
        work."""
        return self.unit == "1/s" and not self.name.startswith(WORK_PREFIXES)

    @property
    def negligible(self) -> float:
        """The value up to which the figure counts as 0."""
        return 0.02 if self.unit == "ratio" else NEGLIGIBLE_VALUES.get(self.name, 0.0)


def numeric(value: object) -> TypeGuard[float]:
    """Whether a value is a number that can be compared; not NaN, and not too large to be scaled."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MAX_VALUE < value < _MAX_VALUE


def states(host: Result) -> list[str]:
    """Return the names of the settings states in the measures; empty if there is only one."""
    return list(dict.fromkeys(name.partition(" [")[2][:-1] for name in host.host.measures if " [" in name))


def state(host: Result) -> str:
    """Return the state that the settings of the document describe; empty if there is only one."""
    known, settings = states(host), host.host.settings
    shown = ", ".join(f"{short} {settings[name].value}" for name, short in _SETTINGS if name in settings)
    matching = [label for label in known if label == shown]
    matching += [label for label in known if label and all(part in shown.split(", ") for part in label.split(", "))]
    return next(iter(matching), known[-1] if known else "")


def _measures(host: Result) -> Iterator[Figure]:
    shown_state = state(host)
    for key, measure in host.host.measures.items():
        name, _, label = key.partition(" [")
        value, window = measure.value, measure.window or ""
        is_over_time = window not in ("since boot", "") and not window.startswith("growth over")
        if numeric(value) and is_over_time and label[:-1] == shown_state:
            yield Figure(
                name, float(value), measure.unit or "", **_spread(host, name, measure), **_place(measure.source or "")
            )


def _levels_of_timeline(host: Result) -> Iterator[Figure]:
    """Yield levels and rates of the host that only the timeline has, as in documents of older versions."""
    for series in () if states(host) else host.timeline.series:
        means = series_means(series)
        if series.entity or series.unit not in ("ratio", "1/s") or not means or series.panel == "call_stacks":
            continue
        name = series.metric.removesuffix(":rate")
        yield Figure(name, fmean(means), series.unit or "", **_describe_spread(means), **_place(series.source or ""))


def series_means(series: TimelineSeries) -> list[float]:
    return [row[3] for row in series.points if numeric(row[3])]


def _spread(host: Result, name: str, measure: Measure) -> dict[str, Any]:
    """Return the spread of a measure; if the document omits it, that of the points of its timeline."""
    stated = {
        "samples": measure.samples, "low": measure.min, "high": measure.max, "deviation": measure.deviation,
    }  # fmt: skip
    if all(map(numeric, stated.values())):
        return stated
    base = name.removesuffix(":rate")
    for series in host.timeline.series:
        is_same = series.metric.removesuffix(":rate") == base and series.source == measure.source
        if is_same and (means := series_means(series)):
            return _describe_spread(means)
    return {}


def _describe_spread(means: Sequence[float]) -> dict[str, Any]:
    return {"samples": len(means), "low": min(means), "high": max(means), "deviation": pstdev(means)}


def _place(source: str) -> dict[str, Any]:
    """Return member and line of a `member:line` source."""
    member, sign, line = source.rpartition(":")
    has_line = sign and line.isascii() and line.isdigit() and len(line) < 19
    return {"member": member, "line": int(line)} if has_line else {"member": source}


def _stack_shares(profiles: Sequence[Profile]) -> Iterator[Figure]:
    """Yield the share of each family of functions in the recordings, weighted by their samples.

    A family that is missing in a recording has no samples in it.
    """
    counts = [profile.samples or 0 for profile in profiles]
    for name in sorted({name for profile in profiles for name in profile.families}):
        shares = [float(profile.families.get(name, 0.0)) for profile in profiles]
        share = sum(s * n for s, n in zip(shares, counts, strict=True)) / sum(counts) if sum(counts) else fmean(shares)
        yield _share(name, share, sum(counts), profiles[0])


def _share(name: str, share: float, samples: int, profile: Profile) -> Figure:
    """Return a share with its statistical spread; one sample more or less is always possible."""
    member, line = profile.member or "", profile.line
    if not samples:
        return Figure(SHARE + name, share, "ratio", member=member, line=line)
    estimate = (share * samples + 1) / (samples + 2)
    return Figure(SHARE + name, share, "ratio", samples, None, None, sqrt(estimate * (1 - estimate)), member, line)


def _unusable_memory(rows: Sequence[FreeBlocks]) -> Figure | None:
    """Return the last free share in blocks smaller than a huge page, of the zone with most free memory."""
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


MIN_RATIO = 1.5  # of a change; a smaller one is neither better nor worse
MIN_ERRORS = 2.0  # standard errors of the difference, about 95 %
SMALL_SAMPLE_ERRORS = 3.0  # further errors for few samples, whose spread is uncertain
MIN_SAMPLES = 3  # for an estimate of the spread
MIN_RATIO_WITHOUT_SPREAD = 2.0  # of a change if the spread is unknown
WORK_PREFIXES = ("node_vmstat_pgalloc", "node_vmstat_pgfault")  # of the names of counters that measure work
# Negligible values: a fixed host shows 0.1/s compaction stalls, 100/s of huge faults are a tenth of a CPU of clearing,
# 2 % of samples have no noticeable effect.
NEGLIGIBLE_VALUES = {
    "node_vmstat_compact_stall": 0.1, "node_vmstat_compact_fail": 0.1, "node_allocstall_total": 0.1,
    "node_vmstat_thp_collapse_alloc": 0.05, "node_vmstat_thp_fault_alloc": 1.0, "node_vmstat_thp_fault_fallback": 1.0,
    "node_memory_AnonHugePages_bytes": 64.0 * 1024**2, "node_memory_MemFree_bytes": 256.0 * 1024**2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A figure on both sides. `ratio` is None if it was 0 before; `direction` is up, down, same or noise, for rates per
    work done; `unscaled` is the same without regard to the work."""

    before: Figure
    after: Figure
    direction: Direction
    unscaled: Direction

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
    def is_stack_share(self) -> bool:
        """Whether it is a share of call stacks, which also changes if other work changes."""
        return self.before.name.startswith(SHARE)


def change(before: Figure, after: Figure, work: float | None = None) -> Change:
    """Return the change of a figure. `work` is the ratio of the work done; rates are compared per work.

    The counter of work is no exact measure of it (huge pages allocate more pages for the same work), so a rate is not
    called up only because of the scaling, nor down if it rose. A share that fell may have been diluted by more work of
    another kind.
    """
    unscaled = direction = _direction(before, after, 1.0)
    if work and before.per_work:
        direction = _direction(before, after, 1.0 / work)
        if (direction == "up" and unscaled != "up") or (direction == "down" and unscaled == "up"):
            direction = "same"
    elif work and work > 1.0 and before.name.startswith(SHARE) and unscaled == "down":
        direction = "down" if _direction(before, after, work) == "down" else "same"
    return Change(before, after, direction, unscaled)


def _direction(before: Figure, after: Figure, scale: float) -> Direction:
    """Return the direction, if the change is at least `MIN_RATIO`, not negligible and larger than noise."""
    old, new = before.value, after.value * scale
    low, high = sorted((old, new))
    if low < 0 or high - low <= before.negligible or high < MIN_RATIO * low:
        return "same"
    if not _exceeds_noise(before, after, scale):
        return "noise"
    return "up" if new > old else "down"


def _exceeds_noise(before: Figure, after: Figure, scale: float) -> bool:
    if before.name.startswith(SHARE) and not (before.samples and after.samples):
        return _is_large_ratio(before.value, after.value) and abs(after.value - before.value) >= 0.05
    counts = (before.samples or 0, after.samples or 0)
    if before.error is None or after.error is None:
        return before.unit != "1/s" and _is_large_ratio(before.value, after.value * scale)
    if min(counts) < MIN_SAMPLES:
        return min(counts) > 1 and _ranges_are_disjoint(before, after, scale)
    errors = MIN_ERRORS + SMALL_SAMPLE_ERRORS / (sum(counts) - 2)  # near the quantiles of Student's t
    return abs(after.value * scale - before.value) > errors * hypot(before.error, after.error * scale)


def _is_large_ratio(old: float, new: float) -> bool:
    low, high = sorted((old, new))
    return high >= MIN_RATIO_WITHOUT_SPREAD * low


def _ranges_are_disjoint(before: Figure, after: Figure, scale: float) -> bool:
    """Whether no sample of one side is in the range of the other."""
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return False
    return before.high < after.low * scale or after.high * scale < before.low


_STALL, _FAIL = "node_vmstat_compact_stall", "node_vmstat_compact_fail"
_COMPACTING = (SHARE + "direct_compact", SHARE + "compaction")
_ALLOCATED, FALLBACK = "node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback"
_COLLAPSED, _HUGE = "node_vmstat_thp_collapse_alloc", "node_memory_AnonHugePages_bytes"
MECHANISM_FIGURES: Mapping[str, tuple[str, ...]] = {
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
# Several rules concern fragmentation, each with its own figure, which their evidence names.
FRAGMENTATION_FIGURES = {"cannot serve a huge page": UNUSABLE, "compact_fail": _FAIL, "thp_fault_fallback": FALLBACK}
# Mechanisms that the counters of a host can rule out: the all-clear "nothing found" covers each of them.
MEASURED_MECHANISMS = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "allocation-knee", "thp-direct-reclaim",
    "khugepaged-bloat", "huge-page-zeroing",
)  # fmt: skip
# Mechanisms that take CPU time, so that switching huge pages off under the same load shows them.
CPU_TIME_MECHANISMS = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "thp-direct-reclaim", "huge-page-zeroing",
)  # fmt: skip
# Mechanisms that a reboot ends for a while, because it defragments memory and restarts every process.
ENDED_BY_BOOT = (
    "compaction-lock-convoy", "compaction-tlb-shootdown", "fault-compaction", "allocation-knee", "thp-direct-reclaim",
    "fragmentation", "madvise-region-stalls", "sync-compaction-writeback", "compaction-lockup", "background-compaction",
    "kswapd-high-order", "khugepaged-bloat", "first-touch-bloat", "memory-leak", "slab-growth", "memory-pressure",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """The figures of one result. `unseen` is the figure of a family without samples, if there are recordings."""

    figures: Mapping[str, Figure]
    unseen: Figure | None

    def get(self, name: str) -> Figure | None:
        figure = self.figures.get(name)
        if figure is None and name.startswith(SHARE) and self.unseen is not None:
            return replace(self.unseen, name=name)
        return figure


def side(host: Result) -> Side:
    """Return the figures of a result: measures of the verdict's state, call-stack shares, free memory."""
    profiles = [profile for profile in host.profiles if profile.families and profile.samples != 0]
    samples = sum(profile.samples or 0 for profile in profiles)
    figures = [*_levels_of_timeline(host), *_measures(host), *_stack_shares(profiles)]
    figures += filter(None, [_unusable_memory(host.host.free_blocks)])
    unseen = _share("", 0.0, samples, profiles[0]) if profiles else None
    return Side({figure.name: figure for figure in figures}, unseen)


def figure_names_of(finding: Finding) -> tuple[str, ...]:
    """Return the names of the figures that measure a finding's mechanism."""
    if finding.mechanism != "fragmentation":
        return MECHANISM_FIGURES.get(finding.mechanism or "", ())
    text = " ".join(evidence.text or "" for evidence in finding.evidence)
    return tuple(name for words, name in FRAGMENTATION_FIGURES.items() if words in text)[:1]


def changes_of(finding: Finding, before: Side, after: Side, work: float | None) -> list[Change]:
    """Return the changes of a finding's own figures that both sides have."""
    changes = []
    for name in figure_names_of(finding):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and (name in before.figures or name in after.figures):
            changes.append(change(old, new, work))
    return changes


def direction(changes: Sequence[Change]) -> str:
    """Return the common direction of changes: up, down, same (also noise), apart, or none."""
    moved = {c.direction for c in changes if c.has_moved}
    if len(moved) == 2:
        return "apart"
    return moved.pop() if moved else "same" if changes else "none"
