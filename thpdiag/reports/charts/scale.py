"""From times to places on a chart of 1,000 units, with stretches in which nothing was measured drawn narrow.

Two captures of a minute, an hour apart, can so both be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

WIDTH = 1000
LONG = 20  # times the usual distance of two points of a series: nothing was measured
_GAP = 0.015  # of what was measured: the width of such a gap
_GAPS = 0.3  # of what was measured: the width of all gaps at most

Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Stretches of time in which something was measured, and where each begins and ends (0 to `WIDTH`)."""

    stretches: tuple[Stretch, ...]
    places: tuple[Stretch, ...]

    def x(self, time: float) -> float:
        """Times within a gap lie at its end, those outside at the edge of the chart."""
        at = bisect_right(self.stretches, (time, float("inf"))) - 1
        if at < 0:
            return 0.0
        (begin, end), (left, right) = self.stretches[at], self.places[at]
        if time >= end:
            return self.places[at + 1][0] if time > end and at + 1 < len(self.places) else right
        return left + (time - begin) / (end - begin) * (right - left)

    def shows(self, first: float, last: float) -> bool:
        """Whether any of it lies between the begin and the end of the chart."""
        return first <= self.stretches[-1][1] and last >= self.stretches[0][0]

    @property
    def gaps(self) -> Iterator[Stretch]:
        """The places of the gaps."""
        return ((before[1], after[0]) for before, after in pairwise(self.places))


def time_scale(series: Iterable[Sequence[float]]) -> TimeScale:
    """The scale of series that share it; each is its times in order."""
    stretches = tuple(_joined(sorted(stretch for times in series for stretch in _measured(times))))
    measured = sum(end - begin for begin, end in stretches) or 1.0
    gaps = len(stretches) - 1
    gap = min(_GAP, _GAPS / gaps) * measured if gaps else 0.0
    across, at, places = measured + gap * gaps, 0.0, []
    for begin, end in stretches:
        places.append((WIDTH * at / across, WIDTH * (at + end - begin) / across))
        at += end - begin + gap
    return TimeScale(stretches, tuple(places))


def usual(times: Sequence[float]) -> float:
    """The usual distance of two times that are not the same; 0 of fewer than two."""
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return median(steps) if steps else 0.0


def _measured(times: Sequence[float]) -> Iterator[Stretch]:
    """Stretches of a series without a gap."""
    if not times:
        return
    most, begin = LONG * usual(times), times[0]
    for earlier, later in pairwise(times):
        if later - earlier > most:
            yield begin, earlier
            begin = later
    yield begin, times[-1]


def _joined(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Stretches that touch or overlap become one."""
    current: Stretch | None = None
    for begin, end in stretches:
        if current is None:
            current = begin, end
        elif begin <= current[1]:
            current = current[0], max(current[1], end)
        else:
            yield current
            current = begin, end
    if current is not None:
        yield current
