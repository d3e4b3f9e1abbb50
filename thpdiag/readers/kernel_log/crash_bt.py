"""Kernel stacks as the crash utility prints them: `bt`, `bt -a`, `bt -l`, `foreach bt`.

    PID: 4711   TASK: ffff8804a3b2c040  CPU: 3   COMMAND: "java"
     #0 [ffff8804a3b35820] schedule at ffffffff814ed9a2

Leaf first. On a CPU that was running, the frames above `--- <NMI exception stack> ---` are the dump's own interrupt;
the function that ran is the exception RIP. Module names stand in brackets behind the address; `-l` adds source lines,
`-f` stack words, both skipped. Each stack is one task at the moment of the dump, of weight one; the state is not
printed. Source: crash help page bt, crash 5 to 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Event, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.lines import printable

_NAME = r"[A-Za-z_.][\w.$]{0,200}"
_TASK = re.compile(
    r"\s{0,8}PID: (?P<pid>\d{1,8}) {1,10}TASK: [0-9a-f]{8,16} {1,10}CPU: (?P<cpu>\d{1,5}) {1,10}"
    r'COMMAND: "(?P<comm>.{0,16})"\s*$'
)
_FRAME = re.compile(
    rf"\s{{0,8}}#\d{{1,3}} \[[0-9a-f]{{8,16}}\] (?P<name>{_NAME})(?:\+(?:0x)?[0-9a-f]{{1,8}})? "
    r"(?:\([^)]{0,200}\) )?at [0-9a-f]{8,16}"
)
_RIP = re.compile(rf"\s{{0,8}}\[exception (?:RIP|EIP|PC): (?P<name>{_NAME})(?:\+(?:0x)?[0-9a-f]{{1,8}})?\]")
_NMI = re.compile(r"\s{0,8}(?:--- )?<(?:NMI|DOUBLEFAULT|MCE) exception stack>")
_BODY = re.compile(
    r"\s{0,8}(?:R[A-D]X|R[SD]I|R[BS]P|R\d\d?|RIP|EIP|E[A-D]X|EBP|ESI|ORIG_[RE]AX|[CDEFGS]S|BUG|bt|PC|LR|SP|X\d\d?|PSTATE)\s?:"
    r"|\s{0,8}(?:--- )?<[\w# ]{1,40}(?:stack)?>|\s{0,8}\(?(?:active|user space|user-mode|void)\b"
    r"|\s{0,8}/\S{1,300}: ?\d{1,7}\s*$"
    r"|\s{0,8}[0-9a-f]{8,16}:(?:\s{1,4}\S{1,60}){1,4}\s*$"
)
_OPENS = re.compile(r"\s{0,8}(?:PID: \d{1,8} {1,10}TASK: [0-9a-f]{8,16} |#0 {1,2}\[[0-9a-f]{8,16}\] [A-Za-z_.])")


@dataclass(slots=True)
class _Stack:
    cite: Citation
    fields: dict[str, str]
    frames: list[str] = field(default_factory=list)
    interrupted: str = ""

    def event(self, source: Source) -> Event:
        if self.interrupted and self.frames[:1] != [self.interrupted]:
            self.frames.insert(0, self.interrupted)
        return Event("task_stack", self.cite, source.time, {**self.fields, "how": "crash"}, tuple(self.frames))


def _take(stack: _Stack, text: str) -> None:
    """Add what a line says; the switch to the NMI's own stack discards what is above it."""
    if frame := _FRAME.match(text):
        stack.frames.append(normalise(frame["name"]))
    elif rip := _RIP.match(text):
        stack.interrupted = stack.interrupted or normalise(rip["name"])
    elif _NMI.match(text):
        stack.frames.clear()


def _continues(text: str) -> bool:
    return not text.strip() or any(p.match(text) for p in (_TASK, _FRAME, _RIP, _BODY))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for each task."""
    stack: _Stack | None = None
    for number, text in lines:
        if task := _TASK.match(text):
            if stack:
                yield stack.event(source)
            fields = {"pid": task["pid"], "comm": printable(task["comm"]), "cpu": task["cpu"]}
            stack = _Stack(source.cite(number, text), fields)
        elif text.strip():
            stack = stack or _Stack(source.cite(number, text), {})
            _take(stack, text)
    if stack:
        yield stack.event(source)


READER = Reader(
    name="crash_bt",
    title="crash bt",
    read=read,
    opens=_OPENS,
    continues=_continues,
)
