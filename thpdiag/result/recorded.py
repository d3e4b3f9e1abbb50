"""When a recording was made, as far as anybody knows: its times, and the wall clock's if something joins the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.derive.boot_clock import Join, captured, join_of
from thpdiag.model import Clock, Moment, Profile
from thpdiag.result.moments import spoken

_ORDER = (Clock.UTC, Clock.LOCAL, Clock.DAY)


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


def _when(profile: Profile, known: Sequence[Join]) -> str:
    start = profile.start
    if start is None or not profile.has_time:
        relative = profile.facts.get("clock", "").startswith("relative")
        why = "its times only count from the first sample" if relative else "it has no times"
        return f"{why}: when it was recorded is not known{_file(profile)}"
    if start.clock is not Clock.BOOT:
        return f"from {spoken(start)} on"
    join = _best(profile, known)
    if join is None:
        return f"from {spoken(start)} on; the time of day is not known{_file(profile)}"
    off = join.off(start)
    sure = "exact" if off < 0.5 else f"give or take {_about(off)}"
    source = "" if join.cite == profile.cite else f" of {join.cite}"
    return f"from {spoken(join.wall(start))} on ({sure}, {join.how}{source})"


def _best(profile: Profile, known: Sequence[Join]) -> Join | None:
    """One with a date before one without."""
    found = join_of(profile, known)
    return min(found, key=lambda join: (_ORDER.index(join.zero.clock), join.within), default=None)


def _about(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _file(profile: Profile) -> str:
    """What the time of the file says, which is not much."""
    written = captured(profile)
    if written is None:
        return ""
    date = spoken(written).removesuffix(" local time")
    return f" (perf found its file written {date}, in the zone of whoever printed it)"
