"""Several sources of one metric that do not say the same: which of them counts, and how the others are named.

The best source decides (`thpdiag.derive.catalogue`). A yes of another one counts only for what the best one could not
see: it happened at another time, or was over before two of the longer intervals of the best one had passed, which then
shows an average of it. Sources that saw the same time and differ all the same contradict each other: one of them is
wrong, and the poorer one is no proof.
"""

from __future__ import annotations

from collections.abc import Iterable

from thpdiag.derive.intervals import typical
from thpdiag.derive.series import SURE, Track
from thpdiag.engine.judged import NO, UNKNOWN, YES, Judged
from thpdiag.engine.lasting import lasting
from thpdiag.engine.schema import SeriesCheck
from thpdiag.model import Clock, Verdict3

SEEN = 0.5  # part of the time in question that the best source must have rows for
LONGER = 1.5  # times the interval of the other source: a longer one hides what that one shows
WITHOUT_END = ("level", "rate")  # values that are looked at one by one
MOST_NAMED = 2  # further sources


def hidden(check: SeriesCheck, answer: Judged, other: Track, best: Track) -> bool:
    """Whether the best source could not see what another one shows."""
    return not _saw(answer, other, best) or _too_brief(check, other, best)


def _saw(answer: Judged, other: Track, best: Track) -> bool:
    """Whether the best source has rows for most of the time that the answer speaks of; not without a common clock."""
    seconds, clocks = best.seconds, {other.table.clock, best.table.clock}
    undated = Clock.DAY in clocks and other.table.member != best.table.member
    window = answer.window or other.points.span
    if seconds is None or window is None or len(clocks) > 1 or undated:
        return False
    first, last = (moment.seconds for moment in window)
    first -= answer.reach
    if other.table.off + best.table.off > SURE * (last - first):
        return False
    count = int(((seconds > first) & (seconds <= last + typical(seconds))).sum())
    return count * typical(seconds) >= SEEN * (last - first)


def _too_brief(check: SeriesCheck, other: Track, best: Track) -> bool:
    """Whether what must last at least so long may do so between two looks of the best source."""
    if check.as_ not in WITHOUT_END or best.seconds is None or other.seconds is None:
        return False
    looks, must = typical(best.seconds), lasting(check.for_)
    if must.seconds is not None:
        return 2 * looks > must.seconds
    return must.samples is not None and looks > LONGER * typical(other.seconds)


def named(others: Iterable[tuple[str, Judged]], used: str, value: Verdict3) -> str:
    """The other sources by their names: those that say the same or nothing, and those that differ.

    A member that holds several recordings differs if none of them says the same.
    """
    same: dict[str, None] = {}
    differ: dict[str, None] = {}
    for member, answer in others:
        (differ if answer.value in _others(value) else same)[member] = None
    also = [name for name in same if name != used]
    against = [name for name in differ if name != used and name not in same]
    return _list("also recorded in", also) + _list("not so in", against)


def _others(value: Verdict3) -> tuple[Verdict3, ...]:
    return tuple(v for v in (YES, NO) if v is not value and value is not UNKNOWN)


def _list(words: str, names: list[str]) -> str:
    """The first ones of many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"; {words} {', '.join(names[:MOST_NAMED])}{more}" if names else ""
