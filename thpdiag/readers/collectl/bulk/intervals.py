"""The order of the intervals of a recording, and what is odd about their clock.

Times that go back have two reasons. Either parts of the recording stand in the wrong order (logs put together by hand):
then counters fall where time does, or the header tells of another boot; the rows are sorted. Or the wall clock was set
back: then counters go on; the rows stay in the order in which they were made, with the times they were given. Time
that goes on much faster than the CPUs count is a clock that was set forward, or a host that was suspended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Problem
from thpdiag.reader import Source
from thpdiag.readers.collectl.bulk.counters import MODES
from thpdiag.readers.collectl.bulk.rows import Rows

BUSY = MODES[:8]  # guest time is in that of the host
STEP = 30.0  # seconds that clock and counters may differ by
_GROWING = ("node_context_switches_total", "node_intr_total", "node_forks_total", "node_vmstat_pgfault")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Times of the intervals, their lines, and the boots that headers tell of by number of interval."""

    epochs: NDArray[np.float64]
    lines: NDArray[np.int64]
    boots: Sequence[tuple[int, float]]

    def order(self, system: Rows | None, source: Source) -> tuple[NDArray[np.int64] | None, list[Problem]]:
        """The rank of each interval, None if they stand in order; problems."""
        backward = np.flatnonzero(np.diff(self.epochs) < 0) + 1
        problems = [] if system is None else self._forward(system, source)
        if not len(backward):
            same = np.flatnonzero(np.diff(self.epochs) == 0)
            rank = np.unique(self.epochs, return_inverse=True)[1] if len(same) else None
            return rank, problems
        fallen = self._fallen(backward, system)
        wrong = [int(at) for at, less in zip(backward, fallen, strict=True) if less or self._of_two_boots(int(at))]
        told = set(wrong)
        back = [int(at) for at in backward if int(at) not in told]
        if wrong:
            text = "parts of the recording stand in the wrong order; they were sorted by time"
            problems.append(self._problem(source, wrong, text))
            return np.unique(self.epochs, return_inverse=True)[1], problems
        lost = max(float(self.epochs[at - 1] - self.epochs[at]) for at in back)
        text = f"the clock was set back, by up to {lost:.0f} s; times after that come twice"
        problems.append(self._problem(source, back, text))
        return None, problems

    def _fallen(self, backward: NDArray[np.int64], system: Rows | None) -> NDArray[np.bool_]:
        """Whether an interval counts less than the one above it, or nothing tells: then it was made before that one."""
        known = system.columns() if system else {}
        found = next((known[name] for name in _GROWING if name in known), None)
        if found is None or system is None:
            return np.ones(len(backward), np.bool_)
        counted = np.flatnonzero(found == found)
        if not len(counted):
            return np.ones(len(backward), np.bool_)
        below = np.searchsorted(np.frombuffer(system.at, np.int64)[counted], backward)
        lone = (below == 0) | (below == len(counted))
        values = found[counted]
        fallen: NDArray[np.bool_] = lone | (values[np.minimum(below, len(counted) - 1)] <= values[below - 1])
        return fallen

    def _of_two_boots(self, at: int) -> bool:
        """Whether headers tell that the interval is of another boot than the one above it."""
        return len({round(boot, -2) for start, boot in self.boots if start in (at, self._start(at - 1))}) > 1

    def _start(self, at: int) -> int:
        return max((start for start, _ in self.boots if start <= at), default=-1)

    def _forward(self, system: Rows, source: Source) -> list[Problem]:
        """Clock steps forward, by the CPU time that was counted meanwhile."""
        known = system.columns()
        columns = [known[name] for name in BUSY if name in known]
        if len(columns) < 4:
            return []
        counted = np.diff(np.sum(columns, axis=0))
        passed = np.diff(self.epochs[np.frombuffer(system.at, np.int64)])
        good = (counted > 0) & (passed > 0)
        if good.sum() < 3:
            return []
        cpus = float(np.median(counted[good] / passed[good]))
        steps = np.flatnonzero(good & (passed - counted / cpus > np.maximum(STEP, passed / 2)))
        if not len(steps):
            return []
        most = float((passed - counted / cpus)[steps].max())
        text = (
            f"the clock went forward up to {most:.0f} s more than the CPUs counted: it was set, or the host stood still"
        )
        return [self._problem(source, [int(system.at[int(i) + 1]) for i in steps], text)]

    def _problem(self, source: Source, at: Sequence[int], text: str) -> Problem:
        cite = source.cite(int(self.lines[at[0]]))
        return Problem(cite, text, reader="collectl_raw", count=len(at), hides=False)
