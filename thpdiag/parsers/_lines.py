"""Lines of a block or of a member: numbering, parse errors, paths that grep prints, the command typed above them.

Also helpers for files of /proc and /sys, whose blocks hold one snapshot, or many if a loop printed the file repeatedly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import chain, islice
from re import Match, Pattern
from typing import NamedTuple

from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.detect.transcript import clean
from thpdiag.model import Citation, Entity, Problem, ProblemKind, Record, Sample
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.parsers._time import with_block_time
from thpdiag.parsers._units import NOT_A_COUNT, parse_count, parse_number

MAX_REASONS = 50  # different reasons kept per block; parsers have only a handful


class ParseErrors:
    """Collects the lines of one block that a parser could not use, by reason."""

    def __init__(self, source: Source, reader: str) -> None:
        self._source = source
        self._reader = reader
        self._first: dict[str, Citation] = {}
        self._count: dict[str, int] = {}

    def note(self, number: int, line: str, reason: str) -> None:
        """Count a line that could not be used for this reason."""
        if reason not in self._first:
            if len(self._first) >= MAX_REASONS:
                reason = "further lines do not fit the format"
            self._first.setdefault(reason, self._source.cite(number, line))
        self._count[reason] = self._count.get(reason, 0) + 1

    def problems(self) -> list[Problem]:
        """Return one Problem per reason, at the first line that had it."""
        return [
            Problem(cite, reason, ProblemKind.ODD, self._reader, self._count[reason])
            for reason, cite in self._first.items()
        ]


Read = Callable[[Source, Lines], Iterator[Record]]
ReadWithErrors = Callable[[Source, Lines, ParseErrors], Iterator[Record]]


def with_errors(name: str) -> Callable[[ReadWithErrors], Read]:
    """Return a decorator that passes a ParseErrors to a parser function and yields its problems last."""

    def decorate(read_block: ReadWithErrors) -> Read:
        @wraps(read_block)
        def read(source: Source, lines: Lines) -> Iterator[Record]:
            errors = ParseErrors(source, name)
            yield from read_block(source, lines, errors)
            yield from errors.problems()

        return read

    return decorate


def printable(text: str) -> str:
    """Replace the unprintable characters of a text, such as a process name, by `?`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


MAX_LINE_BYTES = 1 << 20
MIN_SERIES_ROWS = 2000  # from this number of rows on they are stored as columns


def numbered_lines(
    content: Content, undecoded: LineDamage, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a member, numbered from 1, as line parsers get them, but with quoting and markup kept."""
    chunks = iter(content.chunks)
    first = next(chunks, b"")
    for number, text in number_lines(first[:65536], chain((first,), chunks), max_line_bytes, undecoded):
        yield number, clean(text)


def undecoded_problems(source: Source, undecoded: LineDamage, reader: str) -> Iterator[Problem]:
    """Yield the problems of lines that were cut or could not be decoded."""
    if undecoded.cut:
        text = "lines that are too long for their format: what is beyond was not read"
        yield Problem(Citation(source.member, undecoded.first_cut), text, ProblemKind.LIMIT, reader, undecoded.cut)
    if undecoded.undecodable:
        text = "lines with bytes that are not text"
        cite = Citation(source.member, undecoded.first_undecodable)
        yield Problem(cite, text, ProblemKind.DAMAGED, reader, undecoded.undecodable)


def rows_as_series(records: Iterable[Record]) -> Iterator[Record | Foreign]:
    """Yield the same records; if there are many, their rows are converted to columns."""
    rest = iter(records)
    first = list(islice(rest, MIN_SERIES_ROWS))
    if len(first) < MIN_SERIES_ROWS:
        yield from first
        return
    from thpdiag.parsers._table import as_series  # imported late: numpy is needed only for long input

    yield from as_series(chain(first, rest))


def parse_member(
    source: Source,
    content: Content,
    reader: str,
    read: Callable[[Source, Lines], Iterator[Record]],
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record | Foreign]:
    """Parse a whole member with a line parser, without block detection; many rows become columns."""
    undecoded = LineDamage()
    yield from rows_as_series(read(source, numbered_lines(content, undecoded, max_line_bytes)))
    yield from undecoded_problems(source, undecoded, reader)


def member_parser(
    parser: Parser,
    confirm: Callable[[str, bytes, int | None], object],
    max_line_bytes: int = MAX_LINE_BYTES,
    opens: re.Pattern[bytes] | None = None,
    min_size: int = 0,
) -> BulkParser:
    """Return a parser of whole members for the format of a line parser, without block detection."""

    def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
        return parse_member(source, content, parser.name, parser.read, max_line_bytes)

    return BulkParser(parser.name, parser.title, confirm, read, opens=opens, min_size=min_size)


_GREP_OUTPUT = re.compile(r"(?:\S*?(?=(?:sys|cgroup)/)|(?:\./)?(?=memory\.))(?P<path>[^\s:]{1,400}):(?P<text>.*)$")
_FILE_BANNER = re.compile(r"==> \S*?(?P<path>(?:sys|cgroup)/\S{1,400}) <==\s*$")


def lines_of_files(source: Source, lines: Lines) -> Iterator[tuple[int, str, str, str]]:
    """Yield (number, whole line, path of its file, text in that file), without `tail` banners and markdown fences."""
    path = source.path
    for number, line in lines:
        if banner := _FILE_BANNER.match(line):
            path = banner["path"]
        elif match := _GREP_OUTPUT.match(line):
            yield number, line, match["path"], match["text"].strip()
        elif (text := line.strip()) and text not in ("```", "..."):
            yield number, line, path, text


def any_of(*patterns: re.Pattern[str], blank: bool = False) -> Callable[[str], bool]:
    """Return a predicate for lines that match a pattern; with `blank` also for empty lines, as between tables."""

    def is_match(text: str) -> bool:
        return any(pattern.match(text) for pattern in patterns) or (blank and not text.strip())

    return is_match


def any_of_first(lines: int, *patterns: re.Pattern[str]) -> Callable[[list[str]], bool]:
    """Return a predicate for blocks that have a match of a pattern among their first `lines` lines."""

    def has_match(block: list[str]) -> bool:
        return any(pattern.match(text) for text in block[:lines] for pattern in patterns)

    return has_match


@dataclass(slots=True)
class ValueRows:
    """Collects values into one sample per entity; a repeated name (output of a loop) begins the next sample."""

    source: Source
    reader: str
    kind: str
    _open: dict[Entity, tuple[dict[str, float], int, str]] = field(default_factory=dict)

    def add(self, entity: Entity, name: str, value: float, number: int, line: str) -> Iterator[Sample]:
        """Add a value; yield the previous sample of the entity if the name is already in it."""
        if self.has(entity, name):
            yield self._sample(entity)
        self.update(entity, {name: value}, number, line)

    def update(self, entity: Entity, values: Mapping[str, float], number: int, line: str) -> None:
        """Add values; they replace earlier values of the same names."""
        if values:
            self._open.setdefault(entity, ({}, number, line))[0].update(values)

    def has(self, entity: Entity, name: str) -> bool:
        return entity in self._open and name in self._open[entity][0]

    def finish(self) -> Iterator[Sample]:
        """Yield the remaining samples."""
        for entity in list(self._open):
            yield self._sample(entity)

    def _sample(self, entity: Entity) -> Sample:
        values, number, line = self._open.pop(entity)
        return Sample(self.kind, values, self.source.cite(number, line), self.reader, entity)


_COMMAND_END = re.compile(r"[|;&<>#]")


class Command(NamedTuple):
    """Options (letter or long name -> value, empty for switches) and positional arguments of a command."""

    options: dict[str, str]
    arguments: tuple[str, ...]

    def interval(self) -> float | None:
        """Return the first plain number (`vmstat 5`, `pidstat -r 2 30`), in seconds."""
        return next((parse_number(a) for a in self.arguments if parse_number(a) is not None), None) or None


@lru_cache(64)  # all blocks of a recording have the same command
def parse_command(command: str, program: str, with_value: str = "") -> Command | None:
    """Return the options and arguments of `program` in a command line, or None if the line does not call it.

    `with_value` lists the option letters that take a value. Wrappers before the program (sudo, nohup, timeout 60) are
    skipped, and the command ends at a pipe or redirection.
    """
    words = _COMMAND_END.split(command, maxsplit=1)[0].split()
    index = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == program), None)
    if index is None:
        return None
    options: dict[str, str] = {}
    arguments: list[str] = []
    rest = iter(words[index + 1 :])
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else (next(rest, "") if name == "unit" else "")
        elif word.startswith("-") and len(word) > 1:
            _parse_cluster(word[1:], with_value, rest, options)
        else:
            arguments.append(word)
    return Command(options, tuple(arguments))


def _parse_cluster(cluster: str, with_value: str, rest: Iterator[str], options: dict[str, str]) -> None:
    """Parse `-wS M`, `-SM`, `-i2`: switches up to the first letter that takes a value, and that value."""
    for index, letter in enumerate(cluster):
        if letter in with_value:
            options[letter] = cluster[index + 1 :] or next(rest, "")
            return
        options[letter] = ""


Row = tuple[int, str, str, float]  # line number, line, metric name, value

CGROUP_COUNTER = (
    r"(?:(?:total_)?(?:cache|rss|rss_huge|shmem|mapped_file|dirty|writeback|swap|swapcached|pgpgin|pgpgout|pgfault|"
    r"pgmajfault|unevictable|(?:in)?active_(?:anon|file)|workingset_[a-z_]{1,30})|hierarchical_(?:memory|memsw)_limit|"
    r"anon|file|kernel|kernel_stack|pagetables|sec_pagetables|percpu|sock|vmalloc|zswap|zswapped|"
    r"file_(?:mapped|dirty|writeback|thp)|(?:anon|shmem)_thp|slab|slab_(?:un)?reclaimable|hugetlb|"
    r"pg(?:refill|scan|steal|activate|deactivate|lazyfreed?|demote|promote|scan_[a-z_]{1,20}|steal_[a-z_]{1,20}|"
    r"demote_[a-z_]{1,20}|promote_[a-z_]{1,20})|swp(?:in|out)_zero|zswp(?:in|out|wb)|thp_[a-z_]{1,40}|"
    r"numa_[a-z_]{1,30}) \d{1,20}\s*$"
)
"""A line of memory.stat of a memory cgroup (versions 1 and 2), also printed in the OOM report of a cgroup at its limit.

Some names are those of /proc/vmstat, but the numbers belong to one cgroup.
"""


def snapshots(name: str) -> Callable[[ReadWithErrors], Read]:
    """Return a decorator like `with_errors` for formats of /proc and /sys.

    A single snapshot gets the time of the block. Facts follow the samples, and problems come last.
    """

    def decorate(read_block: ReadWithErrors) -> Read:
        @wraps(read_block)
        def read(source: Source, lines: Lines) -> Iterator[Record]:
            errors, others = ParseErrors(source, name), list[Record]()

            def samples() -> Iterator[Sample]:
                for record in read_block(source, lines, errors):
                    if isinstance(record, Sample):
                        yield record
                    else:
                        others.append(record)

            yield from with_block_time(source, samples())
            yield from others
            yield from errors.problems()

        return read

    return decorate


def matches(
    lines: Lines, pattern: Pattern[str], errors: ParseErrors, reason: str
) -> Iterator[tuple[int, str, Match[str]]]:
    """Yield (number, text, match) of each matching line; note the others, except empty lines, with `reason`."""
    for number, line in lines:
        if match := pattern.match(line):
            yield number, line, match
        elif line.strip():
            errors.note(number, line, reason)


def count_of(number: int, line: str, text: str, errors: ParseErrors) -> int | None:
    """Parse a count as the kernel prints it; note anything else as an error."""
    value = parse_count(text)
    if value is None:
        errors.note(number, line, NOT_A_COUNT)
    return value


def counts_of(
    number: int, line: str, names: Iterable[str], columns: Sequence[str], errors: ParseErrors
) -> dict[str, float]:
    """Return the counts of a row by name; cells that are not counts are noted and left out."""
    counts = ((name, count_of(number, line, text, errors)) for name, text in zip(names, columns, strict=False))
    return {name: count for name, count in counts if count is not None}


def system_samples(source: Source, reader: str, rows: Iterable[Row], head: str = "") -> Iterator[Sample]:
    """Yield samples of the whole system from `name value` rows; a repeated name begins a new sample.

    `head` is the metric that every complete file begins with; it also begins a new sample.
    """
    values: dict[str, float] = {}
    cite = None
    for number, line, name, value in rows:
        if cite is not None and (name in values or name == head):
            yield Sample("system", values, cite, reader)
            values, cite = {}, None
        cite = cite or source.cite(number, line)
        values[name] = value
    if cite is not None:
        yield Sample("system", values, cite, reader)
