"""CPU use of a process over the time it was recorded (1.0 is one CPU all of the time).

CPU use is taken from the averages that tools print (top, pidstat, atop), or from the counters of CPU time
(/proc/PID/stat, ps and top's TIME+), whichever covers more of the time. What a process used over its whole life
(ps %CPU) says nothing about now; it stands alone, and marked, where nothing else is known.

Most tools list what ran, or what ran most: pidstat leaves out what did nothing, a list that was cut what did less than
its last row. So a mean is over all rounds of a recording; where a process is not listed it used nothing, or at most as
much as what was listed with the least.
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
    """What one source says of one process. `points` are None for a single figure: of one look, or of its whole life.

    `error` is by how much the mean may be wrong, for the source rounded; `unlisted` how much more it may be, for the
    process is not in `absent` of the lists.
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
        """First and last moment, None if unknown."""
        if self.points is not None:
            return self.points.span
        at = None if self.is_lifetime else self.track.samples[-1].time
        return (at, at) if at else None

    @property
    def seconds(self) -> float:
        """The time that it speaks for; 0 if unknown."""
        if self.points is None or not (span := self.span):
            return 0.0
        return span[1].seconds - span[0].seconds + usual_interval(self.points)


def cpu_uses(catalogue: Catalogue, wanted: TrackFilter, entity: Entity | None = None) -> Iterator[CpuUse]:
    """The use of each process that is wanted (of this one), from the source that covers most of the time."""
    best: dict[object, CpuUse] = {}
    for one in _all_uses(catalogue, wanted, entity):
        who = one.track.table.key
        if who not in best or one.seconds > best[who].seconds:
            best[who] = one
    yield from best.values()


def cpu_use_over_time(catalogue: Catalogue, wanted: TrackFilter) -> Iterator[tuple[Track, Points]]:
    """Each source's averages over time, one by one."""
    uses = _all_uses(catalogue, wanted, None)
    yield from ((one.track, one.points) for one in uses if one.points is not None and one.seconds)


def _all_uses(catalogue: Catalogue, wanted: TrackFilter, entity: Entity | None) -> Iterator[CpuUse]:
    """Averages first, then counters, then those of a lifetime."""
    for track in filter(wanted, catalogue.tracks(AVERAGE, entity)):
        yield _average_use(catalogue, track)
    for track in filter(wanted, catalogue.tracks(COUNTER, entity)):
        if (points := rates(track)) is not None:
            off = float(reading_errors(track, points).mean()) / len(points)  # the readings in between cancel out
            off += float(overrun_errors(track, points).mean())
            yield CpuUse(track, points, float(points.values.mean()), off)
    yield from (CpuUse(t, None, t.last, t.resolution) for t in filter(wanted, catalogue.tracks(LIFETIME, entity)))


def _average_use(catalogue: Catalogue, track: Track) -> CpuUse:
    """The mean of what a tool printed over all of its rounds; several rules ask for that of each process."""
    key = (AVERAGE, id(track))
    if key not in catalogue.memo:
        catalogue.memo[key] = _use_in_rounds(catalogue, track)
    use: CpuUse = catalogue.memo[key]
    return use


def _use_in_rounds(catalogue: Catalogue, track: Track) -> CpuUse:
    rounds = _rounds(catalogue, track) if track.has_times else {}
    seconds: list[float] = [] if track.seconds is None else track.seconds.tolist()
    own = set(seconds)
    absent = [one for at, one in rounds.items() if at not in own]
    if not absent:
        points = track.points if len(track) > 1 else None
        return CpuUse(track, points, float(points.values.mean()) if points else track.last, track.resolution)
    nothing = [replace(one.sample, values={AVERAGE: 0.0}, entity=track.table.entity) for one in absent]
    listed = dict(zip(seconds, track.samples, strict=True)).values() if seconds else ()
    samples = tuple(sorted([*listed, *nothing], key=lambda row: row.time.seconds if row.time else 0.0))
    whole = Track(AVERAGE, replace(track.table, samples=samples), samples)
    most = 0.0 if track.table.reader in ONLY_ACTIVE else sum(one.least for one in absent) / len(samples)
    return CpuUse(track, whole.points, float(whole.column.mean()), track.resolution, most, len(absent))


class Round(NamedTuple):
    """One list of processes: a row of it, and the least use of the CPU in it."""

    sample: Sample
    least: float


def _rounds(catalogue: Catalogue, track: Track) -> dict[float, Round]:
    """The lists of the recording that a track is of, by their times."""
    key = (track.table.member, track.table.reader, track.table.clock)
    if key not in catalogue.memo:
        own = [t for t in catalogue.tracks(AVERAGE) if (t.table.member, t.table.reader, t.table.clock) == key]
        seconds = np.concatenate([t.seconds for t in own if t.seconds is not None])
        values = np.concatenate([t.column for t in own])
        owner = np.repeat(np.arange(len(own)), [len(t) for t in own])
        place = np.concatenate([np.arange(len(t)) for t in own])
        order = np.lexsort((values, seconds))
        firsts = order[np.flatnonzero(np.diff(seconds[order], prepend=-np.inf))]
        catalogue.memo[key] = {
            float(seconds[at]): Round(own[owner[at]].samples[int(place[at])], float(values[at]))
            for at in firsts.tolist()
        }
    rounds: dict[float, Round] = catalogue.memo[key]
    return rounds
