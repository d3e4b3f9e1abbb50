"""Rows of one entity while a recording is read: a column begins where its metric is first printed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Moment, Series
from thpdiag.model.citation import EXCERPT

NAN = float("nan")
MOST_TEXT = 1 << 25  # bytes of cited lines kept of one member; rows after that are cited by line only
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class Room:
    """For the text of cited lines, shared by all rows of a member."""

    left: int = MOST_TEXT


def printable(text: str) -> str:
    """The same on one line."""
    return text if text.isprintable() else _CONTROL.sub("?", text.replace("\t", " "))


class Rows:
    """One row per interval at most; `add` says whether there was none yet."""

    __slots__ = ("_columns", "_ends", "_room", "_text", "at", "lines")

    def __init__(self, room: Room) -> None:
        self.at = array("q")  # number of the interval
        self.lines = array("q")
        self._columns: dict[str, array[float]] = {}
        self._text = bytearray()
        self._ends = array("q")
        self._room = room

    def __len__(self) -> int:
        return len(self.at)

    def add(self, at: int, line: int, values: Mapping[str, float], text: bytes) -> bool:
        if self.at and self.at[-1] == at:
            return False
        count = len(self.at)
        columns = self._columns
        for name, value in values.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = array("d")
            if len(column) < count:
                column.extend([NAN] * (count - len(column)))
            column.append(value)
        self.at.append(at)
        self.lines.append(line)
        if self._room.left > 0:
            kept = printable(text[:EXCERPT].decode("utf-8", "replace")).encode()
            self._text += kept
            self._room.left -= len(kept)
        self._ends.append(len(self._text))
        return True

    def column(self, name: str) -> NDArray[np.float64] | None:
        """The values of a metric in order of the recording, NaN where it was not printed."""
        column = self._columns.get(name)
        if column is None:
            return None
        if missing := len(self.at) - len(column):
            column.extend([NAN] * missing)
        return np.frombuffer(column, np.float64)

    def put(self, name: str, column: NDArray[np.float64]) -> None:
        """A metric for all rows."""
        self._columns[name] = array("d", column.tobytes())

    def metrics(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def series(self, kind: str, entity: tuple[tuple[str, str], ...], source: tuple[str, str], times: Times) -> Series:
        """As columns, in the order of `times`; `source` is member and reader."""
        at, ends = np.frombuffer(self.at, np.int64), np.frombuffer(self._ends, np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        values = {name: column for name in self._columns if (column := self.column(name)) is not None}
        text = bytes(self._text)
        seconds = None if times.seconds is None else times.seconds[at]
        resolution = {name: quantum for name, quantum in times.resolution.items() if name in values}
        lines = np.frombuffer(self.lines, np.int64)
        made = Series(
            kind, values, source[0], lines, source[1], entity,
            seconds, times.clock, resolution, None, text, starts, ends,
        )  # fmt: skip
        return made if times.rank is None else made.only(once(times.rank[at]))


@dataclass(frozen=True, slots=True)
class Times:
    """When the intervals of a recording were: by number, and their order, None if it is that of the recording."""

    seconds: NDArray[np.float64] | None
    clock: Clock | None
    rank: NDArray[np.int64] | None
    resolution: Mapping[str, float]

    def moment(self, at: int) -> Moment | None:
        return None if self.clock is None or self.seconds is None else Moment(float(self.seconds[at]), self.clock)


def once(rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows in the order of their ranks, the first one of each."""
    return np.unique(rank, return_index=True)[1]
