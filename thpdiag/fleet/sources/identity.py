"""By what a bundle is known again wherever it lies: the SHA-256 of its content.

Of a file it is that of its bytes, as sha256sum says it. Of a folder it is that of a list, one record per name in sorted
order: the path, what it is, its size, the SHA-256 of its content; of a link where it points. Times, owners, rights and
empty folders do not count, so an unpacked bundle is the same after a copy.

Blind: no byte is looked at. Nothing is opened through a link, nothing is read but regular files, and no more than
a file had when it was opened. In a folder pieces of a file that are all zeros do not count either, whether the disk has
them or not: an old `lastlog` claims hundreds of gigabytes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from thpdiag.bundle.limits import GIB, MIB, Limits, StreamError
from thpdiag.bundle.tree import DirectoryEntry, open_regular, walk
from thpdiag.fleet.sources.item import UnreadError

_PIECE_BYTES: Final = MIB
_READ_BYTES: Final = 64 << 10  # of a file; larger ones would be new memory of a process that forks, each time
_MAX_UNSIZED_BYTES: Final = 64 * MIB  # read of a file that says it is empty, as those of /proc do
_DEFAULTS: Final = Limits()


class Identity(NamedTuple):
    """`size` in bytes: of a folder what its files claim to hold."""

    sha256: str
    size: int


def identity(place: Path, limits: Limits = _DEFAULTS) -> Identity:
    """Of a file or a folder; raises UnreadError for what cannot be read or is more than the limits allow."""
    try:
        if stat.S_ISDIR(place.lstat().st_mode):
            return _identity_of_folder(place, limits)
        opened = open_regular(place)
    except OSError as error:
        raise UnreadError(f"cannot be read: {error.strerror}") from error
    except StreamError as failure:
        raise UnreadError(failure.text) from failure
    digest, read = sha256(), 0
    try:
        size = os.fstat(opened).st_size
        _check_total(size, limits)
        while data := os.read(opened, min(_READ_BYTES, (size or _MAX_UNSIZED_BYTES) - read)):
            digest.update(data)
            read += len(data)
    except OSError as error:
        raise UnreadError(f"reading failed: {error.strerror}") from error
    finally:
        os.close(opened)
    return Identity(digest.hexdigest(), read)


def _identity_of_folder(root: Path, limits: Limits) -> Identity:
    digest, total, read = sha256(), 0, 0
    for number, entry in enumerate(walk(root, limits), 1):
        if entry.failure and not entry.path:
            raise UnreadError(entry.failure.text)
        if number > limits.members:
            raise UnreadError(f"holds more than {limits.members} files (limit members)")
        kind, size, content = b"u", 0, b""  # what cannot be read
        if stat.S_ISLNK(entry.mode) and not entry.failure:
            kind, content = b"l", entry.target.encode("utf-8", "surrogateescape")
        elif not stat.S_ISREG(entry.mode) and not entry.failure:
            kind = b"s"
        elif not entry.failure:
            with suppress(StreamError, OSError):
                size, content, read = _content_of_file(entry, read, limits)
                kind = b"f"
        name = entry.path.encode("utf-8", "surrogateescape") + b"\0" + os.fsencode(entry.name)
        digest.update(b"%d %s %s %d %d " % (len(name), name, kind, size, len(content)))
        digest.update(content)
        total += size
    return Identity(digest.hexdigest(), total)


def _content_of_file(entry: DirectoryEntry, read: int, limits: Limits) -> tuple[int, bytes, int]:
    """Size and SHA-256 of a file, over its pieces with their places; and how many bytes of the folder are read then."""
    opened = open_regular(entry.name, entry.folder)
    try:
        status = os.fstat(opened)
        digest, end = sha256(), 0
        holes = status.st_blocks * 512 < status.st_size
        for at, piece in _pieces(opened, status.st_size or _MAX_UNSIZED_BYTES, holes=holes):
            read += len(piece)
            _check_total(read, limits)
            end = at + len(piece)
            if piece.strip(b"\0"):
                digest.update(b"%d " % at)
                digest.update(piece)
        return max(end, status.st_size), digest.digest(), read
    finally:
        os.close(opened)


def _pieces(opened: int, size: int, *, holes: bool) -> Iterator[tuple[int, bytes]]:
    """The pieces of a file with their places; those that lie in a hole are left out if the system knows of it."""
    at = 0
    while at < size:
        if holes:
            try:
                at = os.lseek(opened, at, os.SEEK_DATA)
            except OSError as error:
                at = size if error.errno == errno.ENXIO else at  # nothing but a hole is left; or nobody knows
            at = at // _PIECE_BYTES * _PIECE_BYTES
        piece = os.pread(opened, min(_PIECE_BYTES, size - at), at)
        if not piece:
            return
        yield at, piece
        at += len(piece)


def _check_total(size: int, limits: Limits) -> None:
    if size > limits.total_bytes:
        raise UnreadError(f"holds more than {limits.total_bytes // GIB} GiB (limit total_bytes)")
