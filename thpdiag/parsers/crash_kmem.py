"""Output of crash kmem -i, kmem -f and kmem -V: memory, free blocks and counters of a kernel dump.

                     PAGES        TOTAL      PERCENTAGE
        TOTAL MEM  1974231       7.5 GB         ----
             FREE   208962     816.3 MB   10% of TOTAL MEM

    ZONE  NAME        SIZE    FREE      MEM_MAP       START_PADDR  START_MAPNR
      2   Normal   2097152   30085  ffffea0004000000   100000000      1048576
    AREA    SIZE  FREE_AREA_STRUCT  BLOCKS  PAGES
      0       4k  ffff88043ffd9078     210    210
      0       4k  ffff88043ffd9088       3      3

      VM_EVENT_STATES:
                    COMPACTSTALL: 4711

Units: pages, whose size is TOTAL divided by PAGES; blocks of 2^AREA pages. An area has one row per free list; its rows
are summed. TOTAL HUGE is the memory reserved for huge pages of all sizes, like Hugetlb of /proc/meminfo. A zone is used
if its rows add up to its FREE pages. CACHED of kmem -i includes shared memory and is not used.
kmem -V prints the kernel's names: NR_X is nr_x of /proc/vmstat, COMPACTSTALL compact_stall.
The numbers are those at the time of the dump. kmem -F lists each page and is not read. Source: crash 7.3 to 9.0
memory.c (dump_kmeminfo, dump_free_pages_zones_v2, dump_zone_free_area, dump_vm_stat, dump_vm_event_state).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import MAX_QUANTITY, parse_count, parse_quantity

READER = "crash_kmem"
SUMS_HEAD = re.compile(r"\s{0,40}PAGES\s+TOTAL\s+PERCENTAGE\s*$")
SUM = re.compile(
    r"\s{0,8}(TOTAL (?:MEM|HIGH|LOW|HUGE|SWAP)|FREE(?: HIGH| LOW)?|HUGE FREE|SWAP (?:USED|FREE)|COMMIT LIMIT|COMMITTED|"
    r"USED|SHARED|BUFFERS|CACHED|SLAB)\s+(\d{1,15})\s+(\d{1,9}(?:\.\d)? [KMG]B|0)\s+"
    r"(?:----|\d{1,6}% of TOTAL \w{3,5})\s*$"
)
NODE = re.compile(r"NODE\s*$|\s{0,4}(\d{1,4})\s*$")
ZONE_HEAD = re.compile(r"ZONE\s+NAME\s+SIZE\s+FREE\s")
ZONE = re.compile(
    r"\s{0,4}\d{1,3}\s+(\w{1,12})\s+(\d{1,15})\s+(\d{1,15})\s+[0-9a-f]{1,16}\s+[0-9a-f]{1,16}\s+\d{1,15}\s*$"
)
AREA_HEAD = re.compile(r"AREA\s+SIZE\s+FREE_AREA_STRUCT\s+BLOCKS\s+PAGES\s*$")
AREA = re.compile(r"\s{0,4}(\d{1,2})\s+\d{1,9}k\s+[0-9a-f]{6,16}\s+(\d{1,12})\s+(\d{1,15})\s*$")
RULE = re.compile(r"-{40,90}\s*$|nr_free_pages: \d{1,15}  \((?:verified|found \d{1,15})\)\s*$")
COUNTERS_HEAD = re.compile(r"\s{0,4}VM_(?:(?:ZONE_|NODE_|NUMA_)?STAT|EVENT_STATES):\s*$")
COUNTER = re.compile(r"\s{0,60}([A-Z][A-Z0-9_]{3,60}): (\S{1,24})\s*$")
SIZES = {
    "TOTAL MEM": "MemTotal", "FREE": "MemFree", "BUFFERS": "Buffers", "SLAB": "Slab", "TOTAL SWAP": "SwapTotal",
    "SWAP FREE": "SwapFree", "COMMIT LIMIT": "CommitLimit", "COMMITTED": "Committed_AS", "TOTAL HUGE": "Hugetlb",
}  # fmt: skip
NAMES = {
    "nr_anon_mapped": "nr_anon_pages", "nr_anon_thps": "nr_anon_transparent_hugepages", "nr_file_mapped": "nr_mapped",
    "nr_file_dirty": "nr_dirty", "numa_page_migrate": "numa_pages_migrated", "compactblocks": "compact_blocks_moved",
    "compactpages": "compact_pages_moved", "compactpagefailed": "compact_pagemigrate_failed",
}  # fmt: skip
PAGE_SIZES = (4096, 16384, 65536)
HUGE_ORDER = 9


def counter_name(name: str) -> str:
    """Return the name in /proc/vmstat of an item that the kernel source names in capitals.

    >>> counter_name("KCOMPACTD_WAKE"), counter_name("COMPACTSTALL"), counter_name("THP_FAULT_ALLOC")
    ('compact_daemon_wake', 'compact_stall', 'thp_fault_alloc')
    """
    lower = name.lower()
    if lower in NAMES:
        return NAMES[lower]
    return re.sub(r"^compact(?=[a-z])", "compact_", re.sub(r"^kcompactd_", "compact_daemon_", lower))


@dataclass(slots=True)
class _Dump:
    """State of the parser: the current node and zone, and the rows not yet turned into records."""

    source: Source
    errors: ParseErrors
    page_size: float = 0.0
    sizes: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)  # first line of the sizes and of the counters
    node: str = "0"
    zone: tuple[str, int, int, str] | None = None  # name, free pages, line number, line
    blocks: dict[int, int] = field(default_factory=dict)
    pages: int = 0

    def add_sum(self, match: re.Match[str], line: int, text: str) -> None:
        pages, size = float(match[2]), parse_quantity(match[3].replace(" ", ""))
        if match[1] == "TOTAL MEM" and size and pages:
            ratio = size.value / pages
            self.page_size = float(next((size for size in PAGE_SIZES if abs(ratio / size - 1) < 0.1), 0))
        if match[1] in SIZES and self.page_size and pages * self.page_size <= MAX_QUANTITY:
            self.first.setdefault("sizes", (line, text))
            self.sizes[f"node_memory_{SIZES[match[1]]}_bytes"] = pages * self.page_size

    def add_counter(self, match: re.Match[str], line: int, text: str) -> None:
        if (value := parse_count(match[2])) is not None:
            self.first.setdefault("counters", (line, text))
            self.counters.setdefault(f"node_vmstat_{counter_name(match[1])}", float(value))
        elif not match[2].startswith("-"):  # sums over CPUs may be a little below zero
            self.errors.note(line, text, "not a count of kmem -V: not used")

    def begin_zone(self, match: re.Match[str], line: int, text: str) -> Iterator[Sample]:
        yield from self.end_zone()
        if int(match[2]):
            self.zone = match[1], int(match[3]), line, text

    def add_area(self, match: re.Match[str]) -> None:
        order = int(match[1])
        self.blocks[order] = self.blocks.get(order, 0) + int(match[2])
        self.pages += int(match[3])

    def end_zone(self) -> Iterator[Sample]:
        """Yield the sample of a complete zone. Rows may not add up, as pages of a live kernel move between lists."""
        if self.zone is not None:
            name, free, line, text = self.zone
            orders = sorted(self.blocks)
            if (
                orders == list(range(len(orders)))
                and len(orders) > HUGE_ORDER
                and abs(self.pages - free) <= 0.02 * free
            ):
                values = {f"node_buddyinfo_blocks_order{order}": float(self.blocks[order]) for order in orders}
                entity = (("node", self.node), ("zone", name))
                yield Sample("zone", values, self.source.cite(line, text), READER, entity, self.source.time)
            elif free:
                self.errors.note(line, text, "a zone whose rows do not make up its free pages: not used")
        self.zone, self.pages = None, 0
        self.blocks.clear()

    def finish(self) -> Iterator[Sample]:
        yield from self.end_zone()
        for kind, values in (("sizes", self.sizes), ("counters", self.counters)):
            if values:
                yield Sample("system", values, self.source.cite(*self.first[kind]), READER, (), self.source.time)


@with_errors(READER)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of zones, then of the host."""
    dump = _Dump(source, errors)
    for line, text in lines:
        if match := AREA.match(text):
            dump.add_area(match)
        elif match := ZONE.match(text):
            yield from dump.begin_zone(match, line, text)
        elif match := SUM.match(text):
            dump.add_sum(match, line, text)
        elif match := COUNTER.match(text):
            dump.add_counter(match, line, text)
        elif match := NODE.match(text):
            yield from dump.end_zone()
            dump.node = match[1] or dump.node
        elif text.strip() and not _is_heading(text):
            errors.note(line, text, "not a line of crash kmem -i, -f or -V")
    yield from dump.finish()


_is_heading = any_of(SUMS_HEAD, ZONE_HEAD, AREA_HEAD, RULE, COUNTERS_HEAD)

PARSER = Parser(
    READER, "crash kmem", read,
    opens=re.compile(f"{SUMS_HEAD.pattern}|{ZONE_HEAD.pattern}|NODE\\s*$|{COUNTERS_HEAD.pattern}"),
    confirm=lambda lines: not lines[0].startswith("NODE") or any(map(ZONE_HEAD.match, lines)),
    continues=any_of(SUM, ZONE, AREA, NODE, COUNTER, SUMS_HEAD, ZONE_HEAD, AREA_HEAD, RULE, COUNTERS_HEAD, blank=True),
)  # fmt: skip
