"""Output of top: single frames, and recordings of hours.

top, from `top -b` or pasted: CPU and memory of the host, and tasks, in frames.

    top - 06:02:48 up 22 min,  1 user,  load average: 0.88, 0.38, 0.17
    %Cpu(s):  2.4 us, 46.3 sy,  0.0 ni, 51.2 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
    MiB Mem :  24105.4 total,  23363.1 free,    398.2 used,    344.1 buff/cache
        PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND

Units: percent; the summary's unit precedes `Mem`; VIRT and RES are KiB or have a suffix (1.2g); %CPU of a task is
of one CPU. The clock has no date; it is taken from a time line above the frame.
Varies: `Cpu(s):  0.3%us,` up to procps 3.2, `%Cpu(s):  0.3 us,` since; `Mem: 16333764k total`, then `KiB Mem :`, `MiB
Mem :`; one line per CPU after key 1; translated words and decimal commas; fields in any order. A `+` marks a cut
number, which is not used. CPU figures of a recording's first frame are averages since boot (3.2) or of the moment in
which top started (later): they are yielded as `since_boot`, which no rate uses.
Source: procps top.c, 3.2.8 to 4.0.

A clock time without a date below a time with one (a loop printed the date, then ran top) is the host's wall clock. If
the time above is of the same wall clock, it supplies the day; so does an epoch, which differs from the wall clock by
whole quarters of an hour: the time then stays an epoch.

Recordings of OSWatcher, the second frame of runs of two: see oswatcher.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from thpdiag.detect.timestamps import recorder_of
from thpdiag.model import Clock, Entity, Fact, Listing, Moment, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, RowLines, Source
from thpdiag.parsers._cpu import cpu_ratios, cpu_seconds, is_plausible, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, any_of, parse_command, with_errors
from thpdiag.parsers._time import DAY, MAX_UNDER_A_MINUTE, DayClock, day_seconds
from thpdiag.parsers._units import (
    NAN,
    Column,
    ListingCells,
    Readings,
    columns,
    parse_number,
    parse_percent,
    parse_quantity,
)
from thpdiag.parsers.processes.oswatcher import MIN_BULK_BYTES, RepeatedRows, first_output, is_head, parse_recording

MAX_DATE_DISTANCE = 300  # seconds between a time line and what was started after it
ZONE_STEP = 900  # seconds; offsets of time zones are multiples of it


def day_clock(reference: Moment | None, seconds: float) -> DayClock:
    """Return a clock for times of which the first is `seconds` after midnight; dated if `reference` is close enough."""
    if reference is None or reference.clock not in (Clock.LOCAL, Clock.UTC):
        return DayClock()
    step = DAY if reference.clock is Clock.LOCAL else ZONE_STEP
    distance = (seconds - reference.seconds) % step
    distance -= step if distance > step / 2 else 0
    if abs(distance) > MAX_DATE_DISTANCE:
        return DayClock()
    return DayClock(reference.seconds + distance - seconds, reference.clock)


CPU = re.compile(r"%?C[Pp][Uu](?:\(s\)|\d{1,5})?\s{0,2}:(?=\s*\d)")
MEMORY = re.compile(r"(?:([KMGTPE])iB\s+([^\W\d]{2,12})|(Mem|Swap))\s?:\s+(?=\d)")
UPTIME = re.compile(r"\bup\s+(?:(\d{1,6}) days?,\s+)?(?:(\d{1,3}):(\d\d)|(\d{1,3}) min)")

_PART = re.compile(r"(\d{1,3}[.,]\d{1,2})\s?%?\s?([^\W\d]{2,10})")
_SIZE = re.compile(r"(\d{1,15}(?:[.,]\d{1,3})?)([kmgKMG]?)(\+?)\s?([^\W\d]+(?:/[^\W\d]+)?)")
MODES = {
    "us": "user", "user": "user", "sy": "system", "system": "system", "ni": "nice", "nice": "nice", "id": "idle",
    "idle": "idle", "wa": "iowait", "iowait": "iowait", "hi": "irq", "si": "softirq", "st": "steal",
}  # fmt: skip
MODES_IN_ORDER = ("user", "system", "nice", "idle", "iowait", "irq", "softirq", "steal")
TOTAL_METRICS = {"Mem": "node_memory_MemTotal_bytes", "Swap": "node_memory_SwapTotal_bytes"}
REQUIRED_MODES = {"irq", "softirq"}  # a line without them was cut, and its sum is incomplete
FREE_METRICS = {"Mem": "node_memory_MemFree_bytes", "Swap": "node_memory_SwapFree_bytes"}
UNITS = {"": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


@dataclass(frozen=True, slots=True)
class CpuLine:
    """A CPU line. `cpu` is the number of one CPU, empty for all; `old` is the line if procps 3.2 printed it."""

    values: dict[str, float]
    cpu: str
    old: str


def cpu_values(text: str) -> CpuLine | None:
    """Return the shares of a CPU line, None if they do not add up. Translated modes are recognised by their order."""
    head, _, rest = text.partition(":")
    words = _PART.findall(rest)
    parts: dict[str, float] = {}
    for index, (value, word) in enumerate(words):
        mode = MODES.get(word) or (MODES_IN_ORDER[index] if len(words) == len(MODES_IN_ORDER) else "")
        share = parse_number(value)
        if mode and share is not None:
            parts[mode] = share / 100
    if not is_plausible(parts) or not parts.keys() >= REQUIRED_MODES:
        return None
    digits = re.sub(r"\D", "", head)
    return CpuLine(cpu_ratios(parts), digits, "" if text.startswith("%") else text)


def memory_values(text: str, row: str) -> dict[str, float]:
    """Return the sizes of the Mem or Swap line (`row`, where the words are translated), without cut numbers."""
    match = MEMORY.match(text)
    if not match:
        return {}
    row = next((word for word in match.group(2, 3) if word in TOTAL_METRICS), row)
    values: dict[str, float] = {}
    for index, (digits, suffix, is_cut, word) in enumerate(_SIZE.findall(text[match.end() :])):
        name = _size_name(row, index, word)
        size = parse_quantity(digits + suffix, UNITS[match[1] or ""])
        if name and size and not is_cut:
            values[name] = size.value
    return values


def _size_name(row: str, index: int, word: str) -> str:
    if index == 0:  # total is first in every version and language
        return TOTAL_METRICS[row]
    if word == "free":
        return FREE_METRICS[row]
    return {"buffers": "node_memory_Buffers_bytes", "avail": "node_memory_MemAvailable_bytes"}.get(
        word, "node_memory_Cached_bytes" if word == "cached" and row == "Swap" else ""
    )


def uptime_seconds(text: str) -> int | None:
    """Return `up 10 days,  3:04`, `up  1:18`, `up 22 min` in seconds, to the minute."""
    match = UPTIME.search(text)
    if not match:
        return None
    days, hours, minutes, only = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + (minutes + only) * 60


DEFAULT_COLUMNS = ["PID", "USER", "PR", "NI", "VIRT", "RES", "SHR", "S", "%CPU", "%MEM", "TIME+", "COMMAND"]


SIZE_COLUMNS = columns(
    {
        "RES": "process_resident_memory_bytes",
        "RSan": "process_rss_anon_bytes",
        "RSsh": "process_rss_shmem_bytes",
        "SHR": "process_rss_shared_bytes",
        "SWAP": "process_swap_bytes",
        "VIRT": "process_virtual_memory_bytes",
    },
    partial(parse_quantity, unit=1024),
)
TASK_COLUMNS = {
    **SIZE_COLUMNS,
    **columns({"nMaj": "process_major_faults_total", "nMin": "process_minor_faults_total", "nTH": "process_threads"}),
    "%CPU": Column("process_cpu_ratio", parse_percent, quantum=0.001),
    **columns(dict.fromkeys(("TIME", "TIME+", "ZEIT", "ZEIT+"), "process_cpu_seconds_total"), cpu_seconds),
}
MAX_CACHED_TASKS = 1 << 15  # frames repeat the same tasks
COMMAND_INDEX = len(DEFAULT_COLUMNS) - 1  # of the command under translated headers: top's default order


@dataclass(slots=True)
class TaskRows:
    """The current header, and the tasks whose command was yielded."""

    source: Source
    odd: ParseErrors
    columns: Sequence[str] = field(default_factory=lambda: DEFAULT_COLUMNS)
    command_index: int = COMMAND_INDEX
    _named: set[str] = field(default_factory=set)
    _cells: ListingCells = field(default_factory=ListingCells)
    _read: Mapping[str, Column] = field(default_factory=lambda: TASK_COLUMNS)  # the columns before the command

    def header(self, text: str) -> None:
        self.columns = text.split()
        known = self.columns.index("COMMAND") if "COMMAND" in self.columns else None
        self.command_index = min(COMMAND_INDEX, len(self.columns) - 1) if known is None else known
        before = self.columns[: self.command_index]
        self._read = {title: column for title, column in TASK_COLUMNS.items() if title in before}

    def rows(self, first: int, texts: Sequence[str], time: Moment | None) -> Iterator[Record]:
        """Yield the records of consecutive rows from line `first` on: column by column unless one of them is odd."""
        splits = self._splits
        words = [text.split(None, splits) for text in texts]
        if min(map(len, words)) > self.command_index:
            columns = list(zip(*words, strict=False))
            cells = dict(zip(self.columns, columns[: self.command_index], strict=False))
            if converted := self._cells.read(self._read, cells):
                pids, commands = cells["PID"], columns[self.command_index]
                for index in [index for index, pid in enumerate(pids) if pid not in self._named]:
                    user = cells["USER"][index] if "USER" in cells else ""
                    yield from self._command(first + index, texts[index], pids[index], commands[index], user, time)
                entities = list(map(_entity, pids, commands))
                member, (values, quanta) = self.source.member, converted
                yield Listing("process", values, member, first, texts, "top", entities, time, quanta)
                return
        for line, text in enumerate(texts, first):
            yield from self.row(line, text, time)

    def row(self, line: int, text: str, time: Moment | None) -> Iterator[Record]:
        words = text.split(None, self._splits)
        if len(words) <= self.command_index:
            self.odd.note(line, text, "a task of top with fewer fields than its header")
            return
        cells = dict(zip(self.columns, words[: self.command_index], strict=False))
        pid, command = cells["PID"], words[self.command_index]
        yield from self._command(line, text, pid, command, cells.get("USER", ""), time)
        readings = Readings()
        for title in readings.take(self._read, cells):
            if title in SIZE_COLUMNS:
                self.odd.note(line, text, f"an impossible number in column {title} of top: not used")
        cite = self.source.cite(line, text)
        yield Sample("process", readings.values, cite, "top", _entity(pid, command), time, readings.resolution)

    @property
    def _splits(self) -> int:
        """The number of splits of a row; the command, if it is last, is one cell."""
        return self.command_index if self.command_index == len(self.columns) - 1 else -1

    def _command(self, line: int, text: str, pid: str, command: str, user: str, time: Moment | None) -> Iterator[Fact]:
        """Yield the command of a process that was not seen before."""
        if pid not in self._named:
            self._named.add(pid)
            labels = (("pid", pid), ("comm", task_name(command.strip())), ("user", user))
            yield Fact("process.command", command.strip(), self.source.cite(line, text), labels, time)


@lru_cache(MAX_CACHED_TASKS)
def _entity(pid: str, command: str) -> Entity:
    return process_entity(pid, task_name(command.strip()))


FRAME = re.compile(r"top - (\d{1,2}:\d\d:\d\d)(?:\s|$)")
TASKS = re.compile(r"[^\W\d]{3,20}\s?:\s+\d+ [^\W\d]+[,.]")
HEAD = re.compile(r"\s*PID\s+\S+\s+PR\s+NI\s+VIRT\s+RES\b")
ROW = re.compile(r"\s*\d+\s+\S+\s+(?:rt|-?\d+)\s+-?\d+\s+[\d.,]+[kmgtpKMGTP]?\s")
LOAD = re.compile(r".*?:\s*(\d{1,6}[.,]\d\d),\s")


@dataclass(slots=True)
class Frames:
    """The frames of one recording, in order."""

    source: Source
    odd: ParseErrors
    clock: DayClock | None = None
    time: Moment | None = None
    frames: int = 0
    first: tuple[int, str] | None = None
    old: str = ""  # the CPU line if it is that of procps 3.2
    values: dict[str, float] = field(default_factory=dict)
    memory_lines: int = 0  # of this frame
    tasks: TaskRows = field(init=False)

    def __post_init__(self) -> None:
        self.time = self.source.time
        self.tasks = TaskRows(self.source, self.odd)

    def begin(self, line: int, text: str, clock: str) -> Iterator[Record]:
        self.frames += 1
        seconds = day_seconds(clock)
        if seconds is not None and self.clock is None:
            self.clock = day_clock(self.source.time, seconds)
        self.time = self.source.time if seconds is None or self.clock is None else self.clock.at(seconds)
        self.first = (line, text)
        if (load := LOAD.match(text)) and (value := parse_number(load[1])) is not None:
            self.values["node_load1"] = value
        up = uptime_seconds(text)
        if self.frames == 1 and up is not None:
            yield Fact("uptime.seconds", up or MAX_UNDER_A_MINUTE, self.source.cite(line, text), time=self.time)

    def cpu(self, line: int, text: str) -> Iterator[Record]:
        cpu = cpu_values(text)
        if cpu is None:
            self.odd.note(line, text, "CPU figures of top that do not add up: not used")
            return
        self.first = self.first or (line, text)
        self.old = self.old or cpu.old
        if cpu.cpu:
            yield Sample("cpu", cpu.values, self.source.cite(line, text), "top", (("cpu", cpu.cpu),), self.time)
        else:
            self.values.update(cpu.values)

    def memory(self, line: int, text: str) -> None:
        self.first = self.first or (line, text)
        self.values.update(memory_values(text, "Mem" if self.memory_lines == 0 else "Swap"))
        self.memory_lines += 1

    def end(self) -> Iterator[Record]:
        """Yield the host's figures of a frame, after all its summary lines."""
        if self.values and self.first:
            yield Sample("system", self.values, self.source.cite(*self.first), "top", time=self.time)
        self.values, self.first, self.memory_lines = {}, None, 0


def without_cpu(records: Iterable[Record]) -> Iterator[Record]:
    """Mark the CPU figures of a recording's first frame: they are since boot, or of the moment in which top started."""
    for record in records:
        if not isinstance(record, Sample | Listing):
            yield record
        elif isinstance(record, Listing):
            unknown = {name: [NAN] * len(record) for name in record.values if "cpu_ratio" in name}
            yield replace(record, values={**record.values, **unknown})
        elif record.kind == "cpu":
            yield replace(record, since_boot=True)
        else:
            cpu_values = {name: value for name, value in record.values.items() if "cpu_ratio" in name}
            if record.kind == "system" and cpu_values:
                yield replace(record, values=cpu_values, since_boot=True)
            if rest := {name: value for name, value in record.values.items() if name not in cpu_values}:
                yield replace(record, values=rest)


@with_errors("top")
def parse_top(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Per frame a Sample of the host and one per task; a Fact process.command per task."""
    frames = Frames(source, odd)
    held: list[Record] = []  # records of the first frame, until a second frame begins
    rows = lines.rows if isinstance(lines, RowLines) else None
    for line, text in lines:
        if rows and ROW.match(text):
            records = frames.tasks.rows(line, [text, *rows(ROW)], frames.time)
        else:
            records = parse_line(frames, line, text)
        if frames.frames < 2:
            held.extend(records)
            continue
        if held:
            yield from without_cpu(held)
            held = []
        yield from records
    held.extend(frames.end())
    command = parse_command(source.command, "top", with_value="dnpuUwo")
    is_second = command is not None and command.options.get("n") == "2"  # OSWatcher keeps only the second frame
    is_recording = not is_second and (frames.old or (command and "b" in command.options))
    yield from without_cpu(held) if is_recording and frames.frames < 2 else held


def parse_line(frames: Frames, line: int, text: str) -> Iterator[Record]:
    """Yield the records of a line; figures of the host are yielded when their frame ends."""
    if ROW.match(text):  # most lines are rows
        yield from frames.tasks.row(line, text, frames.time)
    elif frame := FRAME.match(text):
        yield from frames.end()
        yield from frames.begin(line, text, frame[1])
    elif CPU.match(text):
        yield from frames.cpu(line, text)
    elif MEMORY.match(text):
        frames.memory(line, text)
    elif HEAD.match(text):
        frames.tasks.header(text)
    elif text.strip() and not TASKS.match(text):
        frames.odd.note(line, text, "not a line of top")


TOP = Parser(
    "top", "top frames", parse_top, opens=re.compile(f"{FRAME.pattern}|{CPU.pattern}|{HEAD.pattern}"),
    continues=any_of(ROW, FRAME, TASKS, CPU, MEMORY, HEAD, blank=True),
    priority=1,  # before ps, which has a similar header
)  # fmt: skip


@dataclass(slots=True)
class FramesOfRuns:
    """The frames of a recording."""

    source: Source
    odd: ParseErrors
    rows: RepeatedRows
    header: str = ""
    frames: Frames | None = None

    def begin(self, time: Moment) -> Iterator[Record]:
        yield from self.end()
        self.frames = Frames(self.source._replace(time=time), self.odd)
        self.rows.begin_list()

    def line(self, number: int, text: str) -> Iterator[Record]:
        if self.frames is None:
            if not is_head(text):
                self.odd.note(number, text, "not a line of top")
            return
        if ROW.match(text):
            yield from self.rows.row(number, text, self.frames.time, self._read)
            return
        if HEAD.match(text) and text != self.header:
            self.header = text
            self.rows.begin_columns()
        yield from self._others(parse_line(self.frames, number, text))

    def _read(self, number: int, text: str) -> Iterator[Record]:
        rows = TaskRows(self.source, self.odd)
        if self.header:
            rows.header(self.header)
        return rows.row(number, text, None)

    def _others(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield the records except samples, which go into columns."""
        for record in records:
            if isinstance(record, Sample):
                self.rows.columns.add(record)
            else:
                yield record

    def end(self) -> Iterator[Record]:
        """Yield the host's figures of the open frame."""
        if self.frames is not None:
            yield from self._others(self.frames.end())


def parse_top_frames(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """A Series of the host and one per process, facts of each process once."""
    return parse_recording(source, content, TOP.name, lambda odd, rows: FramesOfRuns(source, odd, rows))


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is a long file of OSWatcher, by its name, that begins with a time line and a frame below it."""
    lines = first_output(head, size) if recorder_of(path).command.startswith("top ") else []
    return len(lines) > 1 and bool(FRAME.match(lines[0]))


TOP_FRAMES = BulkParser("top", TOP.title, claims, parse_top_frames, min_size=MIN_BULK_BYTES)
