"""What a rule needs to be decided: vocabulary names, and the words `profile`, `kernel_log`, `task_stack`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thpdiag.engine.load import Rule
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

OF_TOGGLES = {
    "sys_share": ("cpu_ratio.sys_total", "cpu_ratio.user_total"), "sys_total": ("cpu_ratio.sys_total",),
    "compaction_share": ("profile",), "compact_stall_rate": ("node_vmstat_compact_stall",),
    "work_rate": (), "fault_rate": ("node_vmstat_thp_fault_alloc",),
}  # fmt: skip


def needs(rule: Rule, rules: Mapping[str, Rule]) -> set[str]:
    """Names that the rule's own checks and those of the rules it depends on look at."""
    found = {name for check in rule.checks.values() for name in _of(check)}
    for other in rule.needs():
        if other in rules:
            found |= needs(rules[other], rules)
    return found


def _of(check: Check) -> Iterator[str]:
    yield from _of_numbers(check)
    match check:
        case ProfileCheck():
            yield "profile"
        case EventCheck():
            yield "task_stack" if listed(check.event) == ["task_stack"] else "kernel_log"
        case ProcessCheck():
            yield from ("process.command", *(["process_cpu_ratio"] if check.process.cpu_above is not None else []))
        case ToggleCheck():
            yield from listed(check.toggle.setting)
            yield from (name for metric in check.toggle.metrics for name in OF_TOGGLES[metric])


def _of_numbers(check: Check) -> Iterator[str]:
    match check:
        case FactCheck():
            yield check.fact
        case SeriesCheck():
            yield from (check.series, *(["uptime.seconds"] if check.as_ == "since_boot_rate" else []))
        case ChangeCheck():
            yield from (*listed(check.change.of), *listed(check.change.per))
