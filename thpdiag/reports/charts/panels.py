"""Series as panels over one axis of time, with what was found shaded and what operators did marked.

For the script of the page a group of panels names its host and where its stretches of time lie (`data-x`), and a line
the numbers of its series (`data-s`); everything is to be seen without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thpdiag.reports.charts import paths
from thpdiag.reports.charts.free_blocks import strip
from thpdiag.reports.charts.plots import NO_HIGHS, Axis, Line, Plot, axes, drawable
from thpdiag.reports.charts.scale import WIDTH, TimeScale
from thpdiag.reports.charts.ticks import axis as time_axis
from thpdiag.reports.quantity import quantity
from thpdiag.reports.visible import prose

HEIGHT, LOW_HEIGHT = 100, 44  # of a plot, and of one with a single counter
_NEARLY = 0.25  # of the length of an episode: begin and end of one that is the same lie so near
_LOOKED_BACK = 50  # episodes: a document of strangers may have many
_MOST_SHADED = 0.8  # of the width
_FOOT = 92
COLOURS = ("#2b6cb0", "#b0370a", "#17693a", "#7d3c98", "#8a6100", "#0f7b8a", "#a40e26", "#57606a")


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch that findings speak of: its number on the chart, and what each of them says."""

    number: int
    first: float
    last: float
    clock: str | None
    rules: tuple[str, ...]
    texts: tuple[str, ...]


def episodes(timeline: Mapping[str, Any]) -> list[Episode]:
    """Stretches that are nearly the same are one: sources that were started together differ by some seconds."""
    groups: list[list[Mapping[str, Any]]] = []
    every = [one for one in timeline["episodes"] if drawable(one["from"]) and drawable(one["to"])]
    for one in sorted(every, key=lambda one: (one["clock"] or "", one["from"], one["to"])):
        own = next((group for group in groups[-_LOOKED_BACK:] if _nearly(group[0], one)), None)
        if own is None:
            groups.append([one])
        else:
            own.append(one)
    place = {id(one): number for number, one in enumerate(every)}  # findings stand in the order of their weight
    return [_episode(n, sorted(group, key=lambda one: place[id(one)])) for n, group in enumerate(groups, 1)]


def _nearly(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    apart = max(abs(one["from"] - other["from"]), abs(one["to"] - other["to"]))
    return bool(one["clock"] == other["clock"] and apart <= _NEARLY * (one["to"] - one["from"]))


def _episode(number: int, members: Sequence[Mapping[str, Any]]) -> Episode:
    return Episode(
        number, min(one["from"] for one in members), max(one["to"] for one in members), members[0]["clock"] or None,
        tuple(dict.fromkeys(one["rule"] for one in members if one["rule"])),
        tuple(dict.fromkeys(one["text"] for one in members if one["text"])),
    )  # fmt: skip


def panels(timeline: Mapping[str, Any], prefix: str, highs: Mapping[str, float] = NO_HIGHS) -> Markup:
    """All panels of a completed timeline; `prefix` begins the ids of their captions, `highs` is that of `axes`."""
    known = episodes(timeline)
    return Markup().join(
        _group(axis, known, timeline["actions"], f"{prefix}-axis{number}")
        for number, axis in enumerate(axes(timeline, highs), 1)
    )


def _group(axis: Axis, known: Sequence[Episode], actions: Sequence[Mapping[str, Any]], prefix: str) -> Markup:
    under = Markup().join([_gaps(axis.scale), *_shades(axis, known)])
    over = Markup().join(_marks(axis, actions))
    still = [plot for plot in axis.plots if _still(plot)]
    drawn = [plot for plot in axis.plots if plot.panel != "free_blocks" and plot not in still]
    figures = [_figure(plot, axis, under, over, f"{prefix}-{number}") for number, plot in enumerate(drawn, 1)]
    zones: dict[str, list[Line]] = {}
    for line in (line for plot in axis.plots if plot.panel == "free_blocks" for line in plot.lines):
        zones.setdefault(line.entity, []).append(line)
    figures += [strip(zone, axis.scale, f"{prefix}-blocks{n}") for n, zone in enumerate(zones.values(), 1)]
    below = time_axis(axis.scale, axis.clock, "small now-at")
    return Markup(
        '<div class="axis" role="group" tabindex="0" aria-label="Measurements over time" data-clock="{}" data-x="{}">\n'
        "{}{}{}</div>\n"
    ).format(axis.clock or "", _stretches(axis.scale), Markup().join(figures), below, _zeros(still))


def _still(plot: Plot) -> bool:
    """A counter that never moved needs no picture (in its own scale; beside another one it does)."""
    return plot.panel in ("huge_pages", "processes") and plot.low == plot.high == 0


def _zeros(plots: Sequence[Plot]) -> Markup:
    """Counters that never moved, in words: that they were watched and stood still is a measurement."""
    if not plots:
        return Markup()
    lines = [line for plot in plots for line in plot.lines]
    sources = dict.fromkeys(source for line in lines for source in line.sources)
    return Markup('<p class="small">Watched, and 0 in all samples: {} <code class="place">{}</code></p>\n').format(
        prose(", ".join(dict.fromkeys(line.name for line in lines))), prose(", ".join(sources))
    )


def _stretches(scale: TimeScale) -> str:
    """`first last left right` of each stretch."""
    pairs = zip(scale.stretches, scale.places, strict=True)
    return ",".join(f"{begin:.12g} {end:.12g} {left:.5g} {right:.5g}" for (begin, end), (left, right) in pairs)


def _figure(plot: Plot, axis: Axis, under: Markup, over: Markup, name: str) -> Markup:
    single = len(plot.lines) == 1
    height = LOW_HEIGHT if single and plot.panel == "huge_pages" else HEIGHT
    lines = Markup().join(_line(line, number, axis, plot) for number, line in enumerate(plot.lines))
    keys = Markup().join(_key(line, number) for number, line in enumerate(plot.lines))
    caption = keys if single else Markup("{}: {}").format(prose(plot.title), keys)
    unit = plot.lines[0].unit
    return Markup(
        '<figure class="panel"><figcaption id="{name}">{caption}</figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}">'
        '<svg class="plot" width="100%" height="{height}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        '<rect width="1000" height="100" fill="none" pointer-events="all"/>{under}{lines}{over}</svg>'
        '<text class="scale" x="4" y="11" font-size="11" fill="#57606a">{high}</text></svg></figure>\n'
    ).format(
        name=name, caption=caption, height=height, under=under, lines=lines, over=over, high=quantity(plot.high, unit)
    )


def _line(line: Line, number: int, axis: Axis, plot: Plot) -> Markup:
    """The band of the ranges and the means; coordinates are numbers of our own."""
    low, span = plot.low, (plot.high - plot.low) or 1.0
    colour, look = COLOURS[number % len(COLOURS)], number % len(COLOURS) + 1

    def y(value: float) -> float:
        return 98 - 96 * (value - low) / span

    runs = paths.columns(line.points, axis.scale.x)
    around = paths.band(runs, axis.scale.x, y)
    ranges = f'<path class="b{look}" fill="{colour}" fill-opacity="0.25" d="{around}"/>' if around else ""
    scale = f"{low:.6g} {span:.6g}"
    return Markup(
        f'<g data-s="{",".join(map(str, line.numbers))}" data-y="{scale}">{ranges}'
        f'<path class="s{look}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke" '
        f'd="{paths.line(runs, axis.scale.x, y)}"/></g>'
    )


def _key(line: Line, number: int) -> Markup:
    """What a line is, in words: it is to be read without the colours, too."""
    colour, look = COLOURS[number % len(COLOURS)], number % len(COLOURS) + 1
    unit = line.unit
    return Markup(
        '<span class="key"><svg width="14" height="10" aria-hidden="true">'
        '<rect class="b{look}" width="14" height="4" y="3" fill="{colour}"/></svg>&nbsp;'
        '{name}: {low} to {high}, mean {mean}<span class="now"></span> <code class="place">{sources}</code></span> '
    ).format(
        look=look, colour=colour, name=prose(line.name), low=quantity(line.low, unit), high=quantity(line.high, unit),
        mean=quantity(line.mean, unit), sources=prose(", ".join(line.sources)),
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


def _gaps(scale: TimeScale) -> Markup:
    """Where nothing was measured, and time is drawn narrow."""
    shapes = (
        f'<rect class="gap" x="{left:.1f}" width="{right - left:.1f}" height="100" fill="#888888" fill-opacity="0.2"/>'
        for left, right in scale.gaps
    )
    return Markup("".join(shapes))


def _marks(axis: Axis, actions: Sequence[Mapping[str, Any]]) -> Iterator[Markup]:
    """A line at each moment at which an operator did something."""
    for action in actions:
        at = action["t"]
        if drawable(at) and action["clock"] == axis.clock and axis.scale.shows(at, at):
            yield Markup(
                '<path class="action" d="M{0:.1f},0V100" fill="none" stroke="#a40e26" stroke-width="1.5" '
                'stroke-dasharray="4 3" vector-effect="non-scaling-stroke"><title>{1}</title></path>'
            ).format(axis.scale.x(at), prose(action["text"] or ""))
