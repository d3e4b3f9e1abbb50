"""Lists of different lengths in one flat array: `values[starts[i]:starts[i + 1]]` is list `i`; keys of them.

Call chains are such lists. All functions work on whole arrays; none has a loop over lists. numpy is imported by the
callers' modules already, so that this one may do so at the top; nothing imports it before there is a profile.

`Numbers` gives each distinct 64-bit key the next number, at the speed of whole arrays: an open-addressed hash table in
numpy, of which a round looks at one slot for every key that is still without a number, so that the cost is a few
rounds, not a sort. It lasts over windows of a recording and grows with distinct keys only. Keys that were made to get
into each other's way end up in a dictionary after some rounds: no recording makes the rounds many.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

AT_ONCE = 1 << 18  # values whose keys are made together
_BASE = 0x2545F4914F6CDD1D  # odd; 5 modulo 8: its powers repeat only after 2**62
_INVERSE = pow(_BASE, -1, 1 << 64)
_LENGTH = np.uint64(0xA0761D6478BD642F)


def starts_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
    """The starts of lists of these lengths, with the end of the last one behind."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def list_indices(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """The indices `begins[i], begins[i] + 1, ... begins[i] + lengths[i] - 1` of all lists, one after another."""
    starts = starts_of(lengths)
    return np.arange(starts[-1], dtype=np.int64) + np.repeat(begins.astype(np.int64) - starts[:-1], lengths)


def any_of(marks: NDArray[np.bool_], starts: Ints) -> NDArray[np.bool_]:
    """For each list whether any of its values is marked; an empty list has none."""
    counts = starts_of(marks)
    found: NDArray[np.bool_] = np.greater(counts[starts[1:]], counts[starts[:-1]])
    return found


class ListKeys:
    """A 64-bit key of each list: equal lists have equal keys, different ones practically never.

    The key is a polynomial in an odd number, modulo 2**64, over the places of the list, with its length added. Powers
    are taken by the place in the whole array and taken back at each list's start: no array of places within lists is
    needed. The powers of the longest array so far are kept.
    """

    def __init__(self) -> None:
        self._powers = np.ones(1, np.uint64)
        self._back = np.ones(1, np.uint64)

    def of(self, values: NDArray[np.integer], starts: Ints) -> NDArray[np.uint64]:
        """The key of each list."""
        self._reach(len(values) + 1)
        lengths = np.diff(starts)
        filled = lengths > 0
        keys = np.zeros(len(lengths), np.uint64)
        begins = starts[:-1][filled]
        if len(begins):
            sums = np.add.reduceat(values.astype(np.uint64, copy=False) * self._powers[: len(values)], begins)
            keys[filled] = sums * self._back[begins]
        keys += lengths.astype(np.uint64) * _LENGTH
        return keys

    def _reach(self, length: int) -> None:
        if length > len(self._powers):
            ample = length + length // 2
            self._powers, self._back = _powers(_BASE, ample), _powers(_INVERSE, ample)


def _powers(base: int, length: int) -> NDArray[np.uint64]:
    factors = np.full(length, base, np.uint64)
    factors[0] = 1
    powers: NDArray[np.uint64] = np.multiply.accumulate(factors)
    return powers


def keys_of(values: NDArray[np.integer], starts: Ints) -> NDArray[np.uint64]:
    """The key of each list of a long array, some at a time: what the processor's cache holds."""
    keys, inner = ListKeys(), np.searchsorted(starts, np.arange(AT_ONCE, int(starts[-1]), AT_ONCE))
    edges = [0, *inner.clip(max=len(starts) - 1).tolist(), len(starts) - 1]
    parts = []
    for first, last in pairwise(edges):
        begin, end = int(starts[first]), int(starts[last])
        parts.append(keys.of(values[begin:end], starts[first : last + 1] - begin))
    return np.concatenate(parts)


def group_keys(keys: NDArray[np.generic]) -> tuple[Ints, Ints]:
    """Where each distinct key stands first, in that order, and for each key the number of its group."""
    order = np.argsort(keys)
    ordered = keys[order]
    new = np.ones(len(keys), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    begins = np.flatnonzero(new)
    first = np.minimum.reduceat(order, begins) if len(begins) else begins
    by_place = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[by_place] = np.arange(len(first))
    number = np.empty(len(keys), np.int64)
    number[order] = np.repeat(rank, np.diff(np.append(begins, len(keys))))
    return first[by_place], number


def distinct(values: NDArray[np.integer], starts: Ints) -> tuple[Ints, Ints]:
    """Which lists differ from all before them, and for each list its number among those."""
    return group_keys(keys_of(values, starts))


Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the high bits depend on all bits of the key
_HOME = np.uint64(0xD1B54A32D192ED03)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_FOLDS = np.uint64(33), np.uint64(29)
_FIRST_BITS = 16
_MAX_ROUNDS = 64  # half of the slots are free: after so many one in 2**64 keys is still without a slot, if by chance


class Numbers:
    """Keys in the order of their numbers, and the table that finds them."""

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
        """The number of each key; for the new ones, in order, the place in `keys` where each stands (once)."""
        ids = self._slots[self._home(keys)]
        unknown = ids < 0
        unknown |= self._keys[ids] != keys  # id -1 reads the last key, and is unknown anyway
        todo = np.flatnonzero(unknown)
        if not len(todo):
            return ids, todo
        if (need := self._count + len(todo)) > len(self._keys):  # at most half of the slots are taken
            self._grow(max((2 * need - 1).bit_length(), self._bits + 1))
        keys, slot = keys[todo], self._home(keys[todo])
        fresh = []
        for _ in range(_MAX_ROUNDS):
            free = np.flatnonzero(self._slots[slot] < 0)
            # Several keys may want one free slot: who stands there afterwards has it.
            claims = np.arange(self._count, self._count + len(free), dtype=np.int32)
            self._slots[slot[free]] = claims
            won = free[self._slots[slot[free]] == claims]
            fresh.append(todo[won])
            self._slots[slot[won]] = self._append(keys[won])
            held = self._slots[slot]
            ids[todo] = held
            left = np.flatnonzero(self._keys[held] != keys)
            todo, keys = todo[left], keys[left]
            if not len(left):
                break
            slot = self._next_slot(slot[left], keys)
        for place, key in zip(todo.tolist(), keys, strict=True):
            if (number := self._without_slot.get(int(key))) is None:
                fresh.append(np.array([place]))
                number = self._without_slot[int(key)] = int(self._append(key.reshape(1))[0])
            ids[place] = number
        return ids, np.concatenate(fresh)

    def _home(self, keys: Keys) -> Ints:
        return ((_mix(keys) * _HOME) >> np.uint64(64 - self._bits)).view(np.int64)

    def _next_slot(self, slot: Ints, keys: Keys) -> Ints:
        """The slot to look at after one that another key has: the step depends on the key too."""
        step = ((_mix(keys) * _STEP) >> np.uint64(64 - self._bits)).view(np.int64) | 1
        return (slot + step) & (len(self._slots) - 1)

    def _append(self, keys: Keys) -> Ids:
        """The next numbers, for new keys."""
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
            left = np.flatnonzero(self._slots[slot] != ids)
            keys, ids = keys[left], ids[left]
            if not len(left):
                break
            slot = self._next_slot(slot[left], keys)
        self._without_slot = dict(zip(keys.tolist(), ids.tolist(), strict=True))


def _mix(keys: Keys) -> Keys:
    """Keys at even distances, as addresses are, become as good as random; products alone keep the distances even."""
    spread = keys ^ (keys >> _FOLDS[0])
    spread *= _SPREAD
    spread ^= spread >> _FOLDS[1]
    return spread


def pair(high: NDArray[np.integer], low: NDArray[np.integer]) -> Keys:
    """One key of two 32-bit numbers."""
    keys: Keys = (high.astype(np.int64) << 32 | (low.astype(np.int64) & 0xFFFFFFFF)).view(np.uint64)
    return keys


def unpair(keys: Keys) -> tuple[Ids, Ids]:
    """The two numbers of each key of `pair`."""
    both = keys.view(np.int64)
    return (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
