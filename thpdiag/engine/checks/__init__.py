"""One kind of check per file; `judge` sends a check to its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import change, event, fact, process, profile, series, toggle
from thpdiag.engine.expression import negate
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    RuleCheck,
    SeriesCheck,
    ToggleCheck,
)
from thpdiag.engine.state_view import OF_THE_STATE, StateView
from thpdiag.knowledge.vocabulary import entities_of


def judge(check: Check, view: StateView) -> CheckResult:
    """What the check says of the view, doubted where input was lost."""
    memo, key, case = view.memo, (id(check), view.entity), view.case
    if memo is not None and key in memo:
        known: CheckResult = memo[key]
        return known
    result = JUDGES[type(check)](check, view)
    if case.hidden or case.tainted:
        hidden = case.hidden if result.kind == "stack" else case.hidden - _recordings(view)
        result = result.with_lost_input(hidden, case.tainted)
    if memo is not None and not isinstance(check, RuleCheck):
        memo[key] = result  # which keeps the check, so that no other one gets its id
    return result


def _recordings(view: StateView) -> set[str]:
    """The members that hold nothing but call stacks: what they lost, samples or names, is no other thing."""
    return {profile.cite.member for profile in view.state.profiles if profile.reader == "perf_data"}


def judge_rule(check: RuleCheck, view: StateView) -> CheckResult:
    """Yes if the other rule fires in this state (or is silent, if that is asked), as surely as that rule does."""
    other = view.outcomes.get(check.rule)
    value = other.value if other else UNKNOWN
    answer = value if check.is_ == "fires" else negate(value)
    word = {YES: "found", UNKNOWN: "cannot be decided", NO: "not found"}[value]
    named = f"{other.title} ({check.rule})" if other and other.title else check.rule
    rests = other is not None and check.is_ == "fires" and other.role != OF_THE_STATE
    cite = next((e.cite for e in other.evidence if e.cite), None) if other else None
    return CheckResult(
        check, answer, f"{word}: {named}", cite,
        missing=other.missing if other and answer is UNKNOWN else (),
        confidence=other.confidence or "" if other and rests else "",
    )  # fmt: skip


Judge = Callable[[Any, StateView], CheckResult]
JUDGES: Mapping[type[Any], Judge] = {
    FactCheck: fact.judge,
    SeriesCheck: series.judge,
    ChangeCheck: change.judge,
    ProfileCheck: profile.judge,
    EventCheck: event.judge,
    ProcessCheck: process.judge,
    ToggleCheck: toggle.judge,
    RuleCheck: judge_rule,
}


def is_per_entity(check: Check, kind: str, view: StateView) -> bool:
    """Whether the check may say of one entity of the kind what it does not say of another."""
    if isinstance(check, ProcessCheck):
        return kind == "process"
    names = check.metrics
    if isinstance(check, SeriesCheck) and check.as_ == "rate":
        names = (*names, f"{check.series}:rate")
    return any(kind in entities_of(name) and view.has_recorded(name) for name in names)
