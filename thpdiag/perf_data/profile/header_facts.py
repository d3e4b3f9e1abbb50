"""What the header's features say of the host and the recording, under the names of perf's own comment header."""

from __future__ import annotations

from thpdiag.perf_data.columns import EventInfo, Features

_CLOCKS = {0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}  # include/uapi/linux/time.h
_VALUE = 400  # characters of a value that are kept


def header_facts(features: Features) -> dict[str, str]:
    """`hostname`, `release`, `perf_version`, `arch`, `cpus`, `cpu`, `memory`, `cmdline`, as far as known."""
    memory = features.total_memory_kb
    facts = {
        "hostname": features.hostname,
        "release": features.release,
        "perf_version": features.version,
        "arch": features.arch,
        "cpus": str(features.cpus_online or ""),
        "cpu": features.cpu_description,
        "memory": f"{memory} kB" if memory else "",
        "cmdline": " ".join(features.command_line),
    }
    return {name: value[:_VALUE] for name, value in facts.items() if value}


def clock_facts(features: Features, event: EventInfo, first: int, last: int) -> dict[str, str]:
    """The clock of the samples, the times of the first and last in seconds on it, and what ties it to the wall clock.

    Without a clock id it is the kernel's scheduler clock, which counts from the boot, nearly.
    """
    facts = {"clock": "perf" if event.clock is None else _CLOCKS.get(event.clock, str(event.clock))}
    if first <= last:
        facts |= {"first_sample": seconds(first), "last_sample": seconds(last)}
    if features.clock_data:
        _, wall, clock = features.clock_data
        facts |= {"clock_data_wall_ns": str(wall), "clock_data_clock_ns": str(clock)}
    return facts


def seconds(nanoseconds: int) -> str:
    """As perf prints times."""
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9 // 1000:06d}"
