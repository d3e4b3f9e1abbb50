"""CPU time by mode, as top, mpstat, sar and collectl split it, with its sums; names and CPU time of processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from thpdiag.model import Entity
from thpdiag.parsers._units import CACHED_TEXTS, MAX_NUMBER_CHARS, parse_number

USER_MODES = ("user", "nice", "guest", "guest_nice")  # guest is here only where the source took it out of user
SYSTEM_MODES = ("system", "irq", "softirq")
MAX_CPU_SUM = 1.05  # that the shares of rounded columns add up to
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
CPU_METRICS = {mode: f"cpu_ratio.{mode}" for mode in CPU_MODES}


def cpu_ratios(parts: Mapping[str, Any]) -> dict[str, Any]:
    """`cpu_ratio.*` of the parts (0..1), of user_total, sys_total and busy, and the kernel's share of busy time.

    Parts that the source does not have are not in the result; sums are made of what it has. A part is a number, or a
    column of them.
    """
    found = {name: _at_most_one(parts[mode]) for mode, name in CPU_METRICS.items() if mode in parts}
    if "user" not in parts or "system" not in parts:
        return found
    user = _at_most_one(sum([parts[mode] for mode in USER_MODES if mode in parts]))
    system = _at_most_one(sum([parts[mode] for mode in SYSTEM_MODES if mode in parts]))
    return _with_sums(found, user, system)


def cpu_ratios_of_totals(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The same where `system` has interrupts in it and `user` guests, as iostat and sar print it."""
    found = {f"cpu_ratio.{mode}": parts[mode] for mode in ("user", "nice", "iowait", "steal", "idle") if mode in parts}
    return _with_sums(found, _at_most_one(parts["user"] + parts["nice"]), parts["system"])


def _at_most_one(share: Any) -> Any:
    return min(share, 1.0) if isinstance(share, int | float) else share.clip(max=1.0)


def _with_sums(found: dict[str, Any], user: Any, system: Any) -> dict[str, Any]:
    """What was found, and the sums."""
    busy = user + system
    found["cpu_ratio.user_total"], found["cpu_ratio.sys_total"] = user, system
    found["cpu_ratio.busy"] = _at_most_one(busy)
    if not isinstance(busy, int | float):
        import numpy as np  # columns are its

        share = np.full(len(busy), np.nan)
        found["cpu_ratio.sys_share"] = np.divide(system, busy, out=share, where=busy > 0)
    elif busy > 0:
        found["cpu_ratio.sys_share"] = system / busy
    return found


def is_plausible(parts: Mapping[str, float]) -> bool:
    """Whether the parts can be shares of one whole: sums above by more than rounding, or of nothing, are not."""
    return 0 < sum(parts.values()) <= MAX_CPU_SUM


MAX_COMM_CHARS = 15  # characters of a task name that the kernel keeps
_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,9}):(\d{1,2}(?:[.,]\d{1,3})?)", re.ASCII)
_BRACKETS = re.compile(r"\[(.{1,64}?)\](?:\s<defunct>)?$")
_OF_ONE_CPU = re.compile(r"(?:ksoftirqd|kworker|migration|watchdog|cpuhp)/\d")


def task_name(command: str) -> str:
    """The task name that belongs to a command line: `[khugepaged]`, `/opt/jdk/bin/java -Xmx1g`, `postgres: writer`."""
    if kernel := _BRACKETS.match(command):
        return kernel[1]
    first = command.split(None, 1)[0] if command.strip() else ""
    if _OF_ONE_CPU.match(first):  # the slash of a kernel thread's name is no part of a path
        return first[:MAX_COMM_CHARS]
    return first.rpartition("/")[2].lstrip("-").rstrip(":")[:MAX_COMM_CHARS] or first[:MAX_COMM_CHARS]


def process_entity(pid: str, comm: str = "") -> Entity:
    """How a process is named in a series; the task name only where it is known."""
    return (("pid", pid), ("comm", comm)) if comm else (("pid", pid),)


def cpu_seconds(text: str) -> float | None:
    """`[days-][hours:]minutes:seconds[.hundredths]`, or plain seconds."""
    return _seconds(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(CACHED_TEXTS)
def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    if not found:
        return parse_number(text)
    days, hours, minutes = (int(part or 0) for part in found.group(1, 2, 3))
    return days * 86400.0 + hours * 3600 + minutes * 60 + float(found[4].replace(",", "."))
