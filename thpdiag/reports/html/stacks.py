"""The recordings of a page: in which order, how much of each is drawn, and the hottest stacks as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thpdiag.reports.charts.call_tree import MOST
from thpdiag.reports.charts.heat_map import heat_maps, sparse
from thpdiag.reports.charts.icicle import icicle
from thpdiag.reports.verdict import leading

ROWS = 15
_FIRST = 800  # frames of the first recording: what is left out is hardly wider than a pixel, and a page stays small
_FEWEST = 100  # frames of another; of more recordings than that leaves room for, only the tables are shown


@dataclass(frozen=True, slots=True)
class Row:
    """One stack: its share of the non-idle samples (0..1), task, function on top, and callers, nearest first."""

    share: float
    task: str
    function: str
    callers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A recording with its pictures; each is empty if there is nothing to draw."""

    number: int
    profile: Mapping[str, Any]
    calls: Markup
    heat: Markup

    @property
    def sparse(self) -> bool:
        """Whether its picture over time shows single samples more than anything."""
        return sparse(self.profile)

    @property
    def callers(self) -> bool:
        """Whether a function is shown below the one that called it."""
        return any(stack.count(";") > 1 for stack, _ in self.profile["folded"])


def shown(document: Mapping[str, Any], prefix: str) -> list[Shown]:
    """The recordings of a completed document, first the one that the leading finding rests on, one without samples
    last; `prefix` begins ids."""
    first = leading(document)
    cited = {said["member"] for said in (first["evidence"] if first else ()) if said["kind"] == "stack"}
    profiles = sorted(
        document["profiles"],
        key=lambda p: (not (p["matched"] and p["member"] in cited), not p["matched"], not p["folded"]),
    )
    others = len(profiles) - 1
    rest = max(_FEWEST, (MOST - _FIRST) // others) if others else 0
    found = []
    for number, profile in enumerate(profiles, 1):
        room = _FIRST if number == 1 else rest
        drawn = _FIRST + (number - 1) * rest <= MOST
        calls = icicle(profile, f"{prefix}-calls{number}", room) if drawn else Markup()
        heat = heat_maps(profile, f"{prefix}-heat{number}") if drawn else Markup()
        found.append(Shown(number, profile, calls, heat))
    return found


def hottest(profile: Mapping[str, Any]) -> list[Row]:
    """The stacks with the largest shares, at most `ROWS`."""
    folded = sorted(profile["folded"], key=lambda pair: (-pair[1], pair[0]))
    return [_row(stack, share) for stack, share in folded[:ROWS]]


def _row(stack: str, share: float) -> Row:
    task, *functions = stack.split(";")
    if not functions:  # a sample without a stack
        return Row(share, task, "no stack", ())
    return Row(share, task, functions[-1], tuple(reversed(functions[:-1])))
