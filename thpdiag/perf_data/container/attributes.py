"""struct perf_event_attr of any size: what an event is, and what its samples hold.

Source: include/uapi/linux/perf_event.h. The structure grows with the kernel (64 bytes in 2.6.31, 136 in 6.3); its
`size` field says how long it is in this file. What an older one lacks is zero, what a newer one adds is passed over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag

from thpdiag.perf_data.container.header import Order

FIRST_SIZE = 64  # PERF_ATTR_SIZE_VER0
LEAST = 48  # up to the flags: without these nothing can be read
PRECISE = (15, 16)  # the two bits of precise_ip


class ReadFormat(IntFlag):
    """PERF_FORMAT_*: what PERF_SAMPLE_READ puts into a sample."""

    ENABLED = 1 << 0
    RUNNING = 1 << 1
    ID = 1 << 2
    GROUP = 1 << 3
    LOST = 1 << 4


class Flag(IntFlag):
    """The bit field of perf_event_attr, as far as names and layouts depend on it."""

    EXCLUDE_USER = 1 << 4
    EXCLUDE_KERNEL = 1 << 5
    EXCLUDE_HYPERVISOR = 1 << 6
    FREQUENCY = 1 << 10
    SAMPLE_ID_ALL = 1 << 18
    EXCLUDE_HOST = 1 << 19
    EXCLUDE_GUEST = 1 << 20
    USE_CLOCKID = 1 << 25


@dataclass(frozen=True, slots=True)
class Attribute:
    """The fields of perf_event_attr that matter here; `flags`: the first declared bit is the lowest everywhere."""

    kind: int  # PERF_TYPE_*
    config: int
    rate: int  # sample_period or sample_freq
    sample_type: int
    read_format: int
    flags: int
    clock: int
    most_frames: int

    @property
    def precise(self) -> int:
        return self.flags >> PRECISE[0] & 3


def _declared(flags: int, order: Order) -> int:
    """Compilers of big-endian machines put the first bit field highest."""
    if order == "<":
        return flags
    turned = int(f"{flags:064b}"[::-1], 2)
    low, high = (turned >> bit & 1 for bit in PRECISE)
    return turned & ~(3 << PRECISE[0]) | high << PRECISE[0] | low << PRECISE[1]


def attribute(raw: bytes, order: Order) -> Attribute | None:
    """From the bytes of the structure, which may be more than its `size`; None: too few to know anything."""
    if len(raw) < LEAST:
        return None
    size = int(struct.unpack_from(order + "I", raw, 4)[0]) or FIRST_SIZE
    whole = raw[:size].ljust(112, b"\0")
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from(order + "2I5Q", whole)
    clock, most = struct.unpack_from(order + "i12xH", whole, 92)
    return Attribute(kind, config, rate, sample_type, read_format, _declared(flags, order), clock, most)


def attribute_length(raw: bytes, order: Order) -> int:
    """How many bytes the structure at the beginning of `raw` takes."""
    return (int(struct.unpack_from(order + "I", raw, 4)[0]) or FIRST_SIZE) if len(raw) >= 8 else 0
