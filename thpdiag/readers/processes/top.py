"""top, from `top -b` or pasted: CPU and memory of the host, and tasks, in frames.

    top - 06:02:48 up 22 min,  1 user,  load average: 0.88, 0.38, 0.17
    %Cpu(s):  2.4 us, 46.3 sy,  0.0 ni, 51.2 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
    MiB Mem :  24105.4 total,  23363.1 free,    398.2 used,    344.1 buff/cache
        PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND

Units: percent; the summary's unit stands before `Mem`; VIRT and RES are KiB or have a suffix (1.2g); %CPU of a task is
of one CPU. The clock has no date; a time line above the frame gives it one.
Varies: `Cpu(s):  0.3%us,` up to procps 3.2, `%Cpu(s):  0.3 us,` since; `Mem: 16333764k total`, then `KiB Mem :`, `MiB
Mem :`; one line per CPU after key 1; translated words and decimal commas; fields in any order. A `+` marks a cut
number, which is not used. CPU figures of a recording's first frame are averages since boot (3.2) or of the instant in
which top started (since): they come as `since_boot`, which no rate uses.
Source: procps top.c, 3.2.8 to 4.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Fact, Moment, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.daytime import DayClock, day_seconds
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import number
from thpdiag.readers.elements.typed_command import typed
from thpdiag.readers.processes.nearby_date import day_clock
from thpdiag.readers.processes.top_rows import TaskRows
from thpdiag.readers.processes.top_summary import CPU, MEMORY, cpu_values, memory_values, uptime_seconds

FRAME = re.compile(r"top - (\d{1,2}:\d\d:\d\d)(?:\s|$)")
TASKS = re.compile(r"[^\W\d]{3,20}\s?:\s+\d+ [^\W\d]+[,.]")
HEAD = re.compile(r"\s*PID\s+\S+\s+PR\s+NI\s+VIRT\s+RES\b")
ROW = re.compile(r"\s*\d+\s+\S+\s+(?:rt|-?\d+)\s+-?\d+\s+[\d.,]+[kmgtpKMGTP]?\s")
LOAD = re.compile(r".*?:\s*(\d{1,6}[.,]\d\d),\s")


def belongs(text: str) -> bool:
    """Empty lines stand between the summary, the tasks and the next frame."""
    if not text.strip():
        return True
    return bool(ROW.match(text)) or any(p.match(text) for p in (FRAME, TASKS, CPU, MEMORY, HEAD))


@dataclass(slots=True)
class Frames:
    """The frames of one recording, in order."""

    source: Source
    odd: Oddities
    clock: DayClock | None = None
    time: Moment | None = None
    frames: int = 0
    first: tuple[int, str] | None = None
    old: str = ""  # the CPU line of procps 3.2, if this is one
    values: dict[str, float] = field(default_factory=dict)
    sizes: int = 0  # memory lines of this frame
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
        if (load := LOAD.match(text)) and (value := number(load[1])) is not None:
            self.values["node_load1"] = value
        up = uptime_seconds(text)
        if self.frames == 1 and up is not None:
            yield Fact("uptime.seconds", up, self.source.cite(line, text), time=self.time)

    def cpu(self, line: int, text: str) -> Iterator[Record]:
        found = cpu_values(text)
        if found is None:
            self.odd.note(line, text, "CPU figures of top that do not add up: not used")
            return
        self.first = self.first or (line, text)
        self.old = self.old or found.old
        if found.cpu:
            yield Sample("cpu", found.values, self.source.cite(line, text), "top", (("cpu", found.cpu),), self.time)
        else:
            self.values.update(found.values)

    def memory(self, line: int, text: str) -> None:
        self.first = self.first or (line, text)
        self.values.update(memory_values(text, "Mem" if self.sizes == 0 else "Swap"))
        self.sizes += 1

    def end(self) -> Iterator[Record]:
        """The host's figures of a frame, when all its summary lines were read."""
        if self.values and self.first:
            yield Sample("system", self.values, self.source.cite(*self.first), "top", time=self.time)
        self.values, self.first, self.sizes = {}, None, 0


def without_cpu(records: Iterable[Record]) -> Iterator[Record]:
    """The first frame of a recording: its CPU figures are since boot, or of the instant in which top started."""
    for record in records:
        if not isinstance(record, Sample):
            yield record
        elif record.kind == "cpu":
            yield replace(record, since_boot=True)
        else:
            used = {name: value for name, value in record.values.items() if "cpu_ratio" in name}
            if record.kind == "system" and used:
                yield replace(record, values=used, since_boot=True)
            if rest := {name: value for name, value in record.values.items() if name not in used}:
                yield replace(record, values=rest)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Per frame a Sample of the host and one per task; a Fact process.command per task."""
    odd = Oddities(source, "top")
    frames = Frames(source, odd)
    held: list[Record] = []  # the first frame, until it is known whether there is a second
    for line, text in lines:
        if frames.frames < 2:
            held.extend(line_of(frames, line, text))
            continue
        if held:
            yield from without_cpu(held)
            held = []
        yield from line_of(frames, line, text)
    held.extend(frames.end())
    command = typed(source.command, "top", with_value="dnpuUwo")
    second = command is not None and command.options.get("n") == "2"  # of which OSWatcher keeps the second frame only
    recorded = not second and (frames.old or (command and "b" in command.options))
    yield from without_cpu(held) if recorded and frames.frames < 2 else held
    yield from odd.problems()


def line_of(frames: Frames, line: int, text: str) -> Iterator[Record]:
    """What a line of a recording gives; figures of the host come when their frame ends."""
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
        frames.odd.note(line, text, "a line that is none of top's")


READER = Reader(
    "top",
    "top frames",
    read,
    opens=re.compile(f"{FRAME.pattern}|{CPU.pattern}|{HEAD.pattern}"),
    continues=belongs,
    priority=1,  # before ps, whose header it may resemble
)
