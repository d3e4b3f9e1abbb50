"""What the heads of an event look like from the time on: fields of digits of fixed width, the rest always the same.

  1050.057982:    2500000 cpu-clock:ppp:
seconds 6 or 9 digits, a field of the period (blanks and digits) or none, and the same end
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.perf.script_bulk.digits import all_digits, each, padded, values
from thpdiag.readers.perf.script_bulk.hashing import BLOCK, Bytes, Ints, Words, words_at
from thpdiag.readers.perf.script_lines import Head

_TIMED = re.compile(
    rb"(?:^|.*?\s)(?P<seconds>\d{1,8})\.(?P<fraction>\d{6}|\d{9}):(?P<period>[ ]{1,15}\d{1,15})?(?P<end>[ ][ -~]*|)$"
)
_WORD = 8
_FIELD = 2 * _WORD  # columns of a period, with the blanks before it
_BLANKS, _ZEROS = each(0x20), each(0x30)

Columns = tuple[Ints, Ints, NDArray[np.float64]]  # where the time begins, nanoseconds, weight


@dataclass(frozen=True, slots=True)
class Shape:
    """`end` is what stands behind the period (or the time); `field` the columns from the time's colon to it."""

    event: str
    digits: int  # of the fraction of a second
    field: int  # 0: no period
    end: bytes

    def read(self, buffer: Bytes, starts: Ints, ends: Ints) -> tuple[NDArray[np.bool_], Columns]:
        """Which heads have this shape, and what they say; the columns mean nothing for others."""
        tail = ends - len(self.end)
        colon = tail - self.field - 1
        dot = colon - self.digits - 1
        fits = _same(buffer, tail, self.end) & (buffer[colon] == ord(":")) & (buffer[dot] == ord("."))
        fits &= dot > starts
        fraction = self._fraction(buffer, dot, fits)
        begins, seconds = _seconds(buffer, dot, fits)
        fits &= begins >= starts
        nanoseconds = seconds * 10**9 + fraction * 10 ** (9 - self.digits)
        return fits, (begins, nanoseconds, self._period(buffer, tail, fits))

    def _fraction(self, buffer: Bytes, dot: Ints, fits: NDArray[np.bool_]) -> Ints:
        words = words_at(buffer, dot + 1)
        if self.digits == 9:
            last = (buffer[dot + 9] - np.uint8(48)).astype(np.int64)
            fits &= last < 10
        else:
            words = (words << np.uint64(16)) | np.uint64(0x3030)
        fits &= all_digits(words)
        found = values(words)
        return found * 10 + last if self.digits == 9 else found

    def _period(self, buffer: Bytes, tail: Ints, fits: NDArray[np.bool_]) -> NDArray[np.float64]:
        if not self.field:
            return np.ones(len(tail))
        words = _last(words_at(buffer, tail - _WORD), self.field, _BLANKS)
        good, blanks = padded(words)
        fits &= good & (buffer[tail - self.field] == 0x20) & (buffer[tail - 1] != 0x20)
        before = _last(words_at(buffer, tail - _FIELD), self.field - _WORD, _BLANKS)
        found = values(words)
        if (before != _BLANKS).any():
            good, _ = padded(before)
            fits &= good & ((blanks == 0) | (before == _BLANKS))
            found += values(before) * 10**8
        return found.astype(np.float64)


def _last(words: Words, columns: int, filled: np.uint64) -> Words:
    """The last columns of words, those before filled."""
    if columns >= _WORD:
        return words
    if columns <= 0:
        return np.full(len(words), filled, np.uint64)
    shift = np.uint64(8 * (_WORD - columns))
    return ((words >> shift) << shift) | (filled >> np.uint64(8 * columns))


def _same(buffer: Bytes, places: Ints, text: bytes) -> NDArray[np.bool_]:
    """Whether the text stands at each place."""
    fits = np.ones(len(places), np.bool_)
    for at in range(0, len(text), _WORD):
        part = text[at : at + _WORD]
        expected = np.uint64(int.from_bytes(part, "little"))
        drop = np.uint64(8 * (_WORD - len(part)))
        fits &= (words_at(buffer, places + at) << drop) >> drop == expected
    return fits


def _seconds(buffer: Bytes, dot: Ints, fits: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Where the digits before the point begin, behind a blank or the line's start, and their number."""
    words = words_at(buffer, dot - _WORD)
    begins, found = dot.copy(), np.zeros(len(dot), np.int64)
    left = np.flatnonzero(fits)
    likely = _width(buffer, int(dot[left[0]])) if len(left) else 0
    for width in sorted(range(1, _WORD + 1), key=lambda width: width != likely):
        if not len(left):
            break
        number = _last(words[left], width, _ZEROS)
        before = buffer[dot[left] - width - 1]
        good = all_digits(number) & ((before == 0x20) | (before == 0x0A))
        hits = left[good]
        begins[hits] = dot[hits] - width
        found[hits] = values(number[good])
        left = left[~good]
    fits[left] = False
    return begins, found


def _width(buffer: Bytes, dot: int) -> int:
    """How many digits stand before a point."""
    before = buffer[dot - _WORD : dot].tobytes()
    return len(before) - len(before.rstrip(b"0123456789"))


def learnt(raw: bytes, found: Head) -> Shape | None:
    """The shape of a head whose meaning is known; None if it is none that can be read so."""
    match = _TIMED.match(raw)
    if not match or found.rest or len(match["end"]) > BLOCK or found.seconds is None:
        return None
    period = match["period"] or b""
    if (found.period is None) == bool(period) or len(period) > _FIELD:
        return None
    return Shape(found.event, len(match["fraction"]), len(period), match["end"])
