"""How long the host had been up when its capture was made, with what is not known of it.

The first of these that the capture has decides; each of the others must allow it:

- an uptime that somebody printed (/proc/uptime, `uptime`, top, w), or the age of the first task (`ps -o etime`);
- an anchor of the boot (btime, the kernel log on both clocks) and the time of the capture;
- when the first task was started (`ps`), or a boot was noted (`who -b`, `last`, the journal), and the time of the
  capture.

The time of a capture is that of its `date` or of its collector, else the day in the name that sos gives its archive. If
one time is of the wall clock and the other of UTC, in a zone that is not known, they may lie 14 hours further apart.
Times of files say nothing (see thpdiag.parsers.host.clock). The last line of dmesg, and the start of any process since
boot, are a bound: the host has been up for longer. Sources: procps ps/output.c (pr_stime, pr_bsdstart), sos
report/__init__.py (get_archive_name).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from math import inf
from typing import NamedTuple

from thpdiag.detect.timestamps import MONTHS
from thpdiag.host.clock.anchors import BY_BTIME, MAX_DISAGREEMENT_SECONDS, anchors_agree
from thpdiag.host.clock.timezone import MAX_UTC_OFFSET, Timezone
from thpdiag.host.memory import ERROR_LABEL
from thpdiag.host.series import series_rows_having
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record, Sample, Series
from thpdiag.model.case import member_of
from thpdiag.model.facts import DAY, ClockAnchor
from thpdiag.model.text import path_name

UPTIME, AT_LEAST = "uptime.seconds", "uptime.at_least"
NOTED = ("process.start", "boot.record")
HOUR = 3600.0
MINUTE = 60.0
MAX_BOOT_SECONDS = 300.0  # from the kernel's start until a boot is noted; checks of file systems may be before it
START_TICKS = "process_start_time_ticks"
TICKS_PER_SECOND = 100
_CAPTURE_NAME = re.compile(
    r"sosreport-.{1,200}-(\d{4})-(\d\d)-(\d\d)-\w{3,12}$|sosreport-.{1,200}-(\d{4})(\d\d)(\d\d)\d{6}$|"
    r"(?:scc|nts)_.{1,200}_(\d\d)(\d\d)(\d\d)_\d{4}(?:_.{1,60})?$|"
    r"eks_.{1,200}_(\d{4})-(\d\d)-(\d\d)_\d{4}-\w{3,5}_[\d.]{1,20}(?:\.tar\.gz)?$|"
    r"(\d{4})-(\d\d)-(\d\d)T\d\d_\d\d_\d\d\.\d{6}$"
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?( UTC)?$")
_WORDS = re.compile(
    r"(?:(?P<weekday>[A-Z][a-z]{2}) )?(?P<month>[A-Z][a-z]{2}) ?(?P<day>[ \d]?\d)"
    r"(?: (?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?)?(?: (?P<year>\d{4}))?$"
)
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::\d\d)?$")
_ELAPSED = re.compile(r"(?:(?:(\d{1,6})-)?(\d\d):)?(\d\d):(\d\d)$")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Bounds(NamedTuple):
    """Between how many seconds the host had been up, how that is known and where it stands."""

    low: float
    high: float
    how: str
    cite: Citation
    time: Moment | None = None

    def fact(self) -> Fact:
        labels = (("how", self.how), (ERROR_LABEL, f"{(self.high - self.low) / 2:g}"))
        return Fact(UPTIME, (self.low + self.high) / 2, self.cite, labels, self.time)


def uptime_facts(
    facts: Sequence[Fact], anchors: Sequence[ClockAnchor], records: Sequence[Record], zone: Timezone | None
) -> tuple[list[Fact], list[Problem]]:
    """`uptime.seconds` of each capture that does not print it, else `uptime.at_least`; and what contradicts.

    A value that is not exact has the label within, in seconds. What lies in no bundle is one capture with the only
    bundle there is.
    """
    roots = {root for record in records if (root := root_of(member_of(record)))}
    alone = len(roots) < 2
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        groups["" if alone else root_of(fact.cite.member)].append(fact)
    least = _at_least(facts, records, alone=alone)
    found: list[Fact] = []
    problems: list[Problem] = []
    for root in sorted({"", *(() if alone else roots)}):
        own = [anchor for anchor in anchors if alone or root_of(anchor.cite.member) == root]
        name = next(iter(roots), "") if alone else root
        more, doubts = _of_capture(groups.get(root, ()), own, least.get(root), _Capture(name, zone))
        found += more
        problems += doubts
    return found, problems


class _Capture(NamedTuple):
    """The root of a capture, and the zone of its host."""

    root: str
    zone: Timezone | None


def _of_capture(
    facts: Sequence[Fact], anchors: Sequence[ClockAnchor], least: Bounds | None, capture: _Capture
) -> tuple[list[Fact], list[Problem]]:
    times = _capture_times(facts, capture.root)
    slack = MAX_DISAGREEMENT_SECONDS + _duration(times)
    printed = _by_output(facts)
    by_anchor = list(_by_anchors(anchors, times))
    known = [
        *printed,
        *_by_first_task(facts),
        *by_anchor,
        *_by_boot_record(facts, times, capture.zone),
        *([least] if least else []),
    ]
    if not known:
        return [], []
    for one, other in combinations(known, 2):
        anchored = {*printed, *by_anchor}  # these are compared with one another as anchors
        if not {one, other} <= anchored and (one.low > other.high + slack or other.low > one.high + slack):
            return [], [_contradiction(one, other)]
    if printed:
        return [], []
    first = known[0]
    if first is least:
        return [Fact(AT_LEAST, first.low, first.cite, (("how", first.how),), first.time)], []
    return [first.fact()], []


def _contradiction(one: Bounds, other: Bounds) -> Problem:
    text = (
        f"two uptimes that cannot both be right: {one.low:.0f} to {one.high:.0f} s here ({one.how}), at least "
        f"{other.low:.0f} s in {path_name(other.cite.member)} ({other.how})"
        if other.high == inf
        else f"two uptimes that cannot both be right: {one.low:.0f} to {one.high:.0f} s here ({one.how}), "
        f"{other.low:.0f} to {other.high:.0f} s in {path_name(other.cite.member)} ({other.how})"
    )
    return Problem(one.cite, text, ProblemKind.DISAGREEMENT)


def _capture_times(facts: Iterable[Fact], root: str) -> list[Moment]:
    """When the capture was made, as it says itself; else the day in its name."""
    times = [fact.time for fact in facts if fact.name == "capture.time" and fact.time]
    if times or not (found := _CAPTURE_NAME.match(root.rpartition("/")[2])):
        return times
    year, month, day = (int(part) for part in found.groups() if part)
    year += 2000 if year < 100 else 0
    return [Moment(noon, Clock.LOCAL, DAY / 2)] if (noon := _seconds(year, month, day, 12)) is not None else []


def _duration(times: Iterable[Moment]) -> float:
    """How long the capture took; what it says of the uptime may be of its begin or of its end."""
    spans: dict[Clock, list[float]] = defaultdict(list)
    for moment in times:
        spans[moment.clock].append(moment.seconds)
    return max((max(seconds) - min(seconds) for seconds in spans.values()), default=0.0) + 10 * MINUTE


def _difference(zero: Moment, within: float, end: Moment) -> tuple[float, float]:
    """From one moment to another, at least and at most."""
    off = within + end.within + (0.0 if zero.clock is end.clock else MAX_UTC_OFFSET)
    return end.seconds - zero.seconds - off, end.seconds - zero.seconds + off


def _by_anchors(anchors: Sequence[ClockAnchor], times: Sequence[Moment]) -> Iterator[Bounds]:
    """Of the anchors the first that can be used. Where several boots are told of it is not known which is meant."""
    if not all(anchors_agree(one, other) for one, other in combinations(anchors, 2)):
        return
    found = []
    wall = {Clock.UTC, Clock.LOCAL}
    for anchor in anchors:  # a message that tells both clocks is as old as it is: its time ends no capture
        ends = [*times, *([anchor.read] if anchor.read and anchor.how == BY_BTIME else [])]
        for end in ends:
            low, high = _difference(anchor.zero, anchor.within, end)
            if {end.clock, anchor.zero.clock} <= wall and low > 0:
                found.append(Bounds(low, high, f"the boot {anchor.how}", anchor.cite, end))
    if found:
        width = min(bounds.high - bounds.low for bounds in found)
        yield max((b for b in found if b.high - b.low <= width + MINUTE), key=lambda bounds: bounds.low)


def _by_output(facts: Iterable[Fact]) -> list[Bounds]:
    """What was printed, as one: of a recording from the first to the last."""
    printed = [fact for fact in facts if fact.name == UPTIME and not fact.provenance]
    if not printed:
        return []
    values = [float(fact.value) for fact in printed]
    last = printed[values.index(max(values))]
    return [Bounds(max(min(values) - MINUTE, 0.0), max(values) + MINUTE, "as printed", last.cite, last.time)]


def _by_first_task(facts: Iterable[Fact]) -> Iterator[Bounds]:
    """The age of the first task when it was listed last: the kernel is a little older."""
    ages = [fact for fact in facts if fact.name == "process.start" and fact.label("column") == "ELAPSED"]
    if ages and (found := _ELAPSED.match(str(ages[-1].value))):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        up = days * DAY + hours * HOUR + minutes * MINUTE + seconds
        yield Bounds(up, up + MAX_BOOT_SECONDS, f"the age of {ages[-1].label('comm')}", ages[-1].cite, ages[-1].time)


def _by_boot_record(facts: Sequence[Fact], times: Sequence[Moment], zone: Timezone | None) -> Iterator[Bounds]:
    """When the first task was started or a boot was noted, and the time of the capture."""
    last = {fact.name: fact for fact in facts if fact.name in NOTED and fact.label("column") != "ELAPSED"}
    for fact in last.values():
        end = fact.time if fact.time and fact.time.clock in (Clock.UTC, Clock.LOCAL) else max(times, default=None)
        if end is None:
            continue
        by_wall = Moment(zone.local(end.seconds), Clock.LOCAL) if zone and end.clock is Clock.UTC else end
        if (found := _moment(str(fact.value), by_wall)) is None:
            continue
        moment, within = found
        low, high = _difference(moment, within, end if moment.clock is end.clock else by_wall)
        summer = HOUR if high > DAY and moment.clock is Clock.LOCAL else 0.0  # the wall clock may have been put on
        how = fact.label("how") or f"the start of {fact.label('comm')}"
        yield Bounds(max(low - summer, 0.0), high + summer + MAX_BOOT_SECONDS, how, fact.cite, end)


def _at_least(facts: Iterable[Fact], records: Iterable[Record], *, alone: bool) -> Mapping[str, Bounds]:
    """The latest that happened since boot, of each capture: in dmesg, or the start of a process."""
    found: dict[str, Bounds] = {}

    def add(seconds: float, how: str, cite: Citation, time: Moment | None) -> None:
        root = "" if alone else root_of(cite.member)
        if root not in found or seconds > found[root].low:
            found[root] = Bounds(seconds, inf, how, cite, time)

    for fact in facts:
        if fact.name == "dmesg.last_seconds":
            add(float(fact.value), "the last message of dmesg", fact.cite, fact.time)
    for record in records:
        if isinstance(record, Sample | Series) and START_TICKS in record.values:
            rows = series_rows_having(record, START_TICKS) if isinstance(record, Series) else (record,)
            for row in rows:
                add(row.values[START_TICKS] / TICKS_PER_SECOND, "the start of a process", row.cite, row.time)
    return found


def _moment(text: str, end: Moment) -> tuple[Moment, float] | None:
    """The moment that a program printed before `end`, and by how much it may be off.

    `2026-11-20 05:40`, `Fri Nov 20 05:40`, `Nov20` (this year), `05:40` (the last day).
    """
    if iso := _ISO.match(text):
        parts = [int(part or 0) for part in iso.groups()[:6]]
        at, within = _seconds(*parts), 1.0 if iso[6] else MINUTE / 2
        clock = Clock.UTC if iso[7] else Clock.LOCAL
        return (Moment(at + (0.0 if iso[6] else MINUTE / 2), clock), within) if at is not None else None
    if shown := _CLOCK.match(text):
        of_day = int(shown[1]) * HOUR + int(shown[2]) * MINUTE
        # On another clock than UTC's the day is that of a zone: so is the difference to the time of the capture.
        if end.clock is not Clock.LOCAL:
            return Moment(end.seconds - DAY / 2, end.clock), DAY / 2
        return Moment(end.seconds - (end.seconds - of_day) % DAY + MINUTE / 2, Clock.LOCAL), MINUTE / 2
    found = _WORDS.match(text)
    month = MONTHS.get(found["month"].lower()) if found else None
    if found is None or month is None:
        return None
    last = datetime.fromtimestamp(end.seconds + DAY, UTC).year
    for year in [int(found["year"])] if found["year"] else range(last, last - 12, -1):
        clock_parts = [int(found[name] or 0) for name in ("hour", "minute", "second")]
        at = _seconds(year, month, int(found["day"]), *clock_parts)
        if at is None or at > end.seconds + DAY:
            continue
        if found["weekday"] and _WEEKDAYS[datetime.fromtimestamp(at, UTC).weekday()] != found["weekday"]:
            continue
        half = 0.5 if found["second"] else MINUTE / 2 if found["hour"] else DAY / 2
        return Moment(at + half, Clock.LOCAL), half
    return None


def _seconds(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float | None:
    try:
        return (
            datetime(year, month, day, tzinfo=UTC) + timedelta(hours=hour, minutes=minute, seconds=second)
        ).timestamp()
    except (ValueError, OverflowError):
        return None
