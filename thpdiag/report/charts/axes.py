"""The axis of time of a chart, and lines along it as SVG paths.

A chart is 1,000 units wide. Stretches in which nothing was measured are drawn narrow, so that two captures of a minute,
an hour apart, can both be read. Marks stand at whole times of the clock. Paths are short: whole units, relative to the
point before.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from markupsafe import Markup

from thpdiag.model.result import BootTime
from thpdiag.report.quantity import moment, span

WIDTH = 1000
LONG = 20  # times the usual distance of two points of a series: nothing was measured
_GAP = 0.015  # of what was measured: the width of such a gap
_GAPS = 0.3  # of what was measured: the width of all gaps at most

Stretch = tuple[float, float]
Point = tuple[float, float, float, float]  # time, min, max, mean
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one entity: the points of all its series, in order, and their numbers in the timeline.

    `rules` are those of the findings that speak of it, `sizes` how many points each series has, in order of time.
    """

    name: str
    sources: tuple[str, ...]
    unit: str
    points: tuple[Point, ...]
    numbers: tuple[int, ...]
    metric: str
    entity: str
    rules: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def low(self) -> float:
        return min(point[1] for point in self.points)

    @property
    def high(self) -> float:
        return max(point[2] for point in self.points)

    @property
    def mean(self) -> float:
        return sum(point[3] for point in self.points) / len(self.points)


@dataclass(frozen=True, slots=True)
class TimeScale:
    """Stretches of time in which something was measured, and where each begins and ends (0 to `WIDTH`)."""

    stretches: tuple[Stretch, ...]
    places: tuple[Stretch, ...]

    def x(self, time: float) -> float:
        """Times within a gap lie at its end, those outside at the edge of the chart."""
        at = bisect_right(self.stretches, (time, float("inf"))) - 1
        if at < 0:
            return 0.0
        (begin, end), (left, right) = self.stretches[at], self.places[at]
        if time >= end:
            return self.places[at + 1][0] if time > end and at + 1 < len(self.places) else right
        return left + (time - begin) / (end - begin) * (right - left)

    def shows(self, first: float, last: float) -> bool:
        """Whether any of it lies between the begin and the end of the chart."""
        return first <= self.stretches[-1][1] and last >= self.stretches[0][0]

    @property
    def gaps(self) -> Iterator[Stretch]:
        """The places of the gaps."""
        return ((before[1], after[0]) for before, after in pairwise(self.places))


def time_scale(series: Iterable[Sequence[float]]) -> TimeScale:
    """The scale of series that share it; each is its times in order."""
    stretches: list[Stretch] = []
    for begin, end in sorted(stretch for times in series for stretch in _measured_stretches(times)):
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], end)
        else:
            stretches.append((begin, end))
    measured = sum(end - begin for begin, end in stretches) or 1.0
    gaps = len(stretches) - 1
    gap = min(_GAP, _GAPS / gaps) * measured if gaps else 0.0
    across, at, places = measured + gap * gaps, 0.0, []
    for begin, end in stretches:
        places.append((WIDTH * at / across, WIDTH * (at + end - begin) / across))
        at += end - begin + gap
    return TimeScale(tuple(stretches), tuple(places))


def _longest_step(times: Sequence[float]) -> float:
    """The distance of two times from which on there is a gap between them."""
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return LONG * median(steps) if steps else 0.0


def _measured_stretches(times: Sequence[float]) -> Iterator[Stretch]:
    """Stretches of a series without a gap."""
    if not times:
        return
    most, begin = _longest_step(times), times[0]
    for earlier, later in pairwise(times):
        if later - earlier > most:
            yield begin, earlier
            begin = later
    yield begin, times[-1]


_STEPS = (
    0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400,
)  # fmt: skip
_CLOCKS = {"local": " (local time of the host)", "day": " (time of day)"}  # what the words of a time do not say
MAX_MARKS = 5  # more do not fit on a telephone
_DAY = 86_400
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}  # the part of the words that stands before their mark
_LETTER, _SPACE = 17, 24  # of the width, on a telephone: a letter of a mark, and what is free beside its words
_EDGE = 60  # a mark so near to the edge of the chart has its words on one side


def time_axis(scale: TimeScale, clock: str | None, look: str = "small", boot: BootTime | None = None) -> Markup:
    """The marks below a chart, and its begin and end in words; `look` is the class of these.

    Where it is known when the host was booted, the words are of both clocks.
    """
    marks = Markup().join(
        Markup('<text x="{:.1f}%" y="12" font-size="11" fill="#57606a" text-anchor="{}">{}</text>').format(
            100 * place / WIDTH, anchor(place), words
        )
        for place, words in ticks(scale, clock)
    )
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    other = [at for at in (on_other_clock(first, clock, boot), on_other_clock(last, clock, boot)) if at is not None]
    whole = span(first, last, clock) + (f" = {span(other[0][0], other[1][0], other[0][1])}" if other else "")
    return Markup(
        '<svg class="ticks" width="100%" height="16" aria-hidden="true">{}</svg>\n<p class="{}">{}{}</p>\n'
    ).format(marks, look, whole, _CLOCKS.get(clock or "", ""))


def on_other_clock(time: float, clock: str | None, boot: BootTime | None) -> tuple[float, str] | None:
    """A time after the boot as time of day and the other way round; None if it is not known when that was."""
    if boot is None or boot.t is None or boot.clock not in ("utc", "local"):
        return None
    if clock == "boot":
        return time + boot.t, boot.clock
    return (time - boot.t, "boot") if clock == boot.clock and time >= boot.t else None


def ticks(scale: TimeScale, clock: str | None) -> list[tuple[float, str]]:
    """(place, words) of each mark; at the least the begin of what was measured.

    None lies on the one before, nor says the same: no date tells parts of a second.
    """
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    short = _date_and_hour if first // _DAY != last // _DAY else _hour
    found: list[tuple[float, str]] = []
    free, before = -math.inf, ""
    for place, time in [(scale.x(time), time) for time in _whole_times(scale)] or [(0.0, first)]:
        words = short(moment(round(time, 3), clock))
        wide = _LETTER * len(words) + _SPACE
        left = place - wide * _BEFORE[anchor(place)]
        if left >= free and words != before:
            free, before = left + wide, words
            found.append((place, words))
    return found


def anchor(place: float) -> str:
    """On which side of a mark its words stand."""
    return "start" if place < _EDGE else "end" if place > WIDTH - _EDGE else "middle"


def _whole_times(scale: TimeScale) -> Iterator[float]:
    measured = sum(end - begin for begin, end in scale.stretches)
    step = next((step for step in _STEPS if measured / step <= MAX_MARKS), measured or 1.0)
    for begin, end in scale.stretches:
        first = math.ceil(begin / step)
        yield from (number * step for number in range(first, min(math.floor(end / step), first + MAX_MARKS) + 1))


def _hour(words: str) -> str:
    """A moment without what every mark says: the date, the clock, seconds of 0."""
    if words.endswith((" after boot", ")")):
        return words.removesuffix(" after boot")  # seconds, or a time of a later day: `00:00:00 (+1 d)`
    return words.removesuffix(" UTC").removeprefix("sample ").rpartition(" ")[2].removesuffix(":00")


def _date_and_hour(words: str) -> str:
    """The same with the day of the month, for an axis of several days."""
    day, _, hour = words.removesuffix(" UTC").partition(" ")
    return f"{day[5:]} {hour.removesuffix(':00')}" if day.count("-") == 2 else _hour(words)


_ALONE = 6  # units of width to each side of a point alone: less is not seen
_COLUMN = 4  # units of width: what falls into one column is drawn as one point with its range


def columns(points: Sequence[Point], x: Scale) -> list[list[Point]]:
    """The points by stretches without a gap, one for each column; a spike stays in the range of its column."""
    most = _longest_step([point[0] for point in points])
    runs: list[list[Point]] = [[points[0]]]
    for earlier, later in pairwise(points):
        if later[0] - earlier[0] > most:
            runs.append([])
        runs[-1].append(later)
    thinned: list[list[Point]] = []
    for run in runs:
        thinned.append([])
        for _, group in groupby(run, key=lambda point: x(point[0]) // _COLUMN):
            at, low, high, mean = zip(*group, strict=True)
            thinned[-1].append((at[0], min(low), max(high), sum(mean) / len(mean)))
    return thinned


def line_path(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """The means; a point alone becomes a short dash."""
    path = ""
    for run in runs:
        places = [(round(x(point[0])), round(y(point[3]))) for point in run]
        if len(places) == 1:
            left, level = places[0]
            places = [(max(left - _ALONE, 0), level), (min(left + _ALONE, WIDTH), level)]
        path += _moves(places)
    return path


def band(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """The ranges of the columns, where they are wide enough to be seen."""
    path = ""
    for run in runs:
        upper = [(round(x(point[0])), round(y(point[2]))) for point in run]
        lower = [(round(x(point[0])), round(y(point[1]))) for point in run]
        if any(low[1] - high[1] > 1 for low, high in zip(lower, upper, strict=True)):
            path += f"{_moves([*upper, *reversed(lower)])}z"
    return path


def _moves(places: Sequence[tuple[int, int]]) -> str:
    """`M0,9l2,1 2,-3`."""
    steps = (f"{right - left},{lower - upper}" for (left, upper), (right, lower) in pairwise(places))
    return f"M{places[0][0]},{places[0][1]}l{' '.join(steps)}"
