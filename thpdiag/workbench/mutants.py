"""Rules with one thing wrong, to find what no case notices.

A check that always says yes or no, a threshold twice or half as large, a level of confidence or a relation to another
rule less, `or` for `and`. A case notices if its outcome changes, or the confidence that it states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thpdiag.engine.expression import Expression
from thpdiag.engine.load import Rule, with_params
from thpdiag.engine.match import Forced
from thpdiag.engine.quantity import UNITS, split
from thpdiag.errors import RuleError
from thpdiag.model import Verdict3
from thpdiag.workbench.relations import unheld
from thpdiag.workbench.trials import Trial

FACTORS = (("doubled", 2.0), ("halved", 0.5))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one thing wrong; `what` says which."""

    what: str
    rule: Rule
    forced: Forced | None = None


def mutants(rule: Rule) -> Iterator[Mutant]:
    """All but the relations that only a whole diagnosis shows (`thpdiag.workbench.relations`)."""
    for name in rule.checks:
        for value in (Verdict3.YES, Verdict3.NO):
            yield Mutant(f"check '{name}' forced to {value.word}", rule, Forced(rule.id, name, value))
    yield from _thresholds(rule)
    for level in rule.confidence:
        fewer = {n: e for n, e in rule.confidence.items() if n != level}
        yield Mutant(f"without confidence '{level}'", replace(rule, confidence=fewer))
    for other in rule.file.excluded_by:
        rest = [i for i in rule.file.excluded_by if i != other]
        yield Mutant(
            f"without excluded_by {other}", replace(rule, file=rule.file.model_copy(update={"excluded_by": rest}))
        )
    for when in _swapped(rule.when):
        yield Mutant(f"'{when}' for '{rule.when}'", replace(rule, when=when))


def _thresholds(rule: Rule) -> Iterator[Mutant]:
    """Parameters beyond the values of the cases on either side, but for those that say why there is no such case."""
    for name, param in rule.file.params.items():
        number, unit = split(param.default)
        if param.no_case is not None:
            continue
        for word, factor in FACTORS:
            if (other := _moved(rule, name, number / UNITS[unit], unit, factor)) is not None:
                yield Mutant(f"parameter '{name}' {word}", other)


def _moved(rule: Rule, name: str, number: float, unit: str, factor: float) -> Rule | None:
    """The rule with another threshold; a count of things stays whole."""
    moved = number * factor
    for value in (moved, math.floor(moved)):
        if value == number:
            return None
        try:
            return with_params(rule, {name: f"{value:f} {unit}" if unit else value})
        except RuleError:
            continue
    return None


def _swapped(expression: Expression) -> Iterator[Expression]:
    """The condition with one `and` or `or` for the other, or with one more or less of those that are needed."""
    if expression.op in ("and", "or"):
        yield replace(expression, op="or" if expression.op == "and" else "and")
    if expression.op == "of":
        counts = (expression.count - 1, expression.count + 1)
        yield from (replace(expression, count=c) for c in counts if 1 <= c <= len(expression.children))
    for at, child in enumerate(expression.children):
        for other in _swapped(child):
            yield replace(expression, children=(*expression.children[:at], other, *expression.children[at + 1 :]))


def unnoticed(rule: Rule, rules: Sequence[Rule], trials: Sequence[Trial]) -> list[str]:
    """What could be wrong in the rule and no case would notice, a line each."""
    plain = [(one, one.said(rule)) for one in trials]
    missed = [m.what for m in mutants(rule) if not any(t.notices(said, t.said(m.rule, m.forced)) for t, said in plain)]
    return [f"{rule.id}: {what}" for what in (*missed, *unheld(rule, rules, [one.case for one in trials]))]


def tried(rule: Rule) -> int:
    """How many things are made wrong in a rule."""
    return sum(1 for _ in mutants(rule)) + len(rule.file.demoted_by) + len(rule.file.explains)
