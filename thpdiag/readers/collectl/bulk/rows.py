"""Rows of one entity while a recording is read: a column begins where its metric is first printed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Entity, Moment, Series
from thpdiag.model.citation import EXCERPT

NAN = float("nan")
MOST_TEXT = 1 << 25  # bytes of cited lines kept of one member; rows after that are cited by line only
_PLAIN = bytes(byte if 32 <= byte != 127 else ord(" " if byte == 9 else "?") for byte in range(256))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class Room:
    """For the text of cited lines, shared by all rows of a member."""

    left: int = MOST_TEXT


def printable(text: str) -> str:
    """The same on one line."""
    return text if text.isprintable() else _CONTROL.sub("?", text.replace("\t", " "))


def excerpt(line: bytes) -> bytes:
    """What is kept of a cited line."""
    kept = line[:EXCERPT].translate(_PLAIN)
    return kept if kept.isascii() else printable(kept.decode("utf-8", "replace")).encode()


class Rows:
    """One row per interval at most; `add` says whether there was none yet.

    Rows of the same metrics, which is nearly all of them, are one flat array.
    """

    __slots__ = ("_ends", "_more", "_parts", "_room", "_text", "at", "lines")

    def __init__(self, room: Room) -> None:
        self.at = array("q")  # number of the interval
        self.lines = array("q")
        self._parts: list[tuple[tuple[str, ...], array[float]]] = []
        self._more: dict[str, NDArray[np.float64]] = {}
        self._text = bytearray()
        self._ends = array("q")
        self._room = room

    def __len__(self) -> int:
        return len(self.at)

    def add(self, at: int, line: int, values: Mapping[str, float], text: bytes) -> bool:
        if self.at and self.at[-1] == at:
            return False
        names = tuple(values)
        if not self._parts or self._parts[-1][0] != names:
            self._parts.append((names, array("d")))
        self._parts[-1][1].extend(values.values() if names else (NAN,))
        self.at.append(at)
        self.lines.append(line)
        if self._room.left > 0:
            kept = excerpt(text)
            self._text += kept
            self._room.left -= len(kept)
        self._ends.append(len(self._text))
        return True

    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([name for names, _ in self._parts for name in names] + list(self._more)))

    def put(self, name: str, column: NDArray[np.float64]) -> None:
        """A metric for all rows."""
        self._more[name] = column

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """The values of all metrics in order of the recording, NaN where one was not printed."""
        parts = [(names, np.frombuffer(flat).reshape(-1, max(len(names), 1))) for names, flat in self._parts]
        if len(parts) == 1:
            names, table = parts[0]
            return {**dict(zip(names, table.T.copy() if names else (), strict=True)), **self._more}
        columns = {name: np.full(len(self.at), np.nan) for name in self.metrics()}
        first = 0
        for names, table in parts:
            for name, column in zip(names, table.T if names else (), strict=True):
                columns[name][first : first + len(table)] = column
            first += len(table)
        return {**columns, **self._more}

    def series(self, kind: str, entity: Entity, source: tuple[str, str], times: Times) -> Series:
        """As columns, in the order of `times`; `source` is member and reader."""
        at, ends = np.frombuffer(self.at, np.int64), np.frombuffer(self._ends, np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        values = self.columns()
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
