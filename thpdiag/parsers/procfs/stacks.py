"""Where tasks are in the kernel: /proc/PID/stack and /proc/PID/wchan.

/proc/PID/stack: the kernel stack of one task, alone or in a loop over tasks.

    === 6875 waiter S
    [<0>] futex_do_wait+0x46/0x90

Leaf first; `[<ffffffff8105e4bc>]` instead of `[<0>]` to 4.14, with `[<ffffffffffffffff>] 0xffffffffffffffff` as last
line to 5.1. A task that runs has an empty stack. People print what they like above each stack: a path (`head`,
`tail`, `grep`), a number, a name, a state, lines of /proc/PID/status; the first number is the task. Each stack is one
task at one moment, of weight one. Source: kernel tree, fs/proc/base.c (proc_pid_stack).

What tasks wait for: `ps -eo pid,stat,wchan:32,comm` and its like, once or in a loop, also after `grep` took the
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
from dataclasses import dataclass, field

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Event, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable, with_errors
from thpdiag.parsers.kernel_log.call_traces import frame_function

_PID_STACK_PATH = re.compile(r"(?:^|/)proc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?stack$")
_PID_STACK_GREP = re.compile(r"\S{0,200}?\bproc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?stack:(?=\[<)")
_FRAME = r"\[<[0-9a-f]{1,16}>\] {1,2}[A-Za-z_.0]"
_NUMBERED = r"(?:[=#*>+ -]{2,12}|/|\s{0,4}\[?)"
_PID_STACK_OPENS = re.compile(
    rf"(?:\S{{0,200}}?\bproc/\d{{1,8}}/(?:task/\d{{1,8}}/)?stack:)?{_FRAME}"
    rf"|{_NUMBERED}(?:/?proc/\d{{1,8}}\b|\d{{1,8}}\b|(?i:pid|tid|lwp|task|process|thread|comm|name)\b"
    r"|[\w./:-]{1,16}[ (\[:-]{1,3}\d{1,8}\b)"
)
_COMMENT = re.compile(r" # (?P<state>[RSDTtZXIKWP])[<NLsl+]{0,4} (?P<comm>.{1,16})$")  # of our own recorder
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_STATUS = re.compile(r"(?P<key>Name|State|Pid|Tgid|PPid|comm|wchan)\s*[:=]\s*(?P<value>.{0,80})$")
_COMM_LINE = re.compile(r"(?=.{1,15}$)[A-Za-z(][\w./:@()+-]{0,14}(?: [A-Za-z][\w./:@-]{0,14}){0,2}$")
_IN_PATH = re.compile(r"/proc/(?P<pid>\d{1,8})(?:/task/(?P<tid>\d{1,8}))?(?:/\w{0,20})?")
_FIRST = re.compile(r"[\s=#*>+:/(\[-]{0,12}(?P<pid>\d{1,8})(?![\w.])")
_KEYED = re.compile(r"(?i)\b(?:pid|tid|lwp|task|process|thread)\b\s{0,3}[:=#]?\s{0,3}(?P<pid>\d{1,8})(?![\w.])")
_ANY = re.compile(r"(?<![\w.])(?P<pid>\d{1,8})(?![\w.])")
_STATE = re.compile(
    r"(?i:\bstate\b\s{0,3}[:=]?\s{0,3})?(?<![\w/])(?P<state>[RSDTtZXIKWP])[<NLsl+]{0,4}(?= |$|\))(?: \([a-z ]{3,20}\))?"
)
_NAMED = re.compile(r"(?i)\b(?:comm|name|cmd)\b\s{0,3}[:=]\s{0,3}(?P<comm>\S.{0,15})|\((?P<round>[^()]{1,16})\)")
_KERNEL_REPORT = re.compile(r"\s*(?:Call Trace:|CPU: \d{1,5} PID: )")  # a trace of the kernel's own
_NOISE = re.compile(
    r"(?i)\b(?:pid|tid|lwp|task|process|thread|comm|name|cmd|state|stack|of)\b\s{0,3}[:=#]?|[=#*<>|]{1,20}|--+|:(?: |$)"
)


@dataclass(slots=True)
class _Stack:
    """A stack being read and what the lines above it say of its task."""

    cite: Citation | None = None
    fields: dict[str, str] = field(default_factory=dict)
    frames: list[str] = field(default_factory=list)
    framed: bool = False

    def ends_before(self, fields: dict[str, str], name: str | None) -> bool:
        """Whether a line is of the next task: another number, a name where one is known, or a head below frames."""
        known = self.fields.get("pid", fields.get("pid"))
        if fields.get("pid", known) != known:
            return True
        if self.framed:
            return name is None and bool(fields)
        return "comm" in fields and "comm" in self.fields and fields["comm"] != self.fields["comm"]

    def says(self, cite: Citation, fields: dict[str, str]) -> None:
        self.cite = self.cite or cite
        for key, value in fields.items():
            if value:
                self.fields.setdefault(key, printable(value))


def _head(text: str) -> dict[str, str]:
    """What a line above a stack says: pid, comm, state, as far as it does."""
    if status := _STATUS.match(text.strip()):
        key, value = status["key"], status["value"].strip()
        known = {"Name": "comm", "comm": "comm", "State": "state", "Pid": "pid"}.get(key)
        return {known: value[:1] if known == "state" else value} if known else {}
    if path := _IN_PATH.search(text):
        rest, pid, process = text[: path.start()] + " " + text[path.end() :], path["tid"] or path["pid"], path["pid"]
        return {"pid": pid, "tgid": process if path["tid"] else "", **_name(rest)}
    found = _FIRST.match(text) or _KEYED.search(text) or _ANY.search(text)
    if not found:
        return {"comm": text.strip()} if _COMM_LINE.match(text.strip()) else {}
    return {"pid": found["pid"], **_name(text[: found.start("pid")] + " " + text[found.end("pid") :])}


def _name(text: str) -> dict[str, str]:
    """Name and state from what is left of a head line when the number is taken out."""
    states = list(_STATE.finditer(text))
    state = states[-1]["state"] if states else ""
    if states:
        text = text[: states[-1].start()] + " " + text[states[-1].end() :]
    named = _NAMED.search(text)
    comm = (named["comm"] or named["round"]) if named else " ".join(_NOISE.sub(" ", text).replace("()", " ").split())
    comm = comm.strip(" /,;[]{}\"'")
    return {"comm": comm[:16], "state": state}


def _pid_stack_confirmed(lines: list[str]) -> bool:
    """A frame of this kind, below nothing but lines that can stand above one."""
    if not any("[<" in line for line in lines):  # most openings are none
        return False
    for place, line in enumerate(lines):
        if _is_frame(line):
            return True
        if _CLOCK.search(line) or _KERNEL_REPORT.match(line) or len(line) > 160 or (place == 0 and not line.strip()):
            return False
        if line.strip() and not (_PID_STACK_OPENS.match(line) or _STATUS.match(line) or _COMM_LINE.match(line.strip())):
            return False
    return False


def _is_frame(line: str) -> bool:
    text = _PID_STACK_GREP.sub("", line, count=1) if "/stack:[<" in line else line
    return text.startswith("[<") and frame_function(text) is not None


def _pid_stack_continues(line: str) -> bool:
    """Frames, empty lines, and further lines of the same head; a new head opens a new block."""
    if not line.strip() or _is_frame(line):
        return True
    return not _KERNEL_REPORT.match(line) and bool(_STATUS.match(line) or _COMM_LINE.match(line.strip()))


def parse_pid_stack(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for each task."""
    current = _Stack()
    for number, text in lines:
        grep = _PID_STACK_GREP.match(text)
        body = text[grep.end() :] if grep else text
        name = frame_function(body) if body.startswith("[<") else None
        fields = _of_grep(grep) if grep else {} if name is not None else _head(text)
        if current.ends_before(fields, name):
            yield from _event(source, current)
            current = _Stack()
        if text.strip():
            current.says(source.cite(number, text), fields)
        if name is not None:
            current.framed = True
            current.frames.extend([name] if name else [])
    yield from _event(source, current)


def _of_grep(found: re.Match[str]) -> dict[str, str]:
    return {"pid": found["tid"] or found["pid"], "tgid": found["pid"] if found["tid"] else ""}


def _event(source: Source, stack: _Stack) -> Iterator[Event]:
    """The stack, also an empty one if its task is known: it ran."""
    if path := _PID_STACK_PATH.search(source.path):
        for key, value in _of_grep(path).items():
            if value:
                stack.fields.setdefault(key, value)
        if said := _COMMENT.search(source.command):
            stack.fields.setdefault("state", said["state"])
            stack.fields.setdefault("comm", printable(said["comm"]))
    if stack.cite and (stack.frames or "pid" in stack.fields):
        yield Event("task_stack", stack.cite, source.time, {**stack.fields, "how": "proc"}, tuple(stack.frames))


PID_STACK = Parser(
    "proc_stack", "/proc/PID/stack", parse_pid_stack, opens=_PID_STACK_OPENS, continues=_pid_stack_continues,
    confirm=_pid_stack_confirmed, paths=(_PID_STACK_PATH,), priority=5,
)  # fmt: skip


_HEADER = r"\s{0,12}(?:[A-Z]{1,10}\s{1,60}){0,10}WCHAN(?:\s{1,60}[A-Z]{1,10}){0,10}\s*$"
_ROW = r"\s{0,8}\d{1,8}(?:\s{1,8}\d{1,8})?\s{1,8}[RSDTtZXIKWP][<NLsl+]{0,4}\s{1,12}(?:[a-z_][\w.]{2,63}|-)\s{1,60}\S"
_WCHAN_PATH = re.compile(r"(?:^|/)proc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?wchan$")
_WCHAN_GREP = re.compile(
    r"\s{0,4}\S{0,100}?\bproc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?wchan:(?P<wchan>[\w.]{1,64})$"
)
_WCHAN_OPENS = re.compile(
    rf"{_HEADER}|{_ROW}|\s{{0,4}}\S{{0,100}}?\bproc/\d{{1,8}}/(?:task/\d{{1,8}}/)?wchan:[\w.]{{1,64}}$"
)
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


def _wchan_confirmed(lines: list[str]) -> bool:
    """A header with both columns we need, or rows of which one names a function beyond doubt."""
    if _HEADER_LINE.match(lines[0]):
        return bool({"PID", "TID", "LWP", "SPID"} & set(lines[0].split()))
    if _WCHAN_GREP.match(lines[0]):
        return True
    rows = [line.split() for line in lines if _ROW_LINE.match(line)]
    return any("_" in word for row in rows for word in row[2:4])


def _wchan_continues(line: str) -> bool:
    if _WCHAN_GREP.match(line):
        return True
    return bool(_TABLE_ROW.match(line)) and not _DATE.search(line)


@with_errors("wchan")
def parse_wchan(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """For each task that waits: what it waits for, and a stack of that one function."""
    table, path = _from_command(source.command), _WCHAN_PATH.search(source.path)
    for number, text in lines:
        cells: dict[str, str] | None = None
        if _HEADER_LINE.match(text):
            table = _table(text)
            continue
        if grep := _WCHAN_GREP.match(text):
            cells = {"pid": grep["tid"] or grep["pid"], "wchan": grep["wchan"]}
        elif path:
            cells = {"pid": path["tid"] or path["pid"], "wchan": text.strip()}
        elif text.strip() and (cells := table.row(text)) is None:
            odd.note(number, text, _SHORT)
        if cells and _FUNCTION.match(cells.get("wchan", "")):
            yield from _wait_records(source, source.cite(number, text), cells, table.width if "stat" in cells else 0)


def _wait_records(source: Source, cite: Citation, cells: dict[str, str], width: int) -> Iterator[Record]:
    pid, comm, stat = cells.get("tid") or cells.get("pid", ""), printable(cells.get("comm", "")), cells.get("stat", "")
    if not pid.isdigit():
        return
    labels = tuple((k, v) for k, v in (("pid", pid), ("comm", comm), ("stat", stat)) if v)
    function = normalise(cells["wchan"])
    yield Fact("process.wchan", function, cite, labels, source.time)
    if not width or len(cells["wchan"]) < width:
        fields = {k: v for k, v in (("pid", pid), ("comm", comm), ("state", stat[:1])) if v}
        yield Event("task_stack", cite, source.time, {**fields, "how": "wchan"}, (function,))


WCHAN = Parser(
    "wchan", "what tasks wait for (ps with wchan, /proc/PID/wchan)", parse_wchan, opens=_WCHAN_OPENS,
    continues=_wchan_continues, confirm=_wchan_confirmed, paths=(_WCHAN_PATH,), priority=5,
)  # fmt: skip
