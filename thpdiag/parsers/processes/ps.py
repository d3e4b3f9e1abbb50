"""Process lists of ps, one or hours of them.

ps in any form: aux, -ef, -elf, -elfL, alxwww, -eo with columns of one's choice.

    USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
    user       41772 98.4  1.1 271344 265216 ?       R    06:02   0:41 ./touch 256

Units: VSZ and RSS in KiB, %CPU and C the CPU time used over the lifetime in percent of one CPU, TIME in minutes:seconds
or [days-]hours:minutes:seconds, MINFL and MAJFL faults since the start of the process.
Varies: everything, so columns go by the header's words; rows of aux and -ef are known without one (`ps aux | grep
java`). The command is free text; columns that follow it are counted from the end. STARTED is one, two or five words.
WCHAN is cut to the column's width (`compac`). With -L there is a row per thread: the sizes are those of the process and
given once, CPU time and faults are the thread's and not used, wchan is given for each thread. With m the threads stand
below their process in rows with `-` for its pid and its sizes; they are passed over.
Source: procps ps/output.c, 3.2 to 4.0.

Hours of lists as OSWatcher records them: see oswatcher.py.
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

COMMANDS = {"COMMAND", "CMD", "ARGS"}
DATES = {"START", "STARTED", "STIME", "LSTART"}


def _date_words_from(words: Sequence[str], at: int) -> int:
    """How many words the start time at `at` is: `03:35`, `Oct25`, `Oct 25`, `Fri Nov 20 03:35:43 2026`."""
    if not words[at].isalpha() or at + 1 >= len(words):
        return 1
    return 5 if words[at + 1].isalpha() else 2 if words[at + 1].isdecimal() and len(words[at + 1]) < 3 else 1


def _date_words_to(words: Sequence[str], end: int) -> int:
    """The same for a start time that ends before `end`."""
    if end >= 5 and words[end - 5].isalpha() and words[end - 4].isalpha() and words[end - 1].isdecimal():
        return 5
    return 2 if end >= 2 and words[end - 1].isdecimal() and len(words[end - 1]) < 3 and words[end - 2].isalpha() else 1


class Columns:
    """The columns of a header. The last COMMAND, CMD or ARGS is the free text, called COMMAND in what `split` gives."""

    __slots__ = ("_dates", "after", "before", "command")

    def __init__(self, words: Sequence[str]) -> None:
        at = max((i for i, word in enumerate(words) if word in COMMANDS), default=None)
        self.command = at is not None
        self.before = list(words if at is None else words[:at])
        self.after = [] if at is None else list(words[at + 1 :])
        self._dates = [number for number, column in enumerate(self.before) if column in DATES]

    def split(self, text: str) -> dict[str, str] | None:
        """Cells by column name, None if the row does not fit."""
        words = text.split()
        cells: dict[str, str] = {}
        at = self._take(words, cells)
        if at is None:
            return None
        if not self.command:
            return cells if at == len(words) else None
        if not self.after:
            rest = text.split(None, at)
            return cells | {"COMMAND": rest[at]} if len(rest) > at else None
        end = self._take_back(words, at, cells)
        return None if end is None else cells | {"COMMAND": " ".join(words[at:end])}

    def _take(self, words: Sequence[str], cells: dict[str, str]) -> int | None:
        at = len(self.before)
        if len(words) >= at and not any(words[place].isalpha() for place in self._dates):  # all are one word
            cells.update(zip(reversed(self.before), reversed(words[:at]), strict=True))
            return at
        at = 0
        for column in self.before:
            if at >= len(words):
                return None
            width = _date_words_from(words, at) if column in DATES else 1
            cells.setdefault(column, " ".join(words[at : at + width]))
            at += width
        return at

    def _take_back(self, words: Sequence[str], start: int, cells: dict[str, str]) -> int | None:
        end = len(words)
        for column in reversed(self.after):
            width = _date_words_to(words, end) if column in DATES else 1
            end -= width
            if end <= start:
                return None
            cells.setdefault(column, " ".join(words[end : end + width]))
        return end


HEADER = re.compile(r"\s*(?>(?:(?!PID\s)[A-Z%][A-Z0-9_%-]*\s+)*)PID(?>(?:\s+[A-Z%][A-Z0-9_%-]*)+)\s*$")
MEASURES = {"RSS", "RSZ", "VSZ", "SZ", "MINFL", "MAJFL", "MINFLT", "MAJFLT", "TIME", "%CPU", "%MEM", "NLWP"}
OTHER = {"STAT", "S", "LWP", "TTY"}
FOREIGN = {"FD", "NODE", "NAME", "VIRT", "DEVICE", "PR"}  # lsof, top
AUX_ROW = re.compile(
    r"\S{1,32}\s+\d+\s+\d+(?:[.,]\d)?\s+\d+[.,]\d\s+\d+\s+\d+\s+\S+\s+[RSDZTtIWXK][<NLsl+]*\s+\S+\s+\d+:\d\d\s+\S"
)
THREAD_ROW = re.compile(r"\S{1,32}\s+-\s+\d{1,4}[.,]\d\s+-\s+-\s+-\s+\S+\s+\S+\s+\S+\s+[\d:-]{4,16}\s+-\s*$")
EF_ROW = re.compile(
    r"\S{1,32}\s+\d+\s+\d+\s+\d+\s+(?:\d\d:\d\d|[A-Z][a-z]{2}\d\d|\d{4})\s+\S+\s+(?:\d+-)?\d\d:\d\d:\d\d\s+\S"
)
PLAIN_ROW = re.compile(r"(?!zzz )[a-z_][\w+-]{0,31} +\d+ +\d", re.ASCII)  # of a user; belongs to any list
AUX = Columns(["USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"])
EF = Columns(["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"])
WEEKDAYS = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
TIME_LINES = ("zzz ", "TS ")  # OSWatcher's, pt-stalk's
NO_WCHAN = {"-", "0", "?", "*", ""}
SIZES = columns(
    {
        "RSS": "process_resident_memory_bytes",
        "RSZ": "process_resident_memory_bytes",
        "VSZ": "process_virtual_memory_bytes",
    },
    factor=1024,
) | columns({"NLWP": "process_threads"})
PER_TASK = {  # with -L these are of the thread
    **columns(dict.fromkeys(("MINFL", "MINFLT"), "process_minor_faults_total")),
    **columns(dict.fromkeys(("MAJFL", "MAJFLT"), "process_major_faults_total")),
    "C": Column("process_cpu_ratio.lifetime", parse_percent, quantum=0.01),
    "%CPU": Column("process_cpu_ratio.lifetime", parse_percent, quantum=0.001),
    "TIME": Column("process_cpu_seconds_total", cpu_seconds, quantum=1.0),
}
TASK = SIZES | PER_TASK
THREADS = ("LWP", "SPID", "TID")
STARTS = ("LSTART", "STARTED", "START", "STIME", "ELAPSED")
FIRST_TASKS = {"1": ("init", "systemd"), "2": ("kthreadd",)}  # a container has others


def confirm(lines: list[str]) -> bool:
    """A header with something to read; tables of nothing but wait channels belong to the wchan reader."""
    words = set(lines[0].split())
    if not HEADER.match(lines[0]):
        return True  # a row of aux or -ef
    if "WCHAN" in words and not words & MEASURES:
        return False
    return bool(words & (MEASURES | OTHER | COMMANDS)) and not words & FOREIGN


def belongs(text: str) -> bool:
    """A row has a number among its first words, after words that are no labels; prose and other tables rarely do."""
    if THREAD_ROW.match(text):
        return True
    words = text.split(None, 6)[:6]
    lead = next((i for i, word in enumerate(words[:4]) if word.isdecimal()), None)
    if lead is None or len(words) < 2 or words[0] in WEEKDAYS or text.startswith(TIME_LINES):
        return False
    numeric = sum(word[0].isdecimal() for word in words)
    return not any(word.endswith((":", ",")) for word in words[:lead]) and (lead == 0 or numeric > 1 or len(words) == 3)


_CUT = re.compile(r"\|\s*(?:head|tail|[ef]?grep|awk|sed)\b")  # after these a process may run that is not listed


@dataclass(slots=True)
class Listing:
    """One listing; a process appears once in it, or once per thread."""

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
        found = Readings()
        read = SIZES if any(name in cells for name in THREADS) else TASK
        for title in found.take(read, cells):
            self.odd.note(line, text, f"an impossible number for {read[title].metric}: not used")
        if found.values:
            cite, entity = self.source.cite(line, text), process_entity(pid, comm)
            yield Sample("process", found.values, cite, "ps", entity, self.source.time, found.resolution)

    def rows(self, first: int, texts: Sequence[str]) -> Iterator[Record]:
        """Rows that stand one below the other from line `first` on: column by column, if they are plain ones."""
        names, unusual = self.columns.before, {"WCHAN", *THREADS, *self.columns.after}
        words = [text.split(None, len(names)) for text in texts]
        cells = dict(zip(names, zip(*words, strict=False), strict=False))
        pids, read = cells.get("PID", ()), None
        if self.columns.command and unusual.isdisjoint(names) and min(map(len, words)) > len(names) == len(cells):
            dated = any(word.isalpha() for name in DATES & cells.keys() for word in cells[name])
            new = len({*pids} - self._seen) == len(pids) and all(map(str.isdecimal, pids))
            read = self.cells.read(TASK, cells) if new and not dated else None
        if read is None or not read[0]:
            for line, text in enumerate(texts, first):
                yield from self.row(line, text)
            return
        self._seen.update(pids)
        commands, users = [row[-1] for row in words], cells.get("USER") or cells.get("UID") or [""] * len(texts)
        for line, (text, *who) in enumerate(zip(texts, pids, commands, users, strict=True), first):
            yield self._command(self.source.cite(line, text), *who)
            if who[0] in FIRST_TASKS:
                yield from self._start(line, text, self.columns.split(text) or {}, task_name(who[1]))
        entities = [process_entity(pid, task_name(command)) for pid, command in zip(pids, commands, strict=True)]
        member, time = self.source.member, self.source.time
        yield Rows("process", read[0], member, first, texts, "ps", entities, time, read[1])

    def _command(self, cite: Citation, pid: str, command: str, user: str) -> Fact:
        labels = (("pid", pid), ("comm", task_name(command)), *((("user", user),) if user else ()))
        if _CUT.search(self.source.command):
            labels = (*labels, ("part", "of the list"))
        return Fact("process.command", command, cite, labels, self.source.time)

    def _start(self, line: int, text: str, cells: dict[str, str], comm: str) -> Iterator[Fact]:
        """When the first task of the host was started: with the kernel, or seconds later."""
        column = next((name for name in STARTS if name in cells), "")
        if column and comm in FIRST_TASKS[cells["PID"]]:
            labels = (("pid", cells["PID"]), ("comm", comm), ("column", column))
            yield Fact("process.start", cells[column], self.source.cite(line, text), labels, self.source.time)

    def _wchan(self, line: int, text: str, cells: dict[str, str], wchan: str, comm: str) -> Fact:
        labels = [("pid", cells["PID"]), ("comm", comm), ("stat", cells.get("STAT") or cells.get("S", ""))]
        tid = next((cells[name] for name in THREADS if name in cells), cells["PID"])
        if tid != cells["PID"]:
            labels.append(("tid", tid))
        return Fact("process.wchan", wchan, self.source.cite(line, text), tuple(labels), self.source.time)


@with_errors("ps")
def parse_ps(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Fact process.command and a Sample per process, process.wchan per sleeping task where it is shown.

    process.start is when the first task of the host was started.
    """
    cells = ListingCells()
    further = lines.rows if isinstance(lines, RowLines) else None
    listing: Listing | None = None
    for line, text in lines:
        if not text.strip():
            continue
        if HEADER.match(text):
            listing = Listing(source, odd, Columns(text.split()), cells)
            continue
        listing = listing or Listing(source, odd, AUX if AUX_ROW.match(text) else EF, cells)
        if further and PLAIN_ROW.match(text):
            yield from listing.rows(line, [text, *further(PLAIN_ROW)])
        elif not THREAD_ROW.match(text):
            yield from listing.row(line, text)


PS = Parser(
    "ps", "ps process list", parse_ps, opens=re.compile(f"{HEADER.pattern}|{AUX_ROW.pattern}|{EF_ROW.pattern}"),
    continues=belongs, confirm=confirm, priority=6,  # before wchan
)  # fmt: skip


@dataclass(slots=True)
class Lists:
    """The lists of a recording, each below its header."""

    source: Source
    odd: ParseErrors
    rows: RepeatedRows
    time: Moment | None = None
    header: Sequence[str] = ()
    listed: bool = False  # below the header

    def begin(self, time: Moment) -> Iterator[Record]:
        self.time, self.listed = time, False
        return iter(())

    def line(self, number: int, text: str) -> Iterator[Record]:
        if self.listed:
            yield from self.rows.row(number, text, self.time, self._read)
        elif HEADER.match(text):
            words = text.split()
            if words != self.header:
                self.header = words
                self.rows.begin_columns()
            self.listed = True
            self.rows.begin_list()
        elif not is_head(text):
            self.odd.note(number, text, "not a line of a process list")

    def _read(self, number: int, text: str) -> Iterator[Record]:
        """What the reader of single lists makes of a row, whether or not its process was there already."""
        return Listing(self.source, self.odd, Columns(self.header)).row(number, text)

    def end(self) -> Iterator[Record]:
        return iter(())


def parse_ps_frames(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """A Series per process, facts of each once."""
    return parse_recording(source, content, PS.name, lambda odd, rows: Lists(source, odd, rows))


def claims(path: str, head: bytes, size: int | None) -> bool:
    """A long file that begins with a time line of OSWatcher and a list below it."""
    lines = first_output(head, size)
    return len(lines) > 1 and bool(HEADER.match(lines[0]) and confirm(lines[:2]))


PS_FRAMES = BulkParser("ps", PS.title, claims, parse_ps_frames, min_size=MIN_BULK_BYTES)
