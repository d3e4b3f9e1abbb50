"""Conditions: names of checks with `and`, `or`, `not`, `N of (...)`, in Kleene's three-valued logic.

    convoy or (spinning and not network)
    2 of (policy, busy, toggled)

Also the smallest change that would make a condition true or false, for `explain`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from thpdiag.model import Verdict3
from thpdiag.model.numeric import Ints, np

_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z_][\w-]*)|(?P<number>\d+)|(?P<sign>[(),]))")
NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES
_NEGATION = {NO: YES, UNKNOWN: UNKNOWN, YES: NO}


class ExpressionError(ValueError):
    """A syntax error in a condition; `at` is the offset in the text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Expression:
    """`op` is `name`, `not`, `and`, `or` or `of` (then `count` of the children)."""

    op: str
    name: str = ""
    children: tuple[Expression, ...] = ()
    count: int = 0

    def names(self) -> Iterator[str]:
        """Yield the names of the checks in reading order, with repetitions."""
        if self.op == "name":
            yield self.name
        for child in self.children:
            yield from child.names()

    def with_polarity(self) -> Iterator[tuple[str, bool]]:
        """Yield each name, and whether it is negated: under an odd number of `not`."""
        if self.op == "name":
            yield self.name, False
        for child in self.children:
            yield from ((name, against is not (self.op == "not")) for name, against in child.with_polarity())

    def value(self, value_of: Callable[[str], Verdict3]) -> Verdict3:
        """Return Kleene's value of the expression, given a function that returns the value of a check."""
        if self.op == "name":
            return value_of(self.name)
        if self.op == "not":
            return _NEGATION[self.children[0].value(value_of)]
        needed = self.count if self.op == "of" else 1 if self.op == "or" else len(self.children)
        return at_least(needed, [child.value(value_of) for child in self.children])

    def values(self, values_of: Callable[[str], Ints]) -> Ints:
        """Return the values at many times at once: 0 is no, 1 unknown, 2 yes."""
        if self.op == "name":
            return values_of(self.name)
        if self.op == "not":
            return 2 - self.children[0].values(values_of)
        values = [child.values(values_of) for child in self.children]
        if self.op == "of":
            return np.asarray(np.sort(values, axis=0)[-self.count])
        return np.asarray((np.maximum if self.op == "or" else np.minimum).reduce(values))

    def __str__(self) -> str:
        if self.op == "name":
            return self.name
        if self.op == "not":
            return f"not {self._parenthesised(self.children[0])}"
        if self.op == "of":
            return f"{self.count} of ({', '.join(str(c) for c in self.children)})"
        return f" {self.op} ".join(self._parenthesised(c) for c in self.children)

    @staticmethod
    def _parenthesised(child: Expression) -> str:
        return f"({child})" if child.op in ("and", "or") else str(child)


def negate(value: Verdict3) -> Verdict3:
    return _NEGATION[value]


def at_least(needed: int, values: list[Verdict3]) -> Verdict3:
    """Yes if at least `needed` values are yes, no if that is impossible, else unknown."""
    if values.count(YES) >= needed:
        return YES
    return UNKNOWN if len(values) - values.count(NO) >= needed else NO


def parse(text: str) -> Expression:
    """Parse a condition. Raise ExpressionError with the offset of a syntax error."""
    tokens: list[tuple[str, str, int]] = []
    offset = 0
    while offset < len(text.rstrip()):
        match = _TOKEN.match(text, offset)
        if not match:
            offset += len(text[offset:]) - len(text[offset:].lstrip())
            raise ExpressionError(f"'{text[offset]}' has no place in a condition", offset)
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind], match.start(kind)))
        offset = match.end()
    return _Parser(tokens, len(text)).parse()


class _Parser:
    """Recursive descent over the tokens: or < and < not < name, group, N of."""

    def __init__(self, tokens: list[tuple[str, str, int]], end: int) -> None:
        self._tokens, self._at, self._end = tokens, 0, end

    def parse(self) -> Expression:
        if not self._tokens:
            raise ExpressionError("the condition is empty", 0)
        result = self._chain("or")
        if self._at < len(self._tokens):
            raise self._error("expected 'and', 'or' or the end")
        return result

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _error(self, message: str) -> ExpressionError:
        where = self._tokens[self._at][2] if self._at < len(self._tokens) else self._end
        return ExpressionError(message, where)

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise self._error(f"expected '{wanted}'")
        self._at += 1

    def _chain(self, op: str) -> Expression:
        part = self._unary if op == "and" else lambda: self._chain("and")
        items = [part()]
        while self._peek() == op:
            self._at += 1
            items.append(part())
        return items[0] if len(items) == 1 else Expression(op, children=tuple(items))

    def _unary(self) -> Expression:
        if self._peek() == "not":
            self._at += 1
            return Expression("not", children=(self._unary(),))
        if self._peek() == "(":
            self._at += 1
            inner = self._chain("or")
            self._take(")")
            return inner
        kind, text, _ = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
        if kind == "number":
            return self._n_of(int(text))
        if kind != "word" or text in ("and", "or", "of"):
            raise self._error("expected the name of a check")
        self._at += 1
        return Expression("name", name=text)

    def _n_of(self, count: int) -> Expression:
        self._at += 1
        self._take("of")
        self._take("(")
        items = [self._chain("or")]
        while self._peek() == ",":
            self._at += 1
            items.append(self._chain("or"))
        self._take(")")
        if not 1 <= count <= len(items):
            raise self._error(f"{count} of {len(items)} can never be right")
        return Expression("of", children=tuple(items), count=count)


MAX_CHANGES = 4
UNMEASURED_DISTANCE = 1e6  # distance of a check without a number: larger than all others
Values = Mapping[str, Verdict3]  # of checks, by name
Changes = list[tuple[str, Verdict3]]


def smallest_change(expression: Expression, values: Values, distances: Mapping[str, float] | None = None) -> Changes:
    """Return the fewest checks, with the value each would need, that make the condition yes; empty if there are none.

    Of equally few, unknown checks are preferred, because only input may be missing. Then the nearest ones: `distances`
    is how far the measured value of a check is from its bound, relative to the bound.
    """
    choices = {name: [v for v in (Verdict3.YES, Verdict3.NO) if values[name] is not v] for name in expression.names()}
    return _smallest_change(expression, values, choices, distances or {}, lambda value: value is Verdict3.YES)


def smallest_silencing_change(
    expression: Expression, values: Values, distances: Mapping[str, float] | None = None
) -> Changes:
    """Return the fewest checks that would need the opposite value for a condition to hold no longer."""
    decided = [name for name in expression.names() if values[name] is not Verdict3.UNKNOWN]
    choices = {name: [negate(values[name])] for name in decided}
    return _smallest_change(expression, values, choices, distances or {}, lambda value: value is not Verdict3.YES)


def _smallest_change(
    expression: Expression,
    values: Values,
    choices: Mapping[str, Iterable[Verdict3]],
    distances: Mapping[str, float],
    is_reached: Callable[[Verdict3], bool],
) -> Changes:
    """Return the fewest checks, each with an alternative value, for which the value of the condition is as required."""
    for count in range(1, min(len(choices), MAX_CHANGES) + 1):
        options = []
        for names in combinations(choices, count):
            for new_values in product(*(choices[name] for name in names)):
                changes = list(zip(names, new_values, strict=True))
                if is_reached(expression.value({**values, **dict(changes)}.__getitem__)):
                    unknown = sum(values[name] is Verdict3.UNKNOWN for name in names)
                    options.append((-unknown, sum(distances.get(name, UNMEASURED_DISTANCE) for name in names), changes))
        if options:
            return min(options, key=lambda option: (*option[:2], str(option[2])))[2]
    return []
