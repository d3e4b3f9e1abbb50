"""Call stacks with weights: the common form of perf.data, perf script, perf report, perf top and folded stacks.

Different outputs of one recording differ only in what they cannot show (`stacks`, `has_time`, `percent_only`) and in
what they lost (`ledger`). A recording of millions of samples has few distinct stacks: each is stored once, and samples
are numeric columns (numpy) that refer to them.

`StackCounts` adds up stacks one by one, for parsers of texts and for tests. `SymbolTable` holds the names of kernel
functions by address: from kallsyms, System.map, or the symbol table of a vmlinux or module.
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

BIN = 0.01  # seconds per time bin
UNKNOWN = -1  # value in the columns `cpu` and `bin`
NAMELESS = "[unknown]"  # a function or object whose name the source does not show
HIDDEN = "[...]"  # object of a nameless frame that stands for any number of omitted functions


class Stacks(StrEnum):
    """How much of the call chain the source shows."""

    FULL = "full"
    PARTIAL = "partial"  # perf report: below the percent limit, or cut by [...]
    NONE = "none"  # leaf only: perf top, flat report


class Measure(StrEnum):
    """What the weight of a recording is. Only weights of CPU time are shares of the host's work."""

    CPU = "cpu"  # samples of running code, by time or cycles
    OFF_CPU = "off-cpu"  # time in which tasks did not run
    CALLS = "calls"  # calls of a function or tracepoint
    SNAPSHOT = "snapshot"  # the position of each thread at one moment, running or not
    OTHER = "other"  # bytes, latencies, or unknown


class Frame(NamedTuple):
    """A function.

    `name` is normalised (no offset, no `.isra.0`, no `_[k]`), or `NAMELESS`; `kernel` is None if the source does not
    show it. `address` is the runtime address of a kernel function without a name, or the offset in the object `dso` of
    a user-space function without one.
    """

    name: str
    dso: str = ""
    kernel: bool | None = None
    address: int | None = None


class Task(NamedTuple):
    """The thread that ran."""

    comm: str = ""
    pid: int | None = None
    tid: int | None = None


UNKNOWN_TASK = Task()


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """The distinct call chains of a profile.

    `frames` holds indices into `Profile.frames`, all chains concatenated, each leaf first; chain `i` is
    `frames[starts[i]:starts[i + 1]]`, empty for samples without a stack. `lines` is the line (from 1) of the first
    occurrence of each, 0 if the source has no lines; `texts` are their excerpts, or empty. `cut` marks chains whose
    outer end is missing because they reached the recorded depth; None: none is.
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
    """Columns of equal length: the weight of one chain in one task (on one CPU, in one 10 ms bin, if known).

    `weight` is the summed period, or samples, or percent (0..100) if `Profile.percent_only`. `samples` counts samples,
    0 if unknown. `bin` counts 10 ms since `Profile.start`; `UNKNOWN` in `cpu` and `bin` if not known.
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
        """Return the rows that `keep` marks."""
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
    """The kernel that ran, and its address: a symbol table must match these (perf.md 5.5).

    `address` is the runtime address of `symbol` (`_text`, before 3.x `_stext`) in the kernel's map record; build ids
    are in hex.
    """

    release: str = ""
    build_id: str = ""
    symbol: str = "_text"
    address: int | None = None
    modules: tuple[Module, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The loss ledger: the number of samples read, kept and dropped.

    `odd` counts by reason what was read but not kept; `lost` is the number of samples that the recording reports as
    lost (LOST records, LOST_SAMPLES, "lost N"), None if it does not report losses; `throttled` counts how often the
    kernel throttled sampling. `truncated` counts samples whose chain ends at the recorded depth. For percent sources
    `unlisted` is the share (0..100) that the text omits.
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
        """The share of all samples, read and lost, that the recording lost."""
        return None if self.lost is None else self.lost / max(1, self.lost + self.read)


class Inclusive(NamedTuple):
    """A function with its callees: index of its frame, command of its task, percent of the event."""

    frame: int
    comm: str
    share: float
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One event of one recording. Several events of a recording are several profiles and are never added up.

    `measures` is None if the event determines it. `shows_kernel` is False for a profiler of user space, in which the
    kernel's work is unknown, not 0. `start` is the time of bin 0. `kernel` is set as long as kernel functions have no
    names yet (`thpdiag.host.kernel_symbols`).
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
    inclusive: tuple[Inclusive, ...] = ()  # shares with callees of a text without chains
    measures: Measure | None = None
    shows_kernel: bool = True

    def names(self, chain: int) -> list[str]:
        """Return the functions of a chain, leaf first."""
        return [self.frames[i].name for i in self.chains[chain]]

    def citation(self, chain: int) -> Citation:
        """Return the first occurrence of a chain."""
        line = int(self.chains.lines[chain]) or None
        text = self.chains.texts[chain] if self.chains.texts else " < ".join(self.names(chain))
        return Citation(self.cite.member, line, excerpt_of(text))


Key = tuple[int, int, int, int]  # chain, task, cpu, bin


@dataclass(slots=True)
class StackCounts:
    """Weights and samples by chain, task, cpu and bin, in order of first occurrence."""

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
        task: Task = UNKNOWN_TASK,
        cpu: int | None = None,
        bin: int | None = None,
    ) -> int:
        """Count a stack (indices of frames, leaf first) and return the number of its chain."""
        chain = self._chains.setdefault(tuple(stack), len(self._chains))
        if chain == len(self._cites):
            self._cites.append(cite)
        task_number = self._tasks.setdefault(task, len(self._tasks))
        key = (chain, task_number, UNKNOWN if cpu is None else cpu, UNKNOWN if bin is None else bin)
        if (known := self._sums.get(key)) is None:
            self._sums[key] = [weight, samples]
        else:
            known[0] += weight
            known[1] += samples
        return chain

    def cut(self, chain: int) -> None:
        """Mark a chain whose outer end is missing."""
        self._cut.add(chain)

    def tasks(self) -> tuple[Task, ...]:
        return tuple(self._tasks)

    def chains(self) -> Chains:
        """Return the distinct chains as columns."""
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
        """Return the sums as columns; bins count from `first`."""
        import numpy as np

        keys = np.array(list(self._sums), np.int64).reshape(-1, 4)
        weights = np.fromiter((s[0] for s in self._sums.values()), np.float64, len(keys))
        samples = np.fromiter((s[1] for s in self._sums.values()), np.int64, len(keys))
        bins = keys[:, 3] - first
        bins[(keys[:, 3] == UNKNOWN) | (bins > np.iinfo(np.int32).max)] = UNKNOWN  # the time is damaged
        chain, task, cpu = (keys[:, i].astype(np.int32) for i in range(3))
        return Rows(chain, task, cpu, bins.astype(np.int32), weights, samples)


class TableKind(StrEnum):
    """What the addresses of a table refer to."""

    KALLSYMS = "kallsyms"  # the running kernel, including modules
    SYSTEM_MAP = "System.map"  # as linked; the running kernel is shifted by the slide
    VMLINUX = "vmlinux"  # as linked
    MODULE = "module"  # offsets in the module's sections


_SYMBOL = re.compile(rb"(?:([0-9a-f]{16}|[0-9a-f]{8}|[ ]*\(null\)) [A-Za-z?-] \S+(?:[\t ]+\[[^\]\s]+\])?\r?(?:\n|\Z))")


def width_of(text: bytes) -> int:
    """Return the number of hex digits of the addresses in a symbol list; 0 if the text does not begin with one."""
    match = _SYMBOL.match(text)
    return len(match[1]) if match and len(match[1]) in (8, 16) else 0


@dataclass(frozen=True, slots=True, eq=False)
class SymbolList:
    """A symbol list as it was read, from which a table is made only if a recording needs one.

    `chunks` are its bytes, after the first `above` bytes, which do not belong to it. If it is not `whole`, only the
    first chunk was kept and the rest must be read again. `release` and `build_id` are as in a table.
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
        """The whole list in one piece."""
        text = b"".join(self.chunks)
        return text[self.above :] if self.above else text


@dataclass(frozen=True, slots=True, eq=False)
class SymbolTable:
    """Functions sorted by address; of several at one address the last of the file comes last (perf uses that one).

    The name of function `i` is `text[starts[i]:ends[i]]`; its module is `modules[module[i]]`, where the first is `""`,
    the kernel itself. `anchors` are the addresses of `_text` and `_stext` if listed. `release` and `build_id` (hex) are
    empty if unknown. `zeroed`: the kernel hid the addresses from the reader of the table (kptr_restrict).
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
