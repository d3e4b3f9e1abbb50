"""Rows of sysstat data from any form: lines, columns, trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from thpdiag.model import Entity, Moment, Problem, Record, Sample, Series
from thpdiag.model.parser import BulkParser, Content, Foreign, Parser, Source

Cells = Mapping[tuple[float, str, Entity], Mapping[str, float]]
PIECE = 1 << 12


def by_lines(reader: Parser, data: bytes, path: str = "sar") -> list[Record]:
    """Return what the line reader makes of a complete file."""
    lines = enumerate(data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n"), 1)
    return list(reader.read(Source(path, path=path), lines))


def in_bulk(reader: BulkParser, data: bytes, path: str = "sar", piece: int = PIECE) -> list[Record | Foreign]:
    """Return what the bulk parser makes of it, given in pieces."""
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    return list(reader.read(Source(path, path=path), Content(chunks, len(data))))


def samples(records: Iterable[Record | Foreign]) -> list[Sample]:
    """Return all rows by line, those of columns one by one."""
    rows = [row for r in records for row in (r if isinstance(r, Series) else (r,)) if isinstance(row, Sample)]
    return sorted(rows, key=lambda row: (row.cite.line or 0, row.kind, row.entity, sorted(row.values)))


def problems(records: Iterable[Record | Foreign]) -> list[Problem]:
    return [record for record in records if isinstance(record, Problem)]


def cells(records: Iterable[Record | Foreign]) -> Cells:
    """Return every value by time, entity and name, in whatever row it was."""
    found: dict[tuple[float, str, Entity], dict[str, float]] = {}
    for row in samples(records):
        assert isinstance(row.time, Moment)
        found.setdefault((row.time.seconds, row.kind, row.entity), {}).update(row.values)
    return found
