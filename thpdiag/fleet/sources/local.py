"""The bundles of a local path: a file, a folder, or a glob pattern. No file is parsed: names decide.

- A folder **is one bundle** if a mark in it shows that (`proc`, `sys`, `etc`, `var`, `sos_commands`, `version.txt`, the
  `capture.log` of the capture script ...), or if it has plain files and neither an archive nor a folder. `etc`, `var`
  and `version.txt` are weak: two of them are a mark, but a single one is ignored if there are two or more archives. So
  are the `sos_logs` and `sos_reports` that sos collect leaves next to the archives of its hosts: these are skipped.
- Any other folder **contains bundles**: each archive, each folder by the same rules, and each other file, except README
  and companions (`companion_test`) such as checksums and signatures of an archive and symbols of a recording.
- Names that begin with a dot are skipped, as in a shell, and so are empty folders.
- Results of triage are skipped, also those of this run. In a folder with results the archives, recordings and folders
  are bundles as elsewhere, and the folder is one bundle if it has a mark; its other files count as output of triage. A
  `results.sqlite` of another program is an ordinary file.
- A link to a file is read if the file is within the named path. A link to a folder there is skipped if the folder is
  found under its own name. Otherwise (the folder is hidden or matches no pattern) it is read once like any folder,
  unless it contains the link. All other links, pipes, sockets and devices are refused with a reason.

In a pattern (`nightly/**/*.tar.xz`) `*`, `?` and `[...]` match within one name, `**` matches any number of folders,
including none. A leading dot must be matched explicitly. The content of a matching folder is not matched again, so no
bundle is found twice. Results of triage match no pattern. A matching link to a folder is followed as in a folder, but
links are not followed to match names below them (`latest/*`). If only companions of files that do not match would match
(`*.meta`), they are taken.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from thpdiag.bundle.limits import StreamError
from thpdiag.bundle.tree import open_regular, printable
from thpdiag.fleet.sources.item import (
    MAX_FOLDER_DEPTH,
    TOO_DEEP,
    BundleItem,
    UnreadError,
    companion_test,
    describe_error,
    is_archive,
    is_readme,
    is_recording,
    unused_name,
)
from thpdiag.store.schema import APPLICATION_ID, DATABASE_NAME

PAGES_FOLDER: Final = "hosts"  # in the output folder of triage
FOLDER_MARKS: Final = frozenset(
    ("proc", "sys", "etc", "var", "sos_commands", "sos_logs", "sos_reports", "sos_strings", "insights_commands")
)
COLLECTOR_FOLDERS: Final = frozenset(("sos_logs", "sos_reports"))
_FILE_MARKS: Final = frozenset(("version.txt", "capture.log", "insights_archive.txt", "basic-environment.txt"))
_WEAK_MARKS: Final = frozenset(("etc", "var", "version.txt"))  # also a build number of CI, or any folder of a user
_MIN_ARCHIVES: Final = 2  # the folder of one host may have a single archive
_SPECIAL_FILES: Final = {
    stat.S_IFIFO: "is a named pipe (fifo)",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}
# The header of a SQLite file, 100 bytes: https://www.sqlite.org/fileformat.html
_HEADER_BYTES: Final = 100
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SCHEMA_COOKIE, _APPLICATION_FIELD = slice(40, 44), slice(68, 72)  # the cookie of an empty database is 0


Kind = Enum("Kind", "FILE FOLDER LINK OTHER")  # OTHER: pipes, sockets and devices
_FILE_KINDS: Final = frozenset((Kind.FILE, Kind.LINK))


class FolderEntry(NamedTuple):
    """A name in a folder; `label` is printable and unique in the folder."""

    name: str
    kind: Kind
    label: str


Entries = Sequence[FolderEntry]
_Filter = Callable[[Entries], Iterable[FolderEntry]]


def list_folder(folder: Path) -> list[FolderEntry]:
    """Return all names except `.` and `..`, in byte order; raises OSError."""
    kinds: dict[str, Kind] = {}
    with os.scandir(folder) as scan:
        for entry in scan:
            if entry.is_file(follow_symlinks=False):
                kinds[entry.name] = Kind.FILE
            elif entry.is_dir(follow_symlinks=False):
                kinds[entry.name] = Kind.FOLDER
            else:
                kinds[entry.name] = Kind.LINK if entry.is_symlink() else Kind.OTHER
    taken: set[str] = set()
    entries = []
    for name in sorted(kinds, key=os.fsencode):
        label = printable(os.fsencode(name))
        if label == name:
            label = name  # share one string object, to save memory
        else:
            taken = taken or set(kinds)
            label = unused_name(label, taken)
            taken.add(label)
        entries.append(FolderEntry(name, kinds[name], label))
    return entries


def _visible_entries(folder: Path) -> list[FolderEntry]:
    return [entry for entry in list_folder(folder) if not entry.name.startswith(".")]


@dataclass(frozen=True, slots=True)
class Scope:
    """The folder that the user named, and the folders for results.

    For a pattern `root` is its fixed prefix, and `matches` tests a path below. `followed` are the targets of links that
    were followed.
    """

    root: Path
    result_folders: Sequence[Path] = ()
    matches: Callable[[Sequence[str]], bool] | None = None
    followed: set[Path] = field(default_factory=set, compare=False)

    @classmethod
    def resolve(cls, root: Path, result_folders: Sequence[Path] = ()) -> Scope:
        """Make a scope of resolved paths."""
        return cls(root.resolve(), tuple(path.resolve() for path in result_folders))

    def receives_results(self, folder: Path) -> bool:
        """Whether this run writes its results to the folder."""
        has_name = any(folder.name == path.name for path in self.result_folders)
        return has_name and folder.resolve() in self.result_folders

    def has_results(self, folder: Path) -> bool:
        """Whether triage writes or has written to the folder: a store, or host pages."""
        places = (folder, folder.parent) if folder.name == PAGES_FOLDER else (folder,)
        return any(self.receives_results(place) or is_store(place / DATABASE_NAME) for place in places)

    def is_hidden(self, folder: Path) -> bool:
        """Whether the name of a folder below the root, or of a folder between, begins with a dot."""
        return any(part.startswith(".") for part in folder.relative_to(self.root).parts)

    def is_found_directly(self, folder: Path) -> bool:
        """Whether a folder below the root is found without a link."""
        if not self.matches:
            return not self.is_hidden(folder)
        parts = folder.relative_to(self.root).parts
        hidden = [place for place, part in enumerate(parts, start=1) if part.startswith(".")]
        return any(self.matches(parts[:place]) for place in range(max(hidden, default=0), len(parts) + 1))


def is_store(file: Path) -> bool:
    """Whether a file is a store of triage, or the beginning of one, judged by its header.

    While a run is active all its data may be in the WAL file, and the database is empty.
    """
    try:
        descriptor = open_regular(file)
    except StreamError:
        return False
    try:
        head = os.read(descriptor, _HEADER_BYTES)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    if not head:
        return True
    if len(head) < _HEADER_BYTES or not head.startswith(_SQLITE_MAGIC):
        return False
    has_id = head[_APPLICATION_FIELD] == APPLICATION_ID.to_bytes(4, "big")
    return has_id or not any(head[_SCHEMA_COOKIE] + head[_APPLICATION_FIELD])


def items_of_path(path: Path, label: str, result_folders: Sequence[Path] = ()) -> Iterator[BundleItem]:
    """Return the bundles of a file or a folder; raises UnreadError at once if there is none."""
    try:
        mode = path.stat().st_mode
        path = path.resolve() if path.is_symlink() else path.absolute()  # links that the user names are followed
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadError("does not exist") from error
    except OSError as error:
        raise UnreadError(describe_error(error)) from error
    except ValueError as error:
        raise UnreadError("is not a file name") from error
    if not stat.S_ISDIR(mode):
        return iter([_item_of_file(path, label)])
    items = _items_of_folder(path, label, Scope.resolve(path, result_folders))
    if (first := next(items, None)) is None:
        raise UnreadError("holds no bundle")
    return chain([first], items)


def _items_of_folder(folder: Path, label: str, scope: Scope, depth: int = 0) -> Iterator[BundleItem]:
    """Yield the bundles of a folder in the order of names."""
    if depth > MAX_FOLDER_DEPTH:
        yield BundleItem(str(folder), label, refused=TOO_DEEP)
        return
    try:
        entries = _visible_entries(folder)
    except OSError as error:
        yield BundleItem(str(folder), label, refused=describe_error(error))
        return
    has_results = scope.has_results(folder)
    if has_results and _is_host_folder(entries):
        reason = "has results of this run in it; name another --out-dir"
        yield BundleItem(str(folder), label, refused=reason if scope.receives_results(folder) else "")
        return
    entries = _without_results(folder, entries, scope)
    if not has_results and _is_bundle_folder(entries) and not _links_to_hidden_bundles(folder, entries, scope):
        is_flat = all(entry.kind is not Kind.FOLDER for entry in entries)  # otherwise the size would need a walk
        files = (folder / entry.name for entry in entries if is_flat and entry.kind is Kind.FILE)
        yield BundleItem(str(folder), label, sum(_item_of_file(file, "").size for file in files))
        return
    for entry in _without_companions(entries):
        if entry.kind is Kind.FOLDER:
            is_skipped = entry.name in COLLECTOR_FOLDERS
        else:
            is_skipped = entry.kind in _FILE_KINDS and is_readme(entry.name)
        if not is_skipped:
            yield from _items_of_entry(folder / entry.name, entry.kind, f"{label}/{entry.label}", scope, depth)


def _items_of_entry(path: Path, kind: Kind, label: str, scope: Scope, depth: int) -> Iterator[BundleItem]:
    """Yield the bundles of one entry of a folder."""
    if kind is Kind.FOLDER:
        yield from _items_of_folder(path, label, scope, depth + 1)
    elif kind is Kind.LINK:
        yield from _items_of_link(path, label, scope, depth)
    else:
        yield _item_of_file(path, label)


def _item_of_file(path: Path, label: str) -> BundleItem:
    """Return a file as a bundle, refused if it is not a regular file."""
    try:
        status = path.lstat()
    except OSError as error:
        return BundleItem(str(path), label, refused=describe_error(error))
    if stat.S_ISREG(status.st_mode):
        return BundleItem(str(path), label, status.st_size)
    reason = _SPECIAL_FILES.get(stat.S_IFMT(status.st_mode), "is not a regular file")
    return BundleItem(str(path), label, refused=reason)


def _items_of_link(path: Path, label: str, scope: Scope, depth: int) -> Iterator[BundleItem]:
    """Yield the bundles of the target of a link in a folder."""
    try:
        target = path.resolve(strict=True)
        mode = target.lstat().st_mode
    except (OSError, RuntimeError):  # Python 3.11 raises RuntimeError for a circular link
        yield BundleItem(str(path), label, refused="is a dangling link")
        return
    noun = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}.get(stat.S_IFMT(mode))
    if noun and not target.is_relative_to(scope.root):
        reason = f"is a link to a {noun} outside the given paths, and not followed"
        yield BundleItem(str(path), label, refused=reason)
    elif not stat.S_ISDIR(mode):
        yield _item_of_file(target, label)
    elif scope.is_found_directly(target) or target in scope.followed:
        return
    elif path.parent.resolve().is_relative_to(target):
        yield BundleItem(str(path), label, refused="is a link to a parent folder, and not followed")
    else:
        scope.followed.add(target)  # before the recursion, so that circular links end
        yield from _items_of_folder(target, label, scope, depth + 1)


def _is_bundle_folder(entries: Entries) -> bool:
    """Whether a folder with these entries is one bundle."""
    if _is_host_folder(entries):
        return True
    archives = (
        entry for entry in _without_companions(entries) if entry.kind is not Kind.FOLDER and is_archive(entry.name)
    )
    count = sum(1 for _ in islice(archives, _MIN_ARCHIVES))
    if _marks(entries):
        return count < _MIN_ARCHIVES
    kinds = {entry.kind for entry in entries}
    return not count and Kind.FILE in kinds and Kind.FOLDER not in kinds


def _is_host_folder(entries: Entries) -> bool:
    """Whether a folder has strong marks of a host, so that it is one bundle whatever else it contains."""
    marks = _marks(entries)
    return bool(marks - COLLECTOR_FOLDERS - _WEAK_MARKS) or len(marks & _WEAK_MARKS) > 1


def _marks(entries: Entries) -> set[str]:
    """Return the names that mark the folder as one bundle."""
    marks = {Kind.FOLDER: FOLDER_MARKS, Kind.FILE: _FILE_MARKS}
    return {entry.name for entry in entries if entry.name in marks.get(entry.kind, ())}


def _without_companions(entries: Entries) -> Iterator[FolderEntry]:
    """Return the entries of a folder that are not companions of another file."""
    is_companion = companion_test({entry.name for entry in entries if entry.kind in _FILE_KINDS})
    return (entry for entry in entries if entry.kind not in _FILE_KINDS or not is_companion(entry.name))


def _without_results(folder: Path, entries: Entries, scope: Scope, depth: int = 0) -> list[FolderEntry]:
    """Return the entries of a folder without files of triage and without folders that have only such files."""
    has_results = scope.has_results(folder)

    def is_kept(entry: FolderEntry) -> bool:
        path = folder / entry.name
        if entry.kind is Kind.FOLDER:
            return not _has_only_results(path, scope, depth)
        if not has_results or is_archive(entry.name) or is_recording(entry.name):
            return True
        return entry.kind is Kind.LINK and path.is_dir()  # any other file may be a report that the user wrote there

    return [entry for entry in entries if is_kept(entry)]


def _has_only_results(folder: Path, scope: Scope, depth: int = 0) -> bool:
    if depth > MAX_FOLDER_DEPTH or not scope.has_results(folder):
        return False
    try:
        entries = _visible_entries(folder)
    except OSError:
        return False
    return not _is_host_folder(entries) and not _without_results(folder, entries, scope, depth + 1)


def _links_to_hidden_bundles(folder: Path, entries: Entries, scope: Scope) -> bool:
    """Whether a folder of plain files is no bundle, because it has a link to an otherwise hidden folder of bundles."""
    if _marks(entries):
        return False
    for entry in entries:
        if entry.kind is Kind.LINK:
            try:
                target = (folder / entry.name).resolve(strict=True)
                is_hidden = target.is_dir() and target.is_relative_to(scope.root) and scope.is_hidden(target)
            except (OSError, RuntimeError):
                continue
            if is_hidden and not _has_only_results(target, scope):
                return True
    return False


_WILDCARDS: Final = frozenset("*?[")
_ANY_FOLDERS: Final = "**"


def is_pattern(name: str) -> bool:
    """Whether a name has a wildcard."""
    return not _WILDCARDS.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob pattern: `base` is the folder before the first part with a wildcard, `parts` are the rest."""

    base: Path
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, name: str) -> Pattern:
        """Parse a pattern with at least one wildcard."""
        parts = Path(name).parts
        first = next(i for i, part in enumerate(parts) if is_pattern(part))
        return cls(Path(*parts[:first]), parts[first:])

    def items(self, label: str, result_folders: Sequence[Path]) -> Iterator[BundleItem]:
        """Yield the bundles of all matches in the order of names; companions only if nothing else matches."""
        if not self.base.is_dir():
            return
        scope = replace(Scope.resolve(self.base, result_folders), matches=self.matches)
        for select in (_without_companions, iter):
            items = self._items_below(self.base.absolute(), (), label, scope, select)
            if (first := next(items, None)) is not None:
                yield first
                yield from items
                return

    def matches(self, path: Sequence[str]) -> bool:
        """Whether a path below the base, given by its parts, matches."""
        return _matches(tuple(path), self.parts, is_complete=True)

    def may_match_below(self, path: Sequence[str]) -> bool:
        """Whether something below a folder may match."""
        return _matches(tuple(path), self.parts, is_complete=False)

    def _items_below(
        self, folder: Path, path: tuple[str, ...], label: str, scope: Scope, select: _Filter
    ) -> Iterator[BundleItem]:
        """Yield the matches in a folder, whose path below the base is `path`; `select` filters the entries."""
        try:
            entries = _without_results(folder, list_folder(folder), scope)
        except OSError as error:
            yield BundleItem(str(folder), label, refused=describe_error(error))
            return
        for entry in select(entries):
            below, place, name = (*path, entry.name), folder / entry.name, f"{label}/{entry.label}"
            if self.matches(below):
                yield from _items_of_entry(place, entry.kind, name, scope, len(path))
            elif entry.kind is Kind.FOLDER and len(path) < MAX_FOLDER_DEPTH and self.may_match_below(below):
                yield from self._items_below(place, below, name, scope, select)


def _matches(path: tuple[str, ...], parts: tuple[str, ...], *, is_complete: bool) -> bool:
    """Whether a path matches a pattern, or, if it is not complete, may be the beginning of a match."""
    if not parts:
        return is_complete and not path
    if not path:
        return not is_complete or set(parts) == {_ANY_FOLDERS}
    pattern, name = parts[0], path[0]
    is_hidden = name.startswith(".")
    if pattern == _ANY_FOLDERS:
        skips_none = _matches(path, parts[1:], is_complete=is_complete)
        return skips_none or (not is_hidden and _matches(path[1:], parts, is_complete=is_complete))
    if not fnmatchcase(name, pattern) or (is_hidden and not pattern.startswith(".")):
        return False
    return _matches(path[1:], parts[1:], is_complete=is_complete)
