"""Shares of CPU time from the counters of /proc/stat, as other tools print them: one row per interval.

An interval in which a counter fell (a reset) or none moved says nothing. Modes that a kernel does not have count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thpdiag.derive.intervals import gaps
from thpdiag.derive.series import Samples, Table, Track, only
from thpdiag.model import Sample, Series

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
NEEDED = tuple(f"node_cpu_seconds_total.{mode}" for mode in MODES[:4])
SHOWN = ("iowait", "softirq", "steal")  # where the source has them


def cpu_shares(table: Table) -> Iterator[Sample | Series]:
    """The rows of a table that has all needed counters."""
    if not table.metrics >= set(NEEDED):
        return
    import numpy as np

    rows = Track(NEEDED[0], table, table.samples)
    known = np.logical_and.reduce([(column := rows.beside(name)) == column for name in NEEDED])
    if known.sum() < 2:
        return
    rows = Track(NEEDED[0], table, only(table.samples, known))
    counters = {mode: rows.beside(f"node_cpu_seconds_total.{mode}") for mode in MODES}
    deltas = {mode: np.diff(np.nan_to_num(column, nan=0.0)) for mode, column in counters.items()}
    total = sum(deltas.values(), np.zeros(len(rows) - 1))
    good = (total > 0) & (np.minimum.reduce(list(deltas.values())) >= 0)
    if rows.seconds is not None:
        good &= ~gaps(rows.seconds)
    if not good.any():
        return
    values = _shares({mode: column[good] for mode, column in deltas.items()}, total[good])
    for mode in SHOWN:
        present = counters[mode][1:][good]
        if (present == present).any():
            values[f"cpu_ratio.{mode}"] = np.where(present == present, deltas[mode][good] / total[good], np.nan)
    yield from as_rows(only(rows.samples, np.concatenate(([False], good))), values, f"{table.reader} (rates)")


def _shares(deltas: Mapping[str, NDArray[np.float64]], total: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    import numpy as np

    kernel = deltas["system"] + deltas["irq"] + deltas["softirq"]
    user = deltas["user"] + deltas["nice"]
    busy = user + kernel
    return {
        "cpu_ratio.user_total": user / total,
        "cpu_ratio.sys_total": kernel / total,
        "cpu_ratio.idle": deltas["idle"] / total,
        "cpu_ratio.busy": busy / total,
        "cpu_ratio.sys_share": np.divide(kernel, busy, out=np.full(len(busy), np.nan), where=busy > 0),
    }


def as_rows(
    samples: Samples, columns: Mapping[str, NDArray[np.floating[Any]]], reader: str
) -> Iterator[Sample | Series]:
    """Rows of the host with these values at the places and times of others: a Series of a Series, else samples."""
    if isinstance(samples, Series):
        yield replace(
            samples,
            values={name: column.astype(float) for name, column in columns.items()},
            reader=reader,
            resolution={},
            since_boot=None,
        )
        return
    for at, sample in enumerate(samples):
        values = {name: float(column[at]) for name, column in columns.items() if column[at] == column[at]}
        yield Sample("system", values, sample.cite, reader, time=sample.time)
