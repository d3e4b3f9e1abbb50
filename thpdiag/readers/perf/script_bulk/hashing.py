"""64-bit hashes of pieces of text, many at once, and tables that find a number by such a hash.

A hash is the sum of the words of 8 bytes, each mixed and times a random odd number, and of the length: two different
pieces have the same one by a chance of about 1 in 2**48. The random numbers are the same in every run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

BLOCK = 64  # bytes that are taken at once
LONGEST = 16 * BLOCK  # pieces beyond are not hashed here
_LOAD = 3  # slots of a table per entry, at least
_NUMBER = np.uint64(24)  # bits of a slot
_NUMBERS = np.uint64((1 << 24) - 1)
_NOT_EMPTY = np.uint64(1 << 63)

ODD: Words = np.random.Generator(np.random.PCG64(3)).integers(0, 2**64, 4096, np.uint64) | np.uint64(1)
_WEIGHTS, _OF_LENGTH, _LAST = ODD[: LONGEST // 8], ODD[-1], ODD[-2]
_STEPS = (np.uint64(32), np.uint64(16))


def _kept(width: int) -> NDArray[np.void]:
    """Number n keeps the first n bytes of a block."""
    return np.tril(np.full((width + 1, width), 255, np.uint8), -1).view(f"V{width}").ravel()


KEEP = {width: _kept(width) for width in (BLOCK, BLOCK // 2)}


def pieces(buffer: Bytes, width: int) -> NDArray[np.void]:
    """All pieces of a width, one for each byte of the buffer that has as many behind it; nothing is copied."""
    return np.ndarray((len(buffer) - width + 1,), f"V{width}", buffer.data, strides=(1,))


def words_at(buffer: Bytes, places: Ints, width: int = 8) -> Words:
    """The words of 8 bytes at each place: one column, or `width / 8` of them."""
    found: Words = pieces(buffer, width)[places].view(np.uint64)
    return found if width == 8 else np.reshape(found, (-1, width // 8))


def mixed(words: Words) -> Words:
    """Lets the upper bits of each word have their say in the lower ones, in place."""
    for step in _STEPS:
        words ^= words >> step
    return words


def hashed(buffer: Bytes, places: Ints, lengths: Ints) -> Words:
    """The hashes of pieces of at most LONGEST bytes."""
    total: Words = lengths.astype(np.uint64) * _OF_LENGTH
    if not len(places):
        return total
    longest = int(lengths.max())
    total += _block(buffer, places, lengths, 0, BLOCK if longest > BLOCK // 2 else BLOCK // 2)
    for at in range(BLOCK, longest, BLOCK):
        more = np.flatnonzero(lengths > at)
        total[more] += _block(buffer, places[more] + at, lengths[more] - at, at, BLOCK)
    return finished(total)


def _block(buffer: Bytes, places: Ints, lengths: Ints, at: int, width: int) -> Words:
    """The sums of one block of each piece; what is behind its end counts nothing."""
    words = words_at(buffer, places, width)
    words &= KEEP[width].take(np.clip(lengths, 0, width)).view(np.uint64).reshape(-1, width // 8)
    total: Words = mixed(words) @ _WEIGHTS[at // 8 : (at + width) // 8]
    return total


def finished(total: Words) -> Words:
    """Lower and upper bits depend on all; no hash is the mark of an empty slot."""
    total ^= total >> _STEPS[0]
    total *= _LAST
    total |= _NOT_EMPTY
    return total


class HashTable:
    """Numbers from 0 on by hash. Grows as needed.

    A slot has the upper bits of a hash and the number; the slots to look into are those of the lower bits and behind.
    """

    def __init__(self, bits: int = 12) -> None:
        self._slots = np.zeros(1 << bits, np.uint64)
        self._all: list[Words] = []  # in the order of their numbers
        self.count = 0

    def find(self, hashes: Words) -> NDArray[np.int32]:
        """The number of each hash, -1 where it is not known."""
        last = np.uint64(len(self._slots) - 1)
        places = (hashes & last).view(np.int64)
        slots = self._slots[places]
        other = np.flatnonzero((slots ^ hashes) >> _NUMBER)
        found = (slots & _NUMBERS).astype(np.int32)
        if len(other):
            slots = slots[other]
            found[other] = -1
            on = slots != 0
            other, places = other[on], places[other][on]
        while len(other):
            places = (places + 1) & np.int64(last)
            slots = self._slots[places]
            hit = (slots ^ hashes[other]) >> _NUMBER == 0
            found[other[hit]] = (slots[hit] & _NUMBERS).astype(np.int32)
            on = ~hit & (slots != 0)
            other, places = other[on], places[on]
        return found

    def add(self, hashes: Words) -> NDArray[np.int32]:
        """Number hashes that are not known yet, each given once, in their order."""
        new = np.arange(self.count, self.count + len(hashes), dtype=np.int32)
        self.count += len(hashes)
        self._all.append(hashes)
        if self.count * _LOAD > len(self._slots):
            self._slots = np.zeros(1 << int(self.count * _LOAD).bit_length(), np.uint64)
            self._all = [np.concatenate(self._all)]
            self._place(self._all[0], np.arange(self.count, dtype=np.uint64))
        else:
            self._place(hashes, new.astype(np.uint64))
        return new

    def _place(self, hashes: Words, numbers: Words) -> None:
        last = np.uint64(len(self._slots) - 1)
        slots = (hashes >> _NUMBER << _NUMBER) | numbers
        places = (hashes & last).view(np.int64)
        while len(slots):
            free = self._slots[places] == 0
            self._slots[places[free]] = slots[free]
            left = self._slots[places] != slots  # of several that wanted a slot one has it
            slots, places = slots[left], (places[left] + 1) & np.int64(last)

    def numbered(self, hashes: Words) -> tuple[NDArray[np.int32], Ints]:
        """The number of each hash; the places where each new one stands first, in the order of their numbers."""
        found = self.find(hashes)
        missing = np.flatnonzero(found < 0)
        if not len(missing):
            return found, missing
        keys, first, inverse = np.unique(hashes[missing], return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(keys), np.int32)
        numbers[order] = self.add(keys[order])
        found[missing] = numbers[inverse]
        return found, missing[first[order]]
