"""atop -P and atop -J, and the values of one interval, also for the raw log.

Fields have the names that atop uses (photosyst.h, photoproc.h); memory of the host is in bytes here, that of processes
in KiB, CPU time in clock ticks of the interval. Counters are those of the interval, so they become rates with a quantum
of one count per interval. The first interval of a recording reaches back to boot: its rates are averages since boot,
its sizes are current. -1 is a value that the kernel does not have. Threads and processes that ended within the interval
(state E, sizes 0) are omitted. Source: atop 1.26 to 2.13, parseable.c, json.c, rawlog.h.

atop -P: one line per subject and interval, blanks between the fields.

    RESET
    CPU node1 1795168454 2026/11/20 09:54:14 5 100 2 112 708 174 0 0 0 0 2 0 5192 100 0 0
    PRM node1 1795168454 2026/11/20 09:54:14 5 4 (python3) R 4096 79152 62312 2764 65536 54128 210112 0 2192 ...
    SEP

Label, host, epoch of the interval's end, the same as date and time, its length in seconds; then fields by label. Units:
CPU time in ticks, memory of the host in pages (the first field is their size), that of processes in KiB, faults and
stalls of the interval. After RESET, the next interval reaches back to boot; SEP ends an interval.
Varies: fields are only ever appended (thread or process from 2.0, compaction stalls from 2.7, AnonHugePages from 2.11);
-Z puts underscores into names and removes their brackets. Labels without a used field are skipped.
Source: atop parseable.c, 1.26 to 2.13.

atop -J: one JSON object per interval and line.

    {"host": "node1", "timestamp": 1795168454, "elapsed": 5, "CPU": {"hertz": 100, "nrcpu": 2, "stime": 112, ...},
     "cpu": [...], "MEM": {"physmem": 25276510208, ...}, "PRG": [{"pid": 4, "name": "(python3)", ...}], "PRM": [...]}

Units: CPU time in ticks, memory of the host in bytes, that of processes in KiB. An interval that reaches back to boot
is not marked: it is the first one if it is longer than the second. Only PRG has names of processes; PRM and PRC are
joined to it by pid and in order: a process that ended in the interval may occur twice in each.
Source: atop json.c, 2.6 to 2.13.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Citation, Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible, process_entity
from thpdiag.parsers._lines import ParseErrors, any_of_first, member_parser, with_errors
from thpdiag.parsers._units import MAX_QUANTITY

Cells = Mapping[str, float]

MODES = {
    "stime": "system", "utime": "user", "ntime": "nice", "itime": "idle", "wtime": "iowait", "Itime": "irq",
    "Stime": "softirq", "steal": "steal",
}  # fmt: skip
BYTE_METRICS = {
    "physmem": "node_memory_MemTotal_bytes",
    "freemem": "node_memory_MemFree_bytes",
    "cachemem": "node_memory_Cached_bytes",
    "buffermem": "node_memory_Buffers_bytes",
    "slabmem": "node_memory_Slab_bytes",
    "slabreclaim": "node_memory_SReclaimable_bytes",
    "cachedrt": "node_memory_Dirty_bytes",
    "shmem": "node_memory_Shmem_bytes",
    "pagetables": "node_memory_PageTables_bytes",
    "availablemem": "node_memory_MemAvailable_bytes",
    "anonhugepage": "node_memory_AnonHugePages_bytes",
    "totswap": "node_memory_SwapTotal_bytes",
    "freeswap": "node_memory_SwapFree_bytes",
    "committed": "node_memory_Committed_AS_bytes",
    "commitlim": "node_memory_CommitLimit_bytes",
}
GAUGE_METRICS = {
    "tothugepage": "node_memory_HugePages_Total",
    "freehugepage": "node_memory_HugePages_Free",
    "lavg1": "node_load1",
}
COUNT_METRICS = {
    "csw": "node_context_switches_total:rate",
    "devint": "node_intr_total:rate",
    "allocstall": "node_allocstall_total:rate",
    "compactstall": "node_vmstat_compact_stall:rate",
    "pgmigrate": "node_vmstat_pgmigrate_success:rate",
    "numamigrate": "node_vmstat_numa_pages_migrated:rate",
    "oomkills": "node_vmstat_oom_kill:rate",
}
PRESSURE_METRICS = {
    f"{short}{window}": f"node_pressure_{kind}_{share}_avg{window}"
    for short, kind, share in (
        ("cs", "cpu", "some"), ("ms", "memory", "some"), ("mf", "memory", "full"), ("ios", "io", "some"),
        ("iof", "io", "full"),
    )
    for window in (10, 60, 300)
}  # fmt: skip
SWAP_METRICS = {"swins": "swap_in_bytes:rate", "swouts": "swap_out_bytes:rate"}
PROCESS_KIB_METRICS = {
    "rmem": "process_resident_memory_bytes",
    "vmem": "process_virtual_memory_bytes",
    "vswap": "process_swap_bytes",
}
FAULT_METRICS = {"minflt": "process_minor_faults_total:rate", "majflt": "process_major_faults_total:rate"}
TICK_METRICS = {"utime": "process_cpu_ratio.user", "stime": "process_cpu_ratio.system"}
DEFAULT_HERTZ = 100  # of ticks, where the source has no value
PERCENT = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of `seconds`; `end` is an epoch."""

    end: float
    seconds: float
    since_boot: bool
    reader: str

    @property
    def time(self) -> Moment:
        return Moment(self.end, Clock.UTC)


@dataclass(frozen=True, slots=True)
class Task:
    """A process as a line names it."""

    pid: str
    comm: str
    state: str = ""
    is_process: bool = True

    @property
    def is_alive(self) -> bool:
        """Whether it is a living process, and no thread."""
        return self.is_process and self.state != "E"


def _sizes(cells: Cells, names: Mapping[str, str], unit: float = 1) -> dict[str, float]:
    """Return the values that exist; -1 is a value that the kernel does not have."""
    sizes = {name: cells[key] * unit for key, name in names.items() if key in cells}
    return {name: value for name, value in sizes.items() if 0 <= value <= MAX_QUANTITY}


def cpu_samples(interval: Interval, cells: Cells, cite: Citation, number: str = "") -> Iterator[Sample]:
    """Yield shares of CPU time; `number` is that of the CPU, empty for all CPUs."""
    ticks = {mode: cells[key] for key, mode in MODES.items() if key in cells}
    total = sum(ticks.values())
    if len(ticks) < len(MODES) or total <= 0 or min(ticks.values()) < 0 or total > MAX_QUANTITY:
        return  # shares of an incomplete line would have another total
    parts = {mode: value / total for mode, value in ticks.items()}
    values = cpu_ratios(parts) if is_plausible(parts) else {}
    if values:
        kind, entity = ("cpu", (("cpu", number),)) if number else ("system", ())
        resolution = {name: 1 / total for name in values if name != "cpu_ratio.sys_share"}
        yield Sample(kind, values, cite, interval.reader, entity, interval.time, resolution, interval.since_boot)


def system_samples(interval: Interval, cells: Cells, cite: Citation, page: float = 4096) -> Iterator[Sample]:
    """Yield load, memory, swap, paging and pressure of the host; rates since boot are a separate Sample."""
    gauges = _sizes(cells, BYTE_METRICS) | _sizes(cells, GAUGE_METRICS) | _sizes(cells, PRESSURE_METRICS, PERCENT)
    coarse = {name: 0.001 for name in PRESSURE_METRICS.values() if name in gauges}
    rates, quanta = _rates(interval, cells, page)
    if not interval.since_boot:
        gauges |= rates
        coarse |= quanta
    elif rates:
        yield Sample("system", rates, cite, interval.reader, (), interval.time, quanta, since_boot=True)
    if gauges:
        yield Sample("system", gauges, cite, interval.reader, (), interval.time, coarse)


def _rates(interval: Interval, cells: Cells, page: float) -> tuple[dict[str, float], dict[str, float]]:
    if interval.seconds <= 0:
        return {}, {}
    per = 1 / interval.seconds
    rates = _sizes(cells, COUNT_METRICS, per)
    quanta = dict.fromkeys(rates, per)
    swapped = _sizes(cells, SWAP_METRICS, page * per)
    return rates | swapped, quanta | dict.fromkeys(swapped, page * per)


def process_memory(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """Yield sizes and faults of a process; its faults before the recording began do not belong to the interval."""
    if not task.is_alive:
        return
    values = _sizes(cells, PROCESS_KIB_METRICS, 1024)
    if not interval.since_boot and interval.seconds > 0:
        values |= _sizes(cells, FAULT_METRICS, 1 / interval.seconds)  # exact counts
    if values:
        yield Sample("process", values, cite, interval.reader, process_entity(task.pid, task.comm), interval.time)


def process_cpu(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """Yield the CPU use of a process in the interval, in CPUs."""
    hertz = cells.get("hertz", DEFAULT_HERTZ)
    if not task.is_alive or interval.since_boot or interval.seconds <= 0 or hertz <= 0:
        return
    quantum = 1 / hertz / interval.seconds
    values = _sizes(cells, TICK_METRICS, quantum)
    if len(values) == len(TICK_METRICS):
        values["process_cpu_ratio"] = sum(values.values())
    if values:
        quanta = dict.fromkeys(values, quantum)
        entity = process_entity(task.pid, task.comm)
        yield Sample("process", values, cite, interval.reader, entity, interval.time, quanta)


def process_start(interval: Interval, task: Task, cells: Cells, cite: Citation) -> Iterator[Sample]:
    """Yield start time and number of threads of a process."""
    names = {"btime": "process_start_time_seconds", "nthr": "process_threads"}
    if task.is_alive and (values := _sizes(cells, names)):
        yield Sample("process", values, cite, interval.reader, process_entity(task.pid, task.comm), interval.time)


PARSEABLE = "atop_parseable"
_DATED_FIELDS = r"\S{1,255} \d{9,10} \d{4}/\d\d/\d\d \d\d:\d\d:\d\d \d{1,9}(?= )"
_LABEL = r"(?:CPU|cpu|CPL|GPU|MEM|SWP|PAG|PSI|LVM|MDD|DSK|NFM|NFC|NFS|NET|IFB|NUM|NUC|LLC|CGR|PRG|PRC|PRE|PRM|PRD|PRN)"
_LINE = re.compile(rf"({_LABEL}) (\S{{1,255}}) (\d{{9,10}}) \d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d (\d{{1,9}}) (.*)$")
_PARSEABLE_OPENS = re.compile(rf"{_LABEL} {_DATED_FIELDS}|(?:RESET|SEP)\s*$")
_PROCESS = re.compile(r"(\d{1,10}) (?:\((.{0,15}?)\)|(\S{1,40})) ([A-Z?]) (.*)$")
_COMMAND = re.compile(r"((?:-?\d+ ){6})(?:\((.*)\)|(\S+))(?: -?\d+){11}(?: ([yn]))?(?: |$)")

CPU = ("hertz", "nrcpu", "stime", "utime", "ntime", "itime", "wtime", "Itime", "Stime", "steal")
MEM = (
    "", "physmem", "freemem", "cachemem", "buffermem", "slabmem", "cachedrt", "slabreclaim", "", "shmem", "", "", "",
    "tothugepage", "freehugepage", "", "", "", "", "", "pagetables", "", "", "", "availablemem", "anonhugepage",
)  # fmt: skip
PAGES = frozenset(BYTE_METRICS)
FIELDS: dict[str, tuple[str, ...]] = {
    "CPL": ("nrcpu", "lavg1", "", "", "csw", "devint"),
    "MEM": MEM,
    "SWP": ("", "totswap", "freeswap", "", "committed", "commitlim"),
    "PAG": ("", "", "allocstall", "", "swins", "swouts", "oomkills", "compactstall", "pgmigrate", "numamigrate"),
    "PSI": (
        "", "cs10", "cs60", "cs300", "", "ms10", "ms60", "ms300", "", "mf10", "mf60", "mf300", "", "ios10", "ios60",
        "ios300", "", "iof10", "iof60", "iof300",
    ),
}  # fmt: skip
PRM = ("", "vmem", "rmem", "", "", "", "minflt", "majflt", "", "", "", "vswap")
PRC = ("hertz", "utime", "stime")
IS_PROCESS_INDEX = {"PRM": 13, "PRC": 10}  # of the field with y or n
_COUNT = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?", re.ASCII)


def cells(names: Sequence[str], words: Sequence[str]) -> dict[str, float] | None:
    """Return the named fields as numbers; None if one is not a number."""
    pairs = [(name, word) for name, word in zip(names, words, strict=False) if name]
    if not all(_COUNT.fullmatch(word) for _, word in pairs):
        return None
    return {name: float(word) for name, word in pairs}


@dataclass(slots=True)
class ParseableLines:
    """Parses the lines of one block or file, in order."""

    source: Source
    odd: ParseErrors
    since_boot: bool = False
    hosts: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)

    def line(self, number: int, text: str) -> Iterator[Record]:
        match = _LINE.match(text)
        if not match:
            if text.strip() in ("RESET", "SEP"):
                self.since_boot = text.startswith("RESET")
            elif text.strip():
                self.odd.note(number, text, "not a line of atop -P")
            return
        label, host, epoch, seconds, rest = match.groups()
        cite = self.source.cite(number, text)
        if host not in self.hosts:
            self.hosts.add(host)
            yield Fact("host.name", host, cite)
        if parse := PARSERS_BY_LABEL.get(label):
            interval = Interval(float(epoch), float(seconds), self.since_boot, PARSEABLE)
            records = parse(self, interval, label, rest, cite)
            if records is None:
                self.odd.note(number, text, f"a line {label} of atop -P with non-numeric fields: not used")
            else:
                yield from records

    def cpu(self, interval: Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        words = rest.split()
        numbers = cells(CPU, words)
        if numbers is None or len(words) < 2:
            return None
        return cpu_samples(interval, numbers, cite, words[1] if label == "cpu" else "")

    def system(self, interval: Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        words = rest.split()
        if label == "PSI" and words[:1] != ["y"]:
            return ()
        numbers = cells(FIELDS[label], words)
        page = float(words[0]) if words and words[0].isdecimal() and len(words[0]) < 9 else 4096.0
        if numbers is None:
            return None
        sizes = {name: value * page if name in PAGES and value >= 0 else value for name, value in numbers.items()}
        return system_samples(interval, sizes, cite, page)

    def process(self, interval: Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        named = _PROCESS.match(rest)
        if not named:
            return None
        words = named[5].split()
        numbers = cells(PRM if label == "PRM" else PRC, words)
        task = Task(named[1], named[2] or named[3] or "", named[4], words[IS_PROCESS_INDEX[label] :][:1] != ["n"])
        if numbers is None:
            return None
        return (process_memory if label == "PRM" else process_cpu)(interval, task, numbers, cite)

    def general(self, interval: Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        """Parse start and command line of a process; the command is yielded once."""
        named = _PROCESS.match(rest)
        match = _COMMAND.match(named[5]) if named else None
        if not named or not match:
            return None
        numbers = cells(("", "", "", "nthr", "", "btime"), match[1].split())
        task = Task(named[1], named[2] or named[3] or "", named[4], match[4] != "n")
        return None if numbers is None else self._add_start(interval, task, numbers, match[2] or match[3] or "", cite)

    def _add_start(
        self, interval: Interval, task: Task, numbers: Cells, command: str, cite: Citation
    ) -> Iterator[Record]:
        started = list(process_start(interval, task, numbers, cite))
        if started and command not in ("", "_") and task.pid not in self.commands:
            self.commands.add(task.pid)
            yield Fact("process.command", command, cite, (("pid", task.pid), ("comm", task.comm)), interval.time)
        yield from started


LabelParser = Callable[[ParseableLines, Interval, str, str, Citation], Iterable[Record] | None]
PARSERS_BY_LABEL: dict[str, LabelParser] = {
    "CPU": ParseableLines.cpu,
    "cpu": ParseableLines.cpu,
    **dict.fromkeys(FIELDS, ParseableLines.system),
    "PRM": ParseableLines.process,
    "PRC": ParseableLines.process,
    "PRG": ParseableLines.general,
}


@with_errors(PARSEABLE)
def read_parseable(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the host, of each CPU and of each process per interval; a Fact process.command per process."""
    recording = ParseableLines(source, odd)
    for number, text in lines:
        yield from recording.line(number, text)


def _claims_parseable(path: str, head: bytes, size: int | None) -> bool:
    start = head[:4096].decode("utf-8", "replace").split("\n")[:3]
    return bool(_PARSEABLE_OPENS.match(start[0]) and len(start) > 1 and _LINE.match(start[1]))


PARSEABLE_PARSER = Parser(
    PARSEABLE, "atop -P, parseable lines", read_parseable, opens=_PARSEABLE_OPENS, continues=_PARSEABLE_OPENS.match,
    confirm=any_of_first(3, _LINE),
)  # fmt: skip
PARSEABLE_BULK_PARSER = member_parser(
    PARSEABLE_PARSER, _claims_parseable, opens=re.compile(f"{_LABEL} |RESET|SEP".encode())
)


JSON = "atop_json"
MAX_INTERVAL_BYTES = 64 << 20  # of a line with all its processes
MAX_NUMBER = 1e18
JSON_NAMES = {"compacts": "compactstall", "migrates": "pgmigrate", "numamigs": "numamigrate"}  # renamed in -J
_JSON_OPENS = re.compile(r'\{"host": ?"[^"]{1,255}", ?"timestamp": ?\d{9,10}, ?"elapsed": ?\d')
_CUT = "an interval of atop -J that is invalid or cut JSON: not used"


def _numbers(item: object) -> dict[str, float]:
    """Return the members of an object that are numbers, also as text."""
    if not isinstance(item, Mapping):
        return {}
    numbers = {}
    for name, value in item.items():
        digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19
        if digits or (isinstance(value, int | float) and abs(value) < MAX_NUMBER):
            numbers[name] = float(value)
    return numbers


def _rows(item: object) -> Sequence[Mapping[str, object]]:
    return [row for row in item if isinstance(row, Mapping)] if isinstance(item, list) else []


def _name(item: object) -> str:
    """Return a name without the brackets around it."""
    text = item if isinstance(item, str) else ""
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return "".join(c if c.isprintable() else " " for c in text)


@dataclass(slots=True)
class JsonIntervals:
    """Intervals in order; the first is held until the second shows whether it reached back to boot."""

    hosts: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)

    def interval(self, sample: Mapping[str, object], cite: Citation, *, since_boot: bool) -> Iterator[Record]:
        host = _name(sample.get("host"))
        if host and host not in self.hosts:
            self.hosts.add(host)
            yield Fact("host.name", host, cite)
        basics = _numbers(sample)
        interval = Interval(basics["timestamp"], basics["elapsed"], since_boot, JSON)
        yield from cpu_samples(interval, _numbers(sample.get("CPU")), cite)
        for row in _rows(sample.get("cpu")):
            cells = _numbers(row)
            yield from cpu_samples(interval, cells, cite, str(int(cells.get("cpuid", -1))))
        for label in ("CPL", "MEM", "SWP", "PAG", "PSI"):
            cells = _numbers(sample.get(label))
            yield from system_samples(interval, {JSON_NAMES.get(k, k): v for k, v in cells.items()}, cite)
        yield from self._processes(interval, sample, cite)

    def _processes(self, interval: Interval, sample: Mapping[str, object], cite: Citation) -> Iterator[Record]:
        tasks: dict[float, list[Task]] = {}
        for row in _rows(sample.get("PRG")):
            cells = _numbers(row)
            if "pid" not in cells:
                continue
            pid = str(int(cells["pid"]))
            task = Task(pid, _name(row.get("name")), _name(row.get("state")), cells.get("isproc", 1) != 0)
            tasks.setdefault(cells["pid"], []).append(task)
            command = _name(row.get("cmdline"))
            if task.is_alive and command and pid not in self.commands:
                self.commands.add(pid)
                yield Fact("process.command", command, cite, (("pid", pid), ("comm", task.comm)), interval.time)
            yield from process_start(interval, task, cells, cite)
        hertz = _numbers(sample.get("CPU")).get("hertz", DEFAULT_HERTZ)
        for label, subject in (("PRM", process_memory), ("PRC", process_cpu)):
            seen = Counter[float]()
            for row in _rows(sample.get(label)):
                cells = _numbers(row)
                key = cells.get("pid", -1.0)
                if known := tasks.get(key):  # in the same order: a process that ended may occur twice
                    yield from subject(interval, known[min(seen[key], len(known) - 1)], cells | {"hertz": hertz}, cite)
                    seen[key] += 1


def _load_interval(text: str) -> Mapping[str, object] | None:
    """Return an interval, None if the line has none."""
    try:
        sample = json.loads(text)
    except (ValueError, RecursionError):
        return None
    basics = _numbers(sample)
    return sample if "timestamp" in basics and "elapsed" in basics else None


@with_errors(JSON)
def read_json(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the host, of each CPU and of each process per interval; a Fact process.command per process."""
    recording = JsonIntervals()
    held: tuple[Mapping[str, object], Citation] | None = None
    first = True
    for number, text in lines:
        if not text.strip():
            continue
        sample = _load_interval(text)
        if sample is None:
            odd.note(number, text, _CUT)
            continue
        if held:
            since_boot = first and _numbers(held[0])["elapsed"] > _numbers(sample)["elapsed"]
            yield from recording.interval(*held, since_boot=since_boot)
            first = False
        held = sample, source.cite(number, text)
    if held:
        yield from recording.interval(*held, since_boot=first)


JSON_PARSER = Parser(JSON, "atop -J, JSON", read_json, opens=_JSON_OPENS, continues=_JSON_OPENS.match)
JSON_BULK_PARSER = member_parser(
    JSON_PARSER,
    lambda _path, head, _size: _JSON_OPENS.match(head[:512].decode("utf-8", "replace")),
    MAX_INTERVAL_BYTES,
    opens=re.compile(rb'\{"host"'),
)
