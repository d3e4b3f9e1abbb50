"""Recordings of nmon -f: sections of comma-separated lines that share snapshot numbers.

    AAA,host,node1
    CPU_ALL,CPU Total node1,User%,Sys%,Wait%,Idle%,Steal%,Busy,CPUs
    ZZZZ,T0002,09:54:10,20-NOV-2026
    CPU_ALL,T0002,87.6,12.3,0.0,0.0,0.1,,2

The first line of a section names its columns; ZZZZ has the time of a snapshot (local time). The file may be sorted, so
that the ZZZZ lines are at its end. nmon copies files and commands (BBBP) before the first snapshot, newer versions also
after the last one; of these /proc/meminfo is read.
Units: percent, User% includes nice and Sys% interrupts; MEM in MiB; VM in counts per interval under the kernel's names
of 2009, so counters that the kernel has renamed are 0 throughout and are left out; PROC per second; TOP in KiB, percent
of one CPU and faults per second, only for tasks that used CPU time. -1 and -0.0 mean that there is no value.
Varies: Steal% from 14; Blocked was a column Swap-in without meaning; `;` with decimal commas in some locales.
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
_FIRST_LINE = re.compile(r"AAA[,;]progname[,;]")
_LINE = re.compile(r"([A-Z][A-Z0-9_]{1,20})([,;])")
_SNAPSHOT = re.compile(r"T\d{4,9}", re.ASCII)
_DATE = re.compile(r"(\d{1,2})-([^\W\d]{3,9})\.?-(\d{4})")
_COPY = re.compile(r'BBBP[,;]\d{1,9}[,;]/proc/meminfo[,;]"?(.*?)"?$')
_CPU_SECTION = re.compile(r"CPU\d{2,5}$", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,6})?", re.ASCII)
_VM_NAME = re.compile(r"[a-z][a-z_0-9]{2,40}$")
MIB = 2.0**20


def parse_cell(text: str) -> float | None:
    """Parse a number; None for anything else, and for -1 and -0.0, which mean that there is no value."""
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
# Columns of VM whose names have not changed in the kernel, so that a 0 in them is a value.
STABLE_VM_NAMES = frozenset({"pgpgin", "pgpgout", "pswpin", "pswpout", "pgfree", "pgactivate", "pgfault", "pgmajfault"})
Cells = Mapping[str, str]


def _parse_cpu(section: str, cells: Cells, readings: Readings, *, first: bool) -> Subject | None:
    """Parse CPU_ALL or CPUnnn, which counts from 1; return None if the shares do not add up."""
    percent = Readings()
    percent.take(MODES, cells)
    parts = {mode: value / 100 for mode, value in percent.values.items()}
    if not {"user_total", "sys_total", "idle"} <= parts.keys() or not 0.9 < sum(parts.values()) <= 1.05:
        return None
    readings.values |= {f"cpu_ratio.{mode}": min(value, 1.0) for mode, value in parts.items()}
    readings.values["cpu_ratio.busy"] = busy = min(parts["user_total"] + parts["sys_total"], 1.0)
    readings.resolution |= dict.fromkeys(readings.values, 0.001)
    if busy:
        readings.values["cpu_ratio.sys_share"] = min(parts["sys_total"] / busy, 1.0)
    return ("system", ()) if section == "CPU_ALL" else ("cpu", (("cpu", str(int(section[3:]) - 1)),))


def _parse_memory(section: str, cells: Cells, readings: Readings, *, first: bool) -> Subject:
    readings.take(MEMORY, cells)
    return "system", ()


def _parse_queues(section: str, cells: Cells, readings: Readings, *, first: bool) -> Subject:
    """Parse PROC. In the first snapshot the rates are always 0 and are not used."""
    readings.take(QUEUES if first else QUEUES | RATES, cells)
    return "system", ()


def _parse_task(section: str, cells: Cells, readings: Readings, *, first: bool) -> Subject | None:
    """Parse TOP; return None without a pid."""
    pid = cells.get("+PID", "").lstrip("0")
    if not pid.isdecimal() or len(pid) > 10:
        return None
    readings.take(TASK, cells)
    return "process", process_entity(pid, cells.get("Command", ""))


SECTIONS: Mapping[str, Callable[..., Subject | None]] = {
    "CPU_ALL": _parse_cpu, "MEM": _parse_memory, "PROC": _parse_queues, "TOP": _parse_task, "VM": _parse_memory
}  # fmt: skip
TASK_SECTION = "TOP"  # its rows have the pid before the snapshot


def _midnight(text: str) -> float | None:
    """Return the midnight of a date such as 20-NOV-2026."""
    match = _DATE.match(text)
    month = MONTHS.get(match[2].lower()[:3]) if match else None
    return date_seconds(int(match[3]), month, int(match[1])) if match and month else None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a section."""

    number: int
    text: str
    section: str
    words: Sequence[str]

    @property
    def snapshot(self) -> str:
        return self.words[1] if self.section == TASK_SECTION and len(self.words) > 1 else self.words[0]

    @property
    def cells(self) -> Sequence[str]:
        return self.words if self.section == TASK_SECTION else self.words[1:]


@dataclass(slots=True)
class Recording:
    """Lines of one file. Rows of VM, and rows whose snapshot has no time yet, are processed at the end."""

    source: Source
    errors: ParseErrors
    separator: str = ","
    columns: dict[str, Sequence[str]] = field(default_factory=dict)
    times: dict[str, Moment] = field(default_factory=dict)
    midnight: float | None = None
    start: float | None = None
    planned: tuple[int, int, str] = (0, 0, "")  # number of snapshots, and the line that states it
    waiting: list[Row] = field(default_factory=list)
    paging: list[Row] = field(default_factory=list)
    copies: list[list[tuple[int, str]]] = field(default_factory=list)

    def parse_line(self, number: int, text: str) -> Iterator[Record]:
        match = _LINE.match(text)
        if not match:
            self.errors.note(number, text, "not a line of nmon")
            return
        section, self.separator, rest = match[1], match[2], text[match.end() :]
        if section == "AAA":
            yield from self._parse_about(number, text, rest)
        elif section == "ZZZZ":
            self._parse_time(number, text, rest)
        elif section == "BBBP":
            if copy := _COPY.match(text):
                if copy[1].startswith("MemTotal:") or not self.copies:
                    self.copies.append([])
                self.copies[-1] += [(number, copy[1])] if copy[1] else []
        elif section in SECTIONS or _CPU_SECTION.match(section):
            yield from self._parse_row(Row(number, text, section, rest.split(self.separator)))

    def _parse_about(self, number: int, text: str, rest: str) -> Iterator[Record]:
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

    def _parse_time(self, number: int, text: str, rest: str) -> None:
        snapshot, clock, date = (*rest.split(self.separator), "", "")[:3]
        seconds = day_seconds(clock)
        midnight = _midnight(date) if date else self.midnight
        if seconds is None or not _SNAPSHOT.fullmatch(snapshot):
            self.errors.note(number, text, "an invalid time of nmon")
        elif midnight is None:
            self.times[snapshot] = Moment(seconds, Clock.DAY)
        else:
            self.times[snapshot] = Moment(midnight + seconds, Clock.LOCAL)

    def _parse_row(self, row: Row) -> Iterator[Record]:
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
            self.errors.note(row.number, row.text, text)
            return
        if self.separator == ";":
            cells = [cell.replace(",", ".") for cell in cells]
        by_title, readings = dict(zip(titles, cells, strict=False)), Readings()
        parse_section = SECTIONS.get(row.section, _parse_cpu)
        subject = parse_section(row.section, by_title, readings, first=row.words[0] == "T0001")
        if subject is None:
            text = f"an impossible row in nmon's section {row.section.rstrip('0123456789')}: not used"
            self.errors.note(row.number, row.text, text)
        elif readings.values:
            cite, time = self.source.cite(row.number, row.text), self.times.get(row.snapshot)
            yield Sample(subject[0], readings.values, cite, NAME, subject[1], time, readings.resolution)

    def finish(self) -> Iterator[Record]:
        """Yield the records of the postponed rows and of the copied files."""
        for row in self.waiting:
            if self._check_time(row):
                yield from self._sample(row)
        planned, number, text = self.planned
        if len(self.times) < planned:
            taken = f"{len(self.times):,} of {planned:,} snapshots are here"
            self.errors.note(number, text, f"{taken}: the file was copied while nmon ran, or is cut")
        yield from self._paging_rows()
        yield from self._copied_meminfo()

    def _paging_rows(self) -> Iterator[Record]:
        """Yield the samples of VM: gauges in pages, and counts per interval since the previous snapshot.

        A column that is 0 in every row may have a name that the kernel does not use, and is left out.
        """
        titles, previous = self.columns.get("VM", ()), ""
        counted = {title for row in self.paging for title, cell in zip(titles, row.cells, strict=False)
                   if cell not in ("0", "-1")} | STABLE_VM_NAMES  # fmt: skip
        for row in sorted(self.paging, key=lambda row: int(row.snapshot[1:])):
            time, last = self.times.get(row.snapshot), self.times.get(previous)
            is_next = previous and int(row.snapshot[1:]) == int(previous[1:]) + 1
            seconds = time.minus(last) if time and last and is_next else None
            previous, readings = row.snapshot, Readings()
            for title, cell in zip(titles, row.cells, strict=False):
                value = parse_cell(cell) if title in counted and _VM_NAME.match(title) else None
                if value is None:
                    continue
                if title.startswith("nr_"):
                    readings.values[f"node_vmstat_{title}"] = value
                elif seconds and seconds > 0:
                    name = "node_allocstall_total:rate" if title == "allocstall" else f"node_vmstat_{title}:rate"
                    readings.values[name], readings.resolution[name] = value / seconds, 1 / seconds
            if len(row.cells) != len(titles):
                text = "a row of nmon with other columns than its section's first line"
                self.errors.note(row.number, row.text, text)
            elif self._check_time(row) and readings.values:
                cite = self.source.cite(row.number, row.text)
                yield Sample("system", readings.values, cite, NAME, (), time, readings.resolution)

    def _check_time(self, row: Row) -> bool:
        """Return False, and note it, if only this row has no time: it would deprive all other rows of theirs."""
        if row.snapshot not in self.times and self.times:
            self.errors.note(row.number, row.text, "a row of nmon whose snapshot has no time: not used")
        return row.snapshot in self.times or not self.times

    def _copied_meminfo(self) -> Iterator[Record]:
        """Yield /proc/meminfo before the first snapshot and after the last."""
        last = max((t for t in self.times.values() if t.clock is Clock.LOCAL), default=None)
        first = None
        if self.midnight is not None and self.start is not None:
            first = Moment(self.midnight + self.start, Clock.LOCAL)
        for index, lines in enumerate(self.copies):
            source = self.source._replace(time=last if index else first, path="")
            for record in proc_meminfo.parse_meminfo(source, lines):
                yield replace(record, reader=NAME) if isinstance(record, Sample) else record


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield samples per snapshot of the host, each CPU and the tasks in TOP; and facts of the host."""
    recording = Recording(source, errors)
    for number, text in lines:
        if _FIRST_LINE.match(text) and recording.times:  # in appended files, snapshots restart at T0001
            yield from recording.finish()
            recording = Recording(source, errors)
        if text.strip():
            yield from recording.parse_line(number, text)
    yield from recording.finish()


PARSER = Parser(NAME, "nmon recording", read, opens=_OPENS, continues=_LINE.match)
BULK_PARSER = member_parser(
    PARSER, lambda _path, head, _size: b"nmon" in head and head.count(b"\nAAA") > 2, opens=re.compile(rb"AAA[,;]")
)
