"""By how much a check was missed or met: the number it compares with, and the one that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thpdiag.engine.check_result import UNKNOWN, CheckResult
from thpdiag.engine.quantity import format_quantity, parse_duration, parse_quantity
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    SeriesCheck,
    ToggleCheck,
)
from thpdiag.knowledge.vocabulary import term

Limits = tuple[tuple[str, str | float | None], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """`word` is above, below, at least or for (how long it must hold); values are in base units of `unit`."""

    word: str
    limit: float
    measured: float
    unit: str

    @property
    def is_met(self) -> bool:
        if self.word == "above":
            return self.measured > self.limit
        return self.measured < self.limit if self.word == "below" else self.measured >= self.limit

    @property
    def gap(self) -> float:
        return abs(self.limit - self.measured)

    @property
    def part(self) -> float:
        """The gap relative to the bound: how near it was."""
        return self.gap / abs(self.limit) if self.limit else self.gap

    def margin(self) -> str:
        """How it came out."""
        limit, gap = format_quantity(self.limit, self.unit), format_quantity(self.gap, self.unit)
        return f"{self.word} {limit}: {'met' if self.is_met else 'missed'} by {gap}"

    def describe(self) -> str:
        """What it would take to be on the other side."""
        more = (self.word == "below") is self.is_met
        much = f"{format_quantity(self.gap, self.unit)} {'more' if more else 'less'}"
        if self.word == "for":
            longer = f"{format_quantity(self.gap, self.unit)} {'longer' if more else 'shorter'}"
            far = longer if self.unit == "seconds" else much
            held, needed = _format_duration(self.measured, self.unit), _format_duration(self.limit, self.unit)
            return f"it held {held} of {needed} needed: {far}"
        limit, measured = format_quantity(self.limit, self.unit), format_quantity(self.measured, self.unit)
        return f"{self.word} {limit}: measured {measured}, {much}"


def _format_duration(value: float, unit: str) -> str:
    return f"for {format_quantity(value, unit)}" if unit == "seconds" else f"in {format_quantity(value, unit)}"


def deciding_bound(check: Check, answer: CheckResult) -> Bound | None:
    """The bound that the answer hangs on: of an answer of no the first that was not met, of a yes the nearest one."""
    every = list(check_bounds(check, answer))
    unmet = [bound for bound in every if not bound.is_met]
    if unmet:
        return unmet[0]
    lasted = [bound for bound in every if bound.word == "for"]
    return min(lasted or every, key=lambda bound: bound.part, default=None)


def check_bounds(check: Check, answer: CheckResult) -> Iterator[Bound]:
    """All numbers that the check compares with what it measured; none where it measured nothing."""
    measured = answer.measured
    if answer.value is UNKNOWN or isinstance(measured, str) or measured is None:
        return
    unit = answer.unit
    if isinstance(check, FactCheck) and not unit:
        unit = known.unit if (known := term(check.fact)) else ""
    for word, limit in _limits(check, answer):
        if limit is not None:
            yield Bound(word, parse_quantity(limit), float(measured), unit)
    if isinstance(check, SeriesCheck) and check.for_ and answer.held is not None:
        must = parse_duration(check.for_)
        needed = must.seconds if must.seconds is not None else must.share if must.samples is None else must.samples
        of = "seconds" if must.seconds is not None else "ratio" if must.share is not None else "samples"
        yield Bound("for", float(needed or 0), answer.held, of)


def _limits(check: Check, answer: CheckResult) -> Limits:
    match check:
        case SeriesCheck() | FactCheck():
            return (("above", check.above), ("below", check.below))
        case ChangeCheck():
            change = check.change
            if answer.short_of == "at_least":
                return (("at least", change.at_least),)
            return (("above", change.above), ("below", change.below))
        case ProfileCheck():
            return (("at least", check.profile.at_least), ("below", check.profile.below))
        case ProcessCheck():
            return (("above", check.process.cpu_above),)
        case EventCheck():
            return (("at least", check.at_least),)
        case ToggleCheck():
            return (("at least", check.toggle.ratio),)
        case _:
            return ()
