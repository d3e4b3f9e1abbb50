"""A recording of collectl read in one pass: intervals from one time to the next, headers wherever they stand.

A file may hold several logs one after another (rolled, concatenated); a header of another host begins another
recording. What stands above the first time, or below a time that is damaged, has no time and is left out. The last
line of a file that ends without a line end may be cut and is left out.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thpdiag.model import Citation, Clock, Event, Moment, Problem, ProblemKind, Record
from thpdiag.model.citation import EXCERPT
from thpdiag.reader import Content, Source
from thpdiag.readers.collectl.bulk.counters import SYSTEM, Counters
from thpdiag.readers.collectl.bulk.header import Header
from thpdiag.readers.collectl.bulk.intervals import Intervals
from thpdiag.readers.collectl.bulk.lines import WholeLines
from thpdiag.readers.collectl.bulk.rows import Room, Times, printable
from thpdiag.readers.collectl.bulk.sieve import sieved
from thpdiag.readers.collectl.bulk.tasks import Tasks
from thpdiag.readers.elements.oddities import Oddities

NAME = "collectl_raw"
BOOT_APART = 60.0  # seconds between two figures of one boot
_TIME = re.compile(rb">>> (\d{9,10}\.\d{1,6}) <<<\s*$")
_BAD_TIME = "a damaged time: what stands below it, up to the next one, is left out"
_MARKS = (b">", b"#")
MOST_LINES = 100_000  # of an interval, beside those of processes
_TOO_MANY = "more lines under one time than any host has; they are left out"
_NO_TIME = "lines above the first time; they are left out"


class Recording:
    """What one host recorded."""

    def __init__(self, source: Source, first: Header) -> None:
        self.source = source
        self.odd, self.damage = Oddities(source, NAME), Oddities(source, NAME)
        room = Room()
        self.counters, self.tasks = Counters(self.odd, room), Tasks(source, self.odd, room)
        self.headers: list[tuple[int, Header]] = []  # with the number of the interval that follows
        self.epochs = array("d")
        self.lines = array("q")
        self.timed = False
        self._marker = b""
        self._lines: list[tuple[int, bytes]] = []
        self.header(first)

    def header(self, header: Header) -> None:
        self.close()
        self.tasks.boot += bool(self.headers) and _apart(self.headers[-1][1], header)
        self.headers.append((len(self.epochs), header))
        self.counters.hz = self.tasks.hz = header.hz
        self.tasks.page = header.page or 4096

    def marker(self, number: int, line: bytes) -> None:
        self.close()
        found = _TIME.match(line)
        if not found:
            self.damage.note(number, printable(line.decode("utf-8", "replace")), _BAD_TIME)
            return
        self.counters.open(len(self.epochs))
        self.epochs.append(float(found[1]))
        self.lines.append(number)
        self.timed, self._marker = True, line

    def line(self, number: int, line: bytes) -> None:
        if not self.timed:
            if line.strip() and not self.epochs:
                self.damage.note(number, printable(line.decode("utf-8", "replace")), _NO_TIME)
        elif line[:5] == b"proc:":
            self.tasks.line(number, line)
        elif len(self._lines) < MOST_LINES:
            if line:
                self._lines.append((number, line))
        else:
            self.odd.note(number, printable(line[:EXCERPT].decode("utf-8", "replace")), _TOO_MANY)

    def close(self) -> None:
        """The interval is over."""
        if self.timed:
            self.counters.take(self._lines)
            self._lines = []
            self.counters.close(self.lines[-1], self._marker.strip())
            self.tasks.close(len(self.epochs) - 1)
        self.timed = False

    def records(self) -> Iterator[Record]:
        self.close()
        yield from self._facts()
        found = Intervals(np.array(self.epochs), np.array(self.lines), self._boots())
        rank, problems = found.order(self.counters.rows.get(SYSTEM), self.source)
        times = Times(found.epochs, Clock.UTC, rank, {})
        self._boot_column()
        yield from self.counters.series((self.source.member, NAME), times)
        yield from self.tasks.series(NAME, times)
        yield from self.tasks.commands(times)
        yield from self._restarts()
        yield from (replace(p, kind=ProblemKind.DAMAGED) for p in self.damage.problems())
        yield from problems
        yield from self.odd.problems()

    def _facts(self) -> Iterator[Record]:
        """Of the first header, and of later ones what is new."""
        told: set[tuple[str, object, object]] = set()
        for _, header in self.headers:
            for fact in header.facts(self.source):
                if (key := (fact.name, fact.value, fact.labels)) not in told:
                    told.add(key)
                    yield fact

    def _boots(self) -> list[tuple[int, float]]:
        """The time of the boot from an interval on, as far as headers tell."""
        return [(at, header.booted) for at, header in self.headers if header.booted is not None]

    def _boot_column(self) -> None:
        """Boot and memory as the headers tell them, beside the counters."""
        rows = self.counters.rows.get(SYSTEM)
        if rows is None:
            return
        for name, told in (
            ("node_boot_time_seconds", [(at, h.booted) for at, h in self.headers]),
            ("node_memory_MemTotal_bytes", [(at, h.memory) for at, h in self.headers]),
        ):
            known = [(at, float(value)) for at, value in told if value is not None]
            if known and name not in rows.metrics():
                starts, values = zip(*known, strict=True)
                place = np.searchsorted(np.array(starts), np.frombuffer(rows.at, np.int64), side="right") - 1
                rows.put(name, np.where(place < 0, np.nan, np.array(values)[place]))

    def _restarts(self) -> Iterator[Event]:
        for (_, before), (_, header) in pairwise(self.headers):
            if header.booted is not None and _apart(before, header):
                cite = self.source.cite(*header.places["Booted"])
                yield Event("restart", cite, Moment(header.booted, Clock.UTC))


def _apart(before: Header, after: Header) -> bool:
    """Whether two headers tell of different boots."""
    return before.booted is not None and after.booted is not None and abs(before.booted - after.booted) > BOOT_APART


def records(source: Source, content: Content) -> Iterator[Record]:
    """All records of a member."""
    lines = WholeLines(content.chunks)
    recording = yield from _read(source, lines)
    yield from recording.records()
    yield from lines.problems(source, NAME)
    if not recording.epochs:
        yield Problem(Citation(source.member), "a recording of collectl without any counters", reader=NAME)


def _read(source: Source, lines: WholeLines) -> Generator[Record, None, Recording]:
    """The last recording of the lines; what stands above one of another host is given before."""
    recording, header = Recording(source, Header()), Header()
    for number, line in sieved(lines):
        if line[:1] not in _MARKS:
            recording.line(number, line)
        elif line.startswith(b">>>"):
            if header.places:
                recording, header = (yield from _begun(recording, header)), Header()
            recording.marker(number, line)
        elif line.startswith(b"#"):
            header.line(number, printable(line.decode("utf-8", "replace")))
        else:
            recording.line(number, line)
    if header.places:
        recording = yield from _begun(recording, header)
    return recording


def _begun(recording: Recording, header: Header) -> Generator[Record, None, Recording]:
    """The recording that goes on below a header: the same one, or that of another host once the first is given."""
    known = recording.headers[-1][1]
    if recording.epochs and known.host and header.host and known.host != header.host:
        yield from recording.records()
        return Recording(recording.source, header)
    recording.header(header)
    return recording
