"""Which object a program's address lay in at that time: address spaces by the history of MMAP and FORK records.

A fork begins with a copy of the parent's address space, and a later map wins over what it covers. An exec empties the
address space, but the kernel still unwinds to the caller of execve in the old program until the new one starts: maps
stay until they are covered, as in perf. An **epoch** is the latest record that touched the address space of a process;
samples with the same epoch see the same maps. Everything is looked up for whole arrays, with one search per level of
forks. Source: tools/perf/util/machine.c, maps.c; kernel fs/exec.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import Fork, Map
from thpdiag.perf_data.latest import NONE, Latest
from thpdiag.perf_data.numbers import Ids
from thpdiag.ragged import gathered

Ints = NDArray[np.int64]
UNMAPPED = -1
_DEEPEST = 1000  # forks without an exec between that are followed
_MOST_PIECES = 4_000_000  # pieces of maps that cover one another; beyond, the oldest are forgotten
_CPU_MODES, _USER, _GUEST_USER = 7, 2, 5


@dataclass(frozen=True, slots=True)
class _Event:
    """What changes the address space of a process: a map, or a fork (with `parent`)."""

    time: int
    pid: int
    map: int = UNMAPPED
    parent: int | None = None


class AddressSpaces:
    """All maps of all processes; epochs are numbered in the order of the file, so that they stay what they are."""

    def __init__(self) -> None:
        self.maps: list[Map] = []
        self._events: list[_Event] = []
        self._latest: tuple[Latest, Ints] | None = None

    def learn(self, maps: Sequence[Map], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file. At equal times forks come first, maps last."""
        before = len(self._events)
        self._events += [_Event(f.time, f.pid, parent=f.parent_pid) for f in forks if _copies(f)]
        for one in maps:
            if of_program(one):
                self._events.append(_Event(one.time, one.pid, len(self.maps)))
                self.maps.append(one)
        if len(self._events) > before:
            self._latest = None

    def epochs(self, pids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The epoch of each process at each time, `NONE` where no record was met yet."""
        self._latest = self._latest or self._timeline()
        latest, order = self._latest
        found = latest.at(pids, times)
        return np.where(found == NONE, NONE, order[found]).astype(np.int32) if len(order) else found

    def lookup(self) -> Lookup:
        """What answers questions for addresses, once all records are known."""
        return Lookup(self.maps, [self._events[i] for i in self._order()], self._ranks())

    def _order(self) -> list[int]:
        return sorted(range(len(self._events)), key=lambda i: self._events[i].time)

    def _ranks(self) -> Ints:
        ranks = np.empty(len(self._events), np.int64)
        ranks[self._order()] = np.arange(len(self._events))
        return ranks

    def _timeline(self) -> tuple[Latest, Ints]:
        order = self._order()
        events = [self._events[i] for i in order]
        times = np.fromiter((e.time for e in events), np.uint64, len(events))
        owners = np.fromiter((e.pid for e in events), np.int64, len(events))
        return Latest(owners, times), np.array(order, np.int64)


def of_program(one: Map) -> bool:
    """Whether a map record is of a program, not of the kernel or its modules."""
    return one.pid != -1 and one.misc & _CPU_MODES in (0, _USER, _GUEST_USER)


def _copies(fork: Fork) -> bool:
    return not fork.exit and fork.pid != fork.parent_pid


@dataclass(slots=True)
class _Space:
    """One address space: where a fork copied it from, and up to which event."""

    parent: int = NONE
    until: int = NONE
    maps: int = 0


class Lookup:
    """Maps cut into pieces that do not cover one another in part, each with all maps that ever lay there, by time."""

    def __init__(self, maps: Sequence[Map], events: Sequence[_Event], ranks: Ints) -> None:
        self._ranks, self._events = ranks, len(events) + 1
        spaces, space_of = _spaces(events)
        self._space_of = np.array(space_of, np.int64)
        self._parent = np.fromiter((s.parent for s in spaces), np.int64, len(spaces))
        self._until = np.fromiter((s.until for s in spaces), np.int64, len(spaces))
        mapped = [(rank, e.map) for rank, e in enumerate(events) if e.map != UNMAPPED]
        rank = np.fromiter((r for r, _ in mapped), np.int64, len(mapped))
        self._map = np.fromiter((m for _, m in mapped), np.int64, len(mapped))
        self._cut(maps, rank)

    def _cut(self, maps: Sequence[Map], rank: Ints) -> None:
        start = np.fromiter((maps[m].start % (1 << 64) for m in self._map), np.uint64, len(self._map))
        length = np.fromiter((maps[m].length % (1 << 64) for m in self._map), np.uint64, len(self._map))
        end = start + np.minimum(length, ~start)
        space = self._space_of[rank]
        self.aligned = not np.any((start | end) & np.uint64(0xFFF))
        self._points = np.unique(np.concatenate((start, end)))
        begins, ends = (self._key(space, np.searchsorted(self._points, place)) for place in (start, end))
        self._bounds = np.unique(np.concatenate((begins, ends)))
        first = np.searchsorted(self._bounds, begins)
        pieces = np.searchsorted(self._bounds, ends) - first
        pieces[np.cumsum(pieces[::-1])[::-1] > _MOST_PIECES] = 0
        keys = gathered(first, pieces) * self._events + np.repeat(rank, pieces)
        order = np.argsort(keys, kind="stable")
        self._pieces = keys[order]
        self._piece_map = np.repeat(self._map, pieces)[order]

    def _key(self, space: Ints, point: Ints) -> Ints:
        return space * (len(self._points) + 1) + point

    def maps_at(self, epochs: Ids, addresses: NDArray[np.uint64]) -> Ints:
        """For each epoch and address the number of the map that lay there, or `UNMAPPED`."""
        found = np.full(len(addresses), UNMAPPED, np.int64)
        todo = np.flatnonzero(epochs != NONE) if len(self._pieces) else np.empty(0, np.int64)
        rank = self._ranks[epochs[todo]]
        space = self._space_of[rank]
        for _ in range(_DEEPEST):
            if not len(todo):
                break
            here = self._found(space, rank, addresses[todo])
            found[todo] = here
            more = (here == UNMAPPED) & (self._parent[space] != NONE)
            todo, space = todo[more], space[more]
            rank, space = self._until[space], self._parent[space]
        return found

    def _found(self, space: Ints, rank: Ints, addresses: NDArray[np.uint64]) -> Ints:
        """What lay there in one space after one event, forks left aside."""
        point = np.searchsorted(self._points, addresses, "right") - 1
        piece = np.searchsorted(self._bounds, self._key(space, point), "right") - 1
        at = np.searchsorted(self._pieces, piece * self._events + rank, "right") - 1
        there = (piece >= 0) & (at >= 0)
        there &= self._pieces[at] // self._events == piece
        return np.where(there, self._piece_map[at], UNMAPPED)


def _spaces(events: Sequence[_Event]) -> tuple[list[_Space], list[int]]:
    """The address spaces, and for each event the one that it made or changed."""
    spaces: list[_Space] = []
    current: dict[int, int] = {}
    space_of = []
    for rank, event in enumerate(events):
        if event.map == UNMAPPED or event.pid not in current:
            current[event.pid], made = len(spaces), _begun(event, rank, spaces, current)
            spaces.append(made)
        here = current[event.pid]
        spaces[here].maps += event.map != UNMAPPED
        space_of.append(here)
    return spaces, space_of


def _begun(event: _Event, rank: int, spaces: Sequence[_Space], current: dict[int, int]) -> _Space:
    """A new address space. A parent that has no maps of its own is passed over."""
    parent = NONE if event.parent is None else current.get(event.parent, NONE)
    if parent == NONE:
        return _Space()
    if not spaces[parent].maps:
        return _Space(spaces[parent].parent, spaces[parent].until)
    return _Space(parent, rank)
