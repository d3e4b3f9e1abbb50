"""Functions with callers and callees: shares over all stacks, each stack once."""

from __future__ import annotations

import pytest

from thpdiag.model.result import Profile
from thpdiag.report.charts.sandwich import MAX_FUNCTIONS, MAX_MARKED, functions, neighbours


def profile(*folded: tuple[str, float], **more: object) -> Profile:
    return Profile.model_validate({"folded": [list(one) for one in folded], **more})


def test_shares_are_of_all_stacks_through_a_function() -> None:
    """Own, with all that it called, and by caller and callee; a task calls the first function."""
    made = profile(("java;a;b;c", 0.2), ("java;a;c", 0.1), ("cc;b;c", 0.3), ("java;a", 0.05))
    found = {one.name: one for one in functions(made)}
    assert [found["c"].own, found["c"].share, found["a"].share] == pytest.approx([0.6, 0.6, 0.35])
    assert [name for name, _ in neighbours(found["c"].callers)] == ["b", "a"]
    assert found["c"].callers == pytest.approx({"b": 0.5, "a": 0.1})
    assert found["a"].callees == pytest.approx({"b": 0.2, "c": 0.1})
    assert found["a"].callers == pytest.approx({"java": 0.35})


def test_a_function_that_calls_itself_counts_once() -> None:
    """A stack of ten calls of one function is no ten times the time."""
    (found,) = functions(profile((";".join(["t", *["f"] * 10]), 0.4)))
    assert [found.share, found.own] == pytest.approx([0.4, 0.4])
    assert found.callees == pytest.approx({"f": 0.4})


def test_what_findings_rest_on_is_listed_too() -> None:
    """The hottest by their own share, then those of findings, which often only call others."""
    hot = [(f"t;root;f{n}", 0.01 + n / 10_000) for n in range(40)]
    found = functions(profile(*hot, ("t;root;quiet;f1", 0.02), matched=["quiet", "gone"]))
    assert len(found) == MAX_FUNCTIONS + 1 <= MAX_FUNCTIONS + MAX_MARKED
    assert found[-1].name == "quiet"
    assert found[-1].marked
    assert not found[0].marked


def test_odd_shares_are_left_out() -> None:
    """Nothing to divide by, nothing below 0, no stack."""
    assert functions(profile()) == functions(profile(("t", 0.5), ("t;a", 0.0))) == []
