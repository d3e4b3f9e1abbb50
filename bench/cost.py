"""The cost of a command, alone or compared with another: CPU seconds of all processes, wall seconds, peak memory."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

Pair = tuple["Cost", "Cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and MB at the peak of the command's own process."""

    wall: float
    cpu: float
    peak: float


def cost(command: Sequence[str], *, keep: Sequence[int] = (0,)) -> Cost:
    """Run a command without its output. `keep` are the exit codes of a valid run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode not in keep:
        sys.exit(f"{' '.join(command)} left with {child.returncode}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, spent, used.ru_maxrss / 1024)


def in_turn(one: Sequence[str], other: Sequence[str], pairs: int, *, keep: Sequence[int] = (0,)) -> list[Pair]:
    """Return costs of both, pair by pair. The order alternates; the first pair is not counted."""
    found = []
    for turn in range(pairs + 1):
        if turn % 2:
            second, first = cost(other, keep=keep), cost(one, keep=keep)
        else:
            first, second = cost(one, keep=keep), cost(other, keep=keep)
        found.append((first, second))
    return found[1:]


def ratio(label: str, pairs: Sequence[Pair], bar: float | None = None, figure: str = "cpu") -> bool:
    """Print medians, minima and the ratios of one figure; return whether the median of the pairs exceeds the bar."""
    ours, theirs = ([getattr(pair[side], figure) for pair in pairs] for side in (0, 1))
    median = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    print(
        f"{label}: {statistics.median(ours):.2f} / {statistics.median(theirs):.2f} s {figure}, "
        f"median of {len(pairs)} pairs {median:.3f}, of the minima {min(ours) / min(theirs):.3f}"
        + (f" (bar {bar})" if bar is not None else ""),
        flush=True,
    )
    return bar is not None and median > bar
