"""Times of one source put on UTC by the host's zone: the hour that summer time gives back, clocks that were set back.

A wall clock shows one hour twice when summer time ends. In a source that goes on, a jump back by an hour less one
interval is the second pass of that hour; where the source begins inside it, only what follows tells which pass it was.
Without a zone the clock goes on as it was at the start, and may be wrong by that hour. A jump forward is missing data.
Any other jump back from one row to the next is a clock that was set: no rate is made of that interval (`derive.rates`),
and what came before was wrong by as much. Rows farther apart than usual in the text are of another recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thpdiag.derive.host_zone import DAY, HOUR, QUARTER, Zone
from thpdiag.model import Clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 1.0  # seconds that a clock must have been set back: rows of one round are not always in order
CLOSE = 3  # lines between two rows of one recording, where it has a row in every line


@dataclass(frozen=True, slots=True)
class Walked:
    """Seconds on `clock`, right to `within`. `steps` are rows before which the clock was set back, and by how much."""

    seconds: NDArray[np.float64]
    clock: Clock
    within: float = 0.0
    steps: tuple[tuple[int, float], ...] = ()


def walked(seconds: NDArray[np.float64], lines: NDArray[np.int64], clock: Clock, zone: Zone | None) -> Walked:
    """The times of one source, in reading order; `lines` are those that they stand in. NaN stays NaN."""
    import numpy as np

    known = seconds == seconds
    if not known.all():
        part = walked(seconds[known], lines[known], clock, zone)
        whole = np.full(len(seconds), np.nan)
        whole[known] = part.seconds
        places = np.flatnonzero(known)
        return Walked(whole, part.clock, part.within, tuple((int(places[row]), by) for row, by in part.steps))
    if not len(seconds) or clock is Clock.BOOT:
        return Walked(seconds, clock)
    if clock is Clock.LOCAL and zone is not None and zone.rules is not None:
        found, off = _by_rules(seconds, zone)
        return _stepped(found, lines, Clock.UTC, off)
    if clock is Clock.UTC:
        return _stepped(seconds, lines, clock, 0.0)
    found, off = _unfolded(seconds, lines)
    if clock is Clock.LOCAL and zone is not None:
        off = max(off, zone.within(float(found.min()), float(found.max())))
        return _stepped(found - _offsets(found, zone)[0], lines, Clock.UTC, off)
    return _stepped(found, lines, clock, off)


def _stepped(seconds: NDArray[np.float64], lines: NDArray[np.int64], clock: Clock, within: float) -> Walked:
    steps = tuple((row, by) for row, by in _jumps_back(seconds, lines))
    return Walked(seconds, clock, max((within, *(by for _, by in steps))), steps)


def _jumps_back(seconds: NDArray[np.float64], lines: NDArray[np.int64]) -> list[tuple[int, float]]:
    """Rows that are earlier than the one before, though both are of one recording, and by how much."""
    import numpy as np

    if len(seconds) < 2:
        return []
    by, apart = np.diff(seconds), np.diff(lines)
    usual = max(float(np.median(apart)) * 1.5, CLOSE)
    rows = np.flatnonzero((by < -LEAST) & (by > -DAY / 2) & (apart > 0) & (apart <= usual))
    return [(int(row) + 1, -float(by[row])) for row in rows]


def _unfolded(seconds: NDArray[np.float64], lines: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Times that go on where they jump back by an hour, and by how much they may be wrong for it."""
    import numpy as np

    forward = np.diff(seconds)
    forward = forward[forward > 0]
    interval = float(np.median(forward)) if len(forward) else 0.0
    folds = [row for row, by in _jumps_back(seconds, lines) if HOUR - 2 * interval - LEAST <= by <= HOUR + LEAST]
    if not folds or interval > HOUR / 4:
        return seconds, 0.0
    passes = np.zeros(len(seconds))
    passes[folds] = HOUR
    return seconds + np.cumsum(passes), HOUR


def _offsets(local: NDArray[np.float64], zone: Zone) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds ahead of UTC for the first and the second time that the wall clock showed each of these."""
    import numpy as np

    quarters, places = np.unique(np.floor_divide(local, QUARTER), return_inverse=True)
    both = np.array([zone.offsets(float(quarter) * QUARTER) for quarter in quarters])
    return both[places, 0], both[places, 1]


def local_times(utc: NDArray[np.float64], zone: Zone) -> NDArray[np.float64]:
    """What the wall clock of a zone shows at these times."""
    import numpy as np

    quarters, places = np.unique(np.floor_divide(utc, QUARTER), return_inverse=True)
    found: NDArray[np.float64] = (
        utc + np.array([zone.local(q * QUARTER) - q * QUARTER for q in quarters.tolist()])[places]
    )
    return found


def _by_rules(local: NDArray[np.float64], zone: Zone) -> tuple[NDArray[np.float64], float]:
    """The times in UTC, and by how much they may be wrong."""
    first, second = _offsets(local, zone)
    twice = first > second
    if not twice.any():
        off = float(abs(first - second).max())  # a time that the clock left out: it was another clock
        return local - first, off
    import numpy as np

    edges = np.flatnonzero(np.diff(twice.astype(np.int8), prepend=0, append=0))
    offset, off = first.copy(), 0.0
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        shift = float((first - second)[start])
        again = _second_pass(local, start, end, shift)
        if again is None:
            off = max(off, shift)
        else:
            offset[again:end] = second[again:end]
    return local - offset, off


def _second_pass(local: NDArray[np.float64], start: int, end: int, shift: float) -> int | None:
    """From which row on an hour that is shown twice is shown again; None if that cannot be told."""
    back = next((row for row in range(start + 1, end) if local[row] < local[row - 1] - LEAST), None)
    if back is not None:
        return back
    if start > 0 and 0 <= local[start] - local[start - 1] < shift / 2:
        return end  # it goes on from before: the first pass
    if end < len(local):
        gap = local[end] - local[end - 1]
        if 0 <= gap < shift / 2:
            return start  # and goes on behind it: the second
        if gap < 0:
            return end
    return None
