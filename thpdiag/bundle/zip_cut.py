"""A zip whose list of members is missing, as a cut upload leaves it: what its local headers lead to.

The header before each member says its size unless the packer did not know it yet; deflated data say themselves where
they end. Links cannot be told from files here, and members that were deleted from the list come back, so this is the
last resort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from thpdiag.bundle.deflate import inflate
from thpdiag.bundle.entry import Entry, EntryKind
from thpdiag.bundle.failure import StreamError, damaged
from thpdiag.bundle.limits import Budget
from thpdiag.bundle.names import inside, printable
from thpdiag.bundle.stream import CHUNK, Stream

_LOCAL = Struct("<4s5H3L2H")
_SIZES_LATER, _ENCRYPTED = 0x8, 0x1
_STORED, _DEFLATED = 0, 8
_DESCRIPTOR = 24  # longest form: mark, checksum, two sizes of 64 bits


def cut_zip(stream: Stream, budget: Budget, interesting: Callable[[str], bool]) -> Iterator[Entry]:
    """The files up to the cut, or up to a member whose end cannot be found."""
    while (local := stream.take(_LOCAL.size)).startswith(b"PK\x03\x04") and len(local) == _LOCAL.size:
        _, _, flags, method, _, _, _, packed, size, name_length, extra = _LOCAL.unpack(local)
        name = stream.take(name_length)
        stream.skip(extra)
        content = _content(stream, flags, method, packed, budget)
        if content is None or len(name) < name_length:
            return
        path, leaves = inside(printable(name))
        budget.met(1)
        wanted = bool(path) and not name.endswith(b"/") and interesting(path)
        if wanted:
            yield Entry(path, EntryKind.FILE, size, content, leaves=leaves, wanted=wanted)
        try:
            for _ in content:
                pass
        except StreamError:
            return
        if flags & _SIZES_LATER:
            place = stream.peek(_DESCRIPTOR + 4).find(b"PK\x03\x04")
            stream.skip(max(place, 0))


def _content(stream: Stream, flags: int, method: int, packed: int, budget: Budget) -> Iterator[bytes] | None:
    """The bytes of the member at hand, None if one cannot tell where they end."""
    if flags & _ENCRYPTED or method not in {_STORED, _DEFLATED}:
        return None
    if method == _DEFLATED:
        return _charged(inflate(stream), budget)
    return None if flags & _SIZES_LATER else _charged(_stored(stream, packed), budget)


def _stored(stream: Stream, size: int) -> Iterator[bytes]:
    while size:
        data = stream.read(min(size, CHUNK))
        if not data:
            raise stream.failure or damaged(f"the zip ends inside this member, {size} bytes are missing")
        size -= len(data)
        yield data


def _charged(chunks: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
    for chunk in chunks:
        budget.gave(len(chunk))
        yield chunk
