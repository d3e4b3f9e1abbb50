"""`rules coverage`: what no rule looks at, cures or covers, and which rules lack cases of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.engine.lint.checks import families_of
from thpdiag.engine.lint.issue import Cases
from thpdiag.engine.lint.rule_file import kinds_missing
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import Check, EventCheck, FactCheck, ProcessCheck, as_list
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import mechanisms, remedies
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import event_names, term, terms


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
