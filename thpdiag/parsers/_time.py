"""Times of day without a date, UTC offsets, and the time line above a block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from thpdiag.model import Clock, Moment, Sample, Subject
from thpdiag.model.parser import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DAY = 86400
MAX_UNDER_A_MINUTE = 59  # seconds: the upper bound of `up 0 min`, so that the boot precedes all that was recorded
_OFFSET = re.compile(r"[+-]\d{4}", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d(?:[.,]\d{1,9})?)", re.ASCII)


def day_seconds(text: str, half: str = "") -> float | None:
    """Parse `10:33:08[.123]`, with `half` AM or PM on a 12-hour clock; None if it is not a time of day."""
    match = _CLOCK.fullmatch(text)
    if not match:
        return None
    hour, minute, second = int(match[1]), int(match[2]), float(match[3].replace(",", "."))
    if half:
        hour = hour % 12 + (12 if half.upper().startswith("P") else 0)
    return hour * 3600 + minute * 60 + second if hour < 24 and minute < 60 and second < 61 else None


def date_seconds(year: int, month: int, day: int) -> float | None:
    """Return the seconds since 1970 of a day's midnight, on the clock that the date was read from; None if invalid."""
    try:
        return datetime(year, month, day, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def utc_offset(text: str | None) -> int | None:
    """Parse `+0530` (sign, hours, minutes) to seconds ahead of UTC. No zone is more than 14 hours from UTC."""
    if text is None or not _OFFSET.fullmatch(text):
        return None
    seconds = int(text[1:3]) * 3600 + int(text[3:5]) * 60
    if seconds > 14 * 3600 or int(text[3:5]) > 59:
        return None
    return -seconds if text[0] == "-" else seconds


@dataclass(slots=True)
class DayClock:
    """Converts clock times, in order, to moments and counts midnights: a jump back of more than 12 hours is a new day.

    `midnight` is the first day's midnight where a date is known (`clock` LOCAL), else 0 (`clock` DAY).
    """

    midnight: float = 0
    clock: Clock = Clock.DAY
    _last: float = 0
    _seen: int = 0

    def at(self, seconds: float) -> Moment:
        if self._seen and self._last - seconds > DAY / 2:
            self.midnight += DAY
        self._last, self._seen = seconds, 1
        return Moment(self.midnight + seconds, self.clock)

    def all_at(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert many times in order; return seconds on the clock."""
        import numpy as np

        first = self._last if self._seen else float(seconds[0])
        days = np.cumsum(np.diff(seconds, prepend=first) < -DAY / 2)
        times: NDArray[np.float64] = self.midnight + days * DAY + seconds
        self.midnight += float(days[-1]) * DAY
        self._last, self._seen = float(seconds[-1]), 1
        return times


def with_block_time(source: Source, samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield the samples with the time of the block if they are a single snapshot.

    If an entity (the system, a zone, a process) occurs twice, the block holds several snapshots, and the single time
    line above it does not date the later ones. Then no sample gets a time, and only their order is known.
    """
    held: list[Sample] = []
    seen: set[Subject] = set()
    rows = iter(samples)
    for sample in rows:
        key = (sample.kind, sample.entity)
        if key in seen:
            yield from held
            yield sample
            yield from rows
            return
        seen.add(key)
        held.append(sample)
    for sample in held:
        yield replace(sample, time=source.time)
