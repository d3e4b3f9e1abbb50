"""Entries of archives and directories: names, links, and which entries are wanted.

Names are made printable and relative to the bundle. Links are resolved only within one archive or directory and never
by the file system. In sos archives a link precedes its target (`free -> sos_commands/memory/free`), so for each member
the links are followed backwards: it is read if one of the paths that lead to it is wanted.

A directory of customer files is on the analyst's host. Names are therefore listed through directory file descriptors,
nothing is opened through a symbolic link, and an opened file must be a regular file: a FIFO or device would block, and
a link could lead to the analyst's own files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from thpdiag.bundle.limits import Limits, ProblemFold, StreamError
from thpdiag.bundle.magic import ARCHIVE_NAMES
from thpdiag.model import Citation, Problem, ProblemKind


class EntryKind(Enum):
    FILE = "file"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"
    SPECIAL = "device or FIFO"


class NameForm(Enum):
    """The form of a member's name in an archive."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    OUTSIDE = "leaves the bundle by `..`"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an archive or directory.

    `path` is canonical and printable, `form` the form of the original name. A file that is not `wanted` is included if
    it may have members.
    """

    path: str
    kind: EntryKind
    size: int = 0
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    target: str = ""
    form: NameForm = NameForm.RELATIVE
    wanted: bool = False


def printable(name: bytes | str) -> str:
    """Return the name with invalid UTF-8, control characters and bidi marks escaped.

    >>> printable(b"a\\x1b[31m\\xff")
    'a\\\\x1b[31m\\\\xff'
    """
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    if is_printable(text):
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_PRINTABLE_ASCII = bytes(range(0x20, 0x7F))


def is_printable(text: str) -> bool:
    """Like `str.isprintable`, but several times as fast for long ASCII names."""
    return not text.encode().translate(None, _PRINTABLE_ASCII) if text.isascii() else text.isprintable()


def canonical_path(name: str) -> tuple[str, NameForm]:
    """Return the canonical path of a name inside the bundle, and the form of the name.

    Absolute names are relative to the root of the bundle, as in tar itself.

    >>> canonical_path("/a/./b/../c")[0], canonical_path("../../etc/passwd")[1].name
    ('a/c', 'OUTSIDE')
    """
    if not ("//" in name or ("." in name and "/." in name) or name.startswith((".", "/")) or name.endswith("/")):
        return name, NameForm.RELATIVE
    parts: list[str] = []
    form = NameForm.ABSOLUTE if name.startswith("/") else NameForm.RELATIVE
    for part in name.split("/"):
        if part == "..":
            form = form if parts else NameForm.OUTSIDE
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts), form


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a file in the nesting of archives."""

    path: str
    prefix: str = ""  # of the paths of its members
    archives: int = 0  # number of archives around it
    codecs: int = 0  # number of decompressors around it
    chain: int = 0  # number of decompressors directly nested in each other
    wanted: bool = True  # by its own path or one of `aliases`
    aliases: tuple[str, ...] = ()
    size: int | None = None
    given: bool = False  # named by the user
    archive: str = ""  # path of the archive in which its name has the form `form`
    form: NameForm = NameForm.RELATIVE

    def as_archive(self) -> Place:
        """Return the place of this file as an archive."""
        return replace(self, archives=self.archives + 1, chain=0)

    def member(self, path: str, aliases: tuple[str, ...], entry: Entry, *, wanted: bool) -> Place:
        """Return the place of a member of this archive; `path` includes the prefix."""
        size, archive, form = entry.size, self.path, entry.form
        return Place(path, f"{path}/", self.archives, self.codecs, 0, wanted, aliases, size, archive=archive, form=form)

    def as_decompressed(self, *, wanted: bool) -> Place:
        """Return the place of the decompressed content of this file."""
        return replace(self, codecs=self.codecs + 1, chain=self.chain + 1, size=None, wanted=wanted)


_MAX_HOPS = 8
_MAX_LEVELS = 64
_MAX_ALIASES = 16  # of one member


class Links:
    """The links of one archive or directory. `wants` is called for aliases. Paths are canonical."""

    def __init__(self, wants: Callable[[str], object], limits: Limits) -> None:
        self._wants = wants
        self._limits = limits
        self._links: dict[str, list[str]] = {}  # by target
        self._targets: dict[str, str] = {}  # by link
        self._bytes = 0
        self._parent: str | None = None  # of the member asked for last
        self._parent_aliases: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._links)

    def add(self, alias: str, target: str) -> str:
        """Add a link. Return a word if that fails: `loop`, or `full` if a limit is reached."""
        self._bytes += len(alias) + len(target)
        if self._bytes > self._limits.link_bytes or len(self._targets) >= self._limits.links:
            return "full"
        self._targets[alias] = target
        self._parent = None
        path: str | None = alias
        for _ in range(_MAX_HOPS):
            path = self._targets.get(path) if path is not None else None
        if alias == target or path is not None:
            return "loop"
        if not alias.startswith(f"{target}/"):  # a link to its own directory would have endlessly many aliases
            self._links.setdefault(target, []).append(alias)
        return ""

    def wanted_aliases(self, path: str) -> tuple[str, ...]:
        """Return the wanted paths by which links lead to `path`."""
        if not self._links:
            return ()
        parent, slash, name = path.rpartition("/")
        if parent != self._parent:
            self._parent, self._parent_aliases = parent, self._aliases(parent) if slash else []
        if not self._parent_aliases and path not in self._links:
            return ()
        aliases = [f"{alias}/{name}" for alias in self._parent_aliases]
        if path in self._links or any(alias in self._links for alias in aliases):
            aliases = self._aliases(path)
        return tuple(alias for alias in aliases if self._wants(alias))

    def _aliases(self, path: str) -> list[str]:
        """Return all paths by which links lead to a path or the directories above it."""
        hops = {path: 0}
        for known in (queue := [path]):
            if hops[known] >= _MAX_HOPS:
                continue
            for ancestor in _path_and_parents(known):
                for link in self._links.get(ancestor, ())[:_MAX_ALIASES]:
                    alias = link + known[len(ancestor) :]
                    if alias not in hops and len(hops) <= _MAX_ALIASES:
                        hops[alias] = hops[known] + 1
                        queue.append(alias)
        return list(hops)[1:]


def link_targets(alias: str, target: str) -> list[str]:
    """Return the canonical paths to which a symbolic link at `alias` may point.

    An absolute target is relative to the root of the host, which in a bundle is its root or the only directory in it
    (`sosreport-host-2024/`).
    """
    if target.startswith("/"):
        root, slash, _ = alias.partition("/")
        return [canonical_path(target)[0], *([canonical_path(f"{root}/{target}")[0]] if slash else [])]
    return [canonical_path(f"{alias.rpartition('/')[0]}/{target}")[0]]


def _path_and_parents(path: str) -> list[str]:
    """Return the path and the directories above it; only the path if it has more levels than real trees."""
    paths = [path]
    if path.count("/") > _MAX_LEVELS:
        return paths
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        paths.append(path)
    return paths


_MAX_REMEMBERED_PATHS = 262_144  # stored as hashes


class Namespace:
    """The names of an archive or directory that is being read.

    `late` collects skipped members that a later link wants: path -> paths of the links.
    """

    def __init__(
        self, place: Place, wants: Callable[[str], object], limits: Limits, late: dict[str, tuple[str, ...]]
    ) -> None:
        self.place = place
        self._wants = wants
        self._limits = limits
        self._links = Links(wants, limits)
        self._late = late
        self._passed: set[int] = set()
        self._given: set[int] = set()
        self._empty = 0  # wanted members without content
        self._unwanted_archive = ""  # the current member if it is only interesting as an archive
        self._problems = ProblemFold(separate=0)

    def is_interesting(self, path: str, size: int = 1) -> bool:
        """Whether a member is wanted, or has the name of an archive, which may be damaged or encrypted.

        Members without content are interesting only up to a limit.
        """
        if not size and self._empty >= self._limits.empty:
            self._empty += 1
            return False
        full = self.place.prefix + path
        if self._wants(full) or (self._links and self._links.wanted_aliases(full)):
            self._unwanted_archive = ""
            self._empty += not size
            return True
        if path.endswith(ARCHIVE_NAMES):
            self._unwanted_archive = path
            return True
        if len(self._passed) < _MAX_REMEMBERED_PATHS:
            self._passed.add(hash(full))
        return False

    def admit(self, entries: Iterator[Entry | Problem]) -> Iterator[tuple[Entry, Place] | Problem]:
        """Yield the files to open, and problems. Adds links."""
        for entry in entries:
            if isinstance(entry, Problem):
                yield entry
            elif entry.kind is EntryKind.FILE:
                place = self._place(entry)
                yield from self._problems.new()
                if place:
                    yield entry, place
            elif entry.kind is EntryKind.SPECIAL:
                self._refuse("device or FIFO", entry, "is a device or FIFO and was not read", hides=False)
            else:
                self.link(entry)
            yield from self._problems.new()
        yield from self._problems.rest()
        if (more := self._empty - self._limits.empty) > 0:
            text = f"holds more than {self._limits.empty} empty files; the others were passed over (limit empty)"
            yield Problem(Citation(self.place.path), text, ProblemKind.UNRECOGNISED, count=more)

    def link(self, entry: Entry) -> None:
        """Add a symbolic or hard link."""
        alias = self.place.prefix + entry.path
        hard = entry.kind is EntryKind.HARDLINK
        for target in [canonical_path(entry.target)[0]] if hard else link_targets(entry.path, entry.target):
            full = self.place.prefix + target
            error = self._links.add(alias, full)
            if error == "loop":
                problem = Problem(Citation(alias), "is a link in a loop", hides=False)
                self._problems.add("links in a circle", problem)
            elif error:
                text = "holds more links than are followed (limits links, link_bytes)"
                self._problems.add("links", Problem(Citation(self.place.path), text, ProblemKind.LIMIT, hides=True))
            elif hash(full) in self._passed and self._wants(alias):
                self._late[full] = (*self._late.get(full, ()), alias)

    def _place(self, entry: Entry) -> Place | None:
        full = self.place.prefix + entry.path
        wanted = entry.wanted and entry.path != self._unwanted_archive
        if entry.form is NameForm.OUTSIDE:
            self._refuse(
                "name outside the bundle", entry, "has a name that leaves the bundle and was not read", hides=wanted
            )
            return None
        if wanted and hash(full) in self._given:
            text = "occurs more than once in the archive; all were read"
            self._problems.add("more than once", Problem(Citation(full), text, hides=False))
        elif wanted and len(self._given) < _MAX_REMEMBERED_PATHS:
            self._given.add(hash(full))
        return self.place.member(full, self._links.wanted_aliases(full), entry, wanted=wanted)

    def _refuse(self, subject: str, entry: Entry, text: str, *, hides: bool) -> None:
        cite = Citation(self.place.prefix + entry.path)
        self._problems.add(subject, Problem(cite, text, ProblemKind.REFUSED, hides=hides))


_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a directory tree."""

    path: str
    name: str
    mode: int  # file type
    folder: int  # descriptor of its directory, open until the next entry is requested
    target: str = ""  # of a link
    failure: StreamError | None = None  # why it cannot be read


class _Folder(NamedTuple):
    """An open directory, and the iterator over its names."""

    folder: int
    prefix: str
    names: Iterator[tuple[str, int]]


def walk(root: Path, limits: Limits, only: int = 0) -> Iterator[DirectoryEntry]:
    """Yield everything below `root` except directories, sorted; only one file type (`stat.S_IFLNK`) if `only` is set.

    This is one loop, with file types from the directory instead of stat, because a sosreport has 80,000 files.
    """
    stack: list[_Folder] = []
    try:
        try:
            stack.append(_open_folder(str(root), "", None))
        except OSError as error:
            yield DirectoryEntry("", "", 0, -1, failure=unreadable(error))
        while stack:
            current = stack[-1]
            name, mode = next(current.names, ("", 0))
            if not name:
                os.close(stack.pop().folder)
            elif mode == stat.S_IFDIR:
                if failure := _enter(stack, name, limits):
                    yield failure
            elif only in {0, mode}:
                yield _directory_entry(current, name, mode)
    finally:
        for folder in stack:
            os.close(folder.folder)


def _enter(stack: list[_Folder], name: str, limits: Limits) -> DirectoryEntry | None:
    """Enter a directory, or return the failure."""
    current, path = stack[-1], stack[-1].prefix + _printable_name(name)
    if len(stack) >= limits.directory_depth or len(path) > limits.name:
        text = f"directories deeper than {limits.directory_depth} were not read (limit directory_depth)"
        return DirectoryEntry(path, name, stat.S_IFDIR, current.folder, failure=StreamError(ProblemKind.LIMIT, text))
    try:
        stack.append(_open_folder(name, f"{path}/", current.folder))
    except OSError as error:
        return DirectoryEntry(path, name, 0, current.folder, failure=unreadable(error))
    return None


def _open_folder(name: str, prefix: str, parent: int | None) -> _Folder:
    """Open a directory, never through a link, except for the root, which the user may name by a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC if parent is None else _OPEN_FLAGS | os.O_DIRECTORY
    folder = os.open(name, flags, dir_fd=parent)
    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, _file_type(entry)) for entry in entries)
    except OSError:
        os.close(folder)
        raise
    return _Folder(folder, prefix, iter(names))


def _file_type(entry: os.DirEntry[str]) -> int:
    """Return the file type by the directory entry; it is checked again when the file is opened."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFLNK if entry.is_symlink() else stat.S_IFSOCK


def _directory_entry(folder: _Folder, name: str, mode: int) -> DirectoryEntry:
    path = folder.prefix + _printable_name(name)
    if mode != stat.S_IFLNK:
        return DirectoryEntry(path, name, mode, folder.folder)
    try:
        target = _printable_name(os.readlink(name, dir_fd=folder.folder))
    except OSError as error:
        return DirectoryEntry(path, name, 0, folder.folder, failure=unreadable(error))
    return DirectoryEntry(path, name, mode, folder.folder, target)


def _printable_name(name: str) -> str:
    return name if name.isprintable() else printable(os.fsencode(name))


def size_of(found: DirectoryEntry) -> int:
    """Return the size of a file; 0 if it no longer exists."""
    try:
        return os.stat(found.name, dir_fd=found.folder, follow_symlinks=False).st_size
    except OSError:
        return 0


def open_regular(name: str | Path, folder: int | None = None) -> int:
    """Open a regular file and return its descriptor; raise StreamError if that fails or it is not a regular file."""
    try:
        opened = os.open(name, _OPEN_FLAGS, dir_fd=folder)
    except OSError as error:
        raise unreadable(error) from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise StreamError(ProblemKind.REFUSED, "is not a regular file")
    return opened


def unreadable(error: OSError) -> StreamError:
    return StreamError(ProblemKind.UNREADABLE, f"cannot be read: {error.strerror or type(error).__name__}")
