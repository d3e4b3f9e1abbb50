"""Hand-made records of perf.data in the form that the container returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thpdiag.model.ragged import starts_of
from thpdiag.perf.records import Comm, EventInfo, Features, Fork, Map, Samples, Window

KERNEL, USER, GARBAGE = 2**64 - 128, 2**64 - 512, 2**64 - 1
K, U = 0xFFFFFFFF81000000, 0x400000
TEXT = Map(0, -1, 0, K, 0x2000000, K, "[kernel.kallsyms]_text", 1)
CALLCHAINS = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 8  # TID, TIME, CALLCHAIN, CPU, PERIOD
CLOCK = EventInfo("cpu-clock", (1,), CALLCHAINS, max_frames=127)


def sample(chain: Sequence[int] = (), **given: Any) -> dict[str, Any]:
    """Return one sample; times are in milliseconds."""
    plain = {"event": 0, "pid": 10, "tid": 10, "cpu": 0, "ms": 1000, "timed": True, "period": 1, "ip": 0, "mode": 1}
    return {**plain, "chain": list(chain), **given}


def samples(*given: dict[str, Any]) -> Samples:
    """Return columns of samples."""

    def column(name: str, kind: type) -> Any:
        return np.array([s[name] for s in given], kind)

    return Samples(
        event=column("event", np.int32),
        pid=column("pid", np.int32),
        tid=column("tid", np.int32),
        cpu=column("cpu", np.int32),
        time=(column("ms", np.float64) * 1e6).astype(np.uint64),
        timed=column("timed", np.bool_),
        period=column("period", np.uint64),
        ip=column("ip", np.uint64),
        misc=column("mode", np.uint16),
        offset=np.zeros(len(given), np.int64),
        chain=np.array([v for s in given for v in s["chain"]], np.uint64),
        starts=starts_of(np.array([len(s["chain"]) for s in given], np.int64)),
    )


def comm(ms: float, tid: int, name: str, pid: int | None = None, *, exec: bool = False) -> Comm:
    return Comm(int(ms * 1e6), tid if pid is None else pid, tid, name, exec)


def fork(ms: float, tid: int, parent: int, pid: int | None = None, parent_pid: int | None = None) -> Fork:
    own, its = tid if pid is None else pid, parent if parent_pid is None else parent_pid
    return Fork(int(ms * 1e6), own, tid, its, parent, False)


def mapped(ms: float, pid: int, start: int, length: int, name: str, offset: int = 0) -> Map:
    return Map(int(ms * 1e6), pid, pid, start, length, offset, name, 2)


@dataclass
class ByHand:
    """A hand-made Recording."""

    given: Sequence[Window]
    events: Sequence[EventInfo] = (CLOCK,)
    features: Features = field(default_factory=Features)

    def windows(self) -> Iterator[Window]:
        yield from self.given
