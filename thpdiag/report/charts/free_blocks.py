"""Free memory by block size: over time as a strip, and single readings as histograms."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from thpdiag.report.charts.axes import WIDTH, Line, TimeScale
from thpdiag.report.escaping import prose
from thpdiag.report.quantity import quantity

LEVELS = ("#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c")  # few to many
COLUMNS = 100
_ROW = 10  # units of height
_BAR, _HIGH = 10, 24  # pixels of a histogram
NO_TAGS = Markup()
HUGE = 9  # the order of a 2 MiB block of 4 KiB pages


def strip(lines: Sequence[Line], scale: TimeScale, name: str, tags: Markup = NO_TAGS) -> Markup:
    """One row for each order of a zone, the largest blocks on top; white where there is none, the darker the more.

    `tags` are the rules of findings that speak of the zone.
    """
    orders = [(int(found[1]) if (found := re.search(r"(\d+)$", line.metric)) else 0, line) for line in lines]
    rows = sorted(orders, key=lambda row: -row[0])
    most = max(line.high for _, line in rows)
    height = _ROW * len(rows)
    sources = prose(", ".join(dict.fromkeys(source for _, line in rows for source in line.sources)))
    entity = prose(lines[0].entity)
    return Markup(
        '<figure class="panel{named}"><figcaption id="{name}"><strong>Free blocks by order{of}</strong> {tags}: a row '
        'for each order, above the line blocks of a huge page; dark: many (at most {most}), empty: none '
        '<code class="place">{sources}</code></figcaption>\n'
        '<svg width="100%" height="{whole}" role="img" aria-labelledby="{name}">'
        '<text class="scale" y="11" font-size="11" fill="#57606a">order {largest}</text>'
        '<svg class="plot" y="14" width="100%" height="{height}" viewBox="0 0 1000 {height}" '
        'preserveAspectRatio="none">{shapes}<path class="huge" d="M0,{border}H1000" fill="none" stroke="#a40e26" '
        'stroke-width="1" vector-effect="non-scaling-stroke"/></svg>'
        '<text class="scale" y="{foot}" font-size="11" fill="#57606a">order {least}</text></svg></figure>\n'
    ).format(
        named=" named" if tags else "", name=name, of=f" of {entity}" if entity else "", tags=tags,
        most=quantity(most), sources=sources, height=height, whole=height + 28, foot=height + 25,
        largest=rows[0][0], least=rows[-1][0],
        shapes=Markup().join(_cells([line for _, line in rows], scale, most)),
        border=_ROW * sum(order >= HUGE for order, _ in rows),
    )  # fmt: skip


def _cells(lines: Sequence[Line], scale: TimeScale, most: float) -> Iterator[Markup]:
    """One path for each level, of all cells that have it; the level goes by the logarithm of the count."""
    paths: dict[int, list[str]] = {}
    whole = math.log1p(max(most, 1.0))
    for number, line in enumerate(lines):
        leveled = [
            (left, right, -1 if mean < 0.5 else min(int(math.log1p(mean) / whole * len(LEVELS)), len(LEVELS) - 1))
            for left, right, mean in _columns(line, scale)
        ]
        for level, group in groupby(leveled, key=lambda cell: cell[2]):
            cells = list(group)
            if level >= 0:
                left = round(cells[0][0])
                across = max(round(cells[-1][1]) - left, 1)
                paths.setdefault(level, []).append(f"M{left},{number * _ROW}h{across}v{_ROW}h-{across}z")
    for level, shapes in sorted(paths.items()):
        yield Markup(f'<path class="l{level + 1}" fill="{LEVELS[level]}" d="{"".join(shapes)}"/>')


def _columns(line: Line, scale: TimeScale) -> list[tuple[float, float, float]]:
    """(left, right, mean) of the columns that have a reading; a reading holds until the next."""
    wide = WIDTH / COLUMNS
    groups = [
        (place, [point[3] for point in group])
        for place, group in groupby(line.points, key=lambda point: scale.x(point[0]) // wide)
    ]
    ends = [place for place, _ in groups[1:]] + [min(groups[-1][0] + 1, float(COLUMNS))]
    return [
        (place * wide, max(end, place + 1) * wide, sum(means) / len(means))
        for (place, means), end in zip(groups, ends, strict=True)
    ]


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


def large_share(counts: Sequence[int]) -> float:
    """The share of the free memory that lies in blocks of a huge page or larger ones."""
    return sum(_shares(counts)[HUGE:])


def _shares(counts: Sequence[int]) -> list[float]:
    """Of the free memory, by order; a block has twice the pages of one of the order below."""
    pages = [count * 2**order for order, count in enumerate(counts)]
    return [count / (sum(pages) or 1) for count in pages]
