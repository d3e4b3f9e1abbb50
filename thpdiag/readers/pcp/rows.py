"""Rows of PCP metrics, as pmrep and pcp2json print them: what becomes of the values of one moment.

Not a format of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Moment, Record, Sample, Subject
from thpdiag.readers.elements.cpu_parts import with_sums
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.pcp.names import Metric, metric

FACTS = {
    "kernel.uname.release": "kernel.release",
    "kernel.uname.nodename": "host.name",
    "kernel.uname.machine": "kernel.arch",
    "hinv.ncpu": "cpu.count",
}
_NEEDED = ("user", "nice", "system", "idle")
Values = dict[Subject, dict[str, float]]
_MILLI = 1000.0  # a CPU has so many milliseconds per second
_ROUNDED = 1.05  # intervals are not quite as long as they are said to be
_NO_NUMBER = "a value of PCP that is no number: left out"


@dataclass(frozen=True, slots=True)
class Cell:
    """One value: of which metric and instance, and whether it is a counter that was converted to a rate."""

    name: str
    instance: str
    text: str
    converted: bool


@dataclass(slots=True)
class Rows:
    """What was said before that later rows need."""

    reader: str
    odd: Oddities
    cpus: float = 0
    told: set[tuple[str, str]] = field(default_factory=set)

    def row(self, cells: Iterable[Cell], cite: Citation, time: Moment | None) -> Iterator[Record]:
        """A Sample per entity; Facts that were not told before."""
        found: Values = {}
        shares: Values = {}
        for cell in cells:
            if cell.name in FACTS:
                yield from self._fact(cell, cite)
            elif cell.text and (where := metric(cell.name, cell.instance)):
                value = number(cell.text)
                if value is None:
                    self.odd.note(cite.line or 0, cite.text, _NO_NUMBER)
                else:
                    _put(found, shares, where, value, converted=where.counter and cell.converted)
        for key, modes in shares.items():
            if parts := self._shares(key[0], modes, cite):
                found.setdefault(key, {}).update(parts)
        for (kind, entity), values in found.items():
            yield Sample(kind, values, cite, self.reader, entity, time)

    def _shares(self, kind: str, modes: dict[str, float], cite: Citation) -> dict[str, float]:
        """Of all time where its parts are there; else of the time that so many CPUs have, and no sums of them."""
        complete = all(mode in modes for mode in _NEEDED) and sum(modes.values()) > 0
        total = sum(modes.values()) if complete else _MILLI if kind == "cpu" else _MILLI * self.cpus
        if not total:
            text = "CPU times of PCP without kernel.all.cpu.nice and idle, or hinv.ncpu: their shares are not known"
            self.odd.note(cite.line or 0, cite.text, text)
            return {}
        parts = {mode: value / total for mode, value in modes.items()}
        if sum(parts.values()) > _ROUNDED:
            self.odd.note(cite.line or 0, cite.text, "CPU times of PCP that are more than there is: not used")
            return {}
        return with_sums(parts) if complete else {f"cpu_ratio.{mode}": min(parts[mode], 1.0) for mode in parts}

    def _fact(self, cell: Cell, cite: Citation) -> Iterator[Fact]:
        if not cell.text.isprintable() or not cell.text or (cell.name, cell.text) in self.told or len(cell.text) > 255:
            return
        self.told.add((cell.name, cell.text))
        value = number(cell.text)
        if cell.name != "hinv.ncpu":
            yield Fact(FACTS[cell.name], cell.text, cite)
        elif value:
            self.cpus = value
            yield Fact(FACTS[cell.name], int(value), cite)


def _put(found: Values, shares: Values, where: Metric, value: float, *, converted: bool) -> None:
    key = (where.kind, where.entity)
    if not converted:
        found.setdefault(key, {})[where.name] = value * where.factor
    elif where.name.startswith("node_cpu_seconds_total."):
        shares.setdefault(key, {})[where.rate or ""] = value
    elif where.rate:
        found.setdefault(key, {})[where.rate] = value * where.factor
