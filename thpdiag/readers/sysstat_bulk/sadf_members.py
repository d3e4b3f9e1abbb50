"""A whole file that sadf wrote, in whichever form: columns by entity, and what it says of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thpdiag.bundle.transcript import clean
from thpdiag.model import Problem, ProblemKind, Record, Sample
from thpdiag.reader import Source
from thpdiag.readers.oddities import Oddities
from thpdiag.readers.sadc_header import Head
from thpdiag.readers.sadf_activities import Activities, TreeError
from thpdiag.readers.sadf_lines import SadfLines
from thpdiag.readers.sadf_rows import NAME, Rows
from thpdiag.readers.sysstat_bulk import json_tree, xml_tree
from thpdiag.readers.sysstat_bulk.gather import Gather

_LINE = 1 << 20  # bytes of a line; what is longer is cut


def read_tree(source: Source, chunks: Iterator[bytes], form: str) -> Iterator[Record]:
    """`form` is json or xml."""
    odd = Oddities(source, NAME)
    activities = Activities(Rows(source, odd))
    read: Callable[[Activities, Iterator[bytes]], Iterator[Record]]
    read = json_tree.read_json if form == "json" else xml_tree.read_xml
    gather = Gather(source.member, NAME)
    broken: Problem | None = None
    try:
        yield from _gathered(read(activities, chunks), gather)
    except TreeError as error:
        text = f"{error.text}; what stands before was read"
        broken = Problem(source.cite(max(error.line, 1)), text, ProblemKind.DAMAGED, NAME)
    if broken:
        yield broken
    yield from odd.problems()
    yield from gather.series()


def read_lines(source: Source, chunks: Iterator[bytes], head: Head | None = None) -> Iterator[Record]:
    """The line forms; with a `head`, what an installed sadf prints of the file that begins so."""
    reader = NAME if head is None else "sadc"
    odd = Oddities(source, reader)
    lines = SadfLines(Rows(source, odd, reader, head.machine if head else ""), head.host if head else "")
    gather = Gather(source.member, reader)
    yield from _gathered(_records(lines, chunks), gather)
    yield from odd.problems()
    yield from gather.series()


def _gathered(records: Iterator[Record], gather: Gather) -> Iterator[Record]:
    """What is no row; rows are kept for their Series."""
    for record in records:
        if isinstance(record, Sample):
            gather.row(record)
        else:
            yield record


def _records(lines: SadfLines, chunks: Iterator[bytes]) -> Iterator[Record]:
    number, rest = 0, b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        rest = rest[:_LINE]
        for line in whole:
            number += 1
            yield from lines.line(number, clean(line.decode("utf-8", "replace")))
    if rest:
        yield from lines.line(number + 1, clean(rest.decode("utf-8", "replace")))
    yield from lines.end()
