"""Parser of raw recordings of collectl in one pass: intervals from one time to the next, and headers in any place.

A file may contain several logs one after another (rotated, concatenated); a header of another host begins another
recording. Lines before the first time, or after a damaged time, have no time and are left out. A last line without a
line end may be truncated and is left out.

Most lines (slabs, interrupts, disks) are unused. They are skipped by their first bytes, many at once, before a line
becomes an object; unknown lines are kept, so that damage is detected.

Times that go back have two causes. If parts of the recording are in the wrong order (manually joined logs), the
counters decrease at the same place, or the header has another boot time; the rows are sorted. If the wall clock was set
back, the counters increase; the rows keep their order and times. If time advances much faster than the CPU counters,
the clock was set forward, or the host was suspended.

The header of a recording and of plot files: host, kernel, zone, boot, options.

    ################################################################################
    # Collectl:   V4.3.1-1  HiRes: 1  Options: -scmZ -i1:5
    # Host:       db1  DaemonOpts:
    # Booted:     1795153219.9 [20261120-05:40:19]
    # Date:       20261120-095107  Secs: 1795168267 TZ: +0530
    # SubSys:     cmZ Options:  Interval: 1:5 NumCPUs: 2  NumBud: 3 Flags: ix
    # HZ:         100  Arch: x86_64-linux-gnu-thread-multi PageSize: 4096
    # Kernel:     6.1.0-30-amd64  Memory: 24684092 kB  Swap: 0 kB

`Booted` exists since 3.6.4. A plot file written by `-p` begins with `### RECORDED ###` and the options of the
recording, followed by those of `-p`; date and zone are those of the recording, memory has no unit. HZ is that of /proc
(100 if the line is missing). Source: collectl, sub buildCommonHeader, 3.5 to 4.3.
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

CPU_TIMES = MODES[:8]  # user time already includes guest time
MAX_CLOCK_ERROR = 30.0  # seconds by which the clock and the CPU counters may differ
_ORDER_COUNTERS = ("node_context_switches_total", "node_intr_total", "node_forks_total", "node_vmstat_pgfault")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Times of the intervals, their lines, and the boot times in headers with the number of the next interval."""

    epochs: Floats
    lines: Ints
    boots: Sequence[tuple[int, float]]

    def order(self, system: Rows | None, source: Source) -> tuple[Ints | None, list[Problem]]:
        """Return the rank of each interval by time, None if they are in order, and the problems."""
        backward = np.flatnonzero(np.diff(self.epochs) < 0) + 1
        problems = [] if system is None else self._forward_problems(system, source)
        if not len(backward):
            has_equal_times = (np.diff(self.epochs) == 0).any()
            return np.unique(self.epochs, return_inverse=True)[1] if has_equal_times else None, problems
        decreases = self._decreases(backward, system)
        wrong = [int(at) for at, less in zip(backward, decreases, strict=True) if less or self._is_other_boot(int(at))]
        if wrong:
            text = "parts of the recording are in the wrong order; they were sorted by time"
            problems.append(self._problem(source, wrong, text))
            return np.unique(self.epochs, return_inverse=True)[1], problems
        lost = max(float(self.epochs[at - 1] - self.epochs[at]) for at in backward)
        text = f"the clock was set back, by up to {lost:.0f} s; times after that come twice"
        problems.append(self._problem(source, backward.tolist(), text))
        return None, problems

    def _decreases(self, backward: Ints, system: Rows | None) -> Bools:
        """Return whether the counters decrease at these intervals, so that they precede the interval before them.

        True also if no counter is available for the comparison.
        """
        columns = system.columns() if system else {}
        counter = next((columns[name] for name in _ORDER_COUNTERS if name in columns), None)
        if counter is None or system is None:
            return np.ones(len(backward), np.bool_)
        counted = np.flatnonzero(counter == counter)
        if not len(counted):
            return np.ones(len(backward), np.bool_)
        after = np.searchsorted(np.frombuffer(system.at, np.int64)[counted], backward)
        has_no_pair = (after == 0) | (after == len(counted))
        values = counter[counted]
        decreases: Bools = has_no_pair | (values[np.minimum(after, len(counted) - 1)] <= values[after - 1])
        return decreases

    def _is_other_boot(self, at: int) -> bool:
        """Return whether headers show that the interval belongs to another boot than the one before it."""
        before = max((start for start, _ in self.boots if start <= at - 1), default=-1)
        return len({round(boot, -2) for start, boot in self.boots if start in (at, before)}) > 1

    def _forward_problems(self, system: Rows, source: Source) -> list[Problem]:
        """Return the problem of forward clock steps, detected by comparison with the counted CPU time."""
        by_name = system.columns()
        columns = [by_name[name] for name in CPU_TIMES if name in by_name]
        if len(columns) < 4:
            return []
        cpu_seconds = np.diff(np.sum(columns, axis=0))
        seconds = np.diff(self.epochs[np.frombuffer(system.at, np.int64)])
        good = (cpu_seconds > 0) & (seconds > 0)
        if good.sum() < 3:
            return []
        excess = seconds - cpu_seconds / float(np.median(cpu_seconds[good] / seconds[good]))
        steps = np.flatnonzero(good & (excess > np.maximum(MAX_CLOCK_ERROR, seconds / 2)))
        if not len(steps):
            return []
        largest = float(excess[steps].max())
        text = (
            f"the clock went forward up to {largest:.0f} s more than the CPUs counted: it was set, or the host paused"
        )
        return [self._problem(source, [int(system.at[int(i) + 1]) for i in steps], text)]

    def _problem(self, source: Source, at: Sequence[int], text: str) -> Problem:
        cite = source.cite(int(self.lines[at[0]]))
        return Problem(cite, text, reader="collectl_raw", count=len(at), hides=False)


MAX_LINE_BYTES = 1 << 20
BLOCK_BYTES = 1 << 19  # size of the blocks that are processed at once


class WholeLines:
    """Iterator of lines without line ends. Too long lines, and a last line without line end, are left out."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.number = 0  # number of the last line
        self._first_long = self._long = 0
        self._is_cut = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for first, block in self.blocks():
            yield from enumerate(block[:-1].split(b"\n"), first)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield blocks of whole lines with their line ends, and the number of the first line of each."""
        tail, is_too_long = b"", False
        for piece in self._pieces():
            data = tail + piece
            end = data.rfind(b"\n") + 1
            block, tail = data[:end], data[end:]
            if block and is_too_long:  # the end of a line whose beginning was left out
                block, is_too_long = b"\n" + block.partition(b"\n")[2], False
            if block:
                first, self.number = self.number + 1, self.number + block.count(b"\n")
                yield first, block
            if len(tail) > MAX_LINE_BYTES:
                self._long += not is_too_long
                self._first_long = self._first_long or self.number + 1
                tail, is_too_long = b"", True
        if tail:
            self.number += 1
            self._is_cut = True

    def _pieces(self) -> Iterator[bytes]:
        """Yield the chunks, joined to at least `BLOCK_BYTES`."""
        chunks: list[bytes] = []
        size = 0
        for chunk in self._chunks:
            chunks.append(chunk)
            size += len(chunk)
            if size >= BLOCK_BYTES:
                yield b"".join(chunks)
                chunks, size = [], 0
        yield b"".join(chunks)

    def problems(self, source: Source, reader: str) -> Iterator[Problem]:
        """Yield the problems, after all lines have been read."""
        if self._is_cut:
            text = "ends in the middle of a line, which is left out"
            yield Problem(source.cite(self.number), text, ProblemKind.DAMAGED, reader)
        if self._long:
            text = f"lines of more than {MAX_LINE_BYTES} bytes; they are left out"
            yield Problem(source.cite(self._first_long), text, ProblemKind.LIMIT, reader, count=self._long)


_MAX_PREFIX_BYTES = 24  # bytes of a line that decide whether it is used
_MIN_PID_DIGITS, _MAX_PID_DIGITS = 1, 10


def _word(text: bytes) -> int:
    return int.from_bytes(text, "little")


_PROCESS, _SPACE = _word(b"proc"), ord(" ")
_UNUSED_WORDS = [_word(word) for word in (b"disk", b"Slab", b"sock")]  # unused if a blank follows
_UNUSED_PREFIXES = [_word(word) for word in (b"int ", b"Net ", b"tcp-")]
_UNUSED_FIELDS = [_word(word) for word in UNUSED if len(word) == 4]
HOST_LINES, PROCESS_LINES, MARKER_LINES = range(3)  # kinds of lines; a marker is a time or a line of a header


def useful_runs(lines: WholeLines) -> Iterator[tuple[int, list[Numbered]]]:
    """Yield (kind, numbered lines) for each run of lines of one kind, without unused lines."""
    for first, block in lines.blocks():
        data = np.frombuffer(block + b"\n" * _MAX_PREFIX_BYTES, np.uint8)
        ends = np.flatnonzero(data[: len(block)] == ord("\n"))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        kinds, is_unused = _kinds(data, starts)
        kept = np.flatnonzero(~is_unused)
        bounds = zip(starts[kept].tolist(), ends[kept].tolist(), strict=True)
        useful = list(zip((kept + first).tolist(), [block[start:end] for start, end in bounds], strict=True))
        edges = [0, *(np.flatnonzero(np.diff(kinds[kept])) + 1).tolist(), len(useful)]
        for start, end in pairwise(edges):
            if start < end:
                yield int(kinds[kept[start]]), useful[start:end]


def _kinds(data: Array[np.uint8], starts: Ints) -> tuple[Ints, Bools]:
    """Return the kind of each line, and whether it is unused."""
    words, first = _words(data, starts), data[starts]
    fifth = data[starts + 4]
    is_unused: Bools = np.isin(words, _UNUSED_PREFIXES) | (np.isin(words, _UNUSED_WORDS) & (fifth == _SPACE))
    is_process = (words == _PROCESS) & (fifth == ord(":"))
    is_unused[is_process] = _is_unused_field(data, starts[is_process] + 5)
    kinds = np.where(is_process, PROCESS_LINES, HOST_LINES)
    kinds[(first == ord(">")) | (first == ord("#"))] = MARKER_LINES
    return kinds, is_unused


def _is_unused_field(data: Array[np.uint8], pids: Ints) -> Bools:
    """Return whether the fields after the pids at these offsets are unused."""
    fields = np.zeros(len(pids), np.int64)
    for length in range(_MAX_PID_DIGITS, _MIN_PID_DIGITS - 1, -1):  # descending, so that the first blank counts
        is_blank = data[pids + length] == _SPACE
        fields[is_blank] = pids[is_blank] + length + 1
    is_unused: Bools = (fields > 0) & np.isin(_words(data, fields), _UNUSED_FIELDS)
    return is_unused


def _words(data: Array[np.uint8], offsets: Ints) -> Array[np.uint32]:
    """Return the four bytes at each offset as an integer."""
    letters = np.lib.stride_tricks.sliding_window_view(data, 4)[offsets]
    return letters.view("<u4")[:, 0]


PROVENANCE = "recorder"  # collectl names the distribution differently from the release file
_KEY = re.compile(r"#\s?([A-Z]\w*):\s+(.*)$")
_HEADER_LINES = {  # text after each key; the groups are fields of `Header`
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
    """The values of one header; None or empty if unknown, HZ then has its usual value."""

    host: str = ""
    kernel: str = ""
    distribution: str = ""
    version: str = ""
    options: str = ""  # options of the recording
    printed: str = ""  # options of the last header; with `-p` they are those of the playback
    daemon: str = ""  # options of the daemon
    letters: str = ""  # letters of the option -o: `n` means that rates are per interval, not per second
    zone: int | None = None  # seconds ahead of UTC
    booted: float | None = None
    started: float | None = None
    memory: int | None = None  # bytes
    cpus: int | None = None
    hz: int = 100
    page: int | None = None  # bytes
    played_back: bool = False
    lines: dict[str, tuple[int, str]] = field(default_factory=dict)  # line number and text by key

    def parse_line(self, number: int, text: str) -> None:
        """Parse a line that begins with `#`."""
        if " RECORDED " in text and text.startswith("###"):
            self.played_back = True
        key = _KEY.match(text)
        if not key or key[1] not in _HEADER_LINES:
            return
        self.lines.setdefault(key[1], (number, text))
        match = _HEADER_LINES[key[1]].match(key[2].strip())
        for name, word in match.groupdict().items() if match else ():
            if name in _NUMBERS:
                setattr(self, name, None if word is None else _NUMBERS[name](word))
            else:
                setattr(self, name, (word or "").strip())
        if key[1] == "Collectl":
            self.options = self.options or self.printed.partition("  Subsys: ")[0]
        elif key[1] == "Host" and self.daemon:
            self.options = f"{self.options} {self.daemon}".strip()
        elif key[1] == "Distro":
            _, _, derivative = self.distribution.partition(", ")  # "debian bullseye/sid, Ubuntu 20.04.1 LTS"
            self.distribution = derivative or re.sub(r"^debian\b", "Debian", self.distribution)

    def facts(self, source: Source) -> Iterator[Fact]:
        """Yield the facts of the host in the header."""
        time = Moment(self.started, Clock.UTC) if self.started is not None else None
        options = (("recorder", "collectl"), ("version", self.version))
        values: tuple[tuple[str, str, Value | None, tuple[tuple[str, str], ...], str], ...] = (
            ("Host", "host.name", self.host, (), ""),
            ("Kernel", "kernel.release", self.kernel, (), ""),
            ("Distro", "os.name", self.distribution, (), PROVENANCE),
            ("SubSys", "cpu.count", self.cpus, (), ""),
            ("Date", "host.utc_offset", self.zone, (), ""),
            ("HZ", "kernel.page_size", self.page, (), ""),
            ("Collectl", "recorder.options", self.options, options, ""),
        )
        for key, name, value, labels, provenance in values:
            line = self.lines.get(key) or self.lines.get("Host")  # which has the options of the daemon
            if value is not None and value != "" and line:
                yield Fact(name, value, source.cite(*line), labels, time, provenance)


NAME = "collectl_raw"
MAX_BOOT_TIME_ERROR = 60.0  # seconds by which two times of the same boot may differ
_TIME = re.compile(rb">>> (\d{9,10}\.\d{1,6}) <<<\s*$")
_BAD_TIME = "a damaged time: the lines below it, up to the next time, are left out"
MAX_INTERVAL_LINES = 100_000  # lines of an interval, without those of processes
_TOO_MANY = "more lines under one time than any host has; they are left out"
_NO_TIME = "lines above the first time; they are left out"


class Recording:
    """The recording of one host."""

    def __init__(self, source: Source, first: Header) -> None:
        self.source = source
        self.errors, self.damage = ParseErrors(source, NAME), ParseErrors(source, NAME)
        budget = CitedTextBudget()
        self.counters, self.tasks = Counters(self.errors, budget), Tasks(source, self.errors, budget)
        self.headers: list[tuple[int, Header]] = []  # with the number of the next interval
        self.epochs = array("d")
        self.lines = array("q")
        self.has_time = False  # whether an interval with a valid time is open
        self._marker = b""
        self._lines: list[Numbered] = []
        self.add_header(first)

    def add_header(self, header: Header) -> None:
        self.close()
        self.tasks.boot += bool(self.headers) and _is_other_boot(self.headers[-1][1], header)
        self.headers.append((len(self.epochs), header))
        self.counters.hz = self.tasks.hz = header.hz
        self.tasks.page = header.page or 4096

    def begin_interval(self, number: int, line: bytes) -> None:
        self.close()
        time = _TIME.match(line)
        if not time:
            self.damage.note(number, printable(line.decode("utf-8", "replace")), _BAD_TIME)
            return
        self.counters.open(len(self.epochs))
        self.epochs.append(float(time[1]))
        self.lines.append(number)
        self.has_time, self._marker = True, line

    def add_lines(self, lines: list[Numbered], *, of_processes: bool = False) -> None:
        """Add lines of the host, or of processes, to the interval."""
        if not self.has_time:
            for number, line in lines if not self.epochs else ():
                if line.strip():
                    self.damage.note(number, printable(line.decode("utf-8", "replace")), _NO_TIME)
        elif of_processes:
            for number, line in lines:
                self.tasks.add_line(number, line)
        else:
            left = MAX_INTERVAL_LINES - len(self._lines)
            self._lines += [numbered for numbered in lines[:left] if numbered[1]]
            for number, line in lines[left:]:
                self.errors.note(number, printable(line[:MAX_CITED_CHARS].decode("utf-8", "replace")), _TOO_MANY)

    def close(self) -> None:
        """End the interval."""
        if self.has_time:
            self.counters.add_lines(self._lines)
            self._lines = []
            self.counters.close(self.lines[-1], self._marker.strip())
            self.tasks.close(len(self.epochs) - 1)
        self.has_time = False

    def records(self) -> Iterator[Record]:
        self.close()
        yield from self._facts()
        boots = [(at, header.booted) for at, header in self.headers if header.booted is not None]
        intervals = Intervals(np.array(self.epochs), np.array(self.lines), boots)
        rank, problems = intervals.order(self.counters.rows.get(SYSTEM), self.source)
        times = Times(intervals.epochs, Clock.UTC, rank, {})
        self._add_header_columns()
        yield from self.counters.series((self.source.member, NAME), times)
        yield from self.tasks.series(NAME, times)
        yield from self.tasks.commands(times)
        for (_, before), (_, header) in pairwise(self.headers):
            if header.booted is not None and _is_other_boot(before, header):
                cite = self.source.cite(*header.lines["Booted"])
                yield Event("restart", cite, Moment(header.booted, Clock.UTC))
        yield from (replace(p, kind=ProblemKind.DAMAGED) for p in self.damage.problems())
        yield from problems
        yield from self.errors.problems()

    def _facts(self) -> Iterator[Record]:
        """Yield the facts of the first header, and new ones of later headers."""
        reported: set[tuple[str, object, object]] = set()
        for _, header in self.headers:
            for fact in header.facts(self.source):
                if (key := (fact.name, fact.value, fact.labels)) not in reported:
                    reported.add(key)
                    yield fact

    def _add_header_columns(self) -> None:
        """Add boot time and memory of the headers as columns, if the counters do not include them."""
        rows = self.counters.rows.get(SYSTEM)
        if rows is None:
            return
        for name, header_values in (
            ("node_boot_time_seconds", [(at, h.booted) for at, h in self.headers]),
            ("node_memory_MemTotal_bytes", [(at, h.memory) for at, h in self.headers]),
        ):
            known = [(at, float(value)) for at, value in header_values if value is not None]
            if known and name not in rows.metrics():
                starts, values = zip(*known, strict=True)
                index = np.searchsorted(np.array(starts), np.frombuffer(rows.at, np.int64), side="right") - 1
                rows.add_column(name, np.where(index < 0, np.nan, np.array(values)[index]))


def _is_other_boot(before: Header, after: Header) -> bool:
    """Return whether two headers have different boot times."""
    if before.booted is None or after.booted is None:
        return False
    return abs(before.booted - after.booted) > MAX_BOOT_TIME_ERROR


def records(source: Source, content: Content) -> Iterator[Record]:
    """Yield all records of a member."""
    lines = WholeLines(content.chunks)
    recording = yield from _read(source, lines)
    yield from recording.records()
    yield from lines.problems(source, NAME)
    if not recording.epochs:
        yield Problem(Citation(source.member), "a recording of collectl without any counters", reader=NAME)


def _read(source: Source, lines: WholeLines) -> Generator[Record, None, Recording]:
    """Return the last recording of the lines; yield the records of earlier recordings of other hosts."""
    recording, header = Recording(source, Header()), Header()
    for kind, run in useful_runs(lines):
        if kind != MARKER_LINES:
            recording.add_lines(run, of_processes=kind == PROCESS_LINES)
            continue
        for number, line in run:
            if line.startswith(b">>>"):
                if header.lines:
                    recording, header = (yield from _apply_header(recording, header)), Header()
                recording.begin_interval(number, line)
            elif line.startswith(b"#"):
                header.parse_line(number, printable(line.decode("utf-8", "replace")))
            else:
                recording.add_lines([(number, line)])
    if header.lines:
        recording = yield from _apply_header(recording, header)
    return recording


def _apply_header(recording: Recording, header: Header) -> Generator[Record, None, Recording]:
    """Return the recording after a header: the same, or a new one for another host after the records of the first."""
    host = recording.headers[-1][1].host
    if recording.epochs and host and header.host and host != header.host:
        yield from recording.records()
        return Recording(recording.source, header)
    recording.add_header(header)
    return recording
