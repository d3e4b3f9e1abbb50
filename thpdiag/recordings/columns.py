"""Rows of a recording that was read line by line, put into columns: one Series per entity and set of metrics.

A day of rows as objects of their own takes ten times the memory of the file. Here each becomes a few numbers at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Moment, Record, Sample, Series
from thpdiag.recordings.hosts import Hosts

Key = tuple[str, tuple[tuple[str, str], ...], str, str, tuple[str, ...], Clock | None]
NAN = float("nan")


@dataclass(slots=True)
class _Rows:
    """Rows of one entity with the same metrics on one clock."""

    key: Key
    columns: tuple[array[float], ...]
    resolution: dict[str, float] = field(default_factory=dict)
    seconds: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    marks: bytearray = field(default_factory=bytearray)
    text: bytearray = field(default_factory=bytearray)
    ends: array[int] = field(default_factory=lambda: array("q"))
    _seen: object = None

    def add(self, row: Sample, seconds: float, line: int, text: str) -> None:
        for column, value in zip(self.columns, row.values.values(), strict=True):
            column.append(value)
        if row.resolution is not self._seen:
            self._seen = row.resolution
            for name, quantum in row.resolution.items():
                self.resolution[name] = max(quantum, self.resolution.get(name, 0.0))
        self.seconds.append(seconds)
        self.lines.append(line)
        self.marks.append(row.since_boot)
        self.text += text.encode("utf-8", "replace")
        self.ends.append(len(self.text))

    def series(self) -> Series:
        kind, entity, member, reader, metrics, clock = self.key
        ends = np.frombuffer(self.ends, np.int64)
        marks = np.frombuffer(bytes(self.marks), np.uint8).astype(bool)
        return Series(
            kind,
            {name: _floats(column) for name, column in zip(metrics, self.columns, strict=True)},
            member,
            np.frombuffer(self.lines, np.int64),
            reader,
            entity,
            _floats(self.seconds) if clock else None,
            clock,
            self.resolution,
            marks if marks.any() else None,
            bytes(self.text),
            np.concatenate((np.zeros(1, np.int64), ends[:-1])),
            ends,
        )


def _floats(column: array[float]) -> NDArray[np.float64]:
    return np.frombuffer(column, np.float64)


class Columns:
    """Rows of one source, gathered by entity and metrics."""

    def __init__(self) -> None:
        self._found: dict[Key, _Rows] = {}

    def add(self, row: Sample) -> None:
        time, cite = row.time, row.cite
        rows = self._rows(row, time.clock if time else None)
        rows.add(row, time.seconds if time else NAN, cite.line or 0, cite.text)

    def again(self, row: Sample, time: Moment | None, line: int, text: str) -> None:
        """A row that says what another one said, at a time and line of its own."""
        self._rows(row, time.clock if time else None).add(row, time.seconds if time else NAN, line, text)

    def _rows(self, row: Sample, clock: Clock | None) -> _Rows:
        key = (row.kind, row.entity, row.cite.member, row.reader, tuple(row.values), clock)
        rows = self._found.get(key)
        if rows is None:
            rows = self._found[key] = _Rows(key, tuple(array("d") for _ in row.values))
        return rows

    def series(self) -> Iterator[Series]:
        return (rows.series() for rows in self._found.values())


def as_series(records: Iterable[Record]) -> Iterator[Record]:
    """The same records: rows as columns, by host, behind the last of them; everything else as it comes."""
    hosts = Hosts(Columns)
    for record in records:
        if isinstance(record, Sample):
            hosts.now.add(record)
        else:
            hosts.named(record)
            yield record
    yield from hosts.series()
