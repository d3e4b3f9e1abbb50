"""Series as panels over one axis of time, with what was found shaded and what operators did marked.

What the findings speak of comes first, the leading finding's before that of others, each process, zone and counter on
a scale of its own; the rest is folded below. What operators did stands as a line through all panels, its words above.

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
_TOGETHER = ("cpu", "call_stacks", "memory")
_SHARES = ("cpu", "call_stacks")
NO_HIGHS: Mapping[str, float] = MappingProxyType({})
ORDER = ("cpu", "call_stacks", "huge_pages", "memory", "processes", "free_blocks", None)
HEIGHT, LOW_HEIGHT = 100, 44  # of a plot, and of one with a single counter
LABEL = 14  # pixels above and below a plot, for the ends of its scale: no line runs through them
FAR, NOISE = 0.5, 0.005  # of the most: the least of what does not begin at 0, and the change that is worth it
MAX_FIRST = 8  # plots that are not folded
MARK_ROWS, MARK_ROW = 4, 15  # rows of words above the plots, and pixels of each
MARK_LETTER = 7.5  # units of width, of a wide page
MAX_MARK = 44  # letters
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
    """Plots over one axis of time, by a clock of the model (None: the times are sample numbers).

    `first` are those of what findings speak of.
    """

    clock: str | None
    scale: TimeScale
    first: tuple[Plot, ...]
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


def axes(timeline: result.Timeline, highs: Mapping[str, float] = NO_HIGHS, rules: Sequence[str] = ()) -> list[Axis]:
    """The axes of a timeline, that of what findings speak of and with most points first.

    `highs` is by metric up to which value its plot reaches at least: two charts side by side need one scale. `rules`
    are those whose findings have their plots first, the leading one's before all others.
    """
    by_clock: dict[str | None, list[tuple[str | None, Line]]] = {}
    for clock, panel, line in drawn_lines(timeline.series):
        by_clock.setdefault(clock, []).append((panel, line))
    found = []
    for clock, lines in by_clock.items():
        first, others = _named_first(lines, rules)
        scale = time_scale([p[0] for p in line.points] for _, line in lines)
        found.append(Axis(clock, scale, tuple(first), tuple(_plots(others, highs))))
    return sorted(found, key=lambda axis: (not axis.first, -sum(map(_points_of, (*axis.first, *axis.plots)))))


def _points_of(plot: Plot) -> int:
    return sum(len(line.points) for line in plot.lines)


def _named_first(
    lines: Sequence[tuple[str | None, Line]], rules: Sequence[str]
) -> tuple[list[Plot], list[tuple[str | None, Line]]]:
    """Plots of what findings speak of, each entity and metric alone; shares of CPU time and free blocks of a zone
    together. The other lines."""
    rank = {rule: number for number, rule in reversed(list(enumerate(rules)))}

    def order(line: Line) -> int:
        return min((rank[rule] for rule in line.rules if rule in rank), default=len(rank))

    groups: dict[tuple[Any, ...], list[tuple[str | None, Line]]] = {}
    for panel, line in sorted(lines, key=lambda pair: (order(pair[1]), ORDER.index(pair[0]))):
        if order(line) < len(rank):
            alone = line.metric if panel not in (*_SHARES, "free_blocks") else None
            groups.setdefault((panel, line.unit, alone, line.entity), []).append((panel, line))
    first = list(groups.values())[:MAX_FIRST]
    shown = {id(line) for members in first for _, line in members}
    plots = [plot for members in first for plot in _plots(members, NO_HIGHS, own_scale=True)]
    return plots, [pair for pair in lines if id(pair[1]) not in shown]


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
        name = name_entity(words, entity) if entity else words
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


def _plots(
    lines: Sequence[tuple[str | None, Line]], highs: Mapping[str, float], *, own_scale: bool = False
) -> Iterator[Plot]:
    """A share of time or of samples is drawn in a plot of 100 %: 3 % then look like 3 %. Each process has its own.

    `own_scale`: memory that changes little beside what it is begins at its least.
    """
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for panel, line in sorted(lines, key=lambda pair: ORDER.index(pair[0])):
        apart = None if panel in _TOGETHER else line.metric
        groups.setdefault((panel, line.unit, apart, line.entity if panel == "processes" else None), []).append(line)
    highest: dict[str, float] = {}  # of each metric: processes beside one another are drawn in one scale
    for _, line in lines:
        highest[line.metric] = max(line.high, highest.get(line.metric, 0.0))
    for (panel, _, apart, _), members in groups.items():
        title = TITLES.get(panel or "", "") if apart is None else ""
        if panel == "processes":
            highs = {**highs, members[0].metric: max(highest[members[0].metric], highs.get(members[0].metric, 0.0))}
        whole = 1.0 if panel in _SHARES and members[0].unit == "ratio" else 0.0
        high = max(whole, *(max(line.high, highs.get(line.metric, 0.0)) for line in members))
        low = min(line.low for line in members)
        low = low if own_scale and _is_far_from_zero(low, high) and members[0].unit == "bytes" else min(low, 0.0)
        yield Plot(panel, title or members[0].name, tuple(members), low, high)


def _is_far_from_zero(low: float, high: float) -> bool:
    """Whether a change would be hard to see above 0, and is more than noise."""
    return low > FAR * high and high - low > NOISE * high


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


def panels(
    timeline: result.Timeline, prefix: str, highs: Mapping[str, float] = NO_HIGHS, rules: Sequence[str] = ()
) -> Markup:
    """All panels of a timeline; `prefix` begins the ids of their captions, `highs` and `rules` are those of `axes`."""
    known, marks = episodes(timeline), placed_actions(timeline)
    return Markup().join(
        _axis(axis, known, marks, timeline.boot, f"{prefix}-axis{number}", rules)
        for number, axis in enumerate(axes(timeline, highs, rules), 1)
    )


def _axis(
    axis: Axis, known: Sequence[Episode], marks: Sequence[Mark], boot: result.BootTime | None, prefix: str,
    rules: Sequence[str],
) -> Markup:  # fmt: skip
    """What findings speak of, and the rest, folded if there is any such."""
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
    """What an operator did, on a clock. `before`: when is not known, but that it was before this time."""

    time: float
    clock: str | None
    before: bool
    action: result.Action

    @property
    def words(self) -> str:
        """`enabled: never` of a setting that was written."""
        path = next((str(part.value) for part in self.action.fields if part.kind == "path"), "")
        value = next((str(part.value) for part in self.action.fields if part.kind == "quoted"), "")
        told = self.action.text or ""
        short = f"{path.rpartition('/')[2]}: {value}" if path and value and told.startswith("wrote ") else told
        return short if len(short) <= MAX_MARK else f"{short[: MAX_MARK - 1]}…"


def placed_actions(timeline: result.Timeline) -> list[Mark]:
    """The actions in time; those without a time before the series whose first row stands next below in their file."""
    return [mark for action in timeline.actions if (mark := _mark(action, timeline.series))]


def _mark(action: result.Action, series: Sequence[result.TimelineSeries]) -> Mark | None:
    if drawable(action.t):
        return Mark(action.t, action.clock, before=False, action=action)
    below = []
    for one in series:
        member, _, line = (one.source or "").rpartition(":")
        first = next(_points(one), None)
        if action.line is not None and member == action.member and line.isdecimal() and first:
            below.append((int(line), first[0], one.clock))
    following = [one for one in below if action.line is not None and one[0] > action.line]
    if not following:
        return None
    _, time, clock = min(following, key=lambda one: one[:2])
    return Mark(time, clock, before=True, action=action)


def _group(
    axis: Axis, plots: Sequence[Plot], known: Sequence[Episode], marks: Sequence[Mark], boot: result.BootTime | None,
    prefix: str, rules: Sequence[str],
) -> Markup:  # fmt: skip
    """Plots over the axis; a counter that never moved needs none (in its own scale; beside another one it does)."""
    scale = axis.scale
    gaps = (
        f'<rect class="gap" x="{left:.1f}" width="{right - left:.1f}" height="100" fill="#888888" fill-opacity="0.2"/>'
        for left, right in scale.gaps
    )
    here = [mark for mark in marks if mark.clock == axis.clock and scale.shows(mark.time, mark.time)]
    under = Markup().join([Markup("".join(gaps)), *_shades(axis, known), _grid(scale, axis.clock)])
    over = Markup().join(_lines_of(here, scale))
    figures, numbers = [], count(1)
    still: list[Line] = []
    zones: dict[str, list[Line]] = {}
    for plot in plots:
        if plot.panel in ("huge_pages", "processes") and plot.low == plot.high == 0 and plot not in axis.first:
            still += plot.lines
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
        axis.clock or "", stretches, boots, _mark_words(axis, known, here), Markup().join(figures),
        time_axis(scale, axis.clock, "small now-at", boot), _zeros(still),
    )  # fmt: skip


def _grid(scale: TimeScale, clock: str | None) -> Markup:
    """Faint lines at the ends and the middle of the scale, and at whole times of the clock."""
    across = "M0,2H1000M0,50H1000M0,98H1000"
    down = "".join(f"M{place:.0f},0V100" for place, _ in ticks(scale, clock))
    return Markup(
        f'<path class="grid" fill="none" stroke="#d0d7de" stroke-width="1" vector-effect="non-scaling-stroke" '
        f'd="{across}{down}"/>'
    )


def _mark_words(axis: Axis, known: Sequence[Episode], here: Sequence[Mark]) -> Markup:
    """The words of the lines, and the numbers of the episodes, above the plots: in rows, so that none is on another."""
    told = [(axis.scale.x(mark.time), mark.words, "told") for mark in here]
    for one in known:
        if one.clock == axis.clock and axis.scale.shows(one.first, one.last):
            told.append((axis.scale.x(one.first), str(one.number), "small"))
    ends = [-1.0] * MARK_ROWS
    texts = []
    for place, words, look in sorted(told):
        side = anchor(place) if place > WIDTH / 2 else "start"
        wide = MARK_LETTER * len(words) + 8
        left = place - wide if side == "end" or place + wide > WIDTH else place
        row = next((row for row, end in enumerate(ends) if end <= left), None)
        if row is not None:
            ends[row] = left + wide
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
    """Counters that never moved, in words: that they were watched and stood still is a measurement."""
    if not lines:
        return Markup()
    sources = dict.fromkeys(source for line in lines for source in line.sources)
    return Markup('<p class="small">Recorded, always 0: {} <code class="place">{}</code></p>\n').format(
        prose(", ".join(dict.fromkeys(line.name for line in lines))), prose(", ".join(sources))
    )


def _tags(lines: Sequence[Line], rules: Sequence[str]) -> Markup:
    """The rules of the findings that speak of any of the lines."""
    cited = (rule for rule in rules if any(rule in line.rules for line in lines))
    return Markup(" ").join(Markup('<code class="rule">{}</code>').format(prose(rule)) for rule in cited)


def _figure(plot: Plot, axis: Axis, under: Markup, over: Markup, name: str, rules: Sequence[str]) -> Markup:
    """Ends of the scale above and below the plot, what the lines are in rows of fixed places, the findings' rules."""
    single = len(plot.lines) == 1
    is_first = plot in axis.first
    tags = _tags(plot.lines, rules if is_first else ())
    keys = Markup().join(
        _key(line, number, "" if single else f"{line.name}:") for number, line in enumerate(plot.lines)
    )
    title = plot.lines[0].name if single else plot.title
    leads = is_first and any(rules[0] in line.rules and line.low < line.high for line in plot.lines)
    height = HEIGHT if leads or not single or plot.panel in (*_TOGETHER, "free_blocks") else LOW_HEIGHT
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


def _key(line: Line, number: int, name: str) -> Markup:
    """What a line is, in words: it is to be read without the colours, too."""
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


def _lines_of(marks: Sequence[Mark], scale: TimeScale) -> Iterator[Markup]:
    """A line at each moment at which an operator did something."""
    for mark in marks:
        yield Markup(
            '<path class="action" d="M{0:.1f},0V100" fill="none" stroke="#a40e26" stroke-width="1.5" '
            'stroke-dasharray="4 3" vector-effect="non-scaling-stroke"><title>{1}{2}</title></path>'
        ).format(scale.x(mark.time), prose(mark.action.text or ""), ", before this" if mark.before else "")
