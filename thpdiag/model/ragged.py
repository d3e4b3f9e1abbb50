"""Lists of different lengths in one flat array: `values[starts[i]:starts[i + 1]]` is list `i`; and keys of such lists.

Call chains are such lists. All functions work on whole arrays without a loop over lists. The modules that import this
one import numpy anyway, and none of them is imported before there is a profile.

`Numbers` assigns consecutive numbers to distinct 64-bit keys at the speed of whole arrays: an open-addressed hash table
in numpy. Each round looks at one slot for every key without a number, so that the cost is a few rounds instead of a
sort. It persists over windows of a recording and grows with distinct keys only. Keys that collide after many rounds,
for example by malicious design, go to a dictionary, so the number of rounds is limited.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

AT_ONCE = 1 << 18  # values whose keys are computed together
_BASE = 0x2545F4914F6CDD1D  # odd, and 5 modulo 8: its powers repeat only after 2**62
_INVERSE = pow(_BASE, -1, 1 << 64)
_LENGTH_FACTOR = np.uint64(0xA0761D6478BD642F)


def starts_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
    """Return the starts of lists of these lengths, followed by the end of the last one."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def list_indices(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """Return the indices `begins[i], begins[i] + 1, ... begins[i] + lengths[i] - 1` of all lists, concatenated."""
    starts = starts_of(lengths)
    return np.arange(starts[-1], dtype=np.int64) + np.repeat(begins.astype(np.int64) - starts[:-1], lengths)


def any_of(marks: NDArray[np.bool_], starts: Ints) -> NDArray[np.bool_]:
    """Return for each list whether any of its values is marked; False for an empty list."""
    counts = starts_of(marks)
    has_mark: NDArray[np.bool_] = np.greater(counts[starts[1:]], counts[starts[:-1]])
    return has_mark


class ListKeys:
    """Computes a 64-bit key of each list: equal lists have equal keys, different ones practically never.

    The key is a polynomial in an odd number, modulo 2**64, over the positions in the list, plus its length. Powers are
    those of the position in the whole array, divided by that of the list's start, so that no array of positions within
    lists is needed. The powers for the longest array so far are cached.
    """

    def __init__(self) -> None:
        self._powers = np.ones(1, np.uint64)
        self._inverse_powers = np.ones(1, np.uint64)

    def of(self, values: NDArray[np.integer], starts: Ints) -> NDArray[np.uint64]:
        """Return the key of each list."""
        self._ensure_powers(len(values) + 1)
        lengths = np.diff(starts)
        non_empty = lengths > 0
        keys = np.zeros(len(lengths), np.uint64)
        begins = starts[:-1][non_empty]
        if len(begins):
            sums = np.add.reduceat(values.astype(np.uint64, copy=False) * self._powers[: len(values)], begins)
            keys[non_empty] = sums * self._inverse_powers[begins]
        keys += lengths.astype(np.uint64) * _LENGTH_FACTOR
        return keys

    def _ensure_powers(self, length: int) -> None:
        if length > len(self._powers):
            new_length = length + length // 2
            self._powers, self._inverse_powers = _powers(_BASE, new_length), _powers(_INVERSE, new_length)


def _powers(base: int, length: int) -> NDArray[np.uint64]:
    factors = np.full(length, base, np.uint64)
    factors[0] = 1
    powers: NDArray[np.uint64] = np.multiply.accumulate(factors)
    return powers


def keys_of(values: NDArray[np.integer], starts: Ints) -> NDArray[np.uint64]:
    """Return the key of each list of a long array, computed in parts that fit into the processor's cache."""
    keys, inner = ListKeys(), np.searchsorted(starts, np.arange(AT_ONCE, int(starts[-1]), AT_ONCE))
    edges = [0, *inner.clip(max=len(starts) - 1).tolist(), len(starts) - 1]
    parts = []
    for first, last in pairwise(edges):
        begin, end = int(starts[first]), int(starts[last])
        parts.append(keys.of(values[begin:end], starts[first : last + 1] - begin))
    return np.concatenate(parts)


def group_keys(keys: NDArray[np.generic]) -> tuple[Ints, Ints]:
    """Return the index of the first occurrence of each distinct key, ascending, and for each key its group number."""
    order = np.argsort(keys)
    ordered = keys[order]
    is_new = np.ones(len(keys), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    begins = np.flatnonzero(is_new)
    first = np.minimum.reduceat(order, begins) if len(begins) else begins
    by_index = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[by_index] = np.arange(len(first))
    number = np.empty(len(keys), np.int64)
    number[order] = np.repeat(rank, np.diff(np.append(begins, len(keys))))
    return first[by_index], number


def distinct(values: NDArray[np.integer], starts: Ints) -> tuple[Ints, Ints]:
    """Return the lists that differ from all earlier ones, and for each list its number among those."""
    return group_keys(keys_of(values, starts))


Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]

_MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the high bits depend on all bits of the key
_SLOT_FACTOR = np.uint64(0xD1B54A32D192ED03)
_STEP_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFTS = np.uint64(33), np.uint64(29)
_FIRST_BITS = 16
_MAX_ROUNDS = 64  # half of the slots are free, so by chance one in 2**64 keys has no slot by then


class Numbers:
    """Keys in the order of their numbers, and the hash table for lookup."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slots = np.full(1 << self._bits, -1, np.int32)
        self._keys = np.empty(1 << (self._bits - 1), np.uint64)
        self._count = 0
        self._without_slot: dict[int, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._keys.nbytes

    @property
    def keys(self) -> Keys:
        """The keys, in the order of their numbers."""
        return self._keys[: self._count]

    def factorize(self, keys: Keys) -> tuple[Ids, Ints]:
        """Return the number of each key, and for new numbers, in order, the index of the first occurrence in `keys`."""
        ids = self._slots[self._home(keys)]
        unknown = ids < 0
        unknown |= self._keys[ids] != keys  # id -1 reads the last key, and is unknown anyway
        pending = np.flatnonzero(unknown)
        if not len(pending):
            return ids, pending
        if (need := self._count + len(pending)) > len(self._keys):  # at most half of the slots are taken
            self._grow(max((2 * need - 1).bit_length(), self._bits + 1))
        keys, slot = keys[pending], self._home(keys[pending])
        new_indices = []
        for _ in range(_MAX_ROUNDS):
            free = np.flatnonzero(self._slots[slot] < 0)
            # If several keys claim one free slot, the last one written gets it.
            claims = np.arange(self._count, self._count + len(free), dtype=np.int32)
            self._slots[slot[free]] = claims
            winners = free[self._slots[slot[free]] == claims]
            new_indices.append(pending[winners])
            self._slots[slot[winners]] = self._append(keys[winners])
            occupants = self._slots[slot]
            ids[pending] = occupants
            remaining = np.flatnonzero(self._keys[occupants] != keys)
            pending, keys = pending[remaining], keys[remaining]
            if not len(remaining):
                break
            slot = self._next_slot(slot[remaining], keys)
        for place, key in zip(pending.tolist(), keys, strict=True):
            if (number := self._without_slot.get(int(key))) is None:
                new_indices.append(np.array([place]))
                number = self._without_slot[int(key)] = int(self._append(key.reshape(1))[0])
            ids[place] = number
        return ids, np.concatenate(new_indices)

    def _home(self, keys: Keys) -> Ints:
        return ((_mix(keys) * _SLOT_FACTOR) >> np.uint64(64 - self._bits)).view(np.int64)

    def _next_slot(self, slot: Ints, keys: Keys) -> Ints:
        """Return the slot to try after one that another key occupies: the step depends on the key."""
        step = ((_mix(keys) * _STEP_FACTOR) >> np.uint64(64 - self._bits)).view(np.int64) | 1
        return (slot + step) & (len(self._slots) - 1)

    def _append(self, keys: Keys) -> Ids:
        """Store new keys and return their numbers."""
        begin, self._count = self._count, self._count + len(keys)
        self._keys[begin : self._count] = keys
        return np.arange(begin, self._count, dtype=np.int32)

    def _grow(self, bits: int) -> None:
        keys, ids = self.keys, np.arange(self._count, dtype=np.int32)
        self._bits = bits
        self._slots = np.full(1 << bits, -1, np.int32)
        self._keys = np.empty(1 << (bits - 1), np.uint64)
        self._keys[: self._count] = keys
        slot = self._home(keys)
        for _ in range(_MAX_ROUNDS):
            free = np.flatnonzero(self._slots[slot] < 0)
            self._slots[slot[free]] = ids[free]
            remaining = np.flatnonzero(self._slots[slot] != ids)
            keys, ids = keys[remaining], ids[remaining]
            if not len(remaining):
                break
            slot = self._next_slot(slot[remaining], keys)
        self._without_slot = dict(zip(keys.tolist(), ids.tolist(), strict=True))


def _mix(keys: Keys) -> Keys:
    """Return keys with randomised bits: addresses have regular distances, which a product alone would preserve."""
    mixed = keys ^ (keys >> _SHIFTS[0])
    mixed *= _MIX_FACTOR
    mixed ^= mixed >> _SHIFTS[1]
    return mixed


def pair(high: NDArray[np.integer], low: NDArray[np.integer]) -> Keys:
    """Return one 64-bit key of two 32-bit numbers."""
    keys: Keys = (high.astype(np.int64) << 32 | (low.astype(np.int64) & 0xFFFFFFFF)).view(np.uint64)
    return keys


def unpair(keys: Keys) -> tuple[Ids, Ids]:
    """Return the two numbers of each key of `pair`."""
    pairs = keys.view(np.int64)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
