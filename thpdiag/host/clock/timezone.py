"""The time zone of a host, and the clock difference of two sources.

Sources of the zone, most reliable first:
- the zone by its name or rules: /etc/localtime, timedatectl, /etc/timezone, /etc/sysconfig/clock;
- the offset from UTC when a recording began: collectl's header, sadf, PCP;
- the same clock read twice: `date` and `date --utc`, or two times of one boot in one bundle;
- an abbreviation that only one zone has (CET, JST; not CST, which is in Chicago and in Shanghai).

Sources that contradict each other are a problem, and no zone is used then. Names need the zone database of the
analysing machine; without it, the rule at the end of /etc/localtime is used. An offset is valid for a day around its
reading, and between two readings that agree: farther away, summer time may have begun or ended.

Clock difference of two recordings of one metric (MemFree of collectl and of sar): both are resampled to a grid of the
longer interval, and one is shifted until their correlation is highest. The values must also be close to each other,
because any hourly pattern correlates. Only a curve that varies is used, and only if it fits much better shifted than
unshifted. Shifts are limited to the range of time zones, so that days are not mixed up.
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

QUARTER = 900  # in seconds; offsets are multiples of a quarter of an hour and change at one
HOUR = 3600.0
MAX_UTC_OFFSET = 14 * HOUR
MAX_EPOCH = 4_102_444_800.0  # the year 2100: later times are errors
SAME_READING_SECONDS = 300.0  # between two readings of a clock that count as simultaneous
NAMED_SOURCES = ("localtime", "timedatectl", "timezone", "sysconfig")
_EPOCH = datetime(1970, 1, 1)
_ABBREVIATION = re.compile(r"\b([A-Z]{3,4})\b(?=\s+\d{4}\s*$|\s*$)")
ABBREVIATIONS = {
    "UTC": 0.0, "GMT": 0.0, "WET": 0.0, "WEST": 1.0, "CET": 1.0, "CEST": 2.0, "EET": 2.0, "EEST": 3.0, "MSK": 3.0,
    "SAST": 2.0, "PKT": 5.0, "WIB": 7.0, "HKT": 8.0, "AWST": 8.0, "JST": 9.0, "KST": 9.0, "ACST": 9.5, "ACDT": 10.5,
    "AEST": 10.0, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0, "EDT": -4.0, "MDT": -6.0, "PDT": -7.0, "HST": -10.0,
}  # fmt: skip


class OffsetReading(NamedTuple):
    """The seconds by which the wall clock was ahead of UTC, and the time in UTC if it is known."""

    offset: float
    utc: float | None = None


@dataclass(frozen=True, slots=True)
class Timezone:
    """A display name and `rules`, which are None if only readings of the offset are known."""

    name: str
    cite: Citation
    rules: tzinfo | None = None
    readings: tuple[OffsetReading, ...] = ()

    def offsets(self, local: float) -> tuple[float, float]:
        """Return the offset from UTC at a wall-clock time, for its first and its second occurrence.

        They differ only when the clock is set back (the first is larger) or, in the skipped hour, forward.
        """
        if self.rules is None:
            offset = self._nearest(local).offset
            return offset, offset
        return _offsets_by_rules(self.rules, int(min(max(local, 0.0), MAX_EPOCH) // QUARTER))

    def local(self, utc: float) -> float:
        """Return the wall-clock time at a time in UTC."""
        if self.rules is None:
            return utc + min(self.readings, key=lambda r: MAX_EPOCH if r.utc is None else abs(utc - r.utc)).offset
        return utc + _offset_at(self.rules, min(max(utc, 0.0), MAX_EPOCH))

    def uncertainty(self, first: float, last: float) -> float:
        """Return the error in seconds of converted wall-clock times from `first` to `last`."""
        if self.rules is not None:
            return 0.0
        offset = self._nearest(first).offset
        start, end = first - offset, last - offset
        agreeing = [r.utc for r in self.readings if r.utc is not None and r.offset == offset]
        differing = (r.utc for r in self.readings if r.utc is not None and r.offset != offset)
        if not agreeing or any(start - 2 * DAY < utc < end + 2 * DAY for utc in differing):
            return HOUR
        return 0.0 if min(agreeing) - DAY <= start and end <= max(agreeing) + DAY else HOUR

    def _nearest(self, local: float) -> OffsetReading:
        return min(self.readings, key=lambda r: MAX_EPOCH if r.utc is None else abs(local - r.offset - r.utc))


@lru_cache(100_000)
def _offsets_by_rules(rules: tzinfo, quarter: int) -> tuple[float, float]:
    wall = _EPOCH + timedelta(seconds=quarter * QUARTER)
    first, second = (wall.replace(tzinfo=rules, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    return first.total_seconds(), second.total_seconds()


def host_timezone(records: Sequence[Record]) -> tuple[Timezone | None, list[Problem]]:
    """Return the zone of a host, None if it is unknown or its sources contradict each other."""
    facts = [record for record in records if isinstance(record, Fact)]
    named = _named_timezone(facts)
    readings = [*_recorded_offsets(facts), *_offsets_read_twice(facts)] or list(_offsets_by_abbreviation(facts))
    if named is not None and named.rules is not None:
        rules = named.rules
        for other in readings:  # a reading without a time cannot contradict the rules
            if any(r.utc is not None and r.offset != _offset_at(rules, r.utc) for r in other.readings):
                return None, [_contradiction(named, other)]
        return named, []
    if (contradicting := _contradicting_pair(readings)) is not None:
        return None, [_contradiction(*contradicting)]
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
    """Return the rules of a zone by its name, else by a POSIX rule (`CET-1CEST,M3.5.0,M10.5.0/3`)."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such zone, or no zone database
        pass
    for text in (rule, name):
        if re.fullmatch(r"<?[A-Za-z0-9+-]{3,8}>?[+-]?\d[\w:<>+,./-]{0,80}", text):
            # a file of the zone database (RFC 8536) that contains only the rule at its end
            counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
            header = b"TZif2" + bytes(15) + counts + bytes(6) + b"LMT\0"
            try:
                return ZoneInfo.from_file(BytesIO(header + header + b"\n" + text.encode("ascii") + b"\n"))
            except ValueError:
                continue
    return None


def _recorded_offsets(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """Offsets that recordings and timedatectl state."""
    for fact in facts:
        if fact.name == "host.utc_offset" and abs(offset := float(fact.value)) <= MAX_UTC_OFFSET:
            utc = fact.time.seconds if fact.time and fact.time.clock is Clock.UTC else None
            yield Timezone(format_offset(offset), fact.cite, None, (OffsetReading(offset, utc),))


def _offsets_read_twice(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """Yield the offset between `date` and `date --utc` of one bundle, which read both clocks at the same moment."""
    dates = [f for f in facts if f.name == "capture.time" and f.label("what") == "date" and f.time]
    for local in (f for f in dates if f.time and f.time.clock is Clock.LOCAL):
        for other in (f for f in dates if f.time and f.time.clock is Clock.UTC):
            if root_of(local.cite.member) != root_of(other.cite.member):
                continue
            offset = utc_offset(float(local.value), float(other.value))
            if offset is not None:
                yield Timezone(format_offset(offset), local.cite, None, (OffsetReading(offset, float(other.value)),))


def utc_offset(local: float, utc: float, slack: float = SAME_READING_SECONDS) -> float | None:
    """Return the offset of a wall clock that showed `local` at `utc`; None if no zone has it."""
    offset = round((local - utc) / QUARTER) * float(QUARTER)
    return offset if abs(offset) <= MAX_UTC_OFFSET and abs(local - utc - offset) <= slack else None


def _offsets_by_abbreviation(facts: Iterable[Fact]) -> Iterator[Timezone]:
    """Yield offsets from the abbreviation that `date` prints after the time; not for `date --utc`."""
    for fact in facts:
        if fact.name != "capture.time" or fact.label("what") != "date" or fact.time is None:
            continue
        match = _ABBREVIATION.search(fact.cite.text)
        if match and match[1] in ABBREVIATIONS and not re.search(r"date_-{1,2}u", fact.cite.member):
            offset = ABBREVIATIONS[match[1]] * HOUR
            utc = fact.time.seconds - (offset if fact.time.clock is Clock.LOCAL else 0.0)
            yield Timezone(match[1], fact.cite, None, (OffsetReading(offset, utc),))


def _offset_at(rules: tzinfo, utc: float) -> float:
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc)).astimezone(rules).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def _contradicting_pair(zones: Sequence[Timezone]) -> tuple[Timezone, Timezone] | None:
    """Return two readings that summer time does not explain: an hour apart, or on one day from two sources."""
    for left in zones:
        for right in zones:
            a, b = left.readings[0], right.readings[0]
            is_same_day = a.utc is None or b.utc is None or abs(a.utc - b.utc) < DAY
            is_simultaneous = is_same_day and left.cite.member != right.cite.member
            if abs(a.offset - b.offset) > (0 if is_simultaneous else HOUR):
                return left, right
    return None


def _contradiction(left: Timezone, right: Timezone) -> Problem:
    there = f"{quoted(right.name)} in {path_name(right.cite.member)}"
    text = f"two time zones: {quoted(left.name)} here, {there}; none of them is used"
    return Problem(left.cite, text, ProblemKind.DISAGREEMENT)


def format_offset(offset: float) -> str:
    """Return `UTC+05:30`, or `UTC`."""
    if not offset:
        return "UTC"
    minutes = round(abs(offset) / 60)
    return f"UTC{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def timezone_of_boots(boots: Sequence[ClockAnchor]) -> Timezone | None:
    """Return the offset between times of one boot on both clocks that were read in one bundle."""
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

MIN_POINTS = 30  # common points after the shift
MAX_POINTS = 2000  # of the grid; longer recordings are resampled more coarsely
MIN_CORRELATION = 0.95  # of two curves that are the same
MAX_RELATIVE_ERROR = 0.25  # mean difference of two readings of one metric, relative to the spread of the values
MIN_IMPROVEMENT = 0.2  # of the correlation by the shift
MAX_UNSHIFTED_INTERVALS = 2  # a smaller difference is that of two tools that read one after the other


def clock_difference(left: Points, right: Points) -> float | None:
    """Return the seconds by which the clock of `right` is ahead of that of `left`; None if no difference is evident."""
    if not left.timed or not right.timed or min(len(left), len(right)) < MIN_POINTS:
        return None
    times = [points.index for points in (left, right)]
    steps = [float(np.median(np.diff(seconds))) for seconds in times]
    start, end = min(t.min() for t in times), max(t.max() for t in times)
    step = max(*steps, (end - start) / MAX_POINTS)
    if min(steps) <= 0:
        return None
    grid = np.arange(start, end + step, step)
    first, second = (
        _resample(grid, seconds, points, step) for seconds, points in zip(times, (left, right), strict=True)
    )
    min_common = max(MIN_POINTS, min(int((curve == curve).sum()) for curve in (first, second)) // 2)
    unshifted = _correlation(first, second, 0, min_common)
    if unshifted > MIN_CORRELATION - MIN_IMPROVEMENT:
        return None
    max_lag = min(len(grid), int(MAX_UTC_OFFSET / step) + MAX_UNSHIFTED_INTERVALS)
    lags = range(-max_lag, max_lag + 1)
    best, _, lag = max((_correlation(first, second, lag, min_common), -abs(lag), lag) for lag in lags)
    if abs(lag) <= MAX_UNSHIFTED_INTERVALS or best < MIN_CORRELATION or best < unshifted + MIN_IMPROVEMENT:
        return None
    return float(lag * step)


def _resample(grid: Floats, seconds: Floats, points: Points, step: float) -> Floats:
    """Return the values at the times of the grid, NaN where no sample is near."""
    order = np.argsort(seconds, kind="stable")
    seconds, values = seconds[order], points.values[order]
    nearest = np.clip(np.searchsorted(seconds, grid - step / 2), 0, len(seconds) - 1)
    resampled: Floats = np.where(np.abs(seconds[nearest] - grid) <= step / 2, values[nearest], np.nan)
    return resampled


def _correlation(left: Floats, right: Floats, lag: int, min_common: int) -> float:
    """Return the correlation of two curves, the second `lag` points later; -1 if too few points overlap."""
    size = len(left) - abs(lag)
    if size < min_common:
        return -1.0
    a, b = (left[:size], right[lag:]) if lag >= 0 else (left[-lag:], right[:size])
    known = (a == a) & (b == b)
    if int(known.sum()) < min_common:
        return -1.0
    a, b = a[known], b[known]
    error = float(np.sqrt(((a - b) ** 2).mean()))
    if error > MAX_RELATIVE_ERROR * float(a.std()):
        return -1.0
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 0 else -1.0
