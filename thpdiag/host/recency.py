"""Whether evidence is current: counters that are 0 since boot, and the age of kernel messages.

A total since boot that is not 0 says nothing about the current state. A total of 0 shows that the event never happened
from the boot to the reading, including the recordings in between; it shows nothing about later times, other boots, or a
counter that the kernel does not have (which is absent, not 0).

Logs reach back for weeks, and a soft lockup of last month is not current. The end is when the capture was made, else
the last time of any recording. While a CPU or a task is stuck, the kernel repeats its message every minute or two, so
an hour without one means that this lockup is over, but not that none will follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from thpdiag.host.captures import LOG_MESSAGE_KINDS
from thpdiag.host.clock.anchors import anchors_of_boot, anchors_of_profile
from thpdiag.host.memory import ERROR_LABEL
from thpdiag.host.series import Track
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Case, Citation, Clock, Event, Moment, Profile, Sample, Series, State
from thpdiag.model.case import begin_of, end_of

MIN_UPTIME_SECONDS = 3600.0  # a host booted more recently may not have its usual load yet
MIN_SESSION_UPTIME_SECONDS = 86_400.0  # the minutes of a terminal session are negligible against a day
MAX_DELAY_SECONDS = 60.0  # records that end at most this much later count as simultaneous
FAULTS = "node_vmstat_pgfault"  # never 0 on a kernel that counts events
WALL_CLOCKS = (Clock.UTC, Clock.LOCAL)


class ZeroReading(NamedTuple):
    """A reading of 0: the moments between which it was made, and the latest possible time of the boot."""

    first: Moment
    last: Moment
    boot: Moment
    member: str

    @property
    def uptime(self) -> float:
        """The seconds from the boot to the reading."""
        return self.first.seconds - self.boot.seconds


def zero_readings(tracks: Iterable[Track], case: Case) -> Iterator[ZeroReading]:
    """Yield the readings of a counter that are 0 at least an hour after the boot, if the time of the boot is known."""
    for track in tracks:
        member = track.table.member
        if track.last != 0 or member in case.tainted or (track.column_of(FAULTS) == 0).any():
            continue
        # Without a time of its own, the last row was read while its capture was made.
        time, root = track.samples[-1].time, root_of(member)
        captures = (f.time for f in case.facts if f.name == "capture.time" and root_of(f.cite.member) == root)
        times = [moment for moment in ([time] if time else captures) if moment]
        is_placed = time.clock in WALL_CLOCKS if time else bool(root) and len(track) == 1
        if not is_placed and (session_zero := _session_zero(track, case)):
            yield session_zero
        if not is_placed or len({moment.clock for moment in times}) != 1:
            continue
        for anchor in anchors_of_boot(case.anchors, track.cite(len(track) - 1))[:1]:
            zero = ZeroReading(min(times), max(times), anchor.zero.plus(anchor.within), member)
            if zero.boot.clock is zero.first.clock and zero.uptime >= MIN_UPTIME_SECONDS:
                yield zero


def _session_zero(track: Track, case: Case) -> ZeroReading | None:
    """Return the reading of 0 in a terminal session that shows the uptime but no dates, at least a day after the boot.

    Commands that follow the reading ran minutes later: if a counter did not move in more than a day, it did not start
    to move in these minutes, since the operator read it because of the problem.
    """
    member, time = track.table.member, track.samples[-1].time
    in_session = [f for f in case.facts if f.name == "uptime.seconds" and f.cite.member == member and not f.provenance]
    uptimes = [float(fact.value) for fact in in_session]
    has_restart = any(e.kind == "restart" and e.cite.member == member for s in case.states for e in s.events)
    if (time and time.clock in WALL_CLOCKS) or not uptimes or has_restart:
        return None
    reading = Moment(min(uptimes), Clock.BOOT)
    zero = ZeroReading(reading, reading, Moment(0.0, Clock.BOOT), member)
    is_one_boot = max(uptimes) - min(uptimes) < MIN_SESSION_UPTIME_SECONDS
    return zero if is_one_boot and zero.uptime >= MIN_SESSION_UPTIME_SECONDS else None


def covers_state(zero: ZeroReading, state: State, case: Case) -> bool:
    """Whether everything in a state was recorded between the boot and the reading.

    Records without a time count if they are single snapshots of the same capture.
    """
    undated: Counter[tuple[object, ...]] = Counter()
    for row in state.samples:
        if end_of(row) is None:
            source = (row.cite.member, row.reader, row.kind, row.entity, tuple(row.values))
            undated[source] += len(row) if isinstance(row, Series) else 1
            if undated[source] > 1 or not _is_of_same_capture(row.cite.member, zero):
                return False
    return all(_was_over_before(record, zero, case) for record in (*state.samples, *state.profiles, *state.events))


def _is_of_same_capture(member: str, zero: ZeroReading) -> bool:
    root = root_of(zero.member)
    return member == zero.member or (bool(root) and root_of(member) == root)


def _was_over_before(record: Sample | Series | Profile | Event, zero: ZeroReading, case: Case) -> bool:
    """Whether a record began after the boot and ended before the reading. Messages may be of an earlier boot: rules
    treat these separately."""
    end = _wall_moment(record, end_of(record), case)
    start = _wall_moment(record, begin_of(record), case)
    if end is None or start is None:
        return not isinstance(record, Profile) and _is_of_same_capture(record.cite.member, zero)
    if end.clock is not zero.last.clock:
        return False
    latest = zero.first if isinstance(record, Profile) else zero.last
    is_since_boot = isinstance(record, Event) or start.seconds + MAX_DELAY_SECONDS >= zero.boot.seconds
    return is_since_boot and end.seconds - end.within <= latest.seconds + MAX_DELAY_SECONDS


def _wall_moment(record: Sample | Series | Profile | Event, moment: Moment | None, case: Case) -> Moment | None:
    """Return a moment on the wall clock, None if it cannot be converted."""
    if moment is None or moment.clock in WALL_CLOCKS:
        return moment
    known = case.anchors
    anchors = anchors_of_profile(record, known) if isinstance(record, Profile) else anchors_of_boot(known, record.cite)
    wall = next((anchor.wall_time(moment) for anchor in anchors if moment.clock is Clock.BOOT), None)
    return wall if wall is not None and wall.clock in WALL_CLOCKS else None


RECENT_SECONDS = 3600.0
MESSAGES = LOG_MESSAGE_KINDS - {"task_stack"}


def are_old_messages(case: Case, cited: Collection[Citation]) -> bool:
    """Whether all citations are kernel messages and none of their kinds is known to be recent."""
    places = {(cite.member, cite.line) for cite in cited}
    events = [*case.events, *(event for state in case.states for event in state.events)]
    messages = [e for e in events if e.kind in MESSAGES and (e.cite.member, e.cite.line) in places]
    if not places or {(e.cite.member, e.cite.line) for e in messages} != places:
        return False
    kinds = {event.kind for event in messages}
    ends = list(_recording_ends(case, {event.cite.member for event in messages}))
    same_kind = [event for event in events if event.kind in kinds]
    times = [event.time for event in same_kind if event.time]
    ages = ((end.minus(time), RECENT_SECONDS + time.within + end.within) for end in ends for time in times)
    return not any(age is not None and age <= recent for age, recent in ages)


def _recording_ends(case: Case, logs: Collection[str]) -> Iterator[Moment]:
    """Yield the end on each clock: that of the capture, else the last time of any recording; since boot, the uptime.

    Records from the same logs are excluded (the free blocks that a report lists): they are as old as the messages.
    """
    times = [fact.time for fact in case.facts if fact.name == "capture.time" and fact.time]
    if not times:
        records = (record for state in case.states for record in (*state.samples, *state.profiles))
        times = [end for record in records if record.cite.member not in logs and (end := end_of(record))]
    for clock in (Clock.UTC, Clock.LOCAL):
        if latest := [moment for moment in times if moment.clock is clock]:
            yield max(latest)
    for fact in case.facts:
        if fact.name == "uptime.seconds":
            yield Moment(float(fact.value), Clock.BOOT, float(fact.label(ERROR_LABEL) or 0.0))
