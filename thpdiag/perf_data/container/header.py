"""The header of perf.data and its sections of attributes.

Source: tools/perf/util/header.h and tools/perf/Documentation/perf.data-file-format.txt. A file begins with `PERFILE2`
(`2ELIFREP` from a machine of the other byte order; `PERFFILE`, of before 2.6.32, is not read). The header has 104
bytes, 16 where perf wrote into a pipe. Up to perf 6.15 the attributes stand before the records; `perf inject` of later
ones may put them behind.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

Order = Literal["<", ">"]  # as struct and numpy write it: least significant byte first, or last

MAGICS: dict[bytes, Order] = {b"PERFILE2": "<", b"2ELIFREP": ">"}
PIPE = 16
FILE = 104
START = 16  # bytes that tell which of both it is


@dataclass(frozen=True, slots=True)
class Section:
    """`offset` in the file and `size` in bytes."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file. `attribute_size` is that of an entry: a perf_event_attr and the section of its ids."""

    order: Order
    attribute_size: int
    attributes: Section
    data: Section
    features: tuple[int, ...]  # numbers of the features behind the data, ascending


def byte_order(start: bytes) -> Order | None:
    """From the first 16 bytes; None: no recording."""
    return MAGICS.get(start[:8]) if len(start) >= START else None


def header_size(start: bytes, order: Order) -> int:
    return int(struct.unpack_from(order + "Q", start, 8)[0])


def header(raw: bytes, order: Order) -> Header:
    """From the 104 bytes of a file's header."""
    n = struct.unpack_from(order + "8x8Q", raw)
    words = struct.unpack_from(order + "4Q", raw, 72)
    bits = tuple(64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1)
    return Header(order, n[1], Section(n[2], n[3]), Section(n[4], n[5]), bits)


def sections(raw: bytes, count: int, order: Order) -> list[Section]:
    """The table of the features' places; fewer where it is cut."""
    whole = min(count, len(raw) // 16)
    numbers = struct.unpack_from(f"{order}{2 * whole}Q", raw)
    return [Section(numbers[i], numbers[i + 1]) for i in range(0, 2 * whole, 2)]
