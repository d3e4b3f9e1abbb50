"""Marks on an axis of time, at whole times of its clock."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from thpdiag.reports.charts.scale import WIDTH, TimeScale
from thpdiag.reports.quantity import moment, span

_STEPS = (
    0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400,
)  # fmt: skip
_CLOCKS = {"local": " (local time of the host)", "day": " (time of day)"}  # what the words of a time do not say
_MOST = 5  # marks; more do not fit on a telephone
_DAY = 86_400
_ROOM = WIDTH / 8  # for the words of a mark


def ticks(scale: TimeScale, clock: str | None) -> list[tuple[float, str]]:
    """(place, words) of each mark; at the least the begin of what was measured."""
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    measured = sum(end - begin for begin, end in scale.stretches)
    found = [(scale.x(time), time) for time in _whole(scale, measured)] or [(0.0, first)]
    kept: list[tuple[float, float]] = []
    for place, time in found:
        if not kept or place - kept[-1][0] >= _ROOM:
            kept.append((place, time))
    words = _dated if first // _DAY != last // _DAY else _of_day
    return [(place, words(moment(round(time, 3), clock))) for place, time in kept]


def axis(scale: TimeScale, clock: str | None, look: str = "small") -> Markup:
    """The marks below a chart, and its begin and end in words; `look` is the class of these."""
    marks = Markup().join(
        Markup('<text x="{:.1f}%" y="12" font-size="11" fill="#57606a" text-anchor="{}">{}</text>').format(
            100 * place / WIDTH, "start" if place < 60 else "end" if place > 940 else "middle", told
        )
        for place, told in ticks(scale, clock)
    )
    words = span(scale.stretches[0][0], scale.stretches[-1][1], clock)
    return Markup(
        '<svg class="ticks" width="100%" height="16" aria-hidden="true">{}</svg>\n<p class="{}">{}{}</p>\n'
    ).format(marks, look, words, _CLOCKS.get(clock or "", ""))


def _whole(scale: TimeScale, measured: float) -> Iterator[float]:
    step = next((step for step in _STEPS if measured / step <= _MOST), measured or 1.0)
    for begin, end in scale.stretches:
        first = math.ceil(begin / step)
        yield from (number * step for number in range(first, min(math.floor(end / step), first + _MOST) + 1))


def _of_day(told: str) -> str:
    """A moment without what every mark says: the date, the clock, seconds of 0."""
    hour = told.removesuffix(" UTC").removesuffix(" after boot").removeprefix("sample ").rpartition(" ")[2]
    return told.removesuffix(" after boot") if told.endswith("boot") else hour.removesuffix(":00")


def _dated(told: str) -> str:
    """The same with the day of the month, for an axis of several days."""
    day, _, hour = told.removesuffix(" UTC").partition(" ")
    return f"{day[5:]} {hour.removesuffix(':00')}" if day.count("-") == 2 else _of_day(told)
