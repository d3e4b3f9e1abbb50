"""mpstat, iostat and pidstat (sysstat).

mpstat: CPU time by mode, for all CPUs together and for each.

    06:09:58     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
    06:09:59     all    4.00    0.00   46.50    0.00    0.00    0.00    0.00    0.00    0.00   49.50

Units: percent of the CPU, or of all. %sys is the kernel without interrupts, guests are not in %usr.
Varies: %user and an intr/s column up to 8.x, %gnice from 10.1. Other tables of -A and -I (interrupts by CPU) are not
used. Without an interval the only report is an average since boot; its header has the time of its rows.
Source: sysstat mpstat.c, 8.1 to 12.6.

iostat: the CPU line. The device tables between are recognised and not used.

    avg-cpu:  %user   %nice %system %iowait  %steal   %idle
              22.00    0.00   50.50    0.50    0.00   27.00

Units: percent of all CPUs; %system includes interrupts. The first report of a run is an average since boot (unless
started with -y). Varies: time lines before each report (-t) in the locale's form, ISO, or `Time: 11:01:52`; further
device columns. Source: sysstat iostat.c, 7.0 to 12.6.

pidstat: CPU time, page faults and memory of tasks per interval.

    06:09:50      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
    06:09:51        0     17684 311996.00      0.00  278744  212732   0.86  python3

Units: VSZ and RSS in KiB, rates per second, percent of one CPU; -1.00 means not available. With --human numbers have
suffixes and percent signs.
Varies: one table per report, or with -h one table of all columns under `# Time`, where Time is the epoch in 10.1.5 and
with -H, else a clock time. Only the first line has the date. UID is absent before 10.1.4 and with -U (then USER); with
-t the process is TGID and its threads are further rows (not used). A report whose header has the time of its rows, or
the only one under `# Time`, is an average since the start of the tasks.
Source: sysstat pidstat.c, 9.0 to 12.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from thpdiag.model import Clock, Moment, Record, Sample
from thpdiag.model.facts import zoned_moment
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import (
    MAX_COMM_CHARS,
    cpu_ratios,
    cpu_ratios_of_totals,
    is_plausible,
    process_entity,
    task_name,
)
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, parse_command, with_errors
from thpdiag.parsers._units import Column, Quantity, Readings, columns, parse_quantity, parse_share
from thpdiag.parsers.sysstat._tables import (
    AVERAGE_WORD,
    BANNER,
    CLOCK,
    DATE,
    MODES,
    TimedRow,
    Times,
    banner_facts,
    cpu_entity,
)

MPSTAT_HEADER = re.compile(rf"{CLOCK}\s+CPU\s+%us(?:e)?r\s+%nice\s+%sys\s+%iowait\s+%irq\s+%soft\s")
MPSTAT_OTHER_HEADER = re.compile(rf"{CLOCK}\s+(?:CPU|NODE)\s+\S")
MPSTAT_ROW = re.compile(rf"{CLOCK}\s+(?:all|\d{{1,5}})\s+[\d.,]+(?:\s+[\d.,]+)*\s*$")
MPSTAT_AVERAGE = re.compile(rf"{AVERAGE_WORD}\s+(?:CPU|NODE|all|\d{{1,5}})\s")
SHARE_QUANTUM = 0.0001  # two decimals of percent


@lru_cache(64)
def _column_indices(columns: tuple[str, ...]) -> Mapping[str, int]:
    """Return the index of each mode's column."""
    return {mode: columns.index(column) for column, mode in MODES.items() if column in columns}


def _mpstat_sample(
    source: Source, odd: ParseErrors, at: tuple[int, str], columns: tuple[str, ...], row: TimedRow
) -> Iterator[Sample]:
    cells = row.cells.split()
    if len(cells) != len(columns):
        odd.note(*at, "a row of mpstat with other columns than its header")
        return
    places = _column_indices(columns)
    parts = {mode: value for mode, place in places.items() if (value := parse_share(cells[place])) is not None}
    if len(parts) < len(places) or not is_plausible(parts):
        odd.note(*at, "CPU shares of mpstat that do not add up to 100 %: not used")
        return
    values = cpu_ratios(parts)
    resolution = dict.fromkeys(values, SHARE_QUANTUM)
    kind, entity = cpu_entity(cells[0])
    yield Sample(kind, values, source.cite(*at), "mpstat", entity, row.time, resolution, bool(row.average))


@with_errors("mpstat")
def read_mpstat(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host per row `all`, one per CPU for other rows; averages at the end are omitted."""
    times = Times(source=source)
    columns: tuple[str, ...] = ()
    for line, text in lines:
        if banner := BANNER.match(text):
            times.date = banner[3]
            yield from banner_facts(source, line, text)
        elif ("CPU" in text or "NODE" in text) and MPSTAT_OTHER_HEADER.match(text):
            columns = tuple(times.header(text).split()) if MPSTAT_HEADER.match(text) else ()
        elif columns and text.strip() and not MPSTAT_AVERAGE.match(text):
            if row := times.row(text):
                yield from _mpstat_sample(source, odd, (line, text), columns, row)
            else:
                odd.note(line, text, "not a line of mpstat")


MPSTAT = Parser(
    "mpstat", "mpstat tables", read_mpstat, opens=re.compile(f"{BANNER.pattern}|{MPSTAT_HEADER.pattern}"),
    continues=any_of(MPSTAT_ROW, MPSTAT_OTHER_HEADER, MPSTAT_AVERAGE, blank=True),
    confirm=any_of_first(4, MPSTAT_HEADER),
)  # fmt: skip


IOSTAT_HEADER = re.compile(r"avg-cpu:\s+%user\s+%nice\s+%sys(?:tem)?\s+%iowait\s")
IOSTAT_DEVICE = re.compile(r"Device:?\s|\s+extended device statistics|Filesystem:?\s")
IOSTAT_ROW = re.compile(r"\S*(?:\s+\d+[.,]\d+){2}(?:\s+\d+(?:[.,]\d+)?)*\s*$")
IOSTAT_TIME = re.compile(rf"(?:Time: |({DATE})[ T])({CLOCK})(Z|[+-]\d\d:?\d\d)?\s*$")


def iostat_values(columns: list[str], cells: list[str]) -> dict[str, float] | None:
    """Return the shares of a CPU line; None if they are not all shares."""
    if len(columns) != len(cells):
        return None
    shares = {column: parse_share(cell) for column, cell in zip(columns, cells, strict=True)}
    known = {column: value for column, value in shares.items() if value is not None}
    if len(known) < len(shares) or not is_plausible(known):
        return None
    return cpu_ratios_of_totals({MODES[column]: value for column, value in known.items() if column in MODES})


def _iostat_time(text: str, clock: Times) -> Moment | None:
    """Return the moment of a time line; a line without a date uses that of the clock."""
    match = IOSTAT_TIME.match(text)
    if not match:
        return None
    times = Times(match[1], source=clock.source) if match[1] else clock
    row = times.row(match[2])
    if row is None or row.time is None or not match[3]:
        return row.time if row else None
    return zoned_moment(row.time.seconds, match[3]) if row.time.clock is Clock.LOCAL else row.time


@with_errors("iostat")
def read_iostat(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host per CPU line."""
    command = parse_command(source.command, "iostat", with_value="pjgo")
    clock, time = Times(source=source), source.time
    columns: list[str] = []
    reports = 0
    for line, text in lines:
        if banner := BANNER.match(text):
            clock.date = banner[3]
            yield from banner_facts(source, line, text)
        elif IOSTAT_HEADER.match(text):
            columns = text.split()[1:]
        elif IOSTAT_TIME.match(text):
            time = _iostat_time(text, clock)
        elif columns and text.strip():
            values, reports = iostat_values(columns, text.split()), reports + 1
            columns = []
            if values is None:
                odd.note(line, text, "CPU shares of iostat that do not add up: not used")
                continue
            resolution = dict.fromkeys(values, SHARE_QUANTUM)
            boot = reports == 1 and not (command and "y" in command.options)
            yield Sample("system", values, source.cite(line, text), "iostat", (), time, resolution, boot)
            time = None


IOSTAT = Parser(
    "iostat", "iostat CPU line", read_iostat, opens=re.compile(f"{BANNER.pattern}|{IOSTAT_HEADER.pattern}"),
    continues=any_of(IOSTAT_HEADER, IOSTAT_DEVICE, IOSTAT_ROW, IOSTAT_TIME, blank=True),
    confirm=any_of_first(5, IOSTAT_HEADER),
)  # fmt: skip


PIDSTAT_HEADER = re.compile(
    rf"(?:#\s*Time|{CLOCK})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s+(?:TID\s+)?"
    r"(?:%usr|%user|minflt/s|kB_rd/s|StkSize|cswch/s|threads|prio)\s"
)
PIDSTAT_OTHER_HEADER = re.compile(rf"(?:#\s*Time|{CLOCK}|{AVERAGE_WORD})\s+(?:(?:UID|USER)\s+)?(?:PID|TGID)\s")
PIDSTAT_ROW = re.compile(rf"\s*(?:{CLOCK}|\d{{9,10}}|{AVERAGE_WORD})\s+(?:\S+\s+)?(?:\d+|-)\s+(?:-|\d)")
PIDSTAT_AVERAGE = re.compile(rf"{AVERAGE_WORD}\s")


def _number(text: str) -> Quantity | None:
    return parse_quantity(text.rstrip("%"))


def _percent(text: str) -> Quantity | None:
    number = _number(text)
    return number and Quantity(number.value / 100, number.resolution / 100)


def _kib(text: str) -> Quantity | None:
    return parse_quantity(text.rstrip("%"), 1024)  # per cell, because --human prints other units


TASK_COLUMNS = {
    **columns(dict.fromkeys(("%usr", "%user"), "process_cpu_ratio.user"), _percent),
    **columns({"%system": "process_cpu_ratio.system", "%CPU": "process_cpu_ratio"}, _percent),
    **columns({"minflt/s": "process_minor_faults_total:rate", "majflt/s": "process_major_faults_total:rate"}, _number),
    **columns({"threads": "process_threads"}, _number),
    **columns({"VSZ": "process_virtual_memory_bytes", "RSS": "process_resident_memory_bytes"}, _kib),
}


@lru_cache(64)
def _used_columns(titles: tuple[str, ...]) -> Mapping[str, Column]:
    return {title: TASK_COLUMNS[title] for title in titles if title in TASK_COLUMNS}


def _is_pidstat_line(text: str) -> bool:
    """Whether it is a line of pidstat; empty lines are between the reports."""
    return not text.strip() or bool(PIDSTAT_ROW.match(text)) or _is_pidstat_header(text)


def _is_pidstat_header(text: str) -> bool:
    """Whether it is a header of the rows, or of the averages below them."""
    return ("PID" in text or "TGID" in text) and bool(PIDSTAT_HEADER.match(text) or PIDSTAT_OTHER_HEADER.match(text))


@dataclass(slots=True)
class PidstatTable:
    """Rows under one header."""

    source: Source
    odd: ParseErrors
    times: Times
    columns: tuple[str, ...] = ()

    def row(self, line: int, text: str) -> Iterator[Sample]:
        timed = self.times.row(text)
        cells = timed.cells.split(None, len(self.columns) - 1) if timed and self.columns else []
        if timed is None or len(cells) != len(self.columns):
            self.odd.note(line, text, "a row of pidstat that does not fit its header")
            return
        named = dict(zip(self.columns, cells, strict=True))
        pid = named.get("TGID") or named.get("PID") or ""
        if not pid.isdecimal():  # a thread's row
            return
        readings, printed = Readings(), {title: cell for title, cell in named.items() if not cell.startswith("-1")}
        for title in readings.take(_used_columns(self.columns), printed):
            self.odd.note(line, text, f"an impossible number in column {title} of pidstat: not used")
        if readings.values:
            entity = process_entity(pid, _comm(named.get("Command", "").strip()))
            cite, boot = self.source.cite(line, text), bool(timed.average)
            yield Sample("process", readings.values, cite, "pidstat", entity, timed.time, readings.resolution, boot)


def _comm(command: str) -> str:
    """Return the task's name; with -l there is a command line, which may be longer than a name can be."""
    is_line = command.startswith(("/", "./", "../")) or " -" in command or len(command) > MAX_COMM_CHARS
    return task_name(command) if is_line and not command.startswith("kworker/") else command


@with_errors("pidstat")
def read_pidstat(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample per row and process; averages at the end are omitted."""
    table = PidstatTable(source, odd, Times(source=source))
    command = parse_command(source.command, "pidstat", with_value="pCGTe")
    held: list[Sample] = []  # rows of the first time under `# Time`: since boot if there is no other
    is_single = command is None or command.interval() is None
    for line, text in lines:
        if banner := BANNER.match(text):
            table.times.date = banner[3]
            yield from banner_facts(source, line, text)
        elif _is_pidstat_header(text) and not PIDSTAT_AVERAGE.match(text):
            table.columns = tuple(table.times.header(text).split())
        elif text.strip() and not PIDSTAT_AVERAGE.match(text):
            for sample in table.row(line, text):
                if is_single and not table.times.header_time and (not held or held[0].time == sample.time):
                    held.append(sample)
                    continue
                yield from held
                held, is_single = [], False
                yield sample
    yield from (replace(sample, since_boot=True) for sample in held)


PIDSTAT = Parser(
    "pidstat", "pidstat tables", read_pidstat, opens=re.compile(f"{BANNER.pattern}|{PIDSTAT_HEADER.pattern}"),
    continues=_is_pidstat_line, confirm=any_of_first(4, PIDSTAT_HEADER),
)  # fmt: skip
