"""What an archive or directory says lies in it: names, links, what is wanted of it, what has passed.

Names are printable, and inside the bundle whatever the archive says. Links are followed inside one archive or directory
alone and never by the file system. In sos archives a link comes before its target (`free -> sos_commands/memory/free`),
so when a member passes the question is asked backwards: which other paths lead here, and does anybody want one of them?

A directory of the customer's files lies on a host that is not theirs: names are listed by directory file descriptors,
nothing is opened through a symbolic link, and what is opened must then prove to be a regular file: a FIFO or a device
would hang the reader, a link could lead to the analyst's own files.
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
    """How an archive names a member."""

    RELATIVE = "relative"
    ABSOLUTE = "absolute"
    OUTSIDE = "leaves the bundle by `..`"


@dataclass(frozen=True, slots=True)
class Entry:
    """`path` is canonical and printable, `form` what it was before.

    `wanted` is the answer to whether the file is interesting; one that is not is given when it may hold members.
    """

    path: str
    kind: EntryKind
    size: int = 0
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    target: str = ""
    form: NameForm = NameForm.RELATIVE
    wanted: bool = False


def printable(name: bytes | str) -> str:
    """The name with everything visible that would not print: bad UTF-8, control characters, bidi marks.

    >>> printable(b"a\\x1b[31m\\xff")
    'a\\\\x1b[31m\\\\xff'
    """
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    if is_printable(text):
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


_PRINTABLE_ASCII = bytes(range(0x20, 0x7F))


def is_printable(text: str) -> bool:
    """As `str.isprintable`, several times as fast for long names of ASCII."""
    return not text.encode().translate(None, _PRINTABLE_ASCII) if text.isascii() else text.isprintable()


def canonical_path(name: str) -> tuple[str, NameForm]:
    """The canonical path of a name inside the bundle, and the form of the name.

    Absolute names are taken relative to the root of the bundle, as tar itself does.

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
    """`path` is the file itself, `prefix` stands before the paths of what lies in it; `archives` and `codecs` count
    those around it.

    `given` says that the user named the file; `wanted` that somebody asked for it, by its own path or one of `aliases`.
    `archive` is the path of the archive in which its name has that `form`.
    """

    path: str
    prefix: str = ""
    archives: int = 0
    codecs: int = 0
    chain: int = 0  # decompressors one directly in the other
    wanted: bool = True
    aliases: tuple[str, ...] = ()
    size: int | None = None
    given: bool = False
    archive: str = ""
    form: NameForm = NameForm.RELATIVE

    def as_archive(self) -> Place:
        """This file as an archive that is being read."""
        return replace(self, archives=self.archives + 1, chain=0)

    def member(self, path: str, aliases: tuple[str, ...], entry: Entry, *, wanted: bool) -> Place:
        """A member of this archive; `path` has the prefix already."""
        size, archive, form = entry.size, self.path, entry.form
        return Place(path, f"{path}/", self.archives, self.codecs, 0, wanted, aliases, size, archive=archive, form=form)

    def as_decompressed(self, *, wanted: bool) -> Place:
        """What comes out when this file is decompressed."""
        return replace(self, codecs=self.codecs + 1, chain=self.chain + 1, size=None, wanted=wanted)


_MAX_HOPS = 8
_MAX_LEVELS = 64
_MAX_ALIASES = 16  # of one member


class Links:
    """`wants` is asked for alias paths. Paths are canonical and inside the archive."""

    def __init__(self, wants: Callable[[str], object], limits: Limits) -> None:
        self._wants = wants
        self._limits = limits
        self._to: dict[str, list[str]] = {}  # target -> links to it
        self._from: dict[str, str] = {}
        self._bytes = 0
        self._parent: str | None = None  # of the member asked for last
        self._parents: list[str] = []  # the paths by which links lead to that parent

    def __bool__(self) -> bool:
        return bool(self._to)

    def add(self, alias: str, target: str) -> str:
        """Takes in a link; a word when it leads nowhere: `loop` or `full` (limit reached, link forgotten)."""
        self._bytes += len(alias) + len(target)
        if self._bytes > self._limits.link_bytes or len(self._from) >= self._limits.links:
            return "full"
        self._from[alias] = target
        self._parent = None
        at: str | None = alias
        for _ in range(_MAX_HOPS):
            at = self._from.get(at) if at is not None else None
        if alias == target or at is not None:
            return "loop"
        if not alias.startswith(f"{target}/"):  # to its own directory: longer names for the same, for ever
            self._to.setdefault(target, []).append(alias)
        return ""

    def wanted_aliases(self, path: str) -> tuple[str, ...]:
        """The paths by which links lead to `path` and that are wanted."""
        if not self._to:
            return ()
        parent, slash, name = path.rpartition("/")
        if parent != self._parent:
            self._parent, self._parents = parent, self._aliases(parent) if slash else []
        if not self._parents and path not in self._to:
            return ()
        aliases = [f"{above}/{name}" for above in self._parents]
        if path in self._to or any(alias in self._to for alias in aliases):
            aliases = self._aliases(path)
        return tuple(alias for alias in aliases if self._wants(alias))

    def _aliases(self, path: str) -> list[str]:
        found = {path: 0}
        for at in (queue := [path]):
            if found[at] >= _MAX_HOPS:
                continue
            for above in _path_and_parents(at):
                for link in self._to.get(above, ())[:_MAX_ALIASES]:
                    alias = link + at[len(above) :]
                    if alias not in found and len(found) <= _MAX_ALIASES:
                        found[alias] = found[at] + 1
                        queue.append(alias)
        return list(found)[1:]


def link_targets(alias: str, target: str) -> list[str]:
    """The canonical paths that a symbolic link at `alias` may mean.

    An absolute target is meant from the root of the host, which in a bundle is its root or the one directory below it
    (`sosreport-host-2024/`).
    """
    if target.startswith("/"):
        root, slash, _ = alias.partition("/")
        return [canonical_path(target)[0], *([canonical_path(f"{root}/{target}")[0]] if slash else [])]
    return [canonical_path(f"{alias.rpartition('/')[0]}/{target}")[0]]


def _path_and_parents(path: str) -> list[str]:
    """The path and the directories above it; of a path deeper than any directory tree is, the path alone."""
    found = [path]
    if path.count("/") > _MAX_LEVELS:
        return found
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        found.append(path)
    return found


_MAX_REMEMBERED_PATHS = 262_144  # paths, as hashes


class Namespace:
    """One archive or directory being read.

    `late` collects members that a link wants after they passed: path -> paths of the links.
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
        self._empty = 0  # members that somebody wants and that have no content
        self._only_looked_at = ""  # the member at hand if nobody asked for it
        self._problems = ProblemFold(apart=0)

    def is_interesting(self, path: str, size: int = 1) -> bool:
        """Whether somebody wants the member, or its name says that it is an archive, which may be broken or closed.

        Of many without content only the first are.
        """
        if not size and self._empty >= self._limits.empty:
            self._empty += 1
            return False
        full = self.place.prefix + path
        if self._wants(full) or (self._links and self._links.wanted_aliases(full)):
            self._only_looked_at = ""
            self._empty += not size
            return True
        if path.endswith(ARCHIVE_NAMES):
            self._only_looked_at = path
            return True
        if len(self._passed) < _MAX_REMEMBERED_PATHS:
            self._passed.add(hash(full))
        return False

    def admit(self, entries: Iterator[Entry | Problem]) -> Iterator[tuple[Entry, Place] | Problem]:
        """The files that are to be opened, and problems. Takes in links as they come."""
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
        """Takes in a symbolic or hard link."""
        alias = self.place.prefix + entry.path
        hard = entry.kind is EntryKind.HARDLINK
        for target in [canonical_path(entry.target)[0]] if hard else link_targets(entry.path, entry.target):
            full = self.place.prefix + target
            trouble = self._links.add(alias, full)
            if trouble == "loop":
                problem = Problem(Citation(alias), "is a link in a loop", hides=False)
                self._problems.add("links in a circle", problem)
            elif trouble:
                text = "holds more links than are followed (limits links, link_bytes)"
                self._problems.add("links", Problem(Citation(self.place.path), text, ProblemKind.LIMIT, hides=True))
            elif hash(full) in self._passed and self._wants(alias):
                self._late[full] = (*self._late.get(full, ()), alias)

    def _place(self, entry: Entry) -> Place | None:
        full = self.place.prefix + entry.path
        wanted = entry.wanted and entry.path != self._only_looked_at
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


_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in the tree: `mode` is its file type, `target` where a link points, `failure` why it cannot be read.

    `folder` is the descriptor of the directory it lies in, open until the next name is asked for.
    """

    path: str
    name: str
    mode: int
    folder: int
    target: str = ""
    failure: StreamError | None = None


class _Folder(NamedTuple):
    """An open directory of which some names were given already."""

    folder: int
    prefix: str
    names: Iterator[tuple[str, int]]


def walk(root: Path, limits: Limits, only: int = 0) -> Iterator[DirectoryEntry]:
    """Everything below `root` but directories, in sorted order; of one kind (`stat.S_IFLNK`) if that is asked for.

    One loop for the whole tree, and the kinds of names as the directory has them: a sosreport has 80,000 files.
    """
    above: list[_Folder] = []
    try:
        try:
            above.append(_open_folder(str(root), "", None))
        except OSError as error:
            yield DirectoryEntry("", "", 0, -1, failure=unreadable(error))
        while above:
            at = above[-1]
            name, mode = next(at.names, ("", 0))
            if not name:
                os.close(above.pop().folder)
            elif mode == stat.S_IFDIR:
                if failure := _enter(above, name, limits):
                    yield failure
            elif only in {0, mode}:
                yield _directory_name(at, name, mode)
    finally:
        for left in above:
            os.close(left.folder)


def _enter(above: list[_Folder], name: str, limits: Limits) -> DirectoryEntry | None:
    """Goes into a directory, or says why not."""
    at, path = above[-1], above[-1].prefix + _printable_name(name)
    if len(above) >= limits.directory_depth or len(path) > limits.name:
        text = f"directories deeper than {limits.directory_depth} were not read (limit directory_depth)"
        return DirectoryEntry(path, name, stat.S_IFDIR, at.folder, failure=StreamError(ProblemKind.LIMIT, text))
    try:
        above.append(_open_folder(name, f"{path}/", at.folder))
    except OSError as error:
        return DirectoryEntry(path, name, 0, at.folder, failure=unreadable(error))
    return None


def _open_folder(name: str, prefix: str, inside: int | None) -> _Folder:
    """A directory below another, never by a link; the root may be one of the user's own links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC if inside is None else _SAFE | os.O_DIRECTORY
    folder = os.open(name, flags, dir_fd=inside)
    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, _file_type(entry)) for entry in entries)
    except OSError:
        os.close(folder)
        raise
    return _Folder(folder, prefix, iter(names))


def _file_type(entry: os.DirEntry[str]) -> int:
    """What the directory says that a name is; whoever opens it looks again."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFLNK if entry.is_symlink() else stat.S_IFSOCK


def _directory_name(at: _Folder, name: str, mode: int) -> DirectoryEntry:
    path = at.prefix + _printable_name(name)
    if mode != stat.S_IFLNK:
        return DirectoryEntry(path, name, mode, at.folder)
    try:
        return DirectoryEntry(path, name, mode, at.folder, _printable_name(os.readlink(name, dir_fd=at.folder)))
    except OSError as error:
        return DirectoryEntry(path, name, 0, at.folder, failure=unreadable(error))


def _printable_name(name: str) -> str:
    return name if name.isprintable() else printable(os.fsencode(name))


def size_of(found: DirectoryEntry) -> int:
    """The size of a file that was found, as far as its directory entry leads to one."""
    try:
        return os.stat(found.name, dir_fd=found.folder, follow_symlinks=False).st_size
    except OSError:
        return 0


def open_regular(name: str | Path, folder: int | None = None) -> int:
    """A descriptor of a regular file; raises StreamError for what cannot be opened or is of another kind."""
    try:
        opened = os.open(name, _SAFE, dir_fd=folder)
    except OSError as error:
        raise unreadable(error) from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise StreamError(ProblemKind.REFUSED, "is not a regular file")
    return opened


def unreadable(error: OSError) -> StreamError:
    return StreamError(ProblemKind.UNREADABLE, f"cannot be read: {error.strerror or type(error).__name__}")
