"""The members of a tar that nobody wants: most of a bundle, so this loop decides what intake costs.

A bundle of 20,000 members leaves three microseconds for each if intake is to cost no more than decompression. The loop
passes only what is plain beyond doubt (a regular member with an exact header, or an extended header that holds times
alone) and leaves everything else to the strict walker.
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
_MAGICS = {USTAR, GNU}
PLAIN_KINDS = b"0x"
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
    view, last = memoryview(buffer), len(buffer) - AHEAD
    members, wanted = 0, False
    try:
        while at <= last:
            name, kind, size = _exact(view, at)
            body = at + BLOCK
            if kind == b"0":
                path = name.partition(b"\0")[0].decode()
                if _odd(path) or (size and may_be_packed(buffer, body, size)):
                    break
                if interesting(path):
                    wanted = True
                    break
                members += 1
            elif kind != b"x" or size > BLOCK or not HARMLESS.fullmatch(view[body : body + size]):
                break
            at = body + (size + 511 & -512)
    except (ValueError, IndexError):
        pass  # no exact header, no UTF-8, no name: the strict parser says what it is
    end = len(buffer)
    return Passed(min(at, end), max(at - end, 0), members, wanted)


def _exact(view: memoryview, at: int) -> tuple[bytes, bytes, int]:
    """Name, type flag and size of a header as nearly all tars write it; ValueError for any other."""
    name, digits, after, check, check_end, kind, magic, prefix = _PLAIN.unpack_from(view, at)
    if magic not in _MAGICS or check_end != b"\0 " or after not in b"\0 " or prefix or not digits.isdigit():
        raise ValueError
    # Adler-32 started at 0 has the sum of the bytes in its low half, and is ten times faster than sum().
    total = adler32(view[at : at + BLOCK], 0) & 0xFFFF
    if total != int(check, 8) + (adler32(check, 0) & 0xFFFF) - 224:
        raise ValueError
    return name, kind, int(digits, 8)


def _odd(path: str) -> bool:
    """Whether the path needs a second look: not printable, not canonical, or a directory."""
    return "/." in path or "//" in path or path[0] in "/." or path[-1] == "/" or not path.isprintable()
