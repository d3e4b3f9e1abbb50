"""Numbers and times printed in text, many at once: eight digits in a word of 8 bytes, as memory has them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Words = NDArray[np.uint64]

DIGITS = 16  # of the longest number that is read here
PAD = 24  # bytes that must be there behind the last number
_EIGHT = 8


def numbers(buffer: Bytes, starts: Ints, lengths: Ints) -> Ints:
    """The numbers of so many digits at these places; words that are no number, or longer, give anything."""
    words = _words(buffer)
    found = _value(words[starts], lengths)
    long = np.flatnonzero((lengths > _EIGHT) & (lengths <= DIGITS))
    if len(long):
        starts, lengths = starts[long], lengths[long] - _EIGHT
        head, tail = _value(words[starts], np.full_like(lengths, _EIGHT)), _value(words[starts + _EIGHT], lengths)
        found[long] = head * 10**lengths + tail
    return found


def _words(buffer: Bytes) -> Words:
    """The 8 bytes from each place on."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, 0, (1,))


def _value(words: Words, lengths: Ints) -> Ints:
    """The numbers that the first bytes of words are, so many of each; the others are shifted out."""
    words = words << ((_EIGHT - np.minimum(lengths, _EIGHT)) << 3).astype(np.uint64)
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    words *= np.uint64(10 * 2**8 + 1)
    words >>= np.uint64(8)
    words &= np.uint64(0x00FF00FF00FF00FF)
    words *= np.uint64(100 * 2**16 + 1)
    words >>= np.uint64(16)
    words &= np.uint64(0x0000FFFF0000FFFF)
    words *= np.uint64(10000 * 2**32 + 1)
    words >>= np.uint64(32)
    return words.view(np.int64)


def seconds(buffer: Bytes, dates: Ints, times: Ints) -> Floats:
    """Seconds since 1970 of `YYYY-MM-DD` and `HH:MM:SS` at these places, as if they were UTC; NaN if it is no time."""
    words = _words(buffer)
    head, tail = words[dates], words[dates + 2]
    changed = np.flatnonzero(np.concatenate(([True], (head[1:] != head[:-1]) | (tail[1:] != tail[:-1]))))
    days = np.array([_day(buffer[at : at + 10].tobytes()) for at in dates[changed].tolist()])
    pairs = ((words[times] & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(10 * 2**8 + 1)).view(np.int64) >> 8
    hour, minute, second = pairs & 0xFF, pairs >> 24 & 0xFF, pairs >> 48 & 0xFF
    good = (hour < 24) & (minute < 60) & (second < 60)
    found = np.repeat(days, np.diff(changed, append=len(dates))) + (hour * 3600 + minute * 60 + second)
    return np.where(good, found, np.nan)


def _day(text: bytes) -> float:
    """Midnight of a date in seconds, NaN if there is no such day."""
    try:
        return datetime.fromisoformat(text.decode("ascii")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")
