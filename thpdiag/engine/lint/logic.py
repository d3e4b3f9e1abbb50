"""The conditions of a rule as truth tables, with what is known of how its checks exclude or imply one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import inf

from thpdiag.engine.classes import INDEPENDENT, of_check
from thpdiag.engine.lint.truth import MOST_NAMES, Truth
from thpdiag.engine.load import Rule
from thpdiag.engine.quantity import quantity
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    FactCheck,
    ProfileCheck,
    SeriesCheck,
)
from thpdiag.knowledge.vocabulary import term

CONFIGURATION = ("configuration", "risk", "context")  # roles that state alone may confirm
OF_THE_WHOLE = ("mean", "last", "delta", "slope", "spread", "knee", "step", "since_boot_rate")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Tables of `when` and of the levels, within what is possible."""

    truth: Truth
    when: int
    levels: dict[str, int]


def conditions(rule: Rule) -> Conditions | None:
    """The tables of a rule; None if it has too many checks."""
    if len(rule.checks) > MOST_NAMES:
        return None
    truth = Truth(tuple(rule.checks))
    for one, other in permutations(rule.checks, 2):
        _relate(truth, rule, one, other)
    when = truth.of(rule.when) & truth.possible
    return Conditions(truth, when, {name: truth.of(e) & truth.possible for name, e in rule.confidence.items()})


def _relate(truth: Truth, rule: Rule, one: str, other: str) -> None:
    first, second = rule.checks[one], rule.checks[other]
    if isinstance(first, FactCheck) and isinstance(second, FactCheck) and first.fact == second.fact:
        _relate_words(truth, (one, _words(first)), (other, _words(second)))
    if _subject(first) is None or _subject(first) != _subject(second):
        return
    low, high = bounds(first)
    below, above = bounds(second)
    if _single(first, rule) and (low >= above or below >= high):
        truth.never_together(one, other)
    elif low >= below and high <= above and (low, high) != (below, above):
        truth.follows(one, other)


def _relate_words(truth: Truth, first: tuple[str, frozenset[str]], second: tuple[str, frozenset[str]]) -> None:
    if first[1] and second[1]:
        if not first[1] & second[1]:
            truth.never_together(first[0], second[0])
        elif first[1] < second[1]:
            truth.follows(first[0], second[0])


def _words(check: FactCheck) -> frozenset[str]:
    """The words that a setting of the whole host may have; none where there may be several values at once."""
    known = term(check.fact)
    if check.where or known is None or known.kind != "setting" or "(label" in known.means:
        return frozenset()
    return frozenset(map(str, check.one_of or ([] if check.is_ is None else [check.is_])))


def _subject(check: Check) -> object:
    """What two checks have in common whose bounds can be compared; None where that cannot be said."""
    match check:
        case SeriesCheck():
            return "series", check.series, check.as_, check.for_, check.min_samples
        case ChangeCheck():
            rest = check.change.model_copy(update={"above": None, "below": None})
            return "change", str(rest)
        case ProfileCheck():
            return "profile", str(check.profile.model_copy(update={"at_least": None, "below": None}))
        case FactCheck() if check.above is not None or check.below is not None:
            return "fact", check.fact, str(check.where)
        case _:
            return None


def _single(check: Check, rule: Rule) -> bool:
    """Whether there is one figure, so that it cannot be above one bound here and below the other there."""
    if isinstance(check, ProfileCheck):
        return check.profile.of in ("all", "symbol")
    if isinstance(check, SeriesCheck):
        known = term(check.series)
        one = known is not None and known.entity in ("system", rule.file.for_each)
        return one and check.as_ in OF_THE_WHOLE
    return isinstance(check, ChangeCheck)


def bounds(check: Check) -> tuple[float, float]:
    """Between what a figure must lie."""
    match check:
        case SeriesCheck() | FactCheck():
            low, high = check.above, check.below
        case ChangeCheck():
            low, high = check.change.above, check.change.below
        case ProfileCheck():
            low, high = check.profile.at_least, check.profile.below
        case _:
            low = high = None
    return (-inf if low is None else quantity(low), inf if high is None else quantity(high))


def is_total(check: Check) -> bool:
    """Whether a yes is a total since boot, which proves nothing about now."""
    if isinstance(check, SeriesCheck):
        return check.as_ == "since_boot_rate"
    known = term(check.fact) if isinstance(check, FactCheck) else None
    return known is not None and known.kind == "counter"


def caps(rule: Rule, truth: Truth) -> tuple[int, int]:
    """The combinations whose kinds of evidence license `likely`, and those that license `confirmed` (DESIGN 1)."""
    solid = {name: of_check(check) for name, check in rule.checks.items() if not is_total(check)}
    toggled = truth.any_of(name for name, kind in solid.items() if kind == "toggle")
    kinds = list(_by_kind(solid, truth))
    one, two = truth.at_least(1, kinds), truth.at_least(2, kinds)
    firm = _without_totals(rule, truth, solid)
    if rule.file.role in CONFIGURATION:
        seen = truth.any_of(solid)
        return seen & firm | toggled, ((seen & ~one) | two) & firm | toggled
    return one & firm | toggled, two & firm | toggled


def _without_totals(rule: Rule, truth: Truth, solid: Mapping[str, str]) -> int:
    """Where `when` holds without the totals since boot, or none of these says yes."""
    totals = [name for name in rule.checks if name not in solid]
    when = truth.of(rule.when)
    for name in totals:
        when = truth.whatever(name, when)
    return when | (truth.full & ~truth.any_of(totals))


def _by_kind(solid: dict[str, str], truth: Truth) -> Iterator[int]:
    for kind in sorted(set(INDEPENDENT.values())):
        yield truth.any_of(name for name, own in solid.items() if INDEPENDENT.get(own) == kind)
