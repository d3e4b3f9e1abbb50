"""Decompressors by magic: gzip, bzip2, xz, zstd. All give bounded chunks and charge the budget.

xz is sos's default: preset 3, one stream, one block. Several xz streams or bzip2 streams one after another (pixz,
pbzip2, `cat a.xz b.xz`) are one file.

The gzip frame (RFC 1952) is read here and not by zlib, so that a wrong checksum costs no data: what was inflated is
given first, the error comes after it. Several gzip members one after another are one file, as gzip itself says.

The decompressor of zstd has no bound on what one call may give: a block of 4 bytes can stand for 128 KiB. So the input
goes in by pieces of 512 bytes, which bounds the output of a call at 16 MiB. Frames one after another are one file;
skippable frames pass.
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
    """Bytes that can be read once.

    When the source breaks, all bytes before the break are still given and `failure` then says why there are no more;
    it stays None at an ordinary end. `buffer` and `at` are public for the tar walker, which passes over most members
    without a call.
    """

    __slots__ = ("_base", "_source", "at", "buffer", "failure")

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source: Iterator[bytes] = iter(source)
        self._base = 0
        self.buffer = b""
        self.at = 0
        self.failure: StreamError | None = None

    @property
    def offset(self) -> int:
        """Bytes consumed since the start."""
        return self._base + self.at

    def fill(self, need: int) -> bool:
        """Has the buffer hold `need` bytes ahead, as far as the source has them."""
        have = len(self.buffer) - self.at
        if have >= need:
            return True
        parts = [self.buffer[self.at :]] if have else []
        while have < need and (chunk := self._next()):
            parts.append(chunk)
            have += len(chunk)
        self._base += self.at
        self.buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        self.at = 0
        return have >= need

    def peek(self, size: int) -> bytes:
        self.fill(size)
        return self.buffer[self.at : self.at + size]

    def take(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        data = self.peek(size)
        self.at += len(data)
        return data

    def read(self, most: int = CHUNK) -> bytes:
        """Some bytes, at most `most`; none at the end."""
        self.fill(1)
        data = self.buffer[self.at : self.at + most]
        self.at += len(data)
        return data

    def unread(self, size: int) -> None:
        """Gives back the last `size` bytes of what `read` gave last."""
        self.at -= size

    def skip(self, size: int) -> int:
        """Passes over `size` bytes and says how many there were."""
        left = size
        while left and self.fill(1):
            step = min(left, len(self.buffer) - self.at)
            self.at += step
            left -= step
        return size - left

    def skip_zeros(self) -> None:
        """Passes over padding."""
        while data := self.read():
            if rest := data.lstrip(b"\0"):
                self.unread(len(rest))
                return

    def exactly(self, size: int, whole: str) -> Iterator[bytes]:
        """The next `size` bytes; raises a failure if what ends before is `whole`."""
        while size:
            data = self.read(min(size, CHUNK))
            if not data:
                raise self.failure or damage(f"{whole} ends inside this member, {size} bytes are missing")
            size -= len(data)
            yield data

    def chunks(self) -> Iterator[bytes]:
        """The rest of the stream; raises its failure at the end."""
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
            failure.__context__ = failure.__cause__ = None  # their frames hold the decoder, of megabytes, until the
            self.failure = failure.with_traceback(None)  # garbage collector comes by
        return b""


GZIP_MAGIC = b"\x1f\x8b\x08"
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
_MAX_HEADER_STRING_BYTES = 64 * 1024  # longest file name or comment in a gzip header that we follow


def inflate(packed: Stream) -> Iterator[bytes]:
    """Raw deflate data; leaves the stream behind its last byte."""
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
                yield from _up_to_error(before, data)
                raise corruption(f"compressed data are damaged at byte {packed.offset - len(data)} or later") from error
            yield out
            data = decoder.unconsumed_tail
            if not data and len(out) < CHUNK:
                break
    packed.unread(len(decoder.unused_data))


def _up_to_error(decoder: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """What comes out before the error, byte by byte, since zlib drops the output of a call that fails."""
    good = bytearray()
    try:
        while len(good) < CHUNK and (out := decoder.decompress(data, 1)):
            good += out
            data = decoder.unconsumed_tail
    except zlib.error:
        pass
    yield bytes(good)


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
FIRST_BYTES = b"\x1f\xfdBP\x28" + bytes(range(0x50, 0x60))  # of a codec or a zip


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def codec_of(head: bytes) -> str:
    """`gzip`, `bzip2`, `xz`, `zstd`, or empty when the bytes begin no compressed file."""
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
    """The decompressed bytes; raises StreamError at damage, after all good bytes."""
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
