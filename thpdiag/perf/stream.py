"""The bytes of a recording, once and forward, to windows of whole records: reading, finding records, decompressing.

A recording may stand in a compressed archive, where nothing can be read twice.

Each record says only how long it is, so the next one is known when this one was looked at: that is the one loop over
records. All else is done for whole windows. Records are multiples of eight bytes long, with three exceptions:
compressed ones, the payload that follows trace data, and damage. From the first of these on a window is walked byte by
byte.

Compressed records (COMPRESSED, COMPRESSED2) are pieces of one zstd stream of records: records and frames go on from
one to the next. Source: tools/perf/util/zstd.c, tools/perf/builtin-record.c.
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

WINDOW_BYTES = 8 << 20  # of records that are looked at together; more do not fit into the caches of CPUs
MAX_RECORD_BYTES = 1 << 16  # a record's size has 16 bits
SLACK_BYTES = 512  # zeros at the end: fixed fields are fetched before the last record is known to be too short
HEADER_BYTES = 8  # u32 type, u16 misc, u16 size
TYPES = 256  # what is below may be a type that is not known yet; what is not was hardly written by perf
FOLLOWED = (Kind.HEADER_TRACING_DATA, Kind.AUXTRACE)  # by bytes that the record's size does not count
PACKED = (Kind.COMPRESSED, Kind.COMPRESSED2)

Troubles = Counter[tuple[str, ProblemKind]]  # what could not be read, until the next window takes it
Words = NDArray[np.int64]  # places in a buffer, in words of eight bytes


class ByteStream:
    """Chunks as one stream; `position` is the offset of the next byte, at first that of the first chunk."""

    def __init__(self, chunks: Iterator[bytes], position: int = 0) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.position = position

    def _parts(self, count: int | None) -> Iterator[memoryview]:
        """The next bytes as they come, fewer only at the end (None: all that is left)."""
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
        """Fills the target as far as the stream goes; the number of bytes."""
        done = 0
        for part in self._parts(len(target)):
            target[done : done + len(part)] = part
            done += len(part)
        return done

    def read(self, count: int) -> bytes:
        """The next bytes, fewer only at the end."""
        return b"".join(self._parts(count))

    def skip(self, count: int | None) -> int:
        """Passes over bytes (None: all that is left); how many there were."""
        return sum(map(len, self._parts(count)))


def roomy(size: int) -> NDArray[np.uint8]:
    """A buffer of zeros with the slack behind it, a multiple of eight long."""
    return np.zeros((size + SLACK_BYTES + 7) & ~7, np.uint8)


class Stretch:
    """The data section a window at a time: `buffer[:used]`, whose first byte stands at `base` of the file.

    What is left of a record that the end of a window cuts is moved to the front of the next one, so each window
    begins with a record, at an address that is a multiple of eight. `left` are the bytes of the section not yet
    fetched, None where it does not say how long it is; `unpaid` those of a payload that the section ends before.
    """

    def __init__(self, stream: ByteStream, length: int | None, file_size: int | None = None) -> None:
        self._stream = stream
        self._window = WINDOW_BYTES if file_size is None else max(1, min(WINDOW_BYTES, file_size))
        self.left = length
        self.buffer = roomy(self._window + MAX_RECORD_BYTES)
        self.used = 0
        self.unpaid = 0
        self.base = stream.position

    def fetch(self, consumed: int, payload: int = 0) -> int:
        """Drops what was consumed and `payload` bytes behind the window, then fetches more: how many bytes came."""
        tail = self.used - consumed
        self.buffer[:tail] = self.buffer[consumed : self.used].copy()
        self.base += consumed
        if payload:
            passed = self.skip(payload)
            self.base += passed
            self.unpaid = payload - passed
        room = self._window if self.left is None else min(self._window, self.left)
        came = self._stream.read_into(self.buffer.data[tail : tail + room])
        self.used = tail + came
        self.buffer[self.used : self.used + SLACK_BYTES] = 0
        self.left = None if self.left is None else self.left - came
        return came

    def skip(self, count: int | None = None) -> int:
        """Passes over bytes of the section, all by default."""
        if self.left is not None:
            count = self.left if count is None else min(count, self.left)
        passed = self._stream.skip(count)
        self.left = None if self.left is None else self.left - passed
        return passed


class View:
    """A buffer as numbers of 64, 32 and 16 bits in the byte order of the file."""

    def __init__(self, buffer: NDArray[np.uint8], order: Order) -> None:
        self.bytes = buffer
        self.u64, self.u32, self.u16 = (buffer.view(f"{order}u{size}") for size in (8, 4, 2))
        self.order = order

    def words(self, at: Words, place: int) -> NDArray[np.uint64]:
        """The 64-bit numbers `place` words behind the positions."""
        return self.u64[place:][at].astype(np.uint64, copy=False)

    def halves(self, at: Words, place: int, half: int) -> NDArray[np.int32]:
        """The first or second 32-bit number of such words, signed."""
        return self.u32[2 * place + half :: 2][at].astype(np.uint32, copy=False).view(np.int32)

    def kinds(self, at: Words) -> NDArray[np.uint32]:
        return self.u32[::2][at].astype(np.uint32, copy=False)

    def misc(self, at: Words) -> NDArray[np.uint16]:
        return self.u16[2::4][at].astype(np.uint16, copy=False)

    def lengths(self, at: Words) -> Words:
        """Sizes of records in whole words."""
        return (self.u16[3::4][at] >> 3).astype(np.int64)


class Walk(NamedTuple):
    """`at` are the records' places in words; `end` is the byte where the walk stopped, `ragged` if not at the end."""

    at: Words
    end: int
    ragged: bool


def walk(view: View, used: int) -> Walk:
    """All whole records in the first `used` bytes, up to the first that is followed by other bytes, packed or odd."""
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
    special = [int(kind) for kind in (*FOLLOWED, *PACKED)]
    odd = (bytes_of & 7 != 0) | (bytes_of == 0) | (kinds >= TYPES) | np.isin(kinds, special)
    if odd.any():
        stop = int(np.argmax(odd))
        return Walk(at[:stop], 8 * places[stop], ragged=True)
    if place > words:  # the end of the window cuts the last one
        return Walk(at[:-1], 8 * places[-1], ragged=False)
    return Walk(at, 8 * place, ragged=False)


@dataclass(slots=True)
class Ragged:
    """Records at any place: plain ones by begin and size, contents of `packed` ones (begin, end, place of the record).

    `end` is where the walk stopped, `payload` how many bytes behind the window belong to the last record, `size` that
    of a record that cannot be (else None).
    """

    begins: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    packed: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    payload: int = 0
    size: int | None = None


def walk_ragged(view: View, at: int, used: int) -> Ragged:
    """Byte by byte through the rest of a window."""
    raw, found, head = view.bytes.data, Ragged(), struct.Struct(view.order + "IHH")
    while at + HEADER_BYTES <= used:
        kind, _, size = head.unpack_from(raw, at)
        if size < HEADER_BYTES:
            found.size = size
            break
        if at + size > used:
            break
        body = bytes(raw[at + HEADER_BYTES : at + min(size, 2 * HEADER_BYTES)])
        if kind in PACKED:
            found.packed.append((*_packed_bytes(body, at, kind, size, view.order), at))
        else:
            found.begins.append(at)
            found.sizes.append(size)
        at += size
        if kind == Kind.HEADER_TRACING_DATA and len(body) >= 4:  # a u32, rounded up to eight
            at += (int(struct.unpack_from(view.order + "I", body)[0]) + 7) & ~7
        elif kind == Kind.AUXTRACE and len(body) == 8:
            at += int(struct.unpack(view.order + "Q", body)[0])
    found.payload = max(0, at - used)
    found.end = min(at, used)
    return found


def _packed_bytes(body: bytes, at: int, kind: int, size: int, order: str) -> tuple[int, int]:
    """Begin and end of the compressed bytes. COMPRESSED2 (perf 6.16) says how many there are and pads."""
    begin, end = at + HEADER_BYTES, at + size
    if kind == Kind.COMPRESSED or len(body) < 8:
        return begin, end
    return begin + 8, min(begin + 8 + int(struct.unpack(order + "Q", body)[0]), end)


def realign(raw: NDArray[np.uint8], begins: Words, sizes: Words) -> tuple[NDArray[np.uint8], Words]:
    """Copies of records one after another, each at a multiple of eight, and their places in words."""
    starts = starts_of((sizes + 7) & ~7)
    copy = roomy(int(starts[-1]))
    # Records that stay together are copied together.
    apart = np.flatnonzero(np.diff(begins) != np.diff(starts[:-1])) + 1
    first, last = np.append(0, apart), np.append(apart, len(sizes)) - 1
    lengths = begins[last] + sizes[last] - begins[first]
    for begin, start, length in zip(begins[first].tolist(), starts[first].tolist(), lengths.tolist(), strict=True):
        copy[start : start + length] = raw[begin : begin + length]
    return copy, starts[:-1] >> 3


BROKEN = "compressed by zstd and damaged: they cannot be decompressed"
SPOILT = "compressed by zstd and invalid after decompression"
BOMB = "compressed by zstd and far larger after decompression than any recording"
PIECE_BYTES = 1 << 10  # given to zstd at once: what comes out is 32 MiB at most
MAX_RATIO = 250  # perf's own records pack about twentyfold
RATIO_AFTER_BYTES = 1 << 30
HISTORY_BYTES = 1 << 27  # that zstd may ask for


@dataclass(frozen=True, slots=True)
class Inner:
    """Unpacked bytes `buffer[:used]`; those from `begins[i]` on came out of the record at `offsets[i]` of the file."""

    buffer: NDArray[np.uint8]
    used: int
    begins: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def offset(self, at: Words) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.offsets[np.searchsorted(self.begins, at << 3, side="right") - 1]
        return found


class Unpacked:
    """The inner stream, a window at a time. `trouble` says why no more of it can be had, `refused` counts records.

    `waiting` are the bytes that were unpacked and not given out.
    """

    def __init__(self) -> None:
        import zstandard  # few recordings need it

        unpacker = zstandard.ZstdDecompressor(max_window_size=HISTORY_BYTES)
        self._decoder = unpacker.decompressobj(read_across_frames=True)
        self._error = zstandard.ZstdError
        self._parts: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._in = self._out = 0
        self.waiting = 0
        self.trouble = ""
        self.refused = 0

    def feed(self, packed: bytes, offset: int) -> Iterator[Inner]:
        """Unpacks the content of a record that stands at `offset`."""
        for begin in range(0, len(packed), PIECE_BYTES):
            if not self.trouble:
                self._unpack(packed[begin : begin + PIECE_BYTES], offset)
            if self.waiting >= WINDOW_BYTES:
                yield self.window()
        if self.trouble:
            self.refused += 1

    def _unpack(self, piece: bytes, offset: int) -> None:
        try:
            out = self._decoder.decompress(piece)
        except self._error:
            self.trouble = BROKEN
            return
        self._in += len(piece)
        self._out += len(out)
        if out:
            self._append(out, offset)
        if self._out > RATIO_AFTER_BYTES and self._out > MAX_RATIO * self._in:
            self.trouble = BOMB

    def _append(self, out: bytes, offset: int) -> None:
        if not self._places or self._places[-1][1] != offset:
            self._places.append((self.waiting, offset))
        self._parts.append(out)
        self.waiting += len(out)

    def window(self) -> Inner:
        """What was unpacked since the last one, behind the record that was cut then."""
        buffer = roomy(self.waiting)
        buffer[: self.waiting] = np.frombuffer(b"".join(self._parts), np.uint8)
        begins, offsets = np.array(self._places, np.int64).reshape(-1, 2).T
        inner = Inner(buffer, self.waiting, begins, offsets)
        self._parts, self._places, self.waiting = [], [], 0
        return inner

    def keep(self, inner: Inner, end: int) -> None:
        """The rest of a window belongs to a record that goes on in the next one."""
        if end < inner.used:
            at = np.array([end >> 3], np.int64)
            self._append(inner.buffer[end : inner.used].tobytes(), int(inner.offset(at)[0]))

    def spoil(self, size: int) -> None:
        """What was unpacked is no chain of records: no more of it is read."""
        self.trouble = self.trouble or f"{SPOILT}, {size} bytes from there on are not read"
        self.refused = max(self.refused, 1)

    def report(self, troubles: Troubles) -> None:
        """What could not be had, as a problem."""
        if self.trouble:
            kind = ProblemKind.LIMIT if self.trouble == BOMB else ProblemKind.DAMAGED
            troubles[f"has records that are {self.trouble}", kind] += self.refused
