r"""Memory zones in /proc and debugfs: buddyinfo, pagetypeinfo, zoneinfo, extfrag_index, unusable_index, page_owner.

/proc/buddyinfo: the number of free blocks of each order, by zone.

    Node 0, zone   Normal   1207    600    811    713    515    456    276    105     69     44    138
    Node 1, zone   Normal      0     22      8     10      1      1      2     11     13      0      0

Units: blocks of 2^order pages, order 0 first. Eleven columns on most kernels; other page sizes and configurations have
fewer or more. Rows shorter than the longest of the block are truncated and are left out, because their last number may
be truncated too. drgn-tools (corelens buddyinfo) prints rows of a dump without `, zone`. Source: kernel tree,
mm/vmstat.c; drgn-tools buddyinfo.py.

/proc/pagetypeinfo: free blocks by zone, migrate type and order, and the number of page blocks of each type.

    Node    0, zone   Normal, type      Movable    597    178    646    575 ...
    Node 0, zone   Normal           48          484           44            0            0

Units: blocks of 2^order pages in the first table, page blocks (2 MiB on x86-64) in the second. Migrate types differ:
RHEL 6 and 7 have Reserve, later kernels HighAtomic, CMA and Isolate. Since 5.5 counts stop at `>100000`, which is read
as 100000. Since 4.15 readable by root only. With page_owner there is a third table of mixed blocks, which contain a
page of another type than their own.
Source: kernel tree, mm/vmstat.c.

/proc/zoneinfo: watermarks, sizes and page counts of every zone.

    Node 0, zone   Normal
      pages free     246795
            min      4649

Units: pages. Names follow node_exporter: `min` becomes node_zoneinfo_min_pages, `nr_free_pages`
node_zoneinfo_nr_free_pages (from the `pages free` line if a kernel does not print that row), numa_*
node_zoneinfo_numa_*_total. The per-node statistics (4.8 and later, in the first zone of a node) and the per-CPU page
sets are not read, because /proc/vmstat has their sums. `boost` exists from 5.0, `managed` from 3.8, `scanned` until
4.7. Source: kernel tree, mm/vmstat.c.

/sys/kernel/debug/extfrag/unusable_index and extfrag_index: fragmentation by zone and order.

    Node 0, zone   Normal 0.000 0.010 0.021 0.040 0.077 0.120 0.200 0.350 0.500 0.991 1.000
    Node 0, zone   Normal -1.000 -1.000 -1.000 -1.000 -1.000 -1.000 -1.000 -1.000 0.931 0.965 0.983

Units: ratios with three decimals, one column per order. unusable_index: the share of free memory in blocks that are too
small. extfrag_index: the reason why an allocation would fail, towards 0 lack of memory, towards 1 fragmentation; -1 if
a block is free. If neither path nor command names the file, a negative value identifies extfrag_index. Order 9 is read
if there are 11 columns, as with pages of 4 KiB and huge pages of 2 MiB. Source: kernel tree, mm/vmstat.c
(extfrag_show).

/sys/kernel/debug/page_owner: the allocation stack of each page (kernels booted with page_owner=on).

    Page allocated via order 0, mask 0xcc0(GFP_KERNEL), pid 4711, tgid 4711 (java), ts 12 ns, free_ts 0 ns
    PFN 262144 type Unmovable Block 512 type Movable Flags 0x17ffffc0000000(node=0|zone=2)
     post_alloc_hook+0xb0/0xe0
     get_page_from_freelist+0x1a/0x40

    (an empty line)

Units: blocks are those of pagetypeinfo, 2 MiB on x86-64. Compaction cannot empty a block for movable pages that
contains a page of another type, so it cannot become a huge page. Pages that are pinned for I/O have the type Movable
and cannot be detected here. Only blocks with allocated pages are counted; a truncated dump covers the lower blocks.
Varies: before 4.6 types are numbers and are not read; from 4.16 pid and time are printed. page_owner_sort omits the
blocks; its output gives a problem. Source: kernel tree, mm/page_owner.c (print_page_owner).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Entity, Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, ValueRows, any_of, count_of, counts_of, matches, snapshots, with_errors

_GREP = r"\s*(?:\S{0,200}proc/buddyinfo:)?"
_IN_ZONE = r"(?:,\s+zone|(?=\s+(?:DMA|DMA32|Normal|HighMem|Movable|Device)\s))"
_BUDDYINFO_OPENS = re.compile(rf"{_GREP}Node\s+\d+{_IN_ZONE}\s+\w+(?:\s+\d+){{4}}")
_LINE = re.compile(rf"{_GREP}Node\s+(\d+){_IN_ZONE}\s+(\w+)((?:\s+[^\s,]+)*)\s*$")
_BUDDYINFO_CONTINUES = re.compile(rf"{_GREP}Node\s+\d+{_IN_ZONE}\s+\w+(?:\s+[^\s,]+)+\s*$")
MIN_ORDERS, MAX_ORDERS = 9, 20  # s390x and ppc64 have 9, ia64 17
MIN_ORDERS_OF_DRGN = 11  # on x86-64 and aarch64; its rows are long and often wrapped


@snapshots("buddyinfo")
def parse_buddyinfo(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per zone and snapshot."""
    orders = MIN_ORDERS
    for number, line, match in matches(lines, _LINE, errors, "not a row of a zone"):
        columns = match[3].split()
        orders = max(orders, min(len(columns), MAX_ORDERS), 0 if "," in line else MIN_ORDERS_OF_DRGN)
        if not MIN_ORDERS <= len(columns) <= MAX_ORDERS or len(columns) < orders:
            errors.note(number, line, "the row has too few or too many orders, it may be cut; it is left out")
            continue
        names = (f"node_buddyinfo_blocks_order{order}" for order in range(len(columns)))
        if values := counts_of(number, line, names, columns, errors):
            yield Sample("zone", values, source.cite(number, line), BUDDYINFO.name, _zone(match))


def _zone(row: re.Match[str]) -> Entity:
    return (("node", row[1]), ("zone", row[2]))


BUDDYINFO = Parser(
    "buddyinfo", "/proc/buddyinfo", parse_buddyinfo, opens=_BUDDYINFO_OPENS, continues=_BUDDYINFO_CONTINUES.match
)


_PAGETYPEINFO_OPENS = re.compile(r"\s*(?:Page block order:\s+\d+|Node\s+\d+, zone\s+\w+, type\s+\w+\s)")
_PAGETYPEINFO_HEAD = re.compile(r"\s*(?:Page block order:|Pages per block:|Free pages count per migrate type)")
_FREE = re.compile(r"\s*Node\s+(\d+), zone\s+(\w+), type\s+(\w+)((?:\s+\S+)*)\s*$")
_TYPES = re.compile(r"\s*Number of (blocks|mixed blocks) type((?:\s+\w+)+)\s*$")
_BLOCKS = re.compile(r"\s*Node\s+(\d+), zone\s+(\w+)((?:\s+[^\s,]+)*)\s*$")
# At most 8 migrate types; rows of /proc/buddyinfo have the same form but more columns.
_PAGETYPEINFO_CONTINUES = re.compile(
    r"\s*(?:Page block order|Pages per block|Free pages count|Number of (?:mixed )?blocks type|"
    r"Node\s+\d+, zone\s+\w+(?:, type\s|(?:\s+\d+){3,8}\s*$)|$)"
)


@snapshots("pagetypeinfo")
def parse_pagetypeinfo(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per zone and snapshot."""
    zones, orders, heading = ValueRows(source, PAGETYPEINFO.name, "zone"), 0, None
    for number, line in lines:
        if free := _FREE.match(line):
            columns = free[4].split()
            orders = max(orders, len(columns))
            names = [f"node_pagetypeinfo_free_{free[3]}_order{order}" for order in range(len(columns))]
            if names and zones.has(_zone(free), names[0]):
                yield from zones.finish()
                heading = None
            if names and len(columns) == orders:
                _add(zones, free, names, columns, number, errors)
            else:
                errors.note(number, line, "the row is shorter than the rows above; it is left out")
        elif types := _TYPES.match(line):
            heading = types
        elif blocks := _BLOCKS.match(line):
            _add_page_blocks(zones, blocks, heading, number, errors)
        elif line.strip() and not _PAGETYPEINFO_HEAD.match(line):
            errors.note(number, line, "not a row of this table")
    yield from zones.finish()


def _add_page_blocks(
    zones: ValueRows, row: re.Match[str], heading: re.Match[str] | None, number: int, errors: ParseErrors
) -> None:
    """Add a row of the second or third table, which needs its heading."""
    columns, types = row[3].split(), heading[2].split() if heading else []
    if types and heading and len(columns) == len(types):
        kind = heading[1].replace(" ", "_")
        _add(zones, row, [f"node_pagetypeinfo_{kind}_{name}" for name in types], columns, number, errors)
    else:
        errors.note(number, row.string, "the row does not fit a heading that names its columns; it is left out")


def _add(
    zones: ValueRows, row: re.Match[str], names: list[str], columns: list[str], number: int, errors: ParseErrors
) -> None:
    counts = counts_of(number, row.string, names, [text.removeprefix(">") for text in columns], errors)
    zones.update(_zone(row), counts, number, row.string)


PAGETYPEINFO = Parser(
    "pagetypeinfo", "/proc/pagetypeinfo", parse_pagetypeinfo, opens=_PAGETYPEINFO_OPENS,
    continues=_PAGETYPEINFO_CONTINUES.match, priority=1,  # takes precedence over buddyinfo
)  # fmt: skip


_ZONEINFO_HEAD = re.compile(r"\s*Node (\d+), +zone +(\w+)\s*$")
_ROW = re.compile(r"\s*(?:(pages) +)?([a-z]\w*):? +(\S+)\s*$")
_ZONEINFO_CONTINUES = re.compile(
    r"\s*Node \d+, +zone +\w+\s*$|\s+(?:(?:pages free|vm stats threshold|[a-z][a-z_]{0,60})\b:? +[-+\w.]+|"
    r"protection: \(.*|pagesets|per-node stats|per-cpu.*|[a-z_]+)\s*$"
)
_SIZES = frozenset({"boost", "min", "low", "high", "promo", "scanned", "spanned", "present", "managed", "cma"})
_PER_CPU = re.compile(r"\s*(?:pagesets|cpu: \d)")
_PER_NODE = re.compile(r"\s*per-node stats\s*$")
_FIRST_BARE_ROW = re.compile(r"(?:pages +free +\d+|per-node stats)\s*$")
# Without indentation, rows look like those of /proc/vmstat, which may follow but does not begin with these names.
_BARE_CONTINUES = re.compile(
    r"Node \d+, +zone +\w+\s*$|(?:pages free|vm stats threshold|(?:nr|numa|workingset)_\w+|"
    r"pg(?:demote|promote|steal|scan|refill)\w*|boost|min|low|high(?:_min|_max)?|promo|scanned|spanned|present|managed|cma|count|batch|cpu|start_pfn|prev_priority|"
    r"inactive_ratio|(?:node|all)_unreclaimable)\b:? +[-+\w.]+\s*$|protection: \(.*|pagesets\s*$|per-node stats\s*$"
)


@snapshots("zoneinfo")
def parse_zoneinfo(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per zone and snapshot."""
    zone: Sample | None = None
    values: dict[str, float] = {}
    is_reading = True  # False in parts that are skipped
    for number, line in lines:
        if head := _ZONEINFO_HEAD.match(line):
            if zone and values:
                yield zone
            values, is_reading = {}, True
            zone = Sample("zone", values, source.cite(number, line), ZONEINFO.name, _zone(head))
        elif zone and not (is_reading and _is_vmstat_line(values, line)):
            is_reading = _parse_row(values, number, line, errors, is_reading=is_reading)
        elif zone:
            is_reading = False
        elif line.strip():
            errors.note(number, line, "a row above the first zone")
    if zone and values:
        yield zone


def _is_vmstat_line(values: dict[str, float], line: str) -> bool:
    """Return whether /proc/vmstat begins here: a row without indentation whose name the zone already has."""
    row = _ROW.match(line)
    if row is None or row[1] or line[:1].isspace() or (name := _metric_name(row)) not in values:
        return False
    return name != "node_zoneinfo_nr_free_pages" or (len(values) > 1 and f"{values[name]:.0f}" != row[3])


def _parse_row(values: dict[str, float], number: int, line: str, errors: ParseErrors, *, is_reading: bool) -> bool:
    """Add a row; return False if a part begins or continues that is skipped: per-node statistics, per-CPU page sets."""
    if _PER_NODE.match(line) or _PER_CPU.match(line):
        return False
    row = _ROW.match(line)
    if row is None:
        if line.strip() and not _ZONEINFO_CONTINUES.match(line):
            errors.note(number, line, "not a row of a zone")
        return is_reading
    is_reading = is_reading or bool(row[1])
    if is_reading and (name := _metric_name(row)) and (value := count_of(number, line, row[3], errors)) is not None:
        values[name] = value
    return is_reading


def _metric_name(row: re.Match[str]) -> str | None:
    """Return the metric of a row; None for rows that are not read."""
    name = row[2]
    if row[1]:
        return "node_zoneinfo_nr_free_pages" if name == "free" else None
    if name in _SIZES:
        return f"node_zoneinfo_{name}_pages"
    if name.startswith("nr_"):
        return f"node_zoneinfo_{name}"
    return f"node_zoneinfo_{name}_total" if name.startswith("numa_") else None


ZONEINFO = Parser(
    "zoneinfo", "/proc/zoneinfo", parse_zoneinfo, opens=_ZONEINFO_HEAD, continues=_ZONEINFO_CONTINUES.match
)
BARE_ZONEINFO = Parser(
    "zoneinfo", "/proc/zoneinfo without its indentation", parse_zoneinfo, opens=_ZONEINFO_HEAD,
    continues=_BARE_CONTINUES.match, confirm=lambda lines: len(lines) > 1 and _FIRST_BARE_ROW.match(lines[1]),
    priority=1,  # takes precedence over the indented form
)  # fmt: skip


_INDEX = re.compile(
    r"\s*(?:\S{0,200}extfrag/(?P<file>\w{5,20}):)?Node\s+(?P<node>\d+),\s+zone\s+(?P<zone>\w+)"
    r"(?P<row>(?:\s+-?\d\.\d{3})+)\s*$"
)
_INDEX_FILE = re.compile(r"(?:extfrag|unusable)_index")
_ZONES = ("DMA", "DMA32", "Normal", "HighMem", "Movable", "Device")  # as the kernel prints them
_ORDERS_OF_4K, _THP_ORDER = 11, 9


@snapshots("extfrag")
def parse_extfrag(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield a fact for each zone, for the order of a huge page. A command may print both files in succession."""
    files: list[list[tuple[int, str, re.Match[str]]]] = []
    last = (0, "", 0)
    for number, line, match in matches(lines, _INDEX, errors, "not a row of a zone"):
        zone_rank = _ZONES.index(match["zone"]) if match["zone"] in _ZONES else len(_ZONES)
        rank = len(match["node"]), match["node"], zone_rank
        if not files or rank <= last:
            files.append([])
        files[-1].append((number, line, match))
        last = rank
    names = _INDEX_FILE.findall(source.command)[-len(files) :]
    for index, rows in enumerate(files):
        values = {number: [float(text) for text in match["row"].split()] for number, _, match in rows}
        has_negative = any(value < 0 for row in values.values() for value in row)
        for number, line, match in rows:
            file = match["file"] or (
                names[index] if len(names) == len(files) > 1 else f"{source.path} {source.command}"
            )
            is_unusable = not has_negative and ("unusable" in file or "extfrag_index" not in file)
            if len(row := values[number]) != _ORDERS_OF_4K:
                errors.note(number, line, "the row is cut, or of a kernel whose pages are not of 4 KiB")
                continue
            labels = (("node", match["node"]), ("zone", match["zone"]))
            name = "memory.unusable_index" if is_unusable else "memory.extfrag_index"
            yield Fact(name, row[_THP_ORDER], source.cite(number, line), labels)


EXTFRAG = Parser(
    "extfrag", "extfrag_index, unusable_index (debugfs)", parse_extfrag, opens=_INDEX, continues=_INDEX.match
)


MAX_BLOCKS = 1 << 22  # 8 TiB in blocks of 2 MiB
MAX_NAMES = 10_000  # functions counted separately
MIN_BLOCKS = 512  # movable blocks needed for a ratio: 1 GiB
_ALLOCATED = re.compile(r"Page allocated via order (\d{1,2}), ")
_PAGE_PLACE = re.compile(
    r"PFN (?:0x[0-9a-f]{1,16}|\d{1,16}) type ([A-Z]\w{2,15}) Block (\d{1,13}) type ([A-Z]\w{2,15}) Flags "
)
_OLD_PLACE = re.compile(r"PFN \d{1,16} Block \d{1,13} type \d ")
_FRAME = re.compile(
    r"\s{0,8}(?:\[<[0-9a-f]{1,16}>\] )?([\w.]{2,100})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[[\w-]{1,60}\])?\s*$"
)
_OTHER_LINE = re.compile(
    r"(?:Page has been migrated, last migrate reason: |Slab cache page|Charged (?:\(via objcg\) )?to )"
)
_PAGE_OWNER_SORT = re.compile(r"\d{1,12} times, \d{1,12} pages\b.{0,200}:\s*$")
_ALLOCATOR = re.compile(
    r"_{0,3}(?:(?:get_page_from_freelist|prep_new_page|post_alloc_hook|set_page_owner|save_stack|new_slab|slab_alloc|"
    r"slab_post_alloc_hook|get_free_pages?|get_zeroed_page|allocate_slab|kmem_getpages|cache_grow|cache_alloc_refill)|"
    r"(?:alloc_pages?|alloc_slab|alloc_frozen_pages?|folio_alloc|vma_alloc|kmem_cache_alloc|kmalloc|kzalloc|kvmalloc|do_kmalloc|"
    r"kmem_alloc|pagecache_get_page|filemap_alloc_folio|page_cache_alloc)\w*)(?:_noprof)?(?:\.\w+)?$"
)
_CANNOT_MOVE = ("Unmovable", "Reclaimable")


@dataclass(slots=True)
class _MixedBlocks:
    """Blocks for movable pages, those with pages of other types, and the functions that allocated these pages."""

    movable: set[str] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    names: Counter[str] = field(default_factory=Counter)
    is_open: bool = False  # whether the following stack belongs to the page that made a block mixed

    def add_page(self, kind: str, block: str, block_kind: str) -> None:
        self.is_open = False
        if block_kind == "Movable" and len(self.movable) < MAX_BLOCKS:
            self.movable.add(block)
            if kind in _CANNOT_MOVE and block not in self.mixed:
                self.mixed.add(block)
                self.is_open = True

    def add_frame(self, name: str) -> None:
        """Count the first function of a stack that is not part of the allocator."""
        if self.is_open and not _ALLOCATOR.match(name):
            self.names[name if name in self.names or len(self.names) < MAX_NAMES else "others"] += 1
            self.is_open = False


def _error(text: str) -> str:
    """Return what is wrong with a line that is neither the position of a page nor a frame, or ""."""
    if _PAGE_OWNER_SORT.match(text):
        return "sums of page_owner_sort, which leaves the blocks out: send page_owner itself"
    if _OLD_PLACE.match(text):
        return "a page of an old kernel, which prints types as numbers: not used"
    is_known = not text.strip() or _ALLOCATED.match(text) or _OTHER_LINE.match(text)
    return "" if is_known else "not a line of page_owner"


@with_errors("page_owner")
def parse_page_owner(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield the share of movable blocks with pages of other types, and the function that allocated most of these."""
    blocks = _MixedBlocks()
    first: Citation | None = None
    for line, text in lines:
        if place := _PAGE_PLACE.match(text):
            first = first or source.cite(line, text)
            blocks.add_page(*place.groups())
        elif frame := _FRAME.match(text):
            blocks.add_frame(frame[1])
        elif reason := _error(text):
            errors.note(line, text, reason)
    if first and (count := len(blocks.movable)) >= MIN_BLOCKS:
        labels = tuple(("by", name) for name, _ in blocks.names.most_common(1))
        yield Fact("memory.mixed_blocks_ratio", len(blocks.mixed) / count, first, labels, source.time)
    elif first:
        errors.note(first.line or 0, first.text, "fewer than 512 blocks for movable pages: no evidence about the host")


PAGE_OWNER = Parser(
    "page_owner", "page_owner (debugfs)", parse_page_owner,
    opens=re.compile(f"{_ALLOCATED.pattern}|{_PAGE_OWNER_SORT.pattern}"),
    continues=any_of(_ALLOCATED, _PAGE_PLACE, _OLD_PLACE, _FRAME, _OTHER_LINE, _PAGE_OWNER_SORT, blank=True),
    confirm=lambda lines: not _PAGE_OWNER_SORT.match(lines[0]) or any(map(_ALLOCATED.match, lines[1:2])),
)  # fmt: skip
