"""Lines of a block or of a member: numbering, parse errors, paths that grep prints, the command typed above them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import chain, islice
from typing import NamedTuple

from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.detect.transcript import clean
from thpdiag.model import Citation, Entity, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._units import parse_number

MAX_REASONS = 50  # different reasons kept per block; there are only a handful


class ParseErrors:
    """Collects what a reader could not use of one block."""

    def __init__(self, source: Source, reader: str) -> None:
        self._source = source
        self._reader = reader
        self._first: dict[str, Citation] = {}
        self._count: dict[str, int] = {}

    def note(self, number: int, line: str, reason: str) -> None:
        """The line did not fit for this reason."""
        if reason not in self._first:
            if len(self._first) >= MAX_REASONS:
                reason = "further lines do not fit the format"
            self._first.setdefault(reason, self._source.cite(number, line))
        self._count[reason] = self._count.get(reason, 0) + 1

    def problems(self) -> list[Problem]:
        """One Problem per reason, at the first line that had it."""
        return [
            Problem(cite, reason, ProblemKind.ODD, self._reader, self._count[reason])
            for reason, cite in self._first.items()
        ]


Read = Callable[[Source, Lines], Iterator[Record]]
ReadWithErrors = Callable[[Source, Lines, ParseErrors], Iterator[Record]]


def with_errors(name: str) -> Callable[[ReadWithErrors], Read]:
    """The reader of a format, of a function that notes what does not fit: its problems come last."""

    def decorate(read_block: ReadWithErrors) -> Read:
        @wraps(read_block)
        def read(source: Source, lines: Lines) -> Iterator[Record]:
            errors = ParseErrors(source, name)
            yield from read_block(source, lines, errors)
            yield from errors.problems()

        return read

    return decorate


def printable(text: str) -> str:
    """A name that a program chose for itself, harmless to print."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


MAX_LINE_BYTES = 1 << 20  # bytes; a line of a recording is a row, not a file
MIN_SERIES_ROWS = 2000  # rows


def numbered_lines(content: Content, undecoded: LineDamage, longest: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """The lines of a member, from 1, as readers of lines get them but for quoting and markup."""
    chunks = iter(content.chunks)
    first = next(chunks, b"")
    for number, text in number_lines(first[:65536], chain((first,), chunks), longest, undecoded):
        yield number, clean(text)


def undecoded_problems(source: Source, undecoded: LineDamage, reader: str) -> Iterator[Problem]:
    """What was cut or could not be decoded."""
    if undecoded.cut:
        text = "lines that are too long for their format: what is beyond was not read"
        yield Problem(Citation(source.member, undecoded.first_cut), text, ProblemKind.LIMIT, reader, undecoded.cut)
    if undecoded.undecodable:
        text = "lines with bytes that are not text"
        cite = Citation(source.member, undecoded.first_undecodable)
        yield Problem(cite, text, ProblemKind.DAMAGED, reader, undecoded.undecodable)


def rows_as_series(records: Iterable[Record]) -> Iterator[Record | Foreign]:
    """The same records, rows as columns where they are many."""
    rest = iter(records)
    held = list(islice(rest, MIN_SERIES_ROWS))
    if len(held) < MIN_SERIES_ROWS:
        yield from held
        return
    from thpdiag.parsers._table import as_series  # numpy: only for what is long

    yield from as_series(chain(held, rest))


def parse_member(
    source: Source,
    content: Content,
    reader: str,
    read: Callable[[Source, Lines], Iterator[Record]],
    longest: int = MAX_LINE_BYTES,
) -> Iterator[Record | Foreign]:
    """A member read by a reader of lines without the search for blocks, many rows as columns."""
    undecoded = LineDamage()
    yield from rows_as_series(read(source, numbered_lines(content, undecoded, longest)))
    yield from undecoded_problems(source, undecoded, reader)


def member_parser(
    parser: Parser,
    confirm: Callable[[str, bytes, int | None], object],
    longest: int = MAX_LINE_BYTES,
    opens: re.Pattern[bytes] | None = None,
    min_size: int = 0,
) -> BulkParser:
    """The same format in whole members, which are read without the search for blocks."""

    def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
        return parse_member(source, content, parser.name, parser.read, longest)

    return BulkParser(parser.name, parser.title, confirm, read, opens=opens, min_size=min_size)


_GREPPED = re.compile(r"(?:\S*?(?=(?:sys|cgroup)/)|(?:\./)?(?=memory\.))(?P<path>[^\s:]{1,400}):(?P<text>.*)$")
_BANNER = re.compile(r"==> \S*?(?P<path>(?:sys|cgroup)/\S{1,400}) <==\s*$")


def lines_of_files(source: Source, lines: Lines) -> Iterator[tuple[int, str, str, str]]:
    """Number, whole line, path of its file, and what stands in that file; without banners and layout."""
    path = source.path
    for number, line in lines:
        if banner := _BANNER.match(line):
            path = banner["path"]
        elif grepped := _GREPPED.match(line):
            yield number, line, grepped["path"], grepped["text"].strip()
        elif (text := line.strip()) and text not in ("```", "..."):
            yield number, line, path, text


def any_of(*patterns: re.Pattern[str], blank: bool = False) -> Callable[[str], bool]:
    """The test whether a line begins as one of these; with `blank` also empty lines, which stand between tables."""

    def is_one(text: str) -> bool:
        return any(pattern.match(text) for pattern in patterns) or (blank and not text.strip())

    return is_one


def any_of_first(lines: int, *patterns: re.Pattern[str]) -> Callable[[list[str]], bool]:
    """The test whether one of the first lines of a block begins as one of these."""

    def is_among(block: list[str]) -> bool:
        return any(pattern.match(text) for text in block[:lines] for pattern in patterns)

    return is_among


@dataclass(slots=True)
class ValueRows:
    """Values gathered to samples, one per entity until a name comes again (a loop)."""

    source: Source
    reader: str
    kind: str
    _open: dict[Entity, tuple[dict[str, float], int, str]] = field(default_factory=dict)

    def add(self, entity: Entity, name: str, value: float, number: int, line: str) -> Iterator[Sample]:
        """Take a value; gives the sample that it ends."""
        if self.has(entity, name):
            yield self._sample(entity)
        self.update(entity, {name: value}, number, line)

    def update(self, entity: Entity, values: Mapping[str, float], number: int, line: str) -> None:
        """Values that take the place of those that stand in the same file before them."""
        if values:
            self._open.setdefault(entity, ({}, number, line))[0].update(values)

    def has(self, entity: Entity, name: str) -> bool:
        return entity in self._open and name in self._open[entity][0]

    def finish(self) -> Iterator[Sample]:
        """The samples that nothing ended."""
        for entity in list(self._open):
            yield self._sample(entity)

    def _sample(self, entity: Entity) -> Sample:
        values, number, line = self._open.pop(entity)
        return Sample(self.kind, values, self.source.cite(number, line), self.reader, entity)


_ENDS = re.compile(r"[|;&<>#]")


class Command(NamedTuple):
    """Options (letter or long name -> value, empty for switches) and the positional arguments of one program."""

    options: dict[str, str]
    arguments: tuple[str, ...]

    def interval(self) -> float | None:
        """The first bare number (`vmstat 5`, `pidstat -r 2 30`), in seconds."""
        found = next((parse_number(a) for a in self.arguments if parse_number(a) is not None), None)
        return found or None


@lru_cache(64)  # a recorder gives the same command to each of its blocks
def parse_command(command: str, program: str, with_value: str = "") -> Command | None:
    """The arguments of `program` in a command line, None if it is not in it.

    `with_value` are the option letters that take a value. Wrappers before the program (sudo, nohup, timeout 60) are
    skipped, what follows a pipe or a redirection does not belong to it.
    """
    words = _ENDS.split(command, maxsplit=1)[0].split()
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == program), None)
    if at is None:
        return None
    options: dict[str, str] = {}
    arguments: list[str] = []
    rest = iter(words[at + 1 :])
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else (next(rest, "") if name == "unit" else "")
        elif word.startswith("-") and len(word) > 1:
            _letters(word[1:], with_value, rest, options)
        else:
            arguments.append(word)
    return Command(options, tuple(arguments))


def _letters(cluster: str, with_value: str, rest: Iterator[str], options: dict[str, str]) -> None:
    """`-wS M`, `-SM`, `-i2`: letters up to the first that takes a value; what follows it is the value."""
    for at, letter in enumerate(cluster):
        if letter in with_value:
            options[letter] = cluster[at + 1 :] or next(rest, "")
            return
        options[letter] = ""
