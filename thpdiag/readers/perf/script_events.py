"""What was read of one event of perf script, and the profile that it becomes. Not a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thpdiag.knowledge.symbols import unresolved
from thpdiag.model import Chains, Citation, Clock, Frame, Ledger, Moment, Profile, Rows, StackCounts, Stacks, Task
from thpdiag.readers.perf.script_samples import NAME, Around, Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DEEPEST = 127  # frames that the kernel takes unless kernel.perf_event_max_stack says otherwise
_RELATIVE = "relative (--deltatime or --reltime): no time of day, bins left out"


@dataclass(slots=True)
class Span:
    """First and last time of an event's samples.

    A recording never begins at 0.000000, but `--reltime` and `--deltatime` do.
    """

    first: int | None = None  # in 10 ms
    last: float = 0.0
    relative: bool = False

    def take(self, hundredths: int, seconds: float) -> None:
        """The next sample's time."""
        if self.first is None:
            self.relative = seconds == 0
            self.first, self.last = hundredths, seconds
        else:
            self.first, self.last = min(self.first, hundredths), max(self.last, seconds)

    @property
    def timed(self) -> bool:
        return self.first is not None and not self.relative


@dataclass(slots=True)
class EventCounts:
    """The samples of one event, added up."""

    cite: Citation
    span: Span = field(default_factory=Span)
    counts: StackCounts = field(default_factory=StackCounts)

    def take(self, sample: Sample, cite: Citation) -> None:
        head, at = sample.head, None
        if head.hundredths is not None and head.seconds is not None:
            self.span.take(head.hundredths, head.seconds)
            at = None if self.span.relative else head.hundredths
        weight = 1 if head.period is None else head.period
        self.counts.add(sample.stack, weight, 1, cite, Task(head.comm, head.pid, head.tid), head.cpu, at)

    def profile(self, name: str, frames: Sequence[Frame], around: Around) -> Profile:
        columns = self.counts.chains(), self.counts.tasks(), self.counts.rows(self.span.first or 0)
        return profile(name, self.cite, frames, columns, self.span, around)


def profile(
    name: str,
    cite: Citation,
    frames: Sequence[Frame],
    columns: tuple[Chains, tuple[Task, ...], Rows],
    span: Span,
    around: Around,
) -> Profile:
    """The profile of an event. `frames` are those of all events; it gets its own."""
    import numpy as np

    chains, tasks, rows = columns
    used, numbers = only_used(chains.frames, len(frames))
    lengths = np.diff(chains.starts)
    cut = lengths == _DEEPEST
    chains = Chains(numbers, chains.starts, chains.lines, chains.texts, cut if cut.any() else None)
    own = tuple(frames[i] for i in used.tolist())
    facts = {**around.header, **({"clock": _RELATIVE} if span.relative else {})}
    ledger = _ledger(own, chains, rows, around)
    return Profile(
        reader=NAME,
        event=name,
        frames=own,
        chains=chains,
        tasks=tasks,
        rows=rows,
        stacks=Stacks.FULL if bool((lengths > 1).any()) else Stacks.NONE,
        cite=cite,
        ledger=ledger,
        has_time=span.timed,
        start=Moment((span.first or 0) / 100, Clock.BOOT) if span.timed else None,
        end=Moment(span.last, Clock.BOOT) if span.timed else None,
        total_samples=ledger.kept,
        facts=facts,
    )


def only_used(numbers: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which of the numbers below `count` occur, and each as its place among those."""
    import numpy as np

    marks = np.zeros(count, np.bool_)
    marks[numbers] = True
    return np.flatnonzero(marks), (np.cumsum(marks, dtype=np.int32) - np.int32(1))[numbers]


def _ledger(frames: Sequence[Frame], chains: Chains, rows: Rows, around: Around) -> Ledger:
    """What became of the samples; each that has a head is kept."""
    import numpy as np

    lengths = np.diff(chains.starts)
    nameless = np.fromiter((unresolved(f.name) for f in frames), np.bool_, len(frames))
    unknown = np.zeros(len(chains), np.bool_)
    filled = lengths > 0
    unknown[filled] = nameless[chains.frames[chains.starts[:-1][filled]]]

    def samples(marked: NDArray[np.bool_]) -> int:
        return int(rows.samples[marked[rows.chain]].sum())

    kept = int(rows.samples.sum())
    return Ledger(
        read=kept,
        kept=kept,
        without_stack=samples(~filled),
        unknown_symbol=samples(unknown),
        truncated=samples(lengths == _DEEPEST),
        odd=dict(around.counts),
        lost=around.lost,
    )
