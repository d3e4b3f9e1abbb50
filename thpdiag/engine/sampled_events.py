"""Which events of a recording measure CPU time. Shares of samples mean time only there.

`perf record -e compaction:mm_compaction_begin -g` samples compaction and nothing else: all of its stacks hold it, were
it one a day. Page faults, cache misses and instructions are counted as well, not timed. Clocks and cycles are time, and
so is what has no name (folded stacks) or a raw one (`r3c`): nobody records with those to count. Names: `perf list`,
tools/perf/util/parse-events.c; modifiers behind a colon are in perf-list(1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from thpdiag.model import Profile

_TRACEPOINT = re.compile(r"(?P<system>[A-Za-z_][\w-]*):(?P<name>[A-Za-z0-9_]\w*)")
_MODIFIERS = re.compile(r"[ukhIGHpPSDWebRX]+")
_COUNTED = frozenset({
    "faults", "switches", "cs", "migrations", "dummy", "output", "tracepoint", "breakpoint", "instructions", "inst",
    "uops", "branches", "branch", "misses", "miss", "loads", "load", "stores", "store", "references", "prefetches",
})  # fmt: skip
_WORD = re.compile(r"[a-z]+")


def of_cpu_time(profile: Profile) -> bool:
    """Whether the samples were taken by time."""
    event = profile.event.split("{")[-1].split(",")[0].strip()  # a group is sampled by its first event
    point = _TRACEPOINT.match(event)
    if point and not _MODIFIERS.fullmatch(point["name"]):
        return False
    return _COUNTED.isdisjoint(_WORD.findall(event.lower()))


def timed_ones(profiles: Sequence[Profile]) -> list[Profile]:
    """Those that measure CPU time."""
    return [profile for profile in profiles if of_cpu_time(profile)]
