"""What an archive or directory says lies in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class EntryKind(Enum):
    FILE = "file"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"
    SPECIAL = "device or FIFO"


@dataclass(frozen=True, slots=True)
class Entry:
    """`path` is canonical and printable; `leaves` says that the name tried to leave the bundle.

    `wanted` is the answer to whether the file is interesting; one that is not is given when it may hold members.
    """

    path: str
    kind: EntryKind
    size: int = 0
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    target: str = ""
    leaves: bool = False
    wanted: bool = False
