"""CPU time by mode, as top, mpstat, sar and collectl split it, and the sums that other tools print."""

from __future__ import annotations

from collections.abc import Mapping

USER = ("user", "nice", "guest", "guest_nice")  # guest is here only where the source took it out of user
SYSTEM = ("system", "irq", "softirq")
MOST = 1.05  # that the shares of rounded columns add up to
PRINTED = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
NAMES = {mode: f"cpu_ratio.{mode}" for mode in PRINTED}


def with_sums(parts: Mapping[str, float]) -> dict[str, float]:
    """`cpu_ratio.*` of the parts (0..1), of user_total, sys_total and busy, and the kernel's share of busy time.

    Parts that the source does not have are not in the result; sums are made of what it has.
    """
    found = {name: part if (part := parts[mode]) < 1.0 else 1.0 for mode, name in NAMES.items() if mode in parts}
    if "user" not in parts or "system" not in parts:
        return found
    user = min(sum([parts[mode] for mode in USER if mode in parts]), 1.0)
    system = min(sum([parts[mode] for mode in SYSTEM if mode in parts]), 1.0)
    return _with(found, user, system)


def with_totals(parts: Mapping[str, float]) -> dict[str, float]:
    """The same where `system` has interrupts in it and `user` guests, as iostat and sar print it."""
    found = {f"cpu_ratio.{mode}": parts[mode] for mode in ("user", "nice", "iowait", "steal", "idle") if mode in parts}
    return _with(found, min(parts["user"] + parts["nice"], 1.0), parts["system"])


def _with(found: dict[str, float], user: float, system: float) -> dict[str, float]:
    """What was found, and the sums."""
    found["cpu_ratio.user_total"], found["cpu_ratio.sys_total"] = user, system
    found["cpu_ratio.busy"] = min(user + system, 1.0)
    if user + system > 0:
        found["cpu_ratio.sys_share"] = system / (user + system)
    return found


def plausible(parts: Mapping[str, float]) -> bool:
    """Whether the parts can be shares of one whole: sums above by more than rounding, or of nothing, are not."""
    return 0 < sum(parts.values()) <= MOST
