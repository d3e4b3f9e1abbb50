"""Paths of members: which are read, and which path on the host they copy (paths.yaml); what collectors copy since which
version (collectors.yaml); and default host names of installers.
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
_SPECIAL_CHARACTERS = re.compile(r"[^\w\-./]+")
SOS, SUPPORTCONFIG = "sos", "supportconfig"  # names of collectors
_SUPPORTCONFIG_ROOT = re.compile(r"(?:.*/)?(?:scc|nts)_[^/]+/")
EC2RL_OUTPUT = "mod_out"  # its subfolder `run` has the output of EC2Rescue's modules and is not a copy of /run
_MAX_CACHED_FOLDERS = 4096


class _Paths(NamedTuple):
    """The compiled patterns of paths.yaml."""

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
    """A folder: the root of its host, its path below that, and its path on the host (None outside of a system tree)."""

    root: str
    below: str
    on_host: str | None


@cache
def _paths() -> _Paths:
    data = load_shipped("paths.yaml")
    joined = {  # patterns over several lines
        key: pattern.replace(" ", "") for key, pattern in data.items() if isinstance(pattern, str)
    }
    wanted = [pattern.replace(" ", "") for pattern in data["wanted"]]
    return _Paths(
        system_folder=re.compile(joined["system_folders"]),
        root=re.compile("|".join(f"(?:{pattern})" for pattern in data["roots"])),
        folders_of_hosts=frozenset(data["folders_of_hosts"]),
        wanted=re.compile("|".join(f"(?:{pattern})" for pattern in wanted)),
        beside_the_tree=re.compile(joined["beside_the_tree"]),
        not_of_supportconfig=re.compile(joined["not_of_supportconfig"]),
        no_text=re.compile(rf".*\.(?:{joined['no_text']})$", re.IGNORECASE),
        of_programs=re.compile(joined["of_programs"]),
        of_packs=_compile_pack_files(data.get("files", ())),
    )


def _compile_pack_files(patterns: Sequence[str]) -> Any | None:
    """Compile the patterns of further files that rule packs request, by RE2, which does not backtrack."""
    if not patterns:
        return None
    import re2

    return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def is_wanted(path: str) -> bool:
    """Whether a member is read: known files of a system tree, and possible texts outside of one."""
    folder, slash, name = path.rpartition("/")
    patterns, place = _paths(), _place(folder + slash)
    if place.on_host is None:
        skipped = patterns.not_of_supportconfig if _is_supportconfig(place) else patterns.beside_the_tree
        if skipped.fullmatch(place.below + name) or patterns.no_text.match(name):
            return False
        return not patterns.of_programs.fullmatch(f"{place.root}{place.below}{name}")
    path = _original_path(place.on_host + name)
    if patterns.of_packs is not None and patterns.of_packs.fullmatch(path):
        return True
    return patterns.wanted.fullmatch(path) is not None and not patterns.no_text.match(name)


def system_path(path: str) -> str | None:
    """Return the path on the host that a member copies (`proc/vmstat`), None outside of a copied system tree.

    sos stores the end of long files under another name (`sos_strings/logs/var.log.messages.tailed`), which is a copy of
    `var/log/messages` too.
    """
    folder, slash, name = path.rpartition("/")
    on_host = _place(folder + slash).on_host
    return None if on_host is None else _original_path(on_host + name)


def _is_supportconfig(place: _Place) -> bool:
    return _SUPPORTCONFIG_ROOT.fullmatch(place.root) is not None


def collected_file(path: str) -> str | None:
    """Return the path on the host that a member copies, or the name of a supportconfig file (`memory.txt`), or None."""
    folder, slash, name = path.rpartition("/")
    place = _place(folder + slash)
    return place.below + name if _is_supportconfig(place) else system_path(path)


def is_kernel_file(path: str) -> bool:
    """Whether a member is a copy of a file of /proc or /sys; such files are small and not archives."""
    on_host = _place(path[: path.rfind("/") + 1]).on_host
    return on_host is not None and on_host.startswith(("proc/", "sys/"))


def is_tail(path: str) -> bool:
    """Whether a member is the end of a file or output, which may start within a line."""
    return path.endswith(".tailed") and "sos_strings/" in path


def output_of(path: str) -> str:
    """Return the command whose output a member has, by its file name; empty if it is not an output.

    sos and insights-client write `_` for a sequence of blanks and special characters, and `.` for `/`.

    >>> output_of("sosreport-web1-2026-11-20-abcdefg/sos_commands/memory/free_-m")
    'free -m'
    """
    match = _OUTPUT.fullmatch(system_path(path) or "")
    return match[1].replace("_", " ") if match else ""


def output_name(command: str) -> str:
    """Return the name of the file in which sos stores a command's output.

    >>> output_name("/bin/ps axo flags,state,%mem")
    'ps_axo_flags_state_mem'
    """
    return _SPECIAL_CHARACTERS.sub("_", _PROGRAM_FOLDER.sub("", command)).replace("/", ".").strip(" ._-")


def root_of(path: str) -> str:
    """Return the part of a member's path that is the root of its host's files, empty if unknown.

    Members with the same non-empty root belong to the same host.
    """
    return _place(path[: path.rfind("/") + 1]).root.rstrip("/")


def capture_ranks(members: Iterable[str]) -> Mapping[str, int]:
    """Return the number of each root among these members, in order; empty if there are fewer than two roots."""
    roots = list(dict.fromkeys(root_of(member) for member in members))
    return {root: number for number, root in enumerate(roots)} if sum(map(bool, roots)) > 1 else {}


@lru_cache(_MAX_CACHED_FOLDERS)
def _place(folder: str) -> _Place:
    """Find the last known root in the path of a folder, and after it the beginning of a path on the host."""
    names = [name for name in folder.split("/") if name not in {"", "."}]
    root, start, has_known_root, follows_hosts_folder = 0, None, False, False
    for i, name in enumerate(names):
        is_root, is_system = _folder_name(name)
        if is_root:
            root, start, has_known_root = i + 1, None, True
        elif follows_hosts_folder and not (has_known_root and start is not None):
            root, start = i + 1, None
        elif start is None and is_system and names[i - 1 : i] != [EC2RL_OUTPUT]:
            start = i
        follows_hosts_folder = name in _paths().folders_of_hosts
    on_host = None if start is None else "/".join([*names[start:], ""])
    if on_host and ".tar/" in on_host:
        on_host = _PACKED.sub(r"\1/", on_host)
    root = root or start or 0
    return _Place("/".join([*names[:root], ""]), "/".join([*names[root:], ""]), on_host)


@lru_cache(_MAX_CACHED_FOLDERS)
def _folder_name(name: str) -> tuple[bool, bool]:
    """Return whether a folder name is a root of a host's files, and whether it is a system folder."""
    return _paths().root.fullmatch(name) is not None, _paths().system_folder.fullmatch(name) is not None


def _original_path(on_host: str) -> str:
    """Return the path of the file or output whose end a member has; other paths are unchanged.

    `var.log.kern.log` may be var/log/kern.log or var/log/kern/log; the wanted one is returned.
    """
    tailed = _TAILED.fullmatch(on_host) if on_host.startswith("sos_strings/") else None
    if not tailed:
        return on_host
    parts = tailed["name"].split(".")
    candidates = [f"sos_commands/{tailed['plugin']}/{tailed['name']}"]
    candidates += ["/".join([*parts[:cut], ".".join(parts[cut:])]) for cut in range(len(parts) - 1, 0, -1)]
    return next((path for path in candidates if _paths().wanted.fullmatch(path)), on_host)


class CollectorSource(NamedTuple):
    """A file or command that a collector copies."""

    names: re.Pattern[str]  # of the vocabulary
    plugins: tuple[str, ...]  # parts of the collector that copy it
    what: str  # name of the file or command for people
    paths: re.Pattern[str]  # on the host, or files of supportconfig; one of them exists if it was copied
    command: re.Pattern[str] | None  # that the collector runs; None for a file
    since: str  # first version of the collector that copies it, or empty


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
    """Return the source of a vocabulary name in a collector, None if it does not copy it."""
    return next((row for row in _sources(tool) if row.names.fullmatch(name)), None)


def of_interest(plugin: str, command: str = "", tool: str = SOS) -> bool:
    """Whether a plugin of a collector (empty: any), or one of its commands, copies a name of the vocabulary."""
    rows = [row for row in _sources(tool) if not plugin or plugin in row.plugins]
    return any(not command or (row.command is not None and row.command.fullmatch(command)) for row in rows)


def is_older(version: str, than: str) -> bool:
    """Whether a version of a collector is older than another, by its numbers; False without numbers."""
    left, right = (tuple(int(part[:6]) for part in re.findall(r"\d+", text)[:3]) for text in (version, than))
    return bool(left) and left[: len(right)] < right


DEFAULT_HOSTNAMES: Final = frozenset({
    "", "localhost", "localhost4", "localhost6", "(none)", "none", "linux", "debian", "ubuntu", "centos", "rhel",
    "fedora", "rocky", "alma", "vm", "host", "template", "default", "unknown",
})  # fmt: skip


def is_default_hostname(name: str) -> bool:
    """Whether a host name, with or without domain, is a default that does not identify the machine."""
    return name.partition(".")[0].lower() in DEFAULT_HOSTNAMES
