"""What a folder holds, as the folder itself tells it: names and kinds, sorted, nothing opened and no link followed."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from thpdiag.bundle.names import printable

_KINDS = {
    stat.S_IFIFO: "is a named pipe (fifo)",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}

_HARMFUL: Final = re.compile(r"[^A-Za-z0-9._-]|^[.-]+")
_LONGEST: Final = 120  # characters


class Kind(Enum):
    """What a name is; `OTHER` are pipes, sockets and devices."""

    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a folder; `shown` prints, and no other name of the folder is shown so."""

    name: str
    shown: str
    kind: Kind

    @property
    def hidden(self) -> bool:
        return self.name.startswith(".")


def listed(folder: Path) -> list[Name]:
    """All names but `.` and `..`, in the order of their bytes; raises OSError."""
    with os.scandir(folder) as entries:
        found = sorted((os.fsencode(entry.name), entry.name, _kind(entry)) for entry in entries)
    names: list[Name] = []
    taken: set[str] = set()
    for raw, name, kind in found:
        shown = free(printable(raw), taken)
        taken.add(shown)
        names.append(Name(name, shown, Kind(kind)))
    return names


def free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if that is needed to be none of those taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}.{number}" in taken:
        number += 1
    return f"{name}.{number}"


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE.value
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER.value
    return Kind.LINK.value if entry.is_symlink() else Kind.OTHER.value


def harmless(name: str) -> str:
    """What of a name may be that of a file here: letters, digits, `.`, `_` and `-`, the last 120 of them."""
    return _HARMFUL.sub("_", name)[-_LONGEST:]


def no_file(mode: int) -> str:
    """What stands where a file should be."""
    return _KINDS.get(stat.S_IFMT(mode), "is no regular file")


def cannot(error: OSError) -> str:
    """Why a name cannot be read."""
    return f"cannot be read: {error.strerror or type(error).__name__}"
