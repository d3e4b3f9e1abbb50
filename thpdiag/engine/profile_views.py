"""Views of a profile for reports: its call tree, and its course over time.

The call tree omits small branches, so that a report can hold a million different stacks. A node is a path from the
task's name through the outermost function inwards. A node of less than `MIN_NODE_SHARE` of the non-idle weight is
folded into its caller and its weight added there, so that the sum is complete. Large recordings keep at most
`MAX_NODES` nodes: the limit rises until that holds.

Over time: the share of a signature, heat maps, and the moment at which it becomes bad. Times are in bins of 10 ms since
the profile's start, as in the model. Shares are the weight of sure matches over the non-idle weight; a bucket with too
few samples has no share. Texts of `--deltatime` and `--reltime` have no time (`Profile.has_time`) and no such views.
The heat map is flamescope's subsecond-offset heat map: a column is a second, a row a part of it, so that a pattern of
100 ms shows as well as one of a minute.
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

MIN_NODE_SHARE = 0.0005  # of the non-idle weight (DESIGN 5)
MAX_NODES = 2000
MAX_DENSE_CELLS = 1 << 23  # tasks times chains: up to this size their weights are summed in a dense array
SMALL_TASKS = "other tasks"  # the node of all tasks too small for a node of their own
NO_NAME = "?"  # a task without a name


@dataclass(frozen=True, slots=True)
class Tree:
    """A call tree: `stacks` are paths joined by `;` with their own share, the largest first.

    `least` is the share of the smallest node shown, `folded` the share of the samples whose innermost functions are
    folded into a caller.
    """

    stacks: tuple[tuple[str, float], ...]
    least: float
    folded: float


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """All nodes, callers before callees. `label` is the number of a task for roots, else of a function."""

    parent: Ints
    label: Ints
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _TaskChains:
    """The chains of each task. Chain `i`, root first, has the `lengths[i]` labels from `labels[begins[i]]` on."""

    task: Ints
    weight: Floats
    labels: Ints
    begins: Ints
    lengths: Ints


def call_tree(profile: CompiledProfile, max_text: int) -> Tree:
    """Return the tree of a profile, with paths of at most `max_text` characters in total."""
    if profile.weight <= 0:
        return Tree((), MIN_NODE_SHARE, 0.0)
    names, number = _labels(profile.profile.frames)
    tasks, task_chains = _task_chains(
        profile, number, np.fromiter((name.startswith("[") for name in names), np.bool_, len(names))
    )
    nodes, end, depth = _grow_tree(task_chains, len(names), MIN_NODE_SHARE * profile.weight)
    min_weight = max(MIN_NODE_SHARE * profile.weight, _weight_limit(nodes.weight))
    while True:
        shown = _shown_ancestor(nodes, min_weight)
        own_weights = np.bincount(shown[end], task_chains.weight, len(nodes.weight)).astype(np.float64)
        paths = list(_paths(nodes, own_weights, (tasks, names)))
        if sum(len(path) for path, _ in paths) <= max_text:
            break
        min_weight *= 1.25
    is_folded = (shown[end] != end) | (depth < task_chains.lengths)
    stacks = sorted(((path, weight / profile.weight) for path, weight in paths), key=lambda s: (-s[1], s[0]))
    folded = float(task_chains.weight[is_folded].sum()) / profile.weight
    return Tree(tuple(stacks), min_weight / profile.weight, folded)


def frame_label(frame: Frame) -> str:
    """Return the name of a function, or for one without a name that of its object: `[libc.so.6]`."""
    name = frame.name.replace(";", ":")
    if not is_unresolved(name) or not frame.dso or frame.dso == NAMELESS:
        return name
    object_name = frame.dso.removesuffix(" (deleted)").rpartition("/")[2].replace(";", ":")
    return object_name if object_name.startswith("[") else f"[{object_name or frame.dso}]"


def _labels(frames: Sequence[Frame]) -> tuple[list[str], Ints]:
    """The distinct labels of the frames, and the label number of each frame."""
    numbers: dict[str, int] = {}
    labels = np.fromiter((numbers.setdefault(frame_label(f), len(numbers)) for f in frames), np.int64, len(frames))
    return list(numbers), labels


def _task_chains(profile: CompiledProfile, number: Ints, nameless: Bools) -> tuple[list[str], _TaskChains]:
    """The weight of each chain in each task's name, without those of weight 0."""
    grouping, source = profile.grouping("comm"), profile.profile.chains
    count = max(1, len(source))
    keys = grouping.group * count + grouping.rows.chain
    if count * len(grouping.names) <= MAX_DENSE_CELLS:
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
    return names, _TaskChains(keys // count, weight.astype(np.float64), labels, starts[chain], lengths)


def _root_first(chains: Chains, number: Ints, nameless: Bools) -> tuple[Ints, Ints]:
    """The chains as labels, root first. Consecutive nameless functions of one object become one."""
    lengths = np.diff(chains.starts)
    ends = np.repeat(chains.starts[1:], lengths)
    places = np.arange(len(ends)) - np.repeat(chains.starts[:-1], lengths)
    labels = number[chains.frames[ends - 1 - places]]
    is_repeated = np.zeros(len(labels), np.bool_)
    is_repeated[1:] = (labels[1:] == labels[:-1]) & nameless[labels[1:]] & (places[1:] > 0)
    repeated_before = starts_of(is_repeated)
    return labels[~is_repeated], chains.starts - repeated_before[chains.starts]


def _grow_tree(task_chains: _TaskChains, width: int, min_weight: float) -> tuple[_Nodes, Ints, Ints]:
    """All nodes of at least `min_weight`, level by level; for each chain also its innermost node and the depth of
    that. The chains of a task that is too small end in one node for all such tasks (`SMALL_TASKS`)."""
    weight = np.bincount(task_chains.task, task_chains.weight)
    small_tasks = len(weight)
    task = np.where(weight >= min_weight, np.arange(small_tasks), small_tasks)[task_chains.task]
    labels, end = np.unique(task, return_inverse=True)
    nodes = [(np.full(len(labels), -1, np.int64), labels, np.bincount(end, task_chains.weight, len(labels)))]
    depth, count = np.zeros(len(end), np.int64), len(labels)
    active = np.flatnonzero((task < small_tasks) & (task_chains.lengths > 0))
    while len(active):
        keys = end[active] * width + task_chains.labels[task_chains.begins[active] + depth[active]]
        node_keys, node_of_key = np.unique(keys, return_inverse=True)
        weight = np.bincount(node_of_key, task_chains.weight[active], len(node_keys))
        is_large = weight >= min_weight
        new = count + np.cumsum(is_large) - 1
        active, node_of_key = active[is_large[node_of_key]], node_of_key[is_large[node_of_key]]
        end[active] = new[node_of_key]
        depth[active] += 1
        nodes.append((node_keys[is_large] // width, node_keys[is_large] % width, weight[is_large]))
        count += len(nodes[-1][0])
        active = active[task_chains.lengths[active] > depth[active]]
    parent, label, sums = (np.concatenate(column) for column in zip(*nodes, strict=True))
    return _Nodes(parent, label, sums), end, depth


def _weight_limit(weights: Floats) -> float:
    """The weight that at most `MAX_NODES` nodes have."""
    if len(weights) <= MAX_NODES:
        return 0.0
    return float(np.nextafter(np.partition(weights, -MAX_NODES - 1)[-MAX_NODES - 1], np.inf))


def _shown_ancestor(nodes: _Nodes, min_weight: float) -> Ints:
    """For each node itself, or its nearest caller that is large enough. Tasks are always shown."""
    shown = np.arange(len(nodes.weight))
    small = np.flatnonzero((nodes.weight < min_weight) & (nodes.parent >= 0))
    for node in small.tolist():  # callers precede callees
        shown[node] = shown[nodes.parent[node]]
    return shown


def _paths(nodes: _Nodes, own_weights: Floats, labels: tuple[list[str], list[str]]) -> Iterator[tuple[str, float]]:
    """The path of each node with a weight of its own."""
    tasks, names = labels
    cached: dict[int, str] = {}
    parent, label = nodes.parent.tolist(), nodes.label.tolist()

    def path(node: int) -> str:
        chain = []
        while node >= 0 and node not in cached:
            chain.append(node)
            node = parent[node]
        text = cached[node] if node >= 0 else ""
        for inner in reversed(chain):
            number = label[inner]
            name = names[number] if parent[inner] >= 0 else tasks[number] if number < len(tasks) else SMALL_TASKS
            text = f"{text};{name}" if parent[inner] >= 0 else name
            cached[inner] = text
        return text

    for node in np.flatnonzero(own_weights > 0).tolist():
        yield path(node), float(own_weights[node])


MAX_BUCKETS = 1500  # of a series in the result document
MEAN_BUCKET_SAMPLES = 50  # a share of one half then has a standard error of 7 points
MIN_BUCKET_SAMPLES = 20  # a share of one half then has a standard error of 11 points
BINS_PER_SECOND = round(1 / BIN)

COLUMNS = 300  # of a heat map; in a longer recording a column covers several seconds
ROWS = 50  # of a heat map: a cell is 20 ms of each second, as in flamescope
LEVELS = 9  # of a cell: one digit, to keep heat maps small in the document

MAX_SINGLE_SECONDS = 86_400  # in longer recordings the worst stretch has several seconds

# Conditions of a step: the recording is good before a moment and bad from then on.
MIN_SIDE_SECONDS = 2.0  # measured time on each side; less is a burst or the program's start
MIN_SIDE_SAMPLES = 200  # on each side: a share of 10 % then has a standard error of 2 points
MIN_RISE = 0.10  # of the non-idle weight; smaller rises change no verdict
MIN_RISE_RATIO = 3.0  # share after / share before; with a smaller ratio the time before was not good
# Shares of the buckets below the middle before the step and above it after: excludes spikes and on/off patterns.
MIN_LOW_BUCKETS, MIN_HIGH_BUCKETS = 0.9, 0.75
MIN_ABRUPT_PART = 0.5  # of the rise, between the nearest fifth on each side: a slow rise has no first bad moment


@dataclass(frozen=True, slots=True, eq=False)
class ShareSeries:
    """The matched and the total weight in buckets of `size` bins, beginning with bin `first`."""

    first: int
    size: int
    hit: Floats
    weight: Floats
    samples: Ints

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def known(self) -> Bools:
        """Mark the buckets with enough samples for a share."""
        is_known: Bools = (self.samples >= MIN_BUCKET_SAMPLES) & (self.weight > 0)
        return is_known

    @property
    def shares(self) -> Floats:
        """The share of each bucket, NaN where it is unknown."""
        return np.where(self.known, self.hit / np.where(self.weight > 0, self.weight, 1.0), np.nan)

    def seconds(self, bucket: float) -> float:
        """Return the seconds from the profile's start to a bucket, or to a position within one."""
        return (self.first + bucket * self.size) * BIN


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """Non-idle samples by second and part of a second.

    `cells` are columns of `ROWS` digits from 0 to `LEVELS`: value n stands for more than n - 1 and at most n times
    `level` samples. A column covers `seconds` whole seconds, the first begins at `begin`, all on the clock of the
    recording.
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
    """The second (or stretch of `seconds`) with the largest weight of a signature, and its share in it."""

    at: Moment
    seconds: int
    share: float


@dataclass(frozen=True)
class TimedProfile:
    """The non-idle rows of a profile that have a time. `start` is the time of bin 0."""

    profile: CompiledProfile
    start: Moment

    @cached_property
    def rows(self) -> Rows:
        rows = self.profile.rows
        has_time = rows.bin != UNKNOWN
        return rows if bool(has_time.all()) else rows.only(has_time)

    @cached_property
    def span(self) -> tuple[int, int]:
        """The first and the last bin."""
        bins = self.rows.bin
        return (int(bins.min()), int(bins.max())) if len(bins) else (0, 0)

    def rows_of(self, matches: ChainMatches, only: Bools | None = None) -> Bools:
        """Mark the rows of a signature; `only` marks the tasks whose samples count."""
        sure: Bools = matches.sure[self.rows.chain]
        return sure if only is None else sure & only[self.rows.task]

    def share_series(self, matched: Bools) -> ShareSeries:
        """Return a signature over time."""
        bins = self.span[1] - self.span[0] + 1
        buckets = max(1, min(MAX_BUCKETS, int(self.rows.samples.sum()) // MEAN_BUCKET_SAMPLES))
        return self._share_series(matched, self.span[0], _round_bucket_size(-(-bins // buckets)))

    def worst(self, matched: Bools) -> WorstSecond | None:
        """Return the second with the largest weight of a signature; None if it is nowhere, or has too few samples
        there."""
        first = self.span[0] - (self.span[0] + self._offset_bins) % BINS_PER_SECOND
        seconds = (self.span[1] - first) // BINS_PER_SECOND // MAX_SINGLE_SECONDS + 1
        series = self._share_series(matched, first, seconds * BINS_PER_SECOND)
        hit = np.where(series.known, series.hit, 0.0)
        if hit.max() <= 0:
            return None
        index = int(hit.argmax())
        return WorstSecond(self.start.plus(series.seconds(index)), seconds, float(hit[index] / series.weight[index]))

    def heat_map(self, matched: Bools | None = None, level: int = 0) -> HeatMap:
        """Return a heat map of a signature, or of all samples. `level` is that of a heat map to compare with."""
        rows = self.rows if matched is None else self.rows.only(matched)
        begin = (self.span[0] + self._offset_bins) // BINS_PER_SECOND
        columns = (self.span[1] + self._offset_bins) // BINS_PER_SECOND - begin + 1
        seconds = -(-columns // COLUMNS)
        bins = rows.bin.astype(np.int64) + self._offset_bins
        cell = (bins // BINS_PER_SECOND - begin) // seconds * ROWS + bins % BINS_PER_SECOND * ROWS // BINS_PER_SECOND
        counts = np.bincount(cell, rows.samples, -(-columns // seconds) * ROWS)
        level = level or max(1, -(-int(counts.max(initial=0)) // LEVELS))
        digits = np.minimum(np.ceil(counts / level), LEVELS).astype(np.uint8)
        return HeatMap(begin, seconds, level, digits.reshape(-1, ROWS))

    def first_step(self, series: ShareSeries) -> Step | None:
        """Return the first bad moment of a signature (`find_step`)."""
        if (step := find_step(series)) is None:
            return None
        bucket, before, after = step
        return Step(self.start.plus(series.seconds(bucket)), before, after)

    @property
    def _offset_bins(self) -> int:
        """The number of bins from zero of the clock to the profile's start."""
        return round(self.start.seconds / BIN)

    def _share_series(self, matched: Bools, first: int, size: int) -> ShareSeries:
        rows = self.rows
        number = (rows.bin.astype(np.int64) - first) // size
        weight = np.bincount(number, rows.weight)
        hit = np.bincount(number[matched], rows.weight[matched], len(weight))
        samples = np.bincount(number, rows.samples).astype(np.int64)
        return ShareSeries(first, size, hit.astype(np.float64), weight.astype(np.float64), samples)


def timed_profile(profile: CompiledProfile) -> TimedProfile | None:
    """Return the profile over time, or None if its source has no times."""
    source = profile.profile
    if not source.has_time or source.start is None:
        return None
    timed = TimedProfile(profile, source.start)
    return timed if len(timed.rows) else None


def find_step(series: ShareSeries) -> tuple[int, float, float] | None:
    """Return the bucket at which the share rises for good, and the shares before and after.

    The result is None if there is no such moment: the share is high from the start, never, now and then, or rises
    slowly. The split is the one with the largest sum of squares between its two sides (a regression tree's first cut),
    among those with enough measured time and samples on both sides; it counts only if it is a step (see the constants
    above).
    """
    known = np.flatnonzero(series.known)
    hit, weight, samples = series.hit[known], series.weight[known], series.samples[known]
    min_buckets = max(1, round(MIN_SIDE_SECONDS / (series.size * BIN)))
    if len(known) < 2 * min_buckets:
        return None
    left = [np.cumsum(column)[:-1] for column in (hit, weight, samples)]
    right = [column.sum() - part for column, part in zip((hit, weight, samples), left, strict=True)]
    before, after = left[0] / left[1], right[0] / right[1]
    number = np.arange(1, len(known))
    allowed = (
        (number >= min_buckets)
        & (number <= len(known) - min_buckets)
        & (left[2] >= MIN_SIDE_SAMPLES)
        & (right[2] >= MIN_SIDE_SAMPLES)
    )
    squares = np.where(allowed & (after > before), left[1] * right[1] * (after - before) ** 2, 0.0)
    if not len(squares) or squares.max() <= 0:
        return None
    split = int(squares.argmax())
    low, high = float(before[split]), float(after[split])
    if high - low < MIN_RISE or high < MIN_RISE_RATIO * low or not _is_step(hit / weight, split + 1, low, high):
        return None
    return int(known[split + 1]), low, high


def _is_step(shares: Floats, split: int, low: float, high: float) -> bool:
    """Whether the shares stay on their side of the middle, and change at the split rather than gradually."""
    middle = (low + high) / 2
    if (shares[:split] < middle).mean() < MIN_LOW_BUCKETS or (shares[split:] > middle).mean() < MIN_HIGH_BUCKETS:
        return False
    neighbours = max(1, min(split, len(shares) - split) // 5)
    rise = shares[split : split + neighbours].mean() - shares[split - neighbours : split].mean()
    return bool(rise >= MIN_ABRUPT_PART * (high - low))


def _round_bucket_size(size: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... bins that is at least `size`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor >= size:
                return step * factor
        step *= 10
