"""Windows of a recording become rows: what of a sample is kept, and when its task and maps are settled.

A COMM or MMAP record may stand behind samples that are younger: perf drains the buffers of one CPU after another, and
only two rounds later all is there. Samples wait until then. Up to `ONE_BY_ONE` each sample is a row; beyond, rows of
one chain, task and CPU within 100 ms are added up, so that the memory depends on what differs, not on how long it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thpdiag.model.profile import UNKNOWN
from thpdiag.perf_data.columns import Comm, EventInfo, Fork, Map, Samples, Window
from thpdiag.perf_data.profile.chains import RawChains
from thpdiag.perf_data.profile.kernel_image import of_kernel
from thpdiag.perf_data.profile.latest import NONE
from thpdiag.perf_data.profile.maps import AddressSpaces
from thpdiag.perf_data.profile.numbers import Ids, Numbers, pair
from thpdiag.perf_data.profile.tasks import UNRECORDED, Tasks
from thpdiag.perf_data.profile.uses import Uses
from thpdiag.perf_data.uapi import SampleType

ONE_BY_ONE = 8_000_000
HELD = 4_000_000  # samples that wait; more are settled as soon as two rounds have passed
_HUNDREDTH = np.uint64(10_000_000)  # nanoseconds of a time bin
_NEVER = np.uint64(2**64 - 1)  # samples without a time: whatever is known last
_MOST_HELD = 3 * HELD
_STRETCH = 1 << 19  # rows that are added up together
_ROUNDS = 2  # after which all that belongs between the samples has been read
_WITHOUT_ROUNDS = 2  # windows after which a recording without rounds is thought to be in order

_Record = TypeVar("_Record", Comm, Fork, Map)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Samples of one window whose tasks and maps are not yet sure."""

    rounds: int  # that had passed when the window ended
    event: Ids
    pid: Ids
    tid: Ids
    cpu: Ids
    chain: Ids
    time: NDArray[np.uint64]  # `_NEVER` where not recorded
    weight: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Rows: which event, which use of a chain (as `Uses` numbers them), task, CPU, 10 ms since the clock's zero."""

    event: Ids
    use: Ids
    task: Ids
    cpu: Ids
    bin: NDArray[np.int64]
    weight: NDArray[np.float64]
    samples: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.use)


class Gathered:
    """All that is kept of the windows read so far."""

    def __init__(self) -> None:
        self.chains, self.tasks, self.spaces = RawChains(), Tasks(), AddressSpaces()
        self.uses = Uses()
        self.kernel_maps: list[Map] = []
        self.first, self.last = int(_NEVER), 0  # ns
        self.lost = self.throttled = 0
        self.odd: dict[str, int] = {}
        self._held: list[Held] = []
        self._settled: list[Settled] = []
        self._rounds = 0

    def add(self, window: Window, events: Sequence[EventInfo]) -> None:
        """Keep what a window tells."""
        self._learn(window)
        self._rounds += window.rounds
        self.lost += window.lost
        self.throttled += window.throttled
        for why, count in window.odd.items():
            self.odd[why] = self.odd.get(why, 0) + count
        if len(window.samples):
            self._held.append(self._hold(window.samples, events))
        if self._waiting() > HELD:
            self._settle_some()

    def rows(self) -> Settled:
        """All rows. Nothing may be added afterwards."""
        while self._held:
            self._settled.append(self._settle(self._held.pop(0)))
        return joined(self._settled)

    def _learn(self, window: Window) -> None:
        """Records of before sample_id_all have no time: they count from where they stand."""
        comms, forks = (_timed(records, self.last) for records in (window.comms, window.forks))
        maps = _timed(window.maps, self.last)
        self.tasks.learn(comms, forks)
        self.spaces.learn(maps, forks)
        self.kernel_maps += (m for m in maps if of_kernel(m))

    def _hold(self, samples: Samples, events: Sequence[EventInfo]) -> Held:
        timed, time = samples.timed, samples.time
        if timed.all():
            low, high = int(time.min()), int(time.max())
        else:
            low, high = int(np.where(timed, time, _NEVER).min()), int(np.where(timed, time, 0).max())
            time = np.where(timed, time, _NEVER)
        self.first, self.last = min(self.first, low), max(self.last, high)
        tid, weight = samples.tid, samples.period.astype(np.float64)
        for number, event in enumerate(events):
            if not event.sample_type & SampleType.TID:
                tid = np.where(samples.event == number, UNRECORDED, tid).astype(np.int32)
            if event.period and not event.sample_type & SampleType.PERIOD:
                weight[samples.event == number] = event.period
        chain = self.chains.numbered(samples)
        cpu = np.maximum(samples.cpu, UNKNOWN)
        return Held(self._rounds, _alike(samples.event), samples.pid, tid, cpu, chain, time, _alike(weight))

    def _settle_some(self) -> None:
        """Settle the windows that two rounds have passed since, and add up rows where there are too many."""
        while len(self._held) > _WITHOUT_ROUNDS:
            late = self._rounds - self._held[0].rounds < _ROUNDS
            if late and self._rounds and self._waiting() < _MOST_HELD:
                break
            self._settled.append(self._settle(self._held.pop(0)))
        if sum(map(len, self._settled)) > ONE_BY_ONE:
            parts = [added_up(self._settled.pop(0)) for _ in range(len(self._settled))]  # each alone takes little
            self._settled = [added_up(joined(parts))]

    def _waiting(self) -> int:
        return sum(len(h.event) for h in self._held)

    def _settle(self, held: Held) -> Settled:
        task = self.tasks.numbered(held.pid, held.tid, held.time)
        epoch = np.full(len(held.chain), NONE, np.int32)
        inside = np.flatnonzero(self.chains.all().in_program[held.chain])
        epoch[inside] = self.spaces.epochs(held.pid[inside], held.time[inside])
        use = self.uses.numbered(held.chain, epoch, len(self.chains))
        bins = (held.time // _HUNDREDTH).view(np.int64)
        bins[held.time == _NEVER] = UNKNOWN
        return Settled(held.event, use, task, held.cpu, bins, held.weight, _ones(len(use)))


def joined(parts: list[Settled]) -> Settled:
    """All rows in one; column by column, so that nothing is there twice for long. Empties the list."""
    if not parts:
        none = np.empty(0, np.int32)
        return Settled(none, none, none, none, none.astype(np.int64), none.astype(np.float64), _ones(0))
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(Settled)}
    if len(parts) == 1:
        return parts.pop()
    parts.clear()
    return Settled(*(_whole(columns.pop(f.name)) for f in fields(Settled)))


def _whole(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(p.strides == (0,) and p[0] == parts[0][0] for p in parts):
        return np.broadcast_to(parts[0][0], (sum(map(len, parts)),))
    return np.concatenate(parts)


def _alike(column: NDArray[Any]) -> NDArray[Any]:
    """The same column; of one value for all it takes no memory."""
    alike = len(column) > 0 and column.min() == column.max()
    return np.broadcast_to(column[0], column.shape) if alike else column


def _ones(length: int) -> NDArray[np.int64]:
    """One sample in each row."""
    return np.broadcast_to(np.int64(1), (length,))


def added_up(rows: Settled) -> Settled:
    """Rows that agree in all but the last digit of the bin become one."""
    bins = np.where(rows.bin == UNKNOWN, UNKNOWN, rows.bin - rows.bin % 10)
    base = int(bins.min()) if len(bins) else 0
    ids, at = rows.event, np.arange(len(rows))
    for column in (rows.cpu, rows.use, rows.task, (bins - base) // 10):
        ids, at = _distinct(ids, column)
    weight, samples = (np.bincount(ids, column, len(at)).astype(np.float64) for column in (rows.weight, rows.samples))
    firsts = (rows.event[at], rows.use[at], rows.task[at], rows.cpu[at], bins[at])
    return Settled(*firsts, weight, samples.astype(np.int64))


def _distinct(high: Ids, low: NDArray[np.integer]) -> tuple[Ids, NDArray[np.int64]]:
    """The number of each pair, and where each is seen first; a stretch at a time, for most are seen often."""
    numbers, ids, firsts = Numbers(), np.empty(len(high), np.int32), []
    for begin in range(0, len(high), _STRETCH):
        some = slice(begin, begin + _STRETCH)
        ids[some], new = numbers.numbered(pair(high[some], low[some]))
        firsts.append(new + begin)
    return ids, np.concatenate(firsts)


def _timed(records: list[_Record], last: int) -> list[_Record]:
    if not last or all(r.time for r in records):
        return records
    return [r if r.time else replace(r, time=last + 1) for r in records]
