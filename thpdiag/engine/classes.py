"""Classes of evidence, and which of them are independent of one another.

- `policy`: settings in force. `state`: what the host is and how its memory lies. `total`: a count since boot, or of a
  process's whole life. None of them proves that anything hurts now.
- `stack`: call stacks. `counter`: a kernel counter's change, whichever tool printed it (vmstat's si is the change of
  pswpin). `cpu`: how CPU time is split. `effect`: growth of memory, pace, load. These speak of a stretch of time.
- `toggle`: the same with the setting on and off.
- `log`: kernel messages. `application`: what a program says of itself. `action`: what an operator did. They support: a
  program warns of a setting, not of what the setting does; a message says that something hung, not why.

CPU split and growth are two faces of one thing, what it did to the host: one kind of DESIGN 1's three, `effect`.
"""

from __future__ import annotations

from collections.abc import Mapping

from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    SeriesCheck,
    ToggleCheck,
    listed,
)
from thpdiag.knowledge.vocabulary import term
from thpdiag.model.event import OPERATOR_KINDS

# Of the classes that speak of a stretch of time, the kind that each is of: two kinds confirm a finding.
INDEPENDENT: Mapping[str, str] = {"stack": "stack", "counter": "counter", "cpu": "effect", "effect": "effect"}
DYNAMIC = frozenset(INDEPENDENT)
LASTING = frozenset({"policy", "state", "total", "application"})  # no further recording could turn a no of theirs
CPU = ("cpu_ratio.", "process_cpu")
EFFECTS = ("process_", "node_load", "node_procs", "node_pressure", "vmstat_cache")
OF_ITSELF = ("app.thp_warning", "app.latency", "app.log")  # facts that an application wrote about itself


def kinds(classes: frozenset[str] | set[str]) -> frozenset[str]:
    """The independent kinds among classes of evidence."""
    return frozenset(INDEPENDENT[one] for one in classes if one in INDEPENDENT)


def of_metric(metric: str, as_: str) -> str:
    """The class of a figure of a metric."""
    if as_ == "since_boot_rate" or metric.endswith(".lifetime"):
        return "total"
    if metric.startswith(CPU):
        return "cpu"
    if metric.startswith(EFFECTS) or as_ in ("knee", "step"):
        return "effect"
    known = term(metric)
    if known and known.kind in ("counter", "rate"):
        return "counter"
    return "effect" if as_ in ("delta", "slope") else "state"


def of_fact(name: str) -> str:
    """The class of a fact, or of the latest value of a metric."""
    if name.startswith(OF_ITSELF):
        return "application"
    known = term(name)
    return {"setting": "policy", "counter": "total", "rate": "counter"}.get(known.kind, "state") if known else "state"


def of_event(check: EventCheck) -> str:
    if check.anywhere is not None or check.under is not None:
        return "stack"
    return "action" if set(listed(check.event)) <= OPERATOR_KINDS else "log"


def of_check(check: Check) -> str:
    """The class of a yes of the check; of a process's CPU use, where it is that of a stretch of time."""
    match check:
        case FactCheck():
            return of_fact(check.fact)
        case SeriesCheck():
            return of_metric(check.series, check.as_)
        case ChangeCheck():
            return of_metric(listed(check.change.of)[0], "delta")
        case ProfileCheck():
            return "stack"
        case EventCheck():
            return of_event(check)
        case ToggleCheck():
            return "toggle"
        case ProcessCheck() if check.process.cpu_above is not None:
            return "cpu"
        case _:
            return "state"
