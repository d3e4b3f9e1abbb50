"""A recording over time: the share of a signature, pictures of it, and the moment from which on it is bad.

Times are in bins of 10 ms since the profile's start, as the model keeps them. Shares are weights of what surely matched
over the weight that is not idle; a stretch with too few samples has no share. Texts of `--deltatime` and `--reltime`
have no time (`Profile.has_time`): nothing is said about them. The picture is flamescope's subsecond-offset heat map: a
column is a second, a row a part of it, so that what comes back every 100 ms shows as well as what lasts for a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.compiled_profile import Bools, ChainMatches, CompiledProfile, Ints
from thpdiag.model import Moment, Rows
from thpdiag.model.profile import BIN, UNKNOWN

Floats = NDArray[np.float64]

MOST_BUCKETS = 1500  # what the result document may hold of a series
USUAL = 50  # samples of a bucket, on average: a share of one half is then known to +-7 points (one standard error)
FEWEST = 20  # samples below which a bucket says nothing: +-11 points
SECOND = round(1 / BIN)  # bins

COLUMNS = 300  # of a picture; a longer recording has several seconds in a column
ROWS = 50  # of a picture: a cell is 20 ms of each second, as in flamescope
LEVELS = 9  # of a cell: one digit, so that pictures stay small in the document

DAY = 86_400  # seconds that are looked at one by one for the worst; of longer recordings several at once

# A step: what it takes to say that a recording was good before a moment and bad from then on.
BOTH_SIDES = 2.0  # seconds of measured time on each side; shorter ones are a burst or the program's start
SAMPLES = 200  # on each side: a share of 10 % is then known to +-2 points
RISE = 0.10  # of the non-idle weight; smaller ones change no verdict
TIMES = 3.0  # what was there before by a third or more is no good time
QUIET, STEADY = 0.9, 0.75  # buckets below the middle before, above it after: one spike, or on and off, is no step
ABRUPT = 0.5  # of the rise must happen between the fifths on both sides of the moment: a slow rise has no first moment


@dataclass(frozen=True, slots=True, eq=False)
class ShareSeries:
    """What matched and what there was, in buckets of `size` bins from the bin `first` on."""

    first: int
    size: int
    hit: Floats
    weight: Floats
    samples: Ints

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def known(self) -> Bools:
        """The buckets with samples enough to speak of a share."""
        enough: Bools = (self.samples >= FEWEST) & (self.weight > 0)
        return enough

    @property
    def shares(self) -> Floats:
        """Share by bucket, NaN where it is not known."""
        return np.where(self.known, self.hit / np.where(self.weight > 0, self.weight, 1.0), np.nan)

    def seconds(self, bucket: float) -> float:
        """Seconds from the profile's start to the begin of a bucket, or to a place within one."""
        return (self.first + bucket * self.size) * BIN


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """Non-idle samples by second and part of a second.

    `cells` are columns of `ROWS` digits from 0 to `LEVELS`: a cell of value n stands for at most n times `level`
    samples (and more than n - 1 times). A column is `seconds` whole seconds, the first begins at `begin`, all on the
    clock of the recording.
    """

    begin: int
    seconds: int
    level: int
    cells: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Step:
    """The first bad moment: the share before it and from it on."""

    at: Moment
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class WorstSecond:
    """The second (or the `seconds`) with the largest weight of a signature, and its share in it."""

    at: Moment
    seconds: int
    share: float


@dataclass(frozen=True)
class TimedProfile:
    """The non-idle rows of a profile that have a time; `start` is the time of bin 0."""

    profile: CompiledProfile
    start: Moment

    @cached_property
    def rows(self) -> Rows:
        rows = self.profile.rows
        placed = rows.bin != UNKNOWN
        return rows if bool(placed.all()) else rows.only(placed)

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first bin and the last one."""
        bins = self.rows.bin
        return (int(bins.min()), int(bins.max())) if len(bins) else (0, 0)

    def rows_of(self, found: ChainMatches, only: Bools | None = None) -> Bools:
        """The rows of a signature; `only` marks the tasks whose samples may count."""
        sure: Bools = found.sure[self.rows.chain]
        return sure if only is None else sure & only[self.rows.task]

    def course(self, matched: Bools) -> ShareSeries:
        """A signature over time."""
        bins = self.span[1] - self.span[0] + 1
        wanted = max(1, min(MOST_BUCKETS, int(self.rows.samples.sum()) // USUAL))
        return self._course(matched, self.span[0], _handy(-(-bins // wanted)))

    def worst(self, matched: Bools) -> WorstSecond | None:
        """Where most of a signature's weight is; None if it is nowhere, or if hardly anything was sampled there."""
        first = self.span[0] - (self.span[0] + self._offset) % SECOND
        seconds = (self.span[1] - first) // SECOND // DAY + 1
        course = self._course(matched, first, seconds * SECOND)
        hit = np.where(course.known, course.hit, 0.0)
        if hit.max() <= 0:
            return None
        at = int(hit.argmax())
        return WorstSecond(self.start.plus(course.seconds(at)), seconds, float(hit[at] / course.weight[at]))

    def picture(self, matched: Bools | None = None, level: int = 0) -> HeatMap:
        """Samples of a signature, or all; `level` is that of the picture that it is to be compared with."""
        rows = self.rows if matched is None else self.rows.only(matched)
        begin = (self.span[0] + self._offset) // SECOND
        columns = (self.span[1] + self._offset) // SECOND - begin + 1
        seconds = -(-columns // COLUMNS)
        at = rows.bin.astype(np.int64) + self._offset
        cell = (at // SECOND - begin) // seconds * ROWS + at % SECOND * ROWS // SECOND
        counts = np.bincount(cell, rows.samples, -(-columns // seconds) * ROWS)
        level = level or max(1, -(-int(counts.max(initial=0)) // LEVELS))
        digits = np.minimum(np.ceil(counts / level), LEVELS).astype(np.uint8)
        return HeatMap(begin, seconds, level, digits.reshape(-1, ROWS))

    def onset(self, course: ShareSeries) -> Step | None:
        """The first bad moment of a signature (`stepped`)."""
        if (step := find_step(course)) is None:
            return None
        bucket, before, after = step
        return Step(self.start.plus(course.seconds(bucket)), before, after)

    @property
    def _offset(self) -> int:
        """Bins from the clock's zero to the profile's start."""
        return round(self.start.seconds / BIN)

    def _course(self, matched: Bools, first: int, size: int) -> ShareSeries:
        rows = self.rows
        number = (rows.bin.astype(np.int64) - first) // size
        weight = np.bincount(number, rows.weight)
        hit = np.bincount(number[matched], rows.weight[matched], len(weight))
        samples = np.bincount(number, rows.samples).astype(np.int64)
        return ShareSeries(first, size, hit.astype(np.float64), weight.astype(np.float64), samples)


def timed_profile(profile: CompiledProfile) -> TimedProfile | None:
    """The profile over time, None if its source has no times."""
    source = profile.profile
    if not source.has_time or source.start is None:
        return None
    found = TimedProfile(profile, source.start)
    return found if len(found.rows) else None


def find_step(course: ShareSeries) -> tuple[int, float, float] | None:
    """The bucket at which the share steps up for good, and the shares before and from it on.

    None if there is no such moment: it was bad from the start, never, now and then, or became so slowly. The split is
    the one with the largest sum of squares between its two sides (a regression tree's first cut), among those with
    enough measured time and samples on both; it counts only if it is a step (the constants above say what that takes).
    """
    at = np.flatnonzero(course.known)
    hit, weight, samples = course.hit[at], course.weight[at], course.samples[at]
    least = max(1, round(BOTH_SIDES / (course.size * BIN)))
    if len(at) < 2 * least:
        return None
    left = [np.cumsum(column)[:-1] for column in (hit, weight, samples)]
    right = [column.sum() - part for column, part in zip((hit, weight, samples), left, strict=True)]
    before, after = left[0] / left[1], right[0] / right[1]
    number = np.arange(1, len(at))
    allowed = (number >= least) & (number <= len(at) - least) & (left[2] >= SAMPLES) & (right[2] >= SAMPLES)
    between = np.where(allowed & (after > before), left[1] * right[1] * (after - before) ** 2, 0.0)
    if not len(between) or between.max() <= 0:
        return None
    split = int(between.argmax())
    low, high = float(before[split]), float(after[split])
    if high - low < RISE or high < TIMES * low or not _is_step(hit / weight, split + 1, low, high):
        return None
    return int(at[split + 1]), low, high


def _is_step(shares: Floats, split: int, low: float, high: float) -> bool:
    """Whether the shares stay on their side of the middle, and change at the split and not over all the time."""
    middle = (low + high) / 2
    if (shares[:split] < middle).mean() < QUIET or (shares[split:] > middle).mean() < STEADY:
        return False
    near = max(1, min(split, len(shares) - split) // 5)
    rise = shares[split : split + near].mean() - shares[split - near : split].mean()
    return bool(rise >= ABRUPT * (high - low))


def _handy(size: int) -> int:
    """The next larger of 1, 2, 5, 10, 20, 50 ... bins."""
    step = 1
    while True:
        for times in (1, 2, 5):
            if step * times >= size:
                return step * times
        step *= 10
