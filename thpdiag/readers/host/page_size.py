"""The size of a small page: `getconf PAGESIZE` (PAGE_SIZE is the same), or these rows of `getconf -a`.

    4096
    PAGESIZE                           4096

Bytes: 4096 on x86, 4096, 16384 or 65536 on 64-bit ARM, 65536 on most kernels for ppc64le. It decides how large a huge
page is. Anything that is no power of two from 4 KiB to 1 MiB is no page size. Source: getconf(1), sysconf(3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_ROW = re.compile(r"PAGE_?SIZE\s{1,60}\d{4,7}\s*$")
_SIZE = re.compile(r"(?:PAGE_?SIZE\s{1,60})?(\d{4,7})\s*$")
SIZES = frozenset(4096 << doubled for doubled in range(9))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """kernel.page_size."""
    odd = Oddities(source, READER.name)
    for number, line in lines:
        found = _SIZE.match(line.strip())
        if found and int(found[1]) in SIZES:
            yield Fact("kernel.page_size", int(found[1]), source.cite(number, line), time=source.time)
        elif line.strip():
            odd.note(number, line, "no size of a page")
    yield from odd.problems()


READER = Reader(
    name="page_size",
    title="getconf PAGESIZE",
    read=read,
    opens=_ROW,
    continues=_ROW.match,
    paths=(re.compile(r"(?:^|/)getconf[/_ ]PAGE_?SIZE$"),),
)
