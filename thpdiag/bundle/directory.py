"""A directory as the customer's files lie in it, on a host that is not theirs.

Names are listed by directory file descriptors, nothing is opened through a symbolic link, and what is opened must then
prove to be a regular file: a FIFO or a device would hang the reader, a link could lead to the analyst's own files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thpdiag.bundle.failure import StreamError
from thpdiag.bundle.limits import Limits
from thpdiag.bundle.names import printable
from thpdiag.model import ProblemKind

_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """A name in the tree: `mode` is its file type, `target` where a link points, `failure` why it cannot be read.

    `folder` is the descriptor of the directory it lies in, open until the next name is asked for.
    """

    path: str
    name: str
    mode: int
    folder: int
    target: str = ""
    failure: StreamError | None = None


@dataclass(frozen=True, slots=True)
class _Folder:
    """An open directory of which some names were given already."""

    folder: int
    prefix: str
    names: Iterator[tuple[str, int]]


def walk(root: Path, limits: Limits, only: int = 0) -> Iterator[Found]:
    """Everything below `root` but directories, in sorted order; of one kind (`stat.S_IFLNK`) if that is asked for.

    One loop for the whole tree, and the kinds of names as the directory has them: a sosreport has 80,000 files.
    """
    above: list[_Folder] = []
    try:
        try:
            above.append(_opened(str(root), "", None))
        except OSError as error:
            yield Found("", "", 0, -1, failure=cannot(error))
        while above:
            at = above[-1]
            name, mode = next(at.names, ("", 0))
            if not name:
                os.close(above.pop().folder)
            elif mode == stat.S_IFDIR:
                if failure := _enter(above, name, limits):
                    yield failure
            elif only in {0, mode}:
                yield _found(at, name, mode)
    finally:
        for left in above:
            os.close(left.folder)


def _enter(above: list[_Folder], name: str, limits: Limits) -> Found | None:
    """Goes into a directory, or says why not."""
    at, path = above[-1], above[-1].prefix + _shown(name)
    if len(above) >= limits.directory_depth or len(path) > limits.name:
        text = f"directories deeper than {limits.directory_depth} were not read (limit directory_depth)"
        return Found(path, name, stat.S_IFDIR, at.folder, failure=StreamError(ProblemKind.LIMIT, text))
    try:
        above.append(_opened(name, f"{path}/", at.folder))
    except OSError as error:
        return Found(path, name, 0, at.folder, failure=cannot(error))
    return None


def _opened(name: str, prefix: str, inside: int | None) -> _Folder:
    """A directory below another, never by a link; the root may be one of the user's own links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC if inside is None else _SAFE | os.O_DIRECTORY
    folder = os.open(name, flags, dir_fd=inside)
    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name, _kind(entry)) for entry in entries)
    except OSError:
        os.close(folder)
        raise
    return _Folder(folder, prefix, iter(names))


def _kind(entry: os.DirEntry[str]) -> int:
    """What the directory says that a name is; whoever opens it looks again."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFLNK if entry.is_symlink() else stat.S_IFSOCK


def _found(at: _Folder, name: str, mode: int) -> Found:
    path = at.prefix + _shown(name)
    if mode != stat.S_IFLNK:
        return Found(path, name, mode, at.folder)
    try:
        return Found(path, name, mode, at.folder, _shown(os.readlink(name, dir_fd=at.folder)))
    except OSError as error:
        return Found(path, name, 0, at.folder, failure=cannot(error))


def _shown(name: str) -> str:
    return name if name.isprintable() else printable(os.fsencode(name))


def size_of(found: Found) -> int:
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
        raise cannot(error) from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise StreamError(ProblemKind.REFUSED, "is no regular file")
    return opened


def cannot(error: OSError) -> StreamError:
    return StreamError(ProblemKind.UNREADABLE, f"cannot be read: {error.strerror or type(error).__name__}")
