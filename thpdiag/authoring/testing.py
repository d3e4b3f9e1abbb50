"""`rules test` and `rules coverage`: the cases beside the rules, what no case would notice, and what no rule looks at.

A case is run on its rule and on the rules that this one depends on. Then the rule is made wrong in one thing at a time:
a check that always says yes or no, a threshold twice or half as large, a level of confidence or a relation to another
rule less, `or` for `and`. A case notices if its outcome changes, or the confidence that it states. Of relations that
only a diagnosis of both rules shows, what a case states of the diagnosis must not hold without them.

Coverage: the knowledge that no rule looks at, cures or covers, and rules that lack cases of a kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from thpdiag.authoring.cases import build_host
from thpdiag.diagnosis.diagnose import StateOutcomes, diagnose
from thpdiag.diagnosis.ranking import is_implied
from thpdiag.engine.evaluate import ForcedAnswer, evaluate, evaluate_with_windows, worst_verdict
from thpdiag.engine.expression import Expression
from thpdiag.engine.lint.checks import families_of
from thpdiag.engine.lint.issue import Cases
from thpdiag.engine.lint.rule_file import kinds_missing
from thpdiag.engine.load import Rule, with_earlier, with_params
from thpdiag.engine.quantity import UNITS, split_unit
from thpdiag.engine.schema import CaseFile, Check, EventCheck, FactCheck, ProcessCheck, as_list
from thpdiag.engine.state_view import WORDS, StateView, outcome_word, state_views
from thpdiag.engine.windows import candidate_windows
from thpdiag.errors import RuleError
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import mechanisms, remedies
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import event_names, term, terms
from thpdiag.model import Case, Verdict3

RANK = {"fires": 3, "excluded": 2, "unknown": 1, "silent": 0}
Answer = tuple[str, str | None]  # outcome and confidence of a rule on a case


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case of a rule: what was expected and what came out (`outcome[:confidence]`)."""

    rule: str
    case: str
    expected: str
    actual: str

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


@dataclass(frozen=True)
class Trial:
    """A case made ready for a rule and many variants of it: what the rules say that it depends on is asked once."""

    case: CaseFile
    below: Sequence[Rule]
    views: Sequence[StateView]  # with the outcomes of the rules below
    windows: dict[int, tuple[Mapping[str, Check], bool]] = field(default_factory=dict)  # by the checks of a variant

    def answer(self, rule: Rule, forced: ForcedAnswer | None = None) -> Answer:
        """What the rule, or a variant of it, makes of the case; of several states the one where it says most."""
        rules = (*self.below, rule)
        if id(rule.checks) not in self.windows:
            self.windows[id(rule.checks)] = rule.checks, any(candidate_windows(rules, view) for view in self.views)
        if self.windows[id(rule.checks)][1]:
            outcomes = [evaluate_with_windows(rules, replace(v, outcomes={}), forced)[rule.id] for v in self.views]
            answers = [(outcome_word(o), o.confidence) for o in outcomes]
        else:
            verdicts = [worst_verdict(rule, view, forced) for view in self.views]
            answers = [("excluded" if v.excluder else WORDS[v.value], v.confidence) for v in verdicts]
        return max(answers, key=lambda a: (RANK[a[0]], a[1] == "confirmed", a[1] == "likely"))

    def notices(self, right: Answer, wrong: Answer) -> bool:
        """A changed confidence is noticed only by a case that states one."""
        return right[0] != wrong[0] or (self.case.confidence is not None and right[1] != wrong[1])


def trials(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> list[Trial]:
    """Cases ready for a rule; what it depends on is looked up once for all of them."""
    below = tuple(r for r in with_earlier([rule], rules) if r.id != rule.id)
    found = []
    for case in cases:
        views = [replace(view, memo={}) for view in state_views(build_host(case))]
        found.append(Trial(case, below, [replace(view, outcomes=evaluate(below, view)) for view in views]))
    return found


def run_case(rule: Rule, rules: Sequence[Rule], ready: Trial) -> CaseResult:
    """One case on one rule, with the rules beside it that it depends on."""
    case = ready.case
    outcome, confidence = ready.answer(rule)
    expected, actual = str(case.outcome), outcome
    if case.confidence is not None:
        expected, actual = f"{expected}:{case.confidence}", f"{actual}:{confidence}" if confidence else actual
    if case.demoted_by or case.explains:
        wanted = {rule.id, *case.demoted_by, *case.explains}
        some = with_earlier((one for one in rules if one.id in wanted), rules)
        host = build_host(case)
        demoted_by, explains = _diagnosed_relations(rule, host, some, _evaluate_states(host, some))
        expected += _relations_text(case.demoted_by, case.explains)
        actual += _relations_text(
            (i for i in demoted_by if i in case.demoted_by), (i for i in explains if i in case.explains)
        )
    return CaseResult(rule.id, case.name, expected, actual)


def _relations_text(demoted_by: Iterable[str], explains: Iterable[str]) -> str:
    parts = [("demoted by", sorted(demoted_by)), ("explains", sorted(explains))]
    return "".join(f", {words} {' '.join(names)}" for words, names in parts if names)


def _evaluate_states(host: Case, rules: Sequence[Rule]) -> list[StateOutcomes]:
    return [(view, evaluate_with_windows(rules, view)) for view in state_views(host)]


def _diagnosed_relations(
    rule: Rule, host: Case, rules: Sequence[Rule], outcomes: Sequence[StateOutcomes]
) -> tuple[Sequence[str], Sequence[str]]:
    """What demotes the finding of a rule in the diagnosis of a host, and what follows from it."""
    findings = diagnose(host, rules, outcomes).findings
    own = next((f for f in findings if f.outcome.rule == rule.id), None)
    return (own.demoted_by, (*own.consequences, *own.attached)) if own else ((), ())


RELATIONS = ("demoted_by", "explains")  # those that only a diagnosis of both rules shows


def unnoticed_relations(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> Iterator[str]:
    """The relations of a rule that no case would miss.

    What the mechanisms or the other rule say as well is none: every host would be diagnosed alike without it.
    """
    by_id, rows = {other.id: other for other in rules}, list(cases)
    for number, key in enumerate(RELATIONS):
        for name in getattr(rule.file, key):
            other, names = by_id[name], [one for one in getattr(rule.file, key) if one != name]
            less = replace(rule, file=rule.file.model_copy(update={key: names}))
            if is_implied(rule, key, other):
                continue
            for case in (case for case in rows if name in getattr(case, key)):
                # related by the rule's word, and not without it
                host = build_host(case)
                outcomes = _evaluate_states(host, with_earlier((rule, other), rules))
                with_it, without = (
                    _diagnosed_relations(one, host, (one, other), outcomes)[number] for one in (rule, less)
                )
                if name in with_it and name not in without:
                    break
            else:
                yield f"without {key} {name}"


FACTORS = (("doubled", 2.0), ("halved", 0.5))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one thing wrong; `what` says which."""

    what: str
    rule: Rule
    forced: ForcedAnswer | None = None


def mutants(rule: Rule) -> Iterator[Mutant]:
    """All but the relations that only a whole diagnosis shows (`unnoticed_relations`)."""
    for name in rule.checks:
        for value in (Verdict3.YES, Verdict3.NO):
            yield Mutant(f"check '{name}' forced to {value.word}", rule, ForcedAnswer(rule.id, name, value))
    yield from _threshold_mutants(rule)
    for level in rule.confidence:
        fewer = {n: e for n, e in rule.confidence.items() if n != level}
        yield Mutant(f"without confidence '{level}'", replace(rule, confidence=fewer))
    for other in rule.file.excluded_by:
        file = rule.file.model_copy(update={"excluded_by": [i for i in rule.file.excluded_by if i != other]})
        yield Mutant(f"without excluded_by {other}", replace(rule, file=file))
    for when in _swap_operators(rule.when):
        yield Mutant(f"'{when}' for '{rule.when}'", replace(rule, when=when))


def _threshold_mutants(rule: Rule) -> Iterator[Mutant]:
    """Parameters beyond the values of the cases on either side, but for those that say why there is no such case.

    A count of things stays whole.
    """
    for name, param in rule.file.params.items():
        if param.no_case is not None:
            continue
        number, unit = split_unit(param.default)
        number /= UNITS[unit]
        for word, factor in FACTORS:
            for value in (number * factor, math.floor(number * factor)):
                if value == number:
                    break
                with suppress(RuleError):
                    changed = with_params(rule, {name: f"{value:f} {unit}" if unit else value})
                    yield Mutant(f"parameter '{name}' {word}", changed)
                    break


def _swap_operators(expression: Expression) -> Iterator[Expression]:
    """The condition with one `and` or `or` for the other, or with one more or less of those that are needed."""
    if expression.op in ("and", "or"):
        yield replace(expression, op="or" if expression.op == "and" else "and")
    if expression.op == "of":
        counts = (expression.count - 1, expression.count + 1)
        yield from (replace(expression, count=c) for c in counts if 1 <= c <= len(expression.children))
    for at, child in enumerate(expression.children):
        for other in _swap_operators(child):
            yield replace(expression, children=(*expression.children[:at], other, *expression.children[at + 1 :]))


def unnoticed_mistakes(rule: Rule, rules: Sequence[Rule], trials: Sequence[Trial]) -> list[str]:
    """What could be wrong in the rule and no case would notice, a line each."""
    right = [(one, one.answer(rule)) for one in trials]
    missed = [m.what for m in mutants(rule) if not any(t.notices(a, t.answer(m.rule, m.forced)) for t, a in right)]
    return [f"{rule.id}: {what}" for what in (*missed, *unnoticed_relations(rule, rules, [one.case for one in trials]))]


def count_mistakes(rule: Rule) -> int:
    """How many things are made wrong in a rule."""
    return sum(1 for _ in mutants(rule)) + len(rule.file.demoted_by) + len(rule.file.explains)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Names of one kind of knowledge, and those of them that no rule uses."""

    kind: str
    what: str
    total: int
    unused: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "total": self.total, "used": self.total - len(self.unused), "unused": [*self.unused]}


def rule_coverage(rules: Sequence[Rule]) -> list[Coverage]:
    """All kinds, from what can be wrong to what can be measured."""
    checks = [check for rule in rules for check in rule.checks.values()]
    asked = {known.name for check in checks for name in _names(check) if (known := term(name))}
    events = {kind for check in checks if isinstance(check, EventCheck) for kind in as_list(check.event)}
    seen = {name for check in checks for name in families_of(check)}
    used = {remedy for rule in rules for remedy in rule.file.remedies}
    return [
        _row("mechanisms", "Mechanisms without a rule", mechanisms(), {rule.file.mechanism for rule in rules}),
        _row("remedies", "Remedies that no rule gives", remedies(), used),
        _row(
            "applications",
            "Applications that no rule names",
            [app.name for app in applications()],
            set(_applications(checks)),
        ),
        _row("events", "Events that no rule asks for", event_names(), events),
        _row("families", "Symbol families that no rule looks for", families(), seen),
        _row("names", "Facts and metrics that no rule asks for", [one.name for one in terms()], asked),
    ]


def _row(kind: str, what: str, known: Iterable[str], used: set[str]) -> Coverage:
    names = list(known)
    return Coverage(kind, what, len(names), tuple(name for name in names if name not in used))


def _names(check: Check) -> Iterable[str]:
    yield from check.needs
    if isinstance(check, ProcessCheck):
        yield from ("app", "process_cpu_ratio.lifetime")


def _applications(checks: Iterable[Check]) -> Iterable[str]:
    for check in checks:
        if isinstance(check, ProcessCheck):
            yield from as_list(check.process.app)
        elif isinstance(check, FactCheck) and check.fact == "app":
            yield from map(str, (check.is_, *(check.one_of or ())))
        elif isinstance(check, FactCheck) and "app" in check.where:
            yield check.where["app"]


def without_cases(rules: Sequence[Rule], cases: Mapping[str, Cases]) -> dict[str, tuple[str, ...]]:
    """By rule: the kinds of case that it lacks; only rules that lack one."""
    lacking = {rule.id: kinds_missing(rule, cases.get(rule.id)) for rule in sorted(rules, key=lambda rule: rule.id)}
    return {identity: kinds for identity, kinds in lacking.items() if kinds}
