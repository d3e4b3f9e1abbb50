"""The functions of a recording with what called them and what they called: the sandwich view of a flame graph.

Of all stacks that go through a function, wherever it stands in them: its share with all that it called, its own share,
and the shares by its direct caller and by what it called directly. A function that stands twice in a stack counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from thpdiag.model.result import Profile
from thpdiag.report.charts.panels import drawable

MAX_FUNCTIONS = 15  # those with the largest share of their own
MAX_MARKED = 5  # further ones, which findings rest on
NEIGHBOURS = 4  # callers, and functions called, of each
LEAST = 0.0005  # of the samples


@dataclass(slots=True)
class Function:
    """Shares of the non-idle samples (0..1); `marked` if a finding rests on it."""

    name: str
    share: float = 0.0
    own: float = 0.0
    marked: bool = False
    callers: dict[str, float] = field(default_factory=dict)
    callees: dict[str, float] = field(default_factory=dict)


def functions(profile: Profile) -> list[Function]:
    """Those with the largest share of their own, then those of findings with the largest share."""
    known = _by_name(profile)
    for name in profile.matched:
        if name in known:
            known[name].marked = True
    by_own = sorted(known.values(), key=lambda one: (-one.own, -one.share, one.name))
    hottest = [one for one in by_own if one.own >= LEAST][:MAX_FUNCTIONS]
    cited = [one for one in known.values() if one.marked and one not in hottest]
    return hottest + sorted(cited, key=lambda one: (-one.share, one.name))[:MAX_MARKED]


def _by_name(profile: Profile) -> Mapping[str, Function]:
    known: dict[str, Function] = {}
    for stack, share in profile.folded:
        task, *path = stack.split(";")
        if not path or not drawable(share) or share <= 0:
            continue
        for name in dict.fromkeys(path):
            known.setdefault(name, Function(name)).share += share
        known[path[-1]].own += share
        for caller, callee in dict.fromkeys(pairwise([task, *path])):
            known[callee].callers[caller] = known[callee].callers.get(caller, 0.0) + share
            if caller in known:
                known[caller].callees[callee] = known[caller].callees.get(callee, 0.0) + share
    return known


def neighbours(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """The largest, the largest first."""
    return sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:NEIGHBOURS]
