"""The date of clock times that have none: from the name of the file, or from when the capture was made.

    collectl-20261120.txt, top_2026-11-20_09-40-00.log     the day on which the file was begun
    sos_commands/process/top                               the output of a command: it ran while the capture was made

A first row that is earlier in the day than the time in the name is of the next day. The date in the name of a folder is
that of the bundle, and rotated logs are named after the day on which they ended: neither says anything here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from thpdiag.derive.host_zone import DAY, Zone
from thpdiag.knowledge.paths import output_of, root_of
from thpdiag.model import Clock, Fact, Moment, Record, Sample, Series
from thpdiag.model.record import begun

_NAMED = re.compile(
    r"(?<!\d)(20\d\d)([-_.]?)([01]\d)\2([0-3]\d)(?:[-_.T]([0-2]\d)[-_.:h]?([0-5]\d)(?:[-_.:m]?([0-5]\d))?)?(?!\d)",
    re.ASCII,
)
_OF_OTHER_DAYS = re.compile(r"sa|journalctl|dmesg")  # sar and sadf print recordings of the last days
_EARLY, _LATE = 600.0, 3600.0  # seconds before and after the times of a capture in which its commands may have run
_EARLIER = 60.0  # seconds: a recorder makes the name of its file before or after its first row


@dataclass(frozen=True, slots=True)
class Named:
    """What the name of a file tells: midnight of its day on the wall clock, and the time of day, if there is one."""

    midnight: float
    daytime: float | None = None


def with_dates(records: Sequence[Record], zone: Zone | None) -> list[Record]:
    """The records; rows and uptimes on the clock of a day get a date where it is known."""
    captures = _captures(records, zone)
    firsts = _firsts(records)
    midnights = {member: _midnight(member, first, captures) for member, first in firsts.items()}
    return [_dated(record, midnights.get(record.cite.member)) if _dateless(record) else record for record in records]


def _dateless(record: Record) -> bool:
    """Whether it is a row, or an uptime, with a clock time. Kernel messages tell of other days than their file's."""
    if isinstance(record, Fact) and record.name != "uptime.seconds":
        return False
    at = begun(record) if isinstance(record, (Sample, Series, Fact)) else None
    return at is not None and at.clock is Clock.DAY


def _firsts(records: Iterable[Record]) -> dict[str, float]:
    """The first time of each member, without those whose times go over midnight from one recording to the next."""
    firsts: dict[str, float] = {}
    lasts: dict[str, float] = {}
    torn: set[str] = set()
    for record in filter(_dateless, records):
        at, member = begun(record), record.cite.member
        if at is not None:
            if lasts.get(member, at.seconds) - at.seconds > DAY / 2:
                torn.add(member)
            firsts.setdefault(member, at.seconds)
            lasts[member] = at.seconds
    return {member: first for member, first in firsts.items() if member not in torn}


def named(member: str) -> Named | None:
    """The date in the name of a file."""
    name = member.rpartition("/")[2]
    dates = list(_NAMED.finditer(name))
    if len(dates) != 1:
        return None
    year, _, month, day, hour, minute, second = dates[0].groups()
    try:
        midnight = datetime(int(year), int(month), int(day), tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Named(midnight, None if hour is None else int(hour) * 3600.0 + int(minute) * 60 + int(second or 0))


def _captures(records: Iterable[Record], zone: Zone | None) -> dict[str, tuple[float, float]]:
    """From when to when each bundle was made, by the host's wall clock."""
    times: dict[str, list[float]] = {}
    for fact in (r for r in records if isinstance(r, Fact) and r.name == "capture.time" and r.time):
        if fact.time and (local := _local(fact.time, zone)) is not None:
            times.setdefault(root_of(fact.cite.member), []).append(local)
    return {root: (min(seconds), max(seconds)) for root, seconds in times.items()}


def _local(moment: Moment, zone: Zone | None) -> float | None:
    if moment.clock is Clock.LOCAL:
        return moment.seconds
    return zone.local(moment.seconds) if zone and moment.clock is Clock.UTC else None


def _midnight(member: str, first: float, captures: dict[str, tuple[float, float]]) -> float | None:
    """Midnight of the day that the times of a member count from; `first` is the first of them."""
    if output := output_of(member):
        return None if _OF_OTHER_DAYS.match(output) else _in_capture(first, captures.get(root_of(member)))
    told = named(member)
    if told is None or first >= DAY:
        return None
    tomorrow = told.daytime is not None and first < told.daytime - _EARLIER
    return told.midnight + (DAY if tomorrow else 0.0)


def _in_capture(first: float, span: tuple[float, float] | None) -> float | None:
    """Midnight of the one day on which a time of day lies in a capture."""
    if span is None or span[1] - span[0] > DAY / 4:
        return None
    start, end = span[0] - _EARLY, span[1] + _LATE
    midnight = start - (start % DAY)
    found = [midnight + DAY * day for day in (0, 1) if start <= midnight + DAY * day + first % DAY <= end]
    return found[0] - (first - first % DAY) if found else None


def _dated(record: Record, midnight: float | None) -> Record:
    if midnight is None:
        return record
    if isinstance(record, Series):
        seconds = None if record.seconds is None else record.seconds + midnight
        return replace(record, seconds=seconds, clock=Clock.LOCAL)
    if isinstance(record, (Sample, Fact)) and record.time:
        return replace(record, time=Moment(record.time.seconds + midnight, Clock.LOCAL))
    return record
