"""ps in any form: aux, -ef, -elf, -elfL, alxwww, -eo with columns of one's choice.

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
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Fact, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import LARGEST, number
from thpdiag.readers.elements.tasks import cpu_seconds, entity, name_of
from thpdiag.readers.processes.ps_columns import COMMANDS, Columns

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
AUX = Columns(["USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"])
EF = Columns(["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"])
WEEKDAYS = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
TIME_LINES = ("zzz ", "TS ")  # OSWatcher's, pt-stalk's
NO_WCHAN = {"-", "0", "?", "*", ""}
KIB = {
    "RSS": "process_resident_memory_bytes",
    "RSZ": "process_resident_memory_bytes",
    "VSZ": "process_virtual_memory_bytes",
}
PER_TASK = {  # with -L these are of the thread
    "MINFL": "process_minor_faults_total",
    "MINFLT": "process_minor_faults_total",
    "MAJFL": "process_major_faults_total",
    "MAJFLT": "process_major_faults_total",
}
THREADS = ("LWP", "SPID", "TID")


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
    odd: Oddities
    columns: Columns
    _seen: set[str] = field(default_factory=set)

    def row(self, line: int, text: str) -> Iterator[Record]:
        cells = self.columns.split(text)
        if cells is None or not cells["PID"].isdecimal():
            self.odd.note(line, text, "a row of ps that does not fit its header")
            return
        pid, command = cells["PID"], cells.get("COMMAND", "")
        comm = name_of(command)
        if (wchan := cells.get("WCHAN", "")) not in NO_WCHAN:
            yield self._wchan(line, text, cells, wchan, comm)
        if pid in self._seen:
            return
        self._seen.add(pid)
        if command:
            user = cells.get("USER") or cells.get("UID") or ""
            labels = (("pid", pid), ("comm", comm), *((("user", user),) if user else ()))
            if _CUT.search(self.source.command):
                labels = (*labels, ("part", "of the list"))
            yield Fact("process.command", command, self.source.cite(line, text), labels, self.source.time)
        if values := self._values(line, text, cells):
            quanta = {
                "process_cpu_ratio.lifetime": 0.001 if "%CPU" in cells else 0.01,
                "process_cpu_seconds_total": 1.0,
            }
            resolution = {name: quantum for name, quantum in quanta.items() if name in values}
            cite = self.source.cite(line, text)
            yield Sample("process", values, cite, "ps", entity(pid, comm), self.source.time, resolution)

    def _wchan(self, line: int, text: str, cells: dict[str, str], wchan: str, comm: str) -> Fact:
        labels = [("pid", cells["PID"]), ("comm", comm), ("stat", cells.get("STAT") or cells.get("S", ""))]
        tid = next((cells[name] for name in THREADS if name in cells), cells["PID"])
        if tid != cells["PID"]:
            labels.append(("tid", tid))
        return Fact("process.wchan", wchan, self.source.cite(line, text), tuple(labels), self.source.time)

    def _values(self, line: int, text: str, cells: dict[str, str]) -> dict[str, float]:
        read: dict[str, float | None] = {}
        for column, name in KIB.items():
            if column in cells:
                kib = number(cells[column])
                read[name] = None if kib is None or kib * 1024 > LARGEST else kib * 1024
        if "NLWP" in cells:
            read["process_threads"] = number(cells["NLWP"])
        if not any(name in cells for name in THREADS):
            read.update({name: number(cells[column]) for column, name in PER_TASK.items() if column in cells})
            read.update(self._cpu(cells))
        for name in [name for name, value in read.items() if value is None]:
            self.odd.note(line, text, f"an impossible number for {name}: not used")
        return {name: value for name, value in read.items() if value is not None}

    def _cpu(self, cells: dict[str, str]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        if percent := cells.get("%CPU") or cells.get("C"):
            used = number(percent)
            found["process_cpu_ratio.lifetime"] = None if used is None else used / 100
        if "TIME" in cells:
            found["process_cpu_seconds_total"] = cpu_seconds(cells["TIME"])
        return found


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A Fact process.command and a Sample per process, a Fact process.wchan per sleeping task where it is shown."""
    odd = Oddities(source, "ps")
    listing: Listing | None = None
    for line, text in lines:
        if not text.strip():
            continue
        if HEADER.match(text):
            listing = Listing(source, odd, Columns(text.split()))
            continue
        listing = listing or Listing(source, odd, AUX if AUX_ROW.match(text) else EF)
        yield from () if THREAD_ROW.match(text) else listing.row(line, text)
    yield from odd.problems()


READER = Reader(
    "ps",
    "ps process list",
    read,
    opens=re.compile(f"{HEADER.pattern}|{AUX_ROW.pattern}|{EF_ROW.pattern}"),
    continues=belongs,
    confirm=confirm,
    priority=6,  # before wchan
)
