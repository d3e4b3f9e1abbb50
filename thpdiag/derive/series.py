"""Time series from rows: what a check asks for by a metric's name.

Rows of one source (member and reader) about one entity are one Table. Sources are never merged. A Track is one metric
of a table, its Points are the values with their times: seconds of the source's clock or, where it has none, the sample
number. What is computed is computed on these columns; `Table.frame` is the whole table for pandas, for whoever explores
one, and nothing here loads pandas before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Clock, Entity, Moment, Sample, Series

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

LIFE = "life"  # the label that tells processes of one pid apart
SURE = 0.1  # of the time that two sources share: by more than this their clocks may not be wrong
Samples = tuple[Sample, ...] | Series


class Columns(dict[str, Mapping[str, str]]):
    """Unit and kind by metric. pandas copies attributes deeply with every operation; what never changes need not be."""

    def __deepcopy__(self, memo: object) -> Columns:
        return self


@dataclass(frozen=True)
class Table:
    """All rows of one source about one entity, in reading order. `boots` are times at which counters began anew."""

    member: str
    reader: str
    kind: str
    entity: Entity
    samples: Samples
    boots: tuple[Moment, ...] = ()

    @cached_property
    def parts(self) -> dict[bytes, Series]:
        """Rows that were asked for, by their marks: metrics that stand in the same rows share them."""
        return {}

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
    """Values with the samples that they stand for, one to one; `index` is seconds, or sample numbers."""

    values: NDArray[np.float64]
    index: NDArray[np.float64]
    samples: Samples
    timed: bool

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, end: int) -> Points:
        return Points(self.values[start:end], self.index[start:end], only(self.samples, slice(start, end)), self.timed)

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
        """The values with their times."""
        return Points(self.column, self._index() if self.seconds is None else self.seconds, self.samples, self.timed)

    def _index(self) -> NDArray[np.float64]:
        """The numbers of the rows, among all of the table where those are not columns."""
        import numpy as np

        if isinstance(self.samples, Series) or isinstance(self.table.samples, Series):
            return np.arange(len(self), dtype=np.float64)
        return np.array([n for n, s in enumerate(self.table.samples) if tells(s, self.metric)], np.float64)

    @cached_property
    def column(self) -> NDArray[np.float64]:
        """The values."""
        return self.beside(self.metric)

    def beside(self, metric: str) -> NDArray[np.float64]:
        """Another metric of the same rows, NaN where a row does not have it."""
        import numpy as np

        if isinstance(self.samples, Series):
            known = self.samples.values.get(metric)
            return np.full(len(self), np.nan) if known is None else known
        return np.array([s.values.get(metric, np.nan) for s in self.samples], np.float64)

    @cached_property
    def seconds(self) -> NDArray[np.float64] | None:
        """The times of the rows, None without a clock."""
        import numpy as np

        if not self.timed:
            return None
        if isinstance(self.samples, Series):
            return self.samples.seconds
        return np.array([s.time.seconds for s in self.samples if s.time], np.float64)

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
        return Track(self.metric, replace(self.table, samples=kept), kept)

    @property
    def name(self) -> str:
        """The entity for people, empty for the host."""
        return spoken(self.table.entity)


def spoken(entity: Entity) -> str:
    """An entity for people: `java (4711)`, `java (4711, the second of this pid)`, `node 0 zone Normal`."""
    labels = dict(entity)
    if "pid" in labels:
        life = f", {labels[LIFE]}" if LIFE in labels else ""
        return f"{labels['comm']} ({labels['pid']}{life})" if "comm" in labels else f"process {labels['pid']}{life}"
    return " ".join(f"{k} {v}" for k, v in entity)


def tells(sample: Sample, metric: str) -> bool:
    """Whether a row has a value of a metric that was recorded, and is no average since boot."""
    value = sample.values.get(metric)
    return value is not None and value == value and not sample.since_boot  # NaN is no value


def only(samples: Samples, keep: slice | NDArray[np.bool_]) -> Samples:
    """A part of rows: a stretch, or those marked."""
    if isinstance(samples, Series):
        return samples.only(keep) if isinstance(keep, slice) else marked(samples, keep)
    return samples[keep] if isinstance(keep, slice) else tuple(s for s, k in zip(samples, keep, strict=True) if k)


def having(samples: Iterable[Sample | Series], *metrics: str) -> Iterator[Sample]:
    """The rows that have all these metrics, one by one."""
    for one in samples:
        if isinstance(one, Series):
            yield from rows_with(one, *metrics)
        elif all(metric in one.values for metric in metrics):
            yield one


def last_having(samples: Iterable[Sample | Series], *metrics: str) -> Sample | None:
    """The latest of these rows. Where times do not tell, the last of the member that has most of them.

    What a capture copied once when it began is read after what it recorded until its end.
    """
    found: dict[str, tuple[int, Sample]] = {}
    for one in samples:
        if isinstance(one, Series):
            rows = rows_with(one, *metrics)
            if not len(rows):
                continue
            number, row = len(rows), rows[len(rows) - 1]
        elif all(metric in one.values for metric in metrics):
            number, row = 1, one
        else:
            continue
        before = found.pop(one.cite.member, (0, row))[0]
        found[one.cite.member] = before + number, row
    times = [row.time for _, row in found.values()]
    if all(times) and len({time.clock for time in times if time}) == 1:
        return max((row for _, row in reversed(found.values())), key=lambda row: row.time.seconds if row.time else 0.0)
    most = max((number for number, _ in found.values()), default=0)
    return next((row for number, row in reversed(found.values()) if number == most), None)


def rows_with(series: Series, *metrics: str) -> Series:
    """The rows that have all these metrics."""
    if not all(metric in series.values for metric in metrics):
        return series.only(slice(0))
    keep = None
    for metric in metrics:
        known = series.values[metric] == series.values[metric]
        keep = known if keep is None else keep & known
    return series if keep is None else marked(series, keep)


def marked(series: Series, keep: NDArray[np.bool_]) -> Series:
    """The rows that are marked; without copies where they are one stretch."""
    if keep.all():
        return series
    first, count = int(keep.argmax()), int(keep.sum())
    if keep[first : first + count].all():
        return series.only(slice(first, first + count))
    return series.only(keep)


def _between(samples: Samples, start: float, end: float) -> Samples:
    if isinstance(samples, Series):
        return (
            samples.only(slice(0))
            if samples.seconds is None
            else marked(samples, (samples.seconds >= start) & (samples.seconds <= end))
        )
    return tuple(s for s in samples if s.time and start <= s.time.seconds <= end)
