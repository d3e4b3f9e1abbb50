"""By how much the clocks of two sources differ that recorded the same: MemFree of collectl and of sar.

Both are put on a grid of the longer interval, and one is moved along the other until they are most alike. It must then
be the same curve at the same height: what happens every hour looks alike too. Only a curve that moves tells anything,
and only where it fits much better moved than as it is. No farther than time zones reach, so that no days are exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thpdiag.derive.host_zone import FARTHEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thpdiag.derive.series import Points

LEAST = 30  # points that both have in common, moved
MOST = 2000  # points of the grid; longer recordings are looked at more coarsely
ALIKE = 0.95  # correlation of two curves that are the same
SAME = 0.25  # of the spread of the values: two readings of one figure differ by less on average
BETTER = 0.2  # by which it must be higher than without moving
INTERVALS = 2  # a difference of less is that of two tools which read one after the other


def offset(one: Points, other: Points) -> float | None:
    """Seconds by which the clock of `other` is ahead of that of `one`; None if nothing says that they differ."""
    import numpy as np

    if not one.timed or not other.timed or min(len(one), len(other)) < LEAST:
        return None
    times = [points.index for points in (one, other)]
    steps = [float(np.median(np.diff(seconds))) for seconds in times]
    start, end = min(t.min() for t in times), max(t.max() for t in times)
    step = max(*steps, (end - start) / MOST)
    if min(steps) <= 0:
        return None
    grid = np.arange(start, end + step, step)
    first, second = (_on(grid, seconds, points, step) for seconds, points in zip(times, (one, other), strict=True))
    least = max(LEAST, min(int((curve == curve).sum()) for curve in (first, second)) // 2)
    as_it_is = _alike(first, second, 0, least)
    if as_it_is > ALIKE - BETTER:
        return None
    most = min(len(grid), int(FARTHEST / step) + INTERVALS)
    best, _, lag = max((_alike(first, second, lag, least), -abs(lag), lag) for lag in range(-most, most + 1))
    if abs(lag) <= INTERVALS or best < ALIKE or best < as_it_is + BETTER:
        return None
    return float(lag * step)


def _on(grid: NDArray[np.float64], seconds: NDArray[np.float64], points: Points, step: float) -> NDArray[np.float64]:
    """The values at the times of the grid, NaN where there is no sample near."""
    import numpy as np

    order = np.argsort(seconds, kind="stable")
    seconds, values = seconds[order], points.values[order]
    near = np.clip(np.searchsorted(seconds, grid - step / 2), 0, len(seconds) - 1)
    found: NDArray[np.float64] = np.where(np.abs(seconds[near] - grid) <= step / 2, values[near], np.nan)
    return found


def _alike(one: NDArray[np.float64], other: NDArray[np.float64], lag: int, least: int) -> float:
    """The correlation of two curves where the second is read `lag` points later; -1 if too little of them meets."""
    import numpy as np

    size = len(one) - abs(lag)
    if size < least:
        return -1.0
    a, b = (one[:size], other[lag:]) if lag >= 0 else (one[-lag:], other[:size])
    both = (a == a) & (b == b)
    if int(both.sum()) < least:
        return -1.0
    a, b = a[both], b[both]
    apart = float(np.sqrt(((a - b) ** 2).mean()))
    if apart > SAME * float(a.std()):
        return -1.0
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 0 else -1.0
