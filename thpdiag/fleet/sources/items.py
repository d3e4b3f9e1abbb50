"""The bundles that the user names (files, folders, patterns, addresses, lists of these), one item each.

Each has a unique label, its name in results: the last part of what the user named, and the path below it.

A list of bundles is a file or standard input with a path or address per line. Blank lines, lines that begin with `#`,
and blanks around a name are ignored. Paths are relative to the folder of the list (for standard input and pipes the
current folder) and labelled relative to it, below its name; the label of a path elsewhere is its name and line number.
Patterns are not expanded in a list. A missing file is an error of its own line only. The list is read while it is
worked on, so it may be larger than memory.

With `--shard 2/8` several independent runs divide a list: the label of a bundle determines its run, without the name of
the current folder. Each of the runs must get the same list.
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

MAX_LINE_BYTES: Final = 16 * 1024  # of a list; a path has at most 4 KiB, an address may be longer
_SHARD: Final = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})", re.ASCII)
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count` parts; numbers begin with 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse `I/N`; raises UsageError for anything else."""
        match = _SHARD.fullmatch(text)
        if not match or int(match[1]) > int(match[2]):
            raise UsageError(f"--shard takes I/N with I from 1 to N, such as 2/8, not {text!r}")
        return cls(int(match[1]), int(match[2]))

    def has(self, label: str) -> bool:
        """Whether the bundle with this label belongs to this shard."""
        digest = sha256(label.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1

    def select(self, items: Iterable[BundleItem], root: str = "", key: str = "") -> Iterator[BundleItem]:
        """Yield the items of this shard. The root at the beginning of a label is replaced by `key` for the test."""
        for item in items:
            label = item.label
            before, separator, after = label.rpartition(f" ({root}/")  # `ADDRESS (ROOT/LIST:LINE)`
            if label == root or label.startswith(f"{root}/"):
                label = key + label[len(root) :]
            elif separator and label.endswith(")"):
                label = f"{before} ({key}/{after}"
            if self.has(label):
                yield item


ALL_ITEMS: Final = Shard(1, 1)


def find_items(
    names: Sequence[str],
    result_folders: Sequence[Path] = (),
    lists: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    shard: Shard = ALL_ITEMS,
) -> Iterator[BundleItem]:
    """Return the bundles in the order of their names, then those of lists (`-` is `stdin`).

    Results in `result_folders`, which may be below a name, are skipped. Raises InputError at once if a name or list
    does not exist. A checksum whose archive is named too (`nightly/*`) is skipped, as in a folder.
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
    sources = [
        _items_of_name(name, label, result_folders, patterns.get(name))
        for name, label in zip(named, labels, strict=False)
    ]
    for manifest, label in zip(manifests, labels[len(named) :], strict=True):
        sources.append(manifest.items(label, result_folders))
    return chain.from_iterable(map(shard.select, sources, labels, _shard_labels(roots)))


def _items_of_name(
    name: str, label: str, result_folders: Sequence[Path], pattern: Pattern | None
) -> Iterator[BundleItem]:
    shown = public_path(name) if is_address(name) else printable(os.fsencode(name))
    if not name:
        raise InputError("an empty name is not a bundle")
    if name == "-" and not os.path.lexists(name):
        raise InputError("- is not a bundle; --from - reads a list of bundles from standard input")
    if pattern:
        items = pattern.items(label, result_folders)
        if (first := next(items, None)) is None:
            raise InputError(f"{shown}: nothing matches this pattern; check the path")
        return chain([first], items)
    try:
        return items_of_address(name, label) if is_address(name) else items_of_path(Path(name), label, result_folders)
    except UnreadError as error:
        hint = "" if ";" in str(error) else f"; check the {'address' if is_address(name) else 'path'}"
        raise InputError(f"{shown} {error}{hint}") from error


def _without_companions(names: list[str]) -> list[str]:
    """Return the names without companions of other names in the list (see `companion_test`)."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        folder, file = os.path.split(name)
        folders[folder].add(file)
    tests = {folder: companion_test(files) for folder, files in folders.items()}
    parts = map(os.path.split, names)
    return [name for name, (folder, file) in zip(names, parts, strict=True) if not tests[folder](file)]


def distinct_labels(names: Sequence[str]) -> list[str]:
    """Return a label for each name: its last part, if needed with that of its folder, as a last resort with a number.

    No label is a path prefix of another, so labels of bundles below different names are distinct. The label of an
    address is its public part. All spellings of a path have the same label.
    """
    paths = [name if is_address(name) else str(_absolute_path(name)) for name in names]
    last_parts = {path: _last_part(path) for path in paths}
    counts = Counter(last_parts.values())
    unique = {label for label in last_parts.values() if counts[label] == 1}
    labels = dict(last_parts)
    for path, label in last_parts.items():
        if label not in unique and not is_address(path):
            labels[path] = f"{printable(os.fsencode(Path(path).parent.name))}/{label}"
    counts = Counter(labels.values())
    final = {label for label in counts if counts[label] == 1 and (label in unique or _first_part(label) not in unique)}
    taken = final | {_first_part(label) for label in final}
    for path, label in labels.items():
        if label not in final:
            labels[path] = unused_name(last_parts[path], taken)
            taken.add(labels[path])
    return [labels[path] for path in paths]


def _last_part(name: str) -> str:
    if is_address(name):
        return public_path(name).rstrip("/")
    return printable(os.fsencode(Path(name).name)) or "root"


def _first_part(label: str) -> str:
    return label.partition("/")[0]


def _absolute_path(name: str | Path) -> Path:
    """Return the absolute path without `.` and `..`; links are not resolved."""
    return Path(os.path.normpath(Path(name).absolute()))


def _shard_labels(names: Sequence[str]) -> list[str]:
    """Return labels that do not depend on the current folder: it and its parents are replaced by numbers.

    CI jobs run in working folders with arbitrary names.
    """
    current, paths = _absolute_path(""), []
    for name in names:
        path = _absolute_path(name)
        if is_address(name):
            paths.append(name)
        elif path.is_relative_to(current):
            paths.append(str(Path("/0", path.relative_to(current))))
        else:
            paths.append(f"/{len(current.parts) - len(path.parts)}" if current.is_relative_to(path) else str(path))
    return distinct_labels(paths)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A list of bundles. Its paths are relative to `folder`; `name` is its name in results."""

    name: str
    folder: Path
    source: Path | BinaryIO

    @classmethod
    def open(cls, name: str, stdin: BinaryIO | None = None) -> Manifest:
        """Open a list by name, or standard input for `-`. Raises InputError if it cannot be read."""
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

    def items(self, label: str, result_folders: Sequence[Path] = ()) -> Iterator[BundleItem]:
        """Yield the bundles in the order of the list; `label` is the label of its folder."""
        root = _absolute_path(self.folder)
        try:
            with self.source.open("rb") if isinstance(self.source, Path) else nullcontext(self.source) as file:
                for number, line in _read_lines(file, self.name):
                    yield from self._items_of_line(line, root, label, f"{label}/{self.name}:{number}", result_folders)
        except OSError as error:
            raise InputError(f"the list {self.name} {describe_error(error)}") from error

    def _items_of_line(
        self, line: bytes, root: Path, label: str, place: str, result_folders: Sequence[Path]
    ) -> Iterator[BundleItem]:
        """Return the bundles of one line; `place` is the name of the line in results."""
        name = os.fsdecode(line)
        if len(line) > MAX_LINE_BYTES:
            return iter([BundleItem("", place, refused=f"is a line of more than {MAX_LINE_BYTES} bytes")])
        if is_address(name):
            item_label = public_path(name).rstrip("/")
            if any(mark in name and mark not in item_label for mark in "?#"):  # two addresses may differ in the query
                item_label += f" ({place})"
        else:
            path = Path(os.path.normpath(root / name))
            below = str(path.relative_to(root)) if path.is_relative_to(root) else "\n"
            outside = f"{place}/{printable(os.fsencode(path.name))}"
            item_label = label if path == root else f"{label}/{below}" if below.isprintable() else outside
        try:
            if is_address(name):
                return items_of_address(name, item_label)
            return items_of_path(root / name, item_label, result_folders)
        except (UnreadError, UsageError) as error:
            return iter([BundleItem(name if is_address(name) else str(root / name), item_label, refused=str(error))])


def _read_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line that is not empty or a comment; long lines are cut at twice the limit."""
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
