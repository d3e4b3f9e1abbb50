"""atop's screens as text (atop -r FILE, atop 10 60 > FILE): lines of `name value` cells, then tasks.

    ATOP - node1       2026/11/20  09:54:14       -----------------       5s elapsed
    CPU | sys      22% | user    178% | irq       0% | idle      0% | wait      0% |
    MEM | tot    23.5G | free   15.6G | cache   5.3G | buff  284.9M | slab  464.2M |
        PID VSTACK  VSIZE  RSIZE  PSIZE  VGROW  RGROW SWAPSZ  MEM CMD

Units: percent of one CPU, summed over all; sizes with one decimal and a suffix, so a quantum of up to 0.1 of the unit;
counts of the interval, long ones as 356e3. The first screen of a recording is since boot and marked so; its sizes are
current. The time is local. Varies: the cells that fit into the width (steal and stall may be missing), and the columns
of tasks (generic, -m, -s, -c); the name of a process that ended is in <>, its sizes are 0 or -.
Source: atop showlinux.c, showsys.c, showprocs.c, 1.26 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from thpdiag.model import Citation, Clock, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, is_plausible, process_entity
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._units import Column, Quantity, Readings, columns, parse_quantity

NAME = "atop_text"
FRAME = re.compile(
    r"ATOP - (\S{1,255})\s+(\d{4}/\d\d/\d\d)\s+(\d\d:\d\d:\d\d)\s.{0,400}?\s((?:\d{1,6}[dhms]){1,4}) elapsed\s*$"
)
LINE = re.compile(
    r"(PRC|CPU|cpu|CPL|GPU|MEM|SWP|PAG|PSI|LVM|MDD|DSK|NFM|NFC|NFS|NET|IFB|NUM|NUC|LLC) \|(?: [^|]{1,40}\|)+\s*$"
)
NOTICE = re.compile(r"\*\*\* .{3,60} \*\*\*")
HEADER = re.compile(r"\s{0,8}PID(?:\s{1,9}[A-Z%][A-Z0-9_/%-]*)+(?:\s{1,80}\d+/\d+)?\s*$")
ROW = re.compile(r"\s{0,8}\d{1,10}\s+\S")
CELL = re.compile(r"\s(\S{1,9})\s+(\S{1,14})\s$")
_ELAPSED = re.compile(r"(\d{1,6})([dhms])")
SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
MODES = {
    "sys": "system", "user": "user_total", "irq": "irq_total", "idle": "idle", "wait": "iowait", "steal": "steal",
}  # fmt: skip
_COUNT = re.compile(r"(\d{1,12})(?:e(\d{1,2}))?", re.ASCII)
_CPU_TIME = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d\d)?)s)?", re.ASCII)


def parse_count(text: str) -> Quantity | None:
    """Return `5565`, which is exact, or `356e3`, of which only three digits are known."""
    match = _COUNT.fullmatch(text)
    if not match or int(match[2] or 0) > 15:
        return None
    unit = 10.0 ** int(match[2] or 0)
    return Quantity(int(match[1]) * unit, unit if match[2] else 0.0)


def parse_cpu_time(text: str) -> Quantity | None:
    """Return `0.35s`, `1m12s`, `3h05m` in seconds."""
    match = _CPU_TIME.fullmatch(text)
    if not match or not text:
        return None
    hours, minutes, seconds = match.groups()
    quantum = 0.01 if "." in (seconds or "") else 1.0 if seconds else 60.0
    return Quantity(int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0), quantum)


LOAD_COLUMNS = {"avg1": Column("node_load1", parse_quantity)}
SIZE_COLUMNS = {
    "MEM": columns(
        {
            "tot": "node_memory_MemTotal_bytes",
            "free": "node_memory_MemFree_bytes",
            "cache": "node_memory_Cached_bytes",
            "buff": "node_memory_Buffers_bytes",
            "slab": "node_memory_Slab_bytes",
            "slrec": "node_memory_SReclaimable_bytes",
            "dirty": "node_memory_Dirty_bytes",
            "shmem": "node_memory_Shmem_bytes",
            "pgtab": "node_memory_PageTables_bytes",
            "avail": "node_memory_MemAvailable_bytes",
            "anthp": "node_memory_AnonHugePages_bytes",
        },
        parse_quantity,
    ),
    "SWP": columns(
        {
            "tot": "node_memory_SwapTotal_bytes",
            "free": "node_memory_SwapFree_bytes",
            "vmcom": "node_memory_Committed_AS_bytes",
            "vmlim": "node_memory_CommitLimit_bytes",
        },
        parse_quantity,
    ),
}
COUNT_COLUMNS = {
    "CPL": columns({"csw": "node_context_switches_total:rate", "intr": "node_intr_total:rate"}, parse_count),
    "PAG": columns(
        {
            "stall": "node_allocstall_total:rate",
            "compact": "node_vmstat_compact_stall:rate",
            "migrate": "node_vmstat_pgmigrate_success:rate",
            "numamig": "node_vmstat_numa_pages_migrated:rate",
            "oomkill": "node_vmstat_oom_kill:rate",
        },
        parse_count,
    ),
}
TASK_SIZES = columns(
    {
        "RSIZE": "process_resident_memory_bytes",
        "VSIZE": "process_virtual_memory_bytes",
        "SWAPSZ": "process_swap_bytes",
    },
    parse_quantity,
)
TASK_FAULTS = {"MINFLT": "process_minor_faults_total:rate", "MAJFLT": "process_major_faults_total:rate"}
TASK_COUNTS = columns(TASK_FAULTS, parse_count)
TASK_CPU = columns({"SYSCPU": "process_cpu_ratio.system", "USRCPU": "process_cpu_ratio.user"}, parse_cpu_time)


@dataclass(slots=True)
class Screen:
    """One screen: its lines, until it is known whether it is since boot and how many CPUs there are."""

    time: Moment | None
    seconds: float
    since_boot: bool = False
    cpus: int = 0
    lines: list[tuple[str, dict[str, str], Citation]] = field(default_factory=list)


@dataclass(slots=True)
class Screens:
    """The screens of a recording, in order."""

    source: Source
    odd: ParseErrors
    screen: Screen | None = None
    hosts: set[str] = field(default_factory=set)
    columns: Sequence[str] = ()

    def begin(self, number: int, text: str, match: re.Match[str]) -> Iterator[Record]:
        yield from self.end()
        cite = self.source.cite(number, text)
        if match[1] not in self.hosts:
            self.hosts.add(match[1])
            yield Fact("host.name", match[1], cite)
        elapsed = sum(int(digits) * SECONDS[unit] for digits, unit in _ELAPSED.findall(match[4]))
        self.screen = Screen(_moment(match[2], match[3]), float(elapsed))
        self.columns = ()
        if self.screen.time is None:
            self.odd.note(number, text, "a screen of atop with an invalid time")

    def read_heading(self, number: int, text: str) -> bool:
        """Take a line of the host's figures, a notice or the head of the tasks; return False for other lines."""
        if line := LINE.match(text):
            self.cells(number, text, line[1])
        elif NOTICE.match(text):
            if self.screen and "since Boot" in text:
                self.screen.since_boot = True
        elif HEADER.match(text):
            self.columns = [word for word in text.split() if not re.fullmatch(r"\d+/\d+", word)]
        else:
            return False
        return True

    def cells(self, number: int, text: str, label: str) -> None:
        screen = self.screen = self.screen or Screen(self.source.time, 0.0)
        cells = {}
        for part in text.split("|")[1:]:
            if cell := CELL.match(part):
                cells[cell[1]] = cell[2]
        if label == "CPL" and cells.get("numcpu", "").isdecimal():
            screen.cpus = int(cells["numcpu"][:6])
        screen.lines.append((label, cells, self.source.cite(number, text)))

    def end(self) -> Iterator[Record]:
        """Yield the host's figures of the open screen."""
        screen, self.screen = self.screen, None
        for label, cells, cite in screen.lines if screen else ():
            assert screen is not None
            if label == "CPU":
                yield from self._cpu(screen, cells, cite)
            elif label in ("MEM", "SWP", "PAG", "CPL"):
                yield from self._host(screen, label, cells, cite)

    def _cpu(self, screen: Screen, cells: Mapping[str, str], cite: Citation) -> Iterator[Record]:
        """Yield shares of all CPUs; `sys` excludes interrupts, `irq` has both kinds."""
        shares = {
            name: parse_quantity(cells[key][:-1]) for key, name in MODES.items() if cells.get(key, "").endswith("%")
        }
        points = {name: share.value for name, share in shares.items() if share}
        cpus = screen.cpus or round(sum(points.values()) / 100)
        if not {"system", "user_total"} <= points.keys() or not cpus:
            return
        parts = {name: value / 100 / cpus for name, value in points.items()}
        irq, user = parts.pop("irq_total", 0.0), parts.pop("user_total")
        if not is_plausible({**parts, "irq": irq, "user": user}):
            self.odd.note(cite.line or 0, cite.text, "CPU shares of atop that do not add up: not used")
            return
        ratios = cpu_ratios({**parts, "user": user, "softirq": irq})
        values = {k: v for k, v in ratios.items() if k not in ("cpu_ratio.user", "cpu_ratio.softirq")}
        quanta = {name: 0.01 / cpus for name in values if name != "cpu_ratio.sys_share"}
        yield Sample("system", values, cite, NAME, (), screen.time, quanta, screen.since_boot)

    def _host(self, screen: Screen, label: str, cells: Mapping[str, str], cite: Citation) -> Iterator[Record]:
        gauges, rates = Readings(), Readings()
        sizes, counts = SIZE_COLUMNS.get(label, {}), COUNT_COLUMNS.get(label, {}) if screen.seconds else {}
        odd = [sizes[title] for title in gauges.take(sizes, cells)]
        odd += [counts[title] for title in rates.take(counts, cells, 1 / (screen.seconds or 1))]
        for column in odd:
            self.odd.note(cite.line or 0, cite.text, f"an impossible number for {column.metric}: not used")
        if label == "CPL":
            gauges.take(LOAD_COLUMNS, cells)
        for readings, boot in ((gauges, False), (rates, screen.since_boot)):
            if readings.values:
                yield Sample("system", readings.values, cite, NAME, (), screen.time, readings.resolution, boot)

    def task(self, number: int, text: str) -> Iterator[Record]:
        screen = self.screen
        words = text.split(None, len(self.columns) - 1)
        if screen is None or len(words) < len(self.columns):
            self.odd.note(number, text, "a row of atop with other columns than its header")
            return
        cells = dict(zip(self.columns, words, strict=True))
        command = words[-1].strip()
        if command.startswith("<"):  # the process ended in the interval
            return
        readings = Readings()
        readings.take(TASK_SIZES, cells)
        if not screen.since_boot and screen.seconds:
            readings.take(TASK_COUNTS, cells, 1 / screen.seconds)
            readings.take(TASK_CPU, cells, 1 / screen.seconds)
            modes = [column.metric for column in TASK_CPU.values()]
            if all(name in readings.values for name in modes):
                readings.values["process_cpu_ratio"] = sum(readings.values[name] for name in modes)
                readings.resolution["process_cpu_ratio"] = sum(readings.resolution[name] for name in modes)
        if readings.values:
            entity = process_entity(cells["PID"], command if self.columns[-1] == "CMD" else "")
            cite = self.source.cite(number, text)
            yield Sample("process", readings.values, cite, NAME, entity, screen.time, readings.resolution)


def _moment(date: str, clock: str) -> Moment | None:
    try:
        seconds = datetime.strptime(f"{date} {clock}", "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Moment(seconds, Clock.LOCAL)


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host per line of figures, one per task that shows memory, faults or CPU time."""
    screens = Screens(source, odd)
    for number, text in lines:
        if frame := FRAME.match(text):
            yield from screens.begin(number, text, frame)
        elif screens.columns and ROW.match(text):
            yield from screens.task(number, text)
        elif not screens.read_heading(number, text) and text.strip():
            odd.note(number, text, "not a line of atop")
    yield from screens.end()


PARSER = Parser(
    NAME, "atop screens", read,
    opens=re.compile(f"{FRAME.pattern}|(?:CPU|MEM|PAG|PRC|SWP) \\|(?: [^|]{{1,40}}\\|){{3,}}\\s*$"),
    continues=any_of(ROW, LINE, FRAME, NOTICE, HEADER, blank=True),
    priority=7,  # before ps, which has a similar header
)  # fmt: skip
