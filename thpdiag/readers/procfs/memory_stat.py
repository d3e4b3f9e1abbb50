"""memory.stat of a memory cgroup, pasted without its path: recognised so that nobody takes it for /proc/vmstat.

    anon 2147483648                 cache 16384              (version 1)
    file 1048576                    rss 66854912
    ...                             ...
    thp_fault_alloc 100954          total_pgfault 24023

Bytes and counts of one cgroup (a container, a service). Half of the names are those of /proc/vmstat, the numbers say
nothing about the host: nothing is read, and the report says so. Source: kernel tree, mm/memcontrol.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Problem, ProblemKind, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.oom_report import CGROUP_COUNTER
from thpdiag.readers.procfs.vmstat import NOT_OF_THE_SYSTEM

_OF_CGROUPS = re.compile(  # names that /proc/vmstat does not have
    r"(?:cache|rss|rss_huge|mapped_file|swapcached|anon|file|kernel|kernel_stack|pagetables|percpu|sock|file_mapped|"
    r"(?:anon|file|shmem)_thp|(?:in)?active_(?:anon|file)|slab|slab_reclaimable) \d{1,20}\s*$"
)
_LINE = re.compile(CGROUP_COUNTER)


def _confirmed(lines: list[str]) -> bool:
    return sum(_OF_CGROUPS.match(line) is not None for line in lines) >= 2


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """That it was seen."""
    for number, line in lines:
        yield Problem(source.cite(number, line), NOT_OF_THE_SYSTEM, ProblemKind.UNRECOGNISED, READER.name)
        return


READER = Reader(
    name="memory_stat",
    title="memory.stat of a cgroup (not read: not of the system)",
    read=read,
    opens=_OF_CGROUPS,
    continues=_LINE.match,
    confirm=_confirmed,
)
