"""Collectl's plot format read in one pass: a header of names, then a row per interval or per process."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator

import numpy as np

from thpdiag.model import Citation, Clock, Problem, Record, Subject
from thpdiag.reader import Lines, Source
from thpdiag.readers.collectl.bulk.header import Header
from thpdiag.readers.collectl.bulk.plot_columns import Group, groups
from thpdiag.readers.collectl.bulk.plot_tasks import NAME, PlotTasks
from thpdiag.readers.collectl.bulk.rows import Room, Rows, Times, printable
from thpdiag.readers.elements.cpu_parts import plausible, with_sums
from thpdiag.readers.elements.daytime import date_seconds, day_seconds
from thpdiag.readers.elements.kernel_numbers import LARGEST
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number, share

HEADER = re.compile(r"#(Date(?P<sep>.)Time|UTC)(?P<next>.)(?P<first>\[|PID\b|SlabName\b)")
UTC = re.compile(r"(\d{9,10}(?:\.\d{1,6})?)$")
FOLD = (1700.0, 3700.0)  # seconds that the wall clock goes back in autumn, less an interval
_DATE = re.compile(r"\d{8}$", re.ASCII)


class Plot:
    """What one table or several under each other say."""

    def __init__(self, source: Source) -> None:
        self.source, self.odd = source, Oddities(source, NAME)
        self.header = Header()
        self.tasks = PlotTasks(source, self.odd, room := Room())
        self._room = room
        self._rows: dict[Subject, Rows] = {}
        self._seconds = array("d")
        self._clock: Clock | None = None
        self._first: int | None = None  # line
        self._names: list[str] = []
        self._separator, self._utc, self._kind = " ", False, ""
        self._groups: dict[Subject, Group] = {}
        self._resolution: dict[str, float] = {"node_load1": 0.01}
        self._stamp, self._shift, self._slabs = "", 0.0, 0
        self._midnights: dict[str, float | None] = {}

    def line(self, number_: int, text: str) -> None:
        self._first = self._first or number_
        if text.startswith("#"):
            self._comment(number_, text)
        elif not text.strip():
            return
        elif not self._names:
            self.odd.note(number_, printable(text), "a line above the names of the columns")
        else:
            self._row(number_, text)

    def _comment(self, number_: int, text: str) -> None:
        found = HEADER.match(text)
        if not found:
            if "NEW LOG" in text:
                self.tasks.new_log()
            self.header.line(number_, printable(text))
            return
        self._utc, self._separator, self._kind = found[1] == "UTC", found["next"], found["first"]
        self._names = text[1:].rstrip().rstrip(self._separator).split(self._separator)
        self._groups = groups(self._names, self.header.letters)
        for group in self._groups.values():
            self._resolution.update({metric: quantum for _, (metric, _, quantum) in group.plain if quantum})
        self.tasks.begin(self._names, self.header)

    def _row(self, line: int, text: str) -> None:
        most = len(self._names) - 1 if self._kind == "PID" else -1
        cells = text.rstrip().split(self._separator, most) if self._kind == "PID" else text.split()
        if self._separator != " " and self._kind != "PID":
            cells = text.rstrip().rstrip(self._separator).split(self._separator)
        if len(cells) != len(self._names):
            self.odd.note(line, printable(text), "a row with other columns than its header; it is left out")
            return
        stamp = cells[0] if self._utc else f"{cells[0]} {cells[1]}"
        if (stamp != self._stamp or self._kind == "[") and not self._next(stamp, cells):
            self.odd.note(line, printable(text), "a row without a time; it is left out")
            return
        self._stamp = stamp
        if self._kind == "[":
            self._numbers(line, text, cells)
        elif self._kind == "PID":
            if self.tasks.row(len(self._seconds) - 1, line, text, cells):
                self._seconds.append(self._seconds[-1])
                self.tasks.row(len(self._seconds) - 1, line, text, cells)
        else:
            self._slabs += 1

    def _next(self, stamp: str, cells: list[str]) -> bool:
        """The time of a new row of the table."""
        seconds = self._time(stamp, cells)
        if seconds is None:
            return False
        zone = None if self._utc else self.header.zone
        clock = Clock.UTC if self._utc or zone is not None else Clock.LOCAL
        if self._seconds and clock is not self._clock:
            return False
        self._clock = clock
        seconds += self._shift - (zone or 0)
        if self._seconds and zone is not None and FOLD[0] < self._seconds[-1] - seconds < FOLD[1]:
            self._shift += 3600.0  # the hour comes a second time
            seconds += 3600.0
        self._seconds.append(seconds)
        return True

    def _time(self, stamp: str, cells: list[str]) -> float | None:
        if self._utc:
            return float(stamp) if UTC.match(stamp) else None
        date, clock = cells[0], cells[1]
        if date not in self._midnights:
            known = bool(_DATE.match(date))
            self._midnights[date] = date_seconds(int(date[:4]), int(date[4:6]), int(date[6:])) if known else None
        midnight, seconds = self._midnights[date], day_seconds(clock)
        return None if midnight is None or seconds is None else midnight + seconds

    def _numbers(self, line: int, text: str, cells: list[str]) -> None:
        for key, group in self._groups.items():
            values = self._shares(line, text, cells, group)
            for place, (metric, factor, _) in group.plain:
                cell = cells[place]
                value = int(cell) if cell.isdecimal() and len(cell) < 19 else number(cell)
                if value is None or value * factor > LARGEST:
                    self.odd.note(line, printable(text), "a number that is none; it is left out")
                else:
                    values[metric] = value * factor
            if values:
                rows = self._rows.get(key)
                if rows is None:
                    rows = self._rows[key] = Rows(self._room)
                rows.add(len(self._seconds) - 1, line, values, text.encode())

    def _shares(self, line: int, text: str, cells: list[str], group: Group) -> dict[str, float]:
        if not group.modes:
            return {}
        read = {mode: share(cells[place]) for place, mode in group.modes}
        parts = {mode: value for mode, value in read.items() if value is not None}
        if len(parts) != len(read) or not plausible(parts):
            self.odd.note(line, printable(text), "CPU columns that do not add up to 100 %: not used")
            return {}
        values = with_sums(parts)
        self._resolution.update(dict.fromkeys(values, 0.01))
        return values

    def records(self) -> Iterator[Record]:
        yield from self.header.facts(self.source)
        seconds = np.array(self._seconds)
        source = (self.source.member, NAME)
        times = Times(seconds, self._clock, None, self._resolution)
        for (kind, entity), rows in self._rows.items():
            yield rows.series(kind, entity, source, times)
        yield from self.tasks.records(source, seconds, self._clock, utc=self._utc)
        yield from self._odd(seconds)

    def _odd(self, seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Iterator[Problem]:
        cite = Citation(self.source.member, self._first)
        if backward := int((np.diff(seconds) < 0).sum()):
            text = "times go back: the clock was set, or parts stand in the wrong order"
            yield Problem(cite, text, reader=NAME, count=backward, hides=False)
        if self._slabs:
            text = "rows of slabs; nothing here needs them"
            yield Problem(cite, text, reader=NAME, count=self._slabs, hides=False)
        if "n" in self.header.letters:
            text = "rates are per interval, not per second (-on); they are left out"
            yield Problem(cite, text, reader=NAME, hides=False)
        if not len(seconds):
            yield Problem(cite, "no row of numbers", reader=NAME)
        yield from self.odd.problems()


def records(source: Source, lines: Lines) -> Iterator[Record]:
    """All records of one table, or of several under each other."""
    plot = Plot(source)
    for number_, text in lines:
        plot.line(number_, text)
    yield from plot.records()


def decoded(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    return ((number_, line.decode("utf-8", "replace").rstrip("\r")) for number_, line in lines)
