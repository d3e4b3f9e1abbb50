"""Rows of a recording that was read line by line, put into columns: one Series per entity and set of metrics.

A day of rows as objects of their own takes ten times the memory of the file. Here each becomes a few numbers at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np

from thpdiag.model import Clock, Entity, Moment, Record, Sample, Series
from thpdiag.recordings.hosts import Hosts

Key = tuple[str, Entity, str, str, tuple[str, ...], Clock | None]
NAN = float("nan")
OWN = 4  # numbers of a row beside its metrics
HELD = 4096  # numbers that are held as rows


@dataclass(slots=True)
class _Rows:
    """Rows of one entity with the same metrics on one clock."""

    key: Key
    resolution: dict[str, float] = field(default_factory=dict)
    _held: array[float] = field(default_factory=lambda: array("d"))  # the last rows, one after another
    _columns: tuple[array[float], ...] = ()  # those before them: time, line, mark, end of the text, metrics
    _text: BytesIO = field(default_factory=BytesIO)
    _size: int = 0  # of the text
    _seen: object = None

    def add(self, row: Sample, seconds: float, line: int, text: str) -> None:
        if row.resolution is not self._seen and row.resolution != self._seen:
            self._seen = row.resolution
            for name, quantum in row.resolution.items():
                self.resolution[name] = max(quantum, self.resolution.get(name, 0.0))
        self._size += self._text.write(text.encode("utf-8", "replace"))
        self._held.extend((seconds, line, row.since_boot, self._size, *row.values.values()))
        if len(self._held) > HELD:
            self._spread()

    def _spread(self) -> None:
        """Puts the last rows into the columns, all at once: to append to each column for each row takes three times."""
        rows = np.array(self._held).reshape(-1, OWN + len(self.key[4]))
        self._columns = self._columns or tuple(array("d") for _ in range(rows.shape[1]))
        for column, cells in zip(self._columns, rows.T, strict=True):
            column.frombytes(cells.tobytes())
        del self._held[:]

    def series(self) -> Series:
        self._spread()
        kind, entity, member, reader, metrics, clock = self.key
        seconds, lines, marks, ends, *values = (np.frombuffer(column, np.float64) for column in self._columns)
        places = np.concatenate((np.zeros(1, np.int64), ends.astype(np.int64)))
        return Series(
            kind,
            dict(zip(metrics, values, strict=True)),
            member,
            lines.astype(np.int64),
            reader,
            entity,
            seconds if clock else None,
            clock,
            self.resolution,
            marks > 0 if marks.any() else None,
            self._text.getvalue(),
            places[:-1],
            places[1:],
        )


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
            rows = self._found[key] = _Rows(key)
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
