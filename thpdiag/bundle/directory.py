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


def walk(root: Path, limits: Limits) -> Iterator[Found]:
    """Everything below `root` but directories, in sorted order."""
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        yield Found("", "", 0, -1, failure=cannot(error))
        return
    yield from _listed(folder, "", limits, 1)


def _listed(folder: int, prefix: str, limits: Limits, depth: int) -> Iterator[Found]:
    """Closes `folder` at the end."""
    try:
        for name in sorted(os.listdir(folder)):
            try:
                yield from _one(folder, name, prefix + printable(os.fsencode(name)), limits, depth)
            except OSError as error:
                yield Found(prefix + printable(os.fsencode(name)), name, 0, folder, failure=cannot(error))
    except OSError as error:
        yield Found(prefix.rstrip("/"), "", 0, folder, failure=cannot(error))
    finally:
        os.close(folder)


def _one(folder: int, name: str, path: str, limits: Limits, depth: int) -> Iterator[Found]:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        if depth >= limits.directory_depth or len(path) > limits.name:
            text = f"directories deeper than {limits.directory_depth} were not read (limit directory_depth)"
            yield Found(path, name, mode, folder, failure=StreamError(ProblemKind.LIMIT, text))
            return
        yield from _listed(os.open(name, _SAFE | os.O_DIRECTORY, dir_fd=folder), f"{path}/", limits, depth + 1)
        return
    target = printable(os.fsencode(os.readlink(name, dir_fd=folder))) if stat.S_ISLNK(mode) else ""
    yield Found(path, name, mode, folder, target)


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
