"""Kernels (kernels.yaml), distributions (platforms.yaml) and start-up files (start_up.yaml).

Kernel eras and their defaults; how settings are written, persisted and undone on each family of distributions; where
they are set at boot, in which order, and by which profiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped

ERA_OF_SIZES = "E8"  # the first era with huge pages of several sizes: 6.8


class Era(NamedTuple):
    """A kernel era. `defrag` is the default of that setting; `thp` is False if the kernel has no THP."""

    id: str
    defrag: str
    thp: bool
    source: str


@cache
def _data() -> Any:
    return load_shipped("kernels.yaml")


@cache
def era(release: str) -> Era | None:
    """Return the era of a kernel release, None if it is unknown."""
    for row in _data()["releases"]:
        match = re.match(row["match"], f"{release}." if release.count(".") < 2 else release)
        if match and ("build_below" not in row or int(match[1]) < int(row["build_below"])):
            entry = _data()["eras"].get(row["era"], {})
            return Era(row["era"], entry.get("defrag", ""), row.get("thp") != "no", row["source"])
    return None


def eras() -> tuple[str, ...]:
    """Return the ids of all eras."""
    return tuple(_data()["eras"])


def era_of_behaviour(name: str) -> str:
    """Return the id of the era with a behaviour as named in rules; other words are unchanged."""
    return next((code for code, row in _data()["eras"].items() if row["behaviour"] == name), name)


def behaviours() -> tuple[str, ...]:
    """Return the behaviours of all eras, as named in rules."""
    return tuple(row["behaviour"] for row in _data()["eras"].values())


def fault_policy(era_id: str) -> str:
    """Return a description of how page faults allocate huge pages in an era."""
    return str(_data()["eras"].get(era_id, {}).get("fault", "not known"))


def enabled_default(release: str, system: str) -> tuple[str, str] | None:
    """Return the distribution's default of `enabled` and its source, None if it is unknown."""
    for row in _data()["enabled_defaults"]:
        if ("release" in row and re.search(row["release"], release)) or ("os" in row and re.search(row["os"], system)):
            return row["value"], row["source"]
    return None


class Family(NamedTuple):
    """Command templates of a family of distributions. If `boot` is empty, all settings are written at start."""

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
def _platforms_data() -> Mapping[str, Any]:
    return load_shipped("platforms.yaml")


@cache
def family(platform: str) -> Family:
    """Return the family of a platform; the last family matches all."""
    usual = _platforms_data()["usual"]
    name, row = next((n, r) for n, r in _platforms_data()["families"].items() if re.fullmatch(r["platform"], platform))
    return Family(name, **{key: tuple(row.get(key, usual.get(key, ()))) for key in Family._fields if key != "name"})


def directory(platform: str) -> str:
    """Return the directory of the settings below /sys/kernel/mm, empty if the platform does not determine it."""
    return _platform_value("directory", platform)


def era_of_platform(platform: str) -> str:
    """Return the era of the distribution's kernel, empty if it is unknown."""
    return _platform_value("eras", platform)


def accepted_words(setting: str, platform: str, era: str) -> frozenset[str] | None:
    """Return the valid words of a setting, None for numbers."""
    for row in _platforms_data()["accepts"].get(setting, ()):
        if re.fullmatch(row.get("platform", ".*"), platform) and re.fullmatch(row.get("era", ".*"), era):
            return frozenset(row["values"])
    return None


def _platform_value(key: str, platform: str) -> str:
    return next((str(row["value"]) for row in _platforms_data()[key] if re.fullmatch(row["platform"], platform)), "")


class Place(NamedTuple):
    """A kind of start-up file; files with a higher `rank` are applied later."""

    name: str
    rank: int


class Shipped(NamedTuple):
    """A setting in a profile or note as shipped."""

    setting: str
    value: str
    source: str


@cache
def _start_up_data() -> Mapping[str, Any]:
    return load_shipped("start_up.yaml")


@cache
def start_up_place(path: str, platform: str) -> Place:
    """Return the kind of a start-up file on a platform."""
    row = next(row for row in _start_up_data()["places"] if re.search(row["path"], path or "."))
    is_sequential = re.fullmatch(_start_up_data()["sequential"], platform) is not None
    return Place(row["name"], row.get("early_rank", row["rank"]) if is_sequential else row["rank"])


def settings_of_profile(name: str, version: str) -> Iterator[Shipped]:
    """Yield the settings of a tuned profile as shipped with a version; none if the version is unknown."""
    for row in _start_up_data()["tuned"]["profiles"]:
        matches = bool(version) and re.fullmatch(row["profile"], name) is not None
        if matches and _numbers(row.get("from", "0")) <= _numbers(version) < _numbers(row.get("below", "9999")):
            yield Shipped(row["setting"], row["value"], row["source"])


def settings_of_switched_profile(name: str, version: str) -> Mapping[str, str] | None:
    """Return the settings of a tuned profile; None if tuned does not ship it.

    If the version is unknown, return those of all versions since 2.5, or None if they differ.
    """
    data = _start_up_data()["tuned"]
    versions = (version,) if version else data["turns"]
    first, *others = ({row.setting: row.value for row in settings_of_profile(name, v)} for v in versions)
    shipped = any(re.fullmatch(row["profile"], name) for row in (*data["profiles"], {"profile": data["others"]}))
    return first if shipped and all(settings == first for settings in others) else None


def respects_boot_line(version: str) -> bool:
    """Whether tuned does not change `enabled` if the boot line sets it; an unknown version is assumed to be new."""
    return not version or _numbers(version) >= _numbers(_start_up_data()["tuned"]["looks_at_boot_line"])


def tuned_version(release: str) -> str:
    """Return the version of tuned in the distribution of a kernel, empty if the kernel does not determine it."""
    rows = _start_up_data()["tuned"]["versions"]
    return next((str(row["version"]) for row in rows if re.match(row["release"], release)), "")


def settings_of_note(note: str) -> Iterator[Shipped]:
    """Yield the settings of a saptune note as shipped."""
    for row in _start_up_data()["saptune"]:
        if row["note"] == note:
            yield Shipped(row["setting"], row["value"], row["source"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:6]) for part in re.findall(r"\d+", version)[:4])
