"""Chains (or their parts) in the epochs that they were seen in: elsewhere the same addresses mean another program."""

from __future__ import annotations

import numpy as np

from thpdiag.perf_data.profile.latest import NONE
from thpdiag.perf_data.profile.numbers import Ids, Numbers, pair, unpaired

_UNUSED = NONE - 1


class Uses:
    """Numbers for pairs of chain and epoch.

    Nearly all chains are seen in one epoch only. The first use of a chain has the chain's own number, for which nothing
    must be searched; further ones count down from -1.
    """

    def __init__(self) -> None:
        self._epoch = np.empty(0, np.int32)  # of the first use of each chain
        self._more = Numbers()

    def __len__(self) -> int:
        return len(self._epoch) + len(self._more)

    @property
    def nbytes(self) -> int:
        return self._epoch.nbytes + self._more.nbytes

    def numbered(self, chains: Ids, epochs: Ids, known: int) -> Ids:
        """The number of each use; `known` is how many chains there are so far."""
        if known > len(self._epoch):
            self._epoch = np.concatenate((self._epoch, np.full(known - len(self._epoch), _UNUSED, np.int32)))
        first = np.flatnonzero(self._epoch[chains] == _UNUSED)
        self._epoch[chains[first]] = epochs[first]
        other = np.flatnonzero(self._epoch[chains] != epochs)
        if not len(other):
            return chains
        uses = chains.copy()
        uses[other] = -1 - self._more.numbered(pair(chains[other], epochs[other]))[0]
        return uses

    def all(self) -> tuple[Ids, Ids]:
        """Chain and epoch of each use; uses below 0 count from the end, as indices do."""
        chains, epochs = unpaired(self._more.keys[::-1])
        own = np.arange(len(self._epoch), dtype=np.int32)
        return np.concatenate((own, chains)), np.concatenate((self._epoch, epochs))
