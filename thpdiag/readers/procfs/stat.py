"""/proc/stat: CPU time by mode since boot, and counts of interrupts, context switches and forks; also `head -1` of it.

    cpu  2937 0 1627 190547 247 0 34 8 0 0
    btime 1662154781

Units: CPU times in ticks of 1/100 s on all distribution kernels (USER_HZ). Columns: user nice system idle iowait irq
softirq, then steal (2.6.11), guest (2.6.24), guest_nice (2.6.33); guest time is in user as well. Interrupts by number
are not read. Source: kernel tree, fs/proc/stat.c and Documentation/filesystems/proc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities

TICKS_PER_SECOND = 100
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_COUNTS = {
    "ctxt": "node_context_switches_total",
    "intr": "node_intr_total",
    "processes": "node_forks_total",
    "procs_running": "node_procs_running",
    "procs_blocked": "node_procs_blocked",
    "btime": "node_boot_time_seconds",
}
_OPENS = re.compile(
    r"cpu\d{0,5} +-?\d+(?: +-?\d+){3,9}\s*$|(?:ctxt|btime|processes|procs_running|procs_blocked) +\d+\s*$|"
    r"intr \d+(?: |$)"
)
_CONTINUES = re.compile(
    r"(?:ctxt|btime|procs_running|procs_blocked)\b|(?:cpu\d{0,5}|intr|processes|softirq|page|swap|disk_io:)(?:\s+-?\d|\s*$)"
)
_CPU = re.compile(r"cpu(\d{0,5})\s")


class _Snapshot:
    """The snapshot that is being read: the system's values and those of its CPUs."""

    def __init__(self) -> None:
        self.system: dict[str, float] = {}
        self.first: tuple[int, str] | None = None
        self.cpus: list[Sample] = []

    def samples(self, source: Source) -> Iterator[Sample]:
        if self.first:
            yield Sample("system", self.system, source.cite(*self.first), READER.name)
        yield from self.cpus


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A system sample and one per CPU for each snapshot; the number of CPUs."""
    odd, counts = Oddities(source, READER.name), list[Fact]()
    yield from dated(source, _samples(source, lines, odd, counts))
    yield from counts[:1]
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities, counts: list[Fact]) -> Iterator[Sample]:
    now = _Snapshot()
    for number, line in lines:
        words = line.split()
        if not words:
            continue
        cpu = _CPU.match(line)
        values = _times(number, line, words[1:], odd) if cpu else _count(number, line, words, odd)
        if cpu and cpu[1]:
            entity = (("cpu", cpu[1]),)
            now.cpus.extend([Sample("cpu", values, source.cite(number, line), READER.name, entity)] if values else [])
            continue
        if any(name in now.system for name in values):
            yield from now.samples(source)
            now = _Snapshot()
        if now.cpus and not cpu and not counts:  # a line below the CPUs, so they are all there
            counts.append(Fact("cpu.count", len(now.cpus), now.cpus[0].cite, time=source.time))
        if values:
            now.first = now.first or (number, line)
            now.system.update(values)
    yield from now.samples(source)


def _times(number: int, line: str, columns: list[str], odd: Oddities) -> dict[str, float]:
    """CPU seconds by mode; none at all if the line is short, for its last column may be cut."""
    if len(columns) < 4:
        odd.note(number, line, "a CPU line with fewer than four times; it is left out")
        return {}
    values: dict[str, float] = {}
    for mode, text in zip(_MODES, columns, strict=False):
        ticks = whole(text)
        if ticks is None:
            odd.note(number, line, NOT_A_COUNT)
        else:
            values[f"node_cpu_seconds_total.{mode}"] = ticks / TICKS_PER_SECOND
    return values


def _count(number: int, line: str, words: list[str], odd: Oddities) -> dict[str, float]:
    name = _COUNTS.get(words[0])
    if name is None:
        if not _CONTINUES.match(line):
            odd.note(number, line, "not a line of this file")
        return {}
    value = whole(words[1]) if len(words) > 1 else None
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
        return {}
    return {name: value}


READER = Reader(
    name="proc_stat",
    title="/proc/stat",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
)
