"""/proc/pressure/{cpu,io,memory}: the share of time in which tasks lost time waiting for a resource.

    some avg10=0.00 avg60=0.01 avg300=0.12 total=3640041
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0

Units: percent averages over 10, 60 and 300 s, totals in microseconds; stored as ratios and seconds. Which resource it
is stands in the path only, or before each line when grep printed it; three pairs in a row from `cat /proc/pressure/*`
are cpu, io and memory. Kernels from 4.20; `full` for cpu from 5.13; /proc/pressure/irq (6.1) is not read. Source:
kernel tree, Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import fraction, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.procfs.snapshots import Row, system_samples

_OPENS = re.compile(r"(?:\S{0,200}pressure/\w+:)?(?:some|full) avg10=")
_LINE = re.compile(r"(?:\S{0,200}pressure/(\w+):)?(some|full) avg10=(\S+) avg60=(\S+) avg300=(\S+) total=(\S+)\s*$")
_PATH = re.compile(r"pressure/(\w+)$|/(cpu|io|memory)\.pressure$")
_WORD = {"some": "waiting", "full": "stalled"}
_ORDER = ("cpu", "io", "memory")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One system sample per snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    yield from system_samples(source, READER.name, _rows(source, lines, odd), "")


def _rows(source: Source, lines: Lines, odd: Oddities) -> Iterator[Row]:
    path = _PATH.search(source.path)
    named = path[1] if path else None
    if path and path[2]:
        named = "a cgroup"
    turn = -1
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a pressure line")
            continue
        turn += found[2] == "some"
        resource = found[1] or named or (_ORDER[turn % 3] if source.path.endswith("pressure/*") else "")
        if resource in _ORDER:
            yield from _values(number, line, resource, found, odd)
        elif resource != "irq":
            odd.note(
                number, line, "pressure of a cgroup" if resource else "the path that names the resource is missing"
            )


def _values(number: int, line: str, resource: str, found: re.Match[str], odd: Oddities) -> Iterator[Row]:
    share = found[2]
    for window, text in zip(("10", "60", "300"), found.groups()[2:5], strict=True):
        percent = fraction(text)
        if percent is None or percent > 100:
            odd.note(number, line, "an average that is no percentage; it is left out")
        else:
            yield number, line, f"node_pressure_{resource}_{share}_avg{window}", percent / 100
    total = whole(found[6])
    if total is None:
        odd.note(number, line, "a total that is no count of microseconds; it is left out")
    else:
        yield number, line, f"node_pressure_{resource}_{_WORD[share]}_seconds_total", total / 1e6


READER = Reader(name="pressure", title="/proc/pressure", read=read, opens=_OPENS, continues=_OPENS.match)
