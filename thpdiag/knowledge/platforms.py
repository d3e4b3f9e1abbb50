"""How settings are written, made to last and taken back on each family of distributions (platforms.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Family:
    """Command templates. Where `boot` is empty all settings are written at start."""

    name: str
    boot: tuple[str, ...]
    boot_back: tuple[str, ...]
    boot_check: tuple[str, ...]
    start: tuple[str, ...]
    start_back: tuple[str, ...]
    sysctl: tuple[str, ...]
    sysctl_back: tuple[str, ...]
    kubernetes: tuple[str, ...]
    kubernetes_back: tuple[str, ...]


@cache
def _data() -> Mapping[str, Any]:
    return shipped("platforms.yaml")


@cache
def family(platform: str) -> Family:
    """The family of a platform; the last one takes all."""
    usual = _data()["usual"]
    name, row = next((n, r) for n, r in _data()["families"].items() if re.fullmatch(r["platform"], platform))
    told = {key: tuple(row.get(key, usual.get(key, ()))) for key in Family.__slots__ if key != "name"}
    return Family(name, **told)


def directory(platform: str) -> str:
    """The directory of the settings below /sys/kernel/mm, empty if the platform does not tell."""
    return _value("directory", platform)


def era_of(platform: str) -> str:
    """The era of the distribution's own kernel, empty if it is not known."""
    return _value("eras", platform)


def accepted(setting: str, platform: str, era: str) -> frozenset[str] | None:
    """The words that a setting takes, None for numbers."""
    for row in _data()["accepts"].get(setting, ()):
        if re.fullmatch(row.get("platform", ".*"), platform) and re.fullmatch(row.get("era", ".*"), era):
            return frozenset(row["values"])
    return None


def _value(key: str, platform: str) -> str:
    return next((str(row["value"]) for row in _data()[key] if re.fullmatch(row["platform"], platform)), "")
