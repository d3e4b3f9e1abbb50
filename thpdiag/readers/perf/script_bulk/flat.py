"""Samples of one line: recorded without chains, the only frame stands behind the event.

         churn 27257 [001]  2190.898316:   16393442 cpu-clock:  ffffffff815ff637 migrate_pages+0x27 ([kernel.kallsyms])

Up to the event the line is a head like any other, behind it a frame with its address like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.perf.script_bulk.frame_lines import BAD, LineTable
from thpdiag.readers.perf.script_bulk.hashing import Bytes, Ints
from thpdiag.readers.perf.script_bulk.heads import HeadColumns, HeadNumbers, HeadTable, strong
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_bulk.windows import Window
from thpdiag.readers.perf.script_samples import FrameLines

_COLON, _BLANK, _TAB = 0x3A, 0x20, 9
_WORTH = 0.45  # share of lines that could be such, for a window to be searched


@dataclass(frozen=True, slots=True, eq=False)
class FlatSamples:
    """Lines of a window, in order, each with its head and frame."""

    lines: Ints
    heads: HeadColumns
    frames: NDArray[np.int32]


class FlatLines:
    """What lines with head and frame say."""

    def __init__(self, numbers: HeadNumbers, lines: FrameLines) -> None:
        self._heads = HeadTable(numbers, strong)
        self._lines = lines
        self._table = LineTable(self._value, leads=_leads)

    def of(self, window: Window, within: NDArray[np.bool_]) -> FlatSamples:
        """Of the lines that are marked those that are such samples, with their heads and frames."""
        lines = np.flatnonzero(within & (window.buffer[window.starts] != _TAB))
        colons = _colons(window) if len(lines) > _WORTH * len(within) else np.empty(0, np.int64)
        first = np.searchsorted(colons, window.starts[lines])
        both = first + 1 < len(colons)
        lines, first = lines[both], first[both]
        behind = colons[first + 1] + 1 if len(lines) else first  # the event
        found = behind <= window.ends[lines]
        lines, behind = lines[found], behind[found]
        heads, frames = _part(window, window.starts[lines], behind), _part(window, behind, window.ends[lines])
        every = np.arange(len(lines))
        columns, values = self._heads.of(heads, every), self._table.of(frames, every)
        good = (columns.who >= 0) & (values >= 0)
        return FlatSamples(lines[good], columns.only(good), values[good])

    def _value(self, raw: bytes, _begin: int | None) -> int:
        text = plain(raw)
        if not text or "PERF_RECORD_" in text:
            return BAD
        found = self._lines.single(text.strip())
        return found[0] if len(found) == 1 else BAD


def _colons(window: Window) -> Ints:
    """The places of colons with a blank behind."""
    text = window.buffer[: window.ends[-1] + 1]
    places = np.flatnonzero((text[:-1] == _COLON) & (text[1:] == _BLANK))
    return places.astype(np.int64, copy=False)


def _part(window: Window, starts: Ints, ends: Ints) -> Window:
    return Window(window.buffer, starts, ends, window.first, window.fresh, window.closed)


def _leads(buffer: Bytes, starts: Ints) -> Ints:
    blank: NDArray[np.bool_] = buffer[starts] == _BLANK
    return blank.astype(np.int64)
