"""How much of a CPU a process used, over what was recorded of it: 1.0 is one CPU, all of the time.

From the averages that tools print (top, pidstat, atop), or from the counters of the CPU time used so far
(/proc/PID/stat, ps and top's TIME+), whichever covers more of the time. What a process used over its whole life
(ps %CPU) says nothing about now; it stands alone, and marked, where nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from thpdiag.derive.catalogue import identity
from thpdiag.derive.intervals import interval
from thpdiag.derive.rates import rates
from thpdiag.derive.rounding import of_rates
from thpdiag.derive.series import Points, Track
from thpdiag.model import Moment

AVERAGE, LIFETIME = "process_cpu_ratio", "process_cpu_ratio.lifetime"
COUNTER = "process_cpu_seconds_total"

Tracks = Callable[[str], Sequence[Track]]  # of a metric, the best first
Wanted = Callable[[Track], bool]


@dataclass(frozen=True, slots=True)
class Use:
    """What one source says of one process. `points` are None for a single figure: of one look, or of its whole life."""

    track: Track
    points: Points | None
    mean: float
    off: float  # by how much the mean may be wrong, for the source rounded

    @property
    def of_its_life(self) -> bool:
        return self.track.metric == LIFETIME

    @property
    def span(self) -> tuple[Moment, Moment] | None:
        """First and last moment, None if unknown."""
        if self.points is not None:
            return self.points.span
        at = None if self.of_its_life else self.track.samples[-1].time
        return (at, at) if at else None

    @property
    def seconds(self) -> float:
        """The time that it speaks for; 0 if unknown."""
        if self.points is None or not (span := self.span):
            return 0.0
        return span[1].seconds - span[0].seconds + interval(self.points)


def uses(tracks: Tracks, wanted: Wanted) -> Iterator[Use]:
    """The use of each process that is wanted, from the source that covers most of the time."""
    best: dict[object, Use] = {}
    for one in _all(tracks, wanted):
        who = identity(one.track.table.entity)
        if who not in best or one.seconds > best[who].seconds:
            best[who] = one
    yield from best.values()


def timed(tracks: Tracks, wanted: Wanted) -> Iterator[tuple[Track, Points]]:
    """Each source's averages over time, one by one."""
    yield from ((one.track, one.points) for one in _all(tracks, wanted) if one.points is not None and one.seconds)


def _all(tracks: Tracks, wanted: Wanted) -> Iterator[Use]:
    """Averages first, then counters, then those of a lifetime."""
    yield from (_averages(t) for t in tracks(AVERAGE) if wanted(t))
    yield from _counted(t for t in tracks(COUNTER) if wanted(t))
    yield from (Use(t, None, t.last, t.resolution) for t in tracks(LIFETIME) if wanted(t))


def _averages(track: Track) -> Use:
    if len(track) == 1:
        return Use(track, None, track.last, track.resolution)
    points = track.points
    return Use(track, points, float(points.values.mean()), track.resolution)


def _counted(tracks: Iterable[Track]) -> Iterator[Use]:
    for track in tracks:
        points = rates(track)
        if points is not None:
            off = float(of_rates(track, points).mean()) / len(points)  # the readings in between cancel out
            yield Use(track, points, float(points.values.mean()), off)
