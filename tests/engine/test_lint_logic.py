"""What `rules lint` says of conditions and confidence: truth tables, and evidence that licenses a level."""

from __future__ import annotations

import random
from itertools import product

import pytest

from analyze_bytes import rules
from faulty_rules import GOOD, marked, one_complaint, rule, said
from thpdiag.authoring.cases import build_host, load_cases
from thpdiag.engine.check_result import check_class
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.expression import parse
from thpdiag.engine.lint.conditions import Truth
from thpdiag.engine.load import builtin_rules, with_dependencies
from thpdiag.engine.state_view import state_views
from thpdiag.errors import RuleError
from thpdiag.model import Verdict3

WHEN = "when: stalling and compacting\nconfidence:\n  likely: policy\n"
MORE = "  busy: {series: cpu_ratio.sys_total, as: mean, above: $share}\n"
IDLE = "  idle: {series: cpu_ratio.sys_total, as: mean, below: $share}\n"
TOTAL = "  total: {series: node_vmstat_compact_fail, as: since_boot_rate, above: $stalls}\n"
STACKS_ALONE = GOOD.replace(
    "series: node_vmstat_compact_stall, as: rate, above: $stalls, for: $stall", "fact: app, is: redis"
).replace(WHEN, "when: compacting\nconfidence:\n  «confirmed: stalling and policy\n")
TOTAL_ALONE = GOOD.replace("as: rate, above: $stalls, for: $stall", "as: since_boot_rate, above: $stalls").replace(
    WHEN, "when: stalling and policy\nconfidence:\n  «likely: compacting\n"
)
# What a mistake in the logic of a rule may bring along.
BESIDES = {"unused-check", "unused-parameter", "level-without-case", "level-without-evidence"}
CONDITIONS = [
    (
        "unused-check",
        "",
        "",
        GOOD.replace("  policy:", "  «policy:").replace("likely: policy", "likely: stalling"),
        "take it out",
    ),
    (
        "always-true",
        "",
        "«when: stalling or compacting or not (stalling and compacting)\nconfidence:\n  likely: policy and stalling\n",
        "",
        "is true for any outcome",
    ),
    ("never-true", "", "«when: stalling and not stalling and compacting and policy\n", "", "by its form"),
    (
        "never-true",
        IDLE + MORE,
        "«when: stalling and compacting and policy and idle and busy\n",
        "",
        "exclude one another",
    ),
    (
        "useless-check",
        "",
        "when: stalling or (stalling and «compacting)\nconfidence:\n  likely: policy\n",
        "",
        "'compacting' changes nothing",
    ),
    (
        "fires-on-absence",
        "",
        "«when: not stalling or compacting\nconfidence:\n  likely: policy and stalling\n",
        "",
        "must be seen",
    ),
    ("cause-by-setting", "", "«when: policy or (stalling and compacting)\n", "", "which is a risk"),
    (
        "same-check-twice",
        "  «again: {fact: thp.defrag, one_of: [always]}\n",
        WHEN.replace("policy", "policy and again"),
        "",
        "asks what 'policy'",
    ),
    ("same-levels", "", WHEN + "  «confirmed: policy and stalling\n", "", "have the same condition"),
    (
        "same-levels",
        "",
        "when: stalling or compacting\nconfidence:\n  «likely: stalling and compacting\n"
        "  confirmed: stalling and (compacting or policy) or compacting\n",
        "",
        "never used",
    ),
    ("unreachable-level", "", WHEN + "  «confirmed: not stalling\n", "", "its condition excludes `when`"),
    ("level-beyond-evidence", "", "", STACKS_ALONE, "two kinds of stack"),
    ("level-beyond-evidence", "", "", TOTAL_ALONE, "likely can never be given"),
    (
        "level-without-evidence",
        "",
        "when: stalling or compacting\nconfidence:\n  «confirmed: policy\n",
        "",
        "would hold by stalling, policy alone",
    ),
    ("level-by-total", TOTAL, WHEN + "  confirmed: stalling and «total\n", "", "'total' is a total since boot"),
]


@pytest.mark.parametrize(
    ("name", "checks", "conditions", "whole", "words"),
    CONDITIONS,
    ids=[f"{at}-{row[0]}" for at, row in enumerate(CONDITIONS)],
)
def test_a_condition_that_says_something_else_than_it_seems_is_said(
    name: str, checks: str, conditions: str, whole: str, words: str
) -> None:
    """Each by its truth table, at the key or at the word inside the expression."""
    text = whole or GOOD.replace("when: stalling", f"{checks}when: stalling").replace(WHEN, conditions or WHEN)
    text, place = marked(text)
    found = said(text)

    one_complaint([line for line in found if f"[{name}]" in line], name, place, words)
    assert {line.split("[", 1)[1].split("]")[0] for line in found} <= {name, *BESIDES}


def test_truth_tables_agree_with_the_logic_of_the_engine() -> None:
    """What the tables say of a random condition is what Kleene's logic says of each combination of answers."""
    dice = random.Random(5)
    names = ("a", "b", "c", "d")
    for _ in range(60):
        expression = parse(_grown(dice, names, 3))
        truth = Truth(names)
        table = truth.of(expression)
        answers = [dict(zip(names, values, strict=True)) for values in product(Verdict3, repeat=4)]
        outcomes = {expression.value(lambda n, given=given: given[n]) for given in answers}
        for number in range(16):
            given = {name: Verdict3.YES if number >> at & 1 else Verdict3.NO for at, name in enumerate(names)}
            assert (expression.value(lambda n, given=given: given[n]) is Verdict3.YES) == bool(table >> number & 1)
        assert (Verdict3.YES in outcomes) == (table != 0)
        assert (Verdict3.NO in outcomes) == (table != truth.full)


def _grown(dice: random.Random, names: tuple[str, ...], depth: int) -> str:
    if depth == 0 or dice.random() < 0.2:
        return dice.choice(names)
    parts = [_grown(dice, names, depth - 1) for _ in range(3)]
    form = dice.choice(["({} and {})", "({} or {})", "not ({})", "2 of ({}, {}, {})"])
    return form.format(*parts)


def test_the_kinds_of_evidence_are_those_that_the_engine_gives() -> None:
    """Over all cases of all rules: a check that says yes is of the class that the lint counts with."""
    every = rules()
    cases = load_cases([builtin_rules()], every)
    wrong = {
        (one.id, evidence.check)
        for one in every
        for case in cases[one.id][:3]
        for scene in state_views(build_host(case))
        for evidence in evaluate(with_dependencies([one], every), scene)[one.id].evidence
        if evidence.check in one.checks and evidence.kind not in (check_class(one.checks[evidence.check]), "total")
    }

    assert wrong == set()


LINT_TESTS = ("test_lint.py", "test_lint_logic.py", "test_lint_words.py")


def test_each_check_of_the_list_is_shown_to_complain() -> None:
    """No check of the list is without a test."""
    from pathlib import Path

    from thpdiag.engine.lint import lint_names

    text = "".join(Path(__file__).with_name(name).read_text() for name in LINT_TESTS)
    assert [name for name in lint_names() if f'"{name}"' not in text and f"[{name}]" not in text] == []


def test_the_word_in_an_expression_is_pointed_at() -> None:
    """Unknown checks and mistakes of form too, which loading finds."""
    text, place = marked(GOOD.replace("when: stalling and compacting", "when: stalling and «compactin"))
    with pytest.raises(RuleError, match=f"{place}: unknown check 'compactin'; did you mean 'compacting'"):
        rule(text)
    text, place = marked(GOOD.replace("when: stalling and compacting", "when: stalling and « (compacting"))
    with pytest.raises(RuleError, match=r"expected '\)'"):
        rule(text)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("id: THP-999", "«id: THP-9", "such as ACME-01"),
        ("for: $stall", "«for: soon", "not a quantity"),
        ("for: $stall", "«for: 5 %", "write `30 s`, `3 samples` or `50 % of samples`"),
        ("{default: 2 /s", "{«default: $share", "not a quantity"),
        ("under: [compaction]", "«under: []", "at least 1 item"),
    ],
)
def test_what_no_evaluation_could_take_is_refused_at_once(good: str, bad: str, words: str) -> None:
    """By the form, at its place: a duration that is none, a parameter of a parameter, an empty choice."""
    text, place = marked(GOOD.replace(good, bad))

    with pytest.raises(RuleError) as refused:
        rule(text)

    assert f"fault-compaction.yaml:{place}: " in str(refused.value)
    assert words in str(refused.value)
