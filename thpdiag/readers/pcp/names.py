"""What a metric of Performance Co-Pilot is called here, and how its values become base units.

    mem.vmstat.thp_fault_alloc                      node_vmstat_thp_fault_alloc
    mem.util.anonhugepages, in KiB                  node_memory_AnonHugePages_bytes
    kernel.percpu.cpu.sys of `cpu1`, in ms          node_cpu_seconds_total.system of CPU 1
    mem.buddyinfo.total of `Normal::order9::node0`, in KiB      node_buddyinfo_blocks_order9 of a zone
    proc.psinfo.minflt of `004711 /usr/bin/java -jar x`         process_minor_faults_total of a process

Counters are converted to rates by pmrep and pcp2json unless told not to (-r), times among them to milliseconds per
second. Units are those of the metrics; -b, -y and -q change them, which CSV does not show. Not a format of its own.
Source: PCP 3.9 to 6.0, help texts of pmdalinux and pmdaproc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from thpdiag.model import Entity
from thpdiag.readers.elements.tasks import COMM, entity

KIB = 1024.0
PAGE = 4096
_UTIL = {
    "free": "MemFree", "available": "MemAvailable", "bufmem": "Buffers", "cached": "Cached", "swapCached": "SwapCached",
    "active": "Active", "inactive": "Inactive", "swapTotal": "SwapTotal", "swapFree": "SwapFree", "dirty": "Dirty",
    "writeback": "Writeback", "mapped": "Mapped", "slab": "Slab", "committed_AS": "Committed_AS",
    "pageTables": "PageTables", "anonpages": "AnonPages", "commitLimit": "CommitLimit",
    "slabReclaimable": "SReclaimable", "slabUnreclaimable": "SUnreclaim", "active_anon": "Active_anon",
    "inactive_anon": "Inactive_anon", "active_file": "Active_file", "inactive_file": "Inactive_file",
    "unevictable": "Unevictable", "mlocked": "Mlocked", "shmem": "Shmem", "kernelStack": "KernelStack",
    "anonhugepages": "AnonHugePages",
}  # fmt: skip
_POOL = {"hugepagesTotal": "Total", "hugepagesFree": "Free", "hugepagesRsvd": "Rsvd", "hugepagesSurp": "Surp"}
_MODES = {
    "user": "user", "nice": "nice", "sys": "system", "idle": "idle", "wait.total": "iowait", "irq.hard": "irq",
    "irq.soft": "softirq", "steal": "steal",
}  # fmt: skip
_LOAD = {"1 minute": "node_load1"}
_PRESSURE = re.compile(r"kernel\.all\.pressure\.(cpu|memory|io)\.(some|full)\.(total|avg)")
_AVERAGE = {"10 second": "avg10", "1 minute": "avg60", "5 minute": "avg300"}
_CPU = re.compile(r"cpu(\d{1,6})", re.ASCII)
_NODE = re.compile(r"node(\d{1,6})", re.ASCII)
_BUDDY = re.compile(r"(\w{1,20})::order(\d{1,2})::node(\d{1,6})", re.ASCII)
_TASK = re.compile(r"0{0,9}(\d{1,9})(?: (.*))?", re.ASCII)
_VMSTAT = re.compile(r"\w{1,60}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Metric:
    """The place of a column. A counter becomes `rate`, times `factor`, where it was converted; None: of no use then."""

    kind: str
    entity: Entity
    name: str
    factor: float = 1.0
    counter: bool = False
    rate: str | None = None


def _counter(name: str) -> Metric:
    return Metric("system", (), name, counter=True, rate=f"{name}:rate")


_PLAIN = {
    "kernel.all.pswitch": _counter("node_context_switches_total"),
    "kernel.all.intr": _counter("node_intr_total"),
    "kernel.all.sysfork": _counter("node_forks_total"),
    "kernel.all.running": Metric("system", (), "node_procs_running"),
    "kernel.all.blocked": Metric("system", (), "node_procs_blocked"),
    "swap.pagesin": _counter("node_vmstat_pswpin"),
    "swap.pagesout": _counter("node_vmstat_pswpout"),
    "swap.length": Metric("system", (), "node_memory_SwapTotal_bytes"),
    "swap.free": Metric("system", (), "node_memory_SwapFree_bytes"),
    "mem.physmem": Metric("system", (), "node_memory_MemTotal_bytes", KIB),
}
_PROCESS = {
    "psinfo.rss": ("process_resident_memory_bytes", KIB, None),
    "memory.rss": ("process_resident_memory_bytes", KIB, None),
    "psinfo.vsize": ("process_virtual_memory_bytes", KIB, None),
    "smaps.anonhugepages": ("process_anon_huge_bytes", KIB, None),
    "psinfo.threads": ("process_threads", 1.0, None),
    "psinfo.minflt": ("process_minor_faults_total", 1.0, "process_minor_faults_total:rate"),
    "psinfo.maj_flt": ("process_major_faults_total", 1.0, "process_major_faults_total:rate"),
    "psinfo.utime": ("process_cpu_seconds_total.user", 0.001, "process_cpu_ratio.user"),
    "psinfo.stime": ("process_cpu_seconds_total.system", 0.001, "process_cpu_ratio.system"),
}


@cache
def metric(name: str, instance: str) -> Metric | None:
    """None for what is of no use here."""
    if not instance:
        return _without_instance(name)
    if name.startswith("kernel.percpu.cpu."):
        cpu, mode = _CPU.fullmatch(instance), _MODES.get(name.removeprefix("kernel.percpu.cpu."))
        return _cpu_time(mode, "cpu", (("cpu", cpu[1]),)) if cpu and mode else None
    if name.startswith("mem.numa.util."):
        node, found = _NODE.fullmatch(instance), _UTIL.get(name.removeprefix("mem.numa.util."))
        numa = f"node_memory_numa_{found}_bytes"
        return Metric("node", (("node", node[1]),), numa, KIB) if node and found else None
    if name in ("mem.buddyinfo.total", "mem.buddyinfo.pages"):
        return _blocks(name, instance)
    if name.startswith(("proc.", "hotproc.")):
        return _process(name.partition(".")[2], instance)
    if name == "kernel.all.load" and instance in _LOAD:
        return Metric("system", (), _LOAD[instance])
    pressure = _PRESSURE.fullmatch(name)
    if pressure and pressure[3] == "avg" and instance in _AVERAGE:
        return Metric("system", (), f"node_pressure_{pressure[1]}_{pressure[2]}_{_AVERAGE[instance]}", 0.01)
    return None


def _without_instance(name: str) -> Metric | None:
    group, _, last = name.rpartition(".")
    if group == "mem.vmstat" and _VMSTAT.fullmatch(last):
        gauge = last.startswith("nr_") or last == "workingset_nodes"
        return Metric("system", (), f"node_vmstat_{last}") if gauge else _counter(f"node_vmstat_{last}")
    if group == "mem.util" and last in _UTIL:
        return Metric("system", (), f"node_memory_{_UTIL[last]}_bytes", KIB)
    if group == "mem.util" and last in _POOL:
        return Metric("system", (), f"node_memory_HugePages_{_POOL[last]}")
    if name.startswith("kernel.all.cpu."):
        mode = _MODES.get(name.removeprefix("kernel.all.cpu."))
        return _cpu_time(mode, "system", ()) if mode else None
    pressure = _PRESSURE.fullmatch(name)
    if pressure and pressure[3] == "total":
        waits = "waiting" if pressure[2] == "some" else "stalled"
        found = f"node_pressure_{pressure[1]}_{waits}_seconds_total"
        return Metric("system", (), found, 1e-6, counter=True, rate=f"{found}:rate")
    return _PLAIN.get(name)


def _cpu_time(mode: str, kind: str, entity: Entity) -> Metric:
    return Metric(kind, entity, f"node_cpu_seconds_total.{mode}", 0.001, counter=True, rate=mode)


def _blocks(name: str, instance: str) -> Metric | None:
    """`total` is memory in KiB, `pages` the number of blocks, whatever it is called."""
    found = _BUDDY.fullmatch(instance)
    if not found or int(found[2]) > 20:
        return None
    factor = KIB / (PAGE << int(found[2])) if name.endswith("total") else 1.0
    entity = (("node", found[3]), ("zone", found[1]))
    return Metric("zone", entity, f"node_buddyinfo_blocks_order{int(found[2])}", factor)


def _process(name: str, instance: str) -> Metric | None:
    known, task = _PROCESS.get(name), _TASK.fullmatch(instance)
    if not known or not task:
        return None
    program = (task[2] or "").split(" ")[0].strip("()")
    comm = program.rpartition("/")[2].rstrip(":")[:COMM]
    who = entity(task[1], comm if comm.isprintable() else "")
    return Metric("process", who, known[0], known[1], counter=known[2] is not None, rate=known[2])
