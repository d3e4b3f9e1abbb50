"""Free memory by block size: a strip over time, and single readings as histograms."""

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
_BAR_WIDTH, _BAR_HEIGHT = 10, 24  # pixels of a histogram
NO_TAGS = Markup()
HUGE_PAGE_ORDER = 9  # a 2 MiB block of 4 KiB pages


def strip(lines: Sequence[Line], scale: TimeScale, name: str, tags: Markup = NO_TAGS) -> Markup:
    """Return one row for each order of a zone, the largest blocks on top; white without blocks, darker with more.

    `tags` are the rules of findings that cite the zone.
    """
    orders = [(int(match[1]) if (match := re.search(r"(\d+)$", line.metric)) else 0, line) for line in lines]
    rows = sorted(orders, key=lambda row: -row[0])
    max_count = max(line.high for _, line in rows)
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
        most=quantity(max_count), sources=sources, height=height, whole=height + 28, foot=height + 25,
        largest=rows[0][0], least=rows[-1][0],
        shapes=Markup().join(_cells([line for _, line in rows], scale, max_count)),
        border=_ROW * sum(order >= HUGE_PAGE_ORDER for order, _ in rows),
    )  # fmt: skip


def _cells(lines: Sequence[Line], scale: TimeScale, max_count: float) -> Iterator[Markup]:
    """Yield one path for each level with all its cells; levels are logarithmic in the number of blocks."""
    paths: dict[int, list[str]] = {}
    max_log = math.log1p(max(max_count, 1.0))
    for number, line in enumerate(lines):
        leveled = [
            (left, right, -1 if mean < 0.5 else min(int(math.log1p(mean) / max_log * len(LEVELS)), len(LEVELS) - 1))
            for left, right, mean in _columns(line, scale)
        ]
        for level, group in groupby(leveled, key=lambda cell: cell[2]):
            cells = list(group)
            if level >= 0:
                left = round(cells[0][0])
                width = max(round(cells[-1][1]) - left, 1)
                paths.setdefault(level, []).append(f"M{left},{number * _ROW}h{width}v{_ROW}h-{width}z")
    for level, shapes in sorted(paths.items()):
        yield Markup(f'<path class="l{level + 1}" fill="{LEVELS[level]}" d="{"".join(shapes)}"/>')


def _columns(line: Line, scale: TimeScale) -> list[tuple[float, float, float]]:
    """Return (left, right, mean) of the columns with a reading; a reading is valid until the next one."""
    width = WIDTH / COLUMNS
    groups = [
        (place, [point[3] for point in group])
        for place, group in groupby(line.points, key=lambda point: scale.x(point[0]) // width)
    ]
    ends = [place for place, _ in groups[1:]] + [min(groups[-1][0] + 1, float(COLUMNS))]
    return [
        (place * width, max(end, place + 1) * width, sum(means) / len(means))
        for (place, means), end in zip(groups, ends, strict=True)
    ]


def histogram(counts: Sequence[int]) -> Markup:
    """Return a bar for each order from 0 on, as high as its share of the free memory."""
    shares = _shares(counts)
    shapes = (
        f"M{_BAR_WIDTH * order},{_BAR_HEIGHT}v-{round(_BAR_HEIGHT * share, 1):g}h{_BAR_WIDTH - 2}V{_BAR_HEIGHT}z"
        for order, share in enumerate(shares)
        if share
    )
    return Markup(
        f'<svg width="{_BAR_WIDTH * len(shares)}" height="{_BAR_HEIGHT}" aria-hidden="true">'
        f'<path class="b1" fill="#2b6cb0" d="{"".join(shapes)}"/></svg>'
    )


def large_share(counts: Sequence[int]) -> float:
    """Return the share of the free memory in blocks of at least a huge page."""
    return sum(_shares(counts)[HUGE_PAGE_ORDER:])


def _shares(counts: Sequence[int]) -> list[float]:
    """Return the shares of the free memory by order; a block has twice the pages of one of the order below."""
    pages = [count * 2**order for order, count in enumerate(counts)]
    return [count / (sum(pages) or 1) for count in pages]
