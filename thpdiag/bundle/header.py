"""One 512-byte header of a tar archive: ustar, old GNU and the older form without magic (POSIX.1-1988, GNU tar manual).

Numbers are octal text, or, in GNU archives, base-256 with the top bit set. Strict on purpose: lenient readers take a
negative size for a step backwards (CVE-2025-8194 and others) or a damaged header for the end of the archive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct
from zlib import adler32

BLOCK = 512
USTAR = b"ustar\x0000"
GNU = b"ustar  \x00"
_NO_MAGIC = bytes(8)
_FIELDS = Struct("100s24x12s12x8sc100s8s80x155s12x")
_OCTAL = re.compile(rb" *([0-7]*)[ \0]*")
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Header:
    """`kind` is the type flag (`0` regular, `2` symbolic link, `x` extended header ...), `block` the whole header."""

    name: bytes
    size: int
    kind: bytes
    link: bytes
    block: bytes


def number(field: bytes) -> int:
    """A numeric field; raises ValueError for what is none or is out of range."""
    if field[0] & 0x80:  # bit 6 is then the sign
        value = -1 if field[0] & 0x40 else int.from_bytes(field, "big") - (0x80 << 8 * (len(field) - 1))
    else:
        match = _OCTAL.fullmatch(field)
        if match is None:
            raise ValueError("not octal")
        value = int(match[1] or b"0", 8)
    if not 0 <= value <= _LARGEST:
        raise ValueError("out of range")
    return value


def checksum_fits(block: bytes) -> bool:
    """Whether the header carries its own checksum; some old tars added signed bytes."""
    try:
        stored = number(block[148:156])
    except ValueError:
        return False
    rest = block[:148] + block[156:]
    if adler32(rest, 0) & 0xFFFF == stored - 8 * 0x20:  # the sum, faster than sum() as long as it is below 65,521
        return True
    total = sum(rest) + 8 * 0x20
    return stored in {total, total - 256 * sum(byte > 127 for byte in rest)}


def parse(block: bytes) -> Header:
    """Raises ValueError with the reason when the block is no header."""
    if len(block) < BLOCK:
        raise ValueError("cut header")
    name, size, _, kind, link, magic, prefix = _FIELDS.unpack(block)
    if magic not in {USTAR, GNU, _NO_MAGIC} and not magic.startswith(b"ustar"):
        raise ValueError("no tar header")
    if not checksum_fits(block):
        raise ValueError("header checksum does not fit")
    name = _text(name)
    if magic.startswith(b"ustar\0") and prefix[0]:
        name = _text(prefix) + b"/" + name
    try:
        size = number(size)
    except ValueError as error:
        raise ValueError("header with an impossible size") from error
    return Header(name, size, kind, _text(link), block)


def is_header(block: bytes) -> bool:
    try:
        parse(block)
    except ValueError:
        return False
    return True


def is_tar(head: bytes) -> bool:
    """Whether a file that begins with `head` is a tar archive, even if its first header is damaged."""
    return head[257:262] == b"ustar" or (len(head) >= BLOCK and head[0] != 0 and is_header(head[:BLOCK]))


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]
