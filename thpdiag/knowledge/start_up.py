"""Where settings of huge pages are set at boot, in which order, and by which profiles (start_up.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of start-up file; of two with another `rank` the higher one writes later."""

    name: str
    rank: int


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a profile or note writes as it is shipped."""

    setting: str
    value: str
    source: str


@cache
def _data() -> Mapping[str, Any]:
    return shipped("start_up.yaml")


@cache
def place(path: str, platform: str) -> Place:
    """What a start-up file is, on a host of a platform."""
    row = next(row for row in _data()["places"] if re.search(row["path"], path or "."))
    one_by_one = re.fullmatch(_data()["sequential"], platform) is not None
    return Place(row["name"], row.get("early_rank", row["rank"]) if one_by_one else row["rank"])


def of_profile(name: str, version: str) -> Iterator[Shipped]:
    """What a profile of tuned writes as shipped with a version; nothing where the version is not known."""
    for row in _data()["tuned"]["profiles"]:
        if version and re.fullmatch(row["profile"], name) and _between(version, row):
            yield Shipped(row["setting"], row["value"], row["source"])


def looks_at_boot_line(version: str) -> bool:
    """Whether tuned leaves `enabled` alone when the boot line sets it; an unknown version is taken for a newer one."""
    return not version or _numbers(version) >= _numbers(_data()["tuned"]["looks_at_boot_line"])


def tuned_of(release: str) -> str:
    """The version of tuned that the distribution of a kernel has, empty if the kernel does not tell."""
    rows = _data()["tuned"]["versions"]
    return next((str(row["version"]) for row in rows if re.match(row["release"], release)), "")


def of_note(note: str) -> Iterator[Shipped]:
    """What a note of saptune writes as shipped."""
    for row in _data()["saptune"]:
        if row["note"] == note:
            yield Shipped(row["setting"], row["value"], row["source"])


def _between(version: str, row: Mapping[str, str]) -> bool:
    number = _numbers(version)
    return _numbers(row.get("from", "0")) <= number and ("below" not in row or number < _numbers(row["below"]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:6]) for part in re.findall(r"\d+", version)[:4])
