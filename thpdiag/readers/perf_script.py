"""perf script: every sample of a recording as text, with its call chain, leaf first.

    churn  7641 [000]  1050.057387:    2500000 cpu-clock:
    \tffffffff821e8f67 clear_page_erms+0x7 ([kernel.kallsyms])
    \tffffffff815e9b16 folio_zero_user+0x166 ([kernel.kallsyms])

Times are seconds on the clock of the recording, which is near that of the boot; weight is the period, 1 where it is
not printed. Samples end at an empty line; before 3.x and without `-g` the only frame stands on the head's own line.
Lines of a task's life (`PERF_RECORD_COMM`) may stand between; `PERF_RECORD_LOST` counts. Several events in one text
become several profiles. Grammar of the lines and their variations: `perf_script_lines`. Source: tools/perf/builtin-
script.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.knowledge.symbols import unresolved
from thpdiag.model import Citation, Clock, Ledger, Moment, Problem, Profile, ProfileRow, Record, Stacks
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers import perf_header
from thpdiag.readers.perf_columns import Columns, row
from thpdiag.readers.perf_script_lines import Head, frame, frame_like, head, single, source_line
from thpdiag.readers.perf_stacks import Frames

_RECORD = re.compile(r".*\bPERF_RECORD_(?P<kind>[A-Z0-9_]+)\b(?P<rest>.*)$")
_LOST = re.compile(r"\blost\s+(\d{1,18})")
_CACHED = 200_000  # distinct frame lines that are remembered
_STRONG = re.compile(r".*\s-?\d{1,10}\s+(?:\[\d+\]\s+)?(?:[A-Z]{1,5}\s+)?\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)")

Key = tuple[tuple[int, ...], str, int | None, int | None, int | None, int | None]


@dataclass(slots=True)
class _Sum:
    weight: float
    samples: int
    cite: Citation


@dataclass(slots=True)
class _Event:
    """What was read of one event."""

    cite: Citation
    frames: Frames = field(default_factory=Frames)
    sums: dict[Key, _Sum] = field(default_factory=dict)
    lines: dict[str, tuple[int, ...]] = field(default_factory=dict)  # text of a frame line -> frames
    kept: int = 0
    without_stack: int = 0
    unknown: int = 0
    deep: bool = False
    first: tuple[int, float] | None = None
    last: float | None = None
    relative: bool = False

    def frame(self, text: str, found: tuple[list[str], str]) -> tuple[int, ...]:
        numbers = tuple(self.frames.number(name, found[1]) for name in found[0])
        if len(self.lines) >= _CACHED:
            self.lines.clear()
        self.lines[text] = numbers
        return numbers


@dataclass(slots=True)
class _State:
    source: Source
    header: dict[str, str] = field(default_factory=dict)
    events: dict[str, _Event] = field(default_factory=dict)
    head: Head | None = None
    cite: Citation | None = None
    stack: list[int] = field(default_factory=list)
    open: bool = False  # a sample has begun and is not yet counted
    odd: dict[str, list[Citation]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    lost: int | None = None

    def event(self) -> _Event:
        name = self.head.event if self.head else ""
        if name not in self.events:
            self.events[name] = _Event(self.cite or self.source.cite(1))
        return self.events[name]

    def strange(self, why: str, cite: Citation) -> None:
        self.counts[why] += 1
        self.odd.setdefault(why, [cite])


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile per event, samples summed by stack, task, cpu and 10 ms; what did not fit becomes problems."""
    state = _State(source)
    for number, text in lines:
        if not text.strip():
            if state.stack:
                _keep(state)
            continue
        _line(state, number, text)
    _keep(state)
    for why, cites in state.odd.items():
        yield Problem(cites[0], why, reader=READER.name, count=state.counts[why])
    for name, event in state.events.items():
        yield _profile(name, event, state)


def _line(state: _State, number: int, text: str) -> None:
    """A line that is not empty: a frame is by far the most likely."""
    if _frame(state, number, text) or (state.open and source_line(text)):
        return
    cite = state.source.cite(number, text)
    if text[0] == "#" and not state.open:
        _comment(state, text, cite)
    elif "PERF_RECORD_" in text and (record := _RECORD.match(text)):
        _record(state, record)
    elif found := _new_head(state, text):
        _keep(state)
        state.head, state.cite, state.open = found, cite, True
        if only := single(found.rest):
            state.stack.extend(state.event().frame("\0" + found.rest, only))
    else:
        state.strange("a line of perf script that is neither the head of a sample nor a frame", cite)


def _frame(state: _State, number: int, text: str) -> bool:
    """Take a frame. One without a head before it begins a sample of which nothing else is known (`-F ip,sym`)."""
    if text[0] not in " \t" and not state.open:
        return False
    if state.open and (known := state.event().lines.get(text)) is not None:
        state.stack.extend(known)
        return True
    if _heads(text) or (found := frame(text)) is None:
        return False
    if not state.open:
        state.head, state.cite, state.open = None, state.source.cite(number, text), True
    state.stack.extend(state.event().frame(text, found))
    return True


def _record(state: _State, record: re.Match[str]) -> None:
    """What the recording says of itself between samples; only losses matter."""
    if record["kind"].startswith("LOST") and (lost := _LOST.search(record["rest"])):
        state.lost = (state.lost or 0) + int(lost[1])


def _heads(text: str) -> bool:
    """Whether a line that could be a frame is a head: it has a time, or it is `  10309278 cycles:`."""
    return bool(_STRONG.match(text)) or (text[0] != "\t" and text.endswith(":"))


def _new_head(state: _State, text: str) -> Head | None:
    """The head of a sample. In the middle of a chain only one with a time or an event is believed."""
    found = head(text)
    if found is None or (state.stack and text[0] in " \t" and found.seconds is None and not found.event):
        return None
    return found


def _comment(state: _State, text: str, cite: Citation) -> None:
    if found := perf_header.fact(text):
        state.header.setdefault(*found)
    elif not perf_header.COMMENT.match(text):
        state.strange("a comment that perf does not write", cite)


def _keep(state: _State) -> None:
    """Count the sample that was being read."""
    if not state.open:
        return
    event, at = state.event(), state.head or Head()
    stack = tuple(state.stack)
    event.kept += 1
    event.without_stack += not stack
    event.deep = event.deep or len(stack) > 1
    if stack and unresolved(event.frames.name(stack[0])):
        event.unknown += 1
    if at.hundredths is not None and at.seconds is not None:
        _clock(event, at.hundredths, at.seconds)
    key = (stack, at.comm, at.pid, at.tid, at.cpu, at.hundredths)
    weight = at.period if at.period is not None else 1
    if (known := event.sums.get(key)) is None:
        event.sums[key] = _Sum(weight, 1, state.cite or state.source.cite(1))
    else:
        known.weight += weight
        known.samples += 1
    state.stack, state.open, state.head = [], False, None


def _clock(event: _Event, hundredths: int, seconds: float) -> None:
    """First and last time. A recording never begins at 0.000000, but `--reltime` and `--deltatime` do."""
    if event.first is None:
        event.relative = seconds == 0
        event.first = (hundredths, seconds)
    elif hundredths < event.first[0]:
        event.first = (hundredths, seconds)
    event.last = seconds if event.last is None else max(event.last, seconds)


def _profile(name: str, event: _Event, state: _State) -> Profile:
    timed = event.first is not None and not event.relative
    base = event.first[0] if event.first and timed else 0
    facts = dict(state.header)
    if event.relative:
        facts["clock"] = "relative (--deltatime or --reltime): no time of day, bins left out"
    return Profile(
        reader=READER.name,
        event=name,
        frames=event.frames.all(),
        rows=tuple(_rows(event, base, timed=timed)),
        stacks=Stacks.FULL if event.deep else Stacks.NONE,
        cite=event.cite,
        ledger=Ledger(event.kept, event.kept, event.without_stack, event.unknown, dict(state.counts), state.lost),
        has_time=timed,
        start=Moment(base / 100, Clock.BOOT) if timed else None,
        end=Moment(event.last, Clock.BOOT) if timed and event.last is not None else None,
        total_samples=event.kept,
        facts=facts,
    )


def _rows(event: _Event, base: int, *, timed: bool) -> Iterator[ProfileRow]:
    if timed:
        for (stack, comm, pid, tid, cpu, at), total in event.sums.items():
            yield ProfileRow(
                stack, total.weight, total.samples, total.cite, comm, pid, tid, cpu, None if at is None else at - base
            )
        return
    merged: dict[Key, _Sum] = {}
    for (stack, comm, pid, tid, cpu, _), total in event.sums.items():
        key = (stack, comm, pid, tid, cpu, None)
        before = merged.setdefault(key, _Sum(0, 0, total.cite))
        before.weight += total.weight
        before.samples += total.samples
    for (stack, comm, pid, tid, cpu, _), total in merged.items():
        yield ProfileRow(stack, total.weight, total.samples, total.cite, comm, pid, tid, cpu)


_EVENT_NAME = r"[A-Za-z_][\w/.,=:{}-]{0,100}:"
_WHO = r"\s*(?:\S.{0,60}?\s{1,40})?-?\d{1,10}(?:/\s{0,20}-?\d{1,10})?"
_CPU = r"(?:\s{1,40}\[\d{1,6}\])?(?:\s{1,40}[A-Z]{1,5})?"
_TIME = r"\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)"
_HEAD_LINE = re.compile(rf"{_WHO}{_CPU}\s{{1,40}}(?:{_TIME}|(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}(?:\s|$))|\s*{_TIME}")
_SHORT_HEAD = re.compile(rf"{_WHO}{_CPU}$|\s*(?:\d{{1,20}}\s{{1,40}})?{_EVENT_NAME}$")
_TAB_FRAME = re.compile(r"\t\s*[0-9a-f]{3,16}(?:\s\S.*)?$")
_OPENS = re.compile(
    rf"{perf_header.OPENS}|{_HEAD_LINE.pattern}|{_SHORT_HEAD.pattern}|\s+[0-9a-f]{{8,16}}\s[^()]{{0,500}}\(\S|{_TAB_FRAME.pattern}"
)


def continues(text: str) -> bool:
    """Frames, heads, empty lines, perf's comments; anything indented by a tab, which the reader counts if it is odd."""
    if not text or text[0] == "\t" or not text.strip():
        return True
    if text[0] == "#":
        return bool(perf_header.COMMENT.match(text))
    return bool(
        frame_like(text)
        or _HEAD_LINE.match(text)
        or _SHORT_HEAD.match(text)
        or source_line(text)
        or "PERF_RECORD_" in text
    )


def _is_frame(text: str) -> bool:
    return not _STRONG.match(text) and frame_like(text)


def _confirm(ahead: list[str]) -> bool:
    """A head with a time and an event is enough if nothing foreign follows; any other must be followed by frames."""
    body = [t for t in ahead if t.strip() and t[0] != "#"]
    if re.match(perf_header.OPENS, ahead[0]):
        return bool(body) and not row(body[0], Columns()) and bool(_HEAD_LINE.match(body[0]) or _is_frame(body[0]))
    frames = [_is_frame(t) for t in body[1:3]]
    if _STRONG.match(ahead[0]):
        found = head(ahead[0])
        return bool(found and (found.event or frames[:1] == [True])) and (len(body) < 2 or continues(body[1]))
    if _is_frame(ahead[0]):
        return frames[:1] == [True]
    if head(ahead[0]) is None or not frames:
        return False
    return frames[0] if ahead[0].endswith(":") else all(frames)


READER = Reader(
    name="perf_script",
    title="perf script",
    read=read,
    opens=_OPENS,
    continues=continues,
    confirm=_confirm,
    lookahead=80,
)
