"""A raw recording of collectl read in one pass: intervals from one time to the next, headers wherever they stand.

A file may hold several logs one after another (rolled, concatenated); a header of another host begins another
recording. What stands above the first time, or below a time that is damaged, has no time and is left out. The last
line of a file that ends without a line end may be cut and is left out.

Most lines (slabs, interrupts, disks) are unused. They are skipped by their first bytes, many at once, before a line
becomes an object; unknown lines stay, so that damage is seen.

Times that go back have two reasons. Either parts of the recording are in the wrong order (logs joined by hand):
then counters fall where time does, or the header names another boot; the rows are sorted. Or the wall clock was set
back: then counters go on; the rows keep their order and times. Time that goes on much faster than the CPUs count is
a clock that was set forward, or a host that was suspended.

The header of a recording and of plot files: host, kernel, zone, boot, options.

    ################################################################################
    # Collectl:   V4.3.1-1  HiRes: 1  Options: -scmZ -i1:5
    # Host:       db1  DaemonOpts:
    # Booted:     1795153219.9 [20261120-05:40:19]
    # Date:       20261120-095107  Secs: 1795168267 TZ: +0530
    # SubSys:     cmZ Options:  Interval: 1:5 NumCPUs: 2  NumBud: 3 Flags: ix
    # HZ:         100  Arch: x86_64-linux-gnu-thread-multi PageSize: 4096
    # Kernel:     6.1.0-30-amd64  Memory: 24684092 kB  Swap: 0 kB

`Booted` exists since 3.6.4. A plot file made by `-p` begins with `### RECORDED ###` and the options of the recording,
then those of `-p`; date and zone are those of the recording, memory has no unit. HZ is that of /proc (100 where the
line is missing). Source: collectl, sub buildCommonHeader, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from thpdiag.model import Citation, Clock, Event, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.model.facts import MAX_CITED_CHARS, Value
from thpdiag.model.numeric import Array, Bools, Floats, Ints, np
from thpdiag.model.parser import Content, Source
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers._time import utc_offset
from thpdiag.parsers.collectl._counters import (
    MODES,
    SYSTEM,
    UNUSED,
    CitedTextBudget,
    Counters,
    Numbered,
    Rows,
    Tasks,
    Times,
    printable,
)

BUSY = MODES[:8]  # guest time is in that of the host
STEP = 30.0  # seconds that clock and counters may differ by
_GROWING = ("node_context_switches_total", "node_intr_total", "node_forks_total", "node_vmstat_pgfault")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Times of the intervals, their lines, and the boots that headers tell of by number of interval."""

    epochs: Floats
    lines: Ints
    boots: Sequence[tuple[int, float]]

    def order(self, system: Rows | None, source: Source) -> tuple[Ints | None, list[Problem]]:
        """The rank of each interval, None if they stand in order; problems."""
        backward = np.flatnonzero(np.diff(self.epochs) < 0) + 1
        problems = [] if system is None else self._forward(system, source)
        if not len(backward):
            same = np.flatnonzero(np.diff(self.epochs) == 0)
            rank = np.unique(self.epochs, return_inverse=True)[1] if len(same) else None
            return rank, problems
        fallen = self._is_reset(backward, system)
        wrong = [int(at) for at, less in zip(backward, fallen, strict=True) if less or self._of_two_boots(int(at))]
        told = set(wrong)
        back = [int(at) for at in backward if int(at) not in told]
        if wrong:
            text = "parts of the recording are in the wrong order; they were sorted by time"
            problems.append(self._problem(source, wrong, text))
            return np.unique(self.epochs, return_inverse=True)[1], problems
        lost = max(float(self.epochs[at - 1] - self.epochs[at]) for at in back)
        text = f"the clock was set back, by up to {lost:.0f} s; times after that come twice"
        problems.append(self._problem(source, back, text))
        return None, problems

    def _is_reset(self, backward: Ints, system: Rows | None) -> Bools:
        """Whether an interval counts less than the one above it, or nothing tells: then it was made before that one."""
        known = system.columns() if system else {}
        found = next((known[name] for name in _GROWING if name in known), None)
        if found is None or system is None:
            return np.ones(len(backward), np.bool_)
        counted = np.flatnonzero(found == found)
        if not len(counted):
            return np.ones(len(backward), np.bool_)
        below = np.searchsorted(np.frombuffer(system.at, np.int64)[counted], backward)
        lone = (below == 0) | (below == len(counted))
        values = found[counted]
        fallen: Bools = lone | (values[np.minimum(below, len(counted) - 1)] <= values[below - 1])
        return fallen

    def _of_two_boots(self, at: int) -> bool:
        """Whether headers tell that the interval is of another boot than the one above it."""
        return len({round(boot, -2) for start, boot in self.boots if start in (at, self._start(at - 1))}) > 1

    def _start(self, at: int) -> int:
        return max((start for start, _ in self.boots if start <= at), default=-1)

    def _forward(self, system: Rows, source: Source) -> list[Problem]:
        """Clock steps forward, by the CPU time that was counted meanwhile."""
        known = system.columns()
        columns = [known[name] for name in BUSY if name in known]
        if len(columns) < 4:
            return []
        counted = np.diff(np.sum(columns, axis=0))
        passed = np.diff(self.epochs[np.frombuffer(system.at, np.int64)])
        good = (counted > 0) & (passed > 0)
        if good.sum() < 3:
            return []
        cpus = float(np.median(counted[good] / passed[good]))
        steps = np.flatnonzero(good & (passed - counted / cpus > np.maximum(STEP, passed / 2)))
        if not len(steps):
            return []
        most = float((passed - counted / cpus)[steps].max())
        text = f"the clock went forward up to {most:.0f} s more than the CPUs counted: it was set, or the host paused"
        return [self._problem(source, [int(system.at[int(i) + 1]) for i in steps], text)]

    def _problem(self, source: Source, at: Sequence[int], text: str) -> Problem:
        cite = source.cite(int(self.lines[at[0]]))
        return Problem(cite, text, reader="collectl_raw", count=len(at), hides=False)


MAX_LINE_BYTES = 1 << 20
BLOCK_BYTES = 1 << 19  # bytes that are looked at together


class WholeLines:
    """Lines without their ends. A last one that has no end may be cut and is not given; nor are endless ones."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.number = 0  # of lines given so far
        self._first_long = self._long = 0
        self._cut = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for first, block in self.blocks():
            yield from enumerate(block[:-1].split(b"\n"), first)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines together, each with its end, and the number of the first."""
        tail, too_long = b"", False
        for piece in self._pieces():
            data = tail + piece
            end = data.rfind(b"\n") + 1
            whole, tail = data[:end], data[end:]
            if whole and too_long:  # the end of a line whose beginning was left out
                whole, too_long = b"\n" + whole.partition(b"\n")[2], False
            if whole:
                first, self.number = self.number + 1, self.number + whole.count(b"\n")
                yield first, whole
            if len(tail) > MAX_LINE_BYTES:
                self._long += not too_long
                self._first_long = self._first_long or self.number + 1
                tail, too_long = b"", True
        if tail:
            self.number += 1
            self._cut = True

    def _pieces(self) -> Iterator[bytes]:
        """The chunks, small ones joined."""
        held: list[bytes] = []
        size = 0
        for chunk in self._chunks:
            held.append(chunk)
            size += len(chunk)
            if size >= BLOCK_BYTES:
                yield b"".join(held)
                held, size = [], 0
        yield b"".join(held)

    def problems(self, source: Source, reader: str) -> Iterator[Problem]:
        """Once all lines were taken."""
        if self._cut:
            text = "ends in the middle of a line, which is left out"
            yield Problem(source.cite(self.number), text, ProblemKind.DAMAGED, reader)
        if self._long:
            text = f"lines of more than {MAX_LINE_BYTES} bytes; they are left out"
            yield Problem(source.cite(self._first_long), text, ProblemKind.LIMIT, reader, count=self._long)


_MAX_PREFIX_BYTES = 24  # bytes of a line that are looked at
_MIN_PID_DIGITS, _MAX_PID_DIGITS = 1, 10


def _word(text: bytes) -> int:
    return int.from_bytes(text, "little")


_PROCESS, _SPACE = _word(b"proc"), ord(" ")
_OTHERS = [_word(word) for word in (b"disk", b"Slab", b"sock")]  # with a blank behind
_SHORT = [_word(word) for word in (b"int ", b"Net ", b"tcp-")]
_UNUSED = [_word(word) for word in UNUSED if len(word) == 4]
HOST_LINES, PROCESS_LINES, MARKS = range(3)  # what a run of lines is of; a mark begins as a time or header does


def useful_runs(lines: WholeLines) -> Iterator[tuple[int, list[Numbered]]]:
    """Numbered lines without those of no use, as many of one kind as follow each other."""
    for first, block in lines.blocks():
        data = np.frombuffer(block + b"\n" * _MAX_PREFIX_BYTES, np.uint8)
        ends = np.flatnonzero(data[: len(block)] == ord("\n"))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        kinds, useless = _kinds(data, starts)
        kept = np.flatnonzero(~useless)
        places = zip(starts[kept].tolist(), ends[kept].tolist(), strict=True)
        useful = list(zip((kept + first).tolist(), [block[start:end] for start, end in places], strict=True))
        edges = [0, *(np.flatnonzero(np.diff(kinds[kept])) + 1).tolist(), len(useful)]
        for start, end in pairwise(edges):
            if start < end:
                yield int(kinds[kept[start]]), useful[start:end]


def _kinds(data: Array[np.uint8], starts: Ints) -> tuple[Ints, Bools]:
    """The kind of each line, and whether it is of no use."""
    words, mark = _words(data, starts), data[starts]
    fifth = data[starts + 4]
    useless: Bools = np.isin(words, _SHORT) | (np.isin(words, _OTHERS) & (fifth == _SPACE))
    is_process = (words == _PROCESS) & (fifth == ord(":"))
    useless[is_process] = _is_unused(data, starts[is_process] + 5)
    kinds = np.where(is_process, PROCESS_LINES, HOST_LINES)
    kinds[(mark == ord(">")) | (mark == ord("#"))] = MARKS
    return kinds, useless


def _is_unused(data: Array[np.uint8], pids: Ints) -> Bools:
    """Whether the words behind these pids are of no use."""
    behind = np.zeros(len(pids), np.int64)
    for length in range(_MAX_PID_DIGITS, _MIN_PID_DIGITS - 1, -1):  # the first blank counts
        blank = data[pids + length] == _SPACE
        behind[blank] = pids[blank] + length + 1
    found: Bools = (behind > 0) & np.isin(_words(data, behind), _UNUSED)
    return found


def _words(data: Array[np.uint8], at: Ints) -> Array[np.uint32]:
    """Four bytes from each place."""
    letters = np.lib.stride_tricks.sliding_window_view(data, 4)[at]
    return letters.view("<u4")[:, 0]


PROVENANCE = "recorder"  # the distribution as collectl names it, which is not what the release file says
_KEY = re.compile(r"#\s?([A-Z]\w*):\s+(.*)$")
_LINES = {  # what follows each key; groups are fields of `Header`
    "Collectl": re.compile(r"V?(?P<version>\S+)\s+(?:HiRes: \d+\s+)?(?:Options: ?(?P<printed>.*))?"),
    "Host": re.compile(r"(?P<host>\S+)(?:\s+DaemonOpts: ?(?P<daemon>.*))?"),
    "Distro": re.compile(r"(?P<distribution>.*?)(?:  Platform:.*)?$"),
    "Booted": re.compile(r"(?P<booted>\d{9,10}(?:\.\d+)?)\b"),
    "Date": re.compile(r"\d{8}-\d{6}\s+Secs: (?P<started>\d{9,10})(?:\s+TZ: (?P<zone>[+-]\d{4}))?"),
    "SubSys": re.compile(r"\S*\s+Options: (?P<letters>\S*)\s+Interval: \S*(?:.*?NumCPUs: (?P<cpus>\d{1,5}))?"),
    "HZ": re.compile(r"(?P<hz>\d{2,4})\s+Arch: \S+(?:\s+PageSize: (?P<page>\d{4,6}))?"),
    "Kernel": re.compile(r"(?P<kernel>\S+)\s+Memory: (?P<memory>\d{1,15})(?: kB)?(?:\s|$)"),
}
_NUMBERS: dict[str, Callable[[str], float | None]] = {
    "booted": float,
    "started": float,
    "zone": utc_offset,
    "cpus": lambda text: int(text) or None,
    "hz": lambda text: int(text) or 100,
    "page": int,
    "memory": lambda text: int(text) * 1024 or None,
}


@dataclass(slots=True)
class Header:
    """The values of one header. Unknown is None or empty; HZ has its usual value then."""

    host: str = ""
    kernel: str = ""
    distribution: str = ""
    version: str = ""
    options: str = ""  # of who recorded
    printed: str = ""  # of who printed: `-p` may differ
    daemon: str = ""  # options of the daemon
    letters: str = ""  # of -o: `n` means that rates are per interval, not per second
    zone: int | None = None  # seconds ahead of UTC
    booted: float | None = None
    started: float | None = None
    memory: int | None = None  # bytes
    cpus: int | None = None
    hz: int = 100
    page: int | None = None  # bytes
    played_back: bool = False
    places: dict[str, tuple[int, str]] = field(default_factory=dict)  # line number and text by key

    def line(self, number: int, text: str) -> None:
        """A line that begins with `#`."""
        if " RECORDED " in text and text.startswith("###"):
            self.played_back = True
        key = _KEY.match(text)
        if not key or key[1] not in _LINES:
            return
        self.places.setdefault(key[1], (number, text))
        found = _LINES[key[1]].match(key[2].strip())
        for name, word in found.groupdict().items() if found else ():
            if name in _NUMBERS:
                setattr(self, name, None if word is None else _NUMBERS[name](word))
            else:
                setattr(self, name, (word or "").strip())
        if key[1] == "Collectl":
            self.options = self.options or self.printed.partition("  Subsys: ")[0]
        elif key[1] == "Host" and self.daemon:
            self.options = f"{self.options} {self.daemon}".strip()
        elif key[1] == "Distro":
            _, comma, named = self.distribution.partition(", ")  # "debian bullseye/sid, Ubuntu 20.04.1 LTS"
            self.distribution = named if comma and named else re.sub(r"^debian\b", "Debian", self.distribution)

    def facts(self, source: Source) -> Iterator[Fact]:
        """What the header says of the host."""
        at = Moment(self.started, Clock.UTC) if self.started is not None else None
        options = (("recorder", "collectl"), ("version", self.version))
        found: tuple[tuple[str, str, Value | None, tuple[tuple[str, str], ...], str], ...] = (
            ("Host", "host.name", self.host, (), ""),
            ("Kernel", "kernel.release", self.kernel, (), ""),
            ("Distro", "os.name", self.distribution, (), PROVENANCE),
            ("SubSys", "cpu.count", self.cpus, (), ""),
            ("Date", "host.utc_offset", self.zone, (), ""),
            ("HZ", "kernel.page_size", self.page, (), ""),
            ("Collectl", "recorder.options", self.options, options, ""),
        )
        for key, name, value, labels, provenance in found:
            place = self.places.get(key) or self.places.get("Host")  # which has the daemon's options
            if value is not None and value != "" and place:
                yield Fact(name, value, source.cite(*place), labels, at, provenance)


NAME = "collectl_raw"
BOOT_APART = 60.0  # seconds between two figures of one boot
_TIME = re.compile(rb">>> (\d{9,10}\.\d{1,6}) <<<\s*$")
_BAD_TIME = "a damaged time: the lines below it, up to the next time, are left out"
MAX_INTERVAL_LINES = 100_000  # of an interval, beside those of processes
_TOO_MANY = "more lines under one time than any host has; they are left out"
_NO_TIME = "lines above the first time; they are left out"


class Recording:
    """What one host recorded."""

    def __init__(self, source: Source, first: Header) -> None:
        self.source = source
        self.odd, self.damage = ParseErrors(source, NAME), ParseErrors(source, NAME)
        budget = CitedTextBudget()
        self.counters, self.tasks = Counters(self.odd, budget), Tasks(source, self.odd, budget)
        self.headers: list[tuple[int, Header]] = []  # with the number of the interval that follows
        self.epochs = array("d")
        self.lines = array("q")
        self.timed = False
        self._marker = b""
        self._lines: list[Numbered] = []
        self.header(first)

    def header(self, header: Header) -> None:
        self.close()
        self.tasks.boot += bool(self.headers) and _is_other_boot(self.headers[-1][1], header)
        self.headers.append((len(self.epochs), header))
        self.counters.hz = self.tasks.hz = header.hz
        self.tasks.page = header.page or 4096

    def marker(self, number: int, line: bytes) -> None:
        self.close()
        found = _TIME.match(line)
        if not found:
            self.damage.note(number, printable(line.decode("utf-8", "replace")), _BAD_TIME)
            return
        self.counters.open(len(self.epochs))
        self.epochs.append(float(found[1]))
        self.lines.append(number)
        self.timed, self._marker = True, line

    def take(self, lines: list[Numbered], *, of_processes: bool = False) -> None:
        """Lines of the host, or of processes, below a time."""
        if not self.timed:
            for number, line in lines if not self.epochs else ():
                if line.strip():
                    self.damage.note(number, printable(line.decode("utf-8", "replace")), _NO_TIME)
        elif of_processes:
            for number, line in lines:
                self.tasks.line(number, line)
        else:
            left = MAX_INTERVAL_LINES - len(self._lines)
            self._lines += [numbered for numbered in lines[:left] if numbered[1]]
            for number, line in lines[left:]:
                self.odd.note(number, printable(line[:MAX_CITED_CHARS].decode("utf-8", "replace")), _TOO_MANY)

    def close(self) -> None:
        """The interval is over."""
        if self.timed:
            self.counters.take(self._lines)
            self._lines = []
            self.counters.close(self.lines[-1], self._marker.strip())
            self.tasks.close(len(self.epochs) - 1)
        self.timed = False

    def records(self) -> Iterator[Record]:
        self.close()
        yield from self._facts()
        found = Intervals(np.array(self.epochs), np.array(self.lines), self._boots())
        rank, problems = found.order(self.counters.rows.get(SYSTEM), self.source)
        times = Times(found.epochs, Clock.UTC, rank, {})
        self._boot_column()
        yield from self.counters.series((self.source.member, NAME), times)
        yield from self.tasks.series(NAME, times)
        yield from self.tasks.commands(times)
        for (_, before), (_, header) in pairwise(self.headers):
            if header.booted is not None and _is_other_boot(before, header):
                cite = self.source.cite(*header.places["Booted"])
                yield Event("restart", cite, Moment(header.booted, Clock.UTC))
        yield from (replace(p, kind=ProblemKind.DAMAGED) for p in self.damage.problems())
        yield from problems
        yield from self.odd.problems()

    def _facts(self) -> Iterator[Record]:
        """Of the first header, and of later ones what is new."""
        told: set[tuple[str, object, object]] = set()
        for _, header in self.headers:
            for fact in header.facts(self.source):
                if (key := (fact.name, fact.value, fact.labels)) not in told:
                    told.add(key)
                    yield fact

    def _boots(self) -> list[tuple[int, float]]:
        """The time of the boot from an interval on, as far as headers tell."""
        return [(at, header.booted) for at, header in self.headers if header.booted is not None]

    def _boot_column(self) -> None:
        """Boot and memory as the headers tell them, beside the counters."""
        rows = self.counters.rows.get(SYSTEM)
        if rows is None:
            return
        for name, told in (
            ("node_boot_time_seconds", [(at, h.booted) for at, h in self.headers]),
            ("node_memory_MemTotal_bytes", [(at, h.memory) for at, h in self.headers]),
        ):
            known = [(at, float(value)) for at, value in told if value is not None]
            if known and name not in rows.metrics():
                starts, values = zip(*known, strict=True)
                place = np.searchsorted(np.array(starts), np.frombuffer(rows.at, np.int64), side="right") - 1
                rows.add_column(name, np.where(place < 0, np.nan, np.array(values)[place]))


def _is_other_boot(before: Header, after: Header) -> bool:
    """Whether two headers tell of different boots."""
    return before.booted is not None and after.booted is not None and abs(before.booted - after.booted) > BOOT_APART


def records(source: Source, content: Content) -> Iterator[Record]:
    """All records of a member."""
    lines = WholeLines(content.chunks)
    recording = yield from _read(source, lines)
    yield from recording.records()
    yield from lines.problems(source, NAME)
    if not recording.epochs:
        yield Problem(Citation(source.member), "a recording of collectl without any counters", reader=NAME)


def _read(source: Source, lines: WholeLines) -> Generator[Record, None, Recording]:
    """The last recording of the lines; what stands above one of another host is given before."""
    recording, header = Recording(source, Header()), Header()
    for kind, run in useful_runs(lines):
        if kind != MARKS:
            recording.take(run, of_processes=kind == PROCESS_LINES)
            continue
        for number, line in run:
            if line.startswith(b">>>"):
                if header.places:
                    recording, header = (yield from _continue_below_header(recording, header)), Header()
                recording.marker(number, line)
            elif line.startswith(b"#"):
                header.line(number, printable(line.decode("utf-8", "replace")))
            else:
                recording.take([(number, line)])
    if header.places:
        recording = yield from _continue_below_header(recording, header)
    return recording


def _continue_below_header(recording: Recording, header: Header) -> Generator[Record, None, Recording]:
    """The recording that goes on below a header: the same one, or that of another host once the first is given."""
    known = recording.headers[-1][1]
    if recording.epochs and known.host and header.host and known.host != header.host:
        yield from recording.records()
        return Recording(recording.source, header)
    recording.header(header)
    return recording
