"""The hottest stacks of a profile as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROWS = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One stack: its share of the non-idle samples (0..1), task, function on top, and callers, nearest first."""

    share: float
    task: str
    function: str
    callers: tuple[str, ...]


def hottest(profile: Mapping[str, Any]) -> list[Row]:
    """The stacks with the largest shares, at most `ROWS`."""
    folded = sorted(profile["folded"], key=lambda pair: (-pair[1], pair[0]))
    return [_row(stack, share) for stack, share in folded[:ROWS]]


def _row(stack: str, share: float) -> Row:
    task, *functions = stack.split(";")
    if not functions:  # a sample without a stack
        return Row(share, task, "no stack", ())
    return Row(share, task, functions[-1], tuple(reversed(functions[:-1])))
