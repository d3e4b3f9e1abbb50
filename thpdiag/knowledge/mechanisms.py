"""What can be wrong (mechanisms.yaml): title, sentence for a verdict, and whether it is about huge pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`kind`: thp, alternative or none. A `core` mechanism must be ruled out before "nothing found" is said.

    `looks_like`: mechanisms that it can be mistaken for. `leads_to`: those that follow from it where both are at work.
    """

    name: str
    title: str
    sentence: str
    kind: str
    core: bool
    looks_like: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()


@cache
def mechanisms() -> dict[str, Mechanism]:
    rows = shipped("mechanisms.yaml")["mechanisms"]
    return {
        name: Mechanism(
            name, row["title"], row["sentence"], row["kind"], row.get("core", False) is True,
            tuple(row.get("looks_like", ())), tuple(row.get("leads_to", ())),
        )
        for name, row in rows.items()
    }  # fmt: skip


def look_alikes(mechanism: str) -> tuple[str, ...]:
    """The mechanisms that can be mistaken for this one."""
    return tuple(other.name for other in mechanisms().values() if mechanism in other.looks_like)
