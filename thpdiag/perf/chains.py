"""Call chains of samples, from recorded addresses to frames.

A recorded chain is a list of addresses, leaf first, with markers (PERF_CONTEXT_*: the following frames belong to the
kernel, the program, a guest). It is processed in three steps, each for whole windows:

- `RawChains` numbers distinct chains and splits each by its markers into a kernel part and a program part. Memory grows
  only with the number of distinct chains.
- `Uses` numbers pairs of chain and epoch (see `machine`), since the meaning of addresses depends on the address space.
- `JoinedChains` makes frames of kernel addresses, whose names are added later. Functions of programs are not named,
  because the object (executable, library) and its calls into the kernel are sufficient; adjacent frames of one object
  are merged.

Source: include/uapi/linux/perf_event.h, kernel/events/callchain.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Chains, Frame, KernelImage
from thpdiag.model.profile import NAMELESS
from thpdiag.model.ragged import Ids, Ints, ListKeys, Numbers, any_of, list_indices, pair, starts_of, unpair
from thpdiag.perf.machine import KERNEL_OBJECT, AddressSpaces, Lookup, kernel_frames
from thpdiag.perf.records import CPU_MODE, CpuMode, Map, Samples

Addresses = NDArray[np.uint64]
Bools = NDArray[np.bool_]

MAX_ADDRESSES = 1 << 18  # distinct kernel addresses; two million samples of a busy host have 20 thousand
LOOKUP_ADDRESSES = 1 << 18  # program addresses that are looked up together, which limits memory
# PERF_CONTEXT_*; all values from the first one are markers
MARKERS, HYPERVISOR, KERNEL, USER, USER_DEFERRED, GUEST, GUEST_KERNEL, GUEST_USER = (
    np.uint64(2**64 - value) for value in (4095, 32, 128, 512, 640, 2048, 2176, 2560)
)
_IN_KERNEL, _IN_PROGRAM, _ELSEWHERE, _COOKIE, _GARBAGE = 1, 2, 3, 4, 5
_PLACES = {
    KERNEL: _IN_KERNEL,
    USER: _IN_PROGRAM,
    USER_DEFERRED: _COOKIE,  # 6.18: a cookie follows; the program's chain is in a separate record
    HYPERVISOR: _ELSEWHERE,
    GUEST: _ELSEWHERE,
    GUEST_KERNEL: _ELSEWHERE,
    GUEST_USER: _ELSEWHERE,
}
_ELSEWHERE_FRAMES = {
    HYPERVISOR: Frame("[hypervisor]", "[hypervisor]"),
    GUEST: Frame("[guest]", "[guest]"),
    GUEST_KERNEL: Frame("[guest kernel]", "[guest.kernel.kallsyms]"),
    GUEST_USER: Frame("[guest program]", "[guest]"),
}
_MODES = np.full(CPU_MODE + 1, USER, np.uint64)  # marker by CPU mode
_MODES[CpuMode.KERNEL], _MODES[CpuMode.HYPERVISOR] = KERNEL, HYPERVISOR
_MODES[CpuMode.GUEST_KERNEL], _MODES[CpuMode.GUEST_USER] = GUEST_KERNEL, GUEST_USER
_MODE_KEY = np.uint64(0xE7037ED1A0B428DB)
_ADDRESS_KEY = np.uint64(0x8EBC6AF09C88C6E3)
_EPOCH_KEY = np.uint64(0xFF51AFD7ED558CCD)
_PAGE = np.uint64(12)
_UNUSED = -2  # no epoch has this number


class Parts:
    """Numbered distinct lists of numbers."""

    def __init__(self) -> None:
        self._numbers, self._keys = Numbers(), ListKeys()
        self._values: list[Addresses] = []
        self._lengths: list[Ints] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return self._numbers.nbytes + sum(a.nbytes for a in [*self._values, *self._lengths])

    def factorize(self, values: Addresses, starts: Ints) -> Ids:
        """Return the number of each list, and store new lists."""
        ids, new = self._numbers.factorize(self._keys.of(values, starts))
        if len(new):
            lengths = np.diff(starts)[new]
            self._values.append(values[list_indices(starts[new], lengths)])
            self._lengths.append(lengths)
        return ids

    def all(self) -> tuple[Addresses, Ints]:
        """Return all lists concatenated, and the start of each."""
        if len(self._values) > 1:
            self._values, self._lengths = [np.concatenate(self._values)], [np.concatenate(self._lengths)]
        if not self._values:
            return np.empty(0, np.uint64), np.zeros(1, np.int64)
        return self._values[0], starts_of(self._lengths[0])


@dataclass(frozen=True, slots=True, eq=False)
class Chained:
    """Columns of distinct chains: their parts and defects."""

    kernel: Ids  # index into the kernel parts
    program: Ids  # index into the program parts
    length: NDArray[np.int32]  # entries as recorded
    markers: NDArray[np.int32]  # number of context markers among them
    in_program: Bools  # the program part is not empty
    empty: Bools  # no chain was recorded; the sample's address is used
    garbage: Bools  # has an unknown marker; the entries after it are left out


class RawChains:
    """Numbers for the distinct chains of a recording."""

    def __init__(self) -> None:
        self.kernel_parts, self.program_parts = Parts(), Parts()
        self._numbers, self._keys = Numbers(), ListKeys()
        self._known: list[Chained] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        """The memory that is kept between windows."""
        columns = (getattr(c, name) for c in self._known for name in Chained.__slots__)
        parts = self.kernel_parts.nbytes + self.program_parts.nbytes
        return self._numbers.nbytes + parts + sum(int(c.nbytes) for c in columns)

    def factorize(self, samples: Samples) -> Ids:
        """Return the number of each sample's chain."""
        lengths = np.diff(samples.starts)
        modes = _MODES[samples.misc & CPU_MODE]
        keys = self._keys.of(samples.chain, samples.starts)
        # Without a marker at the beginning, the CPU mode determines where the first frames ran.
        bare = lengths == 0
        if len(samples.chain):
            bare |= samples.chain[np.minimum(samples.starts[:-1], len(samples.chain) - 1)] < MARKERS
        keys[bare] += modes[bare] * _MODE_KEY
        empty = np.flatnonzero(lengths == 0)
        keys[empty] += samples.ip[empty] * _ADDRESS_KEY
        ids, new = self._numbers.factorize(keys)
        if len(new):
            self._add(samples, new, lengths[new], modes[new])
        return ids

    def all(self) -> Chained:
        """Return the distinct chains in the order of their numbers."""
        if not self._known:
            none, no = np.empty(0, np.int32), np.empty(0, np.bool_)
            return Chained(none, none, none, none, no, no, no)
        if len(self._known) > 1:
            self._known = [Chained(*(np.concatenate([getattr(c, n) for c in self._known]) for n in Chained.__slots__))]
        return self._known[0]

    def _add(self, samples: Samples, new: Ints, lengths: Ints, modes: Addresses) -> None:
        """Split new chains by their markers and store them."""
        values, starts, added = _with_markers(samples, new, lengths, modes)
        marks = values >= MARKERS
        places = _places(values, starts, marks)
        # For a guest or hypervisor only the marker is kept.
        begins = marks & ~np.append(marks[1:], True)
        program = np.where(marks, begins & (places == _ELSEWHERE), places == _IN_PROGRAM)
        kernel = (places == _IN_KERNEL) & ~marks
        self._known.append(
            Chained(
                self.kernel_parts.factorize(values[kernel], starts_of(kernel)[starts]),
                self.program_parts.factorize(values[program], starts_of(program)[starts]),
                lengths.astype(np.int32),
                (np.diff(starts_of(marks)[starts]) - added).astype(np.int32),
                any_of(program, starts),
                lengths == 0,
                any_of(places == _GARBAGE, starts),
            )
        )


def _with_markers(samples: Samples, new: Ints, lengths: Ints, modes: Addresses) -> tuple[Addresses, Ints, int]:
    """Return chains that begin with a marker, with the sample's address in place of an empty chain, and their starts.

    Also return the number of markers added to each: one to all if any of them needs it.
    """
    empty = lengths == 0
    lengths = np.where(empty, 1, lengths)
    rest = list_indices(samples.starts[new], lengths)
    values = samples.chain[np.minimum(rest, len(samples.chain) - 1)] if len(samples.chain) else np.zeros_like(rest)
    starts = starts_of(lengths)
    values = values.astype(np.uint64, copy=False)
    values[starts[:-1][empty]] = samples.ip[new[empty]]
    if (values[starts[:-1]] >= MARKERS).all() and not empty.any():
        return values, starts, 0
    marked = np.empty(len(values) + len(new), np.uint64)
    marked_starts = starts_of(lengths + 1)
    is_first = np.zeros(len(marked), np.bool_)
    is_first[marked_starts[:-1]] = True
    marked[is_first], marked[~is_first] = modes, values
    return marked, marked_starts, 1


def _places(values: Addresses, starts: Ints, marks: Bools) -> NDArray[np.uint8]:
    """Return where each value ran, by the last marker before it. Every chain begins with a marker."""
    at = np.flatnonzero(marks)
    markers, lengths = values[at], np.diff(at, append=len(values))
    place = np.full(len(at), _GARBAGE, np.uint8)
    for marker, meaning in _PLACES.items():
        place[markers == marker] = meaning
    # Kernel frames come first. After program frames, a kernel marker is a stray number that the unwinder took for a
    # return address.
    frames = starts_of((place == _IN_PROGRAM) & (lengths > 1))[:-1]
    first, begins = np.zeros(len(at), np.int64), np.searchsorted(at, starts[:-1])
    first[begins] = begins
    after_program = frames > frames[np.maximum.accumulate(first)]
    place[(place == _IN_KERNEL) & after_program] = _GARBAGE
    return np.repeat(place, lengths)


class Uses:
    """Numbers for pairs of chain and epoch.

    Nearly all chains occur in only one epoch. The first use of a chain has the number of the chain, so it needs no
    search; further uses count down from -1.
    """

    def __init__(self) -> None:
        self._epoch = np.empty(0, np.int32)  # of the first use of each chain
        self._more = Numbers()

    def factorize(self, chains: Ids, epochs: Ids, known: int) -> Ids:
        """Return the number of each use; `known` is the number of chains so far."""
        if known > len(self._epoch):
            self._epoch = np.concatenate((self._epoch, np.full(known - len(self._epoch), _UNUSED, np.int32)))
        first = np.flatnonzero(self._epoch[chains] == _UNUSED)
        self._epoch[chains[first]] = epochs[first]
        other = np.flatnonzero(self._epoch[chains] != epochs)
        if not len(other):
            return chains
        uses = chains.copy()
        uses[other] = -1 - self._more.factorize(pair(chains[other], epochs[other]))[0]
        return uses

    def all(self) -> tuple[Ids, Ids]:
        """Return chain and epoch of each use; negative uses are indexes from the end."""
        chains, epochs = unpair(self._more.keys[::-1])
        first_uses = np.arange(len(self._epoch), dtype=np.int32)
        return np.concatenate((first_uses, chains)), np.concatenate((self._epoch, epochs))


class _Objects:
    """Numbered objects (executables, libraries) of program addresses, and their frames.

    Addresses are cached by page: maps are aligned to pages, unless the records were generated (perf inject --jit).
    """

    def __init__(self, lookup: Lookup, maps: Sequence[Map]) -> None:
        self._lookup = lookup
        self._shift = _PAGE if lookup.aligned else np.uint64(0)
        self._numbers = Numbers()
        self._of_page = np.empty(0, np.int64)
        names: dict[str, int] = {}
        of_map = [names.setdefault(m.name, len(names)) for m in maps]
        self._elsewhere = {marker: len(names) + i for i, marker in enumerate(_ELSEWHERE_FRAMES)}
        nowhere = Frame(NAMELESS, NAMELESS, kernel=False)
        self.frames = (*(Frame(NAMELESS, n, kernel=False) for n in names), *_ELSEWHERE_FRAMES.values(), nowhere)
        self._of_map = np.array([*of_map, len(self.frames) - 1], np.int64)  # `UNMAPPED` is the last

    def objects_at(self, addresses: Addresses, epochs: Ids) -> Ints:
        """Return the number of the object at each address in its epoch."""
        keys = (addresses >> self._shift) * _EPOCH_KEY + epochs.astype(np.uint64)
        ids, new = self._numbers.factorize(keys)
        if len(new):
            new_objects = self._of_map[self._lookup.maps_at(epochs[new], addresses[new])]
            self._of_page = np.concatenate((self._of_page, new_objects))
        objects = self._of_page[ids]
        for i in np.flatnonzero(addresses >= MARKERS).tolist():
            objects[i] = self._elsewhere[addresses[i]]
        return objects

    def lists(self, parts: Parts, part: Ids, epochs: Ids) -> tuple[Ids, tuple[Addresses, Ints]]:
        """Return for each program part in an epoch the number of its list of objects, leaf first, and all lists."""
        addresses, starts = parts.all()
        begins, lengths = starts[part], starts[part + 1] - starts[part]
        lists, numbers = Parts(), np.empty(len(part), np.int32)
        ends = np.cumsum(lengths)
        first = 0
        while first < len(part):
            done = int(ends[first - 1]) if first else 0
            end = max(first + 1, int(np.searchsorted(ends, done + LOOKUP_ADDRESSES, "right")))
            some = slice(first, end)
            values = addresses[list_indices(begins[some], lengths[some])]
            objects, inner = self.objects_at(values, np.repeat(epochs[some], lengths[some])), starts_of(lengths[some])
            keep = np.ones(len(objects), np.bool_)  # except repetitions of the previous object
            keep[1:] = objects[1:] != objects[:-1]
            keep[inner[:-1][inner[:-1] < len(objects)]] = True
            numbers[some] = lists.factorize(objects[keep].astype(np.uint64), starts_of(keep)[inner])
            first = end
        return numbers, lists.all()


class JoinedChains:
    """Chains of frames. Raw chains that differ only in program addresses of the same objects are one chain.

    `chain_of` is the chain of each use of a raw chain (chain and epoch), `raw` the raw chain of each use. `beyond` is
    the number of distinct kernel addresses above the limit.
    """

    def __init__(self, chains: RawChains, uses: Uses, spaces: AddressSpaces, image: KernelImage) -> None:
        self.raw, epoch = uses.all()
        self.chained: Chained = chains.all()
        part_uses, parts = Uses(), chains.program_parts
        part_use = part_uses.factorize(self.chained.program[self.raw], epoch, len(parts))
        objects = _Objects(spaces.lookup(), spaces.maps)
        list_of, (values, self._programs_starts) = objects.lists(parts, *part_uses.all())
        numbers = Numbers()
        self.chain_of, _ = numbers.factorize(pair(self.chained.kernel[self.raw], list_of[part_use]))
        self._kernel_of, self._programs_of = unpair(numbers.keys)
        self._kernel, self._kernel_starts, frames, self.beyond = _kernel_parts(chains.kernel_parts, image)
        self._programs = values.astype(np.int32) + np.int32(len(frames))
        self._frames: tuple[Frame, ...] = (*frames, *objects.frames)

    def __len__(self) -> int:
        return len(self._kernel_of)

    def chains(self, some: Ints, cut: Bools | None) -> tuple[Chains, tuple[Frame, ...]]:
        """Return some of the chains as columns of a profile, and the frames in them."""
        kernel, programs = self._kernel_of[some], self._programs_of[some]
        inner = np.diff(self._kernel_starts)[kernel]
        outer = np.diff(self._programs_starts)[programs]
        starts = starts_of(inner + outer)
        frames = np.empty(starts[-1], np.int32)
        frames[list_indices(starts[:-1], inner)] = self._kernel[list_indices(self._kernel_starts[kernel], inner)]
        frames[list_indices(starts[:-1] + inner, outer)] = self._programs[
            list_indices(self._programs_starts[programs], outer)
        ]
        used = np.zeros(len(self._frames), np.bool_)
        used[frames] = True
        numbers = np.cumsum(used, dtype=np.int32) - 1
        kept = tuple(self._frames[i] for i in np.flatnonzero(used).tolist())
        return Chains(numbers[frames], starts, np.zeros(len(some), np.int64), cut=cut), kept


def _kernel_parts(parts: Parts, image: KernelImage) -> tuple[NDArray[np.int32], Ints, Sequence[Frame], int]:
    """Return the kernel parts with frame numbers for addresses, frames, and the number of addresses above the limit."""
    addresses, starts = parts.all()
    numbers = Numbers()
    ids, _ = numbers.factorize(addresses)
    keys = numbers.keys[:MAX_ADDRESSES]
    beyond = len(numbers) - len(keys)
    order = np.argsort(keys)
    place = np.full(len(numbers), len(keys), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    frames = kernel_frames(keys[order], image)
    if beyond:
        frames.append(Frame(NAMELESS, KERNEL_OBJECT, kernel=True))
    return place[ids], starts, frames, beyond
