"""Counters in a raw recording of collectl: lines of /proc for the host, its CPUs, zones and NUMA nodes, and processes.

The lines of an interval usually have the layout of the previous interval; then all numbers are parsed at once.

    cpu  1473939 534468 222278 760777 3505 0 6100 4350 0 0
    MemTotal:       24684092 kB
    pgfault 902963559
    buddy Node 0, zone   Normal   3847   1070    212   3588   3899   3339   1909    539    154      0   2792
    load 8.43 6.94 6.65 9/144 15851
    numai Node 0 AnonHugePages:    550912 kB

/proc/stat, meminfo, and the lines of vmstat before `pgrefill` (with --memopts ps before `pginodesteal`), without `nr_*`
(except nr_shmem*) and `numa_*`: thp_* and compact_* are never included. `intr` has only its total. Names and units are
those of the parsers of these files. Disks, networks and other subsystems are not read. Source: collectl, sub getProc.

Processes: /proc/PID/stat, parts of status, and the command line.

    proc:2001 stat 2001 (java) S 1888 2001 1888 34816 2001 4202496 428 0 0 0 ...
    proc:2001 VmRSS:<tab>   15712 kB
    proc:2001 cmd /opt/jdk/bin/java -Xmx8g

A process is identified by pid, start time and boot, because pids are reused. VmRSS is preferred to the rss of stat,
which lags by some pages per CPU; kernel threads have only the latter, 0. Names and units are those of /proc/PID/stat
and status. If a command name contains a line end, collectl recorded only the first line, so such processes have no
counters.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter, mul
from typing import Any

from thpdiag.model import Clock, Entity, Fact, Moment, Series, Subject
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.numeric import Floats, Ints, np
from thpdiag.model.parser import Source
from thpdiag.parsers._cpu import process_entity
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers._units import MAX_COUNTER, MAX_KIB, NOT_A_COUNT, parse_count, parse_kib
from thpdiag.parsers.procfs import system as proc_stat
from thpdiag.parsers.procfs.zones import MAX_ORDERS, MIN_ORDERS

NAN = float("nan")
MAX_CITED_TEXT_BYTES = 1 << 25  # text of cited lines kept per member; later rows are cited by line number only
_PLAIN = bytes(byte if 32 <= byte != 127 else ord(" " if byte == 9 else "?") for byte in range(256))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class CitedTextBudget:
    """Bytes left for the text of cited lines, shared by all rows of a member."""

    left: int = MAX_CITED_TEXT_BYTES


def printable(text: str) -> str:
    """Replace tabs by blanks and control characters by `?`."""
    return text if text.isprintable() else _CONTROL.sub("?", text.replace("\t", " "))


def excerpt(line: bytes) -> bytes:
    """Return the part of a cited line that is kept."""
    kept = line[:MAX_CITED_CHARS].translate(_PLAIN)
    return kept if kept.isascii() else printable(kept.decode("utf-8", "replace")).encode()


class Rows:
    """The rows of one entity, at most one per interval. Rows with the same metrics (nearly all) form one flat array."""

    __slots__ = ("_added", "_budget", "_ends", "_parts", "_text", "at", "lines")

    def __init__(self, budget: CitedTextBudget) -> None:
        self.at = array("q")  # numbers of the intervals
        self.lines = array("q")
        self._parts: list[tuple[tuple[str, ...], array[float]]] = []
        self._added: dict[str, Floats] = {}
        self._text = bytearray()
        self._ends = array("q")
        self._budget = budget

    def __len__(self) -> int:
        return len(self.at)

    def add(self, at: int, line: int, values: Mapping[str, float], text: bytes) -> bool:
        """Add a row; return False if the interval already has one."""
        if self.at and self.at[-1] == at:
            return False
        names = tuple(values)
        if not self._parts or self._parts[-1][0] != names:
            self._parts.append((names, array("d")))
        self._parts[-1][1].extend(values.values() if names else (NAN,))
        self.at.append(at)
        self.lines.append(line)
        if self._budget.left > 0:
            kept = excerpt(text)
            self._text += kept
            self._budget.left -= len(kept)
        self._ends.append(len(self._text))
        return True

    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([name for names, _ in self._parts for name in names] + list(self._added)))

    def add_column(self, name: str, column: Floats) -> None:
        """Add a metric for all rows."""
        self._added[name] = column

    def columns(self) -> dict[str, Floats]:
        """Return the values of all metrics in recording order; NaN where a metric was not printed."""
        parts = [(names, np.frombuffer(flat).reshape(-1, max(len(names), 1))) for names, flat in self._parts]
        if len(parts) == 1:
            names, table = parts[0]
            return {**dict(zip(names, table.T.copy() if names else (), strict=True)), **self._added}
        columns = {name: np.full(len(self.at), np.nan) for name in self.metrics()}
        first = 0
        for names, table in parts:
            for name, column in zip(names, table.T if names else (), strict=True):
                columns[name][first : first + len(table)] = column
            first += len(table)
        return {**columns, **self._added}

    def series(self, kind: str, entity: Entity, source: tuple[str, str], times: Times) -> Series:
        """Return the rows as columns in the order of `times`; `source` is the member and the parser's name."""
        at, ends = np.frombuffer(self.at, np.int64), np.frombuffer(self._ends, np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        values = self.columns()
        text = bytes(self._text)
        seconds = None if times.seconds is None else times.seconds[at]
        resolution = {name: quantum for name, quantum in times.resolution.items() if name in values}
        lines = np.frombuffer(self.lines, np.int64)
        series = Series(
            kind, values, source[0], lines, source[1], entity,
            seconds, times.clock, resolution, None, text, starts, ends,
        )  # fmt: skip
        if times.rank is None:
            return series
        return series.only(np.unique(times.rank[at], return_index=True)[1])  # of each time the first row


@dataclass(frozen=True, slots=True)
class Times:
    """Times of the intervals by number, and their rank by time (None if they are in order)."""

    seconds: Floats | None
    clock: Clock | None
    rank: Ints | None
    resolution: Mapping[str, float]

    def moment(self, at: int) -> Moment | None:
        return None if self.clock is None or self.seconds is None else Moment(float(self.seconds[at]), self.clock)


Numbered = tuple[int, bytes]
MAX_PLAIN_DIGITS = 15  # longer numbers are parsed line by line, with checks


@dataclass(frozen=True, slots=True)
class Layout:
    """The plain lines of an interval (`name number` or `name: number kB`), and the positions of their tokens."""

    count: int  # number of lines
    plain: itemgetter[Any]  # selects the plain lines
    rest: tuple[int, ...]  # indices of the other lines
    tokens: int  # number of tokens in the plain lines
    words: itemgetter[Any]  # selects the tokens that are not numbers
    expected: tuple[bytes, ...]  # those tokens
    numbers: itemgetter[Any]  # selects the numbers
    names: tuple[str, ...]
    factors: tuple[int, ...]

    def values(self, lines: Sequence[bytes]) -> dict[str, float] | None:
        """Return the values of the plain lines; None if the layout differs or a number is invalid."""
        if len(lines) != self.count:
            return None
        tokens = b"\n".join(self.plain(lines)).split()
        if len(tokens) != self.tokens or self.words(tokens) != self.expected:
            return None
        numbers = self.numbers(tokens)
        if not b"".join(numbers).isdigit() or max(map(len, numbers)) > MAX_PLAIN_DIGITS:
            return None
        return dict(zip(self.names, map(mul, map(int, numbers), self.factors), strict=True))


def layout(lines: Sequence[bytes], known: Mapping[bytes, tuple[str, int, bytes]]) -> Layout | None:
    """Return the layout of these lines; None if they have fewer than two plain lines, or one of them twice."""
    plain: list[int] = []
    words: list[int] = []
    numbers: list[int] = []
    tokens: list[bytes] = []
    for index, line in enumerate(lines):
        parts = line.split()
        if not parts or parts[0] not in known or parts[2:] != [known[parts[0]][2]] * bool(known[parts[0]][2]):
            continue
        plain.append(index)
        numbers.append(len(tokens) + 1)
        words += [len(tokens), *range(len(tokens) + 2, len(tokens) + len(parts))]
        tokens += parts
    names = tuple(known[tokens[at - 1]][0] for at in numbers)
    if len(plain) < 2 or len(set(names)) < len(names) or len(words) + len(numbers) != len(tokens):
        return None
    return Layout(
        len(lines), itemgetter(*plain), tuple(sorted(set(range(len(lines))) - set(plain))),
        len(tokens), itemgetter(*words), itemgetter(*words)(tokens), itemgetter(*numbers), names,
        tuple(known[tokens[at - 1]][1] for at in numbers),
    )  # fmt: skip


LineParser = Callable[[bytes, bytes], None]  # called with the first word of a line and the rest
SYSTEM: Subject = ("system", ())
TWICE = "a counter twice under one time: a time may be missing; the second is left out"
CUT = "a line that is cut or holds no number; it is left out"
MAX_FIRST_WORDS = 10_000  # different first words whose parser is cached
MODES = tuple(f"node_cpu_seconds_total.{mode}" for mode in proc_stat.MODES)
_COUNTS = {word.encode(): name for word, name in proc_stat.COUNTS.items()}
_SIZE = re.compile(rb"([A-Z]\w*)(?:\((\w+)\))?:")
_VMSTAT = re.compile(
    rb"(?:pg|psw|nr_|workingset_|allocstall|slabs_|kswapd_|kstack_|oom_|unevictable_|drop_)\w{0,60}|pageoutrun"
)
_BUDDY = re.compile(rb"Node\s+(\d+),\s+zone\s+(\w+)\s++(\d[\d\s]*+)$")
_LOAD = re.compile(rb"(\d{1,7}\.\d\d) \d{1,7}\.\d\d \d{1,7}\.\d\d (\d{1,7})/\d{1,7} \d{1,10}\s*$")
_NODE = re.compile(rb"Node (\d+) ([A-Z]\w*)(?:\((\w+)\))?: +(\d{1,19} kB|\d{1,19})\s*$")
# Lines of other subsystems, and of the lists that follow the header of a recording with slabs.
_OTHER_SUBSYSTEMS = re.compile(
    rb"(?:disk|Net|sock|int|Slab|slab|numas|softirq|page|swap|tcp-|udp-|fs-|nfs|ib|opa|ost|OST|mds|MDS|Lus|LL|fld|ipmi|Env|procT|"
    rb"ptable|part|PQ|IB|snmp|arcconf|cpuspd)"
)


class Counters:
    """Parser of the lines of the host, interval by interval."""

    def __init__(self, errors: ParseErrors, budget: CitedTextBudget) -> None:
        self.hz = 100
        self.values: dict[str, float] = {}
        self.rows: dict[Subject, Rows] = {}
        self._errors, self._budget = errors, budget
        self._at = -1
        self._line: Numbered = (0, b"")  # the current line
        self._orders, self._modes = MIN_ORDERS, 4
        self._load: tuple[float, float] | None = None
        self._nodes: dict[bytes, tuple[Numbered, dict[str, float]]] = {}
        self._names: dict[bytes, str] = dict(_COUNTS)
        self._plain = {word: (name, 1, b"") for word, name in _COUNTS.items()}
        self._layout: Layout | None = None
        self._parsers: dict[bytes, LineParser] = {
            b"cpu": self._parse_all_cpus, b"buddy": self._parse_zone, b"load": self._parse_load,
            b"numai": self._parse_node, **dict.fromkeys(_COUNTS, self._parse_count)
        }  # fmt: skip

    def open(self, at: int) -> None:
        self._at = at

    def add_lines(self, lines: Sequence[Numbered]) -> None:
        """Parse all lines of an interval."""
        texts = [line for _, line in lines]
        values = self._layout.values(texts) if self._layout else None
        if values is not None and self._layout:
            self.values = values
            lines = [lines[index] for index in self._layout.rest]
        for self._line in lines:
            word, _, rest = self._line[1].partition(b" ")
            parse = self._parsers.get(word)
            if parse is None:
                parse = self._parser_of(word)
                if len(self._parsers) < MAX_FIRST_WORDS:
                    self._parsers[word] = parse
            parse(word, rest)
        if values is None:
            self._layout = layout(texts, self._plain)

    def close(self, line: int, text: bytes) -> None:
        """End the interval: its values become a row, cited at the line of the time."""
        values = self.values
        if self._load is not None:
            values["node_load1"] = self._load[0]
            values.setdefault("node_procs_running", self._load[1])
        if values:
            self._add_row(SYSTEM, values, (line, text))
        for node, (first, sizes) in self._nodes.items():
            self._add_row(("node", (("node", node.decode()),)), sizes, first)
        self.values, self._load, self._nodes = {}, None, {}

    def series(self, source: tuple[str, str], times: Times) -> Iterator[Series]:
        """Yield the series of the host first, then those of other entities."""
        for (kind, entity), rows in sorted(self.rows.items(), key=lambda item: item[0] != SYSTEM):
            yield rows.series(kind, entity, source, times)

    def _parser_of(self, word: bytes) -> LineParser:
        """Return the parser of lines that begin with this word."""
        if word[:3] == b"cpu" and word[3:].isdigit():
            return self._parse_cpu
        if name := _SIZE.fullmatch(word):
            self._names[word] = f"node_memory_{_plain_name(name[1], name[2])}"
            self._plain[word] = (f"{self._names[word]}_bytes", 1024, b"kB")
            return self._parse_size
        if _VMSTAT.fullmatch(word):
            self._names[word] = f"node_vmstat_{word.decode()}"
            self._plain[word] = (self._names[word], 1, b"")
            return self._parse_count
        return self._skip if _OTHER_SUBSYSTEMS.match(word) else self._note_unknown

    def _parse_count(self, word: bytes, rest: bytes) -> None:
        text = rest.split(None, 1)[0] if rest.strip() else b""
        if (value := parse_count(text)) is not None:
            self._put(self._names[word], value)
        else:
            self._note(NOT_A_COUNT if text else CUT)

    def _parse_size(self, word: bytes, rest: bytes) -> None:
        name = self._names[word]
        pages = parse_count(rest.strip()) if name.startswith("node_memory_HugePages_") else None
        if (size := parse_kib(rest)) is not None:
            self._put(f"{name}_bytes", size)
        elif pages is not None and pages < MAX_KIB:
            self._put(name, pages)
        else:
            self._note(CUT)

    def _put(self, name: str, value: float) -> None:
        if name in self.values:
            self._note(TWICE)
        else:
            self.values[name] = value

    def _parse_all_cpus(self, word: bytes, rest: bytes) -> None:
        times = self._times(rest)
        if times and MODES[0] in self.values:
            self._note(TWICE)
        else:
            self.values.update(times)

    def _parse_cpu(self, word: bytes, rest: bytes) -> None:
        if times := self._times(rest):
            self._add_row(("cpu", (("cpu", word[3:].decode()),)), times, self._line)

    def _times(self, rest: bytes) -> dict[str, float]:
        ticks = rest.split()
        self._modes = max(self._modes, min(len(ticks), len(MODES)))
        if len(ticks) < self._modes or not b"".join(ticks).isdigit() or max(map(len, ticks)) > 18:
            self._note(CUT)
            return {}
        hz = self.hz
        return {name: int(tick) / hz for name, tick in zip(MODES, ticks, strict=False)}

    def _parse_zone(self, word: bytes, rest: bytes) -> None:
        match = _BUDDY.match(rest)
        blocks = match[3].split() if match else []
        self._orders = max(self._orders, min(len(blocks), MAX_ORDERS))
        if not match or not self._orders <= len(blocks) <= MAX_ORDERS or max(map(len, blocks)) > 18:
            self._note("the row has too few or too many orders, it may be cut; it is left out")
            return
        entity = (("node", match[1].decode()), ("zone", match[2].decode()))
        values = {f"node_buddyinfo_blocks_order{order}": float(count) for order, count in enumerate(blocks)}
        self._add_row(("zone", entity), values, self._line)

    def _parse_load(self, word: bytes, rest: bytes) -> None:
        if load := _LOAD.match(rest):
            self._load = (float(load[1]), float(load[2]))
        else:
            self._note(CUT)

    def _parse_node(self, word: bytes, rest: bytes) -> None:
        match = _NODE.match(rest)
        if not match:
            self._note(CUT)
        elif match[4].endswith(b"kB") and (size := parse_kib(match[4])) is not None:
            _, sizes = self._nodes.setdefault(match[1], (self._line, {}))
            sizes.setdefault(f"node_memory_numa_{_plain_name(match[2], match[3])}_bytes", size)

    def _add_row(self, subject: Subject, values: dict[str, float], line: Numbered) -> None:
        if subject not in self.rows:
            self.rows[subject] = Rows(self._budget)
        if not self.rows[subject].add(self._at, line[0], values, line[1]):
            self._note(TWICE, line)

    def _skip(self, word: bytes, rest: bytes) -> None:
        """Ignore a line of a subsystem without information about memory."""

    def _note_unknown(self, word: bytes, rest: bytes) -> None:
        if word or rest.strip():
            self._note("a line of an unknown subsystem; it is left out")

    def _note(self, reason: str, line: Numbered | None = None) -> None:
        number, text = line or self._line
        self._errors.note(number, printable(text.decode("utf-8", "replace")), reason)


def _plain_name(name: bytes, part: bytes | None) -> str:
    """Convert `Active(anon)` to Active_anon."""
    return (name + (b"_" + part if part else b"")).decode()


STAT, COMMAND = "stat", "command"
# Used fields by the first four bytes after the pid; for sizes of status the metric. They replace those of stat, which
# collectl reads later, while the process continues to run.
USED = {
    b"stat": STAT,
    b"cmd ": COMMAND,
    b"VmSi": "process_virtual_memory_bytes",
    b"VmRS": "process_resident_memory_bytes",
    b"VmSw": "process_swap_bytes",
}
UNUSED = frozenset(
    (b"Tgid", b"Uid:", b"VmPe", b"VmLc", b"VmPi", b"VmHW", b"VmDa", b"VmSt", b"VmEx", b"VmLi", b"VmPT",
     b"VmPM", b"volu", b"nonv", b"io r", b"io w", b"io s", b"io c", b"cmd")
)  # fmt: skip
# Indices of the fields after the last bracket of the name: faults, CPU time, threads, start, sizes.
_START, _RSS_PAGES = 19, 21
MAX_DIGITS = 19  # digits of a number below 2**63
_FIELDS = itemgetter(7, 9, 11, 12, 17, _START, 20, _RSS_PAGES)


@dataclass(slots=True)
class TaskLines:
    """The lines of one pid in an interval."""

    line: int = 0
    stat: bytes = b""
    sizes: dict[str, int] = field(default_factory=dict)
    command: bytes = b""
    command_line: int = 0


class Task:
    """One process over the recording."""

    __slots__ = ("comm", "commands", "name", "rows")

    def __init__(self, budget: CitedTextBudget) -> None:
        self.name, self.comm = b"", ""
        self.rows = Rows(budget)
        self.commands: dict[bytes, tuple[int, int]] = {}  # interval and line of the first occurrence


class Tasks:
    """All processes of a recording."""

    def __init__(self, source: Source, errors: ParseErrors, budget: CitedTextBudget) -> None:
        self.hz, self.page = 100, 4096
        self.boot = 0  # number of the boot, to which start times are relative
        self._source, self._errors, self._budget = source, errors, budget
        self._lines: dict[bytes, TaskLines] = {}  # of the current interval, by pid
        self._tasks: dict[tuple[bytes, int, int], Task] = {}  # by pid, start and boot

    def add_line(self, number: int, line: bytes) -> None:
        """Add a line that begins with `proc:`."""
        pid, _, rest = line[5:].partition(b" ")
        use = USED.get(rest[:4])
        if use is None:
            if rest[:4] not in UNUSED:
                self._note(number, line, "a line of a process without known fields")
            return
        lines = self._lines.get(pid)
        if lines is None:
            lines = self._lines[pid] = TaskLines()
        if use == COMMAND:
            lines.command, lines.command_line = rest[4:].strip(), number
        elif use != STAT:
            if (size := parse_kib(line.rpartition(b":")[2])) is None:
                self._note(number, line, "an invalid size of a process; it is left out")
            else:
                lines.sizes[use] = size
        elif lines.stat:
            self._note(number, line, "a process twice under one time; the second is left out")
        else:
            lines.line, lines.stat = number, line

    def close(self, at: int) -> None:
        """End the interval."""
        for pid, lines in self._lines.items():
            if lines.stat and not self._add_row(at, pid, lines):
                self._note(lines.line, lines.stat, "not a whole line of a process; it is left out")
        self._lines.clear()

    def _add_row(self, at: int, pid: bytes, lines: TaskLines) -> bool:
        head, close_bracket, tail = lines.stat.rpartition(b") ")
        prefix, open_bracket, comm = head.partition(b" (")
        fields = tail.split(None, _RSS_PAGES + 1)
        if not close_bracket or not open_bracket or len(fields) <= _RSS_PAGES + 1:
            return False
        values = self._values(fields) if pid.isdigit() and prefix == b"proc:%b stat %b" % (pid, pid) else None
        if values is None:
            return False
        values.update(lines.sizes)
        key = (pid, int(values["process_start_time_ticks"]), self.boot)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = Task(self._budget)
        if comm != task.name:
            task.name, task.comm = comm, printable(comm.decode("utf-8", "replace"))
        if lines.command:
            task.commands.setdefault(lines.command, (at, lines.command_line))
        task.rows.add(at, lines.line, values, lines.stat)
        return True

    def _values(self, fields: list[bytes]) -> dict[str, float] | None:
        """Return the values of a line of stat; None if a number is invalid."""
        numbers = _FIELDS(fields)
        if not b"".join(numbers).isdigit() or max(map(len, numbers)) > MAX_DIGITS:
            return None
        minor, major, user, system, threads, start, virtual, resident = map(int, numbers)
        if max(minor, major, user, system, threads, start, virtual, resident) >= MAX_COUNTER:
            return None
        return {
            "process_minor_faults_total": minor,
            "process_major_faults_total": major,
            "process_cpu_seconds_total.user": user / self.hz,
            "process_cpu_seconds_total.system": system / self.hz,
            "process_threads": threads,
            "process_start_time_ticks": start,
            "process_virtual_memory_bytes": virtual,
            "process_resident_memory_bytes": resident * self.page,
        }

    def _note(self, number: int, line: bytes, reason: str) -> None:
        self._errors.note(number, printable(line.decode("utf-8", "replace")), reason)

    def series(self, reader: str, times: Times) -> Iterator[Series]:
        for (pid, _, _), task in self._tasks.items():
            entity = process_entity(pid.decode(), task.comm)
            yield task.rows.series("process", entity, (self._source.member, reader), times)

    def commands(self, times: Times) -> Iterator[Fact]:
        """Yield process.command for each command line of each process."""
        for (pid, _, _), task in self._tasks.items():
            labels = (("pid", pid.decode()), ("comm", task.comm))
            for command, (at, line) in task.commands.items():
                text = printable(command.decode("utf-8", "replace"))
                cite = self._source.cite(line, text)
                yield Fact("process.command", text, cite, labels, times.moment(at))
