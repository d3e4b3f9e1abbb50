"""A recording from a file or pipe as windows: its header, samples and other records, and its features.

The content of the file never raises an exception: files that are not recordings, or are damaged, yield windows with
Problems.

Records other than samples describe names of threads, mappings of address spaces, and losses. With sample_id_all each
has its time near its end; records that perf itself wrote (for tasks that ran before) have time 0. Source:
include/uapi/linux/perf_event.h, tools/perf/lib/include/perf/event.h.

Samples (PERF_RECORD_SAMPLE) are read as columns, each field for all samples of a window at once. Up to the period every
field has a fixed position, which depends on the event's sample_type. The numbers of PERF_SAMPLE_READ follow (several if
a group is read together), then the call chain; the rest (raw data, branches, registers, stacks) is not read. A sample
is odd if its record is too short for its fields; it is counted, and bytes outside of the record are never used.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import IntFlag
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.model.ragged import starts_of
from thpdiag.perf.header import (
    FILE_BYTES,
    MAGICS,
    MAX_EVENTS,
    PIPE_BYTES,
    Events,
    Feature,
    Header,
    Layout,
    Order,
    Section,
    Tables,
    add_build_ids,
    attribute_length,
    event_names,
    feature_places,
    parse_attribute,
    parse_header,
    parse_string,
    with_feature,
)
from thpdiag.perf.records import Comm, EventInfo, Features, Fork, Kind, Map, Samples, Window
from thpdiag.perf.stream import (
    ByteStream,
    DataSection,
    Errors,
    Inner,
    Ragged,
    Unpacked,
    View,
    Words,
    realign,
    walk,
    walk_ragged,
)

SHORT = "the record is shorter than its event declares"
OVERLONG = "the call chain is longer than the record"
UNKNOWN_EVENT = "of an event that the recording does not describe"
MAX_WORDS = 1 << 13  # of a record

Column = NDArray[Any]


class ReadFormat(IntFlag):
    """PERF_FORMAT_*: the content of PERF_SAMPLE_READ in a sample."""

    ENABLED = 1 << 0
    RUNNING = 1 << 1
    ID = 1 << 2
    GROUP = 1 << 3
    LOST = 1 << 4


def read_samples(view: View, at: Words, offset: NDArray[np.int64], tables: Tables, odd: Counter[str]) -> Samples:
    """Read the sample records at these positions with their file offsets. Unreadable ones are counted in `odd`."""
    event = np.zeros(len(at), np.int32)
    if tables.id_place:
        event = tables.events(view.words(at, tables.id_place))
        event[view.lengths(at) <= tables.id_place] = -1
        if (event < 0).any():
            odd[UNKNOWN_EVENT] += int((event < 0).sum())
            known = np.flatnonzero(event >= 0)
            at, event, offset = at[known], event[known], offset[known]
    if len(tables.layouts) == 1 or not len(at):
        columns = _columns(view, at, event, offset, tables.layouts[0], odd)
    else:
        layout_of_sample = tables.layout_of[event]
        groups = [(layout, np.flatnonzero(layout_of_sample == n)) for n, layout in enumerate(tables.layouts)]
        parts = [_columns(view, at[i], event[i], offset[i], layout, odd) for layout, i in groups if len(i)]
        order = np.argsort(np.concatenate([part["at"] for part in parts]), kind="stable")
        columns = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    begins, lengths = columns.pop("begins"), columns.pop("lengths")
    misc = view.misc(columns.pop("at"))
    return Samples(**columns, misc=misc, chain=_concatenated(view, begins, lengths), starts=starts_of(lengths))


def no_samples() -> Samples:
    none, numbers = np.zeros(0, np.int32), np.zeros(0, np.uint64)
    return Samples(
        event=none,
        pid=none,
        tid=none,
        cpu=none,
        time=numbers,
        timed=np.zeros(0, np.bool_),
        period=numbers,
        ip=numbers,
        misc=np.zeros(0, np.uint16),
        offset=np.zeros(0, np.int64),
        chain=numbers,
        starts=np.zeros(1, np.int64),
    )


def _columns(
    view: View, at: Words, event: NDArray[np.int32], offset: NDArray[np.int64], layout: Layout, odd: Counter[str]
) -> dict[str, Column]:
    """Return the columns of samples with one layout, named as in `Samples`, with `begins` and `lengths` of chains."""
    good, begins, lengths = _chains(view, at, layout, odd)
    if good is not None:
        at, event, offset = at[good], event[good], offset[good]
    n = len(at)
    none, zero = np.full(n, -1, np.int32), np.zeros(n, np.uint64)
    return {
        "at": at,
        "begins": begins,
        "lengths": lengths,
        "event": event,
        "pid": view.halves(at, layout.tid, 0) if layout.tid else none,
        "tid": view.halves(at, layout.tid, 1) if layout.tid else none,
        "cpu": view.halves(at, layout.cpu, 0) if layout.cpu else none,
        "time": view.words(at, layout.time) if layout.time else zero,
        "timed": np.full(n, bool(layout.time)),
        "period": view.words(at, layout.period) if layout.period else np.ones(n, np.uint64),
        "ip": view.words(at, layout.ip) if layout.ip else zero,
        "offset": offset,
    }


def _chains(view: View, at: Words, layout: Layout, odd: Counter[str]) -> tuple[NDArray[np.bool_] | None, Words, Words]:
    """Return a mask of valid samples (None: all), and the begin and length of their chains in words."""
    room = view.lengths(at) - layout.variable  # words after the fixed fields
    skipped = _read_words(view, at, layout, room)
    begins = at + layout.variable + skipped
    room = room - skipped
    short = room < int(layout.chain)
    if not layout.chain:
        lengths = np.zeros(len(at), np.int64)
        overlong = np.zeros(len(at), np.bool_)
    else:
        begins, room = np.where(short, 0, begins), np.where(short, 0, room - 1)
        lengths = np.minimum(view.words(begins, 0), np.uint64(MAX_WORDS)).astype(np.int64)
        overlong = lengths > room
        begins = begins + 1
    bad = short | overlong
    if not bad.any():
        return None, begins, lengths
    odd[SHORT] += int(short.sum())
    odd[OVERLONG] += int((overlong & ~short).sum())
    return ~bad, begins[~bad], lengths[~bad]


def _read_words(view: View, at: Words, layout: Layout, room: Words) -> Words | int:
    """Return the number of words of PERF_SAMPLE_READ in each sample; one more than the room if it does not fit."""
    form = layout.read_format
    if form is None:
        return 0
    times = bool(form & ReadFormat.ENABLED) + bool(form & ReadFormat.RUNNING)
    each = 1 + bool(form & ReadFormat.ID) + bool(form & ReadFormat.LOST)
    if not form & ReadFormat.GROUP:
        return times + each
    count = np.minimum(view.words(at, layout.variable), np.uint64(MAX_WORDS)).astype(np.int64)
    return np.minimum(1 + times + each * count, room + 1)


def _concatenated(view: View, begins: Words, lengths: Words) -> NDArray[np.uint64]:
    """Return all chains concatenated, by a mask, as they are in the order of the file and do not overlap."""
    edges = np.zeros(2 * len(begins) + 1, np.int64)
    edges[1::2] = lengths
    edges[0:-1:2] = begins
    edges[2:-1:2] -= begins[:-1] + lengths[:-1]
    inside = np.zeros(len(edges), np.bool_)
    inside[1::2] = True
    mask = np.repeat(inside, edges)
    return view.u64[: len(mask)][mask].astype(np.uint64, copy=False)


BY_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
MAP_BUILD_ID = 1 << 14  # PERF_RECORD_MISC_MMAP_BUILD_ID
DROPPED_BY_FILTER = 1 << 15  # PERF_RECORD_MISC_LOST_SAMPLES_BPF: not lost, but filtered out
MMAP_NAME, MMAP2_NAME = 40, 72  # offset of the names
EVENT_UPDATE_NAME = 2  # PERF_EVENT_UPDATE__NAME
HEADER_KINDS = (Kind.HEADER_ATTR, Kind.EVENT_UPDATE, Kind.HEADER_FEATURE, Kind.HEADER_BUILD_ID)
SIDE_KINDS = (Kind.COMM, Kind.FORK, Kind.EXIT, Kind.MMAP, Kind.MMAP2, Kind.LOST, Kind.LOST_SAMPLES)
DAMAGED, LIMIT = ProblemKind.DAMAGED, ProblemKind.LIMIT
MAX_ATTRIBUTE_BYTES = 64 << 20  # attributes and ids before the records
MAX_FEATURE_BYTES = 64 << 20  # features after the records
MAX_MEMORY_BYTES = 64 << 20  # of a file whose attributes follow the records; larger ones are spooled to disk
CHUNK_BYTES = 1 << 20


class Contents:
    """The state of a recording while it is read: events, features, losses, and errors."""

    def __init__(self, order: Order) -> None:
        self.order: Order = order
        self.events = Events()
        self.features = Features()
        self.build_ids: dict[str, str] = {}
        self.errors: Errors = Counter()
        self._lost_by_kind: Counter[int] = Counter()  # LOST and LOST_SAMPLES
        self._lost = 0

    def window(self, view: View, at: Words, offset: NDArray[np.int64]) -> Window:
        """Read the records at these positions with their file offsets."""
        kinds = view.kinds(at)
        counts = Counter(dict(zip(*(a.tolist() for a in np.unique(kinds, return_counts=True)), strict=True)))
        if not counts.keys().isdisjoint(HEADER_KINDS):
            rows = np.flatnonzero(np.isin(kinds, HEADER_KINDS))
            for kind, (raw, _) in zip(kinds[rows].tolist(), _records(view, at[rows]), strict=True):
                self._read_header_record(kind, raw)
        window = Window(no_samples(), throttled=counts[Kind.THROTTLE], rounds=counts[Kind.FINISHED_ROUND])
        if Kind.SAMPLE in counts:
            if len(counts) == 1:
                self._add_samples(view, at, offset, window)
            else:
                rows = np.flatnonzero(kinds == int(Kind.SAMPLE))
                self._add_samples(view, at[rows], offset[rows], window)
        if not counts.keys().isdisjoint(SIDE_KINDS):
            rows = np.flatnonzero(np.isin(kinds, SIDE_KINDS))
            records = zip(kinds[rows].tolist(), _records(view, at[rows]), self._times(view, at[rows]), strict=True)
            for kind, (raw, misc), time in records:
                try:
                    self._read_side_record(kind, raw, misc, time, window)
                except struct.error:
                    text = f"{Kind(kind).name} records are too short for their fields"
                    self.errors[text, DAMAGED] += 1
        return window

    def _add_samples(self, view: View, at: Words, offset: NDArray[np.int64], window: Window) -> None:
        if not len(self.events):
            window.odd["before any event was described"] = len(at)
            return
        if len(self.events) > 1 and not self.events.tables.id_place:
            text = "does not show which of its events a sample is of: all count as the first"
            self.errors[text, ProblemKind.ODD] += len(at)
        odd: Counter[str] = Counter()
        window.samples = read_samples(view, at, offset, self.events.tables, odd)
        window.odd.update(+odd)

    def _times(self, view: View, at: Words) -> list[int]:
        """Return the times in the records' sample_id, 0 if there is none."""
        from_end = self.events.tables.time_from_end if len(self.events) else 0
        lengths = view.lengths(at)
        has_time = (lengths > from_end) & (from_end > 0)
        words = view.words(np.where(has_time, at + lengths - from_end, 0), 0)
        times: list[int] = np.where(has_time, words, 0).tolist()
        return times

    def _read_side_record(self, kind: int, raw: bytes, misc: int, time: int, window: Window) -> None:
        """Add a record about tasks, maps or losses; raise struct.error if it is too short."""

        def numbers(form: str, at: int = 8) -> tuple[int, ...]:
            return struct.unpack_from(self.order + form, raw, at)

        match kind:
            case Kind.COMM:
                pid, tid = numbers("2i")
                window.comms.append(Comm(time, pid, tid, parse_string(raw[16:]), bool(misc & BY_EXEC)))
            case Kind.FORK | Kind.EXIT:
                pid, parent_pid, tid, parent_tid, when = numbers("4iQ")
                window.forks.append(Fork(when, pid, tid, parent_pid, parent_tid, exit=kind == Kind.EXIT))
            case Kind.MMAP:
                pid, tid, start, length, offset = numbers("2i3Q")
                window.maps.append(Map(time, pid, tid, start, length, offset, parse_string(raw[MMAP_NAME:]), misc))
            case Kind.MMAP2:
                pid, tid, start, length, offset = numbers("2i3Q32x")
                name = parse_string(raw[MMAP2_NAME:])
                build_id = raw[44 : 44 + min(raw[40], 20)].hex() if misc & MAP_BUILD_ID else ""
                window.maps.append(Map(time, pid, tid, start, length, offset, name, misc, build_id))
            case Kind.LOST | Kind.LOST_SAMPLES:
                window.lost += self._new_losses(numbers("Q", 16 if kind == Kind.LOST else 8)[0], kind, misc, time)

    def _new_losses(self, count: int, kind: int, misc: int, time: int) -> int:
        """Return the number of lost samples that earlier records did not report.

        At the end, perf (6.1 and later) writes the sum of losses (LOST_SAMPLES) that LOST records already reported.
        """
        if kind == Kind.LOST_SAMPLES and misc & DROPPED_BY_FILTER:
            return 0
        if kind == Kind.LOST_SAMPLES and time:  # from the kernel, for samples written by the hardware (PEBS)
            return count
        self._lost_by_kind[kind] += count
        before, self._lost = self._lost, max(self._lost_by_kind.values())
        return self._lost - before

    def _read_header_record(self, kind: int, raw: bytes) -> None:
        """Read a record of a pipe with a part of what the header of a file has."""
        readable = True
        match kind:
            case Kind.HEADER_ATTR:
                readable = self.add_event(raw[8:], raw[8 + attribute_length(raw[8:], self.order) :])
            case Kind.HEADER_BUILD_ID:
                add_build_ids(self.build_ids, raw, self.order)
            case Kind.HEADER_FEATURE if len(raw) >= 16:
                readable = self.add_feature(struct.unpack_from(self.order + "Q", raw, 8)[0], raw[16:])
            case Kind.EVENT_UPDATE if len(raw) >= 24:
                update, number = struct.unpack_from(self.order + "2Q", raw, 8)
                self.events.rename([number], parse_string(raw[24:]) if update == EVENT_UPDATE_NAME else "")
            case _:
                readable = False
        if not readable:
            self.errors[f"{Kind(kind).name} records cannot be read", DAMAGED] += 1

    def add_event(self, raw: bytes, ids: bytes) -> bool:
        """Add an event from the bytes of its attribute and its ids; return False if it cannot be read."""
        event = parse_attribute(raw, struct.unpack_from(f"{self.order}{len(ids) // 8}Q", ids), self.order)
        if event is not None and not self.events.add(event):
            self.errors[f"has more than {MAX_EVENTS} events: those after them are not read", LIMIT] += 1
        return event is not None

    def add_feature(self, number: int, raw: bytes) -> bool:
        """Add a feature, which may be empty; return False if its bytes are invalid."""
        try:
            if number == Feature.BUILD_ID:
                add_build_ids(self.build_ids, raw, self.order)
            elif raw and number == Feature.EVENT_DESC:
                for position, (ids, name) in enumerate(event_names(raw, self.order, len(self.events))):
                    self.events.rename(ids, name, position)
            elif raw:
                self.features = with_feature(self.features, number, raw, self.order)
        except struct.error:
            return False
        return True


def _records(view: View, at: Words) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes and header.misc of these records."""
    data, sizes = view.bytes.data, view.u16[3::4][at].tolist()
    rows = zip((8 * at).tolist(), sizes, view.misc(at).tolist(), strict=True)
    return ((bytes(data[start : start + size]), misc) for start, size, misc in rows)


class Recording:
    """An open recording. `windows` is read once, to its end; `events` may grow meanwhile (pipe mode).

    In a file, names of events follow the records: those of tracepoints are known only after the last window.
    """

    def __init__(self, chunks: Iterator[bytes], size: int | None, cite: Citation) -> None:
        """Open a recording of `size` bytes (None: unknown); `cite` is used for its problems."""
        self._cite = cite
        self._size = size
        self._header: Header | None = None  # of a file
        self._unpacked: Unpacked | None = None
        stream = ByteStream(chunks)
        start = stream.read(PIPE_BYTES)
        order = MAGICS.get(start[:8]) if len(start) == PIPE_BYTES else None
        self._contents = Contents(order or "<")
        self._errors = self._contents.errors
        self._stream: ByteStream | None = None  # None: nothing can be read
        if order is None:
            self._errors["is not a perf.data file: its first bytes do not match", ProblemKind.UNREADABLE] += 1
        elif struct.unpack_from(order + "Q", start, 8)[0] == PIPE_BYTES:
            self._stream = stream
        else:
            self._stream = self._open_file(stream, start)

    @property
    def events(self) -> list[EventInfo]:
        return self._contents.events.infos

    @property
    def features(self) -> Features:
        return replace(self._contents.features, build_ids=self._contents.build_ids)

    def _open_file(self, stream: ByteStream, start: bytes) -> ByteStream | None:
        """Read header and attributes, and return the stream at the first record; None if there is none."""
        raw, errors = start + stream.read(FILE_BYTES - PIPE_BYTES), self._errors
        if len(raw) < FILE_BYTES:
            errors["ends inside its header", DAMAGED] += 1
            return None
        header = self._header = parse_header(raw, self._contents.order)
        if header.attributes.offset >= header.data.end > FILE_BYTES and header.data.size:
            stream = self._read_trailing_attributes(stream, header)
        else:
            front = stream.read(min(max(header.data.offset - FILE_BYTES, 0), MAX_ATTRIBUTE_BYTES))
            self._read_attributes(header, front, FILE_BYTES)
            stream.skip(max(header.data.offset - stream.position, 0))
        if not len(self._contents.events):
            errors["describes no readable event, so its samples cannot be read", DAMAGED] += 1
        if stream.position > header.data.offset:
            errors["declares that its records begin inside its header", DAMAGED] += 1
            return None
        if not header.data.size:
            text = "was not closed by perf (its header gives no size): read to the end, without features"
            errors[text, DAMAGED] += 1
        return stream

    def _read_attributes(self, header: Header, data: bytes, offset: int) -> None:
        """Add the events of the attributes section: each entry is a perf_event_attr and the section of its ids.

        `data` is the file from `offset` on. In total, not more than its size is read, even if sections overlap.
        """
        left = len(data)

        def part(section: Section) -> bytes:
            nonlocal left
            begin = section.offset - offset
            content = data[begin : begin + min(section.size, left)] if begin >= 0 else b""
            left -= len(content)
            return content

        raw, size = part(header.attributes), header.attribute_size
        if not PIPE_BYTES < size <= len(raw):
            return
        for begin in range(0, len(raw) - size + 1, size):
            entry = raw[begin : begin + size]
            ids = Section(*struct.unpack_from(header.order + "2Q", entry, size - 16))
            if not self._contents.add_event(entry[: size - 16], part(ids)):
                self._errors["describes events that cannot be read", DAMAGED] += 1

    def _read_trailing_attributes(self, stream: ByteStream, header: Header) -> ByteStream:
        """Read attributes after the records, as perf inject writes them; the file is spooled and read again."""
        spool = SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115
        begin = stream.position
        while part := stream.read(CHUNK_BYTES):
            spool.write(part)
        spool.seek(min(header.data.end, stream.position) - begin)
        self._read_attributes(header, spool.read(MAX_ATTRIBUTE_BYTES), header.data.end)
        chunks = _reread(spool)
        next(chunks)
        spooled = ByteStream(chunks, begin)
        spooled.skip(max(header.data.offset - begin, 0))
        return spooled

    def windows(self) -> Iterator[Window]:
        """Yield samples and other records, with problems."""
        if self._stream is not None:
            for window in self._records(self._stream):
                window.problems += self._take_problems()
                yield window
            self._read_features(self._stream)
        if self._errors:
            yield Window(no_samples(), problems=self._take_problems())

    def _take_problems(self) -> list[Problem]:
        """Return the problems since the last call."""
        problems = [Problem(self._cite, text, kind, count=count) for (text, kind), count in self._errors.items()]
        self._errors.clear()
        return problems

    def _records(self, stream: ByteStream) -> Iterator[Window]:
        length = self._header.data.size if self._header else 0
        section = DataSection(stream, length or None, self._size)
        view = View(section.buffer, self._contents.order)
        consumed = payload = 0
        while section.fetch(consumed, payload):
            aligned = walk(view, section.used)
            consumed, payload = aligned.end, 0
            if len(aligned.at):
                yield self._contents.window(view, aligned.at, (aligned.at << 3) + section.base)
            if aligned.ragged:
                rest = walk_ragged(view, aligned.end, section.used)
                consumed, payload = rest.end, rest.payload
                yield from self._ragged_records(view, rest, section.base)
                if rest.size is not None:
                    left = section.used - rest.end + section.skip()
                    begin, lost = section.base + rest.end, f"{left} bytes of records from there on are not read"
                    text = f"has a record at byte {begin} that is {rest.size} bytes long, which is impossible: {lost}"
                    self._errors[text, DAMAGED] += 1
                    section.used = 0
                    break
        yield from self._last_unpacked()
        # The rest of the window is the beginning of a truncated record.
        if section.left:
            self._errors[f"is cut: {section.left} bytes of records are missing", DAMAGED] += 1
        elif section.used:
            self._errors[f"ends inside a record, of which {section.used} bytes are there", DAMAGED] += 1
        elif missing := section.missing_payload:
            self._errors[f"ends inside trace data, of which {missing} bytes are missing", DAMAGED] += 1

    def _ragged_records(self, view: View, rest: Ragged, base: int) -> Iterator[Window]:
        if rest.begins:
            begins, sizes = np.array(rest.begins, np.int64), np.array(rest.sizes, np.int64)
            copy, at = realign(view.bytes, begins, sizes)
            yield self._contents.window(View(copy, self._contents.order), at, begins + base)
        for begin, end, place in rest.packed:
            self._unpacked = self._unpacked or Unpacked()
            for inner in self._unpacked.feed(view.bytes[begin:end].tobytes(), base + place):
                yield from self._unpacked_records(self._unpacked, inner)

    def _unpacked_records(self, unpacked: Unpacked, inner: Inner) -> Iterator[Window]:
        """Read decompressed records, which are multiples of eight bytes long; others are damage."""
        view = View(inner.buffer, self._contents.order)
        aligned = walk(view, inner.used)
        if len(aligned.at):
            yield self._contents.window(view, aligned.at, inner.offset(aligned.at))
        if aligned.ragged:
            unpacked.mark_invalid(inner.used - aligned.end)
        else:
            unpacked.keep(inner, aligned.end)

    def _last_unpacked(self) -> Iterator[Window]:
        unpacked = self._unpacked
        if unpacked is None:
            return
        if unpacked.waiting:
            yield from self._unpacked_records(unpacked, unpacked.window())
        if unpacked.waiting:
            text = f"ends inside a compressed record, of which {unpacked.waiting} bytes are there"
            self._errors[text, DAMAGED] += 1
        unpacked.report(self._errors)

    def _read_features(self, stream: ByteStream) -> None:
        """Read the features at the end of a file: the table of their sections, then their content."""
        if self._header is None or not self._header.data.size or not self._header.features:
            return
        begin, numbers = stream.position, self._header.features
        raw = stream.read(MAX_FEATURE_BYTES)
        places = feature_places(raw, len(numbers), self._header.order)
        unread = len(numbers) - len(places)
        if Feature.DIR_FORMAT in numbers:
            self._errors["is one file of a directory: samples in the others are not read", LIMIT] += 1
        for number, section in zip(numbers, places, strict=False):
            start = section.offset - begin
            is_inside = start >= 0 and start + section.size <= len(raw)
            if not is_inside or not self._contents.add_feature(number, raw[start : start + section.size]):
                unread += 1
        if unread:
            self._errors["has unreadable feature sections after its records", DAMAGED] += unread


def _reread(spool: IO[bytes]) -> Iterator[bytes]:
    """Yield an empty chunk, then the chunks of a file. The file is closed with the generator."""
    with spool:
        spool.seek(0)
        yield b""
        while part := spool.read(CHUNK_BYTES):
            yield part
