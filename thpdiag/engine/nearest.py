"""The smallest change that would have made a condition true, or false, for `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from thpdiag.engine.expression import Expression, negated
from thpdiag.model import Verdict3

MOST_CHANGES = 4
FAR = 1e6  # how far a check without a number is from the other answer: farther than those with one


def smallest_change(
    expression: Expression, values: Mapping[str, Verdict3], far: Mapping[str, float] | None = None
) -> list[tuple[str, Verdict3]]:
    """The fewest checks, and the value each would need, that make the condition yes; empty if there is none.

    Among equally few, those that change an unknown come first: they may be a matter of missing input only. Then those
    that are nearest: `far` says how far the number of a check is from its bound, relative to that.
    """
    far = far or {}
    names = list(dict.fromkeys(expression.names()))
    for count in range(1, min(len(names), MOST_CHANGES) + 1):
        options = []
        for chosen in combinations(names, count):
            for wanted in _assignments(chosen, values):
                changed = {**values, **dict(wanted)}
                if expression.value(lambda name, changed=changed: changed[name]) is Verdict3.YES:  # type: ignore[misc]
                    unknown = sum(values[name] is Verdict3.UNKNOWN for name in chosen)
                    options.append((-unknown, sum(far.get(name, FAR) for name in chosen), wanted))
        if options:
            return list(min(options, key=lambda option: (*option[:2], str(option[2])))[2])
    return []


def silencing(
    expression: Expression, values: Mapping[str, Verdict3], far: Mapping[str, float] | None = None
) -> list[tuple[str, Verdict3]]:
    """The fewest checks that would have to say the opposite for a condition that holds to hold no longer."""
    decided = {name: value for name, value in values.items() if value is not Verdict3.UNKNOWN}
    names = [name for name in dict.fromkeys(expression.names()) if name in decided]
    for count in range(1, min(len(names), MOST_CHANGES) + 1):
        options = []
        for chosen in combinations(names, count):
            turned = {name: negated(decided[name]) for name in chosen}
            changed = {**values, **turned}
            if expression.value(lambda name, changed=changed: changed[name]) is not Verdict3.YES:  # type: ignore[misc]
                options.append((sum((far or {}).get(name, FAR) for name in chosen), list(turned.items())))
        if options:
            return min(options, key=lambda option: (option[0], str(option[1])))[1]
    return []


def _assignments(names: tuple[str, ...], values: Mapping[str, Verdict3]) -> list[list[tuple[str, Verdict3]]]:
    """Every way to give each of the names a decided value other than its own."""
    found: list[list[tuple[str, Verdict3]]] = [[]]
    for name in names:
        found = [
            [*one, (name, value)] for one in found for value in (Verdict3.YES, Verdict3.NO) if values[name] is not value
        ]
    return found
