"""The history of the recorded machine: names of threads, maps of address spaces, the kernel and its modules.

Threads: a name is that of the last COMM record, else the parent's at the moment of the fork. As in perf, thread 0 is
`swapper`, and a thread of which no record tells a name is `:TID`.

Address spaces: a fork begins with a copy of the parent's, and a later map wins over what it covers. An exec empties the
address space, but the kernel still unwinds to the caller of execve in the old program until the new one starts: maps
stay until they are covered, as in perf. An **epoch** is the latest record that touched the address space of a process;
samples with the same epoch see the same maps. Everything is looked up for whole arrays, with one search per level of
forks.

Kernel: perf writes its image as a map of process -1 named `[kernel.kallsyms]_text`, whose offset is the runtime
address of `_text`; modules by the path of their file, or `[name]` where perf did not find it. Source:
tools/perf/util/machine.c, thread.c, maps.c, synthetic-events.c; kernel fs/exec.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Frame, KernelImage, Module, Task
from thpdiag.model.profile import NAMELESS
from thpdiag.model.ragged import Ids, Ints, Numbers, list_indices, pair
from thpdiag.perf.records import CPU_MODE, Comm, CpuMode, Features, Fork, Map

NONE = -1
_MOST = 1 << 22  # threads have smaller numbers than this (PID_MAX_LIMIT)


class Latest:
    """Events sorted by time (`times`, ascending), each of the thread or process `owners[i]`.

    `index` gives places in these columns, `NONE` where there is no event up to that time. Most threads have few events
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

    def index(self, owners: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
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


IDLE = "swapper"
UNRECORDED = -2
_MIX = np.uint64(0xD1342543DE82EF95)


class Tasks:
    """Numbers for the tasks of a recording; they stay what they are while the history grows."""

    def __init__(self) -> None:
        self._comms: list[Comm] = []
        self._forks: list[Fork] = []
        self._names: dict[str, int] = {}
        self._numbers = Numbers()
        self._tasks: list[Task] = []
        self._latest: tuple[Latest, NDArray[np.int64]] | None = None

    def learn(self, comms: Sequence[Comm], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file."""
        begun = [f for f in forks if not f.exit]
        if comms or begun:
            self._comms += comms
            self._forks += begun
            self._latest = None

    def all(self) -> tuple[Task, ...]:
        return tuple(self._tasks)

    def factorize(self, pids: NDArray[np.int32], tids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The number of each sample's task, as far as the records so far tell; `UNRECORDED` tids have no name."""
        self._latest = self._latest or self._history()
        latest, names = self._latest
        event = latest.index(tids, times)
        name = np.where(event == NONE, NONE, names[event]) if len(names) else event
        keys = pair(pids, tids) * _MIX + (name + 1).astype(np.uint64)
        ids, new = self._numbers.factorize(keys)
        known = list(self._names)
        for pid, tid, number in zip(pids[new].tolist(), tids[new].tolist(), name[new].tolist(), strict=True):
            # as perf names threads of which no record tells a name
            nameless = {UNRECORDED: "", 0: IDLE}.get(tid, f":{tid}")
            comm = known[number] if number >= 0 else nameless
            # -1 is a task whose number is gone already (sampled in do_exit).
            self._tasks.append(Task(comm, None if pid < 0 else pid, None if tid < 0 else tid))
        return ids

    def _history(self) -> tuple[Latest, NDArray[np.int64]]:
        """All moments at which a thread got a name, and the name's number (`NONE`: a thread without one began)."""
        events: list[Comm | Fork] = [*self._forks, *self._comms]
        events.sort(key=lambda e: e.time)
        names = np.full(len(events), NONE, np.int64)
        current: dict[int, int] = {}
        for i, event in enumerate(events):
            if isinstance(event, Comm):
                number = self._names.setdefault(event.name, len(self._names))
            else:
                number = current.get(event.parent_tid, NONE)
            current[event.tid] = int(number)
            names[i] = number
        times = np.fromiter((e.time for e in events), np.uint64, len(events))
        owners = np.fromiter((e.tid for e in events), np.int64, len(events))
        return Latest(owners, times), names


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
        self._events: list[tuple[int, int, int]] = []  # pid, map or `UNMAPPED`, parent or `_NO_FORK`
        self._latest: tuple[Latest, Ints] | None = None

    def learn(self, maps: Sequence[Map], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file. At equal times forks come first."""
        begun = [f for f in forks if not f.exit and f.pid != f.parent_pid]
        shown = [m for m in maps if m.pid != -1 and m.misc & CPU_MODE in _PROGRAMS]
        if begun or shown:
            self._latest = None
            self._times += [f.time for f in begun] + [m.time for m in shown]
            self._events += [(f.pid, UNMAPPED, f.parent_pid) for f in begun]
            self._events += [(m.pid, number, _NO_FORK) for number, m in enumerate(shown, len(self.maps))]
            self.maps += shown

    def epochs(self, pids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """The epoch of each process at each time, `NONE` where no record was met yet."""
        if self._latest is None:
            order, (owners, _, _) = self._sort_events()
            self._latest = Latest(owners, np.array(self._times, np.uint64)[order]), order
        latest, order = self._latest
        found = latest.index(pids, times)
        return np.where(found == NONE, NONE, order[found]).astype(np.int32) if len(order) else found

    def lookup(self) -> Lookup:
        """What answers questions for addresses, once all records are known."""
        order, (pids, maps, parents) = self._sort_events()
        return Lookup(self.maps, Spaces(pids, maps, parents), order)

    def _sort_events(self) -> tuple[Ints, Ints]:
        """The events by time, each as its place in the order of the file, and their columns."""
        order = np.argsort(np.array(self._times, np.uint64), kind="stable")
        return order, np.array(self._events, np.int64).reshape(-1, 3)[order].T


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
        before = self._previous_event(owners, order, parents[rank], rank)
        forked = (rank != NONE) & (before != NONE)
        self.parent = np.where(forked, self.of[before], NONE) if len(rank) else rank
        self.until = np.where(forked, rank, NONE)
        self._skip_empty_parents()

    def _previous_event(self, owners: Ints, order: Ints, pids: Ints, ranks: Ints) -> Ints:
        """The last event of each process before an event, `NONE` if there was none."""
        place, number = _distinct(owners.copy()), len(order) + 1
        owner = np.searchsorted(place, pids)
        known = np.append(place, _NO_FORK)[owner] == pids
        at = np.searchsorted(np.searchsorted(place, owners) * number + order, owner * number + ranks) - 1
        before = np.where(at >= 0, order[at], NONE) if len(order) else at
        same = known & (at >= 0)
        same[same] = owners[at[same]] == pids[same]
        return np.where(same, before, NONE)

    def _skip_empty_parents(self) -> None:
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
        self._cut_pieces(start[self._map], (start + np.minimum(length, ~start))[self._map], rank)

    def _cut_pieces(self, start: NDArray[np.uint64], end: NDArray[np.uint64], rank: Ints) -> None:
        self.aligned = not np.any((start | end) & np.uint64(0xFFF))
        self._points = _distinct(np.concatenate((start, end)))
        space = self._spaces.of[rank]
        begins, ends = (self._key(space, np.searchsorted(self._points, place)) for place in (start, end))
        self._bounds = _distinct(np.concatenate((begins, ends)))
        first = np.searchsorted(self._bounds, begins)
        pieces = np.searchsorted(self._bounds, ends) - first
        pieces[np.cumsum(pieces[::-1])[::-1] > _MOST_PIECES] = 0
        keys = list_indices(first, pieces) * self._events + np.repeat(rank, pieces)
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
            here = self._map_in_space(space, rank, addresses[todo])
            found[todo] = here
            more = (here == UNMAPPED) & (self._spaces.parent[space] != NONE)
            todo, space = todo[more], space[more]
            rank, space = self._spaces.until[space], self._spaces.parent[space]
        return found

    def _map_in_space(self, space: Ints, rank: Ints, addresses: NDArray[np.uint64]) -> Ints:
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


KERNEL_OBJECT = "[kernel.kallsyms]"


def is_of_kernel(one: Map) -> bool:
    """Whether a map record is of the host's kernel or one of its modules."""
    return one.misc & CPU_MODE == CpuMode.KERNEL


def kernel_image(maps: Sequence[Map], features: Features) -> KernelImage:
    """The kernel as the recording tells it."""
    text = next((m for m in maps if m.name.startswith(KERNEL_OBJECT)), None)
    modules: dict[tuple[str, int], Module] = {}
    for one in maps:
        name = module_name(one.name)
        if name and not one.name.startswith((KERNEL_OBJECT, "[guest")):
            build_id = one.build_id or features.build_ids.get(one.name, "")
            modules.setdefault((name, one.start), Module(name, one.start, one.start + one.length, build_id))
    return KernelImage(
        release=features.release,
        build_id=(text.build_id if text else "") or features.build_ids.get(KERNEL_OBJECT, ""),
        symbol=(text.name.removeprefix(KERNEL_OBJECT) if text else "") or "_text",
        address=(text.offset or None) if text else None,
        modules=tuple(modules.values()),
    )


def module_name(name: str) -> str:
    """`nf_conntrack` for `[nf_conntrack]` and `/lib/modules/6.1.0/kernel/net/netfilter/nf-conntrack.ko.xz`."""
    base = name.rpartition("/")[2].strip("[]")
    for ending in (".gz", ".xz", ".zst", ".bz2", ".ko"):
        base = base.removesuffix(ending)
    return base.replace("-", "_")


def kernel_frames(addresses: NDArray[np.uint64], image: KernelImage) -> list[Frame]:
    """A frame for each address (ascending), without a name; in its module where it lies in one."""
    modules = sorted(image.modules, key=lambda m: m.start)
    place = np.searchsorted(np.array([m.start for m in modules], np.uint64), addresses, "right") - 1
    return [
        Frame(
            NAMELESS,
            f"[{modules[i].name}]" if i >= 0 and address < modules[i].end else KERNEL_OBJECT,
            kernel=True,
            address=address,
        )
        for address, i in zip(addresses.tolist(), place.tolist(), strict=True)
    ]
