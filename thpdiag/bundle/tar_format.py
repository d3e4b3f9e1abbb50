r"""Headers of a tar archive: ustar, old GNU, the form without magic, PAX records, GNU long names, sparse maps.

Numbers are octal text, or, in GNU archives, base-256 with the top bit set. Parsing is strict: lenient parsers move
backwards at a negative size (CVE-2025-8194 and others) or treat a damaged header as the end of the archive.

A PAX record is `LENGTH KEY=VALUE\n`; LENGTH includes itself. Only keys that affect the content are used. A sparse
member has the data without the holes; the offsets of its pieces are in the header and in blocks after it (old GNU), in
the PAX header (0.0, 0.1), or in decimal lines before the data (1.0). Source: POSIX.1-1988, GNU tar manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from typing import NamedTuple
from zlib import adler32

from thpdiag.bundle.codecs import CHUNK, Stream
from thpdiag.bundle.limits import Limits

BLOCK = 512
USTAR = b"ustar\x0000"
GNU = b"ustar  \x00"
_NO_MAGIC = bytes(8)
_FIELDS = Struct("100s24x12s12x8sc100s8s80x155s12x")
_OCTAL = re.compile(rb" *([0-7]*)[ \0]*")
_MAX_NUMBER = 1 << 62


class Header(NamedTuple):
    """A header. `kind`: the type flag (`0` regular, `2` symbolic link, `x` extended header ...); `block`: its bytes."""

    name: bytes
    size: int
    kind: bytes
    link: bytes
    block: bytes


def parse_number(field: bytes) -> int:
    """Parse a numeric field; raise ValueError if it is invalid or out of range."""
    if field[0] & 0x80:  # bit 6 is then the sign
        value = -1 if field[0] & 0x40 else int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    else:
        match = _OCTAL.fullmatch(field)
        if match is None:
            raise ValueError("not octal")
        value = int(match[1] or b"0", 8)
    if not 0 <= value <= _MAX_NUMBER:
        raise ValueError("out of range")
    return value


def checksum_fits(block: bytes) -> bool:
    """Whether the checksum of a header is valid: the sum of unsigned bytes, in some old tars of signed ones."""
    try:
        stored = parse_number(block[148:156])
    except ValueError:
        return False
    rest = block[:148] + block[156:]
    if adler32(rest, 0) & 0xFFFF == stored - 8 * 0x20:  # the sum if below 65,521, computed faster than by sum()
        return True
    total = sum(rest) + 8 * 0x20
    return stored in {total, total - 256 * sum(byte > 127 for byte in rest)}


def parse_header(block: bytes) -> Header:
    """Parse a header; raise ValueError with the reason if the block is not one."""
    if len(block) < BLOCK:
        raise ValueError("cut header")
    name, size, _, kind, link, magic, prefix = _FIELDS.unpack(block)
    if magic not in {USTAR, GNU, _NO_MAGIC} and not magic.startswith(b"ustar"):
        raise ValueError("no tar header")
    if not checksum_fits(block):
        raise ValueError("header checksum does not match")
    name = _text(name)
    if magic.startswith(b"ustar\0") and prefix[0]:
        name = _text(prefix) + b"/" + name
    try:
        size = parse_number(size)
    except ValueError as error:
        raise ValueError("header with an impossible size") from error
    return Header(name, size, kind, _text(link), block)


def is_header(block: bytes) -> bool:
    try:
        return bool(parse_header(block))
    except ValueError:
        return False


def is_tar(head: bytes) -> bool:
    """Whether a file that begins with `head` is a tar archive, even if its first header is damaged."""
    return head[257:262] == b"ustar" or (len(head) >= BLOCK and head[0] != 0 and is_header(head[:BLOCK]))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


ONLY_TIMES = re.compile(rb"(?:[1-9]\d [acm]time=\d{1,12}(?:\.\d{1,12})?\n){1,3}\0*")  # before each member in sos's tars
_LENGTH = re.compile(rb"([1-9][0-9]{0,8}) ")
_DIGITS = re.compile(rb"[0-9]{1,19}")


@dataclass(slots=True)
class Extended:
    """The values of extended headers that apply to the next ordinary header."""

    path: bytes | None = None
    link: bytes | None = None
    size: int | None = None
    sparse: dict[bytes, bytes] = field(default_factory=dict)
    sparse_map: list[int] = field(default_factory=list)  # of GNU.sparse.offset and .numbytes records (format 0.0)

    def read(self, kind: bytes, body: bytes) -> None:
        """Add the body of an extended header of type flag `kind`; raise ValueError if it is invalid.

        Global headers (`g`) describe the archive (git writes a commit id there) and do not affect the content.
        """
        if kind == b"L":
            self.path = body.partition(b"\0")[0]
        elif kind == b"K":
            self.link = body.partition(b"\0")[0]
        elif kind != b"g":
            for key, value in _records(body):
                self._add(key, value)

    def name(self, stored: bytes) -> bytes:
        """Return the name of the member whose header has the name `stored`."""
        return self.sparse.get(b"GNU.sparse.name", stored if self.path is None else self.path)

    def _add(self, key: bytes, value: bytes) -> None:
        match key:
            case b"path":
                self.path = value
            case b"linkpath":
                self.link = value
            case b"size":
                self.size = parse_decimal(value)
            case b"GNU.sparse.offset" | b"GNU.sparse.numbytes":
                self.sparse_map.append(parse_decimal(value))
            case _ if key.startswith(b"GNU.sparse."):
                self.sparse[key] = value


def parse_decimal(value: bytes) -> int:
    if not _DIGITS.fullmatch(value):
        raise ValueError("extended header with an impossible number")
    return int(value)


def padded_size(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = 0
    while start < len(body) and body[start] != 0:
        match = _LENGTH.match(body, start)
        end = start + int(match[1]) if match else 0
        if match is None or end > len(body) or end <= match.end() or body[end - 1 : end] != b"\n":
            raise ValueError("damaged extended header")
        key, equals, value = body[match.end() : end - 1].partition(b"=")
        if not equals:
            raise ValueError("damaged extended header")
        yield key, value
        start = end


_MAX_PIECES = 65_536  # of one map
SparseMap = list[tuple[int, int]]  # offset, length of each piece


def parse_old_gnu_map(header: Header, stream: Stream) -> tuple[SparseMap, int]:
    """Return the map of a type S header and the real size; read the blocks that continue the map."""
    fields, block, first, more = [], header.block, 386, 482
    while True:
        fields += [block[start : start + 12] for start in range(first, more, 12)]
        if not block[more]:
            break
        block, first, more = stream.take(BLOCK), 0, 504
        if len(block) < BLOCK or len(fields) > 2 * _MAX_PIECES:
            raise ValueError("sparse map is cut or too long")
    numbers = [parse_number(field) for field in fields if field.strip(b"\0 ")]
    return _checked_map(numbers, parse_number(header.block[483:495]))


def parse_pax_map(extended: Extended, stream: Stream, limits: Limits) -> tuple[SparseMap, int]:
    """Return the map of a PAX sparse member and the real size; read the map from the body if it is there."""
    keys = extended.sparse
    size = parse_decimal(keys.get(b"GNU.sparse.realsize", keys.get(b"GNU.sparse.size", b"0")))
    if keys.get(b"GNU.sparse.major") == b"1":
        return _checked_map(_read_map(stream, limits.metadata), size)
    numbers = extended.sparse_map
    if b"GNU.sparse.map" in keys:
        numbers = [parse_decimal(number) for number in keys[b"GNU.sparse.map"].split(b",") if number]
    return _checked_map(numbers, size)


def _read_map(stream: Stream, max_bytes: int) -> list[int]:
    """Read the number of pieces, then offset and length of each, a decimal line each, padded to a whole block."""
    text = bytearray()
    lines, wanted = 0, 1
    while lines < wanted:
        block = stream.take(BLOCK)
        text += block
        if len(block) < BLOCK or len(text) > max_bytes:
            raise ValueError("sparse map is cut or too long")
        if not lines and b"\n" in block:
            wanted = 1 + 2 * parse_decimal(bytes(text.partition(b"\n")[0]))
        lines += block.count(b"\n")
    if wanted > 2 * _MAX_PIECES:
        raise ValueError("sparse map is cut or too long")
    return [parse_decimal(line) for line in bytes(text).split(b"\n")[1:wanted]]


def _checked_map(numbers: list[int], size: int) -> tuple[SparseMap, int]:
    if len(numbers) % 2 or len(numbers) > 2 * _MAX_PIECES:
        raise ValueError("sparse map is cut or too long")
    pieces = list(zip(numbers[::2], numbers[1::2], strict=True))
    ordered = all(sum(left) <= right[0] for left, right in pairwise(pieces))
    if not ordered or (pieces and sum(pieces[-1]) > size):
        raise ValueError("sparse map is out of order")
    return pieces, size


def fill_holes(pieces: SparseMap, size: int, body: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content with zeros for the holes."""
    data = Stream(body)
    end = 0
    for offset, length in [*pieces, (size, 0)]:
        for start in range(end, offset, CHUNK):
            yield bytes(min(CHUNK, offset - start))
        end = offset + length
        while length and (chunk := data.read(min(length, CHUNK))):
            length -= len(chunk)
            yield chunk
        if data.failure:
            raise data.failure
