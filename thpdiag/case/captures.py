"""Several captures of one host: the latest speaks first, and what counters did between two of them is told.

Snapshots of a capture have no time of their own, so that those of two captures are no recording: what is asked for the
latest value gets that of the capture that was made last. The growth of counters from one capture to the next, under one
boot, is a note without influence: an average over hours says nothing about the seconds that hurt, and settings may have
been others in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from thpdiag.derive.boot_clock import boot_times, joins, of_one_boot
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Citation, Clock, Fact, Moment, Note, Record, Sample

COUNTERS = (
    "node_vmstat_thp_fault_alloc", "node_vmstat_thp_fault_fallback", "node_vmstat_thp_collapse_alloc",
    "node_vmstat_compact_stall", "node_vmstat_compact_fail",
)  # fmt: skip
LEAST = 60.0  # seconds between two captures: those of one moment show no growth


def latest_first(records: Sequence[Record]) -> Sequence[Record]:
    """The same records, those of later captures before those of earlier ones, as far as it is known when they were."""
    times = made(records)
    if len(times) < 2:
        return records
    rank = {root: number for number, root in enumerate(sorted(times, key=lambda r: -times[r].seconds))}
    return sorted(records, key=lambda record: rank.get(root_of(record.cite.member), len(rank)))


def made(records: Iterable[Record]) -> Mapping[str, Moment]:
    """When each capture was made, by its root; of those on the clock of most of them."""
    found: dict[Clock, dict[str, Moment]] = {}
    for fact in (r for r in records if isinstance(r, Fact) and r.name == "capture.time"):
        root = root_of(fact.cite.member)
        if fact.time and root:
            of_clock = found.setdefault(fact.time.clock, {})
            of_clock[root] = max(of_clock.get(root, fact.time), fact.time)
    return max(found.values(), key=len, default={})


def between(records: Sequence[Record]) -> Iterator[Note]:
    """What counters did from one capture to the next, where nothing was booted in between."""
    times = made(records)
    shots = {root: shot for root in times if (shot := _shot(records, root))}
    for one, other in pairwise(sorted(shots, key=lambda root: times[root].seconds)):
        seconds = times[other].seconds - times[one].seconds
        if seconds < LEAST or not _one_boot(records, one, other, times[one]):
            continue
        if grown := _grown(shots[one], shots[other]):
            span = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
            text = (
                f"in the {span} since the capture before, under the same boot: {', '.join(grown)}; averages over so "
                "long say nothing about single seconds and have no influence here"
            )
            yield Note(text, shots[other].cite)


def _one_boot(records: Sequence[Record], one: str, other: str, made_first: Moment) -> bool:
    """Whether both captures tell of the same boot, which was before the first of them."""
    each = [joins(boot_times([r for r in records if root_of(r.cite.member) == root])[0]) for root in (one, other)]
    every = [join for known in each for join in known]
    if not all(each) or not of_one_boot(every, Citation("")):
        return False
    return all(j.zero.clock is made_first.clock and j.zero.seconds + j.within < made_first.seconds for j in every)


def _shot(records: Iterable[Record], root: str) -> Sample | None:
    """The counters of a capture; none if it has several snapshots, which are a recording."""
    found = [
        r
        for r in records
        if isinstance(r, Sample) and r.reader == "proc_vmstat" and r.kind == "system" and root_of(r.cite.member) == root
    ]
    return found[0] if len(found) == 1 else None


def _grown(one: Sample, other: Sample) -> list[str]:
    """What each counter grew by; nothing if one fell, for then it began anew."""
    grown = {n: other.values[n] - one.values[n] for n in COUNTERS if n in one.values and n in other.values}
    if any(by < 0 for by in grown.values()):
        return []
    return [f"{name.removeprefix('node_vmstat_')} +{by:.0f}" for name, by in grown.items()]
