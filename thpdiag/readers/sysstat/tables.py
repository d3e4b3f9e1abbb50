"""What sysstat's tools have in common: a first line with host and date, rows that begin with a time.

Both are written in the locale's way: `11/20/26`, `20.11.2026`, `2026-11-20` (S_TIME_FORMAT=ISO), `2026年11月20日`;
`09:48:57`, `09:48:57 AM`, `09:48:57 AM UTC` (India), `09時48分57秒`. A row has no date: after midnight the clock starts
again. Source: sysstat common.c, print_gal_header; glibc locales.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from thpdiag.model import Clock, Fact, Moment
from thpdiag.reader import Source
from thpdiag.readers.elements.daytime import DAY, DayClock, date_seconds, day_seconds
from thpdiag.readers.elements.quantities import number

DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\.?|\d{4}[年년.] ?\d{1,2}[月월.] ?\d{1,2}[日일.]"
BANNER = re.compile(  # groups: release, host, date, machine, number of CPUs
    rf"Linux (\S{{1,80}}) \((\S{{0,255}})\)\s+({DATE})"
    r"(?:\s+_(\S{1,40})_)?(?:\s+\((\d{1,5}) CPUs?\))?\s*$"
)
_DAYTIME = r"\d{1,2}[:.時时시] ?\d\d[:.分분] ?\d\d[秒초]?"
_HALF = r"[AaPp]\.?[Mm]\.?"
_ZONE = r"(?!CPU|UID|PID|TGID|NODE|INTR|IFACE|DEV|TTY|BUS|FAN|TEMP|USER|LINUX|COM)[A-Z]{3,5}"
CLOCK = rf"{_DAYTIME}(?:\s{_HALF})?(?:\s{_ZONE}(?=\s|$))?"
AVERAGE_WORD = r"[^\W\d][^\s:]{0,20}\s?:"  # in the locale's language: `Average:`, `Moyenne :`
AVERAGE = re.compile(rf"{AVERAGE_WORD}\s+\S")
_TIME = re.compile(rf"\s*(?:({_DAYTIME})(?:\s({_HALF}))?(?:\s({_ZONE}))?|(\d{{9,10}}))(?=\s|$)", re.ASCII)
_NUMBERS = re.compile(r"\d+", re.ASCII)
_OF_THE_DAY = re.compile(r"(?:^|/)sar?(?:(\d{4})(\d\d))?(\d\d)(?:[._-][^/]*)?$", re.ASCII)
ON_UTC = frozenset(("UTC", "GMT"))  # the abbreviations of zones that say without doubt what time it is
_NEAR = 40 * DAY  # recordings are kept for a month


def midnight(date: str, half: str, source: Source | None = None) -> float | None:
    """Midnight of the first line's date, which is written in the locale's way; None where it could be two days.

    `20.11.2026` is day first. Of the two days that `05/06/26` may be, the name of the file (sarDD) chooses, then a time
    line above, then what is known of the locale: C for what sosreport runs, en_US for a 12-hour clock beside a year of
    four digits.
    """
    parts = _NUMBERS.findall(date)
    if len(parts) != 3:
        return None
    first, second, third = (int(part) for part in parts)
    if len(parts[0]) == 4:
        return date_seconds(first, second, third)
    year = third + 2000 if len(parts[2]) == 2 else third
    days = {"day": date_seconds(year, second, first), "month": date_seconds(year, first, second)}
    if "." in date:
        return days["day"]
    possible = {day for day in days.values() if day is not None}
    if len(possible) < 2:
        return next(iter(possible), None)
    american = bool(half) and len(parts[2]) == 4
    by_locale = days["month"] if american or (source and source.path.startswith("sos_commands/")) else None
    return _told(possible, source) or by_locale


def _told(days: set[float], source: Source | None) -> float | None:
    """The one of several days that the file's name or a time line above tells."""
    if source is None:
        return None
    if named := _OF_THE_DAY.search(source.path or source.member):
        of_name = [day for day in days if int(day // DAY) in _days_called(named, day)]
        if len(of_name) == 1:
            return of_name[0]
    if source.time is not None and source.time.clock in (Clock.UTC, Clock.LOCAL):
        at = source.time.seconds
        near = sorted((abs(at - day), day) for day in days if -_NEAR < day - at < 2 * DAY)
        return near[0][1] if near else None
    return None


def _days_called(named: re.Match[str], day: float) -> tuple[int, ...]:
    """The days since 1970 that a file's name may mean: the one of that number in the month of `day`."""
    of = datetime.fromtimestamp(day, UTC)
    found = date_seconds(int(named[1] or of.year), int(named[2] or of.month), int(named[3]))
    return () if found is None else (int(found // DAY),)


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
    source: Source | None = None
    clock: DayClock | None = None  # from the first time on

    def header(self, text: str) -> str:
        """The columns of a header, after `# Time` or a clock time (remembered)."""
        found = None if text.startswith("#") else _TIME.match(text)
        if not found:
            self.header_time = ""
            return text.lstrip("# ").partition(" ")[2].strip()
        self.header_time = found[0].strip()
        self._moment(found)  # the first row may be after midnight
        return text[found.end() :].strip()

    def row(self, text: str) -> TimedRow | None:
        found = _TIME.match(text)
        if not found:
            return None
        rest = text[found.end() :].strip()
        if found[4]:
            return TimedRow(rest, Moment(float(found[4]), Clock.UTC))
        average = self.header_time if found[0].strip() == self.header_time else ""
        return TimedRow(rest, self._moment(found), average)

    @property
    def undated(self) -> bool:
        """Whether there is a date that does not tell the day."""
        return bool(self.date) and self.clock is not None and self.clock.clock is Clock.DAY

    def _moment(self, found: re.Match[str]) -> Moment | None:
        if not found[1]:
            return None
        half = (found[2] or "").replace(".", "")
        seconds = _of_day(found[1], half)
        if seconds is None:
            return None
        if self.clock is None:
            start = midnight(self.date, half, self.source)
            clock = Clock.UTC if found[3] in ON_UTC else Clock.LOCAL
            self.clock = DayClock() if start is None else DayClock(start, clock)
        return self.clock.at(seconds)


@lru_cache(16)  # all rows of a report have the same time
def _of_day(text: str, half: str) -> float | None:
    return day_seconds(":".join(_NUMBERS.findall(text)), half)


def banner_facts(source: Source, line: int, text: str) -> Iterator[Fact]:
    """Kernel, host and number of CPUs from the first line."""
    if found := BANNER.match(text):
        cite = source.cite(line, text)
        yield Fact("kernel.release", found[1], cite)
        if found[2]:
            yield Fact("host.name", found[2], cite)
        if found[5] and (cpus := number(found[5])) is not None:
            yield Fact("cpu.count", int(cpus), cite)
