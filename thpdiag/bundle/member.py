"""A member of a bundle as a forward stream of bytes or lines.

Lines are numbered, limited in length and decoded; truncated and undecodable lines are counted.

Line numbers are those of `grep -n` and `sed -n Np`: they count line feeds. A carriage return before a line feed is
dropped; elsewhere it splits the text without increasing the number (progress bars, recorded terminals). If a text has
only carriage returns, they are its line ends. Encodings: UTF-8; UTF-16 with a byte order mark or by the position of its
zero bytes; a line that is invalid UTF-8 but valid Latin-1 (with the quotes and dashes of Windows-1252) is decoded as
such.
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
_UNUSUAL_CHARACTERS = bytes({*range(32), *range(127, 160)} - set(b"\t\n\r\x1b"))
NON_TEXT_BYTES = bytes(sorted(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b")))  # neither typed nor printed to terminals
MIN_UTF16_BYTES = 16  # of a text in UTF-16 without a mark; fewer may be binary numbers
MIN_PADDING_BYTES = 8  # zeros at the end of a member
# In UTF-16: the share of characters with a zero byte, and the share of unusual ones among these.
MIN_LATIN_SHARE, MAX_UNUSUAL_SHARE = 0.7, 0.01
MAX_HELD_LINE_BYTES = 1 << 20  # of a line that are held back until its end is seen
MAX_ROW_BYTES = 4096  # of an unfinished line that is dropped as a row; a longer one is a document and worth reading
_LATIN1 = re.compile(rb"[\x00-\x7f\x80\x85\x91-\x97\xa0-\xff]*")
_UTF8_PAIR = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def utf16_of(head: bytes) -> str:
    """Return the name of the encoding if a text with this beginning is UTF-16, otherwise empty."""
    if encoding := _UTF16.get(head[:2]):
        return encoding
    size = len(head) & ~1
    if size < MIN_UTF16_BYTES or 0 not in head[:2]:
        return ""
    high = 0 if head[0] == 0 else 1  # position of the zeros
    latin = bytes(char for char, zero in zip(head[1 - high : size : 2], head[high:size:2], strict=True) if not zero)
    unusual = len(latin) - len(latin.translate(None, _UNUSUAL_CHARACTERS))
    if len(latin) < MIN_LATIN_SHARE * size / 2 or unusual > MAX_UNUSUAL_SHARE * len(latin):
        return ""
    return "utf-16-le" if high else "utf-16-be"


def without_padding(content: bytes) -> bytes:
    """Return the content without a run of zeros at its end; a few zeros may belong to the last letters in UTF-16."""
    text = content.rstrip(b"\0")
    return text if len(content) - len(text) >= MIN_PADDING_BYTES else content


@dataclass(slots=True)
class LineDamage:
    """Number of lines of a member that were cut or could not be decoded, and the first line of each kind."""

    cut: int = 0
    first_cut: int = 0
    undecodable: int = 0
    first_undecodable: int = 0

    def add(self, part: LineDamage, before: int) -> None:
        """Add the damage of a part that follows after `before` lines."""
        if part.cut:
            self.first_cut = self.first_cut or before + part.first_cut
            self.cut += part.cut
        if part.undecodable:
            self.first_undecodable = self.first_undecodable or before + part.first_undecodable
            self.undecodable += part.undecodable

    def problems(self, member: str, longest: int) -> Iterator[Problem]:
        """Yield the problems; `longest` is the number of bytes to which lines were cut."""
        if self.cut:
            text = f"lines longer than {longest} bytes were cut (limit line)"
            yield Problem(Citation(member, self.first_cut), text, ProblemKind.LIMIT, count=self.cut)
        if self.undecodable:
            text = "lines have bytes that are neither UTF-8 nor Latin-1"
            yield Problem(Citation(member, self.first_undecodable), text, count=self.undecodable)


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines: `text`, separated by line feeds, with the `number` of the first.

    If lines had to be decoded separately, or were split at carriage returns, they are in `parted` instead, which can
    be iterated once.
    """

    number: int
    text: str
    parted: Iterable[tuple[int, str]] | None = None

    def lines(self) -> Iterable[tuple[int, str]]:
        return enumerate(self.text.split("\n"), self.number) if self.parted is None else self.parted


class NumberedLines:
    """Iterator over the numbered lines of a text, or over its `blocks`, for parsers that skip most lines; not both."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self.blocks = blocks
        self._lines = chain.from_iterable(block.lines() for block in blocks)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self._lines

    def __next__(self) -> tuple[int, str]:
        return next(self._lines)


def number_lines(head: bytes, chunks: Iterable[bytes], limit: int, damage: LineDamage) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, starting at 1. `head` is the beginning of the text, which `chunks` contains too."""
    return iter(NumberedLines(line_blocks(head, chunks, limit, damage)))


def line_blocks(head: bytes, chunks: Iterable[bytes], limit: int, damage: LineDamage) -> Iterator[Block]:
    """Yield the same lines in blocks, one per chunk."""
    number = 1
    separator = b"\r" if b"\r" in head and b"\n" not in head and not utf16_of(head) else b"\n"
    for rows, cut in _rows(_as_utf8(head, chunks), separator, limit):
        plain = None if cut else _plain_text(rows)
        yield Block(number, "", _split_lines(rows, number, damage)) if plain is None else Block(number, plain)
        for index in cut:
            damage.cut += 1
            damage.first_cut = damage.first_cut or number + index
        number += len(rows)


def _plain_text(rows: list[bytes]) -> str | None:
    """Return the lines as one text if all are UTF-8 without carriage returns and NULs, as in most files; else None."""
    try:
        text = b"\n".join(rows).decode()
    except UnicodeDecodeError:
        return None
    return None if "\r" in text or "\0" in text else text


def _split_lines(rows: list[bytes], number: int, damage: LineDamage) -> Iterator[tuple[int, str]]:
    for line, row in enumerate(rows, number):
        text, good = _decode(row)
        if not good:
            damage.undecodable += 1
            damage.first_undecodable = damage.first_undecodable or line
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
    """Yield the complete lines of each chunk, and the indexes of those that were cut at `limit` bytes."""
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
    """Return the text, and False if bytes of it are in no known encoding. NULs are made visible."""
    try:
        text = row.decode()
    except UnicodeDecodeError:
        if _LATIN1.fullmatch(row) and not _UTF8_PAIR.search(row):
            return row.decode("cp1252").replace("\0", "\\x00"), True
        return row.decode("utf-8", "backslashreplace").replace("\0", "\\x00"), False
    return (text.replace("\0", "\\x00") if "\0" in text else text), True


class Member:
    """A file of the bundle, valid until the next member is requested.

    `path` is the printable path inside the bundle; `aliases` are the wanted paths of links to it. `size` is None if it
    is known only at the end. `file` opens the same bytes again if they are on disk uncompressed. `archive` is the path
    of the archive with the member, and `absolute` is true if it has an absolute name there. `problems` and `sha256` are
    complete after `finish`. `kept` has the first bytes that were read after `keep`; `was_read_as_lines` is true for
    texts.
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
        self.was_read_as_lines = False
        self._bytes_to_keep = 0
        self._stream = stream
        self._limits = limits
        self._hash = hashlib.sha256()
        self.length = 0  # bytes of the (decompressed) content read so far
        self._ended = False
        self._truncated = False  # ends before the end of the file

    def head(self, size: int = CHUNK) -> bytes:
        """Return the next bytes without reading them."""
        return self._stream.peek(size)

    def keep(self, size: int) -> None:
        """Keep the first bytes that are read from now on."""
        self._bytes_to_keep = size

    def lines(self) -> NumberedLines:
        """Return the lines without line ends, numbered from 1."""
        return NumberedLines(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        damage = LineDamage()
        try:
            yield from line_blocks(self.head(), self.chunks_of_lines(), self._limits.line, damage)
        finally:
            self.problems.extend(damage.problems(self.path, self._limits.line))

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes. An early end becomes a problem."""
        while not self._ended and (chunk := self._stream.read()):
            room = self._limits.member_bytes - self.length
            if len(chunk) > room:
                text = f"only the first {self._limits.member_bytes} bytes were read (limit member_bytes)"
                self.problems.append(Problem(Citation(self.path), text, ProblemKind.LIMIT))
                self._ended = self._truncated = True
                chunk = chunk[:room]
            self.length += len(chunk)
            self._hash.update(chunk)
            if self._bytes_to_keep:
                self.kept.append(chunk[: self._bytes_to_keep])
                self._bytes_to_keep -= len(self.kept[-1])
            yield chunk
        if not self._ended:
            self._ended = True
            if failure := self._stream.failure:
                self._truncated = True
                self.problems.append(failure.problem(self.path))

    def chunks_of_lines(self) -> Iterator[bytes]:
        """Yield the bytes of a text in chunks that end at line ends; without the last row if the text is truncated.

        A truncated row would have wrong values: the first two digits of 953586 are another number. Zeros at the end are
        not text: tar pads files of /sys with them, whose size is that of a page regardless of the content.
        """
        self.was_read_as_lines = True
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
        if held and not (self._truncated and len(held) <= MAX_ROW_BYTES):
            yield held

    def finish(self) -> None:
        """Read the rest, so that `sha256` and `problems` cover the whole member."""
        for _ in self.chunks():
            pass

    @property
    def sha256(self) -> str:
        """The SHA-256 of the (decompressed) content read so far."""
        return self._hash.hexdigest()
