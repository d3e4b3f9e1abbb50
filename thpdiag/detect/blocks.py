"""Find the blocks of known formats in a member and read each with its parser.

A member may be a whole /proc/vmstat, a terminal session with twenty commands, a mail that quotes a perf report, or the
output of a loop that prints the date between two commands. One pass over the lines handles all of them: prompts and
time lines update the context, a line that matches a parser's `opens` starts a block, and the parser's `continues`
determines where the block ends.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, takewhile
from re import Pattern
from typing import TypeVar

from thpdiag.detect.context import MAIN, TRACED, Context, OutputPart
from thpdiag.detect.expansion import (
    Part,
    RemoteCommand,
    first_lines,
    parts_of,
    remote_commands,
    remote_outputs,
    steps_of,
    without_remote,
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
from thpdiag.detect.session import (
    changes_host,
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

MAX_UNCLAIMED_LINES = 2_000_000  # consecutive lines without a format after which the rest is not read, with a Problem
_TIME_PRINTED = re.compile(r"\bdate\s{1,4}['\"]?\+[^;|&]{0,40}%(?:T|H)")
MAX_CACHED_CHARS, MAX_CACHED_LINES = 240, 4096  # length and number of the lines whose opening parsers are cached
MAX_COMMAND_LINES = 60  # lines of one command, or of a script that a command prints
MAX_PREFIXES = 8  # nested prefixes of one line: a listing may contain another listing
_CONTINUATION = re.compile(r"(?:(?:for|while|until|then|do|quote|dquote|heredoc|pipe|cmdand|subsh) ?){0,4}>[ ]?")
_SCRIPT = re.compile(r"#! ?/\S{1,80}\b(?:ba|da|k|z)?sh\b")
MAX_ROUND_LINES = 400  # lines that one round of a loop prints; /proc/vmstat has about 200
MAX_TIME_LINE_DISTANCE = 2  # lines from one time line to the next if there is at most a prompt between them
MAX_OUTPUT_LINES = 4000  # lines of a command's output that are assigned to the settings in force
UNCLEAR_HOW = "unclear"  # the `how` of a setting when it is unknown under which value the output was printed
_TRACING = re.compile(r"\bset -\w{0,4}x|\b(?:ba|da|k)?sh -\w{0,4}x\b")
MAX_FILE_LINES = 400  # lines of a file that follows its name
SETTINGS = "transparent_hugepage"
_AnyRecord = TypeVar("_AnyRecord", Record, Record | Foreign)  # what line parsers and bulk parsers yield


class _BlockLines:
    """The lines of a block. Rows of a table in it can be taken in batches."""

    def __init__(self, detector: Detector, parser: Parser, ahead: LookaheadLines, margin: str) -> None:
        self.stamps: dict[int, str] = {}  # by line number, the times that preceded the lines
        self._lines = detector.lines(parser, ahead, margin, self.stamps)
        self._ahead, first = ahead, ahead.next()
        self._is_plain = not margin and first is not None and not first.depth

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self._lines

    def __next__(self) -> tuple[int, str]:
        return next(self._lines)

    def rows(self, pattern: Pattern[str]) -> list[str]:
        """Take those of the next lines that match and are already decoded."""
        return self._ahead.take_rows(pattern.match) if self._is_plain else []


class Detector:
    """Splits members into blocks with a fixed set of parsers. `strict` re-raises exceptions of parsers (for tests)."""

    def __init__(self, formats: Sequence[Format], *, strict: bool = False) -> None:
        self._opening = sorted(formats, key=lambda f: (-f.priority, f.name))
        self._by_word: dict[str, list[int]] = {}  # indexes into _opening; a line is searched for each word only once
        for index, known_format in enumerate(self._opening):
            for word in known_format.words or ("",):
                self._by_word.setdefault(word, []).append(index)
        self._by_path = [f for f in formats if f.paths]
        self._strict = strict
        self._recent: dict[str, tuple[Parser, ...]] = {}

    def read(
        self, member: str, lines: Iterable[tuple[int, str]], head: str = "", aliases: Sequence[str] = ()
    ) -> Iterator[TaggedRecord]:
        """Yield all records of a text member, row by row.

        `head` is the beginning of the member, used to recognise HTML; `lines` are (number, text) pairs. A parser is
        selected by the member's own path, or else by one of `aliases`, the paths of links to the member.
        """
        for reading in self.read_listings(member, lines, head, aliases):
            if isinstance(reading.record, Listing):
                yield from (replace(reading, record=row) for row in reading.record)
            else:
                yield reading

    def read_listings(
        self, member: str, lines: Iterable[tuple[int, str]], head: str = "", aliases: Sequence[str] = ()
    ) -> Iterator[TaggedRecord]:
        """Yield the same records, but keep the listings that a parser returns instead of expanding their rows."""
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
        ahead = LookaheadLines(lines, session.add_other_line, markup=markup)
        unclaimed, is_read = 0, False
        while (line := ahead.next()) and unclaimed < MAX_UNCLAIMED_LINES:
            unclaimed += 1
            for reading in self._step(line, context, ahead):
                unclaimed = 0
                is_read = True
                session.take(reading)
                yield from session.ready()
        session.end_stretch()
        yield from session.ready()
        for group, prose in context.prose.items() if not system_path(member) else ():
            for fact in testimony(member, prose):
                is_read = True
                yield TaggedRecord(fact, "prose", group)
        yield from (TaggedRecord(part, "", context.group) for part in parts.events())
        if is_read and (problem := context.unread.problem(member)):
            yield TaggedRecord(problem, "", context.group)
        if line:
            cite = Citation(member, line.number)
            text = f"{MAX_UNCLAIMED_LINES} lines in a row match no format; the rest was not read"
            yield TaggedRecord(Problem(cite, text, ProblemKind.LIMIT), "", context.group)

    def _step(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Process one line: a prompt, a time, a speaker, the start of a block, or prose."""
        if not line.text:
            context.add_prose(line)
            ahead.take()
            return
        context.set_quoting(line)
        if line.text.startswith("#==[") and (section := section_of(ahead.peek_texts(2))):
            yield from self._section(section, context, ahead)
            return
        if context.parts and line.number >= context.parts[0].line:
            yield from self._begin_part(context.parts.popleft(), line, context, ahead)
            return
        if (
            self._strip_gaps(context, ahead)
            or self._strip_margin(line, ahead)
            or (may_have_prefix(line.text) and self._strip_prefix(context, ahead))
        ):
            return
        if may_be_host_heading(line.text) and self._read_host_heading(line, context, ahead):
            yield from self._printed_files(context, ahead)
            return
        records = self._read_command(line, context, ahead)
        if records is None and self._has_priority_name(line, ahead):
            records = self._named_content(line, context, ahead)
        if records is None:
            records = self._block_at(line, context, ahead)
        if records is None:
            records = self._named_content(line, context, ahead)
        yield from self._time_or_prose(line, context, ahead) if records is None else records

    def _read_command(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterable[TaggedRecord] | None:
        """Return the records of a command typed at a prompt or shown by `set -x` or watch; None for other lines."""
        if context.tracing and (traced := TRACED.match(line.text)) is not None:
            ahead.take()
            return self._traced_command(line, traced["cmd"], context)
        if not context.is_report and (typed := parse_prompt(line.text)) is not None:
            ahead.take()
            if printed := self._output_after_prompt(typed, ahead):
                typed = typed._replace(command=typed.command.removesuffix(printed).rstrip())
                ahead.put_back(line._replace(text=printed))
            return self._command(line, typed, context, ahead)
        if (screen := parse_watch(line.text)) is not None:
            ahead.take()
            context.time, context.looping = screen[1], False
            return self._command(line, screen[0], context, ahead)
        return None

    def _block_at(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord] | None:
        """Return the block that opens at a line, None if none does. Its margin is the first line's indent or none."""
        margins = dict.fromkeys(("", line.text[: len(line.text) - len(line.text.lstrip())]))
        for margin in () if line.text.startswith(RECORDER_MARK) else margins:
            if parser := self._parser_at(ahead, margin):
                context.unread.begin_block(parser, line)
                return self._block(parser, context, line.number, _BlockLines(self, parser, ahead, margin))
        return None

    @staticmethod
    def _has_priority_name(line: TextLine, ahead: LookaheadLines) -> bool:
        """Whether a file name in a line outranks the line's format: above an indented block, or after a value."""
        if not may_be_name(line.text):
            return False
        below = ahead.peek(2)[1:]
        return line.text[-1:] == ")" or (bool(below) and is_block_name(line.text, below[0].text))

    def _section(self, section: Section, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Read a section of supportconfig. A file whose path selects a parser is read to the end of the section."""
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
            if 0 < section.max_lines <= lines.count:
                yield TaggedRecord(Fact("capture.tail", section.path, cite), SUPPORTCONFIG, context.group)

    @staticmethod
    def _read_host_heading(line: TextLine, context: Context, ahead: LookaheadLines) -> bool:
        """Take the heading (one or three lines) that names the host of the last command's output; False if none."""
        if context.is_report:
            return False
        host, lines, rest = host_heading(ahead.peek_texts(3))
        if not host and (headed := headed_host(line.text))[0]:
            name, stem = headed
            siblings = context.heading_hosts.setdefault(stem, set())
            siblings |= {other for other, kind in map(headed_host, ahead.peek_texts(MAX_HEADED_LINES)) if kind == stem}
            host, lines = name if len(siblings) > 1 else "", 1
        if not host:
            return False
        for _ in range(lines):
            ahead.take()
        if rest:
            ahead.put_back(line._replace(text=rest))
        context.take_prompt(Prompt(context.command, host))
        return True

    def _named_content(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterable[TaggedRecord] | None:
        """Return the records of the file that this line names; None if no name or not the content of that file."""
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
        name = name_in(ahead.peek_texts(2 + MAX_GAP_LINES))
        return None if name is None else self._named_file(name, line, context, ahead)

    def _named_file(
        self, name: Name, line: TextLine, context: Context, ahead: LookaheadLines
    ) -> list[TaggedRecord] | None:
        """Return the records of the file; an empty list if its block is read next, as the output of a command is."""
        if name.value is not None:
            content, count = [(line.number, name.value)], 1
        else:
            lines = ahead.peek(name.lines + (1 if name.has_one_line else MAX_FILE_LINES))
            fenced = any(is_fence(each.text) for each in lines[1 : name.lines])
            content = [(each.number, each.text) for each in _content_lines(lines[name.lines :], fenced=fenced)]
            count = name.lines + len(content)
        path_parser = self._parser_of_path(name.path)
        parser = path_parser or (self._opener([text for _, text in content]) if content else None)
        if parser is None or not content:
            return None
        records: list[TaggedRecord] | None = []
        if path_parser or name.has_one_line:
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
        """Return the records of a file, None if its parser does not accept the content."""
        if len(content) == 1:
            content = [(content[0][0], content[0][1].strip())]
        source = Source(context.member, time=context.time, command=f"cat /{path}", path=path)
        cite = Citation(context.member, content[0][0])
        records = list(self.guard(parser.name, cite, parser.read(source, iter(content))))
        if not records or any(isinstance(record, Problem) for record in records):
            return None
        return [TaggedRecord(record, parser.name, context.group) for record in records]

    def _json_files(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterable[TaggedRecord] | None:
        """Return the records of the files in the JSON document that begins at the next line, None if there are none."""
        count, files = files_in_json([line.text])
        if not count and line.text.rstrip()[-1:] in "{[,":
            lines = ahead.peek_texts(MAX_JSON_LINES)
            count, files = files_in_json(lines)
            context.json_from = line.number + (0 if files else count or len(lines))  # nested documents have none either
        if not files:
            return None
        for _ in range(count):
            ahead.take()
        records: list[TaggedRecord] = []
        for file in files:
            content = [(line.number + file.line, text) for text in file.content.splitlines() or [""]]
            context.name_host(file.host)
            parser = self._parser_of_path(file.path)
            if parser:
                records += self._records_of_file(file.path, parser, content, context) or ()
                continue
            context.take_name(file.path)
            below = LookaheadLines(iter(content), context.session.add_other_line, markup=False)
            while (next_line := below.next()) is not None:
                records += self._step(next_line, context, below)
        context.paths.clear()
        return records

    def _time_or_prose(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Process a line that no parser reads: a time line or prose."""
        moment, date = parse_timestamp(line.text), ""
        if moment is None and _TIME_PRINTED.search(context.command):
            moment = parse_time_of_day(line.text, context.time)
        if moment is not None:
            is_adjacent = 0 < line.number - context.time_line <= MAX_TIME_LINE_DISTANCE
            previous = context.time if is_adjacent else None
            context.time, context.time_line = moment, line.number
            context.session.add_time_line(moment)
            context.text_parts.add_date(line, moment, context.command)
            yield from self._utc_offset(line, moment, previous, context)
        else:
            date = self._date_of_loop(line.text, ahead, 1)
            if not context.is_report:  # reports are full of tables that are unrelated to memory
                context.unread.add(line)
            yield from self._prose(line, context, ahead)
        ahead.take()
        if date:
            ahead.put_back(line._replace(text=date))

    def _output_after_prompt(self, typed: Prompt, ahead: LookaheadLines) -> str:
        """Return what follows a prompt but was not typed: the output of a background job, or the first date of a loop.

        The date is at the end of the line when the file printed before it has no final line feed.
        """
        if not typed.command or not (typed.host or typed.folder):
            return ""
        if self._opener([typed.command, *ahead.peek_texts(PEEKED_LINES)]) or parse_timestamp(typed.command):
            return typed.command
        return self._date_of_loop(typed.command, ahead, 0)

    def _date_of_loop(self, text: str, ahead: LookaheadLines, skip: int) -> str:
        """Return the date at the end of a line if it is the first of a loop that prints a date in each round."""
        date = ending_date(text)
        moment = parse_timestamp(date) if date else None
        if moment is None:
            return ""
        below = ahead.peek_texts(2 * MAX_ROUND_LINES)[skip:]
        if not below or not self._opener(below):
            return ""
        later = list(islice(filter(None, map(parse_timestamp, below)), 2))
        if not later or any(each.clock is not moment.clock for each in later):
            return ""
        rounds = [after.seconds - before.seconds for before, after in pairwise((moment, *later))]
        return date if 0 < min(rounds) <= max(rounds) <= min(DAY, 2 * min(rounds)) else ""

    def _strip_margin(self, line: TextLine, ahead: LookaheadLines) -> bool:
        """Strip the indentation that all lines of a paste share, unless a parser needs it."""
        lines = ahead.peek(PEEKED_LINES) if line.text[0] in " \t" else []
        if not lines or (margin := margin_of(lines)) is None:
            return False
        bare = [line.text for line in takewhile(bool, map(margin, lines)) if line]
        if self._parser_at(ahead, "") and not self._opener(bare):
            return False
        ahead.change(partial(without_prefix, margin))
        return True

    def _strip_gaps(self, context: Context, ahead: LookaheadLines) -> bool:
        """Drop the empty line after each line of a double-spaced text if a parser reads one of the lines."""
        first, second = [*ahead.peek(2), None, None][:2]
        if first is None or second is None or second.text or first.number <= context.checked_until:
            return False
        lines = ahead.peek(2 * PEEKED_LINES)
        if not is_double_spaced(lines):
            return False
        if not self._is_known(lines[::2]):
            context.skip_prefix_check(next((line for line in lines[1::2] if line.text), lines[-1]))
            return False
        ahead.change(without_gaps)
        return True

    def _strip_prefix(
        self, context: Context, ahead: LookaheadLines, *, expected: bool = False, remote: bool = False
    ) -> bool:
        """Strip the prefix of each line if a parser reads the lines without it but not with it."""
        first = ahead.next()
        if first is None or (first.number <= context.checked_until and not expected):
            return False
        lines = ahead.peek(PEEKED_LINES)
        if (prefix := prefix_of(lines, expected=expected, remote=remote)) is None:
            return False
        expected |= remote and isinstance(prefix, Hosts)
        trial = replace(prefix)  # a copy: stripping a line advances its counter
        bare = [line for line in takewhile(bool, map(trial, lines)) if line]
        certain = expected or prefix.is_certain or self._needs_stripping(lines, bare)
        if not certain or not (expected or self._is_known(bare)):
            context.skip_prefix_check(bare[-1])
            return False
        context.checked_until = context.failed_checks = 0
        if bare[0].stamp:
            context.time = None
        ahead.change(partial(without_prefix, prefix))
        return True

    def _needs_stripping(self, lines: Sequence[TextLine], bare: Sequence[TextLine]) -> bool:
        """Whether no parser reads the lines with their prefix, or only one that accepts any word as the prefix."""
        parser = self._opener([line.text for line in lines])
        if parser is None or parser.priority < 0:  # parsers of prose read sentences together with their prefix
            return parser is None
        return parser is self._opener([f"x {line.text}" for line in bare])

    def _is_known(self, lines: Sequence[TextLine], prefixes: int = 1) -> bool:
        """Whether one of the lines is a prompt or opens a block, possibly after further prefixes are stripped."""
        texts = [line.text for line in lines]
        if any(parse_prompt(text) or self._opener(texts[i:]) for i, text in enumerate(texts) if text):
            return True
        further = prefix_of(lines) if prefixes < MAX_PREFIXES else None
        bare = [line for line in takewhile(bool, map(further, lines)) if line] if further else []
        return bool(bare) and self._is_known(bare, prefixes + 1)

    @staticmethod
    def _utc_offset(
        line: TextLine, moment: Moment, previous: Moment | None, context: Context
    ) -> Iterator[TaggedRecord]:
        """Yield the host's UTC offset if a time line determines it and it differs from the last one."""
        offset = utc_offset_of_line(line.text)
        offset = utc_offset_of_pair(line.text, moment, context.command, previous) if offset is None else offset
        if offset is not None and offset != context.utc_offset:
            context.utc_offset = offset
            utc = moment if moment.clock is Clock.UTC else Moment(moment.seconds - offset, Clock.UTC)
            fact = Fact("host.utc_offset", offset, Citation(context.member, line.number, line.text), time=utc)
            yield TaggedRecord(fact, "prose", context.group)

    def _prose(self, line: TextLine, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Process a line of prose: it may change the speaker, mention a kernel, or describe a command."""
        if name := parse_speaker(*_next_two_texts(ahead)):
            context.text_parts.add_heading(ahead.peek(MAX_HEADER_LINES))
            if not line.depth:
                context.set_speaker(name)
                return
        script = self._script(ahead) if _SCRIPT.match(line.text) else []
        if script:
            context.session.add_command("\n".join(each.text for each in script), context.host, context.time)
        else:
            context.session.add_other_line(line.text)
        for each in script or (line,):
            context.add_prose(each)
            for record in _prose_records(Citation(context.member, each.number, each.text), each.text):
                yield TaggedRecord(record, "prose", context.group)
        for _ in script[1:]:
            ahead.take()

    def _script(self, ahead: LookaheadLines) -> list[TextLine]:
        """Return the script that begins with the next line, up to an empty line or to its output."""
        script: list[TextLine] = []
        for line in ahead.peek(MAX_COMMAND_LINES):
            if not line.text or parse_prompt(line.text) or self._parser_at(ahead, "", skip=len(script)):
                break
            script.append(line)
        return script

    def _command(
        self, line: TextLine, typed: Prompt, context: Context, ahead: LookaheadLines, *, remote: bool = False
    ) -> Iterator[TaggedRecord]:
        """Process a typed command: yield the operator's actions and note the path of what it prints."""
        typed = typed._replace(command=_join_continuation_lines(typed.command, line.depth, ahead))
        context.take_prompt(typed, remote=remote)
        steps = steps_of(context.command, context.session.scripts, context.variables, context.functions)
        if not remote and (calls := remote_commands(steps, context.command)):
            yield from self._on_other_hosts(line, calls, typed.user, context, ahead)
            return
        below = list(takewhile(lambda text: not parse_prompt(text), ahead.peek_texts(MAX_COMMAND_LINES)))
        if SessionClock.shows_file(typed.command):
            context.session.add_script(typed.command, below)
        if not is_refused(below):
            context.services.add_command(context.command, below)
        context.session.add_command(typed.command, context.host, context.time)
        cite = Citation(context.member, line.number, line.text)
        if NUMBERING.search(typed.command):
            self._strip_prefix(context, ahead, expected=True)
        elif REMOTE.search(typed.command):
            self._strip_prefix(context, ahead, remote=True)
        context.tracing |= bool(_TRACING.search(typed.command))
        parts = parts_of(steps, switches_setting, changes_host) if steps else []
        if len(parts) > 1:
            self._schedule_parts(line, parts, typed.user, context, ahead)
        else:
            how = "failed" if is_refused(below) else "root" if typed.user == "root" else "prompt"
            expanded = "; ".join(step.text for step in steps) if steps else context.command
            yield from _events_of_command(cite, expanded, how, context)
            if steps and ((len(steps) == 1 and "$" in context.command) or any(map(changes_host, steps))):
                printing = dict.fromkeys(step.text for step in parts[0].prints if not step.line)
                context.command = "; ".join(printing) or expanded
        yield from self._printed_files(context, ahead)

    def _on_other_hosts(
        self, line: TextLine, calls: Sequence[RemoteCommand], user: str, context: Context, ahead: LookaheadLines
    ) -> Iterator[TaggedRecord]:
        """Process commands that run on other hosts. Output that cannot be assigned to a host is not read."""
        command, hosts = context.command, {call.host for call in calls}
        if len(hosts) == 1 and calls[0].host:
            typed = Prompt(without_remote(command), calls[0].host, user=user)
            yield from self._command(line, typed, context, ahead, remote=True)
            return
        below = [*takewhile(lambda each: context.is_output(each.text), ahead.peek(MAX_OUTPUT_LINES))]
        if outputs := remote_outputs(calls, command, [each.text for each in below]):
            context.paths.clear()
            for host, printing, mark, first in outputs:
                number = below[first].number if first < len(below) else below[-1].number + 1
                context.parts.append(OutputPart(number, (), printing, "prompt", host))
                ahead.stops |= {below[mark].number, number}
            return
        cite = Citation(context.member, line.number, line.text)
        for call in calls:
            context.take_prompt(Prompt(call.command, call.host, user=user), remote=True)
            yield from _events_of_command(cite, call.command, UNCLEAR_HOW if below else "prompt", context)
        context.take_prompt(Prompt(calls[0].command))
        if below and not self._strip_prefix(context, ahead, remote=True):
            context.take_prompt(Prompt(""))
            text = (
                "the output of several hosts, and no line says which of them printed it; it was not read. Print "
                "each host's name before its output"
            )
            yield TaggedRecord(Problem(cite, text, ProblemKind.UNREADABLE), "", context.group)
            for _ in below:
                ahead.take()

    def _printed_files(self, context: Context, ahead: LookaheadLines) -> Iterator[TaggedRecord]:
        """Read the files that the last command prints if their contents begin at the next line."""
        if context.paths and "transparent_hugepage" in context.paths[0]:  # `hostname; date; cat enabled defrag`
            texts = ahead.peek_texts(MAX_GAP_LINES + 1)
            before = next((number for number, text in enumerate(texts) if unplaced_setting(text)), 0)
            if before and not any(map(parse_prompt, texts[:before])) and not is_host_heading(*_next_two_texts(ahead)):
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
            and not is_host_heading(*_next_two_texts(ahead))
        ):
            is_last = len(context.paths) == 1
            output = self._paragraph(parser, ahead) if is_last else iter([(first.number, first.text)])
            yield from self._block(parser, context, first.number, output)
            if not is_last:
                ahead.take()
            context.paths.popleft()

    @staticmethod
    def _schedule_parts(
        line: TextLine, parts: Sequence[Part], user: str, context: Context, ahead: LookaheadLines
    ) -> None:
        """Determine which lines of the output that follows belong to which setting, and add them to `context.parts`."""
        how = "root" if user == "root" else "prompt"
        below = [
            each
            for each in takewhile(lambda each: context.is_output(each.text), ahead.peek(MAX_OUTPUT_LINES))
            if each.depth == line.depth or not each.text
        ]
        printing = [part for part in parts if part.prints]
        starts = first_lines(printing, [each.text for each in below], traced=context.tracing) if below else None
        end = below[-1].number + 1 if below else line.number
        if starts is None:
            writes = tuple(step.text for part in parts for step in part.writes)
            context.parts.append(OutputPart(line.number, writes, context.command, UNCLEAR_HOW))
            context.parts.append(OutputPart(end, writes, "", how))
            return
        for part, start in zip(printing, starts, strict=True):
            prints = dict.fromkeys(step.text for step in part.prints if not step.line)
            failed = is_refused(each.text for each in below[start:])
            first = below[start].number if start else line.number + 1
            writes = tuple(step.text for step in part.writes)
            ahead.stops.add(first)
            context.parts.append(OutputPart(first, writes, "; ".join(prints), "failed" if failed else how))
        if not parts[-1].prints:
            context.parts.append(OutputPart(end, tuple(step.text for step in parts[-1].writes), "", how))

    def _begin_part(
        self, part: OutputPart, line: TextLine, context: Context, ahead: LookaheadLines
    ) -> Iterator[TaggedRecord]:
        if part.host:
            yield from self._command(line, Prompt(part.command, part.host), context, ahead, remote=True)
            return
        cite = Citation(context.member, line.number, line.text)
        context.command = part.command or context.command
        for command in part.writes:
            yield from _events_of_command(cite, command, part.how, context)

    @staticmethod
    def _traced_command(line: TextLine, command: str, context: Context) -> Iterator[TaggedRecord]:
        """Process a command as `set -x` prints it: without redirections, and each side of a pipe on its own line."""
        cite = Citation(context.member, line.number, line.text)
        context.session.add_other_line(line.text)
        first, second = [*context.traced[-1:], command][-2:] if context.traced else ("", command)
        context.traced = [command]
        for pipeline in (f"{first} | {second}", f"{second} | {first}") if first else ():
            yield from _events_of_command(cite, pipeline, "prompt", context)
        if (
            not command.startswith(("echo ", "printf ", "for ", "while ", "[ ", "[[ ", "sleep "))
            and "tee " not in command
        ):
            context.command = command

    def _parser_of_path(self, path: str) -> Parser | None:
        return next((f.load() for f in self._by_path if any(p.search(path) for p in f.paths)), None)

    def _parser_at(self, ahead: LookaheadLines, margin: str, skip: int = 0) -> Parser | None:
        """Return the parser whose block opens at the next line, or at the line after `skip` lines.

        `margin` is the indentation of the whole paste, which is stripped first.
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
        """Return the parser whose block begins with these lines, indented or not."""
        for text in dict.fromkeys((texts[0], texts[0].lstrip())):
            margin = texts[0][: len(texts[0]) - len(text)]
            for parser in self._openers(text):
                below = [line.removeprefix(margin) for line in texts[1 : parser.lookahead + 1]]
                if parser.confirm is None or parser.confirm([text, *below]):
                    return parser
        return None

    def _openers(self, text: str) -> tuple[Parser, ...]:
        """Return the parsers that may open at a line. Cached, because recorders repeat the same headers."""
        parsers = self._recent.get(text)
        if parsers is None:
            indexes = {index for word in self._by_word if word in text for index in self._by_word[word]}
            parsers = tuple(f.load() for f in map(self._opening.__getitem__, sorted(indexes)) if f.opens_at(text))
            if len(text) <= MAX_CACHED_CHARS:
                if len(self._recent) >= MAX_CACHED_LINES:
                    self._recent.clear()
                self._recent[text] = parsers
        return parsers

    def bulk(self, parser: BulkParser, member: str, content: Content) -> Iterator[TaggedRecord]:
        """Yield all records of a member that is read as bytes; lines of another format in it go to the line parsers."""
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
        """Read a block with a parser. `first` is the number of its first line; lines left unread are consumed."""
        source = context.source()
        cite = Citation(source.member, first)
        stamps = lines.stamps if isinstance(lines, _BlockLines) else {}
        for record in self.guard(parser.name, cite, parser.read(source, lines)):
            context.name_host(named_host(record))
            yield TaggedRecord(with_time(record, stamps) if stamps else record, parser.name, context.group)
        for _ in lines:
            pass

    def guard(self, parser: str, cite: Citation, records: Iterable[_AnyRecord]) -> Iterator[_AnyRecord | Problem]:
        """Yield the records; an exception of the parser becomes a problem after the records it yielded before."""
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
        """Yield the lines of a block without its margin: the opening line and the lines that continue the block.

        A single foreign line within the block (a truncated row, a message to all terminals) is passed to the parser,
        which reports it as a problem. Ending the block there would silently lose the rest of it.
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
        """Whether the following line continues the block."""
        if following is None or following.number in stops or (following.text and following.depth != depth):
            return False  # the depth of empty lines is ignored: mail programs do not quote them
        if parse_prompt(following.text) or parse_watch(following.text):
            return False
        return bool(parser.continues(following.text.removeprefix(margin)))

    def _is_intruder(self, parser: Parser, ahead: LookaheadLines, margin: str, depth: int) -> bool:
        """Whether the next line is foreign to the block: it has no meaning, and the block continues after it."""
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
        """Whether a line would be recognised as prose, prompt, time or heading outside of blocks."""
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
        """Yield the lines up to an empty line, a prompt, or a block of another parser that this one cannot continue."""
        while (line := ahead.next()) and line.text.strip() and not parse_prompt(line.text):
            if line.number in ahead.stops or is_host_heading(*_next_two_texts(ahead)):
                return
            other = self._parser_at(ahead, "") if not parser.continues(line.text) else None
            if other not in (None, parser):
                return
            ahead.take()
            yield line.number, line.text


def _next_two_texts(ahead: LookaheadLines) -> tuple[str, str]:
    """Return the next line and the one after it."""
    first, *second = ahead.peek_texts(2)
    return first, "".join(second)


def _content_lines(lines: Sequence[TextLine], *, fenced: bool) -> Iterator[TextLine]:
    """Yield the lines of a file that follows its name: to the end of its fence, an empty line, a prompt or a name."""
    for line in lines:
        if is_fence(line.text) or is_end(line.text) or (not fenced and not line.text.strip()):
            return
        if parse_prompt(line.text) or is_section(line.text) or (may_be_name(line.text) and name_in([line.text])):
            return
        yield line


def _events_of_command(cite: Citation, command: str, how: str, context: Context) -> Iterator[TaggedRecord]:
    """Yield the events of an executed command."""
    changes = list(operator_changes(cite, command)) if how not in ("failed", UNCLEAR_HOW) else []
    settings = context.services.settings_after_restart(cite, command) if changes else ()
    for record in (*operator_actions(cite, command, how=how), *changes, *settings):
        yield TaggedRecord(record, "operator_actions", context.group)


def _join_continuation_lines(command: str, depth: int, ahead: LookaheadLines) -> str:
    """Return the command joined with its continuation lines, which are taken; unchanged if they do not complete it.

    Lines without the shell's secondary prompt (`> `) are only taken if the complete command can be interpreted: an
    unbalanced quote may also be the apostrophe of a remark.
    """
    if is_complete(command):
        return command
    joined, marked = command, True
    for count, line in enumerate(ahead.peek(MAX_COMMAND_LINES), 1):
        if line.depth <= depth and parse_prompt(line.text):
            break
        mark = _CONTINUATION.match(line.text)
        marked &= line.depth > depth or mark is not None
        joined += "\n" + line.text[mark.end() if mark else 0 :]
        if is_complete(joined):
            if not (
                marked or plan_of(joined) or script_of(joined) or (SETTINGS in joined and steps_of(joined, {}, {}, {}))
            ):
                break
            for _ in range(count):
                ahead.take()
            return joined
    return command


def _prose_records(cite: Citation, text: str) -> Iterator[Record]:
    """Yield what a line of prose states about commands and hosts, and the settings that a heading names."""
    for setting, value in heading_settings(text).items():
        yield Event("setting_label", cite, fields={"setting": setting, "value": value})
    yield from operator_actions(cite, text, how="prose")
    yield from prose_facts(cite, text)
    if word := unplaced_setting(text):
        yield Fact("setting.unplaced", word, cite)
