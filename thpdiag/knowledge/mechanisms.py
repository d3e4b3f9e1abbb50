"""Mechanisms: title, verdict sentence, kind (mechanisms.yaml); and their remedies (remedies.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped


class Demand(NamedTuple):
    """The counter of demand for a mechanism, and the rate per second below which the demand is negligible.

    `requests` is a counter of requests without which the mechanism cannot occur; the same limit applies to it. Rates of
    huge pages are for pages of 2 MiB.
    """

    metric: str
    per_second: float
    requests: str = ""

    @property
    def of_huge_pages(self) -> bool:
        """Whether the metric counts huge pages, so that the rate depends on their size."""
        return self.metric.startswith("node_vmstat_thp_")


class Mechanism(NamedTuple):
    """A mechanism. `kind`: thp, alternative or none. Those with a `demand` must be ruled out for "nothing found".

    `looks_like`: mechanisms for which it can be mistaken. `leads_to`: mechanisms that it causes if both are present.
    `noun`: its name in a denial, "Not memory pressure".
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
    """Return all mechanisms by name."""
    result = {}
    for name, row in load_shipped("mechanisms.yaml")["mechanisms"].items():
        demand = None
        if known := row.get("demand"):
            demand = Demand(known["of"], known["per_hour"] / 3600, known.get("for", ""))
        looks_like, leads_to = tuple(row.get("looks_like", ())), tuple(row.get("leads_to", ()))
        noun = row.get("noun", name.replace("-", " "))
        result[name] = Mechanism(name, row["title"], row["sentence"], row["kind"], demand, looks_like, leads_to, noun)
    return result


def look_alikes(mechanism: str) -> tuple[str, ...]:
    """Return the mechanisms that can be mistaken for this one."""
    return tuple(other.name for other in mechanisms().values() if mechanism in other.looks_like)


Row = Mapping[str, Any]


@cache
def _data() -> Mapping[str, Any]:
    return load_shipped("remedies.yaml")


def remedies() -> Mapping[str, Row]:
    """Return all remedies by id; the top of the file describes the keys."""
    rows: Mapping[str, Row] = _data()["remedies"]
    return rows


def environment() -> Mapping[str, Sequence[str]]:
    """Return the commands that write a variable to the drop-in of a unit, and those that undo it (`back`)."""
    commands: Mapping[str, Sequence[str]] = _data()["environment"]
    return commands


def cures(remedy: Row, mechanism: str) -> bool:
    """Whether a remedy cures a mechanism, or is the next step for it."""
    cured = remedy["cures"]
    if cured == "listed":
        return any(row["mechanism"] == mechanism for row in remedy["variants"])
    return cured == "any" or mechanism in cured


def verifications(mechanism: str) -> Sequence[Row]:
    """Return the measurements that verify a remedy; the first row that applies to the host is used."""
    rows = _data()["verify"].get(mechanism) or _data()["verify"]["any"]
    return rows if isinstance(rows, list) else [rows]
