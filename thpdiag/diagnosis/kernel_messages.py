"""Kernel messages of trouble that no finding explains: told with the first function of the trace that matters.

A message is explained where a rule that fired asks for such a one.
"""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.engine.check_result import YES
from thpdiag.engine.checks.event import REPORTS, fits
from thpdiag.engine.schema import EventCheck, as_list
from thpdiag.engine.stacks import telling_function
from thpdiag.knowledge.vocabulary import event as event_term
from thpdiag.model import Event
from thpdiag.model.case import Note
from thpdiag.model.text import function_name, process_name

MOST = 8  # kinds of messages that are told one by one
# kernel/workqueue.c, kernel/kthread.c, kernel/rcu, kernel/sched/completion.c
_FOR_OTHERS = frozenset({
    "flush_work", "__flush_work", "flush_workqueue", "__flush_workqueue", "drain_workqueue", "cancel_work_sync",
    "__cancel_work_timer", "kthread_stop", "kthread_flush_work", "synchronize_rcu", "synchronize_sched", "wait_rcu_gp",
    "__wait_rcu_gp", "rcu_barrier", "wait_for_common", "__wait_for_common", "do_wait_for_common",
})  # fmt: skip


def unexplained_messages(diagnosis: Diagnosis) -> Iterator[Note]:
    """One note for each kind of message and function, the most frequent first."""
    groups = _group_messages(diagnosis)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (kind, function), found in ordered[:MOST]:
        yield Note(_words(kind, function, found), found[0].cite)
    if rest := [event for _, found in ordered[MOST:] for event in found]:
        kinds = " or ".join(dict.fromkeys(_title(event.kind) for event in rest))
        yield Note(f"{len(rest)} more kernel messages that no finding explains: {kinds}", rest[0].cite)


def waits_for_others(diagnosis: Diagnosis) -> frozenset[str]:
    """The kinds of unexplained messages about a task that waits until another one has done something, or of which no
    trace is there: they may be about anything, and rule out nothing."""
    return frozenset(kind for kind, function in _group_messages(diagnosis) if not function or function in _FOR_OTHERS)


def _group_messages(diagnosis: Diagnosis) -> dict[tuple[str, str], list[Event]]:
    """By kind and function."""
    case = diagnosis.case
    asked = [
        check
        for finding in diagnosis.findings
        for name, check in diagnosis.rule_by_id[finding.outcome.rule].checks.items()
        if isinstance(check, EventCheck) and getattr(finding.outcome.answers.get(name), "value", None) is YES
    ]
    groups: dict[tuple[str, str], list[Event]] = {}
    events = (*case.events, *(event for state in case.states for event in state.events))
    for event in {id(event): event for event in events if event.kind in REPORTS}.values():
        if not any(event.kind in as_list(check.event) and fits(check, event) for check in asked):
            groups.setdefault((event.kind, telling_function(event)), []).append(event)
    return groups


def _words(kind: str, function: str, found: list[Event]) -> str:
    first = found[0].fields
    who = process_name(first["comm"]) if first.get("comm") else ""
    where = f"in {function_name(function)}" if function else ""
    order = f"order {first['order']}" if first.get("order") else ""
    aside = ", ".join(filter(None, [who, where, order]))
    times = f", {len(found)} times" if len(found) > 1 else ""
    return f"kernel message that no finding explains: {_title(kind)}{f' ({aside})' if aside else ''}{times}"


def _title(kind: str) -> str:
    known = event_term(kind)
    return known.means.split(" (")[0] if known else kind
