"""The metrics of a state: the tracks of each metric, best source first, for all times or for a stretch.

The best source is the one that covers the time in question; among those, the one with the finest resolution, then the
one with the most samples. (A counter and the rate that another tool computed from it have different names; checks ask
for the counter first.) Sources are never merged.

Order of rows: a file may have been appended twice, in the wrong order, or sorted by another column, and growth is
summed over consecutive rows. Times also go back when a clock is set back (or in the repeated hour in autumn); then the
order of the file is right. Sorting distinguishes the two: if sorting is right, a counter falls less often, or the
stretches of the file follow one another instead of interleaving.

A stretch of a counter includes the last reading before it. An average, such as a share of CPU time, describes the
interval before its row. Rows without times, or with times of another clock, are not in a stretch; single readings
without a time (settings, sizes) are.

Rows of a reused pid are split by the start time of the process: ticks since boot or seconds since 1970, depending on
the source. If a source has neither, a counter reset marks a new process (page faults and CPU time of a process never
fall, and exec keeps them).

`process_touched_bytes_total` is an upper bound of what a process touched: the most that its own page faults can have
added to its memory. It is computed from, most exact first:

- its faults: one huge page each. Rates that a tool prints per second are integrated; the error includes the rounding
  and the uncertainty of the row times.
- its context switches: the process can have grown by itself only between two samples between which it ran. (One
  thread, which slept at both samples: /proc/PID/status.)
- its CPU time: no CPU fills 64 GiB of memory in a second (a bound of thpdiag's own). Mapping files and shared memory
  costs less, so their growth is added. (top)

None of them is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any

from thpdiag.detect.timestamps import without_date
from thpdiag.host.series import (
    LIFE,
    MAX_CLOCK_ERROR,
    EntityKey,
    Samples,
    Stretch,
    Table,
    Track,
    covered_seconds,
    entity_key,
    find_gaps,
    has_value,
    row_seconds,
    row_values,
    select_marked,
    select_rows,
    typical_interval,
)
from thpdiag.knowledge.paths import capture_ranks, root_of
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Entity, Moment, Sample, Series
from thpdiag.model.case import member_of
from thpdiag.model.numeric import Array, Bools, Floats, Ints, np

TOUCHED = "process_touched_bytes_total"
FAULTS, FAULT_BYTES = "process_faults_total", "process_fault_bytes_total"
SWITCHES = "process_context_switches_total"
CPU_TIME, SHARED = "process_cpu_seconds_total", "process_rss_shared_bytes"
RESIDENT = "process_resident_memory_bytes"
MAX_FILL_RATE = 64 * 2.0**30  # bytes per second that one CPU can touch
LATE_FACTOR = 1.5  # times the usual interval: after a longer one, rows are missing
CLOCK_SECONDS = 1.0  # resolution of the times that most tools print


def integral(metric: str, rate: Track, *, lists_active: bool) -> Track | None:
    """Return the counter that a tool's rates imply, from the row before the first rate on.

    A rate is that of the interval before its row. A tool that omits idle entities (`lists_active`) counted nothing
    where rows are missing, unless the rate covers all that time. For other tools the growth over missing rows is
    unknown, and the result is None.
    """
    seconds, values, table_seconds = rate.seconds, rate.column, rate.table.seconds
    if seconds is None or table_seconds is None or not len(seconds) or (np.diff(seconds) <= 0).any():
        return None
    earlier = np.flatnonzero(table_seconds < seconds[0])
    rows = rate.samples
    if len(earlier):
        row = int(earlier[table_seconds[earlier].argmax()])
        rows, seconds = _with_row(rate.table.samples, row, rows), np.concatenate(([table_seconds[row]], seconds))
    else:
        values = values[1:]
    steps, usual = np.diff(seconds), typical_interval(seconds)
    late = steps > LATE_FACTOR * usual
    if not len(steps) or (late.any() and not lists_active):
        return None
    error = float(steps.sum() * rate.resolution + (np.where(late, steps - usual, 0.0) * values).sum())
    if (seconds == np.floor(seconds)).all():  # each row may be earlier or later by half a second
        error += CLOCK_SECONDS / 2 * float(np.abs(np.diff(values, prepend=0.0, append=0.0)).sum())
    return _as_track(metric, rate.table, rows, np.concatenate(([0.0], np.cumsum(values * steps))), error / 2)


def touched_by_switches(resident: Track) -> Track:
    """Return the growth over the intervals in which the process may have run."""
    switches = resident.column_of(SWITCHES)
    grown, slept = np.maximum(np.diff(resident.column), 0.0), np.diff(switches) == 0  # NaN (unknown) is not 0
    column = np.concatenate(([0.0], np.cumsum(np.where(slept, 0.0, grown))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, resident.resolution)


def touched_by_cpu_time(resident: Track, cpu_quantum: float, shared_quantum: float) -> Track | None:
    """Return what the CPU time of the process can have touched, plus the growth of its files and shared memory."""
    used, shared = np.diff(resident.column_of(CPU_TIME)), np.diff(resident.column_of(SHARED))
    if not (used >= 0).all() or (shared != shared).any():
        return None
    column = np.concatenate(([0.0], np.cumsum(used * MAX_FILL_RATE + np.maximum(shared, 0.0))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, cpu_quantum * MAX_FILL_RATE + shared_quantum)


def _as_track(metric: str, table: Table, rows: Samples, column: Floats, quantum: float) -> Track:
    """Return a track of these rows with another column.

    Without a clock, points are numbered by row: a track of only some rows gets a copy of the table of its own.
    """
    samples: Samples
    if isinstance(rows, Series):
        samples = replace(rows, values={metric: column}, resolution={metric: quantum}, since_boot=None)
    else:
        samples = tuple(
            replace(row, values={metric: value}, resolution={metric: quantum}, since_boot=False)
            for row, value in zip(rows, column.tolist(), strict=True)
        )
    resident = row_values(table.samples, RESIDENT)
    has_all_rows = len(samples) == int((resident == resident).sum())
    return Track(metric, table if has_all_rows else replace(table), samples)


def _with_row(samples: Samples, row: int, rows: Samples) -> Samples:
    """Return rows of a table together with an earlier row."""
    if not isinstance(samples, Series):
        return (samples[row], *rows)
    keep = np.isin(samples.lines, rows.lines if isinstance(rows, Series) else ())
    keep[row] = True
    return samples.only(keep)


START_METRICS = ("process_start_time_ticks", "process_start_time_seconds")
MONOTONIC_METRICS = (
    "process_minor_faults_total", "process_cpu_seconds_total.user", "process_cpu_seconds_total.system",
)  # fmt: skip
# Growth of resident memory in an input without the metrics on the right; with one of them the growth counts as 0.
RESIDENT_WITHOUT = {
    "process_resident_uncounted_bytes": (FAULT_BYTES,),
    "process_resident_alone_bytes": (FAULT_BYTES, "process_anon_huge_bytes"),
}
COMPUTED = (FAULTS, FAULT_BYTES, TOUCHED)  # counters of a process that follow from other columns
ONLY_ACTIVE = frozenset({"pidstat"})  # parsers of tools that omit idle processes
MAX_START_DIFFERENCE_SECONDS = 2.0  # between two readings of one start: tools compute it from the uptime
TICKS_PER_SECOND = 100  # as programs see it (USER_HZ of all common architectures)

Start = tuple[str, float]  # metric and value; if no start is known, the member and the number of resets before
UNKNOWN: Start = ("", 0.0)
Part = tuple[Start, Sample | Series]


def split_by_start(parts: Sequence[Sample | Series]) -> list[Part]:
    """Return the rows of one pid of one source, each with the start of its process.

    A row without a start gets that of the row before it; rows before the first known start get that one.
    """
    started = [part for rows in parts for part in _split_where_start_changes(rows)]
    current = next((start for start, _ in started if start[0]), UNKNOWN)
    if current is UNKNOWN:
        resets = _Resets(member_of(parts[0]))
        return [cut for part in parts for cut in resets.split(part)]
    filled = []
    for start, part in started:
        current = start if start[0] else current
        filled.append((current, part))
    return filled


def _split_where_start_changes(rows: Sample | Series) -> list[Part]:
    """Return a row, or a series cut where the start changes; rows without a start belong to the row above."""
    name = next((name for name in START_METRICS if name in rows.values), "")
    if not name:
        return [(UNKNOWN, rows)]
    if isinstance(rows, Sample):
        return [((name, rows.values[name]), rows)]
    column = rows.values[name]
    known = np.flatnonzero(column == column)
    if not len(known):
        return [(UNKNOWN, rows)]
    changed = known[1:][np.diff(column[known]) != 0]
    cuts = [0, *changed.tolist(), len(rows)]
    return [
        ((name, float(column[known[np.searchsorted(known, first)]])), rows.only(slice(first, end)))
        for first, end in pairwise(cuts)
    ]


@dataclass(slots=True)
class _Resets:
    """Splits rows without a start at counter resets. `number` counts the resets, `last` are the last counter values."""

    member: str
    number: int = 0
    last: dict[str, float] = field(default_factory=dict)

    def split(self, rows: Sample | Series) -> list[Part]:
        """Return a row, or a series cut at resets."""
        if isinstance(rows, Sample):
            known = {name: rows.values[name] for name in MONOTONIC_METRICS if name in rows.values}
            self.number += any(value < self.last.get(name, 0.0) for name, value in known.items())
            self.last |= known
            return [((self.member, float(self.number)), rows)]
        falls = np.zeros(len(rows), np.bool_)
        for name in MONOTONIC_METRICS:
            if name in rows.values:
                falls |= self._falls(name, rows.values[name])
        if not falls.any():
            return [((self.member, float(self.number)), rows)]
        numbers = self.number + np.cumsum(falls)
        self.number = int(numbers[-1])
        return [((self.member, float(n)), select_marked(rows, numbers == n)) for n in np.unique(numbers).tolist()]

    def _falls(self, name: str, column: Floats) -> Bools:
        known = np.flatnonzero(column == column)
        falls = np.zeros(len(column), np.bool_)
        if len(known):
            values = column[known]
            falls[known] = np.diff(values, prepend=self.last.get(name, values[0])) < 0
            self.last[name] = float(values[-1])
        return falls


def start_labels(starts: Sequence[Start]) -> Mapping[Start, str]:
    """Return by start a label that distinguishes the processes of one pid; empty if there is only one process."""
    labels: dict[Start, str] = {}
    for kind in dict.fromkeys(name for name, _ in starts):
        groups: list[list[float]] = []  # readings of the same start
        for value in sorted({value for name, value in starts if name == kind}):
            tolerance = MAX_START_DIFFERENCE_SECONDS if kind == START_METRICS[1] else 0.0
            if groups and value - groups[-1][-1] <= tolerance:
                groups[-1].append(value)
            else:
                groups.append([value])
        for group in groups:
            label = _describe_start(kind, group[0]) if len(groups) > 1 else ""
            labels |= {(kind, value): label for value in group}
    return labels


def _describe_start(kind: str, value: float) -> str:
    if kind == START_METRICS[0]:
        return f"started {value / TICKS_PER_SECOND:.2f} s after boot"
    if kind == START_METRICS[1]:
        return f"started at {datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"
    return f"after {value:.0f} others in {kind}"


def join_series(parts: Sequence[Series]) -> Series:
    """Return one Series of all rows in line order, NaN where a part lacks a metric.

    The parts must have the same member, parser, entity and clock.
    """
    if len(parts) == 1:
        return parts[0]

    def join_columns(columns: Iterable[Array[Any] | None], missing: float) -> Array[Any]:
        dtype = np.bool_ if missing is False else np.float64
        filled = [
            np.full(len(part), missing, dtype) if column is None else column
            for part, column in zip(parts, columns, strict=True)
        ]
        return np.concatenate(filled)[order]

    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    names = dict.fromkeys(name for part in parts for name in part.values)
    resolution: dict[str, float] = {}
    for name, quantum in (item for part in parts for item in part.resolution.items()):
        resolution[name] = max(quantum, resolution.get(name, 0.0))
    timed = any(part.seconds is not None for part in parts)
    marked = any(part.since_boot is not None for part in parts)
    text, starts, ends = _join_texts(parts)
    return replace(
        parts[0],
        entity=parts[-1].entity,
        values={name: join_columns((part.values.get(name) for part in parts), np.nan) for name in names},
        lines=lines[order],
        seconds=join_columns((part.seconds for part in parts), np.nan) if timed else None,
        clock=next((part.clock for part in parts if part.clock), None),
        resolution=resolution,
        since_boot=join_columns((part.since_boot for part in parts), missing=False) if marked else None,
        within=max(part.within for part in parts),
        text=text,
        starts=None if starts is None else starts[order],
        ends=None if ends is None else ends[order],
    )


def _join_texts(parts: Sequence[Series]) -> tuple[bytes, Ints | None, Ints | None]:
    """Return the text of all rows with the start and end of each; empty if a part keeps no text.

    Parts that share one text keep it as it is: one text may hold the rows of thousands of processes.
    """
    starts = [part.starts for part in parts if part.starts is not None]
    ends = [part.ends for part in parts if part.ends is not None]
    if len(starts) < len(parts) or len(ends) < len(parts):
        return b"", None, None
    begin, end = np.concatenate(starts), np.concatenate(ends)
    if all(part.text is parts[0].text for part in parts):
        return parts[0].text, begin, end
    texts = (part.text for part in parts for _ in range(len(part)))
    rows = [text[a:b] for text, a, b in zip(texts, begin.tolist(), end.tolist(), strict=True)]
    offsets = np.cumsum([0, *map(len, rows)])
    return b"".join(rows), offsets[:-1], offsets[1:]


def sort_by_time(samples: Samples, metric: str) -> Samples:
    """Return the rows of a metric sorted by time without duplicates, or unchanged if their order is right.

    All rows must be on one clock. The module's docstring describes the decision.
    """
    seconds = row_seconds(samples)
    if seconds is None or not (seconds[1:] < seconds[:-1]).any():
        return samples
    values = row_values(samples, metric)
    order = np.lexsort((values, seconds))
    duplicate = (np.diff(seconds[order]) == 0) & (np.diff(values[order]) == 0)
    order = order[np.concatenate(([True], ~duplicate))]
    known = term(metric)
    falls = [int((np.diff(column) < 0).sum()) for column in (values, values[order])]
    if known is not None and known.kind == "counter" and falls[0] != falls[1]:
        better = falls[1] < falls[0]
    else:
        back = np.diff(seconds) < 0
        stretch = np.concatenate(([0], np.cumsum(back)))[order]
        better = int((np.diff(stretch) != 0).sum()) <= 2 * int(back.sum())
    if not better:
        return samples
    return samples.only(order) if isinstance(samples, Series) else tuple(samples[row] for row in order.tolist())


MAX_SECONDS_BETWEEN_SNAPSHOTS = 3600.0
MIN_COVERAGE = 0.9  # of the time that the longest source covers: a source below that covers only a part
MEMORY_METRICS = "process_virtual_memory_bytes", "process_resident_memory_bytes"
HOST = "system"  # the entity kind of rows about the whole host


def make_tables(samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> tuple[Table, ...]:
    """Return the rows by source and entity. In one source a process is one entity even if its name changes."""
    groups: dict[tuple[object, ...], list[Sample | Series]] = {}
    for sample in samples:
        pid = _pid(sample.entity)
        clock = sample.clock if isinstance(sample, Series) else None
        key = (
            member_of(sample), sample.reader, sample.kind, ("pid", pid) if pid else sample.entity, clock,
            session_stretch(sample),
        )  # fmt: skip
        groups.setdefault(key, []).append(sample)
    groups = _join_dated_snapshots(groups)
    parts_by_pid: dict[str, list[tuple[Start, list[Sample | Series]]]] = {}
    tables: list[Table] = []
    for rows in groups.values():
        if pid := _pid(rows[0].entity):
            by_start: dict[Start, list[Sample | Series]] = {}
            for start, part in split_by_start(rows):
                by_start.setdefault(start, []).append(part)
            parts_by_pid.setdefault(pid, []).extend(by_start.items())
        else:
            tables.append(_table(rows, "", boots))
    return (*tables, *(table for parts in parts_by_pid.values() for table in _process_tables(parts, boots)))


def _join_dated_snapshots(
    groups: Mapping[tuple[object, ...], list[Sample | Series]],
) -> dict[tuple[object, ...], list[Sample | Series]]:
    """Return the groups with snapshots from files whose names differ only in their dates joined to one recording.

    Snapshots more than an hour apart stay separate: growth over so long does not show a problem of minutes.
    """
    joined: dict[tuple[object, ...], list[Sample | Series]] = {}
    snapshots: dict[tuple[object, ...], list[tuple[float, Sample]]] = {}
    for key, rows in groups.items():
        first = rows[0]
        if len(rows) == 1 and isinstance(first, Sample) and first.time and first.time.clock in (Clock.UTC, Clock.LOCAL):
            undated_key = (without_date(first.cite.member), first.time.clock, *key[1:])
            snapshots.setdefault(undated_key, []).append((first.time.seconds, first))
        else:
            joined[key] = rows
    for undated_key, timed_rows in snapshots.items():
        last, number = -math.inf, 0
        for seconds, snapshot in sorted(timed_rows, key=itemgetter(0)):
            number += seconds - last > MAX_SECONDS_BETWEEN_SNAPSHOTS
            last = seconds
            joined.setdefault((*undated_key, number), []).append(snapshot)
    return joined


def session_stretch(sample: Sample | Series) -> int | None:
    """Return the number of the session stretch that rows belong to, None if they have printed times.

    The time between two stretches of a session without printed times is unknown.
    """
    if isinstance(sample, Series):
        clock, pace = sample.clock, sample.pace
    else:
        clock, pace = (sample.time.clock, sample.time.pace) if sample.time else (None, None)
    return pace.stretch if clock is Clock.SESSION and pace else None


def _pid(entity: Entity) -> str:
    return next((value for label, value in entity if label == "pid"), "")


def _process_tables(parts: Sequence[tuple[Start, list[Sample | Series]]], boots: Sequence[Moment]) -> Iterator[Table]:
    """Return the tables of one pid; if the pid was reused, each process has its own name."""
    labels = start_labels([start for start, _ in parts])
    merged: dict[tuple[object, ...], list[Sample | Series]] = {}
    for start, rows in parts:
        clock = rows[0].clock if isinstance(rows[0], Series) else None
        source = (member_of(rows[0]), rows[0].reader, clock, session_stretch(rows[0]))
        merged.setdefault((*source, start[0], labels[start]), []).extend(rows)
    reused = any(labels.values())
    for key, rows in merged.items():
        yield _table(rows, str(key[-1]) or ("one of several" if reused else ""), boots)


def _table(parts: Sequence[Sample | Series], life: str, boots: Sequence[Moment]) -> Table:
    """Return the rows of one source and entity; if all parts are Series, the result is one.

    Times are dropped if all rows have the same one and a metric repeats: then it is the time of the first row, as with
    `date` typed once above a loop. They are also dropped if all rows are of one moment of a session, because the clock
    of a session says nothing about a single snapshot.
    """
    last = parts[-1]
    entity = (*last.entity, (LIFE, life)) if life else last.entity
    columns = [part for part in parts if isinstance(part, Series)]
    samples: Samples
    if len(columns) == len(parts):
        samples = join_series(columns)
        several = len(samples) > 1 or samples.clock is Clock.SESSION
        if samples.seconds is not None and several and (samples.seconds == samples.seconds[0]).all():
            samples = replace(samples, seconds=None, clock=None)
    else:
        samples = tuple(row for part in parts for row in (part if isinstance(part, Series) else (part,)))
        times = {s.time for s in samples}
        names = [name for s in samples for name in s.values] if len(samples) > 1 and len(times) == 1 else []
        is_session_moment = {time.clock for time in times if time} == {Clock.SESSION} and len(times) == 1
        if times != {None} and (is_session_moment or len(set(names)) < len(names)):
            samples = tuple(replace(s, time=None) for s in samples)
    return Table(member_of(last), last.reader, last.kind, entity, samples, tuple(boots))


def make_track(table: Table, metric: str) -> Track | None:
    """Return one metric of a table, without averages since boot; None if the table has no value of it."""
    samples = table.samples
    if metric in COMPUTED and metric not in table.metrics:
        return _computed_track(table, metric)
    if not isinstance(samples, Series):
        samples = tuple(s for s in samples if has_value(s, metric))
    elif (column := samples.values.get(metric)) is None:
        return None
    else:
        keep = column == column
        if samples.since_boot is not None:
            keep &= ~samples.since_boot
        marks = keep.tobytes()
        if marks not in table.parts:
            table.parts[marks] = select_marked(samples, keep)
        samples = table.parts[marks]
    if samples and table.clock is not None:
        samples = sort_by_time(samples, metric)
    return Track(metric, table, samples) if samples else None


def _computed_metrics(known: AbstractSet[str]) -> Iterator[str]:
    """Yield the counters that can be computed from rows with these metrics."""
    has_rate = FAULT_BYTES not in known and f"{FAULT_BYTES}:rate" in known
    if has_rate:
        yield from (FAULTS, FAULT_BYTES)
    if has_rate or FAULT_BYTES in known or (RESIDENT in known and (SWITCHES in known or {CPU_TIME, SHARED} <= known)):
        yield TOUCHED


def _computed_track(table: Table, metric: str) -> Track | None:
    """Return a counter of a process, computed from the most exact columns that imply it."""
    known = table.metrics
    if metric != TOUCHED:
        rate = make_track(table, f"{metric}:rate")
        return rate and integral(metric, rate, lists_active=table.reader in ONLY_ACTIVE)
    if FAULT_BYTES in known or f"{FAULT_BYTES}:rate" in known:
        return make_track(table, FAULT_BYTES)
    resident = make_track(table, RESIDENT)
    if resident is None or SWITCHES in known:
        return resident and touched_by_switches(resident)
    used, shared = make_track(table, CPU_TIME), make_track(table, SHARED)
    return touched_by_cpu_time(resident, used.resolution, shared.resolution) if used and shared else None


class Catalogue:
    """All tables of a state, with access by metric.

    Rules ask for few metrics of possibly thousands of processes, so tracks are made on demand and cached.
    """

    def __init__(self, samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> None:
        self._tables = make_tables(samples, boots)
        self._origin: Catalogue = self  # the catalogue of all times
        self._tables_by_metric: dict[str, list[Table]] = {}
        self._tracks: dict[str, dict[EntityKey | None, list[Track]]] = {}
        self._entities: dict[tuple[str, bool], Sequence[Entity]] = {}
        self.memo: dict[object, Any] = {}  # cache of results that several rules compute from the same tracks
        for table in self._tables:
            known = table.metrics
            for metric in (*known, *_computed_metrics(known)):
                self._tables_by_metric.setdefault(metric, []).append(table)

    def tracks(self, metric: str, entity: Entity | None = None) -> Sequence[Track]:
        """Return all tracks of a metric (of one entity if given), best first.

        Without `entity`, a metric of the host has only tracks of the whole host, none of a single CPU or node.
        """
        if others := RESIDENT_WITHOUT.get(metric):
            resident = self.tracks(RESIDENT, entity)
            if not any(self.tracks(other, entity) for other in others):
                return resident
            return [_as_track(metric, t.table, t.samples, np.zeros(len(t)), 0.0) for t in resident]
        return self._by_entity(metric).get(entity_key(entity) if entity is not None else None, [])

    def keys(self, metric: str) -> Collection[EntityKey | None]:
        """Return the keys of the entities that have tracks of a metric."""
        return self._by_entity(RESIDENT if metric in RESIDENT_WITHOUT else metric).keys()

    def _by_entity(self, metric: str) -> Mapping[EntityKey | None, list[Track]]:
        if metric not in self._tracks:
            tracks = [track for table in self.having(metric) if (track := self._track(table, metric))]
            self._tracks[metric] = tracks_by_entity(metric, tracks)
        return self._tracks[metric]

    def _track(self, table: Table, metric: str) -> Track | None:
        return make_track(table, metric)

    def having(self, metric: str) -> Sequence[Table]:
        """Return the tables that have a metric, with the rows of all times."""
        return self._origin._tables_by_metric.get(RESIDENT if metric in RESIDENT_WITHOUT else metric, ())

    @cached_property
    def members(self) -> frozenset[str]:
        """The members that the tables were read from."""
        return frozenset(table.member for table in self._origin._tables)

    def host_tables(self) -> Iterator[Table]:
        """The tables of the whole host."""
        return (table for table in self._tables if table.kind == HOST)

    def end(self, clock: Clock) -> float | None:
        """Return the last second on a clock over all tables with more than one row."""
        columns = (t.seconds for t in self._tables if t.clock is clock and len(t.samples) > 1)
        return max((float(seconds.max()) for seconds in columns if seconds is not None), default=None)

    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self._origin._tables_by_metric)

    def entities(self, kind: str, *, with_memory: bool = False) -> Sequence[Entity]:
        """Return the entities of a kind, each once, in reading order; the same object at each call.

        `with_memory` omits processes without memory: kernel threads and processes that have ended.
        """
        origin, key = self._origin, (kind, with_memory)
        if key not in origin._entities:
            seen: dict[EntityKey, Entity] = {}
            for table in origin._tables:
                if table.kind == kind:
                    seen.setdefault(table.key, table.entity)
            origin._entities[key] = tuple(e for e in seen.values() if not with_memory or origin._may_have_memory(e))
        return origin._entities[key]

    def _may_have_memory(self, entity: Entity) -> bool:
        tracks = [track for name in MEMORY_METRICS for track in self.tracks(name, entity)]
        return not tracks or any(track.column.max() > 0 for track in tracks)


def tracks_by_entity(metric: str, tracks: Sequence[Track]) -> dict[EntityKey | None, list[Track]]:
    """Return the tracks of a metric by entity; under None those of the host, or all if it is no metric of the host."""
    known, best_first = term(metric), rank_tracks(tracks)
    is_host_metric = known is not None and known.entity == HOST
    by_entity: dict[EntityKey | None, list[Track]] = {
        None: [t for t in best_first if t.table.kind == HOST] if is_host_metric else best_first
    }
    for track in best_first:
        by_entity.setdefault(track.table.key, []).append(track)
    return by_entity


def rank_tracks(tracks: Sequence[Track]) -> list[Track]:
    """Return the tracks, best first: enough samples, time covered, resolution, number of samples, later capture."""
    captures = capture_ranks(track.table.member for track in tracks)  # 0 is the latest
    covered = {id(track): covered_seconds(track) for track in tracks}
    longest = max((seconds for seconds in covered.values() if seconds is not None), default=0.0)

    def rank(track: Track) -> tuple[float | str, ...]:
        seconds = covered[id(track)]
        is_partial = seconds is not None and seconds < MIN_COVERAGE * longest
        capture = captures.get(root_of(track.table.member), 0)
        return (-min(len(track), 3), is_partial, track.resolution, -len(track), capture, track.place)

    return sorted(tracks, key=rank)


AVERAGES = ("cpu_ratio.", "process_cpu_ratio", "block_util")  # gauges that are averages over an interval


class StretchCatalogue(Catalogue):
    """A catalogue whose tracks and rows are cut to a stretch; names and entities are those of all times."""

    def __init__(self, origin: Catalogue, stretch: Stretch) -> None:
        super().__init__(())
        self._origin, self._stretch = origin, stretch
        self._cut: dict[tuple[int, bool], Table | None] = {}

    def rows(self, metric: str) -> Iterator[Sample | Series]:
        """Yield the rows in the stretch of all tables that have a metric."""
        for table in self.having(metric):
            kept = cut_table(table, self._stretch, before=False)
            if kept is not None:
                yield from [kept.samples] if isinstance(kept.samples, Series) else kept.samples

    def _track(self, table: Table, metric: str) -> Track | None:
        key = (id(table), is_average(metric))
        if key not in self._cut:
            self._cut[key] = cut_table(table, self._stretch, before=not key[1])
        cut = self._cut[key]
        return make_track(cut, metric) if cut is not None else None


def is_average(metric: str) -> bool:
    """Whether values of a metric describe the interval before their row."""
    known = term(metric)
    return metric.endswith(":rate") or metric.startswith(AVERAGES) or (known is not None and known.kind == "rate")


def cut_table(table: Table, stretch: Stretch, *, before: bool) -> Table | None:
    """Return the rows in a stretch, with `before` also the last row before it; None if there are none."""
    if table.clock is None:
        return table if len(table.samples) == 1 else None
    if table.clock is not stretch.clock or table.clock_error > MAX_CLOCK_ERROR * stretch.seconds:
        return None
    if table.clock.is_of_one_member and table.member != stretch.member:
        return None  # the day of a time of day is unknown
    seconds = table.seconds
    if seconds is None:
        return None
    inside = (seconds > stretch.first) & (seconds <= stretch.last)
    if not inside.any():
        return None
    first = int(inside.argmax())
    if before and first and not find_gaps(seconds)[first - 1]:
        inside[first - 1] = True
    kept = select_rows(table.samples, inside)
    return Table(table.member, table.reader, table.kind, table.entity, kept, table.boots)
