"""Blocks of rows become a Series per table and entity, over all days; rows that came one by one are added to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Entity, Series
from thpdiag.recordings.columns import Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_TEXT = 64 << 20  # bytes of rows that are kept for citations
_Key = tuple[Entity, Clock, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table about one entity; `starts` and `ends` are places in the text that is kept."""

    values: Mapping[str, Floats]
    lines: Ints
    seconds: Floats
    starts: Ints
    ends: Ints


@dataclass(slots=True)
class Gather:
    """Collects rows in reading order."""

    member: str
    reader: str
    rows: Columns = field(default_factory=Columns)
    _parts: dict[_Key, list[Part]] = field(default_factory=dict)
    _resolution: dict[_Key, dict[str, float]] = field(default_factory=dict)
    _text: list[bytes] = field(default_factory=list)
    _size: int = 0

    def keep(self, text: bytes) -> int:
        """Keeps text of rows for citations and says where it begins; -1 if there is too much of it."""
        if self._size + len(text) > MOST_TEXT:
            return -1
        begin, self._size = self._size, self._size + len(text)
        self._text.append(text)
        return begin

    def part(self, entity: Entity, clock: Clock, part: Part, resolution: Mapping[str, float]) -> None:
        """Rows of a table about the host, or one of its CPUs."""
        key = (entity, clock, tuple(part.values))
        self._parts.setdefault(key, []).append(part)
        known = self._resolution.setdefault(key, {})
        for name, quantum in resolution.items():
            known[name] = max(quantum, known.get(name, 0.0))

    def series(self) -> Iterator[Series]:
        """One Series per table, entity and clock."""
        text = b"".join(self._text)
        for (entity, clock, names), parts in self._parts.items():
            lines, seconds, starts, ends = (
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("lines", "seconds", "starts", "ends")
            )
            values = {name: np.concatenate([part.values[name] for part in parts]) for name in names}
            yield Series(
                "cpu" if entity else "system", values, self.member, lines, self.reader, entity, seconds, clock,
                self._resolution[entity, clock, names], None, text, starts, ends,
            )  # fmt: skip
        yield from self.rows.series()
