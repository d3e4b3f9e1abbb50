"""Symbol families on call stacks: which names belong, and whether families stand in order with gaps.

Single stacks (kernel logs) are judged here; whole profiles are compiled first (`thpdiag.engine.compiled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

from thpdiag.knowledge.symbols import families_of, normalise, unresolved

Wanted = Sequence[Sequence[str]]  # one entry per place from the leaf outwards; each a choice of families


class Place(Enum):
    """Where in a chain a function must stand."""

    SELF = "self"
    ANYWHERE = "anywhere"


@lru_cache(maxsize=65536)
def member_of(name: str) -> frozenset[str]:
    """The families a function name belongs to.

    The name itself counts as a family (`=name`), so that rules may name one.
    """
    plain = normalise(name)
    return frozenset(families_of(plain)) | {f"={plain}"}


def in_order(names: Sequence[str], wanted: Wanted) -> bool:
    """Whether frames (leaf first) hold one of each wanted choice, in order from the leaf outwards, gaps allowed."""
    at = 0
    for name in names:
        if at < len(wanted) and not member_of(name).isdisjoint(wanted[at]):
            at += 1
    return at >= len(wanted)


def shortened(names: Sequence[str], most: int = 6) -> str:
    """A chain as `leaf < caller < ...` for people, shortened in the middle; callers without a name tell nothing."""
    named = max((at + 1 for at, name in enumerate(names) if not unresolved(name)), default=len(names))
    names = names[:named]
    if len(names) > most:
        names = [*names[: most - 2], "...", *names[-1:]]
    return " < ".join(names)
