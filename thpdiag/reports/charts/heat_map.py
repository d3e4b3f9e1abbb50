"""Samples over time as a subsecond-offset heat map: a column is a second (or several), its height the part of it.

What comes back every 100 ms, stops for half a second or lasts for a minute shows as a pattern, where a line of means is
flat. All non-idle samples and, beneath, those of a finding, in cells that count the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any

from markupsafe import Markup

from thpdiag.reports.charts.plots import drawable
from thpdiag.reports.charts.scale import WIDTH, TimeScale
from thpdiag.reports.charts.ticks import axis
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import prose

ROWS = 50  # cells of a second: 20 ms each
HEIGHT = 100  # pixels
LEVELS = ("#c6dbef", "#7fb3dc", "#3182bd", "#08407e")  # few to many
FOUND = ("#fdd0a2", "#fdae6b", "#d9660f", "#7f2704")
FEW = 25  # samples a second: half as many as cells
MOST_RUNS = 3000  # of a picture, of some 6 characters each; a busier one gets coarser cells
_COARSER = (1, 2, 5, 10)  # cells that become one
_COLUMN = re.compile(r"[0-9]{50}\Z")
_RUN = re.compile(r"([1-9])\1*")


@dataclass(frozen=True, slots=True)
class _Scale:
    """The digit that is drawn darkest, and how many samples a digit of 1 stands for: the same in all maps."""

    darkest: int
    samples: int

    @property
    def most(self) -> int:
        return self.darkest * self.samples

    @property
    def levels(self) -> dict[int, str]:
        """The level of each digit, 0 for none."""
        steps = len(LEVELS)
        return str.maketrans({str(d): str(min(steps, -(-d * steps // self.darkest))) for d in range(10)})


def heat_maps(profile: Mapping[str, Any], name: str) -> Markup:
    """The figure of a completed `profiles[]` entry; `name` begins ids. Empty if the recording has no times."""
    every, cell = _columns(profile["heat"]), profile["heat_cell"]
    if not every or not cell or not drawable(cell["begin"]):
        return Markup()
    seconds, samples = (cell[key] if drawable(cell[key]) and cell[key] > 0 else 1 for key in ("seconds", "samples"))
    scale = _Scale(int(max(map(max, every))) or 1, samples)
    maps = [_map(every, LEVELS, "All samples that are not idle", f"{name}-1", scale)]
    for number, told in enumerate(profile["signatures"], 2):
        columns = _columns(told["heat"])
        if len(columns) == len(every):
            maps.append(_map(columns, FOUND, f"Of them: {prose(told['what'] or '')}", f"{name}-{number}", scale))
    begin, end = float(cell["begin"]), float(cell["begin"] + len(every) * seconds)
    below = axis(TimeScale(((begin, end),), ((0.0, float(WIDTH)),)), profile["clock"])
    return Markup('<figure class="heat">\n{}{}<figcaption class="small">{}</figcaption></figure>\n').format(
        Markup().join(maps), below, _said(seconds, few=sparse(profile))
    )


def _columns(told: Sequence[str] | None) -> list[str]:
    """The digits of each column; nothing if one is not as it should be."""
    columns = list(told or ())
    return columns if all(_COLUMN.match(column) for column in columns) else []


def _map(columns: Sequence[str], colours: Sequence[str], title: str, name: str, scale: _Scale) -> Markup:
    merged, cells = _coarse_enough([column.translate(scale.levels)[::-1] for column in columns])
    look = "h" if colours is LEVELS else "m"
    drawn = "".join(
        f'<path class="{look}{level}" stroke="{colours[level - 1]}" d="{"".join(moves)}"/>'
        for level, moves in sorted(_paths(cells).items())
    )
    densest = f"; drawn is the densest cell of each {20 * merged} ms" if merged > 1 else ""
    return Markup(
        '<p class="small" id="{name}">{title}; strongest colour: {most} in 20 ms{densest}</p>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}">'
        '<svg width="100%" height="{height}" viewBox="-.5 0 {across} {rows}" preserveAspectRatio="none">'
        '<g fill="none" stroke-width="1" shape-rendering="crispEdges">{drawn}</g></svg>'
        '<g font-size="11" fill="#57606a" stroke="#ffffff" stroke-width="3" paint-order="stroke">'
        '<text x="4" y="12">1 s</text><text x="4" y="{bottom}">0 s</text></g></svg>\n'
    ).format(
        name=name, title=title, most=plural(scale.most, "sample"), densest=densest, height=HEIGHT, across=len(columns),
        rows=ROWS // merged, drawn=Markup(drawn), bottom=HEIGHT - 3,
    )  # fmt: skip


def _coarse_enough(columns: Sequence[str]) -> tuple[int, list[str]]:
    """How many cells of a column become one so that the drawing is short, and the columns then."""
    merged, cells = 1, list(columns)
    for merged in _COARSER:
        cells = [_coarser(column, merged) for column in columns]
        joined = "".join(cells)
        if sum(map(ne, joined, joined[1:])) <= MOST_RUNS:
            break
    return merged, cells


def _coarser(column: str, merged: int) -> str:
    return column if merged == 1 else "".join(max(column[at : at + merged]) for at in range(0, ROWS, merged))


def _paths(columns: Sequence[str]) -> dict[int, list[str]]:
    """For each level the moves of one path: the cells of a column that have it are strokes from the top down."""
    found: dict[int, list[str]] = {}
    for number, column in enumerate(columns):
        ends: dict[int, int] = {}
        for run in _RUN.finditer(column):
            level, (begin, end) = int(run[1]), run.span()
            move = f"m0 {begin - ends[level]}" if level in ends else f"M{number} {begin}"
            found.setdefault(level, []).append(f"{move}v{end - begin}")
            ends[level] = end
    return found


def sparse(profile: Mapping[str, Any]) -> bool:
    """Whether there are too few samples for a pattern within the seconds."""
    seconds = len(profile["heat"] or ()) * ((profile["heat_cell"] or {}).get("seconds") or 1)
    return (profile["samples"] or 0) < FEW * max(1, seconds)


def _said(seconds: float, *, few: bool) -> str:
    column = "a second" if seconds == 1 else f"{seconds} seconds, one on top of the other"
    told = (
        f"From left to right the recording, each column {column}; from the bottom to the top the parts of a second. "
        "The stronger the colour, the more samples, which is the more busy CPUs; empty: none. "
    )
    if few:
        return told + "So few samples show when something ran, but no pattern within the seconds."
    return told + (
        "A row across means that something comes back every second, a full column that all of a second was busy, "
        "a gap that nothing ran or that samples were lost."
    )
