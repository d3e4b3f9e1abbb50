"""atop -P: one line per subject and interval, blanks between the fields.

    RESET
    CPU node1 1795168454 2026/11/20 09:54:14 5 100 2 112 708 174 0 0 0 0 2 0 5192 100 0 0
    PRM node1 1795168454 2026/11/20 09:54:14 5 4 (python3) R 4096 79152 62312 2764 65536 54128 210112 0 2192 ...
    SEP

Label, host, epoch of the interval's end, the same as date and time, its seconds; then fields by label. Units: CPU time
in ticks, memory of the host in pages of the size that stands first, that of processes in KiB, faults and stalls of the
interval. RESET says that the interval which follows reaches back to boot; SEP ends an interval.
Varies: fields are only ever appended (thread or process from 2.0, compaction stalls from 2.7, AnonHugePages from 2.11);
-Z puts underscores into names and takes their brackets off. Labels without a figure of use here are passed over.
Source: atop parseable.c, 1.26 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, member_parser, with_errors
from thpdiag.parsers.atop import intervals as atop

NAME = "atop_parseable"
_DATED = r"\S{1,255} \d{9,10} \d{4}/\d\d/\d\d \d\d:\d\d:\d\d \d{1,9}(?= )"
_LABEL = r"(?:CPU|cpu|CPL|GPU|MEM|SWP|PAG|PSI|LVM|MDD|DSK|NFM|NFC|NFS|NET|IFB|NUM|NUC|LLC|CGR|PRG|PRC|PRE|PRM|PRD|PRN)"
_LINE = re.compile(rf"({_LABEL}) (\S{{1,255}}) (\d{{9,10}}) \d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d (\d{{1,9}}) (.*)$")
_OPENS = re.compile(rf"{_LABEL} {_DATED}|(?:RESET|SEP)\s*$")
_TASK = re.compile(r"(\d{1,10}) (?:\((.{0,15}?)\)|(\S{1,40})) ([A-Z?]) (.*)$")
_COMMAND = re.compile(r"((?:-?\d+ ){6})(?:\((.*)\)|(\S+))(?: -?\d+){11}(?: ([yn]))?(?: |$)")

CPU = ("hertz", "nrcpu", "stime", "utime", "ntime", "itime", "wtime", "Itime", "Stime", "steal")
MEM = (
    "", "physmem", "freemem", "cachemem", "buffermem", "slabmem", "cachedrt", "slabreclaim", "", "shmem", "", "", "",
    "tothugepage", "freehugepage", "", "", "", "", "", "pagetables", "", "", "", "availablemem", "anonhugepage",
)  # fmt: skip
PAGES = frozenset(atop.BYTES)
FIELDS: dict[str, tuple[str, ...]] = {
    "CPL": ("nrcpu", "lavg1", "", "", "csw", "devint"),
    "MEM": MEM,
    "SWP": ("", "totswap", "freeswap", "", "committed", "commitlim"),
    "PAG": ("", "", "allocstall", "", "swins", "swouts", "oomkills", "compactstall", "pgmigrate", "numamigrate"),
    "PSI": (
        "", "cs10", "cs60", "cs300", "", "ms10", "ms60", "ms300", "", "mf10", "mf60", "mf300", "", "ios10", "ios60",
        "ios300", "", "iof10", "iof60", "iof300",
    ),
}  # fmt: skip
PRM = ("", "vmem", "rmem", "", "", "", "minflt", "majflt", "", "", "", "vswap")
PRC = ("hertz", "utime", "stime")
IS_PROCESS = {"PRM": 13, "PRC": 10}  # the field that says y or n
_COUNT = re.compile(r"-?\d{1,18}(?:\.\d{1,9})?", re.ASCII)


def cells(names: Sequence[str], words: Sequence[str]) -> dict[str, float] | None:
    """The named fields as numbers; None if one is none."""
    pairs = [(name, word) for name, word in zip(names, words, strict=False) if name]
    if not all(_COUNT.fullmatch(word) for _, word in pairs):
        return None
    return {name: float(word) for name, word in pairs}


@dataclass(slots=True)
class Recording:
    """Lines of one block or file, in order."""

    source: Source
    odd: ParseErrors
    since_boot: bool = False
    hosts: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)

    def line(self, number: int, text: str) -> Iterator[Record]:
        found = _LINE.match(text)
        if not found:
            if text.strip() in ("RESET", "SEP"):
                self.since_boot = text.startswith("RESET")
            elif text.strip():
                self.odd.note(number, text, "not a line of atop -P")
            return
        label, host, epoch, seconds, rest = found.groups()
        cite = self.source.cite(number, text)
        if host not in self.hosts:
            self.hosts.add(host)
            yield Fact("host.name", host, cite)
        subject = SUBJECTS.get(label)
        if subject:
            interval = atop.Interval(float(epoch), float(seconds), self.since_boot, NAME)
            records = subject(self, interval, label, rest, cite)
            if records is None:
                self.odd.note(number, text, f"a line {label} of atop -P with non-numeric fields: not used")
            else:
                yield from records

    def cpu(self, interval: atop.Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        words = rest.split()
        found = cells(CPU, words)
        if found is None or len(words) < 2:
            return None
        return atop.cpu(interval, found, cite, words[1] if label == "cpu" else "")

    def system(self, interval: atop.Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        words = rest.split()
        if label == "PSI" and words[:1] != ["y"]:
            return ()
        found = cells(FIELDS[label], words)
        page = float(words[0]) if words and words[0].isdecimal() and len(words[0]) < 9 else 4096.0
        if found is None:
            return None
        sizes = {name: value * page if name in PAGES and value >= 0 else value for name, value in found.items()}
        return atop.system(interval, sizes, cite, page)

    def process(self, interval: atop.Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        named = _TASK.match(rest)
        if not named:
            return None
        words = named[5].split()
        found = cells(PRM if label == "PRM" else PRC, words)
        task = atop.Task(named[1], named[2] or named[3] or "", named[4], words[IS_PROCESS[label] :][:1] != ["n"])
        if found is None:
            return None
        return (atop.process_memory if label == "PRM" else atop.process_cpu)(interval, task, found, cite)

    def general(self, interval: atop.Interval, label: str, rest: str, cite: Citation) -> Iterable[Record] | None:
        """Start and command line of a process; the command once."""
        named = _TASK.match(rest)
        found = _COMMAND.match(named[5]) if named else None
        if not named or not found:
            return None
        numbers = cells(("", "", "", "nthr", "", "btime"), found[1].split())
        task = atop.Task(named[1], named[2] or named[3] or "", named[4], found[4] != "n")
        return None if numbers is None else self._add_start(interval, task, numbers, found[2] or found[3] or "", cite)

    def _add_start(
        self, interval: atop.Interval, task: atop.Task, numbers: atop.Cells, command: str, cite: Citation
    ) -> Iterator[Record]:
        started = list(atop.process_start(interval, task, numbers, cite))
        if started and command not in ("", "_") and task.pid not in self.commands:
            self.commands.add(task.pid)
            yield Fact("process.command", command, cite, (("pid", task.pid), ("comm", task.comm)), interval.time)
        yield from started


Subject = Callable[[Recording, atop.Interval, str, str, Citation], Iterable[Record] | None]
SUBJECTS: dict[str, Subject] = {
    "CPU": Recording.cpu,
    "cpu": Recording.cpu,
    **dict.fromkeys(FIELDS, Recording.system),
    "PRM": Recording.process,
    "PRC": Recording.process,
    "PRG": Recording.general,
}


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of the host, of each CPU and of each process per interval; a Fact process.command per process."""
    recording = Recording(source, odd)
    for number, text in lines:
        yield from recording.line(number, text)


def _confirm(lines: list[str]) -> bool:
    """RESET and SEP stand alone in other texts too."""
    return any(_LINE.match(text) for text in lines[:3])


def _claims(path: str, head: bytes, size: int | None) -> bool:
    start = head[:4096].decode("utf-8", "replace").split("\n")[:3]
    return bool(_OPENS.match(start[0]) and len(start) > 1 and _LINE.match(start[1]))


PARSER = Parser(NAME, "atop -P, parseable lines", read, opens=_OPENS, continues=_OPENS.match, confirm=_confirm)
BULK_PARSER = member_parser(PARSER, _claims, opens=re.compile(f"{_LABEL} |RESET|SEP".encode()))
