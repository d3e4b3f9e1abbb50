"""Stretches of a recording in which a value is beyond a bound: where it hurt, in a day that was mostly calm.

A day's share of samples, mean or growth says nothing about ten minutes of it. Each stretch is told twice where that
differs: without pauses worth mentioning, and with those between repeated bursts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thpdiag.derive.intervals import gaps, typical
from thpdiag.model import Clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from thpdiag.derive.series import Points

LONG = 300.0  # seconds: what lasts as long is worth a look in however long a recording
SHORT = 60.0  # seconds: a shorter one is a blip
PART = 0.1  # of a recording that is not long: what lasts as long is worth a look
PAUSES = (60.0, 300.0)  # seconds between two bursts of one stretch
FEW = 2  # samples that may be calm in one


@dataclass(frozen=True, slots=True)
class Stretch:
    """From `first`, whose own value speaks of what was before it, to `last`. `excess` is by how many times the bound
    the values were beyond it, times seconds; `member` is where that was recorded."""

    first: float
    last: float
    clock: Clock
    excess: float = 0.0
    member: str = ""

    @property
    def seconds(self) -> float:
        return self.last - self.first

    def like(self, other: Stretch) -> float:
        """The part of both together that they share."""
        if self.clock is not other.clock:
            return 0.0
        shared = min(self.last, other.last) - max(self.first, other.first)
        return max(shared, 0.0) / max(max(self.last, other.last) - min(self.first, other.first), 1e-9)


def least(seconds: float) -> float:
    """How long a stretch of a recording of so many seconds must be.

    What is no longer than a minute was recorded because it hurt: there a burst counts, as it does in a part of it.
    """
    if seconds <= SHORT:
        return PART * seconds
    return max(SHORT, min(LONG, PART * seconds))


def beyond(points: Points, low: float, high: float) -> Iterator[Stretch]:
    """The stretches of values above `low` and below `high` that are long enough; none without a clock."""
    import numpy as np

    first = points.samples[0].time if len(points) else None
    if not points.timed or first is None or len(points) < 2:
        return
    seconds, values = points.index, points.values
    fits = np.flatnonzero((values > low) & (values < high))
    if not len(fits):
        return
    usual, apart, whole = typical(seconds), gaps(seconds), float(seconds[-1] - seconds[0])
    bound = low if low > float("-inf") else high
    excess = np.abs(values - bound) / max(abs(bound), 1e-12)
    for pause in PAUSES:
        for begin, end in _joined(seconds, fits, apart, max(pause, (FEW + 1.5) * usual)):
            ahead = begin > 0 and not apart[begin - 1]
            start = float(seconds[begin - 1]) if ahead else float(seconds[begin]) - usual
            alone = begin == end and whole <= SHORT  # one value of a short recording is a blip
            if seconds[end] - start >= least(whole) and not alone:
                inside = fits[(fits >= begin) & (fits <= end)]
                much = float(excess[inside].sum()) * usual
                yield Stretch(start, float(seconds[end]), first.clock, much, points.samples[begin].cite.member)


def _joined(
    seconds: NDArray[np.float64], fits: NDArray[np.int64], apart: NDArray[np.bool_], pause: float
) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch."""
    import numpy as np

    lost = np.concatenate(([0], np.cumsum(apart)))
    cut = (np.diff(seconds[fits]) > pause) | (np.diff(lost[fits]) > 0)
    begins = fits[np.concatenate(([True], cut))]
    ends = fits[np.concatenate((cut, [True]))]
    yield from zip(begins.tolist(), ends.tolist(), strict=True)
