"""The bundles of a path of this machine: a file, a folder, or a pattern of names. Nothing is opened, names decide.

- A folder **is one bundle** if something in it says so (`proc`, `sys`, `etc`, `var`, `sos_commands`, `version.txt`,
  the `capture.log` of our own capture ...), or if it has plain files and neither an archive nor a folder. `etc`, `var`
  and `version.txt` say so together; one of them alone says nothing beside two archives or more. Nor do the `sos_logs`
  and `sos_reports` that sos collect leaves with the archives of its hosts: there they are passed over.
- Any other folder **holds bundles**: each archive in it, each folder by these same rules, and each other file, but for
  its README and those that belong to one beside them (`companions`): checksums and signatures of an archive, symbols of
  a recording.
- A name that begins with a dot is passed over, as the shell does; so is an empty folder.
- Results of a triage are passed over, those of this run too. Of a folder that holds them its archives, recordings and
  folders are bundles as elsewhere, and it is one itself if something in it says so; its other files are taken for what
  triage wrote. A database that another program called `results.sqlite` is a file like others.
- A link to a file is read if the file lies within what the user named. A link to a folder there is passed over if that
  is found by its own name. If it is not, being hidden or fitting no pattern, it is read as what it is, once, unless
  the link lies in it. All other links, pipes, sockets and devices are refused with a reason.

In a pattern (`nightly/**/*.tar.xz`) `*`, `?` and `[...]` stand for parts of one name, `**` for any number of folders,
none included. A name that begins with a dot must be asked for with one. Of a folder that fits nothing inside is looked
at again, so no bundle is found twice. Results of a triage fit no pattern. A link to a folder that fits is followed as
in a folder; for more of its names behind it (`latest/*`) no link is. Where nothing fits but what belongs to files that
do not (`*.meta`), that is taken, for it was asked for.
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
    is_for_readers,
    is_recording,
    unused_name,
)
from thpdiag.store.schema import APPLICATION_ID, DATABASE_NAME

PAGES_FOLDER: Final = "hosts"  # where triage writes the pages of hosts, beside its store
FOLDER_MARKS: Final = frozenset(
    ("proc", "sys", "etc", "var", "sos_commands", "sos_logs", "sos_reports", "sos_strings", "insights_commands")
)
COLLECTOR_FOLDERS: Final = frozenset(("sos_logs", "sos_reports"))
_FILE_MARKS: Final = frozenset(("version.txt", "capture.log", "insights_archive.txt", "basic-environment.txt"))
_WEAK_MARKS: Final = frozenset(("etc", "var", "version.txt"))  # a CI's number, a folder that somebody made
_MIN_ARCHIVES: Final = 2  # fewer archives lie in folders of one host as well
_SPECIAL_FILES: Final = {
    stat.S_IFIFO: "is a named pipe (fifo)",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}
# The header of a SQLite file, 100 bytes: https://www.sqlite.org/fileformat.html
_HEADER_BYTES: Final = 100
_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_SCHEMA_COOKIE, _APPLICATION_FIELD = slice(40, 44), slice(68, 72)  # the cookie is 0 while nothing is in the database


Kind = Enum("Kind", "FILE FOLDER LINK OTHER")  # what a name is; the last are pipes, sockets and devices
_FILE_KINDS: Final = frozenset((Kind.FILE, Kind.LINK))


class FolderEntry(NamedTuple):
    """A name in a folder; `label` prints, and no other name of the folder has the same."""

    name: str
    kind: Kind
    label: str


Entries = Sequence[FolderEntry]
_Keep = Callable[[Entries], Iterable[FolderEntry]]


def list_folder(folder: Path) -> list[FolderEntry]:
    """All names but `.` and `..`, in the order of their bytes; raises OSError."""
    kinds: dict[str, Kind] = {}
    with os.scandir(folder) as found:
        for entry in found:
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
            label = name  # one text, not two: there may be many of them
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
    """The folder that the user named, and folders that results go to.

    Of a pattern `root` is the folder that it begins with, and `fits` says whether a path below fits. `followed` are the
    folders that links led to.
    """

    root: Path
    besides: Sequence[Path] = ()
    fits: Callable[[Sequence[str]], bool] | None = None
    followed: set[Path] = field(default_factory=set, compare=False)

    @classmethod
    def resolve(cls, root: Path, besides: Sequence[Path] = ()) -> Scope:
        """Both as the system resolves them."""
        return cls(root.resolve(), tuple(path.resolve() for path in besides))

    def receives_results(self, folder: Path) -> bool:
        """Whether the results of this run go there."""
        return any(folder.name == path.name for path in self.besides) and folder.resolve() in self.besides

    def has_results(self, folder: Path) -> bool:
        """Whether triage writes into a folder, or did: results, or pages beside them."""
        places = (folder, folder.parent) if folder.name == PAGES_FOLDER else (folder,)
        return any(self.receives_results(place) or is_store(place / DATABASE_NAME) for place in places)

    def hides(self, folder: Path) -> bool:
        """Whether a folder of what was named, or one around it, has a name that is passed over."""
        return any(part.startswith(".") for part in folder.relative_to(self.root).parts)

    def finds(self, folder: Path) -> bool:
        """Whether a folder of what was named is found by its own name."""
        if not self.fits:
            return not self.hides(folder)
        parts = folder.relative_to(self.root).parts
        hidden = [place for place, part in enumerate(parts, start=1) if part.startswith(".")]
        return any(self.fits(parts[:place]) for place in range(max(hidden, default=0), len(parts) + 1))


def is_store(file: Path) -> bool:
    """Whether a file is a store of triage, or the beginning of one; told by its head, for it may be somebody else's.

    As long as a run has not ended all may be in the log beside it, and the database is empty.
    """
    try:
        opened = open_regular(file)
    except StreamError:
        return False
    try:
        head = os.read(opened, _HEADER_BYTES)
    except OSError:
        return False
    finally:
        os.close(opened)
    if not head:
        return True
    if len(head) < _HEADER_BYTES or not head.startswith(_SQLITE_MAGIC):
        return False
    ours = head[_APPLICATION_FIELD] == APPLICATION_ID.to_bytes(4, "big")
    return ours or not any(head[_SCHEMA_COOKIE] + head[_APPLICATION_FIELD])


def items_of_path(path: Path, label: str, besides: Sequence[Path] = ()) -> Iterator[BundleItem]:
    """The bundles of a file or a folder; raises UnreadError at once if there is none."""
    try:
        mode = path.stat().st_mode
        path = path.resolve() if path.is_symlink() else path.absolute()  # the user's own links are followed
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadError("does not exist") from error
    except OSError as error:
        raise UnreadError(describe_error(error)) from error
    except ValueError as error:
        raise UnreadError("is not a file name") from error
    if not stat.S_ISDIR(mode):
        return iter([_item_of_file(path, label)])
    items = _items_of_folder(path, label, Scope.resolve(path, besides))
    if (first := next(items, None)) is None:
        raise UnreadError("holds no bundle")
    return chain([first], items)


def _items_of_folder(folder: Path, label: str, scope: Scope, depth: int = 0) -> Iterator[BundleItem]:
    """The bundles of a folder, in the order of their names."""
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
        ours = "has results of this run in it; name another --out-dir"
        yield BundleItem(str(folder), label, refused=ours if scope.receives_results(folder) else "")
        return
    entries = _without_results(folder, entries, scope)
    if not has_results and _is_bundle_folder(entries) and not _links_to_hidden_bundles(folder, entries, scope):
        plain = all(entry.kind is not Kind.FOLDER for entry in entries)  # else it would have to be walked
        files = (folder / entry.name for entry in entries if plain and entry.kind is Kind.FILE)
        yield BundleItem(str(folder), label, sum(_item_of_file(file, "").size for file in files))
        return
    for entry in _without_companions(entries):
        if entry.kind is Kind.FOLDER:
            for_people = entry.name in COLLECTOR_FOLDERS
        else:
            for_people = entry.kind in _FILE_KINDS and is_for_readers(entry.name)
        if not for_people:
            yield from _items_of_entry(folder / entry.name, entry.kind, f"{label}/{entry.label}", scope, depth)


def _items_of_entry(path: Path, kind: Kind, label: str, scope: Scope, depth: int) -> Iterator[BundleItem]:
    """The bundle or the bundles that one name of a folder stands for."""
    if kind is Kind.FOLDER:
        yield from _items_of_folder(path, label, scope, depth + 1)
    elif kind is Kind.LINK:
        yield from _items_of_link(path, label, scope, depth)
    else:
        yield _item_of_file(path, label)


def _item_of_file(path: Path, label: str) -> BundleItem:
    """A file as a bundle, or why it is none."""
    try:
        status = path.lstat()
    except OSError as error:
        return BundleItem(str(path), label, refused=describe_error(error))
    if stat.S_ISREG(status.st_mode):
        return BundleItem(str(path), label, status.st_size)
    why = _SPECIAL_FILES.get(stat.S_IFMT(status.st_mode), "is not a regular file")
    return BundleItem(str(path), label, refused=why)


def _items_of_link(path: Path, label: str, scope: Scope, depth: int) -> Iterator[BundleItem]:
    """What a link of the folder leads to."""
    try:
        target = path.resolve(strict=True)
        mode = target.lstat().st_mode
    except (OSError, RuntimeError):  # RuntimeError: a circle, in Python 3.11
        yield BundleItem(str(path), label, refused="is a dangling link")
        return
    what = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}.get(stat.S_IFMT(mode))
    if what and not target.is_relative_to(scope.root):
        why = f"is a link to a {what} outside the given paths, and not followed"
        yield BundleItem(str(path), label, refused=why)
    elif not stat.S_ISDIR(mode):
        yield _item_of_file(target, label)
    elif scope.finds(target) or target in scope.followed:
        return
    elif path.parent.resolve().is_relative_to(target):
        yield BundleItem(str(path), label, refused="is a link to a parent folder, and not followed")
    else:
        scope.followed.add(target)  # before it is gone into: a circle has an end
        yield from _items_of_folder(target, label, scope, depth + 1)


def _is_bundle_folder(entries: Entries) -> bool:
    """Whether a folder with these names is one bundle."""
    if _is_host_folder(entries):
        return True
    packed = (one for one in _without_companions(entries) if one.kind is not Kind.FOLDER and is_archive(one.name))
    archives = sum(1 for _ in islice(packed, _MIN_ARCHIVES))
    if _marks(entries):
        return archives < _MIN_ARCHIVES
    kinds = {entry.kind for entry in entries}
    return not archives and Kind.FILE in kinds and Kind.FOLDER not in kinds


def _is_host_folder(entries: Entries) -> bool:
    """Whether a folder with these names is one bundle whatever else is in it."""
    marks = _marks(entries)
    return bool(marks - COLLECTOR_FOLDERS - _WEAK_MARKS) or len(marks & _WEAK_MARKS) > 1


def _marks(entries: Entries) -> set[str]:
    """What of the names says that the folder is one bundle."""
    marks = {Kind.FOLDER: FOLDER_MARKS, Kind.FILE: _FILE_MARKS}
    return {entry.name for entry in entries if entry.name in marks.get(entry.kind, ())}


def _without_companions(entries: Entries) -> Iterator[FolderEntry]:
    """The names of a folder without those that belong to another file of it."""
    belongs = companion_test({entry.name for entry in entries if entry.kind in _FILE_KINDS})
    return (entry for entry in entries if entry.kind not in _FILE_KINDS or not belongs(entry.name))


def _without_results(folder: Path, entries: Entries, scope: Scope, depth: int = 0) -> list[FolderEntry]:
    """The names of a folder without the results of a triage: what one wrote there, and folders with nothing else."""
    beside_results = scope.has_results(folder)

    def keeps(entry: FolderEntry) -> bool:
        path = folder / entry.name
        if entry.kind is Kind.FOLDER:
            return not _holds_only_results(path, scope, depth)
        if not beside_results or is_archive(entry.name) or is_recording(entry.name):
            return True
        return entry.kind is Kind.LINK and path.is_dir()  # any other may be a report that a person wrote there

    return [entry for entry in entries if keeps(entry)]


def _holds_only_results(folder: Path, scope: Scope, depth: int = 0) -> bool:
    if depth > MAX_FOLDER_DEPTH or not scope.has_results(folder):
        return False
    try:
        entries = _visible_entries(folder)
    except OSError:
        return False
    return not _is_host_folder(entries) and not _without_results(folder, entries, scope, depth + 1)


def _links_to_hidden_bundles(folder: Path, entries: Entries, scope: Scope) -> bool:
    """Whether plain files are no bundle, for a link beside them leads to a folder that only it leads to."""
    if _marks(entries):
        return False
    for entry in entries:
        if entry.kind is Kind.LINK:
            try:
                target = (folder / entry.name).resolve(strict=True)
                hidden = target.is_dir() and target.is_relative_to(scope.root) and scope.hides(target)
            except (OSError, RuntimeError):
                continue
            if hidden and not _holds_only_results(target, scope):
                return True
    return False


_MAGIC: Final = frozenset("*?[")
_ANY_FOLDERS: Final = "**"


def is_pattern(name: str) -> bool:
    """Whether a name has a character that stands for others."""
    return not _MAGIC.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class Pattern:
    """`base` is the folder before the first part with such a character, `parts` are those from there on."""

    base: Path
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, name: str) -> Pattern:
        """A pattern as the user wrote it."""
        parts = Path(name).parts
        first = next(i for i, part in enumerate(parts) if is_pattern(part))
        return cls(Path(*parts[:first]), parts[first:])

    def items(self, label: str, besides: Sequence[Path]) -> Iterator[BundleItem]:
        """The bundles of all that fits, in the order of names; of what belongs to others if nothing else fits."""
        if not self.base.is_dir():
            return
        scope = replace(Scope.resolve(self.base, besides), fits=self.fits)
        for keep in (_without_companions, iter):
            items = self._items_below(self.base.absolute(), (), label, scope, keep)
            if (first := next(items, None)) is not None:
                yield first
                yield from items
                return

    def fits(self, path: Sequence[str]) -> bool:
        """Whether a path below the base fits, given by its parts."""
        return _fits(tuple(path), self.parts, whole=True)

    def reaches(self, path: Sequence[str]) -> bool:
        """Whether something below a folder may fit."""
        return _fits(tuple(path), self.parts, whole=False)

    def _items_below(
        self, folder: Path, path: tuple[str, ...], label: str, scope: Scope, keep: _Keep
    ) -> Iterator[BundleItem]:
        """`path` is that of the folder below the base, `keep` says which names are looked at."""
        try:
            entries = _without_results(folder, list_folder(folder), scope)
        except OSError as error:
            yield BundleItem(str(folder), label, refused=describe_error(error))
            return
        for entry in keep(entries):
            below, place, name = (*path, entry.name), folder / entry.name, f"{label}/{entry.label}"
            if self.fits(below):
                yield from _items_of_entry(place, entry.kind, name, scope, len(path))
            elif entry.kind is Kind.FOLDER and len(path) < MAX_FOLDER_DEPTH and self.reaches(below):
                yield from self._items_below(place, below, name, scope, keep)


def _fits(path: tuple[str, ...], parts: tuple[str, ...], *, whole: bool) -> bool:
    """Whether a path fits a pattern as a `whole`, or is the beginning of one that does."""
    if not parts:
        return whole and not path
    if not path:
        return not whole or set(parts) == {_ANY_FOLDERS}
    wanted, name = parts[0], path[0]
    hidden = name.startswith(".")
    if wanted == _ANY_FOLDERS:
        return _fits(path, parts[1:], whole=whole) or (not hidden and _fits(path[1:], parts, whole=whole))
    if not fnmatchcase(name, wanted) or (hidden and not wanted.startswith(".")):
        return False
    return _fits(path[1:], parts[1:], whole=whole)
