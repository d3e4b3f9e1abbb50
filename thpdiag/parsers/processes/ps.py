"""Process lists of ps: single lists, and recordings of hours.

ps in any form: aux, -ef, -elf, -elfL, alxwww, -eo with any columns.

    USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
    user       41772 98.4  1.1 271344 265216 ?       R    06:02   0:41 ./touch 256

Units: VSZ and RSS in KiB, %CPU and C the CPU time used over the lifetime in percent of one CPU, TIME in minutes:seconds
or [days-]hours:minutes:seconds, MINFL and MAJFL faults since the start of the process.
Varies: everything, so the header's words decide the columns; rows of aux and -ef are recognised without one (`ps aux |
grep java`). The command is free text; columns after it are counted from the end. STARTED is one, two or five words.
WCHAN is cut to the column's width (`compac`). With -L there is a row per thread: the sizes are those of the process and
yielded once, CPU time and faults are the thread's and not used, wchan is yielded for each thread. With m the threads
follow their process in rows with `-` as pid and sizes; they are skipped.
Source: procps ps/output.c, 3.2 to 4.0.

Recordings of OSWatcher: see oswatcher.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Moment, Record, Sample
from thpdiag.model import Listing as Rows
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, RowLines, Source
from thpdiag.parsers._cpu import cpu_seconds, process_entity, task_name
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._units import Column, ListingCells, Readings, columns, parse_percent
from thpdiag.parsers.processes.oswatcher import MIN_BULK_BYTES, RepeatedRows, first_output, is_head, parse_recording

COMMAND_COLUMNS = {"COMMAND", "CMD", "ARGS"}
DATE_COLUMNS = {"START", "STARTED", "STIME", "LSTART"}


def _count_date_words(words: Sequence[str], start: int) -> int:
    """Return the number of words of a start time: `03:35`, `Oct25`, `Oct 25`, `Fri Nov 20 03:35:43 2026`."""
    if not words[start].isalpha() or start + 1 >= len(words):
        return 1
    return 5 if words[start + 1].isalpha() else 2 if words[start + 1].isdecimal() and len(words[start + 1]) < 3 else 1


def _count_date_words_before(words: Sequence[str], end: int) -> int:
    """Return the number of words of a start time that ends before `end`."""
    if end >= 5 and words[end - 5].isalpha() and words[end - 4].isalpha() and words[end - 1].isdecimal():
        return 5
    return 2 if end >= 2 and words[end - 1].isdecimal() and len(words[end - 1]) < 3 and words[end - 2].isalpha() else 1


class Columns:
    """The columns of a header. The last COMMAND, CMD or ARGS is free text; `split` returns it as COMMAND."""

    __slots__ = ("_dates", "after", "before", "has_command")

    def __init__(self, words: Sequence[str]) -> None:
        command_index = max((i for i, word in enumerate(words) if word in COMMAND_COLUMNS), default=None)
        self.has_command = command_index is not None
        self.before = list(words if command_index is None else words[:command_index])
        self.after = [] if command_index is None else list(words[command_index + 1 :])
        self._dates = [number for number, column in enumerate(self.before) if column in DATE_COLUMNS]

    def split(self, text: str) -> dict[str, str] | None:
        """Return cells by column name, None if the row does not fit."""
        words = text.split()
        cells: dict[str, str] = {}
        at = self._take_first(words, cells)
        if at is None:
            return None
        if not self.has_command:
            return cells if at == len(words) else None
        if not self.after:
            rest = text.split(None, at)
            return cells | {"COMMAND": rest[at]} if len(rest) > at else None
        end = self._take_last(words, at, cells)
        return None if end is None else cells | {"COMMAND": " ".join(words[at:end])}

    def _take_first(self, words: Sequence[str], cells: dict[str, str]) -> int | None:
        at = len(self.before)
        if len(words) >= at and not any(words[place].isalpha() for place in self._dates):  # each cell is one word
            cells.update(zip(reversed(self.before), reversed(words[:at]), strict=True))
            return at
        at = 0
        for column in self.before:
            if at >= len(words):
                return None
            width = _count_date_words(words, at) if column in DATE_COLUMNS else 1
            cells.setdefault(column, " ".join(words[at : at + width]))
            at += width
        return at

    def _take_last(self, words: Sequence[str], start: int, cells: dict[str, str]) -> int | None:
        end = len(words)
        for column in reversed(self.after):
            width = _count_date_words_before(words, end) if column in DATE_COLUMNS else 1
            end -= width
            if end <= start:
                return None
            cells.setdefault(column, " ".join(words[end : end + width]))
        return end


HEADER = re.compile(r"\s*(?>(?:(?!PID\s)[A-Z%][A-Z0-9_%-]*\s+)*)PID(?>(?:\s+[A-Z%][A-Z0-9_%-]*)+)\s*$")
MEASURES = {"RSS", "RSZ", "VSZ", "SZ", "MINFL", "MAJFL", "MINFLT", "MAJFLT", "TIME", "%CPU", "%MEM", "NLWP"}
STATE_COLUMNS = {"STAT", "S", "LWP", "TTY"}
FOREIGN_COLUMNS = {"FD", "NODE", "NAME", "VIRT", "DEVICE", "PR"}  # of lsof and top
AUX_ROW = re.compile(
    r"\S{1,32}\s+\d+\s+\d+(?:[.,]\d)?\s+\d+[.,]\d\s+\d+\s+\d+\s+\S+\s+[RSDZTtIWXK][<NLsl+]*\s+\S+\s+\d+:\d\d\s+\S"
)
THREAD_ROW = re.compile(r"\S{1,32}\s+-\s+\d{1,4}[.,]\d\s+-\s+-\s+-\s+\S+\s+\S+\s+\S+\s+[\d:-]{4,16}\s+-\s*$")
EF_ROW = re.compile(
    r"\S{1,32}\s+\d+\s+\d+\s+\d+\s+(?:\d\d:\d\d|[A-Z][a-z]{2}\d\d|\d{4})\s+\S+\s+(?:\d+-)?\d\d:\d\d:\d\d\s+\S"
)
PLAIN_ROW = re.compile(r"(?!zzz )[a-z_][\w+-]{0,31} +\d+ +\d", re.ASCII)  # a row of any list, with a user
AUX = Columns(["USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"])
EF = Columns(["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"])
WEEKDAYS = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
TIME_LINES = ("zzz ", "TS ")  # OSWatcher's, pt-stalk's
NO_WCHAN = {"-", "0", "?", "*", ""}
SIZE_COLUMNS = columns(
    {
        "RSS": "process_resident_memory_bytes",
        "RSZ": "process_resident_memory_bytes",
        "VSZ": "process_virtual_memory_bytes",
    },
    factor=1024,
) | columns({"NLWP": "process_threads"})
PER_TASK_COLUMNS = {  # with -L these are the thread's
    **columns(dict.fromkeys(("MINFL", "MINFLT"), "process_minor_faults_total")),
    **columns(dict.fromkeys(("MAJFL", "MAJFLT"), "process_major_faults_total")),
    "C": Column("process_cpu_ratio.lifetime", parse_percent, quantum=0.01),
    "%CPU": Column("process_cpu_ratio.lifetime", parse_percent, quantum=0.001),
    "TIME": Column("process_cpu_seconds_total", cpu_seconds, quantum=1.0),
}
TASK_COLUMNS = SIZE_COLUMNS | PER_TASK_COLUMNS
THREAD_COLUMNS = ("LWP", "SPID", "TID")
START_COLUMNS = ("LSTART", "STARTED", "START", "STIME", "ELAPSED")
FIRST_TASKS = {"1": ("init", "systemd"), "2": ("kthreadd",)}  # different in a container


def confirm(lines: list[str]) -> bool:
    """Whether a header has columns that are used; tables of only wait channels belong to the wchan parser."""
    words = set(lines[0].split())
    if not HEADER.match(lines[0]):
        return True  # a row of aux or -ef
    if "WCHAN" in words and not words & MEASURES:
        return False
    return bool(words & (MEASURES | STATE_COLUMNS | COMMAND_COLUMNS)) and not words & FOREIGN_COLUMNS


def is_row(text: str) -> bool:
    """Whether a row has a number among its first words, after words that are no labels."""
    if THREAD_ROW.match(text):
        return True
    words = text.split(None, 6)[:6]
    first_number = next((i for i, word in enumerate(words[:4]) if word.isdecimal()), None)
    if first_number is None or len(words) < 2 or words[0] in WEEKDAYS or text.startswith(TIME_LINES):
        return False
    numeric = sum(word[0].isdecimal() for word in words)
    has_label = any(word.endswith((":", ",")) for word in words[:first_number])
    return not has_label and (first_number == 0 or numeric > 1 or len(words) == 3)


_FILTER = re.compile(r"\|\s*(?:head|tail|[ef]?grep|awk|sed)\b")  # the list may lack running processes


@dataclass(slots=True)
class Listing:
    """One list; a process occurs in it once, or once per thread."""

    source: Source
    odd: ParseErrors
    columns: Columns
    cells: ListingCells = field(default_factory=ListingCells)
    _seen: set[str] = field(default_factory=set)

    def row(self, line: int, text: str) -> Iterator[Record]:
        cells = self.columns.split(text)
        if cells is None or not cells["PID"].isdecimal():
            self.odd.note(line, text, "a row of ps that does not fit its header")
            return
        pid, command = cells["PID"], cells.get("COMMAND", "")
        comm = task_name(command)
        if (wchan := cells.get("WCHAN", "")) not in NO_WCHAN:
            yield self._wchan(line, text, cells, wchan, comm)
        if pid in self._seen:
            return
        self._seen.add(pid)
        if command:
            user = cells.get("USER") or cells.get("UID") or ""
            yield self._command(self.source.cite(line, text), pid, command, user)
        if pid in FIRST_TASKS:
            yield from self._start(line, text, cells, comm)
        readings = Readings()
        columns = SIZE_COLUMNS if any(name in cells for name in THREAD_COLUMNS) else TASK_COLUMNS
        for title in readings.take(columns, cells):
            self.odd.note(line, text, f"an impossible number for {columns[title].metric}: not used")
        if readings.values:
            cite, entity = self.source.cite(line, text), process_entity(pid, comm)
            yield Sample("process", readings.values, cite, "ps", entity, self.source.time, readings.resolution)

    def rows(self, first: int, texts: Sequence[str]) -> Iterator[Record]:
        """Yield the records of consecutive rows from line `first` on: column by column if they are ordinary rows."""
        names, unusual = self.columns.before, {"WCHAN", *THREAD_COLUMNS, *self.columns.after}
        words = [text.split(None, len(names)) for text in texts]
        cells = dict(zip(names, zip(*words, strict=False), strict=False))
        pids, converted = cells.get("PID", ()), None
        if self.columns.has_command and unusual.isdisjoint(names) and min(map(len, words)) > len(names) == len(cells):
            is_dated = any(word.isalpha() for name in DATE_COLUMNS & cells.keys() for word in cells[name])
            are_new = len({*pids} - self._seen) == len(pids) and all(map(str.isdecimal, pids))
            converted = self.cells.read(TASK_COLUMNS, cells) if are_new and not is_dated else None
        if converted is None or not converted[0]:
            for line, text in enumerate(texts, first):
                yield from self.row(line, text)
            return
        self._seen.update(pids)
        commands, users = [row[-1] for row in words], cells.get("USER") or cells.get("UID") or [""] * len(texts)
        for line, (text, pid, command, user) in enumerate(zip(texts, pids, commands, users, strict=True), first):
            yield self._command(self.source.cite(line, text), pid, command, user)
            if pid in FIRST_TASKS:
                yield from self._start(line, text, self.columns.split(text) or {}, task_name(command))
        entities = [process_entity(pid, task_name(command)) for pid, command in zip(pids, commands, strict=True)]
        member, time = self.source.member, self.source.time
        yield Rows("process", converted[0], member, first, texts, "ps", entities, time, converted[1])

    def _command(self, cite: Citation, pid: str, command: str, user: str) -> Fact:
        labels = (("pid", pid), ("comm", task_name(command)), *((("user", user),) if user else ()))
        if _FILTER.search(self.source.command):
            labels = (*labels, ("part", "of the list"))
        return Fact("process.command", command, cite, labels, self.source.time)

    def _start(self, line: int, text: str, cells: dict[str, str], comm: str) -> Iterator[Fact]:
        """Yield the start time of the first task of the host, which the kernel starts at boot or seconds later."""
        column = next((name for name in START_COLUMNS if name in cells), "")
        if column and comm in FIRST_TASKS[cells["PID"]]:
            labels = (("pid", cells["PID"]), ("comm", comm), ("column", column))
            yield Fact("process.start", cells[column], self.source.cite(line, text), labels, self.source.time)

    def _wchan(self, line: int, text: str, cells: dict[str, str], wchan: str, comm: str) -> Fact:
        labels = [("pid", cells["PID"]), ("comm", comm), ("stat", cells.get("STAT") or cells.get("S", ""))]
        tid = next((cells[name] for name in THREAD_COLUMNS if name in cells), cells["PID"])
        if tid != cells["PID"]:
            labels.append(("tid", tid))
        return Fact("process.wchan", wchan, self.source.cite(line, text), tuple(labels), self.source.time)


@with_errors("ps")
def parse_ps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Fact process.command and a Sample per process, process.wchan per sleeping task where it is shown.

    process.start is the start time of the first task of the host.
    """
    cells = ListingCells()
    rows_below = lines.rows if isinstance(lines, RowLines) else None
    listing: Listing | None = None
    for line, text in lines:
        if not text.strip():
            continue
        if HEADER.match(text):
            listing = Listing(source, odd, Columns(text.split()), cells)
            continue
        listing = listing or Listing(source, odd, AUX if AUX_ROW.match(text) else EF, cells)
        if rows_below and PLAIN_ROW.match(text):
            yield from listing.rows(line, [text, *rows_below(PLAIN_ROW)])
        elif not THREAD_ROW.match(text):
            yield from listing.row(line, text)


PS = Parser(
    "ps", "ps process list", parse_ps, opens=re.compile(f"{HEADER.pattern}|{AUX_ROW.pattern}|{EF_ROW.pattern}"),
    continues=is_row, confirm=confirm, priority=6,  # before wchan
)  # fmt: skip


@dataclass(slots=True)
class Lists:
    """The lists of a recording, each below its header."""

    source: Source
    odd: ParseErrors
    rows: RepeatedRows
    time: Moment | None = None
    header: Sequence[str] = ()
    after_header: bool = False

    def begin(self, time: Moment) -> Iterator[Record]:
        self.time, self.after_header = time, False
        return iter(())

    def line(self, number: int, text: str) -> Iterator[Record]:
        if self.after_header:
            yield from self.rows.row(number, text, self.time, self._read)
        elif HEADER.match(text):
            words = text.split()
            if words != self.header:
                self.header = words
                self.rows.begin_columns()
            self.after_header = True
            self.rows.begin_list()
        elif not is_head(text):
            self.odd.note(number, text, "not a line of a process list")

    def _read(self, number: int, text: str) -> Iterator[Record]:
        """Yield the records of a row, whether or not its process was seen before."""
        return Listing(self.source, self.odd, Columns(self.header)).row(number, text)

    def end(self) -> Iterator[Record]:
        return iter(())


def parse_ps_frames(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """A Series per process, facts of each once."""
    return parse_recording(source, content, PS.name, lambda odd, rows: Lists(source, odd, rows))


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Whether a member is long and begins with a time line of OSWatcher and a list below it."""
    lines = first_output(head, size)
    return len(lines) > 1 and bool(HEADER.match(lines[0]) and confirm(lines[:2]))


PS_FRAMES = BulkParser("ps", PS.title, claims, parse_ps_frames, min_size=MIN_BULK_BYTES)
