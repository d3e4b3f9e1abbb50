"""Captures that call their host by the same name, and are of several: `localhost` on two machines is two hosts.

A switch of a setting from one capture to the next proves what it did, unless they are of two machines: then anything
would be proven. One machine has one boot at a time, so what the captures tell of boots may exclude one another; under
one boot the kernel stays the same, and counters never fall. A name that installers give (`localhost`) says nothing, so
there the boots must speak for one machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from thpdiag.derive.boot_clock import Join, boot_times, exclude, joins, same_boot
from thpdiag.derive.series import having
from thpdiag.knowledge.host_names import given
from thpdiag.model import Fact, Record, Sample, Series

NEVER_FALLS = "node_vmstat_pgfault"

Records = Sequence[Record]


def machines(name: str, captures: Mapping[str, Records]) -> list[list[str]]:
    """The captures (by root) of a name, those of one machine together, in the order given."""
    if len(captures) < 2:
        return [list(captures)]
    known = {root: joins(boot_times(records)[0]) for root, records in captures.items()}
    apart = {
        frozenset(pair)
        for pair in combinations(captures, 2)
        if _two(name, *((captures[root], known[root]) for root in pair))
    }
    groups: list[list[str]] = []
    for root in captures:
        own = next((g for g in groups if not any(frozenset((root, other)) in apart for other in g)), None)
        groups.append([root]) if own is None else own.append(root)
    return groups


def _two(name: str, one: tuple[Records, Sequence[Join]], other: tuple[Records, Sequence[Join]]) -> bool:
    """Whether two captures of a name are of two machines."""
    boots, others = one[1], other[1]
    if exclude(boots, others):
        return True
    if same_boot(boots, others):
        return _kernels_differ(one[0], other[0]) or _fell(one, other)
    return given(name) and not (boots and others)


def _kernels_differ(one: Records, other: Records) -> bool:
    here, there = _kernels(one), _kernels(other)
    return bool(here) and bool(there) and not here & there


def _kernels(records: Records) -> set[str]:
    facts = (r for r in records if isinstance(r, Fact) and r.name == "kernel.release")
    return {str(fact.value) for fact in facts if not fact.provenance}


def _fell(one: tuple[Records, Sequence[Join]], other: tuple[Records, Sequence[Join]]) -> bool:
    """Whether a counter was lower in the later capture, under one boot."""
    times = [max((j.read.seconds for j in known if j.read), default=None) for _, known in (one, other)]
    if times[0] is None or times[1] is None or times[0] == times[1]:
        return False
    first, later = (one[0], other[0]) if times[0] < times[1] else (other[0], one[0])
    lowest, highest = min(_counts(first), default=None), max(_counts(later), default=None)
    return lowest is not None and highest is not None and highest < lowest


def _counts(records: Records) -> list[float]:
    samples = (r for r in records if isinstance(r, Sample | Series))
    return [row.values[NEVER_FALLS] for row in having(samples, NEVER_FALLS) if row.kind == "system"]
