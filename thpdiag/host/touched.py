"""What a process can have touched itself: the most by which its own page faults can have made it grow.

Three things bound it, the most exact first:

- its faults: one huge page each. Where a tool prints them per second they are summed up, with all that rounding and the
  times of the rows leave open.
- its context switches: it grew itself only between two looks of which it ran between. (Of one thread, which slept at
  both looks: /proc/PID/status.)
- its CPU time: no CPU fills 64 GiB of memory in a second (a ceiling of our own). Files and shared memory that it maps
  cost less, so what these grew by is added. (top)

Each says nothing of how much it did touch.
"""

from __future__ import annotations

from dataclasses import replace

from thpdiag.host.series import Samples, Table, Track, row_values, typical_interval
from thpdiag.model import Series
from thpdiag.model.numeric import Floats, np

TOUCHED = "process_touched_bytes_total"
FAULTS, FAULT_BYTES = "process_faults_total", "process_fault_bytes_total"
SWITCHES = "process_context_switches_total"
CPU_TIME, SHARED = "process_cpu_seconds_total", "process_rss_shared_bytes"
RESIDENT = "process_resident_memory_bytes"
FASTEST = 64 * 2.0**30  # bytes that a CPU fills in a second, at most
LATE = 1.5  # times the usual interval: a row that comes later than that was not the next one
CLOCK_SECONDS = 1.0  # what the times of most tools are printed to


def integral(metric: str, rate: Track, *, lists_active: bool) -> Track | None:
    """A counter from the rates that a tool made of it, from the row before the first rate on.

    A rate is of the interval before its row. Where rows are missing, the tool that leaves out what was at rest
    (`lists_active`) says that nothing was counted meanwhile, unless the rate is of all that time; of others nobody
    knows, and the counter is None.
    """
    seconds, values, whole = rate.seconds, rate.column, rate.table.seconds
    if seconds is None or whole is None or not len(seconds) or (np.diff(seconds) <= 0).any():
        return None
    earlier = np.flatnonzero(whole < seconds[0])
    rows = rate.samples
    if len(earlier):
        at = int(earlier[whole[earlier].argmax()])
        rows, seconds = _with_row(rate.table.samples, at, rows), np.concatenate(([whole[at]], seconds))
    else:
        values = values[1:]
    steps, usual = np.diff(seconds), typical_interval(seconds)
    late = steps > LATE * usual
    if not len(steps) or (late.any() and not lists_active):
        return None
    off = float(steps.sum() * rate.resolution + (np.where(late, steps - usual, 0.0) * values).sum())
    if (seconds == np.floor(seconds)).all():  # each row may be earlier or later by half a second
        off += CLOCK_SECONDS / 2 * float(np.abs(np.diff(values, prepend=0.0, append=0.0)).sum())
    return _as_track(metric, rate.table, rows, np.concatenate(([0.0], np.cumsum(values * steps))), off / 2)


def touched_by_switches(resident: Track) -> Track:
    """What it grew by between looks of which it may have run between."""
    switches = resident.column_of(SWITCHES)
    grown, slept = np.maximum(np.diff(resident.column), 0.0), np.diff(switches) == 0  # NaN: nobody knows
    column = np.concatenate(([0.0], np.cumsum(np.where(slept, 0.0, grown))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, resident.resolution)


def touched_by_cpu_time(resident: Track, cpu_quantum: float, shared_quantum: float) -> Track | None:
    """What its CPU time was enough for, and what files and shared memory grew by."""
    used, shared = np.diff(resident.column_of(CPU_TIME)), np.diff(resident.column_of(SHARED))
    if not (used >= 0).all() or (shared != shared).any():
        return None
    column = np.concatenate(([0.0], np.cumsum(used * FASTEST + np.maximum(shared, 0.0))))
    return _as_track(TOUCHED, resident.table, resident.samples, column, cpu_quantum * FASTEST + shared_quantum)


def at_rest(resident: Track, metric: str) -> Track:
    """The rows of a track without growth."""
    return _as_track(metric, resident.table, resident.samples, np.zeros(len(resident)), 0.0)


def _as_track(metric: str, table: Table, rows: Samples, column: Floats, quantum: float) -> Track:
    """Rows with another column; with other rows of their table they share the time, but no numbers of rows."""
    samples: Samples
    if isinstance(rows, Series):
        samples = replace(rows, values={metric: column}, resolution={metric: quantum}, since_boot=None)
    else:
        samples = tuple(
            replace(row, values={metric: value}, resolution={metric: quantum}, since_boot=False)
            for row, value in zip(rows, column.tolist(), strict=True)
        )
    of_all = len(samples) == int((row_values(table.samples, RESIDENT) == row_values(table.samples, RESIDENT)).sum())
    return Track(metric, table if of_all else replace(table), samples)


def _with_row(samples: Samples, at: int, rows: Samples) -> Samples:
    """Rows of a table with one that is before them."""
    if not isinstance(samples, Series):
        return (samples[at], *rows)
    keep = np.isin(samples.lines, rows.lines if isinstance(rows, Series) else ())
    keep[at] = True
    return samples.only(keep)
