"""vmstat read line by line and in bulk, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.model import Problem, Record, Sample, Series
from thpdiag.reader import Content, Foreign, Source
from thpdiag.readers import all_readers
from thpdiag.readers.vmstat.table import BULK
from thpdiag.recognise import Recogniser

MEMBER = "vmstat.txt"
VMSTAT_ONLY = Recogniser([r for r in all_readers() if r.name == "vmstat"], strict=True)

Row = tuple[int | None, str, object, bool, tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]]
Odd = tuple[str, int | None, str, int]


def row(sample: Sample) -> Row:
    resolution = tuple(sorted((n, q) for n, q in sample.resolution.items() if n in sample.values))
    values = tuple(sorted(sample.values.items()))
    return (sample.cite.line, sample.cite.text, sample.time, sample.since_boot, values, resolution)


def canonical(records: Iterable[Record]) -> tuple[list[Row], list[Odd]]:
    """Rows in the order of their lines, and problems."""
    rows = [row(s) for r in records if isinstance(r, (Sample, Series)) for s in (r if isinstance(r, Series) else (r,))]
    odd = [(r.text, r.cite.line, r.cite.text, r.count) for r in records if isinstance(r, Problem)]
    return sorted(rows, key=lambda r: r[0] or 0), sorted(odd, key=str)


def by_lines(data: bytes) -> tuple[list[Row], list[Odd]]:
    """As the recogniser reads them."""
    from reading import member

    given = member(data, MEMBER)
    read = VMSTAT_ONLY.read(MEMBER, given.lines(), "")
    return canonical([r.record for r in read if r.reader == "vmstat"])


def records(data: bytes, command: str = "", size: int = 1 << 16) -> Iterator[Record | Foreign]:
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return BULK.read(Source(MEMBER, command=command), Content(chunks, len(data)))


def in_bulk(data: bytes) -> tuple[list[Row], list[Odd]]:
    """As the reader of bytes reads them; what it leaves to others is read by the recogniser."""
    found: list[Record] = []
    for record in records(data):
        if isinstance(record, Foreign):
            found += [r.record for r in VMSTAT_ONLY.read(MEMBER, record.lines) if r.reader == "vmstat"]
        else:
            found.append(record)
    return canonical(found)
