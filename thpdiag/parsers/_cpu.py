"""CPU ratios by mode, as top, mpstat, sar and collectl split them, with their sums; names and CPU time of processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from thpdiag.model import Entity
from thpdiag.parsers._units import CACHED_TEXTS, MAX_NUMBER_CHARS, parse_number

USER_MODES = ("user", "nice", "guest", "guest_nice")  # sources that include guest time in user pass no guest
SYSTEM_MODES = ("system", "irq", "softirq")
MAX_CPU_SUM = 1.05  # sum of all modes; the columns are rounded
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
CPU_METRICS = {mode: f"cpu_ratio.{mode}" for mode in CPU_MODES}


def cpu_ratios(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `cpu_ratio.*` for the modes in `parts` (0..1), with user_total, sys_total, busy and sys_share.

    sys_share is the kernel's share of busy time. Modes that the source does not report are left out, also of the sums.
    A part is a number or a numpy column.
    """
    ratios = {name: _clip_to_one(parts[mode]) for mode, name in CPU_METRICS.items() if mode in parts}
    if "user" not in parts or "system" not in parts:
        return ratios
    user = _clip_to_one(sum([parts[mode] for mode in USER_MODES if mode in parts]))
    system = _clip_to_one(sum([parts[mode] for mode in SYSTEM_MODES if mode in parts]))
    return _add_sums(ratios, user, system)


def cpu_ratios_of_totals(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same for iostat and sar, whose `system` includes interrupts and whose `user` includes guests."""
    ratios = {f"cpu_ratio.{mode}": parts[mode] for mode in ("user", "nice", "iowait", "steal", "idle") if mode in parts}
    return _add_sums(ratios, _clip_to_one(parts["user"] + parts["nice"]), parts["system"])


def _clip_to_one(share: Any) -> Any:
    return min(share, 1.0) if isinstance(share, int | float) else share.clip(max=1.0)


def _add_sums(ratios: dict[str, Any], user: Any, system: Any) -> dict[str, Any]:
    busy = user + system
    ratios["cpu_ratio.user_total"], ratios["cpu_ratio.sys_total"] = user, system
    ratios["cpu_ratio.busy"] = _clip_to_one(busy)
    if not isinstance(busy, int | float):
        import numpy as np  # imported late: only long recordings pass columns

        share = np.full(len(busy), np.nan)
        ratios["cpu_ratio.sys_share"] = np.divide(system, busy, out=share, where=busy > 0)
    elif busy > 0:
        ratios["cpu_ratio.sys_share"] = system / busy
    return ratios


def is_plausible(parts: Mapping[str, float]) -> bool:
    """Return whether the sum of the shares is above 0 and not above 1 by more than rounding."""
    return 0 < sum(parts.values()) <= MAX_CPU_SUM


MAX_COMM_CHARS = 15  # characters of a task name that the kernel keeps
_CPU_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,9}):(\d{1,2}(?:[.,]\d{1,3})?)", re.ASCII)
_BRACKETED_NAME = re.compile(r"\[(.{1,64}?)\](?:\s<defunct>)?$")
_PER_CPU_THREAD = re.compile(r"(?:ksoftirqd|kworker|migration|watchdog|cpuhp)/\d")


def task_name(command: str) -> str:
    """Return the task name (comm) of a command line: `[khugepaged]`, `/opt/jdk/bin/java -Xmx1g`, `postgres: writer`."""
    if kernel := _BRACKETED_NAME.match(command):
        return kernel[1]
    first = command.split(None, 1)[0] if command.strip() else ""
    if _PER_CPU_THREAD.match(first):  # the slash in the name of a kernel thread is no path separator
        return first[:MAX_COMM_CHARS]
    return first.rpartition("/")[2].lstrip("-").rstrip(":")[:MAX_COMM_CHARS] or first[:MAX_COMM_CHARS]


def process_entity(pid: str, comm: str = "") -> Entity:
    """Return the entity of a process in a series, with the task name if it is known."""
    return (("pid", pid), ("comm", comm)) if comm else (("pid", pid),)


def cpu_seconds(text: str) -> float | None:
    """Parse `[days-][hours:]minutes:seconds[.hundredths]`, or plain seconds."""
    return _seconds(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(CACHED_TEXTS)
def _seconds(text: str) -> float | None:
    match = _CPU_TIME.fullmatch(text)
    if not match:
        return parse_number(text)
    days, hours, minutes = (int(part or 0) for part in match.group(1, 2, 3))
    return days * 86400.0 + hours * 3600 + minutes * 60 + float(match[4].replace(",", "."))
