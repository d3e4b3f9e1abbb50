"""Output of below dump system, process and cgroup: table, CSV, TSV, key-value pairs and JSON.

    Hostname,Datetime,Usage,User,System,Total,Free,Swap In,Swap Out,Kernel Version,Timestamp,
    node1,2026-11-20 10:54:16,61.21%,12.04%,48.9%,62.7 GB,1.8 GB,0.0 B/s,0.0 B/s,6.1.0-28-amd64,1795168456,
    Datetime            Pid        Ppid       Comm        State     CPU       RSS       Reads     Writes     ...
    Name                 Inode Number    Datetime              CPU Usage   Mem Total   ...   Mem Pressure   Timestamp
    <root>               1               2026-11-20 10:54:16   61.21%      62.7 GB           ?              1795168456
    └─ system.slice      24              2026-11-20 10:54:16   48.01%      40.2 GB           12.40%         1795168456

Units: percent of all CPUs (for a process: of one CPU), sizes with binary suffixes and one decimal, per second; with
--raw plain bytes and pages. User and System exclude nice and interrupts, which --detail shows; Usage includes them, so
the sums are reported only if Usage shows that nice and interrupts are negligible. Times are epochs, or the host's wall
clock if only Datetime is printed. JSON holds the same texts in one line.
Varies: columns and their order (-f). A table row is split at the positions of the titles; an empty line ends the pairs
of a sample.
Control groups: pressure is the kernel's average over ten seconds. A name is indented by three characters per parent
group, which gives the path in a table without Full Path. In JSON, children are nested in their group.
Not read: disks, CPU use of control groups, and values that are totals in one release and rates in another (Stat).
Source: below/dump/src/print.rs, cgroup.rs, below/render/src/default_configs.rs, 0.6 to 0.9.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.detect.timestamps import FIRST_EPOCH, LAST_EPOCH, parse_timestamp
from thpdiag.model import Clock, Entity, Fact, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._cpu import MAX_COMM_CHARS, cpu_ratios, is_plausible, process_entity
from thpdiag.parsers._json import BrokenJsonError, JsonArray, json_head, json_pieces
from thpdiag.parsers._lines import ParseErrors, any_of, printable, rows_as_series, with_errors
from thpdiag.parsers._units import Column, Quantity, Readings, columns, parse_number, parse_quantity

NAME = "below"
MODES = {"User": "user", "Nice": "nice", "System": "system", "Idle": "idle", "IOWait": "iowait", "Irq": "irq",
         "SoftIrq": "softirq", "Stolen": "steal"}  # fmt: skip
SIZES = {"Total": "MemTotal", "Free": "MemFree", "Available": "MemAvailable", "Buffers": "Buffers", "Cached": "Cached",
         "Swap Total": "SwapTotal", "Swap Free": "SwapFree", "Anon Pages": "AnonPages",
         "Anon Huge Pages": "AnonHugePages", "Slab Unreclaimable": "SUnreclaim"}  # fmt: skip
FACTS = {"Hostname": "host.name", "Kernel Version": "kernel.release", "OS Release": "os.name"}


def _percent(text: str) -> Quantity | None:
    value = parse_number(text.removesuffix("%"))
    return None if value is None else Quantity(value / 100, 0.0001)


def _size(text: str) -> Quantity | None:
    return parse_quantity(text.replace(" ", ""))


def _rate(text: str) -> Quantity | None:
    return parse_quantity(text.removesuffix("/s").replace(" ", "")) if text.endswith("/s") else None


SYSTEM = {
    **columns({title: f"node_memory_{name}_bytes" for title, name in SIZES.items()}, _size),
    **columns({"Swap In": "swap_in_bytes:rate", "Swap Out": "swap_out_bytes:rate"}, _rate),
    **columns({"Running Procs": "node_procs_running", "Blocked Procs": "node_procs_blocked"}),
}
PROCESS = {
    "CPU": Column("process_cpu_ratio", _percent),
    "User CPU": Column("process_cpu_ratio.user", _percent),
    "Sys CPU": Column("process_cpu_ratio.system", _percent),
    **columns({"RSS": "process_resident_memory_bytes", "VM Size": "process_virtual_memory_bytes",
               "Anon": "process_rss_anon_bytes", "Swap": "process_swap_bytes"}, _size),
    **columns({"Minflt": "process_minor_faults_total:rate", "Majflt": "process_major_faults_total:rate"}, _rate),
}  # fmt: skip
CGROUP = {
    **columns({title: f"cgroup_memory_{name}_bytes" for title, name in (
        ("Mem Total", "usage"), ("Mem Anon", "anon"), ("Mem File", "file"), ("Anon THP", "anon_thp"),
        ("File THP", "file_thp"), ("Shmem THP", "shmem_thp"), ("Mem Shmem", "shmem"), ("Mem Max", "limit"),
        ("Mem High", "high_limit"), ("Inactive Anon", "inactive_anon"), ("Active Anon", "active_anon"),
        ("Swap Cached", "swapcached"), ("Slab Unreclaimable", "slab_unreclaimable"))}, _size),
    **columns({"Mem Some Pressure": "cgroup_memory_some_avg10", "Mem Pressure": "cgroup_memory_full_avg10"}, _percent),
    **columns({title: f"cgroup_memory_{name}_total:rate" for title, name in (
        ("Events High/s", "high_events"), ("Events Max/s", "max_events"), ("THP Fault Alloc", "thp_fault_alloc"),
        ("THP Collapse Alloc", "thp_collapse_alloc"), ("Pglazyfree", "pglazyfree"))}),
}  # fmt: skip
MAX_OTHER_RATIO = 0.02  # part of Usage outside User and System up to which nice and interrupts are negligible
_TITLE = re.compile(r"\S+(?: \S+)*")
_TIME = r"(?:Datetime|Timestamp)"
_KNOWN = r"(?:Usage|User|System|Total|Free|Pid|RSS|CPU|Mem|Pressure|THP)"
_TABLE = re.compile(
    rf"(?=(?:.{{0,600}}[ ,\t])?{_TIME}[ ,\t])(?=(?:.{{0,600}}[ ,\t])?{_KNOWN}[ ,\t])[A-Z][\w %/().,\t-]*$"
)
_ROW = re.compile(r"(?: {0,120}└[─+] )?[^\s,][^,\t]{0,60}(?:[,\t]| {1,60}\S)")
_INDENT = re.compile(r"(?P<blanks> {0,120})└[─+] ")
INDENT_CHARS = 3  # per level of the hierarchy
ROOT_GROUP = "<root>"
_PAIR = re.compile(r"(?P<key>[A-Z][\w /()]{1,40}): (?P<value>.{0,400})$")
_PAIRS = re.compile(rf"(?:Hostname: \S{{1,255}}|{_TIME}: \d{{4}}[\d: -]{{6,16}})\s*$")
_JSON = re.compile(rb"\s{0,4}\[\{\"[A-Z][\w /()]{1,40}\": ?\"")


@dataclass(slots=True)
class _Dump:
    """State of one dump: reported facts, and the parent groups of the current row."""

    source: Source
    errors: ParseErrors
    reported: set[tuple[str, str]] = field(default_factory=set)
    parents: list[str] = field(default_factory=list)  # names of the control groups above the row

    def sample_records(self, cells: Mapping[str, str], number: int, text: str) -> Iterator[Record]:
        """Yield the records of a sample, given by title."""
        cite, time = self.source.cite(number, text), _time(cells)
        for title, name in FACTS.items():
            if cells.get(title, "?") not in ("", "?") and (name, cells[title]) not in self.reported:
                self.reported.add((name, cells[title]))
                yield Fact(name, printable(cells[title])[:255], cite)
        readings = Readings()
        is_process, group = cells.get("Pid", "").isdecimal(), self._group_path(cells)
        table = PROCESS if is_process else CGROUP if group else SYSTEM
        if bad := readings.take(table, {title: cell for title, cell in cells.items() if cell not in ("?", "max")}):
            self.errors.note(number, text, f"no number in {', '.join(bad)} of below")
        entity: Entity = ()
        if is_process:
            comm = printable(cells.get("Comm", ""))[:MAX_COMM_CHARS]
            entity = process_entity(cells["Pid"][:10], comm)
            command, key = cells.get("Cmdline", "?"), ("command", cells["Pid"])
            if command not in ("", "?") and key not in self.reported:
                self.reported.add(key)
                yield Fact("process.command", printable(command)[:400], cite, entity, time)
        elif group:
            entity = (("cgroup", group),)
        else:
            _put_cpu_ratios(cells, readings)
        if readings.values:
            kind = "process" if is_process else "cgroup" if group else "system"
            yield Sample(kind, readings.values, cite, NAME, entity, time, readings.resolution)

    def _group_path(self, cells: Mapping[str, str]) -> str:
        """Return the path of the control group of a row, or "" if the row belongs to none."""
        name = cells.get("Name", "")
        if not name or not cells.keys() & CGROUP.keys():
            return ""
        indent = _INDENT.match(name)
        depth = len(indent["blanks"]) // INDENT_CHARS + 1 if indent else 0
        name = printable(name[indent.end() :] if indent else name).strip()[:255]
        self.parents[max(0, depth - 1) :] = [name] if depth else []
        path = cells.get("Full Path", "?")
        if path not in ("", "?"):
            return printable(path)[:400]
        return "/" if name == ROOT_GROUP else f"/{'/'.join(self.parents)}" if depth else name


def _put_cpu_ratios(cells: Mapping[str, str], readings: Readings) -> None:
    parts = {mode: share.value for title, mode in MODES.items() if (share := _percent(cells.get(title, "")))}
    if is_plausible(parts) and {"user", "system"} <= parts.keys():
        values = cpu_ratios(parts)
        if usage := _percent(cells.get("Usage", "")):
            values["cpu_ratio.busy"] = usage.value
        other = usage.value - parts["user"] - parts["system"] if usage else 1.0
        if not {"irq", "softirq"} <= parts.keys() and other > MAX_OTHER_RATIO:
            values = {name: value for name, value in values.items() if "total" not in name and "share" not in name}
        readings.values.update(values)
        readings.resolution.update((name, 0.0001) for name in values if name != "cpu_ratio.sys_share")


def _time(cells: Mapping[str, str]) -> Moment | None:
    epoch = parse_number(cells.get("Timestamp", ""))
    if epoch is not None and FIRST_EPOCH <= epoch <= LAST_EPOCH:
        return Moment(epoch, Clock.UTC)
    return parse_timestamp(cells.get("Datetime", ""))


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield facts of the host, and a sample of the host, a process or a control group per row."""
    dump, titles, pairs, first = _Dump(source, errors), list[tuple[int, str]](), dict[str, str](), (0, "")
    separator = ""
    for number, text in lines:
        if _TABLE.match(text):
            separator = next((sign for sign in "\t," if sign in text), "")
            titles = _titles(text, separator)
        elif not text.strip():
            yield from dump.sample_records(pairs, *first) if pairs else ()
            pairs = {}
        elif titles:
            yield from dump.sample_records(_cells(text, titles, separator), number, text)
        elif pair := _PAIR.match(text):
            first = first if pairs else (number, text)
            pairs[pair["key"]] = pair["value"].strip()
        else:
            errors.note(number, text, "not a line of below")
    yield from dump.sample_records(pairs, *first) if pairs else ()


def _titles(text: str, separator: str) -> list[tuple[int, str]]:
    """Return (position of the column, title) for each column; with a separator the position is the column's number."""
    if separator:
        return list(enumerate(title.strip() for title in text.split(separator)))
    return [(match.start(), match[0]) for match in _TITLE.finditer(text)]


def _cells(text: str, titles: Sequence[tuple[int, str]], separator: str) -> dict[str, str]:
    """Return the cells of a row by title; if two columns have the same title, the first."""
    if separator:
        words = next(csv.reader([text], delimiter=separator), []) if '"' in text else text.split(separator)
        pairs = list(zip((title for _, title in titles), words, strict=False))
    else:
        ends = [*(begin for begin, _ in titles[1:]), len(text)]
        pairs = [(title, text[begin:end]) for (begin, title), end in zip(titles, ends, strict=True)]
    return {title: cell.rstrip() if title == "Name" else cell.strip() for title, cell in reversed(pairs) if title}


def _confirm(ahead: list[str]) -> bool:
    if _TABLE.match(ahead[0]):
        return len(ahead) < 2 or bool(re.search(r"\d{10}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", ahead[1]))
    return any(re.match(rf"{_KNOWN}: ", text) for text in ahead) and any(
        text.startswith("Datetime: ") for text in ahead
    )


PARSER = Parser(
    NAME, "below dump", read, opens=re.compile(f"{_TABLE.pattern}|{_PAIRS.pattern}"),
    continues=any_of(_ROW, _PAIR, blank=True), confirm=_confirm,
)  # fmt: skip


def read_json(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield the same records from a JSON array of samples."""
    yield from rows_as_series(_json_records(source, content))


def _json_records(source: Source, content: Content) -> Iterator[Record]:
    errors = ParseErrors(source, NAME)
    dump, rows = _Dump(source, errors), JsonArray(json_pieces(content), 1)
    try:
        for line, row in rows.members(re.compile(r"\[")):
            for sample in _flatten(row):
                cells = {title: cell for title, cell in sample.items() if isinstance(cell, str)}
                yield from dump.sample_records(cells, line, "")
    except BrokenJsonError as error:
        text = f"the rest of a dump of below cannot be read: {error}"
        yield Problem(source.cite(rows.line), text, ProblemKind.DAMAGED, NAME)
    yield from errors.problems()


def _flatten(row: object) -> Iterator[dict[str, object]]:
    """Yield a sample and those of the control groups nested in it, each with its path."""
    stack: list[tuple[object, str]] = [(row, "")]
    while stack:
        sample, parent = stack.pop()
        if isinstance(sample, dict):
            name = sample.get("Name")
            path = "/" if name == ROOT_GROUP else f"{parent}/{name}"
            yield {"Full Path": path, **sample} if isinstance(name, str) and "children" in sample else sample
            children = sample.get("children")
            child_parent = "" if path == "/" else path
            stack += [(child, child_parent) for child in reversed(children if isinstance(children, list) else [])]


def confirm_json(_path: str, head: bytes, _size: int | None) -> bool:
    """Return whether the first sample has a time and a known title of a host, process or control group."""
    text = json_head(head)
    return bool(
        re.search(rf'"{_TIME}": ?"\d', text)
        and re.search(rf'"(?:[\w/]{{1,20}} )?{_KNOWN}(?: [\w/]{{1,20}})?": ?"', text)
    )


BULK_PARSER = BulkParser(NAME, "below dump as JSON", confirm_json, read_json, opens=_JSON)
