"""A pid that was used again is another process: rows of one pid are parted by when the process started.

The start is in ticks since boot or in seconds since 1970, as the source has it; where a source has neither, a counter
that is reset tells that the process is another one (faults and CPU time of a process never fall, exec keeps them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from thpdiag.derive.series import marked
from thpdiag.model import Sample, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STARTS = ("process_start_time_ticks", "process_start_time_seconds")
NEVER_FALL = ("process_minor_faults_total", "process_cpu_seconds_total.user", "process_cpu_seconds_total.system")
SAME_START = 2.0  # seconds by which two readings of one start may differ: tools compute it from the uptime
TICKS = 100  # a second, for programs (USER_HZ of all common architectures)

Start = tuple[str, float]  # the name of the figure and its value; without one the member and the number of the reset
UNKNOWN: Start = ("", 0.0)
Part = tuple[Start, Sample | Series]


def lives(parts: Sequence[Sample | Series]) -> list[Part]:
    """The rows of one pid of one source, each with the start of its process."""
    found = [part for given in parts for part in _by_start(given)]
    if any(start[0] for start, _ in found):
        return _filled(found)
    resets = _Resets(parts[0].cite.member)
    return [cut for part in parts for cut in (resets.columns(part) if isinstance(part, Series) else [resets.row(part)])]


def _by_start(given: Sample | Series) -> list[Part]:
    for name in STARTS:
        if name in given.values:
            if isinstance(given, Sample):
                return [((name, given.values[name]), given)]
            return _series_by_start(given, name)
    return [(UNKNOWN, given)]


def _series_by_start(series: Series, name: str) -> list[Part]:
    """Columns cut where the start changes; a row without one belongs to that above."""
    import numpy as np

    column = series.values[name]
    known = np.flatnonzero(column == column)
    if not len(known):
        return [(UNKNOWN, series)]
    changed = known[1:][np.diff(column[known]) != 0]
    cuts = [0, *changed.tolist(), len(series)]
    return [
        ((name, float(column[known[np.searchsorted(known, first)]])), series.only(slice(first, end)))
        for first, end in pairwise(cuts)
    ]


def _filled(found: Sequence[Part]) -> list[Part]:
    """A row without a start has that of the row before it, the first ones that of the first known."""
    before = next(start for start, _ in found if start[0])
    filled = []
    for start, part in found:
        before = start if start[0] else before
        filled.append((before, part))
    return filled


@dataclass(slots=True)
class _Resets:
    """Without a start, a new process begins at every reset: how many there were, and what counters were at last."""

    member: str
    number: int = 0
    last: dict[str, float] = field(default_factory=dict)

    def row(self, sample: Sample) -> Part:
        known = {name: sample.values[name] for name in NEVER_FALL if name in sample.values}
        if any(value < self.last.get(name, 0.0) for name, value in known.items()):
            self.number += 1
        self.last |= known
        return (self.member, float(self.number)), sample

    def columns(self, series: Series) -> list[Part]:
        import numpy as np

        falls = np.zeros(len(series), np.bool_)
        for name in NEVER_FALL:
            if name in series.values:
                falls |= self._falls(name, series.values[name])
        if not falls.any():
            return [((self.member, float(self.number)), series)]
        numbers = self.number + np.cumsum(falls)
        self.number = int(numbers[-1])
        return [((self.member, float(n)), marked(series, numbers == n)) for n in np.unique(numbers).tolist()]

    def _falls(self, name: str, column: NDArray[np.float64]) -> NDArray[np.bool_]:
        import numpy as np

        known = np.flatnonzero(column == column)
        falls = np.zeros(len(column), np.bool_)
        if len(known):
            values = column[known]
            falls[known] = np.diff(values, prepend=self.last.get(name, values[0])) < 0
            self.last[name] = float(values[-1])
        return falls


def named(starts: Sequence[Start]) -> Mapping[Start, str]:
    """What tells the processes of one pid apart, by their start; nothing for the only one of its kind."""
    words: dict[Start, str] = {}
    for kind in dict.fromkeys(name for name, _ in starts):
        values = sorted({value for name, value in starts if name == kind})
        groups = _together(values, SAME_START if kind == STARTS[1] else 0.0)
        words |= {
            (kind, value): _word(kind, group[0]) if len(groups) > 1 else "" for group in groups for value in group
        }
    return words


def _word(kind: str, value: float) -> str:
    if kind == STARTS[0]:
        return f"started {value / TICKS:.2f} s after boot"
    if kind == STARTS[1]:
        return f"started at {datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"
    return f"after {value:.0f} others in {kind}"


def _together(values: Sequence[float], apart: float) -> list[list[float]]:
    """Sorted values in groups whose neighbours are no farther apart."""
    groups: list[list[float]] = []
    for value in values:
        if groups and value - groups[-1][-1] <= apart:
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups
