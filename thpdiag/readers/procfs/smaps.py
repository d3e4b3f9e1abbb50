"""/proc/PID/smaps and smaps_rollup: memory of one process by mapping, summed here over its mappings.

    55a9e753c000-55a9e7570000 r--p 00000000 fd:00 798126                     /usr/lib/systemd/systemd
    AnonHugePages:      2048 kB

Units: kB is 1024 bytes. AnonHugePages from 2.6.38 and on RHEL 6, LazyFree from 4.12, smaps_rollup (one mapping named
[rollup]) from 4.14. A file has no pid inside: it comes from the path or grep's prefix, else it is `?`. A new snapshot
begins where the addresses start again, with each [rollup], or in grep'ed rollups where a key repeats. VmFlags (from
3.8) closes a mapping: `hg` in it is memory that asked for huge pages (MADV_HUGEPAGE). Source: kernel tree,
fs/proc/task_mmu.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, size
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.tasks import entity

_GREP = r"(?:\S{0,200}proc/([\w*]+)/smaps(?:_rollup)?:)?"
_GREP_ANY = r"(?:\S{0,200}proc/[\w*]+/smaps(?:_rollup)?:)"
_MAPPING = r"[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-][x-][ps] "
_KEY = (
    r"(?:Size|KernelPageSize|MMUPageSize|Rss|Pss(?:_\w+)?|Shared_\w+|Private_\w+|Referenced|Anonymous|KSM|LazyFree|AnonHugePages|"
    r"ShmemPmdMapped|FilePmdMapped|ShmemHugePages|Swap|SwapPss|Locked|THPeligible|ProtectionKey|VmFlags)"
)
_OPENS = re.compile(
    rf"{_MAPPING}|{_GREP_ANY}{_KEY}:|(?:Size|Rss|Pss|Anonymous|Swap|LazyFree|Private_Dirty):\s+\d+ kB\s*$"
)
_LINE = re.compile(rf"{_GREP}(?:([0-9a-f]{{4,16}})-[0-9a-f]{{4,16}} [r-][w-][x-][ps] .*|({_KEY}):(.*))$")
_CONTINUES = re.compile(rf"(?:{_GREP_ANY})?(?:{_MAPPING}|{_KEY}:)")
_PATH = re.compile(r"proc/(\d+)/(?:task/\d+/)?smaps(?:_rollup)?$")
_SUMMED = {
    "Rss": "process_resident_memory_bytes",
    "AnonHugePages": "process_anon_huge_bytes",
    "LazyFree": "process_lazy_free_bytes",
    "Swap": "process_swap_bytes",
}
_ASKED = "process_asked_huge_bytes"


def _confirm(lines: list[str]) -> object:
    """An address line alone may be of /proc/PID/maps."""
    return not re.match(_MAPPING, lines[0]) or (len(lines) > 1 and re.match(r"(?:Size|Rss):", lines[1]))


class _Process:
    """The process that is being summed."""

    def __init__(self, pid: str, first: tuple[int, str]) -> None:
        self.pid = pid
        self.first = first
        self.address = -1
        self.keys: set[str] = set()  # of the mapping that is being read
        self.resident: float | None = None  # memory of the mapping that is being read
        self.values: dict[str, float] = {}

    def sample(self, source: Source) -> Iterator[Sample]:
        if self.values:
            yield Sample("process", self.values, source.cite(*self.first), READER.name, entity(self.pid))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One sample per process and snapshot."""
    odd = Oddities(source, READER.name)
    yield from dated(source, _samples(source, lines, odd))
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities) -> Iterator[Sample]:
    path = _PATH.search(source.path)
    named = path[1] if path else "?"
    process: _Process | None = None
    for number, line in lines:
        found = _LINE.match(line)
        if not found:
            if line.strip():
                odd.note(number, line, "not a line of this file")
            continue
        pid = found[1] if found[1] and found[1].isdigit() else named
        if process is not None and _ends(process, pid, found, source.path):
            yield from process.sample(source)
            process = None
        process = process or _Process(pid, (number, line))
        _line(process, number, line, found, odd)
    if process:
        yield from process.sample(source)


def _ends(process: _Process, pid: str, found: re.Match[str], path: str) -> bool:
    """Whether this line belongs to another process or snapshot than the lines before."""
    if pid != process.pid:
        return True
    if found[2]:
        return "[rollup]" in found[0] or int(found[2], 16) <= process.address
    return path.endswith("smaps_rollup") and _SUMMED.get(found[3]) in process.values


def _line(process: _Process, number: int, line: str, found: re.Match[str], odd: Oddities) -> None:
    if found[2]:
        process.address = int(found[2], 16)
        process.keys.clear()
        process.resident = None
        return
    name, text = _SUMMED.get(found[3]), (found[4] or "").strip()
    if found[3] == "VmFlags":
        _flags(process, text)
    if name is None:
        return
    if process.address >= 0 and found[3] in process.keys:
        odd.note(number, line, "a second value in one mapping, perhaps of /proc/meminfo; it is left out")
        return
    process.keys.add(found[3])
    value = size(text)
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
    else:
        process.values[name] = process.values.get(name, 0) + value
        if found[3] == "Rss":
            process.resident = value


def _flags(process: _Process, text: str) -> None:
    """Memory of a mapping counts as asking by its flags; without its size nothing is known of it."""
    if process.resident is not None:
        asked = process.resident if "hg" in text.split() else 0.0
        process.values[_ASKED] = process.values.get(_ASKED, 0.0) + asked
        process.resident = None


READER = Reader(
    name="smaps",
    title="/proc/PID/smaps and smaps_rollup",
    read=read,
    opens=_OPENS,
    confirm=_confirm,
    continues=_CONTINUES.match,
    priority=1,
)
