"""Lines of a block or of a member: numbering, parse errors, paths that grep prints, the command typed above them.

Files of /proc and /sys: blocks of one snapshot, or of many where a loop prints a file again and again.
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
"""A line of a memory cgroup's memory.stat (versions 1 and 2), as it also stands in the report on a cgroup at its limit.

The names are partly those of /proc/vmstat, but the numbers are of one cgroup.
"""


def snapshots(name: str) -> Callable[[ReadWithErrors], Read]:
    """The reader of a format, of a function that gives its records and notes what does not fit.

    A single snapshot has the time of the block; facts and problems come behind the samples.
    """

    def decorate(read_block: ReadWithErrors) -> Read:
        @wraps(read_block)
        def read(source: Source, lines: Lines) -> Iterator[Record]:
            odd, others = ParseErrors(source, name), list[Record]()

            def samples() -> Iterator[Sample]:
                for record in read_block(source, lines, odd):
                    if isinstance(record, Sample):
                        yield record
                    else:
                        others.append(record)

            yield from with_block_time(source, samples())
            yield from others
            yield from odd.problems()

        return read

    return decorate


def matches(
    lines: Lines, pattern: Pattern[str], odd: ParseErrors, misfit: str
) -> Iterator[tuple[int, str, Match[str]]]:
    """Number, text and match of each line; another one is odd unless it is empty."""
    for number, line in lines:
        if found := pattern.match(line):
            yield number, line, found
        elif line.strip():
            odd.note(number, line, misfit)


def count_of(number: int, line: str, text: str, odd: ParseErrors) -> int | None:
    """A count as the kernel prints it; anything else is odd."""
    value = parse_count(text)
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
    return value


def counts_of(
    number: int, line: str, names: Iterable[str], columns: Sequence[str], odd: ParseErrors
) -> dict[str, float]:
    """The columns of a row by name, without what is no count."""
    counts = ((name, count_of(number, line, text, odd)) for name, text in zip(names, columns, strict=False))
    return {name: count for name, count in counts if count is not None}


def system_samples(source: Source, reader: str, rows: Iterable[Row], head: str = "") -> Iterator[Sample]:
    """Samples of the whole system from `name value` rows; a new one begins where a name comes again.

    `head` is the metric that every whole file begins with.
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
