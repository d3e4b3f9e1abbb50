"""Call stacks with weights: the one shape for perf.data, perf script, perf report, perf top and folded stacks.

Renderings of one recording differ only in what they cannot tell (`stacks`, `has_time`, `percent_only`) and in
what they lost (`ledger`). A recording of millions of samples has few distinct stacks: those are kept once, and the
samples are columns of numbers (numpy) that point to them.

Adds up stacks one by one: how readers of texts, and tests, make a profile.

The names of a kernel's functions by address: kallsyms, System.map, the symbol table of a vmlinux or module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from thpdiag.model.facts import MAX_CITED_CHARS, Citation, Moment, excerpt_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BIN = 0.01  # seconds of a time bin
UNKNOWN = -1  # in the columns `cpu` and `bin`
NAMELESS = "[unknown]"  # name of a function, or of an object, that the source does not tell
HIDDEN = "[...]"  # object of a frame without name that stands for any number of functions that the source leaves out


class Stacks(StrEnum):
    """How much of the call chain the source shows."""

    FULL = "full"
    PARTIAL = "partial"  # perf report: below the percent limit, or cut by [...]
    NONE = "none"  # leaf only: perf top, flat report


class Measure(StrEnum):
    """What the weight of a recording is. Only shares of CPU time are shares of what a host does."""

    CPU = "cpu"  # samples of what ran, by time or cycles
    OFF_CPU = "off-cpu"  # time in which tasks did not run
    CALLS = "calls"  # of a function or tracepoint
    SNAPSHOT = "snapshot"  # where each thread was at one moment, whether it ran or not
    OTHER = "other"  # bytes, latencies, what the source does not explain


class Frame(NamedTuple):
    """A function.

    `name` is normalised (no offset, no `.isra.0`, no `_[k]`), `NAMELESS` where there is none; `kernel` is None when
    the source does not say. `address` is the runtime address of a kernel function that has no name yet, or the offset
    in the object `dso` of a program's function that has none.
    """

    name: str
    dso: str = ""
    kernel: bool | None = None
    address: int | None = None


class Task(NamedTuple):
    """Who ran."""

    comm: str = ""
    pid: int | None = None
    tid: int | None = None


NOBODY = Task()


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


class Inclusive(NamedTuple):
    """A function with all that it calls: the number of its frame, its task's command, percent of the event."""

    frame: int
    comm: str
    share: float
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One event of one recording. Several events of a recording are several profiles, never added.

    `measures` is None where the event tells it. `shows_kernel` is False where the profiler sees the program alone: what
    the kernel did is unknown then, not nothing. `start` is the time of bin 0. `kernel` is there while kernel functions
    still wait for their names (`thpdiag.host.kernel_symbols`).
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
    inclusive: tuple[Inclusive, ...] = ()  # of a text without chains that tells shares with callees
    measures: Measure | None = None
    shows_kernel: bool = True

    def names(self, chain: int) -> list[str]:
        """The functions of a chain, leaf first."""
        return [self.frames[i].name for i in self.chains[chain]]

    def citation(self, chain: int) -> Citation:
        """Where the chain was seen first."""
        line = int(self.chains.lines[chain]) or None
        text = self.chains.texts[chain] if self.chains.texts else " < ".join(self.names(chain))
        return Citation(self.cite.member, line, excerpt_of(text))


Key = tuple[int, int, int, int]  # chain, task, cpu, bin


@dataclass(slots=True)
class StackCounts:
    """Weights and samples by chain, task, cpu and bin, in the order seen."""

    _chains: dict[tuple[int, ...], int] = field(default_factory=dict)
    _cites: list[Citation] = field(default_factory=list)
    _tasks: dict[Task, int] = field(default_factory=dict)
    _sums: dict[Key, list[float]] = field(default_factory=dict)
    _cut: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._sums)

    def add(
        self,
        stack: Sequence[int],
        weight: float,
        samples: int,
        cite: Citation,
        task: Task = NOBODY,
        cpu: int | None = None,
        bin: int | None = None,
    ) -> int:
        """Count a stack (indices of frames, leaf first); returns the number of its chain."""
        chain = self._chains.setdefault(tuple(stack), len(self._chains))
        if chain == len(self._cites):
            self._cites.append(cite)
        key = (
            chain,
            self._tasks.setdefault(task, len(self._tasks)),
            UNKNOWN if cpu is None else cpu,
            UNKNOWN if bin is None else bin,
        )
        if (known := self._sums.get(key)) is None:
            self._sums[key] = [weight, samples]
        else:
            known[0] += weight
            known[1] += samples
        return chain

    def cut(self, chain: int) -> None:
        """The outer end of a chain is missing."""
        self._cut.add(chain)

    def tasks(self) -> tuple[Task, ...]:
        return tuple(self._tasks)

    def chains(self) -> Chains:
        """The distinct chains as columns."""
        import numpy as np

        lengths = np.fromiter((len(c) for c in self._chains), np.int64, len(self._chains))
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        frames = np.fromiter((f for c in self._chains for f in c), np.int32, int(starts[-1]))
        lines = np.fromiter((c.line or 0 for c in self._cites), np.int64, len(self._cites))
        cut = np.zeros(len(self._chains), np.bool_)
        cut[list(self._cut)] = True
        return Chains(
            frames, starts, lines, tuple(c.text[:MAX_CITED_CHARS] for c in self._cites), cut if self._cut else None
        )

    def rows(self, first: int = 0) -> Rows:
        """The sums as columns; bins count from `first`."""
        import numpy as np

        keys = np.array(list(self._sums), np.int64).reshape(-1, 4)
        weights = np.fromiter((s[0] for s in self._sums.values()), np.float64, len(keys))
        samples = np.fromiter((s[1] for s in self._sums.values()), np.int64, len(keys))
        bins = keys[:, 3] - first
        bins[(keys[:, 3] == UNKNOWN) | (bins > np.iinfo(np.int32).max)] = UNKNOWN  # of a damaged time
        chain, task, cpu = (keys[:, i].astype(np.int32) for i in range(3))
        return Rows(chain, task, cpu, bins.astype(np.int32), weights, samples)


class TableKind(StrEnum):
    """What the addresses of a table are."""

    KALLSYMS = "kallsyms"  # of the running kernel, modules included
    SYSTEM_MAP = "System.map"  # as linked: the running kernel lies a slide further
    VMLINUX = "vmlinux"  # as linked
    MODULE = "module"  # offsets in the module's sections


_SYMBOL = re.compile(rb"(?:([0-9a-f]{16}|[0-9a-f]{8}|[ ]*\(null\)) [A-Za-z?-] \S+(?:[\t ]+\[[^\]\s]+\])?\r?(?:\n|\Z))")


def width_of(text: bytes) -> int:
    """How many characters wide the addresses of a list of symbols are; 0 where the text does not begin with one."""
    found = _SYMBOL.match(text)
    return len(found[1]) if found and len(found[1]) in (8, 16) else 0


@dataclass(frozen=True, slots=True, eq=False)
class SymbolList:
    """A list as it was read, of which a table is made where a recording needs one.

    `chunks` are its bytes, of which the first `above` are no part of it; only the first of them if it is not `whole`,
    and the rest is still where it came from. `release` and `build_id` are as of a table.
    """

    cite: Citation
    kind: TableKind
    chunks: tuple[bytes, ...]
    above: int = 0
    release: str = ""
    build_id: str = ""
    whole: bool = True

    @property
    def text(self) -> bytes:
        """All of it, in one piece."""
        whole = b"".join(self.chunks)
        return whole[self.above :] if self.above else whole


@dataclass(frozen=True, slots=True, eq=False)
class SymbolTable:
    """Functions sorted by address; of several at one address the last of the file stands last (perf takes that one).

    The name of function `i` is `text[starts[i]:ends[i]]`; its module `modules[module[i]]`, where the first is `""`, the
    kernel itself. `anchors` are the addresses of `_text` and `_stext` as far as listed. `release` and `build_id` (hex)
    are empty where nothing tells them. `zeroed`: the addresses were hidden from whoever read the table (kptr_restrict).
    """

    cite: Citation
    kind: TableKind
    addresses: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    text: bytes
    module: NDArray[np.int32]
    modules: tuple[str, ...] = ("",)
    anchors: tuple[tuple[str, int], ...] = ()
    release: str = ""
    build_id: str = ""
    zeroed: bool = False

    def name(self, number: int) -> str:
        return self.text[self.starts[number] : self.ends[number]].decode("utf-8", "replace")
