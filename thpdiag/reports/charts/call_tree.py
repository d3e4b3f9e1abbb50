"""The stacks of a recording as frames in rows: the root on top, below each frame what it called, the hottest first.

Places are whole steps, so that frames side by side touch and those below a frame never stand out from under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from thpdiag.reports.charts.plots import drawable

STEPS = 10_000  # of the whole width
LEAST = 0.0005  # of the non-idle samples: a smaller frame could hardly be seen
MOST = 1800  # frames of a page
DEEPEST = 256  # rows; `perf record` keeps 127 frames unless it is told otherwise
ROOT, TASK, KERNEL, OTHER = "root", "task", "kernel", "other"
_ROUNDING = 1 - 1e-6  # shares are sums of decimals


@dataclass(frozen=True, slots=True)
class Frame:
    """A function below its callers: `depth` 0 is the root, 1 a task. `share` and `own` are of the non-idle samples,
    `left` and `right` steps. `marked`: a finding speaks of it."""

    name: str
    kind: str
    depth: int
    left: int
    right: int
    share: float
    own: float
    marked: bool


@dataclass(frozen=True, slots=True)
class CallTree:
    """Frames, callers first. `share` is that of all samples shown, `least` what a frame has at least, `folded` the
    share of samples whose innermost functions are not shown; `deep`: stacks were cut at `DEEPEST`."""

    frames: tuple[Frame, ...]
    share: float
    least: float
    folded: float
    deep: bool


@dataclass(slots=True)
class _Nodes:
    """All nodes by number, callers first; number 0 is the root."""

    parent: list[int] = field(default_factory=lambda: [-1])
    name: list[str] = field(default_factory=lambda: [""])
    depth: list[int] = field(default_factory=lambda: [0])
    share: list[float] = field(default_factory=lambda: [0.0])
    marked: list[bool] = field(default_factory=lambda: [False])
    below: list[dict[str, int]] = field(default_factory=lambda: [{}])

    def reach(self, path: Iterable[str]) -> int:
        """The node of a path, made if there is none."""
        at, below = 0, self.below
        for name in path:
            inner = below[at].get(name)
            if inner is None:
                inner = below[at][name] = len(below)
                self.parent.append(at)
                self.name.append(name)
                self.depth.append(self.depth[at] + 1)
                self.share.append(0.0)
                self.marked.append(False)
                below.append({})
            at = inner
        return at


def call_tree(profile: Mapping[str, Any], most: int = MOST) -> CallTree:
    """The frames of a completed `profiles[]` entry, at most so many."""
    nodes, deep = _nodes(profile)
    whole = nodes.share[0]
    if whole < LEAST:
        return CallTree((), 0.0, LEAST, 0.0, deep=False)
    kept, least = _kept(nodes, most)
    into = profile["folded_into_callers"] or 0.0
    folded = into + sum(
        share
        for share, parent, shown in zip(nodes.share, nodes.parent, kept, strict=True)
        if not shown and kept[parent]
    )
    frames = tuple(_laid(nodes, kept, profile))
    return CallTree(frames, whole, max(least, profile["folded_least"] or 0.0), folded, deep)


def _nodes(profile: Mapping[str, Any]) -> tuple[_Nodes, bool]:
    """Every path with the sum of what is at and below it; whether one was too deep."""
    nodes, deep, marked = _Nodes(), False, set(profile["matched_stacks"])
    for number, (stack, share) in enumerate(profile["folded"]):
        if not drawable(share) or share <= 0:
            continue
        path = stack.split(";")
        deep = deep or len(path) > DEEPEST
        at = nodes.reach(path[:DEEPEST])
        nodes.share[at] += share
        nodes.marked[at] = nodes.marked[at] or number in marked
    share, seen, parent = nodes.share, nodes.marked, nodes.parent
    for at in range(len(parent) - 1, 0, -1):
        share[parent[at]] += share[at]
        seen[parent[at]] = seen[parent[at]] or seen[at]
    return nodes, deep


def _kept(nodes: _Nodes, most: int) -> tuple[list[bool], float]:
    """Which nodes are drawn, and the least share that one has; a caller weighs at least what it calls."""
    order = sorted(range(len(nodes.share)), key=lambda at: (-nodes.share[at], at))[:most]
    kept = [False] * len(nodes.share)
    for at in order:
        kept[at] = nodes.share[at] >= LEAST * _ROUNDING
    cut = len(nodes.share) > most
    return kept, max(LEAST, nodes.share[order[-1]]) if cut else LEAST


def _laid(nodes: _Nodes, kept: Sequence[bool], profile: Mapping[str, Any]) -> Iterator[Frame]:
    """The nodes in their places, depth first."""
    marked, entries = set(profile["matched"]), set(profile["kernel_entries"])
    wide = STEPS / nodes.share[0]
    waiting = [(0, 0.0, False)]
    while waiting:
        at, start, inside = waiting.pop()
        name, depth, share = nodes.name[at], nodes.depth[at], nodes.share[at]
        inside = inside or (depth > 1 and name in entries)
        inner = sorted((i for i in nodes.below[at].values() if kept[i]), key=lambda i: (-nodes.share[i], nodes.name[i]))
        own = share - sum(nodes.share[i] for i in inner)
        kind = (ROOT, TASK)[depth] if depth < 2 else KERNEL if inside else OTHER
        left, right = round(start * wide), round((start + share) * wide)
        yield Frame(name, kind, depth, left, right, share, own, depth > 1 and nodes.marked[at] and name in marked)
        starts = accumulate((nodes.share[i] for i in inner), initial=start)
        waiting += reversed([(i, begin, inside) for i, begin in zip(inner, starts, strict=False)])
