"""What happened between samples: growth and rates of counters, stretches of values, slopes and bends.

A counter that falls was reset (reboot, new process): that interval is a gap, never a negative rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thpdiag.derive.intervals import gaps, gaps_of, typical
from thpdiag.derive.series import Points, Track, only
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Moment, Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Margin = float | Floats

WRAP = 2.0**32  # where counters of 32-bit kernels begin anew
UNSCALED = ("1", "pages", "blocks")  # units in which the figure is the kernel's own
LIKE = 4.0  # times the fastest interval without a reset: what grew more in one interval was reset, it did not wrap
FALL = 0.1  # part of its growth that a curve may give back in between and still be one that grows
MOST_OF_A_BEND = 400  # points that the search for a bend looks at; longer curves are thinned evenly


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of consecutive values that fit.

    `seconds` has one typical step added, for a value speaks for the interval that it ends; None without a clock.
    """

    points: Points
    seconds: float | None


def growth(track: Track) -> float | None:
    """What a counter grew by over the whole track, resets left out; None if no two samples tell it."""
    if len(track) < 2:
        return None
    deltas, counted = _deltas(track)
    return float(deltas[counted].sum()) if counted.any() else None


def change(track: Track) -> float | None:
    """Last value minus first, for gauges; None with fewer than two samples."""
    return track.last - float(track.column[0]) if len(track) > 1 else None


def climb(track: Track) -> float | None:
    """The most that a gauge rose from a low to a later high; 0 if it only fell, None with fewer than two samples."""
    if len(track) < 2:
        return None
    import numpy as np

    return float((track.column - np.minimum.accumulate(track.column)).max())


def climb_at_most(track: Track, counter: Track) -> float | None:
    """What a gauge may have risen by between its samples too, where only what `counter` counts makes it rise.

    Between two samples it may have fallen unseen, and risen again by what was counted in this time at most. None if the
    two cannot be laid side by side.
    """
    if len(track) < 2 or len(counter) < 2:
        return None
    import numpy as np

    counted = _counted_between(track, counter)
    if counted is None:
        return None
    before, after = track.column[:-1], track.column[1:]
    lows = np.minimum.accumulate(np.minimum(before, np.maximum(after - counted, 0.0)))
    highs = before + counted
    apart = float((highs[1:] - lows[:-1]).max(initial=0.0))
    return min(max(apart, float(counted.max())), float(counted.sum()))


def _counted_between(track: Track, counter: Track) -> NDArray[np.float64] | None:
    """By how much the counter rose, at most, in each interval of the track."""
    import numpy as np

    deltas, counts = _deltas(counter)
    risen = np.concatenate(([0.0], np.cumsum(np.where(counts, deltas, 0.0))))
    if track.seconds is None or counter.seconds is None:
        return np.diff(risen) if len(track) == len(counter) else None
    starts = np.searchsorted(counter.seconds, track.seconds[:-1], side="right") - 1
    ends = np.searchsorted(counter.seconds, track.seconds[1:])
    return risen[np.minimum(ends, len(risen) - 1)] - risen[np.maximum(starts, 0)]


def rates(track: Track) -> Points | None:
    """The counter as a rate per second at the end of each interval; None without a clock or a second sample.

    What a counter grew by while nothing was recorded is no rate over hours: such gaps are left out.
    """
    if len(track) < 2 or not track.timed:
        return None
    import numpy as np

    points = track.points
    deltas, counted = _deltas(track)
    seconds = points.index
    counted &= ~gaps(seconds)
    if not counted.any():
        return None
    samples = only(points.samples, np.concatenate(([False], counted)))
    values = deltas[counted] / np.diff(seconds)[counted]
    return Points(values, seconds[1:][counted], samples, timed=True)


def fastest(track: Track, over: float) -> float:
    """The growth per second of a counter over the worst stretch of so many seconds, of all if it is shorter; 0 without
    a clock."""
    import numpy as np

    if track.seconds is None or len(track) < 2:
        return 0.0
    deltas, counted = _deltas(track)
    grown = np.concatenate(([0.0], np.cumsum(np.where(counted, deltas, 0.0))))
    seconds = np.maximum.accumulate(track.seconds)
    over = min(over, float(seconds[-1] - seconds[0]))
    ends = np.searchsorted(seconds, seconds + over)
    starts = np.flatnonzero(ends < len(seconds))
    lasted = seconds[ends[starts]] - seconds[starts]
    return float(((grown[ends[starts]] - grown[starts]) / np.where(lasted > 0, lasted, np.inf)).max(initial=0.0))


def watched(track: Track) -> float:
    """Seconds over which it is known what a counter grew by, as it was not reset; 0 without a clock."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    import numpy as np

    _, counted = _deltas(track)
    return float(np.diff(track.seconds)[counted].sum())


def _deltas(track: Track) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """What a counter grew by in each interval, and which of them count: it was not reset, and the clock went on."""
    import numpy as np

    deltas = np.diff(track.column)
    if (deltas < 0).any():
        deltas = _unwrapped(track, deltas)
    counted = deltas >= 0
    if track.seconds is not None:
        counted &= np.diff(track.seconds) > 0
        counted &= ~_booted(track.seconds, track.table.boots, track.table.clock)
    return deltas, counted


def _unwrapped(track: Track, deltas: NDArray[np.float64]) -> NDArray[np.float64]:
    """A counter of a 32-bit kernel begins anew at 2**32: near it, and if it went on about as fast as before."""
    known = term(track.metric)
    if known is None or known.unit not in UNSCALED or track.column.max() >= WRAP:
        return deltas
    grown = deltas[deltas > 0]
    wrapped = deltas + WRAP
    near = (deltas < 0) & (track.column[:-1] > WRAP / 2) & (track.column[1:] < WRAP / 2)
    if not near.any() or not len(grown):
        return deltas
    near &= wrapped <= LIKE * grown.max()
    import numpy as np

    return np.where(near, wrapped, deltas)


def _booted(seconds: NDArray[np.float64], boots: Sequence[Moment], clock: Clock | None) -> NDArray[np.bool_]:
    """Intervals within which the host was booted."""
    import numpy as np

    found = np.zeros(len(seconds) - 1, np.bool_)
    for boot in boots:
        if boot.clock is clock:
            found |= (seconds[:-1] < boot.seconds + boot.within) & (seconds[1:] >= boot.seconds - boot.within)
    return found


def within(points: Points, low: float, high: float, margin: Margin = 0.0) -> NDArray[np.bool_]:
    """Which values are above `low` and below `high` by more than `margin`; if that is negative, which perhaps are."""
    values = points.values
    fits: NDArray[np.bool_] = (values - margin > low) & (values + margin < high)
    return fits


def longest_run(points: Points, low: float, high: float, margin: Margin = 0.0) -> Run:
    """The longest consecutive stretch of values above `low` and below `high`, without a gap; the first of several."""
    import numpy as np

    fits = within(points, low, high, margin)
    apart = gaps_of(points)
    both = fits[1:] & fits[:-1] & ~apart  # goes on from the one before
    begins = np.flatnonzero(fits & ~np.concatenate(([False], both))[: len(fits)])
    ends = np.flatnonzero(fits & ~np.concatenate((both, [False]))[: len(fits)]) + 1
    best = int((ends - begins).argmax()) if len(begins) else -1
    part = points.part(int(begins[best]), int(ends[best])) if len(begins) else points.part(0, 0)
    return Run(part, _lasted(part, points))


def fitting(points: Points, low: float, high: float, margin: Margin = 0.0) -> tuple[int, Points]:
    """How many values are above `low` and below `high`, and the stretch from the first to the last of them."""
    import numpy as np

    found = np.flatnonzero(within(points, low, high, margin))
    return len(found), points.part(int(found[0]), int(found[-1]) + 1) if len(found) else points.part(0, 0)


def _lasted(part: Points, points: Points) -> float | None:
    if not points.timed or not len(part):
        return None
    return float(part.index[-1] - part.index[0]) + typical(points.index)


def slope(points: Points) -> float | None:
    """Least-squares growth per second; None without a clock or with fewer than three values."""
    if not points.timed or len(points) < 3:
        return None
    seconds = points.index
    seconds = seconds - seconds.mean()
    spread = float((seconds**2).sum())
    values = points.values
    return float((seconds * (values - values.mean())).sum()) / spread if spread else None


def step(values: NDArray[np.float64], least: int = 3) -> float | None:
    """The largest change of the mean at any point, relative to the mean before; None with fewer than two `least`."""
    if len(values) < 2 * least:
        return None
    import numpy as np

    counts, places = np.arange(1, len(values) + 1), np.arange(least - 1, len(values) - least)
    before = (np.cumsum(values) / counts)[places]
    after = (np.cumsum(values[::-1]) / counts)[len(values) - 2 - places]
    told = before != 0
    changes = (after[told] - before[told]) / abs(before[told])
    return float(changes[abs(changes).argmax()]) if len(changes) else 0.0


@dataclass(frozen=True, slots=True)
class Knee:
    """A curve that grows fast, then slowly: both rates per second and the sample at the bend.

    `falls` where memory is given back in between: such a curve rises and falls and has no slow phase.
    """

    before: float
    after: float
    at: Sample
    falls: float = 0.0  # how far it falls back below an earlier value, relative to all of its growth

    @property
    def ratio(self) -> float:
        return self.after / self.before


def knee(points: Points, least: int = 10) -> Knee | None:
    """The bend that leaves the smallest squared error of two chords; None with fewer than `least` timed values.

    A curve that has simply ended its work has no slow phase: what follows its highest value is cut off first.
    """
    if not points.timed or len(points) < least:
        return None
    import numpy as np

    values, seconds = points.values, points.index
    end = int(values.argmax()) + 1
    if end < least:
        return None
    places = np.arange(0, end, -(-end // MOST_OF_A_BEND))
    v, t = values[places], seconds[places]
    bend = 1 + int(_errors(t, v)[1 : len(places) - 2].argmin())
    before, after = _chord(t[: bend + 1], v[: bend + 1]), _chord(t[bend:], v[bend:])
    falls = float((np.maximum.accumulate(v) - v).max()) / (float(v.max() - v.min()) or 1.0)
    if falls > FALL:  # no bend to speak of: one rate from the first value to the highest
        before = after = _chord(t, v)
    return Knee(before, max(after, 0.0), points.samples[int(places[bend])], falls) if before > 0 else None


def _chord(seconds: Any, values: Any) -> float:
    span = float(seconds[-1] - seconds[0])
    return float(values[-1] - values[0]) / span if span > 0 else 0.0


def _errors(seconds: Floats, values: Floats) -> Floats:
    """For each point the squared errors of two chords that meet in it, from the first point and to the last one."""
    return _of_chords(seconds, values) + _of_chords(-seconds[::-1], values[::-1])[::-1]


def _of_chords(seconds: Floats, values: Floats) -> Floats:
    """For each point the squared error of the chord from the first point to it, from sums over all points before."""
    import numpy as np

    t, v = seconds - seconds[0], values - values[0]
    slopes = np.divide(v, t, out=np.zeros(len(t)), where=t != 0)
    found: Floats = np.cumsum(v * v) - 2 * slopes * np.cumsum(v * t) + slopes**2 * np.cumsum(t * t)
    return found
