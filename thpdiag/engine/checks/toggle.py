"""`toggle`: two states of the host that differ in one setting, compared. The strongest evidence there is.

The state with the more permissive value is expected to be worse. A metric counts only with enough samples on both
sides and the same kind of load; system time alone need not fall after a cure (4 KiB faults take over), so any of
several will do. The change must come with the switch: what had got better while the old value still held was not
cured by the new one.

A first run of a job is slower than the next whatever the switch: it warms caches up. One run before a switch counts if
the kernel's part of its time went with it, or if it is of a load that does not read from disk; else the finding is
possible until the job was run twice, or the setting was switched back. So it is where something else was changed
between the two sides (`_changes`): a restart, caches that were dropped, another kernel.

What `toggle` compares: a figure in one state of the host, from one source.

Series give their mean, jobs and load generators the median of their runs, by job and by what was measured of it.
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


LAST = 3  # the end of a stretch: its last third, at least so many samples
FOR_OTHERS = ("other_allocators", "kcompactd", "khugepaged", "operator_compaction")  # no setting of faults stops these
WORTH_SECONDS = {"work.seconds": 1.0, "work.latency": 0.001}  # shorter ones are starting up, and rounding
MANY_RUNS, WORTH_OF_MANY = 5, 0.05  # runs of a job whose mean is told, and from how many seconds on that matters
BRIEF_SECONDS = 1.0  # a load that was measured for less shows its warming up
RESIDENT, VIRTUAL = "process_resident_memory_bytes", "process_virtual_memory_bytes"
WORTH_GROWTH = 16 * 2**20  # bytes; less is what programs gain and lose all the time
WORK = ("work.seconds", "work.latency", "work.rate")
GROUP = "\t"  # between the parts of a source's name


@dataclass(frozen=True, slots=True)
class Side:
    """A figure in one state from one source: mean, number of samples, its first and last line.

    `busy` is how busy the CPUs were, `user` how much of it the programs got, `last` the mean of the stretch's end;
    None if unknown. `order` is the place of the state in time, `state` its name. Of less than `worth` nobody was hurt.

    Of work done: `title` says what of it, `rising` that more is better, `runs` are all values, `step` the last digit
    that was printed, `kernel` the seconds in the kernel; `own` is what the program's own switch says; its
    first run `warms` up, or it was too `brief`. `doubt` is why the figure may mislead, `hearsay` why the setting may.
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
        """In time: that of the state, and within it the line."""
        return None if self.order is None else (self.order, self.cite.line or 0)


Sides = Mapping[str, Side]  # by source


def sides(metric: str, view: StateView) -> Sides:
    """The metric in one state, by source: a reader, a job, a process."""
    key = ("toggle", metric)
    if key not in view.catalogue.memo:
        view.catalogue.memo[key] = dict(_sides(metric, view))
    found: Sides = view.catalogue.memo[key]
    return found


def _sides(metric: str, view: StateView) -> Iterator[tuple[str, Side]]:
    match metric:
        case "sys_share":
            yield from _means(metric, view, "cpu_ratio.sys_share")
        case "sys_total":
            yield from _means(metric, view, "cpu_ratio.sys_total")
            yield from _means(metric, view, "cpu_ratio.sys_total_steal")
        case "compaction_share":
            yield from _compaction(view)
        case "compact_stall_rate":
            yield from _rates(metric, view, "node_vmstat_compact_stall")
        case "rss_slope":
            yield from _growth(view)
        case "work_rate":
            yield from _work(view)


def _side(metric: str, track: Track, mean: float, samples: int, last: float) -> Side:
    known = compared_figures()[metric]
    first, until = track.cite(0), track.cite(len(track) - 1)
    return Side(mean, samples, first, until, known.unit, known.title, known.worth, last=last)


def _means(metric: str, view: StateView, name: str) -> Iterator[tuple[str, Side]]:
    """The mean, of a share of busy time weighted by how busy the CPUs were (kernel time over busy time, summed)."""
    for track in reversed(view.catalogue.tracks(name)):
        busy, user = _companion_column(track, "cpu_ratio.busy"), _companion_column(track, "cpu_ratio.user_total")
        weighted = busy is not None and track.metric == "cpu_ratio.sys_share"
        values, weights = track.column, busy if weighted else None
        end = max(LAST, len(track) // 3)
        mean = _weighted_mean(values, weights)
        last = _weighted_mean(values[-end:], None if weights is None else weights[-end:])
        side = _side(metric, track, mean, len(track), last)
        yield track.table.reader, replace(side, busy=_average(busy), user=_average(user))


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


def _rates(metric: str, view: StateView, name: str) -> Iterator[tuple[str, Side]]:
    for track in reversed(view.catalogue.tracks(name)):
        if points := rates(track):
            mean, end = float(points.values.mean()), max(LAST, len(points) // 3)
            last = float(points.values[-end:].mean())
            yield track.table.reader, _side(metric, track, mean, len(points), last)


def _compaction(view: StateView) -> Iterator[tuple[str, Side]]:
    """Compaction that page faults may have asked for: with defrag=defer kcompactd does the work instead.

    A profile without callers cannot tell and is compared with another such one only.
    """
    known = compared_figures()["compaction_share"]
    for source in cpu_time_profiles(view.state.profiles):
        profile = compiled_profile(source)
        if profile.weight > 0 and (profile.samples is None or profile.samples >= 50):
            share, flat = profile.share("compaction", without=FOR_OTHERS), source.stacks is Stacks.NONE
            name = f"{source.reader}{' without callers' if flat else ''}"
            cite = source.cite
            yield name, Side(share, profile.samples or 1, cite, cite, known.unit, known.title, known.worth)


def _growth(view: StateView) -> Iterator[tuple[str, Side]]:
    """How fast the resident memory of each process grew, of those that mapped no more memory meanwhile."""
    for entity in view.catalogue.entities("process", with_memory=True):
        for track in view.catalogue.tracks(RESIDENT, entity)[:1]:
            seconds, values, mapped = track.seconds, track.column, _companion_column(track, VIRTUAL)
            if seconds is None or len(track) < LAST or (span := float(seconds[-1] - seconds[0])) <= 0:
                continue
            grown, end = float(values[-1] - values[0]), max(LAST, len(track) // 3)
            last = float(values[-1] - values[-end]) / (float(seconds[-1] - seconds[-end]) or 1.0)
            side = _side("rss_slope", track, grown / span, len(track), last)
            own = mapped is not None and float(mapped[-1] - mapped[0]) < grown / 2
            doubt = "" if own else "whether the program mapped more memory meanwhile is not known, or it did"
            names = dict(entity)
            found = replace(side, worth=WORTH_GROWTH / span, doubt=doubt if grown > 0 else "")
            yield f"{names.get('comm', '')} {names.get('pid', '')}", found


def _work(view: StateView) -> Iterator[tuple[str, Side]]:
    """What one and the same job took, or did in a second; several runs give the median."""
    found: dict[tuple[str, ...], list[Fact]] = {}
    for fact in (fact for name in WORK for fact in view.facts(name)):
        bare, own = own_switch(fact.label("job") or "")
        key = (bare, own, fact.name, fact.label("kind") or "real", fact.label("title") or "")
        found.setdefault(key, []).append(fact)
    for (bare, own, name, kind, title), runs in found.items():
        if name == "work.seconds" and kind != "real":
            continue
        kernel = found.get((bare, own, name, "sys", title), ())
        yield GROUP.join((bare, own, name, kind, title)), _runs(runs, own, kernel)


def _runs(runs: list[Fact], own: str, kernel: Iterable[Fact]) -> Side:
    first, values = runs[0], tuple(float(run.value) for run in runs)
    ends = tuple(float(end) for run in runs for end in (run.label("least"), run.label("most")) if end)
    count = sum(int(run.label("runs") or 1) for run in runs)
    kernel_seconds = sorted(float(fact.value) for fact in kernel)
    kind, rising = first.label("kind") or "real", first.name == "work.rate"
    title = "time for the same work"
    if rising:
        title = f"{kind} per second"
    elif first.name == "work.latency":
        title = f"{kind} of the latency"
    of = " ".join(filter(None, (first.label("tool"), first.label("title"))))
    brief = any(float(run.label("lasted") or BRIEF_SECONDS) < BRIEF_SECONDS for run in runs)
    tool = first.label("tool") or ""
    worth = WORTH_SECONDS.get(first.name, 0.0)
    if count >= MANY_RUNS:
        worth = min(worth, WORTH_OF_MANY)
    return Side(
        sorted(values)[len(values) // 2], count, first.cite, runs[-1].cite,
        "1/s" if rising else "seconds", f"{title} ({of})" if of else title,
        worth=worth, last=values[-1] if len(values) > 1 else None, rising=rising,
        runs=ends or values * count, step=float(first.label("step") or 0.0), own=own,
        kernel=kernel_seconds[len(kernel_seconds) // 2] if kernel_seconds else None,
        warms=first.name != "work.seconds" and (not tool or tool in work_lines().warms),
        brief=brief,
    )  # fmt: skip


KNOBS = ("thp.enabled", "thp.defrag")  # what is often switched together
OF_PROGRAM = "thp.of_program"  # a program's own switch, in the command of a job
SERVICE = "thp.service."
OF_PARTS = {  # how the settings of single sizes and services begin and end
    "thp.size.enabled": ("thp.hugepages-", ".enabled"),
    "thp.size.shmem_enabled": ("thp.hugepages-", ".shmem_enabled"),
    "thp.of_service": (SERVICE, ""),
}
SAME_LOAD = 0.25  # busy CPU of the one side must be at least this part of the other's, else it is another workload
HELD = 0.5  # part of the difference that must still be there at the end of the earlier stretch
SAME_WORK = 0.8  # for kernel time alone: the programs must have got this part of their time before, else the load fell
NOTICEABLE = 1.25  # times as long, if it is the kernel's part of the work that rose by the ratio that is asked for
REPEATED = 3  # runs a side for that; a single first run fills caches, in the kernel

OF_SOURCES = ("work_rate", "rss_slope")  # of each job, and of each process
Knobs = tuple[tuple[str, str], ...]  # settings and their values, first the one that is compared


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric under both values of the setting."""

    metric: str
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

    def exchange(self) -> Contrast:
        """The same two sides where the more permissive value is expected to be the better one."""
        return replace(
            self, worse_knobs=self.better_knobs, better_knobs=self.worse_knobs, worse=self.better, better=self.worse
        )

    def alone(self, settings: Sequence[str]) -> bool:
        """Whether nothing but these settings was switched. What `enabled` shows is of huge pages; so is defrag."""
        others = (*(name for name, _, _ in self.differences), *self.half_known)
        return self.setting == "thp.enabled" or all(name in settings for name in others)

    @property
    def half_known(self) -> Sequence[str]:
        """The settings that may have been switched as well: known of one side only, and not at their most permissive
        value on the better one."""
        before, after = dict(self.worse_knobs), dict(self.better_knobs)
        gone = [name for name in before if name not in after]
        return [*gone, *(name for name, value in after.items() if name not in before and value != "always")]

    @property
    def ratio(self) -> float:
        return self._ratio_within(0.0)

    def _ratio_within(self, off: float) -> float:
        """How many times better, if what was printed is off by this in favour of the worse."""
        more, less = (self.better, self.worse) if self.worse.rising else (self.worse, self.better)
        if less.mean + off > 0:
            return (more.mean - off) / (less.mean + off)
        return float("inf") if more.mean > off else 1.0

    def is_at_least(self, ratio: float) -> bool:
        """Whether it was so many times as much, rounding apart, and enough to matter."""
        times = self._ratio_within(max(self.worse.step, self.better.step) / 2)
        of_kernel = times >= NOTICEABLE and (self.kernel_ratio or 0.0) >= ratio
        return (times >= ratio or of_kernel) and self.worse.mean >= self.worse.worth

    @property
    def kernel_ratio(self) -> float | None:
        """How many times the kernel's part of the same work was as long, if that part is what got better."""
        worse, better = self.worse.kernel, self.better.kernel
        if not worse or not better or self.samples < REPEATED:
            return None
        return worse / better if worse - better >= HELD * (self.worse.mean - self.better.mean) > 0 else None

    @property
    def subject(self) -> tuple[str, ...]:
        """What is compared, whatever the source."""
        return (
            self.metric,
            self.source if self.metric in OF_SOURCES else "",
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
        if worse.place is None or better.place is None or self.ratio <= 1:
            return True
        first, other = (worse, better) if worse.place < better.place else (better, worse)
        return first.last is None or (first.last - other.mean) / (first.mean - other.mean) >= HELD

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
    """The figure; latencies are of milliseconds."""
    if side.unit == "seconds" and 0 < side.mean < 0.1:
        return f"{side.mean * 1000:.3g} ms"
    return format_quantity(side.mean, side.unit)


def _samples(count: int) -> str:
    return f"{count} sample" if count == 1 else f"{count} samples"


def judge(check: ToggleCheck, view: StateView) -> CheckResult:
    """Yes if a metric moved by the ratio; no if what could be compared did not; unknown without two such states.

    It is the state with the worse value that a yes speaks of.
    """
    toggle, settings = check.toggle, _names(check.toggle.settings, view)
    several = len(view.others) > 1  # a program's own switch alone differs within one state, from job to job
    asked = [(s, m) for s in settings for m in toggle.metrics if (m == "work_rate" if s == OF_PROGRAM else several)]
    contrasts = [c for s, m in asked for c in _contrasts(s, m, view)]
    if not contrasts:
        return unknown_result(check, OTHER_SETTING, _what_is_missing(toggle, view))
    if toggle.expected == "better":
        contrasts = [c.exchange() for c in contrasts]
    sound = [c for c in contrasts if _enough(c, toggle) and _same_load(c) and c.with_the_switch and c.alone(settings)]
    ratio = parse_quantity(toggle.ratio)
    noise = [c for c in sound if c.is_at_least(ratio) and _noise(c, view)]
    usable = _decisive([c for c in sound if c not in noise and not _less_work(c, sound)])
    if any(c.is_at_least(ratio) for c in usable):
        often = [(c, _switches(c, view, _least(c, toggle))) for c in usable]
        usable = [c for c, times in often if times is not None and (toggle.switches == 1 or times >= toggle.switches)]
    if not usable:
        return unknown_result(check, OTHER_SETTING, _why_not(contrasts, toggle, settings, view))
    doubts = {id(c): _doubts(c, settings, view) for c in usable}
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
    if value is YES and not doubt and best.metric != "work_rate" and _is_work_open(settings, ratio, view):
        # Where the time of a job is known of one side only, how long it took on the other may say something else.
        surer = "the time that the same job took under both settings"

    def words() -> str:
        return "; but ".join((best.describe(), *doubt))

    return CheckResult(check, value, words, best.worse.cite, best.ratio, weak=bool(surer), surer=surer)


def _names(settings: Sequence[str], view: StateView) -> list[str]:
    """The settings, those of single sizes and services by what was set."""
    known = sorted({name for other in view.others for name in _values(other)})
    parts = [ends for name, ends in OF_PARTS.items() if name in settings]
    single = [name for name in known if any(name.startswith(start) and name.endswith(end) for start, end in parts)]
    return [*(name for name in settings if name not in OF_PARTS), *single]


def _is_work_open(settings: Sequence[str], ratio: float, view: StateView) -> bool:
    """Whether work was measured somewhere, and did not get better by as much."""
    if not any(sides("work_rate", other) for other in view.others):
        return False
    return not any(c.is_at_least(ratio) for s in settings for c in _contrasts(s, "work_rate", view))


def _less_work(contrast: Contrast, every: Sequence[Contrast]) -> bool:
    """Whether a latency fell because less was done: the same load did less work per second on that side."""
    job = contrast.source.split(GROUP)[0]
    return contrast.metric == "work_rate" and any(
        other.worse.rising
        and other.ratio < SAME_WORK
        and other.source.split(GROUP)[0] == job
        and (other.worse.state, other.better.state) == (contrast.worse.state, contrast.better.state)
        for other in every
        if other.metric == "work_rate" and not contrast.worse.rising
    )


def _noise(contrast: Contrast, view: StateView) -> str:
    """Why a figure that got better shows nothing: single runs that differ by as much, or one that only warmed up."""
    worse, better = contrast.worse, contrast.better
    if worse.brief or better.brief:
        return "it was measured for less than a second"
    low, high = (better, worse) if worse.rising else (worse, better)
    if worse.runs and better.runs and min(low.runs) <= max(high.runs):
        return "single runs differ by as much"
    if worse.kernel is None or better.kernel is None or not _is_first(contrast, view):
        return ""
    # Huge pages cost time in the kernel; what a first run waits for is files, or its own code to be made ready.
    of_kernel = worse.kernel - better.kernel >= HELD * (worse.mean - better.mean)
    return (
        ""
        if of_kernel
        else "the first run took longer for other reasons than the kernel: it reads from disk what is in memory later"
    )


def _is_first(contrast: Contrast, view: StateView) -> bool:
    """Whether the worse side is one run, before the others, and the setting was not switched back."""
    worse, better = contrast.worse, contrast.better
    later = worse.place is not None and better.place is not None and worse.place > better.place
    return len(worse.runs) == 1 and not later and (_switches(contrast, view, 1) or 0) < 2


def _doubts(contrast: Contrast, settings: Sequence[str], view: StateView) -> tuple[str, ...]:
    """Why what got better may have done so without the switch."""
    worse, better = contrast.worse, contrast.better
    found = [one for one in dict.fromkeys((worse.doubt, better.doubt, worse.hearsay, better.hearsay)) if one]
    changes = _changes(contrast, settings, view)
    if (_switches(contrast, view, 1) or 0) >= 2:  # what goes with each switch needs no other reason
        changes = [change for change in changes if change.startswith("tuning profile")]  # which goes along
    elif worse.kernel is None and worse.warms and _is_first(contrast, view):
        found.append("a first run is slower than later ones regardless of the setting")
    if changes:
        found.append(f"something else was changed as well: {', '.join(changes)}; which change helped is unknown")
    return tuple(found)


def _changes(contrast: Contrast, settings: Sequence[str], view: StateView) -> list[str]:
    """What else differs between the two sides: what was done before the one measurement and not before the other."""
    spans = [
        side for other in view.others for name, side in sides(contrast.metric, other).items() if name == contrast.source
    ]
    done = [(e.cite.member, e.cite.line or 0, what) for e in _operator_events(view) if (what := _action(e, settings))]
    before = [
        {what for member, line, what in done if _is_just_before(member, line, side, spans)}
        for side in (contrast.worse, contrast.better)
    ]
    found = sorted(before[0] ^ before[1])
    states = {other.state.id: other.state.settings for other in view.others}
    old, new = (states.get(side.state, {}) for side in (contrast.worse, contrast.better))
    if (contrast.setting, contrast.better_value) != ("thp.enabled", "never"):
        found += sorted(
            f"{name} {quoted(old[name])}, then {quoted(new[name])}"
            for name in old.keys() & new.keys() - {*settings, *KNOBS}
            if old[name] != new[name]
        )
    first, last = sorted((contrast.worse, contrast.better), key=lambda side: side.place or (0, 0))
    kernels, uptimes, boot_lines = (
        [_nearest([f for f in view.case.facts if f.name == name], side) for side in (first, last)]
        for name in ("kernel.release", "uptime.seconds", "boot.cmdline")
    )
    if boot_lines[0] and boot_lines[1] and boot_lines[0].value != boot_lines[1].value:
        found.append("a boot with another boot line")
    if kernels[0] and kernels[1] and kernels[0].value != kernels[1].value:
        found.append(f"another kernel ({quoted(kernels[0].value)}, then {quoted(kernels[1].value)})")
    if uptimes[0] and uptimes[1]:
        off = sum(float(fact.label(ERROR_LABEL) or 0.0) for fact in uptimes if fact)
        if float(uptimes[0].value) - off > float(uptimes[1].value):
            found.append("a reboot")
    return found


def _operator_events(view: StateView) -> Iterator[Event]:
    for other in view.others:
        yield from (event for event in other.state.events if event.kind in OPERATOR_KINDS)


def _action(event: Event, settings: Sequence[str]) -> str:
    """What somebody did that is no switch of these, or of huge pages; nothing, if it is one or had no effect."""
    fields = event.fields
    setting = fields.get("setting", "")
    if fields.get("how") not in (None, "prompt") or setting.startswith("thp.") or setting in settings:
        return ""
    if event.kind == "operator_change":
        return " of ".join(filter(None, (fields["what"], fields.get("of", ""))))
    name = fields.get("setting", event.kind).removeprefix("sysctl.")
    return f"{name} = {quoted(fields['value'])}" if "value" in fields else name


def _is_just_before(member: str, line: int, side: Side, every: Sequence[Side]) -> bool:
    """Whether it was done in the time of a measurement, or since the one before."""
    if member != side.cite.member or line > (side.until.line or 0):
        return False
    begins = side.cite.line or 0
    ends = [other.until.line or 0 for other in every if other.until.member == member]
    return line > max((end for end in ends if end < begins), default=0)


def _nearest(facts: Sequence[Fact], side: Side) -> Fact | None:
    """What was read last before a measurement, or in the same bundle."""
    place = (side.until.member, side.until.line or 0)
    above = [f for f in facts if f.cite.member == place[0] and (f.cite.line or 0) <= place[1]]
    root = root_of(place[0])
    beside = [f for f in facts if root and root_of(f.cite.member) == root and f.cite.member != place[0]]
    return max(above, key=lambda f: f.cite.line or 0) if above else beside[0] if beside else None


def _switches(contrast: Contrast, view: StateView, least: int) -> int | None:
    """How often the setting went from one of the values to the other, and the figure with it, halfway or more.

    None if it did not go with it somewhere: then something else moved it.
    """
    middle, count, before = (contrast.worse.mean + contrast.better.mean) / 2, 0, None
    worse_value = dict(contrast.worse_knobs)[contrast.setting]
    for other in sorted((v for v in view.others if v.state.order is not None), key=lambda v: v.state.order or 0):
        value = _value(other, contrast.setting)
        side = sides(contrast.metric, other).get(contrast.source)
        if side is None or side.samples < least or value not in (contrast.better_value, worse_value):
            continue
        if (side.mean < middle) is not (value == contrast.better_value) ^ side.rising:
            return None
        count += before is not None and before != value
        before = value
    return count


def _decisive(contrasts: Sequence[Contrast]) -> Sequence[Contrast]:
    """The time that the same work took, if that was measured: less kernel time is no gain where less is done.

    Of several sources of a metric the one with the most samples; jobs and processes are no such sources.
    """
    if work := [c for c in contrasts if c.metric == "work_rate"]:
        return work
    most: dict[tuple[str, ...], int] = {}
    for one in contrasts:
        most[one.subject] = max(one.samples, most.get(one.subject, 0))
    return [one for one in contrasts if one.samples == most[one.subject]]


def _is_worse_state(contrast: Contrast, view: StateView) -> bool:
    """Whether a contrast speaks of this state: that it was better elsewhere says nothing of the better one."""
    if contrast.setting == OF_PROGRAM:
        return view.state.id == contrast.worse.state
    return _value(view, contrast.setting) != contrast.better_value


def _values(view: StateView) -> Mapping[str, str]:
    """The settings of a state, as the kernel shows them or a label tells them."""
    return {**view.state.labels, **view.state.settings}


def _enough(contrast: Contrast, check: Toggle) -> bool:
    return contrast.samples >= _least(contrast, check)


def _least(contrast: Contrast, check: Toggle) -> int:
    return 1 if compared_figures()[contrast.metric].whole else check.min_samples


def _same_load(contrast: Contrast) -> bool:
    worse, better = contrast.worse, contrast.better
    if contrast.metric == "sys_total":
        return worse.user is not None and better.user is not None and better.user >= SAME_WORK * worse.user
    if worse.busy is None or better.busy is None:
        return True
    return min(worse.busy, better.busy) >= SAME_LOAD * max(worse.busy, better.busy)


def _why_not(contrasts: Sequence[Contrast], check: Toggle, settings: Sequence[str], view: StateView) -> str:
    """Why none of the contrasts, of which there are some, decides anything."""
    contrast = contrasts[0]
    title = contrast.worse.title
    if not contrast.alone(settings):
        if half := [name for name in contrast.half_known if name not in settings]:
            return f"whether {' and '.join(half)} was switched as well is not in the input"
        names = " and ".join(name for name, _, _ in contrast.differences)
        return f"{names} were switched together; which of them had the effect is unknown"
    if not _same_load(contrast):
        return "the two stretches have different loads and cannot be compared"
    if not contrast.with_the_switch:
        return f"{title} had changed before the setting was switched"
    if noise := _noise(contrast, view):
        return f"{title}: {noise}"
    if _less_work(contrast, contrasts):
        return "less was done per second on the side with the shorter latency"
    if _enough(contrast, check) and check.switches == 1:
        return f"{title} did not follow each switch of the setting"
    if _enough(contrast, check):
        return f"the setting was switched fewer than {check.switches} times"
    return f"fewer than {check.min_samples} samples on one side"


def _what_is_missing(check: Toggle, view: StateView) -> str:
    """Why there are no two sides of one thing."""
    jobs = sorted({name.split(GROUP)[0] for v in view.others for name in sides("work_rate", v)} - {""})
    if "work_rate" in check.metrics and len(view.others) > 1 and len(jobs) > 1:
        return f"no job was measured under both settings; these are different ones: {', '.join(map(quoted, jobs[:3]))}"
    unclear = (e.fields.get("profile") for e in _operator_events(view) if e.fields.get("how") == "unclear")
    if profile := next(filter(None, unclear), ""):
        return f"what tuned's profile {quoted(profile)} sets is not known"
    return "no two stretches with different settings and enough samples"


def _contrasts(setting: str, metric: str, view: StateView) -> Iterator[Contrast]:
    """Every pair of values of the setting, each source against itself; the other settings stand beside each value."""
    by_value: dict[Knobs, dict[str, Side]] = {}
    for other in view.others:
        settings = _values(other)
        beside = [(name, settings[name]) for name in KNOBS if name != setting and name in settings]
        for source, side in sides(metric, other).items():
            value, name = _value(other, setting), source
            if setting == OF_PROGRAM:
                bare, _, *rest = source.split(GROUP)  # the name of a job's figure without what its own switch says
                value, name = side.own or "default", GROUP.join((bare, "", *rest))
            if value is None:
                continue
            knobs = ((setting, value), *beside)
            known, said = by_value.setdefault(knobs, {}), _hearsay(other, setting)
            side = replace(side, order=other.state.order, state=other.state.id, hearsay=said)
            if name not in known or known[name].samples < side.samples:
                known[name] = side
    for better, worse in combinations(sorted(by_value, key=lambda knobs: permissiveness(*knobs[0])), 2):
        for source in by_value[better].keys() & by_value[worse].keys() if better[0] != worse[0] else ():
            yield Contrast(metric, worse, better, by_value[worse][source], by_value[better][source], source)


def _value(view: StateView, setting: str) -> str | None:
    """The value of a setting; a service has its default until it is restarted with another, and so has a host."""
    of_service = setting.startswith(SERVICE) and view.state.order is not None
    usual = (str(f.value) for f in view.state.facts if f.name == setting and f.provenance == "assumed")
    return _values(view).get(setting, "default" if of_service else next(usual, None))


def _hearsay(view: StateView, setting: str) -> str:
    """Why the value of a setting is not sure; nothing if it is."""
    if setting in view.state.labels:
        return "only a heading or a file name states the setting"
    known = setting in view.state.settings or setting.startswith(SERVICE) or setting == OF_PROGRAM
    return (
        "" if known else f"{setting} {quoted(_value(view, setting) or '')} is the default here, and it was not measured"
    )
