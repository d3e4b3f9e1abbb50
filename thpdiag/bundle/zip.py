"""Zip archives by their central directory (APPNOTE 6.3.10), one record at a time.

The central directory at the end of the file is authoritative; local headers are used only to find the data. `zipfile`
is not used because it creates all million records of a hostile archive at once, and unpacks bzip2 and LZMA entries
without a limit. Stored, deflated, bzip2 and zstd entries are read.

If the central directory is missing, as after an aborted upload, members are read by their local headers: these have the
size unless the packer did not know it yet, and deflated data mark their own end. Local headers do not distinguish links
from files, and still have members that were deleted from the directory, so this is the last resort.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import SEEK_END
from struct import Struct
from typing import BinaryIO

from thpdiag.bundle.codecs import CHUNK, Stream, decompress, inflate
from thpdiag.bundle.limits import Budget, StreamError, corruption, damage
from thpdiag.bundle.magic import SNIFF, is_packed
from thpdiag.bundle.tree import Entry, EntryKind, canonical_path, printable
from thpdiag.model import ProblemKind

_END = Struct("<4s4H2LH")
_END64_PLACE = Struct("<4sLQL")
_END64 = Struct("<4sQ2H2L4Q")
_RECORD = Struct("<4s6H3L5H2L")
_LOCAL = Struct("<4s5H3L2H")
_MAX_COMMENT_BYTES = 65_535
_FULL = 0xFFFFFFFF
_UTF8, _ENCRYPTED, _SIZES_LATER = 0x800, 0x1, 0x8
_UNIX = 3  # system on which an entry was created
_STORED, _DEFLATED = 0, 8
_CODECS = {12: "bzip2", 93: "zstd"}


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """A record of the central directory."""

    name: str
    method: int
    flags: int
    crc: int
    packed: int  # size of the compressed data
    size: int
    start: int  # offset of the local header
    mode: int  # Unix mode, 0 if unknown
    raw_name: bytes

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_special(self) -> bool:
        return stat.S_IFMT(self.mode) not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}


@dataclass(frozen=True, slots=True)
class ZipFile:
    """A zip archive in a seekable file."""

    file: BinaryIO
    budget: Budget
    directory: int  # offset of the central directory
    directory_end: int
    first: int  # offset of the archive, which other bytes may precede
    count: int  # of records, modulo 65,536

    def entries(self) -> Iterator[ZipEntry]:
        """Yield the records; raise StreamError if the directory is damaged."""
        offset, count = self.directory, 0
        while offset < self.directory_end:
            fixed = self._read(offset, _RECORD.size)
            if len(fixed) < _RECORD.size or not fixed.startswith(b"PK\x01\x02"):
                raise damage(f"the list of members of the zip is damaged at offset {offset}")
            fields = _RECORD.unpack(fixed)
            variable = self._read(offset + _RECORD.size, sum(fields[10:13]))
            yield self._entry(fields, variable)
            offset += _RECORD.size + sum(fields[10:13])
            count += 1
        if count & 0xFFFF != self.count & 0xFFFF:
            raise damage("the list of members of the zip does not have the length it should have")

    def _entry(self, fields: tuple[int, ...], variable: bytes) -> ZipEntry:
        made_by, _, flags, method, _, _, crc, packed, size = fields[1:10]
        name = variable[: fields[10]]
        extra = variable[fields[10] : fields[10] + fields[11]]
        size, packed, start = _zip64(extra, (size, packed, fields[16]))
        mode = fields[15] >> 16 if made_by >> 8 == _UNIX else 0
        text = printable(name if flags & _UTF8 else _decode_legacy_name(name))
        if made_by >> 8 != _UNIX and "/" not in text:
            text = text.replace("\\", "/")  # some Windows packers
        return ZipEntry(text, method, flags, crc, packed, size, start + self.first, mode, name)

    def links(self, memory: int) -> Iterator[Entry]:
        """Yield the symbolic links. Their content is the target."""
        for entry in self.entries():
            self.budget.count_members(1)
            if entry.is_link and entry.size <= self.budget.limits.name:
                content = Stream(self.content(entry, memory)).take(self.budget.limits.name)
                yield Entry(canonical_path(entry.name)[0], EntryKind.SYMLINK, target=printable(content))

    def files(self, memory: int, interesting: Callable[[str, int], bool]) -> Iterator[Entry]:
        """Yield the files that are interesting or packed, and special files."""
        for entry in self.entries():
            path, form = canonical_path(entry.name)
            if entry.is_special:
                yield Entry(path, EntryKind.SPECIAL)
            elif path and not entry.is_link and not entry.name.endswith("/"):
                wanted = interesting(path, entry.size)
                head = b"" if wanted else self._head(entry)
                wanted = wanted or head is None  # its true name is unknown: report it instead of skipping it
                if wanted or is_packed(head or b""):
                    content = self.content(entry, memory)
                    yield Entry(path, EntryKind.FILE, entry.size, content, form=form, wanted=wanted)

    def _head(self, entry: ZipEntry) -> bytes | None:
        """Return the first bytes of a member; empty if they are invalid, None if its header is damaged."""
        try:
            raw = self._read(self._data_offset(entry), 2 * SNIFF)
        except StreamError:
            return None
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, SNIFF) if entry.method == _DEFLATED else raw
        except zlib.error:
            return b""

    def content(self, entry: ZipEntry, memory: int) -> Iterator[bytes]:
        """Yield the bytes of a member; raise StreamError at its end if they are damaged."""
        crc, size = 0, 0
        for chunk in self._decompress(entry, memory):
            crc = zlib.crc32(chunk, crc)
            size += len(chunk)
            if size > entry.size:
                raise corruption("holds more than the zip declares")
            yield chunk
        if size < entry.size or crc != entry.crc:
            raise corruption("does not match its checksum in the zip")

    def _decompress(self, entry: ZipEntry, memory: int) -> Iterator[bytes]:
        if entry.flags & _ENCRYPTED:
            raise StreamError(ProblemKind.UNREADABLE, "is encrypted with a password")
        if entry.method not in {_STORED, _DEFLATED, *_CODECS}:
            raise StreamError(ProblemKind.UNREADABLE, f"is compressed by zip method {entry.method}, which is not read")
        packed = Stream(self._raw(self._data_offset(entry), entry.packed))
        if entry.method in _CODECS:
            yield from decompress(_CODECS[entry.method], packed, memory, self.budget)
        else:
            yield from self.budget.counted(packed.chunks() if entry.method == _STORED else inflate(packed))

    def _data_offset(self, entry: ZipEntry) -> int:
        local = self._read(entry.start, _LOCAL.size)
        if len(local) < _LOCAL.size or not local.startswith(b"PK\x03\x04"):
            raise damage(f"has no header at offset {entry.start} of the zip")
        name, extra = _LOCAL.unpack(local)[-2:]
        if self._read(entry.start + _LOCAL.size, name) != entry.raw_name:
            raise damage("has another name in its own header than in the list of the zip")
        return int(entry.start + _LOCAL.size + name + extra)

    def _raw(self, start: int, size: int) -> Iterator[bytes]:
        while size > 0 and (data := self._read(start, min(size, CHUNK))):
            self.budget.count_input(len(data))
            yield data
            start += len(data)
            size -= len(data)

    def _read(self, offset: int, size: int) -> bytes:
        try:
            self.file.seek(offset)
            return self.file.read(size)
        except (OSError, ValueError, OverflowError) as error:
            raise damage(f"cannot be read at offset {offset}") from error


def open_zip(file: BinaryIO, budget: Budget) -> ZipFile:
    """Find the central directory; raise StreamError if there is none."""
    try:
        length = file.seek(0, SEEK_END)
        tail_offset = max(length - _MAX_COMMENT_BYTES - _END.size, 0)
        file.seek(tail_offset)
        tail = file.read()
    except OSError as error:
        raise StreamError(ProblemKind.UNREADABLE, f"cannot be read: {error.strerror}") from error
    start = tail.rfind(b"PK\x05\x06")
    if start < 0 or len(tail) - start < _END.size:
        raise damage("the list of members at the end of the zip is missing; the file is cut or damaged")
    end = tail_offset + start
    count, size, offset = _END.unpack_from(tail, start)[4:7]
    before = tail[max(start - _END64_PLACE.size, 0) : start]
    if before.startswith(b"PK\x06\x07"):
        count, size, offset, end = _end64(file, _END64_PLACE.unpack(before)[2], end)
    directory = end - size
    if directory < 0 or offset > directory:
        raise damage("the list of members at the end of the zip is damaged")
    return ZipFile(file, budget, directory, end, directory - offset, count)


def _end64(file: BinaryIO, start: int, end: int) -> tuple[int, int, int, int]:
    if start > end:
        raise damage("the list of members at the end of the zip is damaged")
    file.seek(start)
    record = file.read(_END64.size)
    if len(record) < _END64.size or not record.startswith(b"PK\x06\x06"):
        raise damage("the list of members at the end of the zip is damaged")
    count, size, offset = _END64.unpack(record)[7:10]
    return count, size, offset, start


def _zip64(extra: bytes, values: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return sizes and offset; those with all bits set in the record are in an extra field with 64 bits."""
    wide = b""
    while len(extra) >= 4:
        kind, length = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if kind == 1:
            wide = extra[4 : 4 + length]
        extra = extra[4 + length :]
    results = list(values)
    for index, value in enumerate(values):
        if value == _FULL and len(wide) >= 8:
            results[index], wide = int.from_bytes(wide[:8], "little"), wide[8:]
    return results[0], results[1], results[2]


def _decode_legacy_name(name: bytes) -> bytes | str:
    """Decode a name without the UTF-8 flag: as UTF-8, which Unix packers write, or else by the DOS code page."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("cp437")


_MAX_DESCRIPTOR_BYTES = 24  # magic, checksum, two sizes of 64 bits


def cut_zip(stream: Stream, budget: Budget, interesting: Callable[[str, int], bool]) -> Iterator[Entry]:
    """Yield the files up to the end of a truncated zip, or up to a member whose end cannot be found."""
    while (local := stream.take(_LOCAL.size)).startswith(b"PK\x03\x04") and len(local) == _LOCAL.size:
        _, _, flags, method, _, _, _, packed, size, name_length, extra = _LOCAL.unpack(local)
        name = stream.take(name_length)
        stream.skip(extra)
        content = _local_content(stream, flags, method, packed, budget)
        if content is None or len(name) < name_length:
            return
        path, form = canonical_path(printable(name))
        budget.count_members(1)
        wanted = bool(path) and not name.endswith(b"/") and interesting(path, size or packed)
        if wanted:
            yield Entry(path, EntryKind.FILE, size, content, form=form, wanted=wanted)
        try:
            for _ in content:
                pass
        except StreamError:
            return
        if flags & _SIZES_LATER:
            stream.skip(max(stream.peek(_MAX_DESCRIPTOR_BYTES + 4).find(b"PK\x03\x04"), 0))


def _local_content(stream: Stream, flags: int, method: int, packed: int, budget: Budget) -> Iterator[bytes] | None:
    """Yield the bytes of the current member; return None if its end is unknown."""
    if flags & _ENCRYPTED or method not in {_STORED, _DEFLATED}:
        return None
    if method == _DEFLATED:
        return budget.counted(inflate(stream))
    return None if flags & _SIZES_LATER else budget.counted(stream.exactly(packed, "the zip"))
