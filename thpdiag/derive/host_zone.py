"""The time zone of a host, from what its files say, the most telling first.

- the zone by its name or rules: /etc/localtime, timedatectl, /etc/timezone, /etc/sysconfig/clock;
- how far its wall clock was ahead of UTC when a recording began: collectl's header, sadf, PCP;
- the same clock read twice: `date` and `date --utc`, or two times of one boot in one bundle;
- an abbreviation that only one zone has (CET, JST; not CST, which is in Chicago and in Shanghai).

Sources that contradict each other are a problem, and no zone is believed then. Names need the zone database of whoever
reads; where that is missing the rule that /etc/localtime itself ends with does as well. An offset alone is sure for a
day around its reading, and between two readings that agree: farther away summer time may have begun or ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from io import BytesIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from thpdiag.knowledge.paths import root_of, system_path
from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record

QUARTER = 900  # seconds: zones differ by quarters of an hour, and change at them
HOUR = 3600.0
DAY = 86_400.0
FARTHEST = 14 * HOUR
LAST = 4_102_444_800.0  # 2100: no recording is later, whatever it says
SAME = 300.0  # seconds between two readings of a clock that are taken for one
NAMED = ("localtime", "timedatectl", "timezone", "sysconfig")
_EPOCH = datetime(1970, 1, 1)
_ABBREVIATION = re.compile(r"\b([A-Z]{3,4})\b(?=\s+\d{4}\s*$|\s*$)")
ABBREVIATIONS = {
    "UTC": 0.0, "GMT": 0.0, "WET": 0.0, "WEST": 1.0, "CET": 1.0, "CEST": 2.0, "EET": 2.0, "EEST": 3.0, "MSK": 3.0,
    "SAST": 2.0, "PKT": 5.0, "WIB": 7.0, "HKT": 8.0, "AWST": 8.0, "JST": 9.0, "KST": 9.0, "ACST": 9.5, "ACDT": 10.5,
    "AEST": 10.0, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0, "EDT": -4.0, "MDT": -6.0, "PDT": -7.0, "HST": -10.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """By how many seconds the wall clock was ahead of UTC, and when (UTC), if that is known."""

    offset: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Zone:
    """`name` is for people; `rules` are those of the zone, None where only readings of its offset are known."""

    name: str
    cite: Citation
    rules: tzinfo | None = None
    readings: tuple[Reading, ...] = ()

    def offsets(self, local: float) -> tuple[float, float]:
        """Seconds ahead of UTC at a time of the wall clock, the first and the second time that it shows it.

        They differ only where the clock is set back (the first is larger) or, in the hour that is left out, forth.
        """
        if self.rules is None:
            offset = self._nearest(local).offset
            return offset, offset
        return _of_rules(self.rules, int(min(max(local, 0.0), LAST) // QUARTER))

    def local(self, utc: float) -> float:
        """What the wall clock shows at a time in UTC."""
        if self.rules is None:
            return utc + min(self.readings, key=lambda r: LAST if r.at is None else abs(utc - r.at)).offset
        return utc + _at(self.rules, min(max(utc, 0.0), LAST))

    def within(self, first: float, last: float) -> float:
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

    def _nearest(self, local: float) -> Reading:
        return min(self.readings, key=lambda r: LAST if r.at is None else abs(local - r.offset - r.at))


@lru_cache(100_000)
def _of_rules(rules: tzinfo, quarter: int) -> tuple[float, float]:
    wall = _EPOCH + timedelta(seconds=quarter * QUARTER)
    first, second = (wall.replace(tzinfo=rules, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    return first.total_seconds(), second.total_seconds()


def host_zone(records: Sequence[Record]) -> tuple[Zone | None, list[Problem]]:
    """The zone of a host, None if nothing tells it or what does contradicts itself."""
    facts = [record for record in records if isinstance(record, Fact)]
    named = list(_named(facts))
    readings = [*_recorded(facts), *_read_twice(facts)] or list(_abbreviated(facts))
    if named:
        wrong = next((other for other in readings if not _fit(named[0], other)), None)
        return (None, [_contradiction(named[0], wrong)]) if wrong else (named[0], [])
    if (far := _far(readings)) is not None:
        return None, [_contradiction(*far)]
    if not readings:
        return None, []
    known = tuple(reading for zone in readings for reading in zone.readings)
    return Zone(readings[0].name, readings[0].cite, None, known), []


def _named(facts: Iterable[Fact]) -> Iterator[Zone]:
    told = [fact for fact in facts if fact.name == "host.zone" and not fact.provenance]
    for fact in sorted(told, key=lambda f: NAMED.index(how) if (how := f.label("how")) in NAMED else len(NAMED)):
        name = str(fact.value)
        if rules := zone_rules(name, fact.label("rule") or ""):
            yield Zone(name, fact.cite, rules)


@lru_cache(64)
def zone_rules(name: str, rule: str = "") -> tzinfo | None:
    """The rules of a zone by its name, else by a rule of POSIX (`CET-1CEST,M3.5.0,M10.5.0/3`)."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such zone, or no zone database
        pass
    for text in (rule, name):
        if re.fullmatch(r"<?[A-Za-z0-9+-]{3,8}>?[+-]?\d[\w:<>+,./-]{0,80}", text):
            try:
                return ZoneInfo.from_file(BytesIO(_compiled(text)))
            except ValueError:
                continue
    return None


def _compiled(rule: str) -> bytes:
    """A file of the zone database (RFC 8536) with nothing but a rule at its end."""
    counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
    part = b"TZif2" + bytes(15) + counts + bytes(6) + b"LMT\0"
    return part + part + b"\n" + rule.encode("ascii") + b"\n"


def _recorded(facts: Iterable[Fact]) -> Iterator[Zone]:
    """Offsets that recordings and timedatectl state."""
    for fact in facts:
        if fact.name == "host.utc_offset" and abs(offset := float(fact.value)) <= FARTHEST:
            at = fact.time.seconds if fact.time and fact.time.clock is Clock.UTC else None
            yield Zone(spoken(offset), fact.cite, None, (Reading(offset, at),))


def _read_twice(facts: Iterable[Fact]) -> Iterator[Zone]:
    """`date` and `date --utc` of one bundle: the same moment on both clocks."""
    told = [f for f in facts if f.name == "capture.time" and f.label("what") == "date" and f.time]
    for local in (f for f in told if f.time and f.time.clock is Clock.LOCAL):
        for other in (f for f in told if f.time and f.time.clock is Clock.UTC):
            if root_of(local.cite.member) != root_of(other.cite.member):
                continue
            offset = ahead(float(local.value), float(other.value))
            if offset is not None:
                yield Zone(spoken(offset), local.cite, None, (Reading(offset, float(other.value)),))


def ahead(local: float, utc: float, slack: float = SAME) -> float | None:
    """By how much a wall clock is ahead of UTC that showed `local` at `utc`; None if that is no zone's offset."""
    offset = round((local - utc) / QUARTER) * float(QUARTER)
    return offset if abs(offset) <= FARTHEST and abs(local - utc - offset) <= slack else None


def _abbreviated(facts: Iterable[Fact]) -> Iterator[Zone]:
    """What `date` printed behind the time. That of `date --utc` says nothing of the zone."""
    for fact in facts:
        if fact.name != "capture.time" or fact.label("what") != "date" or fact.time is None:
            continue
        found = _ABBREVIATION.search(fact.cite.text)
        if found and found[1] in ABBREVIATIONS and not re.search(r"date_-{1,2}u", fact.cite.member):
            offset = ABBREVIATIONS[found[1]] * HOUR
            at = fact.time.seconds - (offset if fact.time.clock is Clock.LOCAL else 0.0)
            yield Zone(found[1], fact.cite, None, (Reading(offset, at),))


def _fit(named: Zone, read: Zone) -> bool:
    """Whether an offset was that of the zone when it was read; of one without a time nobody knows."""
    rules = named.rules
    return rules is None or all(r.at is None or r.offset == _at(rules, r.at) for r in read.readings)


def _at(rules: tzinfo, utc: float) -> float:
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc)).astimezone(rules).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def _far(zones: Sequence[Zone]) -> tuple[Zone, Zone] | None:
    """Two readings that no change of summer time explains: more than an hour apart, or of two sources on one day."""
    for one in zones:
        for other in zones:
            a, b = one.readings[0], other.readings[0]
            near = a.at is None or b.at is None or abs(a.at - b.at) < DAY
            at_once = near and one.cite.member != other.cite.member
            if abs(a.offset - b.offset) > (0 if at_once else HOUR):
                return one, other
    return None


def _contradiction(one: Zone, other: Zone) -> Problem:
    text = f"two time zones: {one.name} here, {other.name} in {other.cite.member}; none of them is used"
    return Problem(one.cite, text, ProblemKind.DISAGREEMENT)


def spoken(offset: float) -> str:
    """`UTC+05:30`, `UTC`."""
    if not offset:
        return "UTC"
    minutes = round(abs(offset) / 60)
    return f"UTC{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def of_boots(boots: Iterable[tuple[Moment, float, Citation]]) -> Zone | None:
    """The zone's offset from times of one boot on both clocks, read in one bundle; each with its uncertainty."""
    known = list(boots)
    for local, off, cite in (b for b in known if b[0].clock is Clock.LOCAL):
        for utc, more, other in (b for b in known if b[0].clock is Clock.UTC):
            if root_of(cite.member) == root_of(other.member) and system_path(other.member):
                offset = ahead(local.seconds, utc.seconds, min(SAME, off + more + 5.0))
                if offset is not None:
                    return Zone(spoken(offset), cite, None, (Reading(offset),))
    return None
