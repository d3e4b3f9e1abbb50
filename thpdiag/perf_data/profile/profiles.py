"""Profiles of a recording, one per event: the rows that were gathered, joined with chains, and the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import (
    Chains,
    Citation,
    Clock,
    Frame,
    KernelImage,
    Ledger,
    Moment,
    Problem,
    ProblemKind,
    Profile,
    Rows,
    Stacks,
)
from thpdiag.model.profile import UNKNOWN
from thpdiag.perf_data.columns import EventInfo, Recording
from thpdiag.perf_data.profile.gather import Gathered, Settled
from thpdiag.perf_data.profile.header_facts import clock_facts, header_facts
from thpdiag.perf_data.profile.joined_chains import MOST_ADDRESSES, JoinedChains
from thpdiag.perf_data.profile.kernel_image import kernel_image
from thpdiag.perf_data.profile.numbers import Ids
from thpdiag.perf_data.uapi import SampleType

READER = "perf_data"
DEPTH = 127  # kernel.perf_event_max_stack; before 4.8 PERF_MAX_STACK_DEPTH, markers counted
_BEYOND = f"kernel addresses beyond the first {MOST_ADDRESSES}: the functions there stay without names"
_GARBAGE = "call chains with a stray number where only markers can be: what follows it is left out"
_FARTHEST = (1 << 31) - 1  # bins of 10 ms: 248 days
_FAR = "samples at a time more than 248 days behind the first, which cannot be: kept without a time"

Bools = NDArray[np.bool_]


def windows_gathered(recording: Recording) -> tuple[Gathered, list[Problem]]:
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
    joined = JoinedChains(found, image)
    if joined.beyond:
        yield Problem(cite, _BEYOND, ProblemKind.LIMIT, READER, joined.beyond)
    counts = _by_event(rows, len(recording.events))
    lost = _shares(found.lost, counts)
    for number in np.flatnonzero(counts).tolist():
        ledger = Ledger(lost=lost[number])
        if number == np.argmax(counts):
            ledger = Ledger(odd=found.odd, lost=lost[number], throttled=found.throttled)
        own = rows if counts[number] == counts.sum() else _of_event(rows, number)
        facts = header_facts(recording.features)
        facts |= clock_facts(recording.features, recording.events[number], found.first, found.last)
        one = _Event(recording.events[number], own, joined, ledger, found.last, cite)
        yield from one.problems()
        yield one.profile(image, facts)


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """What a profile is made of."""

    info: EventInfo
    rows: Settled
    joined: JoinedChains
    lost: Ledger  # what the recording tells of losses
    last: int  # ns of the last sample of all events
    cite: Citation

    @property
    def with_chains(self) -> bool:
        return bool(self.info.sample_type & SampleType.CALLCHAIN)

    def samples(self, marked: Bools) -> int:
        """The samples whose use of a chain is marked."""
        return int(self.rows.samples[marked[self.rows.use]].sum()) if marked.any() else 0

    def problems(self) -> Iterator[Problem]:
        """Chains that were kept in part."""
        if count := self.samples(self.joined.chained.garbage[self.joined.raw]):
            yield Problem(self.cite, _GARBAGE, reader=READER, count=count)
        if count := int(self.rows.samples[(self.rows.bin != UNKNOWN) & ~self._timed()].sum()):
            yield Problem(self.cite, _FAR, reader=READER, count=count)

    def _timed(self) -> Bools:
        """The rows at a time that is known and can be."""
        bins = self.rows.bin
        timed: Bools = bins != UNKNOWN
        return timed & (bins - bins[timed].min() < _FARTHEST) if timed.any() else timed

    def profile(self, image: KernelImage, facts: dict[str, str]) -> Profile:
        """The samples of the event as the one shape of all recordings."""
        (chains, frames), chain_of = self._chains_of_rows()
        bins, clock = self.rows.bin, Clock.UTC if self.info.clock == 0 else Clock.BOOT
        timed = self._timed()
        has_time = bool(timed.any())
        base = int(bins[timed].min()) if has_time else 0
        if self.info.frequency:
            facts["frequency"] = str(self.info.frequency)
        return Profile(
            reader=READER,
            event=self.info.name,
            frames=frames,
            chains=chains,
            tasks=self.joined.tasks,
            rows=Rows(
                chain_of,
                self.rows.task,
                self.rows.cpu,
                np.where(timed, bins - base, UNKNOWN).astype(np.int32),
                self.rows.weight,
                self.rows.samples,
            ),
            stacks=Stacks.FULL if self.with_chains else Stacks.NONE,
            cite=self.cite,
            ledger=self._ledger(),
            has_time=has_time,
            start=Moment(base / 100, clock) if has_time else None,
            end=Moment(min((int(bins[timed].max()) + 1) / 100, self.last / 1e9), clock) if has_time else None,
            total_samples=int(self.rows.samples.sum()),
            facts=facts,
            kernel=image,
        )

    def _chains_of_rows(self) -> tuple[tuple[Chains, tuple[Frame, ...]], Ids]:
        """The chains that the rows use, numbered anew."""
        of_row = self.joined.chain_of[self.rows.use]
        used = np.zeros(len(self.joined), np.bool_)
        used[of_row] = True
        cut = np.zeros(len(self.joined), np.bool_)
        cut[self.joined.chain_of[self._cut()]] = True
        some = np.flatnonzero(used)
        if len(some) < len(used):
            numbers = np.cumsum(used, dtype=np.int32) - 1
            of_row = numbers[of_row]
        return self.joined.chains(some, cut[some] if cut[some].any() else None), of_row

    def _deep(self) -> Bools:
        """Uses of chains that reach the depth that was recorded."""
        chained = self.joined.chained
        markers = chained.markers if self.info.most_frames else 0
        deep: Bools = (chained.length - markers >= (self.info.most_frames or DEPTH))[self.joined.raw]
        return deep

    def _cut(self) -> Bools:
        """Uses of chains of which functions of the kernel may be missing.

        What comes before a program's frame is whole: there only the program's own outer functions are missing.
        """
        chained = self.joined.chained
        empty = (chained.empty & self.with_chains | chained.garbage) & ~chained.in_program
        cut: Bools = empty[self.joined.raw] | (self._deep() & ~chained.in_program[self.joined.raw])
        return cut

    def _ledger(self) -> Ledger:
        kept = int(self.rows.samples.sum())
        chained = self.joined.chained
        empty = chained.empty & ~(chained.in_program & self.info.dwarf)
        return Ledger(
            read=kept + sum(self.lost.odd.values()),
            kept=kept,
            without_stack=self.samples(empty[self.joined.raw]) if self.with_chains else 0,
            truncated=self.samples(self._deep()),
            odd=self.lost.odd,
            lost=self.lost.lost,
            throttled=self.lost.throttled,
        )


def _by_event(rows: Settled, events: int) -> NDArray[np.int64]:
    """How many samples each event has."""
    if len(rows) and rows.event.strides == (0,):  # all are of one
        counts = np.zeros(events, np.int64)
        counts[rows.event[0]] = rows.samples.sum()
        return counts
    return np.bincount(rows.event, rows.samples, events).astype(np.int64)


def _of_event(rows: Settled, number: int) -> Settled:
    mine = rows.event == number
    return Settled(*(getattr(rows, f.name)[mine] for f in fields(Settled)))


def _shares(total: int, counts: NDArray[np.int64]) -> list[int]:
    """A total shared out by counts in whole numbers that add up to it."""
    upto = [total * int(done) // max(1, int(counts.sum())) for done in np.cumsum(counts)]
    return [end - begin for begin, end in zip([0, *upto], upto, strict=False)]
