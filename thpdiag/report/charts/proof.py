"""The figure next to the verdict: what the strongest evidence of the finding measured.

The class of the evidence selects the figure: a share of the samples as part of a bar; a changed setting as the values
under both of its values; growth next to the page faults of the same process; a counter over time.
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

MAX_LINES = 2  # one below the other
ROW, PLOT = 16, 40  # heights in pixels, of a line of text and of a plot
FAULTS = "fault"  # part of the names of page fault metrics
RESIDENT_MEMORY = "process_resident_memory_bytes"


def proof_figure(result: Result, name: str) -> Markup:
    """Return the figure; `name` is the id of its caption. Empty if no evidence can be drawn."""
    finding = messages.lead_finding(result) or messages.first_actionable_finding(result)
    if finding is None:
        return Markup()
    lines = [line for _, _, line in drawn_lines(result.timeline.series) if finding.rule in line.rules]
    evidence = messages.proof(finding)
    is_growth = finding.mechanism in messages.GROWTH_MECHANISMS
    for item in sorted(evidence, key=lambda item: item.kind != "effect") if is_growth else evidence:
        drawn = _draw(item, finding, lines, result.timeline.actions)
        if drawn:
            return Markup(
                '<figure class="proof">\n{}<figcaption id="{}" class="small">{}</figcaption></figure>'
            ).format(drawn.svg(name), name, drawn.caption)
    return Markup()


class Drawing(NamedTuple):
    """Shapes in a picture with a height in pixels, and a caption."""

    height: int
    shapes: Markup
    caption: str | Markup

    def svg(self, name: str) -> Markup:
        return Markup('<svg width="100%" height="{}" role="img" aria-labelledby="{}">{}</svg>\n').format(
            self.height, name, self.shapes
        )


def _draw(evidence: Evidence, finding: Finding, lines: Sequence[Line], actions: Sequence[Action]) -> Drawing | None:
    if evidence.kind == "toggle":
        return _sides(evidence, lines, actions) or _ratio(evidence)
    if evidence.kind == "stack" and evidence.unit == "ratio" and drawable(evidence.value) and 0 <= evidence.value <= 1:
        return _share(evidence.value)
    if evidence.kind == "effect":
        of_entity = [line for line in lines if line.entity == (finding.entity or "")]
        memory = [line for line in of_entity if line.metric == RESIDENT_MEMORY]
        faults = [line for line in of_entity if FAULTS in line.metric]
        return _course([*memory, *faults] or of_entity)
    if evidence.kind == "counter":
        return _course([line for line in lines if line.metric.startswith("node_")])
    return _course([line for line in lines if line.metric.startswith("cpu_")]) if evidence.kind == "cpu" else None


def _share(share: float) -> Drawing:
    """Return a bar of all non-idle samples, filled by the share."""
    bar = Markup(
        '<rect class="rest" width="100%" height="22" fill="#e5e8eb"/>'
        '<rect class="b2" width="{:.4g}%" height="22" fill="#b0370a"/>'
    ).format(100 * share)
    return Drawing(22, bar, f"{percent(share)} of the samples that are not idle")


def _ratio(evidence: Evidence) -> Drawing | None:
    """Return two bars with this ratio of lengths, if the values themselves are not in the document."""
    if not drawable(evidence.value) or evidence.value <= 1:
        return None
    names = [prose(str(part.value)) for part in evidence.fields if part.kind == "quoted"] or ["on", "off"]
    bars = Markup().join(
        Markup(
            '<text y="{}" font-size="11" fill="#57606a">{}</text><rect class="b{}" y="{}" width="{:.4g}%" height="12" '
            'fill="{}"/>'
        ).format(32 * row + 12, name, 2 - row, 32 * row + 17, max(100 * part, 0.5), COLOURS[1 - row])
        for row, (name, part) in enumerate(((names[0], 1.0), (names[-1], 1 / evidence.value)))
    )
    return Drawing(64, bars, f"{evidence.value:.1f} times as much with {names[0]} as with {names[-1]}")


def last_action(source: str, actions: Sequence[Action]) -> Action | None:
    """Return the last action of an operator before a series, by line numbers in their common file."""
    member, _, line = source.rpartition(":")
    before = [
        action
        for action in actions
        if action.member == member and action.line is not None and line.isdecimal() and action.line < int(line)
    ]
    return max(before, key=lambda action: action.line or 0, default=None)


def _sides(evidence: Evidence, lines: Sequence[Line], actions: Sequence[Action]) -> Drawing | None:
    """Return both sides of a switch as dots on one scale, for the metric whose means have the ratio of the evidence."""
    for line in lines:
        sides = _by_switch(line, actions)
        means = [sum(values) / len(values) for _, values in sides]
        if len(sides) == 2 and min(means) > 0 and drawable(evidence.value):
            ratio = max(means) / min(means)
            if abs(ratio - evidence.value) <= 0.1 * evidence.value:
                return _dots(line, sides, means)
    return None


def _by_switch(line: Line, actions: Sequence[Action]) -> list[tuple[str, list[float]]]:
    """Return the means of the buckets by the value that was written last before each part of the line."""
    by_value: dict[str, list[float]] = {}
    for source, begin, end in _stretches(line):
        action = last_action(source, actions)
        value = next((part.value for part in action.fields if part.kind == "quoted"), "") if action else "before"
        by_value.setdefault(value, []).extend(point[3] for point in line.points[begin:end])
    return [(name, values) for name, values in by_value.items() if values]


def _stretches(line: Line) -> list[tuple[str, int, int]]:
    """Return the range of points of each source, if the sources follow each other."""
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
        style = 1 if number else 2
        top = number * 2 * ROW + ROW
        dots = Markup().join(
            Markup('<rect x="{:.1f}%" y="{}" width="5" height="10"/>').format(98 * value / high, top + 2)
            for value in values
        )
        rows.append(
            Markup(
                '<text y="{}" font-size="11" fill="#57606a">{}, {}</text><g class="b{}" fill="{}" '
                'fill-opacity="0.55">{}</g>'
            ).format(top - 4, prose(name), messages.plural(len(values), "sample"), style, COLOURS[style - 1], dots)
        )
    caption = f"{prose(line.name)}, each sample, from 0 to {quantity(high, line.unit)}"
    return Drawing(len(sides) * 2 * ROW + 4, Markup().join(rows), caption)


def _course(lines: Sequence[Line]) -> Drawing | None:
    """Return the first lines over time, each on its own scale: memory from its minimum, rates from 0."""
    rows, drawn = [], [line for line in lines if len(line.points) > 1][:MAX_LINES]
    for number, line in enumerate(drawn):
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
    names = "; below: ".join(prose(line.name) for line in drawn)
    return Drawing(len(rows) * (ROW + PLOT), Markup().join(rows), names) if rows else None


def _range(line: Line) -> str:
    low, high = quantity(line.low, line.unit), quantity(line.high, line.unit)
    return low if low == high else f"{low} to {high}"
