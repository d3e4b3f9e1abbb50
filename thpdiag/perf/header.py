"""The header of perf.data: attributes of events, and features of the recording (who, where, when).

A file begins with `PERFILE2` (`2ELIFREP` from a machine of the other byte order; `PERFFILE`, from before 2.6.32, is not
read). The header has 104 bytes, or 16 if perf wrote to a pipe. Up to perf 6.15 the attributes precede the records;
`perf inject` of later versions may put them after the records. The records of a file are followed by a table of the
feature sections, one for each bit set in the header; in a pipe each feature is a record (HEADER_FEATURE). Strings are a
u32 length and that many bytes, padded with zeros. Source: tools/perf/Documentation/perf.data-file-format.txt,
tools/perf/util/header.c.

The attributes of an event (struct perf_event_attr) determine its name in perf and the layout of its samples. The struct
grows with the kernel (64 bytes in 2.6.31, 136 in 6.3); its `size` field is the size in this file. Missing fields are
zero, additional ones are ignored. Records refer to their event by id (tools/perf/util/evlist.c): an event opened on N
CPUs has N ids. In samples the id is at a position that all events share; in records of other types it is near the end.
Source: include/uapi/linux/perf_event.h; names and modifiers as in `perf list` and `perf evlist`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf.records import EventInfo, Features, SampleType

Order = Literal["<", ">"]  # byte order in the notation of struct and numpy

MAGICS: dict[bytes, Order] = {b"PERFILE2": "<", b"2ELIFREP": ">"}
PIPE_BYTES, FILE_BYTES = 16, 104  # size of the header, which is in its second word
MAX_BUILD_IDS = 1 << 16
_SIZE_GIVEN = 1 << 15  # PERF_RECORD_MISC_BUILD_ID_SIZE
_CUT_KERNEL = "nel.kallsyms]"  # the kernel's name as read from records without pid (before 2.6.34)
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Section(NamedTuple):
    """A section of the file, in bytes."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class Header(NamedTuple):
    """The header of a file. `attribute_size` is the size of an entry: a perf_event_attr and the section of its ids."""

    order: Order
    attribute_size: int
    attributes: Section
    data: Section
    features: tuple[int, ...]  # numbers of the features after the data, ascending


def parse_header(raw: bytes, order: Order) -> Header:
    """Parse the 104 bytes of a file's header."""
    _, attribute_size, *places = struct.unpack_from(order + "8x6Q", raw)
    words = struct.unpack_from(order + "4Q", raw, 72)
    bits = tuple(64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1)
    return Header(order, attribute_size, Section(*places[:2]), Section(*places[2:]), bits)


def feature_places(raw: bytes, count: int, order: Order) -> list[Section]:
    """Parse the table of feature sections; fewer than `count` if it is truncated."""
    return [Section(*pair) for pair in struct.iter_unpack(order + "2Q", raw[: 16 * min(count, len(raw) // 16)])]


def parse_string(raw: bytes) -> str:
    """Decode a string up to the first zero byte; control and invisible characters become U+FFFD."""
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return text if text.isprintable() else _INVISIBLE.sub("\ufffd", text)


class Feature(IntEnum):
    """HEADER_*."""

    BUILD_ID = 2
    HOSTNAME = 3
    OSRELEASE = 4
    VERSION = 5
    ARCH = 6
    NRCPUS = 7
    CPUDESC = 8
    TOTAL_MEM = 10
    CMDLINE = 11
    EVENT_DESC = 12
    DIR_FORMAT = 24
    CLOCK_DATA = 29


_STRINGS: dict[int, str] = {
    Feature.HOSTNAME: "hostname",
    Feature.OSRELEASE: "release",
    Feature.VERSION: "version",
    Feature.ARCH: "arch",
    Feature.CPUDESC: "cpu_description",
}


class Cursor:
    """A reader of numbers and strings; raises struct.error if there are too few bytes."""

    def __init__(self, raw: bytes, order: Order) -> None:
        self._raw, self._order, self._at = raw, order, 0

    def __bool__(self) -> bool:
        """Whether bytes remain."""
        return self._at < len(self._raw)

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(self._order + form, self.bytes(struct.calcsize(self._order + form)))

    def bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._raw):
            raise struct.error("fewer bytes than there should be")
        return self._raw[self._at - count : self._at]

    def text(self) -> str:
        return parse_string(self.bytes(self.numbers("I")[0]))


def with_feature(known: Features, number: int, raw: bytes, order: Order) -> Features:
    """Return the features with one more; raise struct.error if its bytes are invalid."""
    cursor = Cursor(raw, order)
    if name := _STRINGS.get(number):
        return replace(known, **{name: cursor.text()})  # type: ignore[arg-type]
    match number:
        case Feature.NRCPUS:
            return replace(known, cpus_online=cursor.numbers("2I")[1])
        case Feature.TOTAL_MEM:
            return replace(known, total_memory_kb=cursor.numbers("Q")[0])
        case Feature.CMDLINE:
            words: list[str] = []
            count = cursor.numbers("I")[0]
            while len(words) < count and cursor:
                words.append(cursor.text())
            return replace(known, command_line=tuple(words))
        case Feature.CLOCK_DATA:
            _, clock, wall, ticks = cursor.numbers("2I2Q")
            return replace(known, clock_data=(clock, wall, ticks))
    return known


def event_names(raw: bytes, order: Order, events: int) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield ids and name of each event in EVENT_DESC: an attribute, the number of ids, the name and the ids."""
    cursor = Cursor(raw, order)
    count, attribute_size = cursor.numbers("2I")
    for _ in range(min(count, events)):
        cursor.bytes(attribute_size)
        id_count = cursor.numbers("I")[0]
        name = cursor.text()
        yield cursor.numbers(f"{id_count}Q"), name


def add_build_ids(known: dict[str, str], raw: bytes, order: Order) -> None:
    """Add name and id of a sequence of build_id records, as in the feature and in HEADER_BUILD_ID."""
    start = 0
    while start + 36 <= len(raw) and len(known) < MAX_BUILD_IDS:
        _, misc, size = struct.unpack_from(order + "IHH", raw, start)
        if size < 36 or start + size > len(raw):
            return
        name, begin = parse_string(raw[start + 36 : start + size]), start + 12
        if name == _CUT_KERNEL:
            name, begin = f"[ker{name}", start + 8
        length = min(raw[begin + 20], 20) if misc & _SIZE_GIVEN else 20
        known[name] = raw[begin : begin + length].hex()
        start += size


MAX_EVENTS = 4096  # far more than perf can open; a recording with more is malicious
MAX_TABLE_IDS = 1 << 16  # range of ids that are looked up in a table
_FIRST_SIZE = 64  # PERF_ATTR_SIZE_VER0
_MIN_SIZE = 48  # up to the flags, which are required
_PRECISE = 15  # the first of the two bits of precise_ip


class Flag(IntFlag):
    """The bits of perf_event_attr that affect names and layouts."""

    EXCLUDE_USER = 1 << 4
    EXCLUDE_KERNEL = 1 << 5
    EXCLUDE_HYPERVISOR = 1 << 6
    FREQUENCY = 1 << 10
    SAMPLE_ID_ALL = 1 << 18
    EXCLUDE_HOST = 1 << 19
    EXCLUDE_GUEST = 1 << 20
    USE_CLOCKID = 1 << 25


def attribute_length(raw: bytes, order: Order) -> int:
    """Return the size of the structure at the beginning of `raw`."""
    return (int(struct.unpack_from(order + "I", raw, 4)[0]) or _FIRST_SIZE) if len(raw) >= 8 else 0


def parse_attribute(raw: bytes, ids: tuple[int, ...], order: Order) -> EventInfo | None:
    """Parse the structure, which other bytes may follow; return None if there are too few bytes."""
    if len(raw) < _MIN_SIZE:
        return None
    padded = raw[: attribute_length(raw, order)].ljust(112, b"\0")
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from(order + "2I5Q", padded)
    clock, max_frames = struct.unpack_from(order + "i12xH", padded, 92)
    if order == ">":  # compilers of big-endian machines put the first bit field in the highest bit
        flags = int(f"{flags:064b}"[::-1], 2)
        low, high = flags >> _PRECISE & 1, flags >> _PRECISE + 1 & 1
        flags = flags & ~(3 << _PRECISE) | high << _PRECISE | low << _PRECISE + 1
    by_frequency = bool(flags & Flag.FREQUENCY)
    return EventInfo(
        name=event_name(kind, config, flags),
        ids=ids,
        sample_type=sample_type,
        read_format=read_format,
        frequency=rate if by_frequency else None,
        period=None if by_frequency else rate,
        clock=clock if flags & Flag.USE_CLOCKID else None,
        max_frames=max_frames,
        sample_id_all=bool(flags & Flag.SAMPLE_ID_ALL),
    )


_HARDWARE = (
    *("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
    *("stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"),
)
_SOFTWARE = (
    *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults"),
    *("alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"),
)
_CACHES = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_CACHE_ACCESSES = ("loads load-misses", "stores store-misses", "prefetches prefetch-misses")  # by operation and result
_CONFIG_MASK = (1 << 32) - 1  # on hybrid CPUs the higher bits are the number of the PMU


def event_name(kind: int, config: int, flags: int) -> str:
    """Return the name by PERF_TYPE_* and the modifiers of `perf list`."""
    modifiers = _modifiers(flags)
    return f"{_base_name(kind, config)}:{modifiers}" if modifiers else _base_name(kind, config)


def _base_name(kind: int, config: int) -> str:
    number = config & _CONFIG_MASK
    match kind:
        case 0:
            return _HARDWARE[number] if number < len(_HARDWARE) else f"hardware {number:#x}"
        case 1:
            return _SOFTWARE[number] if number < len(_SOFTWARE) else f"software {number:#x}"
        case 2:
            return f"tracepoint {config}"
        case 3:  # cache in the lowest byte, then operation, then result
            cache, operation, result = number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF
            if cache < len(_CACHES) and operation < 3 and result < 2:
                return f"{_CACHES[cache]}-{_CACHE_ACCESSES[operation].split()[result]}"
            return f"cache {number:#x}"
        case 4:
            return f"raw {config:#x}"
        case 5:
            return "breakpoint"
        case _:
            return f"type {kind} config {config:#x}"


def _modifiers(flags: int) -> str:
    """Return `u`, `k`, `h` unless all are counted, a `p` per level of precision, and `H` and `G` for host and guest."""
    levels = {"k": Flag.EXCLUDE_KERNEL, "u": Flag.EXCLUDE_USER, "h": Flag.EXCLUDE_HYPERVISOR}
    counted = [letter for letter, excluded in levels.items() if not flags & excluded]
    letters = "".join(counted) if len(counted) < len(levels) else ""
    letters += "p" * (flags >> _PRECISE & 3)
    without_host, without_guest = bool(flags & Flag.EXCLUDE_HOST), bool(flags & Flag.EXCLUDE_GUEST)
    if without_host or without_guest == bool(letters):
        letters += "H" * (not without_host) + "G" * (not without_guest)
    return letters


class Layout(NamedTuple):
    """Positions of the fields of a sample, in words of eight bytes from the record's header; 0: not recorded.

    `variable` is the end of the fixed fields: the numbers of PERF_SAMPLE_READ follow, then the call chain.
    """

    ip: int
    tid: int
    time: int
    cpu: int
    period: int
    id: int
    variable: int
    read_format: int | None
    chain: bool


def sample_layout(event: EventInfo) -> Layout:
    """Return the layout by PERF_SAMPLE_*. The identifier of newer kernels precedes all other fields, unlike the id."""
    kind = SampleType
    order = (
        *(kind.IDENTIFIER, kind.IP, kind.TID, kind.TIME, kind.ADDR, kind.ID, kind.STREAM_ID, kind.CPU, kind.PERIOD),
    )
    recorded = [field for field in order if event.sample_type & field]
    place = {field: recorded.index(field) + 1 if field in recorded else 0 for field in order}
    return Layout(
        ip=place[kind.IP],
        tid=place[kind.TID],
        time=place[kind.TIME],
        cpu=place[kind.CPU],
        period=place[kind.PERIOD],
        id=place[kind.IDENTIFIER] or place[kind.ID],
        variable=1 + len(recorded),
        read_format=event.read_format if event.sample_type & kind.READ else None,
        chain=bool(event.sample_type & kind.CALLCHAIN),
    )


def time_from_end(event: EventInfo) -> int:
    """Return the distance of the time from the end of other records (sample_id_all) in words; 0: no time."""
    if not event.sample_id_all or not event.sample_type & SampleType.TIME:
        return 0
    trailing = SampleType.TIME, SampleType.ID, SampleType.STREAM_ID, SampleType.CPU, SampleType.IDENTIFIER
    return sum(bool(event.sample_type & field) for field in trailing)


class Tables:
    """Lookup tables for samples, by the events known at one moment."""

    def __init__(self, events: Sequence[EventInfo], by_id: Mapping[int, int]) -> None:
        numbers: dict[Layout, int] = {}
        self.layout_of = np.array([numbers.setdefault(sample_layout(e), len(numbers)) for e in events], np.int32)
        self.layouts = list(numbers)
        self.id_place = self.layouts[0].id if len(events) > 1 else 0
        self.time_from_end = time_from_end(events[0])
        known = sorted(by_id.items())
        self._ids = np.array([number for number, _ in known], np.uint64)
        self._events = np.array([event for _, event in known], np.int32)

    @cached_property
    def _id_table(self) -> NDArray[np.int32] | None:
        """Event by distance from the lowest id, with a last entry for all other ids; -1: no event."""
        if not len(self._ids) or int(self._ids[-1]) - int(self._ids[0]) >= MAX_TABLE_IDS:
            return None
        distance = (self._ids - self._ids[0]).astype(np.int64)
        table = np.full(int(distance[-1]) + 2, -1, np.int32)
        table[distance] = self._events
        return table

    def events(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the event of each id, -1 if there is none. Records of perf itself have id 0, the first event."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int32)
        if (table := self._id_table) is not None:
            distance = np.minimum(ids - self._ids[0], np.uint64(len(table) - 1)).astype(np.int64)
            events: NDArray[np.int32] = table[distance]
        else:
            index = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            events = np.where(self._ids[index] == ids, self._events[index], np.int32(-1))
        if (events < 0).any():
            events[(ids == 0) & (events < 0)] = 0
        return events


class Events:
    """The events in the order of the file, with lookup by id."""

    def __init__(self) -> None:
        self.infos: list[EventInfo] = []
        self._by_id: dict[int, int] = {}
        self._tables: Tables | None = None

    def __len__(self) -> int:
        return len(self.infos)

    def add(self, event: EventInfo) -> bool:
        """Add an event; return False if there are too many."""
        known = self._by_id.get(event.ids[0]) if event.ids else None
        if known is not None and self.infos[known].ids == event.ids:
            return True  # repeated by perf inject
        if len(self.infos) >= MAX_EVENTS:
            return False
        self._by_id |= dict.fromkeys(event.ids, len(self.infos))
        self.infos.append(event)
        self._tables = None
        return True

    def rename(self, ids: Iterable[int], name: str, position: int | None = None) -> None:
        """Set the name of the event with one of the ids, or else of the event at the position."""
        index = next((self._by_id[number] for number in ids if number in self._by_id), position)
        if index is not None and index < len(self.infos) and name:
            self.infos[index] = self.infos[index]._replace(name=name)

    @property
    def tables(self) -> Tables:
        """The lookup tables; requires at least one event."""
        if self._tables is None:
            self._tables = Tables(self.infos, self._by_id)
        return self._tables
