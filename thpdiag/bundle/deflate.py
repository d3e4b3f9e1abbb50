"""Deflate as gzip and zip use it, in bounded steps.

The gzip frame (RFC 1952) is read here and not by zlib, so that a wrong checksum costs no data: what was inflated is
given first, the error comes after it. Several gzip members one after another are one file, as gzip itself says.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from thpdiag.bundle.failure import StreamError, damaged, spoiled
from thpdiag.bundle.stream import CHUNK, Stream

GZIP_MAGIC = b"\x1f\x8b\x08"
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
_STRING = 64 * 1024  # longest file name or comment in a gzip header that we follow


def inflate(packed: Stream) -> Iterator[bytes]:
    """Raw deflate data; leaves the stream behind its last byte."""
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    while not decoder.eof:
        data = packed.read()
        if not data:
            raise packed.failure or damaged("compressed data end early")
        while not decoder.eof:
            before = decoder.copy()
            try:
                out = decoder.decompress(data, CHUNK)
            except zlib.error as error:
                yield from _up_to_error(before, data)
                raise spoiled(f"compressed data are damaged at byte {packed.offset - len(data)} or later") from error
            yield out
            data = decoder.unconsumed_tail
            if not data and len(out) < CHUNK:
                break
    packed.back(len(decoder.unused_data))


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
            raise packed.failure or damaged("gzip data end early")
        if struct.unpack("<II", trailer) != (crc, size & 0xFFFFFFFF):
            raise spoiled("gzip checksum does not fit the data")
        packed.skip_zeros()
        if not packed.fill(1):
            if packed.failure:
                raise packed.failure
            return


def _gzip_header(packed: Stream) -> None:
    head = packed.take(10)
    if not head.startswith(GZIP_MAGIC):
        raise packed.failure or damaged(f"bytes that are not gzip follow at byte {packed.offset - len(head)}")
    if len(head) < 10:
        raise _short(packed)
    flags = head[3]
    if flags & _FEXTRA:
        length = packed.take(2)
        if len(length) < 2 or packed.skip(int.from_bytes(length, "little")) < int.from_bytes(length, "little"):
            raise _short(packed)
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            _skip_string(packed)
    if flags & _FHCRC:
        packed.skip(2)


def _skip_string(packed: Stream) -> None:
    end = packed.peek(_STRING).find(b"\0")
    if end < 0:
        raise _short(packed)
    packed.skip(end + 1)


def _short(packed: Stream) -> StreamError:
    return packed.failure or damaged("gzip header is cut or damaged")
