"""Sparse members: the data without the holes, and a map of where the pieces belong.

GNU tar has four forms: the old one (map in the header and in blocks after it) and PAX 0.0, 0.1 (map in the extended
header) and 1.0 (map as decimal lines before the data).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from thpdiag.bundle.extended import Extended, decimal
from thpdiag.bundle.header import BLOCK, Header, number
from thpdiag.bundle.limits import Limits
from thpdiag.bundle.stream import CHUNK, Stream

_PIECES = 65_536  # of one map
Map = list[tuple[int, int]]  # offset, length of each piece


class SparseError(ValueError):
    """A map that makes no sense or is longer than we follow."""


def old_gnu(header: Header, stream: Stream) -> tuple[Map, int]:
    """The map of a type S header and the real size; reads the blocks that continue the map."""
    fields, block, first, more = [], header.block, 386, 482
    while True:
        fields += [block[at : at + 12] for at in range(first, more, 12)]
        if not block[more]:
            break
        block, first, more = stream.take(BLOCK), 0, 504
        if len(block) < BLOCK or len(fields) > 2 * _PIECES:
            raise SparseError("sparse map is cut or too long")
    numbers = [number(one) for one in fields if one.strip(b"\0 ")]
    return _checked(numbers, number(header.block[483:495]))


def of_pax(extended: Extended, stream: Stream, limits: Limits) -> tuple[Map, int]:
    """The map of a PAX sparse member and the real size; reads the map from the body where it lies there."""
    keys = extended.sparse
    size = decimal(keys.get(b"GNU.sparse.realsize", keys.get(b"GNU.sparse.size", b"0")))
    if keys.get(b"GNU.sparse.major") == b"1":
        return _checked(_from_body(stream, limits.metadata), size)
    numbers = extended.sparse_map
    if b"GNU.sparse.map" in keys:
        numbers = [decimal(one) for one in keys[b"GNU.sparse.map"].split(b",") if one]
    return _checked(numbers, size)


def _from_body(stream: Stream, most: int) -> list[int]:
    """The count of pieces, then offset and length of each, a decimal line each, padded to a whole block."""
    text = bytearray()
    lines, wanted = 0, 1
    while lines < wanted:
        block = stream.take(BLOCK)
        text += block
        if len(block) < BLOCK or len(text) > most:
            raise SparseError("sparse map is cut or too long")
        if not lines and b"\n" in block:
            wanted = 1 + 2 * decimal(bytes(text.partition(b"\n")[0]))
        lines += block.count(b"\n")
    if wanted > 2 * _PIECES:
        raise SparseError("sparse map is cut or too long")
    return [decimal(one) for one in bytes(text).split(b"\n")[1:wanted]]


def _checked(numbers: list[int], size: int) -> tuple[Map, int]:
    if len(numbers) % 2 or len(numbers) > 2 * _PIECES:
        raise SparseError("sparse map is cut or too long")
    pieces = list(zip(numbers[::2], numbers[1::2], strict=True))
    ordered = all(one[0] + one[1] <= two[0] for one, two in pairwise(pieces))
    if not ordered or (pieces and sum(pieces[-1]) > size):
        raise SparseError("sparse map is out of order")
    return pieces, size


def holes(pieces: Map, size: int) -> int:
    return size - sum(length for _, length in pieces)


def expanded(pieces: Map, size: int, body: Iterator[bytes]) -> Iterator[bytes]:
    """The content with zeros for the holes."""
    data = Stream(body)
    at = 0
    for offset, length in [*pieces, (size, 0)]:
        yield from _zeros(offset - at)
        at = offset + length
        while length and (chunk := data.read(min(length, CHUNK))):
            length -= len(chunk)
            yield chunk
        if data.failure:
            raise data.failure


def _zeros(size: int) -> Iterator[bytes]:
    for start in range(0, size, CHUNK):
        yield bytes(min(CHUNK, size - start))
