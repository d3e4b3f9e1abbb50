"""What `toggle` compares: a figure in one state of the host, from one source.

Series give their mean, jobs and load generators the median of their runs, by job and by what was measured of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from thpdiag.engine.stacks import cpu_time_profiles
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.host.rates import rates
from thpdiag.host.series import Track
from thpdiag.knowledge.switches import compared
from thpdiag.knowledge.workloads import own_switch, workloads
from thpdiag.model import Citation, Fact, Stacks

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
    known = compared()[metric]
    first, until = track.cite(0), track.cite(len(track) - 1)
    return Side(mean, samples, first, until, known.unit, known.title, known.worth, last=last)


def _means(metric: str, view: StateView, name: str) -> Iterator[tuple[str, Side]]:
    """The mean, of a share of busy time weighted by how busy the CPUs were (kernel time over busy time, summed)."""
    for track in reversed(view.catalogue.tracks(name)):
        busy, user = _companion_column(track, "cpu_ratio.busy"), _companion_column(track, "cpu_ratio.user_total")
        weighted = busy is not None and track.metric == "cpu_ratio.sys_share"
        values, weights = track.column, busy if weighted else None
        end = max(LAST, len(track) // 3)
        mean, last = (_weighted_mean(values, weights), _weighted_mean(values[-end:], _end(weights, end)))
        side = _side(metric, track, mean, len(track), last)
        yield track.table.reader, replace(side, busy=_average(busy), user=_average(user))


def _end(weights: Column | None, end: int) -> Column | None:
    return None if weights is None else weights[-end:]


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
    known = compared()["compaction_share"]
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
    for fact in _work_facts(view):
        bare, own = own_switch(fact.label("job") or "")
        key = (bare, own, fact.name, fact.label("kind") or "real", fact.label("title") or "")
        found.setdefault(key, []).append(fact)
    for (bare, own, name, kind, title), runs in found.items():
        if name == "work.seconds" and kind != "real":
            continue
        kernel = found.get((bare, own, name, "sys", title), ())
        yield GROUP.join((bare, own, name, kind, title)), _runs(runs, own, kernel)


def _work_facts(view: StateView) -> Iterator[Fact]:
    for name in ("work.seconds", "work.latency", "work.rate"):
        yield from view.facts(name)


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
        warms=first.name != "work.seconds" and (not tool or tool in workloads().warms),
        brief=brief,
    )  # fmt: skip
