"""The smallest change that would have made a rule fire."""

from __future__ import annotations

from itertools import product

import pytest

from thpdiag.engine.expression import parse, smallest_change, smallest_silencing_change
from thpdiag.model import Verdict3

NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("a and b", {"a": YES, "b": NO}, [("b", YES)]),
        ("a and b", {"a": NO, "b": NO}, [("a", YES), ("b", YES)]),
        ("a or b", {"a": NO, "b": UNKNOWN}, [("b", YES)]),
        ("a and not b", {"a": YES, "b": YES}, [("b", NO)]),
        ("a", {"a": YES}, []),
        ("2 of (a, b, c)", {"a": YES, "b": NO, "c": UNKNOWN}, [("c", YES)]),
    ],
)
def test_the_fewest_checks_are_named(
    text: str, values: dict[str, Verdict3], wanted: list[tuple[str, Verdict3]]
) -> None:
    """Unknown ones first: they may be a matter of input only."""
    found = [] if parse(text).value(values.__getitem__) is YES else smallest_change(parse(text), values)
    assert found == wanted


@pytest.mark.parametrize("text", ["a and (b or not c)", "2 of (a, b, c)", "not a and not (b and c)", "a or b and c"])
def test_the_change_does_what_it_says(text: str) -> None:
    """In every world the changed world fires, and no single further step is wasted."""
    expression = parse(text)
    for values in (dict(zip("abc", v, strict=True)) for v in product(Verdict3, repeat=3)):
        if expression.value(values.__getitem__) is YES:
            continue
        change = dict(smallest_change(expression, values))
        assert expression.value({**values, **change}.__getitem__) is YES
        for name in change:
            fewer = {n: v for n, v in change.items() if n != name}
            assert expression.value({**values, **fewer}.__getitem__) is not YES


@pytest.mark.parametrize("text", ["a and (b or not c)", "2 of (a, b, c)", "not a and not (b and c)", "a or b and c"])
def test_what_silences_does_so(text: str) -> None:
    """In every world that fires the turned one does not, no step is wasted, and only decided checks are turned."""
    expression = parse(text)
    for values in (dict(zip("abc", v, strict=True)) for v in product(Verdict3, repeat=3)):
        if expression.value(values.__getitem__) is not YES:
            continue
        change = dict(smallest_silencing_change(expression, values))
        assert expression.value({**values, **change}.__getitem__) is not YES
        assert all({to, values[name]} == {YES, NO} for name, to in change.items())
        for name in change:
            fewer = {n: v for n, v in change.items() if n != name}
            assert expression.value({**values, **fewer}.__getitem__) is YES


def test_of_two_that_silence_the_nearer_is_named() -> None:
    """The check whose number is next to its bound."""
    assert smallest_silencing_change(parse("a and b"), {"a": YES, "b": YES}, {"a": 0.5, "b": 0.1}) == [("b", NO)]


def test_what_can_never_fire_has_no_change() -> None:
    """A contradiction is not explained away."""
    assert smallest_change(parse("a and not a"), {"a": NO}) == []
