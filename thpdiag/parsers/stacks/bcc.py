"""BCC's profile, offcputime and stackcount, unfolded: a stack, who ran, and a number.

    Sampling at 99 Hertz of PID [1711] by user + kernel stack for 5 secs.

        clear_page_erms
        do_huge_pmd_anonymous_page
        touch
        -                churn (1711)
            62

Leaf first, kernel above program; with `-d` a line `--` stands between them, with `-a` (profile) `_[k]` behind functions
of the kernel. profile counts samples of CPU time and prints the innermost function of the kernel twice; offcputime sums
microseconds in which the task did not run; stackcount counts calls, indents by two and prints the task only with `-P`:

    Tracing 1 functions for "t:compaction:mm_compaction_begin"... Hit Ctrl-C to end.

      __compact_zone
      do_huge_pmd_anonymous_page
        b'churn' [32420]
        162

Where the head is missing (the offcputime of libbpf-tools prints none) the stacks show what is counted (`_stacks`). With
`-U` the kernel is not looked at. Source: BCC tools/profile.py, offcputime.py, stackcount.py, libbpf-tools/offcputime.c,
0.26; recorded with 0.26.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Measure, Profile, Record, Task
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable
from thpdiag.parsers.stacks._stacks import MAX_DEPTH, StackBuilder, function_name, without_tracer

NAME = "bcc"
_PROFILE = re.compile(
    r"Sampling (?:at (?P<hertz>\d{1,6}) Hertz|every \d{1,12} events) of .{0,120}?"
    r"\bby (?P<which>user \+ kernel|user|kernel) stack\b"
)
_OFF_CPU = re.compile(r"Tracing off-CPU time \(us\) of .{0,120}?\bby (?P<which>user \+ kernel|user|kernel) stack\b")
_COUNT = re.compile(r"Tracing \d{1,6} functions for \"(?P<event>[^\"]{1,200})\"\.\.\. Hit Ctrl-C to end\.")
_WHO = re.compile(
    r"\s{4}-\s{16}(?P<comm>\S.{0,63}?) \((?P<pid>\d{1,10})\)\s*$"
    r"|\s{4}b?'?(?P<name>[^'\[]{1,64}?)'? \[(?P<tid>\d{1,10})\]\s*$"  # of stackcount
)
_VALUE = re.compile(r"\s{4,12}(?P<value>\d{1,19})\s*$")
_FRAME = re.compile(r"(?:\s{2}|\s{4})(?P<name>[^\s-].{0,400}|-[^\s-].{0,400})$")
_BORDER = re.compile(r"\s{2,4}--\s*$")
_AROUND = re.compile(r"Detaching\.\.\.|WARNING: \d+ stack traces? |\d\d:\d\d:\d\d\s*$|\s*$|\^C")
_OPENS = re.compile(
    r"Sampling (?:at \d{1,6} Hertz|every \d{1,12} events) of |Tracing off-CPU time \(us\) of "
    r"|Tracing \d{1,6} functions for \"|\s{4}(?:bpf_prog_\w{1,60}|finish_task_switch\S{0,20}|(?:__)?schedule)\s*$"
)
MAX_KNOWN = 100_000  # different lines that are remembered
MAX_LOOKED_AT = 160  # lines of a first stack without a head: 127 functions of each half are possible


@dataclass(slots=True)
class _Table:
    """The stacks below one head."""

    event: str = ""
    measures: Measure | None = None
    which: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    builder: StackBuilder = field(default_factory=StackBuilder)


@dataclass(slots=True)
class _Stack:
    """A stack being read, leaf first; where the program begins, and whose it is."""

    line: int = 0
    text: str = ""
    names: list[str] = field(default_factory=list)
    border: int | None = None
    task: Task = field(default_factory=Task)

    def take(self, number: int, text: str) -> bool:
        """Whether a line is a part of it."""
        if who := _WHO.match(text):
            self.task = Task(printable((who["comm"] or who["name"]).strip()), int(who["pid"] or who["tid"]))
        elif _BORDER.match(text):
            self.border = len(self.names)
        elif (frame := _FRAME.match(text)) and len(self.names) < MAX_DEPTH:
            if not self.names:
                self.line, self.text = number, text
            self.names.append(frame["name"].strip())
        else:
            return False
        return True


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile for each run of a tool."""
    odd = ParseErrors(source, NAME)
    tables = [_Table()]
    stack = _Stack()
    known: dict[str, str] = {}  # the function that a line names
    for number, text in lines:
        if stack.names and (name := known.get(text)) is not None and len(stack.names) < MAX_DEPTH:
            stack.names.append(name)
        elif head := _head(text):
            tables.append(head)
            stack = _Stack()
        elif value := _VALUE.match(text):
            _add(source, tables[-1], stack, int(value["value"]))
            stack = _Stack()
        elif stack.take(number, text):
            if len(known) < MAX_KNOWN and stack.names and text.strip() == stack.names[-1]:
                known[text] = stack.names[-1]
        elif not _AROUND.match(text):
            odd.note(number, text, "not a line of a table of stacks")
    if stack.names:
        odd.note(stack.line, stack.text, "a stack without its number")
    yield from odd.problems()
    yield from _profiles(tables)


def _profiles(tables: list[_Table]) -> Iterator[Profile]:
    for table in tables:
        if (first := table.builder.first) is not None:
            found = table.builder.profile(NAME, first, event=table.event, measures=table.measures, facts=table.facts)
            yield replace(found, shows_kernel=False) if table.which == "user" else found


def _head(text: str) -> _Table | None:
    if found := _PROFILE.match(text):
        hertz = {"frequency": found["hertz"]} if found["hertz"] else {}
        return _Table("", Measure.CPU, found["which"], hertz)
    if found := _OFF_CPU.match(text):
        return _Table("off-CPU time", Measure.OFF_CPU, found["which"])
    if found := _COUNT.match(text):
        return _Table(found["event"], Measure.CALLS)
    return None


def _add(source: Source, table: _Table, stack: _Stack, value: int) -> None:
    border = len(stack.names) - (stack.border or 0)  # counted from the outer end
    names, marked = without_tracer(stack.names), any(name.endswith("_[k]") for name in stack.names)
    if table.measures in (Measure.CPU, None) and len(names) > 1 and names[0] == names[1]:
        names = names[1:]  # the register's function, and the same of the walk
    kernel: list[bool | None] = [None] * len(names)
    if stack.border is not None:
        kernel = [place < len(names) - border for place in range(len(names))]
    elif marked:
        kernel = [name.endswith("_[k]") for name in names]
    elif table.which == "kernel":
        kernel = [True] * len(names)
    numbers = [table.builder.frame(function_name(n), kernel=k) for n, k in zip(names, kernel, strict=True)]
    table.builder.add(numbers, float(value), source.cite(stack.line, stack.text), stack.task, value)


def continues(text: str) -> bool:
    """Frames, tasks, numbers, heads and what stands between."""
    return bool(
        _FRAME.match(text)
        or _VALUE.match(text)
        or _BORDER.match(text)
        or _AROUND.match(text)
        or _WHO.match(text)
        or _head(text)
    )


def _confirm(ahead: list[str]) -> bool:
    """A head, or functions of which the last is followed by who ran and a number."""
    if _head(ahead[0]):
        return True
    for place, text in enumerate(ahead):
        if _WHO.match(text):
            return place > 1 and place + 1 < len(ahead) and bool(_VALUE.match(ahead[place + 1]))
        if not (_FRAME.match(text) or _BORDER.match(text)) or _VALUE.match(text):
            return False
    return False


PARSER = Parser(
    NAME, "tables of stacks (BCC profile, offcputime, stackcount)", read, opens=_OPENS, continues=continues,
    confirm=_confirm, lookahead=MAX_LOOKED_AT,
)  # fmt: skip
