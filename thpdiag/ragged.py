"""Lists of different lengths in one flat array: `values[starts[i]:starts[i + 1]]` is list `i`.

Call chains are such lists. All functions work on whole arrays; none has a loop over lists. numpy is imported by the
callers' modules already, so that this one may do so at the top; nothing imports it before there is a profile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def starts_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> Ints:
    """The starts of lists of these lengths, with the end of the last one behind."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def gathered(begins: NDArray[np.integer], lengths: NDArray[np.integer]) -> Ints:
    """The indices `begins[i], begins[i] + 1, ... begins[i] + lengths[i] - 1` of all lists, one after another."""
    starts = starts_of(lengths)
    return np.arange(starts[-1], dtype=np.int64) + np.repeat(begins.astype(np.int64) - starts[:-1], lengths)


def any_of(marks: NDArray[np.bool_], starts: Ints) -> NDArray[np.bool_]:
    """For each list whether any of its values is marked; an empty list has none."""
    counts = starts_of(marks)
    found: NDArray[np.bool_] = np.greater(counts[starts[1:]], counts[starts[:-1]])
    return found


MIXED = 1 << 18  # values that are hashed at once: what the processor's cache holds


def hashes(values: NDArray[np.integer], starts: Ints) -> NDArray[np.uint64]:
    """A hash of each list: its values times odd numbers that depend on their place, added up.

    Equal lists have equal hashes. Of a million different lists two share one with a chance of about one in a million.
    """
    weights = _odd_numbers(int(np.diff(starts).max(initial=0)) + 1)
    sums = np.empty(len(starts) - 1, np.uint64)
    inner = np.searchsorted(starts, np.arange(MIXED, int(starts[-1]), MIXED)).clip(max=len(sums)).tolist()
    for first, last in zip([0, *inner], [*inner, len(sums)], strict=True):
        begin, end = int(starts[first]), int(starts[last])
        own = starts[first : last + 1] - begin
        lengths = np.diff(own)
        places = np.arange(end - begin) - np.repeat(own[:-1], lengths)
        products = values[begin:end].astype(np.uint64)
        products += np.uint64(1)
        products *= weights[places]
        running = np.zeros(end - begin + 1, np.uint64)
        np.cumsum(products, out=running[1:])
        sums[first:last] = running[own[1:]] - running[own[:-1]] + weights[lengths]
    return sums


def _odd_numbers(count: int) -> NDArray[np.uint64]:
    """Numbers that look random: the output of splitmix64, made odd."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed | np.uint64(1)


def grouped(keys: NDArray[np.generic]) -> tuple[Ints, Ints]:
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
    return grouped(hashes(values, starts))
