"""The smallest change that would have made a condition true, or false, for `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, product

from thpdiag.engine.expression import Expression, negated
from thpdiag.model import Verdict3

MOST_CHANGES = 4
FAR = 1e6  # how far a check without a number is from the other answer: farther than those with one
Values = Mapping[str, Verdict3]  # of checks, by name
Changes = list[tuple[str, Verdict3]]


def smallest_change(expression: Expression, values: Values, far: Mapping[str, float] | None = None) -> Changes:
    """The fewest checks, and the value each would need, that make the condition yes; empty if there is none.

    Among equally few, those that change an unknown come first: they may be a matter of missing input only. Then those
    that are nearest: `far` says how far the number of a check is from its bound, relative to that.
    """
    others = {name: [v for v in (Verdict3.YES, Verdict3.NO) if values[name] is not v] for name in expression.names()}
    return _fewest(expression, values, others, far or {}, lambda value: value is Verdict3.YES)


def silencing(expression: Expression, values: Values, far: Mapping[str, float] | None = None) -> Changes:
    """The fewest checks that would have to say the opposite for a condition that holds to hold no longer."""
    decided = [name for name in expression.names() if values[name] is not Verdict3.UNKNOWN]
    others = {name: [negated(values[name])] for name in decided}
    return _fewest(expression, values, others, far or {}, lambda value: value is not Verdict3.YES)


def _fewest(
    expression: Expression,
    values: Values,
    others: Mapping[str, Iterable[Verdict3]],
    far: Mapping[str, float],
    reached: Callable[[Verdict3], bool],
) -> Changes:
    """The fewest checks with one of their other values each with which the condition is as it should be."""
    for count in range(1, min(len(others), MOST_CHANGES) + 1):
        options = []
        for chosen in combinations(others, count):
            for given in product(*(others[name] for name in chosen)):
                wanted = list(zip(chosen, given, strict=True))
                if reached(expression.value({**values, **dict(wanted)}.__getitem__)):
                    unknown = sum(values[name] is Verdict3.UNKNOWN for name in chosen)
                    options.append((-unknown, sum(far.get(name, FAR) for name in chosen), wanted))
        if options:
            return min(options, key=lambda option: (*option[:2], str(option[2])))[2]
    return []
