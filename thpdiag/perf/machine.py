"""The history of the recorded machine: names of threads, maps of address spaces, the kernel and its modules.

Threads: the name is that of the last COMM record, or else the parent's at the time of the fork. As in perf, thread 0 is
`swapper`, and a thread without a recorded name is `:TID`.

Address spaces: a fork begins with a copy of the parent's, and later maps replace earlier ones. An exec empties the
address space, but the kernel still unwinds to the caller of execve in the old program until the new one starts, so maps
remain until they are covered, as in perf. An **epoch** is the latest record that changed the address space of a
process; samples with the same epoch have the same maps. All lookups are for whole arrays, with one search per level of
forks.

Kernel: perf writes its image as a map of process -1 named `[kernel.kallsyms]_text`, whose offset is the runtime
address of `_text`; modules by the path of their file, or `[name]` if perf did not find it. Source:
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
_PID_LIMIT = 1 << 22  # PID_MAX_LIMIT


class Latest:
    """Lookup of the latest event of a thread or process: event `i` at `times[i]` (ascending) belongs to `owners[i]`.

    `index` returns indexes of events, `NONE` if there is no event up to a time. Most samples come after the last event
    of their thread, which is found in a table by number; only for the others a search is needed.
    """

    def __init__(self, owners: NDArray[np.int64], times: NDArray[np.uint64]) -> None:
        self._times = times
        valid = np.flatnonzero((owners >= 0) & (owners < _PID_LIMIT))
        self._order = valid[np.argsort(owners[valid], kind="stable")]
        self._owners = owners[self._order]
        self._last = np.full(int(self._owners[-1]) + 1 if len(valid) else 1, NONE, np.int32)
        self._last[self._owners] = self._order  # the last of several assignments is kept
        self._keys = self._key(self._owners, self._order)

    def _key(self, owners: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        return owners * (len(self._times) + 1) + ranks

    def index(self, owners: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """Return the index of the latest event for each owner, up to and including each time."""
        known = (owners >= 0) & (owners < len(self._last))
        index = self._last[np.where(known, owners, 0)]
        index[~known] = NONE
        if not len(self._times):
            return index
        early = np.flatnonzero((index >= 0) & (self._times[index] > times))  # samples before the last event
        if len(early):
            rank = np.searchsorted(self._times, times[early], "right") - 1
            owner = owners[early].astype(np.int64)
            place = np.searchsorted(self._keys, self._key(owner, rank), "right") - 1
            exists = (place >= 0) & (self._owners[place] == owner)
            index[early] = np.where(exists, self._order[place], NONE)
        return index


IDLE = "swapper"
UNRECORDED = -2
_MIX = np.uint64(0xD1342543DE82EF95)


class Tasks:
    """Numbers for the tasks of a recording, which do not change while records are added."""

    def __init__(self) -> None:
        self._comms: list[Comm] = []
        self._forks: list[Fork] = []
        self._names: dict[str, int] = {}
        self._numbers = Numbers()
        self._tasks: list[Task] = []
        self._latest: tuple[Latest, NDArray[np.int64]] | None = None

    def learn(self, comms: Sequence[Comm], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file."""
        starts = [f for f in forks if not f.exit]
        if comms or starts:
            self._comms += comms
            self._forks += starts
            self._latest = None

    def all(self) -> tuple[Task, ...]:
        return tuple(self._tasks)

    def factorize(self, pids: NDArray[np.int32], tids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """Return the number of each sample's task, by the records so far; `UNRECORDED` tids have no name."""
        self._latest = self._latest or self._history()
        latest, names = self._latest
        event = latest.index(tids, times)
        name = np.where(event == NONE, NONE, names[event]) if len(names) else event
        keys = pair(pids, tids) * _MIX + (name + 1).astype(np.uint64)
        ids, new = self._numbers.factorize(keys)
        names_by_number = list(self._names)
        for pid, tid, number in zip(pids[new].tolist(), tids[new].tolist(), name[new].tolist(), strict=True):
            # the names that perf shows for threads without a recorded name
            nameless = {UNRECORDED: "", 0: IDLE}.get(tid, f":{tid}")
            comm = names_by_number[number] if number >= 0 else nameless
            # -1 is a task that has already released its number (sampled in do_exit)
            self._tasks.append(Task(comm, None if pid < 0 else pid, None if tid < 0 else tid))
        return ids

    def _history(self) -> tuple[Latest, NDArray[np.int64]]:
        """Return all events that name a thread, and the number of each name (`NONE`: a nameless thread started)."""
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
_MAX_FORK_DEPTH = 1000  # forks without an exec in between
_MAX_PIECES = 4_000_000  # pieces of maps that cover one another; beyond that, the oldest are dropped
_PROGRAM_MODES = (CpuMode.NOT_KNOWN, CpuMode.USER, CpuMode.GUEST_USER)
_NO_FORK = -(1 << 40)  # in place of the parent's number


class AddressSpaces:
    """All maps of all processes. Epochs are numbered in the order of the file, so that they do not change.

    An event is a map (its index in `maps`) or a fork (the parent's number).
    """

    def __init__(self) -> None:
        self.maps: list[Map] = []
        self._times: list[int] = []
        self._events: list[tuple[int, int, int]] = []  # pid, map or `UNMAPPED`, parent or `_NO_FORK`
        self._latest: tuple[Latest, Ints] | None = None

    def learn(self, maps: Sequence[Map], forks: Sequence[Fork]) -> None:
        """Add records, in the order of the file. At equal times forks come first."""
        starts = [f for f in forks if not f.exit and f.pid != f.parent_pid]
        program_maps = [m for m in maps if m.pid != -1 and m.misc & CPU_MODE in _PROGRAM_MODES]
        if starts or program_maps:
            self._latest = None
            self._times += [f.time for f in starts] + [m.time for m in program_maps]
            self._events += [(f.pid, UNMAPPED, f.parent_pid) for f in starts]
            self._events += [(m.pid, number, _NO_FORK) for number, m in enumerate(program_maps, len(self.maps))]
            self.maps += program_maps

    def epochs(self, pids: NDArray[np.int32], times: NDArray[np.uint64]) -> Ids:
        """Return the epoch of each process at each time, `NONE` before its first record."""
        if self._latest is None:
            order, (owners, _, _) = self._sort_events()
            self._latest = Latest(owners, np.array(self._times, np.uint64)[order]), order
        latest, order = self._latest
        index = latest.index(pids, times)
        return np.where(index == NONE, NONE, order[index]).astype(np.int32) if len(order) else index

    def lookup(self) -> Lookup:
        """Return the lookup of addresses, once all records are known."""
        order, (pids, maps, parents) = self._sort_events()
        return Lookup(self.maps, Spaces(pids, maps, parents), order)

    def _sort_events(self) -> tuple[Ints, Ints]:
        """Return the indexes of the events sorted by time, and the columns of the sorted events."""
        order = np.argsort(np.array(self._times, np.uint64), kind="stable")
        return order, np.array(self._events, np.int64).reshape(-1, 3)[order].T


class Spaces:
    """Numbered address spaces: `space_of` is the one that each event (sorted by time) created or changed.

    `parent` is the space that a fork copied, `until` the last event before the fork; `NONE` without fork.
    """

    def __init__(self, pids: Ints, maps: Ints, parents: Ints) -> None:
        self.maps = maps
        order = np.argsort(pids, kind="stable")
        owners = pids[order]
        first = np.ones(len(owners), np.bool_)
        first[1:] = owners[1:] != owners[:-1]
        forked = parents[order] != _NO_FORK
        begins = first | forked
        self.space_of = np.empty(len(pids), np.int64)
        self.space_of[order] = np.cumsum(begins) - 1
        rank = np.where(forked, order, NONE)[begins]  # of the fork that began each space
        before = self._previous_event(owners, order, parents[rank], rank)
        forked = (rank != NONE) & (before != NONE)
        self.parent = np.where(forked, self.space_of[before], NONE) if len(rank) else rank
        self.until = np.where(forked, rank, NONE)
        self._skip_empty_parents()

    def _previous_event(self, owners: Ints, order: Ints, pids: Ints, ranks: Ints) -> Ints:
        """Return the last event of each process before an event, `NONE` if there is none."""
        place, number = _distinct(owners.copy()), len(order) + 1
        owner = np.searchsorted(place, pids)
        known = np.append(place, _NO_FORK)[owner] == pids
        at = np.searchsorted(np.searchsorted(place, owners) * number + order, owner * number + ranks) - 1
        before = np.where(at >= 0, order[at], NONE) if len(order) else at
        same = known & (at >= 0)
        same[same] = owners[at[same]] == pids[same]
        return np.where(same, before, NONE)

    def _skip_empty_parents(self) -> None:
        """Replace parents without maps of their own by their parents, so that few levels are left."""
        maps = np.bincount(self.space_of[self.maps != UNMAPPED], minlength=len(self.parent))
        while True:
            empty = np.flatnonzero((self.parent != NONE) & (maps[self.parent] == 0))
            if not len(empty):
                return
            skipped = self.parent[empty]
            self.until[empty], self.parent[empty] = self.until[skipped], self.parent[skipped]


class Lookup:
    """Maps split into pieces that do not partly overlap, each with all its maps sorted by time."""

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
        space = self._spaces.space_of[rank]
        begins, ends = (self._key(space, np.searchsorted(self._points, place)) for place in (start, end))
        self._bounds = _distinct(np.concatenate((begins, ends)))
        first = np.searchsorted(self._bounds, begins)
        pieces = np.searchsorted(self._bounds, ends) - first
        pieces[np.cumsum(pieces[::-1])[::-1] > _MAX_PIECES] = 0
        keys = list_indices(first, pieces) * self._events + np.repeat(rank, pieces)
        order = np.argsort(keys)
        self._pieces = keys[order]
        self._piece_map = np.repeat(self._map, pieces)[order]

    def _key(self, space: Ints, point: Ints) -> Ints:
        return space * (len(self._points) + 1) + point

    def maps_at(self, epochs: Ids, addresses: NDArray[np.uint64]) -> Ints:
        """Return the number of the map at each address in each epoch, or `UNMAPPED`."""
        maps = np.full(len(addresses), UNMAPPED, np.int64)
        todo = np.flatnonzero(epochs != NONE) if len(self._pieces) else np.empty(0, np.int64)
        rank = self._ranks[epochs[todo]]
        space = self._spaces.space_of[rank]
        for _ in range(_MAX_FORK_DEPTH):
            if not len(todo):
                break
            maps[todo] = self._map_in_space(space, rank, addresses[todo])
            inherited = (maps[todo] == UNMAPPED) & (self._spaces.parent[space] != NONE)
            todo, space = todo[inherited], space[inherited]
            rank, space = self._spaces.until[space], self._spaces.parent[space]
        return maps

    def _map_in_space(self, space: Ints, rank: Ints, addresses: NDArray[np.uint64]) -> Ints:
        """Return the map at each address in one space after one event, without those of parents."""
        point = np.searchsorted(self._points, addresses, "right") - 1
        piece = np.searchsorted(self._bounds, self._key(space, point), "right") - 1
        index = np.searchsorted(self._pieces, piece * self._events + rank, "right") - 1
        exists = (piece >= 0) & (index >= 0)
        exists &= self._pieces[index] // self._events == piece
        return np.where(exists, self._piece_map[index], UNMAPPED)


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sorted distinct values, faster than np.unique, which uses a hash table."""
    values.sort()
    keep = np.ones(len(values), np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]


KERNEL_OBJECT = "[kernel.kallsyms]"


def is_kernel_map(record: Map) -> bool:
    """Whether a map is that of the host's kernel or of one of its modules."""
    return record.misc & CPU_MODE == CpuMode.KERNEL


def kernel_image(maps: Sequence[Map], features: Features) -> KernelImage:
    """Return the kernel of the recorded machine."""
    text = next((m for m in maps if m.name.startswith(KERNEL_OBJECT)), None)
    modules: dict[tuple[str, int], Module] = {}
    for record in maps:
        name = module_name(record.name)
        if name and not record.name.startswith((KERNEL_OBJECT, "[guest")):
            build_id = record.build_id or features.build_ids.get(record.name, "")
            modules.setdefault((name, record.start), Module(name, record.start, record.start + record.length, build_id))
    return KernelImage(
        release=features.release,
        build_id=(text.build_id if text else "") or features.build_ids.get(KERNEL_OBJECT, ""),
        symbol=(text.name.removeprefix(KERNEL_OBJECT) if text else "") or "_text",
        address=(text.offset or None) if text else None,
        modules=tuple(modules.values()),
    )


def module_name(name: str) -> str:
    """Return `nf_conntrack` for `[nf_conntrack]` and `/lib/modules/6.1.0/kernel/net/netfilter/nf-conntrack.ko.xz`."""
    base = name.rpartition("/")[2].strip("[]")
    for ending in (".gz", ".xz", ".zst", ".bz2", ".ko"):
        base = base.removesuffix(ending)
    return base.replace("-", "_")


def kernel_frames(addresses: NDArray[np.uint64], image: KernelImage) -> list[Frame]:
    """Return a nameless frame for each address (ascending), in its module if it is within one."""
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
