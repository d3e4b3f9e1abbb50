"""CPU time by mode as columns: what `cpu_parts` and `sar_tables` say of one row, of many at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.elements.cpu_parts import MOST, PRINTED, SYSTEM, USER
from thpdiag.readers.sysstat.sar_tables import PERCENT, Table

Floats = NDArray[np.float64]
Found = tuple[Mapping[str, Floats], NDArray[np.bool_]]


def shares(table: Table, grid: Floats) -> Found | None:
    """`cpu_ratio.*` of all rows and which of them count; None if a row is implausible and needs a word.

    The grid has hour, minute and second before the cells, the first of which is the CPU.
    """
    parts = {mode: grid[:, place + 3] * PERCENT for place, mode in table.modes.items()}
    sums = _sum(list(parts.values()))
    offline = (sums == 0) & (grid[:, 3] >= 0)
    cpus = grid[:, 3]
    if not ((sums > 0) & (sums <= MOST) | offline).all() or (cpus != np.floor(cpus)).any() or (cpus > 99_999).any():
        return None
    parts = {mode: np.minimum(column, 1.0) for mode, column in parts.items()}
    return _named(parts, split=table.split), ~offline


def _named(parts: Mapping[str, Floats], *, split: bool) -> Mapping[str, Floats]:
    modes = PRINTED if split else ("user", "nice", "iowait", "steal", "idle")
    values = {f"cpu_ratio.{mode}": parts[mode] for mode in modes if mode in parts}
    user = np.minimum(_sum([parts[mode] for mode in (USER if split else USER[:2]) if mode in parts]), 1.0)
    system = np.minimum(_sum([parts[mode] for mode in SYSTEM if mode in parts]), 1.0)
    both = user + system
    values |= {"cpu_ratio.user_total": user, "cpu_ratio.sys_total": system, "cpu_ratio.busy": np.minimum(both, 1.0)}
    share = np.full(len(both), np.nan)
    np.divide(system, both, out=share, where=both > 0)
    return values | {"cpu_ratio.sys_share": share}


def _sum(columns: list[Floats]) -> Floats:
    """In order, as `sum` adds them: the last digits are those of a single row."""
    total = np.zeros(len(columns[0]))
    for column in columns:
        total = total + column
    return total
