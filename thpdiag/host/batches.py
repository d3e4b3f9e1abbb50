"""Figures of many tracks at once: those that have as many rows as each other are a matrix, a track a row.

Rules ask the same of thousands of processes, each of which has a few dozen rows: array by array that is a hundred times
the price of the sums themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from thpdiag.host.cpu_use import knee_errors, overrun_share, spread_errors
from thpdiag.host.rates import MIN_KNEE_POINTS, bends, climbs, spreads
from thpdiag.host.series import MIN_GAP_SECONDS, Track, counter_deltas, find_gaps
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Moment, Pace
from thpdiag.model.numeric import Bools, Floats, Ints, np


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
            groups.setdefault((len(track), track.timed, track.own_boots, track.table.pace), []).append(place)
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
