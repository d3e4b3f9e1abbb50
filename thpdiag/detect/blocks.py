"""Find the blocks of known formats in a member and have each read by its parser.

A whole /proc/vmstat, a terminal session with twenty commands, a mail that quotes a perf report, a loop that prints
the date between two outputs: all are texts in which blocks of known formats stand between other lines. One walk
finds them: prompts and time lines set the context, a line that a parser `opens` at starts a block, the parser's
`continues` ends it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, takewhile
from re import Pattern
from typing import TypeVar

from thpdiag.detect.context import MAIN, TRACED, Context, PartBelow
from thpdiag.detect.expansion import (
    Part,
    first_lines,
    parts_of,
    steps_of,
)
from thpdiag.detect.labels import heading_settings
from thpdiag.detect.layout import (
    NUMBERING,
    PEEKED_LINES,
    REMOTE,
    Hosts,
    is_double_spaced,
    margin_of,
    may_have_prefix,
    prefix_of,
    without_gaps,
    without_prefix,
)
from thpdiag.detect.lookahead import LookaheadLines, SectionLines
from thpdiag.detect.named_files import (
    MAX_GAP_LINES,
    MAX_HEADED_LINES,
    MAX_JSON_LINES,
    Name,
    Section,
    files_in_json,
    headed_host,
    host_heading,
    is_block_name,
    is_end,
    is_fence,
    is_host_heading,
    is_report,
    is_section,
    may_be_host_heading,
    may_be_json,
    may_be_name,
    name_in,
    section_of,
    unplaced_setting,
)
from thpdiag.detect.remote_commands import RemoteCommand, remote_commands, remote_outputs, without_remote
from thpdiag.detect.session import (
    acts,
    is_refused,
    operator_actions,
    operator_changes,
    printed_name,
    prose_facts,
    switches_setting,
)
from thpdiag.detect.session_clock import SessionClock, TaggedRecord, named_host, with_time
from thpdiag.detect.shell import is_complete, plan_of, script_of
from thpdiag.detect.testimony import testimony
from thpdiag.detect.text_parts import MAX_HEADER_LINES, TextParts
from thpdiag.detect.timestamps import (
    RECORDER_MARK,
    ending_date,
    parse_time_of_day,
    parse_timestamp,
    recorder_of,
    utc_offset_of_line,
    utc_offset_of_pair,
)
from thpdiag.detect.transcript import (
    HostNames,
    Prompt,
    TextLine,
    WholeText,
    looks_like_html,
    parse_prompt,
    parse_speaker,
    parse_watch,
)
from thpdiag.knowledge.paths import SUPPORTCONFIG, output_of, system_path
from thpdiag.model import Citation, Clock, Event, Fact, Listing, Moment, Problem, ProblemKind, Record
from thpdiag.model.facts import DAY
from thpdiag.model.parser import BulkParser, Content, Foreign, Format, OutOfTimeError, Parser, Source
from thpdiag.model.text import describe_error

MAX_UNCLAIMED_LINES = 2_000_000  # unclaimed lines after which the rest of a member is left unread, with a Problem
_TIME_PRINTED = re.compile(r"\bdate\s{1,4}['\"]?\+[^;|&]{0,40}%(?:T|H)")
MAX_CACHED_CHARS, MAX_CACHED_LINES = 240, 4096  # of lines of which it is remembered who may open at them
MAX_COMMAND_LINES = 60  # of a command, or of a script that a command shows
MAX_PREFIXES = 8  # of one line, each of which may be another listing's
_CONTINUATION = re.compile(r"(?:(?:for|while|until|then|do|quote|dquote|heredoc|pipe|cmdand|subsh) ?){0,4}>[ ]?")
_SCRIPT = re.compile(r"#! ?/\S{1,80}\b(?:ba|da|k|z)?sh\b")
MAX_ROUND_LINES = 400  # that one round of a loop prints; /proc/vmstat has some 200
ADJACENT_LINES = 2  # lines from one time line to the next if nothing but a prompt stands between them
MAX_OUTPUT_LINES = 4000  # of a command of which it is looked for what belongs to which setting
UNCLEAR = "unclear"  # how a setting was written: under which value the lines below were printed is not known
_TRACING = re.compile(r"\bset -\w{0,4}x|\b(?:ba|da|k)?sh -\w{0,4}x\b")
MAX_FILE_LINES = 400  # of a file that stands below its name
SETTINGS = "transparent_hugepage"
_AnyRecord = TypeVar("_AnyRecord", Record, Record | Foreign)  # by parsers of lines, and of bytes


class _BlockLines:
    """The lines of a block; rows of a table in it can be taken many at once."""

    def __init__(self, detector: Detector, parser: Parser, ahead: LookaheadLines, margin: str) -> None:
        self.stamps: dict[int, str] = {}  # times that stood before the lines
        self._lines = detector.lines(parser, ahead, margin, self.stamps)
        self._ahead, first = ahead, ahead.next()
        self._is_plain = not margin and first is not None and not first.depth

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self._lines

    def __next__(self) -> tuple[int, str]:
        return next(self._lines)

    def rows(self, pattern: Pattern[str]) -> list[str]:
        """Takes the next lines that match, as far as they are at hand."""
        return self._ahead.take_rows(pattern.match) if self._is_plain else []


class Detector:
    """Splits members into blocks with a fixed set of parsers. `strict` re-raises a parser's own mistakes (tests)."""

    def __init__(self, formats: Sequence[Format], *, strict: bool = False) -> None:
        self._opening = sorted(formats, key=lambda f: (-f.priority, f.name))
        self._by_word: dict[str, list[int]] = {}  # places in that list; a line is searched for each word once
        for place, one in enumerate(self._opening):
            for word in one.words or ("",):
                self._by_word.setdefault(word, []).append(place)
        self._by_path = [f for f in formats if f.paths]
        self._strict = strict
        self._recent: dict[str, tuple[Parser, ...]] = {}

    def read(
        self, member: str, lines: Iterable[tuple[int, str]], head: str = "", aliases: Sequence[str] = ()
    ) -> Iterator[TaggedRecord]:
        """All records of a text member, row by row.

        `head` is its beginning, to tell HTML; `lines` are (number, text) pairs. A parser may know the member by its own
        path, else by one of `aliases`, the paths of links that lead to it.
        """
        for reading in self.read_listings(member, lines, head, aliases):
            if isinstance(reading.record, Listing):
                yield from (replace(reading, record=row) for row in reading.record)
            else:
                yield reading

    def read_listings(
        self, member: str, lines: Iterable[tuple[int, str]], head: str = "", aliases: Sequence[str] = ()
    ) -> Iterator[TaggedRecord]:
        """The same, rows as listings where a parser gives such."""
        recorder, paths = recorder_of(member), [system_path(path) or path for path in (member, *aliases)]
        known_path = next((path for path in paths if self._parser_of_path(path)), paths[0])
        session, parts = SessionClock(member), TextParts(member)
        context = Context(
            member, known_path, session, parts, time=recorder.begun, command=output_of(member) or recorder.command
        )
        markup = looks_like_html(head)
        context.is_report = is_report(head)
        if whole := self._parser_of_path(context.path):
            rest = WholeText(lines, markup=markup)
            yield from self._block(whole, context, rest.number, rest)
            return
        ahead = LookaheadLines(lines, session.other_line, markup=markup)
        silent, is_read = 0, False
        while (line := ahead.next()) and silent < MAX_UNCLAIMED_LINES:
            before = silent
            for reading in self._step(line, context, ahead):
                silent = -1
                is_read = True
                session.take(reading)
                yield from session.ready()
            silent = before + 1 if silent >= 0 else 0
        session.finish()
        yield from session.ready()
        for group, written in context.accounts.items() if not system_path(member) else ():
            for fact in testimony(member, written):
                is_read = True
                yield TaggedRecord(fact, "prose", group)
        yield from (TaggedRecord(part, "", context.group) for part in parts.events())
        if is_read and (problem := context.remains.problem(member)):
            yield TaggedRecord(problem, "", context.group)
        if line:
            cite = Citation(member, line.number)
            text = f"{MAX_UNCLAIMED_LINES} lines in a row match no format; the rest was not read"
            yield TaggedRecord(Problem(cite, text, ProblemKind.LIMIT), "", context.group)

    def _step(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Deal with one line: a prompt, a time, a speaker, the opening of a block, or nothing of these."""
        if not line.text:
            context.write_down(line)
            ahead.take()
            return
        context.set_quoting(line)
        if line.text.startswith("#==[") and (section := section_of([one.text for one in ahead.peek(2)])):
            yield from self._section(section, context, ahead)
            return
        if context.parts and line.number >= context.parts[0].line:
            yield from self._begin_part(context.parts.popleft(), line, context, ahead)
            return
        if (
            self._take_off_gaps(context, ahead)
            or self._take_off_margin(line, ahead)
            or (may_have_prefix(line.text) and self._take_off_prefix(context, ahead))
        ):
            return
        if may_be_host_heading(line.text) and self._take_host(line, context, ahead):
            yield from self._printed_files(context, ahead)
            return
        if (typed := self._read_command(line, context, ahead)) is not None:
            yield from typed
        elif self._is_named_first(line, ahead) and (named := self._named_content(line, context, ahead)) is not None:
            yield from named
        elif (opened := self._block_at(line, context, ahead)) is not None:
            yield from opened
        elif (named := self._named_content(line, context, ahead)) is not None:
            yield from named
        else:
            yield from self._time_or_words(line, context, ahead)

    def _read_command(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord] | None:
        """What a command at a prompt does, or one that `set -x` or watch shows; None if the line is none of them."""
        if context.tracing and (traced := TRACED.match(line.text)) is not None:
            ahead.take()
            return self._traced_command(line, traced["cmd"], context)
        if not context.is_report and (typed := parse_prompt(line.text)) is not None:
            ahead.take()
            if printed := self._printed_behind(typed, ahead):
                typed = typed._replace(command=typed.command.removesuffix(printed).rstrip())
                ahead.put_back(line._replace(text=printed))
            return self._command(line, typed, context, ahead)
        if (screen := parse_watch(line.text)) is not None:
            ahead.take()
            context.time, context.looping = screen[1], False
            return self._command(line, screen[0], context, ahead)
        return None

    def _block_at(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord] | None:
        """The block that opens at a line, None if none does. It has no indentation, or that of its first line."""
        margins = dict.fromkeys(("", line.text[: len(line.text) - len(line.text.lstrip())]))
        for margin in () if line.text.startswith(RECORDER_MARK) else margins:
            if parser := self._parser_at(ahead, margin):
                context.remains.begin_block(parser, line)
                return self._block(parser, context, line.number, _BlockLines(self, parser, ahead, margin))
        return None

    @staticmethod
    def _is_named_first(line: TextLine, ahead: LookaheadLines) -> bool:
        """Whether a name says more of a line than how it begins: before an indented block, behind a value."""
        if not may_be_name(line.text):
            return False
        below = ahead.peek(2)[1:]
        return line.text[-1:] == ")" or (bool(below) and is_block_name(line.text, below[0].text))

    def _section(self, section: Section, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """A section of supportconfig. A file that a parser knows by its path is read to the end of the section."""
        name = ahead.peek(section.lines)[-1]
        for _ in range(section.lines):
            ahead.take()
        context.take_section(section)
        cite = Citation(context.member, name.number, name.text)
        first, parser = ahead.next(), self._parser_of_path(section.path) if section.path else None
        if parser and section.is_missing:
            labels = (("how", "file"), ("tool", SUPPORTCONFIG))
            yield TaggedRecord(Fact("capture.not_found", section.path, cite, labels), SUPPORTCONFIG, context.group)
        elif parser and first and not is_section(first.text):
            lines = SectionLines(ahead)
            yield from self._block(parser, context, first.number, lines)
            context.paths.clear()
            if 0 < section.most <= lines.count:
                yield TaggedRecord(Fact("capture.tail", section.path, cite), SUPPORTCONFIG, context.group)

    @staticmethod
    def _take_host(line: TextLine, context: Context, ahead: LookaheadLines) -> bool:
        """Whether this line, or the three that begin with it, name the host of what the last command printed below."""
        if context.is_report:
            return False
        host, lines, rest = host_heading([one.text for one in ahead.peek(3)])
        if not host and (headed := headed_host(line.text))[0]:
            alike = context.headed.setdefault(headed[1], set())
            alike |= {
                name
                for name, kind in (headed_host(one.text) for one in ahead.peek(MAX_HEADED_LINES))
                if kind == headed[1]
            }
            host, lines = headed[0] if len(alike) > 1 else "", 1
        if not host:
            return False
        for _ in range(lines):
            ahead.take()
        if rest:
            ahead.put_back(line._replace(text=rest))
        context.take_prompt(Prompt(context.command, host))
        return True

    def _named_content(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterable[TaggedRecord] | None:
        """The records of a file whose name this line holds; None if it names none, or another thing stands there."""
        if context.is_report:
            return None
        if may_be_json(line.text) and line.number >= context.json_from:
            files = self._json_files(line, context, ahead)
            if files is not None:
                return files
        if not may_be_name(line.text):
            return None
        if is_end(line.text):
            ahead.take()
            context.paths.clear()
            return ()
        name = name_in([one.text for one in ahead.peek(2 + MAX_GAP_LINES)])
        return None if name is None else self._named_file(name, line, context, ahead)

    def _named_file(
        self, name: Name, line: TextLine, context: Context, ahead: LookaheadLines
    ) -> list[TaggedRecord] | None:
        """The records of the file; none where its parser goes on from here, as below the command that prints it."""
        if name.value is not None:
            content, count = [(line.number, name.value)], 1
        else:
            lines = ahead.peek(name.lines + (1 if name.has_one_line else MAX_FILE_LINES))
            fenced = any(is_fence(one.text) for one in lines[1 : name.lines])
            content = [(one.number, one.text) for one in _content_lines(lines[name.lines :], fenced=fenced)]
            count = name.lines + len(content)
        of_path = self._parser_of_path(name.path)
        parser = of_path or (self._opener([text for _, text in content]) if content else None)
        if parser is None or not content:
            return None
        records: list[TaggedRecord] | None = []
        if of_path or name.has_one_line:
            records = self._records_of_file(name.path, parser, content, context)
        else:
            context.take_name(name.path)
            count = name.lines
        for _ in range(0 if records is None else count):
            ahead.take()
        return records

    def _records_of_file(
        self, path: str, parser: Parser, content: Sequence[tuple[int, str]], context: Context
    ) -> list[TaggedRecord] | None:
        """The records of a file, None if that is not what its parser knows."""
        if len(content) == 1:
            content = [(content[0][0], content[0][1].strip())]
        source = Source(context.member, time=context.time, command=f"cat /{path}", path=path)
        cite = Citation(context.member, content[0][0])
        records = list(self.guard(parser.name, cite, parser.read(source, iter(content))))
        if not records or any(isinstance(record, Problem) for record in records):
            return None
        return [TaggedRecord(record, parser.name, context.group) for record in records]

    def _json_files(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterable[TaggedRecord] | None:
        """The records of the files in the JSON document that begins at the next line."""
        count, files = files_in_json([line.text])
        if not count and line.text.rstrip()[-1:] in "{[,":
            lines = [one.text for one in ahead.peek(MAX_JSON_LINES)]
            count, files = files_in_json(lines)
            context.json_from = line.number + (0 if files else count or len(lines))  # its parts have none either
        if not files:
            return None
        for _ in range(count):
            ahead.take()
        found: list[TaggedRecord] = []
        for file in files:
            content = [(line.number + file.line, text) for text in file.content.splitlines() or [""]]
            context.name_host(file.host)
            parser = self._parser_of_path(file.path)
            if parser:
                found += self._records_of_file(file.path, parser, content, context) or ()
                continue
            context.take_name(file.path)
            below = LookaheadLines(iter(content), context.session.other_line, markup=False)
            while (one := below.next()) is not None:
                found += self._step(one, context, below)
        context.paths.clear()
        return found

    def _time_or_words(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Deal with a line that no parser knows."""
        moment, date = parse_timestamp(line.text), ""
        if moment is None and _TIME_PRINTED.search(context.command):
            moment = parse_time_of_day(line.text, context.time)
        if moment is not None:
            before = context.time if 0 < line.number - context.timed <= ADJACENT_LINES else None
            context.time, context.timed = moment, line.number
            context.session.time_line(moment)
            context.text_parts.date(line, moment, context.command)
            yield from self._clock(line, moment, before, context)
        else:
            date = self._first_date(line.text, ahead, 1)
            if not context.is_report:  # full of tables that tell nothing of memory
                context.remains.see(line)
            yield from self._words(line, context, ahead)
        ahead.take()
        if date:
            ahead.put_back(line._replace(text=date))

    def _printed_behind(self, typed: Prompt, ahead: LookaheadLines) -> str:
        """What a prompt shows that nobody typed: output of a job, or of a loop behind a file without a line end."""
        if not typed.command or not (typed.host or typed.folder):
            return ""
        below = [line.text for line in ahead.peek(PEEKED_LINES)]
        if self._opener([typed.command, *below]) or parse_timestamp(typed.command):
            return typed.command
        return self._first_date(typed.command, ahead, 0)

    def _first_date(self, text: str, ahead: LookaheadLines, skip: int) -> str:
        """The date at the end of a line, if a loop begins with it that prints a date in each round."""
        date = ending_date(text)
        moment = parse_timestamp(date) if date else None
        if moment is None:
            return ""
        below = [line.text for line in ahead.peek(2 * MAX_ROUND_LINES)[skip:]]
        if not below or not self._opener(below):
            return ""
        later = list(islice(filter(None, map(parse_timestamp, below)), 2))
        if not later or any(one.clock is not moment.clock for one in later):
            return ""
        rounds = [after.seconds - before.seconds for before, after in pairwise((moment, *later))]
        return date if 0 < min(rounds) <= max(rounds) <= min(DAY, 2 * min(rounds)) else ""

    def _take_off_margin(self, line: TextLine, ahead: LookaheadLines) -> bool:
        """Have the blanks that all lines of a paste begin with taken off, unless a parser asks for them."""
        lines = ahead.peek(PEEKED_LINES) if line.text[0] in " \t" else []
        if not lines or (margin := margin_of(lines)) is None:
            return False
        bare = [line.text for line in takewhile(bool, map(margin, lines)) if line]
        if self._parser_at(ahead, "") and not self._opener(bare):
            return False
        ahead.change(partial(without_prefix, margin))
        return True

    def _take_off_gaps(self, context: Context, ahead: LookaheadLines) -> bool:
        """Have the empty line behind each line taken off, if a parser knows one of the lines."""
        first, second = [*ahead.peek(2), None, None][:2]
        if first is None or second is None or second.text or first.number <= context.looked_at:
            return False
        lines = ahead.peek(2 * PEEKED_LINES)
        if not is_double_spaced(lines):
            return False
        if not self._is_known(lines[::2]):
            context.look_past(next((line for line in lines[1::2] if line.text), lines[-1]))
            return False
        ahead.change(without_gaps)
        return True

    def _take_off_prefix(
        self, context: Context, ahead: LookaheadLines, *, expected: bool = False, remote: bool = False
    ) -> bool:
        """Have what stands before each line taken off, if a parser knows what is behind it and not the whole."""
        first = ahead.next()
        if first is None or (first.number <= context.looked_at and not expected):
            return False
        lines = ahead.peek(PEEKED_LINES)
        if (prefix := prefix_of(lines, expected=expected, remote=remote)) is None:
            return False
        expected |= remote and isinstance(prefix, Hosts)
        tried = replace(prefix)  # it counts
        bare = [line for line in takewhile(bool, map(tried, lines)) if line]
        certain = expected or prefix.is_certain or self._is_unread(lines, bare)
        if not certain or not (expected or self._is_known(bare)):
            context.look_past(bare[-1])
            return False
        context.looked_at = context.looks = 0
        if bare[0].stamp:
            context.time = None
        ahead.change(partial(without_prefix, prefix))
        return True

    def _is_unread(self, lines: Sequence[TextLine], bare: Sequence[TextLine]) -> bool:
        """Whether no parser knows the lines with their prefix, or one that would take any word for it."""
        known = self._opener([line.text for line in lines])
        if known is None or known.priority < 0:  # sentences are read with what is before them
            return known is None
        return known is self._opener([f"x {line.text}" for line in bare])

    def _is_known(self, lines: Sequence[TextLine], prefixes: int = 1) -> bool:
        """Whether one of the lines is the first of a block, or a prompt, perhaps behind further prefixes."""
        texts = [line.text for line in lines]
        if any(parse_prompt(texts[at]) or self._opener(texts[at:]) for at in range(len(texts)) if texts[at]):
            return True
        further = prefix_of(lines) if prefixes < MAX_PREFIXES else None
        bare = [line for line in takewhile(bool, map(further, lines)) if line] if further else []
        return bool(bare) and self._is_known(bare, prefixes + 1)

    def _clock(self, line: TextLine, at: Moment, before: Moment | None, context: Context) -> Iterator[TaggedRecord]:
        """Time lines may tell the zone of the host, each time anew."""
        ahead = utc_offset_of_line(line.text)
        ahead = utc_offset_of_pair(line.text, at, context.command, before) if ahead is None else ahead
        if ahead is not None and ahead != context.ahead:
            context.ahead = ahead
            utc = at if at.clock is Clock.UTC else Moment(at.seconds - ahead, Clock.UTC)
            fact = Fact("host.utc_offset", ahead, Citation(context.member, line.number, line.text), time=utc)
            yield TaggedRecord(fact, "prose", context.group)

    def _words(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """A line of prose: it may change the speaker, name a kernel in passing, or tell of a command."""
        if name := parse_speaker(*_texts(ahead)):
            context.text_parts.heading(ahead.peek(MAX_HEADER_LINES))
            if not line.depth:
                context.set_speaker(name)
                return
        script = self._script(ahead) if _SCRIPT.match(line.text) else []
        if script:
            context.session.command("\n".join(one.text for one in script), context.host, context.time)
        else:
            context.session.other_line(line.text)
        for one in script or (line,):
            context.write_down(one)
            for record in _prose_records(Citation(context.member, one.number, one.text), one.text):
                yield TaggedRecord(record, "prose", context.group)
        for _ in script[1:]:
            ahead.take()

    def _script(self, ahead: LookaheadLines) -> list[TextLine]:
        """The script that begins with the next line, up to an empty one or to what it printed."""
        script: list[TextLine] = []
        for line in ahead.peek(MAX_COMMAND_LINES):
            if not line.text or parse_prompt(line.text) or self._parser_at(ahead, "", skip=len(script)):
                break
            script.append(line)
        return script

    def _command(
        self, line: TextLine, typed: Prompt, context: Context, ahead: LookaheadLines, *, remote: bool = False
    ) -> Iterator[TaggedRecord]:
        """A typed command: operator actions, and the path of what it prints."""
        typed = typed._replace(command=_further_lines(typed.command, line.depth, ahead))
        context.take_prompt(typed, remote=remote)
        steps = steps_of(context.command, context.session.scripts, context.variables, context.functions)
        if not remote and (calls := remote_commands(steps, context.command)):
            yield from self._on_other_hosts(line, calls, typed.user, context, ahead)
            return
        texts = (following.text for following in ahead.peek(MAX_COMMAND_LINES))
        below = list(takewhile(lambda text: not parse_prompt(text), texts))
        if SessionClock.shows_file(typed.command):
            context.session.shown(typed.command, below)
        if not is_refused(below):
            context.services.take(context.command, below)
        context.session.command(typed.command, context.host, context.time)
        cite = Citation(context.member, line.number, line.text)
        if NUMBERING.search(typed.command):
            self._take_off_prefix(context, ahead, expected=True)
        elif REMOTE.search(typed.command):
            self._take_off_prefix(context, ahead, remote=True)
        context.tracing |= bool(_TRACING.search(typed.command))
        parts = parts_of(steps, switches_setting, acts) if steps else []
        if len(parts) > 1:
            self._expect_parts(line, parts, typed.user, context, ahead)
        else:
            how = "failed" if is_refused(below) else "root" if typed.user == "root" else "prompt"
            whole = "; ".join(step.text for step in steps) if steps else context.command
            yield from _events_of_command(cite, whole, how, context)
            if steps and ((len(steps) == 1 and "$" in context.command) or any(map(acts, steps))):
                printing = dict.fromkeys(step.text for step in parts[0].prints if not step.line)
                context.command = "; ".join(printing) or whole
        yield from self._printed_files(context, ahead)

    def _on_other_hosts(
        self, line: TextLine, calls: Sequence[RemoteCommand], user: str, context: Context, ahead: LookaheadLines
    ) -> Iterator[TaggedRecord]:
        """What runs on other hosts, host by host. What cannot be told apart is not read."""
        command, hosts = context.command, {call.host for call in calls}
        if len(hosts) == 1 and calls[0].host:
            typed = Prompt(without_remote(command), calls[0].host, user=user)
            yield from self._command(line, typed, context, ahead, remote=True)
            return
        below = [*takewhile(lambda one: context.tracing_allows(one.text), ahead.peek(MAX_OUTPUT_LINES))]
        if outputs := remote_outputs(calls, command, [one.text for one in below]):
            context.paths.clear()
            for host, printing, mark, first in outputs:
                number = below[first].number if first < len(below) else below[-1].number + 1
                context.parts.append(PartBelow(number, (), printing, "prompt", host))
                ahead.stops |= {below[mark].number, number}
            return
        cite = Citation(context.member, line.number, line.text)
        for call in calls:
            context.take_prompt(Prompt(call.command, call.host, user=user), remote=True)
            yield from _events_of_command(cite, call.command, UNCLEAR if below else "prompt", context)
        context.take_prompt(Prompt(calls[0].command))
        if below and not self._take_off_prefix(context, ahead, remote=True):
            context.take_prompt(Prompt(""))
            text = (
                "the output of several hosts, and no line says which of them printed it; it was not read. Print "
                "each host's name before its output"
            )
            yield TaggedRecord(Problem(cite, text, ProblemKind.UNREADABLE), "", context.group)
            for _ in below:
                ahead.take()

    def _printed_files(self, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """The files that the last command prints, where their contents begin here."""
        if context.paths and "transparent_hugepage" in context.paths[0]:  # `hostname; date; cat enabled defrag`
            texts = [one.text for one in ahead.peek(MAX_GAP_LINES + 1)]
            before = next((number for number, text in enumerate(texts) if unplaced_setting(text)), 0)
            if before and not any(map(parse_prompt, texts[:before])) and not is_host_heading(*_texts(ahead)):
                context.name_host(printed_name(context.command, texts[0]))
                for _ in range(before):
                    if (line := ahead.next()) and not unplaced_setting(line.text):
                        yield from self._step(line, context, ahead)
        while (
            not context.looping
            and context.paths
            and (parser := self._parser_of_path(context.paths[0]))
            and (first := ahead.next())
            and first.text.strip()
            and not parse_prompt(first.text)
            and not is_host_heading(*_texts(ahead))
        ):
            only = len(context.paths) == 1
            output = self._paragraph(parser, ahead) if only else iter([(first.number, first.text)])
            yield from self._block(parser, context, first.number, output)
            if not only:
                ahead.take()
            context.paths.popleft()

    @staticmethod
    def _expect_parts(
        line: TextLine, parts: Sequence[Part], user: str, context: Context, ahead: LookaheadLines
    ) -> None:
        """Find which lines of the output that comes next belong to which setting."""
        how = "root" if user == "root" else "prompt"
        below = [
            one
            for one in takewhile(lambda one: context.tracing_allows(one.text), ahead.peek(MAX_OUTPUT_LINES))
            if one.depth == line.depth or not one.text
        ]
        printing = [part for part in parts if part.prints]
        starts = first_lines(printing, [one.text for one in below], traced=context.tracing) if below else None
        end = below[-1].number + 1 if below else line.number
        if starts is None:
            done = tuple(step.text for part in parts for step in part.writes)
            context.parts.append(PartBelow(line.number, done, context.command, UNCLEAR))
            context.parts.append(PartBelow(end, done, "", how))
            return
        for part, at in zip(printing, starts, strict=True):
            prints = dict.fromkeys(step.text for step in part.prints if not step.line)
            failed = is_refused(one.text for one in below[at:])
            first = below[at].number if at else line.number + 1
            done = tuple(step.text for step in part.writes)
            ahead.stops.add(first)
            context.parts.append(PartBelow(first, done, "; ".join(prints), "failed" if failed else how))
        if not parts[-1].prints:
            context.parts.append(PartBelow(end, tuple(step.text for step in parts[-1].writes), "", how))

    def _begin_part(
        self, part: PartBelow, line: TextLine, context: Context, ahead: LookaheadLines
    ) -> Iterator[TaggedRecord]:
        if part.host:
            yield from self._command(line, Prompt(part.command, part.host), context, ahead, remote=True)
            return
        cite = Citation(context.member, line.number, line.text)
        context.command = part.command or context.command
        for command in part.done:
            yield from _events_of_command(cite, command, part.how, context)

    @staticmethod
    def _traced_command(line: TextLine, command: str, context: Context) -> Iterator[TaggedRecord]:
        """A command as `set -x` shows it: without what its output is led to, each side of a pipe on a line."""
        cite = Citation(context.member, line.number, line.text)
        context.session.other_line(line.text)
        first, second = [*context.traced[-1:], command][-2:] if context.traced else ("", command)
        context.traced = [command]
        for whole in (f"{first} | {second}", f"{second} | {first}") if first else ():
            yield from _events_of_command(cite, whole, "prompt", context)
        if (
            not command.startswith(("echo ", "printf ", "for ", "while ", "[ ", "[[ ", "sleep "))
            and "tee " not in command
        ):
            context.command = command

    def _parser_of_path(self, path: str) -> Parser | None:
        return next((f.load() for f in self._by_path if any(p.search(path) for p in f.paths)), None)

    def _parser_at(self, ahead: LookaheadLines, margin: str, skip: int = 0) -> Parser | None:
        """The parser whose block opens at the next line, or that after `skip` ones, once the margin is off.

        The margin is the indentation of a whole paste.
        """
        first = ahead.next() if not skip else next(iter(ahead.peek(skip + 1)[skip:]), None)
        for parser in self._openers(first.text.removeprefix(margin)) if first else ():
            if parser.confirm is None:
                return parser
            lines = ahead.peek(skip + parser.lookahead + 1)[skip:]
            if parser.confirm([line.text.removeprefix(margin) for line in lines]):
                return parser
        return None

    def _opener(self, texts: Sequence[str]) -> Parser | None:
        """The parser whose block begins with these lines, indented or not."""
        for text in dict.fromkeys((texts[0], texts[0].lstrip())):
            margin = texts[0][: len(texts[0]) - len(text)]
            for parser in self._openers(text):
                below = [line.removeprefix(margin) for line in texts[1 : parser.lookahead + 1]]
                if parser.confirm is None or parser.confirm([text, *below]):
                    return parser
        return None

    def _openers(self, text: str) -> tuple[Parser, ...]:
        """The parsers that may open at a line, as asked; recorders print the same headers again and again."""
        known = self._recent.get(text)
        if known is None:
            places = {place for word in self._by_word if word in text for place in self._by_word[word]}
            known = tuple(f.load() for f in map(self._opening.__getitem__, sorted(places)) if f.opens_at(text))
            if len(text) <= MAX_CACHED_CHARS:
                if len(self._recent) >= MAX_CACHED_LINES:
                    self._recent.clear()
                self._recent[text] = known
        return known

    def bulk(self, parser: BulkParser, member: str, content: Content) -> Iterator[TaggedRecord]:
        """All records of a member that is read as bytes; lines of another format in it go to the line parsers."""
        source = Source(member, command=output_of(member), path=system_path(member) or member)
        host, names = "", HostNames()
        for record in self.guard(parser.name, Citation(member), parser.read(source, content)):
            if isinstance(record, Foreign):
                yield from self.read(member, record.lines)
                continue
            if name := named_host(record):
                host = names.label(name, host)
            yield TaggedRecord(record, parser.name, (MAIN, host))

    def _block(
        self, parser: Parser, context: Context, first: int | None, lines: Iterator[tuple[int, str]]
    ) -> Iterator[TaggedRecord]:
        """Have a parser read its lines from the `first` on; what it leaves unread is still taken off the text."""
        source = context.source()
        cite = Citation(source.member, first)
        stamps = lines.stamps if isinstance(lines, _BlockLines) else {}
        for record in self.guard(parser.name, cite, parser.read(source, lines)):
            context.name_host(named_host(record))
            yield TaggedRecord(with_time(record, stamps) if stamps else record, parser.name, context.group)
        for _ in lines:
            pass

    def guard(self, parser: str, cite: Citation, records: Iterable[_AnyRecord]) -> Iterator[_AnyRecord | Problem]:
        """The same; a mistake of the parser becomes a problem behind what it gave before."""
        try:
            yield from records
        except Exception as error:
            if self._strict:
                raise
            lacks = {MemoryError: "memory", OutOfTimeError: "time"}.get(type(error))
            if lacks:
                text = f"needs more {lacks} than there is for reader {parser}; the rest was not read"
                yield Problem(cite, text, ProblemKind.LIMIT, parser)
                return
            text = f"a bug in thpdiag: parser {parser} failed ({describe_error(error)})"
            yield Problem(cite, text, ProblemKind.BUG, parser)

    def lines(
        self, parser: Parser, ahead: LookaheadLines, margin: str, stamps: dict[int, str]
    ) -> Iterator[tuple[int, str]]:
        """The lines of a block without its margin: the opening one, and further ones while they belong.

        A single foreign line between two that belong (a row that was cut, a message to all terminals) is given to the
        parser, which says that it is odd; to end the block there would lose all that follows without a word.
        """
        line = ahead.take()
        depth = line.depth if line else 0
        while line is not None:
            if line.stamp:
                stamps[line.number] = line.stamp
            yield line.number, line.text.removeprefix(margin)
            further = self._is_continuation(parser, ahead.next(), margin, depth, ahead.stops)
            if not further and not self._is_intruder(parser, ahead, margin, depth):
                return
            line = ahead.take()
            if not further and line is not None:
                ahead.on_intruder(line.text)

    @staticmethod
    def _is_continuation(
        parser: Parser, following: TextLine | None, margin: str, depth: int, stops: Container[int]
    ) -> bool:
        """Whether the following line is a further one of the block."""
        if following is None or following.number in stops or (following.text and following.depth != depth):
            return False  # mail programs quote no empty lines
        if parse_prompt(following.text) or parse_watch(following.text):
            return False
        return bool(parser.continues(following.text.removeprefix(margin)))

    def _is_intruder(self, parser: Parser, ahead: LookaheadLines, margin: str, depth: int) -> bool:
        """Whether the next line is a foreign one in the middle of a block: it says nothing, and the block goes on."""
        following = ahead.peek(2)
        if len(following) < 2 or not following[0].text.strip() or not following[1].text.strip():
            return False
        foreign, after = following
        if foreign.number in ahead.stops:
            return False
        if foreign.text.startswith(RECORDER_MARK) or not self._is_continuation(
            parser, after, margin, depth, ahead.stops
        ):
            return False
        other = self._parser_at(ahead, margin, skip=1)
        if other is not None and other.read is not parser.read:
            return False
        return not self._has_meaning(foreign.text, after.text) and self._parser_at(ahead, margin) is None

    @staticmethod
    def _has_meaning(text: str, following: str) -> bool:
        """Whether a line outside of blocks would mean something."""
        return (
            parse_prompt(text) is not None
            or parse_timestamp(text) is not None
            or parse_time_of_day(text, None) is not None
            or parse_speaker(text, following) is not None
            or is_section(text)
            or is_host_heading(text, following)
            or any(True for _ in _prose_records(Citation(""), text))
        )

    def _paragraph(self, parser: Parser, ahead: LookaheadLines) -> Iterator[tuple[int, str]]:
        """The lines to the next empty one or prompt, or to a block of another parser that this one has no use for."""
        while (line := ahead.next()) and line.text.strip() and not parse_prompt(line.text):
            if line.number in ahead.stops or is_host_heading(*_texts(ahead)):
                return
            other = self._parser_at(ahead, "") if not parser.continues(line.text) else None
            if other not in (None, parser):
                return
            ahead.take()
            yield line.number, line.text


def _texts(ahead: LookaheadLines) -> tuple[str, str]:
    """The next line and the one behind it."""
    first, *second = (one.text for one in ahead.peek(2))
    return first, "".join(second)


def _content_lines(lines: Sequence[TextLine], *, fenced: bool) -> Iterator[TextLine]:
    """The lines of a file below its name: to the end of its fence, else to an empty line, a prompt, the next name."""
    for line in lines:
        if is_fence(line.text) or is_end(line.text) or (not fenced and not line.text.strip()):
            return
        if parse_prompt(line.text) or is_section(line.text) or (may_be_name(line.text) and name_in([line.text])):
            return
        yield line


def _events_of_command(cite: Citation, command: str, how: str, context: Context) -> Iterator[TaggedRecord]:
    """The events of a command that was run."""
    changes = list(operator_changes(cite, command)) if how not in ("failed", UNCLEAR) else []
    switched = context.services.restarts(cite, command) if changes else ()
    for record in (*operator_actions(cite, command, how=how), *changes, *switched):
        yield TaggedRecord(record, "operator_actions", context.group)


def _further_lines(command: str, depth: int, ahead: LookaheadLines) -> str:
    """The whole of a command that goes on in the next lines, which are taken; as it is, if they do not end it.

    Lines without the shell's own prompt for them are only taken if what is typed is known: a remark may hold a quote.
    """
    if is_complete(command):
        return command
    whole, marked = command, True
    for count, line in enumerate(ahead.peek(MAX_COMMAND_LINES), 1):
        if line.depth <= depth and parse_prompt(line.text):
            break
        mark = _CONTINUATION.match(line.text)
        marked &= line.depth > depth or mark is not None
        whole += "\n" + line.text[mark.end() if mark else 0 :]
        if is_complete(whole):
            if not (
                marked or plan_of(whole) or script_of(whole) or (SETTINGS in whole and steps_of(whole, {}, {}, {}))
            ):
                break
            for _ in range(count):
                ahead.take()
            return whole
    return command


def _prose_records(cite: Citation, text: str) -> Iterator[Record]:
    """What a line of prose tells of commands, hosts, and the settings below a heading."""
    for setting, value in heading_settings(text).items():
        yield Event("setting_label", cite, fields={"setting": setting, "value": value})
    yield from operator_actions(cite, text, how="prose")
    yield from prose_facts(cite, text)
    if word := unplaced_setting(text):
        yield Fact("setting.unplaced", word, cite)
