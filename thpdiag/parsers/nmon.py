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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thpdiag.detect.timestamps import MONTHS
from thpdiag.model import Clock, Fact, Moment, Record, Sample, Subject
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import process_entity
from thpdiag.parsers._lines import ParseErrors, member_parser, with_errors
from thpdiag.parsers._time import date_seconds, day_seconds
from thpdiag.parsers._units import MAX_QUANTITY, Column, Readings, columns
from thpdiag.parsers.procfs import memory as proc_meminfo

NAME = "nmon"
_OPENS = re.compile(r"AAA[,;](?:progname|command|version|host|OS|date|time|interval|cpus)[,;]|ZZZZ[,;]T\d{4,9}[,;]\d")
_BEGINS = re.compile(r"AAA[,;]progname[,;]")
_LINE = re.compile(r"([A-Z][A-Z0-9_]{1,20})([,;])")
_SNAPSHOT = re.compile(r"T\d{4,9}", re.ASCII)
_DATE = re.compile(r"(\d{1,2})-([^\W\d]{3,9})\.?-(\d{4})")
_COPY = re.compile(r'BBBP[,;]\d{1,9}[,;]/proc/meminfo[,;]"?(.*?)"?$')
_OF_CPU = re.compile(r"CPU\d{2,5}$", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,6})?", re.ASCII)
_VM_NAME = re.compile(r"[a-z][a-z_0-9]{2,40}$")
MIB = 2.0**20


def parse_cell(text: str) -> float | None:
    """None for what is no number, and for -1 and -0.0, which say that there is none."""
    value = float(text) if _NUMBER.fullmatch(text) else None
    return None if value is None or value > MAX_QUANTITY else value


MODES = columns(
    {"User%": "user_total", "Sys%": "sys_total", "Wait%": "iowait", "Idle%": "idle", "Steal%": "steal"}, parse_cell
)
MEMORY = columns(
    {
        "memtotal": "node_memory_MemTotal_bytes",
        "memfree": "node_memory_MemFree_bytes",
        "cached": "node_memory_Cached_bytes",
        "buffers": "node_memory_Buffers_bytes",
        "active": "node_memory_Active_bytes",
        "inactive": "node_memory_Inactive_bytes",
        "memshared": "node_memory_Shmem_bytes",
        "swaptotal": "node_memory_SwapTotal_bytes",
        "swapfree": "node_memory_SwapFree_bytes",
        "swapcached": "node_memory_SwapCached_bytes",
    },
    parse_cell,
    MIB,
    MIB / 10,
)
QUEUES = columns({"Runnable": "node_procs_running", "Blocked": "node_procs_blocked"}, parse_cell)
RATES = {
    "pswitch": Column("node_context_switches_total:rate", parse_cell, quantum=0.1),
    "fork": Column("node_forks_total:rate", parse_cell, quantum=0.1),
}
TASK = {
    "%CPU": Column("process_cpu_ratio", parse_cell, 0.01, 0.0001),
    "%Usr": Column("process_cpu_ratio.user", parse_cell, 0.01, 0.0001),
    "%Sys": Column("process_cpu_ratio.system", parse_cell, 0.01, 0.0001),
    "Size": Column("process_virtual_memory_bytes", parse_cell, 1024),
    "ResSet": Column("process_resident_memory_bytes", parse_cell, 1024),
    "MinorFault": Column("process_minor_faults_total:rate", parse_cell, quantum=1),
    "MajorFault": Column("process_major_faults_total:rate", parse_cell, quantum=1),
}
# of VM; a kernel may have other names than nmon for the rest
ALWAYS = frozenset({"pgpgin", "pgpgout", "pswpin", "pswpout", "pgfree", "pgactivate", "pgfault", "pgmajfault"})
Cells = Mapping[str, str]


def _cpu(section: str, cells: Cells, found: Readings, *, first: bool) -> Subject | None:
    """CPU_ALL or CPUnnn, which counts from 1; None if the shares do not add up."""
    read = Readings()
    read.take(MODES, cells)
    parts = {mode: value / 100 for mode, value in read.values.items()}
    if not {"user_total", "sys_total", "idle"} <= parts.keys() or not 0.9 < sum(parts.values()) <= 1.05:
        return None
    found.values |= {f"cpu_ratio.{mode}": min(value, 1.0) for mode, value in parts.items()}
    found.values["cpu_ratio.busy"] = busy = min(parts["user_total"] + parts["sys_total"], 1.0)
    found.resolution |= dict.fromkeys(found.values, 0.001)
    if busy:
        found.values["cpu_ratio.sys_share"] = min(parts["sys_total"] / busy, 1.0)
    return ("system", ()) if section == "CPU_ALL" else ("cpu", (("cpu", str(int(section[3:]) - 1)),))


def _memory(section: str, cells: Cells, found: Readings, *, first: bool) -> Subject:
    found.take(MEMORY, cells)
    return "system", ()


def _processes(section: str, cells: Cells, found: Readings, *, first: bool) -> Subject:
    """In the first snapshot the rates are 0 whatever happened."""
    found.take(QUEUES if first else QUEUES | RATES, cells)
    return "system", ()


def _task(section: str, cells: Cells, found: Readings, *, first: bool) -> Subject | None:
    """None without a pid."""
    pid = cells.get("+PID", "").lstrip("0")
    if not pid.isdecimal() or len(pid) > 10:
        return None
    found.take(TASK, cells)
    return "process", process_entity(pid, cells.get("Command", ""))


Section = Callable[..., Subject | None]
SECTIONS: Mapping[str, Section] = {"CPU_ALL": _cpu, "MEM": _memory, "PROC": _processes, "TOP": _task, "VM": _memory}
BY_TASK = frozenset({"TOP"})  # the pid stands before the snapshot


def _midnight(text: str) -> float | None:
    """20-NOV-2026."""
    found = _DATE.match(text)
    month = MONTHS.get(found[2].lower()[:3]) if found else None
    return date_seconds(int(found[3]), month, int(found[1])) if found and month else None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a section."""

    number: int
    text: str
    section: str
    words: Sequence[str]

    @property
    def snapshot(self) -> str:
        return self.words[1] if self.section in BY_TASK and len(self.words) > 1 else self.words[0]

    @property
    def cells(self) -> Sequence[str]:
        return self.words if self.section in BY_TASK else self.words[1:]


@dataclass(slots=True)
class Recording:
    """Lines of one file. Rows of snapshots whose time is not known yet, and those of VM, wait for the end."""

    source: Source
    odd: ParseErrors
    separator: str = ","
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    times: dict[str, Moment] = field(default_factory=dict)
    midnight: float | None = None
    start: float | None = None
    planned: tuple[int, int, str] = (0, 0, "")  # snapshots, and the line that says so
    waiting: list[Row] = field(default_factory=list)
    paging: list[Row] = field(default_factory=list)
    copies: list[list[tuple[int, str]]] = field(default_factory=list)

    def line(self, number: int, text: str) -> Iterator[Record]:
        found = _LINE.match(text)
        if not found:
            self.odd.note(number, text, "not a line of nmon")
            return
        section, self.separator, rest = found[1], found[2], text[found.end() :]
        if section == "AAA":
            yield from self._read_about(number, text, rest)
        elif section == "ZZZZ":
            self._time(number, text, rest)
        elif section == "BBBP":
            if copied := _COPY.match(text):
                if copied[1].startswith("MemTotal:") or not self.copies:
                    self.copies.append([])
                self.copies[-1] += [(number, copied[1])] if copied[1] else []
        elif section in SECTIONS or _OF_CPU.match(section):
            yield from self._row(Row(number, text, section, rest.split(self.separator)))

    def _read_about(self, number: int, text: str, rest: str) -> Iterator[Record]:
        key, _, value = rest.partition(self.separator)
        words = value.split(self.separator)
        cite = self.source.cite(number, text)
        if key == "date":
            self.midnight = _midnight(value)
        elif key == "time":
            self.start = day_seconds(value.replace(".", ":"))
        elif key == "snapshots" and words[0].isdecimal():
            self.planned = int(words[0][:9]), number, text
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
            self.odd.note(number, text, "an invalid time of nmon")
        elif midnight is None:
            self.times[snapshot] = Moment(seconds, Clock.DAY)
        else:
            self.times[snapshot] = Moment(midnight + seconds, Clock.LOCAL)

    def _row(self, row: Row) -> Iterator[Record]:
        if not _SNAPSHOT.fullmatch(row.snapshot):
            if not row.words[0].isdecimal():
                self.columns[row.section] = row.cells
        elif row.section == "VM":
            self.paging.append(row)
        elif row.snapshot in self.times:
            yield from self._sample(row)
        else:
            self.waiting.append(row)

    def _sample(self, row: Row) -> Iterator[Record]:
        titles, cells = self.columns.get(row.section), row.cells
        if titles is None or not -2 <= len(cells) - len(titles) <= 2:
            text = "a row of nmon with other columns than its section's first line, or without one"
            self.odd.note(row.number, row.text, text)
            return
        if self.separator == ";":
            cells = [cell.replace(",", ".") for cell in cells]
        named, found = dict(zip(titles, cells, strict=False)), Readings()
        subject = SECTIONS.get(row.section, _cpu)(row.section, named, found, first=row.words[0] == "T0001")
        if subject is None:
            text = f"an impossible row in nmon's section {row.section.rstrip('0123456789')}: not used"
            self.odd.note(row.number, row.text, text)
        elif found.values:
            cite, time = self.source.cite(row.number, row.text), self.times.get(row.snapshot)
            yield Sample(subject[0], found.values, cite, NAME, subject[1], time, found.resolution)

    def end(self) -> Iterator[Record]:
        """What had to wait."""
        for row in self.waiting:
            if self._has_time(row):
                yield from self._sample(row)
        planned, number, text = self.planned
        if len(self.times) < planned:
            taken = f"{len(self.times):,} of {planned:,} snapshots are here"
            self.odd.note(number, text, f"{taken}: the file was copied while nmon ran, or is cut")
        yield from self._paging_rows()
        yield from self._copied_meminfo()

    def _paging_rows(self) -> Iterator[Record]:
        """VM: gauges in pages, the other columns are counts of the interval since the snapshot before.

        Columns that are 0 in every row may be names that the kernel does not have.
        """
        titles, before = self.columns.get("VM", ()), ""
        counted = {title for row in self.paging for title, cell in zip(titles, row.cells, strict=False)
                   if cell not in ("0", "-1")} | ALWAYS  # fmt: skip
        for row in sorted(self.paging, key=lambda row: int(row.snapshot[1:])):
            time, last = self.times.get(row.snapshot), self.times.get(before)
            follows = before and int(row.snapshot[1:]) == int(before[1:]) + 1
            seconds = time.minus(last) if time and last and follows else None
            before, found = row.snapshot, Readings()
            for title, cell in zip(titles, row.cells, strict=False):
                value = parse_cell(cell) if title in counted and _VM_NAME.match(title) else None
                if value is None:
                    continue
                if title.startswith("nr_"):
                    found.values[f"node_vmstat_{title}"] = value
                elif seconds and seconds > 0:
                    name = "node_allocstall_total:rate" if title == "allocstall" else f"node_vmstat_{title}:rate"
                    found.values[name], found.resolution[name] = value / seconds, 1 / seconds
            if len(row.cells) != len(titles):
                text = "a row of nmon with other columns than its section's first line"
                self.odd.note(row.number, row.text, text)
            elif self._has_time(row) and found.values:
                cite = self.source.cite(row.number, row.text)
                yield Sample("system", found.values, cite, NAME, (), time, found.resolution)

    def _has_time(self, row: Row) -> bool:
        """Whether a row may stand: without a time it would take the times of all others."""
        if row.snapshot not in self.times and self.times:
            self.odd.note(row.number, row.text, "a row of nmon whose snapshot has no time: not used")
        return row.snapshot in self.times or not self.times

    def _copied_meminfo(self) -> Iterator[Record]:
        """/proc/meminfo as it was before the first snapshot, and behind the last."""
        last = max((t for t in self.times.values() if t.clock is Clock.LOCAL), default=None)
        begun = None
        if self.midnight is not None and self.start is not None:
            begun = Moment(self.midnight + self.start, Clock.LOCAL)
        for place, lines in enumerate(self.copies):
            source = self.source._replace(time=last if place else begun, path="")
            for record in proc_meminfo.parse_meminfo(source, lines):
                yield replace(record, reader=NAME) if isinstance(record, Sample) else record


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the host, of each CPU and of tasks in TOP per snapshot; facts of the host."""
    recording = Recording(source, odd)
    for number, text in lines:
        if _BEGINS.match(text) and recording.times:  # files appended to each other: snapshots count from T0001 again
            yield from recording.end()
            recording = Recording(source, odd)
        if text.strip():
            yield from recording.line(number, text)
    yield from recording.end()


PARSER = Parser(NAME, "nmon recording", read, opens=_OPENS, continues=_LINE.match)
BULK_PARSER = member_parser(
    PARSER, lambda _path, head, _size: b"nmon" in head and head.count(b"\nAAA") > 2, opens=re.compile(rb"AAA[,;]")
)
