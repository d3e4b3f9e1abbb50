"""/proc/PID/stat: one process on one line, fields by position; also many processes, or one again and again.

    2001 (my file) S 1888 2001 1888 34816 2001 4202496 428 0 0 0 0 0 0 0 20 0 1 0 75513 115900416 297 ...

The command may hold blanks, brackets and newlines, so fields count from the last `) STATE `. Units: faults are counts,
CPU times ticks of 1/100 s, the start is in ticks since boot, vsize bytes, rss pages, taken as 4096 bytes (wrong on
kernels with 64 KiB pages: RHEL on ppc64le and aarch64 before 9). rss may lag VmRSS of /proc/PID/status by some pages.
Source: kernel tree, fs/proc/array.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities

PAGE = 4096
TICKS_PER_SECOND = 100
MOST_LINES = 4  # a command of 15 bytes is rarely more than one line
_STATE = "RSDZTtXxKWPIN"
_BEGINS = re.compile(r"(?:\S{0,200}/stat:)?\d{1,10} \(")
_WHOLE = re.compile(
    rf"(?:\S{{0,200}}/stat:)?(\d{{1,10}}) \((.{{0,64}})\) [{_STATE}]((?: -?\d+){{36,60}})\s*$", re.DOTALL
)
_TAIL = re.compile(rf".{{0,64}}\) [{_STATE}](?: -?\d+){{30,60}}\s*$")

# position after the state, metric, factor
_FIELDS = (
    (6, "process_minor_faults_total", 1.0),
    (8, "process_major_faults_total", 1.0),
    (10, "process_cpu_seconds_total.user", 1 / TICKS_PER_SECOND),
    (11, "process_cpu_seconds_total.system", 1 / TICKS_PER_SECOND),
    (16, "process_threads", 1.0),
    (18, "process_start_time_ticks", 1.0),
    (19, "process_virtual_memory_bytes", 1.0),
    (20, "process_resident_memory_bytes", float(PAGE)),
)


def _confirm(lines: list[str]) -> object:
    return any(_WHOLE.match("\n".join(lines[:count])) for count in range(1, MOST_LINES + 1))


def _continues(line: str) -> object:
    return _BEGINS.match(line) or _TAIL.match(line)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per process and snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    pending: list[tuple[int, str]] = []
    for number, line in lines:
        if _WHOLE.match(line) and not (pending and _WHOLE.match(_text([*pending, (number, line)]))):
            _left_over(pending, odd)
            pending = []
        pending.append((number, line))
        found = _WHOLE.match(_text(pending))
        if found:
            yield from _process(source, pending[0], found, odd)
            pending = []
        elif len(pending) >= MOST_LINES:
            _left_over(pending, odd)
            pending = []
    _left_over(pending, odd)


def _text(pending: list[tuple[int, str]]) -> str:
    return "\n".join(line for _, line in pending)


def _left_over(pending: list[tuple[int, str]], odd: Oddities) -> None:
    for number, line in pending:
        if line.strip():
            odd.note(number, line, "not a whole line of a process; it is left out")


def _process(source: Source, first: tuple[int, str], found: re.Match[str], odd: Oddities) -> Iterator[Sample]:
    fields = found[3].split()
    values: dict[str, float] = {}
    for position, name, factor in _FIELDS:
        value = whole(fields[position]) if position < len(fields) else None
        if value is None:
            odd.note(*first, NOT_A_COUNT)
        else:
            values[name] = value * factor
    if values:
        entity = (("pid", found[1]), ("comm", found[2]))
        yield Sample("process", values, source.cite(*first), READER.name, entity)


READER = Reader(
    name="pid_stat",
    title="/proc/PID/stat",
    read=read,
    opens=_BEGINS,
    confirm=_confirm,
    continues=_continues,
)
