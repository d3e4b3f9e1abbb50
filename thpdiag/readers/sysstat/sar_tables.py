"""What the tables of sysstat's activity data mean: columns to metrics. The same for sar, sadf and their own files.

Units: %… percent, kb… and pgpgin/s KiB, …/s per second, ldavg tasks. -r's kbmemused means something else from 11.6.4 on
and is not used, nor is -H, which is hugetlbfs and in units of a page size that is not in the file. CPU time of -u has
interrupts in %system; -u ALL and -A split it. Columns that are not named here hold nothing of use. Which columns there
are differs by version and by what distributions added: the header decides.
Source: sysstat activity.c (hdr_line), pr_stats.c, 9.1.5 to 12.7; kernel Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from thpdiag.model import Entity, Subject
from thpdiag.readers.elements.cpu_parts import plausible, with_sums, with_totals
from thpdiag.readers.elements.quantities import quantity

SYSTEM: Entity = ()
KIB, PERCENT, PAGE = 1024.0, 0.01, 4096.0
PAGES_OF_4_KIB = frozenset({"x86_64", "i386", "i486", "i586", "i686", "s390x"})  # elsewhere a kernel may have others


@dataclass(frozen=True, slots=True)
class Metric:
    """What a column is in the vocabulary: its number times `scale`."""

    name: str
    scale: float = 1.0


def _vmstat(**columns: str) -> dict[str, tuple[Metric, ...]]:
    return {f"{column}/s": (Metric(f"node_vmstat_{name}:rate"),) for column, name in columns.items()}


def _memory(**columns: str) -> dict[str, tuple[Metric, ...]]:
    return {f"kb{column}": (Metric(f"node_memory_{name}_bytes", KIB),) for column, name in columns.items()}


def _pressure() -> dict[str, tuple[Metric, ...]]:
    """`%smem-10`: some tasks wait for memory, over 10 s; `%fmem`: all of them, over the interval."""
    found: dict[str, tuple[Metric, ...]] = {}
    for short, resource in (("cpu", "cpu"), ("io", "io"), ("mem", "memory")):
        for letter, share, lost in (("s", "some", "waiting"), ("f", "full", "stalled")):
            column, family = f"%{letter}{short}", f"node_pressure_{resource}"
            found[column] = (Metric(f"{family}_{lost}_seconds_total:rate", PERCENT),)
            found |= {f"{column}-{t}": (Metric(f"{family}_{share}_avg{t}", PERCENT),) for t in (10, 60, 300)}
    return found


PLAIN: Mapping[str, tuple[Metric, ...]] = {
    "pgpgin/s": (Metric("block_in_bytes:rate", KIB),),
    "pgpgout/s": (Metric("block_out_bytes:rate", KIB),),
    "proc/s": (Metric("node_forks_total:rate"),),
    "cswch/s": (Metric("node_context_switches_total:rate"),),
    "runq-sz": (Metric("node_procs_running"),),
    "ldavg-1": (Metric("node_load1"),),
    "blocked": (Metric("node_procs_blocked"),),
    **_vmstat(fault="pgfault", majflt="pgmajfault", pgfree="pgfree", pgscank="pgscan_kswapd", pgscand="pgscan_direct"),
    **_vmstat(pgsteal="pgsteal", pswpin="pswpin", pswpout="pswpout", pgprom="pgpromote_success", pgdem="pgdemote"),
    **_memory(memfree="MemFree", avail="MemAvailable", buffers="Buffers", cached="Cached", commit="Committed_AS"),
    **_memory(active="Active", inact="Inactive", dirty="Dirty", shmem="Shmem", anonpg="AnonPages", slab="Slab"),
    **_memory(kstack="KernelStack", pgtbl="PageTables", vmused="VmallocUsed", swpfree="SwapFree", swpcad="SwapCached"),
    **_pressure(),
}
SWAPPED = {"pswpin/s": Metric("swap_in_bytes:rate", PAGE), "pswpout/s": Metric("swap_out_bytes:rate", PAGE)}
MODES = {
    "%usr": "user",
    "%user": "user",
    "%nice": "nice",
    "%sys": "system",
    "%system": "system",
    "%iowait": "iowait",
    "%steal": "steal",
    "%irq": "irq",
    "%soft": "softirq",
    "%guest": "guest",
    "%gnice": "guest_nice",
    "%idle": "idle",
}
_INSTANCES = frozenset(
    ("CPU", "INTR", "IFACE", "DEV", "TTY", "FAN", "TEMP", "IN", "BUS", "FILESYSTEM", "FCHOST", "BAT")
)
_ALL_CPUS = frozenset({"all", "-1"})
_SUM = frozenset({"sum", "-1"})


@dataclass(frozen=True, slots=True)
class Row:
    """What one row says of one entity."""

    kind: str
    entity: Entity
    values: Mapping[str, float]
    resolution: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a report that is of use: `metrics` by column; those of CPU time have `modes` instead."""

    columns: tuple[str, ...]
    metrics: Mapping[int, tuple[Metric, ...]]
    modes: Mapping[int, str]

    @property
    def split(self) -> bool:
        """Whether CPU time of the kernel is without interrupts."""
        return "irq" in self.modes.values()

    def row(self, cells: Sequence[str]) -> Row | str | None:
        """What a row says, None if nothing of use; in words why it cannot be used."""
        if len(cells) != len(self.columns):
            return "a row with other columns than its header"
        return self._cpu(cells) if self.modes else self._plain(cells)

    def _plain(self, cells: Sequence[str]) -> Row | str | None:
        if self.columns[0] == "INTR" and cells[0] not in _SUM:
            return None
        values: dict[str, float] = {}
        resolution: dict[str, float] = {}
        for place, metrics in self.metrics.items():
            for metric in metrics:
                found = quantity(cells[place].rstrip("%"), metric.scale)
                if found is None:
                    return f"an impossible number in column {self.columns[place]}: the row is not used"
                values[metric.name], resolution[metric.name] = found.value, found.resolution
        return Row("system", SYSTEM, values, resolution)

    def _cpu(self, cells: Sequence[str]) -> Row | str | None:
        read = {mode: quantity(cells[place].rstrip("%"), PERCENT) for place, mode in self.modes.items()}
        parts = {mode: found.value for mode, found in read.items() if found is not None}
        kind, entity = cpu_entity(cells[0])
        if entity and not any(parts.values()) and len(parts) == len(read):
            return None  # a CPU that is offline
        if len(parts) < len(read) or not plausible(parts) or not entity_known(cells[0]):
            return "CPU shares that do not add up to 100 %: not used"
        values = (with_sums if self.split else with_totals)({mode: min(v, 1.0) for mode, v in parts.items()})
        quantum = max(found.resolution for found in read.values() if found is not None)
        return Row(kind, entity, values, dict.fromkeys(values, quantum))


def cpu_entity(cell: str) -> Subject:
    """Kind and entity of a CPU's row: `all` and -1 are the host."""
    return ("system", SYSTEM) if cell in _ALL_CPUS else ("cpu", (("cpu", cell),))


def entity_known(cell: str) -> bool:
    """Whether a cell names all CPUs or one of them."""
    return cell in _ALL_CPUS or (cell.isascii() and cell.isdecimal() and len(cell) <= 5)


@lru_cache(maxsize=512)
def table(columns: tuple[str, ...], machine: str = "") -> Table | None:
    """The table with these columns, None if it has nothing of use. `machine` tells the size of a page."""
    if len(set(columns)) != len(columns) or not columns:
        return None
    if columns[0] == "CPU":
        modes = {place: MODES[column] for place, column in enumerate(columns) if column in MODES}
        complete = {"user", "nice", "system", "idle"} <= set(modes.values()) and len(modes) == len(columns) - 1
        return Table(columns, {}, modes) if complete else None
    if columns[0] == "INTR":
        known = len(columns) > 1 and columns[1] in {"intr/s", "all"}
        return Table(columns, {1: (Metric("node_intr_total:rate"),)}, {}) if known else None
    if columns[0] in _INSTANCES:
        return None
    metrics = {place: _metrics(column, machine) for place, column in enumerate(columns) if column in PLAIN}
    return Table(columns, metrics, {}) if metrics else None


def _metrics(column: str, machine: str) -> tuple[Metric, ...]:
    paged = (SWAPPED[column],) if column in SWAPPED and machine in PAGES_OF_4_KIB else ()
    return PLAIN[column] + paged
