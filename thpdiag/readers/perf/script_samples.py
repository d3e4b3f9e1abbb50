"""From the lines of perf script to samples: which lines belong together, and what else stands between them.

One head, its frames, an empty line. A head may be missing (`-F ip,sym`), be followed by an empty line, or have the only
frame on its own line; comments and records of a task's life stand between. Not a reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from thpdiag.model import Citation, Fact, Problem
from thpdiag.reader import Source
from thpdiag.readers.perf import header as perf_header
from thpdiag.readers.perf.script_lines import Head, frame, head, single, source_line
from thpdiag.readers.perf.stacks import Frames

NAME = "perf_script"
STRONG = re.compile(r".*\s-?\d{1,10}\s+(?:\[\d+\]\s+)?(?:[A-Z]{1,5}\s+)?\d{1,12}\.(?:\d{6}|\d{9}):(?:\s|$)")
_TIME = re.compile(r"\d\.\d{6}")
_RECORD = re.compile(r".*\bPERF_RECORD_(?P<kind>[A-Z0-9_]+)\b(?P<rest>.*)$")
_LOST = re.compile(r"\blost\s+(\d{1,18})")
_CACHED = 200_000  # distinct frame lines that are remembered

Stack = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: frames by number, leaf first; `line` and `text` are those of its first line."""

    head: Head
    stack: Stack
    line: int
    text: str


@dataclass(slots=True)
class Around:
    """What a text says beside its samples: perf's header, odd lines by reason, what the recording lost."""

    header: dict[str, str] = field(default_factory=dict)
    told: dict[str, Citation] = field(default_factory=dict)  # where the header says so
    odd: dict[str, Citation] = field(default_factory=dict)  # where first
    counts: Counter[str] = field(default_factory=Counter)
    lost: int | None = None

    def strange(self, why: str, cite: Citation) -> None:
        self.counts[why] += 1
        self.odd.setdefault(why, cite)

    def tell(self, name: str, value: str, cite: Citation) -> None:
        """Something of the header; what is said first counts."""
        if name not in self.header:
            self.header[name], self.told[name] = value, cite

    def facts(self) -> Iterator[Fact]:
        """What the header says of the host."""
        for name, value in self.header.items():
            yield from perf_header.of_host({name: value}, self.told[name])

    def problems(self) -> list[Problem]:
        return [Problem(cite, why, reader=NAME, count=self.counts[why]) for why, cite in self.odd.items()]


class FrameLines:
    """What a line is in the middle of a chain; the same lines come again and again."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._known: dict[str, Stack] = {}

    def frame(self, text: str) -> Stack | None:
        """The frames of a line (several where a runtime names what it inlined), None if it is no frame."""
        if (known := self._known.get(text)) is not None:
            return known
        if _heads(text) or (found := frame(text)) is None:
            return None
        return self._numbers(text, found)

    def single(self, rest: str) -> Stack:
        """The frame on a head's own line, if there is one."""
        found = single(rest) if rest else None
        return self._numbers("\0" + rest, found) if found else ()

    def _numbers(self, text: str, found: tuple[list[str], str]) -> Stack:
        numbers = tuple(self.frames.number(name, found[1]) for name in found[0])
        if len(self._known) >= _CACHED:
            self._known.clear()
        self._known[text] = numbers
        return numbers


class Samples:
    """Takes lines one by one and gives each sample away when its end is seen."""

    def __init__(self, source: Source, lines: FrameLines, around: Around, keep: Callable[[Sample], None]) -> None:
        self._source = source
        self._lines = lines
        self._around = around
        self._keep = keep
        self._head = Head()
        self._stack: list[int] = []
        self._line = 0  # of the sample that has begun; 0: none has
        self._text = ""

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            if self._stack:
                self.end()
        elif not self._frame(number, text) and not (self._line and source_line(text)):
            self._other(number, text)

    def end(self) -> None:
        """What was read of a sample is all of it."""
        if self._line:
            self._keep(Sample(self._head, tuple(self._stack), self._line, self._text))
            self._stack, self._line = [], 0

    def _begin(self, head: Head, number: int, text: str) -> None:
        self._head, self._line, self._text = head, number, text

    def _frame(self, number: int, text: str) -> bool:
        """Take a frame. One without a head before it begins a sample of which nothing else is known (`-F ip,sym`)."""
        if text[0] not in " \t" and not self._line:
            return False
        found = self._lines.frame(text)
        if found is None:
            return False
        if not self._line:
            self._begin(Head(), number, text)
        self._stack.extend(found)
        return True

    def _other(self, number: int, text: str) -> None:
        """A line that is no frame."""
        if text[0] == "#" and not self._line:
            self._comment(number, text)
        elif "PERF_RECORD_" in text and (record := _RECORD.match(text)):
            self._record(record)
        elif found := self._new_head(text):
            self.end()
            self._begin(found, number, text)
            self._stack.extend(self._lines.single(found.rest))
        else:
            why = "a line of perf script that is neither the head of a sample nor a frame"
            self._around.strange(why, self._source.cite(number, text))

    def _new_head(self, text: str) -> Head | None:
        """The head of a sample. In the middle of a chain only one with a time or an event is believed."""
        found = head(text)
        if found is None or (self._stack and text[0] in " \t" and found.seconds is None and not found.event):
            return None
        return found

    def _comment(self, number: int, text: str) -> None:
        if found := perf_header.fact(text):
            self._around.tell(*found, self._source.cite(number, text))
        elif not perf_header.COMMENT.match(text):
            self._around.strange("a comment that perf does not write", self._source.cite(number, text))

    def _record(self, record: re.Match[str]) -> None:
        """What the recording says of itself between samples; only losses matter."""
        if record["kind"].startswith("LOST") and (lost := _LOST.search(record["rest"])):
            self._around.lost = (self._around.lost or 0) + int(lost[1])


def _heads(text: str) -> bool:
    """Whether a line that could be a frame is a head: it has a time, or it is `  10309278 cycles:`."""
    return bool(_TIME.search(text) and STRONG.match(text)) or (text[0] != "\t" and text.endswith(":"))
