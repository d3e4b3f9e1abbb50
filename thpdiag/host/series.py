"""Series: rows of one source (Table), one metric of it (Track), its values with their times (Points), and intervals.

The rows of one source (member and parser) about one entity are one Table. Sources are never merged. A Track is one
metric of a table; its Points are the values with their times: seconds on the source's clock or, without a clock, sample
numbers. All computation uses these columns. `Table.frame` is the whole table for interactive use with pandas, which is
loaded only then.

Intervals are the sampling interval, gaps, and stretches in which a value is beyond a bound. A gap means that the
recorder was stopped or the host was down or hung; what happened in it is unknown. A value describes the interval before
it, but not hours without samples. The mean or growth of a day says nothing about ten minutes of it. Each stretch is
given twice where that differs: without long pauses, and including the pauses between bursts.
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

LIFE = "life"  # the label that distinguishes processes of one pid
WRAP = 2.0**32  # 32-bit kernels: counters wrap here
UNSCALED = ("1", "pages", "blocks")  # units in which the value is the kernel's own number
MAX_SPEEDUP = 4.0  # times the fastest interval without a reset: a larger growth is a reset, no wrap
MAX_CLOCK_ERROR = 0.1  # share of the time common to two sources by which their clocks may be wrong
Samples = tuple[Sample, ...] | Series
EntityKey = tuple[str, ...]


class Columns(dict[str, Mapping[str, str]]):
    """Unit and kind by metric, never copied: pandas deep-copies attributes with every operation."""

    def __deepcopy__(self, memo: object) -> Columns:
        return self


@dataclass(frozen=True)
class Table:
    """All rows of one source about one entity, in reading order. `boots` are the times at which counters were reset."""

    member: str
    reader: str
    kind: str
    entity: Entity
    samples: Samples
    boots: tuple[Moment, ...] = ()

    @cached_property
    def parts(self) -> dict[bytes, Series]:
        """A cache of row selections by their mask: metrics that occur in the same rows share one."""
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
        """The seconds by which the times may be wrong because they were converted from another clock."""
        if isinstance(self.samples, Series):
            error = self.samples.within
        else:
            error = max((s.time.within for s in self.samples if s.time), default=0.0)
        if self.pace is None or self.seconds is None or self.clock is Clock.SESSION:
            return error
        return error + self.pace.overrun(float(self.seconds.max() - self.seconds.min()))

    @cached_property
    def pace(self) -> Pace | None:
        """The command from which the times are inferred if none were printed."""
        if isinstance(self.samples, Series):
            return self.samples.pace
        return next((s.time.pace for s in self.samples if s.time and s.time.pace), None)

    @cached_property
    def name(self) -> str:
        """The display name of the entity, empty for the host."""
        return format_entity(self.entity)

    @cached_property
    def key(self) -> EntityKey:
        """The key of the entity, the same in every source."""
        return entity_key(self.entity)

    @property
    def metrics(self) -> AbstractSet[str]:
        """The names of all metrics that occur in any row."""
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

        `frame.attrs["columns"]` maps each metric to its unit and kind in the vocabulary.
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
        units = {name: {"unit": t.unit, "kind": t.kind} if t else {} for name, t in known.items()}
        frame.attrs["columns"] = Columns(units)
        return frame.assign(**further)


@dataclass(frozen=True)
class Points:
    """Values with their samples, one to one; `index` is seconds, or sample numbers without a clock."""

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
        """The first and last moment, None without a clock."""
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
        """The values with their times, or with row numbers (of the whole table if its rows are single samples)."""
        if self.seconds is not None:
            index = self.seconds
        elif isinstance(self.samples, Series) or isinstance(self.table.samples, Series):
            index = np.arange(len(self), dtype=np.float64)
        else:
            index = np.array([n for n, s in enumerate(self.table.samples) if has_value(s, self.metric)], np.float64)
        return Points(self.column, index, self.samples, self.has_times)

    # Columns of a Series are not cached a second time here: thousands of processes have several tracks each.

    @property
    def column(self) -> Floats:
        """The values."""
        return self.column_of(self.metric) if isinstance(self.samples, Series) else self._column_of_rows

    @cached_property
    def _column_of_rows(self) -> Floats:
        return self.column_of(self.metric)

    def column_of(self, metric: str) -> Floats:
        """Return another metric of the same rows, NaN where a row lacks it."""
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
        """The result of `counter_deltas` for this track."""
        return counter_deltas(self.metric, self.column, self.seconds, self.own_boots)

    @property
    def own_boots(self) -> tuple[Moment, ...]:
        """The times at which counters were reset that are on the clock of the rows."""
        return tuple(boot for boot in self.table.boots if boot.clock is self.table.clock)

    @property
    def has_times(self) -> bool:
        return self.table.clock is not None

    @property
    def resolution(self) -> float:
        """The largest quantum to which the source rounded."""
        if isinstance(self.samples, Series):
            return self.samples.resolution.get(self.metric, 0.0)
        return self._resolution_of_rows

    @cached_property
    def _resolution_of_rows(self) -> float:
        return max((s.resolution.get(self.metric, 0.0) for s in self.samples), default=0.0)

    @property
    def duration(self) -> float | None:
        """The seconds from first to last sample, None without a clock."""
        first, last = row_time(self.samples, 0), row_time(self.samples, -1)
        return last.minus(first) if self.has_times and first and last else None

    def cite(self, row: int = -1) -> Citation:
        return self.samples.citation(row) if isinstance(self.samples, Series) else self.samples[row].cite

    @property
    def place(self) -> str:
        """Member and line of the first row."""
        if isinstance(self.samples, Series):
            return str(Citation(self.samples.member, int(self.samples.lines[0]) or None))
        return str(self.samples[0].cite)

    def within(self, start: float, end: float) -> Track:
        """Return the track of the rows between two times, given in seconds."""
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
        """The display name of the entity, empty for the host."""
        return self.table.name


def counter_deltas(
    metric: str, values: Floats, seconds: Floats | None, boots: Iterable[Moment]
) -> tuple[Floats, Bools]:
    """Return the growth of a counter in each interval and the mask of valid intervals; a matrix has a counter per row.

    An interval is valid if the counter was not reset, the host was not booted and the clock advanced in it. A gauge is
    never reset: it falls.
    """
    deltas = np.diff(values)
    if (deltas < 0).any():
        deltas = _unwrap_counter(metric, values, deltas)
    known = term(metric)
    is_gauge = known is not None and known.kind == "gauge"
    counted = deltas >= (-np.inf if is_gauge else 0)
    if not is_gauge and not counted.all():
        counted &= ~_has_outlier(values, ~counted)
    if seconds is not None:
        before, after = seconds[..., :-1], seconds[..., 1:]
        counted &= after > before
        for boot in boots:
            counted &= (before >= boot.seconds + boot.within) | (after < boot.seconds - boot.within)
    return deltas, counted


def _has_outlier(values: Floats, fell: Bools) -> Bools:
    """Return the mask of intervals next to a single false value: a counter that recovers by the next row was not reset,
    one of the rows is damaged."""
    touched = np.zeros(fell.shape, np.bool_)
    recovers = values[..., 2:] >= values[..., :-2]
    touched[..., :-1] |= fell[..., 1:] & recovers  # the false value is at the end
    touched[..., 1:] |= fell[..., :-1] & recovers  # the false value is at the start
    return touched


def _unwrap_counter(metric: str, values: Floats, deltas: Floats) -> Floats:
    """Return the deltas, corrected where a 32-bit counter near 2**32 wrapped and went on at a similar rate."""
    known = term(metric)
    if known is None or known.unit not in UNSCALED:
        return deltas
    fastest = deltas.max(axis=-1, keepdims=True)
    near = (deltas < 0) & (values[..., :-1] > WRAP / 2) & (values[..., 1:] < WRAP / 2)
    near &= (values.max(axis=-1, keepdims=True) < WRAP) & (fastest > 0)
    return np.where(near & (deltas + WRAP <= MAX_SPEEDUP * fastest), deltas + WRAP, deltas)


def entity_key(entity: Entity) -> EntityKey:
    """Return what identifies an entity across sources: the pid (with the process of that pid), else all labels."""
    labels = dict(entity)
    if "pid" in labels:
        return ("pid", labels["pid"], labels.get(LIFE, ""))
    return tuple(f"{k}={v}" for k, v in entity)


def format_entity(entity: Entity) -> str:
    """Return the display name: `java (4711)`, `java (4711, the second of this pid)`, `node 0 zone Normal`."""
    labels = dict(entity)
    if "pid" in labels:
        life = f", {labels[LIFE]}" if LIFE in labels else ""
        return f"{labels['comm']} ({labels['pid']}{life})" if "comm" in labels else f"process {labels['pid']}{life}"
    return " ".join(f"{k} {v}" for k, v in entity)


def has_value(sample: Sample, metric: str) -> bool:
    """Whether a row has a recorded value of a metric that is not an average since boot."""
    value = sample.values.get(metric)
    return value is not None and value == value and not sample.since_boot  # NaN is no value


def row_values(samples: Samples, metric: str) -> Floats:
    """Return the column of a metric, NaN where a row lacks it."""
    if isinstance(samples, Series):
        known = samples.values.get(metric)
        return np.full(len(samples), np.nan) if known is None else known
    return np.array([s.values.get(metric, np.nan) for s in samples], np.float64)


def row_time(samples: Samples, row: int) -> Moment | None:
    """Return when a row was recorded, None if the source does not state it."""
    return samples.time(row) if isinstance(samples, Series) else samples[row].time


def row_seconds(samples: Samples) -> Floats | None:
    """Return the times of rows that all have one; None if a Series has no times."""
    if isinstance(samples, Series):
        return samples.seconds
    return np.array([s.time.seconds for s in samples if s.time], np.float64)


def select_rows(samples: Samples, keep: slice | Bools) -> Samples:
    """Return a slice of rows, or those marked."""
    if isinstance(samples, Series):
        return samples.only(keep) if isinstance(keep, slice) else select_marked(samples, keep)
    return samples[keep] if isinstance(keep, slice) else tuple(s for s, k in zip(samples, keep, strict=True) if k)


def select_marked(series: Series, keep: Bools) -> Series:
    """Return the marked rows, as views without copying if they are consecutive."""
    if keep.all():
        return series
    first, count = int(keep.argmax()), int(keep.sum())
    if keep[first : first + count].all():
        return series.only(slice(first, first + count))
    return series.only(keep)


def series_rows_having(series: Series, *metrics: str) -> Series:
    """Return the rows that have all of the metrics."""
    columns = [series.values.get(metric) for metric in metrics]
    if any(column is None for column in columns):
        return series.only(slice(0))
    return select_marked(series, np.all([column == column for column in columns], axis=0))


def rows_having(samples: Iterable[Sample | Series], metric: str) -> Iterator[Sample]:
    """Yield the rows that have a metric, one by one."""
    for rows in samples:
        if isinstance(rows, Series):
            yield from series_rows_having(rows, metric)
        elif metric in rows.values:
            yield rows


def last_row_having(samples: Iterable[Sample | Series], *metrics: str) -> Sample | None:
    """Return the latest row that has the metrics; without comparable times, the last of the member with the most rows.

    That member is preferred because a capture copies some files once at its start and records others until its end. Of
    several captures, the later one comes first in the input (thpdiag.host.captures).
    """
    last_rows: dict[str, tuple[int, Sample]] = {}  # by member in reading order: number of rows and the last one
    for part in samples:
        if any(metric not in part.values for metric in metrics):
            continue
        rows = series_rows_having(part, *metrics) if isinstance(part, Series) else (part,)
        if len(rows):
            before, _ = last_rows.pop(part.cite.member, (0, None))
            last_rows[part.cite.member] = before + len(rows), rows[len(rows) - 1]
    captures = capture_ranks(last_rows)
    by_capture = sorted(reversed(last_rows), key=lambda member: captures.get(root_of(member), 0))
    latest_first = [last_rows[member] for member in by_capture]
    times = [row.time for _, row in latest_first]
    if all(times) and len({time.clock for time in times if time}) == 1:
        return max((row for _, row in latest_first), key=lambda row: row.time.seconds if row.time else 0.0)
    most = max((number for number, _ in latest_first), default=0)
    return next((row for number, row in latest_first if number == most), None)


GAP_FACTOR = 5.0  # times the usual interval: a late sample is no gap
MIN_GAP_SECONDS = 60.0  # a sampler that was blocked for a minute by a hung host still observed the hang
MIN_INTERVALS = 3  # fewer intervals have no usual length


def typical_interval(seconds: Floats) -> float:
    """Return the median of the positive intervals in seconds; 0 if there is none."""
    steps = np.diff(seconds)
    steps = steps[steps > 0]
    return float(np.partition(steps, len(steps) // 2)[len(steps) // 2]) if len(steps) else 0.0


def find_gaps(seconds: Floats) -> Bools:
    """Return the mask of intervals that are gaps; it is one shorter than the samples."""
    steps = np.diff(seconds)
    if len(steps) < MIN_INTERVALS:
        return np.zeros(len(steps), np.bool_)
    return steps > max(GAP_FACTOR * typical_interval(seconds), MIN_GAP_SECONDS)


def gaps_between(points: Points) -> Bools:
    """Return the mask of gaps between points; no gaps without a clock."""
    if not points.timed or len(points) < 2:
        return np.zeros(max(len(points) - 1, 0), np.bool_)
    return find_gaps(points.index)


def usual_interval(points: Points) -> float:
    """Return the usual seconds between two values; 0 without a clock."""
    return typical_interval(points.index) if points.timed and len(points) > 1 else 0.0


def covered_seconds(track: Track) -> float | None:
    """Return the recorded seconds without gaps; None without a clock."""
    seconds = track.seconds if len(track) > 1 else None
    if seconds is None:
        return None
    return float(np.abs(np.diff(seconds))[~find_gaps(seconds)].sum())


LONG_SECONDS = 300.0  # a stretch this long is significant in a recording of any length
SHORT_SECONDS = 60.0  # a shorter stretch of a longer recording is ignored
MIN_STRETCH_SHARE = 0.1  # of a recording that is not long: a stretch of this share is significant
MAX_BURST_SHARE = 0.2  # of a recording: a stretch of a larger share is no burst
PAUSE_SECONDS = (60.0, 300.0)  # longest pause between two bursts of one stretch
MAX_CALM_SAMPLES = 2  # consecutive samples within the bound that a stretch may contain


class Stretch(NamedTuple):
    """The time from `first` (exclusive) to `last`, on a clock.

    `excess` is how far the values were beyond the bound, relative to it, times seconds. `member` is the recording, and
    `recorded_seconds` its length (0: unknown).
    """

    first: float
    last: float
    clock: Clock
    excess: float = 0.0
    member: str = ""
    recorded_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.last - self.first

    @property
    def is_burst(self) -> bool:
        """Whether it is short and only a small part of the recording, so that it may be a momentary effect."""
        return self.seconds < min(SHORT_SECONDS, MAX_BURST_SHARE * self.recorded_seconds)

    def overlap(self, other: Stretch) -> float:
        """Return the time that both share, relative to the time that they cover together."""
        if self.clock is not other.clock:
            return 0.0
        shared = min(self.last, other.last) - max(self.first, other.first)
        return max(shared, 0.0) / max(max(self.last, other.last) - min(self.first, other.first), 1e-9)


def min_stretch_seconds(seconds: float) -> float:
    """Return the minimum length of a significant stretch in a recording of so many seconds.

    A recording of at most a minute was made because of a problem, so that a burst in it counts (`Stretch.is_burst`).
    """
    if seconds <= SHORT_SECONDS:
        return MIN_STRETCH_SHARE * seconds
    return max(SHORT_SECONDS, min(LONG_SECONDS, MIN_STRETCH_SHARE * seconds))


def stretches_beyond(points: Points, low: float, high: float) -> Iterator[Stretch]:
    """Yield the stretches of values above `low` and below `high` that are long enough; none without a clock."""
    first = row_time(points.samples, 0) if len(points) else None
    if not points.timed or first is None or len(points) < 2:
        return
    seconds, values = points.index, points.values
    fits = np.flatnonzero((values > low) & (values < high))
    if not len(fits):
        return
    usual, gaps, duration = typical_interval(seconds), find_gaps(seconds), float(seconds[-1] - seconds[0])
    bound = low if low > float("-inf") else high
    excess = np.abs(values - bound) / max(abs(bound), 1e-12)
    for pause in PAUSE_SECONDS:
        for begin, end in _join_bursts(seconds, fits, gaps, max(pause, (MAX_CALM_SAMPLES + 1.5) * usual)):
            has_previous = begin > 0 and not gaps[begin - 1]
            start = float(seconds[begin - 1]) if has_previous else float(seconds[begin]) - usual
            is_single = begin == end and duration <= SHORT_SECONDS  # a single value of a short recording is ignored
            if seconds[end] - start >= min_stretch_seconds(duration) and not is_single:
                inside = fits[(fits >= begin) & (fits <= end)]
                total_excess = float(excess[inside].sum()) * usual
                member = points.samples[begin].cite.member
                yield Stretch(start, float(seconds[end]), first.clock, total_excess, member, duration)


def _join_bursts(seconds: Floats, fits: Ints, gaps: Bools, pause: float) -> Iterator[tuple[int, int]]:
    """Yield the indices of the first and last value of each stretch."""
    gap_counts = np.concatenate(([0], np.cumsum(gaps)))
    cut = (np.diff(seconds[fits]) > pause) | (np.diff(gap_counts[fits]) > 0)
    begins = fits[np.concatenate(([True], cut))]
    ends = fits[np.concatenate((cut, [True]))]
    yield from zip(begins.tolist(), ends.tolist(), strict=True)


Gap = tuple[Moment, Moment]


def sampling_interval(records: Iterable[Record]) -> tuple[float | None, tuple[Gap, ...]]:
    """Return the usual seconds between rows and the gaps, of the entity and clock with the most rows.

    The interval is None with fewer than two different times.
    """
    times_by_source: dict[tuple[str, Entity, Clock], list[float]] = {}
    for record in records:
        if isinstance(record, Series) and record.seconds is not None and record.clock:
            known = record.seconds[record.seconds == record.seconds]
            times_by_source.setdefault((record.kind, record.entity, record.clock), []).extend(known.tolist())
        elif isinstance(record, Sample) and record.time:
            times_by_source.setdefault((record.kind, record.entity, record.time.clock), []).append(record.time.seconds)
    (_, _, clock), seconds = max(times_by_source.items(), key=lambda item: len(item[1]), default=(("", (), None), []))
    times = sorted(set(seconds))
    if clock is None or len(times) < 2:
        return None, ()
    gaps = np.flatnonzero(find_gaps(np.array(times))).tolist()
    return typical_interval(np.array(times)), tuple(
        (Moment(times[row], clock), Moment(times[row + 1], clock)) for row in gaps
    )
