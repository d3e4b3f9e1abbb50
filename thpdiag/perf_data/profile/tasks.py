"""Who ran: names of threads by the history of COMM and FORK records.

A thread's name is that of its last COMM record, else its parent's at the moment of the fork. As in perf, thread 0 is
`swapper`, and a thread of which no record tells a name is `:TID`. Source: tools/perf/util/machine.c, thread.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Task
from thpdiag.perf_data.columns import Comm, Fork
from thpdiag.perf_data.profile.latest import NONE, Latest
from thpdiag.perf_data.profile.numbers import Ids, Numbers, pair

IDLE = "swapper"
UNRECORDED = -2
_MIX = np.uint64(0xD1342543DE82EF95)


class Tasks:
    """Numbers for the tasks of a recording; they stay what they are while the history grows."""

    def __init__(self) -> None:
        self._comms: list[Comm] = []
        self._forks: list[Fork] = []
        self._names: dict[str, int] = {}
        self._numbers = Numbers()
        self._tasks: list[Task] = []
        self._latest: tuple[Latest, NDArray[np.int64]] | None = None

    def learn(self, comms: Sequence[Comm], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file."""
        begun = [f for f in forks if not f.exit]
        self._comms += comms
        self._forks += begun
        if comms or begun:
            self._latest = None

    def all(self) -> tuple[Task, ...]:
        return tuple(self._tasks)

    def numbered(self, pids: NDArray[np.int32], tids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The number of each sample's task, as far as the records so far tell; `UNRECORDED` tids have no name."""
        self._latest = self._latest or self._history()
        latest, names = self._latest
        event = latest.at(tids, times)
        name = np.where(event == NONE, NONE, names[event]) if len(names) else event
        keys = pair(pids, tids) * _MIX + (name + 1).astype(np.uint64)
        ids, new = self._numbers.numbered(keys)
        known = list(self._names)
        for pid, tid, number in zip(pids[new].tolist(), tids[new].tolist(), name[new].tolist(), strict=True):
            comm = known[number] if number >= 0 else _nameless(tid)
            # -1 is a task whose number is gone already (sampled in do_exit).
            self._tasks.append(Task(comm, None if pid < 0 else pid, None if tid < 0 else tid))
        return ids

    def _history(self) -> tuple[Latest, NDArray[np.int64]]:
        """All moments at which a thread got a name, and the name's number (`NONE`: a thread without one began)."""
        events: list[Comm | Fork] = [*self._forks, *self._comms]
        events.sort(key=lambda e: e.time)
        names = np.full(len(events), NONE, np.int64)
        current: dict[int, int] = {}
        for i, event in enumerate(events):
            if isinstance(event, Comm):
                number = self._names.setdefault(event.name, len(self._names))
            else:
                number = current.get(event.parent_tid, NONE)
            current[event.tid] = int(number)
            names[i] = number
        times = np.fromiter((e.time for e in events), np.uint64, len(events))
        owners = np.fromiter((e.tid for e in events), np.int64, len(events))
        return Latest(owners, times), names


def _nameless(tid: int) -> str:
    if tid == UNRECORDED:
        return ""
    return IDLE if tid == 0 else f":{tid}"
