"""Records of a recording and their columns: the contract between reading a file and making profiles of it.

The container (file, pipe, compressed, either byte order) is one thing, what samples mean is another; they meet here.
Names of fields and records are those of include/uapi/linux/perf_event.h, of perf's own records (from 64 on) those of
tools/perf/util/event.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, NamedTuple

from thpdiag.model import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SampleType(IntFlag):
    """PERF_SAMPLE_*: the fields of a sample, as far as they stand before the call chain or tell the layout."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    STACK_USER = 1 << 13
    IDENTIFIER = 1 << 16


CPU_MODE = 7  # PERF_RECORD_MISC_CPUMODE_MASK: these bits of header.misc


class CpuMode(IntEnum):
    """PERF_RECORD_MISC_*: where the CPU was, or whose address space a map is of."""

    NOT_KNOWN = 0
    KERNEL = 1
    USER = 2
    HYPERVISOR = 3
    GUEST_KERNEL = 4
    GUEST_USER = 5


class Kind(IntEnum):
    """PERF_RECORD_*: the records that are looked into; all others are passed over."""

    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    THROTTLE = 5
    FORK = 7
    SAMPLE = 9
    MMAP2 = 10
    LOST_SAMPLES = 13
    HEADER_ATTR = 64
    HEADER_TRACING_DATA = 66
    HEADER_BUILD_ID = 67
    FINISHED_ROUND = 68
    AUXTRACE = 71
    EVENT_UPDATE = 78
    HEADER_FEATURE = 80
    COMPRESSED = 81
    COMPRESSED2 = 83


class EventInfo(NamedTuple):
    """One event that was recorded: `name` as perf shows it (`cycles:ppp`), the attribute's fields that matter."""

    name: str
    ids: tuple[int, ...]
    sample_type: int
    read_format: int = 0
    frequency: int | None = None  # samples per second asked for (attr.freq), else None
    period: int | None = None  # events per sample asked for, where it is fixed
    clock: int | None = None  # attr.clockid where use_clockid is set (0 = CLOCK_REALTIME, 1 = CLOCK_MONOTONIC ...)
    max_frames: int = 0  # attr.sample_max_stack, 0 where the attribute does not say
    sample_id_all: bool = False  # records of other types end with the sample's id and time

    @property
    def dwarf(self) -> bool:
        """Programs' stacks were recorded raw, not as chains."""
        return bool(self.sample_type & SampleType.STACK_USER)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Columns of PERF_RECORD_SAMPLE, in the order of the file; all of equal length but `chain`.

    `chain` holds PERF_SAMPLE_CALLCHAIN of all samples, context markers (PERF_CONTEXT_*) included, sample `i` at
    `starts[i]:starts[i + 1]`. Where chains were not recorded it is empty and `ip` is all there is. What an event did
    not record is -1 (pid, tid, cpu) or 0 (time, ip) and `period` 1; `timed` says for each sample whether its event
    records times. `offset` is that of the record in the file (of the compressed record that holds it).
    """

    event: NDArray[np.int32]  # index into Recording.events
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    time: NDArray[np.uint64]  # ns on the clock of the recording
    timed: NDArray[np.bool_]
    period: NDArray[np.uint64]
    ip: NDArray[np.uint64]
    misc: NDArray[np.uint16]  # header.misc: the CPU mode in the lowest three bits
    offset: NDArray[np.int64]
    chain: NDArray[np.uint64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.event)


class Comm(NamedTuple):
    """PERF_RECORD_COMM: a thread got a name; `exec`: by a new program (misc bit PERF_RECORD_MISC_COMM_EXEC)."""

    time: int
    pid: int
    tid: int
    name: str
    exec: bool


class Fork(NamedTuple):
    """PERF_RECORD_FORK: a thread began (`exit` False) or ended (PERF_RECORD_EXIT)."""

    time: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int
    exit: bool


class Map(NamedTuple):
    """PERF_RECORD_MMAP and MMAP2: addresses `start` up to `start + length` show `name` from `offset` on.

    pid -1 and a kernel CPU mode: the kernel's own image (`[kernel.kallsyms]_text`, whose `offset` is the runtime
    address of `_text`) and modules.
    """

    time: int
    pid: int
    tid: int
    start: int
    length: int
    offset: int
    name: str
    misc: int
    build_id: str = ""


@dataclass(slots=True)
class Window:
    """What stood in one stretch of the recording (some MiB); bounded, whatever the size of the file.

    `lost` are samples that the kernel or perf says it lost (LOST: `lost` field; LOST_SAMPLES), `throttled` the number
    of THROTTLE records. `problems` are those met in this stretch.
    """

    samples: Samples
    comms: list[Comm] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    lost: int = 0
    throttled: int = 0
    rounds: int = 0  # FINISHED_ROUND records: all before the last but one round's end are in time order after sorting
    odd: dict[str, int] = field(default_factory=dict)  # samples that could not be read, by reason
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Features:
    """The header's features, empty or None where the file has none. Complete only after all windows were read.

    `clock_data` is (clockid, wall clock ns since 1970, ns on clockid at that moment) of HEADER_CLOCK_DATA. `build_ids`
    maps names (`[kernel.kallsyms]`, paths) to hex.
    """

    hostname: str = ""
    release: str = ""
    version: str = ""
    arch: str = ""
    cpus_online: int | None = None
    cpu_description: str = ""
    total_memory_kb: int | None = None
    command_line: tuple[str, ...] = ()
    clock_data: tuple[int, int, int] | None = None
    build_ids: Mapping[str, str] = field(default_factory=dict)
