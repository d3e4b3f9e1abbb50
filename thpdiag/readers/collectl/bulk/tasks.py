"""Processes in a recording of collectl: /proc/PID/stat whole, parts of status, the command line.

    proc:2001 stat 2001 (java) S 1888 2001 1888 34816 2001 4202496 428 0 0 0 ...
    proc:2001 VmRSS:<tab>   15712 kB
    proc:2001 cmd /opt/jdk/bin/java -Xmx8g

A process is its pid and its start after a boot: a pid is used again. VmRSS is taken before the rss of stat, which lags
behind by some pages of each CPU; kernel threads have only the latter, 0. Names and units are those of /proc/PID/stat
and status. Where a command's name holds a line end collectl kept the first line only: such processes have no counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from thpdiag.model import Fact, Series
from thpdiag.reader import Source
from thpdiag.readers.collectl.bulk.rows import Room, Rows, Times, printable
from thpdiag.readers.elements.kernel_numbers import LARGEST, kib
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.tasks import entity

STAT, RSS, SWAP, COMMAND = range(4)
# by the first four bytes behind the pid; the rest of status and io is not used
USED = {b"stat": STAT, b"VmRS": RSS, b"VmSw": SWAP, b"cmd ": COMMAND}
UNUSED = frozenset(
    (b"Tgid", b"Uid:", b"VmPe", b"VmSi", b"VmLc", b"VmPi", b"VmHW", b"VmDa", b"VmSt", b"VmEx", b"VmLi", b"VmPT",
     b"VmPM", b"volu", b"nonv", b"io r", b"io w", b"io s", b"io c", b"cmd")
)  # fmt: skip
# behind the command's last bracket: faults, CPU time, threads, start, sizes
_START, _RSS_PAGES = 19, 21
MOST_DIGITS = 19  # of a number below 2**63
_FIELDS = itemgetter(7, 9, 11, 12, 17, _START, 20, _RSS_PAGES)


@dataclass(slots=True)
class Seen:
    """What an interval says of one pid."""

    line: int = 0
    stat: bytes = b""
    resident: int | None = None
    swap: int | None = None
    command: bytes = b""
    command_line: int = 0


class Task:
    """One process over the recording."""

    __slots__ = ("comm", "commands", "name", "rows")

    def __init__(self, room: Room) -> None:
        self.name, self.comm = b"", ""
        self.rows = Rows(room)
        self.commands: dict[bytes, tuple[int, int]] = {}  # interval and line of the first sight


class Tasks:
    """All processes of a recording."""

    def __init__(self, source: Source, odd: Oddities, room: Room) -> None:
        self.hz, self.page = 100, 4096
        self.boot = 0  # starts are counted from the boot
        self._source, self._odd, self._room = source, odd, room
        self._seen: dict[bytes, Seen] = {}
        self._tasks: dict[tuple[bytes, int, int], Task] = {}

    def line(self, number: int, line: bytes) -> None:
        """A line that begins with `proc:`."""
        pid, _, rest = line[5:].partition(b" ")
        what = USED.get(rest[:4])
        if what is None:
            if rest[:4] not in UNUSED:
                self._note(number, line, "a line of a process that says nothing known")
            return
        seen = self._seen.get(pid)
        if seen is None:
            seen = self._seen[pid] = Seen()
        if what == STAT:
            self._stat(number, line, seen)
        elif what == COMMAND:
            seen.command, seen.command_line = rest[4:].strip(), number
        else:
            self._size(number, line, seen, what)

    def _stat(self, number: int, line: bytes, seen: Seen) -> None:
        if seen.stat:
            self._note(number, line, "a process twice under one time; the second is left out")
        else:
            seen.line, seen.stat = number, line

    def _size(self, number: int, line: bytes, seen: Seen, what: int) -> None:
        size = kib(line.rpartition(b":")[2])
        if size is None:
            self._note(number, line, "a size of a process that is none; it is left out")
        elif what == RSS:
            seen.resident = size
        else:
            seen.swap = size

    def close(self, at: int) -> None:
        """The interval is over."""
        for pid, seen in self._seen.items():
            if seen.stat and not self._add(at, pid, seen):
                self._note(seen.line, seen.stat, "not a whole line of a process; it is left out")
        self._seen.clear()

    def _add(self, at: int, pid: bytes, seen: Seen) -> bool:
        head, bracket, tail = seen.stat.rpartition(b") ")
        named, opened, comm = head.partition(b" (")
        fields = tail.split(None, _RSS_PAGES + 1)
        if not bracket or not opened or len(fields) <= _RSS_PAGES + 1 or named != b"proc:%b stat %b" % (pid, pid):
            return False
        values = self._values(fields) if pid.isdigit() else None
        if values is None:
            return False
        if seen.resident is not None:
            values["process_resident_memory_bytes"] = seen.resident
        if seen.swap is not None:
            values["process_swap_bytes"] = seen.swap
        key = (pid, int(values["process_start_time_ticks"]), self.boot)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = Task(self._room)
        if comm != task.name:
            task.name, task.comm = comm, printable(comm.decode("utf-8", "replace"))
        if seen.command:
            task.commands.setdefault(seen.command, (at, seen.command_line))
        task.rows.add(at, seen.line, values, seen.stat)
        return True

    def _values(self, fields: list[bytes]) -> dict[str, float] | None:
        """None if one of the numbers is none."""
        wanted = _FIELDS(fields)
        if not b"".join(wanted).isdigit() or max(map(len, wanted)) > MOST_DIGITS:
            return None
        minor, major, user, system, threads, start, virtual, resident = map(int, wanted)
        if max(minor, major, user, system, threads, start, virtual, resident) >= LARGEST:
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
        self._odd.note(number, printable(line.decode("utf-8", "replace")), reason)

    def series(self, reader: str, times: Times) -> Iterator[Series]:
        for (pid, _, _), task in self._tasks.items():
            who = entity(pid.decode(), task.comm)
            yield task.rows.series("process", who, (self._source.member, reader), times)

    def commands(self, times: Times) -> Iterator[Fact]:
        """process.command of every process that has a command line, once for each that it had."""
        for (pid, _, _), task in self._tasks.items():
            labels = (("pid", pid.decode()), ("comm", task.comm))
            for command, (at, line) in task.commands.items():
                text = printable(command.decode("utf-8", "replace"))
                cite = self._source.cite(line, text)
                yield Fact("process.command", text, cite, labels, times.moment(at))
