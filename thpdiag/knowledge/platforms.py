"""Kernels (kernels.yaml), distributions (platforms.yaml) and start-up files (start_up.yaml).

Eras of kernels and their defaults; how settings are written, made to last and taken back on each family of
distributions; where they are set at boot, in which order, and by which profiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped

ERA_OF_SIZES = "E8"  # the first that has huge pages of several sizes: 6.8


class Era(NamedTuple):
    """`defrag` is the default of that setting; `thp` is False without THP."""

    id: str
    defrag: str
    thp: bool
    source: str


@cache
def _data() -> Any:
    return load_shipped("kernels.yaml")


@cache
def era(release: str) -> Era | None:
    """The era of a kernel release, None if it is not known."""
    for row in _data()["releases"]:
        found = re.match(row["match"], f"{release}." if release.count(".") < 2 else release)
        if found and ("build_below" not in row or int(found[1]) < int(row["build_below"])):
            known = _data()["eras"].get(row["era"], {})
            return Era(row["era"], known.get("defrag", ""), row.get("thp") != "no", row["source"])
    return None


def eras() -> tuple[str, ...]:
    """The names of all eras."""
    return tuple(_data()["eras"])


def era_of_behaviour(name: str) -> str:
    """The code of the era of which a rule names the behaviour; any other word as it is."""
    return next((code for code, row in _data()["eras"].items() if row["behaviour"] == name), name)


def behaviours() -> tuple[str, ...]:
    """The behaviours of all eras, as rules name them."""
    return tuple(row["behaviour"] for row in _data()["eras"].values())


def fault_policy(era_id: str) -> str:
    """What a page fault of an era does for a huge page, in words."""
    return str(_data()["eras"].get(era_id, {}).get("fault", "not known"))


def enabled_default(release: str, system: str) -> tuple[str, str] | None:
    """The distribution's default of `enabled` and where that is from, None if it is not known."""
    for row in _data()["enabled_defaults"]:
        if ("release" in row and re.search(row["release"], release)) or ("os" in row and re.search(row["os"], system)):
            return row["value"], row["source"]
    return None


class Family(NamedTuple):
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
def _platforms_data() -> Mapping[str, Any]:
    return load_shipped("platforms.yaml")


@cache
def family(platform: str) -> Family:
    """The family of a platform; the last one takes all."""
    usual = _platforms_data()["usual"]
    name, row = next((n, r) for n, r in _platforms_data()["families"].items() if re.fullmatch(r["platform"], platform))
    told = {key: tuple(row.get(key, usual.get(key, ()))) for key in Family._fields if key != "name"}
    return Family(name, **told)


def directory(platform: str) -> str:
    """The directory of the settings below /sys/kernel/mm, empty if the platform does not tell."""
    return _platform_value("directory", platform)


def era_of_platform(platform: str) -> str:
    """The era of the distribution's own kernel, empty if it is not known."""
    return _platform_value("eras", platform)


def accepted_words(setting: str, platform: str, era: str) -> frozenset[str] | None:
    """The words that a setting takes, None for numbers."""
    for row in _platforms_data()["accepts"].get(setting, ()):
        if re.fullmatch(row.get("platform", ".*"), platform) and re.fullmatch(row.get("era", ".*"), era):
            return frozenset(row["values"])
    return None


def _platform_value(key: str, platform: str) -> str:
    return next((str(row["value"]) for row in _platforms_data()[key] if re.fullmatch(row["platform"], platform)), "")


class Place(NamedTuple):
    """A kind of start-up file; of two with another `rank` the higher one writes later."""

    name: str
    rank: int


class Shipped(NamedTuple):
    """What a profile or note writes as it is shipped."""

    setting: str
    value: str
    source: str


@cache
def _start_up_data() -> Mapping[str, Any]:
    return load_shipped("start_up.yaml")


@cache
def start_up_place(path: str, platform: str) -> Place:
    """What a start-up file is, on a host of a platform."""
    row = next(row for row in _start_up_data()["places"] if re.search(row["path"], path or "."))
    one_by_one = re.fullmatch(_start_up_data()["sequential"], platform) is not None
    return Place(row["name"], row.get("early_rank", row["rank"]) if one_by_one else row["rank"])


def settings_of_profile(name: str, version: str) -> Iterator[Shipped]:
    """What a profile of tuned writes as shipped with a version; nothing where the version is not known."""
    for row in _start_up_data()["tuned"]["profiles"]:
        known = bool(version) and re.fullmatch(row["profile"], name) is not None
        if known and _numbers(row.get("from", "0")) <= _numbers(version) < _numbers(row.get("below", "9999")):
            yield Shipped(row["setting"], row["value"], row["source"])


def settings_of_switched_profile(name: str, version: str) -> Mapping[str, str] | None:
    """The same of all versions from 2.5 on where it is not known; None of a profile that tuned does not ship."""
    data = _start_up_data()["tuned"]
    versions = (version,) if version else data["turns"]
    found = [{one.setting: one.value for one in settings_of_profile(name, one_version)} for one_version in versions]
    shipped = any(re.fullmatch(row["profile"], name) for row in (*data["profiles"], {"profile": data["others"]}))
    return found[0] if shipped and all(one == found[0] for one in found) else None


def looks_at_boot_line(version: str) -> bool:
    """Whether tuned leaves `enabled` alone when the boot line sets it; an unknown version is taken for a newer one."""
    return not version or _numbers(version) >= _numbers(_start_up_data()["tuned"]["looks_at_boot_line"])


def tuned_version(release: str) -> str:
    """The version of tuned that the distribution of a kernel has, empty if the kernel does not tell."""
    rows = _start_up_data()["tuned"]["versions"]
    return next((str(row["version"]) for row in rows if re.match(row["release"], release)), "")


def settings_of_note(note: str) -> Iterator[Shipped]:
    """What a note of saptune writes as shipped."""
    for row in _start_up_data()["saptune"]:
        if row["note"] == note:
            yield Shipped(row["setting"], row["value"], row["source"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:6]) for part in re.findall(r"\d+", version)[:4])
