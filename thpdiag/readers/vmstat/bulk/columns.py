"""Rows of runs as columns in base units: what the reader of lines does with one row, here with all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.vmstat.bulk.numbers import Floats, Ints, Marks
from thpdiag.readers.vmstat.bulk.runs import Run
from thpdiag.readers.vmstat.run import (
    BAD_CPU,
    CPU,
    CPU_NAMES,
    FROZEN,
    FROZEN_AFTER,
    LARGEST,
    MEMORY,
    SHARES,
    Layout,
    impossible,
)

_SHARES = np.array(SHARES)
FULL = 105  # sums of rounded percents may exceed 100 a little


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one run: their lines (from 0), where their text begins and ends, their numbers by column."""

    run: Run
    lines: Ints
    columns: Ints
    seconds: Floats
    utc: Marks
    starts: Ints
    ends: Ints


def values(layout: Layout, columns: Ints) -> tuple[dict[str, Floats], list[tuple[int, str]]]:
    """The metrics, NaN where a number is impossible, and which rows have one."""
    odd: list[tuple[int, str]] = []
    found: dict[str, Floats] = {}
    sound = bool(columns.min() >= 0 and columns.max() <= LARGEST)
    for name, at, factor in zip(layout.metrics, _places(layout), layout.factors, strict=True):
        column = columns[at] * float(factor)
        if not sound:
            bad = (columns[at] < 0) | (columns[at] > LARGEST)
            column[bad] = np.nan
            odd += [(number, impossible(name)) for number in np.flatnonzero(bad).tolist()]
        found[name] = column
    found |= _cpu(layout, columns[CPU : layout.width], odd)
    return found, odd


def _places(layout: Layout) -> tuple[int, ...]:
    """The columns of the metrics."""
    return layout.pick(range(layout.width))


def _cpu(layout: Layout, shares: Ints, odd: list[tuple[int, str]]) -> dict[str, Floats]:
    """Guest time is part of user time until 4.0.3: it is put back where gu stands apart."""
    total = shares.sum(axis=0)
    good = (shares.min(axis=0) >= 0) & (total > 0) & (total <= FULL)
    if not good.all():
        odd += [(number, BAD_CPU) for number in np.flatnonzero(~good).tolist()]
        shares = np.where(good, shares, 0)
    user, system = shares[0], shares[1]
    if layout.guest:
        user = user + shares[layout.guest - CPU]
    busy = user + system
    found = {name: _SHARES[column] for name, column in zip(CPU_NAMES, shares[2:], strict=False)}
    found |= {"cpu_ratio.user_total": _SHARES[user], "cpu_ratio.sys_total": _SHARES[system]}
    found["cpu_ratio.busy"] = _SHARES[busy]
    if not good.all():
        for column in found.values():
            column[~good] = np.nan
    with np.errstate(invalid="ignore"):
        found["cpu_ratio.sys_share"] = system / busy  # 0 / 0 is NaN: nothing was busy
    return found


def freeze(rows: Rows, found: Mapping[str, NDArray[np.float64]]) -> bool:
    """Takes memory off all rows but the first where it never changes while the host works; says whether it did."""
    memory = rows.columns[MEMORY]
    if len(rows.lines) <= FROZEN_AFTER or (memory != memory[:, :1]).any():
        return False
    if not any((rows.columns[at] != rows.columns[at, 0]).any() for at in (0, CPU - 1)):
        return False
    for name in rows.run.layout.memory:
        if name in found:
            found[name][1:] = np.nan
    return True


def noted(rows: Rows, odd: Sequence[tuple[int, str]], texts: Mapping[int, str], *, frozen: bool) -> None:
    """Tells the block of a run what was odd in it."""
    notes = [(0, FROZEN)] * frozen + sorted(odd, key=lambda note: note[0])
    for number, why in notes:
        line = int(rows.lines[number])
        rows.run.odd.note(line + 1, texts.get(number, ""), why)
