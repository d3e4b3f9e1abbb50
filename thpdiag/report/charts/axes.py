"""The time axis of a chart, and lines along it as SVG paths.

A chart is 1,000 units wide. Times without measurements are drawn narrow, so that two captures of a minute, an hour
apart, can both be read. Marks are at whole times of the clock. Paths are short: integers, relative to the previous
point.
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
MIN_GAP_STEPS = 20  # a gap is longer than this multiple of the median distance of two points
_GAP_SHARE = 0.015  # width of a gap, of the measured time
_MAX_GAPS_SHARE = 0.3  # width of all gaps, of the measured time

Stretch = tuple[float, float]
Point = tuple[float, float, float, float]  # time, min, max, mean
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one entity: the points of all its series, in order, and their numbers in the timeline.

    `rules` are the rules of the findings that cite it, `sizes` the number of points of each series, in order of time.
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
    """Time spans with measurements, and the begin and end of each on the chart (0 to `WIDTH`)."""

    stretches: tuple[Stretch, ...]
    places: tuple[Stretch, ...]

    def x(self, time: float) -> float:
        """Return the place of a time: within a gap its end, outside of the chart its edge."""
        number = bisect_right(self.stretches, (time, float("inf"))) - 1
        if number < 0:
            return 0.0
        (begin, end), (left, right) = self.stretches[number], self.places[number]
        if time >= end:
            return self.places[number + 1][0] if time > end and number + 1 < len(self.places) else right
        return left + (time - begin) / (end - begin) * (right - left)

    def shows(self, first: float, last: float) -> bool:
        """Return whether any part of a span is on the chart."""
        return first <= self.stretches[-1][1] and last >= self.stretches[0][0]

    @property
    def gaps(self) -> Iterator[Stretch]:
        """The places of the gaps."""
        return ((before[1], after[0]) for before, after in pairwise(self.places))


def time_scale(series: Iterable[Sequence[float]]) -> TimeScale:
    """Return the common scale of series; each is given by its sorted times."""
    stretches: list[Stretch] = []
    for begin, end in sorted(stretch for times in series for stretch in _measured_stretches(times)):
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], end)
        else:
            stretches.append((begin, end))
    measured = sum(end - begin for begin, end in stretches) or 1.0
    gaps = len(stretches) - 1
    gap = min(_GAP_SHARE, _MAX_GAPS_SHARE / gaps) * measured if gaps else 0.0
    total, elapsed, places = measured + gap * gaps, 0.0, []
    for begin, end in stretches:
        places.append((WIDTH * elapsed / total, WIDTH * (elapsed + end - begin) / total))
        elapsed += end - begin + gap
    return TimeScale(tuple(stretches), tuple(places))


def _longest_step(times: Sequence[float]) -> float:
    """Return the distance of two times above which there is a gap between them."""
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return MIN_GAP_STEPS * median(steps) if steps else 0.0


def _measured_stretches(times: Sequence[float]) -> Iterator[Stretch]:
    """Yield the spans of a series without a gap."""
    if not times:
        return
    max_step, begin = _longest_step(times), times[0]
    for earlier, later in pairwise(times):
        if later - earlier > max_step:
            yield begin, earlier
            begin = later
    yield begin, times[-1]


_STEPS = (
    0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 2 * 86400, 7 * 86400, 30 * 86400, 365 * 86400,
)  # fmt: skip
_CLOCKS = {"local": " (local time of the host)", "day": " (time of day)"}  # what the text of a time does not contain
MAX_MARKS = 5  # more do not fit on a phone
_DAY = 86_400
_SHARE_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}  # part of a text that is left of its mark
_LETTER, _SPACE = 17, 24  # units of width on a phone: a letter of a mark, and the space next to its text
_EDGE = 60  # units of width: a mark nearer to the edge of the chart has its text on one side


def time_axis(scale: TimeScale, clock: str | None, css_class: str = "small", boot: BootTime | None = None) -> Markup:
    """Return the marks below a chart, and its begin and end as text with the CSS class `css_class`.

    If the boot time is known, the text has both clocks.
    """
    marks = Markup().join(
        Markup('<text x="{:.1f}%" y="12" font-size="11" fill="#57606a" text-anchor="{}">{}</text>').format(
            100 * place / WIDTH, anchor(place), words
        )
        for place, words in ticks(scale, clock)
    )
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    other = [time for end in (first, last) if (time := on_other_clock(end, clock, boot)) is not None]
    text = span(first, last, clock) + (f" = {span(other[0][0], other[1][0], other[0][1])}" if other else "")
    return Markup(
        '<svg class="ticks" width="100%" height="16" aria-hidden="true">{}</svg>\n<p class="{}">{}{}</p>\n'
    ).format(marks, css_class, text, _CLOCKS.get(clock or "", ""))


def on_other_clock(time: float, clock: str | None, boot: BootTime | None) -> tuple[float, str] | None:
    """Return a time after boot as time of day or the reverse; None if the boot time is unknown."""
    if boot is None or boot.t is None or boot.clock not in ("utc", "local"):
        return None
    if clock == "boot":
        return time + boot.t, boot.clock
    return (time - boot.t, "boot") if clock == boot.clock and time >= boot.t else None


def ticks(scale: TimeScale, clock: str | None) -> list[tuple[float, str]]:
    """Return (place, text) of each mark, at least the begin of the measurements.

    A mark that overlaps the previous one or has the same text is left out: no text shows parts of a second.
    """
    first, last = scale.stretches[0][0], scale.stretches[-1][1]
    shorten = _date_and_hour if first // _DAY != last // _DAY else _hour
    marks: list[tuple[float, str]] = []
    free, previous = -math.inf, ""
    for place, time in [(scale.x(time), time) for time in _whole_times(scale)] or [(0.0, first)]:
        words = shorten(moment(round(time, 3), clock))
        width = _LETTER * len(words) + _SPACE
        left = place - width * _SHARE_BEFORE[anchor(place)]
        if left >= free and words != previous:
            free, previous = left + width, words
            marks.append((place, words))
    return marks


def anchor(place: float) -> str:
    """Return on which side of a mark its text is."""
    return "start" if place < _EDGE else "end" if place > WIDTH - _EDGE else "middle"


def _whole_times(scale: TimeScale) -> Iterator[float]:
    measured = sum(end - begin for begin, end in scale.stretches)
    step = next((step for step in _STEPS if measured / step <= MAX_MARKS), measured or 1.0)
    for begin, end in scale.stretches:
        first = math.ceil(begin / step)
        yield from (number * step for number in range(first, min(math.floor(end / step), first + MAX_MARKS) + 1))


def _hour(words: str) -> str:
    """Return a moment without what every mark repeats: the date, the clock, seconds of 0."""
    if words.endswith((" after boot", ")")):
        return words.removesuffix(" after boot")  # seconds, or a time on a later day: `00:00:00 (+1 d)`
    return words.removesuffix(" UTC").removeprefix("sample ").rpartition(" ")[2].removesuffix(":00")


def _date_and_hour(words: str) -> str:
    """Return a moment with the day of the month, for an axis of several days."""
    day, _, hour = words.removesuffix(" UTC").partition(" ")
    return f"{day[5:]} {hour.removesuffix(':00')}" if day.count("-") == 2 else _hour(words)


_HALF_DASH = 6  # units of width to each side of a single point, to be visible
_COLUMN = 4  # units of width: the points of a column are drawn as one point with their range


def columns(points: Sequence[Point], x: Scale) -> list[list[Point]]:
    """Return the points by spans without a gap, one for each column; a spike stays in the range of its column."""
    max_step = _longest_step([point[0] for point in points])
    runs: list[list[Point]] = [[points[0]]]
    for earlier, later in pairwise(points):
        if later[0] - earlier[0] > max_step:
            runs.append([])
        runs[-1].append(later)
    thinned: list[list[Point]] = []
    for run in runs:
        thinned.append([])
        for _, group in groupby(run, key=lambda point: x(point[0]) // _COLUMN):
            times, low, high, mean = zip(*group, strict=True)
            thinned[-1].append((times[0], min(low), max(high), sum(mean) / len(mean)))
    return thinned


def line_path(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """Return the path of the means; a single point becomes a short dash."""
    path = ""
    for run in runs:
        places = [(round(x(point[0])), round(y(point[3]))) for point in run]
        if len(places) == 1:
            left, level = places[0]
            places = [(max(left - _HALF_DASH, 0), level), (min(left + _HALF_DASH, WIDTH), level)]
        path += _moves(places)
    return path


def band(runs: Iterable[Sequence[Point]], x: Scale, y: Scale) -> str:
    """Return the area of the ranges of the columns, where they are large enough to be visible."""
    path = ""
    for run in runs:
        upper = [(round(x(point[0])), round(y(point[2]))) for point in run]
        lower = [(round(x(point[0])), round(y(point[1]))) for point in run]
        if any(low[1] - high[1] > 1 for low, high in zip(lower, upper, strict=True)):
            path += f"{_moves([*upper, *reversed(lower)])}z"
    return path


def _moves(places: Sequence[tuple[int, int]]) -> str:
    """Return `M0,9l2,1 2,-3`."""
    steps = (f"{right - left},{lower - upper}" for (left, upper), (right, lower) in pairwise(places))
    return f"M{places[0][0]},{places[0][1]}l{' '.join(steps)}"
