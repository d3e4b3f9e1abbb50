"""What happened between samples: growth and rates of counters, stretches of values, slopes and bends.

A counter that falls was reset (reboot, new process): that interval is a gap, never a negative rate.

Rounding: `24G` may be 1 GiB more or less. Tools round to the nearest, down (collectl's units) or up; a quantum either
way holds for all of them.

Of many tracks at once: those that have as many rows as each other are a matrix, a track a row (`Batch`). Rules ask the
same of thousands of processes, each of which has a few dozen rows: array by array that is a hundred times the price of
the sums themselves.
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


MAX_FALL = 0.1  # part of its growth that a curve may give back in between and still be one that grows
MIN_KNEE_POINTS = 10  # timed values, up to the highest
MAX_KNEE_POINTS = 400  # points that the search for a bend looks at; longer curves are thinned evenly


class Run(NamedTuple):
    """A stretch of consecutive values that fit.

    `seconds` has one typical step added, for a value speaks for the interval that it ends; None without a clock.
    """

    points: Points
    seconds: float | None


def growth(track: Track) -> float | None:
    """What a counter grew by over the whole track, resets left out; None if no two samples tell it."""
    if len(track) < 2:
        return None
    deltas, counted = track.deltas
    return float(deltas[counted].sum()) if counted.any() else None


def change(track: Track) -> float | None:
    """Last value minus first, for gauges; None with fewer than two samples."""
    return track.last - float(track.column[0]) if len(track) > 1 else None


def climb(track: Track) -> float | None:
    """The most that a gauge rose from a low to a later high; 0 if it only fell, None with fewer than two samples."""
    if len(track) < 2:
        return None
    return float(climbs(track.column))


def climbs(values: Floats) -> Floats:
    """The same of columns, or of each row of a matrix."""
    found: Floats = (values - np.minimum.accumulate(values, axis=-1)).max(axis=-1)
    return found


def climb_at_most(track: Track, counter: Track) -> float | None:
    """What a gauge may have risen by between its samples too, where only what `counter` counts makes it rise.

    Between two samples it may have fallen unseen, and risen again by what was counted in this time at most. None if the
    two cannot be laid side by side.
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
    apart = float(((before + counted)[1:] - lows[:-1]).max(initial=0.0))
    return min(max(apart, float(counted.max())), float(counted.sum()))


def _growth(counter: Track) -> Floats:
    """What a counter had grown by at each sample since the first."""
    deltas, counted = counter.deltas
    return np.concatenate(([0.0], np.cumsum(np.where(counted, deltas, 0.0))))


def rates(track: Track) -> Points | None:
    """The counter as a rate per second at the end of each interval; None without a clock or a second sample.

    What a counter grew by while nothing was recorded is no rate over hours: such gaps are left out.
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


def max_rate(track: Track, over: float) -> float:
    """The growth per second of a counter over the worst stretch of so many seconds, of all if it is shorter; 0 without
    a clock."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    grown = _growth(track)
    seconds = np.maximum.accumulate(track.seconds)
    over = min(over, float(seconds[-1] - seconds[0]))
    ends = np.searchsorted(seconds, seconds + over)
    starts = np.flatnonzero(ends < len(seconds))
    lasted = seconds[ends[starts]] - seconds[starts]
    return float(((grown[ends[starts]] - grown[starts]) / np.where(lasted > 0, lasted, np.inf)).max(initial=0.0))


def watched_seconds(track: Track) -> float:
    """Seconds over which it is known what a counter grew by, as it was not reset; 0 without a clock."""
    if track.seconds is None or len(track) < 2:
        return 0.0
    return float(np.diff(track.seconds)[track.deltas[1]].sum())


def values_within(values: Floats, low: float, high: float, margin: Margin = 0.0) -> Bools:
    """Which values are above `low` and below `high` by more than `margin`; if that is negative, which perhaps are."""
    fits: Bools = (values - margin > low) & (values + margin < high)
    return fits


def longest_run(points: Points, low: float, high: float, margin: Margin = 0.0) -> Run:
    """The longest consecutive stretch of values above `low` and below `high`, without a gap; the first of several."""
    fits = values_within(points.values, low, high, margin)
    if not fits.any():
        return Run(points.part(0, 0), None)
    both = fits[1:] & fits[:-1] & ~gaps_between(points)  # goes on from the one before
    begins = np.flatnonzero(fits & ~np.concatenate(([False], both)))
    ends = np.flatnonzero(fits & ~np.concatenate((both, [False]))) + 1
    best = int((ends - begins).argmax())
    part = points.part(int(begins[best]), int(ends[best]))
    if not points.timed:
        return Run(part, None)
    return Run(part, float(part.index[-1] - part.index[0]) + typical_interval(points.index))


def fitting_values(points: Points, low: float, high: float, margin: Margin = 0.0) -> tuple[int, Points]:
    """How many values are above `low` and below `high`, and the stretch from the first to the last of them."""
    found = np.flatnonzero(values_within(points.values, low, high, margin))
    return len(found), points.part(int(found[0]), int(found[-1]) + 1) if len(found) else points.part(0, 0)


def spreads(values: Floats) -> Floats:
    """By which part of its largest value a column varies, or each row of a matrix; 0 if that value is 0."""
    most = values.max(axis=-1)
    found: Floats = np.divide(most - values.min(axis=-1), most, out=np.zeros(np.shape(most)), where=most != 0)
    return found


def slope(points: Points) -> float | None:
    """Least-squares growth per second; None without a clock or with fewer than three values."""
    if not points.timed or len(points) < 3:
        return None
    seconds = points.index - points.index.mean()
    spread = float((seconds**2).sum())
    return float((seconds * (points.values - points.values.mean())).sum()) / spread if spread else None


def largest_step(values: Floats, least: int = 3) -> float | None:
    """The largest change of the mean at any point, relative to the mean before; None with fewer than two `least`."""
    if len(values) < 2 * least:
        return None
    counts, places = np.arange(1, len(values) + 1), np.arange(least - 1, len(values) - least)
    before = (np.cumsum(values) / counts)[places]
    after = (np.cumsum(values[::-1]) / counts)[len(values) - 2 - places]
    nonzero = before != 0
    changes = (after[nonzero] - before[nonzero]) / abs(before[nonzero])
    return float(changes[abs(changes).argmax()]) if len(changes) else 0.0


def largest_rise(values: Floats) -> float:
    """By how much a gauge rose from one value to the next, at most; 0 if it never did."""
    return float(np.diff(values).max(initial=0.0))


class Knee(NamedTuple):
    """A curve that grows fast, then slowly: both rates per second and the sample at the bend.

    `falls` where memory is given back in between: such a curve rises and falls and has no slow phase.
    """

    before: float
    after: float
    at: Sample
    falls: float = 0.0  # how far it falls back below an earlier value, relative to all of its growth

    @property
    def ratio(self) -> float:
        return self.after / self.before


def knee(points: Points) -> Knee | None:
    """The bend that leaves the smallest squared error of two chords; None without enough timed values.

    A curve that has simply ended its work has no slow phase: what follows its highest value is cut off first.
    """
    if not points.timed or len(points) < MIN_KNEE_POINTS:
        return None
    end = int(points.values.argmax()) + 1
    if end < MIN_KNEE_POINTS:
        return None
    bend = bends(points.index[None, :end], points.values[None, :end])
    if not bend.before[0] > 0:
        return None
    return Knee(float(bend.before[0]), float(bend.after[0]), points.samples[int(bend.place[0])], float(bend.falls[0]))


class Bends(NamedTuple):
    """What `Knee` says, of many curves: each an array with a value a curve, `place` the number of the value at the
    bend; a curve that does not grow has `before` of 0 or less."""

    before: Floats
    after: Floats
    falls: Floats
    place: Ints


def bends(seconds: Floats, values: Floats) -> Bends:
    """The bends of curves, the rows of two matrices, that end with their highest values."""
    count = values.shape[1]
    places = np.arange(0, count, -(-count // MAX_KNEE_POINTS))
    t, v = seconds[:, places], values[:, places]
    errors = _chord_errors(t, v) + _chord_errors(-t[:, ::-1], v[:, ::-1])[:, ::-1]
    rows, bend = np.arange(len(v)), 1 + errors[:, 1 : len(places) - 2].argmin(axis=1)
    before = _chords(t[rows, bend] - t[:, 0], v[rows, bend] - v[:, 0])
    after = _chords(t[:, -1] - t[rows, bend], v[:, -1] - v[rows, bend])
    height = v.max(axis=1) - v.min(axis=1)
    falls = (np.maximum.accumulate(v, axis=1) - v).max(axis=1) / np.where(height != 0, height, 1.0)
    whole, bent = _chords(t[:, -1] - t[:, 0], v[:, -1] - v[:, 0]), falls <= MAX_FALL
    # Without a bend to speak of: one rate from the first value to the highest.
    return Bends(np.where(bent, before, whole), np.maximum(np.where(bent, after, whole), 0.0), falls, places[bend])


def _chords(seconds: Floats, rises: Floats) -> Floats:
    return np.divide(rises, seconds, out=np.zeros(len(rises)), where=seconds > 0)


def _chord_errors(seconds: Floats, values: Floats) -> Floats:
    """For each point the squared error of the chord from the first point to it, from sums over all points before."""
    t, v = seconds - seconds[:, :1], values - values[:, :1]
    slopes = np.divide(v, t, out=np.zeros(t.shape), where=t != 0)
    sums = (np.cumsum(product, axis=1) for product in (v * v, v * t, t * t))
    squares, both, times = sums
    found: Floats = squares - 2 * slopes * both + slopes**2 * times
    return found


# Rounding: by how much a figure may be wrong, for its source printed rounded values


def value_errors(track: Track, points: Points) -> Floats:
    """The quantum of each value of the column."""
    if isinstance(points.samples, Series):
        return np.full(len(points), track.resolution)
    return np.array([s.resolution.get(track.metric, 0.0) for s in points.samples], np.float64)


def rate_errors(track: Track, points: Points) -> Floats:
    """The same for the rates of a counter: two readings, over the interval between them, which may be longer."""
    return reading_errors(track, points) + overrun_errors(track, points)


def reading_errors(track: Track, points: Points) -> Floats:
    return 2 * track.resolution / _intervals(track, points)


def overrun_errors(track: Track, points: Points) -> Floats:
    """By how much rates are smaller if more time passed than a command names."""
    steps = _intervals(track, points)
    return np.abs(points.values) * (overrun_share(track.table.pace, steps) if track.table.pace else 0.0)


def overrun_share(pace: Pace, seconds: Floats) -> Floats:
    """The part of a rate that it may be too high by, if so many seconds are the least that passed."""
    most = np.array([pace.overrun(one) for one in seconds.ravel().tolist()]).reshape(seconds.shape)
    found: Floats = most / (seconds + most)
    return found


def _intervals(track: Track, points: Points) -> Floats:
    """The seconds before each of the points; 1 where there are none."""
    readings = track.points.index
    ends = np.searchsorted(readings, points.index)
    steps = readings[ends] - readings[np.maximum(ends - 1, 0)]
    return np.where(steps > 0, steps, 1.0)


def figure_error(as_: str, track: Track, figure: float) -> float:
    """How wrong a figure of the whole column may be."""
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
        case "slope":  # if each value is off by a quantum in the way that tilts the line most
            if track.seconds is None or len(track) < 2:
                return 0.0
            seconds = track.seconds - track.seconds.mean()
            return quantum * float(abs(seconds).sum()) / max(float((seconds**2).sum()), 1e-12)
        case "spread":
            return float(spread_errors(track.column, np.array(quantum)))
        case "step":
            means = abs(np.cumsum(track.column) / np.arange(1, len(track) + 1))  # that a step may be relative to
            return 2 * quantum * (1 + abs(figure)) / max(float(means.min()), quantum)
        case _:
            return _knee_error(track, quantum)


def _knee_error(track: Track, quantum: float) -> float:
    """Two readings for each of the chords; the shorter one is the less sure."""
    found = knee(track.points)
    first, last = track.samples[0].time, track.samples[-1].time
    if found is None or found.at.time is None or first is None or last is None:
        return 0.0
    bend = found.at.time.seconds
    known = (quantum, found.before, found.ratio, min(bend - first.seconds, last.seconds - bend))
    return float(knee_errors(*map(np.array, known)))


def spread_errors(values: Floats, quantum: Floats) -> Floats:
    """How wrong the spread of a column, or of each row of a matrix, may be: two readings, relative to the largest."""
    largest = np.maximum(abs(values).max(axis=-1), quantum)
    errors: Floats = np.divide(2 * quantum, largest, out=np.zeros(np.shape(quantum)), where=quantum > 0)
    return errors


def knee_errors(quantum: Floats, before: Floats, ratio: Floats, shorter: Floats) -> Floats:
    """How wrong the ratio of a bend may be, whose shorter chord has so many seconds."""
    wrong: Floats = 2 * quantum * (1 + ratio) / (before * np.maximum(shorter, 1e-9))
    return wrong


class Batch(NamedTuple):
    """Tracks of one metric, all of the same length: `values`, and `seconds` if they have a clock, a row a track.

    `places` says which of the tracks that were given these are, `resolution` to what the source rounded each.
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
        """`rates.growth` of each, NaN where no two samples tell it."""
        deltas, counted = counter_deltas(self.metric, self.values, self.seconds, self.boots)
        return np.where(counted.any(axis=1), np.where(counted, deltas, 0.0).sum(axis=1), np.nan)

    def change(self) -> Floats:
        """What each changed by from its first value to its last: of counters the growth. NaN of single values."""
        if self.size < 2:
            return np.full(len(self.values), np.nan)
        return self.growth() if self.is_counter else self.values[:, -1] - self.values[:, 0]

    def climb(self) -> Floats:
        """`rates.climb` of each, of counters the growth."""
        return self.change() if self.size < 2 or self.is_counter else climbs(self.values)

    def spread(self) -> tuple[Floats, Floats]:
        """`rates.spreads` of each, and its error."""
        return spreads(self.values), spread_errors(self.values, self.resolution)

    def knee(self, fine: float) -> tuple[Floats, Floats]:
        """The ratio of `rates.knee` of each and its error, NaN where no bend is to be seen.

        Neither is it where values differ, and by less than `fine` times what they were rounded to.
        """
        figures, errors = np.full((2, len(self.values)), np.nan)
        if self.seconds is None or self.size < MIN_KNEE_POINTS:
            return figures, errors
        spreads = self.values.max(axis=1) - self.values.min(axis=1)
        ends = self.values.argmax(axis=1) + 1
        ends[(spreads > 0) & (spreads < fine * self.resolution)] = 0
        for end in np.unique(ends[ends >= MIN_KNEE_POINTS]).tolist():
            rows = np.flatnonzero(ends == end)
            seconds, bent = self.seconds[rows], bends(self.seconds[rows, :end], self.values[rows, :end])
            times = seconds[np.arange(len(rows)), bent.place]
            before = np.where(bent.before > 0, bent.before, np.nan)
            figures[rows] = bent.after / before
            shorter = np.minimum(times - seconds[:, 0], seconds[:, -1] - times)
            errors[rows] = knee_errors(self.resolution[rows], before, figures[rows], shorter)
        return figures, errors

    def rates(self) -> tuple[Floats, Bools, Floats]:
        """Rates per second over each interval, which of them count (`rates.rates`), and by how much each may be off."""
        if self.seconds is None or self.size < 2:
            nothing = np.zeros((len(self.values), 0))
            return nothing, nothing > 0, nothing
        deltas, counted = counter_deltas(self.metric, self.values, self.seconds, self.boots)
        steps = np.diff(self.seconds)
        if steps.max() > MIN_GAP_SECONDS:
            counted = counted & ~np.array([find_gaps(seconds) for seconds in self.seconds])
        lasted = np.where(counted, steps, 1.0)
        figures, errors = deltas / lasted, 2 * self.resolution[:, None] / lasted
        if self.pace is not None:
            errors = errors + np.abs(figures) * overrun_share(self.pace, lasted)
        return figures, counted, errors


def make_batches(tracks: Sequence[Track | None]) -> list[Batch]:
    """The tracks of one metric by their lengths."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, track in enumerate(tracks):
        if track is not None:
            groups.setdefault((len(track), track.has_times, track.own_boots, track.table.pace), []).append(place)
    found = []
    for (_, timed, *_), places in groups.items():
        own = [track for place in places if (track := tracks[place]) is not None]
        seconds = np.array([track.seconds for track in own]) if timed else None
        values, quanta = np.array([track.column for track in own]), np.array([track.resolution for track in own])
        first = own[0]
        found.append(Batch(first.metric, np.array(places), values, seconds, quanta, first.own_boots, first.table.pace))
    return found


def figures_of(batches: Sequence[Batch], count: int, figure: Callable[[Batch], Floats]) -> Floats:
    """A figure of each of so many tracks; NaN of those that are not there."""
    found = np.full(count, np.nan)
    for batch in batches:
        found[batch.places] = figure(batch)
    return found
