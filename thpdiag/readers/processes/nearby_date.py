"""A clock time without a date that stands below a time with one: the loop printed the date, then ran top. Not a reader.

The clock time is the host's wall clock. A date and time above it that are of the same wall clock give it its day; so
does an epoch, whose distance from the wall clock is whole quarters of an hour: the time then stays an epoch.
"""

from __future__ import annotations

from thpdiag.model import Clock, Moment
from thpdiag.readers.elements.daytime import DAY, DayClock

NEAR = 300  # seconds between a time line and what was started after it
ZONE_STEP = 900


def day_clock(near: Moment | None, seconds: float) -> DayClock:
    """A clock for times of which the first is `seconds` after midnight; dated if `near` is near enough."""
    if near is None or near.clock not in (Clock.LOCAL, Clock.UTC):
        return DayClock()
    step = DAY if near.clock is Clock.LOCAL else ZONE_STEP
    apart = (seconds - near.seconds) % step
    apart -= step if apart > step / 2 else 0
    return DayClock(near.seconds + apart - seconds, near.clock) if abs(apart) <= NEAR else DayClock()
