"""Stacks by the names that a picture shows: what differs only in address or object is one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thpdiag.flame.counted import Counted, Group, Weight, counts
from thpdiag.flame.labels import UNKNOWN, UNLISTED, label, root
from thpdiag.ragged import distinct

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """`counts[i]` of stack `stacks[of_row[i]]` under root `roots[i]`; what `unit` they are.

    Stacks and roots hold numbers of `labels`, the root of the stack first.
    """

    labels: tuple[str, ...]
    stacks: list[list[int]]
    roots: list[int]
    of_row: list[int]
    counts: list[int]
    unit: str


def labelled(known: Counted, weight: Weight = Weight.SAMPLES, kernel_mark: str = "") -> Labelled:
    """The stacks of a profile by their labels."""
    chains, numbers = known.profile.chains, dict[str, int]()
    of_frame = np.fromiter(
        (numbers.setdefault(label(f, kernel_mark), len(numbers)) for f in known.profile.frames), np.int64
    )
    values = of_frame[chains.frames]
    first, same = distinct(values, chains.starts)
    # Two groups may have one name; -1: there is no root, and a sample without a stack gets a frame instead.
    names = [root(group, known.by) for group in known.groups]
    of_group = np.array([numbers.setdefault(n, len(numbers)) if n else -1 for n in names], np.int64).reshape(-1)
    width = max(1, len(first))
    keys, place = np.unique((of_group[known.group] + 1) * width + same[known.chain], return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    numbers_of_row, unit = counts(known, weight)
    np.add.at(sums, place, numbers_of_row)
    used, of_row = np.unique(keys % width, return_inverse=True)
    begins, ends = chains.starts[first[used]].tolist(), chains.starts[first[used] + 1].tolist()
    stacks = [values[b:e][::-1].tolist() for b, e in zip(begins, ends, strict=True)]
    roots = (keys // width - 1).tolist()
    if -1 in roots and [] in stacks:
        stacks[stacks.index([])] = [numbers.setdefault(UNKNOWN, len(numbers))]
    found = Labelled(tuple(numbers), stacks, roots, of_row.tolist(), sums.tolist(), unit)
    told = float(known.weight.sum())
    rest = round(known.unlisted * float(sums.sum()) / told) if known.profile.percent_only and told > 0 else 0
    return _with_rest(found, root(Group(), known.by), rest) if rest else found


def _with_rest(found: Labelled, name: str, rest: int) -> Labelled:
    """With what the source does not list, so that shares in the picture are those of all samples."""
    labels = dict.fromkeys((*found.labels, UNLISTED, *([name] if name else [])))
    numbers = {label: number for number, label in enumerate(labels)}
    return replace(
        found,
        labels=tuple(labels),
        stacks=[*found.stacks, [numbers[UNLISTED]]],
        roots=[*found.roots, numbers[name] if name else -1],
        of_row=[*found.of_row, len(found.stacks)],
        counts=[*found.counts, rest],
    )
