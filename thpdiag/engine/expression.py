"""Condition lines: names of checks with `and`, `or`, `not`, `N of (...)`, in Kleene's three-valued logic.

convoy or (spinning and not network)
2 of (policy, busy, toggled)

The smallest change that would have made a condition true, or false, for `explain`.
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
_NEGATED = {NO: YES, UNKNOWN: UNKNOWN, YES: NO}


class ExpressionError(ValueError):
    """A condition that cannot be read; `at` is the offset in the text."""

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
        """Names of the checks, in reading order, repeated as they stand."""
        if self.op == "name":
            yield self.name
        for child in self.children:
            yield from child.names()

    def with_polarity(self) -> Iterator[tuple[str, bool]]:
        """Each name with whether its yes speaks against the expression: those under an odd number of `not` do."""
        if self.op == "name":
            yield self.name, False
        for child in self.children:
            yield from ((name, against is not (self.op == "not")) for name, against in child.with_polarity())

    def value(self, of: Callable[[str], Verdict3]) -> Verdict3:
        """Kleene's value of the expression, given the values of the checks."""
        if self.op == "name":
            return of(self.name)
        if self.op == "not":
            return _NEGATED[self.children[0].value(of)]
        needed = self.count if self.op == "of" else 1 if self.op == "or" else len(self.children)
        return at_least(needed, [child.value(of) for child in self.children])

    def values(self, of: Callable[[str], Ints]) -> Ints:
        """The same at many moments: 0 is no, 1 unknown, 2 yes."""
        if self.op == "name":
            return of(self.name)
        if self.op == "not":
            return 2 - self.children[0].values(of)
        values = [child.values(of) for child in self.children]
        if self.op == "of":
            return np.asarray(np.sort(values, axis=0)[-self.count])
        return np.asarray((np.maximum if self.op == "or" else np.minimum).reduce(values))

    def __str__(self) -> str:
        if self.op == "name":
            return self.name
        if self.op == "not":
            return f"not {self._inner(self.children[0])}"
        if self.op == "of":
            return f"{self.count} of ({', '.join(str(c) for c in self.children)})"
        return f" {self.op} ".join(self._inner(c) for c in self.children)

    @staticmethod
    def _inner(child: Expression) -> str:
        return f"({child})" if child.op in ("and", "or") else str(child)


def negate(value: Verdict3) -> Verdict3:
    return _NEGATED[value]


def at_least(needed: int, values: list[Verdict3]) -> Verdict3:
    """Yes if `needed` are yes, no if they cannot be, unknown between."""
    if values.count(YES) >= needed:
        return YES
    return UNKNOWN if len(values) - values.count(NO) >= needed else NO


def parse(text: str) -> Expression:
    """Read a condition line. ExpressionError with the offset if it is wrong."""
    tokens: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(f"'{text[at]}' has no place in a condition", at)
        kind = str(found.lastgroup)
        tokens.append((kind, found[kind], found.start(kind)))
        at = found.end()
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


def smallest_silencing_change(
    expression: Expression, values: Values, far: Mapping[str, float] | None = None
) -> Changes:
    """The fewest checks that would have to say the opposite for a condition that holds to hold no longer."""
    decided = [name for name in expression.names() if values[name] is not Verdict3.UNKNOWN]
    others = {name: [negate(values[name])] for name in decided}
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
