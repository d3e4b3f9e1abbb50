"""The hottest stacks of a profile as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROWS = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One stack: its share of the non-idle samples (0..1), the function on top and its callers, nearest first."""

    share: float
    function: str
    callers: tuple[str, ...]


def hottest(profile: Mapping[str, Any]) -> list[Row]:
    """The stacks with the largest shares, at most `ROWS`."""
    folded = sorted(profile["folded"], key=lambda pair: (-pair[1], pair[0]))
    return [_row(stack, share) for stack, share in folded[:ROWS]]


def _row(stack: str, share: float) -> Row:
    *callers, function = stack.split(";")
    return Row(share, function, tuple(reversed(callers)))
