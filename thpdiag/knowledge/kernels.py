"""Eras of kernels and the defaults that go with them (kernels.yaml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Era:
    """`defrag` is the default of that setting; `thp` is False without THP."""

    id: str
    defrag: str
    thp: bool
    source: str


@cache
def _data() -> Any:
    return shipped("kernels.yaml")


@cache
def _releases() -> list[tuple[re.Pattern[str], Any]]:
    return [(re.compile(row["match"]), row) for row in _data()["releases"]]


def era(release: str) -> Era | None:
    """The era of a kernel release, None if it is not known."""
    for pattern, row in _releases():
        found = pattern.match(f"{release}." if release.count(".") < 2 else release)
        if not found:
            continue
        if "build_below" in row and int(found[1]) >= int(row["build_below"]):
            continue
        known = _data()["eras"].get(row["era"], {})
        return Era(row["era"], known.get("defrag", ""), row.get("thp") != "no", row["source"])
    return None


def eras() -> tuple[str, ...]:
    """The names of all eras."""
    return tuple(_data()["eras"])


def fault_policy(era_id: str) -> str:
    """What a page fault of an era does for a huge page, in words."""
    return str(_data()["eras"].get(era_id, {}).get("fault", "not known"))


def enabled_default(release: str, system: str) -> tuple[str, str] | None:
    """The distribution's default of `enabled` and where that is from, None if it is not known."""
    for row in _data()["enabled_defaults"]:
        if ("release" in row and re.search(row["release"], release)) or ("os" in row and re.search(row["os"], system)):
            return row["value"], row["source"]
    return None
