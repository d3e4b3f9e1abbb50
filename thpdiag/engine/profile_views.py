"""What a report shows of a profile: its tree of calls, and how it went over time.

The tree of calls is without its small branches: what a report can hold of a million different stacks. A node is a path
from the task's name over the outermost function inwards. A node of less than `LEAST` of the non-idle weight is folded
into its caller, whose own weight then says so much more; nothing is left out of the sum. Large recordings keep at most
`MOST_NODES` nodes: the limit rises until that holds.

Over time: the share of a signature, pictures of it, and the moment from which on it is bad. Times are in bins of 10 ms
since the profile's start, as the model keeps them. Shares are weights of what surely matched over the weight that is
not idle; a stretch with too few samples has no share. Texts of `--deltatime` and `--reltime` have no time
(`Profile.has_time`): nothing is said about them. The picture is flamescope's subsecond-offset heat map: a column is a
second, a row a part of it, so that what comes back every 100 ms shows as well as what lasts for a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.compiled_profile import Bools, ChainMatches, CompiledProfile, Ints
from thpdiag.knowledge.symbols import is_unresolved
from thpdiag.model import Chains, Frame, Moment, Rows
from thpdiag.model.profile import BIN, NAMELESS, UNKNOWN
from thpdiag.model.ragged import starts_of

Floats = NDArray[np.float64]

LEAST = 0.0005  # of the non-idle weight (DESIGN 5)
MOST_NODES = 2000
DENSE = 1 << 23  # tasks times chains that are added up in one array
FEW = "other tasks"  # all that are too small to be named
NO_NAME = "?"  # of a task


@dataclass(frozen=True, slots=True)
class Tree:
    """`stacks` are paths joined by `;` with their own share, the largest first.

    `least` is the share of the smallest node that is shown, `folded` that of all samples whose innermost functions are
    not shown but counted to a caller.
    """

    stacks: tuple[tuple[str, float], ...]
    least: float
    folded: float


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """All nodes, callers before those they call. `label` is the number of a task, then of a function."""

    parent: Ints
    label: Ints
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Tasks and chains that occur together; the chain of pair `i`, root first, is `lengths[i]` labels from
    `labels[begins[i]]` on."""

    task: Ints
    weight: Floats
    labels: Ints
    begins: Ints
    lengths: Ints


def call_tree(profile: CompiledProfile, most_text: int) -> Tree:
    """The tree of a profile; its paths together are at most `most_text` characters long."""
    if profile.weight <= 0:
        return Tree((), LEAST, 0.0)
    names, number = _labels(profile.profile.frames)
    tasks, pairs = _pairs(profile, number, np.fromiter((name.startswith("[") for name in names), np.bool_, len(names)))
    nodes, end, depth = _grow_tree(pairs, len(names), LEAST * profile.weight)
    least = max(LEAST * profile.weight, _limit(nodes.weight))
    while True:
        kept = _shown_ancestor(nodes, least)
        own = np.bincount(kept[end], pairs.weight, len(nodes.weight)).astype(np.float64)
        paths = list(_paths(nodes, own, (tasks, names)))
        if sum(len(path) for path, _ in paths) <= most_text:
            break
        least *= 1.25
    short = (kept[end] != end) | (depth < pairs.lengths)
    stacks = sorted(((path, weight / profile.weight) for path, weight in paths), key=lambda s: (-s[1], s[0]))
    folded = float(pairs.weight[short].sum()) / profile.weight
    return Tree(tuple(stacks), least / profile.weight, folded)


def frame_label(frame: Frame) -> str:
    """A function as a report names it; one without a name by the object it is in: `[libc.so.6]`."""
    name = frame.name.replace(";", ":")
    if not is_unresolved(name) or not frame.dso or frame.dso == NAMELESS:
        return name
    place = frame.dso.removesuffix(" (deleted)").rpartition("/")[2].replace(";", ":")
    return place if place.startswith("[") else f"[{place or frame.dso}]"


def _labels(frames: Sequence[Frame]) -> tuple[list[str], Ints]:
    """The distinct names of the frames, and the number of the name for each frame."""
    numbers: dict[str, int] = {}
    of = np.fromiter((numbers.setdefault(frame_label(f), len(numbers)) for f in frames), np.int64, len(frames))
    return list(numbers), of


def _pairs(profile: CompiledProfile, number: Ints, nameless: Bools) -> tuple[list[str], _Pairs]:
    """The weights of each chain in each task's name, without those that weigh nothing."""
    grouping, source = profile.grouping("comm"), profile.profile.chains
    count = max(1, len(source))
    keys = grouping.group * count + grouping.rows.chain
    if count * len(grouping.names) <= DENSE:
        summed = np.bincount(keys, grouping.rows.weight, count * len(grouping.names))
        keys = np.flatnonzero(summed)
        weight = summed[keys]
    else:
        keys, places = np.unique(keys, return_inverse=True)
        weight = np.bincount(places, grouping.rows.weight, len(keys))
    labels, starts = _root_first(source, number, nameless)
    chain = keys % count
    names = [name.replace(";", ":") or NO_NAME for name in grouping.names]
    lengths = np.diff(starts)[chain]
    return names, _Pairs(keys // count, weight.astype(np.float64), labels, starts[chain], lengths)


def _root_first(chains: Chains, number: Ints, nameless: Bools) -> tuple[Ints, Ints]:
    """The chains root first, as labels; nameless functions of one object that call each other are one."""
    lengths = np.diff(chains.starts)
    ends = np.repeat(chains.starts[1:], lengths)
    places = np.arange(len(ends)) - np.repeat(chains.starts[:-1], lengths)
    labels = number[chains.frames[ends - 1 - places]]
    again = np.zeros(len(labels), np.bool_)
    again[1:] = (labels[1:] == labels[:-1]) & nameless[labels[1:]] & (places[1:] > 0)
    before = starts_of(again)
    return labels[~again], chains.starts - before[chains.starts]


def _grow_tree(pairs: _Pairs, width: int, least: float) -> tuple[_Nodes, Ints, Ints]:
    """All nodes of at least this weight, level by level; for each pair its innermost node and how deep that is.

    A task that is too small becomes the node behind all tasks (`FEW`).
    """
    weight = np.bincount(pairs.task, pairs.weight)
    few = len(weight)
    task = np.where(weight >= least, np.arange(few), few)[pairs.task]
    labels, end = np.unique(task, return_inverse=True)
    nodes = [(np.full(len(labels), -1, np.int64), labels, np.bincount(end, pairs.weight, len(labels)))]
    depth, count = np.zeros(len(end), np.int64), len(labels)
    alive = np.flatnonzero((task < few) & (pairs.lengths > 0))
    while len(alive):
        keys = end[alive] * width + pairs.labels[pairs.begins[alive] + depth[alive]]
        found, places = np.unique(keys, return_inverse=True)
        weight = np.bincount(places, pairs.weight[alive], len(found))
        large = weight >= least
        new = count + np.cumsum(large) - 1
        alive, places = alive[large[places]], places[large[places]]
        end[alive] = new[places]
        depth[alive] += 1
        nodes.append((found[large] // width, found[large] % width, weight[large]))
        count += len(nodes[-1][0])
        alive = alive[pairs.lengths[alive] > depth[alive]]
    parent, label, sums = (np.concatenate(column) for column in zip(*nodes, strict=True))
    return _Nodes(parent, label, sums), end, depth


def _limit(weights: Floats) -> float:
    """The weight that at most `MOST_NODES` nodes have."""
    if len(weights) <= MOST_NODES:
        return 0.0
    return float(np.nextafter(np.partition(weights, -MOST_NODES - 1)[-MOST_NODES - 1], np.inf))


def _shown_ancestor(nodes: _Nodes, least: float) -> Ints:
    """For each node itself, or the nearest caller that is large enough; tasks always are."""
    kept = np.arange(len(nodes.weight))
    small = np.flatnonzero((nodes.weight < least) & (nodes.parent >= 0))
    for node in small.tolist():  # callers come first
        kept[node] = kept[nodes.parent[node]]
    return kept


def _paths(nodes: _Nodes, own: Floats, words: tuple[list[str], list[str]]) -> Iterator[tuple[str, float]]:
    """The path of each node that has a weight of its own."""
    tasks, names = words
    known: dict[int, str] = {}
    parent, label = nodes.parent.tolist(), nodes.label.tolist()

    def path(node: int) -> str:
        chain = []
        while node >= 0 and node not in known:
            chain.append(node)
            node = parent[node]
        text = known[node] if node >= 0 else ""
        for inner in reversed(chain):
            at = label[inner]
            text = f"{text};{names[at]}" if parent[inner] >= 0 else tasks[at] if at < len(tasks) else FEW
            known[inner] = text
        return text

    for node in np.flatnonzero(own > 0).tolist():
        yield path(node), float(own[node])


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
