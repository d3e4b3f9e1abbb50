"""The contract of a parser: one input format, lines in, records out.

A parser opens nothing, prints nothing, knows no rule. It gets the lines of one block, which is a whole file or a
part of a longer text (a terminal session, a mail, a loop that prints the date between outputs). `thpdiag.detect`
finds the blocks: a block begins at a line that `opens` matches and goes on while `continues` says so.

What is no text (perf.data), or too long to be looked at line by line (a gigabyte of perf script, kallsyms), has a
`BulkParser`: it gets the bytes of a whole member.
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
    """Lines of a whole member, many of which can be passed over at once."""

    @property
    def passed(self) -> tuple[int, bytes]: ...  # the last line that was passed over at the end of a block

    def __iter__(self) -> Iterator[tuple[int, str]]: ...

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Pass over lines that hold none of these words of plain ASCII, and say how many; it may stop before others."""


@runtime_checkable
class RowLines(Protocol):
    """Lines of a block, of which rows can be taken many at once."""

    def __iter__(self) -> Iterator[tuple[int, str]]: ...

    def rows(self, pattern: Pattern[str]) -> list[str]:
        """Takes the next lines, one below the other, that match a pattern; none, or a part, where that is not known.

        What matches must belong to the block, and be no prompt.
        """


class Source(NamedTuple):
    """Where the lines come from, as far as the surrounding text tells.

    `time` is that of the nearest time line above the block (`date` output, `zzz ***`, epoch) or None; `command` is
    what was typed at the prompt above it; `path` is the path the content belongs to when the member, the command or
    a `grep -r` prefix names one (`/sys/kernel/mm/transparent_hugepage/enabled`), normalised without leading slash.
    """

    member: str
    time: Moment | None = None
    command: str = ""
    path: str = ""

    def cite(self, line: int, text: str = "") -> Citation:
        return Citation(self.member, line, excerpt_of(text))


class Parser(NamedTuple):
    """One input format.

    `opens` is matched (not searched) at the start of a cleaned line. Formats that need more than one line to be
    sure give `confirm`, which sees the opening line and up to `lookahead` following ones (more than 8 only where a
    long header comes first). `continues` says whether a further line still belongs to the block; the first that
    does not is looked at again as the possible opening of another block. `paths` are suffixes of member paths that
    belong to this parser whatever the content looks like (single-value sysfs files); they are regular expressions
    searched against the end of `Source.path`. `priority` decides between parsers that open at the same line; the
    higher one is asked first.
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
    """What is known of a parser before its module is imported."""

    @property
    def name(self) -> str: ...
    @property
    def paths(self) -> tuple[Pattern[str], ...]: ...
    @property
    def priority(self) -> int: ...
    @property
    def words(self) -> tuple[str, ...]:
        """Of every line that opens a block one of these is a part; none if nothing is known of such lines."""

    def opens_at(self, text: str) -> bool: ...
    def load(self) -> Parser: ...


class Content(NamedTuple):
    """The bytes of a member.

    `chunks` gives them in order, decompressed, once; a parser may stop before the end. `size` is None where it is known
    only at the end. `file` is an uncompressed file on the analyst's machine that holds just these bytes, if there is
    one, for parsers that share the work among processes; it is never cited. `again`: the member can be read a second
    time, once something asks for what a parser leaves in it now.
    """

    chunks: Iterator[bytes]
    size: int | None = None
    file: Path | None = None
    again: bool = False


class OutOfTimeError(Exception):
    """The time for reading is over. Raised wherever the reading happens to be, in a loop that reads nothing too."""


class Foreign(NamedTuple):
    """Numbered lines of a member that are of another format: they go to the parsers of lines."""

    lines: tuple[tuple[int, str], ...]


class BulkParser(NamedTuple):
    """One input format that is read as bytes.

    A member is of this format if it has `min_size` bytes (or nobody knows its size), its first bytes match `opens`,
    and `confirm` agrees, which gets the path of the member on the host (or in the bundle), its first bytes (up to
    64 KiB) and its size (None: unknown); it must be sure. `opens` is quick to ask and keeps the module from being
    imported for any other member. A parser of lines for the same format in a longer text has the same `name`. Damage,
    wrong versions and odd input are yielded as Problems.

    Of a format of several files, which a program of others reads, `beside` gets that path and the file of the member on
    a disk and says under which name it must lie there with the others; nothing, if they do so already, or nobody here
    can read them. Such members are read when all have been seen.

    Of a format `on_demand` the content is needed only where something else in the input asks for it. It may be left in
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
