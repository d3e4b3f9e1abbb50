"""nmon -f: sections as lines of comma-separated values, joined by the number of the snapshot.

    AAA,host,node1
    CPU_ALL,CPU Total node1,User%,Sys%,Wait%,Idle%,Steal%,Busy,CPUs
    ZZZZ,T0002,09:54:10,20-NOV-2026
    CPU_ALL,T0002,87.6,12.3,0.0,0.0,0.1,,2

The first line of a section names its columns, ZZZZ says when a snapshot was taken (local time). The file may be sorted,
so that ZZZZ stands at its end. Before the first snapshot nmon copies files and commands (BBBP), newer versions also
behind the last one: of these /proc/meminfo is read.
Units: percent, with nice in User% and interrupts in Sys%; MEM in MiB; VM in counts of the interval under the kernel's
names of 2009, so that what a kernel calls otherwise is 0 throughout and left out; PROC per second; TOP in KiB, percent
of one CPU and faults per second, only for tasks that used CPU time. -1 and -0.0 stand for what there is not.
Varies: Steal% from 14, Blocked was a column Swap-in without meaning; `;` with decimal commas in some countries.
Source: nmon lmon.c, 13g to 16n; the units of VM and TOP were measured with 16n.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from thpdiag.bundle.stamps import MONTHS
from thpdiag.model import Clock, Fact, Moment, Record, Sample
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source
from thpdiag.readers.elements.daytime import date_seconds, day_seconds
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.whole_member import whole
from thpdiag.readers.nmon import sections
from thpdiag.readers.procfs import meminfo as proc_meminfo

NAME = "nmon"
_OPENS = re.compile(r"AAA[,;](?:progname|command|version|host|OS|date|time|interval|cpus)[,;]|ZZZZ[,;]T\d{4,9}[,;]\d")
_BEGINS = re.compile(r"AAA[,;]progname[,;]")
_LINE = re.compile(r"([A-Z][A-Z0-9_]{1,20})([,;])")
_SNAPSHOT = re.compile(r"T\d{4,9}", re.ASCII)
_DATE = re.compile(r"(\d{1,2})-([^\W\d]{3,9})\.?-(\d{4})")
_COPY = re.compile(r'BBBP[,;]\d{1,9}[,;]/proc/meminfo[,;]"?(.*?)"?$')
_OF_CPU = re.compile(r"CPU\d{2,5}$", re.ASCII)
FACTS = {"host": "host.name", "cpus": "cpu.count"}

Row = tuple[int, str]


def _midnight(text: str) -> float | None:
    """20-NOV-2026."""
    found = _DATE.match(text)
    month = MONTHS.get(found[2].lower()[:3]) if found else None
    return date_seconds(int(found[3]), month, int(found[1])) if found and month else None


@dataclass(slots=True)
class Recording:
    """Lines of one file. Rows of snapshots whose time is not known yet, and those of VM, wait for the end."""

    source: Source
    odd: Oddities
    separator: str = ","
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    times: dict[str, Moment] = field(default_factory=dict)
    midnight: float | None = None
    start: float | None = None
    waiting: list[Row] = field(default_factory=list)
    paging: list[Row] = field(default_factory=list)
    copies: list[list[Row]] = field(default_factory=list)

    def line(self, number: int, text: str) -> Iterator[Record]:
        section, self.separator, rest = _split(text)
        if section == "AAA":
            yield from self._about(number, text, rest)
        elif section == "ZZZZ":
            self._time(number, text, rest)
        elif section == "BBBP":
            if copied := _COPY.match(text):
                self._copy(number, copied[1])
        elif section in sections.BY_NAME or _OF_CPU.match(section):
            yield from self._row(number, text, section, rest)
        elif not _LINE.match(text):
            self.odd.note(number, text, "a line that is none of nmon's")

    def _about(self, number: int, text: str, rest: str) -> Iterator[Record]:
        key, _, value = rest.partition(self.separator)
        words = value.split(self.separator)
        cite = self.source.cite(number, text)
        if key == "date":
            self.midnight = _midnight(value)
        elif key == "time":
            self.start = day_seconds(value.replace(".", ":"))
        elif key == "host" and value:
            yield Fact("host.name", value, cite)
        elif key == "cpus" and words[0].isdecimal() and 0 < int(words[0][:6]) < 100_000:
            yield Fact("cpu.count", int(words[0][:6]), cite)
        elif key == "OS" and words[0] == "Linux" and len(words) > 1:
            yield Fact("kernel.release", words[1], cite)
            if len(words) > 3:
                yield Fact("kernel.arch", words[-1], cite)

    def _time(self, number: int, text: str, rest: str) -> None:
        snapshot, clock, date = (*rest.split(self.separator), "", "")[:3]
        seconds = day_seconds(clock)
        midnight = _midnight(date) if date else self.midnight
        if seconds is None or not _SNAPSHOT.fullmatch(snapshot):
            self.odd.note(number, text, "a time of nmon that is none")
        elif midnight is None:
            self.times[snapshot] = Moment(seconds, Clock.DAY)
        else:
            self.times[snapshot] = Moment(midnight + seconds, Clock.LOCAL)

    def _copy(self, number: int, text: str) -> None:
        if text.startswith("MemTotal:") or not self.copies:
            self.copies.append([])
        if text:
            self.copies[-1].append((number, text))

    def _row(self, number: int, text: str, section: str, rest: str) -> Iterator[Record]:
        words = rest.split(self.separator)
        snapshot = words[1] if section in sections.BY_TASK and len(words) > 1 else words[0]
        if not _SNAPSHOT.fullmatch(snapshot):
            if not words[0].isdecimal():
                self.columns[section] = words if section in sections.BY_TASK else words[1:]
        elif section == "VM":
            self.paging.append((number, text))
        elif snapshot in self.times:
            yield from self._sample(number, text, section, words, self.times[snapshot])
        else:
            self.waiting.append((number, text))

    def _sample(
        self, number: int, text: str, section: str, words: Sequence[str], time: Moment | None
    ) -> Iterator[Record]:
        columns = self.columns.get(section)
        cells = words if section in sections.BY_TASK else words[1:]
        if columns is None or len(cells) > len(columns) + 2 or len(cells) < len(columns) - 2:
            self.odd.note(
                number, text, "a row of nmon with other columns than its section's first line, or without one"
            )
            return
        if self.separator == ";":
            cells = [cell.replace(",", ".") for cell in cells]
        named = dict(zip(columns, cells, strict=False))
        made = sections.BY_NAME.get(section, sections.cpu)(section, named, first=words[0] == "T0001")
        if made is None:
            self.odd.note(
                number, text, f"a row of nmon's section {section.rstrip('0123456789')} that cannot be: not used"
            )
        elif made.values:
            cite = self.source.cite(number, text)
            yield Sample(made.kind, made.values, cite, NAME, made.entity, time, made.resolution)

    def end(self) -> Iterator[Record]:
        """What had to wait."""
        for number, text in self.waiting:
            section, self.separator, rest = _split(text)
            words = rest.split(self.separator)
            time = self.times.get(words[1] if section in sections.BY_TASK else words[0])
            if self._dated(number, text, time):
                yield from self._sample(number, text, section, words, time)
        yield from self._paged()
        yield from self._copied()

    def _paged(self) -> Iterator[Record]:
        """VM: columns that are 0 in every row may be names that the kernel does not have."""
        columns = self.columns.get("VM", ())
        rows = sorted(((number, text, *_cells(text)) for number, text in self.paging), key=lambda row: int(row[2][1:]))
        dead = sections.never_counted(columns, [cells for *_, cells in rows])
        before, last = "", None
        for number, text, snapshot, cells in rows:
            time = self.times.get(snapshot)
            follows = before and int(snapshot[1:]) == int(before[1:]) + 1
            seconds = time.minus(last) if time and last and follows else None
            before, last = snapshot, time
            found = sections.paging({k: v for k, v in zip(columns, cells, strict=False) if k not in dead}, seconds)
            if len(cells) != len(columns):
                self.odd.note(number, text, "a row of nmon with other columns than its section's first line")
            elif self._dated(number, text, time) and found.values:
                cite = self.source.cite(number, text)
                yield Sample("system", found.values, cite, NAME, (), time, found.resolution)

    def _dated(self, number: int, text: str, time: Moment | None) -> bool:
        """Whether a row may stand: without a time it would take the times of all others."""
        if time is None and self.times:
            self.odd.note(number, text, "a row of nmon whose snapshot has no time: not used")
        return time is not None or not self.times

    def _copied(self) -> Iterator[Record]:
        """/proc/meminfo as it was before the first snapshot, and behind the last."""
        last = max((t for t in self.times.values() if t.clock is Clock.LOCAL), default=None)
        begun = None
        if self.midnight is not None and self.start is not None:
            begun = Moment(self.midnight + self.start, Clock.LOCAL)
        for place, lines in enumerate(self.copies):
            for record in proc_meminfo.read(replace(self.source, time=last if place else begun, path=""), lines):
                yield replace(record, reader=NAME) if isinstance(record, Sample) else record


def _split(text: str) -> tuple[str, str, str]:
    """Section, separator, rest."""
    found = _LINE.match(text)
    return (found[1], found[2], text[found.end() :]) if found else (text, ",", "")


def _cells(text: str) -> tuple[str, list[str]]:
    """Snapshot and values of a row."""
    _, separator, rest = _split(text)
    snapshot, *cells = rest.split(separator)
    return snapshot, cells


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Samples of the host, of each CPU and of tasks in TOP per snapshot; facts of the host."""
    odd = Oddities(source, NAME)
    recording = Recording(source, odd)
    for number, text in lines:
        if _BEGINS.match(text) and recording.times:  # files appended to each other: snapshots count from T0001 again
            yield from recording.end()
            recording = Recording(source, odd)
        if text.strip():
            yield from recording.line(number, text)
    yield from recording.end()
    yield from odd.problems()


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return head.startswith((b"AAA,", b"AAA;")) and b"nmon" in head and head.count(b"\nAAA") > 2


def _whole(source: Source, content: Content) -> Iterator[Record | Foreign]:
    return whole(source, content, NAME, read)


READER = Reader(NAME, "nmon recording", read, opens=_OPENS, continues=_LINE.match)
BULK = BulkReader(NAME, READER.title, _claims, _whole)
