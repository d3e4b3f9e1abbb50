"""`rules test` and `rules coverage`: the cases of rules, mutations that no case detects, and knowledge that no rule
uses.

A case is run on its rule and on the rules that it depends on. Then the rule is mutated in one place at a time: a check
that always answers yes or no, a threshold doubled or halved, a missing confidence level or relation, `or` for `and`. A
case detects a mutation if its outcome changes, or the confidence that it states. For relations that only a diagnosis of
both rules shows, the relations stated by a case must not hold without them.

Coverage lists the knowledge that no rule uses, and the rules without a kind of case.
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
from thpdiag.engine.lint.rule_file import missing_kinds
from thpdiag.engine.load import Rule, with_dependencies, with_params
from thpdiag.engine.quantity import UNITS, split_unit
from thpdiag.engine.schema import CaseFile, Check, EventCheck, FactCheck, ProcessCheck, as_list
from thpdiag.engine.state_view import OUTCOME_WORDS, StateView, outcome_word, state_views
from thpdiag.engine.windows import candidate_windows
from thpdiag.errors import RuleError
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import mechanisms, remedies
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import event_names, term, terms
from thpdiag.model import Case, Verdict3

OUTCOME_RANK = {"fires": 3, "excluded": 2, "unknown": 1, "silent": 0}
Answer = tuple[str, str | None]  # outcome and confidence of a rule on a case


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The expected and the actual result of a case (`outcome[:confidence]`)."""

    rule: str
    case: str
    expected: str
    actual: str

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


@dataclass(frozen=True)
class PreparedCase:
    """A case prepared for a rule and its mutants: the rules it depends on are evaluated once."""

    case: CaseFile
    dependencies: Sequence[Rule]
    views: Sequence[StateView]  # with the outcomes of the dependencies
    windows: dict[int, tuple[Mapping[str, Check], bool]] = field(default_factory=dict)  # by the checks of a variant

    def answer(self, rule: Rule, forced: ForcedAnswer | None = None) -> Answer:
        """Return the result of the rule, or of a mutant of it; of several states the highest ranked."""
        rules = (*self.dependencies, rule)
        if id(rule.checks) not in self.windows:
            self.windows[id(rule.checks)] = rule.checks, any(candidate_windows(rules, view) for view in self.views)
        if self.windows[id(rule.checks)][1]:
            outcomes = [evaluate_with_windows(rules, replace(v, outcomes={}), forced)[rule.id] for v in self.views]
            answers = [(outcome_word(o), o.confidence) for o in outcomes]
        else:
            verdicts = [worst_verdict(rule, view, forced) for view in self.views]
            answers = [("excluded" if v.excluder else OUTCOME_WORDS[v.value], v.confidence) for v in verdicts]
        return max(answers, key=lambda a: (OUTCOME_RANK[a[0]], a[1] == "confirmed", a[1] == "likely"))

    def notices(self, right: Answer, wrong: Answer) -> bool:
        """Return whether the case detects a wrong result. A changed confidence counts only if the case states one."""
        return right[0] != wrong[0] or (self.case.confidence is not None and right[1] != wrong[1])


def trials(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> list[PreparedCase]:
    """Prepare cases for a rule."""
    dependencies = tuple(r for r in with_dependencies([rule], rules) if r.id != rule.id)
    prepared = []
    for case in cases:
        views = [replace(view, memo={}) for view in state_views(build_host(case))]
        prepared.append(
            PreparedCase(case, dependencies, [replace(view, outcomes=evaluate(dependencies, view)) for view in views])
        )
    return prepared


def run_case(rule: Rule, rules: Sequence[Rule], prepared: PreparedCase) -> CaseResult:
    """Run a case on a rule and the rules that it depends on."""
    case = prepared.case
    outcome, confidence = prepared.answer(rule)
    expected, actual = str(case.outcome), outcome
    if case.confidence is not None:
        expected, actual = f"{expected}:{case.confidence}", f"{actual}:{confidence}" if confidence else actual
    if case.demoted_by or case.explains:
        ids = {rule.id, *case.demoted_by, *case.explains}
        related = with_dependencies((other for other in rules if other.id in ids), rules)
        host = build_host(case)
        demoted_by, explains = _diagnosed_relations(rule, host, related, _evaluate_states(host, related))
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
    """The rules that demote a rule's finding in the diagnosis of a host, and the rules that follow from it."""
    findings = diagnose(host, rules, outcomes).findings
    finding = next((f for f in findings if f.outcome.rule == rule.id), None)
    return (finding.demoted_by, (*finding.consequences, *finding.attached)) if finding else ((), ())


DIAGNOSED_RELATIONS = ("demoted_by", "explains")  # shown only by a diagnosis of both rules


def unnoticed_relations(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> Iterator[str]:
    """Yield the relations of a rule whose absence no case detects. Relations that the mechanisms or the other rule
    imply are skipped, because the diagnosis is the same without them."""
    by_id, rows = {other.id: other for other in rules}, list(cases)
    for number, key in enumerate(DIAGNOSED_RELATIONS):
        for name in getattr(rule.file, key):
            other, names = by_id[name], [i for i in getattr(rule.file, key) if i != name]
            mutant = replace(rule, file=rule.file.model_copy(update={key: names}))
            if is_implied(rule, key, other):
                continue
            for case in (case for case in rows if name in getattr(case, key)):
                # related with the entry, and not without it
                host = build_host(case)
                outcomes = _evaluate_states(host, with_dependencies((rule, other), rules))
                related, mutated = (_diagnosed_relations(r, host, (r, other), outcomes)[number] for r in (rule, mutant))
                if name in related and name not in mutated:
                    break
            else:
                yield f"without {key} {name}"


FACTORS = (("doubled", 2.0), ("halved", 0.5))


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one mutation, described by `what`."""

    what: str
    rule: Rule
    forced: ForcedAnswer | None = None


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Yield all mutants except those of relations that need a diagnosis (`unnoticed_relations`)."""
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
    """Mutants with a doubled or halved parameter, unless the rule explains the lack of such a case. Counts stay
    integers."""
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
    """The condition with one `and` and `or` swapped, or one more or less in one `N of`."""
    if expression.op in ("and", "or"):
        yield replace(expression, op="or" if expression.op == "and" else "and")
    if expression.op == "of":
        counts = (expression.count - 1, expression.count + 1)
        yield from (replace(expression, count=c) for c in counts if 1 <= c <= len(expression.children))
    for i, child in enumerate(expression.children):
        for other in _swap_operators(child):
            yield replace(expression, children=(*expression.children[:i], other, *expression.children[i + 1 :]))


def unnoticed_mistakes(rule: Rule, rules: Sequence[Rule], trials: Sequence[PreparedCase]) -> list[str]:
    """Return the mutations that no case detects, one line each."""
    answers = [(t, t.answer(rule)) for t in trials]
    missed = [m.what for m in mutants(rule) if not any(t.notices(a, t.answer(m.rule, m.forced)) for t, a in answers)]
    return [f"{rule.id}: {what}" for what in (*missed, *unnoticed_relations(rule, rules, [t.case for t in trials]))]


def count_mistakes(rule: Rule) -> int:
    """Return the number of mutations of a rule."""
    return sum(1 for _ in mutants(rule)) + len(rule.file.demoted_by) + len(rule.file.explains)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The names of one kind of knowledge, and those that no rule uses."""

    kind: str
    what: str
    total: int
    unused: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "total": self.total, "used": self.total - len(self.unused), "unused": [*self.unused]}


def rule_coverage(rules: Sequence[Rule]) -> list[Coverage]:
    """Return the coverage of all kinds of knowledge."""
    checks = [check for rule in rules for check in rule.checks.values()]
    metrics = {known.name for check in checks for name in _names(check) if (known := term(name))}
    events = {kind for check in checks if isinstance(check, EventCheck) for kind in as_list(check.event)}
    symbol_families = {name for check in checks for name in families_of(check)}
    used_remedies = {remedy for rule in rules for remedy in rule.file.remedies}
    return [
        _row("mechanisms", "Mechanisms without a rule", mechanisms(), {rule.file.mechanism for rule in rules}),
        _row("remedies", "Remedies that no rule gives", remedies(), used_remedies),
        _row(
            "applications",
            "Applications that no rule names",
            [app.name for app in applications()],
            set(_applications(checks)),
        ),
        _row("events", "Events that no rule asks for", event_names(), events),
        _row("families", "Symbol families that no rule looks for", families(), symbol_families),
        _row("names", "Facts and metrics that no rule asks for", [t.name for t in terms()], metrics),
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
    """Return the kinds of case that each rule lacks; rules that lack none are omitted."""
    missing = {rule.id: missing_kinds(rule, cases.get(rule.id)) for rule in sorted(rules, key=lambda rule: rule.id)}
    return {identity: kinds for identity, kinds in missing.items() if kinds}
