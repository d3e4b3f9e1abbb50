"""A whole member for readers whose lines make sense only together, or are many: its lines, its rows as columns.

Not a reader. Below a size the rows stay rows, which costs less than to load numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from thpdiag.bundle.lines import Undecoded, numbered
from thpdiag.bundle.transcript import clean
from thpdiag.model import Citation, Problem, ProblemKind, Record
from thpdiag.reader import Content, Foreign, Lines, Source

LONGEST_LINE = 1 << 20  # bytes; a line of a recording is a row, not a file
FEW = 2000  # rows


def numbered_lines(content: Content, undecoded: Undecoded, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """The lines of a member, from 1, as readers of lines get them but for quoting and markup."""
    chunks = iter(content.chunks)
    first = next(chunks, b"")
    for number, text in numbered(first[:65536], chain((first,), chunks), longest, undecoded):
        yield number, clean(text)


def undecoded_lines(source: Source, undecoded: Undecoded, reader: str) -> Iterator[Problem]:
    """What was cut or could not be decoded."""
    if undecoded.cut:
        text = "lines that are too long for their format: what is beyond was not read"
        yield Problem(Citation(source.member, undecoded.first_cut), text, ProblemKind.LIMIT, reader, undecoded.cut)
    if undecoded.undecodable:
        text = "lines with bytes that are no text"
        cite = Citation(source.member, undecoded.first_undecodable)
        yield Problem(cite, text, ProblemKind.DAMAGED, reader, undecoded.undecodable)


def as_columns(records: Iterable[Record]) -> Iterator[Record | Foreign]:
    """The same records, rows as columns where they are many."""
    rest = iter(records)
    held = list(islice(rest, FEW))
    if len(held) < FEW:
        yield from held
        return
    from thpdiag.recordings.columns import as_series  # numpy: only for what is long

    yield from as_series(chain(held, rest))


def whole(
    source: Source,
    content: Content,
    reader: str,
    read: Callable[[Source, Lines], Iterator[Record]],
    longest: int = LONGEST_LINE,
) -> Iterator[Record | Foreign]:
    """A member read by a reader of lines without the search for blocks, many rows as columns."""
    undecoded = Undecoded()
    yield from as_columns(read(source, numbered_lines(content, undecoded, longest)))
    yield from undecoded_lines(source, undecoded, reader)
