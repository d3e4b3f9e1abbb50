"""Counters that are 0 since boot: what they count has not happened until they were read.

A total since boot that is not 0 says nothing of now. One that is 0 says that nothing of its kind happened in all the
time from the boot to the reading, so also in what was recorded in between. It says nothing of what came after, of
another boot, or of a counter that the kernel does not have (which is absent, not 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from thpdiag.derive.boot_clock import joins, joins_of, of_one_boot
from thpdiag.derive.series import Track
from thpdiag.knowledge.paths import root_of
from thpdiag.model import Case, Clock, Event, Moment, Profile, Sample, Series, State
from thpdiag.model.record import begun, ended

UP = 3600.0  # seconds since boot: before that a host may not have begun its work yet
AFTER = 60.0  # seconds: what ends as much later was recorded at the same time
FAULTS = "node_vmstat_pgfault"  # never 0 where a kernel counts
WALL = (Clock.UTC, Clock.LOCAL)


@dataclass(frozen=True, slots=True)
class Zero:
    """A reading of 0: between which moments it was made, and when the host was booted at the latest."""

    first: Moment
    last: Moment
    boot: Moment
    member: str

    @property
    def up(self) -> float:
        """Seconds from the boot to the reading."""
        return self.first.seconds - self.boot.seconds


def zeros(tracks: Iterable[Track], case: Case) -> Iterator[Zero]:
    """The readings of a counter that are 0 after at least an hour, where the boot's time is known."""
    for track in tracks:
        member = track.table.member
        beside = track.beside(FAULTS)
        if track.last != 0 or member in case.tainted or (beside == 0).any():
            continue
        for join in of_one_boot(joins(case.facts), track.cite(len(track) - 1))[:1]:
            boot = join.zero.plus(join.within)
            for first, last in _read(track, case):
                zero = Zero(first, last, boot, member)
                if boot.clock is first.clock and zero.up >= UP:
                    yield zero


def _read(track: Track, case: Case) -> Iterator[tuple[Moment, Moment]]:
    """When the last row was read: at its own time, else while the capture that it is part of was made."""
    at = track.samples[-1].time
    if at is not None:
        if at.clock in WALL:
            yield at, at
        return
    root = root_of(track.table.member)
    made = [f.time for f in case.facts if f.name == "capture.time" and f.time and root_of(f.cite.member) == root]
    if root and len(track) == 1 and made and len({moment.clock for moment in made}) == 1:
        yield min(made), max(made)


def covers(zero: Zero, state: State, case: Case) -> bool:
    """Whether all that was recorded in a state was recorded between the boot and the reading.

    What has no time counts if it is a single look of the same capture.
    """
    rows = _undated(state.samples)
    if any(len(found) > 1 for found in rows.values()) or not all(_same(member, zero) for member, *_ in rows):
        return False
    return all(_before(record, zero, case) for record in (*state.samples, *state.profiles, *state.events))


def _undated(samples: Sequence[Sample | Series]) -> dict[tuple[object, ...], list[Sample | Series]]:
    """The rows without a time, by what they are of."""
    found: dict[tuple[object, ...], list[Sample | Series]] = {}
    for row in samples:
        if ended(row) is None:
            of = (row.cite.member, row.reader, row.kind, row.entity, tuple(row.values))
            found.setdefault(of, []).extend([row] * (len(row) if isinstance(row, Series) else 1))
    return found


def _same(member: object, zero: Zero) -> bool:
    root = root_of(zero.member)
    return member == zero.member or (bool(root) and root_of(str(member)) == root)


def _before(record: Sample | Series | Profile | Event, zero: Zero, case: Case) -> bool:
    """Whether a record was over when the counter was read, and begun after the boot. Of messages of an earlier boot
    only rules speak."""
    end = _placed(record, ended(record), case)
    start = _placed(record, begun(record), case)
    if end is None or start is None:
        return not isinstance(record, Profile) and _same(record.cite.member, zero)
    if end.clock is not zero.last.clock:
        return False
    latest = zero.first if isinstance(record, Profile) else zero.last
    since = isinstance(record, Event) or start.seconds + AFTER >= zero.boot.seconds
    return since and end.seconds - end.within <= latest.seconds + AFTER


def _placed(record: Sample | Series | Profile | Event, at: Moment | None, case: Case) -> Moment | None:
    """A moment on the wall clock, if it can be put there."""
    if at is None or at.clock in WALL:
        return at
    known = joins(case.facts)
    found = joins_of(record, known) if isinstance(record, Profile) else of_one_boot(known, record.cite)
    wall = next((join.wall(at) for join in found if at.clock is Clock.BOOT), None)
    return wall if wall is not None and wall.clock in WALL else None
