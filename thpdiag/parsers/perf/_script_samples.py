"""The samples of perf script: lines to samples, samples to columns, columns to profiles.

One head, its frames, an empty line. A head may be missing (`-F ip,sym`), be followed by an empty line, or have the only
frame on its own line; comments and records of a task's life stand between. `Samples` is the grammar of all that, line
by line.

Long texts say the same again and again. `Blocks` splits bytes at empty lines: of a block the stack is known by the hash
of its bytes, the head by what stands before and behind the time. What was not seen before is learnt from the grammar of
lines, once; a block that it does not plainly take for one whole sample goes through the grammar line by line.
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
    frame_of_head,
    is_source_line,
    parse_frame,
    parse_head,
    plain_text,
    unambiguous_head,
)
from thpdiag.parsers.perf._texts import HEADER_COMMENT, Frames, header_fact, host_facts

WINDOW_BYTES = 1 << 22  # that are split into blocks at once
MAX_LINE_BYTES = Limits().line
MAX_STACKS = 1_000_000  # distinct blocks of frames that are remembered
MAX_FRAME_LINES = 500_000  # distinct lines
MAX_HEADS = 100_000  # distinct parts of heads
MAX_TEXTS = 200_000  # chains whose first line is kept as text; with more of them, none is
MAX_ROWS = 4_000_000  # samples of an event that wait to be added up
MAX_FOREIGN = 100_000  # lines of another format that are handed on at once
MAX_DEPTH = 127  # frames that the kernel takes unless kernel.perf_event_max_stack says otherwise
RELATIVE = "relative (--deltatime or --reltime): no time of day, bins left out"
NO_CHAIN = -1  # for lines that are not all frames
_RECORD = re.compile(r".*\bPERF_RECORD_(?P<kind>[A-Z0-9_]+)\b(?P<rest>.*)$")
_LOST = re.compile(r"\blost\s+(\d{1,18})")
_TIMED = re.compile(  # a head by its parts, which are known each by itself
    rb"(?P<name>.*?) (?P<stamp>(?P<seconds>\d{1,12})\.(?P<hundredths>\d\d)(?:\d{4}|\d{7})):(?: |$) *"
    rb"(?:(?P<period>\d{1,20}) )?(?P<behind>.*)"
)
_ADDRESSES = re.compile(rb"\n\t *[0-9a-f]{1,16}(?= )")
_OFFSETS = re.compile(rb"\+0x(?<=[!-~]\+0x)[0-9a-f]{1,16}(?= \([^)\n]*\)(?:\n|\Z))")  # between a name and an object
_STAMP_LIKE = re.compile(rb"\.\d{6}")  # a line with a time may be a head, which depends on the number before it
_PRINTABLE = bytes(range(ord(" "), ord("~") + 1)) + b"\n\t"

Stack = tuple[int, ...]  # frames by number, leaf first
Ints = NDArray[np.int64]


def read_lines(source: Source, lines: Lines) -> Iterator[Record]:
    """The records of a block of text, line by line."""
    samples = Samples(source)
    for number, text in lines:
        samples.line(number, text)
    samples.end()
    yield from samples.records(LineDamage())


def read_bytes(source: Source, chunks: Iterable[bytes], size: int = WINDOW_BYTES) -> Iterator[Record | Foreign]:
    """The records of a whole member, and the lines in it that are of another format."""
    blocks = Blocks(source)
    for window in _windows(chunks, size):
        blocks.read(window)
        yield from blocks.rest.foreign()
    blocks.rest.close(b"")
    yield from blocks.rest.foreign()
    yield from blocks.samples.records(blocks.rest.damage)


class SampleRows(NamedTuple):
    """What one chain in one task on one CPU weighs in 10 ms; `time` counts 10 ms, UNKNOWN where there is none."""

    key: Ints  # number of the chain, above that of the task and CPU
    time: Ints
    weight: NDArray[np.float64]
    samples: Ints


def add_up(parts: Sequence[SampleRows]) -> SampleRows:
    """Rows of the same key and time as one, in the order in which they were first."""
    key, time, weight, samples = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((time, key))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(key[order]) != 0) | (np.diff(time[order]) != 0)
    starts = np.flatnonzero(new)
    turn = np.argsort(order[starts])
    first = order[starts][turn]
    weight, samples = np.add.reduceat(weight[order], starts), np.add.reduceat(samples[order], starts)
    return SampleRows(key[first], time[first], weight[turn], samples[turn])


@dataclass(slots=True, eq=False)
class Event:
    """The samples of one event. `lines` and `texts` are the first of each chain.

    A recording never begins at 0.000000, but `--reltime` and `--deltatime` do: then times are `relative`.
    """

    name: str
    lines: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    relative: bool | None = None  # None: no sample has a time
    last_time: int = UNKNOWN  # of the last sample, in 10 ms
    last: float = 0.0  # the same in seconds, as printed
    first: tuple[int, int] | None = None  # key and time of the first sample
    copies: int = 1  # how often it came, each time behind later ones: the text may hold one recording several times
    _numbers: array[int] = field(default_factory=lambda: array("q"))  # key and time of each sample
    _weights: array[float] = field(default_factory=lambda: array("d"))
    _summed: list[SampleRows] = field(default_factory=list)

    def add(
        self, chain: int, who: int, weight: float, time: int, seconds: float | bytes, line: int, text: str | bytes
    ) -> None:
        """One sample, in the order of the text. `seconds` as printed and `text` are looked at where they are needed."""
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
        """All samples so far, added up."""
        key, time = np.array(self._numbers, np.int64).reshape(-1, 2).T
        ones = np.ones(len(key), np.int64)
        rows = add_up([*self._summed, SampleRows(key, time, np.array(self._weights, np.float64), ones)])
        self._numbers, self._weights = array("q"), array("d")
        return rows

    def drop_copies(self) -> bool:
        """Whether all samples are there several times, which now count once."""
        rows = self.rows()
        is_copied = self.copies > 1 and not (rows.samples % self.copies).any()
        if is_copied:
            rows = rows._replace(weight=rows.weight / self.copies, samples=rows.samples // self.copies)
        self._summed = [rows]
        return is_copied


class Columns:
    """Frames, chains, tasks with their CPU (`who`) and events by number: what the samples of a text are made of."""

    def __init__(self, source: Source) -> None:
        self.frames = Frames()
        self.events: dict[str, Event] = {}
        self.durations = Durations(source, NAME)
        self._chains: dict[Stack, int] = {}
        self._whos: dict[tuple[Task, int | None], int] = {}

    def chain(self, stack: Stack) -> int:
        return self._chains.setdefault(stack, len(self._chains))

    def sample(self, head: Head, line: int, text: str | bytes) -> tuple[Event, int, float]:
        """Event, task with CPU, and weight of a sample; of the kernel's own events the times between them too."""
        if head.rest and head.seconds is not None and (name := head.event.rpartition(":")[2]) in EVENTS:
            shown = text if isinstance(text, str) else plain_text(text) or ""
            task = str(head.tid if head.tid is not None else head.pid)
            self.durations.take(KernelEvent(head.seconds, head.comm, task, name, head.rest, line, shown))
        if (event := self.events.get(head.event)) is None:
            event = self.events[head.event] = Event(head.event)
        who = self._whos.setdefault((Task(head.comm, head.pid, head.tid), head.cpu), len(self._whos))
        return event, who, 1.0 if head.period is None else float(head.period)

    def profile(self, event: Event, source: Source, facts: dict[str, str]) -> Profile:
        """The profile that the samples of an event become; it gets its own frames and tasks."""
        rows, timed = event.rows(), event.relative is False
        if not timed:
            rows = add_up([rows._replace(time=np.full(len(rows.key), UNKNOWN, np.int64))])
        base = int(rows.time[rows.time != UNKNOWN].min()) if timed else 0
        bins = rows.time - base
        bins[(rows.time == UNKNOWN) | (bins > np.iinfo(np.int32).max)] = UNKNOWN  # of a damaged time
        used, chain = only_used(rows.key >> 32)
        stacks = list(self._chains)
        some = [stacks[i] for i in used.tolist()]
        lengths = np.fromiter(map(len, some), np.int64, len(some))
        own_frames, frames = only_used(np.fromiter(chained.from_iterable(some), np.int64))
        tasks: dict[Task, int] = {}
        task_of = np.array([tasks.setdefault(task, len(tasks)) for task, _ in self._whos], np.int32)
        cpu_of = np.array([UNKNOWN if cpu is None else cpu for _, cpu in self._whos], np.int32)
        who = rows.key & 0xFFFFFFFF
        own_tasks, task = only_used(task_of[who])
        cut, names, every = lengths == MAX_DEPTH, self.frames.all(), list(tasks)
        lines = np.array([event.lines[number] for number in used.tolist()], np.int64)
        texts = tuple(map(event.texts.__getitem__, used.tolist())) if len(event.texts) == len(used) else ()
        first = next(iter(event.lines))
        return Profile(
            reader=NAME,
            event=event.name,
            frames=tuple(names[i] for i in own_frames.tolist()),
            chains=Chains(frames, starts_of(lengths), lines, texts, cut if cut.any() else None),
            tasks=tuple(every[i] for i in own_tasks.tolist()),
            rows=Rows(chain, task, cpu_of[who], bins.astype(np.int32), rows.weight, rows.samples),
            stacks=Stacks.FULL if bool((lengths > 1).any()) else Stacks.NONE,
            cite=source.cite(event.lines[first], event.texts[first]),
            has_time=timed,
            start=Moment(base / 100, Clock.BOOT) if timed else None,
            end=Moment(event.last, Clock.BOOT) if timed else None,
            total_samples=int(rows.samples.sum()),
            facts={**facts, **({"clock": RELATIVE} if event.relative else {})},
        )


def only_used(numbers: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """Which numbers occur, and each as its place among those."""
    marks = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
    marks[numbers] = True
    return np.flatnonzero(marks), (np.cumsum(marks, dtype=np.int32) - np.int32(1))[numbers]


def _ledger(profile: Profile, odd: dict[str, int], lost: int | None) -> Ledger:
    """What became of the samples; each that has a head is kept."""
    chains, rows = profile.chains, profile.rows
    lengths = np.diff(chains.starts)
    nameless = np.fromiter((is_unresolved(f.name) for f in profile.frames), np.bool_, len(profile.frames))
    unknown = lengths > 0
    unknown[unknown] = nameless[chains.frames[chains.starts[:-1][unknown]]]
    without, unnamed, truncated = (
        int(rows.samples[marked[rows.chain]].sum()) for marked in (lengths == 0, unknown, lengths == MAX_DEPTH)
    )
    kept = int(rows.samples.sum())
    return Ledger(kept, kept, without, unnamed, truncated, odd, lost)


class Samples:
    """The grammar of lines: takes them one by one and counts each sample when its end is seen.

    Beside them it keeps what a text says of the recording: perf's header, odd lines by reason, what was lost.
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
        self._line = 0  # of the sample that has begun; 0: none has
        self._text = ""

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            if self._stack:
                self.end()
        elif (self._line or text[0] in " \t") and (frames := self.frame(text)) is not None:
            if not self._line:  # a sample of which nothing else is known (`-F ip,sym`)
                self._head, self._line, self._text = Head(), number, text
            self._stack += frames
        elif not (self._line and is_source_line(text)):
            self._other(number, text)

    def end(self) -> None:
        """What was read of a sample is all of it."""
        if self._line:
            event, who, weight = self.columns.sample(self._head, self._line, self._text)
            time = UNKNOWN if self._head.hundredths is None else self._head.hundredths
            chain = self.columns.chain(tuple(self._stack))
            event.add(chain, who, weight, time, self._head.seconds or 0.0, self._line, self._text)
            self._stack, self._line = [], 0

    def frame(self, text: str) -> Stack | None:
        """The frames of a line in a chain (several where a runtime names what it inlined), None if it is no frame."""
        if (known := self._frames_of.get(text)) is not None:
            return known
        is_head = (TIME_LIKE.search(text) and TIMED_HEAD.match(text)) or (text[0] != "\t" and text.endswith(":"))
        return None if is_head or (found := parse_frame(text)) is None else self._number(text, found)

    def frame_of_head(self, rest: str) -> Stack:
        """The frame on a head's own line, if there is one."""
        found = frame_of_head(rest) if rest else None
        return self._number("\0" + rest, found) if found else ()

    def _number(self, text: str, found: tuple[list[str], str]) -> Stack:
        numbers = tuple(self.columns.frames.number(name, found[1]) for name in found[0])
        _remember(self._frames_of, text, numbers, MAX_FRAME_LINES)
        return numbers

    def _other(self, number: int, text: str) -> None:
        """A line that is no frame: of perf's own header (what it says first counts), a record, a head."""
        if text[0] == "#" and not self._line:
            if found := header_fact(text):
                self._header.setdefault(found[0], (found[1], self._source.cite(number, text)))
            elif not HEADER_COMMENT.match(text):
                self._errors.note(number, text, "a comment that perf does not write")
        elif "PERF_RECORD_" in text and (record := _RECORD.match(text)):
            if record["kind"].startswith("LOST") and (lost := _LOST.search(record["rest"])):
                self._lost = (self._lost or 0) + int(lost[1])
                self.columns.durations.lose(int(lost[1]), number, text)
        elif (head := parse_head(text)) and not (
            # in the middle of a chain only one with a time or an event is believed
            self._stack and text[0] in " \t" and head.seconds is None and not head.event
        ):
            self.end()
            self._head, self._line, self._text = head, number, text
            self._stack += self.frame_of_head(head.rest)
        else:
            self._errors.note(number, text, "a line of perf script that is neither the head of a sample nor a frame")

    def records(self, damage: LineDamage) -> Iterator[Record]:
        """What all lines told: facts of the host, problems, a profile for each event."""
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


KnownHead = tuple[Event, int, float, int, float | bytes]  # event, who, weight, time in 10 ms, time as printed


class Blocks:
    """Blocks of lines between empty ones, whose parts are remembered."""

    def __init__(self, source: Source) -> None:
        self.samples = Samples(source)
        self.rest = LineByLine(self.samples)
        self._columns = self.samples.columns
        self._number = 1  # of the next line
        self._whole = True  # it stands behind an empty one
        self._chains: dict[int, int] = {}  # by the hash of their lines, as they are and without addresses
        self._frames: dict[bytes, Stack | None] = {}  # of lines without addresses; None: not in a chain
        self._whos: dict[bytes, int] = {}  # by what stands before the time
        self._events: dict[bytes, Event] = {}  # by what stands behind the time, but for the period
        self._flat: dict[bytes, tuple[Event, float, int]] = {}  # by what stands behind the time, with a frame

    def read(self, window: bytes) -> None:
        """Whole lines. Where the last one is not empty, its block may go on in what comes next."""
        *blocks, last = window.split(b"\n\n")
        for block in blocks:
            if not (self._whole and self._plain_sample(block)):
                self._odd_lines(block, b"\n\n")
            self._number += block.count(b"\n") + 2
            self._whole = True
        if last:
            self._odd_lines(last[:-1], b"\n")
            self._number += last.count(b"\n")
        self._whole = window.endswith(b"\n\n")

    def _plain_sample(self, block: bytes) -> bool:
        """Count a block that is a head and its frames; False if it may be anything else."""
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

    def _head(self, text: bytes) -> KnownHead | None:
        """A head without a frame on its line: from its parts, else from the grammar."""
        if parts := _TIMED.match(text):
            name, stamp, seconds, hundredths, period, event_text = parts.groups()
            who, event = self._whos.get(name), self._events.get(event_text)
            if who is not None and event is not None:
                return event, who, float(period or 1), 100 * int(seconds) + int(hundredths), stamp
        head = unambiguous_head(text)
        if head is None or frame_of_head(head.rest):
            return None
        event, who, weight = self._columns.sample(head, self._number, text)
        if head.hundredths is None or head.seconds is None:
            return event, who, weight, UNKNOWN, 0.0
        if parts and self._learn_who(head, parts, who) and head.event and not head.rest:
            period = parts["period"]
            if head.period == (int(period) if period else None):
                _remember(self._events, parts["behind"], event, MAX_HEADS)
        return event, who, weight, head.hundredths, head.seconds

    def _learn_who(self, head: Head, parts: re.Match[bytes], who: int) -> bool:
        """Remember who a head names; False if it was not parted where the grammar parts it."""
        name, time = parts["name"], 100 * int(parts["seconds"]) + int(parts["hundredths"])
        text = plain_text(parts.string[: parts.end("stamp") + 1]) or ""
        if time != head.hundredths or TIME_LIKE.search(name.decode("latin-1")) or not TIMED_HEAD.match(text):
            return False
        _remember(self._whos, name, who, MAX_HEADS)
        return True

    def _learn_chain(self, frames: bytes) -> int:
        """The chain of some lines, if all are frames.

        Addresses say nothing, and neither do offsets behind a name: what was not seen before is looked up without them.
        """
        shape = b"\n" + frames
        if not frames.translate(None, _PRINTABLE) and not _STAMP_LIKE.search(frames):
            shape = _OFFSETS.sub(b"\0", _ADDRESSES.sub(b"\n\0", shape))
        if (chain := self._chains.get(hash(shape))) is None:
            chain = self._new_chain(frames.split(b"\n"), shape.split(b"\n")[1:])
            _remember(self._chains, hash(shape), chain, MAX_STACKS)
        _remember(self._chains, hash(frames), chain, MAX_STACKS)
        return chain

    def _new_chain(self, lines: list[bytes], shapes: list[bytes]) -> int:
        """The same for a stack not seen before; a line of the source has no frame of its own."""
        stack: list[int] = []
        for line, shape in zip(lines, shapes, strict=True):
            if shape not in self._frames:
                text = plain_text(line)
                frames = self.samples.frame(text) if text and text.strip() else None
                known = () if frames is None and text and is_source_line(text) else frames
                _remember(self._frames, shape, known, MAX_FRAME_LINES)
            frames = self._frames[shape]
            if frames is None:
                return NO_CHAIN
            stack += frames
        return self._columns.chain(tuple(stack)) if stack else NO_CHAIN

    def _odd_lines(self, block: bytes, end: bytes) -> None:
        """Samples of one line each, or lines for the grammar; one before such a sample or the end of all is whole."""
        lines = block.split(b"\n")
        flat = [self._flat_sample(line) for line in lines]
        done = 0
        for index, found in enumerate(flat):
            if found is None or not (flat[index + 1] if index + 1 < len(flat) else len(end) > 1):
                continue
            if done < index:
                self.rest.give(self._number + done, b"\n".join(lines[done:index]) + b"\n")
            self.rest.close(b"\n".join(lines[index : index + 3]))
            chain, (event, who, weight, time, stamp) = found
            event.add(chain, who, weight, time, stamp, self._number + index, lines[index])
            done = index + 1
        if done < len(lines):
            self.rest.give(self._number + done, b"\n".join(lines[done:]) + end)

    def _flat_sample(self, text: bytes) -> tuple[int, KnownHead] | None:
        """A head with who, time, event and the only frame: its chain and the rest."""
        parts = _TIMED.match(text)
        if not parts or text[:1] == b"\t":
            return None
        name, stamp, seconds, hundredths, *_ = parts.groups()
        behind = text[parts.end("stamp") :]
        known, who = self._flat.get(behind), self._whos.get(name)
        if known is not None and who is not None:
            event, weight, chain = known
            return chain, (event, who, weight, 100 * int(seconds) + int(hundredths), stamp)
        head = unambiguous_head(text)
        if head is None or not head.event or head.hundredths is None or head.seconds is None:
            return None
        if not TIMED_HEAD.match(plain_text(text) or "") or not (stack := self.samples.frame_of_head(head.rest)):
            return None
        chain = self._columns.chain(stack)
        event, who, weight = self._columns.sample(head, self._number, text)
        if self._learn_who(head, parts, who):
            _remember(self._flat, behind, (event, weight, chain), MAX_FRAME_LINES)
        return chain, (event, who, weight, head.hundredths, head.seconds)


def _remember(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Put into a table that is emptied when it becomes too large."""
    if len(known) >= most:
        known.clear()
    known[key] = value


@dataclass(slots=True)
class LineByLine:
    """Lines that the block cache leaves over. What is another format's (the output of a further command, prose) is set
    aside; that there is a single odd line between two that belong says nothing, and the grammar counts it.
    """

    samples: Samples
    damage: LineDamage = field(default_factory=LineDamage)
    busy: bool = False
    _waiting: list[tuple[TextLine, str]] = field(default_factory=list)  # cleaned, and as they were
    _aside: list[tuple[int, str]] = field(default_factory=list)
    _foreign: list[Foreign] = field(default_factory=list)

    def give(self, first: int, data: bytes) -> None:
        """Further lines, and the number of the first."""
        self.busy = True
        damage = LineDamage()
        raw = [(first - 1 + number, text) for number, text in number_lines(b"", iter((data,)), MAX_LINE_BYTES, damage)]
        self.damage.add(damage, first - 1)
        self._waiting += zip(clean_lines(raw, markup=False), (text for _, text in raw), strict=True)
        if (ready := len(self._waiting) - LOOKAHEAD) > 0:
            self._judge(self._waiting, ready)
            del self._waiting[:ready]

    def close(self, following: bytes) -> None:
        """What comes next, `following`, is a sample that needs no grammar; or nothing does."""
        if self.busy:
            texts = [plain_text(line) or "" for line in following.split(b"\n", 3)[:3]] if following else []
            self._judge([*self._waiting, *((TextLine(0, text), text) for text in texts)], len(self._waiting))
            self._waiting.clear()
            self.samples.end()
            self._hand_on()
            self.busy = False

    def foreign(self) -> Iterator[Foreign]:
        """What has been set aside and is complete."""
        yield from self._foreign
        self._foreign.clear()

    def _judge(self, lines: list[tuple[TextLine, str]], count: int) -> None:
        """Deal with the first lines, as far as those behind tell what they are."""
        for index in range(count):
            line, raw = lines[index]
            if self._aside:
                ahead = [following.text for following, _ in lines[index : index + LOOKAHEAD + 1]]
                belongs = line.text and OPENS.match(line.text) and confirm(ahead)
            else:
                belongs = _belongs(line) or _intrudes(line, lines[index + 1 : index + 2])
            if belongs:
                self._hand_on()
                self.samples.line(line.number, line.text)
            else:
                if len(self._aside) >= MAX_FOREIGN:
                    self._hand_on()
                self._aside.append((line.number, raw))

    def _hand_on(self) -> None:
        if self._aside:
            self._foreign.append(Foreign(tuple(self._aside)))
            self._aside.clear()


def _belongs(line: TextLine) -> bool:
    return not line.depth and parse_prompt(line.text) is None and continues(line.text)


def _intrudes(line: TextLine, following: Sequence[tuple[TextLine, str]]) -> bool:
    """Whether a line that does not belong stands alone between lines that do."""
    if not following or not line.text.strip() or parse_prompt(line.text) is not None:
        return False
    return bool(following[0][0].text.strip()) and _belongs(following[0][0])


def _windows(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The text in pieces of about `size` bytes, cut where a line is empty, else where one ends.

    Line ends of two characters are made one. A line that is longer than any that is read is cut.
    """
    parts: list[bytes] = []
    length, over = 0, False
    for chunk in chunks:
        if over:  # up to the end of the line that was cut
            if (at := chunk.find(b"\n")) < 0:
                continue
            chunk, over = chunk[at:], False
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
        if over := len(rest) > 2 * MAX_LINE_BYTES and b"\n" not in rest:
            rest = rest[: MAX_LINE_BYTES + 1]
        parts, length = [rest], len(rest)
    data = b"".join(parts).replace(b"\r\n", b"\n")
    if data:
        yield data if data.endswith(b"\n") else data + b"\n"
