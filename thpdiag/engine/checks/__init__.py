"""One module per kind of check; `judge` dispatches to it."""

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
from thpdiag.engine.state_view import CONTEXT_ROLE, StateView
from thpdiag.knowledge.vocabulary import entities_of


def judge(check: Check, view: StateView) -> CheckResult:
    """Return the result of a check on a view, weakened where input was lost."""
    memo, key, case = view.memo, (id(check), view.entity), view.case
    if memo is not None and key in memo:
        cached: CheckResult = memo[key]
        return cached
    result = JUDGES[type(check)](check, view)
    if case.hidden or case.tainted:
        # Samples or names lost by a recording of call stacks affect no other data.
        stack_members = {profile.cite.member for profile in view.state.profiles if profile.reader == "perf_data"}
        hidden = case.hidden if result.kind == "stack" else case.hidden - stack_members
        result = result.with_lost_input(hidden, case.tainted)
    if memo is not None and not isinstance(check, RuleCheck):
        memo[key] = result  # the result references the check, so that its id is not reused
    return result


def judge_rule(check: RuleCheck, view: StateView) -> CheckResult:
    """Yes if the other rule fires in this state (or is silent, if `is: silent`), with the confidence of that rule."""
    other = view.outcomes.get(check.rule)
    value = other.value if other else UNKNOWN
    answer = value if check.is_ == "fires" else negate(value)
    verdict = {YES: "found", UNKNOWN: "cannot be decided", NO: "not found"}[value]
    title = f"{other.title} ({check.rule})" if other and other.title else check.rule
    is_confident = other is not None and check.is_ == "fires" and other.role != CONTEXT_ROLE
    cite = next((e.cite for e in other.evidence if e.cite), None) if other else None
    return CheckResult(
        check, answer, f"{verdict}: {title}", cite,
        missing=other.missing if other and answer is UNKNOWN else (),
        confidence=other.confidence or "" if other and is_confident else "",
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
    """Whether the check may have different answers for two entities of the kind."""
    if isinstance(check, ProcessCheck):
        return kind == "process"
    names = check.metrics
    if isinstance(check, SeriesCheck) and check.as_ == "rate":
        names = (*names, f"{check.series}:rate")
    return any(kind in entities_of(name) and view.has_recorded(name) for name in names)
