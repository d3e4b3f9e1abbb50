"""Time since boot: /proc/uptime, and the `uptime` command (also the first line of `w`).

    46901.13 46856.66
     10:33:08 up 190 days,  3:12,  2 users,  load average: 0.00, 0.01, 0.05

Units: seconds since boot and idle seconds summed over CPUs in the file; the command rounds to minutes and prints the
local time of day, with `N min`, `H:MM` or `N days, ...`. The file says nothing but two numbers, so it is known by its
path. Source: procps uptime(1), kernel tree fs/proc/uptime.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.daytime import day_seconds
from thpdiag.readers.elements.kernel_numbers import fraction
from thpdiag.readers.elements.oddities import Oddities

_FILE = re.compile(r"\s*(\S+)(?:\s+(\S+))?\s*$")
_COMMAND = re.compile(
    r"\s*(?:(\d{1,2}):(\d\d)(?::(\d\d))? {0,3}([AaPp][Mm])?\s+)?up\s{1,9}(?:(\d{1,6}) days?,?\s{0,9})?"
    r"(?:(\d{1,3}):(\d\d)|(\d{1,3}) min|(\d{1,3}) hrs?)?"
    r",?\s{0,9}(?:\d{1,9} users?,?\s{0,9})?load averages?:\s{0,9}(\d{1,9}[.,]\d\d)\b"
)
_OPENS = re.compile(r"\s*(?:\d{1,2}:\d\d(?::\d\d)? {0,3}(?:[AaPp][Mm])?\s+)?up\s+\d[\w ,:]{1,60}load average")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """uptime.seconds, and the load average where the command prints it."""
    odd = Oddities(source, READER.name)
    for number, line in lines:
        if command := _COMMAND.match(line):
            yield from _command(source, number, line, command)
        elif (found := _FILE.match(line)) and found[2] and (seconds := fraction(found[1])) is not None:
            yield Fact("uptime.seconds", seconds, source.cite(number, line), time=source.time)
        elif line.strip():
            odd.note(number, line, "neither two numbers nor a line of the uptime command")
    yield from odd.problems()


def _command(source: Source, number: int, line: str, found: re.Match[str]) -> Iterator[Record]:
    days, hours, minutes, only_minutes, only_hours = (int(text or 0) for text in found.groups()[4:9])
    seconds = days * 86400 + (hours + only_hours) * 3600 + (minutes + only_minutes) * 60
    time = source.time or _time_of_day(found)
    cite = source.cite(number, line)
    yield Fact("uptime.seconds", seconds, cite, time=time)
    load = float(found[10].replace(",", "."))
    yield Sample("system", {"node_load1": load}, cite, READER.name, time=time)


def _time_of_day(found: re.Match[str]) -> Moment | None:
    if found[1] is None:
        return None
    seconds = day_seconds(f"{found[1]}:{found[2]}:{found[3] or '00'}", found[4] or "")
    return None if seconds is None else Moment(seconds, Clock.DAY)


READER = Reader(
    name="uptime",
    title="/proc/uptime and uptime",
    read=read,
    opens=_OPENS,
    continues=_OPENS.match,
    paths=(re.compile(r"(?:^|/)proc/uptime$"),),
)
