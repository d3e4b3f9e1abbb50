"""Series as panels over one axis of time, with what was found shaded and what operators did marked.

Series of one clock share the axis. What has one unit and one range shares a plot; counters each have their own, since
a rate of three a second beside one of ten thousand would lie flat on the ground. Runs of one metric by several sources
(two recordings, before and after) are one line.

For the script of the page a group of panels names its host and where its stretches of time lie (`data-x`), and a line
the numbers of its series (`data-s`); everything is to be seen without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any, TypeGuard

from markupsafe import Markup

from thpdiag.model import result
from thpdiag.report.charts.axes import WIDTH, Line, Point, TimeScale, band, columns, line_path, time_axis, time_scale
from thpdiag.report.charts.free_blocks import strip
from thpdiag.report.escaping import prose
from thpdiag.report.quantity import quantity

TITLES = {
    "cpu": "CPU time", "call_stacks": "Call stacks that the findings rest on", "memory": "Memory",
    "processes": "Processes", "huge_pages": "Huge pages and compaction",
}  # fmt: skip
_TOGETHER = ("cpu", "call_stacks", "memory")
_SHARES = ("cpu", "call_stacks")
NO_HIGHS: Mapping[str, float] = MappingProxyType({})
ORDER = ("cpu", "call_stacks", "huge_pages", "memory", "processes", "free_blocks", None)
HEIGHT, LOW_HEIGHT = 100, 44  # of a plot, and of one with a single counter
COLOURS = ("#2b6cb0", "#b0370a", "#17693a", "#7d3c98", "#8a6100", "#0f7b8a", "#a40e26", "#57606a")
_NEARLY = 0.25  # of the length of an episode: begin and end of one that is the same lie so near
_LOOKED_BACK = 50  # episodes: a document of strangers may have many
_MOST_SHADED = 0.8  # of the width
_FOOT = 92


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


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch that findings speak of: its number on the chart, and what each of them says."""

    number: int
    first: float
    last: float
    clock: str | None
    rules: tuple[str, ...]
    texts: tuple[str, ...]


def drawable(value: object) -> TypeGuard[float]:
    """Whether it is a number that scaling does not take beyond all numbers."""
    return isinstance(value, int | float) and abs(value) < 1e100  # no NaN is


def axes(timeline: result.Timeline, highs: Mapping[str, float] = NO_HIGHS) -> list[Axis]:
    """The axes of a timeline, that with most points first.

    `highs` is by metric up to which value its plot reaches at least: two charts side by side need one scale.
    """
    by_clock: dict[str | None, list[tuple[str | None, Line]]] = {}
    for clock, panel, line in drawn_lines(timeline.series):
        by_clock.setdefault(clock, []).append((panel, line))
    found = [
        Axis(clock, time_scale([p[0] for p in line.points] for _, line in lines), tuple(_plots(lines, highs)))
        for clock, lines in by_clock.items()
    ]
    return sorted(found, key=lambda axis: -sum(len(line.points) for plot in axis.plots for line in plot.lines))


def drawn_lines(series: Sequence[result.TimelineSeries]) -> Iterator[tuple[str | None, str | None, Line]]:
    """(clock, panel, line) of every metric that has points with numbers."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, one in enumerate(series):
        key = (one.clock, one.panel, one.metric, one.entity, one.unit, one.means)
        groups.setdefault(key, []).append(number)
    for (clock, panel, metric, entity, unit, means), numbers in groups.items():
        parts = sorted(((list(_points(series[number])), number) for number in numbers), key=lambda part: part[0][:1])
        points = sorted(point for part, _ in parts for point in part)
        words = means or metric
        # `resident memory of the process` of one that is known by name is `resident memory of java (4711)`
        name = f"{words.removesuffix(' of the process')} of {entity}" if entity else words
        sources = tuple(dict.fromkeys(filter(None, (series[number].source for _, number in parts))))
        if points:
            rules = tuple(dict.fromkeys(rule for number in numbers for rule in series[number].rules))
            yield clock, panel, Line(
                name, sources, unit or "", tuple(points), tuple(numbers), metric, entity or "", rules,
                tuple(len(part) for part, _ in parts),
            )  # fmt: skip


def _points(series: result.TimelineSeries) -> Iterator[Point]:
    for at, low, high, mean in series.points:
        if drawable(at) and drawable(low) and drawable(high) and drawable(mean):
            yield at, low, high, mean


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


def episodes(timeline: result.Timeline) -> list[Episode]:
    """Stretches that are nearly the same are one: sources that were started together differ by some seconds."""
    every = [
        Episode(number, one.from_, one.to, one.clock, (one.rule or "",), (one.text or "",))
        for number, one in enumerate(timeline.episodes)  # findings stand in the order of their weight
        if drawable(one.from_) and drawable(one.to)
    ]
    groups: list[list[Episode]] = []
    for one in sorted(every, key=lambda one: (one.clock or "", one.first, one.last)):
        own = next((group for group in groups[-_LOOKED_BACK:] if _nearly_the_same(group[0], one)), None)
        if own is None:
            groups.append([one])
        else:
            own.append(one)
    return [_merge(number, sorted(group, key=lambda one: one.number)) for number, group in enumerate(groups, 1)]


def _nearly_the_same(one: Episode, other: Episode) -> bool:
    apart = max(abs(one.first - other.first), abs(one.last - other.last))
    return one.clock == other.clock and apart <= _NEARLY * (one.last - one.first)


def _merge(number: int, members: Sequence[Episode]) -> Episode:
    return Episode(
        number, min(one.first for one in members), max(one.last for one in members), members[0].clock,
        tuple(dict.fromkeys(rule for one in members for rule in one.rules if rule)),
        tuple(dict.fromkeys(text for one in members for text in one.texts if text)),
    )  # fmt: skip


def panels(timeline: result.Timeline, prefix: str, highs: Mapping[str, float] = NO_HIGHS) -> Markup:
    """All panels of a timeline; `prefix` begins the ids of their captions, `highs` is that of `axes`."""
    known = episodes(timeline)
    return Markup().join(
        _group(axis, known, timeline.actions, f"{prefix}-axis{number}")
        for number, axis in enumerate(axes(timeline, highs), 1)
    )


def _group(axis: Axis, known: Sequence[Episode], actions: Sequence[result.Action], prefix: str) -> Markup:
    """The plots of an axis; a counter that never moved needs none (in its own scale; beside another one it does)."""
    scale = axis.scale
    gaps = (
        f'<rect class="gap" x="{left:.1f}" width="{right - left:.1f}" height="100" fill="#888888" fill-opacity="0.2"/>'
        for left, right in scale.gaps
    )
    under = Markup().join([Markup("".join(gaps)), *_shades(axis, known)])
    over = Markup().join(_marks(axis, actions))
    figures, numbers = [], count(1)
    still: list[Line] = []
    zones: dict[str, list[Line]] = {}
    for plot in axis.plots:
        if plot.panel in ("huge_pages", "processes") and plot.low == plot.high == 0:
            still += plot.lines
        elif plot.panel == "free_blocks":
            for line in plot.lines:
                zones.setdefault(line.entity, []).append(line)
        else:
            figures.append(_figure(plot, axis, under, over, f"{prefix}-{next(numbers)}"))
    figures += [strip(zone, scale, f"{prefix}-blocks{n}") for n, zone in enumerate(zones.values(), 1)]
    pairs = zip(scale.stretches, scale.places, strict=True)
    stretches = ",".join(f"{begin:.12g} {end:.12g} {left:.5g} {right:.5g}" for (begin, end), (left, right) in pairs)
    return Markup(
        '<div class="axis" role="group" tabindex="0" aria-label="Measurements over time" data-clock="{}" data-x="{}">\n'
        "{}{}{}</div>\n"
    ).format(
        axis.clock or "", stretches, Markup().join(figures), time_axis(scale, axis.clock, "small now-at"), _zeros(still)
    )


def _zeros(lines: Sequence[Line]) -> Markup:
    """Counters that never moved, in words: that they were watched and stood still is a measurement."""
    if not lines:
        return Markup()
    sources = dict.fromkeys(source for line in lines for source in line.sources)
    return Markup('<p class="small">Watched, and 0 in all samples: {} <code class="place">{}</code></p>\n').format(
        prose(", ".join(dict.fromkeys(line.name for line in lines))), prose(", ".join(sources))
    )


def _figure(plot: Plot, axis: Axis, under: Markup, over: Markup, name: str) -> Markup:
    single = len(plot.lines) == 1
    keys = Markup().join(_key(line, number) for number, line in enumerate(plot.lines))
    return Markup(
        '<figure class="panel"><figcaption id="{name}">{caption}</figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}">'
        '<svg class="plot" width="100%" height="{height}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        '<rect width="1000" height="100" fill="none" pointer-events="all"/>{under}{lines}{over}</svg>'
        '<text class="scale" x="4" y="11" font-size="11" fill="#57606a">{high}</text></svg></figure>\n'
    ).format(
        name=name,
        caption=keys if single else Markup("{}: {}").format(prose(plot.title), keys),
        height=LOW_HEIGHT if single and plot.panel == "huge_pages" else HEIGHT,
        under=under,
        lines=Markup().join(_line(line, number, axis, plot) for number, line in enumerate(plot.lines)),
        over=over,
        high=quantity(plot.high, plot.lines[0].unit),
    )


def _line(line: Line, number: int, axis: Axis, plot: Plot) -> Markup:
    """The band of the ranges and the means; coordinates are numbers of our own."""
    low, height = plot.low, (plot.high - plot.low) or 1.0
    colour, look = COLOURS[number % len(COLOURS)], number % len(COLOURS) + 1

    def y(value: float) -> float:
        return 98 - 96 * (value - low) / height

    runs = columns(line.points, axis.scale.x)
    around = band(runs, axis.scale.x, y)
    ranges = f'<path class="b{look}" fill="{colour}" fill-opacity="0.25" d="{around}"/>' if around else ""
    return Markup(
        f'<g data-s="{",".join(map(str, line.numbers))}" data-y="{low:.6g} {height:.6g}">{ranges}'
        f'<path class="s{look}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke" '
        f'd="{line_path(runs, axis.scale.x, y)}"/></g>'
    )


def _key(line: Line, number: int) -> Markup:
    """What a line is, in words: it is to be read without the colours, too."""
    low, high, mean = (quantity(value, line.unit) for value in (line.low, line.high, line.mean))
    return Markup(
        '<span class="key"><svg width="14" height="10" aria-hidden="true">'
        '<rect class="b{look}" width="14" height="4" y="3" fill="{colour}"/></svg>&nbsp;'
        '{name}: {low} to {high}, mean {mean}<span class="now"></span> <code class="place">{sources}</code></span> '
    ).format(
        look=number % len(COLOURS) + 1, colour=COLOURS[number % len(COLOURS)], name=prose(line.name), low=low,
        high=high, mean=mean, sources=prose(", ".join(line.sources)),
    )  # fmt: skip


def _shades(axis: Axis, known: Sequence[Episode]) -> Iterator[Markup]:
    """What covers nearly all of the axis is a strip at the foot: a shade over everything says nothing."""
    for episode in known:
        if episode.clock != axis.clock or not axis.scale.shows(episode.first, episode.last):
            continue
        left, right = axis.scale.x(episode.first), axis.scale.x(episode.last)
        words = f"episode {episode.number}: {' '.join(map(prose, episode.rules))}"
        top = _FOOT if right - left > _MOST_SHADED * WIDTH else 0
        yield Markup(
            '<rect class="shade" x="{:.1f}" width="{:.1f}" y="{}" height="{}" fill="#f2d9a6" fill-opacity="0.55">'
            "<title>{}</title></rect>"
        ).format(left, max(right - left, 2.0), top, 100 - top, words)


def _marks(axis: Axis, actions: Sequence[result.Action]) -> Iterator[Markup]:
    """A line at each moment at which an operator did something."""
    for action in actions:
        if drawable(action.t) and action.clock == axis.clock and axis.scale.shows(action.t, action.t):
            yield Markup(
                '<path class="action" d="M{0:.1f},0V100" fill="none" stroke="#a40e26" stroke-width="1.5" '
                'stroke-dasharray="4 3" vector-effect="non-scaling-stroke"><title>{1}</title></path>'
            ).format(axis.scale.x(action.t), prose(action.text or ""))
