"""Output of collectl --export lexpr: one number per line, interval by interval, for other programs.

    sample.time 1795168443.006
    cputotals.user 74
    meminfo.anonH 454656

Times are seconds since 1970; shares are whole percents, sizes KiB as the kernel prints them, rates per second truncated
to whole numbers. Varies: with i=, min, max, avg the numbers cover several intervals; anonH since 4.0.3; disks, networks
and others are not read. `meminfo.inactive` is the last line of /proc/meminfo with that prefix, Inactive(file); that of
a node is the sum. Source: collectl lexpr.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Clock, Moment, Record, Sample, Subject
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._units import Column, Readings, columns, parse_share
from thpdiag.parsers.collectl import _columns as collectl
from thpdiag.parsers.collectl._columns import KIB, LEXPR

NAME = "collectl_lexpr"
_OPENS = re.compile(r"sample\.time \d{9,10}(?:\.\d{1,6})?\s*$")
_LINE = re.compile(r"([a-z]\w{1,15}\.[\w.:/@-]{1,80}) (\S{1,40})\s*$")
_TIME = re.compile(r"\d{9,10}(?:\.\d{1,6})?")
MODES = {title.lower(): mode for title, mode in collectl.MODES.items()}
_MEMORY = collectl.sizes(collectl.MEMORY, LEXPR, "node_memory_{}_bytes")
_POOL = {"meminfo.hugetot": "Total", "meminfo.hugefree": "Free", "meminfo.hugersvd": "Rsvd"}
HOST = {
    **{f"meminfo.{title}": column for title, column in _MEMORY.items()},
    **columns({title: f"node_memory_HugePages_{name}" for title, name in _POOL.items()}),
    "swapinfo.total": Column("node_memory_SwapTotal_bytes", factor=KIB),
    "swapinfo.free": Column("node_memory_SwapFree_bytes", factor=KIB),
    "cpuload.avg1": Column("node_load1", quantum=0.01),
    **collectl.rates(LEXPR),
}
NODE = collectl.sizes(collectl.NODE_MEMORY, LEXPR, "node_memory_numa_{}_bytes")
_NODE = re.compile(r"numainfo\.(\w+)\.(\d{1,4})$")
_CPU = re.compile(r"cpuinfo\.(\w+)\.cpu(\d{1,5})$")


@dataclass(slots=True)
class Interval:
    """The numbers below one time."""

    source: Source
    errors: ParseErrors
    cite: Citation
    time: Moment
    readings: dict[Subject, Readings] = field(default_factory=dict)
    parts: dict[Subject, dict[str, float]] = field(default_factory=dict)  # CPU shares by mode

    def add_line(self, line: int, text: str, name: str, cell: str) -> None:
        group, _, rest = name.partition(".")
        if group == "cputotals" and rest in MODES:
            self._add_share(line, text, ("system", ()), MODES[rest], cell)
        elif (cpu := _CPU.match(name)) and cpu[1] in MODES:
            self._add_share(line, text, ("cpu", (("cpu", cpu[2]),)), MODES[cpu[1]], cell)
        elif (node := _NODE.match(name)) and node[1] in NODE:
            self._add_number(line, text, ("node", (("node", node[2]),)), NODE[node[1]], cell)
        elif name in HOST:
            self._add_number(line, text, ("system", ()), HOST[name], cell)

    def _add_share(self, line: int, text: str, subject: Subject, mode: str, cell: str) -> None:
        if (value := parse_share(cell)) is None:
            self.errors.note(line, text, "an invalid share of lexpr; it is left out")
        else:
            self.parts.setdefault(subject, {})[mode] = value

    def _add_number(self, line: int, text: str, subject: Subject, column: Column, cell: str) -> None:
        readings = self.readings.get(subject) or Readings()
        if readings.put(column, column.parse(cell)):
            self.readings[subject] = readings
        else:
            self.errors.note(line, text, "an invalid number of lexpr; it is left out")

    def samples(self) -> Iterator[Sample]:
        for subject, parts in self.parts.items():
            if is_plausible(parts):
                ratios = cpu_ratios(parts)
                readings = self.readings.setdefault(subject, Readings())
                readings.values.update(ratios)
                readings.resolution.update(dict.fromkeys(ratios, 0.01))
            else:
                self.errors.note(
                    self.cite.line or 1, self.cite.text, "CPU shares that do not add up to 100 %: not used"
                )
        for (kind, entity), readings in self.readings.items():
            yield Sample(kind, readings.values, self.cite, NAME, entity, self.time, readings.resolution)


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples of the host, each CPU and each node per interval."""
    interval: Interval | None = None
    for line, text in lines:
        match = _LINE.match(text)
        if not match:
            if text.strip():
                errors.note(line, text, "not a `name.key value` line")
        elif match[1] == "sample.time":
            yield from interval.samples() if interval else ()
            interval = None
            if _TIME.fullmatch(match[2]):
                interval = Interval(source, errors, source.cite(line, text), Moment(float(match[2]), Clock.UTC))
            else:
                errors.note(line, text, "a damaged time: the lines below it are left out")
        elif interval:
            interval.add_line(line, text, match[1], match[2])
    yield from interval.samples() if interval else ()


PARSER = Parser(
    NAME, "collectl --export lexpr", read, opens=_OPENS, continues=_LINE.match,
    confirm=lambda lines: len(lines) > 1 and _LINE.match(lines[1]),
)  # fmt: skip
