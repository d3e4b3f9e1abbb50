"""A whole file that sadf wrote, in whichever form: columns by entity, and what it says of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from thpdiag.bundle.transcript import clean
from thpdiag.model import Problem, ProblemKind, Record
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.bulk import json_tree, xml_tree
from thpdiag.readers.sysstat.sadc_header import Head
from thpdiag.readers.sysstat.sadf_activities import Activities, TreeError
from thpdiag.readers.sysstat.sadf_lines import SadfLines
from thpdiag.readers.sysstat.sadf_rows import NAME, Rows
from thpdiag.recordings.columns import as_series

_LINE = 1 << 20  # bytes of a line; what is longer is cut


def read_tree(source: Source, chunks: Iterator[bytes], form: str) -> Iterator[Record]:
    """`form` is json or xml."""
    return as_series(_of_tree(source, chunks, form))


def _of_tree(source: Source, chunks: Iterator[bytes], form: str) -> Iterator[Record]:
    odd = Oddities(source, NAME)
    activities = Activities(Rows(source, odd))
    read: Callable[[Activities, Iterator[bytes]], Iterator[Record]]
    read = json_tree.read_json if form == "json" else xml_tree.read_xml
    try:
        yield from read(activities, chunks)
    except TreeError as error:
        text = f"{error.text}; what stands before was read"
        yield Problem(source.cite(max(error.line, 1)), text, ProblemKind.DAMAGED, NAME)
    yield from odd.problems()


def read_lines(source: Source, chunks: Iterator[bytes], head: Head | None = None) -> Iterator[Record]:
    """The line forms; with a `head`, what an installed sadf prints of the file that begins so."""
    return as_series(_of_lines(source, chunks, head))


def _of_lines(source: Source, chunks: Iterator[bytes], head: Head | None) -> Iterator[Record]:
    reader = NAME if head is None else "sadc"
    odd = Oddities(source, reader)
    lines = SadfLines(Rows(source, odd, reader, head.machine if head else ""), head.host if head else "")
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
    yield from odd.problems()
