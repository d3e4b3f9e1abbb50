"""The functions of a recording with their callers and callees: the sandwich view of a flame graph.

For all stacks that contain a function: its share including callees, its own share, and the shares by direct caller and
direct callee. A function that is twice in a stack counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from thpdiag.model.result import Profile
from thpdiag.report.charts.panels import drawable

MAX_FUNCTIONS = 15  # with the largest own share
MAX_MARKED = 5  # further functions that findings cite
MAX_NEIGHBOURS = 4  # callers, and callees, of each
MIN_SHARE = 0.0005  # of the samples


@dataclass(slots=True)
class Function:
    """Shares of the non-idle samples (0..1); `marked` if a finding cites it."""

    name: str
    share: float = 0.0
    own: float = 0.0
    marked: bool = False
    callers: dict[str, float] = field(default_factory=dict)
    callees: dict[str, float] = field(default_factory=dict)


def functions(profile: Profile) -> list[Function]:
    """Return the functions with the largest own share, then cited ones with the largest share."""
    known = _by_name(profile)
    for name in profile.matched:
        if name in known:
            known[name].marked = True
    by_own = sorted(known.values(), key=lambda function: (-function.own, -function.share, function.name))
    hottest = [function for function in by_own if function.own >= MIN_SHARE][:MAX_FUNCTIONS]
    cited = [function for function in known.values() if function.marked and function not in hottest]
    return hottest + sorted(cited, key=lambda function: (-function.share, function.name))[:MAX_MARKED]


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
    """Return the largest shares in descending order."""
    return sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_NEIGHBOURS]
