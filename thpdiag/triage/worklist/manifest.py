"""A list of bundles in a file or on standard input: one path or address per line.

Blank lines and lines that begin with `#` are passed over, blanks around a name too. Paths are relative to the folder of
the list (of standard input and pipes: to the current one), and bundles are told by them, below that folder's name; what
lies elsewhere is told by its own name and the number of its line. Patterns are not taken apart here. A name that is not
there costs its own line: the batch goes on. The list is read as it is worked off, so it may be longer than memory.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from thpdiag.bundle.names import printable
from thpdiag.errors import InputError, UsageError
from thpdiag.triage.item import Item
from thpdiag.triage.store.given import told_path
from thpdiag.triage.worklist.addresses import listed
from thpdiag.triage.worklist.labels import is_address, whole
from thpdiag.triage.worklist.listing import cannot
from thpdiag.triage.worklist.local import local
from thpdiag.triage.worklist.unread import UnreadError

LONGEST: Final = 16 * 1024  # bytes of a line; a path has 4 KiB at most, an address some more
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A list that is there. `folder` is what its paths are relative to, `name` what it is called in results."""

    name: str
    folder: Path
    source: Path | BinaryIO

    @classmethod
    def named(cls, name: str, stdin: BinaryIO | None = None) -> Manifest:
        """The file of this name, or standard input for `-`; raises InputError if it cannot be read."""
        if name == "-":
            return cls("stdin", Path.cwd(), stdin or sys.stdin.buffer)
        file = Path(name)
        shown = printable(os.fsencode(file.name))
        try:
            mode = file.stat().st_mode
            if not stat.S_ISFIFO(mode):
                file.open("rb").close()
        except (OSError, ValueError) as error:
            raise _unreadable(shown, error) from error
        return cls(shown, file.absolute().parent if stat.S_ISREG(mode) else Path.cwd(), file)

    def items(self, told: str, besides: Sequence[Path] = ()) -> Iterator[Item]:
        """The bundles of the list, in its order; `told` is the name of its folder in results."""
        root = whole(self.folder)
        try:
            with self.source.open("rb") if isinstance(self.source, Path) else nullcontext(self.source) as file:
                for number, line in _lines(file, self.name):
                    yield from self._named(line, root, told, f"{told}/{self.name}:{number}", besides)
        except OSError as error:
            raise _unreadable(self.name, error) from error

    def _named(self, line: bytes, root: Path, told: str, place: str, besides: Sequence[Path]) -> Iterator[Item]:
        """The bundles of one line; `place` is the name of the line in results."""
        name = os.fsdecode(line)
        if len(line) > LONGEST:
            return iter([Item("", place, refused=f"is a line of more than {LONGEST} bytes")])
        if is_address(name):
            called = told_path(name).rstrip("/")
            if any(mark in name and mark not in called for mark in "?#"):  # what is left out may tell two apart
                called += f" ({place})"
        else:
            called = _told(Path(os.path.normpath(root / name)), root, told, place)
        try:
            return listed(name, called) if is_address(name) else local(root / name, called, besides)
        except (UnreadError, UsageError) as error:
            return iter([Item(name if is_address(name) else str(root / name), called, refused=str(error))])


def _told(path: Path, root: Path, told: str, place: str) -> str:
    """By the path below the folder of the list, if it lies within it and prints; else by the name and the line."""
    if path == root:
        return told
    if path.is_relative_to(root) and (below := str(path.relative_to(root))).isprintable():
        return f"{told}/{below}"
    return f"{place}/{printable(os.fsencode(path.name))}"


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Number and content of each line that says something; of a long one more than `LONGEST` bytes."""
    for number, whole_line in enumerate(iter(lambda: _line(file), b""), start=1):
        if number == 1 and whole_line.startswith(_UTF16_MARKS):
            raise InputError(f"the list {name} is UTF-16; save it as UTF-8")
        line = (whole_line.removeprefix(_UTF8_MARK) if number == 1 else whole_line).strip()
        if line and not line.startswith(b"#"):
            yield number, line


def _line(file: BinaryIO) -> bytes:
    """A line with its end, cut if it is far too long; nothing at the end of the list."""
    line = rest = file.readline(2 * LONGEST)
    while len(rest) == 2 * LONGEST and not rest.endswith(b"\n"):
        rest = file.readline(2 * LONGEST)
    return line


def _unreadable(name: str, error: OSError | ValueError) -> InputError:
    reason = cannot(error) if isinstance(error, OSError) else "is no name of a file"
    return InputError(f"the list {name} {reason}")
