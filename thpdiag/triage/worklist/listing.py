"""What a folder holds, as the folder itself tells it: names and kinds, sorted, nothing opened and no link followed."""

from __future__ import annotations

import os
import re
import stat
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Iterator
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


class Names(Collection[Name]):
    """The names of a folder in the order of their bytes: in memory are these bytes, and a number of 8 bytes for each.

    They stay there for as long as the bundles of the folder are worked on.
    """

    def __init__(self, text: bytes, places: Iterable[int], odd: dict[int, str]) -> None:
        self._text = text  # of each name its bytes, NUL, its kind
        self._places = array("Q", places)
        self._odd = odd  # by place: as what those are shown that are not shown as they are

    @classmethod
    def of(cls, found: Iterable[tuple[str, Kind]]) -> Names:
        """From names in any order."""
        entries = sorted(b"%s\0%c" % (os.fsencode(name), kind.value) for name, kind in found)
        made = cls(b"".join(entries), (), {})
        taken = _Taken(made)
        place = 0
        for entry in entries:
            raw = entry[:-2]
            shown = free(printable(raw), taken)
            if shown.encode() != raw:
                made._odd[place] = shown
                taken.others.add(shown)
            made._places.append(place)
            place += len(entry)
        return made

    def only(self, keep: Callable[[Name], bool]) -> Names:
        """Those that are to be kept."""
        return Names(self._text, (place for place in self._places if keep(self._name(place))), self._odd)

    def kind(self, raw: bytes) -> Kind | None:
        """What a name is, given by its bytes; None if it is not among these."""
        at = bisect_left(self._places, raw, key=self._raw)
        there = at < len(self._places) and self._raw(self._places[at]) == raw
        return self._name(self._places[at]).kind if there else None

    def __iter__(self) -> Iterator[Name]:
        return map(self._name, self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, Name) and self.kind(os.fsencode(name.name)) is name.kind

    def _raw(self, place: int) -> bytes:
        return self._text[place : self._text.index(b"\0", place)]

    def _name(self, place: int) -> Name:
        raw = self._raw(place)
        kind = Kind(self._text[place + len(raw) + 1])
        return Name(os.fsdecode(raw), self._odd.get(place) or raw.decode(), kind)


class Texts(Collection[str]):
    """The names of some kinds as a set of strings."""

    def __init__(self, names: Names, kinds: Collection[Kind]) -> None:
        self._names, self._kinds = names, kinds

    def __iter__(self) -> Iterator[str]:
        return (name.name for name in self._names if name.kind in self._kinds)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._names.kind(os.fsencode(name)) in self._kinds


class _Taken(Container[str]):
    """As what names are shown already: most as they are, `others` as something else."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.others: set[str] = set()

    def __contains__(self, shown: object) -> bool:
        return shown in self.others or self._names.kind(str(shown).encode()) is not None


def listed(folder: Path) -> Names:
    """All names but `.` and `..`; raises OSError."""
    with os.scandir(folder) as entries:
        return Names.of((entry.name, _kind(entry)) for entry in entries)


def free(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if that is needed to be none of those taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}.{number}" in taken:
        number += 1
    return f"{name}.{number}"


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.LINK if entry.is_symlink() else Kind.OTHER


def harmless(name: str) -> str:
    """What of a name may be that of a file here: letters, digits, `.`, `_` and `-`, the last 120 of them."""
    return _HARMFUL.sub("_", name)[-_LONGEST:]


def no_file(mode: int) -> str:
    """What stands where a file should be."""
    return _KINDS.get(stat.S_IFMT(mode), "is no regular file")


def cannot(error: OSError) -> str:
    """Why a name cannot be read."""
    return f"cannot be read: {error.strerror or type(error).__name__}"
