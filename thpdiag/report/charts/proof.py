"""The one figure that convinces, drawn small beside the verdict: what the strongest evidence of the finding measured.

A share of the samples as a part of a bar; a switched setting as the values under either of its values; growth beside
the page faults of the same process; a counter over time. Which one is drawn goes by the class of the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from thpdiag.model.result import Action, Evidence, Finding, Result
from thpdiag.report import messages
from thpdiag.report.charts.axes import Line, columns, line_path, time_scale
from thpdiag.report.charts.panels import COLOURS, drawable, drawn_lines
from thpdiag.report.escaping import prose
from thpdiag.report.quantity import percent, quantity

MOST = 2  # lines below each other
ROW, PLOT = 16, 40  # pixels: of a line of text, of a line's plot
FAULTS = "fault"  # in the names of metrics of page faults
GROWN = "process_resident_memory_bytes"


def proof_figure(result: Result, name: str) -> Markup:
    """`name` is the id of its caption. Empty where the strongest evidence is nothing to draw."""
    finding = messages.leading(result) or messages.acting_alone(result)
    if finding is None:
        return Markup()
    own = [line for _, _, line in drawn_lines(result.timeline.series) if finding.rule in line.rules]
    evidence = messages.proof(finding)
    grows = finding.mechanism in messages.GROWTH
    for one in sorted(evidence, key=lambda one: one.kind != "effect") if grows else evidence:
        drawn = _draw(one, finding, own, result.timeline.actions)
        if drawn:
            return Markup(
                '<figure class="proof">\n{}<figcaption id="{}" class="small">{}</figcaption></figure>'
            ).format(drawn.svg(name), name, drawn.caption)
    return Markup()


class Drawing(NamedTuple):
    """Shapes in a picture of so many pixels height, and what they show."""

    height: int
    shapes: Markup
    caption: str | Markup

    def svg(self, name: str) -> Markup:
        return Markup('<svg width="100%" height="{}" role="img" aria-labelledby="{}">{}</svg>\n').format(
            self.height, name, self.shapes
        )


def _draw(one: Evidence, finding: Finding, lines: Sequence[Line], actions: Sequence[Action]) -> Drawing | None:
    if one.kind == "toggle":
        return _sides(one, lines, actions) or _ratio(one)
    if one.kind == "stack" and one.unit == "ratio" and drawable(one.value) and 0 <= one.value <= 1:
        return _share(one.value)
    if one.kind == "effect":
        same = [line for line in lines if line.entity == (finding.entity or "")]
        grown = [line for line in same if line.metric == GROWN]
        faults = [line for line in same if FAULTS in line.metric]
        return _course([*grown, *faults] or same)
    if one.kind == "counter":
        return _course([line for line in lines if line.metric.startswith("node_")])
    return _course([line for line in lines if line.metric.startswith("cpu_")]) if one.kind == "cpu" else None


def _share(share: float) -> Drawing:
    """A bar of all samples that are not idle, the part in question filled."""
    bar = Markup(
        '<rect class="rest" width="100%" height="22" fill="#e5e8eb"/>'
        '<rect class="b2" width="{:.4g}%" height="22" fill="#b0370a"/>'
    ).format(100 * share)
    return Drawing(22, bar, f"{percent(share)} of the samples that are not idle")


def _ratio(one: Evidence) -> Drawing | None:
    """Two bars, one as many times as long as the other, where the values themselves are not in the document."""
    if not drawable(one.value) or one.value <= 1:
        return None
    names = [prose(str(part.value)) for part in one.fields if part.kind == "quoted"] or ["on", "off"]
    bars = Markup().join(
        Markup(
            '<text y="{}" font-size="11" fill="#57606a">{}</text><rect class="b{}" y="{}" width="{:.4g}%" height="12" '
            'fill="{}"/>'
        ).format(32 * row + 12, name, 2 - row, 32 * row + 17, max(100 * part, 0.5), COLOURS[1 - row])
        for row, (name, part) in enumerate(((names[0], 1.0), (names[-1], 1 / one.value)))
    )
    return Drawing(64, bars, f"{one.value:.1f} times as much with {names[0]} as with {names[-1]}")


def last_action(source: str, actions: Sequence[Action]) -> Action | None:
    """What an operator did last before a series began, by the lines of the file that both stand in."""
    member, _, line = source.rpartition(":")
    before = [
        one
        for one in actions
        if one.member == member and one.line is not None and line.isdecimal() and one.line < int(line)
    ]
    return max(before, key=lambda one: one.line or 0, default=None)


def _sides(one: Evidence, lines: Sequence[Line], actions: Sequence[Action]) -> Drawing | None:
    """The values of both sides of a switch as dots on one scale: of the metric whose means differ as it is said."""
    for line in lines:
        sides = _by_switch(line, actions)
        means = [sum(values) / len(values) for _, values in sides]
        if len(sides) == MOST and min(means) > 0 and drawable(one.value):
            ratio = max(means) / min(means)
            if abs(ratio - one.value) <= 0.1 * one.value:
                return _dots(line, sides, means)
    return None


def _by_switch(line: Line, actions: Sequence[Action]) -> list[tuple[str, list[float]]]:
    """The means of the buckets, by the value that was written last before each stretch of the line."""
    found: dict[str, list[float]] = {}
    for source, begin, end in _stretches(line):
        action = last_action(source, actions)
        value = next((part.value for part in action.fields if part.kind == "quoted"), "") if action else "before"
        found.setdefault(value, []).extend(point[3] for point in line.points[begin:end])
    return [(name, values) for name, values in found.items() if values]


def _stretches(line: Line) -> list[tuple[str, int, int]]:
    """Of each source the places of its points, where the sources follow each other."""
    if len(line.sources) != len(line.sizes):
        return []
    ends = [0]
    for size in line.sizes:
        ends.append(ends[-1] + size)
    return [(source, begin, end) for source, (begin, end) in zip(line.sources, pairwise(ends), strict=True)]


def _dots(line: Line, sides: Sequence[tuple[str, list[float]]], means: Sequence[float]) -> Drawing:
    high = 1.0 if line.unit == "ratio" and line.high <= 1 else line.high
    rows = []
    for number, (_, (name, values)) in enumerate(sorted(zip(means, sides, strict=True), reverse=True)):
        look = 1 if number else 2
        top = number * 2 * ROW + ROW
        dots = Markup().join(
            Markup('<rect x="{:.1f}%" y="{}" width="5" height="10"/>').format(98 * value / high, top + 2)
            for value in values
        )
        rows.append(
            Markup(
                '<text y="{}" font-size="11" fill="#57606a">{}, {}</text><g class="b{}" fill="{}" '
                'fill-opacity="0.55">{}</g>'
            ).format(top - 4, prose(name), messages.plural(len(values), "sample"), look, COLOURS[look - 1], dots)
        )
    told = f"{prose(line.name)}, each sample, from 0 to {quantity(high, line.unit)}"
    return Drawing(len(sides) * 2 * ROW + 4, Markup().join(rows), told)


def _course(lines: Sequence[Line]) -> Drawing | None:
    """The first lines over their time, each on a scale of its own: memory from its least, rates from 0."""
    rows, shown = [], [line for line in lines if len(line.points) > 1][:MOST]
    for number, line in enumerate(shown):
        scale = time_scale([[point[0] for point in line.points]])
        high, low = line.high or 1.0, line.low if line.unit == "bytes" else min(line.low, 0.0)

        def y(value: float, high: float = high, low: float = low) -> float:
            return 97 - 94 * (value - low) / ((high - low) or 1.0)

        top = number * (ROW + PLOT)
        path = line_path(columns(line.points, scale.x), scale.x, y)
        rows.append(
            Markup(
                '<text y="{}" font-size="11" fill="#57606a">{}</text><svg y="{}" width="100%" height="{}" '
                'viewBox="0 0 1000 100" preserveAspectRatio="none"><path class="base" d="M0,97H1000" stroke="#d0d7de" '
                'vector-effect="non-scaling-stroke"/><path class="s{}" fill="none" stroke="{}" stroke-width="2" '
                'vector-effect="non-scaling-stroke" d="{}"/></svg>'
            ).format(top + 12, _range(line), top + ROW, PLOT - 4, number + 1, COLOURS[number], path)
        )
    names = "; below: ".join(prose(line.name) for line in shown)
    return Drawing(len(rows) * (ROW + PLOT), Markup().join(rows), names) if rows else None


def _range(line: Line) -> str:
    low, high = quantity(line.low, line.unit), quantity(line.high, line.unit)
    return low if low == high else f"{low} to {high}"
