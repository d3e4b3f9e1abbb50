"""Bits of include/uapi/linux/perf_event.h that both the container and the making of profiles look at."""

from __future__ import annotations

from enum import IntEnum, IntFlag


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
