"""/proc/PID/stack: the kernel stack of one task, alone or in a loop over tasks.

    === 6875 waiter S
    [<0>] futex_do_wait+0x46/0x90

Leaf first; `[<ffffffff8105e4bc>]` instead of `[<0>]` to 4.14, with `[<ffffffffffffffff>] 0xffffffffffffffff` as last
line to 5.1. A task that runs has an empty stack. People print what they like above each stack: a path (`head`,
`tail`, `grep`), a number, a name, a state, lines of /proc/PID/status; the first number is the task. Each stack is one
task at one moment, of weight one. Source: kernel tree, fs/proc/base.c (proc_pid_stack).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Event, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.call_traces import frame
from thpdiag.readers.kernel_log.lines import printable

_PATH = re.compile(r"(?:^|/)proc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?stack$")
_GREP = re.compile(r"\S{0,200}?\bproc/(?P<pid>\d{1,8})/(?:task/(?P<tid>\d{1,8})/)?stack:(?=\[<)")
_FRAME = r"\[<[0-9a-f]{1,16}>\] {1,2}[A-Za-z_.0]"
_NUMBERED = r"(?:[=#*>+ -]{2,12}|/|\s{0,4}\[?)"
_OPENS = re.compile(
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


def _confirmed(lines: list[str]) -> bool:
    """A frame of this kind, below nothing but lines that can stand above one."""
    if not any("[<" in line for line in lines):  # most openings are none
        return False
    for place, line in enumerate(lines):
        if _is_frame(line):
            return True
        if _CLOCK.search(line) or len(line) > 160 or (place == 0 and not line.strip()):
            return False
        if line.strip() and not (_OPENS.match(line) or _STATUS.match(line) or _COMM_LINE.match(line.strip())):
            return False
    return False


def _is_frame(line: str) -> bool:
    prefix = _GREP.match(line)
    text = line[prefix.end() :] if prefix else line
    return text.startswith("[<") and frame(text) is not None


def _continues(line: str) -> bool:
    """Frames, empty lines, and further lines of the same head; a new head opens a new block."""
    return not line.strip() or _is_frame(line) or bool(_STATUS.match(line) or _COMM_LINE.match(line.strip()))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for each task."""
    current = _Stack()
    for number, text in lines:
        grep = _GREP.match(text)
        body = text[grep.end() :] if grep else text
        name = frame(body) if body.startswith("[<") else None
        fields = _grepped(grep) if grep else {} if name is not None else _head(text)
        if current.ends_before(fields, name):
            yield from _event(source, current)
            current = _Stack()
        if text.strip():
            current.says(source.cite(number, text), fields)
        if name is not None:
            current.framed = True
            current.frames.extend([name] if name else [])
    yield from _event(source, current)


def _grepped(found: re.Match[str]) -> dict[str, str]:
    return {"pid": found["tid"] or found["pid"], "tgid": found["pid"] if found["tid"] else ""}


def _event(source: Source, stack: _Stack) -> Iterator[Event]:
    """The stack, also an empty one if its task is known: it ran."""
    if path := _PATH.search(source.path):
        for key, value in _grepped(path).items():
            if value:
                stack.fields.setdefault(key, value)
        if said := _COMMENT.search(source.command):
            stack.fields.setdefault("state", said["state"])
            stack.fields.setdefault("comm", printable(said["comm"]))
    if stack.cite and (stack.frames or "pid" in stack.fields):
        yield Event("task_stack", stack.cite, source.time, {**stack.fields, "how": "proc"}, tuple(stack.frames))


READER = Reader(
    name="proc_stack",
    title="/proc/PID/stack",
    read=read,
    opens=_OPENS,
    continues=_continues,
    confirm=_confirmed,
    paths=(_PATH,),
    priority=5,
)
