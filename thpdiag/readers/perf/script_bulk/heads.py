"""The heads of the samples of a window, as columns.

    hog worker 5  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:

What stands before the time is a key that many heads share; what stands behind the period is the same for all samples
of an event. In between are digits in fields of fixed width. So a head is learnt once from the exact grammar, as a shape
(what the end looks like) and a beginning, and all others like it are read by arithmetic. Heads of no shape (without a
time, with a payload) are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Task
from thpdiag.readers.perf.script_bulk.hashing import BLOCK, Bytes, HashTable, Ints, hashed
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_bulk.shapes import Shape, learnt
from thpdiag.readers.perf.script_bulk.windows import Window
from thpdiag.readers.perf.script_lines import Head, head, single
from thpdiag.readers.perf.script_samples import STRONG

UNTIMED = -1  # in the columns of times
_SHAPES = 16  # that are looked for
_LEARNT_AT_ONCE = 8  # heads of a window that are asked for a new shape
_KNOWN = 100_000  # heads without a time that are remembered
_TIME = re.compile(rb"\d\.\d{6}")

Known = tuple[int, int, float]  # who, event, weight


@dataclass(frozen=True, slots=True, eq=False)
class HeadColumns:
    """`who` and `event` are numbers, -1 where the head was not read; times are UNTIMED where there is none.

    The exact time is in `nanoseconds`, or in `seconds` where the head was read by itself.
    """

    who: NDArray[np.int32]
    event: NDArray[np.int32]
    hundredths: Ints
    nanoseconds: Ints
    seconds: NDArray[np.float64]
    weight: NDArray[np.float64]

    def only(self, keep: NDArray[np.bool_]) -> HeadColumns:
        """The heads that `keep` marks."""
        return HeadColumns(
            self.who[keep],
            self.event[keep],
            self.hundredths[keep],
            self.nanoseconds[keep],
            self.seconds[keep],
            self.weight[keep],
        )


def blank_columns(count: int) -> HeadColumns:
    return HeadColumns(
        np.full(count, -1, np.int32),
        np.full(count, -1, np.int32),
        np.full(count, UNTIMED, np.int64),
        np.full(count, UNTIMED, np.int64),
        np.full(count, UNTIMED, np.float64),
        np.ones(count),
    )


class HeadNumbers:
    """Events, and tasks with their CPU (`who`), by number."""

    def __init__(self) -> None:
        self.events: dict[str, int] = {}
        self.whos: dict[tuple[Task, int | None], int] = {}

    def of(self, found: Head) -> tuple[int, int]:
        """Who and which event."""
        who = (Task(found.comm, found.pid, found.tid), found.cpu)
        return self.whos.setdefault(who, len(self.whos)), self.event(found.event)

    def event(self, name: str) -> int:
        return self.events.setdefault(name, len(self.events))


class HeadTable:
    """Everything learnt of heads. `read` is the exact grammar, None for a line that it does not take for one."""

    def __init__(self, numbers: HeadNumbers, read: Callable[[bytes], Head | None]) -> None:
        self._numbers, self._read = numbers, read
        self._shapes: list[Shape] = []
        self._table = HashTable(12)
        self._who = np.empty(0, np.int32)  # of each beginning
        self._whole: dict[bytes, Known] = {}

    def of(self, window: Window, lines: Ints) -> HeadColumns:
        columns = blank_columns(len(lines))
        starts, ends = window.starts[lines], window.ends[lines]
        left = np.arange(len(lines))
        for shape in self._shapes:
            if not len(left):
                return columns
            left = self._shaped(window.buffer, shape, columns, left, starts, ends)
        for index in left[:_LEARNT_AT_ONCE].tolist():
            if index in left and (new := self._learn(window.raw(lines[index]))):
                left = self._shaped(window.buffer, new, columns, left, starts, ends)
        for index, raw in zip(left.tolist(), window.raws(lines[left]), strict=True):
            self._single(raw, columns, index)
        return columns

    def _learn(self, raw: bytes) -> Shape | None:
        if len(self._shapes) >= _SHAPES or (found := self._read(raw)) is None:
            return None
        shape = learnt(raw, found)
        if shape is None or shape in self._shapes:
            return None
        self._shapes.append(shape)
        return shape

    def _shaped(self, buffer: Bytes, shape: Shape, columns: HeadColumns, left: Ints, starts: Ints, ends: Ints) -> Ints:
        """Read the heads that have a shape; the others."""
        fits, read = shape.read(buffer, starts[left], ends[left])
        if not fits.any():
            return left
        hits = left[fits]
        begins, nanoseconds, weight = read[0][fits], read[1][fits], read[2][fits]
        columns.who[hits] = self._beginnings(buffer, starts[hits], begins - starts[hits], ends[hits])
        columns.event[hits] = self._numbers.event(shape.event)
        columns.hundredths[hits] = nanoseconds // 10**7
        columns.nanoseconds[hits] = nanoseconds
        columns.weight[hits] = weight
        return left[~fits]

    def _beginnings(self, buffer: Bytes, starts: Ints, lengths: Ints, ends: Ints) -> NDArray[np.int32]:
        """Who the beginnings name."""
        numbers, new = self._table.numbered(hashed(buffer, starts, np.minimum(lengths, BLOCK)))
        if len(new):
            raws = [buffer[starts[index] : ends[index]].tobytes() for index in new.tolist()]
            whos = list(map(self._beginning, raws, lengths[new].tolist()))
            self._who = np.concatenate((self._who, np.array(whos, np.int32)))
        found: NDArray[np.int32] = self._who[numbers]
        found[lengths >= BLOCK] = -1
        return found

    def _beginning(self, raw: bytes, length: int) -> int:
        """Who a beginning names, -1 if the exact grammar would not part the line there."""
        found = None if _TIME.search(raw[:length]) else self._read(raw)
        return -1 if found is None or found.rest or found.seconds is None else self._numbers.of(found)[0]

    def _single(self, raw: bytes, columns: HeadColumns, index: int) -> None:
        """Read a head by the exact grammar."""
        if (known := self._whole.get(raw)) is not None:
            columns.who[index], columns.event[index], columns.weight[index] = known
            return
        found = self._read(raw)
        if found is None or single(found.rest):
            return
        columns.who[index], columns.event[index] = self._numbers.of(found)
        columns.weight[index] = 1 if found.period is None else found.period
        if found.hundredths is not None and found.seconds is not None:
            columns.hundredths[index], columns.seconds[index] = found.hundredths, found.seconds
        elif len(self._whole) < _KNOWN:
            self._whole[raw] = (int(columns.who[index]), int(columns.event[index]), float(columns.weight[index]))


def exact(raw: bytes) -> Head | None:
    """A line as head; None if it could be anything else in some place."""
    text = plain(raw)
    if not text or text[0] in "#\t" or "PERF_RECORD_" in text:
        return None
    if not STRONG.match(text) and not text.endswith(":"):
        return None
    return head(text)


def strong(raw: bytes) -> Head | None:
    """A line as head of which no part could be a frame: who, a time and an event."""
    found = exact(raw)
    return found if found and found.event and STRONG.match(plain(raw) or "") else None
