"""`toggle`: two states of the host that differ in one setting, compared. The strongest evidence there is.

The state with the more permissive value is expected to be worse. A metric counts only with enough samples on both
sides and the same kind of load; system time alone need not fall after a cure (4 KiB faults take over), so any of
several will do. The change must come with the switch: what had got better while the old value still held was not
cured by the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from thpdiag.engine.check_result import NO, YES, CheckResult, unknown_result
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import COMPARED, OTHER_SETTING, Toggle, ToggleCheck, ToggleMetric, as_list
from thpdiag.engine.stacks import cpu_time_profiles
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.host.rates import rates
from thpdiag.host.series import Track
from thpdiag.model import Citation, Fact, Stacks
from thpdiag.model.text import quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

# From strict to permissive. With defrag=defer no fault compacts, not even in memory that asked for huge pages, which
# waits with madvise (mm/huge_memory.c vma_thp_gfp_mask).
PERMISSIVE = ("never", "0", "no", "defer", "madvise", "defer+madvise", "1", "yes", "always")
KNOBS = ("thp.enabled", "thp.defrag")  # what is often switched together
SAME_LOAD = 0.25  # busy CPU of the one side must be at least this part of the other's, else it is another workload
HELD = 0.5  # part of the difference that must still be there at the end of the earlier stretch
LAST = 3  # the end of a stretch: its last third, at least so many samples
FOR_OTHERS = ("other_allocators", "kcompactd", "khugepaged", "operator_compaction")  # no setting of faults stops these
SAME_WORK = 0.8  # for kernel time alone: the programs must have got this part of their time before, else the load fell


Knobs = tuple[tuple[str, str], ...]  # settings and their values, first the one that is compared


@dataclass(frozen=True, slots=True)
class Side:
    """A metric in one state from one source: mean, number of samples, a line of it.

    `busy` is how busy the CPUs were, `user` how much of it the programs got, `last` the mean of the stretch's end;
    None if unknown. `order` is the place of the state in time.
    """

    mean: float
    samples: int
    cite: Citation
    busy: float | None = None
    user: float | None = None
    last: float | None = None
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric under both values of the setting."""

    metric: ToggleMetric
    worse_knobs: Knobs
    better_knobs: Knobs
    worse: Side
    better: Side
    source: str = ""

    @property
    def setting(self) -> str:
        return self.better_knobs[0][0]

    @property
    def better_value(self) -> str:
        return self.better_knobs[0][1]

    @property
    def differences(self) -> tuple[tuple[str, str, str], ...]:
        """The settings that differ, this one first, each with its value before and after."""
        after = dict(self.better_knobs)
        return tuple((name, value, after[name]) for name, value in self.worse_knobs if after.get(name, value) != value)

    def alone(self, settings: Sequence[str]) -> bool:
        """Whether nothing but these settings was switched. With `enabled` at never the others have no say."""
        off = self.setting == "thp.enabled" and self.better_value == "never"
        return off or all(name in settings for name, _, _ in self.differences)

    @property
    def ratio(self) -> float:
        if self.better.mean > 0:
            return self.worse.mean / self.better.mean
        return float("inf") if self.worse.mean > 0 else 1.0

    def is_at_least(self, ratio: float) -> bool:
        """Whether it was so many times as much, and enough to matter."""
        return self.ratio >= ratio and self.worse.mean >= COMPARED[self.metric].worth

    @property
    def subject(self) -> tuple[str, ...]:
        """What is compared, whatever the source."""
        return (
            self.metric,
            *(word for knobs in (self.worse_knobs, self.better_knobs) for one in knobs for word in one),
        )

    @property
    def samples(self) -> int:
        """On the side that has fewer."""
        return min(self.worse.samples, self.better.samples)

    @property
    def with_the_switch(self) -> bool:
        """Whether what got better came with it: the earlier stretch was until its end as it was on the whole."""
        worse, better = self.worse, self.better
        if worse.order is None or better.order is None or worse.mean <= better.mean:
            return True
        if worse.order < better.order:
            return worse.last is None or worse.last - better.mean >= HELD * (worse.mean - better.mean)
        return better.last is None or worse.mean - better.last >= HELD * (worse.mean - better.mean)

    def describe(self) -> str:
        known = COMPARED[self.metric]
        worse, better = (
            f"{format_quantity(s.mean, known.unit)} ({_samples(s.samples)})" for s in (self.worse, self.better)
        )
        times = f"{self.ratio:.1f} times as much" if self.ratio != float("inf") else "against none"
        if self.worse.mean < known.worth:
            times += ", which is too little to matter"
        before = " and ".join(f"{name} {quoted(value)}" for name, value, _ in self.differences)
        after = " and ".join(
            quoted(value) if len(self.differences) == 1 else f"{name} {quoted(value)}"
            for name, _, value in self.differences
        )
        return f"{before}: {known.title} {worse}; {after}: {better}; {times}"


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"


def judge(check: ToggleCheck, view: StateView) -> CheckResult:
    """Yes if a metric moved by the ratio; no if what could be compared did not; unknown without two such states.

    It is the state with the worse value that a yes speaks of.
    """
    toggle, settings = check.toggle, as_list(check.toggle.setting)
    if len(view.others) < 2:
        contrasts = []
    else:
        contrasts = [c for s in settings for m in toggle.metrics for c in _contrasts(s, m, view)]
    sound = [c for c in contrasts if _enough(c, toggle) and _same_load(c) and c.with_the_switch and c.alone(settings)]
    usable = _decisive(sound)
    ratio = parse_quantity(toggle.ratio)
    if any(c.is_at_least(ratio) for c in usable):
        often = [(c, _switches(c, view, _least(c, toggle))) for c in usable]
        usable = [c for c, times in often if times is not None and (toggle.switches == 1 or times >= toggle.switches)]
    if not usable:
        text = "no two stretches with different settings and enough samples"
        return unknown_result(check, OTHER_SETTING, _why_not(contrasts[0], toggle) if contrasts else text)
    best = max(usable, key=lambda c: (c.is_at_least(ratio), _is_worse_state(c, view), c.metric != "sys_total", c.ratio))
    value = YES if best.is_at_least(ratio) else NO
    if value is YES and not _is_worse_state(best, view):
        return unknown_result(check, OTHER_SETTING, "this is the better of the two stretches")
    # Where the time of a job is known of one side only, how long it took on the other may say something else.
    weak = value is YES and best.metric != "work_rate" and any(map(_work, view.others))
    surer = "the time that the same job took under both settings" if weak else ""
    return CheckResult(check, value, best.describe, best.worse.cite, best.ratio, weak=weak, surer=surer)


def _switches(contrast: Contrast, view: StateView, least: int) -> int | None:
    """How often the setting went from one of the values to the other, and the figure with it, halfway or more.

    None if it did not go with it somewhere: then something else moved it.
    """
    middle, count, before = (contrast.worse.mean + contrast.better.mean) / 2, 0, None
    worse_value = dict(contrast.worse_knobs)[contrast.setting]
    for other in sorted((v for v in view.others if v.state.order is not None), key=lambda v: v.state.order or 0):
        value = other.state.settings.get(contrast.setting)
        side = _sides(contrast.metric, other).get(contrast.source)
        if side is None or side.samples < least or value not in (contrast.better_value, worse_value):
            continue
        if (side.mean < middle) is not (value == contrast.better_value):
            return None
        count += before is not None and before != value
        before = value
    return count


def _decisive(contrasts: Sequence[Contrast]) -> Sequence[Contrast]:
    """The time that the same work took, if that was measured: less kernel time is no gain where less is done.

    Of several sources of a metric the one with the most samples.
    """
    if work := [c for c in contrasts if c.metric == "work_rate"]:
        return work
    most: dict[tuple[str, ...], int] = {}
    for one in contrasts:
        most[one.subject] = max(one.samples, most.get(one.subject, 0))
    return [one for one in contrasts if one.samples == most[one.subject]]


def _is_worse_state(contrast: Contrast, view: StateView) -> bool:
    """Whether a contrast speaks of this state: that it was better elsewhere says nothing of the better one."""
    return view.state.settings.get(contrast.setting) != contrast.better_value


def _enough(contrast: Contrast, check: Toggle) -> bool:
    return contrast.samples >= _least(contrast, check)


def _least(contrast: Contrast, check: Toggle) -> int:
    return 1 if COMPARED[contrast.metric].whole else check.min_samples


def _same_load(contrast: Contrast) -> bool:
    worse, better = contrast.worse, contrast.better
    if contrast.metric == "sys_total":
        return worse.user is not None and better.user is not None and better.user >= SAME_WORK * worse.user
    return worse.busy is None or better.busy is None or _is_similar(worse.busy, better.busy)


def _is_similar(one: float, other: float) -> bool:
    return min(one, other) >= SAME_LOAD * max(one, other)


def _why_not(contrast: Contrast, check: Toggle) -> str:
    if not contrast.alone(as_list(check.setting)):
        names = " and ".join(name for name, _, _ in contrast.differences)
        return f"{names} were switched together; which of them did it is open"
    if not _same_load(contrast):
        return "the two stretches have different loads and cannot be compared"
    if not contrast.with_the_switch:
        return f"{COMPARED[contrast.metric].title} had changed before the setting was switched"
    if _enough(contrast, check) and check.switches == 1:
        return f"{COMPARED[contrast.metric].title} did not follow each switch of the setting"
    if _enough(contrast, check):
        return f"the setting was switched fewer than {check.switches} times"
    return f"fewer than {check.min_samples} samples on one side"


def _contrasts(setting: str, metric: ToggleMetric, view: StateView) -> Iterator[Contrast]:
    """Every pair of values of the setting, each source against itself; the other settings stand beside each value."""
    by_value: dict[Knobs, dict[str, Side]] = {}
    for other in view.others:
        settings = other.state.settings
        beside = [(name, settings[name]) for name in KNOBS if name != setting and name in settings]
        knobs = ((setting, settings.get(setting, "")), *beside)
        for source, side in _sides(metric, other).items() if setting in settings else ():
            known, side = by_value.setdefault(knobs, {}), replace(side, order=other.state.order)
            if source not in known or known[source].samples < side.samples:
                known[source] = side
    for better, worse in combinations(sorted(by_value, key=lambda knobs: _permissive(knobs[0][1])), 2):
        for source in by_value[better].keys() & by_value[worse].keys() if better[0] != worse[0] else ():
            yield Contrast(metric, worse, better, by_value[worse][source], by_value[better][source], source)


def _permissive(value: str) -> int:
    return PERMISSIVE.index(value) if value in PERMISSIVE else len(PERMISSIVE)


def _sides(metric: ToggleMetric, view: StateView) -> dict[str, Side]:
    """The metric in one state, by source (reader)."""
    match metric:
        case "sys_share":
            return _means(view, "cpu_ratio.sys_share")
        case "sys_total":
            return _means(view, "cpu_ratio.sys_total") | _means(view, "cpu_ratio.sys_total_steal")
        case "compaction_share":
            return _compaction(view)
        case "compact_stall_rate":
            return _rates(view, "node_vmstat_compact_stall")
        case "fault_rate":
            return _rates(view, "node_vmstat_thp_fault_alloc")
        case "work_rate":
            return _work(view)


def _means(view: StateView, metric: str) -> dict[str, Side]:
    """The mean, of a share of busy time weighted by how busy the CPUs were (kernel time over busy time, summed)."""
    return {track.table.reader: _mean(track) for track in reversed(view.catalogue.tracks(metric))}


def _mean(track: Track) -> Side:
    busy, user = _companion_column(track, "cpu_ratio.busy"), _companion_column(track, "cpu_ratio.user_total")
    weighted = busy is not None and track.metric == "cpu_ratio.sys_share"
    values, weights = track.column, busy if weighted else None
    end = max(LAST, len(track) // 3)
    last = _weighted_mean(values[-end:], None if weights is None else weights[-end:])
    return Side(_weighted_mean(values, weights), len(track), track.cite(0), _average(busy), _average(user), last)


def _weighted_mean(values: Column, weights: Column | None) -> float:
    """The weighted mean; the plain one where nothing has weight."""
    total = 0.0 if weights is None else float(weights.sum())
    return float((values * weights).sum()) / total if weights is not None and total > 0 else float(values.mean())


def _companion_column(track: Track, metric: str) -> Column | None:
    """Another metric of the same rows, None unless every row has it."""
    values = track.column_of(metric)
    return values if (values == values).all() else None


def _average(values: Column | None) -> float | None:
    return None if values is None else float(values.mean())


def _rates(view: StateView, metric: str) -> dict[str, Side]:
    found = {}
    for track in reversed(view.catalogue.tracks(metric)):
        if points := rates(track):
            mean, end = float(points.values.mean()), max(LAST, len(points) // 3)
            last = float(points.values[-end:].mean())
            found[track.table.reader] = Side(mean, len(points), points.samples[0].cite, last=last)
    return found


def _compaction(view: StateView) -> dict[str, Side]:
    """Compaction that page faults may have asked for: with defrag=defer kcompactd does the work instead.

    A profile without callers cannot tell and is compared with another such one only.
    """
    found = {}
    for source in cpu_time_profiles(view.state.profiles):
        profile = compiled_profile(source)
        if profile.weight > 0 and (profile.samples is None or profile.samples >= 50):
            share, flat = profile.share("compaction", without=FOR_OTHERS), source.stacks is Stacks.NONE
            found[f"{source.reader}{' without callers' if flat else ''}"] = Side(
                share, profile.samples or 1, source.cite
            )
    return found


def _work(view: StateView) -> dict[str, Side]:
    """Seconds that one and the same job took; several runs give the median."""
    runs = [f for f in view.facts("work.seconds") if f.label("kind") in (None, "real")]
    by_job: dict[str, list[Fact]] = {}
    for run in runs:
        by_job.setdefault(run.label("job") or "", []).append(run)
    return {job: _median(found) for job, found in by_job.items()}


def _median(runs: list[Fact]) -> Side:
    seconds = sorted(float(run.value) for run in runs)
    return Side(seconds[len(seconds) // 2], len(seconds), runs[0].cite)
