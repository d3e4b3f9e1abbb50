"""Adds up stacks one by one: how readers of texts, and tests, make a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from thpdiag.model.citation import EXCERPT, Citation
from thpdiag.model.profile import UNKNOWN, Chains, Rows, Task

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
        task: Task = Task(),  # noqa: B008 - frozen
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
        return Chains(frames, starts, lines, tuple(c.text[:EXCERPT] for c in self._cites), cut if self._cut else None)

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
