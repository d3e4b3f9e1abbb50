"""Samples over time as a subsecond-offset heat map: a column is a second (or several), its height the fraction of it.

What repeats every 100 ms, stops for half a second or lasts for a minute appears as a pattern, where a line of means is
flat. The first map has all non-idle samples, those below the samples of a finding, with the same scale.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import ne

from markupsafe import Markup

from thpdiag.model.result import Profile
from thpdiag.report.charts.axes import WIDTH, TimeScale, time_axis
from thpdiag.report.charts.panels import drawable
from thpdiag.report.escaping import prose
from thpdiag.report.messages import plural

ROWS = 50  # cells of a second: 20 ms each
HEIGHT = 100  # pixels
LEVELS = ("#c6dbef", "#7fb3dc", "#3182bd", "#08407e")  # few to many
FINDING_LEVELS = ("#fdd0a2", "#fdae6b", "#d9660f", "#7f2704")
MIN_SAMPLES_PER_SECOND = 25  # half the number of cells; fewer show no pattern
MAX_RUNS = 3000  # of a picture, of some 6 characters each; a picture with more gets coarser cells
_MERGED_CELLS = (1, 2, 5, 10)
_COLUMN = re.compile(r"[0-9]{50}\Z")
_RUN = re.compile(r"([1-9])\1*")


def heat_maps(profile: Profile, name: str) -> Markup:
    """Return the figure of a recording; `name` begins ids. Empty if the recording has no times."""
    heat, cell = _digits(profile.heat), profile.heat_cell
    if not heat or not cell or not drawable(cell.begin):
        return Markup()
    seconds, samples = (n if n and n > 0 else 1 for n in (cell.seconds, cell.samples))
    darkest = int(max(map(max, heat))) or 1  # the digit of the darkest cell, the same in all maps
    level = {str(digit): str(min(len(LEVELS), -(-digit * len(LEVELS) // darkest))) for digit in range(10)}
    levels, strongest = str.maketrans(level), plural(darkest * samples, "sample")
    maps = [_map(heat, levels, LEVELS, f"All samples that are not idle; strongest color: {strongest}", f"{name}-1")]
    for number, signature in enumerate(profile.signatures, 2):
        columns = _digits(signature.heat)
        if len(columns) == len(heat):
            title = f"Of them: {prose(signature.what or '')}; strongest color: {strongest}"
            maps.append(_map(columns, levels, FINDING_LEVELS, title, f"{name}-{number}"))
    begin, end = float(cell.begin), float(cell.begin + len(heat) * seconds)
    axis = time_axis(TimeScale(((begin, end),), ((0.0, float(WIDTH)),)), profile.clock)
    return Markup('<figure class="heat">\n{}{}<figcaption class="small">{}</figcaption></figure>\n').format(
        Markup().join(maps), axis, _caption(seconds, few=is_sparse(profile))
    )


def _digits(heat: Sequence[str] | None) -> list[str]:
    """Return the digits of each column; empty if one is malformed."""
    columns = list(heat or ())
    return columns if all(_COLUMN.match(column) for column in columns) else []


def _map(columns: Sequence[str], levels: dict[int, str], colours: Sequence[str], title: str, name: str) -> Markup:
    """Return one path for each level: the cells of a column that have it are strokes from the top down."""
    merged, cells = _coarse_enough([column.translate(levels)[::-1] for column in columns])
    paths: dict[int, list[str]] = {}
    for number, column in enumerate(cells):
        ends: dict[int, int] = {}
        for run in _RUN.finditer(column):
            level, (begin, end) = int(run[1]), run.span()
            move = f"m0 {begin - ends[level]}" if level in ends else f"M{number} {begin}"
            paths.setdefault(level, []).append(f"{move}v{end - begin}")
            ends[level] = end
    css_prefix = "h" if colours is LEVELS else "m"
    drawn = "".join(
        f'<path class="{css_prefix}{level}" stroke="{colours[level - 1]}" d="{"".join(moves)}"/>'
        for level, moves in sorted(paths.items())
    )
    densest = f"; each cell shows the maximum of {20 * merged} ms" if merged > 1 else ""
    return Markup(
        '<p class="small" id="{name}">{title} in 20 ms{densest}</p>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}">'
        '<svg width="100%" height="{height}" viewBox="-.5 0 {across} {rows}" preserveAspectRatio="none">'
        '<g fill="none" stroke-width="1" shape-rendering="crispEdges">{drawn}</g></svg>'
        '<g font-size="11" fill="#57606a" stroke="#ffffff" stroke-width="3" paint-order="stroke">'
        '<text x="4" y="12">1 s</text><text x="4" y="{bottom}">0 s</text></g></svg>\n'
    ).format(
        name=name, title=title, densest=densest, height=HEIGHT, across=len(columns), rows=ROWS // merged,
        drawn=Markup(drawn), bottom=HEIGHT - 3,
    )  # fmt: skip


def _coarse_enough(columns: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many cells of a column are merged to keep the drawing short, and the merged columns."""
    merged, cells = 1, list(columns)
    for merged in _MERGED_CELLS:
        if merged > 1:
            parts = range(0, ROWS, merged)
            cells = ["".join(max(column[begin : begin + merged]) for begin in parts) for column in columns]
        joined = "".join(cells)
        if sum(map(ne, joined, joined[1:])) <= MAX_RUNS:
            break
    return merged, cells


def is_sparse(profile: Profile) -> bool:
    """Return whether there are too few samples for a pattern within the seconds."""
    column = profile.heat_cell.seconds if profile.heat_cell else None
    seconds = len(profile.heat or ()) * (column or 1)
    return (profile.samples or 0) < MIN_SAMPLES_PER_SECOND * max(1, seconds)


def _caption(seconds: float, *, few: bool) -> str:
    column = "a second" if seconds == 1 else f"{seconds} seconds, superimposed"
    text = (
        f"Left to right: the recording, each column {column}; bottom to top: the parts of a second. "
        "Stronger color: more samples, so more busy CPUs; empty: none. "
    )
    if few:
        return text + "There are too few samples to show a pattern within the seconds."
    return text + (
        "A horizontal row is something that repeats every second, a full column a second that was busy throughout, a "
        "gap a time when nothing ran or samples were lost."
    )
