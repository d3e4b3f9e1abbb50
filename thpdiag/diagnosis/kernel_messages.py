"""Kernel messages of trouble that no finding explains: told with the first function of the trace that matters.

A message is explained where a rule that fired asks for such a one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.engine.check_result import YES
from thpdiag.engine.checks.event import fits
from thpdiag.engine.schema import EventCheck, as_list
from thpdiag.knowledge.vocabulary import event as event_term
from thpdiag.model import Event
from thpdiag.model.case import Note
from thpdiag.model.text import process_name

KINDS = (
    "hung_task", "soft_lockup", "hard_lockup", "rcu_stall", "allocation_failure", "allocation_stall", "oom_kill",
)  # fmt: skip
MOST = 5  # kinds of messages that are told
# Frames of every wait and of the watchdog itself, above what is waited for.
WAITING = re.compile(
    r"_*(?:io_)?schedule\w*|preempt_schedule\w*|\w*wait_on_bit|bit_wait\w*|\w*wait_for_(?:common|completion)\w*"
    r"|prepare_to_wait\w*|finish_wait|\w+_wake_function|dump_\w+|show_stack|warn_alloc\w*|watchdog_timer_fn"
    r"|\w*apic_timer_interrupt|oom_kill_process|out_of_memory|sched_show_task|rcu_dump_cpu_stacks|nmi_\w+|trigger_\w+"
)


def unexplained_messages(diagnosis: Diagnosis) -> Iterator[Note]:
    """One note for each kind of message and function, the most frequent first."""
    case = diagnosis.case
    asked = [
        check
        for finding in diagnosis.findings
        for name, check in diagnosis.rule_by_id[finding.outcome.rule].checks.items()
        if isinstance(check, EventCheck) and getattr(finding.outcome.answers.get(name), "value", None) is YES
    ]
    groups: dict[tuple[str, str], list[Event]] = {}
    events = (*case.events, *(event for state in case.states for event in state.events))
    for event in {id(event): event for event in events if event.kind in KINDS}.values():
        if not any(event.kind in as_list(check.event) and fits(check, event) for check in asked):
            groups.setdefault((event.kind, _first_that_matters(event)), []).append(event)
    for (kind, function), found in sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST]:
        yield Note(_words(kind, function, found), found[0].cite)


def _first_that_matters(event: Event) -> str:
    return next((name for name in event.stack if not WAITING.fullmatch(name)), "")


def _words(kind: str, function: str, found: list[Event]) -> str:
    known, first = event_term(kind), found[0].fields
    what = known.means.split(" (")[0] if known else kind
    who = process_name(first["comm"]) if first.get("comm") else ""
    aside = ", ".join(
        filter(
            None, [who, f"in {function}" if function else "", f"order {first['order']}" if first.get("order") else ""]
        )
    )
    times = f", {len(found)} times" if len(found) > 1 else ""
    return f"kernel message that no finding explains: {what}{f' ({aside})' if aside else ''}{times}"
