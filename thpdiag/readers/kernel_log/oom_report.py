"""What follows the headline of the out-of-memory killer: the memory cgroup, huge pages, the victim.

    memory: usage 65536kB, limit 65536kB, failcnt 0
    oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,task_memcg=/x,task=python3,pid=7144,uid=0
    Memory cgroup out of memory: Killed process 7144 (python3) total-vm:75160kB, anon-rss:65280kB, file-rss:6616kB, ...

Units in: kB, bytes in lists of statistics; out: bytes. The `oom-kill:` line exists from 4.20; before, only a limit of
a cgroup can be told from the words, and the constraint of other kills stays unknown. `anon_thp` of a node is from 4.8
on. Source: mm/oom_kill.c, mm/memcontrol.c, mm/page_alloc.c. Not a format of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from thpdiag.readers.kernel_log.lines import printable

_DETAILS = (
    re.compile(
        r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w{1,40}),.{0,400}?(?:oom_memcg=(?P<memcg>.{1,200}?),|global_oom,)"
        r".{0,600},task=(?P<victim>.{0,16}),pid=(?P<victim_pid>\d{1,8})(?:,uid=\d{1,10})?\s*$"
    ),
    re.compile(r"memory: usage (?P<memcg_usage_kb>\d{1,15})kB, limit (?P<memcg_limit_kb>\d{1,18})kB"),
    re.compile(r"Memory cgroup stats for (?P<memcg>[^:]{1,200}):(?:.{0,200}\brss_huge:(?P<memcg_huge_kb>\d{1,15})KB)?"),
    re.compile(r"(?:rss_huge|anon_thp) (?P<memcg_huge>\d{1,18})\s*$"),
    re.compile(r"Task in .{0,200} killed as a result of limit of (?P<memcg>\S{1,200})"),
)
_NODE_HUGE = re.compile(r"Node \d{1,4} active_anon:.{0,700}\banon_thp: ?(\d{1,15})kB")
CGROUP_COUNTER = (
    r"(?:(?:total_)?(?:cache|rss|rss_huge|shmem|mapped_file|dirty|writeback|swap|swapcached|pgpgin|pgpgout|pgfault|"
    r"pgmajfault|unevictable|(?:in)?active_(?:anon|file)|workingset_[a-z_]{1,30})|hierarchical_(?:memory|memsw)_limit|"
    r"anon|file|kernel|kernel_stack|pagetables|sec_pagetables|percpu|sock|vmalloc|zswap|zswapped|"
    r"file_(?:mapped|dirty|writeback|thp)|(?:anon|shmem)_thp|slab|slab_(?:un)?reclaimable|hugetlb|"
    r"pg(?:refill|scan|steal|activate|deactivate|lazyfreed?|demote|promote|scan_[a-z_]{1,20}|steal_[a-z_]{1,20}|"
    r"demote_[a-z_]{1,20}|promote_[a-z_]{1,20})|swp(?:in|out)_zero|zswp(?:in|out|wb)|thp_[a-z_]{1,40}|"
    r"numa_[a-z_]{1,30}) \d{1,20}\s*$"
)
"""A line of a memory cgroup's memory.stat (versions 1 and 2), as it also stands in the report on a cgroup at its limit.

The names are partly those of /proc/vmstat, but the numbers are of one cgroup.
"""

_KILL = re.compile(
    r"(?:(?P<scope>Memory cgroup out of memory|Out of memory)(?: \([\w ]{1,40}\))?: )?(?P<verb>[Kk]ill(?:ed)?) process "
    r"(?P<victim_pid>\d{1,8})(?:, UID \d{1,10},)? \((?P<victim>.{0,16})\)"
    r"(?: total-vm:\d{1,15}kB, anon-rss:(?P<victim_anon_rss_kb>\d{1,15})kB)?"
)


@dataclass(frozen=True, slots=True)
class Kill:
    """The line that names a victim. To 4.19 there are two: `Kill process` says why, `Killed process` what is freed."""

    parts: Mapping[str, str | None]

    def into(self, fields: dict[str, str]) -> bool:
        """Add what it says; True if the report ends with it."""
        if (self.parts["scope"] or "").startswith("Memory cgroup"):
            fields.setdefault("constraint", "CONSTRAINT_MEMCG")
        killed = self.parts["verb"] == "Killed"
        if killed:  # the one that was chosen and the one that dies may be two threads
            fields.pop("victim_pid", None)
            fields.pop("victim", None)
        _add(fields, {k: v for k, v in self.parts.items() if k.startswith("victim")})
        return killed


def kill(text: str) -> Kill | None:
    """The victim a line names."""
    found = _KILL.match(text) if "ill" in text else None
    return Kill(found.groupdict()) if found else None


def more(text: str, fields: dict[str, str]) -> bool:
    """Add what a line of an open report says; False if it says nothing we know."""
    if huge := _NODE_HUGE.match(text):
        fields["anon_huge_bytes"] = str(int(fields.get("anon_huge_bytes", "0")) + int(huge[1]) * 1024)
        return True
    for pattern in _DETAILS:
        if found := pattern.match(text):
            _add(fields, found.groupdict())
            return True
    return False


def _add(fields: dict[str, str], parts: Mapping[str, str | None]) -> None:
    for name, value in parts.items():
        if value is None:
            continue
        if name.endswith("_kb"):
            fields.setdefault(f"{name.removesuffix('_kb')}_bytes", str(int(value) * 1024))
        else:
            fields.setdefault(f"{name}_bytes" if name == "memcg_huge" else name, printable(value))
    _huge_share(fields)


def _huge_share(fields: dict[str, str]) -> None:
    """memcg_huge_share: what part of the memory of the group at its limit is in huge pages."""
    usage, huge = int(fields.get("memcg_usage_bytes", "0")), fields.get("memcg_huge_bytes")
    if usage > 0 and huge is not None:
        fields.setdefault("memcg_huge_share", f"{min(int(huge) / usage, 1.0):.3f}")
