"""What a check asks for by a metric's name: the sources that have it, the best first.

The best source is the one that covers the time in question; of those that do, the most exact one: the finest
resolution, then the most samples. (A counter and the rate that another tool made of it have different names; checks
ask for the counter first.) Sources are never merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from thpdiag.derive.in_order import in_order
from thpdiag.derive.intervals import covered
from thpdiag.derive.joined import joined
from thpdiag.derive.processes import Start, lives, named
from thpdiag.derive.series import LIFE, Samples, Table, Track, marked, tells
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Entity, Moment, Sample, Series

COVERS = 0.9  # of the time that the best source covers: less than that is a part of it
MEMORY = "process_virtual_memory_bytes", "process_resident_memory_bytes"
HOST = "system"  # the kind of what is recorded of the whole host
Identity = tuple[str, ...]


def tables(samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> tuple[Table, ...]:
    """The rows by source and entity. A process is one entity over a source though its name changes."""
    groups: dict[tuple[object, ...], list[Sample | Series]] = {}
    for sample in samples:
        labels = dict(sample.entity)
        entity: object = ("pid", labels["pid"]) if "pid" in labels else sample.entity
        clock = sample.clock if isinstance(sample, Series) else None
        groups.setdefault((sample.cite.member, sample.reader, sample.kind, entity, clock), []).append(sample)
    of_pid: dict[str, list[tuple[Start, list[Sample | Series]]]] = {}
    found: list[Table] = []
    for rows in groups.values():
        if "pid" in (labels := dict(rows[0].entity)):
            of_pid.setdefault(labels["pid"], []).extend(_by_life(rows))
        else:
            found.append(_table(rows, "", boots))
    return (*found, *(table for parts in of_pid.values() for table in _processes(parts, boots)))


def _by_life(rows: Sequence[Sample | Series]) -> Iterable[tuple[Start, list[Sample | Series]]]:
    parts: dict[Start, list[Sample | Series]] = {}
    for start, part in lives(rows):
        parts.setdefault(start, []).append(part)
    return parts.items()


def _processes(parts: Sequence[tuple[Start, list[Sample | Series]]], boots: Sequence[Moment]) -> Iterator[Table]:
    """The tables of one pid; of a pid that was used again each process has a name of its own."""
    words = named([start for start, _ in parts])
    merged: dict[tuple[object, ...], list[Sample | Series]] = {}
    for start, rows in parts:
        clock = rows[0].clock if isinstance(rows[0], Series) else None
        merged.setdefault((rows[0].cite.member, rows[0].reader, clock, start[0], words[start]), []).extend(rows)
    reused = any(words.values())
    for key, rows in merged.items():
        yield _table(rows, str(key[-1]) or ("one of several" if reused else ""), boots)


def _table(rows: Sequence[Sample | Series], life: str, boots: Sequence[Moment]) -> Table:
    last = rows[-1]
    entity = (*last.entity, (LIFE, life)) if life else last.entity
    return Table(last.cite.member, last.reader, last.kind, entity, _moving(_rows(rows)), tuple(boots))


def _rows(parts: Sequence[Sample | Series]) -> Samples:
    """Rows of one source and entity. Columns stay columns."""
    columns = [part for part in parts if isinstance(part, Series)]
    if len(columns) == len(parts):
        return joined(columns)
    return tuple(row for part in parts for row in (part if isinstance(part, Series) else (part,)))


def _moving(samples: Samples) -> Samples:
    """The rows without their times where all have the same, and yet say a thing again: it is that of their beginning.

    Who typed `date` once above a loop did not say when its rounds were.
    """
    if isinstance(samples, Series):
        standing = samples.seconds is not None and len(samples) > 1 and (samples.seconds == samples.seconds[0]).all()
        return replace(samples, seconds=None, clock=None) if standing else samples
    times = {s.time for s in samples}
    if len(samples) < 2 or len(times) > 1 or times == {None}:
        return samples
    names = [name for s in samples for name in s.values]
    if len(set(names)) == len(names):
        return samples
    return tuple(replace(s, time=None) for s in samples)


def track(table: Table, metric: str) -> Track | None:
    """One metric of a table, None if it has no value of it."""
    samples = _with(table, metric)
    if table.clock is not None:
        samples = in_order(samples, metric)
    return Track(metric, table, samples) if samples else None


def _with(table: Table, metric: str) -> Samples:
    """The rows that have the metric and are no average since boot."""
    samples = table.samples
    if not isinstance(samples, Series):
        return tuple(s for s in samples if tells(s, metric))
    column = samples.values.get(metric)
    if column is None:
        return ()
    keep = column == column
    if samples.since_boot is not None:
        keep &= ~samples.since_boot
    marks = keep.tobytes()
    if marks not in table.parts:
        table.parts[marks] = marked(samples, keep)
    return table.parts[marks]


class Catalogue:
    """All tables of a state, asked by metric.

    Rules ask for few metrics of possibly thousands of processes, so tracks are made when asked for and kept.
    """

    def __init__(self, samples: Iterable[Sample | Series], boots: Sequence[Moment] = ()) -> None:
        self._tables = tables(samples, boots)
        self._with: dict[str, list[Table]] = {}
        self._tracks: dict[str, dict[Identity | None, list[Track]]] = {}
        self._memory: dict[Identity, bool] = {}
        for table in self._tables:
            for metric in table.metrics:
                self._with.setdefault(metric, []).append(table)

    def tracks(self, metric: str, entity: Entity | None = None) -> Sequence[Track]:
        """All tracks of a metric (of one entity if given), best first.

        A metric of the host is asked of the host: what one CPU or node did is not what the host did.
        """
        if metric not in self._tracks:
            self._tracks[metric] = self._made(metric)
        return self._tracks[metric].get(identity(entity) if entity is not None else None, [])

    def _made(self, metric: str) -> dict[Identity | None, list[Track]]:
        """The tracks of a metric by entity, and under None those of the host or, of other metrics, all of them."""
        return by_entity(metric, [t for table in self._with.get(metric, ()) if (t := track(table, metric))])

    def having(self, metric: str) -> Sequence[Table]:
        """The tables in which a metric stands."""
        return self._with.get(metric, ())

    def of_host(self) -> Iterator[Table]:
        """The tables of the whole host."""
        return (table for table in self._tables if table.kind == HOST)

    def end(self, clock: Clock) -> float | None:
        """The last moment on a clock of which anything was recorded more than once, in seconds."""
        own = (Track("", table, table.samples) for table in self._tables if table.clock is clock)
        ends = [float(one.seconds.max()) for one in own if len(one) > 1 and one.seconds is not None]
        return max(ends, default=None)

    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self._with)

    def entities(self, kind: str) -> Sequence[Entity]:
        """The entities of a kind, each once, in the order they were read."""
        seen: dict[Identity, Entity] = {}
        for table in self._tables:
            if table.kind == kind:
                seen.setdefault(identity(table.entity), table.entity)
        return tuple(seen.values())

    def has_memory(self, entity: Entity) -> bool:
        """Whether a process has, or may have, memory of its own: kernel threads and those that have ended have none."""
        known = identity(entity)
        if known not in self._memory:
            tracks = [t for name in MEMORY for t in self.tracks(name, entity)]
            self._memory[known] = not tracks or any(t.column.max() > 0 for t in tracks)
        return self._memory[known]


def by_entity(metric: str, tracks: Sequence[Track]) -> dict[Identity | None, list[Track]]:
    """As `Catalogue.tracks` gives them out."""
    known, best_first = term(metric), ranked(tracks)
    of_host = known is not None and known.entity == HOST
    found: dict[Identity | None, list[Track]] = {
        None: [t for t in best_first if t.table.kind == HOST] if of_host else best_first
    }
    for one in best_first:
        found.setdefault(identity(one.table.entity), []).append(one)
    return found


def ranked(tracks: Sequence[Track]) -> list[Track]:
    """The best first: enough samples, the time covered, the resolution, the number of samples."""
    known = {id(t): covered(t) for t in tracks}
    longest = max((seconds for seconds in known.values() if seconds is not None), default=0.0)

    def place(one: Track) -> tuple[float | str, ...]:
        seconds = known[id(one)]
        partly = seconds is not None and seconds < COVERS * longest
        return (-min(len(one), 3), partly, one.resolution, -len(one), str(one.cite(0)))

    return sorted(tracks, key=place)


def identity(entity: Entity) -> Identity:
    """What makes two entities of different sources the same: the pid (and which process of it), else all labels."""
    labels = dict(entity)
    if "pid" in labels:
        return ("pid", labels["pid"], labels.get(LIFE, ""))
    return tuple(f"{k}={v}" for k, v in entity)
