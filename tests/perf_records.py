"""Recordings of perf for tests: where the records of a file stand, files built record by record, files damaged.

Layout: tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag

from conftest import ROOT

FOLDER = ROOT / "fixtures" / "readers" / "perf_data"
MAGIC = b"PERFILE2"
FILE_HEADER = 104
ATTRIBUTE = 112  # bytes of perf_event_attr, version 5
CPU_CLOCK = (1, 0)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
MMAP, COMM, FORK, SAMPLE, HEADER_ATTR, COMPRESSED = 1, 3, 7, 9, 64, 81
KERNEL, USER = 1, 2  # header.misc
CONTEXT_KERNEL, CONTEXT_USER = 2**64 - 128, 2**64 - 512


class Asked(IntFlag):
    """PERF_SAMPLE_* that the built files use."""

    IP = 1
    TID = 2
    TIME = 4
    CALLCHAIN = 32
    CPU = 128
    PERIOD = 256


USUAL = Asked.IP | Asked.TID | Asked.TIME | Asked.CALLCHAIN | Asked.CPU | Asked.PERIOD
SAMPLE_ID_ALL = 1 << 18  # among the flags of an attribute


@dataclass(frozen=True, slots=True)
class Span:
    """A record: bytes `start` up to `end` of the file."""

    start: int
    end: int
    kind: int


def fixture(case: str) -> bytes:
    return (FOLDER / case / "perf.data").read_bytes()


def spans(data: bytes) -> list[Span]:
    """The records of a whole file or pipe, of either byte order; compressed ones are not looked into."""
    order = ">" if data[:8] == MAGIC[::-1] else "<"
    size = struct.unpack_from(f"{order}Q", data, 8)[0]
    start, length = (16, 0) if size == 16 else struct.unpack_from(f"{order}QQ", data, 40)
    return list(_walked(data, order, start, start + length if length else len(data)))


def _walked(data: bytes, order: str, at: int, end: int) -> Iterator[Span]:
    while at + 8 <= end:
        kind, _, size = struct.unpack_from(f"{order}IHH", data, at)
        yield Span(at, at + size, kind)
        at += size


def record(kind: int, payload: bytes, misc: int = USER, size: int | None = None) -> bytes:
    """A record; `size` is what it says of itself."""
    return struct.pack("<IHH", kind, misc, (8 + len(payload)) % 65536 if size is None else size) + payload


def sample(time: int, chain: Sequence[int], *, tid: int = 100, cpu: int = 0, period: int = 1, more: int = 0) -> bytes:
    """A sample of `USUAL`; `more` is added to the number of frames that it announces."""
    fixed = struct.pack("<QIIQIIQ", chain[-1] if chain else 0, tid, tid, time, cpu, 0, period)
    announced = (len(chain) + more) % 2**64
    return record(SAMPLE, fixed + struct.pack(f"<{1 + len(chain)}Q", announced, *chain))


def comm(tid: int, name: str, time: int = 0) -> bytes:
    """A thread's name, with the sample's id behind it."""
    text = name.encode() + b"\0"
    text += bytes(-len(text) % 8)
    return record(COMM, struct.pack("<II", tid, tid) + text + _trailer(tid, time))


def _trailer(tid: int, time: int) -> bytes:
    return struct.pack("<IIQII", tid, tid, time, 0, 0)


def attribute(asked: int = USUAL, flags: int = SAMPLE_ID_ALL, read_format: int = 0) -> bytes:
    """A perf_event_attr of cpu-clock."""
    kind, config = CPU_CLOCK
    fields = struct.pack("<IIQQQQQ", kind, ATTRIBUTE, config, 1_000_000, asked % 2**64, read_format % 2**64, flags)
    return fields + bytes(ATTRIBUTE - len(fields))


def recording(records: bytes, attr: bytes | None = None) -> bytes:
    """A file with one event and these records, without features."""
    attr = attribute() if attr is None else attr
    entry = attr + struct.pack("<QQ", FILE_HEADER, 0)
    begin = FILE_HEADER + len(entry)
    header = struct.pack("<8s8Q", MAGIC, FILE_HEADER, len(entry), FILE_HEADER, len(entry), begin, len(records), 0, 0)
    return header + bytes(FILE_HEADER - len(header)) + entry + records


def piped(records: bytes, attr: bytes | None = None) -> bytes:
    """The same as `perf record -o -` writes it."""
    told = record(HEADER_ATTR, (attribute() if attr is None else attr) + struct.pack("<Q", 1), misc=0)
    return MAGIC + struct.pack("<Q", 16) + told + records


def with_word(data: bytes, at: int, value: int, width: int = 8) -> bytes:
    """Another number in one place."""
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def with_bit(data: bytes, bit: int) -> bytes:
    """One bit another."""
    at = bit // 8 % len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]
