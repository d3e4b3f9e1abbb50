"""Performance Co-Pilot: CSV of pmrep, JSON of pcp2json, and archives converted by an installed pmrep.

Metric names of PCP and the corresponding names here:

    mem.vmstat.thp_fault_alloc                      node_vmstat_thp_fault_alloc
    mem.util.anonhugepages, in KiB                  node_memory_AnonHugePages_bytes
    kernel.percpu.cpu.sys of `cpu1`, in ms          node_cpu_seconds_total.system of CPU 1
    mem.buddyinfo.total of `Normal::order9::node0`, in KiB      node_buddyinfo_blocks_order9 of a zone
    proc.psinfo.minflt of `004711 /usr/bin/java -jar x`         process_minor_faults_total of a process

pmrep and pcp2json convert counters to rates unless -r is given; counters of time become milliseconds per second. Units
are those of the metrics; -b, -y and -q change them, which CSV does not show.
Source: PCP 3.9 to 6.0, help texts of pmdalinux and pmdaproc.

Archives (pmlogger), converted by an installed pmrep; otherwise the report asks for its CSV:

    00 00 00 84 50 05 26 02 ...      NAME.0, NAME.1 ... (values), NAME.meta (names, units), NAME.index

The three kinds of files together are one archive; a support bundle often contains only some of them, packed with xz.
They are not decoded here: an installed pmrep prints the counts of every record, in UTC. pmrep needs the files in one
folder, so those of a bundle are unpacked into a folder first. Source: PCP pmlogger, archive versions 2 and 3 (PCP 6.0);
pmrep 5.0 and later for -5.

pcp2json: any metrics of a live host or an archive as JSON, one object per time.

    {"@pcp": {"@hosts": [{"@host": "web1", "@metrics": [
      {"@interval": "4", "@timestamp": "2026-11-20 10:33:16",
       "mem": {"util": {"free": {"@unit": "Kbyte", "value": "14908952"}}}}]}]}}

Each value has its unit; values in the metric's own unit are read (Kbyte, ms, count), those in units that -b, -y or -q
selected are not. Counters are rates (`count/s`, `ms/s`) unless -r was given. Times are the wall clock of the machine
that ran pcp2json. Values are strings, with -E numbers; two comment lines come first unless -F names a file. The text is
read one time at a time.
Source: PCP pcp2json.py, 4.0 to 6.0.

pmrep -o csv: any metrics of a live host or an archive, one row per time.

    Time,"mem.vmstat.thp_fault_alloc","mem.util.free","kernel.all.load-1 minute","kernel.percpu.cpu.sys-cpu0"
    2026-11-20 10:33:16,,14908952,8.480,
    2026-11-20 10:33:20,0.000,14834968,8.480,64.250

Units: those of the metrics (KiB, ms), unless -b, -y or -q changed them, which CSV does not show. Counters are rates per
second with three decimals, missing in the first row; with -r they are plain counts. Times are those of the zone in the
header (-x) or in each row (-k: `Host,Interval,Time`), otherwise the wall clock of the machine that ran pmrep; or epochs
(-f %s). Varies: delimiter (-l; a blank with `:vmstat`, whose derived metrics are not read), a repeated header when the
instances change (-1). Source: PCP pmrep.py, 3.12 to 6.0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from thpdiag.detect.timestamps import FIRST_EPOCH, LAST_EPOCH
from thpdiag.model import Citation, Clock, Entity, Fact, Moment, Problem, ProblemKind, Record, Sample, Subject
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.model.text import path_name
from thpdiag.parsers._cpu import CPU_MODES, MAX_COMM_CHARS, cpu_ratios, process_entity
from thpdiag.parsers._json import JSON_OPENS, BrokenJsonError, JsonArray, json_head, json_pieces
from thpdiag.parsers._lines import ParseErrors, any_of, any_of_first, member_parser, parse_member, rows_as_series
from thpdiag.parsers._programs import ending_of, path_on_host, printed_records, request
from thpdiag.parsers._time import date_seconds, day_seconds
from thpdiag.parsers._units import parse_number
from thpdiag.sandbox.programs import Ending, ProgramLimits, find_program

KIB = 1024.0
PAGE_BYTES = 4096
CPU_MS_PER_SECOND = 1000.0  # of one CPU
MAX_SHARE_SUM = 1.05  # more than 1, because intervals are not exactly as long as stated
_UTIL = {
    "free": "MemFree", "available": "MemAvailable", "bufmem": "Buffers", "cached": "Cached", "swapCached": "SwapCached",
    "active": "Active", "inactive": "Inactive", "swapTotal": "SwapTotal", "swapFree": "SwapFree", "dirty": "Dirty",
    "writeback": "Writeback", "mapped": "Mapped", "slab": "Slab", "committed_AS": "Committed_AS",
    "pageTables": "PageTables", "anonpages": "AnonPages", "commitLimit": "CommitLimit",
    "slabReclaimable": "SReclaimable", "slabUnreclaimable": "SUnreclaim", "active_anon": "Active_anon",
    "inactive_anon": "Inactive_anon", "active_file": "Active_file", "inactive_file": "Inactive_file",
    "unevictable": "Unevictable", "mlocked": "Mlocked", "shmem": "Shmem", "kernelStack": "KernelStack",
    "anonhugepages": "AnonHugePages",
}  # fmt: skip
_POOL = {"hugepagesTotal": "Total", "hugepagesFree": "Free", "hugepagesRsvd": "Rsvd", "hugepagesSurp": "Surp"}
_MODES = {
    "user": "user", "nice": "nice", "sys": "system", "idle": "idle", "wait.total": "iowait", "irq.hard": "irq",
    "irq.soft": "softirq", "steal": "steal",
}  # fmt: skip
_AVERAGES = {"10 second": "avg10", "1 minute": "avg60", "5 minute": "avg300"}
_INSTANCES = {  # names of instances, by the kind of their metrics
    "cpu": re.compile(r"cpu(\d{1,6})", re.ASCII),
    "node": re.compile(r"node(\d{1,6})", re.ASCII),
    "zone": re.compile(r"(\w{1,20})::order(\d{1,2})::node(\d{1,6})", re.ASCII),
    "process": re.compile(r"0{0,9}(\d{1,9})(?: (.*))?", re.ASCII),
}
_VMSTAT = re.compile(r"mem\.vmstat\.(\w{1,60})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Metric:
    """The meaning of a column. The metric of a counter converted to a rate is `rate`; None if the rate is not used."""

    kind: str
    entity: Entity
    name: str
    factor: float = 1.0
    counter: bool = False
    rate: str | None = None


def _gauge(name: str, factor: float = 1.0) -> Metric:
    return Metric("system", (), name, factor)


def _counter(name: str, factor: float = 1.0) -> Metric:
    return Metric("system", (), name, factor, counter=True, rate=f"{name}:rate")


def _cpu_time(mode: str, kind: str = "system", entity: Entity = ()) -> Metric:
    return Metric(kind, entity, f"node_cpu_seconds_total.{mode}", 0.001, counter=True, rate=mode)


_HOST = {
    "kernel.all.pswitch": _counter("node_context_switches_total"),
    "kernel.all.intr": _counter("node_intr_total"),
    "kernel.all.sysfork": _counter("node_forks_total"),
    "kernel.all.running": _gauge("node_procs_running"),
    "kernel.all.blocked": _gauge("node_procs_blocked"),
    "swap.pagesin": _counter("node_vmstat_pswpin"),
    "swap.pagesout": _counter("node_vmstat_pswpout"),
    "swap.length": _gauge("node_memory_SwapTotal_bytes"),
    "swap.free": _gauge("node_memory_SwapFree_bytes"),
    "mem.physmem": _gauge("node_memory_MemTotal_bytes", KIB),
    **{f"mem.util.{last}": _gauge(f"node_memory_{name}_bytes", KIB) for last, name in _UTIL.items()},
    **{f"mem.util.{last}": _gauge(f"node_memory_HugePages_{name}") for last, name in _POOL.items()},
    **{f"kernel.all.cpu.{last}": _cpu_time(mode) for last, mode in _MODES.items()},
    **{
        f"kernel.all.pressure.{what}.{share}.total": _counter(f"node_pressure_{what}_{wait}_seconds_total", 1e-6)
        for what in ("cpu", "memory", "io")
        for share, wait in (("some", "waiting"), ("full", "stalled"))
    },
}
_HOST_INSTANCES = {("kernel.all.load", "1 minute"): _gauge("node_load1")} | {
    (f"kernel.all.pressure.{what}.{share}.avg", instance): _gauge(f"node_pressure_{what}_{share}_{average}", 0.01)
    for what in ("cpu", "memory", "io")
    for share in ("some", "full")
    for instance, average in _AVERAGES.items()
}
_PROCESS = {
    "psinfo.rss": ("process_resident_memory_bytes", KIB, None),
    "memory.rss": ("process_resident_memory_bytes", KIB, None),
    "psinfo.vsize": ("process_virtual_memory_bytes", KIB, None),
    "smaps.anonhugepages": ("process_anon_huge_bytes", KIB, None),
    "psinfo.threads": ("process_threads", 1.0, None),
    "psinfo.minflt": ("process_minor_faults_total", 1.0, "process_minor_faults_total:rate"),
    "psinfo.maj_flt": ("process_major_faults_total", 1.0, "process_major_faults_total:rate"),
    "psinfo.utime": ("process_cpu_seconds_total.user", 0.001, "process_cpu_ratio.user"),
    "psinfo.stime": ("process_cpu_seconds_total.system", 0.001, "process_cpu_ratio.system"),
}


@cache
def metric(name: str, instance: str) -> Metric | None:
    """Return the meaning of a metric and instance of PCP; None if it is not used."""
    if not instance:
        if match := _VMSTAT.fullmatch(name):
            is_gauge = match[1].startswith("nr_") or match[1] == "workingset_nodes"
            return (_gauge if is_gauge else _counter)(f"node_vmstat_{match[1]}")
        return _HOST.get(name)
    group, _, last = name.partition(".")
    if group in ("proc", "hotproc") and last in _PROCESS:
        return _process_metric(last, instance)
    if name in ("mem.buddyinfo.total", "mem.buddyinfo.pages"):
        return _zone_metric(name, instance)
    mode, size = _MODES.get(name.removeprefix("kernel.percpu.cpu.")), _UTIL.get(name.removeprefix("mem.numa.util."))
    if mode and (cpu := _INSTANCES["cpu"].fullmatch(instance)):
        return _cpu_time(mode, "cpu", (("cpu", cpu[1]),))
    if size and (node := _INSTANCES["node"].fullmatch(instance)):
        return Metric("node", (("node", node[1]),), f"node_memory_numa_{size}_bytes", KIB)
    return _HOST_INSTANCES.get((name, instance))


def _zone_metric(name: str, instance: str) -> Metric | None:
    """Return the free blocks of a zone: `total` is memory in KiB, `pages` (despite its name) the number of blocks."""
    match = _INSTANCES["zone"].fullmatch(instance)
    if not match or int(match[2]) > 20:
        return None
    factor = KIB / (PAGE_BYTES << int(match[2])) if name.endswith("total") else 1.0
    entity = (("node", match[3]), ("zone", match[1]))
    return Metric("zone", entity, f"node_buddyinfo_blocks_order{int(match[2])}", factor)


def _process_metric(name: str, instance: str) -> Metric | None:
    task = _INSTANCES["process"].fullmatch(instance)
    if not task:
        return None
    program = (task[2] or "").split(" ")[0].strip("()")
    comm = program.rpartition("/")[2].rstrip(":")[:MAX_COMM_CHARS]
    total, factor, rate = _PROCESS[name]
    entity = process_entity(task[1], comm if comm.isprintable() else "")
    return Metric("process", entity, total, factor, counter=rate is not None, rate=rate)


FACTS = {
    "kernel.uname.release": "kernel.release",
    "kernel.uname.nodename": "host.name",
    "kernel.uname.machine": "kernel.arch",
    "hinv.ncpu": "cpu.count",
}
_NO_TOTAL = "CPU times of PCP without kernel.all.cpu.nice and idle, or hinv.ncpu: their shares are not known"


class Cell(NamedTuple):
    """One value with its metric and instance; `converted` if it is a counter that was converted to a rate."""

    name: str
    instance: str
    text: str
    converted: bool


@dataclass(slots=True)
class Rows:
    """Converts cells to records; keeps the number of CPUs and the reported facts for later rows."""

    reader: str
    errors: ParseErrors
    cpus: float = 0
    facts: set[tuple[str, str]] = field(default_factory=set)

    def row_records(self, cells: Iterable[Cell], cite: Citation, time: Moment | None) -> Iterator[Record]:
        """Yield a sample per entity, and new facts."""
        by_subject: dict[Subject, dict[str, float]] = {}
        cpu_times: dict[Subject, dict[str, float]] = {}  # per second, by mode
        for cell in cells:
            if cell.name in FACTS:
                yield from self._fact(cell, cite)
            elif cell.text and (column := metric(cell.name, cell.instance)):
                name = column.rate if column.counter and cell.converted else column.name
                value = parse_number(cell.text)
                if value is None:
                    self.errors.note(cite.line or 0, cite.text, "a value of PCP that is not a number: left out")
                elif name in CPU_MODES:
                    cpu_times.setdefault((column.kind, column.entity), {})[name] = value
                elif name:
                    by_subject.setdefault((column.kind, column.entity), {})[name] = value * column.factor
        for subject, times in cpu_times.items():
            if shares := self._shares(subject[0], times, cite):
                by_subject.setdefault(subject, {}).update(shares)
        for (kind, entity), values in by_subject.items():
            yield Sample(kind, values, cite, self.reader, entity, time)

    def _shares(self, kind: str, times: dict[str, float], cite: Citation) -> dict[str, float]:
        """Return CPU ratios of the sum of all modes; if modes are missing, of the CPUs' total time and without sums."""
        is_complete = times.keys() >= {"user", "nice", "system", "idle"} and sum(times.values()) > 0
        total = sum(times.values()) if is_complete else CPU_MS_PER_SECOND * (1 if kind == "cpu" else self.cpus)
        parts = {mode: value / total for mode, value in times.items()} if total else {}
        if not total:
            self.errors.note(cite.line or 0, cite.text, _NO_TOTAL)
        elif sum(parts.values()) > MAX_SHARE_SUM:
            self.errors.note(cite.line or 0, cite.text, "CPU times of PCP that exceed the time that passed: not used")
            return {}
        return cpu_ratios(parts) if is_complete else {f"cpu_ratio.{mode}": min(parts[mode], 1.0) for mode in parts}

    def _fact(self, cell: Cell, cite: Citation) -> Iterator[Fact]:
        if not cell.text.isprintable() or not cell.text or (cell.name, cell.text) in self.facts or len(cell.text) > 255:
            return
        self.facts.add((cell.name, cell.text))
        value = parse_number(cell.text)
        if cell.name != "hinv.ncpu":
            yield Fact(FACTS[cell.name], cell.text, cite)
        elif value:
            self.cpus = value
            yield Fact(FACTS[cell.name], int(value), cite)


PMREP_NAME = "pmrep"
_MIN_BULK_BYTES = 1 << 20  # from this size on a member is not searched for other blocks
_SAMPLED_ROWS = 20  # first rows, from which counts are distinguished from rates
_HEADER = re.compile(r'(?:Host([,;\t| ])Interval[,;\t| ])?Time([,;\t| ])"[a-z]\w{0,60}\.[\w.]')
_COMMENT = re.compile(r"#\s{1,9}(archive|host|timezone|start|end|metrics|samples|interval|duration): \S|#\s*$")
_FIRST_COMMENT = re.compile(r"#\s{1,9}(?:archive|host): \S")
_HOST_OR_ZONE = re.compile(r"#\s{1,9}(host|timezone): (\S+)")
_ROW = re.compile(
    r"(?:([\w.-]{0,255})[,;\t| ][\d.]{0,12}[,;\t| ])?"
    r"(?:(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)( UTC(?:[-+]\d[\d:]{0,4})?)?|(\d{9,10}(?:\.\d{1,6})?))"
    r"(?=[,;\t| ]|$)",
    re.ASCII,
)
_ZONE = re.compile(r" ?UTC(?:([-+])(\d{1,2})(?::?(\d\d))?)?$", re.ASCII)


@dataclass(slots=True)
class Run:
    """The rows below one header. The first rows are held until they show whether counters were converted to rates."""

    source: Source
    errors: ParseErrors
    rows: Rows
    delimiter: str = ","
    columns: Sequence[tuple[str, str]] = ()
    utc_offset: float | None = None  # seconds ahead of UTC
    hosts: set[str] = field(default_factory=set)
    converted: bool = False
    held: list[tuple[int, str, list[str], Moment]] = field(default_factory=list)
    is_holding: bool = True

    def parse_line(self, number: int, text: str) -> Iterator[Record]:
        if text.startswith("#"):
            comment = _HOST_OR_ZONE.match(text)
            if comment and comment[1] == "timezone":
                self.utc_offset = _utc_offset(comment[2])
            elif comment:
                yield from self._host(number, text, comment[2])
        elif header := _HEADER.match(text):
            yield from self.release()
            self.delimiter = header[2]
            names = self._cells(text[text.index("Time") + 5 :])
            self.columns = [(name, instance) for name, _, instance in (word.partition("-") for word in names)]
            self.converted, self.is_holding = False, True
        else:
            yield from self._parse_row(number, text)

    def _parse_row(self, number: int, text: str) -> Iterator[Record]:
        match = _ROW.match(text)
        time = self._time(match) if match else None
        cells = self._cells(text[match.end() + 1 :]) if match else []
        if self.delimiter.isspace():  # the last cells may be empty, and blanks at the end of a line are stripped
            cells += [""] * (len(self.columns) - len(cells))
        if match is None or time is None or len(cells) != len(self.columns):
            self.errors.note(number, text, "a row of pmrep without a time or with other columns than its header")
            return
        if match[1]:
            yield from self._host(number, text, match[1])
        if not self.is_holding:
            yield from self._row_records(number, text, cells, time)
            return
        self.held.append((number, text, cells, time))
        if len(self.held) == _SAMPLED_ROWS:
            yield from self.release()

    def release(self) -> Iterator[Record]:
        """Decide whether counters were converted to rates, and yield the held rows.

        Rates have decimals, or decrease. The option -r applies to all counters, so one decides for all.
        """
        held, self.held, self.is_holding = self.held, [], False
        for index, (name, instance) in enumerate(self.columns):
            column = metric(name, instance)
            texts = [cells[index] for _, _, cells, _ in held if cells[index]] if column and column.counter else []
            decreases = any((len(a), a) > (len(b), b) for a, b in pairwise(texts))
            self.converted = self.converted or decreases or any("." in text for text in texts)
        for row in held:
            yield from self._row_records(*row)

    def _row_records(self, number: int, text: str, cells: Sequence[str], time: Moment) -> Iterator[Record]:
        columns = zip(self.columns, cells, strict=True)
        filled = [Cell(name, instance, cell, self.converted) for (name, instance), cell in columns if cell]
        yield from self.rows.row_records(filled, self.source.cite(number, text), time)

    def _cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self.delimiter), [""])
        except csv.Error:
            return []

    def _host(self, number: int, text: str, name: str) -> Iterator[Fact]:
        if name not in self.hosts:
            self.hosts.add(name)
            yield Fact("host.name", name, self.source.cite(number, text))

    def _time(self, row: re.Match[str]) -> Moment | None:
        _, year, month, day, clock, zone, epoch = row.groups()
        if epoch:
            return Moment(float(epoch), Clock.UTC) if FIRST_EPOCH <= float(epoch) < LAST_EPOCH else None
        midnight, seconds = date_seconds(int(year), int(month), int(day)), day_seconds(clock)
        if midnight is None or seconds is None:
            return None
        offset = _utc_offset(zone) if zone else self.utc_offset
        local = midnight + seconds
        return Moment(local, Clock.LOCAL) if offset is None else Moment(local - offset, Clock.UTC)


def _utc_offset(zone: str) -> float | None:
    """Parse `UTC+1` (one hour ahead of UTC) to seconds."""
    match = _ZONE.match(zone)
    if not match:
        return None
    seconds = int(match[2] or 0) * 3600.0 + int(match[3] or 0) * 60
    return -seconds if match[1] == "-" else seconds


def read(source: Source, lines: Lines, reader: str = PMREP_NAME) -> Iterator[Record]:
    """Yield samples of the host, CPUs, zones, NUMA nodes and processes, and facts from metrics."""
    errors = ParseErrors(source, reader)
    run = Run(source, errors, Rows(reader, errors))
    for number, text in lines:
        if text.strip():
            yield from run.parse_line(number, text)
    yield from run.release()
    yield from errors.problems()


_continues = any_of(_ROW, _HEADER, _COMMENT)
_confirm = any_of_first(13, _HEADER)


def _claims_pmrep(path: str, head: bytes, size: int | None) -> bool:
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return len(lines) > 2 and _confirm(lines[:12]) and all(_continues(line.rstrip("\r")) for line in lines)


PMREP_PARSER = Parser(
    PMREP_NAME, "pmrep CSV (Performance Co-Pilot)", read, continues=_continues, confirm=_confirm, lookahead=12,
    opens=re.compile(f"{_HEADER.pattern}|{_FIRST_COMMENT.pattern}"),
)  # fmt: skip
PMREP_BULK_PARSER = member_parser(PMREP_PARSER, _claims_pmrep, min_size=_MIN_BULK_BYTES)


PCP2JSON_NAME = "pcp2json"
MAX_DEPTH = 12  # components of a metric name
_MARK = re.compile(r'"@pcp"\s{0,20}:\s{0,20}\{')
_PCP2JSON_HOST = re.compile(r'"@host"\s{0,20}:\s{0,20}"([\w.-]{1,255})"', re.ASCII)
_BEGIN = re.compile(r'"@metrics"\s{0,20}:\s{0,20}\[')
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)$", re.ASCII)
_TIME_UNITS = frozenset(("ms", "millisec", "msec", "us", "usec", "microsec"))


def _leaves(node: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yield (metric, instance, its object) for each value below a node."""
    if not isinstance(node, Mapping) or depth > MAX_DEPTH:
        return
    if "value" in node:
        yield name, "", node
    instances = node.get("@instances")
    for instance in instances if isinstance(instances, list) else ():
        if isinstance(instance, Mapping) and isinstance(instance.get("name"), str):
            yield name, str(instance["name"]), instance
    for key, inner in node.items():
        yield from _leaves(inner, f"{name}.{key}" if name else str(key), depth + 1)


def _json_cells(moment: Mapping[str, object], line: int, errors: ParseErrors) -> Iterator[Cell]:
    for name, instance, leaf in _leaves(moment):
        value, unit = leaf.get("value"), str(leaf.get("@unit", ""))
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        if _has_default_unit(metric(name, instance), unit.removesuffix("/s")):
            yield Cell(name, instance, text, unit.endswith("/s"))
        else:
            errors.note(line, "", "a value in another unit than the metric's own: not used")


def _has_default_unit(column: Metric | None, unit: str) -> bool:
    """Return whether the unit is the metric's own, to which its factor applies."""
    if column is None:
        return True
    if unit.endswith("byte"):
        return unit == ("byte" if column.factor == 1 else "Kbyte")
    return unit in _TIME_UNITS if column.factor in (0.001, 1e-6) else unit in ("", "count", "none")


def _json_time(moment: object) -> Moment | None:
    date = _TIME.match(str(moment.get("@timestamp", ""))) if isinstance(moment, Mapping) else None
    midnight = date_seconds(int(date[1]), int(date[2]), int(date[3])) if date else None
    seconds = day_seconds(date[4]) if date else None
    return None if midnight is None or seconds is None else Moment(midnight + seconds, Clock.LOCAL)


def _read_json(source: Source, pieces: Iterator[str]) -> Iterator[Record]:
    """Yield samples per entity and time, of one host after the other."""
    errors, elements, line = ParseErrors(source, PCP2JSON_NAME), JsonArray(pieces, 1), 1
    rows, hosts = Rows(PCP2JSON_NAME, errors), 0
    try:
        while not hosts or elements.find(_BEGIN):
            is_first = True
            for line, moment in elements.members(_BEGIN):
                if is_first and (host := _PCP2JSON_HOST.findall(elements.front)):
                    yield Fact("host.name", host[-1], source.cite(line))
                is_first = False
                if isinstance(moment, Mapping) and (time := _json_time(moment)):
                    yield from rows.row_records(_json_cells(moment, line, errors), source.cite(line), time)
                else:
                    errors.note(line, "", "a member of @metrics without a time: not used")
            hosts += 1
    except BrokenJsonError as error:
        text = f"JSON of pcp2json: {error}; what precedes it was read"
        yield Problem(source.cite(line), text, ProblemKind.DAMAGED, PCP2JSON_NAME)
    yield from errors.problems()


PCP2JSON_PARSER = BulkParser(
    PCP2JSON_NAME, "pcp2json (Performance Co-Pilot)", lambda path, head, size: _MARK.search(json_head(head)),
    lambda source, content: rows_as_series(_read_json(source, json_pieces(content))), opens=JSON_OPENS,
)  # fmt: skip


ARCHIVE_NAME = "pcp_archive"
MAGIC = re.compile(rb"\0\0..\x50\x05\x26[\x02\x03]", re.DOTALL)
_NON_VOLUMES = (0xFFFFFFFF, 0xFFFFFFFE)  # volume numbers of .meta and .index
_LABEL_OFFSETS = {2: (20, 24), 3: (24, 36)}  # of volume number and host name, by version; version 3 has longer times
_ARCHIVE_FILE = re.compile(r"([\w@:+.-]{1,200}\.(?:\d{1,5}|meta|index))(?:\.(?:xz|gz|bz2|zst|lzma))?")
_HOST_NAME = re.compile(rb"[\w.-]{1,255}", re.ASCII)
_METRICS = (
    "mem.vmstat mem.util mem.physmem mem.buddyinfo.total mem.numa.util kernel.all.cpu kernel.percpu.cpu "
    "kernel.all.load kernel.all.pswitch kernel.all.intr kernel.all.sysfork kernel.all.running kernel.all.blocked "
    "kernel.all.pressure swap hinv.ncpu kernel.uname.release"
)
_MAIN_METRICS = "mem.vmstat mem.util mem.buddyinfo kernel.all.cpu kernel.all.load hinv.ncpu"
_LIMITS = ProgramLimits(seconds=300, cpu_seconds=300, output=1 << 30)


def read_archive(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield the rows of the archive at its first volume, at other files only the host name.

    Yield a problem if the archive cannot be read. With -I and -5 pmrep ignores metrics that the archive does not have;
    an older pmrep is asked for the most important metrics only.
    """
    head = b""
    while len(head) < 512 and (chunk := next(content.chunks, b"")):
        head += chunk
    volume_offset, host_offset = _LABEL_OFFSETS.get(head[7] if len(head) > 7 else 2, _LABEL_OFFSETS[2])
    if name := _HOST_NAME.match(head, host_offset):
        yield Fact("host.name", name[0].decode("ascii"), Citation(source.member))
    if int.from_bytes(head[volume_offset : volume_offset + 4], "big") in _NON_VOLUMES:
        return
    program, file = find_program("pmrep"), _resolve(content.file)
    archive = _archive(file)
    on_host = re.sub(r"(\.\d{1,5})(\.(?:xz|gz|bz2|zst))?$", "", path_on_host(source))
    command = f"pmrep -z -a {path_name(on_host)} -o csv -t 60 {_MAIN_METRICS} > pcp.csv"
    if program is None or archive is None:
        missing = "no pmrep is installed here" if archive else "its .meta, .index or first volume is not beside it"
        text = f"an archive of Performance Co-Pilot was not read: {missing}"
        yield request(source, ARCHIVE_NAME, text, ProblemKind.UNREADABLE, command)
    elif file == _first_volume(archive):
        options = ["-a", str(archive.absolute()), "-o", "csv", "-u", "-r", "-f", "%s"]
        tries = ([*options, "-5", "-I", *_METRICS.split()], [*options, *_MAIN_METRICS.split()])
        run = yield from printed_records(program, tries, _LIMITS, lambda output: _read_output(source, output))
        if run.ending is not Ending.DONE:
            how, kind = ending_of(run, secret=str(archive.parent))
            yield request(source, ARCHIVE_NAME, f"an archive of Performance Co-Pilot: pmrep {how}", kind, command)


def _read_output(source: Source, output: Content) -> Iterator[Record | Foreign]:
    return parse_member(source, output, ARCHIVE_NAME, lambda source, lines: read(source, lines, ARCHIVE_NAME))


def _resolve(file: Path | None) -> Path | None:
    """Return the real path of a file that is passed as an open descriptor, to find the files next to it."""
    try:
        return file.resolve() if file else None
    except (OSError, RuntimeError):
        return None


def _file_name(path: str, file: Path | None) -> str:
    """Return the name under which the member must be unpacked next to the other files, or "" if that is not needed."""
    match = _ARCHIVE_FILE.fullmatch(path.rpartition("/")[2])
    if not match or find_program("pmrep") is None or _archive(_resolve(file)) is not None:
        return ""
    return match[1]


def _archive(file: Path | None) -> Path | None:
    """Return the common path of the files of a complete archive, without suffix."""
    if file is None or not re.fullmatch(r"\.(?:\d{1,5}|meta|index)", file.suffix):
        return None
    base = file.with_suffix("")
    is_complete = all(Path(f"{base}{suffix}").is_file() for suffix in (".meta", ".index"))
    return base if is_complete and _first_volume(base) is not None else None


def _first_volume(archive: Path) -> Path | None:
    """Return the volume with the lowest number, at which the whole archive is read."""
    volume = re.compile(rf"{re.escape(archive.name)}\.\d{{1,5}}")
    volumes = [file for file in archive.parent.iterdir() if volume.fullmatch(file.name)]
    return min(volumes, key=lambda file: int(file.suffix[1:]), default=None)


ARCHIVE_PARSER = BulkParser(
    ARCHIVE_NAME, "PCP archives (rows by an installed pmrep)", None, read_archive, _file_name, opens=MAGIC
)
