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
