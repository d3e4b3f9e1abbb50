"""The sections of nmon that say something of memory or CPU time: a row to metrics. Not a reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Entity
from thpdiag.readers.elements.quantities import LARGEST
from thpdiag.readers.elements.tasks import entity

BY_TASK = frozenset({"TOP"})  # the pid stands before the snapshot
MIB = 2.0**20
MODES = {
    "User%": "user_total", "Sys%": "sys_total", "Wait%": "iowait", "Idle%": "idle", "Steal%": "steal",
}  # fmt: skip
SIZES = {
    "memtotal": "node_memory_MemTotal_bytes",
    "memfree": "node_memory_MemFree_bytes",
    "cached": "node_memory_Cached_bytes",
    "buffers": "node_memory_Buffers_bytes",
    "active": "node_memory_Active_bytes",
    "inactive": "node_memory_Inactive_bytes",
    "memshared": "node_memory_Shmem_bytes",
    "swaptotal": "node_memory_SwapTotal_bytes",
    "swapfree": "node_memory_SwapFree_bytes",
    "swapcached": "node_memory_SwapCached_bytes",
}
LOAD = {"Runnable": "node_procs_running", "Blocked": "node_procs_blocked"}
RATES = {"pswitch": "node_context_switches_total:rate", "fork": "node_forks_total:rate"}
ALWAYS = frozenset({"pgpgin", "pgpgout", "pswpin", "pswpout", "pgfree", "pgactivate", "pgfault", "pgmajfault"})
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,6})?", re.ASCII)
_NAME = re.compile(r"[a-z][a-z_0-9]{2,40}$")


@dataclass(frozen=True, slots=True)
class Made:
    """A row as a Sample has it."""

    values: Mapping[str, float] = field(default_factory=dict)
    resolution: Mapping[str, float] = field(default_factory=dict)
    kind: str = "system"
    entity: Entity = ()


def number(text: str) -> float | None:
    """None for what is no number, and for -1 and -0.0, which say that there is none."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if value <= LARGEST else None


def _found(cells: Mapping[str, str], names: Mapping[str, str], unit: float) -> dict[str, float]:
    read = {name: number(cells[column]) for column, name in names.items() if column in cells}
    return {name: value * unit for name, value in read.items() if value is not None and value * unit <= LARGEST}


def cpu(section: str, cells: Mapping[str, str], *, first: bool) -> Made | None:
    """CPU_ALL or CPUnnn, which counts from 1; None if the shares do not add up."""
    parts = {mode: value / 100 for mode, value in _found(cells, MODES, 1).items()}
    if not {"user_total", "sys_total", "idle"} <= parts.keys() or not 0.9 < sum(parts.values()) <= 1.05:
        return None
    values = {f"cpu_ratio.{mode}": min(value, 1.0) for mode, value in parts.items()}
    busy = min(parts["user_total"] + parts["sys_total"], 1.0)
    values["cpu_ratio.busy"] = busy
    resolution = dict.fromkeys(values, 0.001)
    if busy:
        values["cpu_ratio.sys_share"] = min(parts["sys_total"] / busy, 1.0)
    if section == "CPU_ALL":
        return Made(values, resolution)
    return Made(values, resolution, "cpu", (("cpu", str(int(section[3:]) - 1)),))


def memory(section: str, cells: Mapping[str, str], *, first: bool) -> Made:
    """MEM."""
    values = _found(cells, SIZES, MIB)
    return Made(values, dict.fromkeys(values, MIB / 10))


def processes(section: str, cells: Mapping[str, str], *, first: bool) -> Made:
    """PROC; in the first snapshot the rates are 0 whatever happened."""
    rates = {} if first else _found(cells, RATES, 1)
    return Made(_found(cells, LOAD, 1) | rates, dict.fromkeys(rates, 0.1))


def task(section: str, cells: Mapping[str, str], *, first: bool) -> Made | None:
    """TOP; None without a pid."""
    pid = cells.get("+PID", "").lstrip("0")
    if not pid.isdecimal() or len(pid) > 10:
        return None
    percent = {
        "%CPU": "process_cpu_ratio", "%Usr": "process_cpu_ratio.user", "%Sys": "process_cpu_ratio.system",
    }  # fmt: skip
    sizes = {"Size": "process_virtual_memory_bytes", "ResSet": "process_resident_memory_bytes"}
    faults = {"MinorFault": "process_minor_faults_total:rate", "MajorFault": "process_major_faults_total:rate"}
    shares, rates = _found(cells, percent, 0.01), _found(cells, faults, 1)
    values = shares | _found(cells, sizes, 1024) | rates
    resolution = dict.fromkeys(shares, 0.0001) | dict.fromkeys(rates, 1.0)
    return Made(values, resolution, "process", entity(pid, cells.get("Command", "")))


def paging(cells: Mapping[str, str], seconds: float | None) -> Made:
    """VM: gauges in pages, the other columns are counts of the `seconds` since the snapshot before."""
    values: dict[str, float] = {}
    resolution: dict[str, float] = {}
    for column, text in cells.items():
        value = number(text)
        if value is None or not _NAME.match(column):
            continue
        if column.startswith("nr_"):
            values[f"node_vmstat_{column}"] = value
        elif seconds and seconds > 0:
            name = "node_allocstall_total:rate" if column == "allocstall" else f"node_vmstat_{column}:rate"
            values[name], resolution[name] = value / seconds, 1 / seconds
    return Made(values, resolution)


def never_counted(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """Columns that are 0 in every row and not known to every kernel."""
    alive = set(ALWAYS)
    for cells in rows:
        alive.update(column for column, cell in zip(columns, cells, strict=False) if cell not in ("0", "-1"))
    return frozenset(columns) - alive


Section = Callable[..., Made | None]
BY_NAME: Mapping[str, Section] = {"CPU_ALL": cpu, "MEM": memory, "PROC": processes, "TOP": task, "VM": memory}
