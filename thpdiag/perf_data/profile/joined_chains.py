"""Kernel parts and programs' parts joined to the chains of profiles, frames as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Chains, Frame, KernelImage
from thpdiag.model.profile import NAMELESS
from thpdiag.perf_data.profile.chains import Chained, Parts, Starts
from thpdiag.perf_data.profile.gather import Gathered
from thpdiag.perf_data.profile.kernel_image import KERNEL, kernel_frames
from thpdiag.perf_data.profile.numbers import Ids, Numbers, pair, unpaired
from thpdiag.perf_data.profile.programs import objects_of
from thpdiag.perf_data.profile.uses import Uses
from thpdiag.ragged import gathered, starts_of

Bools = NDArray[np.bool_]
MOST_ADDRESSES = 1 << 18  # distinct ones in the kernel; two million samples of a busy host have 20 thousand


class JoinedChains:
    """Chains with names as far as there are any. Raw chains that differ in programs' addresses only become one.

    `chain_of` tells for each use of a raw chain (chain and epoch) which chain it became, `raw` which it was. `beyond`
    is the number of distinct kernel addresses that were too many to keep.
    """

    def __init__(self, found: Gathered, image: KernelImage) -> None:
        self.raw, epoch = found.uses.all()
        self.chained: Chained = found.chains.all()
        questions, parts = Uses(), found.chains.program_parts
        of = questions.numbered(self.chained.program[self.raw], epoch, len(parts))
        programs = objects_of(parts, *questions.all(), found.spaces.lookup(), found.spaces.maps)
        (self._kernel_of, self._programs_of), self.chain_of = _distinct(self.chained.kernel[self.raw], programs.of[of])
        self._kernel, self._kernel_starts, frames, self.beyond = _kernel(found.chains.kernel_parts, image)
        self._programs, self._programs_starts = programs.values + np.int32(len(frames)), programs.starts
        self.tasks = found.tasks.all()
        self._frames: tuple[Frame, ...] = (*frames, *programs.frames)

    def __len__(self) -> int:
        return len(self._kernel_of)

    def chains(self, some: NDArray[np.int64], cut: Bools | None) -> tuple[Chains, tuple[Frame, ...]]:
        """Some of the chains as the columns of a profile, and the frames in them."""
        kernel, programs = self._kernel_of[some], self._programs_of[some]
        inner = np.diff(self._kernel_starts)[kernel]
        outer = np.diff(self._programs_starts)[programs]
        starts = starts_of(inner + outer)
        frames = np.empty(starts[-1], np.int32)
        frames[gathered(starts[:-1], inner)] = self._kernel[gathered(self._kernel_starts[kernel], inner)]
        frames[gathered(starts[:-1] + inner, outer)] = self._programs[gathered(self._programs_starts[programs], outer)]
        used = np.zeros(len(self._frames), np.bool_)
        used[frames] = True
        numbers = np.cumsum(used, dtype=np.int32) - 1
        kept = tuple(self._frames[i] for i in np.flatnonzero(used).tolist())
        return Chains(numbers[frames], starts, np.zeros(len(some), np.int64), cut=cut), kept


def _distinct(high: Ids, low: Ids) -> tuple[tuple[Ids, Ids], Ids]:
    """The distinct pairs, and the number of each pair among them."""
    numbers = Numbers()
    ids, _ = numbers.numbered(pair(high, low))
    return unpaired(numbers.keys), ids


def _kernel(parts: Parts, image: KernelImage) -> tuple[NDArray[np.int32], Starts, Sequence[Frame], int]:
    """The kernel parts with numbers of frames for addresses, and how many addresses share the nameless frame."""
    addresses, starts = parts.all()
    numbers = Numbers()
    ids, _ = numbers.numbered(addresses)
    keys = numbers.keys[:MOST_ADDRESSES]
    beyond = len(numbers) - len(keys)
    order = np.argsort(keys)
    place = np.full(len(numbers), len(keys), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    frames = kernel_frames(keys[order], image)
    if beyond:
        frames.append(Frame(NAMELESS, KERNEL, kernel=True))
    return place[ids], starts, frames, beyond
