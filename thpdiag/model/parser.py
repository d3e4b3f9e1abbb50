"""The contract of a parser: one input format, lines in, records out.

A parser opens no files, prints nothing and knows no rules. It gets the lines of one block, which is a whole file or a
part of a longer text (a terminal session, a mail, a loop that prints the date between outputs). `thpdiag.detect` finds
the blocks: a block begins at a line that `opens` matches and continues as long as `continues` is true.

A binary format (perf.data), or one too long for parsing line by line (a gigabyte of perf script, kallsyms), has a
`BulkParser`, which gets the bytes of a whole member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from re import Pattern
from typing import NamedTuple, Protocol, runtime_checkable

from thpdiag.model import Citation, Moment, Record
from thpdiag.model.facts import excerpt_of

Lines = Iterable[tuple[int, str]]  # (line number from 1, text without line end, cleaned of quoting and escapes)


@runtime_checkable
class Passable(Protocol):
    """Lines of a whole member, many of which can be skipped at once."""

    @property
    def passed(self) -> tuple[int, bytes]: ...  # the last line skipped at the end of a block

    def __iter__(self) -> Iterator[tuple[int, str]]: ...

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Skip lines without any of these ASCII words, or fewer lines, and return their number."""


@runtime_checkable
class RowLines(Protocol):
    """Lines of a block, from which many rows can be taken at once."""

    def __iter__(self) -> Iterator[tuple[int, str]]: ...

    def rows(self, pattern: Pattern[str]) -> list[str]:
        """Take the next consecutive lines that match a pattern; fewer, or none, if the source cannot determine them.

        Matching lines must belong to the block and be no prompt.
        """


class Source(NamedTuple):
    """The origin of the lines, as far as the surrounding text shows it.

    `time` is that of the nearest time line above the block (`date` output, `zzz ***`, epoch) or None; `command` is the
    command typed at the prompt above it; `path` is the path of the content if the member, the command or a `grep -r`
    prefix names one (`/sys/kernel/mm/transparent_hugepage/enabled`), normalised without leading slash.
    """

    member: str
    time: Moment | None = None
    command: str = ""
    path: str = ""

    def cite(self, line: int, text: str = "") -> Citation:
        return Citation(self.member, line, excerpt_of(text))


class Parser(NamedTuple):
    """One input format.

    `opens` is matched (not searched) at the start of a cleaned line. A format that needs more than one line to be
    recognised has `confirm`, which gets the opening line and up to `lookahead` following ones (more than 8 only if a
    long header comes first). `continues` returns whether a further line belongs to the block; the first that does not
    may open another block. `paths` are regular expressions searched at the end of `Source.path`; a match selects this
    parser whatever the content (single-value sysfs files). `priority` decides between parsers that open at the same
    line; the higher one is tried first.
    """

    name: str
    title: str
    read: Callable[[Source, Lines], Iterator[Record]]
    opens: Pattern[str] | None = None
    continues: Callable[[str], object] = bool  # default: up to the first empty line
    confirm: Callable[[list[str]], object] | None = None
    paths: tuple[Pattern[str], ...] = ()
    priority: int = 0
    lookahead: int = 8

    @property
    def words(self) -> tuple[str, ...]:
        return ()

    def opens_at(self, text: str) -> bool:
        return self.opens is not None and self.opens.match(text) is not None

    def load(self) -> Parser:
        return self


class Format(Protocol):
    """The properties of a parser that are known before its module is imported."""

    @property
    def name(self) -> str: ...
    @property
    def paths(self) -> tuple[Pattern[str], ...]: ...
    @property
    def priority(self) -> int: ...
    @property
    def words(self) -> tuple[str, ...]:
        """Every line that opens a block contains one of these; empty if there are no such words."""

    def opens_at(self, text: str) -> bool: ...
    def load(self) -> Parser: ...


class Content(NamedTuple):
    """The bytes of a member.

    `chunks` yields them in order, decompressed, once; a parser may stop before the end. `size` is None if it is known
    only at the end. `file` is an uncompressed file on the analysing machine with exactly these bytes, if there is one,
    for parsers that use several processes; it is never cited. `again`: the member can be read a second time, so that a
    parser may leave data in it until it is needed.
    """

    chunks: Iterator[bytes]
    size: int | None = None
    file: Path | None = None
    again: bool = False


class OutOfTimeError(Exception):
    """The time for reading is over. It is raised at any point, also in a loop that reads nothing."""


class Foreign(NamedTuple):
    """Numbered lines of a member in another format: they are passed to the line parsers."""

    lines: tuple[tuple[int, str], ...]


class BulkParser(NamedTuple):
    """One input format that is read as bytes.

    A member has this format if it has at least `min_size` bytes (or its size is unknown), its first bytes match
    `opens`, and `confirm` is true for the path of the member on the host (or in the bundle), its first bytes (up to 64
    KiB) and its size (None: unknown); `confirm` must be exact. `opens` is cheap and avoids importing the module for
    other members. A line parser for the same format within a longer text has the same `name`. Damage, wrong versions
    and odd input are yielded as Problems.

    For a format of several files that another program reads, `beside` gets that path and the file of the member on disk
    and returns the name that it must have in one folder with the others; empty if the files are there already or no
    such program is installed. Such members are read after all of them have arrived.

    The content of a format `on_demand` is needed only if something else in the input refers to it. It may be left in
    the member if that can be read `again`.
    """

    name: str
    title: str
    confirm: Callable[[str, bytes, int | None], object] | None
    read: Callable[[Source, Content], Iterator[Record | Foreign]]
    beside: Callable[[str, Path | None], str] | None = None
    on_demand: bool = False
    opens: Pattern[bytes] | None = None
    min_size: int = 0

    def claims(self, path: str, head: bytes, size: int | None) -> bool:
        """Whether the whole member is of this format."""
        if (size is not None and size < self.min_size) or (self.opens and not self.opens.match(head)):
            return False
        return self.confirm is None or bool(self.confirm(path, head, size))
