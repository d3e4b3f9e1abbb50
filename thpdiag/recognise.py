"""Find the blocks of known formats in a member and have each read by its reader.

A whole /proc/vmstat, a terminal session with twenty commands, a mail that quotes a perf report, a loop that prints
the date between two outputs: all are texts in which blocks of known formats stand between other lines. One walk
finds them: prompts and time lines set the context, a line that a reader `opens` at starts a block, the reader's
`continues` ends it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from thpdiag.bundle.recorder_files import recorded
from thpdiag.bundle.stamps import RECORDER_MARK, ahead_by_two, ahead_of_utc, stamp
from thpdiag.bundle.transcript import Prompt, TextLine, cleaned, looks_like_html, prompt, speaker
from thpdiag.bundle.whole_text import WholeText
from thpdiag.knowledge.paths import output_of, system_path
from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.reader import BulkReader, Content, Foreign, Reader, Source
from thpdiag.readers.session.operator_actions import actions, entered, located, refused
from thpdiag.readers.session.prose import said

LONGEST_SILENCE = 2_000_000  # unclaimed lines after which the rest of a member is left unread, with a Problem
_FILE_COMMAND = re.compile(r"(?:sudo\s+)?(?:cat|head|tail|more|less|grep|egrep)\b(?P<rest>.*)")
_ASKED = re.compile(r"(?:sudo\s+)?(getconf)\s+(PAGE_?SIZE)\s*$")  # prints a bare value; named like a file of it
_LOOP = re.compile(r"(?:^|[;&|(]\s*)(?:while|for|until|watch)\b")  # then the output is of several commands, in turn
_PATH_WORD = re.compile(r"(?<![\w>])/(?:[\w.+@*-]+/)*[\w.+@*-]+")
LONGEST_KEPT, MOST_KEPT = 240, 4096  # characters and number of lines of which it is kept who may open at them
NEXT = 2  # lines from one time line to the next if nothing but a prompt stands between them
MAIN = ""  # the speaker of the text itself
_Given = TypeVar("_Given", Record, Record | Foreign)  # by readers of lines, and of bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """A record with the reader it came from and the group (speaker and host) that the text puts it in."""

    record: Record
    reader: str
    group: tuple[str, str]


@dataclass(slots=True)
class _Context:
    """What the lines above say about the next block."""

    member: str
    path: str
    speaker: str = MAIN
    host: str = ""
    time: Moment | None = None
    command: str = ""
    folder: str = ""
    paths: deque[str] = field(default_factory=deque)
    looping: bool = False
    timed: int = 0  # the line of that time
    ahead: int | None = None  # of UTC, in seconds, as the last time line that tells it

    @property
    def group(self) -> tuple[str, str]:
        return (self.speaker, self.host)

    def source(self) -> Source:
        path = self.paths[0] if self.paths else self.path
        return Source(self.member, time=self.time, command=self.command, path=path)

    def typed(self, typed: Prompt) -> None:
        if typed.folder.startswith("/"):
            self.folder = typed.folder
        self.folder = entered(self.folder, typed.command)
        self.command = located(typed.command, self.folder)
        if typed.host:
            self.host = typed.host.split(".")[0]
        if self.looping:  # the time of a loop's last round says nothing of the next command
            self.time = None
        found = _FILE_COMMAND.search(self.command)
        paths = [p.lstrip("/") for p in _PATH_WORD.findall(found["rest"])] if found else []
        if asked := _ASKED.match(self.command):
            paths = ["/".join(asked.groups())]
        self.looping = bool(_LOOP.search(self.command))
        if self.looping:  # the outputs of several commands in turn: only what has no name of its own needs the path
            paths = [p for p in paths if "transparent_hugepage/" in p]
            paths = paths if len(paths) == 1 else []
        self.paths = deque(paths)

    def speaks(self, name: str) -> None:
        self.speaker, self.host, self.time, self.command, self.folder = name, "", None, "", ""
        self.paths.clear()


class _Ahead:
    """An iterator over cleaned lines that can be looked ahead into."""

    def __init__(self, lines: Iterator[TextLine]) -> None:
        self._lines = lines
        self._buffer: deque[TextLine] = deque()

    def next(self) -> TextLine | None:
        """The line that is taken next."""
        if not self._buffer:
            line = next(self._lines, None)
            if line is None:
                return None
            self._buffer.append(line)
        return self._buffer[0]

    def peek(self, count: int = 1) -> list[TextLine]:
        while len(self._buffer) < count and (line := next(self._lines, None)) is not None:
            self._buffer.append(line)
        return list(islice(self._buffer, count))

    def take(self) -> TextLine | None:
        return self._buffer.popleft() if self._buffer else next(self._lines, None)


class Recogniser:
    """Splits members into blocks with a fixed set of readers. `strict` re-raises a reader's own mistakes (tests)."""

    def __init__(self, readers: Sequence[Reader], *, strict: bool = False) -> None:
        self._readers = sorted((r for r in readers if r.opens), key=lambda r: (-r.priority, r.name))
        self._by_path = [r for r in readers if r.paths]
        self._any = re.compile(
            "|".join(f"(?:{r.opens.pattern})" for r in self._readers if r.opens and not r.opens.flags & re.I)
        )
        self._loose = [r for r in self._readers if r.opens and r.opens.flags & re.I]
        self._strict = strict
        self._recent: dict[str, tuple[Reader, ...]] = {}

    def read(
        self, member: str, lines: Iterable[tuple[int, str]], head: str = "", aliases: Sequence[str] = ()
    ) -> Iterator[Reading]:
        """All records of a text member. `head` is its beginning, to tell HTML; `lines` are (number, text) pairs.

        A reader may know the member by its own path, else by one of `aliases`, the paths of links that lead to it.
        """
        told = recorded(member)
        command = output_of(member) or told.command
        context = _Context(member, self.known_path(member, aliases), time=told.begun, command=command)
        markup = looks_like_html(head)
        if whole := self._claims_path(context.path):
            rest = WholeText(lines, markup=markup)
            yield from self._block(whole, context, rest.number, rest)
            return
        ahead = _Ahead(cleaned(lines, markup=markup))
        silent = 0
        while (line := ahead.next()) and silent < LONGEST_SILENCE:
            before = silent
            for reading in self._step(line, context, ahead):
                silent = -1
                yield reading
            silent = before + 1 if silent >= 0 else 0
        if ahead.peek(1):
            cite = Citation(member, ahead.peek(1)[0].number)
            text = f"{LONGEST_SILENCE} lines in a row fit no format; the rest was not looked at"
            yield Reading(Problem(cite, text, ProblemKind.LIMIT), "", context.group)

    def _step(self, line: TextLine, context: _Context, ahead: _Ahead) -> Iterator[Reading]:
        """Deal with one line: a prompt, a time, a speaker, the opening of a block, or nothing of these."""
        if not line.text:
            ahead.take()
            return
        _quoting(line, context)
        if (typed := prompt(line.text)) is not None:
            ahead.take()
            yield from self._command(line, typed, context, ahead)
            return
        for margin in () if line.text.startswith(RECORDER_MARK) else _margins(line.text):
            if reader := self._opening(ahead, margin):
                yield from self._block(reader, context, line.number, self._lines(reader, ahead, margin))
                return
        if (moment := stamp(line.text)) is not None:
            before = context.time if 0 < line.number - context.timed <= NEXT else None
            context.time, context.timed = moment, line.number
            yield from self._clock(line, moment, before, context)
        else:
            yield from self._words(line, context, ahead)
        ahead.take()

    def _clock(self, line: TextLine, at: Moment, before: Moment | None, context: _Context) -> Iterator[Reading]:
        """Time lines may tell the zone of the host, each time anew."""
        ahead = ahead_of_utc(line.text)
        ahead = ahead_by_two(line.text, at, context.command, before) if ahead is None else ahead
        if ahead is not None and ahead != context.ahead:
            context.ahead = ahead
            utc = at if at.clock is Clock.UTC else Moment(at.seconds - ahead, Clock.UTC)
            fact = Fact("host.utc_offset", ahead, Citation(context.member, line.number, line.text), time=utc)
            yield Reading(fact, "prose", context.group)

    def _words(self, line: TextLine, context: _Context, ahead: _Ahead) -> Iterator[Reading]:
        """A line of prose: it may change the speaker, name a kernel in passing, or tell of a command."""
        following = ahead.peek(2)
        if not line.depth and (name := speaker(line.text, following[1].text if len(following) > 1 else "")):
            context.speaks(name)
            return
        cite = Citation(context.member, line.number, line.text)
        for record in _told(cite, line.text):
            yield Reading(record, "prose", context.group)

    def _command(self, line: TextLine, typed: Prompt, context: _Context, ahead: _Ahead) -> Iterator[Reading]:
        """A typed command: operator actions, and the path of what it prints."""
        context.typed(typed)
        cite = Citation(context.member, line.number, line.text)
        answer = ahead.peek(1)
        how = "failed" if answer and refused(answer[0].text) else "root" if typed.user == "root" else "prompt"
        for record in actions(cite, context.command, how=how):
            yield Reading(record, "operator_actions", context.group)
        while (
            not context.looping
            and context.paths
            and (reader := self._claims_path(context.paths[0]))
            and self._output_follows(ahead)
        ):
            output = self._paragraph(reader, ahead) if len(context.paths) == 1 else self._single(ahead)
            yield from self._block(reader, context, ahead.peek(1)[0].number, output)
            context.paths.popleft()

    def _output_follows(self, ahead: _Ahead) -> bool:
        following = ahead.peek(1)
        return bool(following and following[0].text.strip() and not prompt(following[0].text))

    def known_path(self, member: str, aliases: Sequence[str] = ()) -> str:
        """The path on the host by which a reader knows the member, else the member's own."""
        paths = [system_path(path) or path for path in (member, *aliases)]
        return next((path for path in paths if self._claims_path(path)), paths[0])

    def _claims_path(self, path: str) -> Reader | None:
        return next((r for r in self._by_path if any(p.search(path) for p in r.paths)), None)

    def _opening(self, ahead: _Ahead, margin: str, skip: int = 0) -> Reader | None:
        """The reader whose block opens at the next line, or that after `skip` ones, once the margin is off.

        The margin is the indentation of a whole paste.
        """
        first = ahead.next() if not skip else next(iter(ahead.peek(skip + 1)[skip:]), None)
        for reader in self._openers(first.text.removeprefix(margin)) if first else ():
            if reader.confirm is None:
                return reader
            lines = ahead.peek(skip + reader.lookahead + 1)[skip:]
            if reader.confirm([line.text.removeprefix(margin) for line in lines]):
                return reader
        return None

    def _openers(self, text: str) -> tuple[Reader, ...]:
        """The readers that may open at a line, as asked; recorders print the same headers again and again."""
        known = self._recent.get(text)
        if known is None:
            known = self._openers_of(text)
            if len(text) <= LONGEST_KEPT:
                if len(self._recent) >= MOST_KEPT:
                    self._recent.clear()
                self._recent[text] = known
        return known

    def _openers_of(self, text: str) -> tuple[Reader, ...]:
        if not self._any.match(text) and not any(r.opens and r.opens.match(text) for r in self._loose):
            return ()
        return tuple(reader for reader in self._readers if reader.opens and reader.opens.match(text))

    def bulk(self, reader: BulkReader, member: str, content: Content) -> Iterator[Reading]:
        """All records of a member that is read as bytes; lines of another format in it go to the line readers."""
        source = Source(member, command=output_of(member), path=system_path(member) or member)
        host = ""
        for record in self.spared(reader.name, Citation(member), reader.read(source, content)):
            if isinstance(record, Foreign):
                yield from self.read(member, record.lines)
                continue
            host = _named_host(record) or host
            yield Reading(record, reader.name, (MAIN, host))

    def _block(
        self, reader: Reader, context: _Context, first: int | None, lines: Iterator[tuple[int, str]]
    ) -> Iterator[Reading]:
        """Have a reader read its lines from the `first` on; what it leaves unread is still taken off the text."""
        source = context.source()
        cite = Citation(source.member, first)
        for record in self.spared(reader.name, cite, reader.read(source, lines)):
            context.host = _named_host(record) or context.host
            yield Reading(record, reader.name, context.group)
        for _ in lines:
            pass

    def spared(self, reader: str, cite: Citation, records: Iterable[_Given]) -> Iterator[_Given | Problem]:
        """The same; a mistake of the reader becomes a problem behind what it gave before."""
        try:
            yield from records
        except Exception as error:
            if self._strict:
                raise
            yield _failed(cite, reader, error)

    def _lines(self, reader: Reader, ahead: _Ahead, margin: str) -> Iterator[tuple[int, str]]:
        """The lines of a block without its margin: the opening one, and further ones while they belong.

        A single foreign line between two that belong (a row that was cut, a message to all terminals) is given to the
        reader, which says that it is odd; to end the block there would lose all that follows without a word.
        """
        line = ahead.take()
        depth = line.depth if line else 0
        while line is not None:
            yield line.number, line.text.removeprefix(margin)
            further = self._belongs(reader, ahead.next(), margin, depth)
            if not further and not self._intrudes(reader, ahead, margin, depth):
                return
            line = ahead.take()

    @staticmethod
    def _belongs(reader: Reader, following: TextLine | None, margin: str, depth: int) -> bool:
        """Whether the following line is a further one of the block."""
        if following is None or following.depth != depth or prompt(following.text):
            return False
        return bool(reader.continues(following.text.removeprefix(margin)))

    def _intrudes(self, reader: Reader, ahead: _Ahead, margin: str, depth: int) -> bool:
        """Whether the next line is a foreign one in the middle of a block: it says nothing, and the block goes on."""
        following = ahead.peek(2)
        if len(following) < 2 or not following[0].text.strip() or not following[1].text.strip():
            return False
        foreign, after = following
        if foreign.text.startswith(RECORDER_MARK) or not self._belongs(reader, after, margin, depth):
            return False
        if self._opening(ahead, margin, skip=1) not in (None, reader):
            return False
        return not self._speaks(foreign.text, after.text) and self._opening(ahead, margin) is None

    @staticmethod
    def _speaks(text: str, following: str) -> bool:
        """Whether a line outside of blocks would mean something."""
        if prompt(text) is not None or stamp(text) is not None or speaker(text, following) is not None:
            return True
        return next(_told(Citation(""), text), None) is not None

    @staticmethod
    def _single(ahead: _Ahead) -> Iterator[tuple[int, str]]:
        if (line := ahead.take()) is not None:
            yield line.number, line.text

    def _paragraph(self, reader: Reader, ahead: _Ahead) -> Iterator[tuple[int, str]]:
        """The lines to the next empty one or prompt, or to a block of another reader that this one has no use for."""
        while (following := ahead.peek(1)) and (text := following[0].text).strip() and not prompt(text):
            other = self._opening(ahead, "") if not reader.continues(text) else None
            if other not in (None, reader):
                return
            line = ahead.take()
            if line is not None:
                yield line.number, line.text


def _failed(cite: Citation, reader: str, error: Exception) -> Problem:
    """What became of a reader that did not come to its end."""
    if isinstance(error, MemoryError):
        text = f"needs more memory than there is for reader {reader}; the rest was not read"
        return Problem(cite, text, ProblemKind.LIMIT, reader)
    text = f"a mistake of thpdiag: reader {reader} failed ({type(error).__name__}: {error})"
    return Problem(cite, text, ProblemKind.BUG, reader)


def _margins(text: str) -> Iterable[str]:
    """The indentations that a block may have: none, or that of its first line."""
    return dict.fromkeys(("", text[: len(text) - len(text.lstrip())]))


def _named_host(record: Record) -> str:
    """The host that a record names, without its domain."""
    return str(record.value).split(".")[0] if isinstance(record, Fact) and record.name == "host.name" else ""


def _told(cite: Citation, text: str) -> Iterator[Record]:
    """What a line of prose tells of commands and hosts."""
    yield from actions(cite, text, how="prose")
    yield from said(cite, text)


def _quoting(line: TextLine, context: _Context) -> None:
    """Quoted lines of a mail are another speaker than the lines around them."""
    quoted = f"quoted {line.depth}" if line.depth else MAIN
    if line.depth and context.speaker != quoted:
        context.speaks(quoted)
    elif not line.depth and context.speaker.startswith("quoted "):
        context.speaks(MAIN)
