"""The intervals between the samples of a recording: which are as long as usual, and which are gaps in it.

A recorder that was stopped, a host that was down or hung: what happened meanwhile nobody saw. A value speaks for the
interval that it ends, but not for hours without samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thpdiag.derive.series import Points, Track

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANY = 5.0  # times the usual interval: a sample that came late is no gap
LEAST = 60.0  # seconds: a sampler that waits for a hung host for a minute has seen it hang
FEWEST = 3  # intervals from which one is usual


def typical(seconds: NDArray[np.float64]) -> float:
    """The usual seconds from one sample to the next: the median; 0 if there is none."""
    import numpy as np

    steps = np.diff(seconds)
    steps = steps[steps > 0]
    return float(np.partition(steps, len(steps) // 2)[len(steps) // 2]) if len(steps) else 0.0


def gaps(seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which intervals are gaps; one less than there are samples."""
    import numpy as np

    steps = np.diff(seconds)
    if len(steps) < FEWEST:
        return np.zeros(len(steps), np.bool_)
    return steps > max(MANY * typical(seconds), LEAST)


def gaps_of(points: Points) -> NDArray[np.bool_]:
    """The gaps between points; none without a clock."""
    import numpy as np

    if not points.timed or len(points) < 2:
        return np.zeros(max(len(points) - 1, 0), np.bool_)
    return gaps(points.index)


def interval(points: Points) -> float:
    """The usual seconds from one value to the next, which each speaks for; 0 without a clock."""
    return typical(points.index) if points.timed and len(points) > 1 else 0.0


def covered(track: Track) -> float | None:
    """The seconds that a recording speaks for, gaps left out; None without a clock."""
    seconds = track.seconds if len(track) > 1 else None
    if seconds is None:
        return None
    import numpy as np

    return float(np.abs(np.diff(seconds))[~gaps(seconds)].sum())
