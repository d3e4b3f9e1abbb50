"""What can be wrong (mechanisms.yaml): title, sentence for a verdict, and whether it is about huge pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Demand:
    """The counter of what asks for a mechanism, and the rate per second below which it is nothing.

    Rates of huge pages are those of 2 MiB.
    """

    metric: str
    per_second: float

    @property
    def of_huge_pages(self) -> bool:
        """Whether it counts huge pages, of which few are as much memory where they are larger."""
        return self.metric.startswith("node_vmstat_thp_")


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`kind`: thp, alternative or none. One with a `demand` must be ruled out before "nothing found" is said.

    `looks_like`: mechanisms that it can be mistaken for. `leads_to`: those that follow from it where both are at work.
    """

    name: str
    title: str
    sentence: str
    kind: str
    demand: Demand | None = None
    looks_like: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()


def _demand(row: Mapping[str, Any] | None) -> Demand | None:
    return Demand(row["of"], row["per_hour"] / 3600) if row else None


@cache
def mechanisms() -> dict[str, Mechanism]:
    rows = shipped("mechanisms.yaml")["mechanisms"]
    return {
        name: Mechanism(
            name, row["title"], row["sentence"], row["kind"], _demand(row.get("demand")),
            tuple(row.get("looks_like", ())), tuple(row.get("leads_to", ())),
        )
        for name, row in rows.items()
    }  # fmt: skip


def look_alikes(mechanism: str) -> tuple[str, ...]:
    """The mechanisms that can be mistaken for this one."""
    return tuple(other.name for other in mechanisms().values() if mechanism in other.looks_like)
