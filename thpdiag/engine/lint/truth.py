"""Truth tables of conditions over the names of checks, as bits of whole numbers.

Two values are enough: in Kleene's logic a condition can become yes (no) by some answers exactly if it can by answers
without an unknown among them, for deciding an unknown never takes a decided outcome back. One bit per combination of
answers; `and`, `or` and `not` of conditions are those of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_

from thpdiag.engine.expression import Expression

MOST_NAMES = 14  # 16,384 combinations; longer conditions are not looked into


class Truth:
    """The table of some names. `possible` are the combinations that can occur (some checks rule one another out)."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.full = (1 << (1 << len(self.names))) - 1
        self.masks = {name: self._mask(at) for at, name in enumerate(self.names)}
        self.possible = self.full

    def _mask(self, at: int) -> int:
        """Ones where bit `at` of the number of the combination is set."""
        block = 1 << at
        period = ((1 << block) - 1) << block
        return period * (self.full // ((1 << (2 * block)) - 1))

    def of(self, expression: Expression) -> int:
        """The combinations of answers that make the condition yes."""
        if expression.op == "name":
            return self.masks[expression.name]
        values = [self.of(child) for child in expression.children]
        match expression.op:
            case "not":
                return self.full & ~values[0]
            case "and":
                return reduce(and_, values)
            case "or":
                return reduce(or_, values)
            case _:
                return self.at_least(expression.count, values)

    def at_least(self, count: int, values: Iterable[int]) -> int:
        """The combinations in which at least `count` of the tables hold."""
        reached = [self.full, *([0] * count)]
        for value in values:
            for number in range(count, 0, -1):
                reached[number] |= reached[number - 1] & value
        return reached[count]

    def any_of(self, names: Iterable[str]) -> int:
        """The combinations in which one of the checks says yes."""
        return reduce(or_, (self.masks[name] for name in names), 0)

    def never_together(self, one: str, other: str) -> None:
        """Take out the combinations in which both checks say yes."""
        self.possible &= self.full & ~(self.masks[one] & self.masks[other])

    def follows(self, one: str, other: str) -> None:
        """Take out the combinations in which `one` says yes and `other` does not."""
        self.possible &= self.full & ~(self.masks[one] & ~self.masks[other])

    def whatever(self, name: str, table: int) -> int:
        """The combinations in which the table holds with either answer of the check."""
        mask, width = self.masks[name], 1 << self.names.index(name)
        with_yes, with_no = table & mask, table & self.full & ~mask
        return (with_yes | with_yes >> width) & (with_no | with_no << width)

    def matters(self, name: str, tables: Iterable[int]) -> bool:
        """Whether another answer of the check changes one of the tables."""
        mask = self.masks[name]
        width = 1 << self.names.index(name)
        for table in tables:
            with_yes = (table & mask) >> width
            with_no = table & self.full & ~mask
            both = ((self.possible & mask) >> width) & self.possible & ~mask
            if (with_yes ^ with_no) & both:
                return True
        return False
