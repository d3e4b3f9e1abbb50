"""Records that are no samples: who got which name, which address space shows what, what was lost.

Source: include/uapi/linux/perf_event.h, tools/perf/lib/include/perf/event.h. With sample_id_all the time stands near
the end of each record; what perf itself wrote (of tasks that ran before) has time 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from thpdiag.perf_data.columns import Comm, Fork, Map, Window
from thpdiag.perf_data.container.features import string
from thpdiag.perf_data.container.header import Order
from thpdiag.perf_data.container.record_types import Kind

BY_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
MAP_BUILD_ID = 1 << 14  # PERF_RECORD_MISC_MMAP_BUILD_ID
DROPPED_BY_FILTER = 1 << 15  # PERF_RECORD_MISC_LOST_SAMPLES_BPF: not lost, but not wanted
DROPPED = "samples that a filter dropped"
MAP_NAME, MAP2_NAME = 40, 72  # where the names begin

Told = Callable[[bytes, int, int, Window], None]  # the whole record, header.misc, the time of its sample_id or 0


class SideRecords:
    """Reads such records in one byte order."""

    def __init__(self, order: Order) -> None:
        self._task = struct.Struct(order + "8x2i")
        self._fork_exit = struct.Struct(order + "8x4iQ")
        self._map = struct.Struct(order + "8x2i3Q")
        self._number = struct.Struct(order + "Q")
        self._at_once = self._summed = self._lost_so_far = 0
        self.readers: dict[int, Told] = {
            int(Kind.COMM): self._comm,
            int(Kind.FORK): self._fork,
            int(Kind.EXIT): self._exit,
            int(Kind.MMAP): self._mmap,
            int(Kind.MMAP2): self._mmap2,
            int(Kind.LOST): self._lost,
            int(Kind.LOST_SAMPLES): self._lost_samples,
        }

    def tell(self, kind: int, raw: bytes, misc: int, time: int, window: Window) -> bool:
        """Adds what the record says; False where it is too short to say it."""
        try:
            self.readers[kind](raw, misc, time, window)
        except struct.error:
            return False
        return True

    def _comm(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        pid, tid = self._task.unpack_from(raw)
        window.comms.append(Comm(time, pid, tid, string(raw[16:]), bool(misc & BY_EXEC)))

    def _fork(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        pid, parent_pid, tid, parent_tid, when = self._fork_exit.unpack_from(raw)
        window.forks.append(Fork(when, pid, tid, parent_pid, parent_tid, exit=False))

    def _exit(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        pid, parent_pid, tid, parent_tid, when = self._fork_exit.unpack_from(raw)
        window.forks.append(Fork(when, pid, tid, parent_pid, parent_tid, exit=True))

    def _mmap(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        pid, tid, start, length, offset = self._map.unpack_from(raw)
        window.maps.append(Map(time, pid, tid, start, length, offset, string(raw[MAP_NAME:]), misc))

    def _mmap2(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        if len(raw) < MAP2_NAME:
            raise struct.error("shorter than its fixed fields")
        pid, tid, start, length, offset = self._map.unpack_from(raw)
        build_id = raw[44 : 44 + min(raw[40], 20)].hex() if misc & MAP_BUILD_ID else ""
        window.maps.append(Map(time, pid, tid, start, length, offset, string(raw[MAP2_NAME:]), misc, build_id))

    def _lost(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        self._at_once += self._number.unpack_from(raw, 16)[0]
        self._settle(window)

    def _lost_samples(self, raw: bytes, misc: int, time: int, window: Window) -> None:
        count = self._number.unpack_from(raw, 8)[0]
        if misc & DROPPED_BY_FILTER:
            window.others[DROPPED] = window.others.get(DROPPED, 0) + count
        elif time:  # the kernel's own, of samples that the hardware wrote (PEBS)
            window.lost += count
        else:
            self._summed += count
            self._settle(window)

    def _settle(self, window: Window) -> None:
        """perf (6.1 and later) sums up at the end what LOST records told as it happened: the same losses."""
        lost = max(self._at_once, self._summed)
        window.lost += lost - self._lost_so_far
        self._lost_so_far = lost
