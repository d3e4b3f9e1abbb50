r"""/sys/kernel/debug/page_owner: who allocated each page (kernels that were started with page_owner=on).

    Page allocated via order 0, mask 0xcc0(GFP_KERNEL), pid 4711, tgid 4711 (java), ts 12 ns, free_ts 0 ns
    PFN 262144 type Unmovable Block 512 type Movable Flags 0x17ffffc0000000(node=0|zone=2)
     post_alloc_hook+0xb0/0xe0
     get_page_from_freelist+0x1a/0x40

    (an empty line)

Units: blocks are those of pagetypeinfo, 2 MiB on x86-64. A block for movable pages that holds a page of another type
cannot be emptied by compaction: no huge page is made there. Pages that are pinned for I/O are of type Movable and not
known here. Only blocks with allocated pages are counted; a dump that was cut counts the lower ones.
Varies: before 4.6 types are numbers and are not read; from 4.16 pid and time are printed. page_owner_sort leaves the
blocks out: what it prints is named. Source: kernel tree, mm/page_owner.c (print_page_owner).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

MAX_BLOCKS = 1 << 22  # of 2 MiB: 8 TiB
MAX_NAMES = 10_000  # functions that are told apart
MIN_BLOCKS = 512  # 1 GiB of movable blocks
_ALLOCATED = re.compile(r"Page allocated via order (\d{1,2}), ")
_PLACE = re.compile(
    r"PFN (?:0x[0-9a-f]{1,16}|\d{1,16}) type ([A-Z]\w{2,15}) Block (\d{1,13}) type ([A-Z]\w{2,15}) Flags "
)
_OLD_PLACE = re.compile(r"PFN \d{1,16} Block \d{1,13} type \d ")
_FRAME = re.compile(
    r"\s{0,8}(?:\[<[0-9a-f]{1,16}>\] )?([\w.]{2,100})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[[\w-]{1,60}\])?\s*$"
)
_REST = re.compile(r"(?:Page has been migrated, last migrate reason: |Slab cache page|Charged (?:\(via objcg\) )?to )")
_SORTED = re.compile(r"\d{1,12} times, \d{1,12} pages\b.{0,200}:\s*$")
_ALLOCATOR = re.compile(
    r"_{0,3}(?:(?:get_page_from_freelist|prep_new_page|post_alloc_hook|set_page_owner|save_stack|new_slab|slab_alloc|"
    r"slab_post_alloc_hook|get_free_pages?|get_zeroed_page|allocate_slab|kmem_getpages|cache_grow|cache_alloc_refill)|"
    r"(?:alloc_pages?|alloc_slab|alloc_frozen_pages?|folio_alloc|vma_alloc|kmem_cache_alloc|kmalloc|kzalloc|kvmalloc|do_kmalloc|"
    r"kmem_alloc|pagecache_get_page|filemap_alloc_folio|page_cache_alloc)\w*)(?:_noprof)?(?:\.\w+)?$"
)
_CANNOT_MOVE = ("Unmovable", "Reclaimable")


@dataclass(slots=True)
class _Blocks:
    """Blocks for movable pages, those that hold others, and the functions that allocated these."""

    movable: set[str] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    names: Counter[str] = field(default_factory=Counter)
    is_open: bool = False  # whether the stack of a page that made a block mixed is being read

    def add_page(self, kind: str, block: str, kind_of_block: str) -> None:
        self.is_open = False
        if kind_of_block == "Movable" and len(self.movable) < MAX_BLOCKS:
            self.movable.add(block)
            if kind in _CANNOT_MOVE and block not in self.mixed:
                self.mixed.add(block)
                self.is_open = True

    def add_frame(self, name: str) -> None:
        """The first function that is none of the allocator's."""
        if self.is_open and not _ALLOCATOR.match(name):
            self.names[name if name in self.names or len(self.names) < MAX_NAMES else "others"] += 1
            self.is_open = False


def _misfit(text: str) -> str:
    """What is wrong with a line that is neither the place of a page nor a frame."""
    if _SORTED.match(text):
        return "sums of page_owner_sort, which leaves the blocks out: send page_owner itself"
    if _OLD_PLACE.match(text):
        return "a page of an old kernel, which prints types as numbers: not used"
    fits = not text.strip() or _ALLOCATED.match(text) or _REST.match(text)
    return "" if fits else "not a line of page_owner"


@with_errors("page_owner")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Fact: the share of blocks for movable pages that hold others, and who allocated most of these."""
    blocks = _Blocks()
    first: Citation | None = None
    for line, text in lines:
        if place := _PLACE.match(text):
            first = first or source.cite(line, text)
            blocks.add_page(*place.groups())
        elif frame := _FRAME.match(text):
            blocks.add_frame(frame[1])
        elif reason := _misfit(text):
            odd.note(line, text, reason)
    if first and (count := len(blocks.movable)) >= MIN_BLOCKS:
        by = tuple(("by", name) for name, _ in blocks.names.most_common(1))
        yield Fact("memory.mixed_blocks_ratio", len(blocks.mixed) / count, first, by, source.time)
    elif first:
        odd.note(first.line or 0, first.text, "fewer than 512 blocks for movable pages: no evidence about the host")


PARSER = Parser(
    "page_owner", "page_owner (debugfs)", read, opens=re.compile(f"{_ALLOCATED.pattern}|{_SORTED.pattern}"),
    continues=any_of(_ALLOCATED, _PLACE, _OLD_PLACE, _FRAME, _REST, _SORTED, blank=True),
    confirm=lambda lines: not _SORTED.match(lines[0]) or any(map(_ALLOCATED.match, lines[1:2])),
)  # fmt: skip
