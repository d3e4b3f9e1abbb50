"""Paths of members: which are worth reading, which path on the host they are a copy of (paths.yaml), what sos copies
since which version (collectors.yaml), and host names that installers give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from thpdiag.knowledge.yaml_nodes import load_shipped

_TAILED = re.compile(r"sos_strings/(?P<plugin>[^/]+)/(?P<name>[^/]+)\.tailed")
_OUTPUT = re.compile(r"(?:sos_commands/[^/]+|insights_commands)/([^/]+)")
_PACKED = re.compile(r"(?<![^/])([^/]+)\.tar/\1/")  # sos --pack-dir: proc/fs/ becomes proc/fs.tar
_PROGRAM_FOLDER = re.compile(r"^/(?:usr/|)s?bin/")
_SIGNS = re.compile(r"[^\w\-./]+")
SOS, SUPPORTCONFIG = "sos", "supportconfig"  # collectors; their own words for themselves
_SUPPORTCONFIG_ROOT = re.compile(r"(?:.*/)?(?:scc|nts)_[^/]+/")
EC2RL_OUTPUT = "mod_out"  # the folder whose `run` holds what modules of EC2Rescue printed, and is no /run
_FOLDERS = 4096  # whose place is remembered; members of one folder follow each other


class _Paths(NamedTuple):
    """paths.yaml, compiled."""

    system_folder: re.Pattern[str]
    root: re.Pattern[str]
    folders_of_hosts: frozenset[str]
    wanted: re.Pattern[str]
    beside_the_tree: re.Pattern[str]
    not_of_supportconfig: re.Pattern[str]
    no_text: re.Pattern[str]
    of_programs: re.Pattern[str]
    of_packs: Any | None


class _Place(NamedTuple):
    """Where a folder is: the root of its host, its path below that, and on the host, None outside of a system tree."""

    root: str
    below: str
    on_host: str | None


@cache
def _paths() -> _Paths:
    known = load_shipped("paths.yaml")
    folded = {  # over several lines
        key: pattern.replace(" ", "") for key, pattern in known.items() if isinstance(pattern, str)
    }
    wanted = [pattern.replace(" ", "") for pattern in known["wanted"]]
    return _Paths(
        system_folder=re.compile(folded["system_folders"]),
        root=re.compile("|".join(f"(?:{pattern})" for pattern in known["roots"])),
        folders_of_hosts=frozenset(known["folders_of_hosts"]),
        wanted=re.compile("|".join(f"(?:{pattern})" for pattern in wanted)),
        beside_the_tree=re.compile(folded["beside_the_tree"]),
        not_of_supportconfig=re.compile(folded["not_of_supportconfig"]),
        no_text=re.compile(rf".*\.(?:{folded['no_text']})$", re.IGNORECASE),
        of_programs=re.compile(folded["of_programs"]),
        of_packs=_files_of_packs(known.get("files", ())),
    )


def _files_of_packs(patterns: Sequence[str]) -> Any | None:
    """What rule packs want to be read as well, by paths on the host; their patterns never backtrack."""
    if not patterns:
        return None
    import re2

    return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def is_wanted(path: str) -> bool:
    """Whether a member is worth reading: known files of a system tree, and what may be text outside of one."""
    folder, slash, name = path.rpartition("/")
    known, place = _paths(), _place(folder + slash)
    if place.on_host is None:
        skipped = known.not_of_supportconfig if _of_supportconfig(place) else known.beside_the_tree
        if skipped.fullmatch(place.below + name):
            return False
        return not known.no_text.match(name) and not known.of_programs.fullmatch(f"{place.root}{place.below}{name}")
    path = _original(place.on_host + name)
    if known.of_packs is not None and known.of_packs.fullmatch(path):
        return True
    return known.wanted.fullmatch(path) is not None and not known.no_text.match(name)


def system_path(path: str) -> str | None:
    """The path on the host that a member is a copy of (`proc/vmstat`), None if it is not in a copied system tree.

    sos keeps the end of what is too long under another name (`sos_strings/logs/var.log.messages.tailed`): that is a
    copy of `var/log/messages` too.
    """
    folder, slash, name = path.rpartition("/")
    on_host = _place(folder + slash).on_host
    return None if on_host is None else _original(on_host + name)


def _of_supportconfig(place: _Place) -> bool:
    return _SUPPORTCONFIG_ROOT.fullmatch(place.root) is not None


def collected_file(path: str) -> str | None:
    """What a member is to its collector: a path on the host, or a file of supportconfig (`memory.txt`); else None."""
    folder, slash, name = path.rpartition("/")
    place = _place(folder + slash)
    return place.below + name if _of_supportconfig(place) else system_path(path)


def is_kernel_file(path: str) -> bool:
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


def output_name(command: str) -> str:
    """The file that sos keeps a command's output in.

    >>> output_name("/bin/ps axo flags,state,%mem")
    'ps_axo_flags_state_mem'
    """
    return _SIGNS.sub("_", _PROGRAM_FOLDER.sub("", command)).replace("/", ".").strip(" ._-")


def root_of(path: str) -> str:
    """The part of a member's path that names the host's part of the bundle, empty if nothing does.

    Members with the same root belong to the same host; `""` says nothing.
    """
    return _place(path[: path.rfind("/") + 1]).root.rstrip("/")


def capture_ranks(members: Iterable[str]) -> Mapping[str, int]:
    """The number of each root among these members, in their order; none, if fewer than two have one."""
    roots = list(dict.fromkeys(root_of(member) for member in members))
    return {root: number for number, root in enumerate(roots)} if sum(map(bool, roots)) > 1 else {}


@lru_cache(_FOLDERS)
def _place(folder: str) -> _Place:
    """Where a folder is: known roots, the last of which counts, then what begins a path on a host."""
    names = [name for name in folder.split("/") if name not in {"", "."}]
    root, start, told, of_hosts = 0, None, False, False
    for at, name in enumerate(names):
        is_root, is_system = _folder_name(name)
        if is_root:
            root, start, told = at + 1, None, True
        elif of_hosts and not (told and start is not None):
            root, start = at + 1, None
        elif start is None and is_system and names[at - 1 : at] != [EC2RL_OUTPUT]:
            start = at
        of_hosts = name in _paths().folders_of_hosts
    on_host = None if start is None else "/".join([*names[start:], ""])
    if on_host and ".tar/" in on_host:
        on_host = _PACKED.sub(r"\1/", on_host)
    root = root or start or 0
    return _Place("/".join([*names[:root], ""]), "/".join([*names[root:], ""]), on_host)


@lru_cache(_FOLDERS)
def _folder_name(name: str) -> tuple[bool, bool]:
    """Whether a folder of that name is the root of a host's files, or one of the system. Many bundles share names."""
    return _paths().root.fullmatch(name) is not None, _paths().system_folder.fullmatch(name) is not None


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


class CollectorSource(NamedTuple):
    """Something that a collector copies.

    `what` names the file or command for people; `paths` are its paths on the host (or files of supportconfig), one of
    which is there if it was copied; `command` matches what the collector runs for it, None for a file; `since` is the
    first version that has it, or empty; `plugins` are the parts of the collector that copy it.
    """

    names: re.Pattern[str]
    plugins: tuple[str, ...]
    what: str
    paths: re.Pattern[str]
    command: re.Pattern[str] | None
    since: str


@cache
def _sources(tool: str) -> tuple[CollectorSource, ...]:
    return tuple(
        CollectorSource(
            names=re.compile(row["names"]),
            plugins=tuple(row["plugins"]),
            what=row["what"],
            paths=re.compile(row["paths"]),
            command=re.compile(row["command"]) if "command" in row else None,
            since=row.get("since", ""),
        )
        for row in load_shipped("collectors.yaml")[tool]
    )


def collector_source(name: str, tool: str = SOS) -> CollectorSource | None:
    """How a collector gets a name of the vocabulary, None if it does not."""
    return next((row for row in _sources(tool) if row.names.fullmatch(name)), None)


def of_interest(plugin: str, command: str = "", tool: str = SOS) -> bool:
    """Whether a part of a collector, or one of its commands, copies anything that a name of the vocabulary stands for.

    An empty part is any.
    """
    rows = [row for row in _sources(tool) if not plugin or plugin in row.plugins]
    return any(not command or (row.command is not None and row.command.fullmatch(command)) for row in rows)


def is_older(version: str, than: str) -> bool:
    """Whether a version of a collector is older than another, by its numbers; what has no number is older than none."""
    one, other = (tuple(int(part[:6]) for part in re.findall(r"\d+", text)[:3]) for text in (version, than))
    return bool(one) and one[: len(other)] < other


DEFAULT_HOSTNAMES: Final = frozenset({
    "", "localhost", "localhost4", "localhost6", "(none)", "none", "linux", "debian", "ubuntu", "centos", "rhel",
    "fedora", "rocky", "alma", "vm", "host", "template", "default", "unknown",
})  # fmt: skip


def is_default_hostname(name: str) -> bool:
    """Whether a name says nothing of which machine it is; with or without a domain."""
    return name.partition(".")[0].lower() in DEFAULT_HOSTNAMES
