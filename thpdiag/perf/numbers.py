"""Numbers for 64-bit keys: each distinct key gets the next number, at the speed of whole arrays.

An open-addressed hash table in numpy: a round looks at one slot for every key that is still without a number, so that
the cost is a few rounds, not a sort. It lasts over windows of a recording and grows with distinct keys only. Keys that
were made to get into each other's way end up in a dictionary after some rounds: no recording makes the rounds many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]
Ints = NDArray[np.int64]

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
