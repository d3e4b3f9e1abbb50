"""The runs of vmstat in a text: which rows belong to which, and what of the text is none of it.

A block begins at a banner or a header and goes on while lines are rows, banners or headers; a run is a header and its
rows up to a header that is no repetition after a screenful. That is what the reader of lines does, line by line; here
rows between two headers are one span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from thpdiag.bundle.stamps import stamp
from thpdiag.bundle.transcript import prompt, speaker
from thpdiag.model import Clock, Moment
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.vmstat.bulk.looks import Kind, Look, Reading, fresh
from thpdiag.readers.vmstat.bulk.numbers import Ints
from thpdiag.readers.vmstat.bulk.screens import repeated
from thpdiag.readers.vmstat.bulk.table import Table
from thpdiag.readers.vmstat.run import (
    NO_ROW,
    NO_TIME,
    OTHER_COLUMNS,
    SCREEN,
    UNKNOWN_UNIT,
    Layout,
    clock_of,
    is_kib,
    stamped,
)

MOST = 2**62  # what is larger is impossible anyway


@dataclass(slots=True)
class Run:
    """Rows under one layout; the rows of `slow` were read one by one."""

    odd: Oddities  # of its block
    layout: Layout
    spans: list[tuple[int, int, Clock]] = field(default_factory=list)  # lines from, up to, and what clock times are of
    slow: dict[int, list[tuple[str, list[int], Moment | None]]] = field(default_factory=dict)
    rows: int = 0


@dataclass(slots=True)
class Scan:
    """Goes over the lines that are no plain rows."""

    source: Source
    table: Table
    unit: int | None  # of a command that says so
    unit_known: bool
    runs: list[Run] = field(default_factory=list)
    blocks: list[Oddities] = field(default_factory=list)
    foreign: list[tuple[int, int]] = field(default_factory=list)
    _block: Oddities | None = None
    _run: Run | None = None
    _dead: bool = False  # in another table of vmstat
    _since_header: int = 0
    _screen: int = 0
    _clock: Clock = Clock.LOCAL
    _repeats: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # lines of headers that begin no run

    def scan(self, reading: Reading) -> None:
        events = self._events(reading)
        at = 0
        for (number, one), following in zip_longest(events, events[1:]):
            self._rows(at, number)
            self._line(number, one, self._below(number, following))
            at = number + 1
        self._rows(at, len(self.table))

    def _events(self, reading: Reading) -> list[tuple[int, Look]]:
        """All lines but rows of the width of the header above them, and headers that only repeat."""
        columns = self.table.columns
        blank = self.table.blank
        again = np.zeros(len(blank), np.bool_)
        again[1:] = blank[1:] & blank[:-1]  # the first of several empty lines says all that they say
        special = np.flatnonzero((columns == 0) & ~again)
        self._repeats, quiet = repeated(self.table, special)
        looks = list(reading.looks(special[~quiet].tolist()))
        headers = [(number, one.width) for number, one in looks if one.kind is Kind.HEADER]
        places = [0, *(number for number, _ in headers)]
        widths = np.array([0, *(width for _, width in headers)])
        in_force = np.repeat(widths, np.diff(places, append=len(columns)))
        misfits = np.flatnonzero((columns > 0) & (columns != in_force) & (in_force > 0)).tolist()
        if misfits:
            looks = sorted([*looks, *reading.looks(misfits)], key=lambda item: item[0])
        return looks

    def _below(self, number: int, following: tuple[int, Look] | None) -> Look | None:
        """The next line where it is no plain row; a plain row below is a Look of its own kind."""
        if following is not None and following[0] <= number + 1:
            return following[1]
        return Look(Kind.ROW, "0") if number + 1 < len(self.table) else None

    def _rows(self, first: int, end: int) -> None:
        """Plain rows that fit the header above, and its repetitions."""
        if first >= end:
            return
        run = self._run
        if self._block is None:
            self._outside(first, end)
        elif self._dead:
            return
        elif run is None:
            for number in range(first, end):
                self._block.note(number + 1, self._text(number), NO_ROW)
        else:
            if not run.rows:
                self._first(run, first, self._text(first), list(map(int, self.table.line(first).split()[:16])))
            run.spans.append((first, end, self._clock))
            run.rows += self._count(first, end)
            headers = self._repeats[(self._repeats >= first) & (self._repeats < end)]
            since, header = (0, int(headers[-1])) if len(headers) else (self._since_header, first)
            self._since_header = since + self._count(header, end)

    def _count(self, first: int, end: int) -> int:
        """The plain rows of a span."""
        return int(np.count_nonzero(self.table.columns[first:end]))

    def _line(self, number: int, one: Look, below: Look | None) -> None:
        if self._block is None and not one.kind.opens:
            self._outside(number, number + 1)
        elif not one.belongs and not self._intrudes(one, below):
            self._close()
            self._outside(number, number + 1)
        elif not self._dead:
            self._inside(number, one)

    def _inside(self, number: int, one: Look) -> None:
        if self._block is None:
            self._block = Oddities(self.source, "vmstat")
            self.blocks.append(self._block)
        if one.kind is Kind.HEADER:
            self._header(one)
        elif one.kind is Kind.OTHER:
            self._dead = True
        elif one.kind is not Kind.BANNER:
            self._odd(number, one)

    @staticmethod
    def _intrudes(one: Look, below: Look | None) -> bool:
        """Whether a foreign line stands alone in the middle of a block, and says nothing."""
        if one.kind is Kind.BLANK or below is None or not below.belongs:
            return False
        text = one.text
        return prompt(text) is None and stamp(text) is None and speaker(text, below.text) is None

    def _outside(self, first: int, end: int) -> None:
        """Lines for other readers; empty ones only between others."""
        if self.foreign and self.foreign[-1][1] == first:
            self.foreign[-1] = (self.foreign[-1][0], end)
        else:
            self.foreign.append((first, end))

    def _close(self) -> None:
        self._block, self._run, self._dead, self._since_header, self._screen = None, None, False, 0, 0

    def _header(self, one: Look) -> None:
        """A header begins a run, or it is the repetition after a screenful."""
        gap, self._since_header = self._since_header, 0
        layout, run = fresh(one), self._run
        self._clock = clock_of(layout.zone)
        if run and run.rows and gap >= (self._screen or SCREEN) and layout.like(run.layout):
            self._screen = self._screen or gap
            run.layout.zone = layout.zone
            return
        assert self._block is not None
        self._run = Run(self._block, layout)
        self.runs.append(self._run)

    def _odd(self, number: int, one: Look) -> None:
        """A line that may be a row."""
        run, block = self._run, self._block
        assert block is not None
        if run is None or one.words[0][-1] not in "0123456789":
            block.note(number + 1, one.text, NO_ROW)
            return
        self._since_header += 1
        width, words = run.layout.width, one.words
        values = _integers(words[:width])
        if len(values) != width or len(words) - width not in (0, 2, 3):
            block.note(number + 1, one.text, OTHER_COLUMNS)
            return
        when = stamped(words[width:], run.layout.zone) if len(words) > width else None
        if when is None and len(words) > width:
            block.note(number + 1, one.text, NO_TIME)
        if not run.rows:
            self._first(run, number, one.text, values)
        run.slow.setdefault(number, []).append((one.text, values, when))
        run.rows += 1

    def _first(self, run: Run, number: int, text: str, values: Sequence[int]) -> None:
        """The first row of a run tells the unit of memory, if no command did."""
        if self.unit_known:
            run.layout.set_unit(self.unit)
        elif is_kib(values):
            run.layout.set_unit(1024)
        else:
            run.layout.set_unit(None)
            run.odd.note(number + 1, text, UNKNOWN_UNIT)

    def _text(self, number: int) -> str:
        return self.table.line(number).decode("ascii").rstrip()


def _integers(words: Sequence[str]) -> list[int]:
    try:
        return [max(-MOST, min(int(word), MOST)) for word in words]
    except ValueError:
        return []


def filled(foreign: Iterable[tuple[int, int]], table: Table) -> Iterator[tuple[int, int]]:
    """The stretches that are not empty."""
    return (part for part in foreign if not table.blank[part[0] : part[1]].all())
