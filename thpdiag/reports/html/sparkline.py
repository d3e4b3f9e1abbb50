"""Series as small drawings: numbers for SVG shapes, and the same in words.

Series of one clock share their x axis. A stretch in which nothing was measured is drawn as a narrow gap, so that two
captures of a minute, an hour apart, can both be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import isfinite
from statistics import median
from typing import Any

WIDTH, HEIGHT = 600, 64
_LONG = 20  # times the usual distance of two points: a gap
_NARROW = 3  # and drawn as wide as this many distances

Point = tuple[float, float, float, float]  # time, min, max, mean
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """One series: `lines` are the means and `bands` the ranges as SVG points; `shades` are (x, width) of episodes."""

    series: Mapping[str, Any]
    lines: tuple[str, ...]
    bands: tuple[str, ...]
    shades: tuple[tuple[str, str], ...]
    low: float
    mean: float
    high: float
    first: Point
    last: Point


def drawings(timeline: Mapping[str, Any]) -> list[Drawing]:
    """A drawing for each series that has a point with numbers."""
    drawn = [(series, _points(series)) for series in timeline["series"]]
    return [_drawing(series, points, timeline, drawn) for series, points in drawn if points]


def _points(series: Mapping[str, Any]) -> list[Point]:
    whole = (point for point in series["points"] if all(_drawable(value) for value in point))
    return sorted((at, low, high, mean) for at, low, high, mean in whole)


def _drawable(value: float | None) -> bool:
    return value is not None and isfinite(value) and abs(value) < 1e100  # no overflow when scaled


def _drawing(
    series: Mapping[str, Any],
    points: list[Point],
    timeline: Mapping[str, Any],
    drawn: Sequence[tuple[Mapping[str, Any], list[Point]]],
) -> Drawing:
    clock = series["clock"]
    x = _time_scale(point[0] for other, others in drawn if other["clock"] == clock for point in others)
    low, high = min(point[1] for point in points), max(point[2] for point in points)
    y = _linear(min(low, 0.0), max(high, 0.0), HEIGHT - 2.0, 2.0)
    runs = [_thinned(run, x) for run in _runs(points)]
    return Drawing(
        series=series,
        lines=tuple(_line(run, x, y) for run in runs),
        bands=tuple(_band(run, x, y) for run in runs),
        shades=tuple(_shades(timeline["episodes"], clock, x)),
        low=low,
        mean=sum(point[3] for point in points) / len(points),
        high=high,
        first=points[0],
        last=points[-1],
    )


def _time_scale(times: Iterable[float]) -> Scale:
    """Time to x, with long gaps drawn narrow."""
    marks = sorted(set(times))
    steps = [later - earlier for earlier, later in pairwise(marks)]
    usual = median(steps) if steps else 1.0
    ends = [0.0]
    for step in steps:
        ends.append(ends[-1] + (_NARROW * usual if step > _LONG * usual else step))
    across = ends[-1] or 1.0

    def x(time: float) -> float:
        """Times between two marks lie between theirs; those outside lie on the edge."""
        place = bisect_right(marks, time) - 1
        if place < 0 or place >= len(steps):
            return 0.0 if place < 0 else WIDTH * ends[-1] / across
        part = (time - marks[place]) / steps[place]
        return WIDTH * (ends[place] + part * (ends[place + 1] - ends[place])) / across

    return x


def _linear(low: float, high: float, to_low: float, to_high: float) -> Scale:
    span = (high - low) or 1.0
    return lambda value: to_low + (value - low) / span * (to_high - to_low)


def _runs(points: list[Point]) -> list[list[Point]]:
    """Stretches without a gap."""
    steps = [later[0] - earlier[0] for earlier, later in pairwise(points)]
    usual = median(steps) if steps else 0.0
    runs = [[points[0]]]
    for step, point in zip(steps, points[1:], strict=True):
        if step > _LONG * usual:
            runs.append([])
        runs[-1].append(point)
    return runs


def _thinned(run: list[Point], x: Scale) -> list[Point]:
    """One point for each two units of width; a spike stays in its range."""
    columns = [list(column) for _, column in groupby(run, key=lambda point: x(point[0]) // 2)]
    return [
        (
            column[0][0],
            min(point[1] for point in column),
            max(point[2] for point in column),
            sum(point[3] for point in column) / len(column),
        )
        for column in columns
    ]


def _line(run: list[Point], x: Scale, y: Scale) -> str:
    """The means; a point alone becomes a short dash."""
    places = [(x(at), y(mean)) for at, _, _, mean in run]
    if len(places) == 1:
        places = [(places[0][0] - 1, places[0][1]), (places[0][0] + 1, places[0][1])]
    return " ".join(_pair(*place) for place in places)


def _band(run: list[Point], x: Scale, y: Scale) -> str:
    upper = [_pair(x(at), y(high)) for at, _, high, _ in run]
    lower = [_pair(x(at), y(low)) for at, low, _, _ in reversed(run)]
    return " ".join(upper + lower)


def _shades(episodes: Sequence[Mapping[str, Any]], clock: str | None, x: Scale) -> Iterable[tuple[str, str]]:
    for episode in episodes:
        begin, end = episode["from"], episode["to"]
        if episode["clock"] == clock and _drawable(begin) and _drawable(end):
            yield f"{x(begin):.1f}", f"{max(x(end) - x(begin), 1.0):.1f}"


def _pair(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"
