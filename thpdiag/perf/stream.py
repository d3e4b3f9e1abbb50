"""Reading of a recording in one forward pass as windows of complete records, with decompression.

A recording may be in a compressed archive, so it cannot be read twice.

A record states only its size, so records must be found one after another; this is the only loop over records. All other
work is done for whole windows. Records are multiples of eight bytes long, with three exceptions: compressed records,
the payload that follows trace data, and damage. From the first of these a window is walked by bytes.

Compressed records (COMPRESSED, COMPRESSED2) are pieces of one zstd stream of records: records and frames may span
several of them. Source: tools/perf/util/zstd.c, tools/perf/builtin-record.c.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import ProblemKind
from thpdiag.model.ragged import starts_of
from thpdiag.perf.header import Order
from thpdiag.perf.records import Kind

WINDOW_BYTES = 8 << 20  # of records that are processed together; more do not fit into CPU caches
MAX_RECORD_BYTES = 1 << 16  # a record's size has 16 bits
SLACK_BYTES = 512  # zeros after a buffer: fixed fields are fetched before the last record is known to be too short
HEADER_BYTES = 8  # u32 type, u16 misc, u16 size
MAX_TYPES = 256  # types below may be new; others are damage
WITH_PAYLOAD = (Kind.HEADER_TRACING_DATA, Kind.AUXTRACE)  # followed by bytes that the record's size does not include
COMPRESSED = (Kind.COMPRESSED, Kind.COMPRESSED2)

Errors = Counter[tuple[str, ProblemKind]]  # number of errors since the last window
Words = NDArray[np.int64]  # positions in a buffer, in words of eight bytes


class ByteStream:
    """Chunks as one stream. `position` is the offset of the next byte, initially that of the first chunk."""

    def __init__(self, chunks: Iterator[bytes], position: int = 0) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.position = position

    def _parts(self, count: int | None) -> Iterator[memoryview]:
        """Yield the next `count` bytes in parts, fewer only at the end (None: all remaining)."""
        while count is None or count > 0:
            while not self._rest:
                if (chunk := next(self._chunks, None)) is None:
                    return
                self._rest = memoryview(chunk)
            part, self._rest = self._rest[:count], self._rest[len(self._rest) if count is None else count :]
            self.position += len(part)
            count = None if count is None else count - len(part)
            yield part

    def read_into(self, target: memoryview) -> int:
        """Fill the target as far as possible and return the number of bytes."""
        done = 0
        for part in self._parts(len(target)):
            target[done : done + len(part)] = part
            done += len(part)
        return done

    def read(self, count: int) -> bytes:
        """Read the next bytes, fewer only at the end."""
        return b"".join(self._parts(count))

    def skip(self, count: int | None) -> int:
        """Skip bytes (None: all remaining) and return how many there were."""
        return sum(map(len, self._parts(count)))


def zero_buffer(size: int) -> NDArray[np.uint8]:
    """Return a buffer of zeros with slack at its end, whose length is a multiple of eight."""
    return np.zeros((size + SLACK_BYTES + 7) & ~7, np.uint8)


class DataSection:
    """The data section, one window at a time: `buffer[:used]`, whose first byte is at offset `base` of the file.

    The beginning of a record that the end of a window cuts is moved to the front of the next window, so each window
    begins with a record, at a multiple of eight. `left` is the number of section bytes not yet fetched, None if the
    size of the section is unknown; `missing_payload` that of payload bytes after the end of the section.
    """

    def __init__(self, stream: ByteStream, length: int | None, file_size: int | None = None) -> None:
        self._stream = stream
        self._window = WINDOW_BYTES if file_size is None else max(1, min(WINDOW_BYTES, file_size))
        self.left = length
        self.buffer = zero_buffer(self._window + MAX_RECORD_BYTES)
        self.used = 0
        self.missing_payload = 0
        self.base = stream.position

    def fetch(self, consumed: int, payload: int = 0) -> int:
        """Drop the consumed bytes and `payload` bytes after the window, fetch more, and return the number fetched."""
        tail = self.used - consumed
        self.buffer[:tail] = self.buffer[consumed : self.used].copy()
        self.base += consumed
        if payload:
            skipped = self.skip(payload)
            self.base += skipped
            self.missing_payload = payload - skipped
        room = self._window if self.left is None else min(self._window, self.left)
        fetched = self._stream.read_into(self.buffer.data[tail : tail + room])
        self.used = tail + fetched
        self.buffer[self.used : self.used + SLACK_BYTES] = 0
        self.left = None if self.left is None else self.left - fetched
        return fetched

    def skip(self, count: int | None = None) -> int:
        """Skip bytes of the section, all by default."""
        if self.left is not None:
            count = self.left if count is None else min(count, self.left)
        skipped = self._stream.skip(count)
        self.left = None if self.left is None else self.left - skipped
        return skipped


class View:
    """A buffer as arrays of 64-, 32- and 16-bit numbers in the byte order of the file. `at`: positions in words."""

    def __init__(self, buffer: NDArray[np.uint8], order: Order) -> None:
        self.bytes = buffer
        self.u64, self.u32, self.u16 = (buffer.view(f"{order}u{size}") for size in (8, 4, 2))
        self.order = order

    def words(self, at: Words, place: int) -> NDArray[np.uint64]:
        """Return the 64-bit numbers `place` words after the positions."""
        return self.u64[place:][at].astype(np.uint64, copy=False)

    def halves(self, at: Words, place: int, half: int) -> NDArray[np.int32]:
        """Return the first or second 32-bit number of these words, signed."""
        return self.u32[2 * place + half :: 2][at].astype(np.uint32, copy=False).view(np.int32)

    def kinds(self, at: Words) -> NDArray[np.uint32]:
        return self.u32[::2][at].astype(np.uint32, copy=False)

    def misc(self, at: Words) -> NDArray[np.uint16]:
        return self.u16[2::4][at].astype(np.uint16, copy=False)

    def lengths(self, at: Words) -> Words:
        """Return the sizes of records in complete words."""
        return (self.u16[3::4][at] >> 3).astype(np.int64)


class Walk(NamedTuple):
    """Positions of records in words, the byte at which the walk ended, and whether unaligned records follow there."""

    at: Words
    end: int
    ragged: bool


def walk(view: View, used: int) -> Walk:
    """Find all complete records in the first `used` bytes, up to one that is compressed, unaligned or has a payload."""
    words = used >> 3
    sizes = view.u16[3::4].astype("=u2").data
    places: list[int] = []
    add, place = places.append, 0
    while place < words:
        add(place)
        size = sizes[place]
        if size & 7 or not size:
            break
        place += size >> 3
    at = np.array(places, np.int64)
    if not places:
        return Walk(at, 0, ragged=False)
    kinds, bytes_of = view.kinds(at), view.u16[3::4][at]
    special = [int(kind) for kind in (*WITH_PAYLOAD, *COMPRESSED)]
    ragged = (bytes_of & 7 != 0) | (bytes_of == 0) | (kinds >= MAX_TYPES) | np.isin(kinds, special)
    if ragged.any():
        stop = int(np.argmax(ragged))
        return Walk(at[:stop], 8 * places[stop], ragged=True)
    if place > words:  # the end of the window cuts the last record
        return Walk(at[:-1], 8 * places[-1], ragged=False)
    return Walk(at, 8 * place, ragged=False)


@dataclass(slots=True)
class Ragged:
    """Unaligned records: begin and size of plain ones, and for `packed` ones (begin of content, end, record).

    `end` is where the walk stopped, `payload` the number of bytes after the window that belong to the last record,
    `size` that of an impossible record (else None).
    """

    begins: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    packed: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    payload: int = 0
    size: int | None = None


def walk_ragged(view: View, at: int, used: int) -> Ragged:
    """Find the records in the rest of a window, from byte `at`."""
    raw, ragged, head = view.bytes.data, Ragged(), struct.Struct(view.order + "IHH")
    while at + HEADER_BYTES <= used:
        kind, _, size = head.unpack_from(raw, at)
        if size < HEADER_BYTES:
            ragged.size = size
            break
        if at + size > used:
            break
        body = bytes(raw[at + HEADER_BYTES : at + min(size, 2 * HEADER_BYTES)])
        if kind in COMPRESSED:
            ragged.packed.append((*_packed_bytes(body, at, kind, size, view.order), at))
        else:
            ragged.begins.append(at)
            ragged.sizes.append(size)
        at += size
        if kind == Kind.HEADER_TRACING_DATA and len(body) >= 4:  # a u32, rounded up to eight
            at += (int(struct.unpack_from(view.order + "I", body)[0]) + 7) & ~7
        elif kind == Kind.AUXTRACE and len(body) == 8:
            at += int(struct.unpack(view.order + "Q", body)[0])
    ragged.payload = max(0, at - used)
    ragged.end = min(at, used)
    return ragged


def _packed_bytes(body: bytes, at: int, kind: int, size: int, order: str) -> tuple[int, int]:
    """Return begin and end of the compressed bytes. COMPRESSED2 (perf 6.16) states their number and has padding."""
    begin, end = at + HEADER_BYTES, at + size
    if kind == Kind.COMPRESSED or len(body) < 8:
        return begin, end
    return begin + 8, min(begin + 8 + int(struct.unpack(order + "Q", body)[0]), end)


def realign(raw: NDArray[np.uint8], begins: Words, sizes: Words) -> tuple[NDArray[np.uint8], Words]:
    """Copy records to multiples of eight bytes, and return the copy and their positions in words."""
    starts = starts_of((sizes + 7) & ~7)
    copy = zero_buffer(int(starts[-1]))
    # Records whose distance does not change are copied together.
    breaks = np.flatnonzero(np.diff(begins) != np.diff(starts[:-1])) + 1
    first, last = np.append(0, breaks), np.append(breaks, len(sizes)) - 1
    lengths = begins[last] + sizes[last] - begins[first]
    for begin, start, length in zip(begins[first].tolist(), starts[first].tolist(), lengths.tolist(), strict=True):
        copy[start : start + length] = raw[begin : begin + length]
    return copy, starts[:-1] >> 3


BROKEN = "compressed by zstd and damaged: they cannot be decompressed"
INVALID = "compressed by zstd and invalid after decompression"
BOMB = "compressed by zstd and far larger after decompression than any recording"
PIECE_BYTES = 1 << 10  # input of one call of zstd, which limits its output to 32 MiB
MAX_RATIO = 250  # perf's own records are compressed about twentyfold
RATIO_AFTER_BYTES = 1 << 30  # of output, after which the ratio is checked
MAX_HISTORY_BYTES = 1 << 27  # zstd window size


@dataclass(frozen=True, slots=True)
class Inner:
    """Decompressed bytes `buffer[:used]`; those from `begins[i]` on are from the record at offset `offsets[i]`."""

    buffer: NDArray[np.uint8]
    used: int
    begins: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def offset(self, at: Words) -> NDArray[np.int64]:
        offsets: NDArray[np.int64] = self.offsets[np.searchsorted(self.begins, at << 3, side="right") - 1]
        return offsets


class Unpacked:
    """The decompressed stream of records, one window at a time.

    `error` is the reason why the rest cannot be decompressed, `refused` the number of records concerned, `waiting` the
    number of decompressed bytes that were not yielded yet.
    """

    def __init__(self) -> None:
        import zstandard  # few recordings need it

        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_HISTORY_BYTES)
        self._decoder = unpacker.decompressobj(read_across_frames=True)
        self._zstd_error = zstandard.ZstdError
        self._parts: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._in = self._out = 0
        self.waiting = 0
        self.error = ""
        self.refused = 0

    def feed(self, packed: bytes, offset: int) -> Iterator[Inner]:
        """Decompress the content of the record at `offset`, and yield full windows."""
        for begin in range(0, len(packed), PIECE_BYTES):
            if not self.error:
                self._unpack(packed[begin : begin + PIECE_BYTES], offset)
            if self.waiting >= WINDOW_BYTES:
                yield self.window()
        if self.error:
            self.refused += 1

    def _unpack(self, piece: bytes, offset: int) -> None:
        try:
            out = self._decoder.decompress(piece)
        except self._zstd_error:
            self.error = BROKEN
            return
        self._in += len(piece)
        self._out += len(out)
        if out:
            self._append(out, offset)
        if self._out > RATIO_AFTER_BYTES and self._out > MAX_RATIO * self._in:
            self.error = BOMB

    def _append(self, out: bytes, offset: int) -> None:
        if not self._places or self._places[-1][1] != offset:
            self._places.append((self.waiting, offset))
        self._parts.append(out)
        self.waiting += len(out)

    def window(self) -> Inner:
        """Return the bytes since the last window, after the rest of its last record."""
        buffer = zero_buffer(self.waiting)
        buffer[: self.waiting] = np.frombuffer(b"".join(self._parts), np.uint8)
        begins, offsets = np.array(self._places, np.int64).reshape(-1, 2).T
        inner = Inner(buffer, self.waiting, begins, offsets)
        self._parts, self._places, self.waiting = [], [], 0
        return inner

    def keep(self, inner: Inner, end: int) -> None:
        """Keep the rest of a window, which belongs to a record that continues in the next one."""
        if end < inner.used:
            at = np.array([end >> 3], np.int64)
            self._append(inner.buffer[end : inner.used].tobytes(), int(inner.offset(at)[0]))

    def mark_invalid(self, size: int) -> None:
        """Stop reading because the decompressed bytes are not records."""
        self.error = self.error or f"{INVALID}, {size} bytes from there on are not read"
        self.refused = max(self.refused, 1)

    def report(self, errors: Errors) -> None:
        """Add the error, if there is one."""
        if self.error:
            kind = ProblemKind.LIMIT if self.error == BOMB else ProblemKind.DAMAGED
            errors[f"has records that are {self.error}", kind] += self.refused
