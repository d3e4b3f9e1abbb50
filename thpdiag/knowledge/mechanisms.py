"""Mechanisms: title, verdict sentence, kind (mechanisms.yaml); and their remedies (remedies.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped


class Demand(NamedTuple):
    """The counter of what asks for a mechanism, and the rate per second below which it is nothing.

    Rates of huge pages are those of 2 MiB.
    """

    metric: str
    per_second: float

    @property
    def of_huge_pages(self) -> bool:
        """Whether it counts huge pages, of which few are as much memory where they are larger."""
        return self.metric.startswith("node_vmstat_thp_")


class Mechanism(NamedTuple):
    """`kind`: thp, alternative or none. One with a `demand` must be ruled out before "nothing found" is said.

    `looks_like`: mechanisms that it can be mistaken for. `leads_to`: those that follow from it where both are at work.
    `noun`: what it is called in a denial, "Not memory pressure".
    """

    name: str
    title: str
    sentence: str
    kind: str
    demand: Demand | None = None
    looks_like: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    noun: str = ""


@cache
def mechanisms() -> dict[str, Mechanism]:
    found = {}
    for name, row in load_shipped("mechanisms.yaml")["mechanisms"].items():
        demand = Demand(row["demand"]["of"], row["demand"]["per_hour"] / 3600) if "demand" in row else None
        alike, further = tuple(row.get("looks_like", ())), tuple(row.get("leads_to", ()))
        noun = row.get("noun", name.replace("-", " "))
        found[name] = Mechanism(name, row["title"], row["sentence"], row["kind"], demand, alike, further, noun)
    return found


def look_alikes(mechanism: str) -> tuple[str, ...]:
    """The mechanisms that can be mistaken for this one."""
    return tuple(other.name for other in mechanisms().values() if mechanism in other.looks_like)


Row = Mapping[str, Any]


@cache
def _data() -> Mapping[str, Any]:
    return load_shipped("remedies.yaml")


def remedies() -> Mapping[str, Row]:
    """All remedies by id; what the keys mean stands at the top of the file."""
    found: Mapping[str, Row] = _data()["remedies"]
    return found


def environment() -> Mapping[str, Sequence[str]]:
    """Commands that write a variable into the drop-in of a unit, and take it `back`."""
    found: Mapping[str, Sequence[str]] = _data()["environment"]
    return found


def cures(remedy: Row, mechanism: str) -> bool:
    """Whether a remedy cures a mechanism, or is the next step for it."""
    told = remedy["cures"]
    if told == "listed":
        return any(row["mechanism"] == mechanism for row in remedy["variants"])
    return told == "any" or mechanism in told


def verifications(mechanism: str) -> Sequence[Row]:
    """What to measure afterwards; the first row that fits the host counts."""
    rows = _data()["verify"].get(mechanism) or _data()["verify"]["any"]
    return rows if isinstance(rows, list) else [rows]
