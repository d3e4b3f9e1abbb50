"""Numbers for 64-bit keys: each distinct key gets the next number, at the speed of whole arrays.

An open-addressed table in numpy: a round looks at one slot for every key that is still without a number, so that the
cost is a few rounds, not a sort. It lasts over windows of a recording and grows with distinct keys only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the high bits depend on all bits of the key
_STEP = np.uint64(0xD6E8FEB86659FD93)
_FIRST_BITS = 16
_GROW_BITS = 1


class Numbers:
    """Keys in the order of their numbers, and the table that finds them."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slots = np.full(1 << self._bits, -1, np.int32)
        self._keys = np.empty(1 << (self._bits - 1), np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._keys.nbytes

    @property
    def keys(self) -> Keys:
        """The keys, in the order of their numbers."""
        return self._keys[: self._count]

    def numbered(self, keys: Keys) -> tuple[Ids, NDArray[np.int64]]:
        """The number of each key; for the new ones, in order, the place in `keys` where each stands (once)."""
        ids = self._slots[self._home(keys)]
        unknown = ids < 0
        unknown |= self._keys[ids] != keys  # id -1 reads the last key, and is unknown anyway
        todo = np.flatnonzero(unknown)
        if not len(todo):
            return ids, todo
        self._make_room(len(todo))
        return ids, self._insert(keys[todo], todo, ids)

    def _home(self, keys: Keys) -> NDArray[np.int64]:
        return ((keys * _SPREAD) >> np.uint64(64 - self._bits)).view(np.int64)

    def _next(self, slot: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
        """The slot to look at after one that another key has: the step depends on the key too."""
        step = ((keys * _STEP) >> np.uint64(64 - self._bits)).view(np.int64) | 1
        return (slot + step) & (len(self._slots) - 1)

    def _insert(self, keys: Keys, todo: NDArray[np.int64], ids: Ids) -> NDArray[np.int64]:
        """Find or place keys, whose numbers belong at `todo` of `ids`; the places of the new ones."""
        fresh = [np.empty(0, np.int64)]
        slot = self._home(keys)
        while len(todo):
            free = np.flatnonzero(self._slots[slot] < 0)
            won = free[self._claimed(slot[free], self._count)]
            numbers = slice(self._count, self._count + len(won))
            self._slots[slot[won]] = np.arange(numbers.start, numbers.stop, dtype=np.int32)
            self._keys[numbers] = keys[won]
            self._count = numbers.stop
            fresh.append(todo[won])
            held = self._slots[slot]
            ids[todo] = held
            left = np.flatnonzero(self._keys[held] != keys)
            todo, keys = todo[left], keys[left]
            slot = self._next(slot[left], keys)
        return np.concatenate(fresh)

    def _claimed(self, slots: NDArray[np.int64], first: int) -> NDArray[np.bool_]:
        """Several keys may want one free slot: who stands there afterwards has it."""
        claims = np.arange(first, first + len(slots), dtype=np.int32)
        self._slots[slots] = claims
        claimed: NDArray[np.bool_] = self._slots[slots] == claims
        return claimed

    def _make_room(self, more: int) -> None:
        """At most half of the slots are taken, whatever comes in."""
        need = self._count + more
        if need <= len(self._keys):
            return
        self._bits = max((2 * need - 1).bit_length(), self._bits + _GROW_BITS)
        known = self.keys
        self._slots = np.full(1 << self._bits, -1, np.int32)
        self._keys = np.empty(1 << (self._bits - 1), np.uint64)
        self._keys[: self._count] = known
        self._place(known, np.arange(self._count, dtype=np.int32))

    def _place(self, keys: Keys, ids: Ids) -> None:
        """Put distinct keys, which have their numbers, into an empty table."""
        slot = self._home(keys)
        while len(ids):
            free = np.flatnonzero(self._slots[slot] < 0)
            self._slots[slot[free]] = ids[free]
            left = np.flatnonzero(self._slots[slot] != ids)
            keys, ids = keys[left], ids[left]
            slot = self._next(slot[left], keys)


def pair(high: NDArray[np.integer], low: NDArray[np.integer]) -> Keys:
    """One key of two 32-bit numbers."""
    keys: Keys = (high.astype(np.int64) << 32 | (low.astype(np.int64) & 0xFFFFFFFF)).view(np.uint64)
    return keys


def unpaired(keys: Keys) -> tuple[Ids, Ids]:
    """The two numbers of each key of `pair`."""
    both = keys.view(np.int64)
    return (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
