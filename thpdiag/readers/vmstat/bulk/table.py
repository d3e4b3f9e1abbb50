"""The lines of a text as arrays: where each begins, whether it is a plain row of vmstat, and the numbers of such rows.

A plain row is blanks and 16 to 18 numbers, a timed one has `YYYY-MM-DD HH:MM:SS` behind them. Everything else
(headers, rows with a sign, a zone or a word that was joined) is for `thpdiag.readers.vmstat.bulk.runs` to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thpdiag.readers.vmstat.bulk.numbers import DIGITS, PAD, Bytes, Floats, Ints, Marks, numbers, seconds

NARROWEST, WIDEST = 16, 18
_WINDOW = 1 << 19  # bytes that are looked at together: what is made of them should stay in a processor's cache
_STAMP_SIGNS = 4  # two dashes, two colons
_BLANK, _ZERO, _DASH, _COLON, _LF, _CR, _TAB = (ord(c) for c in " 0-:\n\r\t")


@dataclass(frozen=True, slots=True)
class Table:
    """Line `i` is `text[starts[i]:ends[i]]`; `columns[i]` are the numbers of a plain or timed row, 0 for other lines.

    `rows` are the lines of plain and timed rows; `numbers[j, k]` is number j of row k, `seconds[k]` its time counted as
    if it were UTC, NaN where it has none.
    """

    text: bytes
    starts: Ints
    ends: Ints
    blank: Marks
    columns: Ints
    rows: Ints
    numbers: Ints
    seconds: Floats

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, number: int) -> bytes:
        return self.text[self.starts[number] : self.ends[number]]


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines of one window."""

    starts: Ints
    ends: Ints
    blank: Marks
    columns: Ints
    numbers: Ints
    seconds: Floats


def table(text: bytes, length: int) -> Table:
    """The lines of the first bytes of a text, which end with a line feed; PAD further bytes are behind them."""
    parts = [_part(text, first, end) for first, end in _windows(text, length)]
    columns = np.concatenate([part.columns for part in parts] or [np.zeros(0, np.int64)])
    return Table(
        text,
        np.concatenate([part.starts for part in parts] or [columns]),
        np.concatenate([part.ends for part in parts] or [columns]),
        np.concatenate([part.blank for part in parts] or [columns > 0]),
        columns,
        np.flatnonzero(columns),
        np.concatenate([part.numbers for part in parts] or [np.zeros((WIDEST, 0), np.int64)], axis=1),
        np.concatenate([part.seconds for part in parts] or [np.zeros(0)]),
    )


def _windows(text: bytes, length: int) -> Iterator[tuple[int, int]]:
    first = 0
    while first < length:
        end = text.rfind(b"\n", first, min(first + _WINDOW, length)) + 1
        end = end or text.find(b"\n", first, length) + 1
        yield first, end
        first = end


def _part(text: bytes, first: int, end: int) -> _Part:
    buffer = np.frombuffer(text, np.uint8, end - first + PAD, first)
    own = buffer[: end - first]
    lines = np.flatnonzero(own == _LF)
    starts = np.concatenate(([0], lines[:-1] + 1))
    filled = own > _BLANK
    edges = np.flatnonzero(filled[1:] != filled[:-1]) + 1
    edges = np.concatenate(([0], edges)) if filled[0] else edges
    words, lengths = edges[::2].copy(), edges[1::2] - edges[::2]
    before = np.searchsorted(words, starts)
    count = np.diff(before, append=len(words))
    signs = _per_line(np.flatnonzero((own - np.uint8(_ZERO) > 9) & filled), starts)
    last = before + count - 1
    timed = (signs == _STAMP_SIGNS) & (count >= NARROWEST + 2)
    timed[timed] = _stamped(buffer, words, lengths, last[timed])
    columns = np.where(signs == 0, count, np.where(timed, count - 2, 0))
    columns[(columns < NARROWEST) | (columns > WIDEST)] = 0
    if np.count_nonzero(own < _BLANK) > len(lines):
        columns[_strange(own, starts)] = 0
    long = np.flatnonzero(lengths > DIGITS)
    columns[np.searchsorted(before, long, "right") - 1] = 0
    ends = lines - ((lines > starts) & (own[lines - 1] == _CR))
    rows = np.flatnonzero(columns)
    ends[rows] = words[last[rows]] + lengths[last[rows]]
    lengths[last[timed] - 1] = 0  # dates are no numbers
    values, places = numbers(buffer, words, lengths), before[rows]
    matrix, times = np.zeros((WIDEST, len(rows)), np.int64), np.full(len(rows), np.nan)
    for width in np.unique(columns[rows]).tolist():
        fits = columns[rows] == width
        fits = slice(None) if fits.all() else fits
        matrix[:width, fits] = np.take(values, places[fits] + np.arange(width)[:, None])
    stamps = words[last[rows][timed[rows], None] - np.array([1, 0])]
    if len(stamps):
        times[timed[rows]] = seconds(buffer, stamps[:, 0], stamps[:, 1])
        if (none := timed[rows] & np.isnan(times)).any():
            columns[rows[none]], matrix, times = 0, matrix[:, ~none], times[~none]
    return _Part(starts + first, ends + first, count == 0, columns, matrix, times)


def _strange(own: Bytes, starts: Ints) -> Marks:
    """Lines with a control character that is neither a tab nor part of a line end."""
    found = np.flatnonzero((own < _BLANK) & (own != _LF) & (own != _TAB))
    if len(found):
        found = found[(own[found] != _CR) | (own[np.minimum(found + 1, len(own) - 1)] != _LF)]
    return _per_line(found, starts) > 0


def _per_line(places: Ints, starts: Ints) -> Ints:
    """How many of the places are in each line."""
    return np.diff(np.searchsorted(places, starts), append=len(places))


def _stamped(buffer: Bytes, words: Ints, lengths: Ints, last: Ints) -> Marks:
    """Whether these words and the ones before them are a time and a date; what is no sign is a digit."""
    fits: Marks = (lengths[last - 1] == 10) & (lengths[last] == 8)
    date, time = words[last - 1], words[last]
    for places, sign in ((date + 4, _DASH), (date + 7, _DASH), (time + 2, _COLON), (time + 5, _COLON)):
        fits &= buffer[places] == sign
    return fits
