"""Rows of many tables become one Series per entity: each row has the values of its own table and its own line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Moment, Sample, Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Entity = tuple[tuple[str, str], ...]
MOST_TEXT = 64 << 20  # bytes of rows that are kept for citations


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table about one entity. `seconds` is None where they have no time."""

    values: Mapping[str, Floats]
    lines: Ints
    seconds: Floats | None
    since_boot: NDArray[np.bool_] | None
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(slots=True)
class _Rows:
    """Rows that came one by one."""

    values: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    since_boot: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def part(self) -> Part:
        columns = {}
        for name, cells in self.values.items():
            columns[name] = np.full(len(self.lines), np.nan)
            places, numbers = zip(*cells, strict=True)
            columns[name][list(places)] = numbers
        return Part(
            columns, np.array(self.lines, np.int64), np.array(self.seconds), np.array(self.since_boot),
            np.array(self.starts, np.int64), np.array(self.ends, np.int64),
        )  # fmt: skip


@dataclass(slots=True)
class Gather:
    """Collects rows, in whatever order; `series` gives them by line."""

    member: str
    reader: str
    _parts: dict[tuple[str, Entity, Clock | None], list[Part]] = field(default_factory=dict)
    _rows: dict[tuple[str, Entity, Clock | None], _Rows] = field(default_factory=dict)
    _resolution: dict[tuple[str, Entity, Clock | None], dict[str, float]] = field(default_factory=dict)
    _text: list[bytes] = field(default_factory=list)
    _size: int = 0

    def keep(self, text: bytes) -> int:
        """Keeps text of rows for citations and says where it begins; -1 if there is too much of it."""
        if self._size + len(text) > MOST_TEXT:
            return -1
        begin, self._size = self._size, self._size + len(text)
        self._text.append(text)
        return begin

    def part(self, kind: str, entity: Entity, clock: Clock | None, part: Part, resolution: Mapping[str, float]) -> None:
        """Rows of a table."""
        key = (kind, entity, clock)
        self._parts.setdefault(key, []).append(part)
        self._coarser(key, resolution)

    def row(self, sample: Sample) -> None:
        """One row; of its citation the line and the text are kept."""
        key = (sample.kind, sample.entity, sample.time.clock if sample.time else None)
        rows = self._rows.setdefault(key, _Rows())
        for name, value in sample.values.items():
            rows.values.setdefault(name, []).append((len(rows.lines), value))
        text = sample.cite.text.encode()
        begin = max(self.keep(text), 0)
        rows.lines.append(sample.cite.line or 0)
        rows.seconds.append(_seconds(sample.time))
        rows.since_boot.append(sample.since_boot)
        rows.starts.append(begin)
        rows.ends.append(begin + len(text) if self._size >= begin + len(text) else begin)
        self._coarser(key, sample.resolution)

    def _coarser(self, key: tuple[str, Entity, Clock | None], resolution: Mapping[str, float]) -> None:
        known = self._resolution.setdefault(key, {})
        for name, quantum in resolution.items():
            known[name] = max(quantum, known.get(name, 0.0))

    def series(self) -> Iterator[Series]:
        """One Series per entity and clock."""
        text = b"".join(self._text)
        for key in {**self._parts, **self._rows}:
            parts = list(self._parts.get(key, ()))
            if key in self._rows:
                parts.append(self._rows[key].part())
            yield self._joined(key, parts, text)

    def _joined(self, key: tuple[str, Entity, Clock | None], parts: list[Part], text: bytes) -> Series:
        kind, entity, clock = key
        lines = np.concatenate([part.lines for part in parts])
        order = np.argsort(lines, kind="stable")
        boot = np.concatenate([np.zeros(len(p), bool) if p.since_boot is None else p.since_boot for p in parts])
        seconds = np.concatenate([np.full(len(p), np.nan) if p.seconds is None else p.seconds for p in parts])
        starts, ends = (np.concatenate([getattr(p, name) for p in parts]) for name in ("starts", "ends"))
        return Series(
            kind, {name: column[order] for name, column in _columns(parts)}, self.member, lines[order], self.reader,
            entity, seconds[order] if clock else None, clock, self._resolution[key],
            boot[order] if boot.any() else None, text, starts[order], ends[order],
        )  # fmt: skip


def _columns(parts: list[Part]) -> Iterator[tuple[str, Floats]]:
    """Each metric over all parts; NaN where a part has it not."""
    size = sum(len(part) for part in parts)
    for name in dict.fromkeys(name for part in parts for name in part.values):
        column, at = np.full(size, np.nan), 0
        for part in parts:
            if name in part.values:
                column[at : at + len(part)] = part.values[name]
            at += len(part)
        yield name, column


def _seconds(time: Moment | None) -> float:
    return time.seconds if time else float("nan")
