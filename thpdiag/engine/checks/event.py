"""`event`: kernel messages, stacks of single tasks, operator actions."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial

from thpdiag.engine.check_result import NO, YES, CheckResult, unknown_result
from thpdiag.engine.schema import EventCheck, as_list
from thpdiag.engine.stacks import matches_in_order, subject_function
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import event_conditions
from thpdiag.knowledge.vocabulary import event as event_term
from thpdiag.model import Event, Fact
from thpdiag.model.facts import OPERATOR_KINDS
from thpdiag.model.text import function_name, path_name, process_name, quoted

_COMPARISON = re.compile(r"(?P<op>>=|<=|>|<)\s*(?P<bound>-?\d+(?:\.\d+)?)")
_NEGATION = re.compile(r"!=\s*(?P<word>\S.*)")
_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
TASK_KINDS = frozenset({"task_stack"})


def judge(check: EventCheck, view: StateView) -> CheckResult:
    """Yes if enough events match; no if a log of that kind was read and they do not; unknown without one."""
    kinds = as_list(check.event)
    of_state = [e for e in view.state.events if e.kind in kinds and matches_event(check, e)]
    of_case = (e for e in view.case.events if e.kind in kinds and matches_event(check, e))
    events = of_state + [e for e in of_case if e not in of_state]
    if len(events) >= check.at_least:
        return CheckResult(check, YES, partial(_describe, events), events[0].cite, float(len(events)))
    logs = _log_records(kinds, view)
    if not logs:
        known = event_term(kinds[0])
        text = f"no record that would show it: {known.means if known else kinds[0]}"
        return unknown_result(check, kinds[0], text)
    return CheckResult(
        check, NO,
        lambda: f"{_kind_titles(kinds)}{event_conditions(check)}: {len(events)} times in {_members_text(logs)}",
        logs[0].cite, float(len(events)),
    )  # fmt: skip


def _log_records(kinds: list[str], view: StateView) -> list[Fact | Event]:
    """Return the records which prove that such events would be in the input."""
    if set(kinds) <= OPERATOR_KINDS:
        shell_kinds = OPERATOR_KINDS - {"operator_change"}
        return [e for e in (*view.case.events, *view.state.events) if e.kind in shell_kinds]
    if set(kinds) <= TASK_KINDS:
        return [e for e in (*view.state.events, *view.case.events) if e.kind in TASK_KINDS]
    return list(view.facts("log.read"))


def _members_text(logs: Sequence[Fact | Event]) -> str:
    """Name the first member and count the others: a host may send a year of logs."""
    members = list(dict.fromkeys(log.cite.member for log in logs))
    first = path_name(members[0])
    return first if len(members) == 1 else f"{first} and {len(members) - 1} more"


def _kind_titles(kinds: Sequence[str]) -> str:
    return " or ".join(known.means.split(" (")[0] if (known := event_term(kind)) else kind for kind in kinds)


def matches_event(check: EventCheck, event: Event) -> bool:
    """Whether an event of the kind has the fields and the stack that a check asks for."""
    if not all(_matches_field(event.fields.get(name), wanted) for name, wanted in check.where.items()):
        return False
    names = event.stack
    if check.not_anywhere is not None and matches_in_order(names, (as_list(check.not_anywhere),)):
        return False
    if check.anywhere is None and check.under is None:
        return True
    wanted = [as_list(check.anywhere)] if check.anywhere is not None else []
    wanted += [[family] for family in as_list(check.under)]
    return matches_in_order(names, tuple(wanted))


def _matches_field(value: str | None, wanted: str) -> bool:
    if negation := _NEGATION.fullmatch(str(wanted)):
        return value != negation["word"]
    if value is None:
        return False
    if comparison := _COMPARISON.fullmatch(str(wanted)):
        try:
            return bool(_OPERATORS[comparison["op"]](float(value), float(comparison["bound"])))
        except ValueError:
            return False
    return fnmatchcase(value, str(wanted))


_FIELD_FORMATS = {"comm": process_name, "victim": process_name}  # fields of an event that hold names of programs
REPORT_KINDS = frozenset((
    "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
    "oops",
    "workqueue_lockup",
))  # fmt: skip
"""Kinds of kernel messages that report a problem."""
HIDDEN_FIELDS = frozenset({"unreliable", "host"})  # stale frames; the host is the one that the result is about
WRITE_OUTCOMES = {
    "prompt": "was made", "prose": "is in the text", "failed": "was refused", "no-effect": "had no effect",
    "sudo-redirect": "has no effect: the shell opens the file without root",
}  # fmt: skip


def _describe(events: list[Event]) -> str:
    first = events[0]
    if first.kind == "setting_written":
        value, outcome = first.fields.get("value", ""), first.fields.get("how", "")
        path = path_name(first.fields.get("path") or first.fields.get("setting", ""))
        return f"the write of {quoted(value)} to {path} {WRITE_OUTCOMES.get(outcome, outcome)}"
    fields = ", ".join(
        f"{k} {_FIELD_FORMATS.get(k, quoted)(v)}" for k, v in first.fields.items() if v and k not in HIDDEN_FIELDS
    )
    if first.kind in REPORT_KINDS and (function := subject_function(first)):
        fields += f"{', ' if fields else ''}in {function_name(function)}"
    more = f", and {len(events) - 1} more" if len(events) > 1 else ""
    return f"{_kind_titles([first.kind])} ({fields}){more}"
