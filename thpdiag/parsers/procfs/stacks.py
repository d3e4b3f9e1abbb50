"""Kernel stacks and wait channels of tasks: /proc/PID/stack, /proc/PID/wchan and ps with wchan.

/proc/PID/stack: the kernel stack of one task, or of many tasks in a loop.

    === 6875 waiter S
    [<0>] futex_do_wait+0x46/0x90

Leaf first; `[<ffffffff8105e4bc>]` instead of `[<0>]` up to 4.14, and `[<ffffffffffffffff>] 0xffffffffffffffff` as last
line up to 5.1. A running task has an empty stack. The lines before each stack have any form: a path (`head`, `tail`,
`grep`), a number, a name, a state, lines of /proc/PID/status; the first number is the task. Each stack is one task at
one moment and has weight one. Source: kernel tree, fs/proc/base.c (proc_pid_stack).

Wait channels: `ps -eo pid,stat,wchan:32,comm` and similar, once or in a loop, also if `grep` removed the header.

      PID STAT WCHAN                            COMMAND
       38 D    rwsem_down_write_slowpath        khugepaged

The function is the caller of the scheduler in which the task sleeps: a stack of one frame. `-`, `0` and `?` mean that
the task runs or that ps has no permission. Without a width ps truncates the name to 6 characters; a name that fills its
column may be truncated, so it gives a fact but not a frame. procps strips leading underscores. Tables with columns of
memory or CPU time belong to the ps parser. `grep . /proc/[0-9]*/wchan` is read too. Source: procps, ps/output.c; kernel
tree, fs/proc/base.c (proc_pid_wchan).
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
_HEADER_PREFIX = r"(?:[=#*>+ -]{2,12}|/|\s{0,4}\[?)"
_PID_STACK_OPENS = re.compile(
    rf"(?:\S{{0,200}}?\bproc/\d{{1,8}}/(?:task/\d{{1,8}}/)?stack:)?{_FRAME}"
    rf"|{_HEADER_PREFIX}(?:/?proc/\d{{1,8}}\b|\d{{1,8}}\b|(?i:pid|tid|lwp|task|process|thread|comm|name)\b"
    r"|[\w./:-]{1,16}[ (\[:-]{1,3}\d{1,8}\b)"
)
_COMMENT = re.compile(r" # (?P<state>[RSDTtZXIKWP])[<NLsl+]{0,4} (?P<comm>.{1,16})$")  # added by the capture script
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_STATUS = re.compile(r"(?P<key>Name|State|Pid|Tgid|PPid|comm|wchan)\s*[:=]\s*(?P<value>.{0,80})$")
_COMM_LINE = re.compile(r"(?=.{1,15}$)[A-Za-z(][\w./:@()+-]{0,14}(?: [A-Za-z][\w./:@-]{0,14}){0,2}$")
_IN_PATH = re.compile(r"/proc/(?P<pid>\d{1,8})(?:/task/(?P<tid>\d{1,8}))?(?:/\w{0,20})?")
_LEADING_PID = re.compile(r"[\s=#*>+:/(\[-]{0,12}(?P<pid>\d{1,8})(?![\w.])")
_LABELED_PID = re.compile(r"(?i)\b(?:pid|tid|lwp|task|process|thread)\b\s{0,3}[:=#]?\s{0,3}(?P<pid>\d{1,8})(?![\w.])")
_ANY_PID = re.compile(r"(?<![\w.])(?P<pid>\d{1,8})(?![\w.])")
_STATE = re.compile(
    r"(?i:\bstate\b\s{0,3}[:=]?\s{0,3})?(?<![\w/])(?P<state>[RSDTtZXIKWP])[<NLsl+]{0,4}(?= |$|\))(?: \([a-z ]{3,20}\))?"
)
_LABELED_NAME = re.compile(r"(?i)\b(?:comm|name|cmd)\b\s{0,3}[:=]\s{0,3}(?P<comm>\S.{0,15})|\((?P<round>[^()]{1,16})\)")
_KERNEL_REPORT = re.compile(r"\s*(?:Call Trace:|CPU: \d{1,5} PID: )")  # a call trace in the kernel log
_NOISE = re.compile(
    r"(?i)\b(?:pid|tid|lwp|task|process|thread|comm|name|cmd|state|stack|of)\b\s{0,3}[:=#]?|[=#*<>|]{1,20}|--+|:(?: |$)"
)


@dataclass(slots=True)
class _Stack:
    """The current stack, and the fields of its task from the lines above it."""

    cite: Citation | None = None
    fields: dict[str, str] = field(default_factory=dict)
    frames: list[str] = field(default_factory=list)
    has_frames: bool = False

    def ends_before(self, fields: dict[str, str], name: str | None) -> bool:
        """Return whether a line belongs to the next task: another pid, another name, or a header after frames."""
        pid = self.fields.get("pid", fields.get("pid"))
        if fields.get("pid", pid) != pid:
            return True
        if self.has_frames:
            return name is None and bool(fields)
        return "comm" in fields and "comm" in self.fields and fields["comm"] != self.fields["comm"]

    def add_fields(self, cite: Citation, fields: dict[str, str]) -> None:
        self.cite = self.cite or cite
        for key, value in fields.items():
            if value:
                self.fields.setdefault(key, printable(value))


def _parse_header_line(text: str) -> dict[str, str]:
    """Return pid, tgid, comm and state in a line above a stack, as far as it has them."""
    if status := _STATUS.match(text.strip()):
        key, value = status["key"], status["value"].strip()
        name = {"Name": "comm", "comm": "comm", "State": "state", "Pid": "pid"}.get(key)
        return {name: value[:1] if name == "state" else value} if name else {}
    if path := _IN_PATH.search(text):
        rest, pid, process = text[: path.start()] + " " + text[path.end() :], path["tid"] or path["pid"], path["pid"]
        return {"pid": pid, "tgid": process if path["tid"] else "", **_parse_name(rest)}
    match = _LEADING_PID.match(text) or _LABELED_PID.search(text) or _ANY_PID.search(text)
    if not match:
        return {"comm": text.strip()} if _COMM_LINE.match(text.strip()) else {}
    return {"pid": match["pid"], **_parse_name(text[: match.start("pid")] + " " + text[match.end("pid") :])}


def _parse_name(text: str) -> dict[str, str]:
    """Return name and state from a header line without the pid."""
    states = list(_STATE.finditer(text))
    state = states[-1]["state"] if states else ""
    if states:
        text = text[: states[-1].start()] + " " + text[states[-1].end() :]
    label = _LABELED_NAME.search(text)
    comm = (label["comm"] or label["round"]) if label else " ".join(_NOISE.sub(" ", text).replace("()", " ").split())
    comm = comm.strip(" /,;[]{}\"'")
    return {"comm": comm[:16], "state": state}


def _pid_stack_confirmed(lines: list[str]) -> bool:
    """Return whether a frame follows, after nothing but possible header lines."""
    if not any("[<" in line for line in lines):  # a fast test, because most candidates have no frame
        return False
    for index, line in enumerate(lines):
        if _is_frame(line):
            return True
        if _CLOCK.search(line) or _KERNEL_REPORT.match(line) or len(line) > 160 or (index == 0 and not line.strip()):
            return False
        if line.strip() and not (_PID_STACK_OPENS.match(line) or _STATUS.match(line) or _COMM_LINE.match(line.strip())):
            return False
    return False


def _is_frame(line: str) -> bool:
    text = _PID_STACK_GREP.sub("", line, count=1) if "/stack:[<" in line else line
    return text.startswith("[<") and frame_function(text) is not None


def _pid_stack_continues(line: str) -> bool:
    """Return whether a line is a frame, empty, or another line of the same header; a new header begins a new block."""
    if not line.strip() or _is_frame(line):
        return True
    return not _KERNEL_REPORT.match(line) and bool(_STATUS.match(line) or _COMM_LINE.match(line.strip()))


def parse_pid_stack(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield a task_stack for each task."""
    current = _Stack()
    for number, text in lines:
        grep = _PID_STACK_GREP.match(text)
        body = text[grep.end() :] if grep else text
        name = frame_function(body) if body.startswith("[<") else None
        fields = _ids(grep) if grep else {} if name is not None else _parse_header_line(text)
        if current.ends_before(fields, name):
            yield from _stack_event(source, current)
            current = _Stack()
        if text.strip():
            current.add_fields(source.cite(number, text), fields)
        if name is not None:
            current.has_frames = True
            current.frames.extend([name] if name else [])
    yield from _stack_event(source, current)


def _ids(path: re.Match[str]) -> dict[str, str]:
    return {"pid": path["tid"] or path["pid"], "tgid": path["pid"] if path["tid"] else ""}


def _stack_event(source: Source, stack: _Stack) -> Iterator[Event]:
    """Yield the stack; an empty one, of a running task, only if the task is known."""
    if path := _PID_STACK_PATH.search(source.path):
        for key, value in _ids(path).items():
            if value:
                stack.fields.setdefault(key, value)
        if comment := _COMMENT.search(source.command):
            stack.fields.setdefault("state", comment["state"])
            stack.fields.setdefault("comm", printable(comment["comm"]))
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
_COLUMN_NAMES = {
    "TID": "tid", "LWP": "tid", "SPID": "tid", "PID": "pid", "STAT": "stat", "S": "stat", "STATE": "stat",
    "WCHAN": "wchan", "COMMAND": "comm", "CMD": "comm", "COMM": "comm", "ARGS": "comm", "UCMD": "comm",
}  # fmt: skip
_DEFAULT_COLUMNS = ("pid", "stat", "wchan", "comm")
_TOO_FEW_COLUMNS = "the row has fewer columns than the header; it is left out"


@dataclass(frozen=True, slots=True)
class _Table:
    """Columns in order, and the width of the column of the function (0: unknown)."""

    columns: tuple[str, ...]
    width: int = 0

    def parse_row(self, text: str) -> dict[str, str] | None:
        """Return the cells by name. The command may contain blanks; the other columns are counted from both ends."""
        index = self.columns.index("comm") if "comm" in self.columns else len(self.columns)
        after = max(0, len(self.columns) - index - 1)
        words = text.split()
        if len(words) < index + after + (index < len(self.columns)):
            return None
        cells = dict(zip(self.columns[:index], words, strict=False))
        if index < len(self.columns):
            rest = text.split(maxsplit=index)[index]
            last = rest.rsplit(maxsplit=after) if after else [rest]
            cells["comm"] = last[0]
            cells |= dict(zip(self.columns[index + 1 :], last[1:], strict=False))
        return cells


def _table_of_header(header: str) -> _Table:
    start = header.index("WCHAN")
    next_column = re.compile(r"\s+[A-Z]").match(header, start + len("WCHAN"))
    width = next_column.end() - 2 - start if next_column else 0
    return _Table(tuple(_COLUMN_NAMES.get(name, name) for name in header.split()), width)


def _table_of_command(command: str) -> _Table:
    """Return the columns in the options of ps, for tables whose header `grep` removed."""
    option = _OPTION.search(command)
    names = [part.partition(":")[0].rstrip("=") for part in option["columns"].split(",")] if option else []
    columns = tuple(_COLUMN_NAMES.get(name.upper(), name) for name in names)
    if {"pid", "wchan"} <= set(columns):
        width = re.search(r"\bwchan:(\d{1,3})", command)
        return _Table(columns, int(width[1]) if width else 6)
    return _Table(_DEFAULT_COLUMNS)


def _wchan_confirmed(lines: list[str]) -> bool:
    """Require a header with both needed columns, or a row with an underscore in its function."""
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
def parse_wchan(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield, for each waiting task, its wait channel and a stack of that one function."""
    table, path = _table_of_command(source.command), _WCHAN_PATH.search(source.path)
    for number, text in lines:
        cells: dict[str, str] | None = None
        if _HEADER_LINE.match(text):
            table = _table_of_header(text)
            continue
        if grep := _WCHAN_GREP.match(text):
            cells = {"pid": grep["tid"] or grep["pid"], "wchan": grep["wchan"]}
        elif path:
            cells = {"pid": path["tid"] or path["pid"], "wchan": text.strip()}
        elif text.strip() and (cells := table.parse_row(text)) is None:
            errors.note(number, text, _TOO_FEW_COLUMNS)
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
