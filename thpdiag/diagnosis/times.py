"""Moments and stretches of time in the words of the result, and when a recording was made, as far as anybody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.host.clock.anchors import anchors_of_profile, file_time
from thpdiag.model import Clock, Moment, Profile
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.text import path_name, sentence

_ORDER = (Clock.UTC, Clock.LOCAL, Clock.DAY)
NEAR = 5.0  # seconds by which a time may be off and yet be drawn beside those of other sources, which are further apart


def clock_text(moment: Moment) -> str:
    """A moment for people: wall clocks as date and time, others as they count."""
    seconds = moment.seconds
    days, rest = divmod(int(seconds), 86400)
    hour = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    if moment.clock is Clock.DAY:
        return hour
    if moment.clock is Clock.BOOT:
        return f"{seconds:.1f} s after boot"
    if moment.clock is Clock.SESSION:
        return f"{seconds:.0f} s into the session"
    year, month, day = _date(days)
    return f"{year:04d}-{month:02d}-{day:02d} {hour}{' UTC' if moment.clock is Clock.UTC else ''}"


def moment_text(moment: Moment) -> str:
    """A moment for people, with the zone of a local one."""
    return clock_text(moment) + (" local time" if moment.clock is Clock.LOCAL else "")


def stretch_text(window: tuple[Moment, Moment]) -> str:
    first, last = window
    return moment_text(first) if first == last else f"{moment_text(first)} to {moment_text(last)}"


def _date(days: int) -> tuple[int, int, int]:
    """Date of a day number since 1970-01-01 (proleptic Gregorian), for any year; datetime ends at 9999."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def recording_times(profile: Profile, anchors: Sequence[ClockAnchor]) -> dict[str, Any]:
    """`first` and `last` on their `clock`, and `when` in words. `anchors` are those of the host."""
    times: dict[str, Any] = {}
    if profile.has_time and profile.start and profile.end:
        first, last = (round(moment.seconds, 2) for moment in (profile.start, profile.end))
        times = {"first": first, "last": last, "clock": profile.start.clock.value}
    return {**times, "when": _profile_times(profile, anchors)}


def time_of_day(moment: Moment, profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    """A moment of the recording, with the time of day where it is known."""
    anchor = _best_anchor(profile, anchors)
    if moment.clock is not Clock.BOOT or anchor is None:
        return moment_text(moment)
    return f"{moment_text(anchor.wall_time(moment))} ({moment_text(moment)})"


def stretch_of_day(first: Moment, last: Moment, profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    """Two moments of the recording by the wall clock, and how sure that is; empty if it is not known."""
    anchor = _best_anchor(profile, anchors)
    if first.clock is not Clock.BOOT or anchor is None:
        return ""
    begin, end = (moment_text(anchor.wall_time(moment)) for moment in (first, last))
    return f"{begin} to {end} ({_accuracy(anchor, last)})"


def shared_axis(profile: Profile, anchors: Sequence[ClockAnchor]) -> tuple[ClockAnchor, str] | None:
    """What puts the recording's times on one axis with those of other sources, and how sure it is in words.

    None if nothing does with a date, or not well enough: a cause must not be drawn before or behind its effect.
    """
    anchor, end = _best_anchor(profile, anchors), profile.end
    if anchor is None or end is None or end.clock is not Clock.BOOT or anchor.zero.clock is Clock.DAY:
        return None
    return (anchor, _accuracy(anchor, end)) if anchor.uncertainty(end) <= NEAR else None


def _accuracy(anchor: ClockAnchor, at: Moment) -> str:
    off = anchor.uncertainty(at)
    if off < 0.5:
        return "exact"
    return f"give or take {off:.0f} s" if off < 120 else f"give or take {off / 60:.0f} min"


def _profile_times(profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    start, written, file = profile.start, file_time(profile), ""
    if written is not None:  # which does not say much
        date = moment_text(written).removesuffix(" local time")
        file = f" (perf found its file written {date}, in the time zone of the host that printed it)"
    if start is None or not profile.has_time:
        relative = profile.facts.get("clock", "").startswith("relative")
        why = "its times are relative to its first sample" if relative else "the source has no times"
        return f"when it was recorded is not known, {why}{file}"
    if start.clock is not Clock.BOOT:
        return f"from {moment_text(start)} on"
    anchor = _best_anchor(profile, anchors)
    if anchor is None:
        return f"from {moment_text(start)} on; the time of day is not known{file}"
    source = "" if anchor.cite == profile.cite else f" of {path_name(anchor.cite)}"
    return sentence(
        f"from {moment_text(anchor.wall_time(start))} on ({_accuracy(anchor, start)}, {anchor.how}{source})"
    )


def _best_anchor(profile: Profile, anchors: Sequence[ClockAnchor]) -> ClockAnchor | None:
    """One with a date before one without."""
    found = anchors_of_profile(profile, anchors)
    return min(found, key=lambda anchor: (_ORDER.index(anchor.zero.clock), anchor.within), default=None)
