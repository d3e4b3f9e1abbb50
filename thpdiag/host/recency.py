"""Whether evidence is of now: counters that are 0 since boot, and the age of kernel messages.

A total since boot that is not 0 says nothing of now. One that is 0 says that nothing of its kind happened from the
boot to the reading, so also in what was recorded in between; nothing of what came after, of another boot, or of a
counter that the kernel does not have (which is absent, not 0).

Logs reach back for weeks, and a soft lockup of last month is no present one. The end is when the capture was made,
else the last time of any recording. While a CPU or a task is stuck the kernel says so again every minute or two, so an
hour of silence means that this one is over, if not that none will follow.
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

MIN_UPTIME_SECONDS = 3600.0  # seconds since boot: before that a host may not have begun its work yet
MAX_DELAY_SECONDS = 60.0  # seconds: what ends as much later was recorded at the same time
FAULTS = "node_vmstat_pgfault"  # never 0 where a kernel counts
WALL = (Clock.UTC, Clock.LOCAL)


class ZeroReading(NamedTuple):
    """A reading of 0: between which moments it was made, and when the host was booted at the latest."""

    first: Moment
    last: Moment
    boot: Moment
    member: str

    @property
    def uptime(self) -> float:
        """Seconds from the boot to the reading."""
        return self.first.seconds - self.boot.seconds


def zero_readings(tracks: Iterable[Track], case: Case) -> Iterator[ZeroReading]:
    """The readings of a counter that are 0 after at least an hour, where the boot's time is known."""
    for track in tracks:
        member = track.table.member
        if track.last != 0 or member in case.tainted or (track.column_of(FAULTS) == 0).any():
            continue
        # The last row was read at its own time, else while the capture that it is part of was made.
        at, root = track.samples[-1].time, root_of(member)
        read = (
            [at] if at else [f.time for f in case.facts if f.name == "capture.time" and root_of(f.cite.member) == root]
        )
        times = [moment for moment in read if moment]
        placed = at.clock in WALL if at else bool(root) and len(track) == 1
        if not placed or len({moment.clock for moment in times}) != 1:
            continue
        for anchor in anchors_of_boot(case.anchors, track.cite(len(track) - 1))[:1]:
            zero = ZeroReading(min(times), max(times), anchor.zero.plus(anchor.within), member)
            if zero.boot.clock is zero.first.clock and zero.uptime >= MIN_UPTIME_SECONDS:
                yield zero


def covers_state(zero: ZeroReading, state: State, case: Case) -> bool:
    """Whether all that was recorded in a state was recorded between the boot and the reading.

    What has no time counts if it is a single look of the same capture.
    """
    undated: Counter[tuple[object, ...]] = Counter()
    for row in state.samples:
        if end_of(row) is None:
            of = (row.cite.member, row.reader, row.kind, row.entity, tuple(row.values))
            undated[of] += len(row) if isinstance(row, Series) else 1
            if undated[of] > 1 or not _is_of_same_capture(row.cite.member, zero):
                return False
    return all(_was_over_before(record, zero, case) for record in (*state.samples, *state.profiles, *state.events))


def _is_of_same_capture(member: str, zero: ZeroReading) -> bool:
    root = root_of(zero.member)
    return member == zero.member or (bool(root) and root_of(member) == root)


def _was_over_before(record: Sample | Series | Profile | Event, zero: ZeroReading, case: Case) -> bool:
    """Whether a record was over when the counter was read, and begun after the boot. Of messages of an earlier boot
    only rules speak."""
    end = _wall_moment(record, end_of(record), case)
    start = _wall_moment(record, begin_of(record), case)
    if end is None or start is None:
        return not isinstance(record, Profile) and _is_of_same_capture(record.cite.member, zero)
    if end.clock is not zero.last.clock:
        return False
    latest = zero.first if isinstance(record, Profile) else zero.last
    since = isinstance(record, Event) or start.seconds + MAX_DELAY_SECONDS >= zero.boot.seconds
    return since and end.seconds - end.within <= latest.seconds + MAX_DELAY_SECONDS


def _wall_moment(record: Sample | Series | Profile | Event, at: Moment | None, case: Case) -> Moment | None:
    """A moment on the wall clock, if it can be put there."""
    if at is None or at.clock in WALL:
        return at
    known = case.anchors
    found = anchors_of_profile(record, known) if isinstance(record, Profile) else anchors_of_boot(known, record.cite)
    wall = next((anchor.wall_time(at) for anchor in found if at.clock is Clock.BOOT), None)
    return wall if wall is not None and wall.clock in WALL else None


RECENT_SECONDS = 3600.0  # seconds
MESSAGES = LOG_MESSAGE_KINDS - {"task_stack"}


def are_old_messages(case: Case, cited: Collection[Citation]) -> bool:
    """Whether all that is cited are messages of the kernel of which none is known to be recent."""
    places = {(cite.member, cite.line) for cite in cited}
    events = [*case.events, *(event for state in case.states for event in state.events)]
    meant = [e for e in events if e.kind in MESSAGES and (e.cite.member, e.cite.line) in places]
    if not places or {(e.cite.member, e.cite.line) for e in meant} != places:
        return False
    kinds = {event.kind for event in meant}
    ends = list(_recording_ends(case, {event.cite.member for event in meant}))
    alike = [event for event in events if event.kind in kinds]
    ages = ((end.minus(e.time), RECENT_SECONDS + e.time.within + end.within) for end in ends for e in alike if e.time)
    return not any(age is not None and age <= recent for age, recent in ages)


def _recording_ends(case: Case, logs: Collection[str]) -> Iterator[Moment]:
    """The end on each clock: the capture's, else the last of what was recorded; since boot the host's uptime.

    What stands in the same logs (the free blocks that a report lists) is as old as they are.
    """
    known = [fact.time for fact in case.facts if fact.name == "capture.time" and fact.time]
    if not known:
        records = (record for state in case.states for record in (*state.samples, *state.profiles))
        known = [end for record in records if record.cite.member not in logs and (end := end_of(record))]
    for clock in (Clock.UTC, Clock.LOCAL):
        if times := [moment for moment in known if moment.clock is clock]:
            yield max(times)
    for fact in case.facts:
        if fact.name == "uptime.seconds":
            yield Moment(float(fact.value), Clock.BOOT, float(fact.label(ERROR_LABEL) or 0.0))
