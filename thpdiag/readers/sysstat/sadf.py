"""sadf (sysstat): sar's data for other programs, as rows (-d, -p), JSON (-j) and XML (-x).

    # hostname;interval;timestamp;pgpgin/s;pgpgout/s;fault/s;majflt/s;pgfree/s;pgscank/s;pgscand/s;pgsteal/s;%vmeff
    web1;600;2026-11-20 03:40:01 UTC;8.00;52.00;17860.00;0.00;9478.00;0.00;0.00;0.00;0.00

Units: those of sar; times have dates and are UTC unless made with -T, -t (local time). The best form of sar's data.
Varies: columns by version and option (`user` with -u, `usr` with -A); sosreport 3.x holds CPU time only, 4.x all.
Source: sysstat sadf.c, rndr_stats.c, json_stats.c, xml_stats.c, 9.0 to 12.7; DTD 2.5 to 3.11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from thpdiag.model import Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.sadf_lines import D_HEADER, D_ROW, P_RESTART, P_ROW, SadfLines
from thpdiag.readers.sysstat.sadf_rows import NAME, Rows

_TITLE = "sadf rows, JSON and XML"
_LARGE = 64 * 1024  # bytes of rows; what is shorter is read line by line
_LINE_FORMS = (D_HEADER, D_ROW, P_ROW, P_RESTART)
_JSON = re.compile(rb'\s*\{\s*"sysstat"\s*:')
_XML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}\?>\s*)?"
    rb"(?:<sysstat[\s>]|<!DOCTYPE\s+(?:sysstat\b|\w+[^<]{0,200}\bsysstat\b))"
)
_FORM = 1024  # bytes in which the form shows


def belongs(text: str) -> bool:
    return any(form.match(text) for form in _LINE_FORMS)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample per row and entity, an event per restart."""
    odd = Oddities(source, NAME)
    rows = SadfLines(Rows(source, odd))
    for number, text in lines:
        yield from rows.line(number, text)
    yield from rows.end()
    yield from odd.problems()


def _form(head: bytes) -> str:
    if _JSON.match(head):
        return "json"
    return "xml" if _XML.match(head) else ""


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A tree of whatever size; rows if they are many and there is nothing else."""
    if _form(head):
        return True
    if len(head) < _LARGE or not _begins(head):
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return all(belongs(text.rstrip("\r")) for text in lines[:: max(len(lines) // 200, 1)])


def _begins(head: bytes) -> bool:
    return READER.opens is not None and bool(
        READER.opens.match(head[:1000].partition(b"\n")[0].decode("utf-8", "replace"))
    )


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """The same as columns: a Series per entity."""
    from thpdiag.readers.sysstat.bulk.sadf_members import read_lines, read_tree  # numpy

    head, chunks = b"", content.chunks
    while len(head) < _FORM and (chunk := next(chunks, b"")):
        head += chunk
    whole, form = chain((head,), chunks), _form(head)
    yield from read_tree(source, whole, form) if form else read_lines(source, whole)


READER = Reader(NAME, _TITLE, read, opens=re.compile(f"{D_HEADER.pattern}|{P_ROW.pattern}"), continues=belongs)
BULK = BulkReader(NAME, _TITLE, _claims, read_bulk)
