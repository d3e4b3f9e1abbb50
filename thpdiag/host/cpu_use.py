"""CPU use of a process over the recorded time (1.0 is one CPU all of the time).

It is computed from the averages that tools print (top, pidstat, atop) or from counters of CPU time (/proc/PID/stat, ps,
TIME+ of top), whichever covers more of the time. The average over the life of a process (ps %CPU) does not describe the
current use; it is used, and marked, only if nothing else is known.

Most tools list only active processes or the most active ones: pidstat omits idle processes, a truncated list omits all
that used less than its last row. So the mean covers all rounds of a recording; in a round that does not list a process,
it used nothing, or at most as much as the least active listed process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from thpdiag.host.catalogue import ONLY_ACTIVE, Catalogue
from thpdiag.host.rates import overrun_errors, rates, reading_errors
from thpdiag.host.series import Points, Track, usual_interval
from thpdiag.model import Entity, Moment, Sample
from thpdiag.model.numeric import np

AVERAGE, LIFETIME = "process_cpu_ratio", "process_cpu_ratio.lifetime"
COUNTER = "process_cpu_seconds_total"

TrackFilter = Callable[[Track], bool]


class CpuUse(NamedTuple):
    """The CPU use of one process according to one source.

    `points` are None for a single value: one sample, or a lifetime. `error` is the error of the mean due to rounding.
    `unlisted` is how much higher the mean may be because the process is missing in `absent` of the lists.
    """

    track: Track
    points: Points | None
    mean: float
    error: float
    unlisted: float = 0.0
    absent: int = 0

    @property
    def is_lifetime(self) -> bool:
        return self.track.metric == LIFETIME

    @property
    def span(self) -> tuple[Moment, Moment] | None:
        """The first and last moment, None if unknown."""
        if self.points is not None:
            return self.points.span
        time = None if self.is_lifetime else self.track.samples[-1].time
        return (time, time) if time else None

    @property
    def seconds(self) -> float:
        """The length of the time that it describes; 0 if unknown."""
        if self.points is None or not (span := self.span):
            return 0.0
        return span[1].seconds - span[0].seconds + usual_interval(self.points)


def cpu_uses(catalogue: Catalogue, wanted: TrackFilter, entity: Entity | None = None) -> Iterator[CpuUse]:
    """Yield the use of each wanted process (of one process if given), from the source that covers most time."""
    best: dict[object, CpuUse] = {}
    for use in _all_uses(catalogue, wanted, entity):
        key = use.track.table.key
        if key not in best or use.seconds > best[key].seconds:
            best[key] = use
    yield from best.values()


def cpu_use_over_time(catalogue: Catalogue, wanted: TrackFilter) -> Iterator[tuple[Track, Points]]:
    """Yield the averages over time of each source."""
    uses = _all_uses(catalogue, wanted, None)
    yield from ((use.track, use.points) for use in uses if use.points is not None and use.seconds)


def _all_uses(catalogue: Catalogue, wanted: TrackFilter, entity: Entity | None) -> Iterator[CpuUse]:
    """Yield uses from averages, then from counters, then from lifetime averages."""
    for track in filter(wanted, catalogue.tracks(AVERAGE, entity)):
        yield _average_use(catalogue, track)
    for track in filter(wanted, catalogue.tracks(COUNTER, entity)):
        if (points := rates(track)) is not None:
            error = float(reading_errors(track, points).mean()) / len(points)  # the readings in between cancel out
            error += float(overrun_errors(track, points).mean())
            yield CpuUse(track, points, float(points.values.mean()), error)
    yield from (CpuUse(t, None, t.last, t.resolution) for t in filter(wanted, catalogue.tracks(LIFETIME, entity)))


def _average_use(catalogue: Catalogue, track: Track) -> CpuUse:
    """Return the mean over all rounds of what a tool printed, cached: several rules ask for it."""
    key = (AVERAGE, id(track))
    if key not in catalogue.memo:
        catalogue.memo[key] = _compute_average_use(catalogue, track)
    use: CpuUse = catalogue.memo[key]
    return use


def _compute_average_use(catalogue: Catalogue, track: Track) -> CpuUse:
    rounds = _rounds(catalogue, track) if track.has_times else {}
    seconds: list[float] = [] if track.seconds is None else track.seconds.tolist()
    listed_times = set(seconds)
    absent = [r for time, r in rounds.items() if time not in listed_times]
    if not absent:
        points = track.points if len(track) > 1 else None
        return CpuUse(track, points, float(points.values.mean()) if points else track.last, track.resolution)
    zeros = [replace(r.sample, values={AVERAGE: 0.0}, entity=track.table.entity) for r in absent]
    listed = dict(zip(seconds, track.samples, strict=True)).values() if seconds else ()
    samples = tuple(sorted([*listed, *zeros], key=lambda row: row.time.seconds if row.time else 0.0))
    filled = Track(AVERAGE, replace(track.table, samples=samples), samples)
    unlisted = 0.0 if track.table.reader in ONLY_ACTIVE else sum(r.least_use for r in absent) / len(samples)
    return CpuUse(track, filled.points, float(filled.column.mean()), track.resolution, unlisted, len(absent))


class Round(NamedTuple):
    """One list of processes: one of its rows, and the smallest CPU use in it."""

    sample: Sample
    least_use: float


def _rounds(catalogue: Catalogue, track: Track) -> dict[float, Round]:
    """Return the lists of the recording that a track belongs to, by time."""
    key = (track.table.member, track.table.reader, track.table.clock)
    if key not in catalogue.memo:
        tracks = [t for t in catalogue.tracks(AVERAGE) if (t.table.member, t.table.reader, t.table.clock) == key]
        seconds = np.concatenate([t.seconds for t in tracks if t.seconds is not None])
        values = np.concatenate([t.column for t in tracks])
        owner = np.repeat(np.arange(len(tracks)), [len(t) for t in tracks])
        index = np.concatenate([np.arange(len(t)) for t in tracks])
        order = np.lexsort((values, seconds))
        firsts = order[np.flatnonzero(np.diff(seconds[order], prepend=-np.inf))]
        catalogue.memo[key] = {
            float(seconds[row]): Round(tracks[owner[row]].samples[int(index[row])], float(values[row]))
            for row in firsts.tolist()
        }
    rounds: dict[float, Round] = catalogue.memo[key]
    return rounds
