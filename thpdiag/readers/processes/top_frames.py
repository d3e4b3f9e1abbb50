"""Hours of top as OSWatcher records it: `zzz` lines, below each the second frame of a run of two.

Rows that were there before word for word are read once (`repeated_rows`); the summary is read as in single frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from thpdiag.bundle.lines import Undecoded
from thpdiag.bundle.recorder_files import recorded
from thpdiag.bundle.stamps import stamp
from thpdiag.model import Moment, Record, Sample
from thpdiag.reader import BulkReader, Content, Foreign, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import numbered_lines, undecoded_lines
from thpdiag.readers.processes import top
from thpdiag.readers.processes.oswatcher import HEAD, SETTING, ZZZ, first_output
from thpdiag.readers.processes.repeated_rows import Rows
from thpdiag.readers.processes.top_rows import TaskRows

if TYPE_CHECKING:
    from thpdiag.recordings.columns import Columns


@dataclass(slots=True)
class Recording:
    """The frames of one file, in order."""

    source: Source
    odd: Oddities
    columns: Columns
    header: str = ""
    frames: top.Frames | None = None
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = Rows(self.columns)

    def line(self, number: int, text: str) -> Iterator[Record]:
        if top.ROW.match(text) and self.frames is not None:
            yield from self.rows.row(number, text, self.frames.time, self._read)
        elif ZZZ.match(text) and (time := stamp(text)):
            yield from self.end()
            self._begin(time)
        elif self.frames is not None:
            if top.HEAD.match(text) and text != self.header:
                self.header = text
                self.rows.begin_columns()
            yield from self._kept(top.line_of(self.frames, number, text))
        elif not (HEAD.match(text) or SETTING.match(text) or ZZZ.match(text)):
            self.odd.note(number, text, "a line that is none of top's")

    def _begin(self, time: Moment) -> None:
        self.frames = top.Frames(replace(self.source, time=time), self.odd)
        self.rows.begin_list()

    def _read(self, number: int, text: str) -> Iterator[Record]:
        rows = TaskRows(self.source, self.odd)
        if self.header:
            rows.header(self.header)
        return rows.row(number, text, None)

    def _kept(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            if isinstance(record, Sample):
                self.columns.add(record)
            else:
                yield record

    def end(self) -> Iterator[Record]:
        """The host's figures of the frame before."""
        if self.frames is not None:
            yield from self._kept(self.frames.end())


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """A Series of the host and one per process, facts of each process once."""
    from thpdiag.recordings.columns import Columns  # numpy: only for what is long

    undecoded, odd, columns = Undecoded(), Oddities(source, BULK.name), Columns()
    recording = Recording(source, odd, columns)
    for number, text in numbered_lines(content, undecoded):
        if text:
            yield from recording.line(number, text)
    yield from recording.end()
    yield from columns.series()
    yield from odd.problems()
    yield from undecoded_lines(source, undecoded, BULK.name)


def claims(path: str, head: bytes, size: int | None) -> bool:
    """A long file of OSWatcher, by its name, that begins with a time line and a frame below it."""
    lines = first_output(head, size) if recorded(path).command.startswith("top ") else []
    return len(lines) > 1 and bool(top.FRAME.match(lines[0]))


BULK = BulkReader("top", top.READER.title, claims, read)
