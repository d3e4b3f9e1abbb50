"""A profile as a tree of calls without its small branches: what a report can hold of a million different stacks.

A node is a path from the task's name over the outermost function inwards. A node of less than `LEAST` of the non-idle
weight is folded into its caller, whose own weight then says so much more; nothing is left out of the sum. Large
recordings keep at most `MOST_NODES` nodes: the limit rises until that holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.compiled_profile import Bools, CompiledProfile, Ints
from thpdiag.knowledge.symbols import is_unresolved
from thpdiag.model import Chains, Frame
from thpdiag.model.profile import NAMELESS
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
