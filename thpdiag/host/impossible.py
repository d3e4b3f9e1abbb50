"""Values that no kernel has given: parts that are larger than their whole, sizes that are no power of two.

A damaged digit makes another number, not none, and nothing in its line says so. What contradicts arithmetic is left
out with a Problem, so that rules which need it say unknown. Counters of one snapshot are not read at one moment, and
each CPU holds back some of its pages: a little more than the whole is no damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from thpdiag.model import Citation, Fact, Problem, Record, Sample

MEMORY = "node_memory_MemTotal_bytes"
RESIDENT = "process_resident_memory_bytes"
SLACK, SLACK_BYTES = 0.02, 64.0 * 2**20
MIN_PAGE_BYTES = 4096.0
MIN_HUGE_PAGE_BYTES, MAX_HUGE_PAGE_BYTES = 2.0**16, 2.0**34  # of all machines; PMD-sized or not
_POWERS_OF_TWO = {
    "thp.hpage_pmd_size": (MIN_HUGE_PAGE_BYTES, MAX_HUGE_PAGE_BYTES),
    "kernel.page_size": (MIN_PAGE_BYTES, MIN_HUGE_PAGE_BYTES),
}
_PARTS = {
    "MemTotal": (
        "MemFree", "MemAvailable", "Buffers", "Cached", "Active", "Inactive", "Unevictable", "AnonPages", "Mapped",
        "Shmem", "Slab", "KernelStack", "PageTables", "AnonHugePages", "ShmemHugePages", "FileHugePages",
    ),
    "Slab": ("SReclaimable", "SUnreclaim"),
    "Active": ("Active_anon", "Active_file"),
    "Inactive": ("Inactive_anon", "Inactive_file"),
    "SwapTotal": ("SwapFree", "SwapUsed"),
}  # fmt: skip
_METRIC_PARTS = {
    f"node_memory_{whole}_bytes": tuple(f"node_memory_{part}_bytes" for part in parts)
    for whole, parts in _PARTS.items()
} | {"node_memory_HugePages_Total": ("node_memory_HugePages_Free", "node_memory_HugePages_Rsvd")}


def without_impossible(records: Iterable[Record]) -> tuple[list[Record], list[Problem]]:
    """The records without what cannot be, and a problem for each of those values."""
    records = list(records)
    totals = [r.values[MEMORY] for r in records if isinstance(r, Sample) and MEMORY in r.values]
    memory, problems = max(totals, default=0.0), list[Problem]()
    kept: list[Record] = []
    for record in records:
        if isinstance(record, Fact):
            if reason := _reason_of_size(record):
                problems.append(_problem(record.cite, reason))
                continue
        elif isinstance(record, Sample):
            names = dict(_impossible(record.values, memory))
            problems += (_problem(record.cite, reason) for reason in dict.fromkeys(names.values()))
            if names:
                rest = {name: value for name, value in record.values.items() if name not in names}
                record = replace(record, values=rest)
        kept.append(record)
    return kept, problems


def _problem(cite: Citation, reason: str) -> Problem:
    return Problem(cite, reason, hides=True)


def _reason_of_size(fact: Fact) -> str:
    bounds = _POWERS_OF_TWO.get(fact.name)
    if bounds is None or isinstance(fact.value, str):
        return ""
    size = int(fact.value)
    fits = bounds[0] <= size <= bounds[1] and size & (size - 1) == 0
    return "" if fits else f"{size} bytes is the size of no page; it is not used"


def _impossible(values: Mapping[str, float], memory: float) -> Iterator[tuple[str, str]]:
    """Names of values, each with why it cannot be."""
    for whole, parts in _METRIC_PARTS.items():
        if (size := values.get(whole)) is None:
            continue
        limit = size * (1 + SLACK) + (SLACK_BYTES if whole == MEMORY else 0.0)
        for part in parts:
            if values.get(part, 0.0) > limit:
                reason = (
                    f"{_kernel_name(part)} is more than {_kernel_name(whole)}, of which it is a part; neither is used"
                )
                yield part, reason
                yield whole, reason
    if memory and values.get(RESIDENT, 0.0) > memory * (1 + SLACK) + SLACK_BYTES:
        yield RESIDENT, "the resident memory of a process is more than all memory; it is not used"


def _kernel_name(metric: str) -> str:
    return metric.removeprefix("node_memory_").removesuffix("_bytes")
