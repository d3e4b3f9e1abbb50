"""Figures that show the effect of a switched setting, and settings that belong together (switches.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped


class Compared(NamedTuple):
    """A figure that is compared between both values of a setting; see switches.yaml."""

    title: str
    unit: str
    names: tuple[str, ...]
    worth: float = 0.0
    whole: bool = False


@cache
def switches() -> Mapping[str, Any]:
    return load_shipped("switches.yaml")


@cache
def compared_figures() -> Mapping[str, Compared]:
    """Return all figures by name."""
    kinds = switches()["effects"].values()
    return {name: Compared(**row | {"names": tuple(row["names"])}) for kind in kinds for name, row in kind.items()}


@cache
def permissiveness(setting: str, value: str) -> float:
    """Return a number that ranks the values of a setting by how much they allow."""
    if value.isdecimal():
        return -float(value) if setting.endswith(tuple(switches()["less_is_more"])) else float(value)
    words = ["no", "yes"] if setting.endswith("khugepaged.defrag") else switches()["permissive"]
    return float(words.index(value) if value in words else len(words))
