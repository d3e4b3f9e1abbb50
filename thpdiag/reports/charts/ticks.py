"""Marks on an axis of time, at whole times of its clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

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
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}  # the part of the words that stands before their mark
_LETTER, _SPACE = 17, 24  # of the width, on a telephone: a letter of a mark, and what is free beside its words
_EDGE = 60  # a mark so near to the edge of the chart has its words on one side


def ticks(scale: TimeScale, clock: str | None) -> list[tuple[float, str]]:
    """(place, words) of each mark; at the least the begin of what was measured."""
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    measured = sum(end - begin for begin, end in scale.stretches)
    found = [(scale.x(time), time) for time in _whole(scale, measured)] or [(0.0, first)]
    words = _dated if first // _DAY != last // _DAY else _of_day
    told = [(place, words(moment(round(time, 3), clock))) for place, time in found]
    return list(_with_room(told))


def _with_room(marks: Iterable[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Those that do not lie on the one before, nor say the same: no date tells parts of a second."""
    end, before = -math.inf, ""
    for place, words in marks:
        wide = _LETTER * len(words) + _SPACE
        left = place - wide * _BEFORE[anchor(place)]
        if left >= end and words != before:
            end, before = left + wide, words
            yield place, words


def anchor(place: float) -> str:
    """On which side of a mark its words stand."""
    return "start" if place < _EDGE else "end" if place > WIDTH - _EDGE else "middle"


def axis(scale: TimeScale, clock: str | None, look: str = "small") -> Markup:
    """The marks below a chart, and its begin and end in words; `look` is the class of these."""
    marks = Markup().join(
        Markup('<text x="{:.1f}%" y="12" font-size="11" fill="#57606a" text-anchor="{}">{}</text>').format(
            100 * place / WIDTH, anchor(place), told
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
    if told.endswith((" after boot", ")")):
        return told.removesuffix(" after boot")  # seconds, or a time of a later day: `00:00:00 (+1 d)`
    return told.removesuffix(" UTC").removeprefix("sample ").rpartition(" ")[2].removesuffix(":00")


def _dated(told: str) -> str:
    """The same with the day of the month, for an axis of several days."""
    day, _, hour = told.removesuffix(" UTC").partition(" ")
    return f"{day[5:]} {hour.removesuffix(':00')}" if day.count("-") == 2 else _of_day(told)
