r"""Mappings of one process, summed here: numa_maps, pmap, thpmaps.

/proc/PID/numa_maps: pages of each mapping by NUMA node.

    7f3c2a000000 default anon=512 dirty=512 active=0 N0=500 N1=12 kernelpagesize_kB=4
    7f3c40000000 bind:0 file=/anon_hugepage\040(deleted) huge dirty=4 N0=4 kernelpagesize_kB=2048

Units: pages of kernelpagesize_kB (from 3.13; older files are not read). `huge` is hugetlbfs; transparent huge pages are
counted as 512 small ones and cannot be told from them. The sums are those of numastat -p, which reads this file;
without hugetlbfs they are the resident memory. No sums are made of a list without its `stack`, which is cut or a choice
of lines, nor of one with broken lines. Source: kernel tree, fs/proc/task_mmu.c (show_numa_map).

pmap -x, -X, -XX: sizes of each mapping in KiB, and their sums in the last line.

    4711:   /opt/jdk/bin/java -Xmx1g
             Address Perm   Offset Device  Inode   Size    Rss ... AnonHugePages ...   VmFlags Mapping
        55874359f000 rw-p 00000000  00:00      0 131072 131072 ...        131072 ... rd wr mr  [heap]
                                                 ====== ====== ... ============= ...
                                                 135204 133080 ...        131072 ... KB

Units: KiB; the names of -XX are those of smaps, -X leaves AnonHugePages and VmFlags out. The sums are taken from the
last line; `hg` among VmFlags is memory that asked for huge pages. Plain pmap has no resident memory and is not read.
Source: procps pmap.c, 3.3.17 to 4.0.4.

thpmaps (kernel tree, tools/mm, 6.9): transparent huge pages of each mapping by size.

           PID             START              END PROT   OFFSET   DEV    INODE OBJECT
    0000004711: 00007f3c2a000000-00007f3c2e000000 rw-p 00000000 00:00 00000000
    anon-thp-pmd-aligned-2048kB:       65536 kB (100%)

Units: KiB. `thp-pmd` of anonymous memory is AnonHugePages of smaps; smaller sizes (`thp-pte`) are no such pages. With
--rollup only sums are printed, which are those of a process if the command names one with --pid. What is 0 is not
printed: without a line, a process has none. Source: tools/mm/thpmaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of
from thpdiag.parsers._snapshots import snapshots
from thpdiag.parsers._units import MAX_QUANTITY, parse_count
from thpdiag.parsers.procfs.process import ASKED_HUGE, PAGE, SUMMED

KIB = 1024.0
_GREP = r"(?:\S{0,200}proc/(\w+)/(?:task/\w+/)?numa_maps:)?"
_POLICY = (
    r"(?:default|local|prefer(?:red)?(?: \(many\))?|bind|(?:weighted )?interleave)(?:[=|][a-z|]+)?(?::[-\d,]*)?(?=\s|$)"
)
_NUMA_MAPS = re.compile(rf"{_GREP}([0-9a-f]{{8,16}}) {_POLICY}(.*)$")
_OF_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?numa_maps$")
_PAGES = re.compile(r" N\d{1,4}=(\S+)")
_SIZE = re.compile(r" kernelpagesize_kB=(\d{1,9})\s*$")
_COUNTED = re.compile(r" (?:anon|dirty|mapped|N\d{1,4})=|=\d*$")
_REMAINS = re.compile(
    r"\s*(?:(?:anon|dirty|map(?:ped|max)|swapcache|active|writeback|N\d{1,4}|kernelpagesize_kB)=\d+\s*)+$"
)
_ANON = re.compile(r" anon=(\d{1,18}) ")
_CHOICE = re.compile(r"\b(?:tail|[ef]?grep|sed|awk)\b")  # of lines, by a command
_KIND = re.compile(r" (huge|heap|stack)(?= |$)")
NOT_WHOLE = "a part of a list of mappings (its stack is not there, or lines are broken): no sums are made of it"


def _numa_maps_confirm(lines: list[str]) -> bool:
    return any(_PAGES.search(line) for line in lines if _NUMA_MAPS.match(line))


@dataclass(slots=True)
class _Mappings:
    """A process whose mappings are being summed."""

    pid: str
    cite: Citation
    address: int = -1
    is_whole: bool = False
    is_damaged: bool = False
    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, size: float) -> None:
        self.values[name] = self.values.get(name, 0.0) + size

    def sample(self, reader: str, comm: str = "") -> Iterator[Sample]:
        """Nothing where a sum is more than memory can be."""
        if self.values and max(self.values.values()) <= MAX_QUANTITY:
            yield Sample("process", self.values, self.cite, reader, process_entity(self.pid, comm))


@snapshots("numa_maps")
def parse_numa_maps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample per process and snapshot."""
    named = path[1] if (path := _OF_PATH.search(source.path)) else "?"
    process: _Mappings | None = None
    for number, line in lines:
        if (found := _NUMA_MAPS.match(line)) is None:
            if process:
                process.is_damaged = True
            odd.note(number, line, "a broken line of numa_maps")
            continue
        pid, address = found[1] or named, int(found[2], 16)
        if process is None or pid != process.pid or address <= process.address:
            yield from _whole(process, odd)
            process = _Mappings(pid, source.cite(number, line), is_damaged=bool(_CHOICE.search(source.command)))
        process.address = address
        process.is_damaged |= not _mapping(process, found[3])
    yield from _whole(process, odd)


def _whole(process: _Mappings | None, odd: ParseErrors) -> Iterator[Sample]:
    if process is not None and process.is_whole and not process.is_damaged:
        yield from process.sample("numa_maps")
    elif process is not None:
        odd.note(process.cite.line or 0, process.cite.text, NOT_WHOLE)


def _mapping(process: _Mappings, text: str) -> bool:
    """Whether a mapping is whole: the size of its pages stands at the end, but for one without pages."""
    kind = found[1] if (found := _KIND.search(text)) else "private"
    process.is_whole |= kind == "stack"
    if not _COUNTED.search(text):
        return "kernelpagesize" not in text
    counts, size = [parse_count(count) for count in _PAGES.findall(text)], _SIZE.search(text)
    page = int(size[1]) * KIB if size else 0.0
    if page < PAGE or int(page).bit_count() != 1 or None in counts:
        return False
    held = sum(count for count in counts if count is not None) * page
    for name in (kind, "total"):
        process.add(f"process_numa_{name}_bytes", held)
    if kind != "huge":
        process.add(SUMMED["Rss"], held)
        process.add("process_rss_anon_bytes", int(anon[1]) * page if (anon := _ANON.search(text)) else 0.0)
    return True


NUMA_MAPS = Parser(
    "numa_maps", "/proc/PID/numa_maps", parse_numa_maps, opens=_NUMA_MAPS, continues=any_of(_NUMA_MAPS, _REMAINS),
    confirm=_numa_maps_confirm,
)  # fmt: skip


_PROCESS = re.compile(r"(\d{1,10}):\s{1,4}(\S.*)$")
_PMAP_HEAD = re.compile(r"\s*Address\s+(?:Perm\s+Offset\s+Device\s+Inode\s+(Size\s.*)|Kbytes\s+(RSS\s.*))Mapping\s*$")
_ROW = re.compile(r"\s*[0-9a-f]{6,16}\s+(?:[r-][w-][x-][ps] [0-9a-f]{8,16}\s+\S+\s+\d+\s|(?:[\d-]+\s+){3}[r-][w-][x-])")
_RULE = re.compile(r"\s*(?:=+\s+)*=+\s*$|\s*-+\s+-+\s+-+\s+-+\s*$")
_SUMS = re.compile(r"\s*(?:total kB\s+)?((?:\d{1,16}\s+)*\d{1,16})(?:\s+KB)?\s*$")
_FLAGS = re.compile(r"\s\d+\s+(?:[a-z]{2} ){0,30}hg(?: |$)")
_COLUMNS_OF_X = {"Kbytes": "Size", "RSS": "Rss"}


def _columns(head: re.Match[str]) -> list[str]:
    """The columns that have a sum, in order."""
    names = ["Kbytes", *head[2].split()] if head[2] else head[1].split()
    return [_COLUMNS_OF_X.get(name, name) for name in names if name not in ("VmFlags", "Mode")]


@dataclass(slots=True)
class _Listing(_Mappings):
    """The list of one process, whose columns have sums in its last line."""

    comm: str = ""
    columns: list[str] = field(default_factory=list)

    def begin(self, head: re.Match[str]) -> None:
        self.columns = _columns(head)
        if "VmFlags" in head[0]:
            self.add(ASKED_HUGE, 0.0)

    def add_row(self, line: str) -> None:
        """Only what asked for huge pages has no sum in the last line."""
        if self.columns and ASKED_HUGE in self.values and _FLAGS.search(line):
            cells = dict(zip(self.columns, line.split()[5:], strict=False))
            self.add(ASKED_HUGE, (parse_count(cells.get("Rss", "")) or 0) * KIB)

    def end(self, sums: list[str]) -> None:
        for name, text in zip(self.columns, sums, strict=True):
            if name in SUMMED:
                self.values[SUMMED[name]] = int(text) * KIB
        self.columns = []


@snapshots("pmap")
def parse_pmap(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample a process, at the line that names it."""
    process = _Listing("?", source.cite(1))
    for number, line in lines:
        if named := _PROCESS.match(line):
            _note_cut(process, odd)
            process = _Listing(named[1], source.cite(number, line), comm=task_name(named[2]))
        elif head := _PMAP_HEAD.match(line):
            process.begin(head)
        elif _ROW.match(line):
            process.add_row(line)
        elif (sums := _SUMS.match(line)) and process.columns and len(cells := sums[1].split()) == len(process.columns):
            process.end(cells)
            yield from process.sample("pmap", process.comm)
        elif line.strip() and not _RULE.match(line):
            odd.note(number, line, "not a line of pmap")
    _note_cut(process, odd)


def _note_cut(process: _Listing, odd: ParseErrors) -> None:
    if process.columns:
        odd.note(process.cite.line or 0, process.cite.text, "a list of pmap without its last line, the sums: not used")


PMAP = Parser(
    "pmap", "pmap -x, -X, -XX", parse_pmap, opens=re.compile(rf"{_PROCESS.pattern}|{_PMAP_HEAD.pattern}"),
    continues=any_of(_PMAP_HEAD, _ROW, _RULE, _SUMS, re.compile(r"\d{1,10}:\s{3}\S")),
    confirm=lambda lines: any(_PMAP_HEAD.match(line) for line in lines[:2]),
)  # fmt: skip


_THPMAPS_HEAD = re.compile(r"\s*PID\s+START\s+END PROT\s+OFFSET\s+DEV\s+INODE OBJECT\s*$")
_VMA = re.compile(r"0{0,9}(\d{1,10}): [0-9a-f]{16}-[0-9a-f]{16} [r-][w-][x-][ps] ")
_STAT = r":\s{1,40}(\d{1,16}) kB(?:\s+\(\s*\d+%\))?\s*$"
_THP = re.compile(rf"((?:anon|file)-(?:thp|cont)-(?:(?:pmd|pte)-(?:un)?aligned-\d{{1,9}}kB|pte-partial)){_STAT}")
_SMAPS_STAT = re.compile(rf"[A-Z]\w{{1,20}}{_STAT}")  # of --inc-smaps
_ONE_PID = re.compile(r".*?--pid[= ](\d{1,10})(?!.*--pid)")
_PMD_MAPPED = "anon-thp-pmd-aligned-"


@snapshots("thpmaps")
def parse_thpmaps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Sample]:
    """One sample a process."""
    asked = _ONE_PID.match(source.command)
    process: _Mappings | None = None
    first: tuple[int, str] | None = None  # line of the sums of --rollup
    for number, line in lines:
        first = first or (number, line)
        if found := _VMA.match(line):
            if process is None or found[1] != process.pid:
                yield from process.sample("thpmaps") if process else ()
                process = _Mappings(found[1], source.cite(number, line))
                process.add(SUMMED["AnonHugePages"], 0.0)
        elif found := _THP.match(line):
            if process is None and asked:
                process = _Mappings(asked[1], source.cite(number, line))
            if process is not None and found[1].startswith(_PMD_MAPPED):
                process.add(SUMMED["AnonHugePages"], int(found[2]) * KIB)
        elif line.strip() and not _THPMAPS_HEAD.match(line) and not _SMAPS_STAT.match(line):
            odd.note(number, line, "not a line of thpmaps'")
    if process is not None:
        yield from process.sample("thpmaps")
    elif first and not _THPMAPS_HEAD.match(first[1]):
        odd.note(*first, "sums of thpmaps whose command does not name one process: not used")


THPMAPS = Parser(
    "thpmaps", "thpmaps", parse_thpmaps, opens=re.compile(rf"{_THPMAPS_HEAD.pattern}|{_THP.pattern}"),
    continues=any_of(_THPMAPS_HEAD, _VMA, _THP, _SMAPS_STAT),
)  # fmt: skip
