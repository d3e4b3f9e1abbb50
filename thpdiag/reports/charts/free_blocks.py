"""Free memory by block size: over time as a strip, and single readings as histograms."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from thpdiag.reports.charts.plots import Line
from thpdiag.reports.charts.scale import WIDTH, TimeScale
from thpdiag.reports.quantity import quantity
from thpdiag.reports.visible import prose

LEVELS = ("#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c")  # few to many
_COLUMNS = 100
_ROW = 10  # units of height
_BAR, _HIGH = 10, 24  # pixels of a histogram
HUGE = 9  # the order of a 2 MiB block of 4 KiB pages


def strip(lines: Sequence[Line], scale: TimeScale, name: str) -> Markup:
    """One row for each order of a zone, the largest blocks on top; white where there is none, the darker the more."""
    rows = sorted(((_order(line.metric), line) for line in lines), key=lambda row: -row[0])
    most = max(line.high for _, line in rows)
    shapes = Markup().join(_cells(rows, scale, most))
    height = _ROW * len(rows)
    labels = Markup().join(
        Markup('<text x="4" y="{}">{}</text>').format(_ROW * number + 8, order)
        for number, (order, _) in enumerate(rows)
        if order in (0, HUGE) or number == 0
    )
    sources = prose(", ".join(dict.fromkeys(source for _, line in rows for source in line.sources)))
    entity = prose(lines[0].entity)
    return Markup(
        '<figure class="panel"><figcaption id="{name}">Free blocks by order{of}: order 0 (one page) at the bottom, '
        "blocks of a huge page from order 9 on; dark: many (at most {most}), empty: none "
        '<code class="place">{sources}</code></figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}">'
        '<svg class="plot" width="100%" height="{height}" viewBox="0 0 1000 {height}" preserveAspectRatio="none">'
        '{shapes}<path class="huge" d="M0,{border}H1000" fill="none" stroke="#a40e26" stroke-width="1" '
        'vector-effect="non-scaling-stroke"/></svg><g font-size="9" fill="#57606a" stroke="#ffffff" stroke-width="2" '
        'paint-order="stroke">{labels}</g></svg></figure>\n'
    ).format(
        name=name, of=f" of {entity}" if entity else "", most=quantity(most), sources=sources, height=height,
        shapes=shapes, border=_ROW * sum(order >= HUGE for order, _ in rows), labels=labels,
    )  # fmt: skip


def _order(metric: str) -> int:
    found = re.search(r"(\d+)$", metric)
    return int(found[1]) if found else 0


def _cells(rows: Sequence[tuple[int, Line]], scale: TimeScale, most: float) -> Iterator[Markup]:
    """One path for each level, of all cells that have it."""
    found: dict[int, list[str]] = {}
    for number, (_, line) in enumerate(rows):
        columns = _columns(line, scale)
        for level, group in groupby(columns, key=lambda cell: _level(cell[2], most)):
            cells = list(group)
            if level >= 0:
                left, right = round(cells[0][0]), round(cells[-1][1])
                across = max(right - left, 1)
                found.setdefault(level, []).append(f"M{left},{number * _ROW}h{across}v{_ROW}h-{across}z")
    for level, shapes in sorted(found.items()):
        yield Markup(f'<path class="l{level + 1}" fill="{LEVELS[level]}" d="{"".join(shapes)}"/>')


def _columns(line: Line, scale: TimeScale) -> list[tuple[float, float, float]]:
    """(left, right, mean) of the columns that have a reading; a reading holds until the next."""
    wide = WIDTH / _COLUMNS
    groups = [
        (place, [point[3] for point in group])
        for place, group in groupby(line.points, key=lambda point: scale.x(point[0]) // wide)
    ]
    ends = [place for place, _ in groups[1:]] + [min(groups[-1][0] + 1, float(_COLUMNS))]
    return [
        (place * wide, max(end, place + 1) * wide, sum(means) / len(means))
        for (place, means), end in zip(groups, ends, strict=True)
    ]


def _level(count: float, most: float) -> int:
    """By the logarithm; -1 for none."""
    if count < 0.5:
        return -1
    part = math.log1p(count) / math.log1p(max(most, 1.0))
    return min(int(part * len(LEVELS)), len(LEVELS) - 1)


def histogram(counts: Sequence[int]) -> Markup:
    """A bar for each order from 0 on, as high as its share of the free memory; the numbers stand beside it."""
    shares = _shares(counts)
    shapes = (
        f"M{_BAR * order},{_HIGH}v-{round(_HIGH * share, 1):g}h{_BAR - 2}V{_HIGH}z"
        for order, share in enumerate(shares)
        if share
    )
    return Markup(
        f'<svg width="{_BAR * len(shares)}" height="{_HIGH}" aria-hidden="true">'
        f'<path class="b1" fill="#2b6cb0" d="{"".join(shapes)}"/></svg>'
    )


def large(counts: Sequence[int]) -> float:
    """The share of the free memory that lies in blocks of a huge page or larger ones."""
    return sum(_shares(counts)[HUGE:])


def _shares(counts: Sequence[int]) -> list[float]:
    """Of the free memory, by order; a block has twice the pages of one of the order below."""
    pages = [count * 2**order for order, count in enumerate(counts)]
    return [count / (sum(pages) or 1) for count in pages]
