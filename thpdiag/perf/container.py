"""A recording from file or pipe as windows: its header, then samples and all other records, then its features.

Nothing here raises on what stands in the file. What is no recording, or a broken one, gives windows with Problems.

Records that are no samples tell who got which name, which address space shows what, what was lost. With sample_id_all
the time stands near the end of each; what perf itself wrote (of tasks that ran before) has time 0. Source:
include/uapi/linux/perf_event.h, tools/perf/lib/include/perf/event.h.

Samples (PERF_RECORD_SAMPLE) are columns: fields are fetched for all samples of a window at once. Up to the period every
field has a fixed place, which the event's sample_type decides. The numbers of PERF_SAMPLE_READ are next (several where
the group is read together), then the call chain; what follows (raw data, branches, registers, stacks) is not looked at.
Numbers that a record is too short for make the sample odd; it is counted, and nothing outside the record is taken for
its content.
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
    Inner,
    Ragged,
    Stretch,
    Troubles,
    Unpacked,
    View,
    Words,
    realign,
    walk,
    walk_ragged,
)

SHORT = "the record is shorter than its event declares"
OVERLONG = "the call chain is longer than the record"
STRANGE = "of an event that the recording does not describe"
MAX_WORDS = 1 << 13  # a record has no more

Column = NDArray[Any]


class ReadFormat(IntFlag):
    """PERF_FORMAT_*: what PERF_SAMPLE_READ puts into a sample."""

    ENABLED = 1 << 0
    RUNNING = 1 << 1
    ID = 1 << 2
    GROUP = 1 << 3
    LOST = 1 << 4


def read_samples(view: View, at: Words, offset: NDArray[np.int64], tables: Tables, odd: Counter[str]) -> Samples:
    """The sample records at these places; `offset` is where each stands in the file. `odd` ones are counted."""
    event = np.zeros(len(at), np.int32)
    if tables.id_place:
        event = tables.events(view.words(at, tables.id_place))
        event[view.lengths(at) <= tables.id_place] = -1
        if (event < 0).any():
            odd[STRANGE] += int((event < 0).sum())
            known = np.flatnonzero(event >= 0)
            at, event, offset = at[known], event[known], offset[known]
    if len(tables.layouts) == 1 or not len(at):
        columns = _columns(view, at, event, offset, tables.layouts[0], odd)
    else:
        of = tables.layout_of[event]
        own = [(layout, np.flatnonzero(of == number)) for number, layout in enumerate(tables.layouts)]
        parts = [_columns(view, at[i], event[i], offset[i], layout, odd) for layout, i in own if len(i)]
        order = np.argsort(np.concatenate([part["at"] for part in parts]), kind="stable")
        columns = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    begins, lengths = columns.pop("begins"), columns.pop("lengths")
    misc = view.misc(columns.pop("at"))
    return Samples(**columns, misc=misc, chain=_flat(view, begins, lengths), starts=starts_of(lengths))


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
    """Samples of one layout, by the names of `Samples`; `at` are their places, `begins` and `lengths` their chains."""
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
    """Where the chains begin and how long they are, for samples that fit; the mask says which (None: all)."""
    room = view.lengths(at) - layout.variable  # words behind the fixed fields
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
    """How many words PERF_SAMPLE_READ takes in each sample; at most too many by one where it does not fit."""
    form = layout.read_format
    if form is None:
        return 0
    times = bool(form & ReadFormat.ENABLED) + bool(form & ReadFormat.RUNNING)
    each = 1 + bool(form & ReadFormat.ID) + bool(form & ReadFormat.LOST)
    if not form & ReadFormat.GROUP:
        return times + each
    count = np.minimum(view.words(at, layout.variable), np.uint64(MAX_WORDS)).astype(np.int64)
    return np.minimum(1 + times + each * count, room + 1)


def _flat(view: View, begins: Words, lengths: Words) -> NDArray[np.uint64]:
    """All chains one after another. They stand in the order of the file and apart, so that a mask picks them out."""
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
DROPPED_BY_FILTER = 1 << 15  # PERF_RECORD_MISC_LOST_SAMPLES_BPF: not lost, but not wanted
MMAP_NAME, MMAP2_NAME = 40, 72  # where the names begin
EVENT_UPDATE_NAME = 2  # PERF_EVENT_UPDATE__NAME
ANNOUNCING = (Kind.HEADER_ATTR, Kind.EVENT_UPDATE, Kind.HEADER_FEATURE, Kind.HEADER_BUILD_ID)
TELLING = (Kind.COMM, Kind.FORK, Kind.EXIT, Kind.MMAP, Kind.MMAP2, Kind.LOST, Kind.LOST_SAMPLES)
DAMAGED, LIMIT = ProblemKind.DAMAGED, ProblemKind.LIMIT
MAX_FRONT_BYTES = 64 << 20  # in front of the records: attributes and ids
MAX_BEHIND_BYTES = 64 << 20  # behind the records: features
MAX_MEMORY_BYTES = 64 << 20  # of a file whose attributes stand behind the records; what is more waits on disk
CHUNK_BYTES = 1 << 20


class Contents:
    """What is known of a recording while it is read: events, features, losses, and what could not be read."""

    def __init__(self, order: Order) -> None:
        self.order: Order = order
        self.events = Events()
        self.features = Features()
        self.build_ids: dict[str, str] = {}
        self.troubles: Troubles = Counter()
        self._lost_in: Counter[int] = Counter()  # by LOST and by LOST_SAMPLES
        self._lost_so_far = 0

    def window(self, view: View, at: Words, offset: NDArray[np.int64]) -> Window:
        """The records at these places, `offset` where they stand in the file."""
        kinds = view.kinds(at)
        counts = Counter(dict(zip(*(a.tolist() for a in np.unique(kinds, return_counts=True)), strict=True)))
        if not counts.keys().isdisjoint(ANNOUNCING):
            mine = np.flatnonzero(np.isin(kinds, ANNOUNCING))
            for kind, (raw, _) in zip(kinds[mine].tolist(), _records(view, at[mine]), strict=True):
                self._announce(kind, raw)
        window = Window(no_samples(), throttled=counts[Kind.THROTTLE], rounds=counts[Kind.FINISHED_ROUND])
        if Kind.SAMPLE in counts:
            if len(counts) == 1:
                self._add_samples(view, at, offset, window)
            else:
                mine = np.flatnonzero(kinds == int(Kind.SAMPLE))
                self._add_samples(view, at[mine], offset[mine], window)
        if not counts.keys().isdisjoint(TELLING):
            mine = np.flatnonzero(np.isin(kinds, TELLING))
            rows = zip(kinds[mine].tolist(), _records(view, at[mine]), self._times(view, at[mine]), strict=True)
            for kind, (raw, misc), time in rows:
                try:
                    self._read_side_record(kind, raw, misc, time, window)
                except struct.error:
                    text = f"{Kind(kind).name} records are too short for their fields"
                    self.troubles[text, DAMAGED] += 1
        return window

    def _add_samples(self, view: View, at: Words, offset: NDArray[np.int64], window: Window) -> None:
        if not len(self.events):
            window.odd["before any event was described"] = len(at)
            return
        if len(self.events) > 1 and not self.events.tables.id_place:
            text = "does not show which of its events a sample is of: all count as the first"
            self.troubles[text, ProblemKind.ODD] += len(at)
        odd: Counter[str] = Counter()
        window.samples = read_samples(view, at, offset, self.events.tables, odd)
        window.odd.update(+odd)

    def _times(self, view: View, at: Words) -> list[int]:
        """The times of the records' sample_id, 0 where there is none."""
        from_end = self.events.tables.time_from_end if len(self.events) else 0
        lengths = view.lengths(at)
        there = (lengths > from_end) & (from_end > 0)
        times: list[int] = np.where(there, view.words(np.where(there, at + lengths - from_end, 0), 0), 0).tolist()
        return times

    def _read_side_record(self, kind: int, raw: bytes, misc: int, time: int, window: Window) -> None:
        """Adds what a record says of tasks, maps and losses; raises struct.error where it is too short to say it."""

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
        """How many more samples are lost than was known.

        perf (6.1 and later) sums up at the end (LOST_SAMPLES) what LOST records told as it happened: the same losses.
        """
        if kind == Kind.LOST_SAMPLES and misc & DROPPED_BY_FILTER:
            return 0
        if kind == Kind.LOST_SAMPLES and time:  # the kernel's own, of samples that the hardware wrote (PEBS)
            return count
        self._lost_in[kind] += count
        known, self._lost_so_far = self._lost_so_far, max(self._lost_in.values())
        return self._lost_so_far - known

    def _announce(self, kind: int, raw: bytes) -> None:
        """What stands in the header of a file comes as records in a pipe."""
        readable = True
        match kind:
            case Kind.HEADER_ATTR:
                readable = self.add_event(raw[8:], raw[8 + attribute_length(raw[8:], self.order) :])
            case Kind.HEADER_BUILD_ID:
                add_build_ids(self.build_ids, raw, self.order)
            case Kind.HEADER_FEATURE if len(raw) >= 16:
                readable = self.add_feature(struct.unpack_from(self.order + "Q", raw, 8)[0], raw[16:])
            case Kind.EVENT_UPDATE if len(raw) >= 24:
                what, number = struct.unpack_from(self.order + "2Q", raw, 8)
                self.events.rename([number], parse_string(raw[24:]) if what == EVENT_UPDATE_NAME else "")
            case _:
                readable = False
        if not readable:
            self.troubles[f"{Kind(kind).name} records cannot be read", DAMAGED] += 1

    def add_event(self, raw: bytes, ids: bytes) -> bool:
        """One more event: the bytes of its attribute and of its ids; False where it cannot be read."""
        event = parse_attribute(raw, struct.unpack_from(f"{self.order}{len(ids) // 8}Q", ids), self.order)
        if event is not None and not self.events.add(event):
            self.troubles[f"has more than {MAX_EVENTS} events: those after them are not read", LIMIT] += 1
        return event is not None

    def add_feature(self, number: int, raw: bytes) -> bool:
        """One feature; False where its bytes are not what it should be. Some are there and empty."""
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
    """The bytes of these records and header.misc of each."""
    whole, sizes = view.bytes.data, view.u16[3::4][at].tolist()
    rows = zip((8 * at).tolist(), sizes, view.misc(at).tolist(), strict=True)
    return ((bytes(whole[place : place + size]), misc) for place, size, misc in rows)


class Recording:
    """An opened recording. `windows` is read once, to its end; `events` may grow meanwhile (pipe mode).

    Names of events stand behind the records of a file: those of tracepoints are known only after the last window.
    """

    def __init__(self, chunks: Iterator[bytes], size: int | None, cite: Citation) -> None:
        """`size` of the whole file, if it is known; `cite` is where its problems are said to be."""
        self._cite = cite
        self._size = size
        self._header: Header | None = None  # of a file
        self._unpacked: Unpacked | None = None
        stream = ByteStream(chunks)
        start = stream.read(PIPE_BYTES)
        order = MAGICS.get(start[:8]) if len(start) == PIPE_BYTES else None
        self._contents = Contents(order or "<")
        self._troubles = self._contents.troubles
        self._stream: ByteStream | None = None  # None: there is nothing to read
        if order is None:
            self._troubles["is not a perf.data file: its first bytes do not match", ProblemKind.UNREADABLE] += 1
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
        """The stream at the first record, header and attributes read; None where there is none."""
        raw, troubles = start + stream.read(FILE_BYTES - PIPE_BYTES), self._troubles
        if len(raw) < FILE_BYTES:
            troubles["ends inside its header", DAMAGED] += 1
            return None
        header = self._header = parse_header(raw, self._contents.order)
        if header.attributes.offset >= header.data.end > FILE_BYTES and header.data.size:
            stream = self._attributes_behind(stream, header)
        else:
            front = stream.read(min(max(header.data.offset - FILE_BYTES, 0), MAX_FRONT_BYTES))
            self._attributes(header, front, FILE_BYTES)
            stream.skip(max(header.data.offset - stream.position, 0))
        if not len(self._contents.events):
            troubles["describes no readable event, so its samples cannot be read", DAMAGED] += 1
        if stream.position > header.data.offset:
            troubles["declares that its records begin inside its header", DAMAGED] += 1
            return None
        if not header.data.size:
            text = "was not closed by perf (its header gives no size): read to the end, without features"
            troubles[text, DAMAGED] += 1
        return stream

    def _attributes(self, header: Header, held: bytes, offset: int) -> None:
        """Each entry is a perf_event_attr and the place of its ids; the file from `offset` on is `held`.

        In all no more is taken than there is, however many sections overlap.
        """
        left = len(held)

        def part(section: Section) -> bytes:
            nonlocal left
            begin = section.offset - offset
            found = held[begin : begin + min(section.size, left)] if begin >= 0 else b""
            left -= len(found)
            return found

        raw, size = part(header.attributes), header.attribute_size
        if not PIPE_BYTES < size <= len(raw):
            return
        for begin in range(0, len(raw) - size + 1, size):
            entry = raw[begin : begin + size]
            ids = Section(*struct.unpack_from(header.order + "2Q", entry, size - 16))
            if not self._contents.add_event(entry[: size - 16], part(ids)):
                self._troubles["describes events that cannot be read", DAMAGED] += 1

    def _attributes_behind(self, stream: ByteStream, header: Header) -> ByteStream:
        """perf inject writes attributes behind the records: everything up to them is put aside and read again."""
        aside = SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115
        begin = stream.position
        while part := stream.read(CHUNK_BYTES):
            aside.write(part)
        aside.seek(min(header.data.end, stream.position) - begin)
        self._attributes(header, aside.read(MAX_FRONT_BYTES), header.data.end)
        chunks = _reread(aside)
        next(chunks)
        again = ByteStream(chunks, begin)
        again.skip(max(header.data.offset - begin, 0))
        return again

    def windows(self) -> Iterator[Window]:
        """Samples and other records, with the problems met on the way."""
        if self._stream is not None:
            for window in self._records(self._stream):
                window.problems += self._problems()
                yield window
            self._features_behind(self._stream)
        if self._troubles:
            yield Window(no_samples(), problems=self._problems())

    def _problems(self) -> list[Problem]:
        """All so far; they are not given twice."""
        found = [Problem(self._cite, text, kind, count=count) for (text, kind), count in self._troubles.items()]
        self._troubles.clear()
        return found

    def _records(self, stream: ByteStream) -> Iterator[Window]:
        length = self._header.data.size if self._header else 0
        stretch = Stretch(stream, length or None, self._size)
        view = View(stretch.buffer, self._contents.order)
        consumed = payload = 0
        while stretch.fetch(consumed, payload):
            found = walk(view, stretch.used)
            consumed, payload = found.end, 0
            if len(found.at):
                yield self._contents.window(view, found.at, (found.at << 3) + stretch.base)
            if found.ragged:
                rest = walk_ragged(view, found.end, stretch.used)
                consumed, payload = rest.end, rest.payload
                yield from self._ragged_records(view, rest, stretch.base)
                if rest.size is not None:
                    left = stretch.used - rest.end + stretch.skip()
                    begin, lost = stretch.base + rest.end, f"{left} bytes of records from there on are not read"
                    text = f"has a record at byte {begin} that is {rest.size} bytes long, which is impossible: {lost}"
                    self._troubles[text, DAMAGED] += 1
                    stretch.used = 0
                    break
        yield from self._last_unpacked()
        # What is still in the window is the beginning of a record that has no end.
        if stretch.left:
            self._troubles[f"is cut: {stretch.left} bytes of records are missing", DAMAGED] += 1
        elif stretch.used:
            self._troubles[f"ends inside a record, of which {stretch.used} bytes are there", DAMAGED] += 1
        elif stretch.unpaid:
            self._troubles[f"ends inside trace data, of which {stretch.unpaid} bytes are missing", DAMAGED] += 1

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
        """Records that were compressed are multiples of eight bytes long; what is not is damage."""
        view = View(inner.buffer, self._contents.order)
        found = walk(view, inner.used)
        if len(found.at):
            yield self._contents.window(view, found.at, inner.offset(found.at))
        if found.ragged:
            unpacked.spoil(inner.used - found.end)
        else:
            unpacked.keep(inner, found.end)

    def _last_unpacked(self) -> Iterator[Window]:
        unpacked = self._unpacked
        if unpacked is None:
            return
        if unpacked.waiting:
            yield from self._unpacked_records(unpacked, unpacked.window())
        if unpacked.waiting:
            text = f"ends inside a compressed record, of which {unpacked.waiting} bytes are there"
            self._troubles[text, DAMAGED] += 1
        unpacked.report(self._troubles)

    def _features_behind(self, stream: ByteStream) -> None:
        """The features of a file: their places, then they themselves."""
        if self._header is None or not self._header.data.size or not self._header.features:
            return
        begin, numbers = stream.position, self._header.features
        raw = stream.read(MAX_BEHIND_BYTES)
        places = feature_places(raw, len(numbers), self._header.order)
        unread = len(numbers) - len(places)
        if Feature.DIR_FORMAT in numbers:
            self._troubles["is one file of a directory: samples in the others are not read", LIMIT] += 1
        for number, section in zip(numbers, places, strict=False):
            at = section.offset - begin
            there = at >= 0 and at + section.size <= len(raw)
            if not there or not self._contents.add_feature(number, raw[at : at + section.size]):
                unread += 1
        if unread:
            self._troubles["has unreadable feature sections after its records", DAMAGED] += unread


def _reread(aside: IO[bytes]) -> Iterator[bytes]:
    """The chunks of a file, which is closed at its end, or where nobody asks for more; an empty one first."""
    with aside:
        aside.seek(0)
        yield b""
        while part := aside.read(CHUNK_BYTES):
            yield part
