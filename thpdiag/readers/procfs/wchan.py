"""What tasks wait for: `ps -eo pid,stat,wchan:32,comm` and its like, once or in a loop, also after `grep` took the
header.

      PID STAT WCHAN                            COMMAND
       38 D    rwsem_down_write_slowpath        khugepaged

The function is the one the task sleeps in, above the scheduler: a stack of one frame. `-`, `0` and `?` stand for a
task that runs or that ps may not see. Without a width ps cuts the name to 6 characters; a name that fills its column
may be cut, so it is told but is no frame. procps takes leading underscores off. Tables with columns of memory or CPU
time belong to the ps reader. Also `grep . /proc/[0-9]*/wchan`. Source: procps, ps/output.c; kernel tree,
fs/proc/base.c (proc_pid_wchan).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Event, Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.kernel_log.lines import printable

_HEADER = r"\s{0,12}(?:[A-Z]{1,10}\s{1,60}){0,10}WCHAN(?:\s{1,60}[A-Z]{1,10}){0,10}\s*$"
_ROW = r"\s{0,8}\d{1,8}(?:\s{1,8}\d{1,8})?\s{1,8}[RSDTtZXIKWP][<NLsl+]{0,4}\s{1,12}(?:[a-z_][\w.]{2,63}|-)\s{1,60}\S"
_PATH = re.compile(r"(?:^|/)proc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?wchan$")
_GREP = re.compile(r"\s{0,4}\S{0,100}?\bproc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?wchan:(?P<wchan>[\w.]{1,64})$")
_OPENS = re.compile(rf"{_HEADER}|{_ROW}|\s{{0,4}}\S{{0,100}}?\bproc/\d{{1,8}}/(?:task/\d{{1,8}}/)?wchan:[\w.]{{1,64}}$")
_HEADER_LINE = re.compile(_HEADER)
_ROW_LINE = re.compile(_ROW)
_TABLE_ROW = re.compile(r"\s{0,12}(?:[\w+.-]{1,32}\s{1,20}){0,6}?\d{1,8}\s{1,20}\S")
_DATE = re.compile(r"\d\d:\d\d:\d\d.{0,12}\b(?:19|20)\d\d\b|\b(?:19|20)\d\d\b.{0,12}\d\d:\d\d:\d\d")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]{1,99}$")
_OPTION = re.compile(r"\bps\b.{0,80}?\s-?\w{0,6}o\s{0,2}(?P<columns>[\w:,=%]{3,120})")
_KNOWN = {
    "TID": "tid", "LWP": "tid", "SPID": "tid", "PID": "pid", "STAT": "stat", "S": "stat", "STATE": "stat",
    "WCHAN": "wchan", "COMMAND": "comm", "CMD": "comm", "COMM": "comm", "ARGS": "comm", "UCMD": "comm",
}  # fmt: skip
_USUAL = ("pid", "stat", "wchan", "comm")
_SHORT = "the row has fewer columns than the header; it is left out"


@dataclass(frozen=True, slots=True)
class _Table:
    """Columns in order, and how wide that of the function is (0: not known)."""

    columns: tuple[str, ...]
    width: int = 0

    def row(self, text: str) -> dict[str, str] | None:
        """The cells by name. The command may have blanks in it; the other columns are counted from either end."""
        place = self.columns.index("comm") if "comm" in self.columns else len(self.columns)
        behind = max(0, len(self.columns) - place - 1)
        words = text.split()
        if len(words) < place + behind + (place < len(self.columns)):
            return None
        cells = dict(zip(self.columns[:place], words, strict=False))
        if place < len(self.columns):
            rest = text.split(maxsplit=place)[place]
            last = rest.rsplit(maxsplit=behind) if behind else [rest]
            cells["comm"] = last[0]
            cells |= dict(zip(self.columns[place + 1 :], last[1:], strict=False))
        return cells


def _table(header: str) -> _Table:
    names = header.split()
    start = header.index("WCHAN")
    behind = re.compile(r"\s+[A-Z]").match(header, start + len("WCHAN"))
    width = behind.end() - 2 - start if behind else 0
    return _Table(tuple(_KNOWN.get(name, name) for name in names), width)


def _from_command(command: str) -> _Table:
    """The columns as they were asked for, for tables that `grep` took the header off."""
    found = _OPTION.search(command)
    asked = [part.partition(":")[0].rstrip("=") for part in found["columns"].split(",")] if found else []
    columns = tuple(_KNOWN.get(name.upper(), name) for name in asked)
    if {"pid", "wchan"} <= set(columns):
        width = re.search(r"\bwchan:(\d{1,3})", command)
        return _Table(columns, int(width[1]) if width else 6)
    return _Table(_USUAL)


def _confirmed(lines: list[str]) -> bool:
    """A header with both columns we need, or rows of which one names a function beyond doubt."""
    if _HEADER_LINE.match(lines[0]):
        return bool({"PID", "TID", "LWP", "SPID"} & set(lines[0].split()))
    if _GREP.match(lines[0]):
        return True
    rows = [line.split() for line in lines if _ROW_LINE.match(line)]
    return any("_" in word for row in rows for word in row[2:4])


def _continues(line: str) -> bool:
    if _GREP.match(line):
        return True
    return bool(_TABLE_ROW.match(line)) and not _DATE.search(line)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """For each task that waits: what it waits for, and a stack of that one function."""
    odd = Oddities(source, READER.name)
    table, path = _from_command(source.command), _PATH.search(source.path)
    for number, text in lines:
        cells: dict[str, str] | None = None
        if _HEADER_LINE.match(text):
            table = _table(text)
            continue
        if grep := _GREP.match(text):
            cells = {"pid": grep["tid"] or grep["pid"], "wchan": grep["wchan"]}
        elif path:
            cells = {"pid": path["tid"] or path["pid"], "wchan": text.strip()}
        elif text.strip() and (cells := table.row(text)) is None:
            odd.note(number, text, _SHORT)
        if cells and _FUNCTION.match(cells.get("wchan", "")):
            yield from _waits(source, source.cite(number, text), cells, table.width if "stat" in cells else 0)
    yield from odd.problems()


def _waits(source: Source, cite: Citation, cells: dict[str, str], width: int) -> Iterator[Record]:
    pid, comm, stat = cells.get("tid") or cells.get("pid", ""), printable(cells.get("comm", "")), cells.get("stat", "")
    if not pid.isdigit():
        return
    labels = tuple((k, v) for k, v in (("pid", pid), ("comm", comm), ("stat", stat)) if v)
    function = normalise(cells["wchan"])
    yield Fact("process.wchan", function, cite, labels, source.time)
    if not width or len(cells["wchan"]) < width:
        fields = {k: v for k, v in (("pid", pid), ("comm", comm), ("state", stat[:1])) if v}
        yield Event("task_stack", cite, source.time, {**fields, "how": "wchan"}, (function,))


READER = Reader(
    name="wchan",
    title="what tasks wait for (ps with wchan, /proc/PID/wchan)",
    read=read,
    opens=_OPENS,
    continues=_continues,
    confirm=_confirmed,
    paths=(_PATH,),
    priority=5,
)
