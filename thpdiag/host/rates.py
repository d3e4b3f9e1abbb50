"""Changes between samples: growth and rates of counters, runs of values, slopes and knees of curves.

A counter that falls was reset (reboot, new process): that interval is a gap, never a negative rate.

Rounding: `24G` may be 1 GiB more or less. Tools round to the nearest, down (collectl's units) or up; one quantum in
either direction covers all of them.

`Batch` holds many tracks of equal length as a matrix, one track per row. Rules ask the same about thousands of
processes with a few dozen rows each; one numpy call per process would cost a hundred times the arithmetic itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thpdiag.host.series import (
    MIN_GAP_SECONDS,
    Points,
    Track,
    counter_deltas,
    find_gaps,
    gaps_between,
    select_rows,
    typical_interval,
)
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Moment, Pace, Sample, Series
from thpdiag.model.numeric import Bools, Floats, Ints, np

if TYPE_CHECKING:
    Margin = float | Floats


MAX_FALL = 0.1  # share of its growth by which a growing curve may fall in between
MIN_KNEE_POINTS = 10  # timed values up to the highest one
MAX_KNEE_POINTS = 400  # points that the search for a knee examines; longer curves are thinned evenly


class Run(NamedTuple):
    """A run of consecutive values that fit.

    `seconds` includes one typical interval, because a value describes the interval before it; None without a clock.
    """

    points: Points
    seconds: float | None


def growth(track: Track) -> float | None:
    """Return the growth of a counter over the whole track without resets; None if no valid interval exists."""
    if len(track) < 2:
        return None
    deltas, counted = track.deltas
    return float(deltas[counted].sum()) if counted.any() else None


def change(track: Track) -> float | None:
    """Return the last value minus the first, for gauges; None with fewer than two samples."""
    return track.last - float(track.column[0]) if len(track) > 1 else None


def climb(track: Track) -> float | None:
    """Return the largest rise of a gauge from a low to a later high; None with fewer than two samples."""
    if len(track) < 2:
        return None
    return float(climbs(track.column))


def climbs(values: Floats) -> Floats:
    """Return the largest rise of a column, or of each row of a matrix."""
    rises: Floats = (values - np.minimum.accumulate(values, axis=-1)).max(axis=-1)
    return rises


def climb_upper_bound(track: Track, counter: Track) -> float | None:
    """Return an upper bound of a gauge's rise, also between samples, if only what `counter` counts can make it rise.

    Between two samples the gauge may have fallen unseen and risen again by at most what was counted in that time. None
    if the two tracks cannot be aligned.
    """
    if len(track) < 2 or len(counter) < 2:
        return None
    risen = _growth(counter)
    if track.seconds is not None and counter.seconds is not None:
        starts = np.searchsorted(counter.seconds, track.seconds[:-1], side="right") - 1
        ends = np.searchsorted(counter.seconds, track.seconds[1:])
        counted = risen[np.minimum(ends, len(risen) - 1)] - risen[np.maximum(starts, 0)]
    elif len(track) == len(counter):
        counted = np.diff(risen)
    else:
        return None
    before, after = track.column[:-1], track.column[1:]
    lows = np.minimum.accumulate(np.minimum(before, np.maximum(after - counted, 0.0)))
    rise = float(((before + counted)[1:] - lows[:-1]).max(initial=0.0))
    return min(max(rise, float(counted.max())), float(counted.sum()))


def _growth(counter: Track) -> Floats:
    """Return the growth of a counter since its first sample, at each sample."""
    deltas, counted = counter.deltas
    return np.concatenate(([0.0], np.cumsum(np.where(counted, deltas, 0.0))))


def rates(track: Track) -> Points | None:
    """Return a counter as a rate per second at the end of each interval; None without a clock or a second sample.

    Gaps are left out: growth while nothing was recorded is no rate over hours.
    """
    if len(track) < 2 or not track.has_times:
        return None
    points = track.points
    deltas, counted = track.deltas
    seconds = points.index
    counted = counted & ~find_gaps(seconds)
    if not counted.any():
        return None
    samples = select_rows(points.samples, np.concatenate(([False], counted)))
    values = deltas[counted] / np.diff(seconds)[counted]
    return Points(values, seconds[1:][counted], samples, timed=True)


def max_rate(track: Track, seconds: float) -> float:
    """Return the growth per second of a counter over the worst interval of so many seconds, or over the whole track if
    that is shorter; 0 without a clock."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    grown = _growth(track)
    times = np.maximum.accumulate(track.seconds)
    seconds = min(seconds, float(times[-1] - times[0]))
    ends = np.searchsorted(times, times + seconds)
    starts = np.flatnonzero(ends < len(times))
    lasted = times[ends[starts]] - times[starts]
    return float(((grown[ends[starts]] - grown[starts]) / np.where(lasted > 0, lasted, np.inf)).max(initial=0.0))


def observed_seconds(track: Track) -> float:
    """Return the seconds over which the growth of a counter is known; 0 without a clock."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    return float(np.diff(track.seconds)[track.deltas[1]].sum())


def values_within(values: Floats, low: float, high: float, margin: Margin = 0.0) -> Bools:
    """Return the mask of values above `low` and below `high` by more than `margin` (negative: a wider range)."""
    fits: Bools = (values - margin > low) & (values + margin < high)
    return fits


def longest_run(points: Points, low: float, high: float, margin: Margin = 0.0) -> Run:
    """Return the longest run of values above `low` and below `high` without a gap; the first of several."""
    fits = values_within(points.values, low, high, margin)
    if not fits.any():
        return Run(points.part(0, 0), None)
    continues = fits[1:] & fits[:-1] & ~gaps_between(points)  # a value continues the run of the previous one
    begins = np.flatnonzero(fits & ~np.concatenate(([False], continues)))
    ends = np.flatnonzero(fits & ~np.concatenate((continues, [False]))) + 1
    best = int((ends - begins).argmax())
    part = points.part(int(begins[best]), int(ends[best]))
    if not points.timed:
        return Run(part, None)
    return Run(part, float(part.index[-1] - part.index[0]) + typical_interval(points.index))


def fitting_values(points: Points, low: float, high: float, margin: Margin = 0.0) -> tuple[int, Points]:
    """Return the number of values above `low` and below `high`, and the points from the first to the last of them."""
    fits = np.flatnonzero(values_within(points.values, low, high, margin))
    return len(fits), points.part(int(fits[0]), int(fits[-1]) + 1) if len(fits) else points.part(0, 0)


def spreads(values: Floats) -> Floats:
    """Return the range of a column, or of each row of a matrix, relative to its largest value; 0 if that value is 0."""
    largest = values.max(axis=-1)
    ranges = largest - values.min(axis=-1)
    ratios: Floats = np.divide(ranges, largest, out=np.zeros(np.shape(largest)), where=largest != 0)
    return ratios


def slope(points: Points) -> float | None:
    """Return the least-squares growth per second; None without a clock or with fewer than three values."""
    if not points.timed or len(points) < 3:
        return None
    seconds = points.index - points.index.mean()
    spread = float((seconds**2).sum())
    return float((seconds * (points.values - points.values.mean())).sum()) / spread if spread else None


def largest_step(values: Floats, min_side: int = 3) -> float | None:
    """Return the largest relative change of the mean at any point; None without `min_side` values on each side."""
    if len(values) < 2 * min_side:
        return None
    counts, splits = np.arange(1, len(values) + 1), np.arange(min_side - 1, len(values) - min_side)
    before = (np.cumsum(values) / counts)[splits]
    after = (np.cumsum(values[::-1]) / counts)[len(values) - 2 - splits]
    nonzero = before != 0
    changes = (after[nonzero] - before[nonzero]) / abs(before[nonzero])
    return float(changes[abs(changes).argmax()]) if len(changes) else 0.0


def largest_rise(values: Floats) -> float:
    """Return the largest rise of a gauge from one value to the next; 0 if it never rose."""
    return float(np.diff(values).max(initial=0.0))


class Knee(NamedTuple):
    """A curve that grows fast and then slowly: both rates per second and the sample at the knee.

    A curve that falls in between (memory is freed) has no slow phase; `falls` states how much.
    """

    before: float
    after: float
    at: Sample
    falls: float = 0.0  # largest fall below an earlier value, relative to the whole growth

    @property
    def ratio(self) -> float:
        return self.after / self.before


def knee(points: Points) -> Knee | None:
    """Return the knee with the smallest squared error of two chords; None without enough timed values.

    Values after the highest one are cut off first: a curve that ended its work has no slow phase.
    """
    if not points.timed or len(points) < MIN_KNEE_POINTS:
        return None
    end = int(points.values.argmax()) + 1
    if end < MIN_KNEE_POINTS:
        return None
    knees = find_knees(points.index[None, :end], points.values[None, :end])
    if not knees.before[0] > 0:
        return None
    sample = points.samples[int(knees.position[0])]
    return Knee(float(knees.before[0]), float(knees.after[0]), sample, float(knees.falls[0]))


class Knees(NamedTuple):
    """The fields of `Knee` for many curves, as arrays; `position` is the index of the value at the knee. A curve that
    does not grow has a `before` of 0 or less."""

    before: Floats
    after: Floats
    falls: Floats
    position: Ints


def find_knees(seconds: Floats, values: Floats) -> Knees:
    """Return the knees of curves, given as the rows of two matrices, that end with their highest values."""
    count = values.shape[1]
    columns = np.arange(0, count, -(-count // MAX_KNEE_POINTS))
    t, v = seconds[:, columns], values[:, columns]
    errors = _chord_errors(t, v) + _chord_errors(-t[:, ::-1], v[:, ::-1])[:, ::-1]
    rows, knee = np.arange(len(v)), 1 + errors[:, 1 : len(columns) - 2].argmin(axis=1)
    before = _chords(t[rows, knee] - t[:, 0], v[rows, knee] - v[:, 0])
    after = _chords(t[:, -1] - t[rows, knee], v[:, -1] - v[rows, knee])
    height = v.max(axis=1) - v.min(axis=1)
    falls = (np.maximum.accumulate(v, axis=1) - v).max(axis=1) / np.where(height != 0, height, 1.0)
    overall, has_knee = _chords(t[:, -1] - t[:, 0], v[:, -1] - v[:, 0]), falls <= MAX_FALL
    # A curve that falls too far has one rate from the first value to the highest.
    before, after = np.where(has_knee, before, overall), np.maximum(np.where(has_knee, after, overall), 0.0)
    return Knees(before, after, falls, columns[knee])


def _chords(seconds: Floats, rises: Floats) -> Floats:
    return np.divide(rises, seconds, out=np.zeros(len(rises)), where=seconds > 0)


def _chord_errors(seconds: Floats, values: Floats) -> Floats:
    """Return for each point the squared error of the chord from the first point, from cumulative sums."""
    t, v = seconds - seconds[:, :1], values - values[:, :1]
    slopes = np.divide(v, t, out=np.zeros(t.shape), where=t != 0)
    vv, vt, tt = (np.cumsum(product, axis=1) for product in (v * v, v * t, t * t))
    errors: Floats = vv - 2 * slopes * vt + slopes**2 * tt
    return errors


# Rounding: the errors of figures whose source printed rounded values


def value_errors(track: Track, points: Points) -> Floats:
    """Return the quantum of each value of the column."""
    if isinstance(points.samples, Series):
        return np.full(len(points), track.resolution)
    return np.array([s.resolution.get(track.metric, 0.0) for s in points.samples], np.float64)


def rate_errors(track: Track, points: Points) -> Floats:
    """Return the errors of a counter's rates: two readings each, and an interval that may have been longer."""
    return reading_errors(track, points) + overrun_errors(track, points)


def reading_errors(track: Track, points: Points) -> Floats:
    return 2 * track.resolution / _intervals(track, points)


def overrun_errors(track: Track, points: Points) -> Floats:
    """Return by how much rates are too high if more time passed than the pace command states."""
    steps = _intervals(track, points)
    return np.abs(points.values) * (overrun_share(track.table.pace, steps) if track.table.pace else 0.0)


def overrun_share(pace: Pace, seconds: Floats) -> Floats:
    """Return the share of a rate by which it may be too high if at least so many seconds passed."""
    overruns = np.array([pace.overrun(s) for s in seconds.ravel().tolist()]).reshape(seconds.shape)
    shares: Floats = overruns / (seconds + overruns)
    return shares


def _intervals(track: Track, points: Points) -> Floats:
    """Return the seconds before each of the points; 1 where there is no interval."""
    readings = track.points.index
    ends = np.searchsorted(readings, points.index)
    steps = readings[ends] - readings[np.maximum(ends - 1, 0)]
    return np.where(steps > 0, steps, 1.0)


def figure_error(as_: str, track: Track, figure: float) -> float:
    """Return the error of a figure of the whole column."""
    quantum, pace = track.resolution, track.table.pace
    if pace is not None and as_ == "slope" and track.duration:
        overrun = abs(figure) * float(overrun_share(pace, np.array([track.duration]))[0])
        return overrun + _rounding_error(as_, track, figure, quantum)
    return _rounding_error(as_, track, figure, quantum)


def _rounding_error(as_: str, track: Track, figure: float, quantum: float) -> float:
    if not quantum:
        return 0.0
    match as_:
        case "mean" | "last":
            return quantum
        case "delta" | "rise":
            return 2 * quantum
        case "slope":  # each value is off by one quantum in the direction that tilts the line most
            if track.seconds is None or len(track) < 2:
                return 0.0
            seconds = track.seconds - track.seconds.mean()
            return quantum * float(abs(seconds).sum()) / max(float((seconds**2).sum()), 1e-12)
        case "spread":
            return float(spread_errors(track.column, np.array(quantum)))
        case "step":
            means = abs(np.cumsum(track.column) / np.arange(1, len(track) + 1))  # the step is relative to one of them
            return 2 * quantum * (1 + abs(figure)) / max(float(means.min()), quantum)
        case _:
            return _knee_error(track, quantum)


def _knee_error(track: Track, quantum: float) -> float:
    """Return the error of the knee's ratio: two readings per chord, and the shorter chord has the larger error."""
    bend = knee(track.points)
    first, last = track.samples[0].time, track.samples[-1].time
    if bend is None or bend.at.time is None or first is None or last is None:
        return 0.0
    seconds = bend.at.time.seconds
    parameters = (quantum, bend.before, bend.ratio, min(seconds - first.seconds, last.seconds - seconds))
    return float(knee_errors(*map(np.array, parameters)))


def spread_errors(values: Floats, quantum: Floats) -> Floats:
    """Return the error of the spread of a column, or of each row of a matrix: two readings, relative to the largest."""
    largest = np.maximum(abs(values).max(axis=-1), quantum)
    errors: Floats = np.divide(2 * quantum, largest, out=np.zeros(np.shape(quantum)), where=quantum > 0)
    return errors


def knee_errors(quantum: Floats, before: Floats, ratio: Floats, shorter: Floats) -> Floats:
    """Return the error of a knee's ratio; `shorter` is the length of the shorter chord in seconds."""
    errors: Floats = 2 * quantum * (1 + ratio) / (before * np.maximum(shorter, 1e-9))
    return errors


class Batch(NamedTuple):
    """Tracks of one metric and equal length: `values`, and `seconds` if they have a clock, with one row per track.

    `places` are the indices of these tracks in the input, `resolution` is the quantum of each.
    """

    metric: str
    places: Ints
    values: Floats
    seconds: Floats | None
    resolution: Floats
    boots: tuple[Moment, ...]
    pace: Pace | None = None

    @property
    def size(self) -> int:
        """The number of values of each track."""
        return int(self.values.shape[1])

    @property
    def is_counter(self) -> bool:
        known = term(self.metric)
        return known is not None and known.kind == "counter"

    def growth(self) -> Floats:
        """The `growth` of each track, NaN without a valid interval."""
        deltas, counted = counter_deltas(self.metric, self.values, self.seconds, self.boots)
        return np.where(counted.any(axis=1), np.where(counted, deltas, 0.0).sum(axis=1), np.nan)

    def change(self) -> Floats:
        """The last value minus the first of each track, or the growth of counters; NaN for single values."""
        if self.size < 2:
            return np.full(len(self.values), np.nan)
        return self.growth() if self.is_counter else self.values[:, -1] - self.values[:, 0]

    def climb(self) -> Floats:
        """The `climb` of each track, or the growth of counters."""
        return self.change() if self.size < 2 or self.is_counter else climbs(self.values)

    def spread(self) -> tuple[Floats, Floats]:
        """The `spreads` of the tracks and their errors."""
        return spreads(self.values), spread_errors(self.values, self.resolution)

    def knee(self, fine: float) -> tuple[Floats, Floats]:
        """The ratio of the `knee` of each track and its error, NaN where there is none.

        A track whose values differ by less than `fine` quanta has no knee.
        """
        figures, errors = np.full((2, len(self.values)), np.nan)
        if self.seconds is None or self.size < MIN_KNEE_POINTS:
            return figures, errors
        spreads = self.values.max(axis=1) - self.values.min(axis=1)
        ends = self.values.argmax(axis=1) + 1
        ends[(spreads > 0) & (spreads < fine * self.resolution)] = 0
        for end in np.unique(ends[ends >= MIN_KNEE_POINTS]).tolist():
            rows = np.flatnonzero(ends == end)
            seconds, knees = self.seconds[rows], find_knees(self.seconds[rows, :end], self.values[rows, :end])
            times = seconds[np.arange(len(rows)), knees.position]
            before = np.where(knees.before > 0, knees.before, np.nan)
            figures[rows] = knees.after / before
            shorter = np.minimum(times - seconds[:, 0], seconds[:, -1] - times)
            errors[rows] = knee_errors(self.resolution[rows], before, figures[rows], shorter)
        return figures, errors

    def rates(self) -> tuple[Floats, Bools, Floats]:
        """Rates per second over each interval, the mask of valid ones (see `rates`), and the error of each."""
        if self.seconds is None or self.size < 2:
            nothing = np.zeros((len(self.values), 0))
            return nothing, nothing > 0, nothing
        deltas, counted = counter_deltas(self.metric, self.values, self.seconds, self.boots)
        steps = np.diff(self.seconds)
        if steps.max() > MIN_GAP_SECONDS:
            counted = counted & ~np.array([find_gaps(seconds) for seconds in self.seconds])
        lengths = np.where(counted, steps, 1.0)
        figures, errors = deltas / lengths, 2 * self.resolution[:, None] / lengths
        if self.pace is not None:
            errors = errors + np.abs(figures) * overrun_share(self.pace, lengths)
        return figures, counted, errors


def make_batches(tracks: Sequence[Track | None]) -> list[Batch]:
    """Return the tracks of one metric grouped by length, clock, boots and pace."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, track in enumerate(tracks):
        if track is not None:
            groups.setdefault((len(track), track.has_times, track.own_boots, track.table.pace), []).append(index)
    batches = []
    for (_, has_times, *_), places in groups.items():
        group = [track for index in places if (track := tracks[index]) is not None]
        seconds = np.array([track.seconds for track in group]) if has_times else None
        values, quanta = np.array([track.column for track in group]), np.array([track.resolution for track in group])
        boots, pace = group[0].own_boots, group[0].table.pace
        batches.append(Batch(group[0].metric, np.array(places), values, seconds, quanta, boots, pace))
    return batches


def figures_of(batches: Sequence[Batch], count: int, figure: Callable[[Batch], Floats]) -> Floats:
    """Return a figure of each of `count` tracks; NaN for those without a batch."""
    figures = np.full(count, np.nan)
    for batch in batches:
        figures[batch.places] = figure(batch)
    return figures
