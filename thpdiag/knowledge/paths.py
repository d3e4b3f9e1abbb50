"""Which members of a bundle are worth reading, and which path on the host a member is a copy of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class _Paths:
    """paths.yaml, compiled."""

    system_folder: re.Pattern[str]
    root: re.Pattern[str]
    folders_of_hosts: frozenset[str]
    wanted: re.Pattern[str]
    no_text: re.Pattern[str]
    of_programs: re.Pattern[str]


@cache
def _paths() -> _Paths:
    known = shipped("paths.yaml")
    wanted = "|".join(f"(?:{_joined(pattern)})" for pattern in known["wanted"])
    return _Paths(
        system_folder=re.compile(known["system_folders"]),
        root=re.compile("|".join(f"(?:{pattern})" for pattern in known["roots"])),
        folders_of_hosts=frozenset(known["folders_of_hosts"]),
        wanted=re.compile(wanted),
        no_text=re.compile(rf".*\.(?:{_joined(known['no_text'])})$", re.IGNORECASE),
        of_programs=re.compile(_joined(known["of_programs"])),
    )


def _joined(pattern: str) -> str:
    """A pattern that was folded over several lines."""
    return pattern.replace(" ", "")


def wants(path: str) -> bool:
    """Whether a member is worth reading: known files of a system tree, and what may be text outside of one."""
    known, on_host = _paths(), system_path(path)
    if on_host is None:
        return not known.no_text.match(path) and not known.of_programs.fullmatch(path)
    return known.wanted.fullmatch(on_host) is not None and not known.no_text.match(on_host)


def system_path(path: str) -> str | None:
    """The path on the host that a member is a copy of (`proc/vmstat`), None if it is not in a copied system tree."""
    segments = _segments(path)
    start = _system_start(segments)
    return None if start is None else "/".join(segments[start:])


def root_of(path: str) -> str:
    """The part of a member's path that names the host's part of the bundle, empty if nothing does.

    Members with the same root belong to the same host; `""` says nothing.
    """
    segments = _segments(path)
    start = _system_start(segments)
    if start is None:
        start = _after_root(segments) or 0
    return "/".join(segments[:start])


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _after_root(segments: list[str]) -> int | None:
    """Where the last folder that is known as the root of a host ends."""
    known = _paths()
    after = None
    for place, name in enumerate(segments[:-1]):
        if known.root.fullmatch(name):
            after = place + 1
        elif name in known.folders_of_hosts and place + 2 < len(segments):
            after = place + 2
    return after


def _system_start(segments: list[str]) -> int | None:
    folder = _paths().system_folder
    for place in range(_after_root(segments) or 0, len(segments) - 1):
        if folder.fullmatch(segments[place]):
            return place
    return None
