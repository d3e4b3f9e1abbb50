"""Samples of a recording to profiles, one per event: windows gathered as rows, joined with chains, and the ledger.

A COMM or MMAP record may stand behind samples that are younger: perf drains the buffers of one CPU after another, and
only two rounds later all is there. Samples wait until then. Up to `MAX_ROWS` each sample is a row; beyond, rows of one
chain, task and CPU within 100 ms are added up, so that the memory depends on what differs, not on how long it took.
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
from thpdiag.perf.machine import NONE, UNRECORDED, AddressSpaces, Tasks, is_of_kernel, kernel_image
from thpdiag.perf.records import Comm, EventInfo, Features, Fork, Map, Samples, SampleType, Window

if TYPE_CHECKING:
    from thpdiag.perf.container import Recording

READER_NAME = "perf_data"
MAX_ROWS = 8_000_000
MAX_HELD = 4_000_000  # samples that wait; more are settled as soon as two rounds have passed
_ROUNDS = 2  # after which all that belongs between the samples has been read
_WINDOWS = 2  # after which a recording without rounds is thought to be in order
_ROWS_AT_ONCE = 1 << 19  # that are added up together
_HUNDREDTH = np.uint64(10_000_000)  # nanoseconds of a time bin
_NEVER = np.uint64(2**64 - 1)  # samples without a time: whatever is known last
_MAX_BINS = (1 << 31) - 1  # of 10 ms: 248 days
_DEPTH = 127  # kernel.perf_event_max_stack; before 4.8 PERF_MAX_STACK_DEPTH, markers counted
_MAX_VALUE_CHARS = 400
_CLOCKS = {0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}  # include/uapi/linux/time.h
_BEYOND = f"kernel addresses beyond the first {MAX_ADDRESSES}: the functions there stay without names"
_GARBAGE = "call chains with a stray number where only markers can be: what follows it is left out"
_FAR = "samples at a time more than 248 days behind the first, which is impossible: kept without a time"

Bools = NDArray[np.bool_]
_Record = TypeVar("_Record", Comm, Fork, Map)


def header_facts(features: Features) -> dict[str, str]:
    """What the header tells, under the names of the comment header of perf report; as far as known."""
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
    """The clock of the samples, the times of the first and last in seconds on it, and what ties it to the wall clock.

    Without a clock id it is the kernel's scheduler clock, which counts from the boot, nearly.
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
class Held:
    """Samples of one window whose tasks and maps are not yet sure."""

    rounds: int  # that had passed when the window ended
    event: Ids
    pid: Ids
    tid: Ids
    cpu: Ids
    chain: Ids
    time: NDArray[np.uint64]  # `_NEVER` where not recorded
    weight: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Rows: which event, which use of a chain (as `Uses` numbers them), task, CPU, 10 ms since the clock's zero."""

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
    """All that is kept of the windows read so far."""

    def __init__(self) -> None:
        self.chains, self.tasks, self.spaces = RawChains(), Tasks(), AddressSpaces()
        self.uses = Uses()
        self.kernel_maps: list[Map] = []
        self.first, self.last = int(_NEVER), 0  # ns
        self.lost = self.throttled = 0
        self.odd: Counter[str] = Counter()
        self._held: list[Held] = []
        self._settled: list[Settled] = []
        self._rounds = 0

    def add(self, window: Window, events: Sequence[EventInfo]) -> None:
        """Keep what a window tells."""
        comms, forks, maps = (_with_times(r, self.last) for r in (window.comms, window.forks, window.maps))
        self.tasks.learn(comms, forks)
        self.spaces.learn(maps, forks)
        self.kernel_maps += (m for m in maps if is_of_kernel(m))
        self._rounds += window.rounds
        self.lost += window.lost
        self.throttled += window.throttled
        self.odd.update(window.odd)
        if len(window.samples):
            self._held.append(self._hold(window.samples, events))
        if self._waiting() > MAX_HELD:
            self._settle_some()

    def rows(self) -> Settled:
        """All rows. Nothing may be added afterwards."""
        while self._held:
            self._settled.append(self._settle(self._held.pop(0)))
        return _concatenate_rows(self._settled)

    def _hold(self, samples: Samples, events: Sequence[EventInfo]) -> Held:
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
        return Held(self._rounds, _alike(samples.event), samples.pid, tid, cpu, chain, time, _alike(weight))

    def _settle_some(self) -> None:
        """Settle the windows that two rounds have passed since, and add up rows where there are too many."""
        while len(self._held) > _WINDOWS:
            late = self._rounds - self._held[0].rounds < _ROUNDS
            if late and self._rounds and self._waiting() < 3 * MAX_HELD:
                break
            self._settled.append(self._settle(self._held.pop(0)))
        if sum(map(len, self._settled)) > MAX_ROWS:
            parts = [_sum_rows(self._settled.pop(0)) for _ in range(len(self._settled))]  # each alone takes little
            self._settled = [_sum_rows(_concatenate_rows(parts))]

    def _waiting(self) -> int:
        return sum(len(h.event) for h in self._held)

    def _settle(self, held: Held) -> Settled:
        task = self.tasks.factorize(held.pid, held.tid, held.time)
        epoch = np.full(len(held.chain), NONE, np.int32)
        inside = np.flatnonzero(self.chains.all().in_program[held.chain])
        epoch[inside] = self.spaces.epochs(held.pid[inside], held.time[inside])
        use = self.uses.factorize(held.chain, epoch, len(self.chains))
        bins = (held.time // _HUNDREDTH).view(np.int64)
        bins[held.time == _NEVER] = UNKNOWN
        return Settled(held.event, use, task, held.cpu, bins, held.weight, _ones(len(use)))


def _with_times(records: list[_Record], last: int) -> list[_Record]:
    """Records of before sample_id_all have no time: they count from where they stand."""
    if not last or all(r.time for r in records):
        return records
    return [r if r.time else r._replace(time=last + 1) for r in records]


def _concatenate_rows(parts: list[Settled]) -> Settled:
    """All rows in one; column by column, so that nothing is there twice for long. Empties the list."""
    if not parts:
        none = np.empty(0, np.int32)
        return Settled(none, none, none, none, none.astype(np.int64), none.astype(np.float64), _ones(0))
    if len(parts) == 1:
        return parts.pop()
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(Settled)}
    parts.clear()
    return Settled(*(_concatenate(columns.pop(f.name)) for f in fields(Settled)))


def _concatenate(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if all(p.strides == (0,) and p[0] == parts[0][0] for p in parts):
        return np.broadcast_to(parts[0][0], (sum(map(len, parts)),))
    return np.concatenate(parts)


def _alike(column: NDArray[Any]) -> NDArray[Any]:
    """The same column; of one value for all it takes no memory."""
    alike = len(column) > 0 and column.min() == column.max()
    return np.broadcast_to(column[0], column.shape) if alike else column


def _ones(length: int) -> Ints:
    """One sample in each row."""
    return np.broadcast_to(np.int64(1), (length,))


def _sum_rows(rows: Settled) -> Settled:
    """Rows that agree in all but the last digit of the bin become one."""
    bins = np.where(rows.bin == UNKNOWN, UNKNOWN, rows.bin - rows.bin % 10)
    base = int(bins.min()) if len(bins) else 0
    ids, at = rows.event, np.arange(len(rows))
    for column in (rows.cpu, rows.use, rows.task, (bins - base) // 10):
        numbers, pairs, firsts = Numbers(), np.empty(len(rows), np.int32), []
        for begin in range(0, len(rows), _ROWS_AT_ONCE):  # a stretch at a time, for most pairs are seen often
            some = slice(begin, begin + _ROWS_AT_ONCE)
            pairs[some], new = numbers.factorize(pair(ids[some], column[some]))
            firsts.append(new + begin)
        ids, at = pairs, np.concatenate(firsts)
    weight, samples = (np.bincount(ids, column, len(at)).astype(np.float64) for column in (rows.weight, rows.samples))
    firsts_of = (rows.event[at], rows.use[at], rows.task[at], rows.cpu[at], bins[at])
    return Settled(*firsts_of, weight, samples.astype(np.int64))


def read_windows(recording: Recording) -> tuple[Gathered, list[Problem]]:
    """Read all windows: what is kept of them, and what could not be read. Features are complete afterwards."""
    found, problems = Gathered(), []
    for window in recording.windows():
        found.add(window, recording.events)
        problems += window.problems
    return found, problems


def profiles(recording: Recording, found: Gathered, cite: Citation) -> Iterator[Profile | Problem]:
    """A profile for each event that has samples, and what was kept of some chains in part only.

    What was lost is shared out by samples: the records do not say of which event it was. Samples that could not be
    read, and throttling, stand with the event that has the most.
    """
    rows = found.rows()
    image = kernel_image(found.kernel_maps, recording.features)
    joined = JoinedChains(found.chains, found.uses, found.spaces, image)
    if joined.beyond:
        yield Problem(cite, _BEYOND, ProblemKind.LIMIT, READER_NAME, joined.beyond)
    counts = np.zeros(len(recording.events), np.int64)
    if len(rows) and rows.event.strides == (0,):  # all are of one
        counts[rows.event[0]] = rows.samples.sum()
    else:
        counts += np.bincount(rows.event, rows.samples, len(counts)).astype(np.int64)
    upto = [found.lost * int(done) // max(1, int(counts.sum())) for done in np.cumsum(counts)]
    for number in np.flatnonzero(counts).tolist():
        event, mine = recording.events[number], rows
        if counts[number] != counts.sum():
            mine = Settled(*(getattr(rows, f.name)[rows.event == number] for f in fields(Settled)))
        shown = _EventRows(event, mine, joined)
        most = number == np.argmax(counts)
        lost = upto[number] - (upto[number - 1] if number else 0)
        ledger = shown.ledger(dict(found.odd) if most else {}, lost, found.throttled if most else 0)
        if count := shown.samples(joined.chained.garbage[joined.raw]):
            yield Problem(cite, _GARBAGE, reader=READER_NAME, count=count)
        timed = shown.rows_with_time()
        if count := int(mine.samples[(mine.bin != UNKNOWN) & ~timed].sum()):
            yield Problem(cite, _FAR, reader=READER_NAME, count=count)
        (chains, frames), chain = shown.chains()
        base, end = (int(mine.bin[timed].min()), int(mine.bin[timed].max())) if timed.any() else (0, 0)
        bins, clock = np.where(timed, mine.bin - base, UNKNOWN), Clock.UTC if event.clock == 0 else Clock.BOOT
        yield Profile(
            reader=READER_NAME,
            event=event.name,
            frames=frames,
            chains=chains,
            tasks=found.tasks.all(),
            rows=Rows(chain, mine.task, mine.cpu, bins.astype(np.int32), mine.weight, mine.samples),
            stacks=Stacks.FULL if shown.with_chains else Stacks.NONE,
            cite=cite,
            ledger=ledger,
            has_time=bool(timed.any()),
            start=Moment(base / 100, clock) if timed.any() else None,
            end=Moment(min((end + 1) / 100, found.last / 1e9), clock) if timed.any() else None,
            total_samples=ledger.kept,
            facts=header_facts(recording.features) | _clock_facts(recording.features, event, found.first, found.last),
            kernel=image,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _EventRows:
    """The rows of one event, and what is wrong with their chains."""

    event: EventInfo
    rows: Settled
    joined: JoinedChains

    @property
    def with_chains(self) -> bool:
        return bool(self.event.sample_type & SampleType.CALLCHAIN)

    def samples(self, marked: Bools) -> int:
        """The samples whose use of a chain is marked."""
        return int(self.rows.samples[marked[self.rows.use]].sum()) if marked.any() else 0

    def rows_with_time(self) -> Bools:
        """The rows at a time that is known and can be."""
        bins = self.rows.bin
        timed: Bools = bins != UNKNOWN
        return timed & (bins - bins[timed].min() < _MAX_BINS) if timed.any() else timed

    def _deep(self) -> Bools:
        """Uses of chains that reach the depth that was recorded."""
        chained = self.joined.chained
        markers = chained.markers if self.event.max_frames else 0
        deep: Bools = (chained.length - markers >= (self.event.max_frames or _DEPTH))[self.joined.raw]
        return deep

    def chains(self) -> tuple[tuple[Chains, tuple[Frame, ...]], Ids]:
        """The chains that the rows use, numbered anew, and the chain of each row.

        Those are cut of which functions of the kernel may be missing. What comes before a program's frame is whole:
        there only the program's own outer functions are missing.
        """
        chained, of_row = self.joined.chained, self.joined.chain_of[self.rows.use]
        empty = (chained.empty & self.with_chains | chained.garbage) & ~chained.in_program
        open_ended = empty[self.joined.raw] | (self._deep() & ~chained.in_program[self.joined.raw])
        used, cut = np.zeros(len(self.joined), np.bool_), np.zeros(len(self.joined), np.bool_)
        used[of_row] = True
        cut[self.joined.chain_of[open_ended]] = True
        some = np.flatnonzero(used)
        if len(some) < len(used):
            of_row = (np.cumsum(used, dtype=np.int32) - 1)[of_row]
        return self.joined.chains(some, cut[some] if cut[some].any() else None), of_row

    def ledger(self, odd: dict[str, int], lost: int, throttled: int) -> Ledger:
        kept, chained = int(self.rows.samples.sum()), self.joined.chained
        empty = chained.empty & ~(chained.in_program & self.event.dwarf)
        return Ledger(
            read=kept + sum(odd.values()),
            kept=kept,
            without_stack=self.samples(empty[self.joined.raw]) if self.with_chains else 0,
            truncated=self.samples(self._deep()),
            odd=odd,
            lost=lost,
            throttled=throttled,
        )
