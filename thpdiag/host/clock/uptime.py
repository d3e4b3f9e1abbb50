"""The uptime of a host when its capture was made, with its uncertainty.

The first of these sources that the capture has is used; each of the others must be consistent with it:

- a printed uptime (/proc/uptime, `uptime`, top, w), or the age of the first task (`ps -o etime`);
- an anchor of the boot (btime, the kernel log on both clocks) and the time of the capture;
- the start of the first task (`ps`) or a logged boot (`who -b`, `last`, the journal), and the time of the capture.

The time of a capture is that of its `date` or of its collector, else the day in the name that sos gives its archive. If
one time is on the wall clock, the other in UTC and the zone is unknown, the error is 14 hours larger. File times are
not used (see thpdiag.parsers.host.clock). The last line of dmesg, and the start of any process since boot, are a lower
bound. Sources: procps ps/output.c (pr_stime, pr_bsdstart), sos report/__init__.py (get_archive_name).
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

UPTIME, MIN_UPTIME = "uptime.seconds", "uptime.at_least"
BOOT_RECORDS = ("process.start", "boot.record")
HOUR = 3600.0
MINUTE = 60.0
MAX_BOOT_SECONDS = 300.0  # from the kernel's start until a boot is logged; file system checks may come first
START_TICKS = "process_start_time_ticks"
TICKS_PER_SECOND = 100
_CAPTURE_NAME = re.compile(
    r"sosreport-.{1,200}-(\d{4})-(\d\d)-(\d\d)-\w{3,12}$|sosreport-.{1,200}-(\d{4})(\d\d)(\d\d)\d{6}$|"
    r"(?:scc|nts)_.{1,200}_(\d\d)(\d\d)(\d\d)_\d{4}(?:_.{1,60})?$|"
    r"eks_.{1,200}_(\d{4})-(\d\d)-(\d\d)_\d{4}-\w{3,5}_[\d.]{1,20}(?:\.tar\.gz)?$|"
    r"(\d{4})-(\d\d)-(\d\d)T\d\d_\d\d_\d\d\.\d{6}$"
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?( UTC)?$")
_DATE_IN_WORDS = re.compile(
    r"(?:(?P<weekday>[A-Z][a-z]{2}) )?(?P<month>[A-Z][a-z]{2}) ?(?P<day>[ \d]?\d)"
    r"(?: (?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?)?(?: (?P<year>\d{4}))?$"
)
_TIME_OF_DAY = re.compile(r"(\d\d):(\d\d)(?::\d\d)?$")
_ELAPSED = re.compile(r"(?:(?:(\d{1,6})-)?(\d\d):)?(\d\d):(\d\d)$")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Bounds(NamedTuple):
    """The lower and upper bound of an uptime in seconds, how it is known, and its citation."""

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
    """Return `uptime.seconds` of each capture that does not print it, else `uptime.at_least`; and the contradictions.

    An inexact value has the label within, in seconds. Members outside of any bundle belong to the only bundle if there
    is one.
    """
    roots = {root for record in records if (root := root_of(member_of(record)))}
    is_single = len(roots) < 2
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        groups["" if is_single else root_of(fact.cite.member)].append(fact)
    lower_bounds = _lower_bounds(facts, records, is_single=is_single)
    uptimes: list[Fact] = []
    problems: list[Problem] = []
    for root in sorted({"", *(() if is_single else roots)}):
        root_anchors = [anchor for anchor in anchors if is_single or root_of(anchor.cite.member) == root]
        name = next(iter(roots), "") if is_single else root
        facts_of_root, bound = groups.get(root, ()), lower_bounds.get(root)
        capture_uptimes, doubts = _capture_uptime(facts_of_root, root_anchors, bound, _Capture(name, zone))
        uptimes += capture_uptimes
        problems += doubts
    return uptimes, problems


class _Capture(NamedTuple):
    """The root of a capture, and the time zone of its host."""

    root: str
    zone: Timezone | None


def _capture_uptime(
    facts: Sequence[Fact], anchors: Sequence[ClockAnchor], lower_bound: Bounds | None, capture: _Capture
) -> tuple[list[Fact], list[Problem]]:
    times = _capture_times(facts, capture.root)
    slack = MAX_DISAGREEMENT_SECONDS + _duration(times)
    printed = _printed_bounds(facts)
    by_anchor = list(_bounds_by_anchors(anchors, times))
    bounds = [
        *printed,
        *_bounds_by_first_task(facts),
        *by_anchor,
        *_bounds_by_boot_record(facts, times, capture.zone),
        *([lower_bound] if lower_bound else []),
    ]
    if not bounds:
        return [], []
    for left, right in combinations(bounds, 2):
        anchor_based = {*printed, *by_anchor}  # compared with one another as anchors
        if not {left, right} <= anchor_based and (left.low > right.high + slack or right.low > left.high + slack):
            return [], [_contradiction(left, right)]
    if printed:
        return [], []
    best = bounds[0]
    if best is lower_bound:
        return [Fact(MIN_UPTIME, best.low, best.cite, (("how", best.how),), best.time)], []
    return [best.fact()], []


def _contradiction(left: Bounds, right: Bounds) -> Problem:
    text = (
        f"two uptimes that cannot both be right: {left.low:.0f} to {left.high:.0f} s here ({left.how}), at least "
        f"{right.low:.0f} s in {path_name(right.cite.member)} ({right.how})"
        if right.high == inf
        else f"two uptimes that cannot both be right: {left.low:.0f} to {left.high:.0f} s here ({left.how}), "
        f"{right.low:.0f} to {right.high:.0f} s in {path_name(right.cite.member)} ({right.how})"
    )
    return Problem(left.cite, text, ProblemKind.DISAGREEMENT)


def _capture_times(facts: Iterable[Fact], root: str) -> list[Moment]:
    """Return when the capture was made: its own times, else the day in its name."""
    times = [fact.time for fact in facts if fact.name == "capture.time" and fact.time]
    if times or not (match := _CAPTURE_NAME.match(root.rpartition("/")[2])):
        return times
    year, month, day = (int(part) for part in match.groups() if part)
    year += 2000 if year < 100 else 0
    return [Moment(noon, Clock.LOCAL, DAY / 2)] if (noon := _seconds(year, month, day, 12)) is not None else []


def _duration(times: Iterable[Moment]) -> float:
    """Return how long the capture took: a time in it may be from its beginning or its end."""
    spans: dict[Clock, list[float]] = defaultdict(list)
    for moment in times:
        spans[moment.clock].append(moment.seconds)
    return max((max(seconds) - min(seconds) for seconds in spans.values()), default=0.0) + 10 * MINUTE


def _difference(zero: Moment, within: float, end: Moment) -> tuple[float, float]:
    """Return the minimum and maximum time from one moment to another."""
    error = within + end.within + (0.0 if zero.clock is end.clock else MAX_UTC_OFFSET)
    return end.seconds - zero.seconds - error, end.seconds - zero.seconds + error


def _bounds_by_anchors(anchors: Sequence[ClockAnchor], times: Sequence[Moment]) -> Iterator[Bounds]:
    """Yield the bounds from the first anchor that can be used; none if the anchors describe several boots."""
    if not all(anchors_agree(left, right) for left, right in combinations(anchors, 2)):
        return
    candidates = []
    wall = {Clock.UTC, Clock.LOCAL}
    for anchor in anchors:  # only btime is read during the capture; a message may be much older
        ends = [*times, *([anchor.read] if anchor.read and anchor.how == BY_BTIME else [])]
        for end in ends:
            low, high = _difference(anchor.zero, anchor.within, end)
            if {end.clock, anchor.zero.clock} <= wall and low > 0:
                candidates.append(Bounds(low, high, f"the boot {anchor.how}", anchor.cite, end))
    if candidates:
        width = min(bounds.high - bounds.low for bounds in candidates)
        yield max((b for b in candidates if b.high - b.low <= width + MINUTE), key=lambda bounds: bounds.low)


def _printed_bounds(facts: Iterable[Fact]) -> list[Bounds]:
    """Return the printed uptimes as one range: the first to the last of a recording."""
    printed = [fact for fact in facts if fact.name == UPTIME and not fact.provenance]
    if not printed:
        return []
    values = [float(fact.value) for fact in printed]
    last = printed[values.index(max(values))]
    return [Bounds(max(min(values) - MINUTE, 0.0), max(values) + MINUTE, "as printed", last.cite, last.time)]


def _bounds_by_first_task(facts: Iterable[Fact]) -> Iterator[Bounds]:
    """Yield the age of the first task in its last listing; the kernel is slightly older."""
    ages = [fact for fact in facts if fact.name == "process.start" and fact.label("column") == "ELAPSED"]
    if ages and (match := _ELAPSED.match(str(ages[-1].value))):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        uptime = days * DAY + hours * HOUR + minutes * MINUTE + seconds
        age = f"the age of {ages[-1].label('comm')}"
        yield Bounds(uptime, uptime + MAX_BOOT_SECONDS, age, ages[-1].cite, ages[-1].time)


def _bounds_by_boot_record(facts: Sequence[Fact], times: Sequence[Moment], zone: Timezone | None) -> Iterator[Bounds]:
    """Yield the time from the start of the first task, or from a logged boot, to the capture."""
    last = {fact.name: fact for fact in facts if fact.name in BOOT_RECORDS and fact.label("column") != "ELAPSED"}
    for fact in last.values():
        end = fact.time if fact.time and fact.time.clock in (Clock.UTC, Clock.LOCAL) else max(times, default=None)
        if end is None:
            continue
        wall_end = Moment(zone.local(end.seconds), Clock.LOCAL) if zone and end.clock is Clock.UTC else end
        if (parsed := _moment(str(fact.value), wall_end)) is None:
            continue
        moment, within = parsed
        low, high = _difference(moment, within, end if moment.clock is end.clock else wall_end)
        summer_time = HOUR if high > DAY and moment.clock is Clock.LOCAL else 0.0  # summer time may have begun
        how = fact.label("how") or f"the start of {fact.label('comm')}"
        yield Bounds(max(low - summer_time, 0.0), high + summer_time + MAX_BOOT_SECONDS, how, fact.cite, end)


def _lower_bounds(facts: Iterable[Fact], records: Iterable[Record], *, is_single: bool) -> Mapping[str, Bounds]:
    """Return by capture the latest event since boot: in dmesg, or the start of a process."""
    latest: dict[str, Bounds] = {}

    def add(seconds: float, how: str, cite: Citation, time: Moment | None) -> None:
        root = "" if is_single else root_of(cite.member)
        if root not in latest or seconds > latest[root].low:
            latest[root] = Bounds(seconds, inf, how, cite, time)

    for fact in facts:
        if fact.name == "dmesg.last_seconds":
            add(float(fact.value), "the last message of dmesg", fact.cite, fact.time)
    for record in records:
        if isinstance(record, Sample | Series) and START_TICKS in record.values:
            rows = series_rows_having(record, START_TICKS) if isinstance(record, Series) else (record,)
            for row in rows:
                add(row.values[START_TICKS] / TICKS_PER_SECOND, "the start of a process", row.cite, row.time)
    return latest


def _moment(text: str, end: Moment) -> tuple[Moment, float] | None:
    """Return the moment that a program printed before `end`, and its error.

    Formats: `2026-11-20 05:40`, `Fri Nov 20 05:40`, `Nov20` (this year), `05:40` (the last day).
    """
    if iso := _ISO.match(text):
        parts = [int(part or 0) for part in iso.groups()[:6]]
        seconds, within = _seconds(*parts), 1.0 if iso[6] else MINUTE / 2
        clock = Clock.UTC if iso[7] else Clock.LOCAL
        return (Moment(seconds + (0.0 if iso[6] else MINUTE / 2), clock), within) if seconds is not None else None
    if match := _TIME_OF_DAY.match(text):
        day_seconds = int(match[1]) * HOUR + int(match[2]) * MINUTE
        # If the capture's time is in UTC, a time of day in an unknown zone is any moment of the last day.
        if end.clock is not Clock.LOCAL:
            return Moment(end.seconds - DAY / 2, end.clock), DAY / 2
        return Moment(end.seconds - (end.seconds - day_seconds) % DAY + MINUTE / 2, Clock.LOCAL), MINUTE / 2
    words = _DATE_IN_WORDS.match(text)
    month = MONTHS.get(words["month"].lower()) if words else None
    if words is None or month is None:
        return None
    last = datetime.fromtimestamp(end.seconds + DAY, UTC).year
    for year in [int(words["year"])] if words["year"] else range(last, last - 12, -1):
        clock_parts = [int(words[name] or 0) for name in ("hour", "minute", "second")]
        seconds = _seconds(year, month, int(words["day"]), *clock_parts)
        if seconds is None or seconds > end.seconds + DAY:
            continue
        if words["weekday"] and _WEEKDAYS[datetime.fromtimestamp(seconds, UTC).weekday()] != words["weekday"]:
            continue
        error = 0.5 if words["second"] else MINUTE / 2 if words["hour"] else DAY / 2
        return Moment(seconds + error, Clock.LOCAL), error
    return None


def _seconds(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float | None:
    try:
        return (
            datetime(year, month, day, tzinfo=UTC) + timedelta(hours=hour, minutes=minute, seconds=second)
        ).timestamp()
    except (ValueError, OverflowError):
        return None
