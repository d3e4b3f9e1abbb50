"""The latest event of a thread or process at a time: what columns of samples are joined with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.profile.numbers import Ids

NONE = -1
_MOST = 1 << 22  # threads have smaller numbers than this (PID_MAX_LIMIT)


class Latest:
    """Events sorted by time (`times`, ascending), each of the thread or process `owners[i]`.

    `at` gives indices into these columns, `NONE` where there is no event up to that time. Most threads have few events
    and most samples come after the last: that is one look into a table by number; only the others are searched.
    """

    def __init__(self, owners: NDArray[np.int64], times: NDArray[np.uint64]) -> None:
        self._times = times
        valid = np.flatnonzero((owners >= 0) & (owners < _MOST))
        self._order = valid[np.argsort(owners[valid], kind="stable")]
        self._owners = owners[self._order]
        self._last = np.full(int(self._owners[-1]) + 1 if len(valid) else 1, NONE, np.int32)
        self._last[self._owners] = self._order  # the last one written stays
        self._keys = self._key(self._owners, self._order)

    def _key(self, owners: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        return owners * (len(self._times) + 1) + ranks

    def at(self, owners: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The index of the latest event for each owner and time; an event at the very time counts."""
        known = (owners >= 0) & (owners < len(self._last))
        found = self._last[np.where(known, owners, 0)]
        found[~known] = NONE
        early = (
            np.flatnonzero((found >= 0) & (self._times[found] > times)) if len(self._times) else np.empty(0, np.int64)
        )
        if len(early):
            rank = np.searchsorted(self._times, times[early], "right") - 1
            who = owners[early].astype(np.int64)
            place = np.searchsorted(self._keys, self._key(who, rank), "right") - 1
            there = (place >= 0) & (self._owners[place] == who)
            found[early] = np.where(there, self._order[place], NONE)
        return found
