"""A profile whose frames were renamed: frames that became one, and chains that became one through that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Chains, Frame, Profile
from thpdiag.ragged import grouped, keys_of, starts_of

_CUT = np.uint64(0x9E3779B97F4A7C15)


def renamed(profile: Profile, frames: tuple[Frame, ...], number: NDArray[np.int32], alone: int = -1) -> Profile:
    """The profile with other frames: `number` gives for each of the old ones its new number.

    Chains that are equal now are one, where the first of them stood; a chain that was cut is another than one that was
    not. Frame `alone` stands once where it follows itself.
    """
    values, starts = number[profile.chains.frames], profile.chains.starts
    if alone >= 0:
        values, starts = _once(values, starts, alone)
    keys, cut = keys_of(values, starts), profile.chains.cut
    if cut is not None:
        keys[cut] += _CUT
    first, chain = grouped(keys)
    lengths, old, kept = np.diff(starts), profile.chains, np.zeros(len(starts) - 1, np.bool_)
    kept[first] = True  # `first` ascends, so that what is kept stays in order
    chains = Chains(
        values if kept.all() else values[np.repeat(kept, lengths)],
        starts_of(lengths[kept]),
        old.lines[first],
        tuple(old.texts[i] for i in first.tolist()) if old.texts else (),
        None if cut is None else cut[first],
    )
    rows = replace(profile.rows, chain=chain.astype(np.int32)[profile.rows.chain])
    return replace(profile, frames=frames, chains=chains, rows=rows)


def _once(
    values: NDArray[np.int32], starts: NDArray[np.int64], alone: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    keep = np.ones(len(values), np.bool_)
    keep[1:] = (values[1:] != alone) | (values[:-1] != alone)
    keep[starts[:-1][starts[:-1] < len(values)]] = True
    return values[keep], starts_of(keep)[starts]
