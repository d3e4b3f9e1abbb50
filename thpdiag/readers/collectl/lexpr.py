"""collectl --export lexpr: one number per line for other programs, an interval after the other.

    sample.time 1795168443.006
    cputotals.user 74
    meminfo.anonH 454656

Times are seconds since 1970; shares are whole percent, sizes KiB as the kernel prints them, rates per second cut to
whole numbers. Varies: with i=, min, max, avg the numbers stand for several intervals; anonH since 4.0.3; names of
disks, networks and others are not read. `meminfo.inactive` is the last line of /proc/meminfo that begins so,
Inactive(file); that of a node is all of it. Source: collectl lexpr.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Clock, Moment, Record, Sample, Subject
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.cpu_parts import plausible, with_sums
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST, number, share

NAME = "collectl_lexpr"
_OPENS = re.compile(r"sample\.time \d{9,10}(?:\.\d{1,6})?\s*$")
_LINE = re.compile(r"([a-z]\w{1,15}\.[\w.:/@-]{1,80}) (\S{1,40})\s*$")
_TIME = re.compile(r"\d{9,10}(?:\.\d{1,6})?")
MODES = {
    "user": "user", "nice": "nice", "sys": "system", "wait": "iowait", "irq": "irq", "soft": "softirq",
    "steal": "steal", "idle": "idle",
}  # fmt: skip
KIB = 1024.0
_SIZES = {
    "tot": "MemTotal", "free": "MemFree", "buf": "Buffers", "cached": "Cached", "slab": "Slab", "map": "Mapped",
    "anon": "AnonPages", "anonH": "AnonHugePages", "dirty": "Dirty", "locked": "Mlocked",
    "inactive": "Inactive_file", "sunreclaim": "SUnreclaim",
}  # fmt: skip
_NODE_SIZES = {
    "used": "MemUsed", "free": "MemFree", "slab": "Slab", "map": "Mapped", "anon": "AnonPages",
    "anonH": "AnonHugePages", "lock": "Mlocked", "act": "Active", "inact": "Inactive",
}  # fmt: skip
# name -> metric, factor, quantum (0: exact)
HOST: dict[str, tuple[str, float, float]] = {
    **{f"meminfo.{name}": (f"node_memory_{metric}_bytes", KIB, 0) for name, metric in _SIZES.items()},
    **{
        f"meminfo.huge{name}": (f"node_memory_HugePages_{metric}", 1, 0)
        for name, metric in (("tot", "Total"), ("free", "Free"), ("rsvd", "Rsvd"))
    },
    "swapinfo.total": ("node_memory_SwapTotal_bytes", KIB, 0),
    "swapinfo.free": ("node_memory_SwapFree_bytes", KIB, 0),
    "swapinfo.in": ("swap_in_bytes:rate", KIB, KIB),
    "swapinfo.out": ("swap_out_bytes:rate", KIB, KIB),
    "pageinfo.fault": ("node_vmstat_pgfault:rate", 1, 1),
    "pageinfo.majfault": ("node_vmstat_pgmajfault:rate", 1, 1),
    "pageinfo.in": ("node_vmstat_pgpgin:rate", 1, 1),
    "pageinfo.out": ("node_vmstat_pgpgout:rate", 1, 1),
    "ctxint.ctx": ("node_context_switches_total:rate", 1, 1),
    "ctxint.int": ("node_intr_total:rate", 1, 1),
    "cpuload.avg1": ("node_load1", 1, 0.01),
    "disktotals.readkbs": ("block_in_bytes:rate", KIB, KIB),
    "disktotals.writekbs": ("block_out_bytes:rate", KIB, KIB),
}
_NODE = re.compile(r"numainfo\.(\w+)\.(\d{1,4})$")
_CPU = re.compile(r"cpuinfo\.(\w+)\.cpu(\d{1,5})$")


@dataclass(slots=True)
class Interval:
    """What stands below one time."""

    source: Source
    odd: Oddities
    cite: Citation
    time: Moment
    values: dict[Subject, dict[str, float]] = field(default_factory=dict)
    resolution: dict[str, float] = field(default_factory=dict)
    parts: dict[Subject, dict[str, float]] = field(default_factory=dict)

    def line(self, line: int, text: str, name: str, cell: str) -> None:
        group, _, rest = name.partition(".")
        if group == "cputotals" and rest in MODES:
            self._share(line, text, ("system", ()), MODES[rest], cell)
        elif (cpu := _CPU.match(name)) and cpu[1] in MODES:
            self._share(line, text, ("cpu", (("cpu", cpu[2]),)), MODES[cpu[1]], cell)
        elif (node := _NODE.match(name)) and node[1] in _NODE_SIZES:
            metric = f"node_memory_numa_{_NODE_SIZES[node[1]]}_bytes"
            self._number(line, text, ("node", (("node", node[2]),)), (metric, KIB, 0), cell)
        elif name in HOST:
            self._number(line, text, ("system", ()), HOST[name], cell)

    def _share(self, line: int, text: str, key: Subject, mode: str, cell: str) -> None:
        if (value := share(cell)) is None:
            self.odd.note(line, text, "a share of lexpr that is none; it is left out")
        else:
            self.parts.setdefault(key, {})[mode] = value

    def _number(self, line: int, text: str, key: Subject, plain: tuple[str, float, float], cell: str) -> None:
        metric, factor, quantum = plain
        value = number(cell)
        if value is None or value * factor > LARGEST:
            self.odd.note(line, text, "a number of lexpr that is none; it is left out")
            return
        self.values.setdefault(key, {})[metric] = value * factor
        if quantum:
            self.resolution[metric] = quantum

    def samples(self) -> Iterator[Sample]:
        for key, parts in self.parts.items():
            if plausible(parts):
                sums = with_sums(parts)
                self.values.setdefault(key, {}).update(sums)
                self.resolution.update(dict.fromkeys(sums, 0.01))
            else:
                self.odd.note(self.cite.line or 1, self.cite.text, "CPU shares that do not add up to 100 %: not used")
        for (kind, entity), values in self.values.items():
            quanta = {name: quantum for name, quantum in self.resolution.items() if name in values}
            yield Sample(kind, values, self.cite, NAME, entity, self.time, quanta)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Sample of the host, of each CPU and of each node per interval."""
    odd = Oddities(source, NAME)
    interval: Interval | None = None
    for line, text in lines:
        found = _LINE.match(text)
        if not found:
            if text.strip():
                odd.note(line, text, "not a `name.key value` line")
        elif found[1] == "sample.time":
            yield from interval.samples() if interval else ()
            interval = None
            if _TIME.fullmatch(found[2]):
                interval = Interval(source, odd, source.cite(line, text), Moment(float(found[2]), Clock.UTC))
            else:
                odd.note(line, text, "a damaged time: what stands below it is left out")
        elif interval:
            interval.line(line, text, found[1], found[2])
    yield from interval.samples() if interval else ()
    yield from odd.problems()


def confirm(lines: list[str]) -> bool:
    return len(lines) > 1 and bool(_LINE.match(lines[1]))


READER = Reader(NAME, "collectl --export lexpr", read, opens=_OPENS, continues=_LINE.match, confirm=confirm)
