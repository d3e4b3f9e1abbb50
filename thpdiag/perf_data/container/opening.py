"""Opens a recording: tells file from pipe, reads the header of a file, and gives the records window by window.

Nothing here raises on what stands in the file. What is no recording, or a broken one, gives windows with Problems.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO

from thpdiag.model import Citation
from thpdiag.perf_data.columns import Recording
from thpdiag.perf_data.container.contents import Contents
from thpdiag.perf_data.container.header import FILE, PIPE, START, Header, Section, byte_order, header, header_size
from thpdiag.perf_data.container.recording import OpenRecording
from thpdiag.perf_data.container.stream import ByteStream
from thpdiag.perf_data.container.troubles import Troubles

MOST_FRONT = 64 << 20  # bytes in front of the records: attributes and ids
IN_MEMORY = 64 << 20  # of a file whose attributes stand behind the records; what is more waits on disk
CHUNK = 1 << 20


def opened(chunks: Iterator[bytes], size: int | None, cite: Citation) -> Recording:
    """The recording in these bytes, `size` of them if that is known; `cite` is where its problems are said to be."""
    stream = ByteStream(chunks)
    troubles = Troubles(cite)
    start = stream.read(START)
    order = byte_order(start)
    if order is None:
        troubles.unreadable("is no perf.data: it does not begin as one")
        return OpenRecording(Contents("<", troubles), None)
    contents = Contents(order, troubles)
    if header_size(start, order) == PIPE:
        return OpenRecording(contents, stream, size=size)
    return _file(stream, start, contents, size)


def _file(stream: ByteStream, start: bytes, contents: Contents, size: int | None) -> Recording:
    raw = start + stream.read(FILE - START)
    if len(raw) < FILE:
        contents.troubles.damaged("ends inside its header")
        return OpenRecording(contents, None)
    found = header(raw, contents.order)
    if found.attributes.offset >= found.data.end and found.data.size:
        stream = _attributes_behind(stream, found, contents)
    else:
        front = stream.read(min(max(found.data.offset - FILE, 0), MOST_FRONT))
        _attributes(found, HeldBytes(front, FILE), contents)
        stream.skip(max(found.data.offset - stream.position, 0))
    if not len(contents.events):
        contents.troubles.damaged("describes no event that can be read, so its samples cannot be either")
    if stream.position > found.data.offset:
        contents.troubles.damaged("says that its records begin inside its header")
        return OpenRecording(contents, None)
    if not found.data.size:
        contents.troubles.damaged(
            "was not closed by perf (its header gives no size): read to the end, without features"
        )
    return OpenRecording(contents, stream, found, size)


class HeldBytes:
    """Some bytes of a file, asked for by their place in it."""

    def __init__(self, raw: bytes, offset: int) -> None:
        self._raw = raw
        self._offset = offset
        self._left = len(raw)

    def get(self, section: Section) -> bytes:
        """What there is of a section; in all no more than there is, however many sections overlap."""
        begin = section.offset - self._offset
        found = self._raw[begin : begin + min(section.size, self._left)] if begin >= 0 else b""
        self._left -= len(found)
        return found


def _attributes(found: Header, held: HeldBytes, contents: Contents) -> None:
    """Each entry is a perf_event_attr and the place of its ids."""
    raw = held.get(found.attributes)
    size = found.attribute_size
    if not START < size <= len(raw):
        return
    for begin in range(0, len(raw) - size + 1, size):
        entry = raw[begin : begin + size]
        ids = Section(*struct.unpack_from(contents.order + "2Q", entry, size - 16))
        if not contents.add(entry[: size - 16], held.get(ids)):
            contents.troubles.damaged("describes events that cannot be read")


def _attributes_behind(stream: ByteStream, found: Header, contents: Contents) -> ByteStream:
    """perf inject writes attributes behind the records: everything up to them is put aside and read again."""
    aside = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
    begin = stream.position
    while part := stream.read(CHUNK):
        aside.write(part)
    aside.seek(min(found.data.end, stream.position) - begin)
    _attributes(found, HeldBytes(aside.read(MOST_FRONT), found.data.end), contents)
    chunks = _from_front(aside)
    next(chunks)
    again = ByteStream(chunks, begin)
    again.skip(max(found.data.offset - begin, 0))
    return again


def _from_front(aside: IO[bytes]) -> Iterator[bytes]:
    """The chunks of a file, which is closed at its end, or where nobody asks for more; an empty one first."""
    with aside:
        aside.seek(0)
        yield b""
        while part := aside.read(CHUNK):
            yield part
