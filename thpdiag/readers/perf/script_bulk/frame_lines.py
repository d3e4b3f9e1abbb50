"""What frames the lines of a window are.

    \tffffffff821e8f67 clear_page_erms+0x7 ([kernel.kallsyms])

The same function comes with ever new addresses, which say nothing where there is a name, and nothing that lasts where
there is none. So a line is known by what stands behind its address; of the field of the address only count where its
blanks end and that all else are digits. What a line means is asked of the exact grammar, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.perf.script_bulk.digits import address_field
from thpdiag.readers.perf.script_bulk.hashing import (
    LONGEST,
    ODD,
    Bytes,
    HashTable,
    Ints,
    Words,
    finished,
    hashed,
    words_at,
)
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_bulk.windows import Window
from thpdiag.readers.perf.script_lines import source_line
from thpdiag.readers.perf.script_samples import FrameLines

BAD = -1  # the value of a line that has no place in a chain; others: a frame, or -2 and below for several or none
_FIELD = 16  # columns of an address
_TAB, _BLANKS = 9, 0x2020202020202020  # what stands before the address: a tab, or (before perf 3.x) eight blanks
_TIME = re.compile(rb"\d*\s+(?:\[\d+\]\s+)?(?:[A-Z]{1,5}\s+)?\d{1,12}\.\d{6}")  # then the address could be a task's id
_NAME = re.compile(rb" (?!.*: )[!-~](?:[ -~]{0,1000}[!-~])?")  # the offset behind such a name and before such an
_DSO = re.compile(rb" \((?!.*: )[!-'*-~][ -'*-~]{0,1000}\)")  # object says nothing
_HEX = b"0123456789abcdef"
_BATCH = 32768  # lines whose bytes fit in a processor's cache
_KNOWN = 500_000  # distinct lines and names that are remembered


class LineValues:
    """What single lines mean."""

    def __init__(self, lines: FrameLines) -> None:
        self._lines = lines
        self._by_name: dict[tuple[bytes, bytes], int | None] = {}
        self._lists: dict[tuple[int, ...], int] = {}
        self.lists: list[tuple[int, ...]] = []  # value -2 - i is list i

    def at(self, raw: bytes, begin: int | None) -> int:
        """The value of a line whose address ends at `begin`; most differ in the offset alone."""
        if begin is None:
            return self.value(raw)
        plus = raw.rfind(b"+0x")
        end = raw.find(b" (", plus)
        if plus < begin or not 3 < end - plus < _FIELD + 4 or raw[plus + 3 : end].strip(_HEX):
            return self._timeless(raw, begin)
        key = raw[begin:plus], raw[end:]
        known = self._by_name.get(key, BAD)
        if known == BAD:
            if len(self._by_name) >= _KNOWN:
                self._by_name.clear()
            known = self._by_name[key] = self._named(raw, *key)
        return self._timeless(raw, begin) if known is None else known

    def _named(self, raw: bytes, name: bytes, dso: bytes) -> int | None:
        """What all lines with the name and the object mean; None if that depends on the offset."""
        if _TIME.match(name) or not _NAME.fullmatch(name) or not _DSO.fullmatch(dso):
            return None
        return self.value(raw)

    def _timeless(self, raw: bytes, begin: int) -> int:
        return BAD if _TIME.match(raw, begin) else self.value(raw)

    def value(self, raw: bytes) -> int:
        """What the exact grammar says of a line in the middle of a chain."""
        if (text := plain(raw)) is None or not text.strip():
            return BAD
        if (frames := self._lines.frame(text)) is None:
            return self._list(()) if source_line(text) else BAD
        return frames[0] if len(frames) == 1 else self._list(frames)

    def _list(self, frames: tuple[int, ...]) -> int:
        number = self._lists.setdefault(frames, len(self._lists))
        if number == len(self.lists):
            self.lists.append(frames)
        return -2 - number


class LineTable:
    """The values of all lines seen, by hash; forgotten when they become too many.

    `value` is asked for that of a line which has a field of an address at the given place, or (None) somewhere else.
    """

    def __init__(self, value: Callable[[bytes, int | None], int], *, leads: Callable[[Bytes, Ints], Ints]) -> None:
        self._value = value
        self._leads = leads
        self._forget()

    def _forget(self) -> None:
        self._table = HashTable(16)
        self._known = np.empty(1 << 16, np.int32)
        self._whole: dict[bytes, int] = {}

    def of(self, window: Window, lines: Ints) -> NDArray[np.int32]:
        """The value of each of the lines."""
        starts = window.starts[lines]
        lengths = window.ends[lines] - starts
        leads = self._leads(window.buffer, starts)
        usual, hashes = np.empty(len(lines), np.bool_), np.empty(len(lines), np.uint64)
        for begin in range(0, len(lines), _BATCH):
            some = slice(begin, begin + _BATCH)
            usual[some], hashes[some] = _hashes(window.buffer, starts[some], lengths[some], leads[some])
        if usual.all():
            return self._looked_up(window, lines, leads, hashes)
        found = np.empty(len(lines), np.int32)
        found[usual] = self._looked_up(window, lines[usual], leads[usual], hashes[usual])
        found[~usual] = [self._one(raw) for raw in window.raws(lines[~usual])]
        return found

    def _looked_up(self, window: Window, lines: Ints, leads: Ints, hashes: Words) -> NDArray[np.int32]:
        if self._table.count > _KNOWN:
            self._forget()
        numbers, new = self._table.numbered(hashes)
        if len(new):
            while self._table.count > len(self._known):
                self._known = np.concatenate((self._known, self._known))
            begins = (leads[new] + _FIELD).tolist()
            values = list(map(self._value, window.raws(lines[new]), begins))
            self._known[self._table.count - len(new) : self._table.count] = values
        found: NDArray[np.int32] = self._known[numbers]
        return found

    def _one(self, raw: bytes) -> int:
        """A line that is laid out in another way."""
        if (known := self._whole.get(raw)) is None:
            known = self._value(raw, None)
            if len(self._whole) >= _KNOWN:
                self._whole.clear()
            self._whole[raw] = known
        return known


def frame_leads(buffer: Bytes, starts: Ints) -> Ints:
    """How many columns stand before the address: one for a tab, eight for blanks, 0 where it is neither."""
    tabs = buffer[starts] == _TAB
    if tabs.all():
        return np.ones(len(starts), np.int64)
    return np.where(tabs, 1, 8 * (words_at(buffer, starts) == np.uint64(_BLANKS)))


def _hashes(buffer: Bytes, starts: Ints, lengths: Ints, leads: Ints) -> tuple[NDArray[np.bool_], Words]:
    """Which lines begin with a lead and a field of an address, and the hashes of what tells them apart.

    The hash means nothing for others.
    """
    places = starts + leads
    fits, filled = address_field(words_at(buffer, places, _FIELD))
    rest = lengths - leads - _FIELD
    usual = fits & (rest <= LONGEST) & (leads > 0)
    found = hashed(buffer, places + _FIELD, np.where(usual, rest, 0))
    found ^= (filled[:, 0] * ODD[-3] + filled[:, 1] * ODD[-4]) ^ leads.astype(np.uint64) * ODD[-5]
    return usual, finished(found)
