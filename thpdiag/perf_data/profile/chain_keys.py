"""A 64-bit key of each list of numbers: equal lists have equal keys, different ones practically never.

The key is a polynomial in an odd number, modulo 2**64, over the places of the list, with its length added. Powers are
taken by the place in the whole array and taken back at each list's start: no array of places within lists is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BASE = 0x2545F4914F6CDD1D  # odd; 5 modulo 8: its powers repeat only after 2**62
_INVERSE = pow(_BASE, -1, 1 << 64)
_LENGTH = np.uint64(0xA0761D6478BD642F)


class ChainKeys:
    """Keeps the powers of the longest array so far."""

    def __init__(self) -> None:
        self._powers = np.ones(1, np.uint64)
        self._back = np.ones(1, np.uint64)

    def of(self, values: NDArray[np.uint64], starts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The key of each list; `starts` has the end of the last one behind."""
        self._reach(len(values) + 1)
        lengths = np.diff(starts)
        filled = lengths > 0
        keys = np.zeros(len(lengths), np.uint64)
        begins = starts[:-1][filled]
        if len(begins):
            sums = np.add.reduceat(values * self._powers[: len(values)], begins)
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
