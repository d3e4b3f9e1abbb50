"""Condition lines: names of checks with `and`, `or`, `not`, `N of (...)`, in Kleene's three-valued logic.

convoy or (spinning and not network)
2 of (policy, busy, toggled)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from thpdiag.model import Verdict3

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

    def signed(self) -> Iterator[tuple[str, bool]]:
        """Each name with whether its yes speaks against the expression: those under an odd number of `not` do."""
        if self.op == "name":
            yield self.name, False
        for child in self.children:
            yield from ((name, against is not (self.op == "not")) for name, against in child.signed())

    def value(self, of: Callable[[str], Verdict3]) -> Verdict3:
        """Kleene's value of the expression, given the values of the checks."""
        if self.op == "name":
            return of(self.name)
        values = [child.value(of) for child in self.children]
        if self.op == "not":
            return negated(values[0])
        if self.op == "of":
            return at_least(self.count, values)
        return at_least(1 if self.op == "or" else len(values), values)

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


def negated(value: Verdict3) -> Verdict3:
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
    return _Parser(tokens, len(text)).whole()


class _Parser:
    """Recursive descent over the tokens: or < and < not < name, group, N of."""

    def __init__(self, tokens: list[tuple[str, str, int]], end: int) -> None:
        self._tokens, self._at, self._end = tokens, 0, end

    def whole(self) -> Expression:
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
            return self._counted(int(text))
        if kind != "word" or text in ("and", "or", "of"):
            raise self._error("expected the name of a check")
        self._at += 1
        return Expression("name", name=text)

    def _counted(self, count: int) -> Expression:
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
