"""What ran in programs: for each chain the objects (executable, libraries) that it went through.

Names of programs' functions are not looked up: which program it was, and what it asked of the kernel, decides. Frames
of one object that follow one another are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Frame
from thpdiag.model.profile import NAMELESS
from thpdiag.perf_data.columns import Map
from thpdiag.perf_data.profile.chains import GUEST, GUEST_KERNEL, GUEST_USER, HYPERVISOR, MARKERS, Parts
from thpdiag.perf_data.profile.maps import Ints, Lookup
from thpdiag.perf_data.profile.numbers import Ids, Numbers
from thpdiag.ragged import gathered, starts_of

_PAGE = np.uint64(12)
_ODD = np.uint64(0xFF51AFD7ED558CCD)
_AT_ONCE = 1 << 18  # addresses that are looked up together: bounds the memory
_ELSEWHERE = {
    HYPERVISOR: Frame("[hypervisor]", "[hypervisor]"),
    GUEST: Frame("[guest]", "[guest]"),
    GUEST_KERNEL: Frame("[guest kernel]", "[guest.kernel.kallsyms]"),
    GUEST_USER: Frame("[guest program]", "[guest]"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Programs:
    """Distinct lists of objects (leaf first), as indices into `frames`; `of[i]` is the list of question `i`."""

    of: Ids
    values: NDArray[np.int32]
    starts: NDArray[np.int64]
    frames: tuple[Frame, ...]


class _Objects:
    """Frames for objects, numbered; `of_map` gives the number for each map, `UNMAPPED` the last."""

    def __init__(self, maps: Sequence[Map]) -> None:
        names: dict[str, int] = {}
        of_map = [names.setdefault(m.name, len(names)) for m in maps]
        frames = [Frame(NAMELESS, name, kernel=False) for name in names]
        self.elsewhere = {marker: len(frames) + i for i, marker in enumerate(_ELSEWHERE)}
        self.frames = (*frames, *_ELSEWHERE.values(), Frame(NAMELESS, NAMELESS, kernel=False))
        self.of_map = np.array([*of_map, len(self.frames) - 1], np.int64)


def objects_of(parts: Parts, part: Ids, epochs: Ids, lookup: Lookup, maps: Sequence[Map]) -> Programs:
    """The objects that each program part went through, under the maps of an epoch."""
    objects = _Objects(maps)
    addresses, starts = parts.all()
    begins, lengths = starts[part], starts[part + 1] - starts[part]
    lists, of = Parts(), np.empty(len(part), np.int32)
    pages = _Pages(lookup, objects)
    ends = np.cumsum(lengths)
    at = 0
    while at < len(part):
        upto = max(at + 1, int(np.searchsorted(ends, (ends[at - 1] if at else 0) + _AT_ONCE, "right")))
        some = slice(at, upto)
        values = addresses[gathered(begins[some], lengths[some])]
        found = pages.objects(values, np.repeat(epochs[some], lengths[some]))
        of[some] = lists.numbered(*_merged(found, starts_of(lengths[some])))
        at = upto
    values, starts = lists.all()
    return Programs(of, values.astype(np.int32), starts, objects.frames)


class _Pages:
    """Objects by page: maps begin and end at pages, unless somebody wrote the records by hand (perf inject --jit)."""

    def __init__(self, lookup: Lookup, objects: _Objects) -> None:
        self._lookup, self._objects = lookup, objects
        self._shift = _PAGE if lookup.aligned else np.uint64(0)
        self._numbers = Numbers()
        self._object: NDArray[np.int64] = np.empty(0, np.int64)

    def objects(self, addresses: NDArray[np.uint64], epochs: Ids) -> Ints:
        """The number of the object in which each address lay in its epoch."""
        keys = (addresses >> self._shift) * _ODD + epochs.astype(np.uint64)
        ids, new = self._numbers.numbered(keys)
        if len(new):
            found = self._objects.of_map[self._lookup.maps_at(epochs[new], addresses[new])]
            self._object = np.concatenate((self._object, found))
        objects = self._object[ids]
        for at in np.flatnonzero(addresses >= MARKERS).tolist():
            objects[at] = self._objects.elsewhere[addresses[at]]
        return objects


def _merged(objects: Ints, starts: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Each list without those that repeat the one before."""
    keep = np.ones(len(objects), np.bool_)
    keep[1:] = objects[1:] != objects[:-1]
    keep[starts[:-1][starts[:-1] < len(objects)]] = True
    return objects[keep].astype(np.uint64), starts_of(keep)[starts]
