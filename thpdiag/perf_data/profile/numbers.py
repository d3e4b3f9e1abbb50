"""Numbers for 64-bit keys: each distinct key gets the next number, at the speed of whole arrays.

An open-addressed table in numpy: a round looks at one slot for every key that is still without a number, so that the
cost is a few rounds, not a sort. It lasts over windows of a recording and grows with distinct keys only. Keys that
were made to get into each other's way stand aside after some rounds, sorted: no recording makes the rounds many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ids = NDArray[np.int32]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the high bits depend on all bits of the key
_HOME = np.uint64(0xD1B54A32D192ED03)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_FIRST_BITS = 16
_GROW_BITS = 1
_FOLDS = np.uint64(33), np.uint64(29)
_MOST_ROUNDS = 64  # half of the slots are free: after so many one in 2**64 keys is still without a slot, if by chance


class Numbers:
    """Keys in the order of their numbers, and the table that finds them."""

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._slots = np.full(1 << self._bits, -1, np.int32)
        self._keys = np.empty(1 << (self._bits - 1), np.uint64)
        self._count = 0
        self._aside, self._aside_ids = np.empty(0, np.uint64), np.empty(0, np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._keys.nbytes + self._aside.nbytes + self._aside_ids.nbytes

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
        return ((_mixed(keys) * _HOME) >> np.uint64(64 - self._bits)).view(np.int64)

    def _next(self, slot: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
        """The slot to look at after one that another key has: the step depends on the key too."""
        step = ((_mixed(keys) * _STEP) >> np.uint64(64 - self._bits)).view(np.int64) | 1
        return (slot + step) & (len(self._slots) - 1)

    def _insert(self, keys: Keys, todo: NDArray[np.int64], ids: Ids) -> NDArray[np.int64]:
        """Find or place keys, whose numbers belong at `todo` of `ids`; the places of the new ones."""
        fresh = [np.empty(0, np.int64)]
        slot = self._home(keys)
        for _ in range(_MOST_ROUNDS):
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
            if not len(left):
                return np.concatenate(fresh)
            todo, keys = todo[left], keys[left]
            slot = self._next(slot[left], keys)
        return np.concatenate([*fresh, self._put_aside(keys, todo, ids)])

    def _put_aside(self, keys: Keys, todo: NDArray[np.int64], ids: Ids) -> NDArray[np.int64]:
        """The same for keys that found no slot."""
        distinct, first, of = np.unique(keys, return_index=True, return_inverse=True)
        place = np.searchsorted(self._aside, distinct)
        known = np.zeros(len(distinct), np.bool_)
        inside = place < len(self._aside)
        known[inside] = self._aside[place[inside]] == distinct[inside]
        numbers = np.empty(len(distinct), np.int32)
        numbers[known] = self._aside_ids[place[known]]
        new = np.flatnonzero(~known)
        numbers[new] = np.arange(self._count, self._count + len(new), dtype=np.int32)
        self._keys[self._count : self._count + len(new)] = distinct[new]
        self._count += len(new)
        self._aside = np.insert(self._aside, place[new], distinct[new])
        self._aside_ids = np.insert(self._aside_ids, place[new], numbers[new])
        ids[todo] = numbers[of]
        return todo[first[new]]

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
        for _ in range(_MOST_ROUNDS):
            free = np.flatnonzero(self._slots[slot] < 0)
            self._slots[slot[free]] = ids[free]
            left = np.flatnonzero(self._slots[slot] != ids)
            keys, ids = keys[left], ids[left]
            if not len(left):
                break
            slot = self._next(slot[left], keys)
        order = np.argsort(keys)
        self._aside, self._aside_ids = keys[order], ids[order]


def _mixed(keys: Keys) -> Keys:
    """Keys at even distances, as addresses are, become as good as random; products alone keep the distances even."""
    spread = keys ^ (keys >> _FOLDS[0])
    spread *= _SPREAD
    spread ^= spread >> _FOLDS[1]
    return spread


def pair(high: NDArray[np.integer], low: NDArray[np.integer]) -> Keys:
    """One key of two 32-bit numbers."""
    keys: Keys = (high.astype(np.int64) << 32 | (low.astype(np.int64) & 0xFFFFFFFF)).view(np.uint64)
    return keys


def unpaired(keys: Keys) -> tuple[Ids, Ids]:
    """The two numbers of each key of `pair`."""
    both = keys.view(np.int64)
    return (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
