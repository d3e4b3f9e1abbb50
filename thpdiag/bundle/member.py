"""One file of the bundle, as a forward stream that is valid until the next member is asked for.

Its lines are numbered, bounded, in the encoding the text has, with everything odd visible and counted.

Line numbers are those of `grep -n` and `sed -n Np`: line feeds count. A carriage return before one is dropped; one
elsewhere parts the text but not the number (progress bars, recorded terminals). A text with carriage returns alone has
them as line ends. UTF-8; UTF-16 by its byte order mark, or by where its zeros stand; a line that is no UTF-8 at all but
reads as Latin-1 (or the quotes and dashes that Windows-1252 adds to it) is taken for that.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from thpdiag.bundle.codecs import CHUNK, Stream
from thpdiag.bundle.limits import Limits
from thpdiag.model import Citation, Problem, ProblemKind

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NOT_TYPED = bytes({*range(32), *range(127, 160)} - set(b"\t\n\r\x1b"))
NEVER_TYPED = bytes(sorted(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b")))  # nor printed by terminals' programs
MIN_UTF16_BYTES = 16  # of a text in UTF-16 without a mark; fewer may be numbers
MIN_PADDING_BYTES = 8  # zeros
MIN_LATIN, MAX_NOT_TYPED = 0.7, 0.01  # shares of its characters: with a byte of 0, and of those what nobody types
_LATIN1 = re.compile(rb"[\x00-\x7f\x80\x85\x91-\x97\xa0-\xff]*")
_UTF8_PAIR = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def utf16_of(head: bytes) -> str:
    """The name of the encoding if a text that begins so is UTF-16, empty if it is not."""
    if marked := _UTF16.get(head[:2]):
        return marked
    size = len(head) & ~1
    if size < MIN_UTF16_BYTES or 0 not in head[:2]:
        return ""
    high = 0 if head[0] == 0 else 1  # where the zeros stand
    latin = bytes(char for char, zero in zip(head[1 - high : size : 2], head[high:size:2], strict=True) if not zero)
    odd = len(latin) - len(latin.translate(None, _NOT_TYPED))
    if len(latin) < MIN_LATIN * size / 2 or odd > MAX_NOT_TYPED * len(latin):
        return ""
    return "utf-16-le" if high else "utf-16-be"


def without_padding(content: bytes) -> bytes:
    """The content without a run of zeros at its end; a few may be of the last letters in UTF-16."""
    text = content.rstrip(b"\0")
    return text if len(content) - len(text) >= MIN_PADDING_BYTES else content


@dataclass(slots=True)
class LineDamage:
    """How many lines of a member were cut or could not be read, and the first of each."""

    cut: int = 0
    first_cut: int = 0
    undecodable: int = 0
    first_undecodable: int = 0

    def add(self, part: LineDamage, before: int) -> None:
        """Those of a part that stands behind so many lines."""
        if part.cut:
            self.first_cut = self.first_cut or before + part.first_cut
            self.cut += part.cut
        if part.undecodable:
            self.first_undecodable = self.first_undecodable or before + part.first_undecodable
            self.undecodable += part.undecodable

    def problems(self, member: str, longest: int) -> Iterator[Problem]:
        """`longest` is how many bytes of a line were read."""
        if self.cut:
            text = f"lines longer than {longest} bytes were cut (limit line)"
            yield Problem(Citation(member, self.first_cut), text, ProblemKind.LIMIT, count=self.cut)
        if self.undecodable:
            text = "lines have bytes that are neither UTF-8 nor Latin-1"
            yield Problem(Citation(member, self.first_undecodable), text, count=self.undecodable)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that come after each other: `text`, with line feeds between them, of which `number` is the first.

    Where some were decoded one by one, or parted, they are in `parted` instead, to be taken once.
    """

    number: int
    text: str
    parted: Iterable[tuple[int, str]] | None = None

    def lines(self) -> Iterable[tuple[int, str]]:
        """The lines with their numbers."""
        return enumerate(self.text.split("\n"), self.number) if self.parted is None else self.parted


class NumberedLines:
    """The lines of a text with their numbers; or its `blocks`, for whoever passes over most lines. Either, once."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self.blocks = blocks
        self._lines = chain.from_iterable(block.lines() for block in blocks)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self._lines

    def __next__(self) -> tuple[int, str]:
        return next(self._lines)


def number_lines(head: bytes, chunks: Iterable[bytes], limit: int, odd: LineDamage) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1. `head` is a look at the start, which `chunks` holds too."""
    return iter(NumberedLines(line_blocks(head, chunks, limit, odd)))


def line_blocks(head: bytes, chunks: Iterable[bytes], limit: int, odd: LineDamage) -> Iterator[Block]:
    """The same lines, as many at once as came at once."""
    number = 1
    separator = b"\r" if b"\r" in head and b"\n" not in head and not utf16_of(head) else b"\n"
    for rows, cut in _rows(_as_utf8(head, chunks), separator, limit):
        plain = None if cut else _plain_text(rows)
        yield Block(number, "", _split_lines(rows, number, odd)) if plain is None else Block(number, plain)
        for index in cut:
            odd.cut += 1
            odd.first_cut = odd.first_cut or number + index
        number += len(rows)


def _plain_text(rows: list[bytes]) -> str | None:
    """The lines as one text if all are UTF-8 without carriage returns and NULs, which most are; else None."""
    try:
        text = b"\n".join(rows).decode()
    except UnicodeDecodeError:
        return None
    return None if "\r" in text or "\0" in text else text


def _split_lines(rows: list[bytes], number: int, odd: LineDamage) -> Iterator[tuple[int, str]]:
    for line, row in enumerate(rows, number):
        text, good = _decode(row)
        if not good:
            odd.undecodable += 1
            odd.first_undecodable = odd.first_undecodable or line
        for part in text.rstrip("\r").split("\r"):
            yield line, part


def _as_utf8(head: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    if encoding := utf16_of(head):
        decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
        return
    first = True
    for chunk in chunks:
        yield chunk.removeprefix(codecs.BOM_UTF8) if first else chunk
        first = False


def _rows(chunks: Iterable[bytes], separator: bytes, limit: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """Complete lines by chunk, and which of them were cut: the rest of a line over the limit is dropped as it comes."""
    rest, over = b"", False
    for chunk in chunks:
        first, *lines = chunk.split(separator)
        if not over:
            rest += first
        if not lines:
            over = over or len(rest) > limit
            rest = rest[:limit]
            continue
        rows, was_over = [rest, *lines], over
        rest = rows.pop()
        over, rest = len(rest) > limit, rest[:limit]
        cut = [index for index, row in enumerate(rows) if len(row) > limit] if max(map(len, rows)) > limit else []
        for index in cut:
            rows[index] = rows[index][:limit]
        yield rows, [0, *cut] if was_over and cut[:1] != [0] else cut
    if rest or over:
        yield [rest], [0] if over else []


def _decode(row: bytes) -> tuple[str, bool]:
    """The text, and False when bytes of it are of no encoding we know. NULs are made visible."""
    try:
        text = row.decode()
    except UnicodeDecodeError:
        if _LATIN1.fullmatch(row) and not _UTF8_PAIR.search(row):
            return row.decode("cp1252").replace("\0", "\\x00"), True
        return row.decode("utf-8", "backslashreplace").replace("\0", "\\x00"), False
    return (text.replace("\0", "\\x00") if "\0" in text else text), True


MAX_HELD_LINE_BYTES = 1 << 20  # bytes of a line that are held back until its end is seen
MAX_ROW_BYTES = (
    4096  # bytes; a line that is longer is no row but a document, which is worth reading up to where it ends
)


class Member:
    """A file the reader may want.

    `path` is the customer's path inside the bundle, printable; `aliases` are the wanted paths of links that lead here;
    `size` is None where it is known only at the end; `file` opens the same bytes again where they lie on a disk as they
    are, while the member is valid. `archive` is the path of the archive it lies in, `absolute` says that it has an
    absolute name there. `problems` and `sha256` are complete after `finish`. `kept` is what was read of it,
    as far as `keep` asks for it; `lined` says that it was read as lines, so that it is a text.
    """

    def __init__(
        self,
        path: str,
        size: int | None,
        stream: Stream,
        limits: Limits,
        aliases: tuple[str, ...] = (),
        file: Path | None = None,
        archive: str = "",
        *,
        absolute: bool = False,
    ) -> None:
        self.path = path
        self.archive = archive
        self.absolute = absolute
        self.size = size
        self.aliases = aliases
        self.file = file
        self.problems: list[Problem] = []
        self.kept: list[bytes] = []
        self.lined = False
        self._room = 0  # bytes of `kept`
        self._stream = stream
        self._limits = limits
        self._hash = hashlib.sha256()
        self._given = 0
        self._ended = False
        self._cut = False  # it ends before its end

    def head(self, size: int = CHUNK) -> bytes:
        """The first bytes that were not read yet, without reading them."""
        return self._stream.peek(size)

    def keep(self, most: int) -> None:
        """Of what is read from now on, keep the first bytes."""
        self._room = most

    def lines(self) -> NumberedLines:
        """Numbered lines without line ends, from 1; see `thpdiag.bundle.member`."""
        return NumberedLines(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        odd = LineDamage()
        try:
            yield from line_blocks(self.head(), self.chunks_of_lines(), self._limits.line, odd)
        finally:
            self.problems.extend(odd.problems(self.path, self._limits.line))

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come. What ends them early becomes a problem."""
        while not self._ended and (chunk := self._stream.read()):
            room = self._limits.member_bytes - self._given
            if len(chunk) > room:
                text = f"only the first {self._limits.member_bytes} bytes were read (limit member_bytes)"
                self.problems.append(Problem(Citation(self.path), text, ProblemKind.LIMIT))
                self._ended = self._cut = True
                chunk = chunk[:room]
            self._given += len(chunk)
            self._hash.update(chunk)
            if self._room:
                self.kept.append(chunk[: self._room])
                self._room -= len(self.kept[-1])
            yield chunk
        if not self._ended:
            self._ended = True
            if failure := self._stream.failure:
                self._cut = True
                self.problems.append(failure.problem(self.path))

    def chunks_of_lines(self) -> Iterator[bytes]:
        """The bytes of a text, cut at line ends; where they end early, without the last row.

        Half a row is no shorter row: of 953586 the first two digits are another number. Zeros at the end are no text:
        tar fills files of /sys up with them, whose size is that of a page whatever is in them.
        """
        self.lined = True
        held = b""
        for chunk in self.chunks():
            end = chunk.rfind(b"\n") + 1
            if end:
                yield held + chunk[:end]
                held = chunk[end:]
            else:
                held += chunk
                if len(held) > MAX_HELD_LINE_BYTES:
                    yield held
                    held = b""
        held = without_padding(held)
        if held and not (self._cut and len(held) <= MAX_ROW_BYTES):
            yield held

    def finish(self) -> None:
        """Reads what is left, so that `sha256` and `problems` speak of the whole member."""
        for _ in self.chunks():
            pass

    @property
    def sha256(self) -> str:
        """Of the content (decompressed), as far as it was read."""
        return self._hash.hexdigest()

    @property
    def length(self) -> int:
        """Bytes of the content (decompressed), as far as it was read."""
        return self._given
