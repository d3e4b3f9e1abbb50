"""The call chain of each sample: this file decides it, from the addresses as recorded to frames.

A chain as recorded is a list of addresses, leaf first, with markers between (PERF_CONTEXT_*: the frames that follow are
the kernel's, the program's, a guest's). In three steps, all for whole windows:

- `RawChains`: distinct chains get numbers, and each is split by its markers into a part in the kernel and one in the
  program. What is kept grows with distinct chains only, whatever the number of samples.
- `Uses`: a chain means something else where the address space of its process is another (an epoch of `machine`).
- `JoinedChains`: kernel addresses become frames that wait for names. Names of programs' functions are not looked up:
  which object (executable, library) it was, and what it asked of the kernel, decides; so frames of one object that
  follow one another are one.

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

MAX_ADDRESSES = 1 << 18  # distinct ones in the kernel; two million samples of a busy host have 20 thousand
ADDRESSES_AT_ONCE = 1 << 18  # of programs, looked up together: bounds the memory
# PERF_CONTEXT_*; all values from the first on are markers
MARKERS, HYPERVISOR, KERNEL, USER, USER_DEFERRED, GUEST, GUEST_KERNEL, GUEST_USER = (
    np.uint64(2**64 - value) for value in (4095, 32, 128, 512, 640, 2048, 2176, 2560)
)
_IN_KERNEL, _IN_PROGRAM, _ELSEWHERE, _COOKIE, _GARBAGE = 1, 2, 3, 4, 5
_PLACES = {
    KERNEL: _IN_KERNEL,
    USER: _IN_PROGRAM,
    USER_DEFERRED: _COOKIE,  # 6.18: a cookie follows; the program's chain comes in a record of its own
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
_MODES = np.full(CPU_MODE + 1, USER, np.uint64)  # the marker that a CPU mode stands for
_MODES[CpuMode.KERNEL], _MODES[CpuMode.HYPERVISOR] = KERNEL, HYPERVISOR
_MODES[CpuMode.GUEST_KERNEL], _MODES[CpuMode.GUEST_USER] = GUEST_KERNEL, GUEST_USER
_MODE_KEY = np.uint64(0xE7037ED1A0B428DB)
_ADDRESS_KEY = np.uint64(0x8EBC6AF09C88C6E3)
_EPOCH_KEY = np.uint64(0xFF51AFD7ED558CCD)
_PAGE = np.uint64(12)
_UNUSED = -2  # no epoch has this number


class Parts:
    """Distinct lists of numbers, in the order of their numbers."""

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
        """The number of each list; new ones are kept."""
        ids, new = self._numbers.factorize(self._keys.of(values, starts))
        if len(new):
            lengths = np.diff(starts)[new]
            self._values.append(values[list_indices(starts[new], lengths)])
            self._lengths.append(lengths)
        return ids

    def all(self) -> tuple[Addresses, Ints]:
        """All lists, one after another, and where each starts."""
        if len(self._values) > 1:
            self._values, self._lengths = [np.concatenate(self._values)], [np.concatenate(self._lengths)]
        if not self._values:
            return np.empty(0, np.uint64), np.zeros(1, np.int64)
        return self._values[0], starts_of(self._lengths[0])


@dataclass(frozen=True, slots=True, eq=False)
class Chained:
    """For each distinct chain: its parts, and what is wrong with it."""

    kernel: Ids  # index into the kernel parts
    program: Ids  # index into the program parts
    length: NDArray[np.int32]  # entries as recorded
    markers: NDArray[np.int32]  # of which context markers
    in_program: Bools  # the program part is not empty
    empty: Bools  # no chain: the sample's own address stands for it
    garbage: Bools  # held an unknown marker; what followed it is left out


class RawChains:
    """Numbers for the chains of all samples of a recording, window by window."""

    def __init__(self) -> None:
        self.kernel_parts, self.program_parts = Parts(), Parts()
        self._numbers, self._keys = Numbers(), ListKeys()
        self._known: list[Chained] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        """What is kept between windows."""
        columns = (getattr(c, name) for c in self._known for name in Chained.__slots__)
        parts = self.kernel_parts.nbytes + self.program_parts.nbytes
        return self._numbers.nbytes + parts + sum(int(c.nbytes) for c in columns)

    def factorize(self, samples: Samples) -> Ids:
        """The number of each sample's chain."""
        lengths = np.diff(samples.starts)
        modes = _MODES[samples.misc & CPU_MODE]
        keys = self._keys.of(samples.chain, samples.starts)
        # Where no marker stands in front the CPU mode says where the first frames ran.
        bare = lengths == 0
        if len(samples.chain):
            bare |= samples.chain[np.minimum(samples.starts[:-1], len(samples.chain) - 1)] < MARKERS
        keys[bare] += modes[bare] * _MODE_KEY
        empty = np.flatnonzero(lengths == 0)
        keys[empty] += samples.ip[empty] * _ADDRESS_KEY
        ids, new = self._numbers.factorize(keys)
        if len(new):
            self._keep(samples, new, lengths[new], modes[new])
        return ids

    def all(self) -> Chained:
        """The distinct chains in the order of their numbers."""
        if not self._known:
            none, no = np.empty(0, np.int32), np.empty(0, np.bool_)
            return Chained(none, none, none, none, no, no, no)
        if len(self._known) > 1:
            self._known = [Chained(*(np.concatenate([getattr(c, n) for c in self._known]) for n in Chained.__slots__))]
        return self._known[0]

    def _keep(self, samples: Samples, new: Ints, lengths: Ints, modes: Addresses) -> None:
        """Split new chains by their markers."""
        values, starts, added = _with_markers(samples, new, lengths, modes)
        marks = values >= MARKERS
        places = _places(values, starts, marks)
        # Of a guest or hypervisor only the marker is kept, for all that it did.
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
    """The chains of some samples, each beginning with a marker; the sample's address where there is no chain.

    Also how many markers were added to each: one to all if any of them needs it.
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
    ample = np.empty(len(values) + len(new), np.uint64)
    places = starts_of(lengths + 1)
    front = np.zeros(len(ample), np.bool_)
    front[places[:-1]] = True
    ample[front], ample[~front] = modes, values
    return ample, places, 1


def _places(values: Addresses, starts: Ints, marks: Bools) -> NDArray[np.uint8]:
    """Where each value ran: what the last marker up to it says. Every chain begins with one."""
    at = np.flatnonzero(marks)
    found, lengths = values[at], np.diff(at, append=len(values))
    place = np.full(len(at), _GARBAGE, np.uint8)
    for marker, meaning in _PLACES.items():
        place[found == marker] = meaning
    # The kernel's frames come first; behind the program's, a stray number that the unwinder took for a return address
    # may look like a marker of the kernel.
    frames = starts_of((place == _IN_PROGRAM) & (lengths > 1))[:-1]
    first, begins = np.zeros(len(at), np.int64), np.searchsorted(at, starts[:-1])
    first[begins] = begins
    after_program = frames > frames[np.maximum.accumulate(first)]
    place[(place == _IN_KERNEL) & after_program] = _GARBAGE
    return np.repeat(place, lengths)


class Uses:
    """Numbers for pairs of chain and epoch.

    Nearly all chains are seen in one epoch only. The first use of a chain has the chain's own number, for which nothing
    must be searched; further ones count down from -1.
    """

    def __init__(self) -> None:
        self._epoch = np.empty(0, np.int32)  # of the first use of each chain
        self._more = Numbers()

    def factorize(self, chains: Ids, epochs: Ids, known: int) -> Ids:
        """The number of each use; `known` is how many chains there are so far."""
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
        """Chain and epoch of each use; uses below 0 count from the end, as indices do."""
        chains, epochs = unpair(self._more.keys[::-1])
        own = np.arange(len(self._epoch), dtype=np.int32)
        return np.concatenate((own, chains)), np.concatenate((self._epoch, epochs))


class _Objects:
    """The objects (executables, libraries) that programs' addresses lie in, as frames by number.

    Known by page: maps begin and end at pages, unless somebody wrote the records by hand (perf inject --jit).
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
        """The number of the object in which each address lay in its epoch."""
        keys = (addresses >> self._shift) * _EPOCH_KEY + epochs.astype(np.uint64)
        ids, new = self._numbers.factorize(keys)
        if len(new):
            found = self._of_map[self._lookup.maps_at(epochs[new], addresses[new])]
            self._of_page = np.concatenate((self._of_page, found))
        objects = self._of_page[ids]
        for at in np.flatnonzero(addresses >= MARKERS).tolist():
            objects[at] = self._elsewhere[addresses[at]]
        return objects

    def lists(self, parts: Parts, part: Ids, epochs: Ids) -> tuple[Ids, tuple[Addresses, Ints]]:
        """For program parts in an epoch the number of a list of objects, leaf first; and all such lists."""
        addresses, starts = parts.all()
        begins, lengths = starts[part], starts[part + 1] - starts[part]
        lists, of = Parts(), np.empty(len(part), np.int32)
        ends = np.cumsum(lengths)
        at = 0
        while at < len(part):
            done = int(ends[at - 1]) if at else 0
            upto = max(at + 1, int(np.searchsorted(ends, done + ADDRESSES_AT_ONCE, "right")))
            some = slice(at, upto)
            values = addresses[list_indices(begins[some], lengths[some])]
            objects, inner = self.objects_at(values, np.repeat(epochs[some], lengths[some])), starts_of(lengths[some])
            keep = np.ones(len(objects), np.bool_)  # but those that repeat the one before
            keep[1:] = objects[1:] != objects[:-1]
            keep[inner[:-1][inner[:-1] < len(objects)]] = True
            of[some] = lists.factorize(objects[keep].astype(np.uint64), starts_of(keep)[inner])
            at = upto
        return of, lists.all()


class JoinedChains:
    """Chains with names as far as there are any. Raw chains that differ in programs' addresses only become one.

    `chain_of` tells for each use of a raw chain (chain and epoch) which chain it became, `raw` which it was. `beyond`
    is the number of distinct kernel addresses that were too many to keep.
    """

    def __init__(self, chains: RawChains, uses: Uses, spaces: AddressSpaces, image: KernelImage) -> None:
        self.raw, epoch = uses.all()
        self.chained: Chained = chains.all()
        part_uses, parts = Uses(), chains.program_parts
        of = part_uses.factorize(self.chained.program[self.raw], epoch, len(parts))
        objects = _Objects(spaces.lookup(), spaces.maps)
        list_of, (values, self._programs_starts) = objects.lists(parts, *part_uses.all())
        numbers = Numbers()
        self.chain_of, _ = numbers.factorize(pair(self.chained.kernel[self.raw], list_of[of]))
        self._kernel_of, self._programs_of = unpair(numbers.keys)
        self._kernel, self._kernel_starts, frames, self.beyond = _kernel_parts(chains.kernel_parts, image)
        self._programs = values.astype(np.int32) + np.int32(len(frames))
        self._frames: tuple[Frame, ...] = (*frames, *objects.frames)

    def __len__(self) -> int:
        return len(self._kernel_of)

    def chains(self, some: Ints, cut: Bools | None) -> tuple[Chains, tuple[Frame, ...]]:
        """Some of the chains as the columns of a profile, and the frames in them."""
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
    """The kernel parts with numbers of frames for addresses, and how many addresses share the nameless frame."""
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
