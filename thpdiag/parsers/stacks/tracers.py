"""Tables of stacks of BPF tracers: profile, offcputime and stackcount of BCC, maps of bpftrace.

BCC's profile, offcputime and stackcount, unfolded: a stack, the task, and a number.

    Sampling at 99 Hertz of PID [1711] by user + kernel stack for 5 secs.

        clear_page_erms
        do_huge_pmd_anonymous_page
        touch
        -                churn (1711)
            62

Leaf first, kernel above program; with `-d` a line `--` is between them, with `-a` (profile) kernel functions end in
`_[k]`. profile counts samples of CPU time and prints the innermost function of the kernel twice; offcputime sums
microseconds in which the task did not run; stackcount counts calls, indents by two and prints the task only with `-P`:

    Tracing 1 functions for "t:compaction:mm_compaction_begin"... Hit Ctrl-C to end.

      __compact_zone
      do_huge_pmd_anonymous_page
        b'churn' [32420]
        162

Where the head is missing (offcputime of libbpf-tools prints none) the stacks decide what is counted (`_stacks`). With
`-U` the kernel is not recorded. Source: BCC tools/profile.py, offcputime.py, stackcount.py, libbpf-tools/offcputime.c,
0.26; recorded with 0.26.

bpftrace: maps of call stacks, printed at its end.

    @[
        __compact_zone+3024
        do_huge_pmd_anonymous_page+168
        asm_exc_page_fault+34
    , churn]: 162

A key has up to two stacks, leaf first (`kstack`, then `ustack`, each indented by four blanks, an empty one has no
lines), and other parts on separate lines after a comma: a command, a pid. The value is a count, or whatever the program
adds up. It is CPU time if the program on the command line samples by time, calls if it names a tracepoint or probe and
counts; else the stacks decide (`_stacks`). A map whose name is a unit of time and that has no waits holds latencies.
Maps without a stack, histograms and other lines of bpftrace belong to other parsers. Varies: `-f json` has the same
keys as text; frames of `kstack(perf)` begin with an address. Source: bpftrace src/output.cpp, src/bpftrace.cpp
(get_stack), 0.17; recorded with 0.17.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from thpdiag.knowledge.symbols import families, normalise
from thpdiag.model import Measure, Profile, Record, Task
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, printable
from thpdiag.parsers.stacks._stacks import MAX_DEPTH, StackBuilder, function_name, without_tracer

BCC = "bcc"
_PROFILE = re.compile(
    r"Sampling (?:at (?P<hertz>\d{1,6}) Hertz|every \d{1,12} events) of .{0,120}?"
    r"\bby (?P<which>user \+ kernel|user|kernel) stack\b"
)
_OFF_CPU = re.compile(r"Tracing off-CPU time \(us\) of .{0,120}?\bby (?P<which>user \+ kernel|user|kernel) stack\b")
_COUNT = re.compile(r"Tracing \d{1,6} functions for \"(?P<event>[^\"]{1,200})\"\.\.\. Hit Ctrl-C to end\.")
_BCC_TASK = re.compile(
    r"\s{4}-\s{16}(?P<comm>\S.{0,63}?) \((?P<pid>\d{1,10})\)\s*$"
    r"|\s{4}b?'?(?P<name>[^'\[]{1,64}?)'? \[(?P<tid>\d{1,10})\]\s*$"  # of stackcount
)
_BCC_VALUE = re.compile(r"\s{4,12}(?P<value>\d{1,19})\s*$")
_BYTES = re.compile(r"b'([^']{1,400})'(?=$|\+0x)")  # versions that print Python 3's bytes
_BCC_FRAME = re.compile(r"(?:\s{2}|\s{4})(?P<name>[^\s-].{0,400}|-[^\s-].{0,400})$")
_BCC_BORDER = re.compile(r"\s{2,4}--\s*$")
_BCC_OTHER_LINES = re.compile(r"Detaching\.\.\.|WARNING: \d+ stack traces? |\d\d:\d\d:\d\d\s*$|\s*$|\^C")
_BCC_OPENS = re.compile(
    r"Sampling (?:at \d{1,6} Hertz|every \d{1,12} events) of |Tracing off-CPU time \(us\) of "
    r"|Tracing \d{1,6} functions for \"|\s{4}(?:bpf_prog_\w{1,60}|finish_task_switch\S{0,20}|(?:__)?schedule)\s*$"
)
MAX_CACHED_LINES = 100_000
MAX_HEADLESS_LINES = 160  # of a first stack without a head: 127 functions of each half are possible


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
    """The open stack, leaf first; where the program begins, and its task."""

    line: int = 0
    text: str = ""
    names: list[str] = field(default_factory=list)
    border: int | None = None
    task: Task = field(default_factory=Task)

    def take(self, number: int, text: str) -> bool:
        """Take a line that is part of the stack; return False for other lines."""
        if who := _BCC_TASK.match(text):
            self.task = Task(
                printable(_BYTES.sub(r"\1", (who["comm"] or who["name"]).strip())), int(who["pid"] or who["tid"])
            )
        elif _BCC_BORDER.match(text):
            self.border = len(self.names)
        elif (frame := _BCC_FRAME.match(text)) and len(self.names) < MAX_DEPTH:
            if not self.names:
                self.line, self.text = number, text
            self.names.append(_BYTES.sub(r"\1", frame["name"].strip()))
        else:
            return False
        return True


def read_bcc(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile for each run of a tool."""
    odd = ParseErrors(source, BCC)
    tables = [_Table()]
    stack = _Stack()
    known: dict[str, str] = {}  # function by line
    for number, text in lines:
        if stack.names and (name := known.get(text)) is not None and len(stack.names) < MAX_DEPTH:
            stack.names.append(name)
        elif head := _parse_bcc_head(text):
            tables.append(head)
            stack = _Stack()
        elif value := _BCC_VALUE.match(text):
            _add_bcc(source, tables[-1], stack, int(value["value"]))
            stack = _Stack()
        elif stack.take(number, text):
            if len(known) < MAX_CACHED_LINES and stack.names and text.strip() == stack.names[-1]:
                known[text] = stack.names[-1]
        elif not _BCC_OTHER_LINES.match(text):
            odd.note(number, text, "not a line of a table of stacks")
    if stack.names:
        odd.note(stack.line, stack.text, "a stack without its number")
    yield from odd.problems()
    yield from _profiles(tables)


def _profiles(tables: list[_Table]) -> Iterator[Profile]:
    for table in tables:
        if (first := table.builder.first) is not None:
            profile = table.builder.profile(BCC, first, event=table.event, measures=table.measures, facts=table.facts)
            yield replace(profile, shows_kernel=False) if table.which == "user" else profile


def _parse_bcc_head(text: str) -> _Table | None:
    if match := _PROFILE.match(text):
        hertz = {"frequency": match["hertz"]} if match["hertz"] else {}
        return _Table("", Measure.CPU, match["which"], hertz)
    if match := _OFF_CPU.match(text):
        return _Table("off-CPU time", Measure.OFF_CPU, match["which"])
    if match := _COUNT.match(text):
        return _Table(match["event"], Measure.CALLS)
    return None


def _add_bcc(source: Source, table: _Table, stack: _Stack, value: int) -> None:
    border = len(stack.names) - (stack.border or 0)  # counted from the outer end
    names, has_marks = without_tracer(stack.names), any(name.endswith("_[k]") for name in stack.names)
    if table.measures in (Measure.CPU, None) and len(names) > 1 and names[0] == names[1]:
        names = names[1:]  # once from the register, once from the stack
    kernel: list[bool | None] = [None] * len(names)
    if stack.border is not None:
        kernel = [place < len(names) - border for place in range(len(names))]
    elif has_marks:
        kernel = [name.endswith("_[k]") for name in names]
    elif table.which == "kernel":
        kernel = [True] * len(names)
    numbers = [table.builder.frame(function_name(n), kernel=k) for n, k in zip(names, kernel, strict=True)]
    table.builder.add(numbers, float(value), source.cite(stack.line, stack.text), stack.task, value)


def _bcc_confirm(ahead: list[str]) -> bool:
    """Whether there is a head, or functions followed by a task and a number."""
    if _parse_bcc_head(ahead[0]):
        return True
    for place, text in enumerate(ahead):
        if _BCC_TASK.match(text):
            return place > 1 and place + 1 < len(ahead) and bool(_BCC_VALUE.match(ahead[place + 1]))
        if not (_BCC_FRAME.match(text) or _BCC_BORDER.match(text)) or _BCC_VALUE.match(text):
            return False
    return False


BCC_PARSER = Parser(
    BCC, "tables of stacks (BCC profile, offcputime, stackcount)", read_bcc, opens=_BCC_OPENS,
    continues=any_of(_BCC_FRAME, _BCC_VALUE, _BCC_BORDER, _BCC_OTHER_LINES, _BCC_TASK, _PROFILE, _OFF_CPU, _COUNT),
    confirm=_bcc_confirm, lookahead=MAX_HEADLESS_LINES,
)  # fmt: skip


BPFTRACE = "bpftrace"
MAX_JSON_CHARS = 8 << 20
MAX_KEY_WORDS = 20
MIN_HITS = 20  # with fewer, the same place in all may be a coincidence
_BPFTRACE_OPENS = re.compile(
    r"@\w{0,60}\[\s*(?:[^\[\]:]{1,200},\s*)?$|\{\"type\": ?\"map\", ?\"data\": ?\{\"@\w{0,60}\": ?\{\"\\n"
)
_KEY_START = re.compile(r"@(?P<map>\w{0,60})\[(?P<first>.*)")
_KEY_END = re.compile(r"(?P<rest>[^:]{0,200}?)\]: ?(?P<value>-?\d{1,19})\s*$")
_BPFTRACE_FRAME = re.compile(r"\s{4,}(?P<address>[0-9a-f]{8,16} )?(?P<name>\S.{0,400})$")
_KERNEL_ENTRY = re.compile(r"asm_|entry_|ret_from_fork|do_syscall_64|el\dt?_|system_call")
_TIME_PROBE = re.compile(r"\b(?:profile:|hardware:cpu-cycles|software:cpu-clock|hardware:cycles)")
_COUNTING_PROBE = re.compile(
    r"\b(?:tracepoint|kprobe|kretprobe|kfunc|fentry|rawtracepoint|t|k|uprobe|usdt):\S.{0,400}\bcount\("
)
_UNIT_NAME = re.compile(r"(?:.*_)?(?:ns|nsecs?|us|usecs?|ms|msecs?|latency|lat|time|duration|bytes|size)$")


@lru_cache(maxsize=65536)
def frame_name(text: str) -> str | None:
    """Return the function of a line, with its offset; None if it is no frame."""
    frame = _BPFTRACE_FRAME.match(text)
    return frame["name"] if frame else None


@dataclass(slots=True)
class _Key:
    """The open key: its stacks, each leaf first, and its other parts."""

    map: str
    line: int
    text: str
    stacks: list[list[str]] = field(default_factory=lambda: [[]])
    parts: list[str] = field(default_factory=list)

    def take(self, text: str) -> None:
        """Take a frame, or the text between commas: the end of a stack, a word."""
        if (name := frame_name(text)) is not None:
            if len(self.stacks[-1]) < MAX_DEPTH:
                self.stacks[-1].append(name)
            return
        self.parts += [piece.strip() for piece in text.split(",") if piece.strip() and len(self.parts) < MAX_KEY_WORDS]
        if self.stacks[-1]:
            self.stacks.append([])


@dataclass(slots=True)
class _Map:
    """The stacks of a map, and their innermost places as printed."""

    builder: StackBuilder = field(default_factory=StackBuilder)
    places: set[str] = field(default_factory=set)

    def is_one_place(self) -> bool:
        """Whether all stacks were taken at one instruction, as those of a probe are; samples of time never are."""
        place = next(iter(self.places), "")
        name, idle = normalise(function_name(place)), families()["idle"]
        is_idle = idle.matches(name) or idle.doubtful(name)
        return len(self.places) == 1 and "+" in place and self.builder.read >= MIN_HITS and not is_idle


def read_bpftrace(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile for each map."""
    maps: dict[str, _Map] = {}
    odd = ParseErrors(source, BPFTRACE)
    for key, value in _read_maps(source, lines, maps, odd):
        _add_key(source, maps, key, value, odd, is_empty=key.map in maps)
    yield from odd.problems()
    for name, stacks in maps.items():
        if (first := stacks.builder.first) is not None:
            measures = _measure(source, name) or (Measure.CALLS if stacks.is_one_place() else None)
            yield stacks.builder.profile(BPFTRACE, first, event=f"@{name}" if name else "", measures=measures)


def _read_maps(source: Source, lines: Lines, maps: dict[str, _Map], odd: ParseErrors) -> list[tuple[_Key, int]]:
    """Read all stacks, added up by map; return keys and values of those that are empty."""
    key: _Key | None = None
    empty: list[tuple[_Key, int]] = []  # `@[, python]: 76`: no kernel stack, the program ran
    for number, text in lines:
        if key is not None and frame_name(text) is not None:
            key.take(text)
            continue
        if text.startswith("{"):
            _read_json(source, number, text, maps, odd)
            continue
        if opened := _KEY_START.match(text):
            if key is not None:
                odd.note(key.line, key.text, "a stack of bpftrace without its count")
            key, text = _Key(opened["map"], number, text), opened["first"]
        if key is None:
            if text.strip() and not _BPFTRACE_OTHER_LINES.match(text):
                odd.note(number, text, "not a line of bpftrace maps")
        elif end := _KEY_END.match(text):
            key.take(end["rest"].strip())
            _end_key(source, maps, key, int(end["value"]), text, empty, odd)
            key = None
        else:
            key.take(text)
    if key is not None:
        odd.note(key.line, key.text, "a stack of bpftrace without its count")
    return empty


def _end_key(
    source: Source, maps: dict[str, _Map], key: _Key, value: int, text: str, empty: list[tuple[_Key, int]],
    odd: ParseErrors,
) -> None:  # fmt: skip
    """Count a key, or keep it if its stack is empty: whether its map has stacks is known at the end."""
    if text.startswith(",") and not key.stacks[0]:
        empty.append((key, value))
    else:
        _add_key(source, maps, key, value, odd)


def _measure(source: Source, name: str) -> Measure | None:
    """Return what a map counts according to the program on the command line or the name of the map, else None."""
    if _TIME_PROBE.search(source.command):
        return Measure.CPU
    if _COUNTING_PROBE.search(source.command):
        return Measure.CALLS
    if "sched_switch" in source.command or "finish_task_switch" in source.command:
        return Measure.OFF_CPU
    return Measure.OTHER if _UNIT_NAME.match(name.lower()) else None


def _add_key(
    source: Source, maps: dict[str, _Map], key: _Key, value: int, odd: ParseErrors, *, is_empty: bool = False
) -> None:
    stacks = [stack for stack in key.stacks if stack]
    if not stacks and len(key.stacks) < 2 and not is_empty:
        odd.note(key.line, key.text, "a map of bpftrace that has no stacks")
        return
    map_stacks = maps.setdefault(key.map, _Map())
    builder = map_stacks.builder
    map_stacks.places.add(stacks[0][0] if stacks else "")
    numbers: list[int] = []
    for place, stack in enumerate(stacks):
        kernel = _is_kernel(stack, place, len(stacks))
        numbers += [builder.frame(function_name(name), kernel=kernel) for name in stack]
    words = [part for part in key.parts if not part.lstrip("-").isdigit()]
    ids = [int(part) for part in key.parts if part.isdigit() and len(part) <= 10]
    task = Task(printable(words[0])[:64] if words else "", ids[0] if ids else None)
    builder.add(
        numbers, float(value), source.cite(key.line, f"{key.text}{stacks[0][0] if stacks else ''}"), task, value
    )


def _is_kernel(stack: Sequence[str], place: int, stacks: int) -> bool | None:
    """Whether the stack is the kernel's: the first of two is; a single one is if it has an entry of the kernel."""
    if stacks > 1:
        return place == 0
    return True if any(_KERNEL_ENTRY.match(name) for name in stack[-3:]) else None


def _read_json(source: Source, number: int, text: str, maps: dict[str, _Map], odd: ParseErrors) -> None:
    """Read a line of `-f json`: its keys are as in text, or lists separated by commas."""
    try:
        data = json.loads(text)["data"] if len(text) <= MAX_JSON_CHARS else None
    except (ValueError, KeyError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        odd.note(number, text, "a line of bpftrace's JSON that cannot be read")
        return
    for name, rows in data.items():
        for key_text, value in rows.items() if isinstance(rows, dict) and str(name).startswith("@") else ():
            if not isinstance(value, int) or "\n" not in key_text:
                continue
            map_key = _Key(str(name)[1:], number, str(name))
            for line in key_text.split("\n"):
                map_key.take(line)
            _add_key(source, maps, map_key, value, odd)


_BPFTRACE_OTHER_LINES = re.compile(r"Attaching \d+ probes?\.\.\.|Lost \d+ events|@\w{0,60}(?:\[[^\[\]]*\])?: |\s*\^C")
_BPFTRACE_CONTINUES = re.compile(r"\s{4,}\S|@\w{0,60}\[|, |\{\"type\"|[^:]{0,200}\]: ?-?\d{1,19}\s*$|,\s*$|\s*$")


def _bpftrace_confirm(ahead: list[str]) -> bool:
    """Whether a frame is below the key."""
    below = [text for text in ahead[1:] if text.strip() not in ("", ",")]
    return ahead[0].startswith("{") or bool(below and (_BPFTRACE_FRAME.match(below[0]) or _KEY_END.match(below[0])))


BPFTRACE_PARSER = Parser(
    BPFTRACE, "maps of stacks (bpftrace)", read_bpftrace, opens=_BPFTRACE_OPENS,
    continues=any_of(_BPFTRACE_CONTINUES, _BPFTRACE_OTHER_LINES), confirm=_bpftrace_confirm,
)  # fmt: skip
