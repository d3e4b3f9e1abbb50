"""Condition lines: precedence, three-valued logic, `N of`, and errors with their place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.engine.expression import Expression, ExpressionError, at_least, negate, parse
from thpdiag.model import Verdict3

NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES
NAMES = ("a", "b", "c")
WORLDS = [dict(zip(NAMES, values, strict=True)) for values in product(Verdict3, repeat=3)]
EXPRESSIONS = st.recursive(
    st.sampled_from(NAMES).map(lambda name: Expression("name", name=name)),
    lambda inner: st.one_of(
        inner.map(lambda e: Expression("not", children=(e,))),
        st.lists(inner, min_size=2, max_size=3).map(lambda es: Expression("and", children=tuple(es))),
        st.lists(inner, min_size=2, max_size=3).map(lambda es: Expression("or", children=tuple(es))),
        st.lists(inner, min_size=1, max_size=3).map(lambda es: Expression("of", children=tuple(es), count=len(es))),
    ),
    max_leaves=8,
)
STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def value(text: str, world: Mapping[str, Verdict3]) -> Verdict3:
    return parse(text).value(world.__getitem__)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a or b and c", "a or (b and c)"),
        ("not a and b", "(not a) and b"),
        ("not (a or b)", "(not a) and (not b)"),
        ("not not a", "a"),
        ("1 of (a, b, c)", "a or b or c"),
        ("3 of (a, b, c)", "a and b and c"),
        ("2 of (a, b, c)", "(a and b) or (a and c) or (b and c)"),
        ("a  and\nb", "a and b"),
        ("2 of (a or b, c)", "(a or b) and c"),
    ],
)
def test_precedence_and_equivalence(text: str, plain: str) -> None:
    """Both spellings have the same value in all 27 worlds."""
    assert [value(text, world) for world in WORLDS] == [value(plain, world) for world in WORLDS]


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "empty"), ("a and", 5, "name of a check"), ("a b", 2, "expected"), ("(a", 2, "expected ')'"), ("a)", 1,
        "expected"),
        ("2 of a", 5, "expected '('"), ("4 of (a, b)", 11, "never"), ("0 of (a)", 8, "never"), ("a & b", 2,
        "no place"), ("and", 0, "name of a check"),
        ("not", 3, "name of a check"), ("of", 0, "name of a check"), ("2 a", 2, "expected 'of'"), ("a, b", 1,
        "expected"), ("()", 1, "name of a check"),
    ],
)  # fmt: skip
def test_a_wrong_condition_is_pointed_at(text: str, at: int, says: str) -> None:
    """The offset and what was expected there."""
    with pytest.raises(ExpressionError, match=says.replace("(", r"\(").replace(")", r"\)")) as error:
        parse(text)
    assert error.value.at == at


@STABLE
@given(EXPRESSIONS)
def test_what_is_written_is_read_again(expression: Expression) -> None:
    """The text of a condition has its value."""
    again = parse(str(expression))
    assert [again.value(w.__getitem__) for w in WORLDS] == [expression.value(w.__getitem__) for w in WORLDS]


@STABLE
@given(EXPRESSIONS, st.sampled_from(WORLDS))
def test_more_knowledge_never_turns_an_answer(expression: Expression, world: dict[str, Verdict3]) -> None:
    """Kleene's law: where an unknown check is decided, a yes or no of the whole stays what it was."""
    before = expression.value(world.__getitem__)
    for name in (n for n in NAMES if world[n] is UNKNOWN):
        for known in (YES, NO):
            after = expression.value({**world, name: known}.__getitem__)
            assert before is UNKNOWN or after is before


@STABLE
@given(st.text(alphabet="abc ()of,and not 012\t#'\"", max_size=40))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    """Nothing else comes out, and the place of an error lies in the text."""
    try:
        at = 0 if parse(text) else 1
    except ExpressionError as error:
        at = error.at
    assert 0 <= at <= len(text)


def test_the_two_signs() -> None:
    """Negation turns round, `at_least` counts."""
    assert [negate(v) for v in (NO, UNKNOWN, YES)] == [YES, UNKNOWN, NO]
    assert at_least(1, [UNKNOWN, NO]) is UNKNOWN
    assert at_least(2, [YES, NO, NO]) is NO
    assert at_least(0, []) is YES


def test_names_come_in_reading_order() -> None:
    """As often as they stand."""
    assert list(parse("b or (a and not b)").names()) == ["b", "a", "b"]
