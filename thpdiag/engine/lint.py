"""`rules lint`: what the form alone cannot tell. Each check is a small generator of complaints with a place.

Form, parameters, conditions and references between rules are checked while loading (engine.load); here come the
names of the vocabulary, symbol families, mechanisms and remedies, and habits that keep rules honest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import re2

from thpdiag.engine.load import Rule, builtin_rules, suggestion
from thpdiag.engine.schema import (
    ChangeCheck,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    SeriesCheck,
    listed,
)
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.remedies import cures, remedies
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import event, names, term

Lint = Callable[[Rule], Iterator[str]]
QUANTITIES = frozenset({"above", "below", "at_least", "per_at_least", "over", "ratio", "cpu_above", "for"})


def complaints(rules: Sequence[Rule]) -> list[str]:
    """All complaints about the rules, in order of the files."""
    return [line for rule in rules for lint in LINTS for line in lint(rule)]


def _metrics(rule: Rule) -> Iterator[str]:
    for name, check in rule.checks.items():
        asked: list[str] = []
        if isinstance(check, FactCheck):
            asked = [check.fact]
        elif isinstance(check, SeriesCheck):
            asked = [check.series]
        elif isinstance(check, ChangeCheck):
            asked = [*listed(check.change.of), *listed(check.change.per)]
        for word in asked:
            if term(word) is None:
                message = f"'{word}' is not in the vocabulary{suggestion(word, names())}"
                yield rule.source.complaint(message, ("checks", name))


def _events(rule: Rule) -> Iterator[str]:
    for name, check in rule.checks.items():
        if isinstance(check, EventCheck):
            for word in listed(check.event):
                if event(word) is None:
                    yield rule.source.complaint(f"unknown event '{word}'{suggestion(word, names())}", ("checks", name))


def _families(rule: Rule) -> Iterator[str]:
    for name, check in rule.checks.items():
        asked: list[str] = []
        if isinstance(check, ProfileCheck):
            spec = check.profile
            asked = [w for part in (spec.self_, spec.anywhere, spec.under, spec.not_under) for w in listed(part)]
        elif isinstance(check, EventCheck):
            asked = [w for part in (check.anywhere, check.under, check.not_anywhere) for w in listed(part)]
        for word in asked:
            if not word.startswith("=") and word not in families():
                message = f"unknown symbol family '{word}'{suggestion(word, families())}"
                yield rule.source.complaint(message, ("checks", name))


def _mechanism(rule: Rule) -> Iterator[str]:
    if rule.file.mechanism not in mechanisms():
        message = f"unknown mechanism '{rule.file.mechanism}'{suggestion(rule.file.mechanism, mechanisms())}"
        yield rule.source.complaint(message, ("mechanism",))


def _remedies(rule: Rule) -> Iterator[str]:
    known, mechanism = remedies(), rule.file.mechanism
    for i, word in enumerate(rule.file.remedies):
        if word not in known:
            yield rule.source.complaint(f"unknown remedy '{word}'{suggestion(word, known)}", ("remedies", i))
        elif not cures(known[word], mechanism):
            message = f"'{word}' does not cure {mechanism} (knowledge/remedies.yaml, cures)"
            yield rule.source.complaint(message, ("remedies", i))


def _applications(rule: Rule) -> Iterator[str]:
    known = [app.name for app in applications()]
    for name, check in rule.checks.items():
        if isinstance(check, ProcessCheck):
            for word in listed(check.process.app):
                if word not in known:
                    message = f"unknown application '{word}'{suggestion(word, known)}"
                    yield rule.source.complaint(message, ("checks", name))


def _patterns(rule: Rule) -> Iterator[str]:
    for name, check in rule.checks.items():
        pattern = check.matches if isinstance(check, FactCheck) else None
        pattern = check.process.comm if isinstance(check, ProcessCheck) else pattern
        pattern = check.profile.comm if isinstance(check, ProfileCheck) else pattern
        if pattern is None:
            continue
        try:
            re2.compile(pattern)
        except re2.error as error:
            yield rule.source.complaint(f"'{pattern}' is no regular expression of RE2: {error}", ("checks", name))


def _unused(rule: Rule) -> Iterator[str]:
    used = set(rule.when.names())
    for expression in rule.confidence.values():
        used |= set(expression.names())
    for name in rule.checks:
        if name not in used:
            yield rule.source.complaint(f"check '{name}' is in no condition", ("checks", name))


def _unused_parameters(rule: Rule) -> Iterator[str]:
    for name in rule.file.params:
        if not re.search(rf"\${re.escape(name)}\b", rule.source.text):
            yield rule.source.complaint(f"parameter '{name}' is used by no check", ("params", name))


def _bare_thresholds(rule: Rule) -> Iterator[str]:
    """A number in a check has its reason beside it: it is a parameter. `0` and times need none."""
    for name, row in rule.file.checks.items():
        for key, value in _quantities(row):
            if key != "for" and str(value) not in ("0", "1") and not str(value).startswith("$"):
                message = f"{key}: {value} has no reason; make it a parameter with `means`"
                yield rule.source.complaint(message, ("checks", name))


def _quantities(row: object) -> Iterator[tuple[str, object]]:
    if isinstance(row, dict):
        for key, value in row.items():
            if key in QUANTITIES and not isinstance(value, dict):
                yield key, value
            else:
                yield from _quantities(value)


def _title(rule: Rule) -> Iterator[str]:
    first = rule.file.title.split()[0]
    if first in ("Check", "Disable", "Enable", "Set", "Increase", "Reduce", "Use", "Avoid"):
        yield rule.source.complaint(f"the title gives an order ('{first}'); it says what is", ("title",))
    if rule.file.title.endswith("."):
        yield rule.source.complaint("a title has no full stop", ("title",))


def _verify(rule: Rule) -> Iterator[str]:
    if rule.file.role == "root_cause" and not rule.file.verify:
        yield rule.source.complaint("a root cause says how its cure is verified (verify:)", ("role",))
    if rule.file.role in ("root_cause", "alternative") and not rule.file.remedies:
        yield rule.source.complaint("a cause has a remedy, if only `not-thp` or `collect-more`", ("role",))


def _confidence_without_ground(rule: Rule) -> Iterator[str]:
    """`confirmed` cannot be reached by a check that also decides `likely` alone."""
    levels = rule.confidence
    if "confirmed" in levels and "likely" in levels and str(levels["confirmed"]) == str(levels["likely"]):
        yield rule.source.complaint("likely and confirmed have the same condition", ("confidence",))


def _examples(rule: Rule) -> Iterator[str]:
    folder = _fixtures()
    if folder is None:
        return
    for i, example in enumerate(rule.file.examples):
        if not folder.joinpath(*example.split("/")).is_dir():
            yield rule.source.complaint(f"no fixture '{example}'", ("examples", i))


def _fixtures() -> Path | None:
    """The fixtures of a checkout; an installed package has none."""
    rules = builtin_rules()
    fixtures = rules.parent / "fixtures" if isinstance(rules, Path) else None
    return fixtures if fixtures is not None and fixtures.is_dir() else None


LINTS: tuple[Lint, ...] = (
    _metrics, _events, _families, _mechanism, _remedies, _applications, _patterns, _unused, _unused_parameters,
    _bare_thresholds, _title, _verify, _confidence_without_ground, _examples,
)  # fmt: skip
