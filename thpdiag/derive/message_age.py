"""How long before the end of what was sent the kernel said something: a message tells of its moment, not of now.

Logs reach back for weeks, and a soft lockup of last month is no present one. The end is when the capture was made, else
the last time of any recording. While a CPU or a task is stuck the kernel says so again every minute or two, so that an
hour of silence tells that this one is over, if not that none will follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from thpdiag.model import Case, Citation, Clock, Event, Moment
from thpdiag.model.record import ended

RECENT = 3600.0  # seconds
MESSAGES = frozenset(
    {
        "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
        "min_free_raised", "kernel_trace",
    }
)  # fmt: skip


def is_old(case: Case, cited: Collection[Citation]) -> bool:
    """Whether all that is cited are messages of the kernel of which none is known to be recent."""
    places = {(cite.member, cite.line) for cite in cited}
    events = [*case.events, *(event for state in case.states for event in state.events)]
    meant = [e for e in events if e.kind in MESSAGES and (e.cite.member, e.cite.line) in places]
    if not places or {(e.cite.member, e.cite.line) for e in meant} != places:
        return False
    kinds = {event.kind for event in meant}
    ends = list(_ends(case, {event.cite.member for event in meant}))
    alike = [event for event in events if event.kind in kinds]
    return not any(_near(event, end) for end in ends for event in alike)


def _near(event: Event, end: Moment) -> bool:
    if event.time is None or event.time.clock is not end.clock:
        return False
    return end.seconds - event.time.seconds <= RECENT + event.time.within + end.within


def _ends(case: Case, logs: Collection[str]) -> Iterator[Moment]:
    """The end on each clock: the capture's, else the last of what was recorded; since boot the host's uptime.

    What stands in the same logs (the free blocks that a report lists) is as old as they are.
    """
    known = [fact.time for fact in case.facts if fact.name == "capture.time" and fact.time]
    if not known:
        records = (record for state in case.states for record in (*state.samples, *state.profiles))
        known = [end for record in records if record.cite.member not in logs and (end := ended(record))]
    for clock in (Clock.UTC, Clock.LOCAL):
        if times := [moment for moment in known if moment.clock is clock]:
            yield max(times)
    for fact in case.facts:
        if fact.name == "uptime.seconds":
            yield Moment(float(fact.value), Clock.BOOT)
