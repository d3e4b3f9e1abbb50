"""Which object a program's address lay in at that time: address spaces by the history of MMAP and FORK records.

A fork begins with a copy of the parent's address space, and a later map wins over what it covers. An exec empties the
address space, but the kernel still unwinds to the caller of execve in the old program until the new one starts: maps
stay until they are covered, as in perf. An **epoch** is the latest record that touched the address space of a process;
samples with the same epoch see the same maps. Everything is looked up for whole arrays, with one search per level of
forks. Source: tools/perf/util/machine.c, maps.c; kernel fs/exec.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import Fork, Map
from thpdiag.perf_data.profile.latest import NONE, Latest
from thpdiag.perf_data.profile.numbers import Ids
from thpdiag.perf_data.uapi import CPU_MODE, CpuMode
from thpdiag.ragged import gathered

Ints = NDArray[np.int64]
UNMAPPED = -1
_DEEPEST = 1000  # forks without an exec between that are followed
_MOST_PIECES = 4_000_000  # pieces of maps that cover one another; beyond, the oldest are forgotten
_PROGRAMS = (CpuMode.NOT_KNOWN, CpuMode.USER, CpuMode.GUEST_USER)
_NO_FORK = -(1 << 40)  # in place of the parent: no process has this number


class AddressSpaces:
    """All maps of all processes; epochs are numbered in the order of the file, so that they stay what they are.

    An event is a map (its number in `maps`) or a fork (the parent's number).
    """

    def __init__(self) -> None:
        self.maps: list[Map] = []
        self._times: list[int] = []
        self._pids: list[int] = []
        self._map: list[int] = []  # `UNMAPPED` for a fork
        self._parents: list[int] = []  # `_NO_FORK` for a map
        self._latest: tuple[Latest, Ints] | None = None

    def learn(self, maps: Sequence[Map], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file. At equal times forks come first."""
        begun = [f for f in forks if not f.exit and f.pid != f.parent_pid]
        shown = [m for m in maps if m.pid != -1 and m.misc & CPU_MODE in _PROGRAMS]
        if not begun and not shown:
            return
        self._latest = None
        self._times += [f.time for f in begun] + [m.time for m in shown]
        self._pids += [f.pid for f in begun] + [m.pid for m in shown]
        self._map += [UNMAPPED] * len(begun) + list(range(len(self.maps), len(self.maps) + len(shown)))
        self._parents += [f.parent_pid for f in begun] + [_NO_FORK] * len(shown)
        self.maps += shown

    def epochs(self, pids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The epoch of each process at each time, `NONE` where no record was met yet."""
        if self._latest is None:
            order = self._order()
            events = np.array(self._times, np.uint64)[order]
            self._latest = Latest(np.array(self._pids, np.int64)[order], events), order
        latest, order = self._latest
        found = latest.at(pids, times)
        return np.where(found == NONE, NONE, order[found]).astype(np.int32) if len(order) else found

    def lookup(self) -> Lookup:
        """What answers questions for addresses, once all records are known."""
        order = self._order()
        pids, maps, parents = (np.array(c, np.int64)[order] for c in (self._pids, self._map, self._parents))
        return Lookup(self.maps, Spaces(pids, maps, parents), order)

    def _order(self) -> Ints:
        return np.argsort(np.array(self._times, np.uint64), kind="stable")


class Spaces:
    """Address spaces, numbered: `of` gives the one that each event (sorted by time) began or changed.

    `parent` is the space that a fork copied, `until` the last event whose effect was copied; `NONE` for no fork.
    """

    def __init__(self, pids: Ints, maps: Ints, parents: Ints) -> None:
        self.maps = maps
        order = np.argsort(pids, kind="stable")
        owners = pids[order]
        first = np.ones(len(owners), np.bool_)
        first[1:] = owners[1:] != owners[:-1]
        forked = parents[order] != _NO_FORK
        begins = first | forked
        self.of = np.empty(len(pids), np.int64)
        self.of[order] = np.cumsum(begins) - 1
        rank = np.where(forked, order, NONE)[begins]  # of the fork that began each space
        before = self._before(owners, order, parents[rank], rank)
        forked = (rank != NONE) & (before != NONE)
        self.parent = np.where(forked, self.of[before], NONE) if len(rank) else rank
        self.until = np.where(forked, rank, NONE)
        self._pass_over()

    def _before(self, owners: Ints, order: Ints, pids: Ints, ranks: Ints) -> Ints:
        """The last event of each process before an event, `NONE` if there was none."""
        place, number = _distinct(owners.copy()), len(order) + 1
        owner = np.searchsorted(place, pids)
        known = np.append(place, _NO_FORK)[owner] == pids
        at = np.searchsorted(np.searchsorted(place, owners) * number + order, owner * number + ranks) - 1
        before = np.where(at >= 0, order[at], NONE) if len(order) else at
        same = known & (at >= 0)
        same[same] = owners[at[same]] == pids[same]
        return np.where(same, before, NONE)

    def _pass_over(self) -> None:
        """A parent that has no maps of its own is passed over, and so on: few levels are left."""
        maps = np.bincount(self.of[self.maps != UNMAPPED], minlength=len(self.parent))
        while True:
            empty = np.flatnonzero((self.parent != NONE) & (maps[self.parent] == 0))
            if not len(empty):
                return
            over = self.parent[empty]
            self.until[empty], self.parent[empty] = self.until[over], self.parent[over]


class Lookup:
    """Maps cut into pieces that do not cover one another in part, each with all maps that ever lay there, by time."""

    def __init__(self, maps: Sequence[Map], spaces: Spaces, order: Ints) -> None:
        self._spaces, self._events = spaces, len(order) + 1
        self._ranks = np.empty(len(order), np.int64)
        self._ranks[order] = np.arange(len(order))
        rank = np.flatnonzero(spaces.maps != UNMAPPED)
        self._map = spaces.maps[rank]
        start = np.array([m.start for m in maps], np.uint64)
        length = np.array([m.length for m in maps], np.uint64)
        self._cut(start[self._map], (start + np.minimum(length, ~start))[self._map], rank)

    def _cut(self, start: NDArray[np.uint64], end: NDArray[np.uint64], rank: Ints) -> None:
        self.aligned = not np.any((start | end) & np.uint64(0xFFF))
        self._points = _distinct(np.concatenate((start, end)))
        space = self._spaces.of[rank]
        begins, ends = (self._key(space, np.searchsorted(self._points, place)) for place in (start, end))
        self._bounds = _distinct(np.concatenate((begins, ends)))
        first = np.searchsorted(self._bounds, begins)
        pieces = np.searchsorted(self._bounds, ends) - first
        pieces[np.cumsum(pieces[::-1])[::-1] > _MOST_PIECES] = 0
        keys = gathered(first, pieces) * self._events + np.repeat(rank, pieces)
        order = np.argsort(keys)
        self._pieces = keys[order]
        self._piece_map = np.repeat(self._map, pieces)[order]

    def _key(self, space: Ints, point: Ints) -> Ints:
        return space * (len(self._points) + 1) + point

    def maps_at(self, epochs: Ids, addresses: NDArray[np.uint64]) -> Ints:
        """For each epoch and address the number of the map that lay there, or `UNMAPPED`."""
        found = np.full(len(addresses), UNMAPPED, np.int64)
        todo = np.flatnonzero(epochs != NONE) if len(self._pieces) else np.empty(0, np.int64)
        rank = self._ranks[epochs[todo]]
        space = self._spaces.of[rank]
        for _ in range(_DEEPEST):
            if not len(todo):
                break
            here = self._found(space, rank, addresses[todo])
            found[todo] = here
            more = (here == UNMAPPED) & (self._spaces.parent[space] != NONE)
            todo, space = todo[more], space[more]
            rank, space = self._spaces.until[space], self._spaces.parent[space]
        return found

    def _found(self, space: Ints, rank: Ints, addresses: NDArray[np.uint64]) -> Ints:
        """What lay there in one space after one event, forks left aside."""
        point = np.searchsorted(self._points, addresses, "right") - 1
        piece = np.searchsorted(self._bounds, self._key(space, point), "right") - 1
        at = np.searchsorted(self._pieces, piece * self._events + rank, "right") - 1
        there = (piece >= 0) & (at >= 0)
        there &= self._pieces[at] // self._events == piece
        return np.where(there, self._piece_map[at], UNMAPPED)


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Sorted and each once: np.unique takes a hash table for it, which is slower."""
    values.sort()
    keep = np.ones(len(values), np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]
