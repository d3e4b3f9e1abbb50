"""Whether what a rule's checks saw was there at the same time: two conditions hours apart make no finding.

A check that says yes speaks of a stretch of time. Stretches on one clock, or joined to one, either meet or do not; of
others nobody can say that they were apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thpdiag.derive.boot_clock import Join
from thpdiag.derive.stretches import SHORT
from thpdiag.engine.classes import DYNAMIC
from thpdiag.engine.judged import UNKNOWN, YES, Answers, Judged
from thpdiag.model import Clock, Moment

APART = "; but not at the same time as the rest"


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds on a clock, as wide as they may be."""

    first: float
    last: float
    clock: Clock

    def holds(self, seconds: float, clock: Clock) -> bool:
        """Whether a moment is inside; perhaps, if the clocks differ."""
        return clock is not self.clock or self.first <= seconds <= self.last


def by_time(answers: Answers, known: Sequence[Join]) -> list[Answers]:
    """The answers; if they speak of several times, once for each, without what was not there then."""
    timed = {name: span for name, answer in answers.items() if (span := _span(answer, known))}
    groups: list[frozenset[str]] = []
    for one in timed.values():
        groups.append(frozenset(n for n, span in timed.items() if span.holds(one.first, one.clock)))
    largest = [g for g in dict.fromkeys(groups) if not any(g < other for other in groups)]
    if len(largest) < 2:
        return [answers]
    return [{n: a if n not in timed or n in group else _elsewhen(a) for n, a in answers.items()} for group in largest]


def _elsewhen(answer: Judged) -> Judged:
    return replace(answer, value=UNKNOWN, text=answer.text + APART)


def _span(answer: Judged, known: Sequence[Join]) -> Span | None:
    """When what an answer saw was there, on the wall clock if something tells it."""
    if answer.value is not YES or answer.kind not in DYNAMIC or answer.window is None:
        return None
    first, last = answer.window
    off = SHORT + max(first.within, last.within)
    if first.clock is Clock.BOOT and known:
        join = known[0]
        off += join.off(last)
        first, last = join.wall(first), join.wall(last)
    return _wide(first, last, off + answer.reach)


def _wide(first: Moment, last: Moment, off: float) -> Span | None:
    if first.clock is not last.clock or first.clock is Clock.DAY:
        return None  # of which day a time of day is nobody knows
    return Span(first.seconds - off, last.seconds + off, first.clock)
