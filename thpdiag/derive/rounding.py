"""By how much a figure may be wrong because the source rounded what it printed: `24G` may be 1 GiB more or less.

Tools round to the nearest, down (collectl's units) or up; a quantum either way holds for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thpdiag.derive import rates
from thpdiag.derive.series import Points, Track
from thpdiag.model import Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def of_values(track: Track, points: Points) -> NDArray[np.float64]:
    """The quantum of each value of the column."""
    import numpy as np

    if isinstance(points.samples, Series):
        return np.full(len(points), track.resolution)
    return np.array([s.resolution.get(track.metric, 0.0) for s in points.samples], np.float64)


def of_rates(track: Track, points: Points) -> NDArray[np.float64]:
    """The same for the rates of a counter: two readings, over the interval between them."""
    import numpy as np

    readings = track.points.index
    ends = np.searchsorted(readings, points.index)
    steps = readings[ends] - readings[np.maximum(ends - 1, 0)]
    return 2 * track.resolution / np.where(steps > 0, steps, 1.0)


def of_figure(as_: str, track: Track, figure: float) -> float:
    """How wrong a figure of the whole column may be."""
    quantum = track.resolution
    if not quantum:
        return 0.0
    match as_:
        case "mean" | "last":
            return quantum
        case "delta":
            return 2 * quantum
        case "slope":
            return _of_slope(track, quantum)
        case "spread":
            return 2 * quantum / max(float(abs(track.column).max()), quantum)
        case "step":
            return 2 * quantum * (1 + abs(figure)) / max(_least_mean(track), quantum)
        case _:
            return _of_knee(track, quantum)


def _least_mean(track: Track) -> float:
    """The smallest mean that a step may be relative to."""
    import numpy as np

    return float(abs(np.cumsum(track.column) / np.arange(1, len(track) + 1)).min())


def _of_knee(track: Track, quantum: float) -> float:
    """Two readings for each of the chords; the shorter one is the less sure."""
    found = rates.knee(track.points)
    first, last = track.samples[0].time, track.samples[-1].time
    if found is None or found.at.time is None or first is None or last is None:
        return 0.0
    bend = found.at.time.seconds
    shorter = max(min(bend - first.seconds, last.seconds - bend), 1e-9)
    return 2 * quantum * (1 + found.ratio) / (found.before * shorter)


def _of_slope(track: Track, quantum: float) -> float:
    """If each value is off by a quantum in the way that tilts the line most."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    seconds = track.seconds - track.seconds.mean()
    return quantum * float(abs(seconds).sum()) / max(float((seconds**2).sum()), 1e-12)
