"""A time together with the clock it was read from, because most recordings do not say what clock that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Clock(StrEnum):
    """What the seconds of a moment count from."""

    UTC = "utc"  # seconds since 1970-01-01 00:00 UTC
    LOCAL = "local"  # the same count, of the host's wall clock, zone unknown
    DAY = "day"  # seconds since a midnight of unknown date (collectl -oT, top, sar rows); may exceed 86400 after a wrap
    BOOT = "boot"  # seconds since boot (perf script, dmesg brackets)


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """Seconds on a clock. Moments of different clocks are never compared; `minus` says None for them.

    `within` says by how many seconds a moment that was put on another clock than its source's may be wrong, either way.
    """

    seconds: float
    clock: Clock
    within: float = field(default=0.0, compare=False)

    def minus(self, other: Moment) -> float | None:
        """Seconds from `other` to this moment, None if the clocks differ."""
        return self.seconds - other.seconds if self.clock is other.clock else None

    def plus(self, seconds: float) -> Moment:
        return Moment(self.seconds + seconds, self.clock, self.within)


def zoned(seconds: float, zone: str) -> Moment:
    """A date and clock time, counted as if they were UTC, in their zone: `Z`, `UTC`, `GMT`, `+05:30`, `-0800`.

    Without a zone they are the host's wall clock.
    """
    if not zone:
        return Moment(seconds, Clock.LOCAL)
    if zone[0] not in "+-":
        return Moment(seconds, Clock.UTC)
    digits = zone.replace(":", "")
    shift = int(digits[1:3]) * 3600 + int(digits[3:5]) * 60
    return Moment(seconds - shift if zone[0] == "+" else seconds + shift, Clock.UTC)
