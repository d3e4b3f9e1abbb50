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
from thpdiag.readers.perf_script_bulk.chains import ChainTable
from thpdiag.readers.perf_script_bulk.frame_lines import BAD, FrameLineTable, LineValues
from thpdiag.readers.perf_script_bulk.hashing import Ints
from thpdiag.readers.perf_script_bulk.heads import HeadColumns, HeadTable
from thpdiag.readers.perf_script_bulk.part import EventPart, Part
from thpdiag.readers.perf_script_bulk.plain import plain
from thpdiag.readers.perf_script_bulk.stretches import Stretches
from thpdiag.readers.perf_script_bulk.tally import Tally
from thpdiag.readers.perf_script_bulk.windows import Feed, Window, windows
from thpdiag.readers.perf_script_samples import Around, FrameLines, Sample, Samples
from thpdiag.readers.perf_stacks import Frames

_KEPT = 24 << 20  # bytes
_AHEAD = 3  # lines of a sample that tell whether the line before it belongs


class Text:
    """Reads a text once."""

    def __init__(self, source: Source) -> None:
        self._around, self._frames = Around(), Frames()
        lines = FrameLines(self._frames)
        self._values = LineValues(lines)
        self._table = FrameLineTable(self._values)
        self._heads, self._chains = HeadTable(), ChainTable()
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
        names = {number: name for name, number in self._heads.events.items()}
        events = tuple(
            EventPart(names[number], tally.first, tally.rows(), tally.lines, tally.texts)
            for number, tally in self._tallies.items()
        )
        chains = self._chains.columns()
        whos = tuple(self._heads.whos)
        return Part(self._lines, self._frames.all(), *chains, whos, events, self._around, self._stretches.odd)

    def _window(self, window: Window) -> None:
        blank = window.starts == window.ends
        begins = np.empty(len(blank), np.bool_)
        begins[0] = window.fresh
        begins[1:] = blank[:-1]
        begins &= ~blank
        first = np.flatnonzero(begins)
        within = ~(begins | blank)
        values = self._table.of(window, np.flatnonzero(within))
        bounds = np.append(np.cumsum(within)[first], len(values))
        values, bounds, bad = self._expanded(values, bounds)
        heads = self._heads.of(window, first)
        fast = (heads.who >= 0) & (bounds[1:] > bounds[:-1]) & ~bad
        if not window.closed and len(fast):
            fast[-1] = False
        self._take(window, first, heads, fast, values, bounds)
        self._leave(window, first, fast)

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

    def _take(
        self,
        window: Window,
        first: Ints,
        heads: HeadColumns,
        fast: NDArray[np.bool_],
        values: NDArray[np.int32],
        bounds: Ints,
    ) -> None:
        """Count the samples of the blocks that were read."""
        if not fast.any():
            return
        lengths = np.diff(bounds)
        if not fast.all() or bounds[0]:
            first, heads, lengths = first[fast], heads.only(fast), lengths[fast]
            values = values[gathered(bounds[:-1][fast], lengths)]
        chains = self._chains.of(values, starts_of(lengths))
        for event in np.unique(heads.event).tolist():
            if event not in self._tallies:
                self._tallies[event] = Tally()
            mine = heads.event == event
            if mine.all():
                self._tallies[event].take(window, first, chains, heads)
            else:
                self._tallies[event].take(window, first[mine], chains[mine], heads.only(mine))

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
        who, event = self._heads.number(sample.head)
        if event not in self._tallies:
            self._tallies[event] = Tally()
        self._tallies[event].one(sample, self._chains.one(sample.stack), who)


def _keep_memory() -> None:
    """Have malloc keep what is given back.

    glibc returns blocks to the kernel and gets them again, cleared, page by page, for each window; that takes a quarter
    of the whole time. Once a block of this size was freed it keeps smaller ones (see M_MMAP_THRESHOLD in mallopt(3)).
    """
    np.empty(_KEPT, np.uint8)
