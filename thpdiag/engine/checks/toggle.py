"""`toggle`: two states of the host that differ in one setting, compared. The strongest evidence there is.

The state with the more permissive value is expected to be worse. A metric counts only with enough samples on both sides and
the same kind of load; system time alone need not fall after a cure (4 KiB faults take over), so any of several will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from thpdiag.derive.rates import rates
from thpdiag.engine.judged import NO, YES, Judged, Scene, unknown
from thpdiag.engine.quantity import quantity
from thpdiag.engine.schema import Toggle, ToggleMetric
from thpdiag.engine.stacks import compiled
from thpdiag.model import Citation

PERMISSIVE = (
    "never",
    "0",
    "no",
    "madvise",
    "defer",
    "defer+madvise",
    "1",
    "yes",
    "always",
)  # from strict to permissive
SAME_LOAD = 0.25  # busy CPU of the one side must be at least this part of the other's, else it is another workload


@dataclass(frozen=True, slots=True)
class Side:
    """A metric in one state: mean, number of samples, a line of it, and how busy the CPUs were (None if unknown)."""

    mean: float
    samples: int
    cite: Citation
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """One metric under both values of the setting."""

    metric: str
    setting: str
    worse_value: str
    better_value: str
    worse: Side
    better: Side

    @property
    def ratio(self) -> float:
        return self.worse.mean / self.better.mean if self.better.mean > 0 else float("inf")

    def said(self) -> str:
        shown = "%.1f %%" if self.metric in ("sys_share", "sys_total", "compaction_share") else "%.3g"
        scale = 100 if "%%" in shown else 1
        worse, better = shown % (self.worse.mean * scale), shown % (self.better.mean * scale)
        times = f"{self.ratio:.1f} times" if self.ratio != float("inf") else "from nothing"
        return (
            f"{self.setting} {self.worse_value}: {_title(self.metric)} {worse} ({self.worse.samples} samples); "
            f"{self.better_value}: {better} ({self.better.samples} samples), {times}"
        )


def _title(metric: str) -> str:
    return {
        "sys_share": "kernel share of busy CPU time", "sys_total": "CPU time in the kernel",
        "compaction_share": "samples in compaction", "compact_stall_rate": "compaction stalls per second",
        "work_rate": "seconds for the same work", "fault_rate": "huge-page faults per second",
    }[metric]  # fmt: skip


def judge(check: Toggle, scene: Scene) -> Judged:
    """Yes if a metric moved by the ratio; no if what could be compared did not; unknown without two such states."""
    settings = [check.setting] if isinstance(check.setting, str) else check.setting
    needed = f"{' or '.join(settings)} switched, one of {', '.join(check.metrics)} {check.ratio} times as high before"
    contrasts = [c for s in settings for m in check.metrics for c in _contrasts(s, m, scene)]
    usable = [c for c in contrasts if _enough(c, check) and _same_load(c)]
    if not usable:
        text = (
            "no two stretches with different settings and enough samples"
            if not contrasts
            else _why_not(contrasts[0], check)
        )
        return unknown(tuple(settings), text, needed=needed, kind="toggle")
    best = max(usable, key=lambda c: (c.ratio >= quantity(check.ratio), c.metric != "sys_total", c.ratio))
    value = YES if best.ratio >= quantity(check.ratio) else NO
    return Judged(value, best.said(), needed, "toggle", best.worse.cite, best.ratio)


def _enough(contrast: Contrast, check: Toggle) -> bool:
    least = 1 if contrast.metric in ("work_rate", "compaction_share") else check.min_samples
    return min(contrast.worse.samples, contrast.better.samples) >= least


def _same_load(contrast: Contrast) -> bool:
    one, other = contrast.worse.busy, contrast.better.busy
    return one is None or other is None or min(one, other) >= SAME_LOAD * max(one, other)


def _why_not(contrast: Contrast, check: Toggle) -> str:
    if not _same_load(contrast):
        return "the two stretches have different loads and cannot be compared"
    return f"fewer than {check.min_samples} samples on one side"


def _contrasts(setting: str, metric: ToggleMetric, scene: Scene) -> Iterator[Contrast]:
    sides: dict[str, Side] = {}
    for other in scene.others:
        value = other.state.settings.get(setting)
        side = _side(metric, other) if value is not None else None
        if value is not None and side is not None and (value not in sides or sides[value].samples < side.samples):
            sides[value] = side
    for one, two in combinations(sorted(sides, key=_permissive), 2):
        yield Contrast(metric, setting, two, one, sides[two], sides[one])


def _permissive(value: str) -> int:
    return PERMISSIVE.index(value) if value in PERMISSIVE else len(PERMISSIVE)


def _side(metric: ToggleMetric, scene: Scene) -> Side | None:
    match metric:
        case "sys_share":
            return _mean(scene, "cpu_ratio.sys_share")
        case "sys_total":
            return _mean(scene, "cpu_ratio.sys_total") or _mean(scene, "cpu_ratio.sys_total_steal")
        case "compaction_share":
            return _compaction(scene)
        case "compact_stall_rate":
            return _rate(scene, "node_vmstat_compact_stall")
        case "fault_rate":
            return _rate(scene, "node_vmstat_thp_fault_alloc")
        case "work_rate":
            return _work(scene)


def _mean(scene: Scene, metric: str) -> Side | None:
    """The mean, of a share of busy time weighted by how busy the CPUs were (kernel time over busy time, summed)."""
    tracks = scene.catalogue.tracks(metric)
    if not tracks:
        return None
    points = tracks[0].points
    busy = [s.values["cpu_ratio.busy"] for _, _, s in points if "cpu_ratio.busy" in s.values]
    whole = len(busy) == len(points) and sum(busy) > 0
    weights = busy if whole and metric == "cpu_ratio.sys_share" else [1.0] * len(points)
    mean = sum(v * w for (_, v, _), w in zip(points, weights, strict=True)) / sum(weights)
    return Side(mean, len(points), tracks[0].cite(0), sum(busy) / len(busy) if busy else None)


def _rate(scene: Scene, metric: str) -> Side | None:
    tracks = scene.catalogue.tracks(metric)
    points = rates(tracks[0]) if tracks else ()
    if not points:
        return None
    return Side(sum(v for _, v, _ in points) / len(points), len(points), points[0][2].cite)


def _compaction(scene: Scene) -> Side | None:
    for source in scene.state.profiles:
        profile = compiled(source)
        if profile.weight > 0 and (profile.samples is None or profile.samples >= 50):
            inside = sum(r.weight for r in profile.rows if profile.place(r, ["compaction"]) is not None)
            return Side(inside / profile.weight, profile.samples or 1, source.cite)
    return None


def _work(scene: Scene) -> Side | None:
    """Seconds that one and the same job took; several runs give the median."""
    runs = [f for f in scene.facts("work.seconds") if f.label("kind") in (None, "real")]
    jobs = {f.label("job") for f in runs}
    if len(jobs) != 1:
        return None
    seconds = sorted(float(f.value) for f in runs)
    return Side(seconds[len(seconds) // 2], len(seconds), runs[0].cite)
