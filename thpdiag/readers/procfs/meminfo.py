"""/proc/meminfo: sizes of memory by use, one `Name: value kB` per line, also grep'ed excerpts and loops.

    MemTotal:       98984588 kB
    HugePages_Total:       0

Units: kB is 1024 bytes; lines without unit (HugePages_*) are counts of pages of the pool and stay counts. Names differ
by kernel (MemAvailable from 3.14, ShmemHugePages from 4.8, FileHugePages from 5.4; AnonHugePages already on RHEL 6).
`Active(anon)` becomes node_memory_Active_anon_bytes as in node_exporter. Source: kernel tree, fs/proc/meminfo.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import LARGEST_KIB, NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.procfs import smaps
from thpdiag.readers.procfs.snapshots import Row, system_samples

_NAME = (
    r"(?:Mem(?:Total|Free|Available|Shared)|Buffers|Cached|SwapCached|(?:Ina|A)ctive(?:\((?:anon|file)\))?|Unevictable|Mlocked|"
    r"(?:High|Low|Swap|Cma)(?:Total|Free)|MmapCopy|Zswap(?:ped)?|Dirty|Writeback(?:Tmp)?|AnonPages|AnonHugePages|Mapped|"
    r"Shmem(?:HugePages|PmdMapped)?|File(?:HugePages|PmdMapped)|KReclaimable|Slab|SReclaimable|SUnreclaim|KernelStack|"
    r"ShadowCallStack|(?:Sec)?PageTables|Quicklists|NFS_Unstable|Bounce|CommitLimit|Committed_AS|Vmalloc(?:Total|Used|Chunk)|"
    r"Percpu|EarlyMemtestBad|HardwareCorrupted|Unaccepted|Balloon|HugePages_(?:Total|Free|Rsvd|Surp)|Hugepagesize|Hugetlb|"
    r"DirectMap(?:4k|64k|2M|4M|1G))"
)
_FOREIGN = (  # lines of /proc/PID/status and smaps, which look alike
    r"(?:Vm\w+|Rss\w*|Pss\w*|Size|Swap|SwapPss|Locked|Private_\w+|Shared_\w+|Referenced|Anonymous|LazyFree|KSM|KernelPageSize|"
    r"MMUPageSize|HugetlbPages)"
)
_GREP = r"(?:\S{0,200}proc/meminfo:)?"
_OPENS = re.compile(rf"\s*{_GREP}{_NAME}:\s*[-+]?\d\S*(?:\s+kB)?\s*$")
_LINE = re.compile(rf"\s*{_GREP}([A-Z]\w*)(?:\((\w+)\))?:(?:\s*(\S+)(?:\s+(\S+))?)?\s*$")
_CONTINUES = re.compile(
    rf"\s*{_GREP}(?:{_NAME}:?(?:\s{{0,20}}\S+(?:\s{{1,20}}k?B?)?)?|(?!{_FOREIGN}:)[A-Z]\w+(?:\(\w+\))?:\s+\d+ kB|"
    r"HugePages_\w+:\s+\d+)\s*$"
)
_SMAPS = re.compile(r"proc/[^/]{1,40}/(?:task/\w+/)?smaps(?:_rollup)?$")
_NO_UNIT = "the unit kB is missing, the line may be cut; the value is left out"


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One system sample per snapshot."""
    # `grep AnonHugePages /proc/PID/smaps` prints the same line
    if _SMAPS.search(source.path) and "meminfo" not in source.command:
        yield from smaps.read(source, lines)
        return
    odd = Oddities(source, READER.name)
    rows = _rows(lines, odd)
    yield from dated(source, system_samples(source, READER.name, rows, "node_memory_MemTotal_bytes"))
    yield from odd.problems()


def _rows(lines: Lines, odd: Oddities) -> Iterator[Row]:
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a `Name: value kB` line")
            continue
        name, part, text, unit = found.groups()
        value = whole(text or "")
        if value is None or value > LARGEST_KIB:
            odd.note(number, line, NOT_A_COUNT)
        elif unit == "kB":
            yield number, line, f"node_memory_{name}{'_' + part if part else ''}_bytes", value * 1024
        elif name.startswith("HugePages_"):
            yield number, line, f"node_memory_{name}", value
        else:
            odd.note(number, line, _NO_UNIT)


READER = Reader(
    name="proc_meminfo",
    title="/proc/meminfo",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
)
