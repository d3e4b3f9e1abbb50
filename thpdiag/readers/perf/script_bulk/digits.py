"""Numbers printed in text, many at once, eight digits in a word of 8 bytes (first digit lowest, as memory has them)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.perf.script_bulk.hashing import Words

ALL = np.uint64(0x8080808080808080)  # the mark of each byte
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_EIGHT = np.uint64(8)


@cache
def each(byte: int) -> np.uint64:
    """The byte eight times."""
    return np.uint64(byte * 0x0101010101010101)


def within(words: Words, low: int, high: int) -> Words:
    """Marks the ASCII bytes from `low` to `high`; what stands in the other bits of the result is of no use."""
    plain = words & _LOW
    return (plain + each(0x80 - low)) & ~(plain + each(0x7F - high)) & ~words


def padded(words: Words) -> tuple[NDArray[np.bool_], Words]:
    """Whether a word is blanks and behind them digits; the marks of its blanks."""
    blanks = within(words, 0x20, 0x20) & ALL
    fits = (blanks | within(words, 0x30, 0x39)) & ALL == ALL
    return fits & (blanks & ~((blanks << _EIGHT) | np.uint64(0x80)) == 0), blanks


def all_digits(words: Words) -> NDArray[np.bool_]:
    """Whether all bytes are digits."""
    fits: NDArray[np.bool_] = (((words ^ each(0x30)) + each(0x76)) | words) & ALL == 0
    return fits


def values(words: Words) -> NDArray[np.int64]:
    """The numbers of words of blanks and digits."""
    found = words & each(0x0F)
    found = (found * np.uint64(10 * 256 + 1)) >> _EIGHT
    found = ((found & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(100 * 65536 + 1)) >> np.uint64(16)
    found = ((found & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(10000 * 2**32 + 1)) >> np.uint64(32)
    return found.astype(np.int64)


def address_field(words: Words) -> tuple[NDArray[np.bool_], Words]:
    """Whether two words a row are blanks and behind them hexadecimal digits; the marks of the digits."""
    filled = (words ^ each(0x20)) + _LOW  # a byte of 128 and more spoils the next, but the field does not fit anyway
    other = (words ^ each(0x30)) + each(0x76)
    other &= filled
    letters = words ^ each(0x60)
    other &= ~(letters + _LOW) | (letters + each(0x79))
    other |= words
    other &= ALL
    filled &= ALL
    behind = filled << _EIGHT  # what must be filled too
    behind[:, 1] |= filled[:, 0] >> np.uint64(56)
    other |= behind & ~filled
    fits: NDArray[np.bool_] = (other[:, 0] | other[:, 1]) == 0
    return fits, filled
