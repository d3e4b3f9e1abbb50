"""`event`: kernel messages, stacks of single tasks, what an operator did."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

from thpdiag.engine.classes import of_event
from thpdiag.engine.family_words import callers_words, family_words
from thpdiag.engine.judged import NO, YES, Judged, Scene, unknown
from thpdiag.engine.schema import EventCheck, listed
from thpdiag.engine.stacks import in_order
from thpdiag.knowledge.vocabulary import event as event_term
from thpdiag.model import Event, Fact
from thpdiag.model.event import OPERATOR_KINDS

_COMPARISON = re.compile(r"(?P<op>>=|<=|>|<)\s*(?P<bound>-?\d+(?:\.\d+)?)")
_OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
TASK_KINDS = frozenset({"task_stack"})


def judge(check: EventCheck, scene: Scene) -> Judged:
    """Yes if enough events fit; no if a log of that kind was read and they do not; unknown without one."""
    kinds = listed(check.event)
    events = (*scene.state.events, *(e for e in scene.case.events if e not in scene.state.events))
    fitting = [e for e in events if e.kind in kinds and _fits(check, e)]
    kind = of_event(check)
    needed = f"{check.at_least} of {' or '.join(kinds)}{_conditions(check)}"
    if len(fitting) >= check.at_least:
        return Judged(YES, _said(fitting), needed, kind, fitting[0].cite, float(len(fitting)))
    logs = _were_read(kinds, scene)
    if not logs:
        known = event_term(kinds[0])
        return unknown(
            kinds[0], f"no record that would show it: {known.means if known else kinds[0]}", needed=needed, kind=kind
        )
    text = f"{_titles(kinds)}{_conditions(check)}: {len(fitting)} times in {_places(logs)}"
    return Judged(NO, text, needed, kind, logs[0].cite, float(len(fitting)))


def _were_read(kinds: list[str], scene: Scene) -> list[Fact | Event]:
    """What shows that such events would have been seen."""
    if set(kinds) <= OPERATOR_KINDS:
        return [e for e in (*scene.case.events, *scene.state.events) if e.kind in OPERATOR_KINDS]
    if set(kinds) <= TASK_KINDS:
        return [e for e in (*scene.state.events, *scene.case.events) if e.kind in TASK_KINDS]
    return list(scene.facts("log.read"))


def _places(logs: Sequence[Fact | Event]) -> str:
    """The members, the first by name: a host may have sent a whole year of logs."""
    members = list(dict.fromkeys(log.cite.member for log in logs))
    return members[0] if len(members) == 1 else f"{members[0]} and {len(members) - 1} more"


def _titles(kinds: Sequence[str]) -> str:
    return " or ".join(known.means.split(" (")[0] if (known := event_term(kind)) else kind for kind in kinds)


def _fits(check: EventCheck, event: Event) -> bool:
    if not all(_field(event.fields.get(name), wanted) for name, wanted in check.where.items()):
        return False
    names = event.stack
    if check.not_anywhere is not None and in_order(names, (listed(check.not_anywhere),)):
        return False
    if check.anywhere is None and check.under is None:
        return True
    wanted = [listed(check.anywhere)] if check.anywhere is not None else []
    wanted += [[family] for family in listed(check.under)]
    return in_order(names, tuple(wanted))


def _field(have: str | None, wanted: str) -> bool:
    if have is None:
        return False
    if comparison := _COMPARISON.fullmatch(str(wanted)):
        try:
            return bool(_OPERATORS[comparison["op"]](float(have), float(comparison["bound"])))
        except ValueError:
            return False
    return have == str(wanted)


def _conditions(check: EventCheck) -> str:
    parts = [f"{k} {v}" for k, v in check.where.items()]
    trace = [family_words(check.anywhere)] if check.anywhere else []
    trace += [callers_words(check.under)] if check.under else []
    parts += [f"with {' '.join(trace)} in the trace"] if trace else []
    return f" ({', '.join(parts)})" if parts else ""


UNSAID = frozenset({"unreliable", "host"})  # left over on the stack; the host is that of the report
HOW = {
    "prompt": "was made", "prose": "stands in the text", "failed": "was refused", "no-effect": "had no effect",
    "sudo-redirect": "has no effect: the shell opens the file without root",
}  # fmt: skip


def _said(events: list[Event]) -> str:
    first = events[0]
    if first.kind == "setting_written":
        what, how = first.fields.get("value", ""), first.fields.get("how", "")
        return f"the write of {what} to {first.fields.get('path', '')} {HOW.get(how, how)}"
    fields = ", ".join(f"{k} {v}" for k, v in first.fields.items() if v and k not in UNSAID)
    more = f", and {len(events) - 1} more" if len(events) > 1 else ""
    return f"{_titles([first.kind])} ({fields}){more}"
