"""sar (sysstat): CPU time, paging, memory, swap, load and pressure of a host over hours to weeks.

    Linux 2.6.32-431.el6.x86_64 (web1)  11/20/2026  _x86_64_  (8 CPU)

    12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
    12:10:01 AM     all      2.50      0.00     41.20      0.31      0.00     55.99

Units: percent, KiB, per second (see `sar_tables`); a row stands for the interval that ends at its time.
Varies: columns by version, so the header decides; dates, times and decimal commas by locale; from a file each report
comes whole, live every sample prints all headers again. A row has no date. `LINUX RESTART` rows are events; averages at
the end are left out, so are tables per device, interface and interrupt. `sar -A` of a whole day is read in bulk.
Source: sysstat sar.c, pr_stats.c, 8.0 to 12.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.sar_lines import HEADER, NAME, RESTART, SarText, belongs
from thpdiag.readers.sysstat.tables import BANNER

_TITLE = "sar reports"
_LARGE = 64 * 1024  # bytes; what is shorter is read line by line
_LOOK = 12  # lines of the head in which the first report begins


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample per row and entity, an event per restart."""
    odd = Oddities(source, NAME)
    text = SarText(source, odd)
    for number, line in lines:
        yield from text.line(number, line)
    yield from text.end()
    yield from odd.problems()


def confirm(lines: list[str]) -> bool:
    return any(HEADER.match(text) or RESTART.match(text) for text in lines[:8])


def _claims(path: str, head: bytes, size: int | None) -> bool:
    """A whole file of sar: it begins as one, and every line that is seen of it is one."""
    if (size is not None and size < _LARGE) or len(head) < _LARGE or not head.lstrip().startswith(b"Linux "):
        return False
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    first = next((at for at, text in enumerate(lines) if text.strip()), 0)
    if not lines or not BANNER.match(lines[first].rstrip("\r")):
        return False
    if not confirm([text.rstrip("\r") for text in lines[first : first + _LOOK]]):
        return False
    step = max(len(lines) // 200, 1)
    return all(belongs(text.rstrip("\r")) or BANNER.match(text) for text in lines[first + 1 :: step])


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """The same as columns: a Series per entity."""
    from thpdiag.readers.sysstat.bulk.sar_blocks import read_blocks  # numpy: only where there is a long recording

    return read_blocks(source, content.chunks)


READER = Reader(
    NAME, _TITLE, read, opens=re.compile(f"{BANNER.pattern}|{HEADER.pattern}"), continues=belongs, confirm=confirm
)
BULK = BulkReader(NAME, _TITLE, _claims, read_bulk)
