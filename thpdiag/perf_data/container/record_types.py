"""Numbers of record types.

Source: include/uapi/linux/perf_event.h for the kernel's, tools/perf/util/event.h for perf's own from 64 on.
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """PERF_RECORD_*."""

    MMAP = 1
    LOST = 2
    COMM = 3
    EXIT = 4
    THROTTLE = 5
    UNTHROTTLE = 6
    FORK = 7
    READ = 8
    SAMPLE = 9
    MMAP2 = 10
    AUX = 11
    ITRACE_START = 12
    LOST_SAMPLES = 13
    SWITCH = 14
    SWITCH_CPU_WIDE = 15
    NAMESPACES = 16
    KSYMBOL = 17
    BPF_EVENT = 18
    CGROUP = 19
    TEXT_POKE = 20
    AUX_OUTPUT_HW_ID = 21
    CALLCHAIN_DEFERRED = 22
    HEADER_ATTR = 64
    HEADER_EVENT_TYPE = 65
    HEADER_TRACING_DATA = 66
    HEADER_BUILD_ID = 67
    FINISHED_ROUND = 68
    ID_INDEX = 69
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    AUXTRACE_ERROR = 72
    THREAD_MAP = 73
    CPU_MAP = 74
    STAT_CONFIG = 75
    STAT = 76
    STAT_ROUND = 77
    EVENT_UPDATE = 78
    TIME_CONV = 79
    HEADER_FEATURE = 80
    COMPRESSED = 81
    FINISHED_INIT = 82
    COMPRESSED2 = 83
    BPF_METADATA = 84


KNOWN = frozenset(int(kind) for kind in Kind)
TYPES = 256  # what is below may be a type that is not known yet; what is not was hardly written by perf
FOLLOWED = (Kind.HEADER_TRACING_DATA, Kind.AUXTRACE)  # by bytes that the record's size does not count
PACKED = (Kind.COMPRESSED, Kind.COMPRESSED2)
