"""Processes in collectl's plot format (.prc): one row per process and interval, the command last.

    #Date Time PID User PR PPID THRD S VmSize VmLck VmRSS ... SysT UsrT PCT AccumT ... MajF MinF Command
    20261120 09:54:07 18615 root 20 1 0 S 528680 0 2352 ... 0.00 0.00 0 0:00:00 ... 0 0 ./sparse 512 100

Sizes are KiB; MajF and MinF per second, cut by thousands (`12K`), totals with `--procopts f`; AccumT is h:mm:ss; PCT of
one CPU; THRD is threads less one. The start is not there: a process ends where its CPU time falls or its name changes.
With `--utc` the time is that of the playback, not of the row, and is not used. Source: collectl formatit.ph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Clock, Fact, Problem, Record
from thpdiag.reader import Source
from thpdiag.readers.collectl.bulk.header import Header
from thpdiag.readers.collectl.bulk.rows import Room, Rows, Times, printable
from thpdiag.readers.collectl.columns import rate
from thpdiag.readers.elements.kernel_numbers import LARGEST_KIB
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.elements.tasks import cpu_seconds, entity, name_of

NAME = "collectl_plot"
SIZES = {"VmSize": "process_virtual_memory_bytes", "VmRSS": "process_resident_memory_bytes"}
FAULTS = {"MajF": "process_major_faults_total", "MinF": "process_minor_faults_total"}
ACCUMULATED = "process_cpu_seconds_total"
_TOTALS = re.compile(r"--procopts[= ]\S*f")


class PlotTask:
    """One process."""

    __slots__ = ("accumulated", "comm", "command", "line", "rows")

    def __init__(self, comm: str, command: str, line: int, room: Room) -> None:
        self.comm, self.command, self.line = comm, command, line
        self.accumulated = 0.0
        self.rows = Rows(room)


class PlotTasks:
    """All processes of a table."""

    def __init__(self, source: Source, odd: Oddities, room: Room) -> None:
        self._source, self._odd, self._room = source, odd, room
        self._places: dict[str, int] = {}
        self._totals = self._played_back = False
        self._living: dict[str, PlotTask] = {}
        self._all: list[tuple[str, PlotTask]] = []
        self._resolution = {ACCUMULATED: 1.0, "process_cpu_ratio": 0.01}
        self._twice = 0

    def begin(self, names: list[str], header: Header) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._totals, self._played_back = bool(_TOTALS.search(header.printed)), header.played_back

    def new_log(self) -> None:
        """Processes of the next log may have the pids of other ones before."""
        self._living.clear()

    def row(self, at: int, line: int, text: str, cells: list[str]) -> bool:
        """Whether the process was seen under this time already: another interval begins, with the same stamp."""
        pid, command = cells[self._places["PID"]], printable(cells[self._places.get("Command", -1)].strip())
        if not pid.isdecimal():
            self._odd.note(line, printable(text), "a process without a number; it is left out")
            return False
        values = self._values(line, text, cells)
        task = self._task(pid, name_of(command), command, line, values.get(ACCUMULATED))
        if task.rows.add(at, line, values, text.encode()):
            return False
        self._twice += 1
        return True

    def _task(self, pid: str, comm: str, command: str, line: int, accumulated: float | None) -> PlotTask:
        task = self._living.get(pid)
        if task is None or task.comm != comm or (accumulated is not None and accumulated < task.accumulated):
            task = self._living[pid] = PlotTask(comm, command, line, self._room)
            self._all.append((pid, task))
        if accumulated is not None:
            task.accumulated = accumulated
        return task

    def _values(self, line: int, text: str, cells: list[str]) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, value in self._numbers(cells):
            if value is None:
                self._odd.note(line, printable(text), "a number of a process that is none; it is left out")
            else:
                values[name] = value
        return values

    def _numbers(self, cells: list[str]) -> Iterator[tuple[str, float | None]]:
        places = self._places
        for column, name in SIZES.items():
            if column in places:
                size = number(cells[places[column]])
                yield name, None if size is None or size > LARGEST_KIB else size * 1024
        if "PCT" in places:
            used = number(cells[places["PCT"]])
            yield "process_cpu_ratio", None if used is None else used / 100
        if "AccumT" in places:
            yield ACCUMULATED, cpu_seconds(cells[places["AccumT"]])
        if "THRD" in places:
            threads = number(cells[places["THRD"]])
            yield "process_threads", None if threads is None else threads + 1
        for column, name in FAULTS.items():
            if column in places:
                yield self._faults(name, cells[places[column]])

    def _faults(self, name: str, cell: str) -> tuple[str, float | None]:
        name = name if self._totals else f"{name}:rate"
        if (found := rate(cell)) is None:
            return name, None
        self._resolution[name] = max(self._resolution.get(name, 0.0), found.resolution)
        return name, found.value

    def records(
        self, source: tuple[str, str], seconds: NDArray[np.float64], clock: Clock | None, *, utc: bool
    ) -> Iterator[Record]:
        if not self._all:
            return
        times = Times(seconds, clock, None, self._resolution)
        if utc and (self._twice or self._played_back):
            times = Times(None, None, None, self._resolution)
            text = "the times are those of the playback (collectl -p --utc), not those of the rows; they are not used"
            yield Problem(self._source.cite(self._all[0][1].line), text, reader=NAME)
        for pid, task in self._all:
            who = entity(pid, task.comm)
            yield task.rows.series("process", who, source, times)
            if task.command:
                cite = self._source.cite(task.line, task.command)
                yield Fact("process.command", task.command, cite, who, times.moment(int(task.rows.at[0])))
