"""By what a bundle is known again wherever it lies: the SHA-256 of its content.

Of a file it is that of its bytes, as sha256sum says it. Of a folder it is that of a list, one record per name in sorted
order: the path, what it is, its size, the SHA-256 of its content; of a link where it points. Times, owners, rights and
empty folders do not count, so an unpacked bundle is the same after a copy.

Blind: no byte is looked at. Nothing is opened through a link, nothing is read that is no regular file, and no more than
a file had when it was opened. In a folder pieces of a file that are all zeros do not count either, whether the disk has
them or not: an old `lastlog` claims hundreds of gigabytes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from thpdiag.bundle.directory import Found, open_regular, walk
from thpdiag.bundle.failure import StreamError
from thpdiag.bundle.limits import GIB, MIB, Limits
from thpdiag.triage.worklist.unread import UnreadError

_PIECE: Final = MIB
_READ: Final = 64 << 10  # of a file; larger ones would be new memory of a process that forks, each time
_UNSIZED: Final = 64 * MIB  # read of a file that says it is empty, as those of /proc do
_DEFAULTS: Final = Limits()


class Identity(NamedTuple):
    """`size` in bytes: of a folder what its files claim to hold."""

    sha256: str
    size: int


def identity(place: Path, limits: Limits = _DEFAULTS) -> Identity:
    """Of a file or a folder; raises UnreadError for what cannot be read or is more than the limits allow."""
    try:
        if stat.S_ISDIR(place.lstat().st_mode):
            return _of_folder(place, limits)
        opened = open_regular(place)
    except OSError as error:
        raise UnreadError(f"cannot be read: {error.strerror}") from error
    except StreamError as failure:
        raise UnreadError(failure.text) from failure
    try:
        return _of_file(opened, limits)
    except OSError as error:
        raise UnreadError(f"reading failed: {error.strerror}") from error
    finally:
        os.close(opened)


def _of_file(opened: int, limits: Limits) -> Identity:
    digest, read = sha256(), 0
    size = os.fstat(opened).st_size
    if size > limits.total_bytes:
        raise _too_large(limits)
    while data := os.read(opened, min(_READ, (size or _UNSIZED) - read)):
        digest.update(data)
        read += len(data)
    return Identity(digest.hexdigest(), read)


def _of_folder(root: Path, limits: Limits) -> Identity:
    digest, budget, total = sha256(), _Budget(limits), 0
    for found in walk(root, limits):
        if found.failure and not found.path:
            raise UnreadError(found.failure.text)
        budget.met()
        kind, size, content = _known(found, budget)
        name = found.path.encode("utf-8", "surrogateescape") + b"\0" + os.fsencode(found.name)
        digest.update(b"%d %s %s %d %d " % (len(name), name, kind, size, len(content)))
        digest.update(content)
        total += size
    return Identity(digest.hexdigest(), total)


class _Budget:
    """What a folder may still hold."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._names = 0
        self._bytes = 0

    def met(self) -> None:
        self._names += 1
        if self._names > self._limits.members:
            raise UnreadError(f"holds more than {self._limits.members} files (limit members)")

    def took(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.total_bytes:
            raise _too_large(self._limits)


def _known(found: Found, budget: _Budget) -> tuple[bytes, int, bytes]:
    """What a name of a folder is (file, link, special, unreadable), its size, and by what its content is known."""
    if found.failure:
        return b"u", 0, b""
    if stat.S_ISLNK(found.mode):
        return b"l", 0, found.target.encode("utf-8", "surrogateescape")
    if not stat.S_ISREG(found.mode):
        return b"s", 0, b""
    try:
        opened = open_regular(found.name, found.folder)
    except StreamError:
        return b"u", 0, b""
    try:
        return b"f", *_content(opened, budget)
    except OSError:
        return b"u", 0, b""
    finally:
        os.close(opened)


def _content(opened: int, budget: _Budget) -> tuple[int, bytes]:
    """Size and SHA-256 of a file, over its pieces with their places."""
    status = os.fstat(opened)
    digest, end = sha256(), 0
    holes = status.st_blocks * 512 < status.st_size
    for at, piece in _pieces(opened, status.st_size or _UNSIZED, holes=holes):
        budget.took(len(piece))
        end = at + len(piece)
        if piece.strip(b"\0"):
            digest.update(b"%d " % at)
            digest.update(piece)
    return max(end, status.st_size), digest.digest()


def _pieces(opened: int, size: int, *, holes: bool) -> Iterator[tuple[int, bytes]]:
    """The pieces of a file with their places; those that lie in a hole are left out if the system knows of it."""
    at = 0
    while at < size:
        if holes:
            at = _data(opened, at, size) // _PIECE * _PIECE
        piece = os.pread(opened, min(_PIECE, size - at), at)
        if not piece:
            return
        yield at, piece
        at += len(piece)


def _data(opened: int, at: int, size: int) -> int:
    """Where data begin from here on; the end if there are none."""
    try:
        return os.lseek(opened, at, os.SEEK_DATA)
    except OSError as error:
        return size if error.errno == errno.ENXIO else at  # nothing but a hole is left; or nobody knows


def _too_large(limits: Limits) -> UnreadError:
    return UnreadError(f"holds more than {limits.total_bytes // GIB} GiB (limit total_bytes)")
