"""Records that are no samples: who got which name, which address space shows what, what was lost.

Source: include/uapi/linux/perf_event.h, tools/perf/lib/include/perf/event.h. With sample_id_all the time stands near
the end of each record; what perf itself wrote (of tasks that ran before) has time 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from thpdiag.perf_data.columns import Comm, Fork, Map, Window
from thpdiag.perf_data.features import string
from thpdiag.perf_data.header import Order
from thpdiag.perf_data.record_types import Kind

BY_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
MAP_BUILD_ID = 1 << 14  # PERF_RECORD_MISC_MMAP_BUILD_ID
DROPPED_BY_FILTER = 1 << 15  # PERF_RECORD_MISC_LOST_SAMPLES_BPF: not lost, but not wanted
MAP_NAME = {Kind.MMAP: 40, Kind.MMAP2: 72}


@dataclass(frozen=True, slots=True)
class Side:
    """One record; `raw` is all of it, `time` that of its sample_id or 0, `trailer` the bytes of sample_id's time."""

    kind: int
    misc: int
    raw: bytes
    order: Order
    time: int

    def numbers(self, form: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self.order + form, self.raw, at)


def _comm(side: Side, window: Window) -> None:
    pid, tid = side.numbers("2i", 8)
    window.comms.append(Comm(side.time, pid, tid, string(side.raw[16:]), bool(side.misc & BY_EXEC)))


def _fork(side: Side, window: Window) -> None:
    pid, parent_pid, tid, parent_tid, time = side.numbers("4iQ", 8)
    window.forks.append(Fork(time, pid, tid, parent_pid, parent_tid, side.kind == Kind.EXIT))


def _build_id(side: Side) -> str:
    if side.kind != Kind.MMAP2 or not side.misc & MAP_BUILD_ID:
        return ""
    return side.raw[44 : 44 + min(side.raw[40], 20)].hex()


def _map(side: Side, window: Window) -> None:
    pid, tid, start, length, offset = side.numbers("2i3Q", 8)
    name = string(side.raw[MAP_NAME[Kind(side.kind)] :])
    window.maps.append(Map(side.time, pid, tid, start, length, offset, name, side.misc, _build_id(side)))


def _lost(side: Side, window: Window) -> None:
    window.lost += side.numbers("Q", 16)[0]


def _lost_samples(side: Side, window: Window) -> None:
    count = side.numbers("Q", 8)[0]
    if side.misc & DROPPED_BY_FILTER:
        window.others["samples dropped by a filter"] = window.others.get("samples dropped by a filter", 0) + count
    else:
        window.lost += count


READERS: dict[int, Callable[[Side, Window], None]] = {
    Kind.COMM: _comm,
    Kind.FORK: _fork,
    Kind.EXIT: _fork,
    Kind.MMAP: _map,
    Kind.MMAP2: _map,
    Kind.LOST: _lost,
    Kind.LOST_SAMPLES: _lost_samples,
}
SHORTEST = {Kind.MMAP: 40, Kind.MMAP2: 72}


def tell(side: Side, window: Window) -> bool:
    """Adds what the record says; False where it is too short to say it."""
    if len(side.raw) < SHORTEST.get(Kind(side.kind), 0):
        return False
    try:
        READERS[side.kind](side, window)
    except struct.error:
        return False
    return True
