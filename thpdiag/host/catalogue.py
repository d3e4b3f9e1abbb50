"""The metrics of a state: for each the sources that have it, the best first, whole or cut to a stretch of time.

The best source is the one that covers the time in question; of those that do, the most exact one: the finest
resolution, then the most samples. (A counter and the rate that another tool made of it have different names; checks
ask for the counter first.) Sources are never merged.

Order of rows: files are appended twice, in the wrong order, or sorted by something else, and growth is summed over
rows that follow each other. But a clock that was set back (or the hour that comes twice in autumn) goes back too, and
there the order of the file is right. Sorting tells them apart: a counter then falls less often, or the stretches of
the file come to lie behind each other instead of between each other's rows.

Cut to a stretch, a counter needs the reading before it too. An average, such as a share of CPU time, speaks for the
interval that it ends. What has no times, or those of another clock, is no part of the stretch; single readings without
a time (settings, sizes) stay.

Rows of a pid that was used again are split by the start of the process. The start is in ticks since boot or in seconds
since 1970, as the source has it; where a source has neither, a counter that is reset tells that the process is another
one (faults and CPU time of a process never fall, exec keeps them).

What a process can have touched itself: the most by which its own page faults can have made it grow.

Three things bound it, the most exact first:

- its faults: one huge page each. Where a tool prints them per second they are summed up, with all that rounding and the
  times of the rows leave open.
- its context switches: it grew itself only between two looks of which it ran between. (Of one thread, which slept at
  both looks: /proc/PID/status.)
- its CPU time: no CPU fills 64 GiB of memory in a second (a ceiling of our own). Files and shared memory that it maps
  cost less, so what these grew by is added. (top)

Each says nothing of how much it did touch.
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
FASTEST = 64 * 2.0**30  # bytes that a CPU fills in a second, at most
LATE = 1.5  # times the usual interval: a row that comes later than that was not the next one
CLOCK_SECONDS = 1.0  # what the times of most tools are printed to


def integral(metric: str, rate: Track, *, lists_active: bool) -> Track | None:
    """A counter from the rates that a tool made of it, from the row before the first rate on.

    A rate is of the interval before its row. Where rows are missing, the tool that leaves out what was at rest
    (`lists_active`) says that nothing was counted meanwhile, unless the rate is of all that time; of others nobody
    knows, and the counter is None.
    """
    seconds, values, whole = rate.seconds, rate.column, rate.table.seconds
    if seconds is None or whole is None or not len(seconds) or (np.diff(seconds) <= 0).any():
        return None
    earlier = np.flatnonzero(whole < seconds[0])
    rows = rate.samples
    if len(earlier):
        at = int(earlier[whole[earlier].argmax()])
        rows, seconds = _with_row(rate.table.samples, at, rows), np.concatenate(([whole[at]], seconds))
    else:
        values = values[1:]
    steps, usual = np.diff(seconds), typical_interval(seconds)
    late = steps > LATE * usual
    if not len(steps) or (late.any() and not lists_active):
        return None
    off = float(steps.sum() * rate.resolution + (np.where(late, steps - usual, 0.0) * values).sum())
    if (seconds == np.floor(seconds)).all():  # each row may be earlier or later by half a second
        off += CLOCK_SECONDS / 2 * float(np.abs(np.diff(values, prepend=0.0, append=0.0)).sum())
    return _as_track(metric, rate.table, rows, np.concatenate(([0.0], np.cumsum(values * steps))), off / 2)


def touched_by_switches(resident: Track) -> Track:
    """What it grew by between looks of which it may have run between."""
    switches = resident.column_of(SWITCHES)
    grown, slept = np.maximum(np.diff(resident.column), 0.0), np.diff(switches) == 0  # NaN: nobody knows
    column = np.concatenate(([0.0], np.cumsum(np.where(slept, 0.0, grown))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, resident.resolution)


def touched_by_cpu_time(resident: Track, cpu_quantum: float, shared_quantum: float) -> Track | None:
    """What its CPU time was enough for, and what files and shared memory grew by."""
    used, shared = np.diff(resident.column_of(CPU_TIME)), np.diff(resident.column_of(SHARED))
    if not (used >= 0).all() or (shared != shared).any():
        return None
    column = np.concatenate(([0.0], np.cumsum(used * FASTEST + np.maximum(shared, 0.0))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, cpu_quantum * FASTEST + shared_quantum)


def at_rest(resident: Track, metric: str) -> Track:
    """The rows of a track without growth."""
    return _as_track(metric, resident.table, resident.samples, np.zeros(len(resident)), 0.0)


def _as_track(metric: str, table: Table, rows: Samples, column: Floats, quantum: float) -> Track:
    """Rows with another column; with other rows of their table they share the time, but no numbers of rows."""
    samples: Samples
    if isinstance(rows, Series):
        samples = replace(rows, values={metric: column}, resolution={metric: quantum}, since_boot=None)
    else:
        samples = tuple(
            replace(row, values={metric: value}, resolution={metric: quantum}, since_boot=False)
            for row, value in zip(rows, column.tolist(), strict=True)
        )
    of_all = len(samples) == int((row_values(table.samples, RESIDENT) == row_values(table.samples, RESIDENT)).sum())
    return Track(metric, table if of_all else replace(table), samples)


def _with_row(samples: Samples, at: int, rows: Samples) -> Samples:
    """Rows of a table with one that is before them."""
    if not isinstance(samples, Series):
        return (samples[at], *rows)
    keep = np.isin(samples.lines, rows.lines if isinstance(rows, Series) else ())
    keep[at] = True
    return samples.only(keep)


STARTS = ("process_start_time_ticks", "process_start_time_seconds")
NEVER_FALL = ("process_minor_faults_total", "process_cpu_seconds_total.user", "process_cpu_seconds_total.system")
# Growth of resident memory beside which the input does not have these; where it has, that is none.
WITHOUT = {
    "process_resident_uncounted_bytes": (FAULT_BYTES,),
    "process_resident_alone_bytes": (FAULT_BYTES, "process_anon_huge_bytes"),
}
COMPUTED = (FAULTS, FAULT_BYTES, TOUCHED)  # counters of a process that follow from other columns
ONLY_ACTIVE = frozenset({"pidstat"})  # readers of tools that leave out what did nothing at all
SAME_START = 2.0  # seconds by which two readings of one start may differ: tools compute it from the uptime
TICKS = 100  # a second, for programs (USER_HZ of all common architectures)

Start = tuple[str, float]  # the name of the figure and its value; without one the member and the number of the reset
UNKNOWN: Start = ("", 0.0)
Part = tuple[Start, Sample | Series]


def split_by_start(parts: Sequence[Sample | Series]) -> list[Part]:
    """The rows of one pid of one source, each with the start of its process.

    A row without a start has that of the row before it, the first ones that of the first known.
    """
    found = [part for given in parts for part in _rows_by_start(given)]
    before = next((start for start, _ in found if start[0]), UNKNOWN)
    if before is UNKNOWN:
        resets = _Resets(member_of(parts[0]))
        return [cut for part in parts for cut in resets.cut(part)]
    filled = []
    for start, part in found:
        before = start if start[0] else before
        filled.append((before, part))
    return filled


def _rows_by_start(given: Sample | Series) -> list[Part]:
    """A row, or columns cut where the start changes; a row of those without one belongs to that above."""
    name = next((name for name in STARTS if name in given.values), "")
    if not name:
        return [(UNKNOWN, given)]
    if isinstance(given, Sample):
        return [((name, given.values[name]), given)]
    column = given.values[name]
    known = np.flatnonzero(column == column)
    if not len(known):
        return [(UNKNOWN, given)]
    changed = known[1:][np.diff(column[known]) != 0]
    cuts = [0, *changed.tolist(), len(given)]
    return [
        ((name, float(column[known[np.searchsorted(known, first)]])), given.only(slice(first, end)))
        for first, end in pairwise(cuts)
    ]


@dataclass(slots=True)
class _Resets:
    """Without a start, a new process begins at every reset: how many there were, and what counters were at last."""

    member: str
    number: int = 0
    last: dict[str, float] = field(default_factory=dict)

    def cut(self, given: Sample | Series) -> list[Part]:
        """A row, or columns cut at resets."""
        if isinstance(given, Sample):
            known = {name: given.values[name] for name in NEVER_FALL if name in given.values}
            self.number += any(value < self.last.get(name, 0.0) for name, value in known.items())
            self.last |= known
            return [((self.member, float(self.number)), given)]
        falls = np.zeros(len(given), np.bool_)
        for name in NEVER_FALL:
            if name in given.values:
                falls |= self._falls(name, given.values[name])
        if not falls.any():
            return [((self.member, float(self.number)), given)]
        numbers = self.number + np.cumsum(falls)
        self.number = int(numbers[-1])
        return [((self.member, float(n)), select_marked(given, numbers == n)) for n in np.unique(numbers).tolist()]

    def _falls(self, name: str, column: Floats) -> Bools:
        known = np.flatnonzero(column == column)
        falls = np.zeros(len(column), np.bool_)
        if len(known):
            values = column[known]
            falls[known] = np.diff(values, prepend=self.last.get(name, values[0])) < 0
            self.last[name] = float(values[-1])
        return falls


def start_labels(starts: Sequence[Start]) -> Mapping[Start, str]:
    """What tells the processes of one pid apart, by their start; nothing for the only one of its kind."""
    words: dict[Start, str] = {}
    for kind in dict.fromkeys(name for name, _ in starts):
        groups: list[list[float]] = []  # of starts that are the same
        for value in sorted({value for name, value in starts if name == kind}):
            if groups and value - groups[-1][-1] <= (SAME_START if kind == STARTS[1] else 0.0):
                groups[-1].append(value)
            else:
                groups.append([value])
        for group in groups:
            word = _describe_start(kind, group[0]) if len(groups) > 1 else ""
            words |= {(kind, value): word for value in group}
    return words


def _describe_start(kind: str, value: float) -> str:
    if kind == STARTS[0]:
        return f"started {value / TICKS:.2f} s after boot"
    if kind == STARTS[1]:
        return f"started at {datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"
    return f"after {value:.0f} others in {kind}"


def join_series(parts: Sequence[Series]) -> Series:
    """One Series of all rows in the order of their lines, NaN where a part does not have a metric.

    All must be of one member, reader, entity and clock.
    """
    if len(parts) == 1:
        return parts[0]

    def join_columns(columns: Iterable[Array[Any] | None], missing: float) -> Array[Any]:
        kind = np.bool_ if missing is False else np.float64
        filled = [
            np.full(len(part), missing, kind) if column is None else column
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
    text, starts, ends = _joined_texts(parts)
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


def _joined_texts(parts: Sequence[Series]) -> tuple[bytes, Ints | None, Ints | None]:
    """The text that all have, or the rows' own of each behind each other; none if a part keeps no text.

    A text may be that of thousands of processes.
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
    places = np.cumsum([0, *map(len, rows)])
    return b"".join(rows), places[:-1], places[1:]


def sort_by_time(samples: Samples, metric: str) -> Samples:
    """The rows of a metric, all on one clock, by their times, and what was said twice once; else as they were."""
    seconds = row_seconds(samples)
    if seconds is None or not (seconds[1:] < seconds[:-1]).any():
        return samples
    values = row_values(samples, metric)
    order = np.lexsort((values, seconds))
    again = (np.diff(seconds[order]) == 0) & (np.diff(values[order]) == 0)
    order = order[np.concatenate(([True], ~again))]
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
    return samples.only(order) if isinstance(samples, Series) else tuple(samples[at] for at in order.tolist())


MAX_SECONDS_BETWEEN_SNAPSHOTS = 3600.0
MIN_COVERAGE = 0.9  # of the time that the best source covers: less than that is a part of it
MEMORY = "process_virtual_memory_bytes", "process_resident_memory_bytes"
HOST = "system"  # the kind of what is recorded of the whole host


def make_tables(samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> tuple[Table, ...]:
    """The rows by source and entity. A process is one entity over a source though its name changes."""
    groups: dict[tuple[object, ...], list[Sample | Series]] = {}
    for sample in samples:
        pid = _pid(sample.entity)
        clock = sample.clock if isinstance(sample, Series) else None
        key = (
            member_of(sample), sample.reader, sample.kind, ("pid", pid) if pid else sample.entity, clock,
            session_stretch(sample),
        )  # fmt: skip
        groups.setdefault(key, []).append(sample)
    groups = _with_dated_snapshots_joined(groups)
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


def _with_dated_snapshots_joined(
    groups: Mapping[tuple[object, ...], list[Sample | Series]],
) -> dict[tuple[object, ...], list[Sample | Series]]:
    """The same, snapshots in files that are named after their dates, and alike but for them, as one recording.

    What counters did in more than an hour says nothing of the minutes that hurt.
    """
    found: dict[tuple[object, ...], list[Sample | Series]] = {}
    snapshots: dict[tuple[object, ...], list[tuple[float, Sample]]] = {}
    for key, rows in groups.items():
        first = rows[0]
        if len(rows) == 1 and isinstance(first, Sample) and first.time and first.time.clock in (Clock.UTC, Clock.LOCAL):
            of = (without_date(first.cite.member), first.time.clock, *key[1:])
            snapshots.setdefault(of, []).append((first.time.seconds, first))
        else:
            found[key] = rows
    for of, several in snapshots.items():
        last, number = -math.inf, 0
        for seconds, snapshot in sorted(several, key=itemgetter(0)):
            number += seconds - last > MAX_SECONDS_BETWEEN_SNAPSHOTS
            last = seconds
            found.setdefault((*of, number), []).append(snapshot)
    return found


def session_stretch(sample: Sample | Series) -> int | None:
    """The stretch of a session without printed times that rows are of: how long after another one, nobody knows."""
    if isinstance(sample, Series):
        clock, pace = sample.clock, sample.pace
    else:
        clock, pace = (sample.time.clock, sample.time.pace) if sample.time else (None, None)
    return pace.stretch if clock is Clock.SESSION and pace else None


def _pid(entity: Entity) -> str:
    return next((value for label, value in entity if label == "pid"), "")


def _process_tables(parts: Sequence[tuple[Start, list[Sample | Series]]], boots: Sequence[Moment]) -> Iterator[Table]:
    """The tables of one pid; of a pid that was used again each process has a name of its own."""
    words = start_labels([start for start, _ in parts])
    merged: dict[tuple[object, ...], list[Sample | Series]] = {}
    for start, rows in parts:
        clock = rows[0].clock if isinstance(rows[0], Series) else None
        source = (member_of(rows[0]), rows[0].reader, clock, session_stretch(rows[0]))
        merged.setdefault((*source, start[0], words[start]), []).extend(rows)
    reused = any(words.values())
    for key, rows in merged.items():
        yield _table(rows, str(key[-1]) or ("one of several" if reused else ""), boots)


def _table(parts: Sequence[Sample | Series], life: str, boots: Sequence[Moment]) -> Table:
    """The rows of one source and entity; columns stay columns.

    They have no times where all rows have the same, and yet say a thing again: it is that of their beginning. Who typed
    `date` once above a loop did not say when its rounds were. Nor have they where all are of one moment of a session:
    of a single snapshot its clock tells nothing.
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
        of_session = {time.clock for time in times if time} == {Clock.SESSION} and len(times) == 1
        if times != {None} and (of_session or len(set(names)) < len(names)):
            samples = tuple(replace(s, time=None) for s in samples)
    return Table(member_of(last), last.reader, last.kind, entity, samples, tuple(boots))


def make_track(table: Table, metric: str) -> Track | None:
    """One metric of a table, without averages since boot; None if it has no value of it."""
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
    """The counters that can be computed of rows with these metrics."""
    rated = FAULT_BYTES not in known and f"{FAULT_BYTES}:rate" in known
    if rated:
        yield from (FAULTS, FAULT_BYTES)
    if rated or FAULT_BYTES in known or (RESIDENT in known and (SWITCHES in known or {CPU_TIME, SHARED} <= known)):
        yield TOUCHED


def _computed_track(table: Table, metric: str) -> Track | None:
    """A counter of a process, from the best columns that tell it."""
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
    """All tables of a state, asked by metric.

    Rules ask for few metrics of possibly thousands of processes, so tracks are made when asked for and kept.
    """

    def __init__(self, samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> None:
        self._tables = make_tables(samples, boots)
        self._origin: Catalogue = self  # whose tables tracks are made of
        self._with: dict[str, list[Table]] = {}
        self._tracks: dict[str, dict[EntityKey | None, list[Track]]] = {}
        self._entities: dict[tuple[str, bool], Sequence[Entity]] = {}
        self.memo: dict[object, Any] = {}  # what several rules compute of the same tracks
        for table in self._tables:
            known = table.metrics
            for metric in (*known, *_computed_metrics(known)):
                self._with.setdefault(metric, []).append(table)

    def tracks(self, metric: str, entity: Entity | None = None) -> Sequence[Track]:
        """All tracks of a metric (of one entity if given), best first.

        A metric of the host is asked of the host: what one CPU or node did is not what the host did.
        """
        if others := WITHOUT.get(metric):
            resident = self.tracks(RESIDENT, entity)
            told = any(self.tracks(other, entity) for other in others)
            return [at_rest(track, metric) for track in resident] if told else resident
        return self._by_entity(metric).get(entity_key(entity) if entity is not None else None, [])

    def keys(self, metric: str) -> Collection[EntityKey | None]:
        """Those of the entities that have tracks of a metric."""
        return self._by_entity(RESIDENT if metric in WITHOUT else metric).keys()

    def _by_entity(self, metric: str) -> Mapping[EntityKey | None, list[Track]]:
        if metric not in self._tracks:
            tracks = [track for table in self.having(metric) if (track := self._track(table, metric))]
            self._tracks[metric] = tracks_by_entity(metric, tracks)
        return self._tracks[metric]

    def _track(self, table: Table, metric: str) -> Track | None:
        return make_track(table, metric)

    def having(self, metric: str) -> Sequence[Table]:
        """The tables in which a metric stands, whole."""
        return self._origin._with.get(RESIDENT if metric in WITHOUT else metric, ())

    @cached_property
    def members(self) -> frozenset[str]:
        """Those that the tables were read from."""
        return frozenset(table.member for table in self._origin._tables)

    def host_tables(self) -> Iterator[Table]:
        """The tables of the whole host."""
        return (table for table in self._tables if table.kind == HOST)

    def end(self, clock: Clock) -> float | None:
        """The last moment on a clock of which anything was recorded more than once, in seconds."""
        own = (t.seconds for t in self._tables if t.clock is clock and len(t.samples) > 1)
        return max((float(seconds.max()) for seconds in own if seconds is not None), default=None)

    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self._origin._with)

    def entities(self, kind: str, *, with_memory: bool = False) -> Sequence[Entity]:
        """The entities of a kind, each once, in the order they were read; the same object at each call.

        Of processes those with memory can be asked for: kernel threads and those that have ended have none.
        """
        whole, key = self._origin, (kind, with_memory)
        if key not in whole._entities:
            seen: dict[EntityKey, Entity] = {}
            for table in whole._tables:
                if table.kind == kind:
                    seen.setdefault(table.key, table.entity)
            whole._entities[key] = tuple(e for e in seen.values() if not with_memory or whole._may_have_memory(e))
        return whole._entities[key]

    def _may_have_memory(self, entity: Entity) -> bool:
        tracks = [track for name in MEMORY for track in self.tracks(name, entity)]
        return not tracks or any(track.column.max() > 0 for track in tracks)


def tracks_by_entity(metric: str, tracks: Sequence[Track]) -> dict[EntityKey | None, list[Track]]:
    """The tracks of a metric by entity, and under None those of the host or, of other metrics, all of them."""
    known, best_first = term(metric), rank_tracks(tracks)
    of_host = known is not None and known.entity == HOST
    found: dict[EntityKey | None, list[Track]] = {
        None: [t for t in best_first if t.table.kind == HOST] if of_host else best_first
    }
    for one in best_first:
        found.setdefault(one.table.key, []).append(one)
    return found


def rank_tracks(tracks: Sequence[Track]) -> list[Track]:
    """The best first: enough samples, the time covered, the resolution, the number of samples, the later capture.

    Those of later captures are given before those of earlier ones (thpdiag.host.captures).
    """
    captures = capture_ranks(one.table.member for one in tracks)
    known = {id(t): covered_seconds(t) for t in tracks}
    longest = max((seconds for seconds in known.values() if seconds is not None), default=0.0)

    def place(one: Track) -> tuple[float | str, ...]:
        seconds = known[id(one)]
        partly = seconds is not None and seconds < MIN_COVERAGE * longest
        capture = captures.get(root_of(one.table.member), 0)
        return (-min(len(one), 3), partly, one.resolution, -len(one), capture, one.place)

    return sorted(tracks, key=place)


AVERAGES = ("cpu_ratio.", "process_cpu_ratio", "block_util")  # gauges that are averages over an interval


class StretchCatalogue(Catalogue):
    """A catalogue cut to a stretch, when it is asked for tracks or rows; names and entities are those of the whole."""

    def __init__(self, whole: Catalogue, stretch: Stretch) -> None:
        super().__init__(())
        self._origin, self._stretch = whole, stretch
        self._cut: dict[tuple[int, bool], Table | None] = {}

    def rows(self, metric: str) -> Iterator[Sample | Series]:
        """The rows inside of all tables in which a metric stands."""
        for table in self.having(metric):
            kept = cut_table(table, self._stretch, before=False)
            if kept is not None:
                yield from [kept.samples] if isinstance(kept.samples, Series) else kept.samples

    def _track(self, whole: Table, metric: str) -> Track | None:
        key = (id(whole), is_average(metric))
        if key not in self._cut:
            self._cut[key] = cut_table(whole, self._stretch, before=not key[1])
        table = self._cut[key]
        return make_track(table, metric) if table is not None else None


def is_average(metric: str) -> bool:
    """Whether values of a metric speak for the time before them."""
    known = term(metric)
    return metric.endswith(":rate") or metric.startswith(AVERAGES) or (known is not None and known.kind == "rate")


def cut_table(table: Table, stretch: Stretch, *, before: bool) -> Table | None:
    """The rows inside, with the last one before them if asked for; None if there are none."""
    if table.clock is None:
        return table if len(table.samples) == 1 else None
    if table.clock is not stretch.clock or table.clock_error > MAX_CLOCK_ERROR * stretch.seconds:
        return None
    if table.clock.is_of_one_member and table.member != stretch.member:
        return None  # of which day a time of day is nobody knows
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
