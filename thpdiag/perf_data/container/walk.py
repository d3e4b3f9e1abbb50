"""Where the records of a window begin.

Each record says only how long it is, so the next one is known when this one was looked at. Done one by one that
costs more than all the rest. But a sample's header is easy to recognise: of all words of the window those are
fetched that look like one; where each ends just where the next begins they confirm each other, beginning with one
that is known to be a record. Only what lies between such runs is walked, so the result is exactly that of the walk.

Records are multiples of eight bytes long, with three exceptions: compressed ones, the payload that follows
trace data, and damage. From the first of these on a window is `ragged`.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.container.record_types import FOLLOWED, PACKED, TYPES, Kind
from thpdiag.perf_data.container.stream import roomy
from thpdiag.perf_data.container.view import View, Words
from thpdiag.ragged import starts_of

HEADER = 8  # u32 type, u16 misc, u16 size
MANY = 8  # runs this short on average are not worth looking for
SAMPLE = int(Kind.SAMPLE)  # compared far faster than a member of an enumeration
SPECIAL = frozenset(int(kind) for kind in (*FOLLOWED, *PACKED))


@dataclass(frozen=True, slots=True)
class Walk:
    """`at` are the records' places in words; `end` is the byte where the walk stopped, `ragged` if not at the end."""

    at: Words
    end: int
    ragged: bool


def _stepped(view: View, at: int, words: int) -> Walk:
    """Record by record. What needs looking at in the sizes is looked at afterwards, all at once."""
    sizes = view.u16.astype("=u2", copy=False).data
    found: list[int] = []
    add = found.append
    while at < words:
        add(at)
        size = sizes[4 * at + 3]
        if size & 7 or not size:
            break
        at += size >> 3
    return _judged(view, np.array(found, np.int64), words)


def _judged(view: View, at: Words, words: int) -> Walk:
    """Records that follow each other, up to the first that is special, odd or cut by the end of the window."""
    if not len(at):
        return Walk(at, 0, ragged=False)
    kinds = view.kinds(at)
    size = view.u16[3::4][at]
    odd = (size & 7 != 0) | (size == 0) | (kinds >= TYPES) | np.isin(kinds, list(SPECIAL))
    if odd.any():
        stop = int(np.argmax(odd))
        return Walk(at[:stop], 8 * int(at[stop]), ragged=True)
    after = int(at[-1]) + (int(size[-1]) >> 3)
    if after > words:
        return Walk(at[:-1], 8 * int(at[-1]), ragged=False)
    return Walk(at, 8 * after, ragged=False)


def _likely(view: View, words: int) -> tuple[Words, Words]:
    """Words that look like the header of a sample, and where that sample would end."""
    looks = np.flatnonzero(view.u32[: 2 * words : 2] == SAMPLE)
    size = view.u16[3::4][looks]
    sound = (size & 7 == 0) & (size != 0)
    if not sound.all():
        looks, size = looks[sound], size[sound]
    return looks, looks + (size >> 3)


def walk(view: View, used: int) -> Walk:
    """All whole records in the first `used` bytes."""
    words = used >> 3
    looks, ends = _likely(view, words)
    breaks = np.flatnonzero(ends[:-1] != looks[1:])
    if len(breaks) * MANY >= len(looks):
        return _stepped(view, 0, words)
    return _judged(view, _runs(view, looks, ends, [*breaks.tolist(), len(looks) - 1], words), words)


def _runs(view: View, looks: Words, ends: Words, breaks: list[int], words: int) -> Words:
    """Runs of samples that confirm each other, and single steps between them."""
    kinds, sizes = view.u32.astype("=u4", copy=False).data, view.u16.astype("=u2", copy=False).data
    pieces: list[Words] = []
    between: list[int] = []
    at = run = 0
    while at < words:
        size = sizes[4 * at + 3]
        sound = size and not size & 7
        if not sound or kinds[2 * at] != SAMPLE:
            between.append(at)
            if not sound:
                break
            at += size >> 3
            continue
        first = int(np.searchsorted(looks, at))
        while breaks[run] < first:
            run += 1
        pieces += [np.array(between, np.int64), looks[first : breaks[run] + 1]]
        between = []
        at = int(ends[breaks[run]])
    return np.concatenate([*pieces, np.array(between, np.int64)])


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
    raw = view.bytes.data
    found = Ragged()
    head = struct.Struct(view.order + "IHH")
    while at + HEADER <= used:
        kind, _, size = head.unpack_from(raw, at)
        if size < HEADER:
            found.size = size
            break
        if at + size > used:
            break
        end = at + size
        if kind in PACKED:
            found.packed.append((*_content(raw, at, kind, view.order), at))
        else:
            found.begins.append(at)
            found.sizes.append(size)
        at = end + (_payload(raw, at, kind, view.order) if kind in FOLLOWED else 0)
    found.payload = max(0, at - used)
    found.end = min(at, used)
    return found


def _content(raw: memoryview, at: int, kind: int, order: str) -> tuple[int, int]:
    """Begin and end of the compressed bytes. COMPRESSED2 (perf 6.16) says how many there are and pads."""
    size = int(struct.unpack_from(order + "H", raw, at + 6)[0])
    if kind == Kind.COMPRESSED or size < HEADER + 8:
        return at + HEADER, at + size
    count = int(struct.unpack_from(order + "Q", raw, at + HEADER)[0])
    return at + HEADER + 8, at + HEADER + 8 + min(count, size - HEADER - 8)


def _payload(raw: memoryview, at: int, kind: int, order: str) -> int:
    """Bytes behind a record of trace data: a u32 rounded up to eight, or a u64."""
    size = int(struct.unpack_from(order + "H", raw, at + 6)[0])
    if kind == Kind.HEADER_TRACING_DATA:
        return (int(struct.unpack_from(order + "I", raw, at + HEADER)[0]) + 7) & ~7 if size >= HEADER + 4 else 0
    return int(struct.unpack_from(order + "Q", raw, at + HEADER)[0]) if size >= HEADER + 8 else 0


def realigned(raw: NDArray[np.uint8], begins: Words, sizes: Words) -> tuple[NDArray[np.uint8], Words]:
    """Copies of records one after another, each at a multiple of eight, and their places in words."""
    starts = starts_of((sizes + 7) & ~7)
    copy = roomy(int(starts[-1]))
    # Records that stay together are copied together.
    apart = np.flatnonzero(np.diff(begins) != np.diff(starts[:-1])) + 1
    first = np.concatenate((np.zeros(1, np.int64), apart))
    last = np.concatenate((apart, [len(sizes)])) - 1
    lengths = begins[last] + sizes[last] - begins[first]
    for begin, start, length in zip(begins[first].tolist(), starts[first].tolist(), lengths.tolist(), strict=True):
        copy[start : start + length] = raw[begin : begin + length]
    return copy, starts[:-1] >> 3
