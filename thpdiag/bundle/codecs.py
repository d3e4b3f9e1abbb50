"""Decompressors by magic: gzip, bzip2, xz, zstd. All give bounded chunks and charge the budget.

xz is sos's default: preset 3, one stream, one block. Several xz streams or bzip2 streams one after another (pixz,
pbzip2, `cat a.xz b.xz`) are one file.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator
from typing import Protocol

from thpdiag.bundle.deflate import GZIP_MAGIC, gunzip
from thpdiag.bundle.failure import StreamError, damaged, spoiled
from thpdiag.bundle.limits import Budget
from thpdiag.bundle.stream import CHUNK, Stream
from thpdiag.bundle.zstd import unzstd
from thpdiag.model import ProblemKind

_XZ_MAGIC = b"\xfd7zXZ\0"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
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
    if head.startswith(_XZ_MAGIC):
        return "xz"
    if head.startswith(_ZSTD_MAGIC) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50):
        return "zstd"
    if head.startswith(b"BZh") and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    return ""


def unpacked(codec: str, packed: Stream, memory: int, budget: Budget) -> Iterator[bytes]:
    """The decompressed bytes; raises StreamError at damage, after all good bytes."""
    for chunk in _source(codec, packed, memory):
        budget.gave(len(chunk))
        yield chunk


def _source(codec: str, packed: Stream, memory: int) -> Iterator[bytes]:
    if codec == "gzip":
        return gunzip(packed)
    if codec == "zstd":
        return unzstd(packed, memory)
    if codec == "xz":
        return _streams(packed, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=memory), "xz", memory)
    return _streams(packed, bz2.BZ2Decompressor, "bzip2", memory)


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
                raise packed.failure or damaged(f"{codec} data end early")
        try:
            out = decoder.decompress(data, CHUNK)
        except (lzma.LZMAError, OSError, EOFError, ValueError, MemoryError) as error:
            raise _failure(error, codec, packed.offset, memory) from error
        yield out
        data = b""
    packed.back(len(decoder.unused_data))


def _failure(error: Exception, codec: str, offset: int, memory: int) -> StreamError:
    if isinstance(error, MemoryError) or "Memory usage limit" in str(error):
        return StreamError(ProblemKind.LIMIT, f"needs more than {memory} bytes of memory (limit codec_memory)")
    return spoiled(f"{codec} data are damaged before byte {offset}")
