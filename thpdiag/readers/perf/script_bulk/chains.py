"""The distinct chains of a text, by the numbers of their frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thpdiag.ragged import gathered, starts_of
from thpdiag.readers.perf.script_bulk.hashing import ODD, HashTable, Ints, Words, finished, mixed

_KNOWN = 100_000  # chains that were asked for one by one and are remembered
_SPREAD, _OF_LENGTH = ODD[-6], ODD[-7]


class ChainTable:
    """Chains by number; all are kept, as they are part of the result."""

    def __init__(self) -> None:
        self._table = HashTable(16)
        self._weights = _weights(256)
        self._frames: list[NDArray[np.int32]] = []
        self._lengths: list[Ints] = []
        self._single: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return self._table.count

    def of(self, frames: NDArray[np.int32], starts: Ints) -> NDArray[np.int32]:
        """The number of each chain; chain i is `frames[starts[i]:starts[i + 1]]`, none is empty."""
        lengths = np.diff(starts)
        hashes = self._hashes(frames, starts, lengths)
        numbers, new = self._table.numbered(hashes)
        if len(new):
            self._frames.append(frames[gathered(starts[:-1][new], lengths[new])])
            self._lengths.append(lengths[new])
        return numbers

    def one(self, frames: tuple[int, ...]) -> int:
        """The number of a single chain, which may be empty."""
        if (known := self._single.get(frames)) is None:
            if len(self._single) >= _KNOWN:
                self._single.clear()
            known = self._single[frames] = self._one(frames)
        return known

    def _one(self, frames: tuple[int, ...]) -> int:
        chain = np.array(frames, np.int32)
        if len(chain):
            return int(self.of(chain, np.array([0, len(chain)]))[0])
        numbers, new = self._table.numbered(_SPREAD.reshape(1))
        if len(new):
            self._lengths.append(np.zeros(1, np.int64))
        return int(numbers[0])

    def _hashes(self, frames: NDArray[np.int32], starts: Ints, lengths: Ints) -> Words:
        longest = int(lengths.max())
        if longest > len(self._weights):
            self._weights = _weights(2 * longest)
        place = np.arange(len(frames)) - np.repeat(starts[:-1], lengths)
        words = (frames.astype(np.uint64) + np.uint64(1)) * _SPREAD
        total = np.add.reduceat(mixed(words) * self._weights[place], starts[:-1])
        total += lengths.astype(np.uint64) * _OF_LENGTH
        return finished(total)

    def columns(self) -> tuple[NDArray[np.int32], Ints]:
        """All frames, and where each chain starts, with the end of the last."""
        frames = np.concatenate([np.empty(0, np.int32), *self._frames])
        return frames, starts_of(np.concatenate([np.empty(0, np.int64), *self._lengths]))


def _weights(count: int) -> Words:
    """Random odd numbers, always the same ones."""
    return np.random.Generator(np.random.PCG64(4)).integers(0, 2**64, count, np.uint64) | np.uint64(1)
