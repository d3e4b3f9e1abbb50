"""What atop says of one interval, whichever way it was written: raw log, parseable lines or JSON. Not a reader.

Fields carry the names that atop itself gives them (photosyst.h, photoproc.h); memory of the host is in bytes here, that
of processes in KiB, CPU time in clock ticks of the interval. Counters are those of the interval, so they become rates
with a quantum of one count per interval. The first interval of a recording reaches back to boot: its rates are averages
since boot, its sizes are as current as any. -1 stands for what the kernel does not have.
Threads and processes that ended within the interval (state E, sizes 0) are left out.
Source: atop 1.26 to 2.13, parseable.c, json.c, rawlog.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from thpdiag.model import Citation, Clock, Moment, Sample
from thpdiag.parsers._cpu import cpu_ratios, is_plausible, process_entity
from thpdiag.parsers._units import MAX_QUANTITY

Cells = Mapping[str, float]

MODES = {
    "stime": "system", "utime": "user", "ntime": "nice", "itime": "idle", "wtime": "iowait", "Itime": "irq",
    "Stime": "softirq", "steal": "steal",
}  # fmt: skip
BYTES = {
    "physmem": "node_memory_MemTotal_bytes",
    "freemem": "node_memory_MemFree_bytes",
    "cachemem": "node_memory_Cached_bytes",
    "buffermem": "node_memory_Buffers_bytes",
    "slabmem": "node_memory_Slab_bytes",
    "slabreclaim": "node_memory_SReclaimable_bytes",
    "cachedrt": "node_memory_Dirty_bytes",
    "shmem": "node_memory_Shmem_bytes",
    "pagetables": "node_memory_PageTables_bytes",
    "availablemem": "node_memory_MemAvailable_bytes",
    "anonhugepage": "node_memory_AnonHugePages_bytes",
    "totswap": "node_memory_SwapTotal_bytes",
    "freeswap": "node_memory_SwapFree_bytes",
    "committed": "node_memory_Committed_AS_bytes",
    "commitlim": "node_memory_CommitLimit_bytes",
}
PLAIN = {
    "tothugepage": "node_memory_HugePages_Total",
    "freehugepage": "node_memory_HugePages_Free",
    "lavg1": "node_load1",
}
COUNTS = {
    "csw": "node_context_switches_total:rate",
    "devint": "node_intr_total:rate",
    "allocstall": "node_allocstall_total:rate",
    "compactstall": "node_vmstat_compact_stall:rate",
    "pgmigrate": "node_vmstat_pgmigrate_success:rate",
    "numamigrate": "node_vmstat_numa_pages_migrated:rate",
    "oomkills": "node_vmstat_oom_kill:rate",
}
PRESSURE = {
    f"{short}{window}": f"node_pressure_{kind}_{share}_avg{window}"
    for short, kind, share in (
        ("cs", "cpu", "some"), ("ms", "memory", "some"), ("mf", "memory", "full"), ("ios", "io", "some"),
        ("iof", "io", "full"),
    )
    for window in (10, 60, 300)
}  # fmt: skip
SWAPPED = {"swins": "swap_in_bytes:rate", "swouts": "swap_out_bytes:rate"}
PROCESS_KIB = {
    "rmem": "process_resident_memory_bytes",
    "vmem": "process_virtual_memory_bytes",
    "vswap": "process_swap_bytes",
}
FAULTS = {"minflt": "process_minor_faults_total:rate", "majflt": "process_major_faults_total:rate"}
TICKS = {"utime": "process_cpu_ratio.user", "stime": "process_cpu_ratio.system"}
HERTZ = 100  # where the source does not say
PERCENT = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """`end` is an epoch, `seconds` the length."""

    end: float
    seconds: float
    since_boot: bool
    reader: str

    @property
    def time(self) -> Moment:
        return Moment(self.end, Clock.UTC)


@dataclass(frozen=True, slots=True)
class Task:
    """A process as a line names it."""

    pid: str
    comm: str
    state: str = ""
    is_process: bool = True

    @property
    def counts(self) -> bool:
        """Whether its figures are those of a living process."""
        return self.is_process and self.state != "E"


def _sizes(cells: Cells, names: Mapping[str, str], unit: float = 1) -> dict[str, float]:
    """What is there; -1 says that the kernel does not have it."""
    found = {name: cells[key] * unit for key, name in names.items() if key in cells}
    return {name: value for name, value in found.items() if 0 <= value <= MAX_QUANTITY}


def cpu(interval: Interval, cells: Cells, cite: Citation, number: str = "") -> Iterator[Sample]:
    """Shares of CPU time; `number` is the CPU's, empty for all of them."""
    ticks = {mode: cells[key] for key, mode in MODES.items() if key in cells}
    total = sum(ticks.values())
    if len(ticks) < len(MODES) or total <= 0 or min(ticks.values()) < 0 or total > MAX_QUANTITY:
        return  # of a line that was cut, the shares would be those of another whole
    parts = {mode: value / total for mode, value in ticks.items()}
    values = cpu_ratios(parts) if is_plausible(parts) else {}
    if values:
        kind, of = ("cpu", (("cpu", number),)) if number else ("system", ())
        resolution = {name: 1 / total for name in values if name != "cpu_ratio.sys_share"}
        yield Sample(kind, values, cite, interval.reader, of, interval.time, resolution, since_boot=interval.since_boot)


def system(interval: Interval, cells: Cells, cite: Citation, page: float = 4096) -> Iterator[Sample]:
    """Load, memory, swap, paging and pressure of the host: sizes, and rates apart where they are since boot."""
    gauges = _sizes(cells, BYTES) | _sizes(cells, PLAIN) | _sizes(cells, PRESSURE, PERCENT)
    coarse = {name: 0.001 for name in PRESSURE.values() if name in gauges}
    rates, quanta = _rates(interval, cells, page)
    if not interval.since_boot:
        gauges |= rates
        coarse |= quanta
    elif rates:
        yield Sample("system", rates, cite, interval.reader, (), interval.time, quanta, since_boot=True)
    if gauges:
        yield Sample("system", gauges, cite, interval.reader, (), interval.time, coarse)


def _rates(interval: Interval, cells: Cells, page: float) -> tuple[dict[str, float], dict[str, float]]:
    if interval.seconds <= 0:
        return {}, {}
    per = 1 / interval.seconds
    found = _sizes(cells, COUNTS, per)
    quanta = dict.fromkeys(found, per)
    swapped = _sizes(cells, SWAPPED, page * per)
    return found | swapped, quanta | dict.fromkeys(swapped, page * per)


def process_memory(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """Sizes and faults of a process; what it faulted before the recording began is not of the interval."""
    if not task.counts:
        return
    values = _sizes(cells, PROCESS_KIB, 1024)
    if not interval.since_boot and interval.seconds > 0:
        values |= _sizes(cells, FAULTS, 1 / interval.seconds)  # of counts, which are exact
    if values:
        yield Sample("process", values, cite, interval.reader, process_entity(task.pid, task.comm), interval.time)


def process_cpu(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """CPU use of a process in CPUs, of the interval."""
    hertz = cells.get("hertz", HERTZ)
    if not task.counts or interval.since_boot or interval.seconds <= 0 or hertz <= 0:
        return
    quantum = 1 / hertz / interval.seconds
    values = _sizes(cells, TICKS, quantum)
    if len(values) == len(TICKS):
        values["process_cpu_ratio"] = sum(values.values())
    if values:
        quanta = dict.fromkeys(values, quantum)
        yield Sample(
            "process", values, cite, interval.reader, process_entity(task.pid, task.comm), interval.time, quanta
        )


def process_start(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """When a process started, and how many threads it has."""
    names = {"btime": "process_start_time_seconds", "nthr": "process_threads"}
    if task.counts and (values := _sizes(cells, names)):
        yield Sample("process", values, cite, interval.reader, process_entity(task.pid, task.comm), interval.time)
