"""`vmstat -s`: one number and its label per line, totals since boot and memory now.

        24684096 K total memory
          404928 K used memory
           80124 non-nice user cpu ticks
           12021 pages swapped out

Units: K is 1024 bytes (other letters with -S), ticks are 1/100 s, pages are pages.
Varies: page cache is labelled `swap cache` up to procps 3.2 and `total cache` since; ticks of guests, steal and nice
guests appear with kernel and version; labels are translated with the locale (translated ones are not read).
Source: procps vmstat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST

LINE = re.compile(r"\s*(-?\d{1,24}) (?:([kKmM]) )?([A-Za-z][A-Za-z -]{4,40})$", re.ASCII)
UNITS = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
MEMORY = {
    "total memory": "node_memory_MemTotal_bytes",
    "active memory": "node_memory_Active_bytes",
    "inactive memory": "node_memory_Inactive_bytes",
    "free memory": "node_memory_MemFree_bytes",
    "buffer memory": "node_memory_Buffers_bytes",
    "swap cache": "vmstat_cache_bytes",
    "total cache": "vmstat_cache_bytes",
    "total swap": "node_memory_SwapTotal_bytes",
    "used swap": "node_memory_SwapUsed_bytes",
    "free swap": "node_memory_SwapFree_bytes",
}
TICKS = {
    "non-nice user cpu ticks": "user",
    "nice user cpu ticks": "nice",
    "system cpu ticks": "system",
    "idle cpu ticks": "idle",
    "IO-wait cpu ticks": "iowait",
    "IRQ cpu ticks": "irq",
    "softirq cpu ticks": "softirq",
    "stolen cpu ticks": "steal",
    "non-nice guest cpu ticks": "guest",
    "nice guest cpu ticks": "guest_nice",
}
TICKS_PER_SECOND = 100
COUNTS = {
    "pages swapped in": "node_vmstat_pswpin",
    "pages swapped out": "node_vmstat_pswpout",
    "interrupts": "node_intr_total",
    "CPU context switches": "node_context_switches_total",
    "boot time": "node_boot_time_seconds",
    "forks": "node_forks_total",
}
UNUSED = {"used memory", "pages paged in", "pages paged out", "paged in", "paged out"}


def _metric(value: int, unit: str | None, label: str) -> tuple[str, float] | None:
    """The canonical name and value of a line, None if there is no name for it."""
    if label in MEMORY and unit:
        return MEMORY[label], value * UNITS[unit]
    if label in TICKS:
        return f"node_cpu_seconds_total.{TICKS[label]}", value / TICKS_PER_SECOND
    return (COUNTS[label], value) if label in COUNTS else None


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One Sample of the host."""
    odd = Oddities(source, "vmstat_stats")
    found: dict[str, float] = {}
    first: tuple[int, str] | None = None
    for number, text in lines:
        if not (line := LINE.match(text)):
            if text.strip():
                odd.note(number, text, "a line that is no counter of vmstat -s")
            continue
        first = first or (number, text)
        metric = _metric(int(line[1]), line[2], line[3].strip())
        if metric and 0 <= metric[1] <= LARGEST:
            found[metric[0]] = metric[1]
        elif metric or line[3].strip() not in UNUSED:
            odd.note(number, text, "a counter of vmstat -s with an unknown label or an impossible number: not used")
    if found and first:
        yield Sample("system", found, source.cite(*first), "vmstat_stats", time=source.time)
    yield from odd.problems()


READER = Reader(
    "vmstat_stats",
    "vmstat -s counters",
    read,
    opens=re.compile(r"\s*\d{1,24} [kKmM] (?:total|used) memory$"),
    continues=LINE.match,
)
