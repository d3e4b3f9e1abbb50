"""Kernel messages about problems that no finding explains, with the first relevant function of their trace.

A message is explained if a check of a rule that fired matches it.
"""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.engine.check_result import YES
from thpdiag.engine.checks.event import REPORT_KINDS, matches_event
from thpdiag.engine.schema import EventCheck, as_list
from thpdiag.engine.stacks import subject_function
from thpdiag.knowledge.vocabulary import event as event_term
from thpdiag.model import Event
from thpdiag.model.case import Note
from thpdiag.model.text import function_name, process_name

MAX_NOTES = 8  # kinds of messages with a note of their own
# Functions that wait for another task: kernel/workqueue.c, kernel/kthread.c, kernel/rcu, kernel/sched/completion.c
_WAIT_FUNCTIONS = frozenset({
    "flush_work", "__flush_work", "flush_workqueue", "__flush_workqueue", "drain_workqueue", "cancel_work_sync",
    "__cancel_work_timer", "kthread_stop", "kthread_flush_work", "synchronize_rcu", "synchronize_sched", "wait_rcu_gp",
    "__wait_rcu_gp", "rcu_barrier", "wait_for_common", "__wait_for_common", "do_wait_for_common",
})  # fmt: skip


def unexplained_messages(diagnosis: Diagnosis) -> Iterator[Note]:
    """Yield one note for each kind of message and function, the most frequent first."""
    groups = _group_messages(diagnosis)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (kind, function), events in ordered[:MAX_NOTES]:
        yield Note(_note_text(kind, function, events), events[0].cite)
    if rest := [event for _, events in ordered[MAX_NOTES:] for event in events]:
        kinds = " or ".join(dict.fromkeys(_title(event.kind) for event in rest))
        yield Note(f"{len(rest)} more kernel messages that no finding explains: {kinds}", rest[0].cite)


def inconclusive_message_kinds(diagnosis: Diagnosis) -> frozenset[str]:
    """Return the kinds of unexplained messages whose task waits for another one, or that have no trace. They may
    have any cause, so they rule out nothing."""
    return frozenset(kind for kind, name in _group_messages(diagnosis) if not name or name in _WAIT_FUNCTIONS)


def _group_messages(diagnosis: Diagnosis) -> dict[tuple[str, str], list[Event]]:
    """Unexplained messages by kind and function."""
    case = diagnosis.case
    checks = [
        check
        for finding in diagnosis.findings
        for name, check in diagnosis.rule_by_id[finding.outcome.rule].checks.items()
        if isinstance(check, EventCheck) and getattr(finding.outcome.answers.get(name), "value", None) is YES
    ]
    groups: dict[tuple[str, str], list[Event]] = {}
    events = (*case.events, *(event for state in case.states for event in state.events))
    for event in {id(event): event for event in events if event.kind in REPORT_KINDS}.values():
        if not any(event.kind in as_list(check.event) and matches_event(check, event) for check in checks):
            groups.setdefault((event.kind, subject_function(event)), []).append(event)
    return groups


def _note_text(kind: str, function: str, events: list[Event]) -> str:
    first = events[0].fields
    comm = process_name(first["comm"]) if first.get("comm") else ""
    location = f"in {function_name(function)}" if function else ""
    order = f"order {first['order']}" if first.get("order") else ""
    details = ", ".join(filter(None, [comm, location, order]))
    times = f", {len(events)} times" if len(events) > 1 else ""
    return f"kernel message that no finding explains: {_title(kind)}{f' ({details})' if details else ''}{times}"


def _title(kind: str) -> str:
    known = event_term(kind)
    return known.means.split(" (")[0] if known else kind
