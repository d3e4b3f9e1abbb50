"""How a group lies, as a strip: a box from quartile to quartile for numbers, a divided bar for values.

The strips are pictures of what stands beside them in words, so they say nothing to a screen reader. Looks are in the
attributes; the style of the page only changes them for the dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from thpdiag.triage.fleet.distribution import Counts, Numbers

WIDE: Final = 160
HIGH: Final = 16
_MARGIN: Final = 4
_COLOURS: Final = ("#2b6cb0", "#17693a", "#7d3c98", "#8a6100", "#0f7b8a")
_CLASSES: Final = ("b1", "b3", "b4", "b5", "b6")  # of the style: the second colour is that of the host itself
_SPAN: Final = 20.0  # times the median, from which on a scale is logarithmic
_LEAST: Final = 0.001  # of the highest number: what is below lies close to zero on such a scale
_THIN: Final = 5.0  # a box is as wide as this at least, or it would be behind its median


def box(value: float, group: Numbers) -> str:
    """From the least to the most a line, between the quartiles a box with the median, and a dot for the host."""
    place = _scale(group, value)
    least, lower, median, upper, most, own = (
        round(place(number), 1) for number in (group.least, group.lower, group.median, group.upper, group.most, value)
    )
    wide = max(upper - lower, _THIN)
    left = round((lower + upper - wide) / 2, 1)
    return (
        f"{_OPEN}"
        f'<path class="s8" d="M{least} 8H{most}" stroke="#57606a"/>'
        f'<rect class="b1" x="{left}" y="3" width="{round(wide, 1)}" height="10" fill="#2b6cb0"/>'
        f'<path class="middle" d="M{median} 1V15" stroke="#1b1f24" stroke-width="1.5"/>'
        f'<circle class="b2" cx="{own}" cy="8" r="4" fill="#b0370a"/></svg>'
    )


def bar(value: str, group: Counts) -> str:
    """The shares of the values, the most frequent first; that of the host in its own colour, visible however small."""
    at, parts = 0.0, []
    for number, (one, hosts) in enumerate(group.counts):
        width = (WIDE - 4) * hosts / group.n
        look, colour = ("b2", "#b0370a") if one == value else (_CLASSES[number], _COLOURS[number])
        parts.append(_part(at, max(width - 1, 2), look, colour))
        at += width
    if group.others:
        own = all(one != value for one, _ in group.counts)
        parts.append(_part(at, max(WIDE - 4 - at, 2), *(("b2", "#b0370a") if own else ("b8", "#57606a"))))
    return f"{_OPEN}{''.join(parts)}</svg>"


_OPEN: Final = f'<svg class="strip" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}" aria-hidden="true">'


def _part(at: float, width: float, look: str, colour: str) -> str:
    return f'<rect class="{look}" x="{at:.1f}" y="3" width="{width:.1f}" height="10" fill="{colour}"/>'


def _scale(group: Numbers, value: float) -> Callable[[float], float]:
    """From a number to its place in the strip; where few are many times the others, their logarithms."""
    low, high = min(group.least, value), max(group.most, value)
    wide = low >= 0 and high > _SPAN * group.median
    unit = max(group.median, high * _LEAST)
    shape = (lambda number: math.log1p(number / unit)) if wide and unit else float
    first, last = shape(low), shape(high)
    if not last > first or not math.isfinite(last - first):
        return lambda number: WIDE / 2
    return lambda number: _MARGIN + (WIDE - 2 * _MARGIN) * (shape(number) - first) / (last - first)
