"""Lists of different lengths in one flat array: `values[starts[i]:starts[i + 1]]` is list `i`.

Call chains are such lists. All functions work on whole arrays; none has a loop over lists. numpy is imported by the
callers' modules already, so that this one may do so at the top; nothing imports it before there is a profile.
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
