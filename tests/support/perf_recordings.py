"""Recordings of perf for tests: places of the records of a file, small files of `perf_files`, damaged files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from command_line import ROOT
from perf_files import USER, Event, File, Taken, Writer, pipe

FOLDER = ROOT / "fixtures" / "readers" / "perf_data"
MAGIC = b"PERFILE2"
EVENT = Event()
record = Writer().record


@dataclass(frozen=True, slots=True)
class Span:
    """A record: bytes `start` to `end` of the file."""

    start: int
    end: int
    kind: int


def fixture(case: str) -> bytes:
    return (FOLDER / case / "perf.data").read_bytes()


def spans(data: bytes) -> list[Span]:
    """Return the records of a complete file or pipe of either byte order; compressed ones are not unpacked."""
    order = ">" if data[:8] == MAGIC[::-1] else "<"
    size = struct.unpack_from(f"{order}Q", data, 8)[0]
    start, length = (16, 0) if size == 16 else struct.unpack_from(f"{order}QQ", data, 40)
    return list(_walked(data, order, start, start + length if length else len(data)))


def _walked(data: bytes, order: str, at: int, end: int) -> Iterator[Span]:
    while at + 8 <= end:
        kind, _, size = struct.unpack_from(f"{order}IHH", data, at)
        yield Span(at, at + size, kind)
        at += size


def sample(time: int, chain: Sequence[int], *, tid: int = 100, more: int = 0) -> bytes:
    """Return a sample of a program; `more` is added to its number of frames."""
    return Writer().sample(EVENT, Taken(time, tuple(chain), pid=tid, tid=tid, period=1, more=more, misc=USER))


def recording(records: bytes, event: Event = EVENT) -> bytes:
    """Return a file with one event and these records, without features."""
    return File(records, (event,)).written()


def piped(records: bytes, event: Event = EVENT) -> bytes:
    """Return the same recording as `perf record -o -` writes it."""
    return pipe(records, (event,))


def with_word(data: bytes, at: int, value: int, width: int = 8) -> bytes:
    """Return the bytes with another number in one place."""
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def with_bit(data: bytes, bit: int) -> bytes:
    """Return the bytes with one bit flipped."""
    at = bit // 8 % len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]
