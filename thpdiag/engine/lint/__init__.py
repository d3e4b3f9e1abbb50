"""`rules lint`: checks of rules that go beyond their form. Each lint is a generator of issues with positions.

Form, parameters, conditions and references between rules are checked while loading (engine.load). The lints check
names, numbers, logic, evidence, relations, remedies, texts, cases, and conventions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.engine.lint import checks, conditions, rule_file  # noqa: F401  (registers the lints)
from thpdiag.engine.lint.issue import LINTS, AllowComment, Cases, Lint, LintIssue, RuleSet, parse_allows
from thpdiag.engine.load import Rule, RuleSource
from thpdiag.knowledge.yaml_nodes import Place, point_at, suggestion

FILE_LINTS = {
    "cases-without-rule": "a file of cases without its rule",
    "allow-of-nothing": "`# lint: allow NAME` of a lint that does not exist or does not complain",
}


def lint_names() -> dict[str, str]:
    """Return all lints with a one-line description."""
    return {**{lint.name: lint.says for lint in LINTS}, **FILE_LINTS}


def lint_rules(
    rules: Sequence[Rule], cases_of: Mapping[str, Cases] | None = None, stray: Sequence[RuleSource] = ()
) -> list[str]:
    """Return all complaints about the rules, in order of the files. Without `cases_of` the lints of cases are
    skipped."""
    rule_set = collect_rules(rules, cases_of or {}, stray)
    lints = [lint for lint in LINTS if cases_of is not None or not lint.of_cases]
    lines = [line for rule in rules for line in _rule_complaints(rule, rule_set, lints)]
    for source in stray:
        wanted = source.path.removesuffix(".cases.yaml") + ".yaml"
        lines.append(source.complaint(f"[cases-without-rule] there is no {wanted}; rename or remove this file", ()))
    return lines


def collect_rules(rules: Iterable[Rule], cases_of: Mapping[str, Cases], stray: Sequence[RuleSource]) -> RuleSet:
    """Build the indexes of all rules that the lints use."""
    titles: dict[str, Rule] = {}
    by_condition: dict[str, Rule] = {}
    by_id: dict[str, Rule] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        by_id[rule.id] = rule
        titles.setdefault(rule.file.title.lower(), rule)
        by_condition.setdefault(rule_file.condition_key(rule), rule)
    return RuleSet(by_id, cases_of, stray, titles, by_condition)


def _rule_complaints(rule: Rule, rule_set: RuleSet, lints: Sequence[Lint]) -> Iterator[str]:
    allows = {comment.name: comment for comment in parse_allows(rule.source.text)}
    used: set[str] = set()
    for lint in lints:
        for complaint in lint.check(rule, rule_set):
            if lint.name in allows:
                used.add(lint.name)
                continue
            yield format_issue(rule, lint.name, complaint)
    known = lint_names()
    for name, allow in allows.items():
        if name not in used and (name not in known or any(lint.name == name for lint in lints)):
            yield _needless_allow(rule, allow, known)


def format_issue(rule: Rule, name: str, complaint: LintIssue) -> str:
    """Return `path:line:column: [name] message`, the line and a caret."""
    source = complaint.source or rule.source
    return source.complaint(f"[{name}] {complaint.message}", complaint.where, complaint.word)


def _needless_allow(rule: Rule, comment: AllowComment, known: Mapping[str, str]) -> str:
    if comment.name in known:
        message = f"{comment.name} has nothing to complain of here; take the comment out"
    else:
        message = f"no lint check '{comment.name}'{suggestion(comment.name, known)}"
    place = Place(comment.line, comment.column)
    return point_at(rule.source.path, rule.source.text, f"[allow-of-nothing] {message}", place)
