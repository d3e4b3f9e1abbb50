"""The confidence of a finding, and the evidence that would raise it (DESIGN 1).

A rule names the checks of each level; the classes of evidence limit the level. Policy, state, totals since boot and
statements of programs or people allow only `possible`; one kind of stack, counter change and effect allows `likely`;
two of them, or an on/off toggle, `confirmed`. Weak or assumed evidence does not count. While a rule that may explain
the finding otherwise is unknown, the finding stays `possible`. Testimony allows `likely`, and is no second kind in
addition to a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from thpdiag.engine.check_result import UNKNOWN, YES, CheckResult, CheckResults, check_class, independent_kinds
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import OTHER_SETTING, Check, EventCheck, ProcessCheck, ToggleCheck, as_list
from thpdiag.model import CONFIDENCES, Raise, RuleOutcome, Verdict3

STATE_ROLES = ("configuration", "risk", "context")  # roles of rules that evidence of state alone may confirm
MAX_ADDED_CHECKS = 2  # checks that are assumed to answer yes when trying to reach a higher level
MAX_RAISES = 3


def confidence_level(rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome]) -> str:
    """Return the level that the rule defines, limited by what the evidence allows."""
    level = 0
    for name in ("likely", "confirmed"):
        expression = rule.confidence.get(name)
        if expression is not None and expression.value(lambda n: answers[n].value) is YES:
            level = CONFIDENCES.index(name)
    limits = (_evidence_level(rule, answers), _dependency_level(rule, answers))
    return CONFIDENCES[0 if open_excluders else min(level, *limits)]


def _dependency_level(rule: Rule, answers: CheckResults) -> int:
    """The lowest confidence, as an index, among the rules without which this rule would not fire."""
    for level in range(len(CONFIDENCES)):
        values = {n: UNKNOWN if a.confidence in CONFIDENCES[: level + 1] else a.value for n, a in answers.items()}
        if rule.when.value(values.__getitem__) is not YES:
            return level
    return len(CONFIDENCES) - 1


def _evidence_level(rule: Rule, answers: CheckResults) -> int:
    """The level that the kinds of evidence allow, as an index into CONFIDENCES."""
    solid = {n: a for n, a in answers.items() if n in rule.supporting and _solid_value(a) is YES}
    if any(a.kind == "toggle" for a in solid.values()):
        return 2
    if rule.when.value(lambda n: _solid_value(answers[n])) is not YES and any(
        a.assumed or a.weak for a in answers.values() if a.value is YES
    ):
        return 0
    independent = independent_kinds({a.kind for a in solid.values()})
    if rule.file.role in STATE_ROLES and not independent:
        return 2 if solid else 0
    has_testimony = any(a.kind == "testimony" for a in solid.values())
    return max(min(len(independent), 2), 1 if has_testimony else 0)


def _solid_value(answer: CheckResult) -> Verdict3:
    return UNKNOWN if answer.value is YES and (answer.assumed or answer.weak) else answer.value


def confidence_hints(
    rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome], current: str
) -> tuple[str, ...]:
    """Return what would raise the confidence: unknown excluders, unknown checks of higher levels, better recordings."""
    hints = [f"decide {o.rule}: {', '.join(o.missing) or 'its input is missing'}" for o in open_excluders]
    for level, expression in rule.confidence.items():
        if CONFIDENCES.index(level) > CONFIDENCES.index(current):
            hints += [answers[n].requirement for n in expression.names() if answers[n].value is UNKNOWN]
    if current != CONFIDENCES[-1]:
        hints += [a.surer for a in answers.values() if a.value is YES and a.weak and a.surer]
    return tuple(dict.fromkeys(hints))


def possible_raises(
    rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome], current: str
) -> tuple[Raise, ...]:
    """Return which evidence would raise the confidence, and to what level. It is found by trial: the confidence is
    computed as if one or more open checks answered yes; the fewest are returned."""
    excluder_names = [name for outcome in open_excluders for name in outcome.missing]
    missing = {n: _needed_names(rule.checks[n], answers[n]) for n in _open_checks(rule, answers)}
    for count in range(MAX_ADDED_CHECKS + 1):
        raises: dict[tuple[str, tuple[str, ...]], Raise] = {}
        for chosen in combinations(missing, count):
            solid_yes = {n: replace(answers[n], value=YES, weak=False, assumed=False) for n in chosen}
            assumed_answers = {**answers, **solid_yes}
            level = confidence_level(rule, assumed_answers, ())
            if CONFIDENCES.index(level) > CONFIDENCES.index(current):
                classes = tuple(dict.fromkeys(check_class(rule.checks[n]) for n in chosen))
                names = tuple(dict.fromkeys((*excluder_names, *(name for n in chosen for name in missing[n]))))
                raises.setdefault((level, classes), Raise(level, classes, names))
        if raises:
            return tuple(sorted(raises.values(), key=lambda r: -CONFIDENCES.index(r.to)))[:MAX_RAISES]
    return ()


def _open_checks(rule: Rule, answers: CheckResults) -> Iterator[str]:
    """Checks that more data could turn to yes, or to a solid yes. Totals since boot are excluded: they cannot
    improve."""
    for name in sorted(rule.supporting, key=list(rule.checks).index):
        answer = answers[name]
        is_doubtful = answer.value is YES and (answer.weak or answer.assumed)
        if (answer.value is UNKNOWN or is_doubtful) and check_class(rule.checks[name]) != "total":
            yield name


def _needed_names(check: Check, answer: CheckResult) -> tuple[str, ...]:
    """The vocabulary names that a check needs, unless its result states which are missing."""
    if answer.missing:
        return answer.missing
    match check:
        case EventCheck():
            return tuple(as_list(check.event)[:1])
        case ToggleCheck():
            return (OTHER_SETTING,)
        case ProcessCheck():
            return check.needs[-1:]
        case _:
            return check.needs
