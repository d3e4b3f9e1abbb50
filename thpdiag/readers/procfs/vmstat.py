"""/proc/vmstat: the kernel's memory counters and page gauges, one `name value` per line, also grep'ed excerpts and
loops.

    nr_free_pages 615337
    compact_stall 1204

Units: `nr_*` and `workingset_nodes` are gauges in pages (of which nr_dirtied, nr_written, nr_vmscan_* only grow), all
else counts events since boot. Names come and go with kernels (RHEL 6.0 has no thp_*, one `allocstall` became one per
zone in 4.10), so each keeps its own: X becomes node_vmstat_X. A file of a cgroup (memory.stat) or of a NUMA node has
the same shape but does not speak for the system, so it is not read. Source: kernel tree, mm/vmstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Problem, ProblemKind, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.procfs.snapshots import Row, system_samples

_NAME = (
    r"(?:nr_|numa_|workingset_|pgpg|pswp|pgalloc_|allocstall|pgskip_|pgfree|pg(?:de)?activate|pglazyfree|pg(?:maj|pte_maj)?fault|"
    r"pgre|pgsteal|pgscan|pginode|pgrotated|pgmigrate|pgdemote_|pgpromote_|slabs_|kswapd_|pageoutrun|drop_|oom_kill|compact_|"
    r"htlb_|cma_|unevictable_|thp_|balloon_|swap_ra|swpin_|swpout_|ksm_|cow_|zswp|direct_map_|vma_lock_|zone_reclaim|vmscan_|"
    r"kstack_)[a-z0-9_]{0,60}"
)
_GREP = r"(?:\S{0,200}proc/vmstat:)?"
_OPENS = re.compile(rf"{_GREP}{_NAME}\s+[-+]?\d\S*\s*$")
_LINE = re.compile(rf"{_GREP}([a-z][a-z0-9_]*)(?:\s+(\S+))?\s*$")
_CONTINUES = re.compile(rf"{_GREP}(?:{_NAME}(?:\s+\S+)?|(?!procs_)[a-z]+_[a-z0-9_]+\s+\d+)\s*$")
NOT_OF_THE_SYSTEM = "counters of a cgroup or a NUMA node, not of the system"
_OTHER = re.compile(r"memory\.(?:numa_)?stat|cgroup|system/node/node\d+")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One system sample per snapshot."""
    if _OTHER.search(source.path or source.member):
        number, line = next(iter(lines))
        yield Problem(source.cite(number, line), NOT_OF_THE_SYSTEM, ProblemKind.UNRECOGNISED, READER.name)
        return
    odd = Oddities(source, READER.name)
    yield from dated(source, system_samples(source, READER.name, _rows(lines, odd), "node_vmstat_nr_free_pages"))
    yield from odd.problems()


def _rows(lines: Lines, odd: Oddities) -> Iterator[Row]:
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a `name value` line")
            continue
        name, text = found.groups()
        value = whole(text or "")
        if value is None:
            odd.note(number, line, NOT_A_COUNT)
        else:
            yield number, line, f"node_vmstat_{name}", value


READER = Reader(
    name="proc_vmstat",
    title="/proc/vmstat",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
)
