"""One bundle of a list: its place, its label in results, the classification of its name, and its digest.

File names are classified as archives, or as companions of another file of the same folder, which are no bundles:

- checksums and signatures belong to their archive; lists of checksums, README, licence, the index of a web server
  (`index.html`) and `version.txt` (a build number) belong to all archives of the folder;
- `NAME.tar.bz2` belongs to the file `NAME` if that has the name of a recording (`perf.data`, `web1.data`, `web1.perf`):
  `perf archive` creates it, with the programs of the recording. For any other `NAME` it is a bundle of its own;
- `kallsyms` and `System.map` have the kernel symbols for a recording in the same folder;
- an archive of Performance Co-Pilot is `NAME.0`, `NAME.1` ..., `NAME.meta` and `NAME.index`, compressed or not: the
  first file represents all.

The SHA-256 of its content identifies a bundle wherever it is. For a file it is the digest of its bytes, as printed by
sha256sum. For a folder it is the digest of a list with one record per name in sorted order: path, kind, size, SHA-256
of the content, or the target of a link. Times, owners, modes and empty folders do not count, so an unpacked bundle is
the same after a copy. The content is not parsed, links are not followed, only regular files are read, and only up to
their size at the time of opening. In a folder pieces of a file that are all zeros are skipped, whether they are holes
or not: an old `lastlog` has an apparent size of hundreds of gigabytes.
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

MAX_FOLDER_DEPTH: Final = 32  # levels of folders that are searched for bundles
TOO_DEEP: Final = f"lies in more than {MAX_FOLDER_DEPTH} folders and was not read"
_UNSAFE_CHARS: Final = re.compile(r"[^A-Za-z0-9._-]|^[.-]+")
_MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class BundleItem:
    """A bundle at `place`, a local path or an address (`s3://bucket/key`), with its name in results, the `label`.

    `label` is relative to what the user named (`nightly/web1.tar.xz`); that of an archive in an archive begins with the
    outer name (`collect.tar/web1.tar.xz`). `size` in bytes determines the order, 0 if unknown. `refused` is the reason
    why the bundle is not read at all: a fifo, a device, a broken link.
    """

    place: str
    label: str
    size: int = 0
    refused: str = ""


class UnreadError(InputError):
    """A bundle cannot be read. The message is the reason without the path; triage stores it and continues."""


def unused_name(name: str, taken: Container[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    number, unused = 2, name
    while unused in taken:
        unused = f"{name}.{number}"
        number += 1
    return unused


def safe_name(name: str) -> str:
    """Return a safe file name: unsafe characters become `_` (letters, digits, `.`, `_`, `-` stay), at most 120."""
    return _UNSAFE_CHARS.sub("_", name)[-_MAX_NAME_CHARS:]


def describe_error(error: OSError) -> str:
    """Return the reason why a name cannot be read."""
    return f"cannot be read: {error.strerror or type(error).__name__}"


_CHECKSUM_SUFFIX: Final = re.compile(
    r"\.(?:md5|sha1|sha224|sha256|sha384|sha512|b2|asc|sig|sign|minisig)(?:sums?)?$", re.I
)
_CHECKSUM_LIST: Final = re.compile(r"(?:md5|sha\d+|b2)[-_]?sums?(?:\.(?:txt|asc|sig|gpg))?|checksums?(?:\.txt)?", re.I)
_README: Final = re.compile(r"(?:read[-_.]?me|licen[cs]e|index)(?:\.(?:txt|md|rst|html?))?", re.I)
_BUILD_NUMBER: Final = "version.txt"  # a folder of a host with this file is one bundle, whose companions do not matter
_ENCRYPTED_SUFFIX: Final = re.compile(r"\.(?:gpg|pgp|asc)$", re.I)
_UNSUPPORTED_SUFFIX: Final = re.compile(r"\.(?:7z|rar|cpio)$", re.I)
_COMPRESSED_SUFFIXES: Final = ("", ".gz", ".bz2", ".xz", ".zst", ".lzma")
_COMPRESSED: Final = r"(?:\.(?:gz|bz2|xz|zst|lzma))?"
_PERF_ARCHIVE: Final = re.compile(r"(.+)\.(?:tar(?:\.(?:gz|bz2|xz|zst))?|tgz|tbz2?|txz)", re.S)
_RECORDING: Final = re.compile(r"(?:.*[._-])?perf\.data(?:[._-].*)?|.+\.data(?:\.(?:old|\d+))?|.+\.perf", re.S | re.I)
_SYMBOLS: Final = re.compile(rf"(?:(?:proc[._-])?kallsyms(?:[.-][\w.+~-]*)?|System\.map(?:-[^/]*)?){_COMPRESSED}")
_PCP_COMPANION: Final = re.compile(rf"(.+)\.(?:meta|index|[1-9]\d{{0,4}}){_COMPRESSED}", re.S)


def is_archive(name: str) -> bool:
    """Whether the name is that of an archive, including encrypted archives and unsupported formats."""
    if _CHECKSUM_SUFFIX.search(name) and not _ENCRYPTED_SUFFIX.search(name):
        return False
    return named_as_archive(_ENCRYPTED_SUFFIX.sub("", name)) or bool(_UNSUPPORTED_SUFFIX.search(name))


def is_checksum(name: str, files: Collection[str]) -> bool:
    """Whether this is the checksum or signature of an archive among the files."""
    stem, count = _CHECKSUM_SUFFIX.subn("", name)
    return bool(count) and stem in files and is_archive(stem)


def is_list_of_checksums(name: str) -> bool:
    """Whether this is the name of a list of checksums, such as SHA256SUMS."""
    return bool(_CHECKSUM_LIST.fullmatch(name))


def is_readme(name: str) -> bool:
    """Whether this is the name of a README, a licence or the index of a web server."""
    return bool(_README.fullmatch(name))


def is_recording(name: str) -> bool:
    """Whether a name, or the last part of a path, is a usual name of a perf recording."""
    return bool(_RECORDING.fullmatch(name.rpartition("/")[2])) and not is_archive(name)


def is_of_recording(name: str, files: Collection[str]) -> bool:
    """Whether this is the output of `perf archive` for a recording among the files."""
    match = _PERF_ARCHIVE.fullmatch(name)
    return match is not None and match[1] in files and is_recording(match[1])


def companion_test(files: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a name is a companion of another file of its folder."""
    archives = any(is_archive(name) and not is_of_recording(name, files) for name in files)
    others = any(
        not (is_archive(name) or is_list_of_checksums(name) or is_readme(name) or _SYMBOLS.fullmatch(name))
        for name in files
    )

    def is_companion(name: str) -> bool:
        if is_checksum(name, files) or is_of_recording(name, files):
            return True
        if match := _PCP_COMPANION.fullmatch(name):
            required = ([f"{match[1]}.{part}{suffix}" for suffix in _COMPRESSED_SUFFIXES] for part in ("0", "meta"))
            if all(any(file in files for file in variants) for variants in required):
                return True
        if archives and (is_list_of_checksums(name) or is_readme(name) or name == _BUILD_NUMBER):
            return True
        return bool(others and _SYMBOLS.fullmatch(name))

    return is_companion


_PIECE_BYTES: Final = MIB
_READ_BYTES: Final = 64 << 10  # larger buffers would be allocated anew each time, in a process that forks
_MAX_UNSIZED_BYTES: Final = 64 * MIB  # read from a file with size 0, as files in /proc have
_DEFAULT_LIMITS: Final = Limits()


class Identity(NamedTuple):
    """Digest and size of a bundle; for a folder the sum of the apparent sizes of its files."""

    sha256: str
    size: int


def identity(place: Path, limits: Limits = _DEFAULT_LIMITS) -> Identity:
    """Return the identity of a file or folder. Raises UnreadError if it is unreadable or exceeds the limits."""
    try:
        if stat.S_ISDIR(place.lstat().st_mode):
            return _identity_of_folder(place, limits)
        file = open_regular(place)
    except OSError as error:
        raise UnreadError(f"cannot be read: {error.strerror}") from error
    except StreamError as failure:
        raise UnreadError(failure.text) from failure
    digest, read = sha256(), 0
    try:
        size = os.fstat(file).st_size
        _check_total(size, limits)
        while data := os.read(file, min(_READ_BYTES, (size or _MAX_UNSIZED_BYTES) - read)):
            digest.update(data)
            read += len(data)
    except OSError as error:
        raise UnreadError(f"reading failed: {error.strerror}") from error
    finally:
        os.close(file)
    return Identity(digest.hexdigest(), read)


def _identity_of_folder(root: Path, limits: Limits) -> Identity:
    digest, total, read = sha256(), 0, 0
    for number, entry in enumerate(walk(root, limits), 1):
        if entry.failure and not entry.path:
            raise UnreadError(entry.failure.text)
        if number > limits.members:
            raise UnreadError(f"holds more than {limits.members} files (limit members)")
        kind, size, content = b"u", 0, b""  # unreadable
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
    """Return size and SHA-256 (over pieces and their offsets) of a file, and the bytes of the folder read so far."""
    file = open_regular(entry.name, entry.folder)
    try:
        status = os.fstat(file)
        digest, end = sha256(), 0
        has_holes = status.st_blocks * 512 < status.st_size
        for offset, piece in _pieces(file, status.st_size or _MAX_UNSIZED_BYTES, has_holes=has_holes):
            read += len(piece)
            _check_total(read, limits)
            end = offset + len(piece)
            if piece.strip(b"\0"):
                digest.update(b"%d " % offset)
                digest.update(piece)
        return max(end, status.st_size), digest.digest(), read
    finally:
        os.close(file)


def _pieces(file: int, size: int, *, has_holes: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a file with their offsets, without holes where the file system supports SEEK_DATA."""
    offset = 0
    while offset < size:
        if has_holes:
            try:
                offset = os.lseek(file, offset, os.SEEK_DATA)
            except OSError as error:  # ENXIO: only a hole is left; any other: not supported
                offset = size if error.errno == errno.ENXIO else offset
            offset = offset // _PIECE_BYTES * _PIECE_BYTES
        piece = os.pread(file, min(_PIECE_BYTES, size - offset), offset)
        if not piece:
            return
        yield offset, piece
        offset += len(piece)


def _check_total(size: int, limits: Limits) -> None:
    if size > limits.total_bytes:
        raise UnreadError(f"holds more than {limits.total_bytes // GIB} GiB (limit total_bytes)")
