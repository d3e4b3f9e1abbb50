"""Time series from rows: what a check asks for by a metric's name.

Rows of one source (member and reader) about one entity are one wide pandas frame: the index is seconds of the source's
clock or, where it has none, the sample number; `line` and `since_boot` stand beside the metrics. Sources are never
merged. A Track is one column of such a frame; a track of a single row never loads pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Clock, Moment, Sample, Series

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

SURE = 0.1  # of the time that two sources share: by more than this their clocks may not be wrong
Entity = tuple[tuple[str, str], ...]
Samples = tuple[Sample, ...] | Series


class Columns(dict[str, Mapping[str, str]]):
    """Unit and kind by metric. pandas copies attributes deeply with every operation; what never changes need not be."""

    def __deepcopy__(self, memo: object) -> Columns:
        return self


@dataclass(frozen=True)
class Table:
    """All rows of one source about one entity, in reading order."""

    member: str
    reader: str
    kind: str
    entity: Entity
    samples: Samples

    @cached_property
    def clock(self) -> Clock | None:
        """The clock of the rows, None if any row has no time or the clocks differ."""
        if isinstance(self.samples, Series):
            seconds = self.samples.seconds
            return None if seconds is None or (seconds != seconds).any() else self.samples.clock  # NaN is no time
        clocks = {s.time.clock if s.time else None for s in self.samples}
        return next(iter(clocks)) if len(clocks) == 1 else None

    @cached_property
    def off(self) -> float:
        """By how many seconds the times may be wrong, as far as they were put on another clock."""
        if isinstance(self.samples, Series):
            return self.samples.within
        return max((s.time.within for s in self.samples if s.time), default=0.0)

    @cached_property
    def metrics(self) -> frozenset[str]:
        """The names of all values in any row."""
        if isinstance(self.samples, Series):
            return frozenset(self.samples.values)
        return frozenset(name for s in self.samples for name in s.values)

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per sample, one column per metric, NaN where the source printed nothing.

        `frame.attrs["columns"]` has unit and kind of every metric, as the vocabulary says.
        """
        import pandas

        if isinstance(self.samples, Series):
            return _of_columns(self.samples, self.clock)
        index = [s.time.seconds for s in self.samples if s.time] if self.clock else range(len(self.samples))
        rows = [dict(s.values) for s in self.samples]
        frame = pandas.DataFrame.from_records(rows, index=pandas.Index(list(index), dtype=float))
        frame.attrs["columns"] = Columns({name: _column(name) for name in frame.columns})
        lines = pandas.Series([s.cite.line for s in self.samples], index=frame.index, dtype=object)
        return frame.assign(line=lines, since_boot=[s.since_boot for s in self.samples])


def _of_columns(series: Series, clock: Clock | None) -> pandas.DataFrame:
    import pandas

    index = pandas.Index(series.seconds if clock else range(len(series)), dtype=float)
    frame = pandas.DataFrame(dict(series.values), index=index)
    frame.attrs["columns"] = Columns({name: _column(name) for name in series.values})
    marks = series.since_boot if series.since_boot is not None else False
    return frame.assign(line=series.lines, since_boot=marks)


def _column(name: str) -> Mapping[str, str]:
    known = term(name)
    return {"unit": known.unit, "kind": known.kind} if known else {}


@dataclass(frozen=True)
class Points:
    """Values with the samples that they stand for, one to one; the index is seconds, or sample numbers."""

    values: pandas.Series[float]
    samples: Samples
    timed: bool

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, end: int) -> Points:
        return Points(self.values.iloc[start:end], only(self.samples, slice(start, end)), self.timed)

    @property
    def span(self) -> tuple[Moment, Moment] | None:
        """First and last moment, None without a clock."""
        first, last = (self.samples[0].time, self.samples[-1].time) if self.samples else (None, None)
        return (first, last) if first and last and first.clock is last.clock else None


@dataclass(frozen=True)
class Track:
    """One metric of one entity from one source: `samples` are the rows that have it, without averages since boot."""

    metric: str
    table: Table
    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def last(self) -> float:
        return float(self.samples[-1].values[self.metric])

    @cached_property
    def points(self) -> Points:
        """The column of the frame, without gaps."""
        if isinstance(self.samples, Series):
            return Points(_values(self.samples, self.metric, timed=self.timed), self.samples, self.timed)
        frame = self.table.frame
        column = frame.loc[~frame["since_boot"], self.metric].dropna()
        return Points(column, self.samples, self.timed)

    @property
    def timed(self) -> bool:
        return self.table.clock is not None

    @property
    def resolution(self) -> float:
        """The largest quantum the source rounded to."""
        if isinstance(self.samples, Series):
            return self.samples.resolution.get(self.metric, 0.0)
        return max((s.resolution.get(self.metric, 0.0) for s in self.samples), default=0.0)

    @property
    def duration(self) -> float | None:
        """Seconds from first to last sample, None without a clock."""
        first, last = self.samples[0].time, self.samples[-1].time
        return last.minus(first) if self.timed and first and last else None

    def cite(self, at: int = -1) -> Citation:
        return self.samples[at].cite

    def within(self, start: float, end: float) -> Track:
        """The same without what lies outside of these seconds."""
        kept = _between(self.samples, start, end)
        table = Table(self.table.member, self.table.reader, self.table.kind, self.table.entity, kept)
        return Track(self.metric, table, kept)

    @property
    def name(self) -> str:
        """The entity for people, empty for the host."""
        return spoken(self.table.entity)


def spoken(entity: Entity) -> str:
    """An entity for people: `java (4711)`, `node 0 zone Normal`."""
    labels = dict(entity)
    if "pid" in labels:
        return f"{labels.get('comm', 'pid')} ({labels['pid']})"
    return " ".join(f"{k} {v}" for k, v in entity)


def only(samples: Samples, keep: slice | NDArray[np.bool_]) -> Samples:
    """A part of rows: a stretch, or those marked."""
    if isinstance(samples, Series):
        return samples.only(keep)
    return samples[keep] if isinstance(keep, slice) else tuple(s for s, k in zip(samples, keep, strict=True) if k)


def having(samples: Iterable[Sample | Series], *metrics: str) -> Iterator[Sample]:
    """The rows that have all these metrics, one by one."""
    for one in samples:
        if isinstance(one, Series):
            if all(metric in one.values for metric in metrics):
                yield from (row for row in one if all(metric in row.values for metric in metrics))
        elif all(metric in one.values for metric in metrics):
            yield one


def _values(series: Series, metric: str, *, timed: bool) -> pandas.Series[float]:
    import pandas

    index = pandas.Index(series.seconds if timed else range(len(series)), dtype=float)
    return pandas.Series(series.values[metric], index=index)


def _between(samples: Samples, start: float, end: float) -> Samples:
    if isinstance(samples, Series):
        return (
            samples.only(slice(0))
            if samples.seconds is None
            else samples.only((samples.seconds >= start) & (samples.seconds <= end))
        )
    return tuple(s for s in samples if s.time and start <= s.time.seconds <= end)


def tables(samples: Iterable[Sample | Series]) -> tuple[Table, ...]:
    """The rows by source and entity. A process is one entity over a source though its name changes."""
    groups: dict[tuple[str, str, str, Entity], list[Sample | Series]] = {}
    for sample in samples:
        labels = dict(sample.entity)
        entity: Entity = (("pid", labels["pid"]),) if "pid" in labels else sample.entity
        groups.setdefault((sample.cite.member, sample.reader, sample.kind, entity), []).append(sample)
    return tuple(
        Table(member, reader, kind, rows[-1].entity, _rows(rows)) for (member, reader, kind, _), rows in groups.items()
    )


def _rows(parts: Sequence[Sample | Series]) -> Samples:
    """Rows of one source and entity. Columns stay columns, unless the source gave several sets of them."""
    first = parts[0]
    if len(parts) == 1 and isinstance(first, Series):
        return first
    return tuple(row for part in parts for row in (part if isinstance(part, Series) else (part,)))


def track(table: Table, metric: str) -> Track | None:
    """One metric of a table, None if it has no value of it."""
    samples = _with(table.samples, metric)
    return Track(metric, table, samples) if samples else None


def _with(samples: Samples, metric: str) -> Samples:
    """The rows that have the metric and are no average since boot."""
    if not isinstance(samples, Series):
        return tuple(s for s in samples if metric in s.values and not s.since_boot)
    column = samples.values.get(metric)
    if column is None:
        return ()
    keep = column == column
    if samples.since_boot is not None:
        keep &= ~samples.since_boot
    return samples if keep.all() else samples.only(keep)


class Catalogue:
    """All tables of a state, asked by metric: the source with more samples first, then the more exact one.

    Rules ask for few metrics of possibly thousands of processes, so tracks are made when asked for and kept.
    """

    def __init__(self, samples: Iterable[Sample | Series]) -> None:
        self._tables = tables(samples)
        self._with: dict[str, list[Table]] = {}
        self._tracks: dict[str, dict[tuple[str, ...] | None, list[Track]]] = {}
        for table in self._tables:
            for metric in table.metrics:
                self._with.setdefault(metric, []).append(table)

    def tracks(self, metric: str, entity: Entity | None = None) -> Sequence[Track]:
        """All tracks of a metric (of one entity if given), best first."""
        if metric not in self._tracks:
            self._tracks[metric] = self._made(metric)
        return self._tracks[metric].get(identity(entity) if entity is not None else None, [])

    def _made(self, metric: str) -> dict[tuple[str, ...] | None, list[Track]]:
        """The tracks of a metric, all of them under None and by entity."""
        found = [t for table in self._with.get(metric, ()) if (t := track(table, metric))]
        found.sort(key=lambda t: (-min(len(t), 3), t.resolution, -len(t), str(t.cite(0))))
        by_entity: dict[tuple[str, ...] | None, list[Track]] = {None: found}
        for one in found:
            by_entity.setdefault(identity(one.table.entity), []).append(one)
        return by_entity

    def entities(self, kind: str) -> Sequence[Entity]:
        """The entities of a kind, each once, in the order they were read."""
        seen: dict[tuple[str, ...], Entity] = {}
        for table in self._tables:
            if table.kind == kind:
                seen.setdefault(identity(table.entity), table.entity)
        return tuple(seen.values())


def identity(entity: Entity) -> tuple[str, ...]:
    """What makes two entities of different sources the same: the pid, else all labels."""
    labels = dict(entity)
    return ("pid", labels["pid"]) if "pid" in labels else tuple(f"{k}={v}" for k, v in entity)
