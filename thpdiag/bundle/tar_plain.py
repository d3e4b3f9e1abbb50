"""The members of a tar that nobody wants: most of a bundle, so this loop decides what intake costs.

A bundle of 20,000 members leaves three microseconds for each if intake is to cost no more than decompression. The loop
passes only what is plain beyond doubt (a regular member with an exact header, also with a name of more than 100
characters as GNU tar writes it, or an extended header that holds times alone) and leaves everything else to the strict
walker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from zlib import adler32

from thpdiag.bundle.extended import HARMLESS
from thpdiag.bundle.header import BLOCK, GNU, USTAR
from thpdiag.bundle.magic import may_be_packed
from thpdiag.bundle.stream import Stream

_PLAIN = Struct("100s24x11sB12x6s2sc100x8s80xB166x")
PLAIN_KINDS = b"0xL"
AHEAD = 3 * BLOCK  # a header and two blocks of what follows are looked at


@dataclass(frozen=True, slots=True)
class Passed:
    """`at` in the buffer is the first header not passed, `beyond` what the last member still has behind the buffer."""

    at: int
    beyond: int
    members: int
    wanted: bool  # the member at `at` was asked for and is interesting


def pass_plain(stream: Stream, interesting: Callable[[str], bool]) -> Passed:
    """Passes what the buffer holds; the stream itself is not moved."""
    buffer, at = stream.buffer, stream.at
    view, last, unpack = memoryview(buffer), len(buffer) - AHEAD, _PLAIN.unpack_from
    members, wanted = 0, False
    long, held = "", 0  # the name from a header of its own, and where that is
    try:
        while at <= last:
            name, digits, after, check, check_end, kind, magic, prefix = unpack(buffer, at)
            # Adler-32 started at 0 has the sum of the bytes in its low half, and is ten times faster than sum().
            if (
                (magic != USTAR and magic != GNU)
                or not digits.isdigit()
                or after not in b"\0 "
                or prefix
                or check_end != b"\0 "
                or adler32(view[at : at + BLOCK], 0) & 0xFFFF != int(check, 8) + (adler32(check, 0) & 0xFFFF) - 224
            ):
                break
            size, body = int(digits, 8), at + BLOCK
            if kind == b"0":
                path = long or name.partition(b"\0")[0].decode()
                packed = size and may_be_packed(buffer, body, size)
                if packed or _needs_second_look(path) or (wanted := interesting(path)):
                    break
                members, long = members + 1, ""
            elif kind == b"L" and not long and size <= BLOCK:
                long, held = _name(buffer, body, size), at
            elif long or kind != b"x" or size > BLOCK or not HARMLESS.fullmatch(buffer, body, body + size):
                break
            at = body + (size + 511 & -512)
    except (ValueError, IndexError):
        pass  # no octal digits, no UTF-8, no name: the strict parser says what it is
    end, at = len(buffer), held if long else at
    return Passed(min(at, end), max(at - end, 0), members, wanted)


def _needs_second_look(path: str) -> bool:
    """Not canonical, a directory, or not printable."""
    return "/." in path or "//" in path or path[0] in "/." or path[-1] == "/" or not path.isprintable()


def _name(buffer: bytes, at: int, size: int) -> str:
    """The name that GNU tar keeps in a body of its own; raises ValueError for none."""
    name = bytes(buffer[at : at + size]).partition(b"\0")[0].decode()
    if not name:
        raise ValueError("no name")
    return name
