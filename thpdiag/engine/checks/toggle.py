"""`toggle`: compare two states of the host that differ in one setting. This is the strongest evidence there is.

The state with the more permissive value is expected to be worse. A metric counts only with enough samples on both sides
and a similar load. One of several metrics suffices: system time alone need not fall after a cure, because 4 KiB faults
take over. The improvement must coincide with the switch: what had improved while the old value was still set was not
cured by the new one.

The first run of a job is slower than the next regardless of the switch, because it warms up caches. A single run before
a switch counts if the kernel's part of its time changed with it, or if its load does not read from disk; otherwise the
finding stays possible until the job was run twice or the setting was switched back. The same holds if something else
was changed between the two sides (`_other_changes`): a restart, dropped caches, another kernel.

A `Side` is a metric in one state from one source. Series are represented by their mean, jobs and load generators by the
median of their runs, separately per job and measured quantity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from thpdiag.engine.check_result import NO, YES, CheckResult, unknown_result
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import OTHER_SETTING, Toggle, ToggleCheck
from thpdiag.engine.stacks import cpu_time_profiles
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.host.memory import ERROR_LABEL
from thpdiag.host.rates import rates
from thpdiag.host.series import Track
from thpdiag.knowledge.paths import root_of
from thpdiag.knowledge.switches import compared_figures, permissiveness
from thpdiag.knowledge.workloads import own_switch, work_lines
from thpdiag.model import Citation, Event, Fact, Stacks
from thpdiag.model.facts import OPERATOR_KINDS
from thpdiag.model.text import quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]


MIN_END_SAMPLES = 3  # the end of a stretch is its last third, with at least this many samples
# Callers of compaction that no setting of page faults stops.
UNRELATED_FAMILIES = ("other_allocators", "kcompactd", "khugepaged", "operator_compaction")
MIN_RELEVANT_SECONDS = {"work.seconds": 1.0, "work.latency": 0.001}  # shorter times are start-up and rounding
MIN_RUNS_OF_MEAN, MIN_RELEVANT_MEAN_SECONDS = 5, 0.05  # with so many runs, a mean of so many seconds is relevant
MIN_LOAD_SECONDS = 1.0  # a load that was measured for less shows its warm-up
RESIDENT, VIRTUAL = "process_resident_memory_bytes", "process_virtual_memory_bytes"
MIN_RELEVANT_BYTES = 16 * 2**20  # of growth; every program gains and loses less all the time
WORK_FACTS = ("work.seconds", "work.latency", "work.rate")
SOURCE_SEPARATOR = "\t"  # between the parts of a source's name


@dataclass(frozen=True, slots=True)
class Side:
    """A metric in one state from one source: mean, number of samples, its first and last line.

    - `busy`: busy CPU; `user`: user time; `last`: the mean of the end of the stretch; None if unknown.
    - `order`: the position of the state in time; `state`: its id.
    - `worth`: the mean below which a difference is irrelevant.

    For work done:

    - `title`: what is measured; `rising`: larger is better; `runs`: all values; `step`: the last digit that was
      printed.
    - `kernel`: seconds in the kernel; `own`: the value of the program's own switch.
    - `warms`: the first run warms up caches; `brief`: it was measured for too short a time.
    - `doubt`: why the metric may mislead; `hearsay`: why the setting is uncertain.
    """

    mean: float
    samples: int
    cite: Citation
    until: Citation
    unit: str
    title: str
    worth: float = 0.0
    busy: float | None = None
    user: float | None = None
    last: float | None = None
    order: int | None = None
    state: str = ""
    rising: bool = False
    runs: tuple[float, ...] = ()
    step: float = 0.0
    kernel: float | None = None
    own: str = ""
    warms: bool = False
    brief: bool = False
    doubt: str = ""
    hearsay: str = ""

    @property
    def place(self) -> tuple[int, int] | None:
        """The position in time: that of the state, then the line."""
        return None if self.order is None else (self.order, self.cite.line or 0)


Sides = Mapping[str, Side]  # by source


def sides(metric: str, view: StateView) -> Sides:
    """Return the metric in one state, by source: a reader, a job, a process."""
    key = ("toggle", metric)
    if key not in view.catalogue.memo:
        view.catalogue.memo[key] = dict(_sides(metric, view))
    cached: Sides = view.catalogue.memo[key]
    return cached


def _sides(metric: str, view: StateView) -> Iterator[tuple[str, Side]]:
    match metric:
        case "sys_share":
            yield from _mean_sides(metric, view, "cpu_ratio.sys_share")
        case "sys_total":
            yield from _mean_sides(metric, view, "cpu_ratio.sys_total")
            yield from _mean_sides(metric, view, "cpu_ratio.sys_total_steal")
        case "compaction_share":
            yield from _compaction_sides(view)
        case "compact_stall_rate":
            yield from _rate_sides(metric, view, "node_vmstat_compact_stall")
        case "rss_slope":
            yield from _growth_sides(view)
        case "work_rate":
            yield from _work_sides(view)


def _side(metric: str, track: Track, mean: float, samples: int, last: float) -> Side:
    known = compared_figures()[metric]
    first, until = track.cite(0), track.cite(len(track) - 1)
    return Side(mean, samples, first, until, known.unit, known.title, known.worth, last=last)


def _mean_sides(metric: str, view: StateView, name: str) -> Iterator[tuple[str, Side]]:
    """The mean; that of a share of busy time is weighted with the busy time (total kernel time per total busy time)."""
    for track in reversed(view.catalogue.tracks(name)):
        busy, user = _companion_column(track, "cpu_ratio.busy"), _companion_column(track, "cpu_ratio.user_total")
        weighted = busy is not None and track.metric == "cpu_ratio.sys_share"
        values, weights = track.column, busy if weighted else None
        end = max(MIN_END_SAMPLES, len(track) // 3)
        mean = _weighted_mean(values, weights)
        last = _weighted_mean(values[-end:], None if weights is None else weights[-end:])
        side = _side(metric, track, mean, len(track), last)
        yield track.table.reader, replace(side, busy=_average(busy), user=_average(user))


def _weighted_mean(values: Column, weights: Column | None) -> float:
    """The weighted mean, or the plain one if all weights are 0."""
    total = 0.0 if weights is None else float(weights.sum())
    return float((values * weights).sum()) / total if weights is not None and total > 0 else float(values.mean())


def _companion_column(track: Track, metric: str) -> Column | None:
    """Another metric of the same rows, or None unless every row has it."""
    values = track.column_of(metric)
    return values if (values == values).all() else None


def _average(values: Column | None) -> float | None:
    return None if values is None else float(values.mean())


def _rate_sides(metric: str, view: StateView, name: str) -> Iterator[tuple[str, Side]]:
    for track in reversed(view.catalogue.tracks(name)):
        if points := rates(track):
            mean, end = float(points.values.mean()), max(MIN_END_SAMPLES, len(points) // 3)
            last = float(points.values[-end:].mean())
            yield track.table.reader, _side(metric, track, mean, len(points), last)


def _compaction_sides(view: StateView) -> Iterator[tuple[str, Side]]:
    """Compaction that page faults may have caused: with defrag=defer kcompactd does the work instead.

    A profile without callers cannot show that and is compared only with others without callers.
    """
    known = compared_figures()["compaction_share"]
    for source in cpu_time_profiles(view.state.profiles):
        profile = compiled_profile(source)
        if profile.weight > 0 and (profile.samples is None or profile.samples >= 50):
            share, flat = profile.share("compaction", without=UNRELATED_FAMILIES), source.stacks is Stacks.NONE
            name = f"{source.reader}{' without callers' if flat else ''}"
            cite = source.cite
            yield name, Side(share, profile.samples or 1, cite, cite, known.unit, known.title, known.worth)


def _growth_sides(view: StateView) -> Iterator[tuple[str, Side]]:
    """The growth rate of the resident memory of each process; doubtful if the process mapped more memory as well."""
    for entity in view.catalogue.entities("process", with_memory=True):
        for track in view.catalogue.tracks(RESIDENT, entity)[:1]:
            seconds, values, mapped = track.seconds, track.column, _companion_column(track, VIRTUAL)
            if seconds is None or len(track) < MIN_END_SAMPLES or (span := float(seconds[-1] - seconds[0])) <= 0:
                continue
            grown, end = float(values[-1] - values[0]), max(MIN_END_SAMPLES, len(track) // 3)
            last = float(values[-1] - values[-end]) / (float(seconds[-1] - seconds[-end]) or 1.0)
            side = _side("rss_slope", track, grown / span, len(track), last)
            is_resident = mapped is not None and float(mapped[-1] - mapped[0]) < grown / 2
            doubt = "" if is_resident else "whether the program mapped more memory meanwhile is not known, or it did"
            names = dict(entity)
            side = replace(side, worth=MIN_RELEVANT_BYTES / span, doubt=doubt if grown > 0 else "")
            yield f"{names.get('comm', '')} {names.get('pid', '')}", side


def _work_sides(view: StateView) -> Iterator[tuple[str, Side]]:
    """The time that a job took, or its work per second. Several runs give the median."""
    runs_by_key: dict[tuple[str, ...], list[Fact]] = {}
    for fact in (fact for name in WORK_FACTS for fact in view.facts(name)):
        job, switch = own_switch(fact.label("job") or "")
        key = (job, switch, fact.name, fact.label("kind") or "real", fact.label("title") or "")
        runs_by_key.setdefault(key, []).append(fact)
    for (job, switch, name, kind, title), runs in runs_by_key.items():
        if name == "work.seconds" and kind != "real":
            continue
        kernel = runs_by_key.get((job, switch, name, "sys", title), ())
        yield SOURCE_SEPARATOR.join((job, switch, name, kind, title)), _work_side(runs, switch, kernel)


def _work_side(runs: list[Fact], switch: str, kernel_facts: Iterable[Fact]) -> Side:
    first, values = runs[0], tuple(float(run.value) for run in runs)
    ends = tuple(float(end) for run in runs for end in (run.label("least"), run.label("most")) if end)
    count = sum(int(run.label("runs") or 1) for run in runs)
    kernel_seconds = sorted(float(fact.value) for fact in kernel_facts)
    kind, rising = first.label("kind") or "real", first.name == "work.rate"
    title = "time for the same work"
    if rising:
        title = f"{kind} per second"
    elif first.name == "work.latency":
        title = f"{kind} of the latency"
    subject = " ".join(filter(None, (first.label("tool"), first.label("title"))))
    brief = any(float(run.label("lasted") or MIN_LOAD_SECONDS) < MIN_LOAD_SECONDS for run in runs)
    tool = first.label("tool") or ""
    worth = MIN_RELEVANT_SECONDS.get(first.name, 0.0)
    if count >= MIN_RUNS_OF_MEAN:
        worth = min(worth, MIN_RELEVANT_MEAN_SECONDS)
    return Side(
        sorted(values)[len(values) // 2], count, first.cite, runs[-1].cite,
        "1/s" if rising else "seconds", f"{title} ({subject})" if subject else title,
        worth=worth, last=values[-1] if len(values) > 1 else None, rising=rising,
        runs=ends or values * count, step=float(first.label("step") or 0.0), own=switch,
        kernel=kernel_seconds[len(kernel_seconds) // 2] if kernel_seconds else None,
        warms=first.name != "work.seconds" and (not tool or tool in work_lines().warms),
        brief=brief,
    )  # fmt: skip


COMMON_SETTINGS = ("thp.enabled", "thp.defrag")  # often switched together
PROGRAM_SETTING = "thp.of_program"  # a program's own switch, in the command line of a job
SERVICE_PREFIX = "thp.service."
PART_PATTERNS = {  # prefix and suffix of the settings of single sizes and services
    "thp.size.enabled": ("thp.hugepages-", ".enabled"),
    "thp.size.shmem_enabled": ("thp.hugepages-", ".shmem_enabled"),
    "thp.of_service": (SERVICE_PREFIX, ""),
}
MIN_LOAD_RATIO = 0.25  # busy CPU of one side relative to the other; below it the workloads differ
MIN_REMAINING = 0.5  # share of the difference that must remain at the end of the earlier stretch
# User time after the switch relative to before. Below it the load fell, and kernel time alone proves nothing.
MIN_WORK_RATIO = 0.8
MIN_KERNEL_EFFECT = 1.25  # ratio of the total time that suffices if the kernel's part of it has the required ratio
MIN_KERNEL_RUNS = 3  # per side, for MIN_KERNEL_EFFECT: a single first run fills caches, in the kernel

PER_SOURCE_METRICS = ("work_rate", "rss_slope")  # metrics with one subject per job or process
Settings = tuple[tuple[str, str], ...]  # names and values, the compared setting first


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric under two values of a setting."""

    metric: str
    worse_settings: Settings
    better_settings: Settings
    worse: Side
    better: Side
    source: str = ""

    @property
    def setting(self) -> str:
        return self.better_settings[0][0]

    @property
    def better_value(self) -> str:
        return self.better_settings[0][1]

    @property
    def differences(self) -> tuple[tuple[str, str, str], ...]:
        """The settings that differ, the compared one first, with their values before and after."""
        after = dict(self.better_settings)
        return tuple((name, old, after[name]) for name, old in self.worse_settings if after.get(name, old) != old)

    def exchange(self) -> Contrast:
        """Swap the sides, for settings whose more permissive value is expected to be the better one."""
        return replace(
            self,
            worse_settings=self.better_settings,
            better_settings=self.worse_settings,
            worse=self.better,
            better=self.worse,
        )

    def is_only_change(self, settings: Sequence[str]) -> bool:
        """Whether only these settings were switched. A switch of `enabled` covers huge pages as a whole, including
        defrag."""
        others = (*(name for name, _, _ in self.differences), *self.unknown_changes)
        return self.setting == "thp.enabled" or all(name in settings for name in others)

    @property
    def unknown_changes(self) -> Sequence[str]:
        """The settings that may have been switched too: known of one side only, and not most permissive on the
        better one."""
        before, after = dict(self.worse_settings), dict(self.better_settings)
        missing = [name for name in before if name not in after]
        return [*missing, *(name for name, value in after.items() if name not in before and value != "always")]

    @property
    def ratio(self) -> float:
        return self._ratio_within(0.0)

    def _ratio_within(self, error: float) -> float:
        """The improvement as a ratio, if the printed values are off by `error` in favour of the worse side."""
        high, low = (self.better, self.worse) if self.worse.rising else (self.worse, self.better)
        if low.mean + error > 0:
            return (high.mean - error) / (low.mean + error)
        return float("inf") if high.mean > error else 1.0

    def is_at_least(self, ratio: float) -> bool:
        """Whether the improvement reaches a ratio, allowing for rounding, and is large enough to be relevant."""
        times = self._ratio_within(max(self.worse.step, self.better.step) / 2)
        is_kernel_effect = times >= MIN_KERNEL_EFFECT and (self.kernel_ratio or 0.0) >= ratio
        return (times >= ratio or is_kernel_effect) and self.worse.mean >= self.worse.worth

    @property
    def kernel_ratio(self) -> float | None:
        """The ratio of the kernel's part of the work, if that part is what improved."""
        worse, better = self.worse.kernel, self.better.kernel
        if not worse or not better or self.samples < MIN_KERNEL_RUNS:
            return None
        return worse / better if worse - better >= MIN_REMAINING * (self.worse.mean - self.better.mean) > 0 else None

    @property
    def subject(self) -> tuple[str, ...]:
        return (
            self.metric,
            self.source if self.metric in PER_SOURCE_METRICS else "",
            *(word for settings in (self.worse_settings, self.better_settings) for pair in settings for word in pair),
        )

    @property
    def samples(self) -> int:
        return min(self.worse.samples, self.better.samples)

    @property
    def is_simultaneous(self) -> bool:
        """Whether the improvement came with the switch: at the end of the earlier stretch most of the difference
        remained."""
        worse, better = self.worse, self.better
        if worse.place is None or better.place is None or self.ratio <= 1:
            return True
        earlier, later = (worse, better) if worse.place < better.place else (better, worse)
        return earlier.last is None or (earlier.last - later.mean) / (earlier.mean - later.mean) >= MIN_REMAINING

    def describe(self) -> str:
        worse, better = (f"{_amount(s)} ({_samples(s.samples)})" for s in (self.worse, self.better))
        ratio = 1 / self.ratio if self.worse.rising and 0 < self.ratio < 1 else self.ratio
        times = f"{ratio:.1f} times as much" if ratio != float("inf") else "against none"
        if self.worse.mean < self.worse.worth:
            times += ", which is too little to matter"
        if (kernel := self.kernel_ratio) and kernel > ratio:
            times += f", the kernel's part of it {kernel:.1f} times"
        before = " and ".join(f"{name} {quoted(value)}" for name, value, _ in self.differences)
        after = " and ".join(
            quoted(value) if len(self.differences) == 1 else f"{name} {quoted(value)}"
            for name, _, value in self.differences
        )
        return f"{before}: {self.worse.title} {worse}; {after}: {better}; {times}"


def _amount(side: Side) -> str:
    """The value in words; short latencies in milliseconds."""
    if side.unit == "seconds" and 0 < side.mean < 0.1:
        return f"{side.mean * 1000:.3g} ms"
    return format_quantity(side.mean, side.unit)


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"


def judge(check: ToggleCheck, view: StateView) -> CheckResult:
    """Yes if a metric improved by the ratio; no if the comparable ones did not; unknown without two comparable
    states. A yes applies to the state with the worse value."""
    toggle, settings = check.toggle, _expand_settings(check.toggle.settings, view)
    has_states = len(view.others) > 1  # only a program's own switch can differ within one state, from job to job
    contrasts = [
        contrast
        for setting in settings
        for metric in toggle.metrics
        if (metric == "work_rate" if setting == PROGRAM_SETTING else has_states)
        for contrast in _contrasts_of_setting(setting, metric, view)
    ]
    if not contrasts:
        return unknown_result(check, OTHER_SETTING, _missing_reason(toggle, view))
    if toggle.expected == "better":
        contrasts = [c.exchange() for c in contrasts]
    sound = [
        c
        for c in contrasts
        if _has_enough_samples(c, toggle) and _has_similar_load(c) and c.is_simultaneous and c.is_only_change(settings)
    ]
    ratio = parse_quantity(toggle.ratio)
    noise = [c for c in sound if c.is_at_least(ratio) and _noise_reason(c, view)]
    usable = _decisive_contrasts([c for c in sound if c not in noise and not _did_less_work(c, sound)])
    if any(c.is_at_least(ratio) for c in usable):
        counted = [(c, _count_switches(c, view, _min_samples(c, toggle))) for c in usable]
        usable = [c for c, times in counted if times is not None and (toggle.switches == 1 or times >= toggle.switches)]
    if not usable:
        return unknown_result(check, OTHER_SETTING, _undecided_reason(contrasts, toggle, settings, view))
    doubts = {id(c): _doubt_reasons(c, settings, view) for c in usable}
    best = max(
        usable,
        key=lambda c: (
            c.is_at_least(ratio), _is_worse_state(c, view), not doubts[id(c)], c.metric != "sys_total", c.ratio
        ),
    )  # fmt: skip
    value = YES if best.is_at_least(ratio) else NO
    if value is NO and (hearsay := best.worse.hearsay or best.better.hearsay):
        return unknown_result(check, OTHER_SETTING, hearsay)
    if value is YES and not _is_worse_state(best, view):
        return unknown_result(check, OTHER_SETTING, "this is the better of the two stretches")
    doubt = doubts[id(best)] if value is YES else ()
    surer = "two runs of the same job under each setting, with nothing else changed" if doubt else ""
    if value is YES and not doubt and best.metric != "work_rate" and _is_work_undecided(settings, ratio, view):
        # The time of a job is known of one side only; that of the other may contradict.
        surer = "the time that the same job took under both settings"

    def words() -> str:
        return "; but ".join((best.describe(), *doubt))

    return CheckResult(check, value, words, best.worse.cite, best.ratio, weak=bool(surer), surer=surer)


def _expand_settings(settings: Sequence[str], view: StateView) -> list[str]:
    """Return the settings, with those of single sizes and services expanded to the names in the input."""
    known = sorted({name for other in view.others for name in _setting_values(other)})
    parts = [ends for name, ends in PART_PATTERNS.items() if name in settings]
    single = [name for name in known if any(name.startswith(start) and name.endswith(end) for start, end in parts)]
    return [*(name for name in settings if name not in PART_PATTERNS), *single]


def _is_work_undecided(settings: Sequence[str], ratio: float, view: StateView) -> bool:
    """Whether the input has times of work, but none of them improved by the ratio."""
    if not any(sides("work_rate", other) for other in view.others):
        return False
    return not any(c.is_at_least(ratio) for s in settings for c in _contrasts_of_setting(s, "work_rate", view))


def _did_less_work(contrast: Contrast, contrasts: Sequence[Contrast]) -> bool:
    """Whether a latency fell because less was done: the same load did less work per second on that side."""
    job = contrast.source.split(SOURCE_SEPARATOR)[0]
    return contrast.metric == "work_rate" and any(
        other.worse.rising
        and other.ratio < MIN_WORK_RATIO
        and other.source.split(SOURCE_SEPARATOR)[0] == job
        and (other.worse.state, other.better.state) == (contrast.worse.state, contrast.better.state)
        for other in contrasts
        if other.metric == "work_rate" and not contrast.worse.rising
    )


def _noise_reason(contrast: Contrast, view: StateView) -> str:
    """Why an improvement may be noise: single runs differ by as much, or the first run warmed up caches. "" if not."""
    worse, better = contrast.worse, contrast.better
    if worse.brief or better.brief:
        return "it was measured for less than a second"
    low, high = (better, worse) if worse.rising else (worse, better)
    if worse.runs and better.runs and min(low.runs) <= max(high.runs):
        return "single runs differ by as much"
    if worse.kernel is None or better.kernel is None or not _is_first_run(contrast, view):
        return ""
    # Huge pages cost time in the kernel. A first run also waits for files, or for its own code to be compiled.
    if worse.kernel - better.kernel >= MIN_REMAINING * (worse.mean - better.mean):
        return ""
    return "the first run took longer for other reasons than the kernel: it reads from disk what is in memory later"


def _is_first_run(contrast: Contrast, view: StateView) -> bool:
    """Whether the worse side is a single run before the others, and the setting was not switched back."""
    worse, better = contrast.worse, contrast.better
    is_later = worse.place is not None and better.place is not None and worse.place > better.place
    return len(worse.runs) == 1 and not is_later and (_count_switches(contrast, view, 1) or 0) < 2


def _doubt_reasons(contrast: Contrast, settings: Sequence[str], view: StateView) -> tuple[str, ...]:
    """Reasons why the improvement may have another cause than the switch."""
    worse, better = contrast.worse, contrast.better
    reasons = [r for r in dict.fromkeys((worse.doubt, better.doubt, worse.hearsay, better.hearsay)) if r]
    changes = _other_changes(contrast, settings, view)
    if (_count_switches(contrast, view, 1) or 0) >= 2:  # an effect of every switch needs no other explanation
        changes = [change for change in changes if change.startswith("tuning profile")]  # it includes the setting
    elif worse.kernel is None and worse.warms and _is_first_run(contrast, view):
        reasons.append("a first run is slower than later ones regardless of the setting")
    if changes:
        reasons.append(f"something else was changed as well: {', '.join(changes)}; which change helped is unknown")
    return tuple(reasons)


def _other_changes(contrast: Contrast, settings: Sequence[str], view: StateView) -> list[str]:
    """What else differs between the two sides: operator actions before one measurement only, settings, kernel, boot."""
    spans = [
        side for other in view.others for name, side in sides(contrast.metric, other).items() if name == contrast.source
    ]
    events = _operator_events(view)
    actions = [(e.cite.member, e.cite.line or 0, text) for e in events if (text := _action_text(e, settings))]
    before = [
        {text for member, line, text in actions if _precedes(member, line, side, spans)}
        for side in (contrast.worse, contrast.better)
    ]
    changes = sorted(before[0] ^ before[1])
    states = {other.state.id: other.state.settings for other in view.others}
    old, new = (states.get(side.state, {}) for side in (contrast.worse, contrast.better))
    if (contrast.setting, contrast.better_value) != ("thp.enabled", "never"):
        changes += sorted(
            f"{name} {quoted(old[name])}, then {quoted(new[name])}"
            for name in old.keys() & new.keys() - {*settings, *COMMON_SETTINGS}
            if old[name] != new[name]
        )
    earlier, later = sorted((contrast.worse, contrast.better), key=lambda side: side.place or (0, 0))
    kernels, uptimes, boot_lines = (
        [_nearest_fact([f for f in view.case.facts if f.name == name], side) for side in (earlier, later)]
        for name in ("kernel.release", "uptime.seconds", "boot.cmdline")
    )
    if boot_lines[0] and boot_lines[1] and boot_lines[0].value != boot_lines[1].value:
        changes.append("a boot with another boot line")
    if kernels[0] and kernels[1] and kernels[0].value != kernels[1].value:
        changes.append(f"another kernel ({quoted(kernels[0].value)}, then {quoted(kernels[1].value)})")
    if uptimes[0] and uptimes[1]:
        error = sum(float(fact.label(ERROR_LABEL) or 0.0) for fact in uptimes if fact)
        if float(uptimes[0].value) - error > float(uptimes[1].value):
            changes.append("a reboot")
    return changes


def _operator_events(view: StateView) -> Iterator[Event]:
    for other in view.others:
        yield from (event for event in other.state.events if event.kind in OPERATOR_KINDS)


def _action_text(event: Event, settings: Sequence[str]) -> str:
    """Describe an operator action; "" if it switched these or huge page settings, or had no effect."""
    fields = event.fields
    setting = fields.get("setting", "")
    if fields.get("how") not in (None, "prompt") or setting.startswith("thp.") or setting in settings:
        return ""
    if event.kind == "operator_change":
        return " of ".join(filter(None, (fields["what"], fields.get("of", ""))))
    name = fields.get("setting", event.kind).removeprefix("sysctl.")
    return f"{name} = {quoted(fields['value'])}" if "value" in fields else name


def _precedes(member: str, line: int, side: Side, measurements: Sequence[Side]) -> bool:
    """Whether an action was taken during a measurement, or after the one before it."""
    if member != side.cite.member or line > (side.until.line or 0):
        return False
    start = side.cite.line or 0
    earlier_ends = [other.until.line or 0 for other in measurements if other.until.member == member]
    return line > max((end for end in earlier_ends if end < start), default=0)


def _nearest_fact(facts: Sequence[Fact], side: Side) -> Fact | None:
    """The last fact before a measurement, or one of the same bundle."""
    place = (side.until.member, side.until.line or 0)
    earlier = [f for f in facts if f.cite.member == place[0] and (f.cite.line or 0) <= place[1]]
    root = root_of(place[0])
    related = [f for f in facts if root and root_of(f.cite.member) == root and f.cite.member != place[0]]
    return max(earlier, key=lambda f: f.cite.line or 0) if earlier else related[0] if related else None


def _count_switches(contrast: Contrast, view: StateView, min_samples: int) -> int | None:
    """How often the setting was switched between the two values and the metric followed, crossing the middle. None
    if the metric did not follow the setting once: then it has another cause."""
    middle, count, previous = (contrast.worse.mean + contrast.better.mean) / 2, 0, None
    worse_value = dict(contrast.worse_settings)[contrast.setting]
    for other in sorted((v for v in view.others if v.state.order is not None), key=lambda v: v.state.order or 0):
        value = _setting_value(other, contrast.setting)
        side = sides(contrast.metric, other).get(contrast.source)
        if side is None or side.samples < min_samples or value not in (contrast.better_value, worse_value):
            continue
        if (side.mean < middle) is not (value == contrast.better_value) ^ side.rising:
            return None
        count += previous is not None and previous != value
        previous = value
    return count


def _decisive_contrasts(contrasts: Sequence[Contrast]) -> Sequence[Contrast]:
    """The contrasts that decide: of work times, if there are any (less kernel time is no gain if less is done). Of
    several sources of a metric the one with the most samples counts; jobs and processes all count."""
    if work := [c for c in contrasts if c.metric == "work_rate"]:
        return work
    max_samples: dict[tuple[str, ...], int] = {}
    for contrast in contrasts:
        max_samples[contrast.subject] = max(contrast.samples, max_samples.get(contrast.subject, 0))
    return [contrast for contrast in contrasts if contrast.samples == max_samples[contrast.subject]]


def _is_worse_state(contrast: Contrast, view: StateView) -> bool:
    """Whether a contrast applies to this state; an improvement elsewhere does not concern the better state."""
    if contrast.setting == PROGRAM_SETTING:
        return view.state.id == contrast.worse.state
    return _setting_value(view, contrast.setting) != contrast.better_value


def _setting_values(view: StateView) -> Mapping[str, str]:
    """The settings of a state, as printed by the kernel or taken from a label."""
    return {**view.state.labels, **view.state.settings}


def _has_enough_samples(contrast: Contrast, check: Toggle) -> bool:
    return contrast.samples >= _min_samples(contrast, check)


def _min_samples(contrast: Contrast, check: Toggle) -> int:
    return 1 if compared_figures()[contrast.metric].whole else check.min_samples


def _has_similar_load(contrast: Contrast) -> bool:
    worse, better = contrast.worse, contrast.better
    if contrast.metric == "sys_total":
        return worse.user is not None and better.user is not None and better.user >= MIN_WORK_RATIO * worse.user
    if worse.busy is None or better.busy is None:
        return True
    return min(worse.busy, better.busy) >= MIN_LOAD_RATIO * max(worse.busy, better.busy)


def _undecided_reason(contrasts: Sequence[Contrast], check: Toggle, settings: Sequence[str], view: StateView) -> str:
    contrast = contrasts[0]
    title = contrast.worse.title
    if not contrast.is_only_change(settings):
        if unknown := [name for name in contrast.unknown_changes if name not in settings]:
            return f"whether {' and '.join(unknown)} was switched as well is not in the input"
        names = " and ".join(name for name, _, _ in contrast.differences)
        return f"{names} were switched together; which of them had the effect is unknown"
    if not _has_similar_load(contrast):
        return "the two stretches have different loads and cannot be compared"
    if not contrast.is_simultaneous:
        return f"{title} had changed before the setting was switched"
    if noise := _noise_reason(contrast, view):
        return f"{title}: {noise}"
    if _did_less_work(contrast, contrasts):
        return "less was done per second on the side with the shorter latency"
    if _has_enough_samples(contrast, check) and check.switches == 1:
        return f"{title} did not follow each switch of the setting"
    if _has_enough_samples(contrast, check):
        return f"the setting was switched fewer than {check.switches} times"
    return f"fewer than {check.min_samples} samples on one side"


def _missing_reason(check: Toggle, view: StateView) -> str:
    jobs = sorted({name.split(SOURCE_SEPARATOR)[0] for v in view.others for name in sides("work_rate", v)} - {""})
    if "work_rate" in check.metrics and len(view.others) > 1 and len(jobs) > 1:
        return f"no job was measured under both settings; these are different ones: {', '.join(map(quoted, jobs[:3]))}"
    unclear = (e.fields.get("profile") for e in _operator_events(view) if e.fields.get("how") == "unclear")
    if profile := next(filter(None, unclear), ""):
        return f"what tuned's profile {quoted(profile)} sets is not known"
    return "no two stretches with different settings and enough samples"


def _contrasts_of_setting(setting: str, metric: str, view: StateView) -> Iterator[Contrast]:
    """Yield a contrast for every pair of values of the setting and each source; other settings are kept with each
    value."""
    by_value: dict[Settings, dict[str, Side]] = {}
    for other in view.others:
        settings = _setting_values(other)
        other_settings = [(name, settings[name]) for name in COMMON_SETTINGS if name != setting and name in settings]
        for source, side in sides(metric, other).items():
            value, name = _setting_value(other, setting), source
            if setting == PROGRAM_SETTING:
                job, _, *rest = source.split(SOURCE_SEPARATOR)  # the source's name without the value of the switch
                value, name = side.own or "default", SOURCE_SEPARATOR.join((job, "", *rest))
            if value is None:
                continue
            key = ((setting, value), *other_settings)
            known_sides, doubt = by_value.setdefault(key, {}), _doubtful_setting(other, setting)
            side = replace(side, order=other.state.order, state=other.state.id, hearsay=doubt)
            if name not in known_sides or known_sides[name].samples < side.samples:
                known_sides[name] = side
    for better, worse in combinations(sorted(by_value, key=lambda settings: permissiveness(*settings[0])), 2):
        for source in by_value[better].keys() & by_value[worse].keys() if better[0] != worse[0] else ():
            yield Contrast(metric, worse, better, by_value[worse][source], by_value[better][source], source)


def _setting_value(view: StateView, setting: str) -> str | None:
    """The value of a setting. A service, like a host, has its default value until another one is set."""
    is_service = setting.startswith(SERVICE_PREFIX) and view.state.order is not None
    default = (str(f.value) for f in view.state.facts if f.name == setting and f.provenance == "assumed")
    return _setting_values(view).get(setting, "default" if is_service else next(default, None))


def _doubtful_setting(view: StateView, setting: str) -> str:
    """Why the value of a setting is uncertain, or ""."""
    if setting in view.state.labels:
        return "only a heading or a file name states the setting"
    is_known = setting in view.state.settings or setting.startswith(SERVICE_PREFIX) or setting == PROGRAM_SETTING
    return (
        ""
        if is_known
        else f"{setting} {quoted(_setting_value(view, setting) or '')} is the default here, and it was not measured"
    )
