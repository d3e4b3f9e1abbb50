"""Processes as a series names them, and as ps, top, pidstat and collectl print their names and CPU times."""

from __future__ import annotations

import re
from functools import lru_cache

from thpdiag.model import Entity
from thpdiag.readers.elements.quantities import LONGEST, RECENT, number

COMM = 15  # characters of a task name that the kernel keeps
_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,9}):(\d{1,2}(?:[.,]\d{1,3})?)", re.ASCII)
_BRACKETS = re.compile(r"\[(.{1,64}?)\](?:\s<defunct>)?$")


def name_of(command: str) -> str:
    """The task name that belongs to a command line: `[khugepaged]`, `/opt/jdk/bin/java -Xmx1g`, `postgres: writer`."""
    if kernel := _BRACKETS.match(command):
        return kernel[1]
    first = command.split(None, 1)[0] if command.strip() else ""
    return first.rpartition("/")[2].lstrip("-").rstrip(":")[:COMM] or first[:COMM]


def entity(pid: str, comm: str = "") -> Entity:
    """How a process is named in a series; the task name only where it is known."""
    return (("pid", pid), ("comm", comm)) if comm else (("pid", pid),)


def cpu_seconds(text: str) -> float | None:
    """`[days-][hours:]minutes:seconds[.hundredths]`, or plain seconds."""
    return _seconds(text) if len(text) <= LONGEST else None


@lru_cache(RECENT)
def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    if not found:
        return number(text)
    days, hours, minutes = (int(part or 0) for part in found.group(1, 2, 3))
    return days * 86400.0 + hours * 3600 + minutes * 60 + float(found[4].replace(",", "."))
