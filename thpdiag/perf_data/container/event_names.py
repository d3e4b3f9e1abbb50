"""What perf calls an event that no name was recorded for: by type and config, with modifiers.

Source: include/uapi/linux/perf_event.h for the numbers; names and modifiers as `perf list` and `perf evlist` show them.
"""

from __future__ import annotations

from thpdiag.perf_data.container.attributes import Attribute, Flag

HARDWARE = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
SOFTWARE = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
CACHE_ACCESSES = {
    (0, 0): "loads",
    (0, 1): "load-misses",
    (1, 0): "stores",
    (1, 1): "store-misses",
    (2, 0): "prefetches",
    (2, 1): "prefetch-misses",
}
CONFIG = (1 << 32) - 1  # hybrid CPUs put the number of the PMU above


def _cache(config: int) -> str:
    """PERF_TYPE_HW_CACHE: cache in the lowest byte, then operation, then result."""
    cache, access = config & 0xFF, CACHE_ACCESSES.get((config >> 8 & 0xFF, config >> 16 & 0xFF))
    return f"{CACHES[cache]}-{access}" if cache < len(CACHES) and access else f"cache {config:#x}"


def _listed(names: tuple[str, ...], config: int, title: str) -> str:
    return names[config] if config < len(names) else f"{title} {config:#x}"


def _base(what: Attribute) -> str:
    match what.kind:
        case 0:
            return _listed(HARDWARE, what.config & CONFIG, "hardware")
        case 1:
            return _listed(SOFTWARE, what.config & CONFIG, "software")
        case 2:
            return f"tracepoint {what.config}"
        case 3:
            return _cache(what.config & CONFIG)
        case 4:
            return f"raw {what.config:#x}"
        case 5:
            return "breakpoint"
        case _:
            return f"type {what.kind} config {what.config:#x}"


def _modifiers(what: Attribute) -> str:
    """`u`, `k`, `h` where not all of them are counted, a `p` per step of precision, `H` and `G` for host and guest."""
    letters = ""
    levels = Flag.EXCLUDE_KERNEL, Flag.EXCLUDE_USER, Flag.EXCLUDE_HYPERVISOR
    if any(what.flags & level for level in levels):
        letters += "".join(letter for letter, level in zip("kuh", levels, strict=True) if not what.flags & level)
    letters += "p" * what.precise
    without_guest = bool(what.flags & Flag.EXCLUDE_GUEST)
    if what.flags & Flag.EXCLUDE_HOST or without_guest == bool(letters):
        letters += "" if what.flags & Flag.EXCLUDE_HOST else "H"
        letters += "" if without_guest else "G"
    return letters


def event_name(what: Attribute) -> str:
    modifiers = _modifiers(what)
    return f"{_base(what)}:{modifiers}" if modifiers else _base(what)
