"""/proc/loadavg: load averages, running and existing tasks, and the last process id.

    0.00 0.01 0.03 2/111 2039

Units: tasks that run or wait for I/O, averaged over 1, 5 and 15 minutes. The form never changed. Source: kernel tree,
fs/proc/loadavg.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.oddities import Oddities

_LINE = re.compile(r"(\d{1,7}\.\d\d) \d{1,7}\.\d\d \d{1,7}\.\d\d (\d{1,7})/\d{1,7} \d{1,10}\s*$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One system sample per line."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    for number, line in lines:
        if found := _LINE.match(line):
            values = {"node_load1": float(found[1]), "node_procs_running": float(found[2])}
            yield Sample("system", values, source.cite(number, line), READER.name)
        elif line.strip():
            odd.note(number, line, "not a line of load averages")


READER = Reader(name="loadavg", title="/proc/loadavg", read=read, opens=_LINE, continues=_LINE.match)
