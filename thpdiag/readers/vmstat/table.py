"""vmstat (procps): CPU, memory, swap and block I/O of the host, one row per interval.

    procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
     r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
     2  0      0 241712 311900 907128    0    0    12   340 1021 2204 71 24  5  0  0

Units: memory and swap in KiB unless -S says otherwise, which the table does not show: values that are no multiples of
4 KiB are not KiB. bi and bo are always KiB/s, CPU columns whole percents. The first row of a run is an average since
boot (not its memory), except with -y.
Varies: no st before 3.3.9 upstream, gu (guest, then taken out of us) from 4.0.4 on or with -w in 4.0; -a has inact and
active for buff and cache; -t appends a local time, its zone in the header only; header words 3 to 6 are translated;
4.0.0 to 4.0.2 never read memory again after the first row. Rows are read by order of columns, never by position.
The tables of -d, -D, -m, -p and -f are recognised and hold nothing of use here.
Source: procps vmstat.c, 3.2.7 to 4.0.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.bundle.transcript import clean, prompt
from thpdiag.model import Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.vmstat.lines import BANNER, HEADER, OTHER, belongs, is_header
from thpdiag.readers.vmstat.run import NO_ROW, Run

LONG = 1 << 20  # bytes from which it is worth to load numpy
MANY = 1 << 15  # bytes of the beginning that are looked at, at least
MOST_ABOVE = 8  # lines above the first header
FEW_FOREIGN = 0.02  # of the lines


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One Sample of the host per row."""
    odd = Oddities(source, "vmstat")
    run = Run(source, odd)
    above = ""
    for number, text in lines:
        words, before, above = text.split(), above, text
        if not words:
            continue
        if run.layout and words[0][-1] in "0123456789":
            yield from run.row(number, text, words)
        elif is_header(text, words, after_banner=bool(BANNER.match(before))):
            yield from run.header(words)
        elif OTHER.match(text):
            break
        elif not BANNER.match(text):
            odd.note(number, text, NO_ROW)
    yield from run.end()
    yield from odd.problems()


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A header comes first, and nearly all lines of a long text are of vmstat; none was typed."""
    if len(head) < MANY or (size is not None and size < LONG):
        return False
    rows = head.split(b"\n", MOST_ABOVE)
    if not any(b" us " in row and b" si " in row for row in rows[:MOST_ABOVE]):
        return False
    lines = [clean(line) for line in head.decode("utf-8", "replace").split("\n")[:-1]]
    foreign = [line for line in lines if not belongs(line)]
    if len(foreign) > FEW_FOREIGN * len(lines) or not any(HEADER.match(line) for line in lines):
        return False
    return not any(prompt(line) for line in foreign)


def _read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    from thpdiag.readers.vmstat.bulk.series import records  # numpy: only where there is a recording

    return records(source, content)


READER = Reader(
    "vmstat",
    "vmstat table",
    read,
    opens=re.compile(f"{HEADER.pattern}|{BANNER.pattern}|{OTHER.pattern}"),
    continues=belongs,
)
BULK = BulkReader(READER.name, READER.title, _claims, _read_bulk)
