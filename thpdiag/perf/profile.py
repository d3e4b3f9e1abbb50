"""Profiles of a recording, one per event: samples as rows, joined with chains, and the loss ledger.

A COMM or MMAP record may follow samples that are younger, because perf drains the buffers of one CPU after another; two
rounds later all records are present. Samples are held until then. Up to `MAX_ROWS` each sample is a row; beyond that,
rows with equal chain, task and CPU within 100 ms are summed, so that memory depends on the number of distinct rows and
not on the duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import (
    Chains,
    Citation,
    Clock,
    Frame,
    Ledger,
    Moment,
    Problem,
    ProblemKind,
    Profile,
    Rows,
    Stacks,
)
from thpdiag.model.profile import UNKNOWN
from thpdiag.model.ragged import Ids, Ints, Numbers, pair
from thpdiag.perf.chains import MAX_ADDRESSES, JoinedChains, RawChains, Uses
from thpdiag.perf.machine import NONE, UNRECORDED, AddressSpaces, Tasks, is_kernel_map, kernel_image
from thpdiag.perf.records import Comm, EventInfo, Features, Fork, Map, Samples, SampleType, Window

if TYPE_CHECKING:
    from thpdiag.perf.container import Recording

READER_NAME = "perf_data"
MAX_ROWS = 8_000_000
MAX_HELD_SAMPLES = 4_000_000  # with more, windows are settled as soon as two rounds have passed
_SETTLE_ROUNDS = 2  # rounds after which all records that precede held samples have been read
_SETTLE_WINDOWS = 2  # windows after which a recording without rounds is assumed to be in order
_SUM_ROWS = 1 << 19  # rows that are summed together
_BIN_NS = np.uint64(10_000_000)  # nanoseconds of a time bin
_NEVER = np.uint64(2**64 - 1)  # time of samples without time, which use the last known state
_MAX_BINS = (1 << 31) - 1  # of 10 ms: 248 days
_MAX_STACK_DEPTH = 127  # kernel.perf_event_max_stack; before 4.8 PERF_MAX_STACK_DEPTH, which includes markers
_MAX_VALUE_CHARS = 400
_CLOCKS = {0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}  # include/uapi/linux/time.h
_TOO_MANY_ADDRESSES = f"kernel addresses beyond the first {MAX_ADDRESSES}: the functions there stay without names"
_GARBAGE = "call chains with a stray number where only markers can be: what follows it is left out"
_TIME_TOO_LATE = "samples at a time more than 248 days behind the first, which is impossible: kept without a time"

Bools = NDArray[np.bool_]
_Record = TypeVar("_Record", Comm, Fork, Map)


def header_facts(features: Features) -> dict[str, str]:
    """Return the known facts in the header, named as in the comment header of perf report."""
    memory = features.total_memory_kb
    facts = {
        "hostname": features.hostname,
        "release": features.release,
        "perf_version": features.version,
        "arch": features.arch,
        "cpus": str(features.cpus_online or ""),
        "cpu": features.cpu_description,
        "memory": f"{memory} kB" if memory else "",
        "cmdline": " ".join(features.command_line),
    }
    return {name: value[:_MAX_VALUE_CHARS] for name, value in facts.items() if value}


def _clock_facts(features: Features, event: EventInfo, first: int, last: int) -> dict[str, str]:
    """Return the clock of the samples, the first and last time on it in seconds, and its relation to the wall clock.

    Without a clock id it is the kernel's scheduler clock, which starts approximately at boot.
    """
    facts = {"clock": "perf" if event.clock is None else _CLOCKS.get(event.clock, str(event.clock))}
    if first <= last:
        first_text, last_text = (f"{ns // 10**9}.{ns % 10**9 // 1000:06d}" for ns in (first, last))  # as perf prints it
        facts |= {"first_sample": first_text, "last_sample": last_text}
    if features.clock_data:
        _, wall, clock = features.clock_data
        facts |= {"clock_data_wall_ns": str(wall), "clock_data_clock_ns": str(clock)}
    if event.frequency:
        facts["frequency"] = str(event.frequency)
    return facts


@dataclass(frozen=True, slots=True, eq=False)
class HeldSamples:
    """Samples of one window whose tasks and maps are not known yet."""

    rounds: int  # number of rounds at the end of the window
    event: Ids
    pid: Ids
    tid: Ids
    cpu: Ids
    chain: Ids
    time: NDArray[np.uint64]  # `_NEVER` where not recorded
    weight: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SettledRows:
    """Rows: event, use of a chain (numbered by `Uses`), task, CPU, and 10 ms bin since the zero of the clock."""

    event: Ids
    use: Ids
    task: Ids
    cpu: Ids
    bin: Ints
    weight: NDArray[np.float64]
    samples: Ints

    def __len__(self) -> int:
        return len(self.use)


class Gathered:
    """The state kept of the windows read so far."""

    def __init__(self) -> None:
        self.chains, self.tasks, self.spaces = RawChains(), Tasks(), AddressSpaces()
        self.uses = Uses()
        self.kernel_maps: list[Map] = []
        self.first, self.last = int(_NEVER), 0  # ns
        self.lost = self.throttled = 0
        self.odd: Counter[str] = Counter()
        self._held: list[HeldSamples] = []
        self._settled: list[SettledRows] = []
        self._rounds = 0

    def add(self, window: Window, events: Sequence[EventInfo]) -> None:
        """Add a window."""
        comms, forks, maps = (_with_times(r, self.last) for r in (window.comms, window.forks, window.maps))
        self.tasks.learn(comms, forks)
        self.spaces.learn(maps, forks)
        self.kernel_maps += (m for m in maps if is_kernel_map(m))
        self._rounds += window.rounds
        self.lost += window.lost
        self.throttled += window.throttled
        self.odd.update(window.odd)
        if len(window.samples):
            self._held.append(self._hold(window.samples, events))
        if self._held_count() > MAX_HELD_SAMPLES:
            self._settle_some()

    def rows(self) -> SettledRows:
        """Return all rows. No window may be added afterwards."""
        while self._held:
            self._settled.append(self._settle(self._held.pop(0)))
        return _concatenate_rows(self._settled)

    def _hold(self, samples: Samples, events: Sequence[EventInfo]) -> HeldSamples:
        time = samples.time if samples.timed.all() else np.where(samples.timed, samples.time, _NEVER)
        self.first = min(self.first, int(time.min()))
        self.last = max(self.last, int(np.where(samples.timed, samples.time, 0).max()))
        tid, weight = samples.tid, samples.period.astype(np.float64)
        for number, event in enumerate(events):
            if not event.sample_type & SampleType.TID:
                tid = np.where(samples.event == number, UNRECORDED, tid).astype(np.int32)
            if event.period and not event.sample_type & SampleType.PERIOD:
                weight[samples.event == number] = event.period
        chain = self.chains.factorize(samples)
        cpu = np.maximum(samples.cpu, UNKNOWN)
        return HeldSamples(
            self._rounds, _compress(samples.event), samples.pid, tid, cpu, chain, time, _compress(weight)
        )

    def _settle_some(self) -> None:
        """Settle the windows after which two rounds have passed, and sum rows if there are too many."""
        while len(self._held) > _SETTLE_WINDOWS:
            is_recent = self._rounds - self._held[0].rounds < _SETTLE_ROUNDS
            if is_recent and self._rounds and self._held_count() < 3 * MAX_HELD_SAMPLES:
                break
            self._settled.append(self._settle(self._held.pop(0)))
        if sum(map(len, self._settled)) > MAX_ROWS:
            parts = [_sum_rows(self._settled.pop(0)) for _ in range(len(self._settled))]  # one by one to save memory
            self._settled = [_sum_rows(_concatenate_rows(parts))]

    def _held_count(self) -> int:
        return sum(len(h.event) for h in self._held)

    def _settle(self, held: HeldSamples) -> SettledRows:
        task = self.tasks.factorize(held.pid, held.tid, held.time)
        epoch = np.full(len(held.chain), NONE, np.int32)
        in_program = np.flatnonzero(self.chains.all().in_program[held.chain])
        epoch[in_program] = self.spaces.epochs(held.pid[in_program], held.time[in_program])
        use = self.uses.factorize(held.chain, epoch, len(self.chains))
        bins = (held.time // _BIN_NS).view(np.int64)
        bins[held.time == _NEVER] = UNKNOWN
        return SettledRows(held.event, use, task, held.cpu, bins, held.weight, _ones(len(use)))


def _with_times(records: list[_Record], last: int) -> list[_Record]:
    """Give records without a time (before sample_id_all) that of their position in the file."""
    if not last or all(r.time for r in records):
        return records
    return [r if r.time else r._replace(time=last + 1) for r in records]


def _concatenate_rows(parts: list[SettledRows]) -> SettledRows:
    """Concatenate rows column by column, to save memory, and empty the list."""
    if not parts:
        none = np.empty(0, np.int32)
        return SettledRows(none, none, none, none, none.astype(np.int64), none.astype(np.float64), _ones(0))
    if len(parts) == 1:
        return parts.pop()
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(SettledRows)}
    parts.clear()
    return SettledRows(*(_concatenate(columns.pop(f.name)) for f in fields(SettledRows)))


def _concatenate(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(p.strides == (0,) and p[0] == parts[0][0] for p in parts):
        return np.broadcast_to(parts[0][0], (sum(map(len, parts)),))
    return np.concatenate(parts)


def _compress(column: NDArray[Any]) -> NDArray[Any]:
    """Return the column, without memory of its own if all values are equal."""
    is_constant = len(column) > 0 and column.min() == column.max()
    return np.broadcast_to(column[0], column.shape) if is_constant else column


def _ones(length: int) -> Ints:
    return np.broadcast_to(np.int64(1), (length,))


def _sum_rows(rows: SettledRows) -> SettledRows:
    """Sum rows that differ only in the last digit of the bin."""
    bins = np.where(rows.bin == UNKNOWN, UNKNOWN, rows.bin - rows.bin % 10)
    base = int(bins.min()) if len(bins) else 0
    ids, first = rows.event, np.arange(len(rows))
    for column in (rows.cpu, rows.use, rows.task, (bins - base) // 10):
        numbers, pairs, firsts = Numbers(), np.empty(len(rows), np.int32), []
        for begin in range(0, len(rows), _SUM_ROWS):  # in parts, because most pairs repeat
            part = slice(begin, begin + _SUM_ROWS)
            pairs[part], new = numbers.factorize(pair(ids[part], column[part]))
            firsts.append(new + begin)
        ids, first = pairs, np.concatenate(firsts)
    count = len(first)
    weight, samples = (np.bincount(ids, column, count).astype(np.float64) for column in (rows.weight, rows.samples))
    columns = (rows.event[first], rows.use[first], rows.task[first], rows.cpu[first], bins[first])
    return SettledRows(*columns, weight, samples.astype(np.int64))


def read_windows(recording: Recording) -> tuple[Gathered, list[Problem]]:
    """Read all windows and return their content and problems. Features are complete afterwards."""
    gathered, problems = Gathered(), []
    for window in recording.windows():
        gathered.add(window, recording.events)
        problems += window.problems
    return gathered, problems


def profiles(recording: Recording, gathered: Gathered, cite: Citation) -> Iterator[Profile | Problem]:
    """Yield a profile for each event with samples, and problems with chains.

    Lost samples are distributed by the number of samples, because the records do not name the event. Unreadable samples
    and throttling are assigned to the event with the most samples.
    """
    rows = gathered.rows()
    image = kernel_image(gathered.kernel_maps, recording.features)
    joined = JoinedChains(gathered.chains, gathered.uses, gathered.spaces, image)
    if joined.beyond:
        yield Problem(cite, _TOO_MANY_ADDRESSES, ProblemKind.LIMIT, READER_NAME, joined.beyond)
    counts = np.zeros(len(recording.events), np.int64)
    if len(rows) and rows.event.strides == (0,):  # there is only one event
        counts[rows.event[0]] = rows.samples.sum()
    else:
        counts += np.bincount(rows.event, rows.samples, len(counts)).astype(np.int64)
    lost_sums = [gathered.lost * int(done) // max(1, int(counts.sum())) for done in np.cumsum(counts)]
    for number in np.flatnonzero(counts).tolist():
        event, columns = recording.events[number], rows
        if counts[number] != counts.sum():
            columns = SettledRows(*(getattr(rows, f.name)[rows.event == number] for f in fields(SettledRows)))
        event_rows = _EventRows(event, columns, joined)
        has_most = number == np.argmax(counts)
        lost = lost_sums[number] - (lost_sums[number - 1] if number else 0)
        ledger = event_rows.ledger(dict(gathered.odd) if has_most else {}, lost, gathered.throttled if has_most else 0)
        if count := event_rows.samples(joined.chained.garbage[joined.raw]):
            yield Problem(cite, _GARBAGE, reader=READER_NAME, count=count)
        timed = event_rows.rows_with_time()
        if count := int(columns.samples[(columns.bin != UNKNOWN) & ~timed].sum()):
            yield Problem(cite, _TIME_TOO_LATE, reader=READER_NAME, count=count)
        (chains, frames), chain = event_rows.chains()
        base, end = (int(columns.bin[timed].min()), int(columns.bin[timed].max())) if timed.any() else (0, 0)
        bins, clock = np.where(timed, columns.bin - base, UNKNOWN), Clock.UTC if event.clock == 0 else Clock.BOOT
        yield Profile(
            reader=READER_NAME,
            event=event.name,
            frames=frames,
            chains=chains,
            tasks=gathered.tasks.all(),
            rows=Rows(chain, columns.task, columns.cpu, bins.astype(np.int32), columns.weight, columns.samples),
            stacks=Stacks.FULL if event_rows.with_chains else Stacks.NONE,
            cite=cite,
            ledger=ledger,
            has_time=bool(timed.any()),
            start=Moment(base / 100, clock) if timed.any() else None,
            end=Moment(min((end + 1) / 100, gathered.last / 1e9), clock) if timed.any() else None,
            total_samples=ledger.kept,
            facts=header_facts(recording.features)
            | _clock_facts(recording.features, event, gathered.first, gathered.last),
            kernel=image,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _EventRows:
    """The rows of one event."""

    event: EventInfo
    rows: SettledRows
    joined: JoinedChains

    @property
    def with_chains(self) -> bool:
        return bool(self.event.sample_type & SampleType.CALLCHAIN)

    def samples(self, marked: Bools) -> int:
        """Return the number of samples whose use of a chain is marked."""
        return int(self.rows.samples[marked[self.rows.use]].sum()) if marked.any() else 0

    def rows_with_time(self) -> Bools:
        """Return a mask of the rows with a known and possible time."""
        bins = self.rows.bin
        timed: Bools = bins != UNKNOWN
        return timed & (bins - bins[timed].min() < _MAX_BINS) if timed.any() else timed

    def _truncated(self) -> Bools:
        """Return a mask of the uses of chains that reach the recorded depth."""
        chained = self.joined.chained
        markers = chained.markers if self.event.max_frames else 0
        truncated: Bools = (chained.length - markers >= (self.event.max_frames or _MAX_STACK_DEPTH))[self.joined.raw]
        return truncated

    def chains(self) -> tuple[tuple[Chains, tuple[Frame, ...]], Ids]:
        """Return the used chains with new numbers, and the chain of each row.

        Chains are marked as cut if functions of the kernel may be missing. If a chain reaches the program, its kernel
        part is complete, and only outer functions of the program are missing.
        """
        chained, row_chains = self.joined.chained, self.joined.chain_of[self.rows.use]
        empty = (chained.empty & self.with_chains | chained.garbage) & ~chained.in_program
        open_ended = empty[self.joined.raw] | (self._truncated() & ~chained.in_program[self.joined.raw])
        is_used, is_cut = np.zeros(len(self.joined), np.bool_), np.zeros(len(self.joined), np.bool_)
        is_used[row_chains] = True
        is_cut[self.joined.chain_of[open_ended]] = True
        used = np.flatnonzero(is_used)
        if len(used) < len(is_used):
            row_chains = (np.cumsum(is_used, dtype=np.int32) - 1)[row_chains]
        return self.joined.chains(used, is_cut[used] if is_cut[used].any() else None), row_chains

    def ledger(self, odd: dict[str, int], lost: int, throttled: int) -> Ledger:
        kept, chained = int(self.rows.samples.sum()), self.joined.chained
        empty = chained.empty & ~(chained.in_program & self.event.dwarf)
        return Ledger(
            read=kept + sum(odd.values()),
            kept=kept,
            without_stack=self.samples(empty[self.joined.raw]) if self.with_chains else 0,
            truncated=self.samples(self._truncated()),
            odd=odd,
            lost=lost,
            throttled=throttled,
        )
