"""What happened between samples: growth and rates of counters, stretches of values, slopes and bends.

A counter that falls was reset (reboot, new process): that interval is a gap, never a negative rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thpdiag.derive.series import Points, Track, only
from thpdiag.model import Sample

if TYPE_CHECKING:
    import pandas

MOST_OF_A_BEND = 400  # points that the search for a bend looks at; longer curves are thinned evenly


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of consecutive values that fit.

    `seconds` has one typical step added, for a value speaks for the interval that it ends; None without a clock.
    """

    points: Points
    seconds: float | None


def growth(track: Track) -> float | None:
    """What a counter grew by over the whole track, resets left out; None with fewer than two samples."""
    if len(track) < 2:
        return None
    deltas = track.points.values.diff()
    return float(deltas[_counted(track.points, deltas)].sum())


def change(track: Track) -> float | None:
    """Last value minus first, for gauges; None with fewer than two samples."""
    return track.last - float(track.samples[0].values[track.metric]) if len(track) > 1 else None


def rates(track: Track) -> Points | None:
    """The counter as a rate per second at the end of each interval; None without a clock or a second sample."""
    if len(track) < 2 or not track.timed:
        return None
    points = track.points
    deltas = points.values.diff()
    counted = _counted(points, deltas)
    seconds = points.values.index.to_series().diff()
    keep = counted.to_numpy()
    samples = only(points.samples, keep)
    return Points((deltas / seconds)[keep], samples, timed=True) if samples else None


def _counted(points: Points, deltas: pandas.Series[float]) -> pandas.Series[bool]:
    """Intervals that count: the counter did not fall, and the clock went on."""
    keep = deltas >= 0
    if points.timed:
        keep &= (points.values.index.to_series().diff() > 0).to_numpy()
    return keep


def longest_run(points: Points, low: float, high: float) -> Run:
    """The longest consecutive stretch of values above `low` and below `high`; the first of several."""
    fits = ((points.values > low) & (points.values < high)).to_numpy()
    best, start = (0, 0), 0
    for at, fit in enumerate([*fits, False]):
        if not fit:
            best = (start, at) if at - start > best[1] - best[0] else best
            start = at + 1
    part = points.part(*best)
    return Run(part, _seconds(part, points))


def _seconds(part: Points, points: Points) -> float | None:
    if not points.timed or not len(part):
        return None
    index = points.values.index.to_numpy()
    steps = sorted(index[1:] - index[:-1])
    typical = float(steps[len(steps) // 2]) if steps else 0.0
    return float(part.values.index[-1] - part.values.index[0]) + typical


def slope(points: Points) -> float | None:
    """Least-squares growth per second; None without a clock or with fewer than three values."""
    if not points.timed or len(points) < 3:
        return None
    seconds = points.values.index.to_numpy()
    seconds = seconds - seconds.mean()
    spread = float((seconds**2).sum())
    values = points.values.to_numpy()
    return float((seconds * (values - values.mean())).sum()) / spread if spread else None


def step(values: pandas.Series[float], least: int = 3) -> float | None:
    """The largest change of the mean at any point, relative to the mean before; None with fewer than two `least`."""
    if len(values) < 2 * least:
        return None
    before = values.expanding().mean()
    after = values[::-1].expanding().mean()[::-1].shift(-1)
    changes = ((after - before) / before.abs()).iloc[least - 1 : len(values) - least]
    finite = changes[changes.abs() != float("inf")].dropna()
    return float(finite.iloc[finite.abs().to_numpy().argmax()]) if len(finite) else 0.0


@dataclass(frozen=True, slots=True)
class Knee:
    """A curve that grows fast, then slowly: both rates per second and the sample at the bend."""

    before: float
    after: float
    at: Sample

    @property
    def ratio(self) -> float:
        return self.after / self.before


def knee(points: Points, least: int = 10) -> Knee | None:
    """The bend that leaves the smallest squared error of two chords; None with fewer than `least` timed values.

    A curve that has simply ended its work has no slow phase: standing still at the end is cut off first.
    """
    if not points.timed:
        return None
    values, seconds = points.values.to_numpy(), points.values.index.to_numpy()
    end = len(values)
    while end > 2 and values[end - 2] >= values.max() and values[end - 1] >= values.max():
        end -= 1
    if end < least:
        return None
    places = list(range(0, end, -(-end // MOST_OF_A_BEND)))
    v, t = values[places], seconds[places]
    errors = [_error(t[: i + 1], v[: i + 1]) + _error(t[i:], v[i:]) for i in range(1, len(places) - 2)]
    bend = 1 + min(range(len(errors)), key=errors.__getitem__)
    before, after = _chord(t[: bend + 1], v[: bend + 1]), _chord(t[bend:], v[bend:])
    return Knee(before, max(after, 0.0), points.samples[places[bend]]) if before > 0 else None


def _chord(seconds: Any, values: Any) -> float:
    span = float(seconds[-1] - seconds[0])
    return float(values[-1] - values[0]) / span if span > 0 else 0.0


def _error(seconds: Any, values: Any) -> float:
    """Squared error of the chord from the first to the last value."""
    line = values[0] + _chord(seconds, values) * (seconds - seconds[0])
    return float(((values - line) ** 2).sum())
