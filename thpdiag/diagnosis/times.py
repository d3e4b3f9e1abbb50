"""Moments and time ranges as text, and the time of a recording with its accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.host.clock.anchors import anchors_of_profile, file_time
from thpdiag.model import Clock, Moment, Profile
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.text import path_name, sentence

_CLOCK_ORDER = (Clock.UTC, Clock.LOCAL, Clock.DAY)
MAX_AXIS_ERROR_SECONDS = 5.0  # of a time that is drawn on one axis with other sources, whose rows are further apart


def clock_text(moment: Moment) -> str:
    """Return a moment as text: wall clocks as date and time, others as seconds."""
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
    """Return a moment as text, with "local time" if its zone is unknown."""
    return clock_text(moment) + (" local time" if moment.clock is Clock.LOCAL else "")


def stretch_text(window: tuple[Moment, Moment]) -> str:
    first, last = window
    return moment_text(first) if first == last else f"{moment_text(first)} to {moment_text(last)}"


def _date(days: int) -> tuple[int, int, int]:
    """Date of a day number since 1970-01-01 (proleptic Gregorian) for any year; datetime ends at 9999."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def recording_times(profile: Profile, anchors: Sequence[ClockAnchor]) -> dict[str, Any]:
    """Return `first` and `last` on their `clock`, and `when` in words. `anchors` are those of the host."""
    times: dict[str, Any] = {}
    if profile.has_time and profile.start and profile.end:
        first, last = (round(moment.seconds, 2) for moment in (profile.start, profile.end))
        times = {"first": first, "last": last, "clock": profile.start.clock.value}
    return {**times, "when": _profile_times(profile, anchors)}


def time_of_day(moment: Moment, profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    """Return a moment of the recording, with the time of day if it is known."""
    anchor = _best_anchor(profile, anchors)
    if moment.clock is not Clock.BOOT or anchor is None:
        return moment_text(moment)
    return f"{moment_text(anchor.wall_time(moment))} ({moment_text(moment)})"


def stretch_of_day(first: Moment, last: Moment, profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    """Return a time range of the recording by the wall clock with its accuracy; empty if that is unknown."""
    anchor = _best_anchor(profile, anchors)
    if first.clock is not Clock.BOOT or anchor is None:
        return ""
    start, end = (moment_text(anchor.wall_time(moment)) for moment in (first, last))
    return f"{start} to {end} ({_accuracy(anchor, last)})"


def shared_axis(profile: Profile, anchors: Sequence[ClockAnchor]) -> tuple[ClockAnchor, str] | None:
    """Return the anchor that maps the recording's times to the axis of other sources, and its accuracy in words.
    None without a dated anchor that is exact enough: a cause must not be drawn before or after its effect."""
    anchor, end = _best_anchor(profile, anchors), profile.end
    if anchor is None or end is None or end.clock is not Clock.BOOT or anchor.zero.clock is Clock.DAY:
        return None
    return (anchor, _accuracy(anchor, end)) if anchor.uncertainty(end) <= MAX_AXIS_ERROR_SECONDS else None


def _accuracy(anchor: ClockAnchor, moment: Moment) -> str:
    error = anchor.uncertainty(moment)
    if error < 0.5:
        return "exact"
    return f"give or take {error:.0f} s" if error < 120 else f"give or take {error / 60:.0f} min"


def _profile_times(profile: Profile, anchors: Sequence[ClockAnchor]) -> str:
    start, written, file = profile.start, file_time(profile), ""
    if written is not None:  # weak evidence of the recording time
        date = moment_text(written).removesuffix(" local time")
        file = f" (perf found its file written {date}, in the time zone of the host that printed it)"
    if start is None or not profile.has_time:
        relative = profile.facts.get("clock", "").startswith("relative")
        reason = "its times are relative to its first sample" if relative else "the source has no times"
        return f"when it was recorded is not known, {reason}{file}"
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
    """The anchor with the best clock: one with a date before one without."""
    candidates = anchors_of_profile(profile, anchors)
    return min(candidates, key=lambda anchor: (_CLOCK_ORDER.index(anchor.zero.clock), anchor.within), default=None)
