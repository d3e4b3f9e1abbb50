"""Points as the data of an SVG path, short: whole units, relative to the point before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from thpdiag.reports.charts.plots import Point
from thpdiag.reports.charts.scale import LONG, WIDTH, usual

_ALONE = 6  # units of width to each side of a point alone: less is not seen
_COLUMN = 4  # units of width: what falls into one column is drawn as one point with its range
Place = tuple[int, int]
Scale = Callable[[float], float]


def columns(points: Sequence[Point], x: Scale) -> list[list[Point]]:
    """The points by stretches without a gap, one for each column; a spike stays in the range of its column."""
    most = LONG * usual([point[0] for point in points])
    runs: list[list[Point]] = [[points[0]]]
    for earlier, later in pairwise(points):
        if later[0] - earlier[0] > most:
            runs.append([])
        runs[-1].append(later)
    return [_thinned(run, x) for run in runs]


def _thinned(run: Sequence[Point], x: Scale) -> list[Point]:
    found = []
    for _, group in groupby(run, key=lambda point: x(point[0]) // _COLUMN):
        at, low, high, mean = zip(*group, strict=True)
        found.append((at[0], min(low), max(high), sum(mean) / len(mean)))
    return found


def line(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """The means; a point alone becomes a short dash."""
    return "".join(_line(run, x, y) for run in runs)


def _line(run: Sequence[Point], x: Scale, y: Scale) -> str:
    places = [(round(x(point[0])), round(y(point[3]))) for point in run]
    if len(places) == 1:
        left, level = places[0]
        places = [(max(left - _ALONE, 0), level), (min(left + _ALONE, WIDTH), level)]
    return _moves(places)


def band(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """The ranges of the columns, where they are wide enough to be seen."""
    return "".join(f"{_moves(around)}z" for run in runs for around in _around(run, x, y))


def _around(run: Sequence[Point], x: Scale, y: Scale) -> Iterator[list[Place]]:
    upper = [(round(x(point[0])), round(y(point[2]))) for point in run]
    lower = [(round(x(point[0])), round(y(point[1]))) for point in run]
    if any(low[1] - high[1] > 1 for low, high in zip(lower, upper, strict=True)):
        yield [*upper, *reversed(lower)]


def _moves(places: Sequence[Place]) -> str:
    """`M0,9l2,1 2,-3`."""
    steps = (f"{right - left},{lower - upper}" for (left, upper), (right, lower) in pairwise(places))
    return f"M{places[0][0]},{places[0][1]}l{' '.join(steps)}"
