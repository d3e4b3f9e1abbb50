"""What each chain weighs in each task, process, command or CPU: the samples of a profile added up for a picture.

Idle samples are left out unless they are asked for; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from thpdiag.engine.profiles import compiled
from thpdiag.model import Profile, Rows, Task
from thpdiag.model.profile import UNKNOWN

Ints = NDArray[np.int64]
MOST = float(1 << 62)
PERCENT = 1000  # counts per percent: perf prints two decimals, shares of shares have more


class By(StrEnum):
    """What stands at the root of a stack."""

    COMM = "comm"
    PID = "pid"
    TID = "tid"
    CPU = "cpu"
    NONE = "none"


class Idle(StrEnum):
    """What becomes of the samples of idle CPUs."""

    LEFT_OUT = "left out"
    INCLUDED = "included"


class Weight(StrEnum):
    """What is counted."""

    SAMPLES = "samples"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class Group:
    """Who ran, as far as the groups tell them apart."""

    task: Task = field(default_factory=Task)
    cpu: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Columns of equal length: `weight` and `samples` of chain number `chain` in group number `group`.

    `rows` are the samples themselves, `idle_samples` and `idle_weight` those of idle CPUs, left out or not; `unlisted`
    is what a table of percentages leaves out.
    """

    profile: Profile
    by: By
    groups: tuple[Group, ...]
    chain: Ints
    group: Ints
    weight: NDArray[np.float64]
    samples: Ints
    rows: Rows
    idle: Idle
    idle_samples: int
    idle_weight: float
    unlisted: float


def counted(profile: Profile, by: By = By.COMM, *, idle: Idle = Idle.LEFT_OUT, process: str = "") -> Counted:
    """The samples of a profile, of one process (its pid or command) if one is named, added up by chain and group."""
    busy = _only(profile, compiled(profile).rows, process)
    every = _only(profile, profile.rows, process)
    rows = busy if idle is Idle.LEFT_OUT else every
    groups, group = _by_cpu(rows) if by is By.CPU else _by_task(profile, rows, TASKS[by])
    count = max(1, len(profile.chains))
    keys, place = np.unique(group * count + rows.chain, return_inverse=True)
    samples = np.zeros(len(keys), np.int64)
    np.add.at(samples, place, rows.samples)
    return Counted(
        profile=profile,
        by=by,
        groups=groups,
        chain=keys % count,
        group=keys // count,
        weight=np.bincount(place, rows.weight, len(keys)).astype(np.float64, copy=False),
        samples=samples,
        rows=rows,
        idle=idle,
        idle_samples=int(every.samples.sum() - busy.samples.sum()),
        idle_weight=float(every.weight.sum() - busy.weight.sum()),
        unlisted=0.0 if process else profile.ledger.unlisted,
    )


def counts(known: Counted, weight: Weight) -> tuple[Ints, str]:
    """A whole number for each row, and what it counts.

    Percentages become thousandths of a percent, at least one; so they stay visible and viewers need no fractions.
    """
    if weight is Weight.SAMPLES and len(known.samples) and known.samples.min() > 0:
        return known.samples, "samples"
    scale = PERCENT if known.profile.percent_only else 1
    numbers = np.nan_to_num(np.rint(known.weight * scale)).clip(int(known.profile.percent_only), MOST).astype(np.int64)
    return numbers, "thousandths of a percent" if known.profile.percent_only else "period"


def _only(profile: Profile, rows: Rows, process: str) -> Rows:
    """The rows of one process, by pid or command."""
    if not process:
        return rows
    marks = np.fromiter((process in (t.comm, str(t.pid)) for t in profile.tasks), np.bool_, len(profile.tasks))
    return rows.only(marks[rows.task])


def _by_task(profile: Profile, rows: Rows, kept: Callable[[Task], Task]) -> tuple[tuple[Group, ...], Ints]:
    numbers: dict[Task, int] = {}
    of_task = np.fromiter((numbers.setdefault(kept(t), len(numbers)) for t in profile.tasks), np.int64)
    return tuple(Group(task) for task in numbers), of_task[rows.task]


def _by_cpu(rows: Rows) -> tuple[tuple[Group, ...], Ints]:
    cpus, group = np.unique(rows.cpu, return_inverse=True)
    groups = (Group(cpu=None if cpu == UNKNOWN else cpu) for cpu in cpus.tolist())
    return tuple(groups), group.astype(np.int64)


TASKS: dict[By, Callable[[Task], Task]] = {
    By.COMM: lambda task: Task(task.comm),
    By.PID: lambda task: Task(task.comm, task.pid),
    By.TID: lambda task: task,
    By.NONE: lambda _task: Task(),
}
