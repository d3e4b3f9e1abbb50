"""Decompressors for gzip, bzip2, xz and zstd, selected by magic. All yield bounded chunks and charge the budget.

xz is the default of sos: preset 3, one stream, one block. Concatenated xz streams or bzip2 streams (pixz, pbzip2,
`cat a.xz b.xz`) are one file.

The gzip frame (RFC 1952) is parsed here and not by zlib, so that a wrong checksum loses no data: the inflated data are
yielded before the error is raised. Concatenated gzip members are one file, as in gzip itself.

The zstd decompressor has no limit on the output of one call: a block of 4 bytes can represent 128 KiB. The input is
therefore passed in pieces of 512 bytes, which limits the output of a call to 16 MiB. Concatenated frames are one file;
skippable frames are skipped.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from thpdiag.bundle.limits import Budget, StreamError, corruption, damage
from thpdiag.model import ProblemKind

CHUNK = 64 * 1024


class Stream:
    """A forward stream of bytes.

    If the source fails, all bytes before the failure are still returned, and `failure` is then set; it remains None at
    a normal end. `buffer` and `position` are public for the tar walker, which skips most members without a method call.
    """

    __slots__ = ("_base", "_source", "buffer", "failure", "position")

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source: Iterator[bytes] = iter(source)
        self._base = 0
        self.buffer = b""
        self.position = 0
        self.failure: StreamError | None = None

    @property
    def offset(self) -> int:
        """The number of bytes consumed since the start."""
        return self._base + self.position

    def fill(self, need: int) -> bool:
        """Fill the buffer with `need` bytes, and return whether the source had that many."""
        available = len(self.buffer) - self.position
        if available >= need:
            return True
        parts = [self.buffer[self.position :]] if available else []
        while available < need and (chunk := self._next()):
            parts.append(chunk)
            available += len(chunk)
        self._base += self.position
        self.buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        self.position = 0
        return available >= need

    def peek(self, size: int) -> bytes:
        self.fill(size)
        return self.buffer[self.position : self.position + size]

    def take(self, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        data = self.peek(size)
        self.position += len(data)
        return data

    def read(self, max_size: int = CHUNK) -> bytes:
        """Read some bytes, at most `max_size`; none at the end."""
        self.fill(1)
        data = self.buffer[self.position : self.position + max_size]
        self.position += len(data)
        return data

    def unread(self, size: int) -> None:
        """Put back the last `size` bytes of the last `read`."""
        self.position -= size

    def skip(self, size: int) -> int:
        """Skip `size` bytes and return how many there were."""
        left = size
        while left and self.fill(1):
            step = min(left, len(self.buffer) - self.position)
            self.position += step
            left -= step
        return size - left

    def skip_zeros(self) -> None:
        """Skip padding."""
        while data := self.read():
            if rest := data.lstrip(b"\0"):
                self.unread(len(rest))
                return

    def exactly(self, size: int, container: str) -> Iterator[bytes]:
        """Yield the next `size` bytes; raise StreamError that names `container` if there are fewer."""
        while size:
            data = self.read(min(size, CHUNK))
            if not data:
                raise self.failure or damage(f"{container} ends inside this member, {size} bytes are missing")
            size -= len(data)
            yield data

    def chunks(self) -> Iterator[bytes]:
        """Yield the rest of the stream; raise its failure at the end."""
        while data := self.read():
            yield data
        if self.failure:
            raise self.failure

    def _next(self) -> bytes:
        if self.failure:
            return b""
        try:
            return next((chunk for chunk in self._source if chunk), b"")
        except StreamError as failure:
            # Their frames would keep the decoder, megabytes in size, alive until the next garbage collection.
            failure.__context__ = failure.__cause__ = None
            self.failure = failure.with_traceback(None)
        return b""


GZIP_MAGIC = b"\x1f\x8b\x08"
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
_MAX_HEADER_STRING_BYTES = 64 * 1024  # of a file name or comment in a gzip header


def inflate(packed: Stream) -> Iterator[bytes]:
    """Yield decompressed raw deflate data; leaves the stream after its last byte."""
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    while not decoder.eof:
        data = packed.read()
        if not data:
            raise packed.failure or damage("compressed data end early")
        while not decoder.eof:
            before = decoder.copy()
            try:
                out = decoder.decompress(data, CHUNK)
            except zlib.error as error:
                yield from _decompress_until_error(before, data)
                raise corruption(f"compressed data are damaged at byte {packed.offset - len(data)} or later") from error
            yield out
            data = decoder.unconsumed_tail
            if not data and len(out) < CHUNK:
                break
    packed.unread(len(decoder.unused_data))


def _decompress_until_error(decoder: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Yield the output before an error. It is produced byte by byte, as zlib drops the output of a failing call."""
    valid = bytearray()
    try:
        while len(valid) < CHUNK and (out := decoder.decompress(data, 1)):
            valid += out
            data = decoder.unconsumed_tail
    except zlib.error:
        pass
    yield bytes(valid)


def gunzip(packed: Stream) -> Iterator[bytes]:
    while True:
        _gzip_header(packed)
        crc, size = 0, 0
        for out in inflate(packed):
            crc = zlib.crc32(out, crc)
            size += len(out)
            yield out
        trailer = packed.take(8)
        if len(trailer) < 8:
            raise packed.failure or damage("gzip data end early")
        if struct.unpack("<II", trailer) != (crc, size & 0xFFFFFFFF):
            raise corruption("gzip checksum does not match the data")
        packed.skip_zeros()
        if not packed.fill(1):
            if packed.failure:
                raise packed.failure
            return


def _gzip_header(packed: Stream) -> None:
    head = packed.take(10)
    if not head.startswith(GZIP_MAGIC):
        raise packed.failure or damage(f"bytes that are not gzip follow at byte {packed.offset - len(head)}")
    if len(head) < 10:
        raise _header_error(packed)
    flags = head[3]
    if flags & _FEXTRA:
        length = packed.take(2)
        if len(length) < 2 or packed.skip(int.from_bytes(length, "little")) < int.from_bytes(length, "little"):
            raise _header_error(packed)
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            end = packed.peek(_MAX_HEADER_STRING_BYTES).find(b"\0")
            if end < 0:
                raise _header_error(packed)
            packed.skip(end + 1)
    if flags & _FHCRC:
        packed.skip(2)


def _header_error(packed: Stream) -> StreamError:
    return packed.failure or damage("gzip header is cut or damaged")


_INPUT_BYTES = 512


def unzstd(packed: Stream, memory: int) -> Iterator[bytes]:
    while packed.fill(1):
        yield from _frame(packed, memory)
    if packed.failure:
        raise packed.failure


def _frame(packed: Stream, memory: int) -> Iterator[bytes]:
    import zstandard  # few bundles need it

    decoder = zstandard.ZstdDecompressor(max_window_size=memory).decompressobj()
    while not decoder.eof:
        data = packed.read(_INPUT_BYTES)
        if not data:
            raise packed.failure or damage("zstd data end early")
        try:
            out = decoder.decompress(data)
        except zstandard.ZstdError as error:
            raise _codec_error(error, "zstd", packed.offset, memory) from error
        for start in range(0, len(out), CHUNK):
            yield out[start : start + CHUNK]
    packed.unread(len(decoder.unused_data))


XZ_MAGIC = b"\xfd7zXZ\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
FIRST_BYTES = b"\x1f\xfdBP\x28" + bytes(range(0x50, 0x60))  # possible first bytes of compressed files and zips


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def codec_of(head: bytes) -> str:
    """Return `gzip`, `bzip2`, `xz`, `zstd`, or empty if it is not a compressed file."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(XZ_MAGIC):
        return "xz"
    if head.startswith(ZSTD_MAGIC) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50):
        return "zstd"
    if head.startswith(b"BZh") and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    return ""


def decompress(codec: str, packed: Stream, memory: int, budget: Budget) -> Iterator[bytes]:
    """Yield the decompressed bytes; raise StreamError at damage, after all valid bytes."""
    match codec:
        case "gzip":
            return budget.counted(gunzip(packed))
        case "zstd":
            return budget.counted(unzstd(packed, memory))
        case "xz":
            start = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=memory)
            return budget.counted(_streams(packed, start, "xz", memory))
    return budget.counted(_streams(packed, bz2.BZ2Decompressor, "bzip2", memory))


def _streams(packed: Stream, start: Callable[[], _Decoder], codec: str, memory: int) -> Iterator[bytes]:
    while packed.fill(1):
        yield from _one_stream(packed, start(), codec, memory)
        packed.skip_zeros()
    if packed.failure:
        raise packed.failure


def _one_stream(packed: Stream, decoder: _Decoder, codec: str, memory: int) -> Iterator[bytes]:
    data = b""
    while not decoder.eof:
        if decoder.needs_input:
            data = packed.read()
            if not data:
                raise packed.failure or damage(f"{codec} data end early")
        try:
            out = decoder.decompress(data, CHUNK)
        except (lzma.LZMAError, OSError, EOFError, ValueError, MemoryError) as error:
            raise _codec_error(error, codec, packed.offset, memory) from error
        yield out
        data = b""
    packed.unread(len(decoder.unused_data))


def _codec_error(error: Exception, codec: str, offset: int, memory: int) -> StreamError:
    if isinstance(error, MemoryError) or "memory" in str(error).lower():
        return StreamError(ProblemKind.LIMIT, f"needs more than {memory} bytes of memory (limit codec_memory)")
    return corruption(f"{codec} data are damaged before byte {offset}")
