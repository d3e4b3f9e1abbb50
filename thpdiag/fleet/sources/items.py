"""The work list: what the user names (files, folders, patterns, addresses, lists of these) as one item per bundle.

Each has a label, its name in results: the last part of what the user named, and the path below it; never two alike.

A list of bundles is a file or standard input with a path or address per line. Blank lines and lines that begin with `#`
are passed over, blanks around a name too. Paths are relative to the folder of the list (of standard input and pipes: to
the current one), and labelled by them, below that folder's name; what lies elsewhere by its own name and the number of
its line. Patterns are not taken apart in a list. A name that is not there costs its own line: the batch goes on. The
list is read as it is worked off, so it may be longer than memory.

Several runs share a work list without knowing of each other by `--shard 2/8`: which run does a bundle follows from its
label alone, without that of the folder in which the run happens to be. Each of the runs must be given the same list.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from thpdiag.bundle.tree import printable
from thpdiag.errors import InputError, UsageError
from thpdiag.fleet.sources.item import BundleItem, UnreadError, companion_test, describe_error, unused_name
from thpdiag.fleet.sources.local import Pattern, is_pattern, items_of_path
from thpdiag.fleet.sources.remote import is_address, items_of_address
from thpdiag.store.results import public_path

MAX_LINE_BYTES: Final = 16 * 1024  # of a list; a path has 4 KiB at most, an address some more
_SHARD: Final = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})", re.ASCII)
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Shard:
    """`number` of `of`, from 1 on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `I/N`; raises UsageError for anything else."""
        found = _SHARD.fullmatch(text)
        if not found or int(found[1]) > int(found[2]):
            raise UsageError(f"--shard takes I/N with I from 1 to N, such as 2/8, not {text!r}")
        return cls(int(found[1]), int(found[2]))

    def has(self, label: str) -> bool:
        """Whether the bundle of this label is done by this run."""
        digest = sha256(label.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1

    def select(self, items: Iterable[BundleItem], root: str = "", key: str = "") -> Iterator[BundleItem]:
        """Those of the items that this run does, in their order; `root`, with which labels begin, is read as `key`."""
        for item in items:
            label = item.label
            before, line, behind = label.rpartition(f" ({root}/")  # of the line of a list, in brackets
            if label == root or label.startswith(f"{root}/"):
                label = key + label[len(root) :]
            elif line and label.endswith(")"):
                label = f"{before} ({key}/{behind}"
            if self.has(label):
                yield item


ALL_ITEMS: Final = Shard(1, 1)


def find_items(
    names: Sequence[str],
    besides: Sequence[Path] = (),
    lists: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    shard: Shard = ALL_ITEMS,
) -> Iterator[BundleItem]:
    """The bundles in the order in which they are named, then those of lists (`-` is `stdin`).

    `besides` are folders that results go to: they may lie in what is named. Raises InputError at once if a name or a
    list is not there. A checksum whose archive is named too is passed over (`nightly/*`), as in a folder.
    """
    named = _without_companions(list(dict.fromkeys(names)))
    manifests = [Manifest.open(name, stdin) for name in dict.fromkeys(lists)]
    patterns = {
        name: Pattern.parse(name)
        for name in named
        if is_pattern(name) and not is_address(name) and not os.path.lexists(name)
    }
    roots = [str(patterns[name].base) if name in patterns else name for name in named]
    roots += [str(manifest.folder) for manifest in manifests]
    labels = distinct_labels(roots)
    found = [
        _items_of_name(name, label, besides, patterns.get(name)) for name, label in zip(named, labels, strict=False)
    ]
    listed = [one.items(label, besides) for one, label in zip(manifests, labels[len(named) :], strict=True)]
    return chain.from_iterable(map(shard.select, found + listed, labels, _movable_labels(roots)))


def _items_of_name(name: str, label: str, besides: Sequence[Path], pattern: Pattern | None) -> Iterator[BundleItem]:
    shown = public_path(name) if is_address(name) else printable(os.fsencode(name))
    if not name:
        raise InputError("an empty name is not a bundle")
    if name == "-" and not os.path.lexists(name):
        raise InputError("- is not a bundle; --from - reads a list of bundles from standard input")
    if pattern:
        items = pattern.items(label, besides)
        if (first := next(items, None)) is None:
            raise InputError(f"{shown}: nothing matches this pattern; check the path")
        return chain([first], items)
    try:
        return items_of_address(name, label) if is_address(name) else items_of_path(Path(name), label, besides)
    except UnreadError as error:
        where = "address" if is_address(name) else "path"
        way_out = "" if ";" in str(error) else f"; check the {where}"
        raise InputError(f"{shown} {error}{way_out}") from error


def _without_companions(names: list[str]) -> list[str]:
    """All but those that belong to another that is named too (`companions`)."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        folder, file = os.path.split(name)
        folders[folder].add(file)
    belongs = {folder: companion_test(files) for folder, files in folders.items()}
    parts = map(os.path.split, names)
    return [name for name, (folder, file) in zip(names, parts, strict=True) if not belongs[folder](file)]


def distinct_labels(names: Sequence[str]) -> list[str]:
    """The last part of each name, with its folder's before it where two are alike, numbered as a last resort.

    None is the beginning of another's path, so what is found below one is never called as what is found below another.
    Of an address what may be told of it. The same path has the same label, however often and however it is written.
    """
    paths = [name if is_address(name) else str(_absolute_path(name)) for name in names]
    last = {path: _last_part(path) for path in paths}
    times = Counter(last.values())
    alone = {label for label in last.values() if times[label] == 1}
    labels = dict(last)
    for path, label in last.items():
        if label not in alone and not is_address(path):
            labels[path] = f"{printable(os.fsencode(Path(path).parent.name))}/{label}"
    times = Counter(labels.values())
    good = {label for label in times if times[label] == 1 and (label in alone or _first_part(label) not in alone)}
    taken = good | {_first_part(label) for label in good}
    for path, label in labels.items():
        if label not in good:
            labels[path] = unused_name(last[path], taken)
            taken.add(labels[path])
    return [labels[path] for path in paths]


def _last_part(name: str) -> str:
    if is_address(name):
        return public_path(name).rstrip("/")
    return printable(os.fsencode(Path(name).name)) or "root"


def _first_part(label: str) -> str:
    return label.partition("/")[0]


def _absolute_path(name: str | Path) -> Path:
    """The path from the root, without `.` and `..`; links stay as they are called."""
    return Path(os.path.normpath(Path(name).absolute()))


def _movable_labels(names: Sequence[str]) -> list[str]:
    """Labels that are the same wherever the same names are given: the current folder, and those above it, have numbers.

    A job of CI does its work in a folder called as it pleases.
    """
    here, moved = _absolute_path(""), []
    for name in names:
        path = _absolute_path(name)
        if is_address(name):
            moved.append(name)
        elif path.is_relative_to(here):
            moved.append(str(Path("/0", path.relative_to(here))))
        else:
            moved.append(f"/{len(here.parts) - len(path.parts)}" if here.is_relative_to(path) else str(path))
    return distinct_labels(moved)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A list that is there. `folder` is what its paths are relative to, `name` what it is called in results."""

    name: str
    folder: Path
    source: Path | BinaryIO

    @classmethod
    def open(cls, name: str, stdin: BinaryIO | None = None) -> Manifest:
        """The file of this name, or standard input for `-`; raises InputError if it cannot be read."""
        if name == "-":
            return cls("stdin", Path.cwd(), stdin or sys.stdin.buffer)
        file = Path(name)
        shown = printable(os.fsencode(file.name))
        try:
            mode = file.stat().st_mode
            if not stat.S_ISFIFO(mode):
                file.open("rb").close()
        except OSError as error:
            raise InputError(f"the list {shown} {describe_error(error)}") from error
        except ValueError as error:
            raise InputError(f"the list {shown} is not a file name") from error
        return cls(shown, file.absolute().parent if stat.S_ISREG(mode) else Path.cwd(), file)

    def items(self, label: str, besides: Sequence[Path] = ()) -> Iterator[BundleItem]:
        """The bundles of the list, in its order; `label` is that of its folder."""
        root = _absolute_path(self.folder)
        try:
            with self.source.open("rb") if isinstance(self.source, Path) else nullcontext(self.source) as file:
                for number, line in _read_lines(file, self.name):
                    yield from self._items_of_line(line, root, label, f"{label}/{self.name}:{number}", besides)
        except OSError as error:
            raise InputError(f"the list {self.name} {describe_error(error)}") from error

    def _items_of_line(
        self, line: bytes, root: Path, label: str, place: str, besides: Sequence[Path]
    ) -> Iterator[BundleItem]:
        """The bundles of one line; `place` is the name of the line in results."""
        name = os.fsdecode(line)
        if len(line) > MAX_LINE_BYTES:
            return iter([BundleItem("", place, refused=f"is a line of more than {MAX_LINE_BYTES} bytes")])
        if is_address(name):
            called = public_path(name).rstrip("/")
            if any(mark in name and mark not in called for mark in "?#"):  # what is left out may tell two apart
                called += f" ({place})"
        else:
            path = Path(os.path.normpath(root / name))
            below = str(path.relative_to(root)) if path.is_relative_to(root) else "\n"
            outside = f"{place}/{printable(os.fsencode(path.name))}"
            called = label if path == root else f"{label}/{below}" if below.isprintable() else outside
        try:
            return items_of_address(name, called) if is_address(name) else items_of_path(root / name, called, besides)
        except (UnreadError, UsageError) as error:
            return iter([BundleItem(name if is_address(name) else str(root / name), called, refused=str(error))])


def _read_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Number and content of each line that says something; of a long one more than `MAX_LINE_BYTES` bytes."""
    number = 0
    while line := file.readline(2 * MAX_LINE_BYTES):
        number += 1
        rest = line
        while len(rest) == 2 * MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(2 * MAX_LINE_BYTES)
        if number == 1 and line.startswith(_UTF16_MARKS):
            raise InputError(f"the list {name} is UTF-16; save it as UTF-8")
        line = (line.removeprefix(_UTF8_MARK) if number == 1 else line).strip()
        if line and not line.startswith(b"#"):
            yield number, line
