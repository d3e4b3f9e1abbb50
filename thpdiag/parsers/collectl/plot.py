"""The plot format of collectl -P, on a terminal or in files (.tab .cpu .prc .numa .bud .slb, also .gz).

    #Date Time [CPU]User% [CPU]Nice% [CPU]Sys% ... [MEM]Tot [MEM]Used [MEM]Free ...
    20261120 09:54:03 74 23 3 0 0 0 0 0 100 0 0 633 10086 7 143 11 7.82 ...

Columns are identified by the header, which differs by version (AnonH since 4.0.3, RunTot since 3.6.0). The separator is
a blank or any other character (--sep). Times are the host's wall clock with date; the header of a file has the zone;
`#UTC` has seconds since 1970. Percentages are whole numbers. Sizes are KiB as the kernel prints them. Rates are per
second, truncated to whole numbers (`/int` in the header: per interval, not read). `Inactive` of the host is the last
line of /proc/meminfo with that prefix, Inactive(file) since 2.6.28; that of a node is the sum. `Map` is Mapped only.
`RunTot` is procs_running less one, because collectl does not count itself. Not read: `Shared` (the last nr_shmem* of
/proc/vmstat), and `Guest%` and `Intrpt` of a CPU, whose order differs from their header. Source: collectl formatit.ph,
3.5 to 4.3.

Processes (.prc): one row per process and interval, with the command last.

    #Date Time PID User PR PPID THRD S VmSize VmLck VmRSS ... SysT UsrT PCT AccumT ... MajF MinF Command
    20261120 09:54:07 18615 root 20 1 0 S 528680 0 2352 ... 0.00 0.00 0 0:00:00 ... 0 0 ./sparse 512 100

Sizes are KiB; MajF and MinF per second, shortened by thousands (`12K`), totals with `--procopts f`; AccumT is h:mm:ss;
PCT of one CPU; THRD is threads less one. The start time is not printed: a new process begins where the CPU time of a
pid decreases or its name changes. With `--utc` the time is that of the playback, not of the row, and is not used.
Source: collectl formatit.ph.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from thpdiag.model import Citation, Clock, Fact, Problem, Record, Subject
from thpdiag.model.numeric import Floats, np
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_ratios, cpu_seconds, is_plausible, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers._time import date_seconds, day_seconds
from thpdiag.parsers._units import Column, Readings, columns, parse_number, parse_share
from thpdiag.parsers.collectl import _columns as collectl
from thpdiag.parsers.collectl._columns import KIB, PLOT, rate
from thpdiag.parsers.collectl._counters import CitedTextBudget, Rows, Times, printable
from thpdiag.parsers.collectl._recording import Header, WholeLines

NAME = "collectl_plot"
MODES = {f"{title}%": mode for title, mode in collectl.MODES.items()}
_RATES = collectl.rates(PLOT)
_POOL = {f"Huge{name}": f"node_memory_HugePages_{name}" for name in ("Total", "Free", "Rsvd")}
HOST: Mapping[str, Mapping[str, Column]] = {
    "CPU": {
        **{title: _RATES[title] for title in ("Intrpt/sec", "Ctx/sec")},
        **columns({"L-Avg1": "node_load1"}, quantum=0.01),
        **columns({"RunTot": "node_procs_running", "BlkTot": "node_procs_blocked"}),
    },
    "MEM": {**collectl.sizes(collectl.MEMORY, PLOT, "node_memory_{}_bytes"), **columns(_POOL), **_RATES},
    "DSK": _RATES,
}
NODE = collectl.sizes(collectl.NODE_MEMORY, PLOT, "node_memory_numa_{}_bytes")
_TITLE = re.compile(r"\[([A-Z]+)(?::([^\]]+))?\](\S*)$")
_PAGES = re.compile(r"(\d{1,7})Pages?$")


@dataclass(slots=True)
class Group:
    """The columns of one entity: (index, mode) of CPU shares, and (index, column) of the others."""

    modes: list[tuple[int, str]] = field(default_factory=list)
    columns: list[tuple[int, Column]] = field(default_factory=list)


def groups(names: list[str], letters: str) -> dict[Subject, Group]:
    """Return the columns that are read, by entity. `letters` are those of the option -o."""
    by_subject: dict[Subject, Group] = {}
    for index, name in enumerate(names):
        if not (parts := _TITLE.match(name)):
            continue
        kind, entity, title = parts[1], printable(parts[2] or ""), parts[3]
        subject = _subject(kind, entity)
        if subject is None:
            continue
        if kind == "CPU" and title in MODES:
            by_subject.setdefault(subject, Group()).modes.append((index, MODES[title]))
            continue
        column = None if entity else HOST.get(kind, {}).get(title)
        if kind == "NUMA":
            column = NODE.get(title)
        elif kind == "BUD" and (pages := _PAGES.match(title)):
            order = int(pages[1]).bit_length() - 1
            column = Column(f"node_buddyinfo_blocks_order{order}") if 2**order == int(pages[1]) else None
        if column and not (column.metric.endswith(":rate") and "n" in letters):
            by_subject.setdefault(subject, Group()).columns.append((index, column))
    return by_subject


def _subject(kind: str, entity: str) -> Subject | None:
    if kind == "BUD":
        zone, dash, node = entity.rpartition("-")
        return ("zone", (("node", node), ("zone", zone)) if dash else (("node", "all"), ("zone", "all")))
    if entity.isdigit() and kind in ("NUMA", "CPU"):
        return ("node", (("node", entity),)) if kind == "NUMA" else ("cpu", (("cpu", entity),))
    return ("system", ()) if kind in HOST and not entity else None


def _threads(text: str) -> float | None:
    threads = parse_number(text)
    return None if threads is None else threads + 1


CPU_SECONDS = "process_cpu_seconds_total"
TASK = {
    **columns({"VmSize": "process_virtual_memory_bytes", "VmRSS": "process_resident_memory_bytes"}, factor=KIB),
    "PCT": Column("process_cpu_ratio", factor=0.01, quantum=0.01),
    "AccumT": Column(CPU_SECONDS, cpu_seconds, quantum=1),
    "THRD": Column("process_threads", _threads),
}
FAULTS = {"MajF": "process_major_faults_total", "MinF": "process_minor_faults_total"}
_TOTALS = re.compile(r"--procopts[= ]\S*f")


class PlotTask:
    """One process and its rows."""

    __slots__ = ("comm", "command", "cpu_seconds", "line", "pid", "rows")

    def __init__(self, pid: str, comm: str, command: str, line: int, budget: CitedTextBudget) -> None:
        self.pid, self.comm, self.command, self.line = pid, comm, command, line
        self.cpu_seconds = 0.0
        self.rows = Rows(budget)


class PlotTasks:
    """All processes of a recording."""

    def __init__(self, source: Source, errors: ParseErrors, budget: CitedTextBudget) -> None:
        self._source, self._errors, self._budget = source, errors, budget
        self._indices: dict[str, int] = {}  # of the columns, by title
        self._columns: dict[str, Column] = {}
        self._played_back = False
        self._by_pid: dict[str, PlotTask] = {}
        self._all: list[PlotTask] = []
        self._resolution: dict[str, float] = {}
        self._repeats = 0  # processes that occurred twice under one time

    def begin_table(self, names: list[str], header: Header) -> None:
        self._indices = {name: index for index, name in enumerate(names)}
        suffix = "" if _TOTALS.search(header.printed) else ":rate"
        self._columns = {**TASK, **columns({title: name + suffix for title, name in FAULTS.items()}, rate)}
        self._played_back = header.played_back

    def begin_log(self) -> None:
        """Forget the pids of the previous log, because the next one may reuse them."""
        self._by_pid.clear()

    def add_row(self, at: int, line: int, text: str, cells: list[str]) -> bool:
        """Add a row to interval `at`; return False if the process already has one there.

        Then another interval with the same time begins.
        """
        by_title = {title: cells[index] for title, index in self._indices.items()}
        pid, command = by_title["PID"], printable(by_title.get("Command", cells[-1]).strip())
        if not pid.isdecimal():
            self._errors.note(line, printable(text), "a process without a number; it is left out")
            return True
        readings = Readings()
        for _ in readings.take(self._columns, by_title):
            self._errors.note(line, printable(text), "an invalid number of a process; it is left out")
        for name, quantum in readings.resolution.items():
            self._resolution[name] = max(quantum, self._resolution.get(name, 0.0))
        task = self._task(pid, task_name(command), command, line, readings.values.get(CPU_SECONDS))
        is_first = task.rows.add(at, line, readings.values, text.encode())
        self._repeats += not is_first
        return is_first

    def _task(self, pid: str, comm: str, command: str, line: int, cpu_seconds: float | None) -> PlotTask:
        task = self._by_pid.get(pid)
        if task is None or task.comm != comm or (cpu_seconds is not None and cpu_seconds < task.cpu_seconds):
            task = self._by_pid[pid] = PlotTask(pid, comm, command, line, self._budget)
            self._all.append(task)
        if cpu_seconds is not None:
            task.cpu_seconds = cpu_seconds
        return task

    def records(self, source: tuple[str, str], seconds: Floats, clock: Clock | None, *, utc: bool) -> Iterator[Record]:
        if not self._all:
            return
        times = Times(seconds, clock, None, self._resolution)
        if utc and (self._repeats or self._played_back):
            times = Times(None, None, None, self._resolution)
            text = "the times are those of the playback (collectl -p --utc), not those of the rows; they are not used"
            yield Problem(self._source.cite(self._all[0].line), text, reader=NAME)
        for task in self._all:
            entity = process_entity(task.pid, task.comm)
            yield task.rows.series("process", entity, source, times)
            if task.command:
                cite = self._source.cite(task.line, task.command)
                yield Fact("process.command", task.command, cite, entity, times.moment(int(task.rows.at[0])))


HEADER = re.compile(r"#(Date(?P<sep>.)Time|UTC)(?P<next>.)(?P<first>\[|PID\b|SlabName\b)")
UTC = re.compile(r"(\d{9,10}(?:\.\d{1,6})?)$")
FOLD_SECONDS = (1700.0, 3700.0)  # range by which times go back at the end of summer time: an hour less an interval
_DATE = re.compile(r"\d{8}$", re.ASCII)


class Plot:
    """State of the parser over one table, or several tables one after the other."""

    def __init__(self, source: Source) -> None:
        self.source, self.errors = source, ParseErrors(source, NAME)
        self.header = Header()
        self._budget = CitedTextBudget()
        self.tasks = PlotTasks(source, self.errors, self._budget)
        self._rows: dict[Subject, Rows] = {}
        self._seconds = array("d")
        self._clock: Clock | None = None
        self._first_line: int | None = None
        self._names: list[str] = []
        self._separator, self._utc, self._kind = " ", False, ""
        self._groups: dict[Subject, Group] = {}
        self._resolution: dict[str, float] = {}
        self._stamp, self._shift, self._slab_rows = "", 0.0, 0
        self._midnights: dict[str, float | None] = {}

    def parse_line(self, number: int, text: str) -> None:
        self._first_line = self._first_line or number
        if names := HEADER.match(text):
            self._utc, self._separator, self._kind = names[1] == "UTC", names["next"], names["first"]
            self._names = text[1:].rstrip().rstrip(self._separator).split(self._separator)
            self._groups = groups(self._names, self.header.letters)
            for group in self._groups.values():
                quanta = {column.metric: column.quantum for _, column in group.columns if column.quantum}
                self._resolution.update(quanta)
            self.tasks.begin_table(self._names, self.header)
        elif text.startswith("#"):
            if "NEW LOG" in text:
                self.tasks.begin_log()
            self.header.parse_line(number, printable(text))
        elif text.strip():
            problem = self._parse_row(number, text) if self._names else "a line above the names of the columns"
            if problem:
                self.errors.note(number, printable(text), problem)

    def _parse_row(self, line: int, text: str) -> str:
        """Parse a row; return what is wrong with it, or ""."""
        if self._kind == "PID":
            cells = text.rstrip().split(self._separator, len(self._names) - 1)
        elif self._separator == " ":
            cells = text.split()
        else:
            cells = text.rstrip().rstrip(self._separator).split(self._separator)
        if len(cells) != len(self._names):
            return "a row with other columns than its header; it is left out"
        stamp = cells[0] if self._utc else f"{cells[0]} {cells[1]}"
        if (stamp != self._stamp or self._kind == "[") and not self._begin_row(stamp, cells):
            return "a row without a time; it is left out"
        self._stamp = stamp
        if self._kind == "[":
            self._add_numbers(line, text, cells)
        elif self._kind != "PID":
            self._slab_rows += 1
        elif not self.tasks.add_row(len(self._seconds) - 1, line, text, cells):
            self._seconds.append(self._seconds[-1])
            self.tasks.add_row(len(self._seconds) - 1, line, text, cells)
        return ""

    def _begin_row(self, stamp: str, cells: list[str]) -> bool:
        """Add the time of a new interval; return False if there is none."""
        seconds = self._time(stamp, cells)
        zone = None if self._utc else self.header.zone
        clock = Clock.UTC if self._utc or zone is not None else Clock.LOCAL
        if seconds is None or (self._seconds and clock is not self._clock):
            return False
        self._clock = clock
        seconds += self._shift - (zone or 0)
        if self._seconds and zone is not None and FOLD_SECONDS[0] < self._seconds[-1] - seconds < FOLD_SECONDS[1]:
            self._shift += 3600.0  # the hour is repeated at the end of summer time
            seconds += 3600.0
        self._seconds.append(seconds)
        return True

    def _time(self, stamp: str, cells: list[str]) -> float | None:
        if self._utc:
            return float(stamp) if UTC.match(stamp) else None
        date, clock = cells[0], cells[1]
        if date not in self._midnights:
            known = bool(_DATE.match(date))
            self._midnights[date] = date_seconds(int(date[:4]), int(date[4:6]), int(date[6:])) if known else None
        midnight, seconds = self._midnights[date], day_seconds(clock)
        return None if midnight is None or seconds is None else midnight + seconds

    def _add_numbers(self, line: int, text: str, cells: list[str]) -> None:
        for subject, group in self._groups.items():
            readings = Readings()
            parts = {mode: parse_share(cells[index]) for index, mode in group.modes}
            shares = {mode: value for mode, value in parts.items() if value is not None}
            if parts and len(shares) == len(parts) and is_plausible(shares):
                readings.values.update(cpu_ratios(shares))
                self._resolution.update(dict.fromkeys(readings.values, 0.01))
            elif parts:
                self.errors.note(line, printable(text), "CPU columns that do not add up to 100 %: not used")
            for index, column in group.columns:
                if not readings.put(column, column.parse(cells[index])):
                    self.errors.note(line, printable(text), "an invalid number; it is left out")
            if readings.values:
                if subject not in self._rows:
                    self._rows[subject] = Rows(self._budget)
                self._rows[subject].add(len(self._seconds) - 1, line, readings.values, text.encode())

    def records(self) -> Iterator[Record]:
        yield from self.header.facts(self.source)
        seconds, source = np.array(self._seconds), (self.source.member, NAME)
        times = Times(seconds, self._clock, None, self._resolution)
        for (kind, entity), rows in self._rows.items():
            yield rows.series(kind, entity, source, times)
        yield from self.tasks.records(source, seconds, self._clock, utc=self._utc)
        backward, cite = int((np.diff(seconds) < 0).sum()), Citation(self.source.member, self._first_line)
        for count, text in (
            (backward, "times go back: the clock was set, or parts are in the wrong order"),
            (self._slab_rows, "rows of slabs; nothing here needs them"),
            (int("n" in self.header.letters), "rates are per interval, not per second (-on); they are left out"),
        ):
            if count:
                yield Problem(cite, text, reader=NAME, count=count, hides=False)
        if not len(seconds):
            yield Problem(cite, "no row of numbers", reader=NAME)
        yield from self.errors.problems()


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield the records of one table, or of several tables one after the other."""
    plot = Plot(source)
    for number, text in lines:
        plot.parse_line(number, text)
    yield from plot.records()


_NAMES = re.compile(r"#(?:Date.Time|UTC).(?:\[[A-Z]+[:\]]|PID.User|SlabName.)")
_RECORDED = r"#{30,40} RECORDED #{30,40}\s*$|#{80}\s*$"
_COMMENT = re.compile(r"#{80}\s*$|#{30,40} RECORDED|# ?[A-Z]\w*: |# >>> NEW LOG <<<|#[\w-]+ .*$|#SLUB DATA")
_ROW = re.compile(r"(?:\d{8}\D\d\d:\d\d:\d\d(?:\.\d{1,6})?|\d{9,10}(?:\.\d{1,6})?)\D\S")
_ROW_OR_COMMENT = re.compile(r"#|(?:\d{8}\D\d\d:\d\d:\d\d|\d{9,10}(?:\.\d{1,6})?\D)|\s*$")
MAX_HEADER_LINES = 40


def is_plot_line(text: str) -> bool:
    return bool(_ROW.match(text) or _NAMES.match(text) or _COMMENT.match(text))


def confirm(lines: list[str]) -> bool:
    """Return whether the names follow the comments, and after them a row, or the beginning of one at the text's end."""
    for index, text in enumerate(lines):
        if _NAMES.match(text):
            following = lines[index + 1 :]
            if len(following) < 2 or not following[0].strip():
                return not "".join(following).strip() or following[0][0] in "#0123456789"
            return bool(_ROW.match(following[0]) or following[0][0] == "#")
        if not text.startswith("#"):
            return False
    return False


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Return whether the names follow the comments, and only rows and comments come after them."""
    is_whole = size is not None and size <= len(head)
    lines = head.decode("utf-8", "replace").split("\n")
    lines = [line.rstrip("\r") for line in (lines if is_whole else lines[:-1])]
    first = next((index for index, text in enumerate(lines) if not text.startswith("#")), len(lines))
    return any(_NAMES.match(text) for text in lines[:first]) and all(map(_ROW_OR_COMMENT.match, lines[first:]))


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    lines = WholeLines(content.chunks)
    yield from read(source, ((number, line.decode("utf-8", "replace").rstrip("\r")) for number, line in lines))
    yield from lines.problems(source, BULK_PARSER.name)


PARSER = Parser(
    "collectl_plot", "collectl -P, plot format", read, opens=re.compile(f"{_NAMES.pattern}|{_RECORDED}"),
    continues=is_plot_line, confirm=confirm, lookahead=MAX_HEADER_LINES,
)  # fmt: skip
BULK_PARSER = BulkParser(
    PARSER.name, PARSER.title, claims, read_bulk, opens=re.compile(rb"(?:#[^\n]*\n)*#(?:Date.Time|UTC)", re.DOTALL)
)
