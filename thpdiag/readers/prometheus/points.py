"""Points of many Prometheus series, put into rows: what has the same times of the same entity belongs together.

A dump and the answer to a query give one series after the other, each with all its times. Not a format of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.model import Citation, Clock, Fact, Moment, Record, Sample, Series, Subject
from thpdiag.readers.elements.whole_member import FEW
from thpdiag.readers.prometheus.names import CPU, Place


@dataclass(slots=True)
class Points:
    """All points of one metric: seconds (UTC), values and the line of each."""

    seconds: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))

    def add(self, seconds: float, value: float, line: int) -> None:
        self.seconds.append(seconds)
        self.values.append(value)
        self.lines.append(line)

    def in_order(self) -> Points:
        """By time, the first of equal ones only: a dump of overlapping blocks has points twice."""
        if all(a < b for a, b in zip(self.seconds, self.seconds[1:], strict=False)):
            return self
        found, last = Points(), float("-inf")
        for seconds, value, line in sorted(zip(self.seconds, self.values, self.lines, strict=True), key=lambda p: p[0]):
            if seconds > last:
                found.add(seconds, value, line)
                last = seconds
        return found


@dataclass(slots=True)
class Gathered:
    """Series of hosts. `of` is who a metric was taken from first: the same of another job or replica is not taken."""

    member: str
    reader: str
    hosts: dict[str, dict[Subject, dict[str, Points]]] = field(default_factory=dict)
    of: dict[tuple[str, Place], str] = field(default_factory=dict)

    def points(self, host: str, place: Place, labels: str) -> Points | None:
        """Where further points of a series go; None if the metric is another series' already."""
        if self.of.setdefault((host, place), labels) != labels:
            return None
        entities = self.hosts.setdefault(host, {})
        return entities.setdefault((place.kind, place.entity), {}).setdefault(place.metric, Points())

    def records(self) -> Iterator[Record]:
        """Each host by name, then its rows; rows of all CPUs together where every CPU is there."""
        for host, entities in self.hosts.items():
            for metrics in entities.values():
                for name, points in metrics.items():
                    metrics[name] = points.in_order()
            _sum_of_cpus(entities)
            tables = [
                (key, table)
                for key, metrics in entities.items()
                for table in _same_times(metrics)
                if len(next(iter(table.values())).seconds)
            ]
            if host and tables:
                yield Fact("host.name", host, Citation(self.member, next(iter(tables[0][1].values())).lines[0]))
            few = sum(len(next(iter(table.values())).seconds) for _, table in tables) < FEW
            for key, table in tables:
                yield from self._rows(key, table) if few else (self._columns(key, table),)

    def _rows(self, key: Subject, table: Mapping[str, Points]) -> Iterator[Sample]:
        first = next(iter(table.values()))
        for number, seconds in enumerate(first.seconds):
            values = {name: points.values[number] for name, points in table.items()}
            cite = Citation(self.member, first.lines[number])
            yield Sample(key[0], values, cite, self.reader, key[1], Moment(seconds, Clock.UTC))

    def _columns(self, key: Subject, table: Mapping[str, Points]) -> Series:
        import numpy as np  # only for what is long

        first = next(iter(table.values()))
        return Series(
            key[0],
            {name: np.frombuffer(points.values, np.float64) for name, points in table.items()},
            self.member,
            np.frombuffer(first.lines, np.int64),
            self.reader,
            key[1],
            np.frombuffer(first.seconds, np.float64),
            Clock.UTC,
        )


def _same_times(metrics: Mapping[str, Points]) -> list[dict[str, Points]]:
    found: dict[bytes, dict[str, Points]] = {}
    for name, points in metrics.items():
        found.setdefault(points.seconds.tobytes(), {})[name] = points
    return list(found.values())


def _sum_of_cpus(entities: dict[Subject, dict[str, Points]]) -> None:
    """CPU time of the host, as the first line of /proc/stat has it, where all CPUs have the same times."""
    cpus = [metrics for (kind, _), metrics in entities.items() if kind == "cpu"]
    for name in dict.fromkeys(name for metrics in cpus for name in metrics if name.startswith(CPU)):
        parts = [metrics[name] for metrics in cpus if name in metrics]
        if len(parts) == len(cpus) and len({points.seconds.tobytes() for points in parts}) == 1:
            sums = array("d", (sum(row) for row in zip(*(points.values for points in parts), strict=True)))
            system = entities.setdefault(("system", ()), {})
            system.setdefault(name, Points(parts[0].seconds, sums, parts[0].lines))
