"""Series as panels over one time axis, with findings shaded and operator actions marked.

Series that findings cite come first, those of the lead finding before others, each process, zone and counter on its own
scale; the rest is folded below. An operator action is a line through all panels, with its text above.

Series of one clock share the axis. Series with one unit and one range share a plot; counters each have their own, since
a rate of three per second next to one of ten thousand would be a flat line. Series of one metric from several sources
(two recordings, before and after) are one line.

For the script of the page, a group of panels has the clock and the places of its time spans (`data-x`), and a line the
numbers of its series (`data-s`); everything is visible without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any, TypeGuard

from markupsafe import Markup

from thpdiag.model import result
from thpdiag.model.text import name_entity
from thpdiag.report.charts.axes import (
    WIDTH,
    Line,
    Point,
    TimeScale,
    anchor,
    band,
    columns,
    line_path,
    on_other_clock,
    ticks,
    time_axis,
    time_scale,
)
from thpdiag.report.charts.free_blocks import strip
from thpdiag.report.escaping import prose
from thpdiag.report.quantity import quantity

TITLES = {
    "cpu": "CPU time", "call_stacks": "Call stacks that the findings rest on", "memory": "Memory",
    "processes": "Processes", "huge_pages": "Huge pages and compaction",
}  # fmt: skip
_SHARED_PLOT_PANELS = ("cpu", "call_stacks", "memory")
_SHARE_PANELS = ("cpu", "call_stacks")
NO_HIGHS: Mapping[str, float] = MappingProxyType({})
ORDER = ("cpu", "call_stacks", "huge_pages", "memory", "processes", "free_blocks", None)
HEIGHT, LOW_HEIGHT = 100, 44  # pixels of a plot, and of one with a single counter
LABEL = 14  # pixels above and below a plot, for the ends of its scale
MIN_FAR_SHARE, MAX_NOISE_SHARE = 0.5, 0.005  # of the maximum: minimum and change of series with a scale not from 0
MAX_FIRST = 8  # plots that are not folded
MARK_ROWS, MARK_ROW = 4, 15  # rows of text above the plots, and pixels of each
MARK_LETTER = 7.5  # units of width on a wide page
MAX_MARK_LETTERS = 44
COLOURS = ("#2b6cb0", "#b0370a", "#17693a", "#7d3c98", "#8a6100", "#0f7b8a", "#a40e26", "#57606a")
_MAX_SHIFT_SHARE = 0.25  # of the length of an episode: difference of begin and end of an equal one
_MAX_COMPARED = 50  # previous episodes: an untrusted document may have many
_MAX_SHADED_SHARE = 0.8  # of the width
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
    """Plots over one time axis, by a clock of the model (None: the times are sample numbers).

    `first` are the plots of series that findings cite.
    """

    clock: str | None
    scale: TimeScale
    first: tuple[Plot, ...]
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True)
class Episode:
    """A time span that findings cite: its number on the chart, and the text of each finding."""

    number: int
    first: float
    last: float
    clock: str | None
    rules: tuple[str, ...]
    texts: tuple[str, ...]


def drawable(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that scaling does not make infinite."""
    return isinstance(value, int | float) and abs(value) < 1e100  # false for NaN


def axes(timeline: result.Timeline, highs: Mapping[str, float] = NO_HIGHS, rules: Sequence[str] = ()) -> list[Axis]:
    """Return the axes of a timeline, first that with cited series and most points.

    `highs` has by metric the least upper end of its plot: two charts side by side need one scale. `rules` are those
    whose findings have their plots first, in this order.
    """
    by_clock: dict[str | None, list[tuple[str | None, Line]]] = {}
    for clock, panel, line in drawn_lines(timeline.series):
        by_clock.setdefault(clock, []).append((panel, line))
    result_axes = []
    for clock, lines in by_clock.items():
        first, others = _cited_plots(lines, rules)
        scale = time_scale([p[0] for p in line.points] for _, line in lines)
        result_axes.append(Axis(clock, scale, tuple(first), tuple(_plots(others, highs))))
    return sorted(result_axes, key=lambda axis: (not axis.first, -sum(map(_count_points, (*axis.first, *axis.plots)))))


def _count_points(plot: Plot) -> int:
    return sum(len(line.points) for line in plot.lines)


def _cited_plots(
    lines: Sequence[tuple[str | None, Line]], rules: Sequence[str]
) -> tuple[list[Plot], list[tuple[str | None, Line]]]:
    """Return plots of the cited series, each entity and metric in its own, and the other lines.

    Shares of CPU time, and free blocks of a zone, share a plot.
    """
    rank = {rule: number for number, rule in reversed(list(enumerate(rules)))}

    def order(line: Line) -> int:
        return min((rank[rule] for rule in line.rules if rule in rank), default=len(rank))

    groups: dict[tuple[Any, ...], list[tuple[str | None, Line]]] = {}
    for panel, line in sorted(lines, key=lambda pair: (order(pair[1]), ORDER.index(pair[0]))):
        if order(line) < len(rank):
            own_metric = line.metric if panel not in (*_SHARE_PANELS, "free_blocks") else None
            groups.setdefault((panel, line.unit, own_metric, line.entity), []).append((panel, line))
    first = list(groups.values())[:MAX_FIRST]
    shown = {id(line) for members in first for _, line in members}
    plots = [plot for members in first for plot in _plots(members, NO_HIGHS, own_scale=True)]
    return plots, [pair for pair in lines if id(pair[1]) not in shown]


def drawn_lines(series: Sequence[result.TimelineSeries]) -> Iterator[tuple[str | None, str | None, Line]]:
    """Yield (clock, panel, line) of every metric with numeric points."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, item in enumerate(series):
        key = (item.clock, item.panel, item.metric, item.entity, item.unit, item.means)
        groups.setdefault(key, []).append(number)
    for (clock, panel, metric, entity, unit, means), numbers in groups.items():
        parts = sorted(((list(_points(series[number])), number) for number in numbers), key=lambda part: part[0][:1])
        points = sorted(point for part, _ in parts for point in part)
        meaning = means or metric
        name = name_entity(meaning, entity) if entity else meaning
        sources = tuple(dict.fromkeys(filter(None, (series[number].source for _, number in parts))))
        if points:
            rules = tuple(dict.fromkeys(rule for number in numbers for rule in series[number].rules))
            yield clock, panel, Line(
                name, sources, unit or "", tuple(points), tuple(numbers), metric, entity or "", rules,
                tuple(len(part) for part, _ in parts),
            )  # fmt: skip


def _points(series: result.TimelineSeries) -> Iterator[Point]:
    for time, low, high, mean in series.points:
        if drawable(time) and drawable(low) and drawable(high) and drawable(mean):
            yield time, low, high, mean


def _plots(
    lines: Sequence[tuple[str | None, Line]], highs: Mapping[str, float], *, own_scale: bool = False
) -> Iterator[Plot]:
    """Yield plots. Shares of time or samples have a scale of 100 %, so 3 % look like 3 %; each process has its own.

    `own_scale`: memory with small changes begins at its minimum.
    """
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for panel, line in sorted(lines, key=lambda pair: ORDER.index(pair[0])):
        metric = None if panel in _SHARED_PLOT_PANELS else line.metric
        groups.setdefault((panel, line.unit, metric, line.entity if panel == "processes" else None), []).append(line)
    highest: dict[str, float] = {}  # by metric: processes are drawn on one scale
    for _, line in lines:
        highest[line.metric] = max(line.high, highest.get(line.metric, 0.0))
    for (panel, _, metric, _), members in groups.items():
        title = TITLES.get(panel or "", "") if metric is None else ""
        if panel == "processes":
            highs = {**highs, members[0].metric: max(highest[members[0].metric], highs.get(members[0].metric, 0.0))}
        min_high = 1.0 if panel in _SHARE_PANELS and members[0].unit == "ratio" else 0.0
        high = max(min_high, *(max(line.high, highs.get(line.metric, 0.0)) for line in members))
        low = min(line.low for line in members)
        low = low if own_scale and _is_far_from_zero(low, high) and members[0].unit == "bytes" else min(low, 0.0)
        yield Plot(panel, title or members[0].name, tuple(members), low, high)


def _is_far_from_zero(low: float, high: float) -> bool:
    """Return whether a change would be hard to see on a scale from 0, and is more than noise."""
    return low > MIN_FAR_SHARE * high and high - low > MAX_NOISE_SHARE * high


def episodes(timeline: result.Timeline) -> list[Episode]:
    """Return the episodes; nearly equal ones are merged, since sources started together differ by some seconds."""
    all_episodes = [
        Episode(number, episode.from_, episode.to, episode.clock, (episode.rule or "",), (episode.text or "",))
        for number, episode in enumerate(timeline.episodes)  # in the order of the findings
        if drawable(episode.from_) and drawable(episode.to)
    ]
    groups: list[list[Episode]] = []
    for episode in sorted(all_episodes, key=lambda episode: (episode.clock or "", episode.first, episode.last)):
        matching = next((group for group in groups[-_MAX_COMPARED:] if _is_same_episode(group[0], episode)), None)
        if matching is None:
            groups.append([episode])
        else:
            matching.append(episode)
    return [_merge(number, sorted(group, key=lambda episode: episode.number)) for number, group in enumerate(groups, 1)]


def _is_same_episode(left: Episode, right: Episode) -> bool:
    shift = max(abs(left.first - right.first), abs(left.last - right.last))
    return left.clock == right.clock and shift <= _MAX_SHIFT_SHARE * (left.last - left.first)


def _merge(number: int, members: Sequence[Episode]) -> Episode:
    return Episode(
        number, min(episode.first for episode in members), max(episode.last for episode in members), members[0].clock,
        tuple(dict.fromkeys(rule for episode in members for rule in episode.rules if rule)),
        tuple(dict.fromkeys(text for episode in members for text in episode.texts if text)),
    )  # fmt: skip


def panels(
    timeline: result.Timeline, prefix: str, highs: Mapping[str, float] = NO_HIGHS, rules: Sequence[str] = ()
) -> Markup:
    """Return all panels of a timeline; `prefix` begins the ids of captions, `highs` and `rules` are those of `axes`."""
    known, marks = episodes(timeline), placed_actions(timeline)
    return Markup().join(
        _axis(axis, known, marks, timeline.boot, f"{prefix}-axis{number}", rules)
        for number, axis in enumerate(axes(timeline, highs, rules), 1)
    )


def _axis(
    axis: Axis, known: Sequence[Episode], marks: Sequence[Mark], boot: result.BootTime | None, prefix: str,
    rules: Sequence[str],
) -> Markup:  # fmt: skip
    """Return the cited series, and the others folded."""
    if not axis.first:
        return _group(axis, axis.plots, known, marks, boot, prefix, rules)
    first = _group(axis, axis.first, known, marks, boot, prefix, rules)
    if not axis.plots:
        return first
    return Markup('{}<details class="screen"><summary>Other measurements ({})</summary>\n{}</details>\n').format(
        first, len(axis.plots), _group(axis, axis.plots, known, marks, boot, f"{prefix}-rest", rules)
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """An operator action on a clock. `before`: its time is unknown, but earlier than this."""

    time: float
    clock: str | None
    before: bool
    action: result.Action

    @property
    def words(self) -> str:
        """The text, in the form `enabled: never` for a written setting."""
        path = next((str(part.value) for part in self.action.fields if part.kind == "path"), "")
        value = next((str(part.value) for part in self.action.fields if part.kind == "quoted"), "")
        text = self.action.text or ""
        short = f"{path.rpartition('/')[2]}: {value}" if path and value and text.startswith("wrote ") else text
        return short if len(short) <= MAX_MARK_LETTERS else f"{short[: MAX_MARK_LETTERS - 1]}…"


def placed_actions(timeline: result.Timeline) -> list[Mark]:
    """Return the actions with a time; without one the time of the first row that follows in the same file."""
    return [mark for action in timeline.actions if (mark := _mark(action, timeline.series))]


def _mark(action: result.Action, series: Sequence[result.TimelineSeries]) -> Mark | None:
    if drawable(action.t):
        return Mark(action.t, action.clock, before=False, action=action)
    rows = []
    for row in series:
        member, _, line = (row.source or "").rpartition(":")
        first = next(_points(row), None)
        if action.line is not None and member == action.member and line.isdecimal() and first:
            rows.append((int(line), first[0], row.clock))
    following = [row for row in rows if action.line is not None and row[0] > action.line]
    if not following:
        return None
    _, time, clock = min(following, key=lambda row: row[:2])
    return Mark(time, clock, before=True, action=action)


def _group(
    axis: Axis, plots: Sequence[Plot], known: Sequence[Episode], marks: Sequence[Mark], boot: result.BootTime | None,
    prefix: str, rules: Sequence[str],
) -> Markup:  # fmt: skip
    """Return plots over the axis; counters that are always 0 are only listed, unless they share a scale."""
    scale = axis.scale
    gaps = (
        f'<rect class="gap" x="{left:.1f}" width="{right - left:.1f}" height="100" fill="#888888" fill-opacity="0.2"/>'
        for left, right in scale.gaps
    )
    axis_marks = [mark for mark in marks if mark.clock == axis.clock and scale.shows(mark.time, mark.time)]
    under = Markup().join([Markup("".join(gaps)), *_shades(axis, known), _grid(scale, axis.clock)])
    over = Markup().join(_action_lines(axis_marks, scale))
    figures, numbers = [], count(1)
    zero_lines: list[Line] = []
    zones: dict[str, list[Line]] = {}
    for plot in plots:
        if plot.panel in ("huge_pages", "processes") and plot.low == plot.high == 0 and plot not in axis.first:
            zero_lines += plot.lines
        elif plot.panel == "free_blocks":
            for line in plot.lines:
                zones.setdefault(line.entity, []).append(line)
        else:
            figures.append(_figure(plot, axis, under, over, f"{prefix}-{next(numbers)}", rules))
    figures += [
        strip(zone, scale, f"{prefix}-blocks{n}", _tags(zone, rules if plots is axis.first else ()))
        for n, zone in enumerate(zones.values(), 1)
    ]
    pairs = zip(scale.stretches, scale.places, strict=True)
    stretches = ",".join(f"{begin:.12g} {end:.12g} {left:.5g} {right:.5g}" for (begin, end), (left, right) in pairs)
    boots = f"{boot.t:.3f} {boot.clock}" if boot and on_other_clock(scale.stretches[-1][1], axis.clock, boot) else ""
    return Markup(
        '<div class="axis" role="group" tabindex="0" aria-label="Measurements over time" data-clock="{}" data-x="{}"'
        ' data-boot="{}">\n{}{}{}{}</div>\n'
    ).format(
        axis.clock or "", stretches, boots, _mark_texts(axis, known, axis_marks), Markup().join(figures),
        time_axis(scale, axis.clock, "small now-at", boot), _zeros(zero_lines),
    )  # fmt: skip


def _grid(scale: TimeScale, clock: str | None) -> Markup:
    """Return faint lines at the ends and the middle of the scale, and at whole times of the clock."""
    across = "M0,2H1000M0,50H1000M0,98H1000"
    down = "".join(f"M{place:.0f},0V100" for place, _ in ticks(scale, clock))
    return Markup(
        f'<path class="grid" fill="none" stroke="#d0d7de" stroke-width="1" vector-effect="non-scaling-stroke" '
        f'd="{across}{down}"/>'
    )


def _mark_texts(axis: Axis, known: Sequence[Episode], marks: Sequence[Mark]) -> Markup:
    """Return the texts of actions and the numbers of episodes above the plots, in rows, so that none overlap."""
    marks_and_numbers = [(axis.scale.x(mark.time), mark.words, "told") for mark in marks]
    for episode in known:
        if episode.clock == axis.clock and axis.scale.shows(episode.first, episode.last):
            marks_and_numbers.append((axis.scale.x(episode.first), str(episode.number), "small"))
    ends = [-1.0] * MARK_ROWS
    texts = []
    for place, words, look in sorted(marks_and_numbers):
        side = anchor(place) if place > WIDTH / 2 else "start"
        width = MARK_LETTER * len(words) + 8
        left = place - width if side == "end" or place + width > WIDTH else place
        row = next((row for row, end in enumerate(ends) if end <= left), None)
        if row is not None:
            ends[row] = left + width
            texts.append((row, place, "end" if left < place else "start", words, look))
    if not texts:
        return Markup()
    rows = 1 + max(row for row, *_ in texts)
    shapes = Markup().join(
        Markup('<text class="{}" x="{:.1f}%" y="{}" font-size="11" fill="#57606a" text-anchor="{}">{}</text>').format(
            "mark" if look == "told" else "number", place / 10, MARK_ROW * row + 11, side, prose(words)
        )
        for row, place, side, words, look in texts
    )
    return Markup('<svg class="marks" width="100%" height="{}" aria-hidden="true">{}</svg>\n').format(
        MARK_ROW * rows, shapes
    )


def _zeros(lines: Sequence[Line]) -> Markup:
    """Return a text with the counters that were always 0, which is a measurement too."""
    if not lines:
        return Markup()
    sources = dict.fromkeys(source for line in lines for source in line.sources)
    return Markup('<p class="small">Recorded, always 0: {} <code class="place">{}</code></p>\n').format(
        prose(", ".join(dict.fromkeys(line.name for line in lines))), prose(", ".join(sources))
    )


def _tags(lines: Sequence[Line], rules: Sequence[str]) -> Markup:
    """Return the rules of the findings that cite any of the lines."""
    cited = (rule for rule in rules if any(rule in line.rules for line in lines))
    return Markup(" ").join(Markup('<code class="rule">{}</code>').format(prose(rule)) for rule in cited)


def _figure(plot: Plot, axis: Axis, under: Markup, over: Markup, name: str, rules: Sequence[str]) -> Markup:
    """Return a plot with the ends of its scale above and below, the legend of its lines, and the rules of findings."""
    single = len(plot.lines) == 1
    is_first = plot in axis.first
    tags = _tags(plot.lines, rules if is_first else ())
    keys = Markup().join(
        _key(line, number, "" if single else f"{line.name}:") for number, line in enumerate(plot.lines)
    )
    title = plot.lines[0].name if single else plot.title
    is_lead = is_first and any(rules[0] in line.rules and line.low < line.high for line in plot.lines)
    height = HEIGHT if is_lead or not single or plot.panel in (*_SHARED_PLOT_PANELS, "free_blocks") else LOW_HEIGHT
    unit = plot.lines[0].unit
    return Markup(
        '<figure class="panel{named}"><figcaption id="{name}"><strong>{title}</strong> {tags}{keys}</figcaption>\n'
        '<svg width="100%" height="{whole}" role="img" aria-labelledby="{name}">'
        '<text class="scale" y="11" font-size="11" fill="#57606a">{high}</text>'
        '<svg class="plot" y="{label}" width="100%" height="{height}" viewBox="0 0 1000 100" '
        'preserveAspectRatio="none"><rect width="1000" height="100" fill="none" pointer-events="all"/>'
        "{under}{lines}{over}</svg>"
        '<text class="scale" y="{foot}" font-size="11" fill="#57606a">{low}</text></svg></figure>\n'
    ).format(
        named=" named" if tags else "",
        name=name,
        title=prose(title),
        tags=tags,
        keys=keys,
        whole=height + 2 * LABEL,
        height=height,
        label=LABEL,
        foot=height + 2 * LABEL - 3,
        under=under,
        lines=Markup().join(_line(line, number, axis, plot) for number, line in enumerate(plot.lines)),
        over=over,
        high=quantity(plot.high if plot.high > plot.low else plot.low + 1, unit),
        low=quantity(plot.low, unit),
    )


def _line(line: Line, number: int, axis: Axis, plot: Plot) -> Markup:
    """Return the band of the ranges and the line of the means."""
    low, height = plot.low, (plot.high - plot.low) or 1.0
    colour, style = COLOURS[number % len(COLOURS)], number % len(COLOURS) + 1

    def y(value: float) -> float:
        return 98 - 96 * (value - low) / height

    runs = columns(line.points, axis.scale.x)
    area = band(runs, axis.scale.x, y)
    ranges = f'<path class="b{style}" fill="{colour}" fill-opacity="0.25" d="{area}"/>' if area else ""
    return Markup(
        f'<g data-s="{",".join(map(str, line.numbers))}" data-y="{low:.6g} {height:.6g}">{ranges}'
        f'<path class="s{style}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke" '
        f'd="{line_path(runs, axis.scale.x, y)}"/></g>'
    )


def _key(line: Line, number: int, name: str) -> Markup:
    """Return the legend of a line as text, so that it can be read without colours."""
    low, high, mean = (quantity(value, line.unit) for value in (line.low, line.high, line.mean))
    return Markup(
        '<span class="key"><svg width="14" height="10" aria-hidden="true">'
        '<rect class="b{look}" width="14" height="4" y="3" fill="{colour}"/></svg>&nbsp;'
        '<span class="what">{name} {low} to {high}, mean {mean} <code class="place">{sources}</code></span> '
        '<span class="now"></span></span> '
    ).format(
        look=number % len(COLOURS) + 1, colour=COLOURS[number % len(COLOURS)], name=prose(name), low=low,
        high=high, mean=mean, sources=prose(", ".join(line.sources)),
    )  # fmt: skip


def _shades(axis: Axis, known: Sequence[Episode]) -> Iterator[Markup]:
    """Yield a shade for each episode; one that covers nearly all of the axis is a strip at the foot."""
    for episode in known:
        if episode.clock != axis.clock or not axis.scale.shows(episode.first, episode.last):
            continue
        left, right = axis.scale.x(episode.first), axis.scale.x(episode.last)
        words = f"episode {episode.number}: {' '.join(map(prose, episode.rules))}"
        top = _FOOT if right - left > _MAX_SHADED_SHARE * WIDTH else 0
        yield Markup(
            '<rect class="shade" x="{:.1f}" width="{:.1f}" y="{}" height="{}" fill="#f2d9a6" fill-opacity="0.55">'
            "<title>{}</title></rect>"
        ).format(left, max(right - left, 2.0), top, 100 - top, words)


def _action_lines(marks: Sequence[Mark], scale: TimeScale) -> Iterator[Markup]:
    """Yield a line at the time of each operator action."""
    for mark in marks:
        yield Markup(
            '<path class="action" d="M{0:.1f},0V100" fill="none" stroke="#a40e26" stroke-width="1.5" '
            'stroke-dasharray="4 3" vector-effect="non-scaling-stroke"><title>{1}{2}</title></path>'
        ).format(scale.x(mark.time), prose(mark.action.text or ""), ", before this" if mark.before else "")
