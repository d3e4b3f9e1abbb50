"""A long text in ranges that several processes read."""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Content, Foreign, Source
from thpdiag.readers.perf_script_bulk.part import joined, records
from thpdiag.readers.perf_script_bulk.text import Text
from thpdiag.readers.perf_script_bulk.windows import SIZE, ChunkFeed


def read_content(source: Source, content: Content) -> Iterator[Record | Foreign]:
    text = Text(source)
    yield from text.read(ChunkFeed(content.chunks), SIZE)
    yield from records(joined([text.part()]), source)
