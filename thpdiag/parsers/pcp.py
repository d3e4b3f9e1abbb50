"""Performance Co-Pilot: CSV of pmrep, JSON of pcp2json, and archives by an installed pmrep.

Names of metrics here, and their units:

    mem.vmstat.thp_fault_alloc                      node_vmstat_thp_fault_alloc
    mem.util.anonhugepages, in KiB                  node_memory_AnonHugePages_bytes
    kernel.percpu.cpu.sys of `cpu1`, in ms          node_cpu_seconds_total.system of CPU 1
    mem.buddyinfo.total of `Normal::order9::node0`, in KiB      node_buddyinfo_blocks_order9 of a zone
    proc.psinfo.minflt of `004711 /usr/bin/java -jar x`         process_minor_faults_total of a process

Counters are converted to rates by pmrep and pcp2json unless told not to (-r), times among them to milliseconds per
second. Units are those of the metrics; -b, -y and -q change them, which CSV does not show.
Source: PCP 3.9 to 6.0, help texts of pmdalinux and pmdaproc.

Archives (pmlogger), by an installed pmrep; else the request for its CSV:

    00 00 00 84 50 05 26 02 ...      NAME.0, NAME.1 ... (values), NAME.meta (names, units), NAME.index

The three together are one archive, of which a support bundle often has some only, packed with xz. They are never taken
apart here: where pmrep is installed it prints counts of every record, in UTC. It wants them as files beside each other;
those of a bundle are unpacked into a folder first. Source: PCP pmlogger, archive versions 2 and 3 (PCP 6.0); pmrep 5.0
and later for -5.

pcp2json: any metrics of a live host or an archive as JSON, an object per moment.

    {"@pcp": {"@hosts": [{"@host": "web1", "@metrics": [
      {"@interval": "4", "@timestamp": "2026-11-20 10:33:16",
       "mem": {"util": {"free": {"@unit": "Kbyte", "value": "14908952"}}}}]}]}}

Units stand beside the values; those of a metric's own are read (Kbyte, ms, count), others that -b, -y or -q made are
not. Counters are rates (`count/s`, `ms/s`) unless made with -r. Times are of the wall clock of where it ran. Values are
texts, numbers with -E; two lines of remarks come before unless a file was named (-F). It is read one moment at a time.
Source: PCP pcp2json.py, 4.0 to 6.0.

pmrep -o csv: any metrics of a live host or an archive, a row per moment.

    Time,"mem.vmstat.thp_fault_alloc","mem.util.free","kernel.all.load-1 minute","kernel.percpu.cpu.sys-cpu0"
    2026-11-20 10:33:16,,14908952,8.480,
    2026-11-20 10:33:20,0.000,14834968,8.480,64.250

Units: of the metrics (KiB, ms), unless -b, -y or -q changed them, which CSV does not show. Counters are rates per
second with three decimals, missing in the first row; with -r they are plain counts. Times are those of the zone in the
header (-x) or in each row (-k: `Host,Interval,Time`), else of the wall clock of where pmrep ran; or epochs (-f %s).
Varies: delimiter (-l; a blank with `:vmstat`, whose derived metrics are not known here), a header again where instances
change (-1). Source: PCP pmrep.py, 3.12 to 6.0.
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
PAGE = 4096
MILLISECONDS = 1000.0  # that a CPU has per second
MAX_SUM = 1.05  # of shares: intervals are not quite as long as they are said to be
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
_INSTANCES = {  # what names an instance, by the metrics that have it
    "cpu": re.compile(r"cpu(\d{1,6})", re.ASCII),
    "node": re.compile(r"node(\d{1,6})", re.ASCII),
    "zone": re.compile(r"(\w{1,20})::order(\d{1,2})::node(\d{1,6})", re.ASCII),
    "process": re.compile(r"0{0,9}(\d{1,9})(?: (.*))?", re.ASCII),
}
_VMSTAT = re.compile(r"mem\.vmstat\.(\w{1,60})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Metric:
    """The place of a column. A counter becomes `rate`, times `factor`, where it was converted; None: of no use then."""

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
    """None for what is of no use here."""
    if not instance:
        if found := _VMSTAT.fullmatch(name):
            is_gauge = found[1].startswith("nr_") or found[1] == "workingset_nodes"
            return (_gauge if is_gauge else _counter)(f"node_vmstat_{found[1]}")
        return _HOST.get(name)
    group, _, last = name.partition(".")
    if group in ("proc", "hotproc") and last in _PROCESS:
        return _of_process(last, instance)
    if name in ("mem.buddyinfo.total", "mem.buddyinfo.pages"):
        return _of_zone(name, instance)
    mode, size = _MODES.get(name.removeprefix("kernel.percpu.cpu.")), _UTIL.get(name.removeprefix("mem.numa.util."))
    if mode and (cpu := _INSTANCES["cpu"].fullmatch(instance)):
        return _cpu_time(mode, "cpu", (("cpu", cpu[1]),))
    if size and (node := _INSTANCES["node"].fullmatch(instance)):
        return Metric("node", (("node", node[1]),), f"node_memory_numa_{size}_bytes", KIB)
    return _HOST_INSTANCES.get((name, instance))


def _of_zone(name: str, instance: str) -> Metric | None:
    """`total` is memory in KiB, `pages` the number of blocks, whatever it is called."""
    found = _INSTANCES["zone"].fullmatch(instance)
    if not found or int(found[2]) > 20:
        return None
    factor = KIB / (PAGE << int(found[2])) if name.endswith("total") else 1.0
    entity = (("node", found[3]), ("zone", found[1]))
    return Metric("zone", entity, f"node_buddyinfo_blocks_order{int(found[2])}", factor)


def _of_process(name: str, instance: str) -> Metric | None:
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
    """One value: of which metric and instance, and whether it is a counter that was converted to a rate."""

    name: str
    instance: str
    text: str
    converted: bool


@dataclass(slots=True)
class Rows:
    """Cells to records; holds what was said before that later rows need."""

    reader: str
    odd: ParseErrors
    cpus: float = 0
    facts: set[tuple[str, str]] = field(default_factory=set)

    def row(self, cells: Iterable[Cell], cite: Citation, time: Moment | None) -> Iterator[Record]:
        """A Sample per entity; Facts that are new."""
        found: dict[Subject, dict[str, float]] = {}
        cpu_times: dict[Subject, dict[str, float]] = {}  # per second, by mode
        for cell in cells:
            if cell.name in FACTS:
                yield from self._fact(cell, cite)
            elif cell.text and (where := metric(cell.name, cell.instance)):
                name = where.rate if where.counter and cell.converted else where.name
                value = parse_number(cell.text)
                if value is None:
                    self.odd.note(cite.line or 0, cite.text, "a value of PCP that is not a number: left out")
                elif name in CPU_MODES:
                    cpu_times.setdefault((where.kind, where.entity), {})[name] = value
                elif name:
                    found.setdefault((where.kind, where.entity), {})[name] = value * where.factor
        for subject, times in cpu_times.items():
            if shares := self._shares(subject[0], times, cite):
                found.setdefault(subject, {}).update(shares)
        for (kind, entity), values in found.items():
            yield Sample(kind, values, cite, self.reader, entity, time)

    def _shares(self, kind: str, times: dict[str, float], cite: Citation) -> dict[str, float]:
        """Of all time where its parts are there; else of the time that so many CPUs have, and no sums of them."""
        complete = times.keys() >= {"user", "nice", "system", "idle"} and sum(times.values()) > 0
        total = sum(times.values()) if complete else MILLISECONDS * (1 if kind == "cpu" else self.cpus)
        parts = {mode: value / total for mode, value in times.items()} if total else {}
        if not total:
            self.odd.note(cite.line or 0, cite.text, _NO_TOTAL)
        elif sum(parts.values()) > MAX_SUM:
            self.odd.note(cite.line or 0, cite.text, "CPU times of PCP that exceed the time that passed: not used")
            return {}
        return cpu_ratios(parts) if complete else {f"cpu_ratio.{mode}": min(parts[mode], 1.0) for mode in parts}

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
_LARGE = 1 << 20  # bytes of a member that is not searched for other blocks
_DECIDING = 20  # rows that tell counts from rates
_HEADER = re.compile(r'(?:Host([,;\t| ])Interval[,;\t| ])?Time([,;\t| ])"[a-z]\w{0,60}\.[\w.]')
_ABOVE = re.compile(r"#\s{1,9}(archive|host|timezone|start|end|metrics|samples|interval|duration): \S|#\s*$")
_OPENING = re.compile(r"#\s{1,9}(?:archive|host): \S")
_HEADING = re.compile(r"#\s{1,9}(host|timezone): (\S+)")
_ROW = re.compile(
    r"(?:([\w.-]{0,255})[,;\t| ][\d.]{0,12}[,;\t| ])?"
    r"(?:(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)( UTC(?:[-+]\d[\d:]{0,4})?)?|(\d{9,10}(?:\.\d{1,6})?))"
    r"(?=[,;\t| ]|$)",
    re.ASCII,
)
_ZONE = re.compile(r" ?UTC(?:([-+])(\d{1,2})(?::?(\d\d))?)?$", re.ASCII)


@dataclass(slots=True)
class Run:
    """The rows below one header; the first are held until they tell what was converted."""

    source: Source
    odd: ParseErrors
    rows: Rows
    delimiter: str = ","
    columns: Sequence[tuple[str, str]] = ()
    ahead: float | None = None  # of UTC, in seconds
    hosts: set[str] = field(default_factory=set)
    converted: bool = False
    held: list[tuple[int, str, list[str], Moment]] = field(default_factory=list)
    deciding: bool = True

    def line(self, number: int, text: str) -> Iterator[Record]:
        if text.startswith("#"):
            heading = _HEADING.match(text)
            if heading and heading[1] == "timezone":
                self.ahead = _utc_offset(heading[2])
            elif heading:
                yield from self._host(number, text, heading[2])
        elif header := _HEADER.match(text):
            yield from self.decide()
            self.delimiter = header[2]
            names = self._cells(text[text.index("Time") + 5 :])
            self.columns = [(name, instance) for name, _, instance in (word.partition("-") for word in names)]
            self.converted, self.deciding = False, True
        else:
            yield from self._row(number, text)

    def _row(self, number: int, text: str) -> Iterator[Record]:
        found = _ROW.match(text)
        time = self._time(found) if found else None
        cells = self._cells(text[found.end() + 1 :]) if found else []
        if self.delimiter.isspace():  # the last ones may be empty, and blanks at the end are not kept
            cells += [""] * (len(self.columns) - len(cells))
        if found is None or time is None or len(cells) != len(self.columns):
            self.odd.note(number, text, "a row of pmrep without a time or with other columns than its header")
            return
        if found[1]:
            yield from self._host(number, text, found[1])
        if not self.deciding:
            yield from self._values(number, text, cells, time)
            return
        self.held.append((number, text, cells, time))
        if len(self.held) == _DECIDING:
            yield from self.decide()

    def decide(self) -> Iterator[Record]:
        """Rates have decimals, or go down. What one counter is, all are: -r is said once."""
        held, self.held, self.deciding = self.held, [], False
        for at, (name, instance) in enumerate(self.columns):
            where = metric(name, instance)
            texts = [cells[at] for _, _, cells, _ in held if cells[at]] if where and where.counter else []
            falls = any((len(a), a) > (len(b), b) for a, b in pairwise(texts))
            self.converted = self.converted or falls or any("." in text for text in texts)
        for row in held:
            yield from self._values(*row)

    def _values(self, number: int, text: str, cells: Sequence[str], time: Moment) -> Iterator[Record]:
        columns = zip(self.columns, cells, strict=True)
        given = [Cell(name, instance, cell, self.converted) for (name, instance), cell in columns if cell]
        yield from self.rows.row(given, self.source.cite(number, text), time)

    def _cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self.delimiter), [""])
        except csv.Error:
            return []

    def _host(self, number: int, text: str, name: str) -> Iterator[Fact]:
        if name not in self.hosts:
            self.hosts.add(name)
            yield Fact("host.name", name, self.source.cite(number, text))

    def _time(self, found: re.Match[str]) -> Moment | None:
        _, year, month, day, clock, zone, epoch = found.groups()
        if epoch:
            return Moment(float(epoch), Clock.UTC) if FIRST_EPOCH <= float(epoch) < LAST_EPOCH else None
        midnight, since = date_seconds(int(year), int(month), int(day)), day_seconds(clock)
        if midnight is None or since is None:
            return None
        ahead = _utc_offset(zone) if zone else self.ahead
        return Moment(midnight + since, Clock.LOCAL) if ahead is None else Moment(midnight + since - ahead, Clock.UTC)


def _utc_offset(zone: str) -> float | None:
    """`UTC+1`: an hour ahead."""
    found = _ZONE.match(zone)
    if not found:
        return None
    seconds = int(found[2] or 0) * 3600.0 + int(found[3] or 0) * 60
    return -seconds if found[1] == "-" else seconds


def read(source: Source, lines: Lines, reader: str = PMREP_NAME) -> Iterator[Record]:
    """Rows of the host and of each CPU, zone, NUMA node and process; facts that metrics tell."""
    odd = ParseErrors(source, reader)
    run = Run(source, odd, Rows(reader, odd))
    for number, text in lines:
        if text.strip():
            yield from run.line(number, text)
    yield from run.decide()
    yield from odd.problems()


_continues = any_of(_ROW, _HEADER, _ABOVE)
_confirm = any_of_first(13, _HEADER)


def _claims_pmrep(path: str, head: bytes, size: int | None) -> bool:
    lines = head.decode("utf-8", "replace").split("\n")[:-1]
    return len(lines) > 2 and _confirm(lines[:12]) and all(_continues(line.rstrip("\r")) for line in lines)


PMREP_PARSER = Parser(
    PMREP_NAME, "pmrep CSV (Performance Co-Pilot)", read, opens=re.compile(f"{_HEADER.pattern}|{_OPENING.pattern}"),
    continues=_continues, confirm=_confirm, lookahead=12,
)  # fmt: skip
PMREP_BULK_PARSER = member_parser(PMREP_PARSER, _claims_pmrep, min_size=_LARGE)


PCP2JSON_NAME = "pcp2json"
MAX_DEPTH = 12  # parts of a metric's name
_MARK = re.compile(r'"@pcp"\s{0,20}:\s{0,20}\{')
_PCP2JSON_HOST = re.compile(r'"@host"\s{0,20}:\s{0,20}"([\w.-]{1,255})"', re.ASCII)
_BEGIN = re.compile(r'"@metrics"\s{0,20}:\s{0,20}\[')
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)$", re.ASCII)
_TIMES = frozenset(("ms", "millisec", "msec", "us", "usec", "microsec"))


def _leaves(node: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Metric, instance and what is said of it."""
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


def _json_cells(moment: Mapping[str, object], line: int, odd: ParseErrors) -> Iterator[Cell]:
    for name, instance, leaf in _leaves(moment):
        value, unit = leaf.get("value"), str(leaf.get("@unit", ""))
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        text = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        if _has_default_unit(metric(name, instance), unit.removesuffix("/s")):
            yield Cell(name, instance, text, unit.endswith("/s"))
        else:
            odd.note(line, "", "a value in another unit than the metric's own: not used")


def _has_default_unit(where: Metric | None, unit: str) -> bool:
    """Whether the unit is the one that the names tell the factor for."""
    if where is None:
        return True
    if unit.endswith("byte"):
        return unit == ("byte" if where.factor == 1 else "Kbyte")
    return unit in _TIMES if where.factor in (0.001, 1e-6) else unit in ("", "count", "none")


def _json_time(moment: object) -> Moment | None:
    date = _TIME.match(str(moment.get("@timestamp", ""))) if isinstance(moment, Mapping) else None
    midnight = date_seconds(int(date[1]), int(date[2]), int(date[3])) if date else None
    since = day_seconds(date[4]) if date else None
    return None if midnight is None or since is None else Moment(midnight + since, Clock.LOCAL)


def _read_json(source: Source, pieces: Iterator[str]) -> Iterator[Record]:
    """A row per entity and moment, of one host after the other."""
    odd, elements, line = ParseErrors(source, PCP2JSON_NAME), JsonArray(pieces, 1), 1
    rows, hosts = Rows(PCP2JSON_NAME, odd), 0
    try:
        while not hosts or elements.find(_BEGIN):
            is_first = True
            for line, moment in elements.members(_BEGIN):
                if is_first and (host := _PCP2JSON_HOST.findall(elements.front)):
                    yield Fact("host.name", host[-1], source.cite(line))
                is_first = False
                if isinstance(moment, Mapping) and (time := _json_time(moment)):
                    yield from rows.row(_json_cells(moment, line, odd), source.cite(line), time)
                else:
                    odd.note(line, "", "a member of @metrics without a time: not used")
            hosts += 1
    except BrokenJsonError as error:
        text = f"JSON of pcp2json: {error}; what precedes it was read"
        yield Problem(source.cite(line), text, ProblemKind.DAMAGED, PCP2JSON_NAME)
    yield from odd.problems()


PCP2JSON_PARSER = BulkParser(
    PCP2JSON_NAME, "pcp2json (Performance Co-Pilot)", lambda path, head, size: _MARK.search(json_head(head)),
    lambda source, content: rows_as_series(_read_json(source, json_pieces(content))), opens=JSON_OPENS,
)  # fmt: skip


ARCHIVE_NAME = "pcp_archive"
MAGIC = re.compile(rb"\0\0..\x50\x05\x26[\x02\x03]", re.DOTALL)
_NO_VOLUME = (0xFFFFFFFF, 0xFFFFFFFE)  # .meta and .index have these for the number of their volume
_LABEL = {2: (20, 24), 3: (24, 36)}  # where the number of the volume stands in the label, and the host
_PART = re.compile(r"([\w@:+.-]{1,200}\.(?:\d{1,5}|meta|index))(?:\.(?:xz|gz|bz2|zst|lzma))?")
_HOST_NAME = re.compile(rb"[\w.-]{1,255}", re.ASCII)
_METRICS = (
    "mem.vmstat mem.util mem.physmem mem.buddyinfo.total mem.numa.util kernel.all.cpu kernel.percpu.cpu "
    "kernel.all.load kernel.all.pswitch kernel.all.intr kernel.all.sysfork kernel.all.running kernel.all.blocked "
    "kernel.all.pressure swap hinv.ncpu kernel.uname.release"
)
_NEEDED = "mem.vmstat mem.util mem.buddyinfo kernel.all.cpu kernel.all.load hinv.ncpu"
_LIMITS = ProgramLimits(seconds=300, cpu_seconds=300, output=1 << 30)


def read_archive(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """All rows at its first volume; at the others only whose it is; a Problem where it cannot be read.

    pmrep prints what it knows of the metrics asked for (-I, -5); an older one only what is needed most.
    """
    head = b""
    while len(head) < 512 and (chunk := next(content.chunks, b"")):
        head += chunk
    at, host = _LABEL.get(head[7] if len(head) > 7 else 2, _LABEL[2])  # times before them are longer in version 3
    if name := _HOST_NAME.match(head, host):
        yield Fact("host.name", name[0].decode("ascii"), Citation(source.member))
    if int.from_bytes(head[at : at + 4], "big") in _NO_VOLUME:
        return
    program, file = find_program("pmrep"), _resolve(content.file)
    archive = _archive(file)
    on_host = re.sub(r"(\.\d{1,5})(\.(?:xz|gz|bz2|zst))?$", "", path_on_host(source))
    asked = f"pmrep -z -a {path_name(on_host)} -o csv -t 60 {_NEEDED} > pcp.csv"
    if program is None or archive is None:
        missing = "no pmrep is installed here" if archive else "its .meta, .index or first volume is not beside it"
        text = f"an archive of Performance Co-Pilot was not read: {missing}"
        yield request(source, ARCHIVE_NAME, text, ProblemKind.UNREADABLE, asked)
    elif file == _first_volume(archive):
        shown = ["-a", str(archive.absolute()), "-o", "csv", "-u", "-r", "-f", "%s"]
        tries = ([*shown, "-5", "-I", *_METRICS.split()], [*shown, *_NEEDED.split()])
        run = yield from printed_records(program, tries, _LIMITS, lambda text: _read_printed(source, text))
        if run.ending is not Ending.DONE:
            how, kind = ending_of(run, secret=str(archive.parent))
            yield request(source, ARCHIVE_NAME, f"an archive of Performance Co-Pilot: pmrep {how}", kind, asked)


def _read_printed(source: Source, printed: Content) -> Iterator[Record | Foreign]:
    return parse_member(source, printed, ARCHIVE_NAME, lambda source, lines: read(source, lines, ARCHIVE_NAME))


def _resolve(file: Path | None) -> Path | None:
    """The path under which the file lies beside others; it comes as an open descriptor."""
    try:
        return file.resolve() if file else None
    except (OSError, RuntimeError):
        return None


def _file_name(path: str, file: Path | None) -> str:
    """The name of the member among the files of its archive, where these do not lie on a disk as they are."""
    found = _PART.fullmatch(path.rpartition("/")[2])
    if not found or find_program("pmrep") is None or _archive(_resolve(file)) is not None:
        return ""
    return found[1]


def _archive(file: Path | None) -> Path | None:
    """The common path of the three without what tells them apart."""
    if file is None or not re.fullmatch(r"\.(?:\d{1,5}|meta|index)", file.suffix):
        return None
    base = file.with_suffix("")
    whole = all(Path(f"{base}{part}").is_file() for part in (".meta", ".index"))
    return base if whole and _first_volume(base) is not None else None


def _first_volume(archive: Path) -> Path | None:
    """The one that is read for all."""
    volume = re.compile(rf"{re.escape(archive.name)}\.\d{{1,5}}")
    volumes = [file for file in archive.parent.iterdir() if volume.fullmatch(file.name)]
    return min(volumes, key=lambda file: int(file.suffix[1:]), default=None)


ARCHIVE_PARSER = BulkParser(
    ARCHIVE_NAME, "PCP archives (rows by an installed pmrep)", None, read_archive, _file_name, opens=MAGIC
)
