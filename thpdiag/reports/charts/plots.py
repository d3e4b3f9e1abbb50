"""Which series of a timeline share a plot and which plots share an axis of time.

Series of one clock share the axis. What has one unit and one range shares a plot; counters each have their own, since
a rate of three a second beside one of ten thousand would lie flat on the ground. Runs of one metric by several sources
(two recordings, before and after) are one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeGuard

from thpdiag.reports.charts.scale import TimeScale, time_scale

TITLES = {
    "cpu": "CPU time", "call_stacks": "Call stacks that the findings rest on", "memory": "Memory",
    "processes": "Processes", "huge_pages": "Huge pages and compaction",
}  # fmt: skip
_TOGETHER = ("cpu", "call_stacks", "memory")
_SHARES = ("cpu", "call_stacks")
NO_HIGHS: Mapping[str, float] = MappingProxyType({})
ORDER = ("cpu", "call_stacks", "huge_pages", "memory", "processes", "free_blocks", None)

Point = tuple[float, float, float, float]  # time, min, max, mean
Series = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one entity: the points of all its series, in order, and their numbers in the timeline."""

    name: str
    sources: tuple[str, ...]
    unit: str
    points: tuple[Point, ...]
    numbers: tuple[int, ...]
    metric: str
    entity: str

    @property
    def low(self) -> float:
        return min(point[1] for point in self.points)

    @property
    def high(self) -> float:
        return max(point[2] for point in self.points)

    @property
    def mean(self) -> float:
        return sum(point[3] for point in self.points) / len(self.points)


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one vertical scale, from `low` (0 or less) to `high`."""

    panel: str | None
    title: str
    lines: tuple[Line, ...]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Axis:
    """Plots over one axis of time, by a clock of the model (None: the times are sample numbers)."""

    clock: str | None
    scale: TimeScale
    plots: tuple[Plot, ...]


def axes(timeline: Mapping[str, Any], highs: Mapping[str, float] = NO_HIGHS) -> list[Axis]:
    """The axes of a completed timeline, that with most points first.

    `highs` is by metric up to which value its plot reaches at least: two charts side by side need one scale.
    """
    every = list(_lines(timeline["series"]))
    clocks = dict.fromkeys(clock for clock, _, _ in every)
    found = [_axis(clock, [(panel, line) for other, panel, line in every if other == clock], highs) for clock in clocks]
    return sorted(found, key=lambda axis: -sum(len(line.points) for plot in axis.plots for line in plot.lines))


def _axis(clock: str | None, lines: Sequence[tuple[str | None, Line]], highs: Mapping[str, float]) -> Axis:
    return Axis(clock, time_scale([p[0] for p in line.points] for _, line in lines), tuple(_plots(lines, highs)))


def _lines(series: Sequence[Series]) -> Iterator[tuple[str | None, str | None, Line]]:
    """(clock, panel, line) of every metric that has points with numbers."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, one in enumerate(series):
        key = (one["clock"], one["panel"], one["metric"], one["entity"], one["unit"], one["means"])
        groups.setdefault(key, []).append(number)
    for (clock, panel, metric, entity, unit, means), numbers in groups.items():
        points = sorted(p for number in numbers for p in _points(series[number]["points"]))
        name = _named(means or metric, entity or "")
        sources = tuple(dict.fromkeys(filter(None, (series[number]["source"] for number in numbers))))
        if points:
            yield clock, panel, Line(name, sources, unit or "", tuple(points), tuple(numbers), metric, entity or "")


def _named(words: str, entity: str) -> str:
    """`resident memory of the process` of one that is known by name is `resident memory of java (4711)`."""
    return f"{words.removesuffix(' of the process')} of {entity}" if entity else words


def _points(rows: Iterable[Sequence[float | None]]) -> Iterator[Point]:
    for row in rows:
        at, low, high, mean = row
        if drawable(at) and drawable(low) and drawable(high) and drawable(mean):
            yield at, low, high, mean


def drawable(value: object) -> TypeGuard[float]:
    """Whether it is a number that scaling does not take beyond all numbers."""
    return isinstance(value, int | float) and abs(value) < 1e100  # no NaN is


def _plots(lines: Sequence[tuple[str | None, Line]], highs: Mapping[str, float]) -> Iterator[Plot]:
    """A share of time or of samples is drawn in a plot of 100 %: 3 % then look like 3 %."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for panel, line in sorted(lines, key=lambda pair: ORDER.index(pair[0])):
        apart = None if panel in _TOGETHER else line.metric
        groups.setdefault((panel, line.unit, apart), []).append(line)
    for (panel, _, apart), members in groups.items():
        title = TITLES.get(panel or "", "") if apart is None else ""
        if panel == "processes":
            title = members[0].name.partition(" of ")[0]
        whole = 1.0 if panel in _SHARES and members[0].unit == "ratio" else 0.0
        high = max(whole, *(max(line.high, highs.get(line.metric, 0.0)) for line in members))
        low = min(min(line.low for line in members), 0.0)
        yield Plot(panel, title or members[0].name, tuple(members), low, high)
