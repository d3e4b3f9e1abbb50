"""The time zone of a host, and the difference of two sources' clocks.

Sources of the zone, the most telling first:
- the zone by its name or rules: /etc/localtime, timedatectl, /etc/timezone, /etc/sysconfig/clock;
- how far its wall clock was ahead of UTC when a recording began: collectl's header, sadf, PCP;
- the same clock read twice: `date` and `date --utc`, or two times of one boot in one bundle;
- an abbreviation that only one zone has (CET, JST; not CST, which is in Chicago and in Shanghai).

Sources that contradict each other are a problem, and no zone is believed then. Names need the zone database of whoever
reads; where that is missing the rule that /etc/localtime itself ends with does as well. An offset alone is sure for a
day around its reading, and between two readings that agree: farther away summer time may have begun or ended.

Clock difference of two recordings of one figure (MemFree of collectl and of sar): both are put on a grid of the longer
interval, and one is moved along the other until they correlate most. It must then be the same curve at the same
height: what happens every hour looks alike too. Only a curve that moves tells anything, and only where it fits much
better moved than as it is. No farther than time zones reach, so that no days are exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from thpdiag.knowledge.paths import root_of, system_path
from thpdiag.model import Citation, Clock, Fact, Problem, ProblemKind, Record
from thpdiag.model.facts import DAY, ClockAnchor
from thpdiag.model.numeric import Floats, np
from thpdiag.model.text import path_name, quoted

QUARTER = 900  # seconds: zones differ by quarters of an hour, and change at them
HOUR = 3600.0
MAX_UTC_OFFSET = 14 * HOUR
MAX_EPOCH = 4_102_444_800.0  # 2100: no recording is later, whatever it says
SAME_READING_SECONDS = 300.0  # seconds between two readings of a clock that are taken for one
NAMED_SOURCES = ("localtime", "timedatectl", "timezone", "sysconfig")
_EPOCH = datetime(1970, 1, 1)
_ABBREVIATION = re.compile(r"\b([A-Z]{3,4})\b(?=\s+\d{4}\s*$|\s*$)")
ABBREVIATIONS = {
    "UTC": 0.0, "GMT": 0.0, "WET": 0.0, "WEST": 1.0, "CET": 1.0, "CEST": 2.0, "EET": 2.0, "EEST": 3.0, "MSK": 3.0,
    "SAST": 2.0, "PKT": 5.0, "WIB": 7.0, "HKT": 8.0, "AWST": 8.0, "JST": 9.0, "KST": 9.0, "ACST": 9.5, "ACDT": 10.5,
    "AEST": 10.0, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0, "EDT": -4.0, "MDT": -6.0, "PDT": -7.0, "HST": -10.0,
}  # fmt: skip


class OffsetReading(NamedTuple):
    """By how many seconds the wall clock was ahead of UTC, and when (UTC), if that is known."""

    offset: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Timezone:
    """`name` is for people; `rules` are those of the zone, None where only readings of its offset are known."""

    name: str
    cite: Citation
    rules: tzinfo | None = None
    readings: tuple[OffsetReading, ...] = ()

    def offsets(self, local: float) -> tuple[float, float]:
        """Seconds ahead of UTC at a time of the wall clock, the first and the second time that it shows it.

        They differ only where the clock is set back (the first is larger) or, in the hour that is left out, forth.
        """
        if self.rules is None:
            offset = self._nearest(local).offset
            return offset, offset
        return _offsets_by_rules(self.rules, int(min(max(local, 0.0), MAX_EPOCH) // QUARTER))

    def local(self, utc: float) -> float:
        """What the wall clock shows at a time in UTC."""
        if self.rules is None:
            return utc + min(self.readings, key=lambda r: MAX_EPOCH if r.at is None else abs(utc - r.at)).offset
        return utc + _offset_at(self.rules, min(max(utc, 0.0), MAX_EPOCH))

    def uncertainty(self, first: float, last: float) -> float:
        """By how many seconds times from `first` to `last` on the wall clock may be put wrong."""
        if self.rules is not None:
            return 0.0
        offset = self._nearest(first).offset
        start, end = first - offset, last - offset
        same = [r.at for r in self.readings if r.at is not None and r.offset == offset]
        unlike = (r.at for r in self.readings if r.at is not None and r.offset != offset)
        if not same or any(start - 2 * DAY < at < end + 2 * DAY for at in unlike):
            return HOUR
        return 0.0 if min(same) - DAY <= start and end <= max(same) + DAY else HOUR

    def _nearest(self, local: float) -> OffsetReading:
        return min(self.readings, key=lambda r: MAX_EPOCH if r.at is None else abs(local - r.offset - r.at))


@lru_cache(100_000)
def _offsets_by_rules(rules: tzinfo, quarter: int) -> tuple[float, float]:
    wall = _EPOCH + timedelta(seconds=quarter * QUARTER)
    first, second = (wall.replace(tzinfo=rules, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    return first.total_seconds(), second.total_seconds()


def host_timezone(records: Sequence[Record]) -> tuple[Timezone | None, list[Problem]]:
    """The zone of a host, None if nothing tells it or what does contradicts itself."""
    facts = [record for record in records if isinstance(record, Fact)]
    named = _named_timezone(facts)
    readings = [*_recorded_offsets(facts), *_offsets_read_twice(facts)] or list(_offsets_by_abbreviation(facts))
    if named is not None and named.rules is not None:
        rules = named.rules
        for other in readings:  # was it that of the zone when it was read? Of one without a time nobody knows
            if any(r.at is not None and r.offset != _offset_at(rules, r.at) for r in other.readings):
                return None, [_contradiction(named, other)]
        return named, []
    if (far := _contradicting_pair(readings)) is not None:
        return None, [_contradiction(*far)]
    if not readings:
        return None, []
    known = tuple(reading for zone in readings for reading in zone.readings)
    return Timezone(readings[0].name, readings[0].cite, None, known), []


def _named_timezone(facts: Iterable[Fact]) -> Timezone | None:
    named = [fact for fact in facts if fact.name == "host.zone" and not fact.provenance]
    order = {source: number for number, source in enumerate(NAMED_SOURCES)}
    for fact in sorted(named, key=lambda fact: order.get(fact.label("how") or "", len(order))):
        if rules := timezone_rules(str(fact.value), fact.label("rule") or ""):
            return Timezone(str(fact.value), fact.cite, rules)
    return None


@lru_cache(64)
def timezone_rules(name: str, rule: str = "") -> tzinfo | None:
    """The rules of a zone by its name, else by a rule of POSIX (`CET-1CEST,M3.5.0,M10.5.0/3`)."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such zone, or no zone database
        pass
    for text in (rule, name):
        if re.fullmatch(r"<?[A-Za-z0-9+-]{3,8}>?[+-]?\d[\w:<>+,./-]{0,80}", text):
            # a file of the zone database (RFC 8536) with nothing but a rule at its end
            counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
            part = b"TZif2" + bytes(15) + counts + bytes(6) + b"LMT\0"
            try:
                return ZoneInfo.from_file(BytesIO(part + part + b"\n" + text.encode("ascii") + b"\n"))
            except ValueError:
                continue
    return None


def _recorded_offsets(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """Offsets that recordings and timedatectl state."""
    for fact in facts:
        if fact.name == "host.utc_offset" and abs(offset := float(fact.value)) <= MAX_UTC_OFFSET:
            at = fact.time.seconds if fact.time and fact.time.clock is Clock.UTC else None
            yield Timezone(format_offset(offset), fact.cite, None, (OffsetReading(offset, at),))


def _offsets_read_twice(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """`date` and `date --utc` of one bundle: the same moment on both clocks."""
    dates = [f for f in facts if f.name == "capture.time" and f.label("what") == "date" and f.time]
    for local in (f for f in dates if f.time and f.time.clock is Clock.LOCAL):
        for other in (f for f in dates if f.time and f.time.clock is Clock.UTC):
            if root_of(local.cite.member) != root_of(other.cite.member):
                continue
            offset = utc_offset(float(local.value), float(other.value))
            if offset is not None:
                yield Timezone(format_offset(offset), local.cite, None, (OffsetReading(offset, float(other.value)),))


def utc_offset(local: float, utc: float, slack: float = SAME_READING_SECONDS) -> float | None:
    """By how much a wall clock is ahead of UTC that showed `local` at `utc`; None if that is no zone's offset."""
    offset = round((local - utc) / QUARTER) * float(QUARTER)
    return offset if abs(offset) <= MAX_UTC_OFFSET and abs(local - utc - offset) <= slack else None


def _offsets_by_abbreviation(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """What `date` printed behind the time. That of `date --utc` says nothing of the zone."""
    for fact in facts:
        if fact.name != "capture.time" or fact.label("what") != "date" or fact.time is None:
            continue
        found = _ABBREVIATION.search(fact.cite.text)
        if found and found[1] in ABBREVIATIONS and not re.search(r"date_-{1,2}u", fact.cite.member):
            offset = ABBREVIATIONS[found[1]] * HOUR
            at = fact.time.seconds - (offset if fact.time.clock is Clock.LOCAL else 0.0)
            yield Timezone(found[1], fact.cite, None, (OffsetReading(offset, at),))


def _offset_at(rules: tzinfo, utc: float) -> float:
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc)).astimezone(rules).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def _contradicting_pair(zones: Sequence[Timezone]) -> tuple[Timezone, Timezone] | None:
    """Two readings that no change of summer time explains: more than an hour apart, or of two sources on one day."""
    for one in zones:
        for other in zones:
            a, b = one.readings[0], other.readings[0]
            near = a.at is None or b.at is None or abs(a.at - b.at) < DAY
            at_once = near and one.cite.member != other.cite.member
            if abs(a.offset - b.offset) > (0 if at_once else HOUR):
                return one, other
    return None


def _contradiction(one: Timezone, other: Timezone) -> Problem:
    there = f"{quoted(other.name)} in {path_name(other.cite.member)}"
    text = f"two time zones: {quoted(one.name)} here, {there}; none of them is used"
    return Problem(one.cite, text, ProblemKind.DISAGREEMENT)


def format_offset(offset: float) -> str:
    """`UTC+05:30`, `UTC`."""
    if not offset:
        return "UTC"
    minutes = round(abs(offset) / 60)
    return f"UTC{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def timezone_of_boots(boots: Sequence[ClockAnchor]) -> Timezone | None:
    """The zone's offset from times of one boot on both clocks, read in one bundle."""
    for local in (boot for boot in boots if boot.zero.clock is Clock.LOCAL):
        for utc in (boot for boot in boots if boot.zero.clock is Clock.UTC):
            if root_of(local.cite.member) == root_of(utc.cite.member) and system_path(utc.cite.member):
                slack = min(SAME_READING_SECONDS, local.within + utc.within + 5.0)
                offset = utc_offset(local.zero.seconds, utc.zero.seconds, slack)
                if offset is not None:
                    return Timezone(format_offset(offset), local.cite, None, (OffsetReading(offset),))
    return None


if TYPE_CHECKING:
    from thpdiag.host.series import Points

MIN_POINTS = 30  # points that both have in common, moved
MAX_POINTS = 2000  # points of the grid; longer recordings are looked at more coarsely
MIN_CORRELATION = 0.95  # correlation of two curves that are the same
MAX_RELATIVE_ERROR = 0.25  # of the spread of the values: two readings of one figure differ by less on average
MIN_IMPROVEMENT = 0.2  # by which it must be higher than without moving
MAX_UNSHIFTED_INTERVALS = 2  # a difference of less is that of two tools which read one after the other


def clock_difference(one: Points, other: Points) -> float | None:
    """Seconds by which the clock of `other` is ahead of that of `one`; None if nothing says that they differ."""
    if not one.timed or not other.timed or min(len(one), len(other)) < MIN_POINTS:
        return None
    times = [points.index for points in (one, other)]
    steps = [float(np.median(np.diff(seconds))) for seconds in times]
    start, end = min(t.min() for t in times), max(t.max() for t in times)
    step = max(*steps, (end - start) / MAX_POINTS)
    if min(steps) <= 0:
        return None
    grid = np.arange(start, end + step, step)
    first, second = (
        _resample(grid, seconds, points, step) for seconds, points in zip(times, (one, other), strict=True)
    )
    least = max(MIN_POINTS, min(int((curve == curve).sum()) for curve in (first, second)) // 2)
    as_it_is = _correlation(first, second, 0, least)
    if as_it_is > MIN_CORRELATION - MIN_IMPROVEMENT:
        return None
    most = min(len(grid), int(MAX_UTC_OFFSET / step) + MAX_UNSHIFTED_INTERVALS)
    best, _, lag = max((_correlation(first, second, lag, least), -abs(lag), lag) for lag in range(-most, most + 1))
    if abs(lag) <= MAX_UNSHIFTED_INTERVALS or best < MIN_CORRELATION or best < as_it_is + MIN_IMPROVEMENT:
        return None
    return float(lag * step)


def _resample(grid: Floats, seconds: Floats, points: Points, step: float) -> Floats:
    """The values at the times of the grid, NaN where there is no sample near."""
    order = np.argsort(seconds, kind="stable")
    seconds, values = seconds[order], points.values[order]
    near = np.clip(np.searchsorted(seconds, grid - step / 2), 0, len(seconds) - 1)
    found: Floats = np.where(np.abs(seconds[near] - grid) <= step / 2, values[near], np.nan)
    return found


def _correlation(one: Floats, other: Floats, lag: int, least: int) -> float:
    """The correlation of two curves where the second is read `lag` points later; -1 if too little of them meets."""
    size = len(one) - abs(lag)
    if size < least:
        return -1.0
    a, b = (one[:size], other[lag:]) if lag >= 0 else (one[-lag:], other[:size])
    both = (a == a) & (b == b)
    if int(both.sum()) < least:
        return -1.0
    a, b = a[both], b[both]
    apart = float(np.sqrt(((a - b) ** 2).mean()))
    if apart > MAX_RELATIVE_ERROR * float(a.std()):
        return -1.0
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 0 else -1.0
