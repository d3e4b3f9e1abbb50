"""Writes recordings of either byte order: events, samples with all fields, features, compressed records, pipes.

Layout: include/uapi/linux/perf_event.h, tools/perf/util/header.h.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import zstandard

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID = (1 << bit for bit in range(10))
RAW, IDENTIFIER = 1 << 10, 1 << 16
USUAL = IP | TID | TIME | CPU | PERIOD | CALLCHAIN
ENABLED, RUNNING, WITH_ID, GROUP = 1, 2, 4, 8
FREQUENCY, SAMPLE_ID_ALL = 10, 18  # places of flags, counted in the order of declaration
KERNEL, USER, GUEST_KERNEL = 1, 2, 4
MMAP, LOST, COMM, EXIT, THROTTLE, FORK, SAMPLE, MMAP2, LOST_SAMPLES = 1, 2, 3, 4, 5, 7, 9, 10, 13
ATTR, TRACING_DATA, ROUND, AUXTRACE, UPDATE, FEATURE = 64, 66, 68, 71, 78, 80
COMPRESSED, COMPRESSED2 = 81, 83
CONTEXT_KERNEL, CONTEXT_USER = 2**64 - 128, 2**64 - 512


@dataclass(frozen=True)
class Event:
    """An event to record; by default cpu-clock at 1,000 Hz."""

    sample_type: int = USUAL
    ids: tuple[int, ...] = ()
    kind: int = 1
    config: int = 0
    read_format: int = 0
    flags: tuple[int, ...] = (FREQUENCY, SAMPLE_ID_ALL)
    rate: int = 1000
    size: int = 112


@dataclass(frozen=True)
class Taken:
    """One sample: fields that its event does not select are not written."""

    time: int = 1000
    chain: tuple[int, ...] = (CONTEXT_KERNEL, 0xFFFFFFFF81000001, CONTEXT_USER, 0x401000)
    pid: int = 10
    tid: int = 11
    cpu: int = 1
    period: int = 7
    ident: int = 0
    read: tuple[int, ...] = ()
    more: int = 0  # added to the number of frames that it announces
    misc: int = KERNEL


@dataclass(frozen=True)
class Writer:
    """Bytes in one order: `<` or `>`."""

    order: str = "<"

    def pack(self, form: str, *numbers: int) -> bytes:
        return struct.pack(self.order + form, *numbers)

    def record(self, kind: int, payload: bytes = b"", misc: int = USER, size: int | None = None) -> bytes:
        return self.pack("IHH", kind, misc, 8 + len(payload) if size is None else size) + payload

    def attribute(self, event: Event) -> bytes:
        first = sum(1 << (place if self.order == "<" else 63 - place) for place in event.flags)
        numbers = event.config, event.rate, event.sample_type, event.read_format, first
        return self.pack("II5Q", event.kind, event.size, *numbers).ljust(event.size, b"\0")

    def sample(self, event: Event, taken: Taken) -> bytes:
        fields = {
            IDENTIFIER: self.pack("Q", taken.ident),
            IP: self.pack("Q", taken.chain[1] if len(taken.chain) > 1 else 0),
            TID: self.pack("II", taken.pid, taken.tid),
            TIME: self.pack("Q", taken.time),
            ADDR: self.pack("Q", 0xADD),
            ID: self.pack("Q", taken.ident),
            STREAM_ID: self.pack("Q", 0x57),
            CPU: self.pack("II", taken.cpu, 0),
            PERIOD: self.pack("Q", taken.period),
            READ: self.pack(f"{len(taken.read)}Q", *taken.read),
            CALLCHAIN: self.pack(f"{1 + len(taken.chain)}Q", (len(taken.chain) + taken.more) % 2**64, *taken.chain),
            RAW: self.pack("II", 4, 9),
        }
        return self.record(SAMPLE, b"".join(f for bit, f in fields.items() if event.sample_type & bit), taken.misc)

    def trailer(self, time: int) -> bytes:
        """Return the sample_id of an event that records TID, TIME and CPU."""
        return self.pack("IIQII", 10, 11, time, 1, 0)

    def comm(self, name: str, time: int, misc: int = 0) -> bytes:
        return self.record(COMM, self.pack("II", 10, 11) + name.encode().ljust(16, b"\0") + self.trailer(time), misc)

    def text(self, text: str) -> bytes:
        raw = text.encode() + b"\0"
        raw += bytes(-len(raw) % 64)
        return self.pack("I", len(raw)) + raw

    def names(self, events: Sequence[tuple[str, Event]]) -> bytes:
        """Return the feature EVENT_DESC."""
        rows = (
            self.attribute(e) + self.pack("I", len(e.ids)) + self.text(name) + self.pack(f"{len(e.ids)}Q", *e.ids)
            for name, e in events
        )
        return self.pack("II", len(events), events[0][1].size) + b"".join(rows)


@dataclass(frozen=True)
class File:
    """A recording to be written; `closed` False leaves its sizes as perf writes them at the start."""

    records: bytes
    events: Sequence[Event] = (Event(),)
    features: dict[int, bytes] = field(default_factory=dict)
    order: str = "<"
    closed: bool = True
    behind: bool = False  # attributes after the records

    def written(self) -> bytes:
        """Return the file; perf puts the attributes after the features, or before the records."""
        write = Writer(self.order)
        data = 104 if self.behind else 104 + len(self._attributes(write, 104)[0])
        tail = self._features(write, data + len(self.records)) if self.closed else b""
        begin = data + len(self.records) + len(tail) if self.behind else 104
        attributes, ids = self._attributes(write, begin)
        size = len(self.records) if self.closed else 0
        numbers = 104, self.events[0].size + 16, begin + ids, len(attributes) - ids, data, size, 0, 0
        bits = [sum(1 << bit % 64 for bit in self.features if bit // 64 == word) for word in range(4)]
        parts = (self.records + tail, attributes) if self.behind else (attributes, self.records + tail)
        magic = b"PERFILE2" if self.order == "<" else b"2ELIFREP"
        return magic + write.pack("12Q", *numbers, *bits) + b"".join(parts)

    def _attributes(self, write: Writer, begin: int) -> tuple[bytes, int]:
        """Return ids, then the attributes with their places, and the length of the ids."""
        ids = [write.pack(f"{len(event.ids)}Q", *event.ids) for event in self.events]
        entries = b""
        for number, event in enumerate(self.events):
            place = begin + sum(map(len, ids[:number]))
            entries += write.attribute(event) + write.pack("QQ", place, len(ids[number]))
        return b"".join(ids) + entries, sum(map(len, ids))

    def _features(self, write: Writer, begin: int) -> bytes:
        rows = sorted(self.features.items())
        at = begin + 16 * len(rows)
        table = b""
        for _, content in rows:
            table += write.pack("QQ", at, len(content))
            at += len(content)
        return table + b"".join(content for _, content in rows)


def pipe(records: bytes, events: Sequence[Event] = (Event(),), order: str = "<") -> bytes:
    """Return the same recording as `perf record -o -` writes it: events are records."""
    write = Writer(order)
    told = (write.record(ATTR, write.attribute(e) + write.pack(f"{len(e.ids)}Q", *e.ids), 0) for e in events)
    return (b"PERFILE2" if order == "<" else b"2ELIFREP") + write.pack("Q", 16) + b"".join(told) + records


def flushed(records: bytes, pieces: int) -> list[bytes]:
    """Return one frame that is flushed at places inside records, as perf writes it."""
    step = -(-len(records) // pieces)
    flow = zstandard.ZstdCompressor().compressobj()
    parts = [records[at : at + step] for at in range(0, len(records), step)]
    return [flow.compress(part) + flow.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts]


def framed(records: bytes, pieces: int) -> list[bytes]:
    """Return frames of 1,000 bytes each, cut regardless of record ends."""
    whole = b"".join(zstandard.compress(records[at : at + 1000]) for at in range(0, len(records), 1000))
    step = -(-len(whole) // pieces)
    return [whole[at : at + step] for at in range(0, len(whole), step)]


def packed(pieces: Sequence[bytes], kind: int = COMPRESSED) -> bytes:
    """Return records with these pieces; COMPRESSED2 contains its length and is padded."""
    write = Writer()
    if kind == COMPRESSED2:
        pieces = [write.pack("Q", len(piece)) + piece + bytes(-len(piece) % 8) for piece in pieces]
    return b"".join(write.record(kind, piece, 0) for piece in pieces)
