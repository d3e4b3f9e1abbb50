"""How sure a finding is, and what would make it surer (DESIGN 1).

A rule says which checks make a level; the classes of evidence that speak say how high it can be: policy, state, totals
since boot and what programs or people say license a finding; one kind of stack, counter change and effect makes
`likely`; two of them, or an on/off toggle, `confirmed`. What is weak or assumed counts for nothing, and as long as
something that would explain it otherwise is open the finding stays `possible`. Testimony makes `likely`, and is no
second kind beside a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from thpdiag.engine.check_result import UNKNOWN, YES, CheckResult, CheckResults, check_class, independent_kinds
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import OTHER_SETTING, Check, EventCheck, ProcessCheck, ToggleCheck, as_list
from thpdiag.model import CONFIDENCES, Raise, RuleOutcome, Verdict3

OF_STATE = ("configuration", "risk", "context")  # roles of rules that state alone may confirm
MOST_TOGETHER = 2  # checks that are tried together for the next level
MOST_RAISES = 3


def confidence_level(rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome]) -> str:
    """The level that the rule gives, as far as the evidence licenses it."""
    level = 0
    for name in ("likely", "confirmed"):
        expression = rule.confidence.get(name)
        if expression is not None and expression.value(lambda n: answers[n].value) is YES:
            level = CONFIDENCES.index(name)
    return CONFIDENCES[0 if open_excluders else min(level, _cap(rule, answers), _required_level(rule, answers))]


def _required_level(rule: Rule, answers: CheckResults) -> int:
    """How sure the rules are without which it would not hold."""
    for level in range(len(CONFIDENCES)):
        left = {n: UNKNOWN if a.confidence in CONFIDENCES[: level + 1] else a.value for n, a in answers.items()}
        if rule.when.value(left.__getitem__) is not YES:
            return level
    return len(CONFIDENCES) - 1


def _cap(rule: Rule, answers: CheckResults) -> int:
    """What the kinds of evidence allow, as an index into CONFIDENCES."""
    counted = rule.supporting
    solid = {n: a for n, a in answers.items() if n in counted and a.value is YES and not a.weak and not a.assumed}
    if any(a.kind == "toggle" for a in solid.values()):
        return 2
    without = rule.when.value(lambda n: _solid(answers[n]))
    if without is not YES and any(a.assumed or a.weak for a in answers.values() if a.value is YES):
        return 0
    independent = independent_kinds({a.kind for a in solid.values()})
    if rule.file.role in OF_STATE and not independent:
        return 2 if solid else 0
    testified = any(a.kind == "testimony" for a in solid.values())
    return max(min(len(independent), 2), 1 if testified else 0)


def _solid(answer: CheckResult) -> Verdict3:
    return UNKNOWN if answer.value is YES and (answer.assumed or answer.weak) else answer.value


def confidence_hints(
    rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome], now: str
) -> tuple[str, ...]:
    """What would raise the confidence: open excluders, open checks of the higher levels, better recordings."""
    found = [f"decide {o.rule}: {', '.join(o.missing) or 'its input is missing'}" for o in open_excluders]
    for level, expression in rule.confidence.items():
        if CONFIDENCES.index(level) > CONFIDENCES.index(now):
            found += [answers[n].requirement for n in expression.names() if answers[n].value is UNKNOWN]
    if now != CONFIDENCES[-1]:
        found += [a.surer for a in answers.values() if a.value is YES and a.weak and a.surer]
    return tuple(dict.fromkeys(found))


def possible_raises(
    rule: Rule, answers: CheckResults, open_excluders: Sequence[RuleOutcome], now: str
) -> tuple[Raise, ...]:
    """Which evidence would raise the confidence and to what, tried out: the fewest checks that do."""
    lacking = [name for outcome in open_excluders for name in outcome.missing]
    missing = {n: _names(rule.checks[n], answers[n]) for n in _open_checks(rule, answers)}
    for count in range(MOST_TOGETHER + 1):
        found: dict[tuple[str, tuple[str, ...]], Raise] = {}
        for chosen in combinations(missing, count):
            with_them = {n: _as_solid_yes(a) if n in chosen else a for n, a in answers.items()}
            to = confidence_level(rule, with_them, ())
            if CONFIDENCES.index(to) > CONFIDENCES.index(now):
                classes = tuple(dict.fromkeys(check_class(rule.checks[n]) for n in chosen))
                names = tuple(dict.fromkeys((*lacking, *(name for n in chosen for name in missing[n]))))
                found.setdefault((to, classes), Raise(to, classes, names))
        if found:
            return tuple(sorted(found.values(), key=lambda r: -CONFIDENCES.index(r.to)))[:MOST_RAISES]
    return ()


def _open_checks(rule: Rule, answers: CheckResults) -> Iterator[str]:
    """Checks that could say yes, or say it more solidly, if more had been recorded; a total never becomes more."""
    for name in sorted(rule.supporting, key=list(rule.checks).index):
        answer = answers[name]
        doubtful = answer.value is YES and (answer.weak or answer.assumed)
        if (answer.value is UNKNOWN or doubtful) and check_class(rule.checks[name]) != "total":
            yield name


def _as_solid_yes(answer: CheckResult) -> CheckResult:
    return replace(answer, value=YES, weak=False, assumed=False)


def _names(check: Check, answer: CheckResult) -> tuple[str, ...]:
    """The vocabulary names of what a check looks at, if it does not say what it lacks."""
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
