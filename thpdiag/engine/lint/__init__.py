"""`rules lint`: what the form alone cannot tell. Each lint is a generator of issues with places.

Form, parameters, conditions and references between rules are checked while loading (engine.load); here come names,
numbers, logic, evidence, relations, remedies, words, cases, and habits that keep rules honest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.engine.lint import checks, conditions, rule_file  # noqa: F401  (which make the lints known)
from thpdiag.engine.lint.issue import LINTS, AllowComment, Cases, Lint, LintIssue, RuleSet, parse_allows
from thpdiag.engine.load import Rule, RuleSource
from thpdiag.knowledge.yaml_nodes import Place, point_at, suggestion

NOT_OF_A_RULE = {
    "cases-without-rule": "a file of cases without its rule",
    "allow-of-nothing": "`# lint: allow NAME` of a lint that does not exist or does not complain",
}


def lint_names() -> dict[str, str]:
    """All lints with a line each."""
    return {**{lint.name: lint.says for lint in LINTS}, **NOT_OF_A_RULE}


def lint_rules(
    rules: Sequence[Rule], cases_of: Mapping[str, Cases] | None = None, stray: Sequence[RuleSource] = ()
) -> list[str]:
    """All complaints about the rules, in order of the files. Without `cases_of` nothing is said of cases."""
    whole = collect_rules(rules, cases_of or {}, stray)
    lints = [lint for lint in LINTS if cases_of is not None or not lint.of_cases]
    found = [line for rule in rules for line in _of_rule(rule, whole, lints)]
    for source in stray:
        wanted = source.path.removesuffix(".cases.yaml") + ".yaml"
        found.append(source.complaint(f"[cases-without-rule] there is no {wanted}; rename or remove this file", ()))
    return found


def collect_rules(rules: Iterable[Rule], cases_of: Mapping[str, Cases], stray: Sequence[RuleSource]) -> RuleSet:
    """What a lint may ask of all rules together, found in one pass."""
    titles: dict[str, Rule] = {}
    same: dict[str, Rule] = {}
    by_id: dict[str, Rule] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        by_id[rule.id] = rule
        titles.setdefault(rule.file.title.lower(), rule)
        same.setdefault(rule_file.condition_key(rule), rule)
    return RuleSet(by_id, cases_of, stray, titles, same)


def _of_rule(rule: Rule, whole: RuleSet, lints: Sequence[Lint]) -> Iterator[str]:
    allows = {one.name: one for one in parse_allows(rule.source.text)}
    used: set[str] = set()
    for lint in lints:
        for complaint in lint.check(rule, whole):
            if lint.name in allows:
                used.add(lint.name)
                continue
            yield format_issue(rule, lint.name, complaint)
    known = lint_names()
    for name, one in allows.items():
        if name not in used and (name not in known or any(lint.name == name for lint in lints)):
            yield _needless(rule, one, known)


def format_issue(rule: Rule, name: str, complaint: LintIssue) -> str:
    """`path:line:column: [name] message`, the line and a caret."""
    source = complaint.source or rule.source
    return source.complaint(f"[{name}] {complaint.message}", complaint.where, complaint.word)


def _needless(rule: Rule, one: AllowComment, known: Mapping[str, str]) -> str:
    if one.name in known:
        message = f"{one.name} has nothing to complain of here; take the comment out"
    else:
        message = f"no lint check '{one.name}'{suggestion(one.name, known)}"
    place = Place(one.line, one.column)
    return point_at(rule.source.path, rule.source.text, f"[allow-of-nothing] {message}", place)
