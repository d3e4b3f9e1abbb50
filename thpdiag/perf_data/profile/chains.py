"""The distinct call chains of a recording, each split into what ran in the kernel and what in the program.

A chain as recorded is a list of addresses, leaf first, with markers between (PERF_CONTEXT_*: the frames that follow are
the kernel's, the program's, a guest's). What is kept grows with distinct chains only, whatever the number of samples.
Source: include/uapi/linux/perf_event.h, kernel/events/callchain.c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import Samples
from thpdiag.perf_data.profile.numbers import Ids, Numbers
from thpdiag.perf_data.uapi import CPU_MODE
from thpdiag.ragged import ListKeys, any_of, gathered, starts_of

Addresses = NDArray[np.uint64]
Starts = NDArray[np.int64]


def _context(value: int) -> np.uint64:
    return np.uint64(value % (1 << 64))


MARKERS = _context(-4095)  # PERF_CONTEXT_MAX: all values from here on are markers
HYPERVISOR, KERNEL, USER = _context(-32), _context(-128), _context(-512)
USER_DEFERRED = _context(-640)  # 6.18: a cookie follows; the program's chain comes in a record of its own
GUEST, GUEST_KERNEL, GUEST_USER = _context(-2048), _context(-2176), _context(-2560)
_MODES = np.array([0, KERNEL, USER, HYPERVISOR, GUEST_KERNEL, GUEST_USER, 0, 0], np.uint64)  # PERF_RECORD_MISC_*
_MODES[[0, 6, 7]] = USER  # PERF_RECORD_MISC_CPUMODE_UNKNOWN
_MODE_KEY = np.uint64(0xE7037ED1A0B428DB)
_ADDRESS_KEY = np.uint64(0x8EBC6AF09C88C6E3)

_IN_KERNEL, _IN_PROGRAM, _ELSEWHERE, _COOKIE, _GARBAGE = 1, 2, 3, 4, 5
_PLACES = {
    KERNEL: _IN_KERNEL, USER: _IN_PROGRAM, HYPERVISOR: _ELSEWHERE, GUEST: _ELSEWHERE, GUEST_KERNEL: _ELSEWHERE,
    GUEST_USER: _ELSEWHERE, USER_DEFERRED: _COOKIE,
}  # fmt: skip


class Parts:
    """Distinct lists of numbers, in the order of their numbers."""

    def __init__(self) -> None:
        self._numbers, self._keys = Numbers(), ListKeys()
        self._values: list[Addresses] = []
        self._lengths: list[NDArray[np.int64]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return self._numbers.nbytes + sum(a.nbytes for a in [*self._values, *self._lengths])

    def numbered(self, values: Addresses, starts: Starts) -> Ids:
        """The number of each list; new ones are kept."""
        ids, new = self._numbers.numbered(self._keys.of(values, starts))
        if len(new):
            lengths = np.diff(starts)[new]
            self._values.append(values[gathered(starts[new], lengths)])
            self._lengths.append(lengths)
        return ids

    def all(self) -> tuple[Addresses, Starts]:
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
    in_program: NDArray[np.bool_]  # the program part is not empty
    empty: NDArray[np.bool_]  # no chain: the sample's own address stands for it
    garbage: NDArray[np.bool_]  # held an unknown marker; what followed it is left out


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

    def numbered(self, samples: Samples) -> Ids:
        """The number of each sample's chain."""
        lengths = np.diff(samples.starts)
        modes = _MODES[samples.misc & CPU_MODE]
        keys = self._keys.of(samples.chain, samples.starts)
        bare = _without_marker(samples, lengths)
        keys[bare] += modes[bare] * _MODE_KEY
        empty = np.flatnonzero(lengths == 0)
        keys[empty] += samples.ip[empty] * _ADDRESS_KEY
        ids, new = self._numbers.numbered(keys)
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

    def _keep(self, samples: Samples, new: NDArray[np.int64], lengths: NDArray[np.int64], modes: Addresses) -> None:
        empty = lengths == 0
        values, starts, added = _with_markers(samples, new, lengths, modes)
        marks = values >= MARKERS
        places = _places(values, starts, marks)
        # Of a guest or hypervisor only the marker is kept, for all that it did.
        begins = marks & ~np.append(marks[1:], True)
        program = np.where(marks, begins & (places == _ELSEWHERE), places == _IN_PROGRAM)
        kernel = (places == _IN_KERNEL) & ~marks
        self._known.append(
            Chained(
                self.kernel_parts.numbered(*_only(values, starts, kernel)),
                self.program_parts.numbered(*_only(values, starts, program)),
                lengths.astype(np.int32),
                (_counts(marks, starts) - added).astype(np.int32),
                any_of(program, starts),
                empty,
                any_of(places == _GARBAGE, starts),
            )
        )


def _without_marker(samples: Samples, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples whose chain does not begin with a marker: the CPU mode says where the first frames ran."""
    if not len(samples.chain):
        return np.arange(len(samples))
    first = samples.chain[np.minimum(samples.starts[:-1], len(samples.chain) - 1)]
    return np.flatnonzero((first < MARKERS) | (lengths == 0))


def _with_markers(
    samples: Samples, new: NDArray[np.int64], lengths: NDArray[np.int64], modes: Addresses
) -> tuple[Addresses, Starts, int]:
    """The chains of some samples, each beginning with a marker; the sample's address where there is no chain.

    Also how many markers were added to each: one to all if any of them needs it.
    """
    empty = lengths == 0
    lengths = np.where(empty, 1, lengths)
    rest = gathered(samples.starts[new], lengths)
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


def _places(values: Addresses, starts: Starts, marks: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Where each value ran: what the last marker up to it says. Every chain begins with one."""
    at = np.flatnonzero(marks)
    found, lengths = values[at], np.diff(at, append=len(values))
    place = np.full(len(at), _GARBAGE, np.uint8)
    for marker, meaning in _PLACES.items():
        place[found == marker] = meaning
    place[(place == _IN_KERNEL) & _after_program(at, place, lengths, starts)] = _GARBAGE
    return np.repeat(place, lengths)


def _after_program(
    at: NDArray[np.int64], place: NDArray[np.uint8], lengths: NDArray[np.int64], starts: Starts
) -> NDArray[np.bool_]:
    """For each marker whether frames of the program come before it: what looks like the kernel's there is not.

    The kernel's frames come first; behind, a stray number that the unwinder took for a return address may be any.
    """
    frames = starts_of((place == _IN_PROGRAM) & (lengths > 1))[:-1]
    first, begins = np.zeros(len(at), np.int64), np.searchsorted(at, starts[:-1])
    first[begins] = begins
    after: NDArray[np.bool_] = frames > frames[np.maximum.accumulate(first)]
    return after


def _counts(marks: NDArray[np.bool_], starts: Starts) -> NDArray[np.int64]:
    """Marked values of each list."""
    counts = starts_of(marks)
    return np.diff(counts[starts])


def _only(values: Addresses, starts: Starts, keep: NDArray[np.bool_]) -> tuple[Addresses, Starts]:
    """The marked values of each list."""
    return values[keep], starts_of(_counts(keep, starts))
