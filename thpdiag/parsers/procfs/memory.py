"""Files of /proc about system memory: meminfo, vmstat, slabinfo; and memory.stat of a cgroup, which is not read.

/proc/meminfo: sizes of memory by use, one `Name: value kB` per line; also excerpts by grep and repeated output.

    MemTotal:       98984588 kB
    HugePages_Total:       0

Units: kB is 1024 bytes; lines without unit (HugePages_*) are counts of pages of the pool and are kept as counts. Names
differ by kernel (MemAvailable from 3.14, ShmemHugePages from 4.8, FileHugePages from 5.4; AnonHugePages already on
RHEL 6). `Active(anon)` becomes node_memory_Active_anon_bytes as in node_exporter. Source: kernel tree,
fs/proc/meminfo.c.

/proc/vmstat: the kernel's memory counters and page gauges, one `name value` per line; also excerpts by grep and
repeated output.

    nr_free_pages 615337
    compact_stall 1204

Units: `nr_*` and `workingset_nodes` are gauges in pages (nr_dirtied, nr_written, nr_vmscan_* only grow); the others
count events since boot. Names differ by kernel (RHEL 6.0 has no thp_*, `allocstall` was split by zone in 4.10) and are
kept: X becomes node_vmstat_X. A file of a cgroup (memory.stat) or of a NUMA node has the same form but does not
describe the system, so it is not read. Source: kernel tree, mm/vmstat.c.

memory.stat of a memory cgroup, pasted without its path: detected so that it is not read as /proc/vmstat.

    anon 2147483648                 cache 16384              (version 1)
    file 1048576                    rss 66854912
    ...                             ...
    thp_fault_alloc 100954          total_pgfault 24023

Bytes and counts of one cgroup (a container, a service). Half of the names are those of /proc/vmstat, but the numbers do
not describe the host: they are not read, and the report states that. Source: kernel tree, mm/memcontrol.c.

Slab caches, from /proc/slabinfo or slabtop: a host has about 200, most of them small. Those below 16 MiB are left out,
because they are irrelevant and recorders copy the file every few seconds.

/proc/slabinfo: the caches of the kernel's slab allocator, one per line.

    slabinfo - version: 2.1
    # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ...
    dentry            287284 287406    192   21    1 : tunables    0    0    0 : slabdata  13686  13686      0

Units: objects, and bytes per object. Since 2013 readable by root only.
Varies: version 1.1 (2.4 kernels) has other columns and is not read. Source: kernel tree, mm/slab_common.c.

slabtop -o, or screens of slabtop: sums, then the largest caches of the kernel's slab allocator.

     Active / Total Size (% used)       : 454257.51K / 456909.56K (99.4%)
      OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
    287406 287284  99%    0.19K  13686       21     54744K dentry

Units: KiB with two decimals (for an object, a resolution of 10 bytes); the sum counts objects, not their pages, so it
is a little below Slab of /proc/meminfo.
Varies: columns by width in procps 4; `Active / Total Caches`, `Slabs`. Source: procps slabtop.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from thpdiag.model import Citation, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import (
    CGROUP_COUNTER,
    ParseErrors,
    Row,
    count_of,
    matches,
    snapshots,
    system_samples,
    with_errors,
)
from thpdiag.parsers._units import (
    MAX_KIB,
    MAX_QUANTITY,
    NOT_A_COUNT,
    Quantity,
    parse_count,
    parse_number,
    parse_quantity,
)
from thpdiag.parsers.procfs import process as smaps

_MEMINFO_NAME = (
    r"(?:Mem(?:Total|Free|Available|Shared)|Buffers|Cached|SwapCached|(?:Ina|A)ctive(?:\((?:anon|file)\))?|Unevictable|Mlocked|"
    r"(?:High|Low|Swap|Cma)(?:Total|Free)|MmapCopy|Zswap(?:ped)?|Dirty|Writeback(?:Tmp)?|AnonPages|AnonHugePages|Mapped|"
    r"Shmem(?:HugePages|PmdMapped)?|File(?:HugePages|PmdMapped)|KReclaimable|Slab|SReclaimable|SUnreclaim|KernelStack|"
    r"ShadowCallStack|(?:Sec)?PageTables|Quicklists|NFS_Unstable|Bounce|CommitLimit|Committed_AS|Vmalloc(?:Total|Used|Chunk)|"
    r"Percpu|EarlyMemtestBad|HardwareCorrupted|Unaccepted|Balloon|HugePages_(?:Total|Free|Rsvd|Surp)|Hugepagesize|Hugetlb|"
    r"DirectMap(?:4k|64k|2M|4M|1G))"
)
_PROCESS_NAME = (  # names in /proc/PID/status and smaps, whose lines have the same form
    r"(?:Vm\w+|Rss\w*|Pss\w*|Size|Swap|SwapPss|Locked|Private_\w+|Shared_\w+|Referenced|Anonymous|LazyFree|KSM|KernelPageSize|"
    r"MMUPageSize|HugetlbPages)"
)
_MEMINFO_GREP = r"(?:\S{0,200}proc/meminfo:)?"
_MEMINFO_OPENS = re.compile(rf"\s*{_MEMINFO_GREP}{_MEMINFO_NAME}:\s*[-+]?\d\S*(?:\s+kB)?\s*$")
_MEMINFO_LINE = re.compile(rf"\s*{_MEMINFO_GREP}([A-Z]\w*)(?:\((\w+)\))?:(?:\s*(\S+)(?:\s+(\S+))?)?\s*$")
_MEMINFO_CONTINUES = re.compile(
    rf"\s*{_MEMINFO_GREP}(?:{_MEMINFO_NAME}:?(?:\s{{0,20}}\S+(?:\s{{1,20}}k?B?)?)?|"
    rf"(?!{_PROCESS_NAME}:)[A-Z]\w+(?:\(\w+\))?:\s+\d+ kB|"
    r"HugePages_\w+:\s+\d+)\s*$"
)
_SMAPS = re.compile(r"proc/[^/]{1,40}/(?:task/\w+/)?smaps(?:_rollup)?$")
_NO_UNIT = "the unit kB is missing, the line may be cut; the value is left out"


def parse_meminfo(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield one system sample per snapshot."""
    # `grep AnonHugePages /proc/PID/smaps` prints the same line as for /proc/meminfo.
    is_smaps = _SMAPS.search(source.path) and "meminfo" not in source.command
    yield from smaps.parse_smaps(source, lines) if is_smaps else _parse_meminfo(source, lines)


@snapshots("proc_meminfo")
def _parse_meminfo(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    rows = _meminfo_rows(lines, errors)
    return system_samples(source, MEMINFO.name, rows, "node_memory_MemTotal_bytes")


def _meminfo_rows(lines: Lines, errors: ParseErrors) -> Iterator[Row]:
    for number, line, match in matches(lines, _MEMINFO_LINE, errors, "not a `Name: value kB` line"):
        name, part, text, unit = match.groups()
        value = parse_count(text or "")
        if value is None or value > MAX_KIB:
            errors.note(number, line, NOT_A_COUNT)
        elif unit == "kB":
            yield number, line, f"node_memory_{name}{'_' + part if part else ''}_bytes", value * 1024
        elif name.startswith("HugePages_"):
            yield number, line, f"node_memory_{name}", value
        else:
            errors.note(number, line, _NO_UNIT)


MEMINFO = Parser(
    "proc_meminfo", "/proc/meminfo", parse_meminfo, opens=_MEMINFO_OPENS, continues=_MEMINFO_CONTINUES.match
)


_VMSTAT_NAME = (
    r"(?!nr_(?:periods|throttled|bursts)\s)"  # of a control group's cpu.stat
    r"(?:nr_|numa_|workingset_|pgpg|pswp|pgalloc_|allocstall|pgskip_|pgfree|pg(?:de)?activate|pglazyfree|pg(?:maj|pte_maj)?fault|"
    r"pgre|pgsteal|pgscan|pginode|pgrotated|pgmigrate|pgdemote_|pgpromote_|slabs_|kswapd_|pageoutrun|drop_|oom_kill|compact_|"
    r"htlb_|cma_|unevictable_|thp_|balloon_|swap_ra|swpin_|swpout_|ksm_|cow_|zswp|direct_map_|vma_lock_|zone_reclaim|vmscan_|"
    r"kstack_)[a-z0-9_]{0,60}"
)
_VMSTAT_GREP = r"(?:\S{0,200}proc/vmstat:)?"
_VMSTAT_NOTE = r"\s*(?:\s(?:<?-+>|<-+|=>|←|→|#|//).{0,200})?$"  # an annotation after a row
_VMSTAT_OPENS = re.compile(rf"{_VMSTAT_GREP}{_VMSTAT_NAME}\s+[-+]?\d\S*{_VMSTAT_NOTE}")
_VMSTAT_LINE = re.compile(rf"{_VMSTAT_GREP}([a-z][a-z0-9_]*)(?:\s+(\S+))?{_VMSTAT_NOTE}")
_VMSTAT_CONTINUES = re.compile(
    rf"{_VMSTAT_GREP}(?:{_VMSTAT_NAME}(?:\s+\S+)?|(?!procs_)[a-z]+_[a-z0-9_]+\s+\d+){_VMSTAT_NOTE}"
)
_OTHER_FILE = re.compile(r"memory\.(?:numa_)?stat|cgroup|system/node/node\d+")


def parse_vmstat(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield one system sample per snapshot."""
    if _OTHER_FILE.search(source.path or source.member):
        yield from _not_read_problem(source, lines, VMSTAT.name)
    else:
        yield from _parse_vmstat(source, lines)


@snapshots("proc_vmstat")
def _parse_vmstat(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    rows = (
        (number, line, f"node_vmstat_{match[1]}", value)
        for number, line, match in matches(lines, _VMSTAT_LINE, errors, "not a `name value` line")
        if (value := count_of(number, line, match[2] or "", errors)) is not None
    )
    return system_samples(source, VMSTAT.name, rows, "node_vmstat_nr_free_pages")


def _not_read_problem(source: Source, lines: Lines, reader: str) -> Iterator[Problem]:
    """Yield the problem that a file of a cgroup or NUMA node is not read."""
    text = "counters of a cgroup or a NUMA node, not of the system"
    yield from (Problem(source.cite(*line), text, ProblemKind.UNRECOGNISED, reader) for line in islice(lines, 1))


VMSTAT = Parser("proc_vmstat", "/proc/vmstat", parse_vmstat, opens=_VMSTAT_OPENS, continues=_VMSTAT_CONTINUES.match)


_CGROUP_ONLY = re.compile(  # names that /proc/vmstat does not have
    r"(?:cache|rss|rss_huge|mapped_file|swapcached|anon|file|kernel|kernel_stack|pagetables|percpu|sock|file_mapped|"
    r"(?:anon|file|shmem)_thp|(?:in)?active_(?:anon|file)|slab|slab_reclaimable) \d{1,20}\s*$"
)


MEMORY_STAT = Parser(
    "memory_stat", "memory.stat of a cgroup (not read: not of the system)",
    lambda source, lines: _not_read_problem(source, lines, "memory_stat"), opens=_CGROUP_ONLY,
    continues=re.compile(CGROUP_COUNTER).match,
    confirm=lambda lines: sum(_CGROUP_ONLY.match(line) is not None for line in lines) >= 2,
)  # fmt: skip


MIN_SLAB_BYTES = 16 << 20


def slab_sample(
    reader: str, cite: Citation, time: Moment | None, name: str, counts: tuple[float, float], size: Quantity
) -> Iterator[Sample]:
    """Yield the sample of a cache, unless it is small. `counts` are active and all objects, `size` that of one."""
    active, objects = counts
    if MIN_SLAB_BYTES <= objects * size.value <= MAX_QUANTITY:
        values = {
            "node_slabinfo_active_objects": active,
            "node_slabinfo_objects": objects,
            "node_slabinfo_object_size_bytes": size.value,
        }
        resolution = {"node_slabinfo_object_size_bytes": size.resolution} if size.resolution else {}
        yield Sample("slab", values, cite, reader, (("slab", name),), time, resolution)


SLABINFO_HEADER = re.compile(r"slabinfo - version: 2\.\d\s*$")
SLABINFO_COLUMNS = re.compile(r"# name\s+<active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>")
SLABINFO_ROW = re.compile(r"(\S{1,64})\s+(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+\d+ : (?:globalstat .{0,200} : )?tunables\s")


@with_errors("slabinfo")
def parse_slabinfo(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a sample per cache that is not small."""
    for line, text in lines:
        if row := SLABINFO_ROW.match(text):
            active, objects, size = map(parse_number, row.groups()[1:])
            if active is None or objects is None or size is None:
                errors.note(line, text, "an impossible number of slabinfo: not used")
                continue
            cite, counts = source.cite(line, text), (active, objects)
            yield from slab_sample("slabinfo", cite, source.time, row[1], counts, Quantity(size, 0.0))
        elif text.strip() and not SLABINFO_HEADER.match(text) and not SLABINFO_COLUMNS.match(text):
            errors.note(line, text, "not a line of slabinfo")


SLABINFO = Parser(
    "slabinfo", "/proc/slabinfo", parse_slabinfo,
    opens=re.compile(f"{SLABINFO_HEADER.pattern}|{SLABINFO_COLUMNS.pattern}"),
    continues=re.compile(f"{SLABINFO_ROW.pattern}|{SLABINFO_COLUMNS.pattern}").match,
)  # fmt: skip


SLABTOP_SUMMARY = re.compile(
    r"\s?(?:Active / Total|Minimum / Average / Maximum) (Objects?|Slabs|Caches|Size)(?: \(% used\))?\s*:\s"
)
SLABTOP_SIZES = re.compile(r".*:\s+(\d\S{0,20}) / (\d\S{0,20}) \(")
SLABTOP_HEADER = re.compile(r"\s*OBJS\s+ACTIVE\s+USE\s+OBJ SIZE\s+SLABS\s+OBJ/SLAB\s+CACHE SIZE\s+NAME\s*$")
SLABTOP_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+\d{1,3}%\s+(\S{1,20})\s+\d+\s+\d+\s+(\S{1,20})\s+(\S{1,64})\s*$")


@snapshots("slabtop")
def parse_slabtop(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield a sample of the host from the sums, and one per cache that is not small."""
    for line, text in lines:
        cite = source.cite(line, text)
        if total := SLABTOP_SUMMARY.match(text):
            sizes = SLABTOP_SIZES.match(text)
            if total[1] == "Size" and sizes and (size := _kib(sizes[2])):
                resolution = {"node_slabinfo_all_bytes": size.resolution}
                yield Sample("system", {"node_slabinfo_all_bytes": size.value}, cite, "slabtop", (), None, resolution)
        elif row := SLABTOP_ROW.match(text):
            objects, active, size = parse_number(row[1]), parse_number(row[2]), _kib(row[3])
            if objects is None or active is None or size is None:
                errors.note(line, text, "an impossible number of slabtop: not used")
            else:
                yield from slab_sample("slabtop", cite, None, row[5], (active, objects), size)
        elif text.strip() and not SLABTOP_HEADER.match(text):
            errors.note(line, text, "not a line of slabtop")


def _kib(text: str) -> Quantity | None:
    """Parse `0.19K`; None without the suffix."""
    return parse_quantity(text) if text.endswith("K") else None


SLABTOP = Parser(
    "slabtop", "slabtop", parse_slabtop, opens=re.compile(f"{SLABTOP_SUMMARY.pattern}|{SLABTOP_HEADER.pattern}"),
    continues=re.compile(rf"{SLABTOP_SUMMARY.pattern}|{SLABTOP_HEADER.pattern}|{SLABTOP_ROW.pattern}|\s*$").match,
)  # fmt: skip
