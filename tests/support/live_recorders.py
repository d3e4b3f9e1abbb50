"""Recordings made now by sysstat, collectl and atop, while a process works, and the output of these programs for them.

Their output is parsed here, without code of thpdiag. A cell is a number under its entity, second and metric. The tables
follow the manual pages of the recorders.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import pytest

from thpdiag.model import Record, Sample, Series
from thpdiag.model.parser import Foreign

Key = tuple[str, str, float, str]  # kind, number of the CPU, node or process, or name of the zone; second; metric
Cells = dict[Key, float]
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "S_TIME_FORMAT": "ISO", "TZ": "UTC"}  # 12/01/26 would be two days
SADC = [Path(f"/usr/{place}/sadc") for place in ("lib/sysstat", "lib64/sa", "lib/sa")]
WORK = """
import mmap, subprocess, threading
kept = []
threading.Thread(target=threading.Event().wait, daemon=True).start()
while True:
    kept = [*kept[-7:], mmap.mmap(-1, 1 << 14)]
    kept[-1][::4096] = bytes(4)
    for _ in range(100):
        open("/proc/self/stat").read()
    subprocess.run(["/bin/true"])
"""  # faults, user and system time, memory; a thread, whose figures are not those of the process; others that end


@contextmanager
def work() -> Iterator[int]:
    """Run a busy process; its pid."""
    with subprocess.Popen([sys.executable, "-c", WORK]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def printed(*command: str | Path) -> str:
    """Return the output of a program; skip the test if it is not installed."""
    if not which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    return done.stdout


def of_sysstat(folder: Path) -> Path:
    """Record three samples of everything."""
    sadc = next((file for file in SADC if file.exists()), None)
    if sadc is None or not which("sadf") or not which("sar"):
        pytest.skip("sysstat is not installed")
    with work():
        printed(sadc, "-S", "XALL", "1", "3", folder / "sa20")
    return folder / "sa20"


def of_collectl(folder: Path) -> Path:
    """Record four half seconds of the host, its CPUs, zones, nodes and one process."""
    with work() as pid:
        printed(
            "collectl", "-scmbZMC", "-i.5:.5", "-c4", "--procfilt", f"p{pid}", "-f", str(folder), "-F0"
        )  # fmt: skip
    return next(folder.glob("*.raw*"))


def of_atop(folder: Path) -> Path:
    """Record three intervals of a second, the first since boot."""
    with work():
        printed("atop", "-w", folder / "atop.raw", "1", "3")
    return folder / "atop.raw"


def read_cells(records: Iterable[Record | Foreign]) -> Cells:
    """Return the cells that a parser of thpdiag reads. No cell may have two values."""
    found: Cells = {}
    for record in records:
        for row in record if isinstance(record, Series) else (record,):
            if isinstance(row, Sample) and row.time and not row.since_boot:
                for name, value in row.values.items():
                    assert found.setdefault((*_who(row), row.time.seconds, name), value) == value, (name, row)
    return found


def _who(row: Sample) -> tuple[str, str]:
    entity = dict(row.entity)
    return row.kind, entity.get("pid") or entity.get("cpu") or entity.get("zone") or entity.get("node") or ""


# sysstat: sadf -d, a header for each activity, semicolons.

PRESSURE = {
    f"%{letter}{short}{'-' + window if window else ''}": (
        f"node_pressure_{resource}_{share}_avg{window}"
        if window
        else f"node_pressure_{resource}_{'waiting' if share == 'some' else 'stalled'}_seconds_total:rate"
    )
    for letter, share in (("s", "some"), ("f", "full"))
    for short, resource in (("cpu", "cpu"), ("io", "io"), ("mem", "memory"))
    for window in ("10", "60", "300", "")
}
KBYTES = {
    "kbmemfree": "MemFree", "kbavail": "MemAvailable", "kbbuffers": "Buffers", "kbcached": "Cached",
    "kbcommit": "Committed_AS", "kbactive": "Active", "kbinact": "Inactive", "kbdirty": "Dirty",
    "kbanonpg": "AnonPages", "kbslab": "Slab", "kbkstack": "KernelStack", "kbpgtbl": "PageTables",
    "kbvmused": "VmallocUsed", "kbswpfree": "SwapFree", "kbswpcad": "SwapCached", "kbshmem": "Shmem",
}  # fmt: skip
SADF: Mapping[str, tuple[str, float]] = {
    "pgpgin/s": ("block_in_bytes:rate", 1024), "pgpgout/s": ("block_out_bytes:rate", 1024),
    "fault/s": ("node_vmstat_pgfault:rate", 1), "majflt/s": ("node_vmstat_pgmajfault:rate", 1),
    "pgfree/s": ("node_vmstat_pgfree:rate", 1), "pgscank/s": ("node_vmstat_pgscan_kswapd:rate", 1),
    "pgscand/s": ("node_vmstat_pgscan_direct:rate", 1), "pgsteal/s": ("node_vmstat_pgsteal:rate", 1),
    "pswpin/s": ("node_vmstat_pswpin:rate", 1), "pswpout/s": ("node_vmstat_pswpout:rate", 1),
    "proc/s": ("node_forks_total:rate", 1), "cswch/s": ("node_context_switches_total:rate", 1),
    "runq-sz": ("node_procs_running", 1), "blocked": ("node_procs_blocked", 1), "ldavg-1": ("node_load1", 1),
    **{column: (f"node_memory_{name}_bytes", 1024.0) for column, name in KBYTES.items()},
    **{column: (name, 0.01) for column, name in PRESSURE.items()},
}  # fmt: skip
SADF_CPU = {
    "%usr": "user", "%nice": "nice", "%sys": "system", "%iowait": "iowait", "%steal": "steal", "%irq": "irq",
    "%soft": "softirq", "%guest": "guest", "%idle": "idle",
}  # fmt: skip


def sadf_cells(text: str) -> Cells:
    """Return all cells of `sadf -d`."""
    found: Cells = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith("# hostname"):
            columns = line.split(";")[3:]
            continue
        _, _, stamp, *words = line.split(";")
        second = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()
        row = dict(zip(columns, words, strict=len(columns) == len(words)))
        if columns[0] == "CPU" and "%usr" in columns:
            who = ("system", "") if words[0] == "-1" else ("cpu", words[0])
            found.update({(*who, second, f"cpu_ratio.{m}"): float(row[c]) / 100 for c, m in SADF_CPU.items()})
        elif columns[0] == "INTR" and words[0] == "sum":
            found["system", "", second, "node_intr_total:rate"] = float(words[1])
        elif columns[0] not in ("CPU", "INTR", "TTY", "DEV", "IFACE", "FILESYSTEM"):
            known = {SADF[column][0]: float(row[column]) * SADF[column][1] for column in columns if column in SADF}
            found.update({("system", "", second, name): value for name, value in known.items()})
    return found


# collectl: -P, one line of columns for the file.

SIZES = {
    "[MEM]Tot": "MemTotal", "[MEM]Free": "MemFree", "[MEM]Buf": "Buffers", "[MEM]Cached": "Cached",
    "[MEM]Slab": "Slab", "[MEM]Map": "Mapped", "[MEM]Anon": "AnonPages", "[MEM]AnonH": "AnonHugePages",
    "[MEM]Commit": "Committed_AS", "[MEM]Locked": "Mlocked", "[MEM]SwapTot": "SwapTotal", "[MEM]SwapFree": "SwapFree",
    "[MEM]Dirty": "Dirty", "[MEM]SUnreclaim": "SUnreclaim",
}  # fmt: skip
OF_A_NODE = {
    "Used": "MemUsed", "Free": "MemFree", "Slab": "Slab", "Mapped": "Mapped", "Anon": "AnonPages",
    "AnonH": "AnonHugePages", "Inactive": "Inactive",
}  # fmt: skip
RATES = {
    "[CPU]Intrpt/sec": "node_intr_total", "[CPU]Ctx/sec": "node_context_switches_total",
    "[MEM]PageIn": "node_vmstat_pgpgin", "[MEM]PageOut": "node_vmstat_pgpgout",
    "[MEM]PageFaults": "node_vmstat_pgfault", "[MEM]PageMajFaults": "node_vmstat_pgmajfault",
}  # fmt: skip
SHARES = {
    "User%": "user", "Nice%": "nice", "Sys%": "system", "Wait%": "iowait", "Irq%": "irq", "Soft%": "softirq",
    "Steal%": "steal", "Idle%": "idle",
}  # fmt: skip


def collectl_cells(text: str) -> Cells:
    """Return all cells of a plot file; rates and shares have the name of the counter with `:rate`."""
    found: Cells = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith("#Date"):
            columns = line.split(" ")
        elif not line.startswith("#"):
            words = line.split(" ", len(columns) - 1)
            second = datetime.strptime(" ".join(words[:2]), "%Y%m%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
            pid = words[2] if "PID" in columns else ""
            for column, word in zip(columns, words, strict=True):
                if cell := (_of_a_task(column, pid, word) if pid else _of_the_host(column, word)):
                    kind, which_one, name, value = cell
                    found[kind, which_one, second, name] = value
    return found


def _of_a_task(column: str, pid: str, word: str) -> tuple[str, str, str, float] | None:
    names = {
        "VmSize": ("process_virtual_memory_bytes", 1024), "VmRSS": ("process_resident_memory_bytes", 1024),
        "MinF": ("process_minor_faults_total:rate", 1), "MajF": ("process_major_faults_total:rate", 1),
        "PCT": ("process_cpu_ratio", 0.01),
    }  # fmt: skip
    if column == "THRD":  # those besides the first
        return "process", pid, "process_threads", float(word) + 1
    return ("process", pid, names[column][0], float(word) * names[column][1]) if column in names else None


def _of_the_host(column: str, word: str) -> tuple[str, str, str, float] | None:
    subsystem, _, name = column.partition("]")
    _, colon, which_one = subsystem.partition(":")
    if subsystem.startswith("[CPU") and name in SHARES:
        return "cpu" if colon else "system", which_one, f"cpu_ratio.{SHARES[name]}", float(word) / 100
    if subsystem.startswith("[NUMA:") and name in OF_A_NODE:
        return "node", which_one, f"node_memory_numa_{OF_A_NODE[name]}_bytes", float(word) * 1024
    if subsystem.startswith("[BUD") and name.endswith(("Page", "Pages")):
        order = int(name.removesuffix("s").removesuffix("Page")).bit_length() - 1
        zone = which_one.rpartition("-")[0] if colon else "all"
        return "zone", zone, f"node_buddyinfo_blocks_order{order}", float(word)
    if column in SIZES:
        return "system", "", f"node_memory_{SIZES[column]}_bytes", float(word) * 1024
    if column in RATES:
        return "system", "", f"{RATES[column]}:rate", float(word)
    others = {"[CPU]L-Avg1": "node_load1", "[CPU]RunTot": "node_procs_running", "[CPU]BlkTot": "node_procs_blocked"}
    return ("system", "", others[column], float(word)) if column in others else None


# atop: -P, a label and fields by position. The first interval is since boot: only sizes are compared.

MEM = (
    "", "MemTotal", "MemFree", "Cached", "Buffers", "Slab", "Dirty", "SReclaimable", "", "Shmem", "", "", "", "", "",
    "", "", "", "", "", "PageTables",
)  # fmt: skip
SWP = ("", "SwapTotal", "SwapFree", "", "Committed_AS", "CommitLimit")
COUNTS = {
    "CPL": {4: "node_context_switches_total", 5: "node_intr_total"},
    "PAG": {2: "node_allocstall_total", 6: "node_vmstat_oom_kill", 7: "node_vmstat_compact_stall",
            8: "node_vmstat_pgmigrate_success", 9: "node_vmstat_numa_pages_migrated"},
}  # fmt: skip
TICKS = ("system", "user", "nice", "idle", "iowait", "irq", "softirq", "steal")
WINDOWS = (("cpu_some", 1), ("memory_some", 5), ("memory_full", 9), ("io_some", 13), ("io_full", 17))


def atop_cells(text: str) -> Cells:
    """Return all cells of `atop -P ALL`."""
    found: Cells = {}
    since_boot = False
    for line in text.splitlines():
        if line in ("RESET", "SEP"):
            since_boot = line == "RESET"
            continue
        label, _, epoch, _, _, seconds, rest = line.split(" ", 6)
        for kind, which_one, name, value in _atop_line(label, rest, 0.0 if since_boot else float(seconds)):
            found[kind, which_one, float(epoch), name] = value
    return found


def _atop_line(label: str, rest: str, seconds: float) -> Iterator[tuple[str, str, str, float]]:
    if label in ("PRM", "PRC"):
        yield from _atop_task(label, rest, seconds)
        return
    words = rest.split()
    if label in ("CPU", "cpu") and seconds:
        kind, which_one = ("cpu", words[1]) if label == "cpu" else ("system", "")
        ticks = [float(word) for word in words[2:10]]
        for mode, part in zip(TICKS, ticks, strict=True):
            yield kind, which_one, f"cpu_ratio.{mode}", part / sum(ticks)
    elif label in ("MEM", "SWP"):
        for name, word in zip(MEM if label == "MEM" else SWP, words, strict=False):
            if name:
                yield "system", "", f"node_memory_{name}_bytes", float(word) * float(words[0])
    elif label == "PSI" and words[0] == "y":
        for name, at in WINDOWS:
            for window, word in zip((10, 60, 300), words[at : at + 3], strict=True):
                yield "system", "", f"node_pressure_{name}_avg{window}", float(word) / 100
    if label == "CPL":
        yield "system", "", "node_load1", float(words[1])
    for at, name in COUNTS.get(label, {}).items():
        if seconds and float(words[at]) >= 0:  # -1: this kernel has none
            yield "system", "", f"{name}:rate", float(words[at]) / seconds


def _atop_task(label: str, rest: str, seconds: float) -> Iterator[tuple[str, str, str, float]]:
    pid, _, behind = rest.partition(" (")
    state, *words = behind.rpartition(") ")[2].split() if ") " not in behind else behind.split(") ", 1)[1].split()
    if state == "E" or words[13 if label == "PRM" else 10] == "n":
        return
    if label == "PRM":
        yield "process", pid, "process_virtual_memory_bytes", float(words[1]) * 1024
        yield "process", pid, "process_resident_memory_bytes", float(words[2]) * 1024
        yield "process", pid, "process_swap_bytes", float(words[11]) * 1024
        if seconds:
            yield "process", pid, "process_minor_faults_total:rate", float(words[6]) / seconds
            yield "process", pid, "process_major_faults_total:rate", float(words[7]) / seconds
    elif seconds:
        yield "process", pid, "process_cpu_ratio.user", float(words[1]) / float(words[0]) / seconds
        yield "process", pid, "process_cpu_ratio.system", float(words[2]) / float(words[0]) / seconds
