"""Shared parts of the parsers of sysstat: the first line with host and date, rows that begin with a time, columns.

Dates and times depend on the locale: `11/20/26`, `20.11.2026`, `2026-11-20` (S_TIME_FORMAT=ISO), `09:48:57`,
`09:48:57 AM`, `09:48:57 AM UTC` (India), `09时48分57秒`. A row has no date: after midnight the clock starts again.
Units, the same for sar, sadf and sysstat's own files: %… percent, kb… and pgpgin/s KiB, …/s per second, ldavg tasks.
kbmemused of -r changed its meaning in 11.6.4 and is not used, nor is -H: hugetlbfs, in units of a page size that is not
in the file. CPU time of -u has interrupts in %system; -u ALL and -A split it. Columns that are not named here are not
used. The columns depend on the version and on additions of distributions: the header decides.
Source: sysstat common.c (print_gal_header), activity.c (hdr_line), pr_stats.c, 9.1.5 to 12.7; glibc locales; kernel
Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Clock, Entity, Fact, Moment, Subject
from thpdiag.model.parser import Source
from thpdiag.parsers._cpu import cpu_ratios, cpu_ratios_of_totals, is_plausible
from thpdiag.parsers._time import DAY, DayClock, date_seconds, day_seconds
from thpdiag.parsers._units import parse_number, parse_quantity

DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\.?|\d{4}[年년.] ?\d{1,2}[月월.] ?\d{1,2}[日일.]"
BANNER = re.compile(  # groups: release, host, date, machine, number of CPUs
    rf"Linux (\S{{1,80}}) \((\S{{0,255}})\)\s+({DATE})"
    r"(?:\s+_(\S{1,40})_)?(?:\s+\((\d{1,5}) CPUs?\))?\s*$"
)
_DAYTIME = r"\d{1,2}[:.時时시] ?\d\d[:.分분] ?\d\d[秒초]?"
_AM_PM = r"[AaPp]\.?[Mm]\.?"
_ZONE = r"(?!CPU|UID|PID|TGID|NODE|INTR|IFACE|DEV|TTY|BUS|FAN|TEMP|USER|LINUX|COM)[A-Z]{3,5}"
CLOCK = rf"{_DAYTIME}(?:\s{_AM_PM})?(?:\s{_ZONE}(?=\s|$))?"
AVERAGE_WORD = r"[^\W\d][^\s:]{0,20}\s?:"  # in the locale's language: `Average:`, `Moyenne :`
AVERAGE = re.compile(rf"{AVERAGE_WORD}\s+\S")
_TIME = re.compile(rf"\s*(?:({_DAYTIME})(?:\s({_AM_PM}))?(?:\s({_ZONE}))?|(\d{{9,10}}))(?=\s|$)", re.ASCII)
_NUMBERS = re.compile(r"\d+", re.ASCII)
_DAY_FILE = re.compile(r"(?:^|/)sar?(?:(\d{4})(\d\d))?(\d\d)(?:[._-][^/]*)?$", re.ASCII)
UTC_ZONES = frozenset(("UTC", "GMT"))  # the only abbreviations of zones that are unambiguous
_MAX_AGE_SECONDS = 40 * DAY  # recordings are kept for a month


def first_midnight(date: str, half: str, source: Source | None = None) -> float | None:
    """Return midnight of the first line's date in any locale's form, None if it is ambiguous.

    `20.11.2026` is day first. `05/06/26` may be two days: the name of the file (sarDD) decides, then a time line above,
    then the locale if it is known: C for sosreport's commands, en_US for a 12-hour clock with a year of four digits.
    """
    parts = _NUMBERS.findall(date)
    if len(parts) != 3:
        return None
    first, second, third = (int(part) for part in parts)
    if len(parts[0]) == 4:
        return date_seconds(first, second, third)
    year = third + 2000 if len(parts[2]) == 2 else third
    days = {"day": date_seconds(year, second, first), "month": date_seconds(year, first, second)}
    if "." in date:
        return days["day"]
    possible = {day for day in days.values() if day is not None}
    if len(possible) < 2:
        return next(iter(possible), None)
    is_en_us = bool(half) and len(parts[2]) == 4
    by_locale = days["month"] if is_en_us or (source and source.path.startswith("sos_commands/")) else None
    return _day_by_context(possible, source) or by_locale


def _day_by_context(days: set[float], source: Source | None) -> float | None:
    """Return the day that the file's name or a time line above selects."""
    if source is None:
        return None
    if name := _DAY_FILE.search(source.path or source.member):
        named = [day for day in days if _day_of_name(name, day) == day // DAY]
        if len(named) == 1:
            return named[0]
    if source.time is not None and source.time.clock in (Clock.UTC, Clock.LOCAL):
        now = source.time.seconds
        near = sorted((abs(now - day), day) for day in days if -_MAX_AGE_SECONDS < day - now < 2 * DAY)
        return near[0][1] if near else None
    return None


def _day_of_name(name: re.Match[str], day: float) -> float | None:
    """Return the day since 1970 that a file's name means: the one of that number in the month of `day`."""
    month = datetime.fromtimestamp(day, UTC)
    midnight = date_seconds(int(name[1] or month.year), int(name[2] or month.month), int(name[3]))
    return None if midnight is None else midnight // DAY


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row without its time. `average` is the row's time if it equals that of the header: then it is since boot."""

    cells: str
    time: Moment | None
    average: str = ""


@dataclass(slots=True)
class Times:
    """Parses the time at the start of rows; the time of a header shows whether a report is an average since boot."""

    date: str = ""
    header_time: str = ""  # empty under `# Time`
    source: Source | None = None
    clock: DayClock | None = None  # set by the first time

    def header(self, text: str) -> str:
        """Return the columns of a header after `# Time` or a clock time, which is kept."""
        match = None if text.startswith("#") else _TIME.match(text)
        if not match:
            self.header_time = ""
            return text.lstrip("# ").partition(" ")[2].strip()
        self.header_time = match[0].strip()
        self._moment(match)  # the first row may be after midnight
        return text[match.end() :].strip()

    def row(self, text: str) -> TimedRow | None:
        match = _TIME.match(text)
        if not match:
            return None
        rest = text[match.end() :].strip()
        if match[4]:
            return TimedRow(rest, Moment(float(match[4]), Clock.UTC))
        average = self.header_time if match[0].strip() == self.header_time else ""
        return TimedRow(rest, self._moment(match), average)

    @property
    def is_without_day(self) -> bool:
        """Whether there is a date that is ambiguous."""
        return bool(self.date) and self.clock is not None and self.clock.clock is Clock.DAY

    def _moment(self, match: re.Match[str]) -> Moment | None:
        if not match[1]:
            return None
        half = (match[2] or "").replace(".", "")
        seconds = _seconds_of_day(match[1], half)
        if seconds is None:
            return None
        if self.clock is None:
            start = first_midnight(self.date, half, self.source)
            clock = Clock.UTC if match[3] in UTC_ZONES else Clock.LOCAL
            self.clock = DayClock() if start is None else DayClock(start, clock)
        return self.clock.at(seconds)


@lru_cache(16)  # all rows of a report have the same time
def _seconds_of_day(text: str, half: str) -> float | None:
    return day_seconds(":".join(_NUMBERS.findall(text)), half)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> Moment | None:
    """`2026-11-20 03:35:44 UTC`, an epoch (sadf -U), or local time without a zone (-T, -t)."""
    return parse_timestamp(text)


def banner_facts(source: Source, line: int, text: str) -> Iterator[Fact]:
    """Yield kernel, host and number of CPUs from the first line."""
    if match := BANNER.match(text):
        cite = source.cite(line, text)
        yield Fact("kernel.release", match[1], cite)
        if match[2]:
            yield Fact("host.name", match[2], cite)
        if match[5] and (cpus := parse_number(match[5])) is not None:
            yield Fact("cpu.count", int(cpus), cite)


SYSTEM: Entity = ()
KIB, PERCENT, PAGE = 1024.0, 0.01, 4096.0
PAGES_OF_4_KIB = frozenset({"x86_64", "i386", "i486", "i586", "i686", "s390x"})  # other machines may have others


@dataclass(frozen=True, slots=True)
class Metric:
    """The metric of a column: its number times `scale`."""

    name: str
    scale: float = 1.0


def _vmstat(**columns: str) -> dict[str, tuple[Metric, ...]]:
    return {f"{column}/s": (Metric(f"node_vmstat_{name}:rate"),) for column, name in columns.items()}


def _memory(**columns: str) -> dict[str, tuple[Metric, ...]]:
    return {f"kb{column}": (Metric(f"node_memory_{name}_bytes", KIB),) for column, name in columns.items()}


def _pressure() -> dict[str, tuple[Metric, ...]]:
    """Return the metrics of `%smem-10` (some tasks wait for memory, over 10 s), `%fmem` (all of them) etc."""
    metrics: dict[str, tuple[Metric, ...]] = {}
    for short, resource in (("cpu", "cpu"), ("io", "io"), ("mem", "memory")):
        for letter, share, lost in (("s", "some", "waiting"), ("f", "full", "stalled")):
            column, family = f"%{letter}{short}", f"node_pressure_{resource}"
            metrics[column] = (Metric(f"{family}_{lost}_seconds_total:rate", PERCENT),)
            metrics |= {f"{column}-{t}": (Metric(f"{family}_{share}_avg{t}", PERCENT),) for t in (10, 60, 300)}
    return metrics


METRICS: Mapping[str, tuple[Metric, ...]] = {
    "pgpgin/s": (Metric("block_in_bytes:rate", KIB),),
    "pgpgout/s": (Metric("block_out_bytes:rate", KIB),),
    "proc/s": (Metric("node_forks_total:rate"),),
    "cswch/s": (Metric("node_context_switches_total:rate"),),
    "runq-sz": (Metric("node_procs_running"),),
    "ldavg-1": (Metric("node_load1"),),
    "blocked": (Metric("node_procs_blocked"),),
    **_vmstat(fault="pgfault", majflt="pgmajfault", pgfree="pgfree", pgscank="pgscan_kswapd", pgscand="pgscan_direct"),
    **_vmstat(pgsteal="pgsteal", pswpin="pswpin", pswpout="pswpout", pgprom="pgpromote_success", pgdem="pgdemote"),
    **_memory(memfree="MemFree", avail="MemAvailable", buffers="Buffers", cached="Cached", commit="Committed_AS"),
    **_memory(active="Active", inact="Inactive", dirty="Dirty", shmem="Shmem", anonpg="AnonPages", slab="Slab"),
    **_memory(kstack="KernelStack", pgtbl="PageTables", vmused="VmallocUsed", swpfree="SwapFree", swpcad="SwapCached"),
    **_pressure(),
}
SWAP_METRICS = {"pswpin/s": Metric("swap_in_bytes:rate", PAGE), "pswpout/s": Metric("swap_out_bytes:rate", PAGE)}
MODES = {
    "%usr": "user",
    "%user": "user",
    "%nice": "nice",
    "%sys": "system",
    "%system": "system",
    "%iowait": "iowait",
    "%steal": "steal",
    "%irq": "irq",
    "%soft": "softirq",
    "%guest": "guest",
    "%gnice": "guest_nice",
    "%idle": "idle",
}
_INSTANCE_COLUMNS = frozenset(
    ("CPU", "INTR", "IFACE", "DEV", "TTY", "FAN", "TEMP", "IN", "BUS", "FILESYSTEM", "FCHOST", "BAT")
)
_ALL_CPUS = frozenset({"all", "-1"})
_SUM_CELLS = frozenset({"sum", "-1"})


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one entity in a row."""

    kind: str
    entity: Entity
    values: Mapping[str, float]
    resolution: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a report that is used: `metrics` by column; reports of CPU time have `modes` instead."""

    columns: tuple[str, ...]
    metrics: Mapping[int, tuple[Metric, ...]]
    modes: Mapping[int, str]

    def ratios(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return `cpu_ratio.*` of shares, or of columns of them. With -u ALL the kernel's time excludes interrupts."""
        return (cpu_ratios if "irq" in self.modes.values() else cpu_ratios_of_totals)(parts)

    def row(self, cells: Sequence[str]) -> Row | str | None:
        """Return the values of a row, None if it is not used, or the reason why it is invalid."""
        if len(cells) != len(self.columns):
            return "a row with other columns than its header"
        return self._cpu_row(cells) if self.modes else self._plain_row(cells)

    def _plain_row(self, cells: Sequence[str]) -> Row | str | None:
        if self.columns[0] == "INTR" and cells[0] not in _SUM_CELLS:
            return None
        values: dict[str, float] = {}
        resolution: dict[str, float] = {}
        for place, metrics in self.metrics.items():
            for metric in metrics:
                quantity = parse_quantity(cells[place].rstrip("%"), metric.scale)
                if quantity is None:
                    return f"an impossible number in column {self.columns[place]}: the row is not used"
                values[metric.name], resolution[metric.name] = quantity.value, quantity.resolution
        return Row("system", SYSTEM, values, resolution)

    def _cpu_row(self, cells: Sequence[str]) -> Row | str | None:
        shares = {mode: parse_quantity(cells[place].rstrip("%"), PERCENT) for place, mode in self.modes.items()}
        parts = {mode: share.value for mode, share in shares.items() if share is not None}
        kind, entity = cpu_entity(cells[0])
        if entity and not any(parts.values()) and len(parts) == len(shares):
            return None  # the CPU is offline
        if len(parts) < len(shares) or not is_plausible(parts) or not is_cpu_cell(cells[0]):
            return "CPU shares that do not add up to 100 %: not used"
        values = self.ratios({mode: min(value, 1.0) for mode, value in parts.items()})
        quantum = max(share.resolution for share in shares.values() if share is not None)
        return Row(kind, entity, values, dict.fromkeys(values, quantum))


def cpu_entity(cell: str) -> Subject:
    """Return kind and entity of a CPU's row: `all` and -1 are the host."""
    return ("system", SYSTEM) if cell in _ALL_CPUS else ("cpu", (("cpu", cell),))


def is_cpu_cell(cell: str) -> bool:
    """Whether a cell names all CPUs or one of them."""
    return cell in _ALL_CPUS or (cell.isascii() and cell.isdecimal() and len(cell) <= 5)


@lru_cache(maxsize=512)
def table_of(columns: tuple[str, ...], machine: str = "") -> Table | None:
    """Return the table with these columns, None if it is not used. `machine` decides the size of a page."""
    if len(set(columns)) != len(columns) or not columns:
        return None
    if columns[0] == "CPU":
        modes = {place: MODES[column] for place, column in enumerate(columns) if column in MODES}
        complete = {"user", "nice", "system", "idle"} <= set(modes.values()) and len(modes) == len(columns) - 1
        return Table(columns, {}, modes) if complete else None
    if columns[0] == "INTR":
        is_known = len(columns) > 1 and columns[1] in {"intr/s", "all"}
        return Table(columns, {1: (Metric("node_intr_total:rate"),)}, {}) if is_known else None
    if columns[0] in _INSTANCE_COLUMNS:
        return None
    metrics = {place: _metrics(column, machine) for place, column in enumerate(columns) if column in METRICS}
    return Table(columns, metrics, {}) if metrics else None


def _metrics(column: str, machine: str) -> tuple[Metric, ...]:
    paged = (SWAP_METRICS[column],) if column in SWAP_METRICS and machine in PAGES_OF_4_KIB else ()
    return METRICS[column] + paged
