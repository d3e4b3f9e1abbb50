"""Rows of a recording that was read line by line, put into columns: one Series per entity and set of metrics.

A day of rows as objects of their own takes ten times the memory of the file. Here each becomes a few numbers at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Record, Sample, Series

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

    def add(self, row: Sample) -> None:
        for column, value in zip(self.columns, row.values.values(), strict=True):
            column.append(value)
        if row.resolution is not self._seen:
            self._seen = row.resolution
            for name, quantum in row.resolution.items():
                self.resolution[name] = max(quantum, self.resolution.get(name, 0.0))
        self.seconds.append(row.time.seconds if row.time else NAN)
        self.lines.append(row.cite.line or 0)
        self.marks.append(row.since_boot)
        self.text += row.cite.text.encode("utf-8", "replace")
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


def as_series(records: Iterable[Record]) -> Iterator[Record]:
    """The same records: rows as columns, behind the last of them; everything else as it comes."""
    found: dict[Key, _Rows] = {}
    for record in records:
        if not isinstance(record, Sample):
            yield record
            continue
        clock = record.time.clock if record.time else None
        key = (record.kind, record.entity, record.cite.member, record.reader, tuple(record.values), clock)
        rows = found.get(key)
        if rows is None:
            rows = found[key] = _Rows(key, tuple(array("d") for _ in record.values))
        rows.add(record)
    yield from (rows.series() for rows in found.values())
