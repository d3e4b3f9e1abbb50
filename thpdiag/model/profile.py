"""Call stacks with weights: the one shape for perf.data, perf script, perf report, perf top and folded stacks.

Renderings of one recording differ only in what they cannot tell (`stacks`, `has_time`, `percent_only`) and in
what they lost (`ledger`). A recording of millions of samples has few distinct stacks: those are kept once, and the
samples are columns of numbers (numpy) that point to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from thpdiag.model.citation import EXCERPT, Citation
from thpdiag.model.moment import Moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BIN = 0.01  # seconds of a time bin
UNKNOWN = -1  # in the columns `cpu` and `bin`
NAMELESS = "[unknown]"  # name of a function, or of an object, that the source does not tell


class Stacks(StrEnum):
    """How much of the call chain the source shows."""

    FULL = "full"
    PARTIAL = "partial"  # perf report: below the percent limit, or cut by [...]
    NONE = "none"  # leaf only: perf top, flat report


@dataclass(frozen=True, slots=True)
class Frame:
    """A function.

    `name` is normalised (no offset, no `.isra.0`, no `_[k]`), `NAMELESS` where there is none; `kernel` is None when
    the source does not say. `address` is the runtime address of a kernel function that has no name yet, or the offset
    in the object `dso` of a program's function that has none.
    """

    name: str
    dso: str = ""
    kernel: bool | None = None
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Who ran."""

    comm: str = ""
    pid: int | None = None
    tid: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """The distinct call chains of a profile.

    `frames` holds indices into `Profile.frames`, all chains one after another, each leaf first; chain `i` is
    `frames[starts[i]:starts[i + 1]]`, empty for samples without a stack. `lines` is the line (from 1) where each was
    seen first, 0 where the source has no lines; `texts` their excerpts, or nothing. `cut` marks chains whose outer end
    is missing (the depth that was recorded was reached); None: none is.
    """

    frames: NDArray[np.int32]
    starts: NDArray[np.int64]  # one more than there are chains
    lines: NDArray[np.int64]
    texts: tuple[str, ...] = ()
    cut: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> tuple[int, ...]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return tuple(self.frames[self.starts[number] : self.starts[number + 1]].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        frames, starts = self.frames.tolist(), self.starts.tolist()
        for i in range(len(self)):
            yield tuple(frames[starts[i] : starts[i + 1]])


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns of equal length: what one chain in one task weighs (on one CPU, in one 10 ms bin, where known).

    `weight` is the summed period, or samples, or percent (0..100) when `Profile.percent_only`. `samples` counts
    samples, 0 if unknown. `bin` counts 10 ms since `Profile.start`; `UNKNOWN` in `cpu` and `bin` where not known.
    """

    chain: NDArray[np.int32]
    task: NDArray[np.int32]
    cpu: NDArray[np.int32]
    bin: NDArray[np.int32]
    weight: NDArray[np.float64]
    samples: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.chain)

    def only(self, keep: NDArray[np.bool_]) -> Rows:
        """The rows that `keep` marks."""
        return Rows(
            self.chain[keep], self.task[keep], self.cpu[keep], self.bin[keep], self.weight[keep], self.samples[keep]
        )


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel module as mapped while recording: addresses `start` up to `end`."""

    name: str
    start: int
    end: int
    build_id: str = ""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """Which kernel ran, and where in memory: what a table of symbols must fit (perf.md 5.5).

    `address` is the runtime address of `symbol` (`_text`, before 3.x `_stext`) as the kernel's map record tells; build
    ids are in hex.
    """

    release: str = ""
    build_id: str = ""
    symbol: str = "_text"
    address: int | None = None
    modules: tuple[Module, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What became of the samples of the source: none is lost silently.

    `odd` counts by reason what was read but not kept; `lost` is the number of samples that the recording itself says
    were lost (LOST records, LOST_SAMPLES, "lost N"), None if it says nothing about losses; `throttled` counts the
    times that the kernel slowed sampling down. `truncated` counts samples whose chain ends at the depth that was
    recorded. For percent sources `unlisted` is the share (0..100) that the text does not show.
    """

    read: int = 0
    kept: int = 0
    without_stack: int = 0
    unknown_symbol: int = 0
    truncated: int = 0
    odd: Mapping[str, int] = field(default_factory=dict)
    lost: int | None = None
    throttled: int = 0
    unlisted: float = 0.0

    @property
    def lost_share(self) -> float | None:
        """Of all samples that should be there, the share that the recording lost."""
        return None if self.lost is None else self.lost / max(1, self.lost + self.read)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One event of one recording. Several events of a recording are several profiles, never added.

    `start` is the time of bin 0. `kernel` is there while kernel functions still wait for their names
    (`thpdiag.derive.kernel_symbols`).
    """

    reader: str
    event: str
    frames: tuple[Frame, ...]
    chains: Chains
    tasks: tuple[Task, ...]
    rows: Rows
    stacks: Stacks
    cite: Citation
    ledger: Ledger = Ledger()
    percent_only: bool = False
    has_time: bool = False
    start: Moment | None = None
    end: Moment | None = None
    total_samples: int | None = None  # as the source states it ("Samples: 124K"), None if it does not
    facts: Mapping[str, str] = field(default_factory=dict)  # header: hostname, release, perf version, command line
    kernel: KernelImage | None = None

    def names(self, chain: int) -> list[str]:
        """The functions of a chain, leaf first."""
        return [self.frames[i].name for i in self.chains[chain]]

    def citation(self, chain: int) -> Citation:
        """Where the chain was seen first."""
        line = int(self.chains.lines[chain]) or None
        text = self.chains.texts[chain] if self.chains.texts else " < ".join(self.names(chain))
        return Citation(self.cite.member, line, text[:EXCERPT])
