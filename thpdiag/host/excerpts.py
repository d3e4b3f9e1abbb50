"""Excerpts: the cited lines of the input as they stand there, with what makes them readable.

They come from the text cache, else from the members, read a second time. Line numbers are those of the parsers
(`thpdiag.bundle.member`); parts of a line that carriage returns separate stand as one line again. With a sample of call
stacks go its frames, with a row of a table the line that names its columns; of a snapshot, which is cited by its first
line, the rows that name what it is cited for.

Nothing is quoted that may be another line than the one that was parsed: a member that has changed since has another
SHA-256, and where two members of one name differ in the line, only the one that the citation remembers is quoted.

The cache of the texts that were parsed has a bound; members that it does not hold are read again. Most of what is cited
stands in small files, and what comes through a pipe cannot be read a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thpdiag.bundle import Limits, Member
from thpdiag.bundle.member import LineDamage, number_lines, utf16_of
from thpdiag.bundle.open import reread_members
from thpdiag.detect.transcript import TextLine, clean, clean_lines
from thpdiag.host.sibling_files import sibling_files
from thpdiag.model import Citation
from thpdiag.model.facts import Excerpt, ExcerptRequest

MAX_CACHE_BYTES = 16 << 20  # bytes of all that is kept
MAX_MEMBER_BYTES = 2 << 20  # of one member, where it can be read again


class CachedText(NamedTuple):
    """One member: its beginning, which is all of it if it is `whole`."""

    begin: Sequence[bytes] = ()
    whole: bool = False


@dataclass(slots=True)
class TextCache:
    """By path and SHA-256: an archive may hold two members of one name. `each` is the most of one member."""

    each: int = MAX_MEMBER_BYTES
    _room: int = MAX_CACHE_BYTES
    _texts: dict[str, dict[str, CachedText]] = field(default_factory=dict)

    def watch(self, member: Member) -> None:
        """Has a member that is about to be read keep what it gives, as far as there is room."""
        member.keep(min(self.each, self._room))

    def add(self, member: Member) -> None:
        """Keeps a text that was read."""
        texts = self._texts.setdefault(member.path, {})
        if member.sha256 not in texts:
            texts[member.sha256] = CachedText(member.kept, whole=sum(map(len, member.kept)) == member.length)
            self._room -= sum(map(len, member.kept))

    def texts(self, path: str) -> Mapping[str, CachedText]:
        """What members of that path hold, by its SHA-256; nothing if none of them is a text."""
        return self._texts.get(path, {})


def reread(
    left: dict[str, set[str]], paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> Iterator[Member]:
    """The members of the paths in `left`, by path the SHA-256 of those that are wanted, until all of them were met.

    A member is one of them only if it has such a SHA-256 when it was read to its end (`finish`): it may have changed,
    or be another of the same name. Those that were met are taken out of `left`.
    """
    if not left:
        return
    ends = {end for path in left for end in _ends(path)}
    for member in reread_members([*paths, *sibling_files(paths)], ends.__contains__, limits, stdin):
        if member.path not in left:
            continue
        yield member
        member.finish()
        left[member.path].discard(member.sha256)
        if not left[member.path]:
            del left[member.path]
        if not left:
            return


def _ends(member: str) -> Iterable[str]:
    """A member's path, and the same without the folders or labels before it."""
    parts = member.split("/")
    return ("/".join(parts[at:]) for at in range(len(parts)))


MIN_COLUMNS = 3  # columns
_NUMBER = re.compile(r"(?:^|\s)[-+]?\d[\d.,]*[kKmMgGtT%]?(?=\s|$)")
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?|[AP]M|\d{4}-?\d\d-?\d\d")
_COMMAND_COLUMNS = ("COMMAND", "Command", "CMD")  # may have blanks in it


@dataclass(slots=True)
class ColumnHeadings:
    """Reads a text line by line and remembers the last that can be a heading.

    A heading holds no number and as many words as the row; an empty line, or lines that were not looked at, end it.
    """

    _line: int = 0
    _heading: str = ""

    def look(self, number: int, text: str) -> None:
        if number > self._line + 1 or not text.strip():
            self._heading = ""
        if text and not _NUMBER.search(text):
            self._heading = text
        self._line = number

    def heading_of(self, row: TextLine) -> str:
        """The heading of the row, as it stands there; empty if there is none."""
        if not self._heading or row.number > self._line + 1:
            return ""
        heading = next(clean_lines([(self._line, self._heading)], markup=False))
        fits = heading.depth == row.depth and _heading_fits(heading.text, row.text)
        return self._heading if fits else ""


def _heading_fits(heading: str, row: str) -> bool:
    """As many words as columns behind the time that begins a line, numbers among them; a listing of processes has more
    words and fewer numbers. Recorders put a sign before headings."""
    names, values = (text.replace("#", " ").split() for text in (heading, row))
    for words in (names, values):
        while words and (words[0] in ("Date", "Time") or _TIME.fullmatch(words[0])):
            del words[0]
    if len(names) < MIN_COLUMNS:
        return False
    numbers = [bool(_NUMBER.fullmatch(word)) for word in values]
    if names[-1] in _COMMAND_COLUMNS and len(values) >= len(names):
        return 3 * sum(numbers[: len(names)]) >= len(names)
    titled = bool(values) and values[0].endswith(":")
    return len(values) == len(names) + titled and 2 * sum(numbers) >= len(values)


MAX_LINE_CHARS = 300  # characters of a line
MAX_FRAMES = 12  # lines of a sample
MAX_ROWS = 6  # of one snapshot
MAX_SNAPSHOT_LINES = 400  # lines of one; /proc/vmstat has some 200
MAX_SCANNED_LINES = (
    200_000  # lines; behind them only what is near to cited ones, so that names of columns may be missing
)
BLOCK_BYTES = 1 << 16  # bytes
MAX_HELD_BYTES = 1 << 22  # bytes of lines above a needed one, among which the names of its columns may be
_ROW = re.compile(
    r"\s*(?:[^\s:]+:(?=\w))?(?P<name>[\w()]+):?\s+(?P<value>-?\d+)(?P<unit> kB)?(?P<further>\s+\S.*)?\s*$"
)
_FILE = re.compile(r"\s*\S{0,400}/(?P<name>\w+):(?P<value>\d+)(?P<further>\s+\S.*)?\s*$")  # of one number each
_LABEL = re.compile(r"\s*%?(?:[KMGT]iB )?(?P<name>Tasks|Threads|Cpu\(s\)|Mem|Swap) *:(?P<further>)")  # of top
_FRAME = re.compile(r"(?:\s*[0-9a-f]{3,16} |\t| {8})(?!.*\d\.\d{6,9}:)\s*\S")
_SHARE = re.compile(r"[-+]?\s*\d{1,3}(?:\.\d+)?%")  # a row of perf report, whose graph may stand below an empty line
_UNFOLDED = re.compile(r" ++[-+|]?\s*+\S")  # below a row that begins with `-`, as perf report shows it at a terminal
_TABLE = re.compile(r"\s*(?:\d[\d.]*\s+){0,3}\d{1,3}\.\d+%\s")  # of perf top, whose rows are indented
_SAMPLED = frozenset(("counter", "effect", "toggle", "total", "cpu"))


def find_excerpts(
    begin: bytes, chunks: Iterable[bytes], wanted: Iterable[ExcerptRequest], limit: int, *, is_cut: bool = False
) -> dict[ExcerptRequest, Excerpt]:
    """The excerpts that are there, of a text that was cut short without those that may go on behind its end.

    `chunks` end at line ends; `begin` are their first bytes, `limit` the most of a line.
    """
    scan = _TextScan()
    for request in wanted:
        scan.later.setdefault(request.line, []).append(request)
    scan.read(_needed_lines(begin, chunks, scan, limit))
    unfinished = {item.passage for item in scan.open} if is_cut else ()
    return {request: excerpt for request, excerpt in scan.found.items() if request not in unfinished}


def line_blocks(text: bytes) -> Iterator[bytes]:
    """A text that is held, in pieces that end at line ends."""
    at, end = 0, len(text)
    while at < end:
        after = text.find(b"\n", at + BLOCK_BYTES, end) + 1 or end
        yield text[at:after]
        at = after


@dataclass(slots=True)
class _OpenExcerpt:
    """A passage whose further lines are still looked for.

    `left` is how many lines it may reach. Of a snapshot `first` is the name in the cited row, `rows` are those found.
    """

    passage: ExcerptRequest
    left: int
    lines: list[str] = field(default_factory=list)
    first: str = ""
    rows: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _TextScan:
    """What is looked for in one text, and what was found."""

    later: dict[int, list[ExcerptRequest]] = field(default_factory=dict)
    found: dict[ExcerptRequest, Excerpt] = field(default_factory=dict)
    open: list[_OpenExcerpt] = field(default_factory=list)
    columns: ColumnHeadings = field(default_factory=ColumnHeadings)

    def wants(self, first: int, last: int) -> bool:
        """Whether lines of that stretch are needed."""
        return bool(self.open) or any(first <= line <= last for line in self.later)

    @property
    def names_columns(self) -> bool:
        return any(passage.kind != "stack" for found in self.later.values() for passage in found)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in _rejoin_lines(lines):
            if self.open or number in self.later:
                line = next(clean_lines([(number, text[:MAX_LINE_CHARS])], markup=False))
                self.open = [item for item in self.open if self._goes_on(item, text, line)]
                for passage in self.later.pop(number, ()):
                    self._begin(passage, text, line)
            if not (self.later or self.open):
                return
            self.columns.look(number, text)

    def _begin(self, passage: ExcerptRequest, text: str, line: TextLine) -> None:
        """The cited line itself."""
        tabled = passage.kind != "stack" and line.number <= MAX_SCANNED_LINES
        named = self.columns.heading_of(line) if tabled else ""
        lines = (_shorten(named), _shorten(text)) if named else (_shorten(text),)
        row = _match_row(line.text)
        if not (row and passage.kind in _SAMPLED and row["further"] is None):  # else of another counter, mostly
            self.found[passage] = Excerpt(line.number, lines, len(lines) - 1)
        if passage.kind == "stack":
            self.open.append(_OpenExcerpt(passage, MAX_FRAMES - 1, [_shorten(text)]))
        elif passage.names and not (named and row and row["name"] in passage.names):
            item = _OpenExcerpt(passage, MAX_SNAPSHOT_LINES, first=row["name"] if row else "")
            if not row or self._take_row(item, row["name"], text, line):
                self.open.append(item)

    def _goes_on(self, item: _OpenExcerpt, text: str, line: TextLine) -> bool:
        """Takes a further line in; whether there may be more.

        A snapshot ends where a line has another form, or begins anew.
        """
        item.left -= 1
        if item.passage.kind == "stack":
            more = self._frame(item, text, line)
        else:
            row = _match_row(line.text)
            more = row is not None and row["name"] != item.first and self._take_row(item, row["name"], text, line)
        return more and item.left > 0

    def _frame(self, item: _OpenExcerpt, text: str, line: TextLine) -> bool:
        shared = _SHARE.match(item.lines[0])
        if not line.text.strip() and len(item.lines) == 1 and shared:
            return True
        frame = _UNFOLDED if shared and item.lines[0].startswith("-") else _FRAME
        if not frame.match(line.text) or _TABLE.match(line.text):
            return False
        item.lines.append(_shorten(text))
        self.found[item.passage] = Excerpt(item.passage.line, tuple(item.lines))
        return True

    def _take_row(self, item: _OpenExcerpt, name: str, text: str, line: TextLine) -> bool:
        """Takes in a row of a snapshot if it is asked for; whether there may be more."""
        asked = item.passage.names
        if name in asked and name not in item.rows:
            item.rows[name] = (line.number, _shorten(text))
            rows = [item.rows[wanted] for wanted in asked if wanted in item.rows]
            self.found[item.passage] = Excerpt(rows[0][0], tuple(text for _, text in rows))
        return len(item.rows) < min(MAX_ROWS, len(asked))


def _match_row(text: str) -> re.Match[str] | None:
    """A line as the row of a snapshot; `further` is None where one number is all that stands there."""
    return _ROW.match(text) or _LABEL.match(text) or _FILE.match(text)


def _needed_lines(begin: bytes, chunks: Iterable[bytes], page: _TextScan, limit: int) -> Iterator[tuple[int, str]]:
    """The lines that are needed; of a long text what lies far from them is passed over by counting line ends.

    But the names of a row's columns may stand above it, up to an empty line.
    """
    if utf16_of(begin) or b"\n" not in begin:
        yield from number_lines(begin, chunks, limit, LineDamage())
        return
    before, held, held_bytes = 0, list[tuple[int, bytes]](), 0
    for chunk in chunks:
        count = chunk.count(b"\n")
        near = page.wants(before, before + count + 1)  # the line before is the last that the page has not seen yet
        empty = 0 if near else chunk.rfind(b"\n\n") + 1
        if empty:
            held, held_bytes = [], 0
        if near or (before < MAX_SCANNED_LINES and page.names_columns):
            held.append((before + chunk.count(b"\n", 0, empty), chunk[empty:]))
            held_bytes += len(chunk)
        if near or held_bytes > MAX_HELD_BYTES:
            for first, part in held:
                yield from ((first + line, text) for line, text in number_lines(b"\n", (part,), limit, LineDamage()))
            held, held_bytes = [], 0
        before += count


def _rejoin_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Lines with what carriage returns parted in them."""
    at, parts = 0, [""]
    for number, text in lines:
        if number == at:
            parts.append(text)
            continue
        if at:
            yield at, "\r".join(parts)
        at, parts = number, [text]
    if at:
        yield at, "\r".join(parts)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[: MAX_LINE_CHARS - 1]}…"


_Excerpts = Mapping[ExcerptRequest, Excerpt]
TELLING_CHARS = 40  # characters that tell a line of one member from that of another


def read_excerpts(
    wanted: Iterable[ExcerptRequest],
    kept: TextCache,
    paths: Sequence[Path],
    limits: Limits,
    stdin: BinaryIO | None = None,
) -> dict[ExcerptRequest, Excerpt]:
    """By passage the quote, without those that cannot be had (a pipe of which little was kept, no text, a change)."""
    requests: dict[str, set[ExcerptRequest]] = {}
    for passage in wanted:
        requests.setdefault(passage.member, set()).add(passage)
    found: dict[str, dict[str, _Excerpts]] = {member: {} for member in requests}  # by member and SHA-256
    to_reread: dict[str, set[str]] = {}
    for member, asked in requests.items():
        for sha256, text in kept.texts(member).items():
            begin, held = b"".join(text.begin[:2]), b"".join(text.begin)
            if not text.whole:
                held = held[: held.rfind(b"\n") + 1]  # without a last line that is cut
            known = find_excerpts(begin, line_blocks(held), asked, limits.line, is_cut=not text.whole) if begin else {}
            found[member][sha256] = known
            if not text.whole and len(known) < len(asked):
                to_reread.setdefault(member, set()).add(sha256)
    for again in reread(to_reread, paths, limits, stdin):
        known = find_excerpts(again.head(), again.chunks_of_lines(), requests[again.path], limits.line)
        again.finish()
        if again.sha256 in to_reread[again.path]:
            found[again.path][again.sha256] = known
    versions = {passage: found[member].values() for member, asked in requests.items() for passage in asked}
    quotes = ((passage, _unambiguous(passage, of_member)) for passage, of_member in versions.items())
    return {passage: quote for passage, quote in quotes if quote}


def cited_lines(
    cited: Iterable[Citation], kept: TextCache, paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> dict[Citation, tuple[int, str]]:
    """By citation the number and text of the line that says it. `text` of a citation is what a snapshot's row names."""
    wanted = {cite: ExcerptRequest(cite.member, cite.line, "", tuple(cite.text.split())) for cite in cited if cite.line}
    found = read_excerpts(wanted.values(), kept, paths, limits, stdin)
    quoted = ((cite, found[passage]) for cite, passage in wanted.items() if passage in found)
    return {cite: (quote.line, quote.lines[quote.cited]) for cite, quote in quoted}


def _unambiguous(passage: ExcerptRequest, versions: Iterable[_Excerpts]) -> Excerpt | None:
    """What members of one name say, if all that can be meant say the same."""
    excerpts = {version[passage] for version in versions if passage in version}
    if len(excerpts) > 1:
        telling = passage.text.strip()[:TELLING_CHARS]
        excerpts = {quote for quote in excerpts if passage.text and telling in clean(quote.lines[quote.cited])}
    return excerpts.pop() if len(excerpts) == 1 else None
