"""What happened between samples: deltas and rates of counters, runs of values, slopes and bends.

A counter that falls was reset (reboot, new process): that interval is a gap, never a negative rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from thpdiag.derive.series import Track
from thpdiag.model import Moment, Sample

Point = tuple[float | None, float, Sample]


@dataclass(frozen=True, slots=True)
class Interval:
    """Growth of a counter between two samples. `seconds` is None where the source has no clock."""

    seconds: float | None
    delta: float
    end: Sample
    at: float | None

    @property
    def rate(self) -> float | None:
        return self.delta / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class Run:
    """The longest stretch of consecutive points for which a condition held."""

    points: tuple[Point, ...]
    seconds: float | None  # with one typical step added, for a value speaks for the interval that it ends


def intervals(track: Track) -> tuple[Interval, ...]:
    """Growth between consecutive samples; resets and standing clocks are left out."""
    found = []
    for (t0, v0, _), (t1, v1, sample) in pairwise(track.points):
        seconds = t1 - t0 if t0 is not None and t1 is not None else None
        if v1 < v0 or (seconds is not None and seconds <= 0):
            continue
        found.append(Interval(seconds, v1 - v0, sample, t1))
    return tuple(found)


def growth(track: Track) -> float | None:
    """What a counter grew by over the whole track, resets left out; None with fewer than two samples."""
    steps = intervals(track)
    return sum(step.delta for step in steps) if steps else None


def change(track: Track) -> float | None:
    """Last value minus first, for gauges; None with fewer than two samples."""
    return track.points[-1][1] - track.points[0][1] if len(track.points) > 1 else None


def rates(track: Track) -> tuple[Point, ...]:
    """The counter as points of a rate per second; empty where the source has no clock."""
    return tuple((step.at, step.rate, step.end) for step in intervals(track) if step.rate is not None)


def span(points: Sequence[Point]) -> tuple[Moment, Moment] | None:
    """First and last moment of the points, None without a clock."""
    first, last = (points[0][2].time, points[-1][2].time) if points else (None, None)
    return (first, last) if first and last and first.clock is last.clock else None


def longest_run(points: Sequence[Point], holds: Callable[[float], bool]) -> Run:
    """The longest consecutive stretch of points whose value fits."""
    best: list[Point] = []
    current: list[Point] = []
    for point in points:
        current = [*current, point] if holds(point[1]) else []
        if len(current) > len(best):
            best = current
    return Run(tuple(best), _seconds(best, points))


def _seconds(run: Sequence[Point], points: Sequence[Point]) -> float | None:
    times = [t for t, _, _ in points]
    if not run or any(t is None for t in times):
        return None
    known = [t for t in times if t is not None]
    steps = sorted(b - a for a, b in pairwise(known))
    typical = steps[len(steps) // 2] if steps else 0.0
    first, last = run[0][0], run[-1][0]
    return (last or 0.0) - (first or 0.0) + typical


def slope(points: Sequence[Point]) -> float | None:
    """Least-squares growth per second; None without a clock or with fewer than three points."""
    known = [(t, v) for t, v, _ in points if t is not None]
    if len(known) < 3 or len(known) < len(points):
        return None
    n = len(known)
    mean_t, mean_v = sum(t for t, _ in known) / n, sum(v for _, v in known) / n
    spread = sum((t - mean_t) ** 2 for t, _ in known)
    return sum((t - mean_t) * (v - mean_v) for t, v in known) / spread if spread else None


@dataclass(frozen=True, slots=True)
class Knee:
    """A curve that grows fast, then slowly: both rates per second and the sample at the bend."""

    before: float
    after: float
    at: Sample

    @property
    def ratio(self) -> float:
        return self.after / self.before


def knee(points: Sequence[Point], least: int = 10) -> Knee | None:
    """The bend that leaves the smallest squared error of two straight lines; None with fewer than `least` timed points.

    The rate after the bend is taken up to the last growth, so that a curve that has simply ended its work has no
    slow phase: standing still at the end is cut off first.
    """
    known = [(t, v, s) for t, v, s in points if t is not None]
    top = max((v for _, v, _ in known), default=0.0)
    while len(known) > 2 and known[-2][1] >= top and known[-1][1] >= top:
        known.pop()
    if len(known) < least or len(known) < len(points) // 2:
        return None
    best: tuple[float, int] | None = None
    for i in range(1, len(known) - 2):
        error = _error(known[: i + 1]) + _error(known[i:])
        best = (error, i) if best is None or error < best[0] else best
    if best is None:
        return None
    i = best[1]
    before, after = _rate(known[: i + 1]), _rate(known[i:])
    return Knee(before, max(after, 0.0), known[i][2]) if before > 0 else None


def _rate(points: Sequence[tuple[float, float, Sample]]) -> float:
    seconds = points[-1][0] - points[0][0]
    return (points[-1][1] - points[0][1]) / seconds if seconds > 0 else 0.0


def _error(points: Sequence[tuple[float, float, Sample]]) -> float:
    """Squared error of the chord from the first to the last point."""
    (t0, v0, _), rate = points[0], _rate(points)
    return sum((v - (v0 + rate * (t - t0))) ** 2 for t, v, _ in points)
