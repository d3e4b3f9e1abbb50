"""When a recording was made, as far as anybody knows: its times, and the wall clock's if something joins the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.derive.boot_clock import Join, captured, joins_of
from thpdiag.model import Clock, Moment, Profile
from thpdiag.result.moments import spoken

_ORDER = (Clock.UTC, Clock.LOCAL, Clock.DAY)
NEAR = 5.0  # seconds by which a time may be off and yet be drawn beside those of other sources, which are further apart


def recorded(profile: Profile, known: Sequence[Join]) -> dict[str, Any]:
    """`first` and `last` on their `clock`, and `when` in words. `known` are the joins of the host."""
    times: dict[str, Any] = {}
    if profile.has_time and profile.start and profile.end:
        times = {
            "first": round(profile.start.seconds, 2),
            "last": round(profile.end.seconds, 2),
            "clock": profile.start.clock.value,
        }
    return {**times, "when": _when(profile, known)}


def of_day(moment: Moment, profile: Profile, known: Sequence[Join]) -> str:
    """A moment of the recording, with the time of day where it is known."""
    join = _best(profile, known)
    if moment.clock is not Clock.BOOT or join is None:
        return spoken(moment)
    return f"{spoken(join.wall(moment))} ({spoken(moment)})"


def stretch_of_day(first: Moment, last: Moment, profile: Profile, known: Sequence[Join]) -> str:
    """Two moments of the recording by the wall clock, and how sure that is; empty if it is not known."""
    join = _best(profile, known)
    if first.clock is not Clock.BOOT or join is None:
        return ""
    return f"{spoken(join.wall(first))} to {spoken(join.wall(last))} ({_sure(join, last)})"


def beside_others(profile: Profile, known: Sequence[Join]) -> tuple[Join, str] | None:
    """What puts the recording's times on one axis with those of other sources, and how sure it is in words.

    None if nothing does with a date, or not well enough: a cause must not be drawn before or behind its effect.
    """
    join, end = _best(profile, known), profile.end
    if join is None or end is None or end.clock is not Clock.BOOT or join.zero.clock is Clock.DAY:
        return None
    return (join, _sure(join, end)) if join.off(end) <= NEAR else None


def _sure(join: Join, at: Moment) -> str:
    off = join.off(at)
    if off < 0.5:
        return "exact"
    return f"give or take {off:.0f} s" if off < 120 else f"give or take {off / 60:.0f} min"


def _when(profile: Profile, known: Sequence[Join]) -> str:
    start = profile.start
    if start is None or not profile.has_time:
        relative = profile.facts.get("clock", "").startswith("relative")
        why = "its times only count from its first sample" if relative else "the source has no times"
        return f"when it was recorded is not known, {why}{_file(profile)}"
    if start.clock is not Clock.BOOT:
        return f"from {spoken(start)} on"
    join = _best(profile, known)
    if join is None:
        return f"from {spoken(start)} on; the time of day is not known{_file(profile)}"
    source = "" if join.cite == profile.cite else f" of {join.cite}"
    return f"from {spoken(join.wall(start))} on ({_sure(join, start)}, {join.how}{source})"


def _best(profile: Profile, known: Sequence[Join]) -> Join | None:
    """One with a date before one without."""
    found = joins_of(profile, known)
    return min(found, key=lambda join: (_ORDER.index(join.zero.clock), join.within), default=None)


def _file(profile: Profile) -> str:
    """What the time of the file says, which is not much."""
    written = captured(profile)
    if written is None:
        return ""
    date = spoken(written).removesuffix(" local time")
    return f" (perf found its file written {date}, in the zone of whoever printed it)"
