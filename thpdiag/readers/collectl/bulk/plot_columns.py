"""What the columns of collectl's plot format are in our names.

Sizes are KiB as the kernel prints them. Rates are per second, cut to whole numbers (`/int` in the header: per interval,
not read). `Inactive` of the host is the last line of /proc/meminfo that begins so: Inactive(file) since 2.6.28; that of
a node is all of it. `Map` is Mapped alone. `RunTot` is procs_running less one: collectl does not count itself. Not
read: `Shared` (the last nr_shmem* of /proc/vmstat), and `Guest%` and `Intrpt` of a CPU, which stand in another order
than their header says. Source: collectl formatit.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from thpdiag.model import Subject
from thpdiag.readers.collectl.bulk.rows import printable

KIB = 1024.0
MODES = {
    "User%": "user", "Nice%": "nice", "Sys%": "system", "Wait%": "iowait", "Irq%": "irq", "Soft%": "softirq",
    "Steal%": "steal", "Idle%": "idle",
}  # fmt: skip
# metric, factor, quantum (0: exact)
Plain = tuple[str, float, float]
CPU: dict[str, Plain] = {
    "Intrpt/sec": ("node_intr_total:rate", 1, 1),
    "Ctx/sec": ("node_context_switches_total:rate", 1, 1),
    "L-Avg1": ("node_load1", 1, 0),
    "RunTot": ("node_procs_running", 1, 0),
    "BlkTot": ("node_procs_blocked", 1, 0),
}
_SIZES = {
    "Tot": "MemTotal", "Free": "MemFree", "Buf": "Buffers", "Cached": "Cached", "Slab": "Slab", "Map": "Mapped",
    "Anon": "AnonPages", "AnonH": "AnonHugePages", "Commit": "Committed_AS", "Locked": "Mlocked", "Dirty": "Dirty",
    "SwapTot": "SwapTotal", "SwapFree": "SwapFree", "Inactive": "Inactive_file", "SUnreclaim": "SUnreclaim",
}  # fmt: skip
MEMORY: dict[str, Plain] = {
    **{column: (f"node_memory_{name}_bytes", KIB, 0) for column, name in _SIZES.items()},
    **{f"Huge{name}": (f"node_memory_HugePages_{name}", 1, 0) for name in ("Total", "Free", "Rsvd")},
    "SwapIn": ("swap_in_bytes:rate", KIB, KIB),
    "SwapOut": ("swap_out_bytes:rate", KIB, KIB),
    "PageIn": ("node_vmstat_pgpgin:rate", 1, 1),
    "PageOut": ("node_vmstat_pgpgout:rate", 1, 1),
    "PageFaults": ("node_vmstat_pgfault:rate", 1, 1),
    "PageMajFaults": ("node_vmstat_pgmajfault:rate", 1, 1),
}
DISKS: dict[str, Plain] = {
    "ReadKBTot": ("block_in_bytes:rate", KIB, KIB),
    "WriteKBTot": ("block_out_bytes:rate", KIB, KIB),
}
NODE: dict[str, Plain] = {
    column: (f"node_memory_numa_{name}_bytes", KIB, 0)
    for column, name in {
        "Used": "MemUsed", "Free": "MemFree", "Slab": "Slab", "Mapped": "Mapped", "Anon": "AnonPages",
        "AnonH": "AnonHugePages", "Inactive": "Inactive",
    }.items()
}  # fmt: skip
HOST = {"CPU": CPU, "MEM": MEMORY, "DSK": DISKS}
_NAME = re.compile(r"\[([A-Z]+)(?::([^\]]+))?\](\S*)$")
_PAGES = re.compile(r"(\d{1,7})Pages?$")


@dataclass(slots=True)
class Group:
    """The columns of one entity: places of CPU shares by mode, and of other numbers."""

    modes: list[tuple[int, str]] = field(default_factory=list)
    plain: list[tuple[int, Plain]] = field(default_factory=list)


def groups(names: list[str], letters: str) -> dict[Subject, Group]:
    """The columns that are read, by entity. `letters` are those of -o."""
    found: dict[Subject, Group] = {}
    for place, name in enumerate(names):
        if not (parts := _NAME.match(name)):
            continue
        subsystem, entity, column = parts[1], printable(parts[2] or ""), parts[3]
        key = _entity(subsystem, entity)
        if key is None:
            continue
        if subsystem == "CPU" and column in MODES:
            found.setdefault(key, Group()).modes.append((place, MODES[column]))
        elif (plain := _plain(subsystem, entity, column)) and not (":rate" in plain[0] and "n" in letters):
            found.setdefault(key, Group()).plain.append((place, plain))
    return found


def _entity(subsystem: str, entity: str) -> Subject | None:
    if subsystem == "BUD":
        zone, dash, node = entity.rpartition("-")
        return ("zone", (("node", node), ("zone", zone)) if dash else (("node", "all"), ("zone", "all")))
    if subsystem == "NUMA" and entity.isdigit():
        return ("node", (("node", entity),))
    if subsystem == "CPU" and entity.isdigit():
        return ("cpu", (("cpu", entity),))
    return ("system", ()) if subsystem in HOST and not entity else None


def _plain(subsystem: str, entity: str, column: str) -> Plain | None:
    if subsystem == "BUD" and (pages := _PAGES.match(column)):
        order = int(pages[1]).bit_length() - 1
        return (f"node_buddyinfo_blocks_order{order}", 1, 0) if 2**order == int(pages[1]) else None
    if subsystem == "NUMA":
        return NODE.get(column)
    return None if entity else HOST.get(subsystem, {}).get(column)
