"""The samples of one event as columns, added up from time to time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thpdiag.model.citation import EXCERPT
from thpdiag.readers.perf.script_bulk.hashing import Ints
from thpdiag.readers.perf.script_bulk.heads import UNTIMED, HeadColumns
from thpdiag.readers.perf.script_bulk.plain import plain
from thpdiag.readers.perf.script_bulk.windows import Window
from thpdiag.readers.perf.script_samples import Sample

_TEXTS = 200_000  # chains whose first line is kept as text; with more of them, none is
_TOGETHER = 4_000_000  # rows that are added up
_KEY_BITS = 63


@dataclass(frozen=True, slots=True, eq=False)
class TallyRows:
    """What one chain in one task on one CPU weighs in 10 ms; `time` counts 10 ms, UNTIMED where not known."""

    chain: NDArray[np.int32]
    who: NDArray[np.int32]
    time: Ints
    weight: NDArray[np.float64]
    samples: Ints

    def __len__(self) -> int:
        return len(self.chain)

    def only(self, keep: NDArray[np.bool_]) -> TallyRows:
        """The rows that `keep` marks."""
        return TallyRows(self.chain[keep], self.who[keep], self.time[keep], self.weight[keep], self.samples[keep])


@dataclass(slots=True)
class First:
    """The first sample of an event, its first time, and the last."""

    line: int = 0  # 0: there is none
    text: str = ""
    timed: int = 0
    zero: bool = False  # the first time is 0
    last: float = -1.0

    def begin(self, line: int, text: str) -> None:
        if not self.line or line < self.line:
            self.line, self.text = line, text

    def time(self, line: int, last: float, *, zero: bool) -> None:
        if not self.timed or line < self.timed:
            self.timed, self.zero = line, zero
        self.last = max(self.last, last)


@dataclass(slots=True)
class Tally:
    """One event."""

    first: First = field(default_factory=First)
    texts: dict[int, str] = field(default_factory=dict)  # by chain
    lines: Ints = field(default_factory=lambda: np.zeros(1024, np.int64))  # where each chain is first, 0: nowhere
    _parts: list[TallyRows] = field(default_factory=list)
    _single: list[tuple[int, int, int, float]] = field(default_factory=list)
    _rows: int = 0

    def take(self, window: Window, lines: Ints, chains: NDArray[np.int32], heads: HeadColumns) -> None:
        """Samples of a window, by the lines of their heads, in order."""
        numbers = window.first + lines
        self._cite(window, lines, chains, numbers)
        self.first.begin(int(numbers[0]), plain(window.raw(int(lines[0]))) or "")
        self._time(numbers, heads)
        counts = np.ones(len(chains), np.int64)
        self._add(TallyRows(chains, heads.who, heads.hundredths, heads.weight, counts))

    def one(self, sample: Sample, chain: int, who: int) -> None:
        """A sample that was read by itself."""
        head = sample.head
        self.first.begin(sample.line, sample.text)
        if head.hundredths is not None and head.seconds is not None:
            self.first.time(sample.line, head.seconds, zero=head.seconds == 0)
        self._room(chain)
        if not self.lines[chain] or sample.line < self.lines[chain]:
            self.lines[chain] = sample.line
            self.texts[chain] = sample.text[:EXCERPT]
        time = UNTIMED if head.hundredths is None else head.hundredths
        self._single.append((chain, who, time, 1 if head.period is None else head.period))

    def rows(self) -> TallyRows:
        """All rows, each key once."""
        self._flush()
        return together(self._parts)

    def _time(self, numbers: Ints, heads: HeadColumns) -> None:
        timed = np.flatnonzero(heads.hundredths != UNTIMED)
        if not len(timed):
            return
        first = timed[0]
        zero = bool(heads.nanoseconds[first] == 0 or heads.seconds[first] == 0)
        last = int(heads.nanoseconds.max())
        exact = float(f"{last // 10**9}.{last % 10**9:09d}") if last >= 0 else -1.0
        self.first.time(int(numbers[first]), max(exact, float(heads.seconds.max())), zero=zero)

    def _room(self, chain: int) -> None:
        if chain >= len(self.lines):
            self.lines = np.concatenate((self.lines, np.zeros(max(len(self.lines), chain), np.int64)))

    def _cite(self, window: Window, lines: Ints, chains: NDArray[np.int32], numbers: Ints) -> None:
        self._room(int(chains.max()))
        known = self.lines[chains]
        new = np.flatnonzero((known == 0) | (known > numbers))
        if not len(new):
            return
        found, first = np.unique(chains[new], return_index=True)
        self.lines[found] = numbers[new[first]]
        if len(self.texts) < _TEXTS:
            for chain, raw in zip(found.tolist(), window.raws(lines[new[first]]), strict=True):
                self.texts[chain] = (plain(raw) or "")[:EXCERPT]

    def _flush(self) -> None:
        if not self._single:
            return
        chain, who, time, weight = zip(*self._single, strict=True)
        counts = np.ones(len(chain), np.int64)
        keys = np.array(chain, np.int32), np.array(who, np.int32), np.array(time, np.int64)
        self._single.clear()
        self._add(TallyRows(*keys, np.array(weight, np.float64), counts))

    def _add(self, rows: TallyRows) -> None:
        self._parts.append(rows)
        self._rows += len(rows)
        if self._rows > _TOGETHER:
            self._parts = [together(self._parts)]
            self._rows = len(self._parts[0]) // 2  # so that many rows are not added up ever again


def together(parts: list[TallyRows]) -> TallyRows:
    """Rows of the same key as one, sorted by key."""
    if not parts or not sum(map(len, parts)):
        nothing = np.empty(0, np.int64)
        return TallyRows(
            nothing.astype(np.int32), nothing.astype(np.int32), nothing, nothing.astype(np.float64), nothing
        )
    base = min(int(p.time.min()) for p in parts if len(p))
    widths = [
        max(int(getattr(p, name).max()) - least for p in parts if len(p)).bit_length()
        for name, least in (("chain", 0), ("who", 0), ("time", base))
    ]
    if sum(widths) > _KEY_BITS:
        return _together_by_columns(parts)
    _, who_bits, time_bits = widths
    keys = np.concatenate(
        [(((p.chain.astype(np.int64) << who_bits) | p.who) << time_bits) | (p.time - base) for p in parts]
    )
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    weight, samples = _sums(parts, order, starts)
    keys = keys[starts]
    time = (keys & ((1 << time_bits) - 1)) + base
    keys >>= time_bits
    who = (keys & ((1 << who_bits) - 1)).astype(np.int32)
    return TallyRows((keys >> who_bits).astype(np.int32), who, time, weight, samples)


def _sums(parts: list[TallyRows], order: Ints, starts: Ints) -> tuple[NDArray[np.float64], Ints]:
    """Weight and samples of each key, whose rows begin at `starts` once they are in order."""
    weights = np.concatenate([p.weight for p in parts])
    samples = np.concatenate([p.samples for p in parts])
    alike = bool((samples == 1).all())
    numbers = np.diff(starts, append=len(order)) if alike else np.add.reduceat(samples[order], starts)
    if alike and bool((weights == weights[0]).all()):
        return numbers * weights[0], numbers
    return np.add.reduceat(weights[order], starts), numbers


def _together_by_columns(parts: list[TallyRows]) -> TallyRows:
    """The same for keys that are too large for one number, as those of damaged times are."""
    chain, who, time = (np.concatenate([getattr(p, name) for p in parts]) for name in ("chain", "who", "time"))
    order = np.lexsort((time, who, chain))
    chain, who, time = chain[order], who[order], time[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (chain[1:] != chain[:-1]) | (who[1:] != who[:-1]) | (time[1:] != time[:-1])
    starts = np.flatnonzero(new)
    return TallyRows(chain[starts], who[starts], time[starts], *_sums(parts, order, starts))
