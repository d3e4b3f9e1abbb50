"""What can be wrong (mechanisms.yaml): title, sentence for a verdict, and whether it is about huge pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`kind`: thp, alternative or none. A `core` mechanism must be ruled out before "nothing found" is said."""

    name: str
    title: str
    sentence: str
    kind: str
    core: bool


@cache
def mechanisms() -> dict[str, Mechanism]:
    rows = shipped("mechanisms.yaml")["mechanisms"]
    return {
        name: Mechanism(name, row["title"], row["sentence"], row["kind"], row.get("core", False) is True)
        for name, row in rows.items()
    }
