"""Hours of process lists as OSWatcher records them: `zzz` lines, below each a list with its header.

Most rows of a list are word for word those of the list before. Each text is read once, by the reader of single lists,
and its rows are put into columns; what it says of the command and of the function a task waits in is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thpdiag.bundle.lines import Undecoded
from thpdiag.bundle.stamps import stamp
from thpdiag.model import Moment, Record
from thpdiag.reader import BulkReader, Content, Foreign, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import numbered_lines, undecoded_lines
from thpdiag.readers.processes import ps
from thpdiag.readers.processes.oswatcher import HEAD, SETTING, ZZZ, first_output
from thpdiag.readers.processes.ps_columns import Columns as Header
from thpdiag.readers.processes.repeated_rows import Rows

if TYPE_CHECKING:
    from thpdiag.recordings.columns import Columns


@dataclass(slots=True)
class Frames:
    """The lists of one file, in order."""

    source: Source
    odd: Oddities
    columns: Columns
    time: Moment | None = None
    header: Sequence[str] = ()
    listing: ps.Listing | None = None
    rows: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.rows = Rows(self.columns)

    def line(self, number: int, text: str) -> Iterator[Record]:
        if ZZZ.match(text) and (time := stamp(text)):
            self.time, self.listing = time, None
        elif self.listing is None and ps.HEADER.match(text):
            words = text.split()
            if words != self.header:
                self.header = words
                self.rows.begin_columns()
            self.listing = ps.Listing(self.source, self.odd, Header(words))
            self.rows.begin_list()
        elif self.listing is not None:
            yield from self.rows.row(number, text, self.time, self._read)
        elif not (HEAD.match(text) or SETTING.match(text) or ZZZ.match(text)):
            self.odd.note(number, text, "a line of no process list")

    def _read(self, number: int, text: str) -> Iterator[Record]:
        """What the reader of single lists makes of a row, whether or not its process was there already."""
        return ps.Listing(self.source, self.odd, Header(self.header)).row(number, text)


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """A Series per process, facts of each once."""
    from thpdiag.recordings.columns import Columns  # numpy: only for what is long

    undecoded, odd, columns = Undecoded(), Oddities(source, BULK.name), Columns()
    frames = Frames(source, odd, columns)
    for number, text in numbered_lines(content, undecoded):
        if text:
            yield from frames.line(number, text)
    yield from columns.series()
    yield from odd.problems()
    yield from undecoded_lines(source, undecoded, BULK.name)


def claims(path: str, head: bytes, size: int | None) -> bool:
    """A long file that begins with a time line of OSWatcher and a list below it."""
    lines = first_output(head, size)
    return len(lines) > 1 and bool(ps.HEADER.match(lines[0]) and ps.confirm(lines[:2]))


BULK = BulkReader("ps", ps.READER.title, claims, read)
