"""A text of perf script, or a range of one, read in windows.

A block of lines whose head is read and whose other lines are all frames is a sample whatever stands before it; all
other lines go to the exact grammar, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thpdiag.ragged import gathered, starts_of
from thpdiag.reader import Foreign, Source
from thpdiag.readers.perf.script_bulk.chains import ChainTable
from thpdiag.readers.perf.script_bulk.flat import FlatLines, FlatSamples
from thpdiag.readers.perf.script_bulk.frame_lines import BAD, LineTable, LineValues, frame_leads
from thpdiag.readers.perf.script_bulk.hashing import Ints
from thpdiag.readers.perf.script_bulk.heads import HeadColumns, HeadNumbers, HeadTable, exact
from thpdiag.readers.perf.script_bulk.part import EventPart, Part
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_bulk.stretches import Stretches
from thpdiag.readers.perf.script_bulk.tally import Tally
from thpdiag.readers.perf.script_bulk.windows import Feed, Window, windows
from thpdiag.readers.perf.script_samples import Around, FrameLines, Sample, Samples
from thpdiag.readers.perf.stacks import Frames

_KEPT = 24 << 20  # bytes
_AHEAD = 3  # lines of a sample that tell whether the line before it belongs


class Text:
    """Reads a text once."""

    def __init__(self, source: Source) -> None:
        self._around, self._frames = Around(), Frames()
        lines = FrameLines(self._frames)
        self._values = LineValues(lines)
        self._table = LineTable(self._values.at, leads=frame_leads)
        self._numbers, self._chains = HeadNumbers(), ChainTable()
        self._heads, self._flat = HeadTable(self._numbers, exact), FlatLines(self._numbers, lines)
        self._tallies: dict[int, Tally] = {}
        self._stretches = Stretches(Samples(source, lines, self._around, self._keep))
        self._lines = 0

    def read(self, feed: Feed, size: int) -> Iterator[Foreign]:
        """Read it all. Lines of other formats come while reading."""
        _keep_memory()
        for window in windows(feed, size):
            self._window(window)
            self._lines = window.first + len(window.starts) - 1
            yield from self._stretches.foreign()
        self._stretches.close([])
        yield from self._stretches.foreign()

    def part(self) -> Part:
        """What was read."""
        names = {number: name for name, number in self._numbers.events.items()}
        events = tuple(
            EventPart(names[number], tally.first, tally.rows(), tally.lines, tally.texts)
            for number, tally in self._tallies.items()
        )
        chains = self._chains.columns()
        whos = tuple(self._numbers.whos)
        return Part(self._lines, self._frames.all(), *chains, whos, events, self._around, self._stretches.odd)

    def _window(self, window: Window) -> None:
        blank = window.starts == window.ends
        begins = np.empty(len(blank), np.bool_)
        begins[0] = window.fresh
        begins[1:] = blank[:-1]
        begins &= ~blank
        flat = self._flat.of(window, ~blank)
        begins[flat.lines] = True
        within = ~(begins | blank)
        first = np.flatnonzero(begins)
        bounds = np.append(np.cumsum(within)[first], np.count_nonzero(within))
        whole = np.ones(len(first), np.bool_)
        whole[-1:] = window.closed
        done = whole & (bounds[1:] == bounds[:-1])
        done = self._take_flat(window, first, flat, done)
        left = np.flatnonzero(~done)
        bounds = np.append(bounds[left], bounds[-1])  # what is done has no lines inside
        done[left] = self._take(window, first[left], np.flatnonzero(within), bounds, whole[left])
        self._leave(window, first, done)

    def _take_flat(self, window: Window, first: Ints, flat: FlatSamples, alone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Count the samples of one line, of those that stand alone; which blocks they are."""
        marks = np.zeros(len(window.starts), np.bool_)
        marks[flat.lines] = True
        done: NDArray[np.bool_] = alone & marks[first]
        if done.any():
            marks[:] = False
            marks[first[done]] = True
            mine = marks[flat.lines]
            chains = self._chains.of(flat.frames[mine], np.arange(np.count_nonzero(mine) + 1))
            self._count(window, flat.lines[mine], flat.heads.only(mine), chains)
        return done

    def _take(
        self, window: Window, first: Ints, inner: Ints, bounds: Ints, whole: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Count the samples of blocks with a head and frames; which blocks they are."""
        if not len(first):
            return np.zeros(0, np.bool_)
        values, bounds, bad = self._expanded(self._table.of(window, inner), bounds)
        heads = self._heads.of(window, first)
        lengths = np.diff(bounds)
        fast: NDArray[np.bool_] = whole & (heads.who >= 0) & (lengths > 0) & ~bad
        if not fast.any():
            return fast
        if not fast.all() or bounds[0]:
            first, heads, lengths = first[fast], heads.only(fast), lengths[fast]
            values = values[gathered(bounds[:-1][fast], lengths)]
        self._count(window, first, heads, self._chains.of(values, starts_of(lengths)))
        return fast

    def _count(self, window: Window, lines: Ints, heads: HeadColumns, chains: NDArray[np.int32]) -> None:
        for event in np.unique(heads.event).tolist():
            if event not in self._tallies:
                self._tallies[event] = Tally()
            mine = heads.event == event
            if mine.all():
                self._tallies[event].take(window, lines, chains, heads)
            else:
                self._tallies[event].take(window, lines[mine], chains[mine], heads.only(mine))

    def _expanded(self, values: NDArray[np.int32], bounds: Ints) -> tuple[NDArray[np.int32], Ints, NDArray[np.bool_]]:
        """Lines of several frames or none become frames; which blocks have a line that is none."""
        if not (values < 0).any():
            return values, bounds, np.zeros(len(bounds) - 1, np.bool_)
        wrong = np.concatenate((np.zeros(1, np.int64), np.cumsum(values == BAD)))[bounds]
        lists = self._values.lists
        lengths = np.ones(len(values), np.int64)
        several = np.flatnonzero(values < BAD)
        lengths[several] = [len(lists[-2 - value]) for value in values[several].tolist()]
        starts = starts_of(lengths)
        expanded = np.repeat(values, lengths)
        for line in several.tolist():
            expanded[starts[line] : starts[line + 1]] = lists[-2 - values[line]]
        return expanded, starts[bounds], wrong[1:] > wrong[:-1]

    def _leave(self, window: Window, first: Ints, fast: NDArray[np.bool_]) -> None:
        """Give all other lines to the exact grammar, in stretches."""
        slow = np.flatnonzero(~fast)
        begin = int(first[0]) if len(first) else len(window.starts)
        if begin:
            self._stretches.give(window.first, window.lines(0, begin))
        ends = np.append(first, len(window.starts))
        if len(fast) and fast[0]:
            self._stretches.close(self._ahead(window, begin))
        runs = np.split(slow, np.flatnonzero(np.diff(slow) > 1) + 1) if len(slow) else []
        for run in runs:
            begin, end = int(first[run[0]]), int(ends[run[-1] + 1])
            self._stretches.give(window.first + begin, window.lines(begin, end))
            if end < len(window.starts):
                self._stretches.close(self._ahead(window, end))

    @staticmethod
    def _ahead(window: Window, line: int) -> list[str]:
        return [plain(window.raw(i)) or "" for i in range(line, min(line + _AHEAD, len(window.starts)))]

    def _keep(self, sample: Sample) -> None:
        """A sample that the exact grammar found."""
        who, event = self._numbers.of(sample.head)
        if event not in self._tallies:
            self._tallies[event] = Tally()
        self._tallies[event].one(sample, self._chains.one(sample.stack), who)


def _keep_memory() -> None:
    """Have malloc keep what is given back.

    glibc returns blocks to the kernel and gets them again, cleared, page by page, for each window; that takes a quarter
    of the whole time. Once a block of this size was freed it keeps smaller ones (see M_MMAP_THRESHOLD in mallopt(3)).
    """
    np.empty(_KEPT, np.uint8)
