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

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.oddities import Oddities
from thpdiag.readers.vmstat_run import Run

HEADER = re.compile(r"\s*r\s+b(?:\s+\S+){4}\s+si\s+so\s+bi\s+bo\s+in\s+cs\s+us\s+sy\s+id\s+wa(?:\s|$)")
BANNER = re.compile(
    r"\s*-{0,2}[^\W\d]+-{0,2}\s+-{3,}[^\W\d]+-{3,}\s+-+[^\W\d]+-+(?:\s+-*[^\W\d]+(?:/[^\W\d]+)?-*){2,4}\s*$"
)
ROW = re.compile(r"\s*-?\d+(?:\s+[-+]?\d[\d:.,+-]*){9,22}(?:\s+[A-Z]{2,5})?\s*$")
OTHER = re.compile(
    r"disk-+ -+reads-+ |\s+total merged sectors\s+ms\s+total|Cache\s+Num\s+Total\s+Size\s+Pages\s*$|"
    r"\S+\s+reads\s+read sectors\s+writes\s+requested writes|\s+\d+ (?:disks|forks)\s*$"
)
OTHER_ROW = re.compile(
    r"(?!cpu)[a-z][\w!-]*(?:\s+\d+){10}\s*$|[A-Za-z][\w:.()-]*(?:\s+\d+){4}\s*$|"
    r"\s+(?:\d+\s+){3}\d+\s*$|\s+\d+ [a-z][a-z ]{3,30}$"
)
SHORTEST = 16  # columns before st, gu and the time


def belongs(text: str) -> bool:
    return any(pattern.match(text) for pattern in (ROW, HEADER, BANNER, OTHER, OTHER_ROW))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One Sample of the host per row."""
    odd = Oddities(source, "vmstat")
    run = Run(source, odd)
    after_banner = False
    for number, text in lines:
        words = text.split()
        if not words:
            continue
        if run.layout and words[0][-1] in "0123456789":
            yield from run.row(number, text, words)
        elif HEADER.match(text) or (after_banner and len(words) >= SHORTEST):
            yield from run.header(words)
        elif OTHER.match(text):
            break
        elif not (after_banner := bool(BANNER.match(text))):
            odd.note(number, text, "a line that is no row of vmstat")
    yield from run.end()
    yield from odd.problems()


READER = Reader(
    "vmstat",
    "vmstat table",
    read,
    opens=re.compile(f"{HEADER.pattern}|{BANNER.pattern}|{OTHER.pattern}"),
    continues=belongs,
)
