"""Series: rows of one source (Table), one metric of it (Track), its values with their times (Points), and intervals.

Rows of one source (member and reader) about one entity are one Table. Sources are never merged. A Track is one metric
of a table, its Points are the values with their times: seconds of the source's clock or, where it has none, the sample
number. What is computed is computed on these columns; `Table.frame` is the whole table for pandas, for whoever explores
one, and nothing here loads pandas before it is asked for.

Intervals are those of sampling, gaps, and stretches in which a value is beyond a bound. A gap is a recorder that was
stopped, a host that was down or hung: what happened meanwhile nobody saw. A value speaks for the interval that it ends,
but not for hours without samples. A day's mean or growth says nothing about ten minutes of it; each stretch is given
twice where that differs: without pauses worth mentioning, and with those between bursts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from thpdiag.knowledge.paths import capture_ranks, root_of
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Clock, Entity, Moment, Pace, Sample, Series
from thpdiag.model.numeric import Bools, Floats, np

if TYPE_CHECKING:
    import pandas
from typing import NamedTuple

from thpdiag.model import Record
from thpdiag.model.numeric import Ints

LIFE = "life"  # the label that tells processes of one pid apart
WRAP = 2.0**32  # where counters of 32-bit kernels begin anew
UNSCALED = ("1", "pages", "blocks")  # units in which the figure is the kernel's own
MAX_SPEEDUP = 4.0  # times the fastest interval without a reset: what grew more was reset, it did not wrap
MAX_CLOCK_ERROR = 0.1  # of the time that two sources share: by more than this their clocks may not be wrong
Samples = tuple[Sample, ...] | Series
EntityKey = tuple[str, ...]


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
    def clock_error(self) -> float:
        """By how many seconds the times may be wrong, as far as they were put on another clock."""
        if isinstance(self.samples, Series):
            error = self.samples.within
        else:
            error = max((s.time.within for s in self.samples if s.time), default=0.0)
        if self.pace is None or self.seconds is None or self.clock is Clock.SESSION:
            return error
        return error + self.pace.overrun(float(self.seconds.max() - self.seconds.min()))

    @cached_property
    def pace(self) -> Pace | None:
        """The command that the times are taken from, where they were not printed."""
        if isinstance(self.samples, Series):
            return self.samples.pace
        return next((s.time.pace for s in self.samples if s.time and s.time.pace), None)

    @cached_property
    def name(self) -> str:
        """The entity for people, empty for the host."""
        return format_entity(self.entity)

    @cached_property
    def key(self) -> EntityKey:
        """What the entity is known by in every source."""
        return entity_key(self.entity)

    @property
    def metrics(self) -> AbstractSet[str]:
        """The names of all values in any row."""
        if isinstance(self.samples, Series):
            return self.samples.values.keys()
        return {name for s in self.samples for name in s.values}

    @cached_property
    def seconds(self) -> Floats | None:
        """The times of all rows, None without a clock."""
        return row_seconds(self.samples) if self.clock is not None else None

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per sample, one column per metric, NaN where the source printed nothing.

        `frame.attrs["columns"]` has unit and kind of every metric, as the vocabulary says.
        """
        import pandas

        rows = self.samples
        index = pandas.Index(range(len(rows)) if self.seconds is None else self.seconds, dtype=float)
        if isinstance(rows, Series):
            frame = pandas.DataFrame(dict(rows.values), index=index)
            further: dict[str, Any] = {
                "line": rows.lines,
                "since_boot": rows.since_boot if rows.since_boot is not None else False,
            }
        else:
            frame = pandas.DataFrame.from_records([dict(s.values) for s in rows], index=index)
            lines = pandas.Series([s.cite.line for s in rows], index=index, dtype=object)
            further = {"line": lines, "since_boot": [s.since_boot for s in rows]}
        known = {name: term(name) for name in frame.columns}
        units = {name: {"unit": told.unit, "kind": told.kind} if told else {} for name, told in known.items()}
        frame.attrs["columns"] = Columns(units)
        return frame.assign(**further)


@dataclass(frozen=True)
class Points:
    """Values with the samples that they stand for, one to one; `index` is seconds, or sample numbers."""

    values: Floats
    index: Floats
    samples: Samples
    timed: bool

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, end: int) -> Points:
        rows = slice(start, end)
        return Points(self.values[rows], self.index[rows], select_rows(self.samples, rows), self.timed)

    @property
    def span(self) -> tuple[Moment, Moment] | None:
        """First and last moment, None without a clock."""
        first, last = (row_time(self.samples, 0), row_time(self.samples, -1)) if self.samples else (None, None)
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
        return float(self.column[-1])

    @cached_property
    def points(self) -> Points:
        """The values with their times, or with the numbers of the rows (among all of a table of single rows)."""
        if self.seconds is not None:
            index = self.seconds
        elif isinstance(self.samples, Series) or isinstance(self.table.samples, Series):
            index = np.arange(len(self), dtype=np.float64)
        else:
            index = np.array([n for n, s in enumerate(self.table.samples) if has_value(s, self.metric)], np.float64)
        return Points(self.column, index, self.samples, self.has_times)

    # What is there for the asking is not kept again: there are several tracks of each of thousands of processes.

    @property
    def column(self) -> Floats:
        """The values."""
        return self.column_of(self.metric) if isinstance(self.samples, Series) else self._column_of_rows

    @cached_property
    def _column_of_rows(self) -> Floats:
        return self.column_of(self.metric)

    def column_of(self, metric: str) -> Floats:
        """Another metric of the same rows, NaN where a row does not have it."""
        return row_values(self.samples, metric)

    @property
    def seconds(self) -> Floats | None:
        """The times of the rows, None without a clock."""
        if not self.has_times:
            return None
        return self.samples.seconds if isinstance(self.samples, Series) else self._seconds_of_rows

    @cached_property
    def _seconds_of_rows(self) -> Floats | None:
        return row_seconds(self.samples)

    @cached_property
    def deltas(self) -> tuple[Floats, Bools]:
        """`counter_deltas` of it."""
        return counter_deltas(self.metric, self.column, self.seconds, self.own_boots)

    @property
    def own_boots(self) -> tuple[Moment, ...]:
        """The times at which counters began anew, on the clock of the rows."""
        return tuple(boot for boot in self.table.boots if boot.clock is self.table.clock)

    @property
    def has_times(self) -> bool:
        return self.table.clock is not None

    @property
    def resolution(self) -> float:
        """The largest quantum the source rounded to."""
        if isinstance(self.samples, Series):
            return self.samples.resolution.get(self.metric, 0.0)
        return self._resolution_of_rows

    @cached_property
    def _resolution_of_rows(self) -> float:
        return max((s.resolution.get(self.metric, 0.0) for s in self.samples), default=0.0)

    @property
    def duration(self) -> float | None:
        """Seconds from first to last sample, None without a clock."""
        first, last = row_time(self.samples, 0), row_time(self.samples, -1)
        return last.minus(first) if self.has_times and first and last else None

    def cite(self, at: int = -1) -> Citation:
        return self.samples.citation(at) if isinstance(self.samples, Series) else self.samples[at].cite

    @property
    def place(self) -> str:
        """Member and line of the first row."""
        if isinstance(self.samples, Series):
            return str(Citation(self.samples.member, int(self.samples.lines[0]) or None))
        return str(self.samples[0].cite)

    def within(self, start: float, end: float) -> Track:
        """The same without what lies outside of these seconds."""
        kept: Samples
        if not isinstance(self.samples, Series):
            kept = tuple(s for s in self.samples if s.time and start <= s.time.seconds <= end)
        elif (seconds := self.samples.seconds) is None:
            kept = self.samples.only(slice(0))
        else:
            kept = select_marked(self.samples, (seconds >= start) & (seconds <= end))
        return Track(self.metric, replace(self.table, samples=kept), kept)

    @property
    def name(self) -> str:
        """The entity for people, empty for the host."""
        return self.table.name


def counter_deltas(
    metric: str, values: Floats, seconds: Floats | None, boots: Iterable[Moment]
) -> tuple[Floats, Bools]:
    """What a counter grew by in each interval, and which of them count; rows of a matrix are counters of their own.

    Those count in which it was not reset, the host was not booted, and the clock went on. A gauge that falls was not
    reset: it fell.
    """
    deltas = np.diff(values)
    if (deltas < 0).any():
        deltas = _unwrap_counter(metric, values, deltas)
    known = term(metric)
    is_gauge = known is not None and known.kind == "gauge"
    counted = deltas >= (-np.inf if is_gauge else 0)
    if not is_gauge and not counted.all():
        counted &= ~_beside_false_values(values, ~counted)
    if seconds is not None:
        before, after = seconds[..., :-1], seconds[..., 1:]
        counted &= after > before
        for boot in boots:
            counted &= (before >= boot.seconds + boot.within) | (after < boot.seconds - boot.within)
    return deltas, counted


def _beside_false_values(values: Floats, fell: Bools) -> Bools:
    """Intervals of a counter that fell for one row only: one of two rows is damaged, for none that was reset is back
    where it was by the next row."""
    found = np.zeros(fell.shape, np.bool_)
    goes_on = values[..., 2:] >= values[..., :-2]
    found[..., :-1] |= fell[..., 1:] & goes_on  # rose to a false value
    found[..., 1:] |= fell[..., :-1] & goes_on  # rose from one
    return found


def _unwrap_counter(metric: str, values: Floats, deltas: Floats) -> Floats:
    """A counter of a 32-bit kernel begins anew at 2**32: near it, and if it went on about as fast as before."""
    known = term(metric)
    if known is None or known.unit not in UNSCALED:
        return deltas
    fastest = deltas.max(axis=-1, keepdims=True)
    near = (deltas < 0) & (values[..., :-1] > WRAP / 2) & (values[..., 1:] < WRAP / 2)
    near &= (values.max(axis=-1, keepdims=True) < WRAP) & (fastest > 0)
    return np.where(near & (deltas + WRAP <= MAX_SPEEDUP * fastest), deltas + WRAP, deltas)


def entity_key(entity: Entity) -> EntityKey:
    """What makes two entities of different sources the same: the pid (and which process of it), else all labels."""
    labels = dict(entity)
    if "pid" in labels:
        return ("pid", labels["pid"], labels.get(LIFE, ""))
    return tuple(f"{k}={v}" for k, v in entity)


def format_entity(entity: Entity) -> str:
    """An entity for people: `java (4711)`, `java (4711, the second of this pid)`, `node 0 zone Normal`."""
    labels = dict(entity)
    if "pid" in labels:
        life = f", {labels[LIFE]}" if LIFE in labels else ""
        return f"{labels['comm']} ({labels['pid']}{life})" if "comm" in labels else f"process {labels['pid']}{life}"
    return " ".join(f"{k} {v}" for k, v in entity)


def has_value(sample: Sample, metric: str) -> bool:
    """Whether a row has a value of a metric that was recorded, and is no average since boot."""
    value = sample.values.get(metric)
    return value is not None and value == value and not sample.since_boot  # NaN is no value


def row_values(samples: Samples, metric: str) -> Floats:
    """The column of a metric, NaN where a row does not have it."""
    if isinstance(samples, Series):
        known = samples.values.get(metric)
        return np.full(len(samples), np.nan) if known is None else known
    return np.array([s.values.get(metric, np.nan) for s in samples], np.float64)


def row_time(samples: Samples, at: int) -> Moment | None:
    """When a row was recorded, None if the source does not say."""
    return samples.time(at) if isinstance(samples, Series) else samples[at].time


def row_seconds(samples: Samples) -> Floats | None:
    """The times of rows that all have one, None without any."""
    if isinstance(samples, Series):
        return samples.seconds
    return np.array([s.time.seconds for s in samples if s.time], np.float64)


def select_rows(samples: Samples, keep: slice | Bools) -> Samples:
    """A part of rows: a stretch, or those marked."""
    if isinstance(samples, Series):
        return samples.only(keep) if isinstance(keep, slice) else select_marked(samples, keep)
    return samples[keep] if isinstance(keep, slice) else tuple(s for s, k in zip(samples, keep, strict=True) if k)


def select_marked(series: Series, keep: Bools) -> Series:
    """The rows that are marked; without copies where they are one stretch."""
    if keep.all():
        return series
    first, count = int(keep.argmax()), int(keep.sum())
    if keep[first : first + count].all():
        return series.only(slice(first, first + count))
    return series.only(keep)


def series_rows_having(series: Series, *metrics: str) -> Series:
    """The rows that have the metrics."""
    columns = [series.values.get(metric) for metric in metrics]
    if any(column is None for column in columns):
        return series.only(slice(0))
    return select_marked(series, np.all([column == column for column in columns], axis=0))


def rows_having(samples: Iterable[Sample | Series], metric: str) -> Iterator[Sample]:
    """The rows that have a metric, one by one."""
    for one in samples:
        if isinstance(one, Series):
            yield from series_rows_having(one, metric)
        elif metric in one.values:
            yield one


def last_row_having(samples: Iterable[Sample | Series], *metrics: str) -> Sample | None:
    """The latest of the rows that have the metrics. Where times do not tell, the last of the member with most of them.

    What a capture copied once when it began is read after what it recorded until its end. Of several captures the
    later one is given first (thpdiag.host.captures).
    """
    found: dict[str, tuple[int, Sample]] = {}  # by member how many rows, and the last of them, in reading order
    for one in samples:
        if any(metric not in one.values for metric in metrics):
            continue
        rows = series_rows_having(one, *metrics) if isinstance(one, Series) else (one,)
        if len(rows):
            before, _ = found.pop(one.cite.member, (0, None))
            found[one.cite.member] = before + len(rows), rows[len(rows) - 1]
    captures = capture_ranks(found)
    by_capture = sorted(reversed(found), key=lambda member: captures.get(root_of(member), 0))
    latest_first = [found[member] for member in by_capture]
    times = [row.time for _, row in latest_first]
    if all(times) and len({time.clock for time in times if time}) == 1:
        return max((row for _, row in latest_first), key=lambda row: row.time.seconds if row.time else 0.0)
    most = max((number for number, _ in latest_first), default=0)
    return next((row for number, row in latest_first if number == most), None)


GAP_FACTOR = 5.0  # times the usual interval: a sample that came late is no gap
MIN_GAP_SECONDS = 60.0  # seconds: a sampler that waits for a hung host for a minute has seen it hang
MIN_INTERVALS = 3  # intervals from which one is usual


def typical_interval(seconds: Floats) -> float:
    """The usual seconds from one sample to the next: the median; 0 if there is none."""
    steps = np.diff(seconds)
    steps = steps[steps > 0]
    return float(np.partition(steps, len(steps) // 2)[len(steps) // 2]) if len(steps) else 0.0


def find_gaps(seconds: Floats) -> Bools:
    """Which intervals are gaps; one less than there are samples."""
    steps = np.diff(seconds)
    if len(steps) < MIN_INTERVALS:
        return np.zeros(len(steps), np.bool_)
    return steps > max(GAP_FACTOR * typical_interval(seconds), MIN_GAP_SECONDS)


def gaps_between(points: Points) -> Bools:
    """The gaps between points; none without a clock."""
    if not points.timed or len(points) < 2:
        return np.zeros(max(len(points) - 1, 0), np.bool_)
    return find_gaps(points.index)


def usual_interval(points: Points) -> float:
    """The usual seconds from one value to the next, which each speaks for; 0 without a clock."""
    return typical_interval(points.index) if points.timed and len(points) > 1 else 0.0


def covered_seconds(track: Track) -> float | None:
    """The seconds that a recording speaks for, gaps left out; None without a clock."""
    seconds = track.seconds if len(track) > 1 else None
    if seconds is None:
        return None
    return float(np.abs(np.diff(seconds))[~find_gaps(seconds)].sum())


LONG_SECONDS = 300.0  # seconds: what lasts as long is worth a look in however long a recording
SHORT_SECONDS = 60.0  # seconds: a shorter one is a blip
MIN_SHARE = 0.1  # of a recording that is not long: what lasts as long is worth a look
BURST = 0.2  # of a recording: what takes as much of it is no burst
PAUSE_SECONDS = (60.0, 300.0)  # seconds between two bursts of one stretch
MAX_CALM_SAMPLES = 2  # samples that may be calm in one


class Stretch(NamedTuple):
    """From `first`, whose own value speaks of what was before it, to `last`. `excess` is by how many times the bound
    the values were beyond it, times seconds; `member` is where that was recorded, in `of` seconds (0: unknown)."""

    first: float
    last: float
    clock: Clock
    excess: float = 0.0
    member: str = ""
    of: float = 0.0

    @property
    def seconds(self) -> float:
        return self.last - self.first

    @property
    def is_burst(self) -> bool:
        """Whether it is short, and little of what was recorded: that it hurts more than a moment is not shown."""
        return self.seconds < min(SHORT_SECONDS, BURST * self.of)

    def overlap(self, other: Stretch) -> float:
        """The part of both together that they share."""
        if self.clock is not other.clock:
            return 0.0
        shared = min(self.last, other.last) - max(self.first, other.first)
        return max(shared, 0.0) / max(max(self.last, other.last) - min(self.first, other.first), 1e-9)


def min_stretch_seconds(seconds: float) -> float:
    """How long a stretch of a recording of so many seconds must be.

    What is no longer than a minute was recorded because it hurt: there a burst is worth a look (`Stretch.is_burst`).
    """
    if seconds <= SHORT_SECONDS:
        return MIN_SHARE * seconds
    return max(SHORT_SECONDS, min(LONG_SECONDS, MIN_SHARE * seconds))


def stretches_beyond(points: Points, low: float, high: float) -> Iterator[Stretch]:
    """The stretches of values above `low` and below `high` that are long enough; none without a clock."""
    first = row_time(points.samples, 0) if len(points) else None
    if not points.timed or first is None or len(points) < 2:
        return
    seconds, values = points.index, points.values
    fits = np.flatnonzero((values > low) & (values < high))
    if not len(fits):
        return
    usual, apart, whole = typical_interval(seconds), find_gaps(seconds), float(seconds[-1] - seconds[0])
    bound = low if low > float("-inf") else high
    excess = np.abs(values - bound) / max(abs(bound), 1e-12)
    for pause in PAUSE_SECONDS:
        for begin, end in _joined_bursts(seconds, fits, apart, max(pause, (MAX_CALM_SAMPLES + 1.5) * usual)):
            ahead = begin > 0 and not apart[begin - 1]
            start = float(seconds[begin - 1]) if ahead else float(seconds[begin]) - usual
            alone = begin == end and whole <= SHORT_SECONDS  # one value of a short recording is a blip
            if seconds[end] - start >= min_stretch_seconds(whole) and not alone:
                inside = fits[(fits >= begin) & (fits <= end)]
                much = float(excess[inside].sum()) * usual
                yield Stretch(start, float(seconds[end]), first.clock, much, points.samples[begin].cite.member, whole)


def _joined_bursts(
    seconds: Floats,
    fits: Ints,
    apart: Bools,
    pause: float,
) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch."""
    lost = np.concatenate(([0], np.cumsum(apart)))
    cut = (np.diff(seconds[fits]) > pause) | (np.diff(lost[fits]) > 0)
    begins = fits[np.concatenate(([True], cut))]
    ends = fits[np.concatenate((cut, [True]))]
    yield from zip(begins.tolist(), ends.tolist(), strict=True)


Gap = tuple[Moment, Moment]


def sampling_interval(records: Iterable[Record]) -> tuple[float | None, tuple[Gap, ...]]:
    """Usual seconds between rows, and where far more passed; of the entity and clock with the most rows.

    None with fewer than two different times.
    """
    found: dict[tuple[str, Entity, Clock], list[float]] = {}
    for record in records:
        if isinstance(record, Series) and record.seconds is not None and record.clock:
            known = record.seconds[record.seconds == record.seconds]
            found.setdefault((record.kind, record.entity, record.clock), []).extend(known.tolist())
        elif isinstance(record, Sample) and record.time:
            found.setdefault((record.kind, record.entity, record.time.clock), []).append(record.time.seconds)
    (_, _, clock), seconds = max(found.items(), key=lambda of_entity: len(of_entity[1]), default=(("", (), None), []))
    times = sorted(set(seconds))
    if clock is None or len(times) < 2:
        return None, ()
    gaps = np.flatnonzero(find_gaps(np.array(times))).tolist()
    return typical_interval(np.array(times)), tuple(
        (Moment(times[at], clock), Moment(times[at + 1], clock)) for at in gaps
    )
