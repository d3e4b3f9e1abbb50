"""Moments and stretches of time in the words of the result document."""

from __future__ import annotations

from thpdiag.model import Clock, Moment


def clock_text(seconds: float, clock: str) -> str:
    """A moment for people: wall clocks as date and time, others as they count."""
    if clock == "day":
        whole = int(seconds) % 86400
        return f"{whole // 3600:02d}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    if clock == "boot":
        return f"{seconds:.1f} s after boot"
    days, rest = divmod(int(seconds), 86400)
    year, month, day = _civil(days)
    zone = " UTC" if clock == "utc" else ""
    return f"{year:04d}-{month:02d}-{day:02d} {rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}{zone}"


def spoken(moment: Moment) -> str:
    """A moment for people, with the zone of a local one."""
    zone = " local time" if moment.clock is Clock.LOCAL else ""
    return clock_text(moment.seconds, moment.clock) + zone


def _civil(days: int) -> tuple[int, int, int]:
    """Date of a day number since 1970-01-01 (proleptic Gregorian), for any year; datetime ends at 9999."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
