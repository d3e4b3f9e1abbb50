"""Records of a recording and their columns: the interface between the container and the making of profiles.

The container handles files, pipes, compression and byte order; profiles interpret the samples. Names of fields and
records are those of include/uapi/linux/perf_event.h, and for perf's own records (from 64 on) those of
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
    """PERF_SAMPLE_*: the fields of a sample that precede the call chain or affect the layout."""

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
    """PERF_RECORD_MISC_*: the mode of the CPU, or the address space of a map."""

    NOT_KNOWN = 0
    KERNEL = 1
    USER = 2
    HYPERVISOR = 3
    GUEST_KERNEL = 4
    GUEST_USER = 5


class Kind(IntEnum):
    """PERF_RECORD_*: the records that are read; all others are skipped."""

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
    """A recorded event: `name` as shown by perf (`cycles:ppp`), and fields of its attribute."""

    name: str
    ids: tuple[int, ...]
    sample_type: int
    read_format: int = 0
    frequency: int | None = None  # requested samples per second (attr.freq)
    period: int | None = None  # requested events per sample, if fixed
    clock: int | None = None  # attr.clockid if use_clockid is set (0 = CLOCK_REALTIME, 1 = CLOCK_MONOTONIC ...)
    max_frames: int = 0  # attr.sample_max_stack, 0 if unknown
    sample_id_all: bool = False  # records of other types end with id and time of the event

    @property
    def dwarf(self) -> bool:
        """Whether the stacks of programs were recorded raw, not as chains."""
        return bool(self.sample_type & SampleType.STACK_USER)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Columns of PERF_RECORD_SAMPLE in the order of the file, of equal length except `chain`.

    `chain` has PERF_SAMPLE_CALLCHAIN of all samples, including context markers (PERF_CONTEXT_*); that of sample `i` is
    `chain[starts[i]:starts[i + 1]]`, empty if chains were not recorded. Values that an event does not record are -1
    (pid, tid, cpu), 0 (time, ip) or 1 (period); `timed` is true for samples whose event records times. `offset` is that
    of the record in the file, or of the compressed record that contains it.
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
    """PERF_RECORD_COMM: the new name of a thread; `exec`: from a new program (PERF_RECORD_MISC_COMM_EXEC)."""

    time: int
    pid: int
    tid: int
    name: str
    exec: bool


class Fork(NamedTuple):
    """PERF_RECORD_FORK or, with `exit`, PERF_RECORD_EXIT: the start or end of a thread."""

    time: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int
    exit: bool


class Map(NamedTuple):
    """PERF_RECORD_MMAP and MMAP2: `name` from `offset` is mapped at the addresses `start` to `start + length`.

    With pid -1 and a kernel CPU mode it is the kernel image (`[kernel.kallsyms]_text`, whose `offset` is the runtime
    address of `_text`) or a module.
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
    """The records of one part of the recording (some MiB, whatever the size of the file).

    `lost` are samples that the kernel or perf reports as lost (LOST: `lost` field; LOST_SAMPLES), `throttled` the
    number of THROTTLE records.
    """

    samples: Samples
    comms: list[Comm] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    lost: int = 0
    throttled: int = 0
    rounds: int = 0  # FINISHED_ROUND records: sorting gives time order up to the end of the last but one round
    odd: dict[str, int] = field(default_factory=dict)  # samples that could not be read, by reason
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Features:
    """The header's features, empty or None if missing. Complete only after all windows are read.

    `clock_data` is (clockid, wall clock in ns since 1970, ns on clockid at that moment) of HEADER_CLOCK_DATA.
    `build_ids` maps names (`[kernel.kallsyms]`, paths) to hex.
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
