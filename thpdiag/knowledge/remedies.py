"""What can be done about a mechanism (remedies.yaml), and what number shows that it helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from thpdiag.knowledge.yaml_nodes import shipped

Row = Mapping[str, Any]


@cache
def _data() -> Mapping[str, Any]:
    return shipped("remedies.yaml")


def remedies() -> Mapping[str, Row]:
    """All remedies by id; what the keys mean stands at the top of the file."""
    found: Mapping[str, Row] = _data()["remedies"]
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
