"""Tables given to a parser, or to the detector, and the parts of the answer that tests check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thpdiag.detect import Detector
from thpdiag.model import Moment, Problem, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers import all_parsers

READERS = {reader.name: reader for reader in all_parsers()}
GIB = 2**30


def read(reader: str, text: str, command: str = "", time: Moment | None = None) -> list[Record]:
    """Return records of a text given to one parser."""
    source = Source("table.txt", command=command, time=time)
    return list(READERS[reader].read(source, enumerate(text.splitlines(), 1)))


def blocks(text: str) -> list[tuple[str, Record]]:
    """Return records of a text as the detector splits it, each with its parser."""
    recogniser = Detector(all_parsers(), strict=True)
    return [(r.reader, r.record) for r in recogniser.read("ticket.txt", enumerate(text.splitlines(), 1))]


def samples(records: Iterable[Record], kind: str = "system") -> list[Sample]:
    return [r for r in records if isinstance(r, Sample) and r.kind == kind]


def problems(records: Iterable[Record]) -> list[Problem]:
    return [r for r in records if isinstance(r, Problem)]


def column(rows: Sequence[Sample], name: str) -> list[float]:
    return [row.values[name] for row in rows]


def seconds(rows: Sequence[Sample]) -> list[float]:
    return [row.time.seconds for row in rows if row.time]
