"""Which members of a bundle are worth reading, and which path on the host a member is a copy of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from thpdiag.knowledge.yaml_nodes import shipped

_TAILED = re.compile(r"sos_strings/(?P<plugin>[^/]+)/(?P<name>[^/]+)\.tailed")
_OUTPUT = re.compile(r"(?:sos_commands/[^/]+|insights_commands)/([^/]+)")
_PACKED = re.compile(r"(?<![^/])([^/]+)\.tar/\1/")  # sos --pack-dir: proc/fs/ becomes proc/fs.tar
_FOLDERS = 4096  # whose place is remembered; members of one folder follow each other


@dataclass(frozen=True, slots=True)
class _Paths:
    """paths.yaml, compiled."""

    system_folder: re.Pattern[str]
    root: re.Pattern[str]
    folders_of_hosts: frozenset[str]
    wanted: re.Pattern[str]
    beside_the_tree: re.Pattern[str]
    no_text: re.Pattern[str]
    of_programs: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a folder is: the root of its host, its path below that, and on the host, None outside of a system tree."""

    root: str
    below: str
    on_host: str | None


@dataclass(frozen=True, slots=True)
class _Word:
    """Whether a folder of that name is the root of a host's files, one of the system, or has a folder per host."""

    is_root: bool
    is_system: bool
    of_hosts: bool


@cache
def _paths() -> _Paths:
    known = shipped("paths.yaml")
    wanted = "|".join(f"(?:{_joined(pattern)})" for pattern in known["wanted"])
    return _Paths(
        system_folder=re.compile(_joined(known["system_folders"])),
        root=re.compile("|".join(f"(?:{pattern})" for pattern in known["roots"])),
        folders_of_hosts=frozenset(known["folders_of_hosts"]),
        wanted=re.compile(wanted),
        beside_the_tree=re.compile(_joined(known["beside_the_tree"])),
        no_text=re.compile(rf".*\.(?:{_joined(known['no_text'])})$", re.IGNORECASE),
        of_programs=re.compile(_joined(known["of_programs"])),
    )


def _joined(pattern: str) -> str:
    """A pattern that was folded over several lines."""
    return pattern.replace(" ", "")


def wants(path: str) -> bool:
    """Whether a member is worth reading: known files of a system tree, and what may be text outside of one."""
    folder, slash, name = path.rpartition("/")
    known, place = _paths(), _place(folder + slash)
    if place.on_host is None:
        if known.beside_the_tree.fullmatch(place.below + name):
            return False
        return not known.no_text.match(name) and not known.of_programs.fullmatch(f"{place.root}{place.below}{name}")
    return known.wanted.fullmatch(_original(place.on_host + name)) is not None and not known.no_text.match(name)


def system_path(path: str) -> str | None:
    """The path on the host that a member is a copy of (`proc/vmstat`), None if it is not in a copied system tree.

    sos keeps the end of what is too long under another name (`sos_strings/logs/var.log.messages.tailed`): that is a
    copy of `var/log/messages` too.
    """
    folder, slash, name = path.rpartition("/")
    on_host = _place(folder + slash).on_host
    return None if on_host is None else _original(on_host + name)


def of_kernel(path: str) -> bool:
    """Whether a member is a copy of what the kernel made up: such files are small, and no archives."""
    on_host = _place(path[: path.rfind("/") + 1]).on_host
    return on_host is not None and on_host.startswith(("proc/", "sys/"))


def is_tail(path: str) -> bool:
    """Whether a member is the end of something, cut anywhere in a line."""
    return path.endswith(".tailed") and "sos_strings/" in path


def output_of(path: str) -> str:
    """The command whose output a member holds, as far as the name of its file tells; empty if it holds none.

    sos and insights-client write `_` for every run of blanks and signs, and `.` for `/`.

    >>> output_of("sosreport-web1-2026-11-20-abcdefg/sos_commands/memory/free_-m")
    'free -m'
    """
    found = _OUTPUT.fullmatch(system_path(path) or "")
    return found[1].replace("_", " ") if found else ""


def root_of(path: str) -> str:
    """The part of a member's path that names the host's part of the bundle, empty if nothing does.

    Members with the same root belong to the same host; `""` says nothing.
    """
    return _place(path[: path.rfind("/") + 1]).root.rstrip("/")


@lru_cache(_FOLDERS)
def _place(folder: str) -> _Place:
    """Where a folder is: known roots, the last of which counts, then what begins a path on a host."""
    names = [name for name in folder.split("/") if name not in {"", "."}]
    root, start, told, of_hosts = 0, None, False, False
    for at, name in enumerate(names):
        word = _word(name)
        if word.is_root:
            root, start, told = at + 1, None, True
        elif of_hosts and not (told and start is not None):
            root, start = at + 1, None
        elif start is None and word.is_system:
            start = at
        of_hosts = word.of_hosts
    on_host = None if start is None else _folder(names[start:])
    if on_host and ".tar/" in on_host:
        on_host = _PACKED.sub(r"\1/", on_host)
    root = root or start or 0
    return _Place(_folder(names[:root]), _folder(names[root:]), on_host)


@lru_cache(_FOLDERS)
def _word(name: str) -> _Word:
    """What the name of a folder says by itself. Those of one host's bundle are those of most others."""
    known = _paths()
    return _Word(
        bool(known.root.fullmatch(name)), bool(known.system_folder.fullmatch(name)), name in known.folders_of_hosts
    )


def _folder(names: list[str]) -> str:
    return "/".join([*names, ""])


def _original(on_host: str) -> str:
    """The path that the end of a long file or output was taken from; another path stays as it is.

    `var.log.kern.log` may be var/log/kern.log or var/log/kern/log: the one that is wanted.
    """
    tailed = _TAILED.fullmatch(on_host) if on_host.startswith("sos_strings/") else None
    if not tailed:
        return on_host
    parts = tailed["name"].split(".")
    tries = [f"sos_commands/{tailed['plugin']}/{tailed['name']}"]
    tries += ["/".join([*parts[:cut], ".".join(parts[cut:])]) for cut in range(len(parts) - 1, 0, -1)]
    return next((path for path in tries if _paths().wanted.fullmatch(path)), on_host)
