"""What a Prometheus series is a metric of: node_exporter's names are ours, its labels become the entity.

    node_cpu_seconds_total{cpu="0",mode="system"}      node_cpu_seconds_total.system of CPU 0
    node_buddyinfo_blocks{node="0",size="9",zone="Normal"}      node_buddyinfo_blocks_order9 of a zone
    node_memory_numa_MemFree{node="0"}                 node_memory_numa_MemFree_bytes of a NUMA node

Before 0.16 (2018) names had no unit (`node_cpu`, `node_memory_MemFree`, `node_intr`), with the same values. Labels that
the server adds (job, pod, prometheus ...) say nothing of the entity; `instance` is the host. Metrics of a process are
those of the exporter itself and not used. Not a format of its own. Source: node_exporter 0.14 to 1.8, collector/*.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from thpdiag.model import Entity

LARGEST = 2.0**63
CPU = "node_cpu_seconds_total"
_OLD = {
    "node_cpu": CPU,
    "node_context_switches": "node_context_switches_total",
    "node_intr": "node_intr_total",
    "node_forks": "node_forks_total",
    "node_boot_time": "node_boot_time_seconds",
}
_MODES = frozenset(("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"))
_SYSTEM = re.compile(
    r"node_(?:vmstat_\w+|memory_(?!numa_)\w+|load1|procs_running|procs_blocked|context_switches_total|intr_total|"
    r"forks_total|boot_time_seconds|pressure_(?:cpu|io|memory)_(?:waiting|stalled)_seconds_total)",
    re.ASCII,
)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_WORD = re.compile(r"\w{1,40}", re.ASCII)
_ORDER = re.compile(r"\d{1,2}", re.ASCII)
_FLOAT = re.compile(r"\+?\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """The kind and entity that a series belongs to, and the canonical name of its metric."""

    kind: str
    entity: Entity
    metric: str


def place(name: str, labels: Mapping[str, str]) -> Place | None:
    """None for what is of no use here."""
    name = _OLD.get(name, name)
    if name == CPU:
        return _of_cpu(labels)
    if name == "node_buddyinfo_blocks" or name.startswith("node_zoneinfo_"):
        return _of_zone(name, labels)
    if name.startswith("node_memory_numa_"):
        return _of_node(name, labels)
    if not _SYSTEM.fullmatch(name):
        return None
    sized = name.startswith("node_memory_") and not name.startswith("node_memory_HugePages_")
    return Place("system", (), name if not sized or name.endswith("_bytes") else f"{name}_bytes")


def _of_cpu(labels: Mapping[str, str]) -> Place | None:
    """Without a CPU it is a sum over all of them, made by a query."""
    mode, cpu = labels.get("mode", ""), labels.get("cpu", "").removeprefix("cpu")
    if mode not in _MODES:
        return None
    if not cpu:
        return Place("system", (), f"{CPU}.{mode}")
    return Place("cpu", (("cpu", cpu),), f"{CPU}.{mode}") if _NUMBER.fullmatch(cpu) else None


def _of_zone(name: str, labels: Mapping[str, str]) -> Place | None:
    node, zone = labels.get("node", ""), labels.get("zone", "")
    if not _NUMBER.fullmatch(node) or not _WORD.fullmatch(zone):
        return None
    if name == "node_buddyinfo_blocks":
        order = labels.get("size", "")
        if not _ORDER.fullmatch(order):
            return None
        name = f"node_buddyinfo_blocks_order{int(order)}"
    return Place("zone", (("node", node), ("zone", zone)), name)


def _of_node(name: str, labels: Mapping[str, str]) -> Place | None:
    node = labels.get("node", "")
    if not _NUMBER.fullmatch(node) or "HugePages_" in name:
        return None
    return Place("node", (("node", node),), name if name.endswith(("_bytes", "_total")) else f"{name}_bytes")


def host_of(labels: Mapping[str, str]) -> str:
    """The host that a server took the series from, empty if it does not tell or is the host itself.

    An address has no dots in it here: what stands before the first dot of a name is the host everywhere else.
    """
    name = labels.get("instance", "")
    name = name.partition("]")[0].strip("[") if name.startswith("[") else name.partition(":")[0]
    if name in ("localhost", "127.0.0.1", "::1") or not re.fullmatch(r"[\w.:-]{1,253}", name, re.ASCII):
        return ""
    return re.sub(r"[.:]+", "-", name) if re.fullmatch(r"[\d.]+|[\da-fA-F:]*:[\da-fA-F:]*", name) else name


def sample_value(text: str) -> float | None:
    """A number that is no NaN (a series that went stale), infinite, negative or larger than counters are."""
    if not _FLOAT.fullmatch(text):
        return None
    value = float(text)
    return value if value < LARGEST else None
