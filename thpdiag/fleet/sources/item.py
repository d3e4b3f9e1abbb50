"""One bundle of a work list: where it is, what results call it, what its name says, and by what it is known again.

What a name says of a file: that it is an archive, or that it belongs to another file beside it and is no bundle.

- checksums and signatures belong to their archive, and lists of them to all archives of the folder, as do the README,
  the licence, the list of a web server (`index.html`) and `version.txt`, the number of a build;
- `NAME.tar.bz2` belongs to the file `NAME` if that is called as a recording is (`perf.data`, `web1.data`, `web1.perf`):
  `perf archive` makes it, with the programs of the recording. Beside any other `NAME` it is a bundle by itself;
- `kallsyms` and `System.map` have the kernel's functions for a recording beside them;
- an archive of Performance Co-Pilot is `NAME.0`, `NAME.1` ..., `NAME.meta` and `NAME.index`, packed or not: the first
  stands for all.

A bundle is known again wherever it lies by the SHA-256 of its content. Of a file it is that of its bytes, as sha256sum
says it. Of a folder it is that of a list, one record per name in sorted order: the path, what it is, its size, the
SHA-256 of its content; of a link where it points. Times, owners, rights and empty folders do not count, so an unpacked
bundle is the same after a copy. No byte is looked at, nothing is opened through a link, nothing is read but regular
files, and no more than a file had when it was opened. In a folder pieces of a file that are all zeros do not count
either, whether the disk has them or not: an old `lastlog` claims hundreds of gigabytes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from thpdiag.bundle.limits import GIB, MIB, Limits, StreamError
from thpdiag.bundle.magic import named_as_archive
from thpdiag.bundle.tree import DirectoryEntry, open_regular, walk
from thpdiag.errors import InputError

MAX_FOLDER_DEPTH: Final = 32  # folders in folders that are looked into; a bundle itself is not
TOO_DEEP: Final = f"lies in more than {MAX_FOLDER_DEPTH} folders and was not read"
_HARMFUL: Final = re.compile(r"[^A-Za-z0-9._-]|^[.-]+")
_MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class BundleItem:
    """`place` is a path of this machine or an address (`s3://bucket/key`), `label` its name in results.

    `label` is relative to what the user named (`nightly/web1.tar.xz`), of an archive in an archive with that one's name
    before it (`collect.tar/web1.tar.xz`). `size` in bytes is what the order goes by, 0 if it is not known before.
    `refused` says why the bundle is not read at all: a fifo, a device, a broken link.
    """

    place: str
    label: str
    size: int = 0
    refused: str = ""


class UnreadError(InputError):
    """The message says why, without where; a batch takes it for the reason of the bundle and goes on."""


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if that is needed to be none of those taken."""
    number, unused = 2, name
    while unused in taken:
        unused = f"{name}.{number}"
        number += 1
    return unused


def safe_name(name: str) -> str:
    """What of a name may be that of a file here: letters, digits, `.`, `_` and `-`, the last 120 of them."""
    return _HARMFUL.sub("_", name)[-_MAX_NAME_CHARS:]


def describe_error(error: OSError) -> str:
    """Why a name cannot be read."""
    return f"cannot be read: {error.strerror or type(error).__name__}"


_SUM: Final = re.compile(r"\.(?:md5|sha1|sha224|sha256|sha384|sha512|b2|asc|sig|sign|minisig)(?:sums?)?$", re.I)
_SUMS: Final = re.compile(r"(?:md5|sha\d+|b2)[-_]?sums?(?:\.(?:txt|asc|sig|gpg))?|checksums?(?:\.txt)?", re.I)
_NOTES: Final = re.compile(r"(?:read[-_.]?me|licen[cs]e|index)(?:\.(?:txt|md|rst|html?))?", re.I)
_NUMBER: Final = "version.txt"  # where it is the mark of a host, the folder is one bundle and nobody asks for more
_CLOSED: Final = re.compile(r"\.(?:gpg|pgp|asc)$", re.I)
_UNREAD: Final = re.compile(r"\.(?:7z|rar|cpio)$", re.I)
_SUFFIXES: Final = ("", ".gz", ".bz2", ".xz", ".zst", ".lzma")
_PACKED: Final = r"(?:\.(?:gz|bz2|xz|zst|lzma))?"
_OF_PERF: Final = re.compile(r"(.+)\.(?:tar(?:\.(?:gz|bz2|xz|zst))?|tgz|tbz2?|txz)", re.S)
_RECORDING: Final = re.compile(r"(?:.*[._-])?perf\.data(?:[._-].*)?|.+\.data(?:\.(?:old|\d+))?|.+\.perf", re.S | re.I)
_SYMBOLS: Final = re.compile(rf"(?:(?:proc[._-])?kallsyms(?:[.-][\w.+~-]*)?|System\.map(?:-[^/]*)?){_PACKED}")
_OF_PCP: Final = re.compile(rf"(.+)\.(?:meta|index|[1-9]\d{{0,4}}){_PACKED}", re.S)


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive, be it one that cannot be read: encrypted, or of a kind not opened."""
    if _SUM.search(name) and not _CLOSED.search(name):
        return False
    return named_as_archive(_CLOSED.sub("", name)) or bool(_UNREAD.search(name))


def is_checksum(name: str, files: Collection[str]) -> bool:
    """Whether a name is that of the checksum or signature of an archive among these files."""
    stem, found = _SUM.subn("", name)
    return bool(found) and stem in files and is_archive(stem)


def is_list_of_checksums(name: str) -> bool:
    """Whether a name is as that of SHA256SUMS."""
    return bool(_SUMS.fullmatch(name))


def is_for_readers(name: str) -> bool:
    """Whether a name is that of a README, a licence or a web server's list: what stands beside bundles for people."""
    return bool(_NOTES.fullmatch(name))


def is_recording(name: str) -> bool:
    """Whether a name, or the last part of a path, is one that people give to what perf recorded."""
    return bool(_RECORDING.fullmatch(name.rpartition("/")[2])) and not is_archive(name)


def is_of_recording(name: str, files: Collection[str]) -> bool:
    """Whether a name is that of what `perf archive` makes of a file among these."""
    found = _OF_PERF.fullmatch(name)
    return found is not None and found[1] in files and is_recording(found[1])


def companion_test(files: Collection[str]) -> Callable[[str], bool]:
    """Whether a name belongs to another file of one folder, which has these files."""
    archives = any(is_archive(name) and not is_of_recording(name, files) for name in files)
    others = any(
        not (is_archive(name) or is_list_of_checksums(name) or is_for_readers(name) or _SYMBOLS.fullmatch(name))
        for name in files
    )

    def _companion(name: str) -> bool:
        if is_checksum(name, files) or is_of_recording(name, files):
            return True
        if found := _OF_PCP.fullmatch(name):
            needed = ([f"{found[1]}.{part}{packed}" for packed in _SUFFIXES] for part in ("0", "meta"))
            if all(any(other in files for other in others) for others in needed):
                return True
        if archives and (is_list_of_checksums(name) or is_for_readers(name) or name == _NUMBER):
            return True
        return bool(others and _SYMBOLS.fullmatch(name))

    return _companion


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
