"""What sysstat's tools have in common: a first line with host and date, rows that begin with a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from thpdiag.model import Clock, Fact, Moment
from thpdiag.reader import Source
from thpdiag.readers.daytime import DayClock, date_seconds, day_seconds
from thpdiag.readers.quantities import number

BANNER = re.compile(
    r"Linux (\S{1,80}) \((\S{0,255})\)\s+(\d{1,4}[./-]\d{1,2}[./-]\d{2,4})"
    r"(?:\s+_\S+_)?(?:\s+\((\d{1,5}) CPUs?\))?\s*$"
)
CLOCK = r"\d{1,2}:\d\d:\d\d(?:\s[AaPp][Mm])?"
_TIME = re.compile(r"\s*(?:(\d{1,2}:\d\d:\d\d)(?:\s([AaPp][Mm]))?|(\d{9,10}))(?=\s|$)", re.ASCII)
_DATE = re.compile(r"(\d{1,4})[./-](\d{1,2})[./-](\d{2,4})", re.ASCII)


def midnight(date: str, half: str) -> float | None:
    """Midnight of the first line's date, which is written in the locale's way; None where it could be two days.

    `11/20/26` is month first (C locale), so is any date beside a 12-hour clock (en_US); `20.11.2026` and dates whose
    number is no month are day first.
    """
    found = _DATE.fullmatch(date)
    if not found:
        return None
    first, second, third = (int(part) for part in found.groups())
    if len(found[1]) == 4:
        return date_seconds(first, second, third)
    year = third + 2000 if len(found[3]) == 2 else third
    if "." in date or first > 12:
        return date_seconds(year, second, first)
    if second > 12 or half or len(found[3]) == 2:
        return date_seconds(year, first, second)
    return None


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row without its time. `average` is the row's header time if it equals its own: then it is since boot."""

    cells: str
    time: Moment | None
    average: str = ""


@dataclass(slots=True)
class Times:
    """Reads the time at the start of rows; those of headers tell whether a report is an average since boot."""

    date: str = ""
    header_time: str = ""  # empty under `# Time`
    _clock: DayClock | None = None

    def header(self, text: str) -> str:
        """The columns of a header, after `# Time` or a clock time (remembered)."""
        found = None if text.startswith("#") else _TIME.match(text)
        if not found:
            self.header_time = ""
            return text.lstrip("# ").partition(" ")[2].strip()
        self.header_time = found[0].strip()
        if found[1] and (seconds := day_seconds(found[1], found[2] or "")) is not None:
            self._at(seconds, found[2] or "")  # the first row may be after midnight
        return text[found.end() :].strip()

    def row(self, text: str) -> TimedRow | None:
        found = _TIME.match(text)
        if not found:
            return None
        rest = text[found.end() :].strip()
        if found[3]:
            return TimedRow(rest, Moment(float(found[3]), Clock.UTC))
        seconds = day_seconds(found[1], found[2] or "")
        average = self.header_time if found[0].strip() == self.header_time else ""
        return TimedRow(rest, None if seconds is None else self._at(seconds, found[2] or ""), average)

    def _at(self, seconds: float, half: str) -> Moment:
        if self._clock is None:
            start = midnight(self.date, half)
            self._clock = DayClock() if start is None else DayClock(start, Clock.LOCAL)
        return self._clock.at(seconds)


def banner_facts(source: Source, line: int, text: str) -> Iterator[Fact]:
    """Kernel, host and number of CPUs from the first line."""
    if found := BANNER.match(text):
        cite = source.cite(line, text)
        yield Fact("kernel.release", found[1], cite)
        if found[2]:
            yield Fact("host.name", found[2], cite)
        if found[4] and (cpus := number(found[4])) is not None:
            yield Fact("cpu.count", int(cpus), cite)
