"""Samples of perf script: lines become samples, samples become columns, columns become profiles.

A sample is a head, its frames and an empty line. A head may be missing (`-F ip,sym`), be followed by an empty line, or
have the only frame on its own line; comments and records of a task's life may be between samples. `Samples` is the line
parser for all of that.

Long texts repeat the same stacks and heads. `Blocks` splits bytes at empty lines and caches what it has parsed: a stack
by the hash of its bytes, a head by the text before and after its time. A block that is not clearly one complete sample
goes through the line parser.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.bundle.limits import Limits
from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.detect.transcript import TextLine, clean_lines, parse_prompt
from thpdiag.knowledge.symbols import is_unresolved
from thpdiag.model import Chains, Citation, Clock, Ledger, Moment, Problem, Profile, Record, Rows, Stacks, Task
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import Foreign, Lines, Source
from thpdiag.model.profile import UNKNOWN
from thpdiag.model.ragged import starts_of
from thpdiag.parsers._kernel_events import EVENTS, Durations, KernelEvent
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers.perf._script_grammar import (
    LOOKAHEAD,
    NAME,
    OPENS,
    TIME_LIKE,
    TIMED_HEAD,
    Head,
    confirm,
    continues,
    is_source_line,
    parse_frame,
    parse_frame_of_head,
    parse_head,
    plain_text,
    unambiguous_head,
)
from thpdiag.parsers.perf._texts import HEADER_COMMENT, Frames, header_fact, host_facts

WINDOW_BYTES = 1 << 22  # bytes that are split into blocks at once
MAX_LINE_BYTES = Limits().line
MAX_STACKS = 1_000_000  # distinct blocks of frames that are cached
MAX_FRAME_LINES = 500_000  # distinct lines that are cached
MAX_HEADS = 100_000  # distinct parts of heads that are cached
MAX_TEXTS = 200_000  # chains whose first line is kept as text; a profile with more has no texts
MAX_ROWS = 4_000_000  # samples of an event after which they are added up
MAX_FOREIGN = 100_000  # lines of another format that are passed on at once
MAX_DEPTH = 127  # frames that the kernel records by default (kernel.perf_event_max_stack)
RELATIVE_CLOCK = "relative (--deltatime or --reltime): no time of day, bins left out"
NO_CHAIN = -1  # number of a chain whose lines are not all frames
_RECORD = re.compile(r".*\bPERF_RECORD_(?P<kind>[A-Z0-9_]+)\b(?P<rest>.*)$")
_LOST = re.compile(r"\blost\s+(\d{1,18})")
_TIMED_HEAD_PARTS = re.compile(  # the parts of a head, each of which is cached by itself
    rb"(?P<name>.*?) (?P<stamp>(?P<seconds>\d{1,12})\.(?P<hundredths>\d\d)(?:\d{4}|\d{7})):(?: |$) *"
    rb"(?:(?P<period>\d{1,20}) )?(?P<tail>.*)"
)
_FRAME_ADDRESS = re.compile(rb"\n\t *[0-9a-f]{1,16}(?= )")
_FRAME_OFFSET = re.compile(rb"\+0x(?<=[!-~]\+0x)[0-9a-f]{1,16}(?= \([^)\n]*\)(?:\n|\Z))")  # between name and object
_STAMP_LIKE = re.compile(rb"\.\d{6}")  # may be a head, whose meaning depends on the number before it
_PRINTABLE = bytes(range(ord(" "), ord("~") + 1)) + b"\n\t"

Stack = tuple[int, ...]  # numbers of frames, leaf first
Ints = NDArray[np.int64]


def read_lines(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield the records of a block of text, line by line."""
    samples = Samples(source)
    for number, text in lines:
        samples.line(number, text)
    samples.end()
    yield from samples.records(LineDamage())


def read_bytes(source: Source, chunks: Iterable[bytes], size: int = WINDOW_BYTES) -> Iterator[Record | Foreign]:
    """Yield the records of a whole member, and the lines in it that belong to another format."""
    blocks = Blocks(source)
    for window in _windows(chunks, size):
        blocks.read(window)
        yield from blocks.rest.foreign()
    blocks.rest.close(b"")
    yield from blocks.rest.foreign()
    yield from blocks.samples.records(blocks.rest.damage)


class SampleRows(NamedTuple):
    """The weight of one chain in one task on one CPU in 10 ms; `time` counts 10 ms, UNKNOWN where there is none."""

    key: Ints  # number of the chain, above that of the task and CPU
    time: Ints
    weight: NDArray[np.float64]
    samples: Ints


def add_up(parts: Sequence[SampleRows]) -> SampleRows:
    """Add up rows of the same key and time, in the order of their first appearance."""
    key, time, weight, samples = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((time, key))
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(key[order]) != 0) | (np.diff(time[order]) != 0)
    starts = np.flatnonzero(is_new)
    by_first = np.argsort(order[starts])
    first = order[starts][by_first]
    weight, samples = np.add.reduceat(weight[order], starts), np.add.reduceat(samples[order], starts)
    return SampleRows(key[first], time[first], weight[by_first], samples[by_first])


@dataclass(slots=True, eq=False)
class Event:
    """The samples of one event. `lines` and `texts` are the first line of each chain.

    Times of `--reltime` and `--deltatime` begin at 0.000000, those of a recording never do: then they are `relative`.
    """

    name: str
    lines: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    relative: bool | None = None  # None: no sample has a time
    last_time: int = UNKNOWN  # time of the last sample in 10 ms
    last: float = 0.0  # the same in seconds as printed
    first: tuple[int, int] | None = None  # key and time of the first sample
    copies: int = 1  # of the recording in the text: the first sample came again after later ones
    _numbers: array[int] = field(default_factory=lambda: array("q"))  # key and time of each sample
    _weights: array[float] = field(default_factory=lambda: array("d"))
    _summed: list[SampleRows] = field(default_factory=list)

    def add(
        self, chain: int, who: int, weight: float, time: int, seconds: float | bytes, line: int, text: str | bytes
    ) -> None:
        """Add one sample, in the order of the text. `seconds` and `text` are converted only where they are needed."""
        key = chain << 32 | who
        self._numbers.extend((key, time))
        self._weights.append(weight)
        if chain not in self.lines:
            self.lines[chain] = line
            if len(self.texts) < MAX_TEXTS:
                shown = text if isinstance(text, str) else plain_text(text) or ""
                self.texts[chain] = shown[:MAX_CITED_CHARS]
        if time != UNKNOWN:
            if self.first is None:
                self.first, self.relative = (key, time), float(seconds) == 0
            if time > self.last_time:
                self.last_time, self.last = time, float(seconds)
            elif time == self.last_time:
                self.last = max(self.last, float(seconds))
            elif self.first == (key, time):
                self.copies += 1
        if len(self._weights) >= MAX_ROWS:
            self._summed = [self.rows()]

    def rows(self) -> SampleRows:
        """Return all samples so far, added up."""
        key, time = np.array(self._numbers, np.int64).reshape(-1, 2).T
        ones = np.ones(len(key), np.int64)
        rows = add_up([*self._summed, SampleRows(key, time, np.array(self._weights, np.float64), ones)])
        self._numbers, self._weights = array("q"), array("d")
        return rows

    def drop_copies(self) -> bool:
        """Count samples once that are all there several times; return whether that is so."""
        rows = self.rows()
        is_copied = self.copies > 1 and not (rows.samples % self.copies).any()
        if is_copied:
            rows = rows._replace(weight=rows.weight / self.copies, samples=rows.samples // self.copies)
        self._summed = [rows]
        return is_copied


class Columns:
    """Frames, chains, tasks with their CPU (`who`) and events by number."""

    def __init__(self, source: Source) -> None:
        self.frames = Frames()
        self.events: dict[str, Event] = {}
        self.durations = Durations(source, NAME)
        self._chains: dict[Stack, int] = {}
        self._whos: dict[tuple[Task, int | None], int] = {}

    def chain(self, stack: Stack) -> int:
        return self._chains.setdefault(stack, len(self._chains))

    def sample(self, head: Head, line: int, text: str | bytes) -> tuple[Event, int, float]:
        """Return event, task with CPU, and weight of a sample; kernel events with a duration are also paired here."""
        if head.rest and head.seconds is not None and (name := head.event.rpartition(":")[2]) in EVENTS:
            shown = text if isinstance(text, str) else plain_text(text) or ""
            task = str(head.tid if head.tid is not None else head.pid)
            self.durations.take(KernelEvent(head.seconds, head.comm, task, name, head.rest, line, shown))
        if (event := self.events.get(head.event)) is None:
            event = self.events[head.event] = Event(head.event)
        who = self._whos.setdefault((Task(head.comm, head.pid, head.tid), head.cpu), len(self._whos))
        return event, who, 1.0 if head.period is None else float(head.period)

    def profile(self, event: Event, source: Source, facts: dict[str, str]) -> Profile:
        """Return the profile of an event; it has its own numbers of frames and tasks."""
        rows, timed = event.rows(), event.relative is False
        if not timed:
            rows = add_up([rows._replace(time=np.full(len(rows.key), UNKNOWN, np.int64))])
        base = int(rows.time[rows.time != UNKNOWN].min()) if timed else 0
        bins = rows.time - base
        bins[(rows.time == UNKNOWN) | (bins > np.iinfo(np.int32).max)] = UNKNOWN  # a damaged time
        used, chain = renumber(rows.key >> 32)
        stacks = list(self._chains)
        used_stacks = [stacks[i] for i in used.tolist()]
        lengths = np.fromiter(map(len, used_stacks), np.int64, len(used_stacks))
        used_frames, frames = renumber(np.fromiter(chained.from_iterable(used_stacks), np.int64))
        tasks: dict[Task, int] = {}
        task_of = np.array([tasks.setdefault(task, len(tasks)) for task, _ in self._whos], np.int32)
        cpu_of = np.array([UNKNOWN if cpu is None else cpu for _, cpu in self._whos], np.int32)
        who = rows.key & 0xFFFFFFFF
        used_tasks, task = renumber(task_of[who])
        cut, names, all_tasks = lengths == MAX_DEPTH, self.frames.all(), list(tasks)
        lines = np.array([event.lines[number] for number in used.tolist()], np.int64)
        texts = tuple(map(event.texts.__getitem__, used.tolist())) if len(event.texts) == len(used) else ()
        first = next(iter(event.lines))
        return Profile(
            reader=NAME,
            event=event.name,
            frames=tuple(names[i] for i in used_frames.tolist()),
            chains=Chains(frames, starts_of(lengths), lines, texts, cut if cut.any() else None),
            tasks=tuple(all_tasks[i] for i in used_tasks.tolist()),
            rows=Rows(chain, task, cpu_of[who], bins.astype(np.int32), rows.weight, rows.samples),
            stacks=Stacks.FULL if bool((lengths > 1).any()) else Stacks.NONE,
            cite=source.cite(event.lines[first], event.texts[first]),
            has_time=timed,
            start=Moment(base / 100, Clock.BOOT) if timed else None,
            end=Moment(event.last, Clock.BOOT) if timed else None,
            total_samples=int(rows.samples.sum()),
            facts={**facts, **({"clock": RELATIVE_CLOCK} if event.relative else {})},
        )


def renumber(numbers: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """Return the numbers that occur, and each number as its index among those."""
    is_used = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    is_used[numbers] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used, dtype=np.int32) - np.int32(1))[numbers]


def _ledger(profile: Profile, odd: dict[str, int], lost: int | None) -> Ledger:
    """Return the loss ledger; each sample that has a head is kept."""
    chains, rows = profile.chains, profile.rows
    lengths = np.diff(chains.starts)
    is_nameless = np.fromiter((is_unresolved(f.name) for f in profile.frames), np.bool_, len(profile.frames))
    has_unknown = lengths > 0
    has_unknown[has_unknown] = is_nameless[chains.frames[chains.starts[:-1][has_unknown]]]
    without, unnamed, truncated = (
        int(rows.samples[marked[rows.chain]].sum()) for marked in (lengths == 0, has_unknown, lengths == MAX_DEPTH)
    )
    kept = int(rows.samples.sum())
    return Ledger(kept, kept, without, unnamed, truncated, odd, lost)


class Samples:
    """The line parser: takes lines one by one and counts each sample when its end is reached.

    It also keeps perf's header, odd lines by reason, and the number of lost samples.
    """

    def __init__(self, source: Source) -> None:
        self.columns = Columns(source)
        self._source = source
        self._header: dict[str, tuple[str, Citation]] = {}
        self._errors = ParseErrors(source, NAME)
        self._lost: int | None = None
        self._frames_of: dict[str, Stack] = {}
        self._head = Head()
        self._stack: list[int] = []
        self._line = 0  # line of the open sample, 0 if none is open
        self._text = ""

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            if self._stack:
                self.end()
        elif (self._line or text[0] in " \t") and (frames := self.frame(text)) is not None:
            if not self._line:  # a sample without a head (`-F ip,sym`)
                self._head, self._line, self._text = Head(), number, text
            self._stack += frames
        elif not (self._line and is_source_line(text)):
            self._take_other_line(number, text)

    def end(self) -> None:
        """Count the open sample, if there is one."""
        if self._line:
            event, who, weight = self.columns.sample(self._head, self._line, self._text)
            time = UNKNOWN if self._head.hundredths is None else self._head.hundredths
            chain = self.columns.chain(tuple(self._stack))
            event.add(chain, who, weight, time, self._head.seconds or 0.0, self._line, self._text)
            self._stack, self._line = [], 0

    def frame(self, text: str) -> Stack | None:
        """Return the frames of a line (several where a runtime inlined functions), None if it is no frame."""
        if (known := self._frames_of.get(text)) is not None:
            return known
        is_head = (TIME_LIKE.search(text) and TIMED_HEAD.match(text)) or (text[0] != "\t" and text.endswith(":"))
        return None if is_head or (frame := parse_frame(text)) is None else self._number(text, frame)

    def parse_frame_of_head(self, rest: str) -> Stack:
        """Return the frame on a head's own line, if there is one."""
        frame = parse_frame_of_head(rest) if rest else None
        return self._number("\0" + rest, frame) if frame else ()

    def _number(self, text: str, frame: tuple[list[str], str]) -> Stack:
        numbers = tuple(self.columns.frames.number(name, frame[1]) for name in frame[0])
        _cache(self._frames_of, text, numbers, MAX_FRAME_LINES)
        return numbers

    def _take_other_line(self, number: int, text: str) -> None:
        """Take a line that is no frame: perf's header (the first value counts), a record, or a head."""
        if text[0] == "#" and not self._line:
            if fact := header_fact(text):
                self._header.setdefault(fact[0], (fact[1], self._source.cite(number, text)))
            elif not HEADER_COMMENT.match(text):
                self._errors.note(number, text, "a comment that perf does not write")
        elif "PERF_RECORD_" in text and (record := _RECORD.match(text)):
            if record["kind"].startswith("LOST") and (lost := _LOST.search(record["rest"])):
                self._lost = (self._lost or 0) + int(lost[1])
                self.columns.durations.lose(int(lost[1]), number, text)
        elif (head := parse_head(text)) and not (
            # in the middle of a chain a head must have a time or an event
            self._stack and text[0] in " \t" and head.seconds is None and not head.event
        ):
            self.end()
            self._head, self._line, self._text = head, number, text
            self._stack += self.parse_frame_of_head(head.rest)
        else:
            self._errors.note(number, text, "a line of perf script that is neither the head of a sample nor a frame")

    def records(self, damage: LineDamage) -> Iterator[Record]:
        """Yield the records of all lines: facts of the host, problems, and a profile for each event."""
        for name, (value, cite) in self._header.items():
            yield from host_facts({name: value}, cite)
        problems = self._errors.problems()
        yield from problems
        yield from damage.problems(self._source.member, MAX_LINE_BYTES)
        facts = {name: value for name, (value, _) in self._header.items()}
        events = [event for event in self.columns.events.values() if event.lines]
        for event in sorted(events, key=lambda event: next(iter(event.lines.values()))):
            if event.drop_copies():
                text = f"the same samples are here {event.copies} times; they count once"
                yield Problem(self._source.cite(next(iter(event.lines.values()))), text, reader=NAME)
            profile = self.columns.profile(event, self._source, facts)
            ledger = _ledger(profile, {problem.text: problem.count for problem in problems}, self._lost)
            yield replace(profile, ledger=ledger)
        yield from self.columns.durations.records()


CachedHead = tuple[Event, int, float, int, float | bytes]  # event, who, weight, time in 10 ms, time as printed


class Blocks:
    """Blocks of lines between empty lines, whose parts are cached."""

    def __init__(self, source: Source) -> None:
        self.samples = Samples(source)
        self.rest = LineByLine(self.samples)
        self._columns = self.samples.columns
        self._number = 1  # number of the next line
        self._after_blank = True  # the next block follows an empty line
        self._chains: dict[int, int] = {}  # by the hash of their lines, with and without addresses
        self._frames: dict[bytes, Stack | None] = {}  # by line without addresses; None: not in a chain
        self._whos: dict[bytes, int] = {}  # by the text before the time
        self._events: dict[bytes, Event] = {}  # by the text after the time and the period
        self._flat: dict[bytes, tuple[Event, float, int]] = {}  # by the text after the time, with the only frame

    def read(self, window: bytes) -> None:
        """Read complete lines. If the last one is not empty, its block may continue in the next window."""
        *blocks, last = window.split(b"\n\n")
        for block in blocks:
            if not (self._after_blank and self._count_plain_sample(block)):
                self._read_lines(block, b"\n\n")
            self._number += block.count(b"\n") + 2
            self._after_blank = True
        if last:
            self._read_lines(last[:-1], b"\n")
            self._number += last.count(b"\n")
        self._after_blank = window.endswith(b"\n\n")

    def _count_plain_sample(self, block: bytes) -> bool:
        """Count a block that is a head and its frames; return False if it may be anything else."""
        text, _, frames = block.partition(b"\n")
        chain = self._chains.get(hash(frames))
        if chain is None:
            chain = self._learn_chain(frames)
        if chain == NO_CHAIN or (head := self._head(text)) is None:
            return False
        if self.rest.busy:
            self.rest.close(block)
        event, who, weight, time, stamp = head
        event.add(chain, who, weight, time, stamp, self._number, text)
        return True

    def _head(self, text: bytes) -> CachedHead | None:
        """Return a head without a frame on its line, from the cached parts or from the grammar."""
        if parts := _TIMED_HEAD_PARTS.match(text):
            name, stamp, seconds, hundredths, period, event_text = parts.groups()
            who, event = self._whos.get(name), self._events.get(event_text)
            if who is not None and event is not None:
                return event, who, float(period or 1), 100 * int(seconds) + int(hundredths), stamp
        head = unambiguous_head(text)
        if head is None or parse_frame_of_head(head.rest):
            return None
        event, who, weight = self._columns.sample(head, self._number, text)
        if head.hundredths is None or head.seconds is None:
            return event, who, weight, UNKNOWN, 0.0
        if parts and self._learn_who(head, parts, who) and head.event and not head.rest:
            period = parts["period"]
            if head.period == (int(period) if period else None):
                _cache(self._events, parts["tail"], event, MAX_HEADS)
        return event, who, weight, head.hundredths, head.seconds

    def _learn_who(self, head: Head, parts: re.Match[bytes], who: int) -> bool:
        """Cache the task that a head names; return False if the parts differ from those of the grammar."""
        name, time = parts["name"], 100 * int(parts["seconds"]) + int(parts["hundredths"])
        text = plain_text(parts.string[: parts.end("stamp") + 1]) or ""
        if time != head.hundredths or TIME_LIKE.search(name.decode("latin-1")) or not TIMED_HEAD.match(text):
            return False
        _cache(self._whos, name, who, MAX_HEADS)
        return True

    def _learn_chain(self, frames: bytes) -> int:
        """Return the chain of some lines, NO_CHAIN if not all are frames.

        Addresses and offsets after a name do not matter: a stack that is not in the cache is looked up without them.
        """
        key = b"\n" + frames
        if not frames.translate(None, _PRINTABLE) and not _STAMP_LIKE.search(frames):
            key = _FRAME_OFFSET.sub(b"\0", _FRAME_ADDRESS.sub(b"\n\0", key))
        if (chain := self._chains.get(hash(key))) is None:
            chain = self._new_chain(frames.split(b"\n"), key.split(b"\n")[1:])
            _cache(self._chains, hash(key), chain, MAX_STACKS)
        _cache(self._chains, hash(frames), chain, MAX_STACKS)
        return chain

    def _new_chain(self, lines: list[bytes], shapes: list[bytes]) -> int:
        """Return the chain of a stack that is not in the cache; a source line has no frame of its own."""
        stack: list[int] = []
        for line, shape in zip(lines, shapes, strict=True):
            if shape not in self._frames:
                text = plain_text(line)
                frames = self.samples.frame(text) if text and text.strip() else None
                known = () if frames is None and text and is_source_line(text) else frames
                _cache(self._frames, shape, known, MAX_FRAME_LINES)
            frames = self._frames[shape]
            if frames is None:
                return NO_CHAIN
            stack += frames
        return self._columns.chain(tuple(stack)) if stack else NO_CHAIN

    def _read_lines(self, block: bytes, end: bytes) -> None:
        """Read samples of one line each, or lines for the line parser.

        A line before such a sample, or before the end of the block, is complete.
        """
        lines = block.split(b"\n")
        flat = [self._parse_flat_sample(line) for line in lines]
        done = 0
        for index, sample in enumerate(flat):
            if sample is None or not (flat[index + 1] if index + 1 < len(flat) else len(end) > 1):
                continue
            if done < index:
                self.rest.add_lines(self._number + done, b"\n".join(lines[done:index]) + b"\n")
            self.rest.close(b"\n".join(lines[index : index + 3]))
            chain, (event, who, weight, time, stamp) = sample
            event.add(chain, who, weight, time, stamp, self._number + index, lines[index])
            done = index + 1
        if done < len(lines):
            self.rest.add_lines(self._number + done, b"\n".join(lines[done:]) + end)

    def _parse_flat_sample(self, text: bytes) -> tuple[int, CachedHead] | None:
        """Return the chain and the head of a line with task, time, event and the only frame."""
        parts = _TIMED_HEAD_PARTS.match(text)
        if not parts or text[:1] == b"\t":
            return None
        name, stamp, seconds, hundredths, *_ = parts.groups()
        tail = text[parts.end("stamp") :]
        known, who = self._flat.get(tail), self._whos.get(name)
        if known is not None and who is not None:
            event, weight, chain = known
            return chain, (event, who, weight, 100 * int(seconds) + int(hundredths), stamp)
        head = unambiguous_head(text)
        if head is None or not head.event or head.hundredths is None or head.seconds is None:
            return None
        if not TIMED_HEAD.match(plain_text(text) or "") or not (stack := self.samples.parse_frame_of_head(head.rest)):
            return None
        chain = self._columns.chain(stack)
        event, who, weight = self._columns.sample(head, self._number, text)
        if self._learn_who(head, parts, who):
            _cache(self._flat, tail, (event, weight, chain), MAX_FRAME_LINES)
        return chain, (event, who, weight, head.hundredths, head.seconds)


def _cache(known: dict[Any, Any], key: Any, value: Any, max_size: int) -> None:
    """Put an entry into a cache, which is emptied when it becomes too large."""
    if len(known) >= max_size:
        known.clear()
    known[key] = value


@dataclass(slots=True)
class LineByLine:
    """Lines that `Blocks` does not recognise.

    Lines of another format (output of a further command, prose) are set aside. A single odd line between two lines of
    perf script is not: the line parser counts it.
    """

    samples: Samples
    damage: LineDamage = field(default_factory=LineDamage)
    busy: bool = False
    _waiting: list[tuple[TextLine, str]] = field(default_factory=list)  # cleaned line and original text
    _aside: list[tuple[int, str]] = field(default_factory=list)
    _foreign: list[Foreign] = field(default_factory=list)

    def add_lines(self, first: int, data: bytes) -> None:
        """Take further lines, and the number of the first."""
        self.busy = True
        damage = LineDamage()
        raw = [(first - 1 + number, text) for number, text in number_lines(b"", iter((data,)), MAX_LINE_BYTES, damage)]
        self.damage.add(damage, first - 1)
        self._waiting += zip(clean_lines(raw, markup=False), (text for _, text in raw), strict=True)
        if (ready := len(self._waiting) - LOOKAHEAD) > 0:
            self._dispatch(self._waiting, ready)
            del self._waiting[:ready]

    def close(self, following: bytes) -> None:
        """Finish the lines, because `following` is a sample that needs no line parser, or the end if it is empty."""
        if self.busy:
            texts = [plain_text(line) or "" for line in following.split(b"\n", 3)[:3]] if following else []
            self._dispatch([*self._waiting, *((TextLine(0, text), text) for text in texts)], len(self._waiting))
            self._waiting.clear()
            self.samples.end()
            self._pass_on()
            self.busy = False

    def foreign(self) -> Iterator[Foreign]:
        """Yield the complete parts that were set aside."""
        yield from self._foreign
        self._foreign.clear()

    def _dispatch(self, lines: list[tuple[TextLine, str]], count: int) -> None:
        """Parse the first lines or set them aside, as far as the lines after them decide it."""
        for index in range(count):
            line, raw = lines[index]
            if self._aside:
                ahead = [following.text for following, _ in lines[index : index + LOOKAHEAD + 1]]
                belongs = line.text and OPENS.match(line.text) and confirm(ahead)
            else:
                belongs = _is_script_line(line) or _is_intruder(line, lines[index + 1 : index + 2])
            if belongs:
                self._pass_on()
                self.samples.line(line.number, line.text)
            else:
                if len(self._aside) >= MAX_FOREIGN:
                    self._pass_on()
                self._aside.append((line.number, raw))

    def _pass_on(self) -> None:
        if self._aside:
            self._foreign.append(Foreign(tuple(self._aside)))
            self._aside.clear()


def _is_script_line(line: TextLine) -> bool:
    return not line.depth and parse_prompt(line.text) is None and continues(line.text)


def _is_intruder(line: TextLine, following: Sequence[tuple[TextLine, str]]) -> bool:
    """Whether a line of another format is alone between lines of perf script."""
    if not following or not line.text.strip() or parse_prompt(line.text) is not None:
        return False
    return bool(following[0][0].text.strip()) and _is_script_line(following[0][0])


def _windows(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the text in pieces of about `size` bytes, cut at an empty line if possible, else at a line end.

    CRLF becomes LF. A line that is longer than the limit is cut.
    """
    parts: list[bytes] = []
    length, is_cut = 0, False
    for chunk in chunks:
        if is_cut:  # skip to the end of the line that was cut
            if (newline := chunk.find(b"\n")) < 0:
                continue
            chunk, is_cut = chunk[newline:], False
        parts.append(chunk)
        length += len(chunk)
        if length < size:
            continue
        data = b"".join(parts).replace(b"\r\n", b"\n")
        end = data.rfind(b"\n\n") + 2
        end = end if end > 1 else data.rfind(b"\n") + 1
        if end:
            yield data[:end]
        rest = data[end:]
        if is_cut := len(rest) > 2 * MAX_LINE_BYTES and b"\n" not in rest:
            rest = rest[: MAX_LINE_BYTES + 1]
        parts, length = [rest], len(rest)
    data = b"".join(parts).replace(b"\r\n", b"\n")
    if data:
        yield data if data.endswith(b"\n") else data + b"\n"
