"""bpftrace: maps of call stacks that it prints at its end.

    @[
        __compact_zone+3024
        do_huge_pmd_anonymous_page+168
        asm_exc_page_fault+34
    , churn]: 162

A key has up to two stacks, leaf first (`kstack`, then `ustack`, each indented by four blanks, an empty one is nothing),
and other parts on lines of their own behind a comma: a command, a pid. The value is a count, or whatever the program
adds up. What it is: CPU time if the program that was typed samples by time; calls, if it names a tracepoint or probe
and counts; else what the stacks show (`_stacks`). A map whose name is a unit of time and that is no wait is latencies.
Maps without a stack, histograms and the other lines of bpftrace are left to other parsers.
Varies: `-f json` has the same keys as text; frames of `kstack(perf)` begin with an address. Source: bpftrace
src/output.cpp, src/bpftrace.cpp (get_stack), 0.17; recorded with 0.17.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from thpdiag.knowledge.symbols import families, normalise
from thpdiag.model import Measure, Record, Task
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, printable
from thpdiag.parsers.stacks._stacks import MAX_DEPTH, StackBuilder, function_name

NAME = "bpftrace"
MAX_JSON_CHARS = 8 << 20
MAX_PARTS = 20  # words of a key
FEW = 20  # hits below which one place in all of them may be chance
_OPENS = re.compile(
    r"@\w{0,60}\[\s*(?:[^\[\]:]{1,200},\s*)?$|\{\"type\": ?\"map\", ?\"data\": ?\{\"@\w{0,60}\": ?\{\"\\n"
)
_KEY = re.compile(r"@(?P<map>\w{0,60})\[(?P<first>.*)")
_END = re.compile(r"(?P<rest>[^:]{0,200}?)\]: ?(?P<value>-?\d{1,19})\s*$")
_FRAME = re.compile(r"\s{4,}(?P<address>[0-9a-f]{8,16} )?(?P<name>\S.{0,400})$")
_ENTRY = re.compile(r"asm_|entry_|ret_from_fork|do_syscall_64|el\dt?_|system_call")
_TIMED = re.compile(r"\b(?:profile:|hardware:cpu-cycles|software:cpu-clock|hardware:cycles)")
_COUNTED = re.compile(
    r"\b(?:tracepoint|kprobe|kretprobe|kfunc|fentry|rawtracepoint|t|k|uprobe|usdt):\S.{0,400}\bcount\("
)
_UNIT = re.compile(r"(?:.*_)?(?:ns|nsecs?|us|usecs?|ms|msecs?|latency|lat|time|duration|bytes|size)$")


@lru_cache(maxsize=65536)
def frame_of(text: str) -> str | None:
    """The function of a line, with its offset; None if it is no frame."""
    frame = _FRAME.match(text)
    return frame["name"] if frame else None


@dataclass(slots=True)
class _Key:
    """A key being read: its stacks, each leaf first, and what else is in it."""

    map: str
    line: int
    text: str
    stacks: list[list[str]] = field(default_factory=lambda: [[]])
    parts: list[str] = field(default_factory=list)

    def take(self, text: str) -> None:
        """A frame, or what stands between commas: the end of a stack, a word."""
        if (name := frame_of(text)) is not None:
            if len(self.stacks[-1]) < MAX_DEPTH:
                self.stacks[-1].append(name)
            return
        self.parts += [piece.strip() for piece in text.split(",") if piece.strip() and len(self.parts) < MAX_PARTS]
        if self.stacks[-1]:
            self.stacks.append([])


@dataclass(slots=True)
class _Map:
    """The stacks of a map, and the innermost places as they were printed."""

    builder: StackBuilder = field(default_factory=StackBuilder)
    places: set[str] = field(default_factory=set)

    def is_one_place(self) -> bool:
        """Whether all stacks were taken at one instruction, as those of a probe are; samples of time never are."""
        place = next(iter(self.places), "")
        name, idle = normalise(function_name(place)), families()["idle"]
        halts = idle.matches(name) or idle.doubtful(name)
        return len(self.places) == 1 and "+" in place and self.builder.read >= FEW and not halts


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A profile for each map."""
    maps: dict[str, _Map] = {}
    odd = ParseErrors(source, NAME)
    _read_maps(source, lines, maps, odd)
    yield from odd.problems()
    for name, found in maps.items():
        if (first := found.builder.first) is not None:
            measures = _measure(source, name) or (Measure.CALLS if found.is_one_place() else None)
            yield found.builder.profile(NAME, first, event=f"@{name}" if name else "", measures=measures)


def _read_maps(source: Source, lines: Lines, maps: dict[str, _Map], odd: ParseErrors) -> None:
    """All stacks, added up by map."""
    key: _Key | None = None
    for number, text in lines:
        if key is not None and frame_of(text) is not None:
            key.take(text)
            continue
        if text.startswith("{"):
            _read_json(source, number, text, maps, odd)
            continue
        if opened := _KEY.match(text):
            if key is not None:
                odd.note(key.line, key.text, "a stack of bpftrace without its count")
            key, text = _Key(opened["map"], number, text), opened["first"]
        if key is None:
            if text.strip() and not _is_around(text):
                odd.note(number, text, "not a line of bpftrace maps")
        elif end := _END.match(text):
            key.take(end["rest"].strip())
            _add(source, maps, key, int(end["value"]), odd)
            key = None
        else:
            key.take(text)
    if key is not None:
        odd.note(key.line, key.text, "a stack of bpftrace without its count")


def _measure(source: Source, name: str) -> Measure | None:
    """What a map counts, as far as the program that was typed or the name of the map tells it."""
    if _TIMED.search(source.command):
        return Measure.CPU
    if _COUNTED.search(source.command):
        return Measure.CALLS
    if "sched_switch" in source.command or "finish_task_switch" in source.command:
        return Measure.OFF_CPU
    return Measure.OTHER if _UNIT.match(name.lower()) else None


def _add(source: Source, maps: dict[str, _Map], key: _Key, value: int, odd: ParseErrors) -> None:
    stacks = [stack for stack in key.stacks if stack]
    if not stacks and len(key.stacks) < 2:
        odd.note(key.line, key.text, "a map of bpftrace that has no stacks")
        return
    found = maps.setdefault(key.map, _Map())
    builder = found.builder
    found.places.add(stacks[0][0] if stacks else "")
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
    """The stack of the kernel comes first where there are two; alone it shows itself by how it is entered."""
    if stacks > 1:
        return place == 0
    return True if any(_ENTRY.match(name) for name in stack[-3:]) else None


def _read_json(source: Source, number: int, text: str, maps: dict[str, _Map], odd: ParseErrors) -> None:
    """A line of `-f json`: its keys are as in text, or lists by commas."""
    try:
        data = json.loads(text)["data"] if len(text) <= MAX_JSON_CHARS else None
    except (ValueError, KeyError, TypeError, RecursionError):
        data = None
    if not isinstance(data, dict):
        odd.note(number, text, "a line of bpftrace's JSON that cannot be read")
        return
    for name, rows in data.items():
        for written, value in rows.items() if isinstance(rows, dict) and str(name).startswith("@") else ():
            if not isinstance(value, int) or "\n" not in written:
                continue
            key = _Key(str(name)[1:], number, str(name))
            for line in written.split("\n"):
                key.take(line)
            _add(source, maps, key, value, odd)


_AROUND = re.compile(r"Attaching \d+ probes?\.\.\.|Lost \d+ events|@\w{0,60}(?:\[[^\[\]]*\])?: |\s*\^C")
_CONTINUES = re.compile(r"\s{4,}\S|@\w{0,60}\[|, |\{\"type\"|[^:]{0,200}\]: ?-?\d{1,19}\s*$|,\s*$|\s*$")


def _is_around(text: str) -> bool:
    return bool(_AROUND.match(text))


def continues(text: str) -> bool:
    """Frames, ends of keys, further maps, and what bpftrace says between them."""
    return bool(_CONTINUES.match(text) or _AROUND.match(text))


def _confirm(ahead: list[str]) -> bool:
    """A frame below the key."""
    below = [text for text in ahead[1:] if text.strip() not in ("", ",")]
    return ahead[0].startswith("{") or bool(below and (_FRAME.match(below[0]) or _END.match(below[0])))


PARSER = Parser(NAME, "maps of stacks (bpftrace)", read, opens=_OPENS, continues=continues, confirm=_confirm)
