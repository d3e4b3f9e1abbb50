"""Excerpts: the cited lines of the input as they are, with the lines that make them readable.

They come from the text cache, else from the members, which are read a second time. Line numbers are those of the
parsers (`thpdiag.bundle.member`); the parts of a line that carriage returns separate are joined again. A sample of call
stacks includes its frames, a row of a table the line with its column names; a snapshot, which is cited by its first
line, includes the rows for which it is cited.

An excerpt is never another line than the one that was parsed: a changed member has another SHA-256, and if two members
of one name differ in the line, only the one that matches the citation's text is used.

The cache of parsed texts has a limit; other members are read again. Most cited lines are in small files, and a pipe
cannot be read a second time.
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

MAX_CACHE_BYTES = 16 << 20  # of all cached texts
MAX_MEMBER_BYTES = 2 << 20  # cached per member if it can be read again


class CachedText(NamedTuple):
    """The beginning of a member, or all of it if `whole`."""

    begin: Sequence[bytes] = ()
    whole: bool = False


@dataclass(slots=True)
class TextCache:
    """Texts by path and SHA-256: an archive may hold two members of one name."""

    max_member_bytes: int = MAX_MEMBER_BYTES
    _room: int = MAX_CACHE_BYTES
    _texts: dict[str, dict[str, CachedText]] = field(default_factory=dict)

    def watch(self, member: Member) -> None:
        """Make a member that is about to be read keep its text, if there is room."""
        member.keep(min(self.max_member_bytes, self._room))

    def add(self, member: Member) -> None:
        """Add the text of a member that was read."""
        texts = self._texts.setdefault(member.path, {})
        if member.sha256 not in texts:
            texts[member.sha256] = CachedText(member.kept, whole=sum(map(len, member.kept)) == member.length)
            self._room -= sum(map(len, member.kept))

    def texts(self, path: str) -> Mapping[str, CachedText]:
        """Return the cached members of a path by SHA-256."""
        return self._texts.get(path, {})


def reread(
    left: dict[str, set[str]], paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> Iterator[Member]:
    """Yield the members of the paths in `left` (path to SHA-256 values) until all of them were found.

    Whether a member has such a SHA-256 is known only after it was read to its end (`finish`): it may have changed, or
    be another one of the same name. Found members are removed from `left`.
    """
    if not left:
        return
    suffixes = {suffix for path in left for suffix in _path_suffixes(path)}
    for member in reread_members([*paths, *sibling_files(paths)], suffixes.__contains__, limits, stdin):
        if member.path not in left:
            continue
        yield member
        member.finish()
        left[member.path].discard(member.sha256)
        if not left[member.path]:
            del left[member.path]
        if not left:
            return


def _path_suffixes(member: str) -> Iterable[str]:
    """Return a member's path, and the same without the folders or labels before it."""
    parts = member.split("/")
    return ("/".join(parts[at:]) for at in range(len(parts)))


MIN_HEADING_COLUMNS = 3  # of a heading
_NUMBER = re.compile(r"(?:^|\s)[-+]?\d[\d.,]*[kKmMgGtT%]?(?=\s|$)")
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?|[AP]M|\d{4}-?\d\d-?\d\d")
_COMMAND_COLUMNS = ("COMMAND", "Command", "CMD")  # columns whose values may contain blanks


@dataclass(slots=True)
class ColumnHeadings:
    """The last line of a text that may be a column heading.

    A heading has no number and as many words as its rows have columns. An empty or skipped line ends its table.
    """

    _line: int = 0
    _heading: str = ""

    def update(self, number: int, text: str) -> None:
        if number > self._line + 1 or not text.strip():
            self._heading = ""
        if text and not _NUMBER.search(text):
            self._heading = text
        self._line = number

    def heading_of(self, row: TextLine) -> str:
        """Return the heading line of a row; empty if there is none."""
        if not self._heading or row.number > self._line + 1:
            return ""
        heading = next(clean_lines([(self._line, self._heading)], markup=False))
        fits = heading.depth == row.depth and _heading_fits(heading.text, row.text)
        return self._heading if fits else ""


def _heading_fits(heading: str, row: str) -> bool:
    """Whether a heading has as many words as the row has columns after the time, and the row enough numbers; process
    listings have more words and fewer numbers. Recorders put `#` before headings."""
    names, values = (text.replace("#", " ").split() for text in (heading, row))
    for words in (names, values):
        while words and (words[0] in ("Date", "Time") or _TIME.fullmatch(words[0])):
            del words[0]
    if len(names) < MIN_HEADING_COLUMNS:
        return False
    numbers = [bool(_NUMBER.fullmatch(word)) for word in values]
    if names[-1] in _COMMAND_COLUMNS and len(values) >= len(names):
        return 3 * sum(numbers[: len(names)]) >= len(names)
    titled = bool(values) and values[0].endswith(":")
    return len(values) == len(names) + titled and 2 * sum(numbers) >= len(values)


MAX_LINE_CHARS = 300  # per line
MAX_FRAMES = 12  # lines per sample of a stack
MAX_ROWS = 6  # per snapshot
MAX_SNAPSHOT_LINES = 400  # per snapshot; /proc/vmstat has some 200
MAX_SCANNED_LINES = 200_000  # after them only lines near citations are read, and column names may be missing
BLOCK_BYTES = 1 << 16
MAX_BUFFER_BYTES = 1 << 22  # of lines before a needed one that are searched for its heading
_ROW = re.compile(
    r"\s*(?:[^\s:]+:(?=\w))?(?P<name>[\w()]+):?\s+(?P<value>-?\d+)(?P<unit> kB)?(?P<further>\s+\S.*)?\s*$"
)
_ONE_NUMBER_FILE = re.compile(r"\s*\S{0,400}/(?P<name>\w+):(?P<value>\d+)(?P<further>\s+\S.*)?\s*$")
_LABEL = re.compile(r"\s*%?(?:[KMGT]iB )?(?P<name>Tasks|Threads|Cpu\(s\)|Mem|Swap) *:(?P<further>)")  # of top
_FRAME = re.compile(r"(?:\s*[0-9a-f]{3,16} |\t| {8})(?!.*\d\.\d{6,9}:)\s*\S")
_SHARE = re.compile(r"[-+]?\s*\d{1,3}(?:\.\d+)?%")  # perf report, whose call graph may follow after an empty line
_UNFOLDED = re.compile(r" ++[-+|]?\s*+\S")  # below a row that begins with `-` in the terminal view of perf report
_PERF_TOP_ROW = re.compile(r"\s*(?:\d[\d.]*\s+){0,3}\d{1,3}\.\d+%\s")  # a row of perf top, which is indented
_COUNTER_KINDS = frozenset(("counter", "effect", "toggle", "total", "cpu"))


def find_excerpts(
    begin: bytes, chunks: Iterable[bytes], requests: Iterable[ExcerptRequest], limit: int, *, is_cut: bool = False
) -> dict[ExcerptRequest, Excerpt]:
    """Return the excerpts of a text; if it `is_cut`, without those that may continue after its end.

    `chunks` end at line ends; `begin` is the start of the text, `limit` the maximum length of a line.
    """
    scan = _TextScan()
    for request in requests:
        scan.later.setdefault(request.line, []).append(request)
    scan.read(_needed_lines(begin, chunks, scan, limit))
    unfinished = {item.request for item in scan.open} if is_cut else ()
    return {request: excerpt for request, excerpt in scan.excerpts.items() if request not in unfinished}


def line_blocks(text: bytes) -> Iterator[bytes]:
    """Yield pieces of a text that end at line ends."""
    start, end = 0, len(text)
    while start < end:
        next_start = text.find(b"\n", start + BLOCK_BYTES, end) + 1 or end
        yield text[start:next_start]
        start = next_start


@dataclass(slots=True)
class _OpenExcerpt:
    """An excerpt that may have further lines.

    `left` is the number of lines that it may still span. Of a snapshot, `first` is the name in the cited row and `rows`
    are those found.
    """

    request: ExcerptRequest
    left: int
    lines: list[str] = field(default_factory=list)
    first: str = ""
    rows: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _TextScan:
    """The requests for one text, and the excerpts so far."""

    later: dict[int, list[ExcerptRequest]] = field(default_factory=dict)
    excerpts: dict[ExcerptRequest, Excerpt] = field(default_factory=dict)
    open: list[_OpenExcerpt] = field(default_factory=list)
    columns: ColumnHeadings = field(default_factory=ColumnHeadings)

    def wants(self, first: int, last: int) -> bool:
        """Whether any of these lines is needed."""
        return bool(self.open) or any(first <= line <= last for line in self.later)

    @property
    def needs_headings(self) -> bool:
        return any(request.kind != "stack" for requests in self.later.values() for request in requests)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in _rejoin_lines(lines):
            if self.open or number in self.later:
                line = next(clean_lines([(number, text[:MAX_LINE_CHARS])], markup=False))
                self.open = [item for item in self.open if self._extend(item, text, line)]
                for request in self.later.pop(number, ()):
                    self._begin(request, text, line)
            if not (self.later or self.open):
                return
            self.columns.update(number, text)

    def _begin(self, request: ExcerptRequest, text: str, line: TextLine) -> None:
        """Add the cited line itself."""
        may_have_heading = request.kind != "stack" and line.number <= MAX_SCANNED_LINES
        heading = self.columns.heading_of(line) if may_have_heading else ""
        lines = (_shorten(heading), _shorten(text)) if heading else (_shorten(text),)
        row = _match_row(line.text)
        if not (row and request.kind in _COUNTER_KINDS and row["further"] is None):  # else usually another counter
            self.excerpts[request] = Excerpt(line.number, lines, len(lines) - 1)
        if request.kind == "stack":
            self.open.append(_OpenExcerpt(request, MAX_FRAMES - 1, [_shorten(text)]))
        elif request.names and not (heading and row and row["name"] in request.names):
            item = _OpenExcerpt(request, MAX_SNAPSHOT_LINES, first=row["name"] if row else "")
            if not row or self._add_row(item, row["name"], text, line):
                self.open.append(item)

    def _extend(self, item: _OpenExcerpt, text: str, line: TextLine) -> bool:
        """Add a further line to an excerpt, and return whether there may be more.

        A snapshot ends at a line of another form, or where its first row repeats.
        """
        item.left -= 1
        if item.request.kind == "stack":
            continues = self._add_frame(item, text, line)
        else:
            row = _match_row(line.text)
            continues = row is not None and row["name"] != item.first and self._add_row(item, row["name"], text, line)
        return continues and item.left > 0

    def _add_frame(self, item: _OpenExcerpt, text: str, line: TextLine) -> bool:
        is_share = _SHARE.match(item.lines[0])
        if not line.text.strip() and len(item.lines) == 1 and is_share:
            return True
        frame = _UNFOLDED if is_share and item.lines[0].startswith("-") else _FRAME
        if not frame.match(line.text) or _PERF_TOP_ROW.match(line.text):
            return False
        item.lines.append(_shorten(text))
        self.excerpts[item.request] = Excerpt(item.request.line, tuple(item.lines))
        return True

    def _add_row(self, item: _OpenExcerpt, name: str, text: str, line: TextLine) -> bool:
        """Add a requested row of a snapshot, and return whether there may be more."""
        names = item.request.names
        if name in names and name not in item.rows:
            item.rows[name] = (line.number, _shorten(text))
            rows = [item.rows[n] for n in names if n in item.rows]
            self.excerpts[item.request] = Excerpt(rows[0][0], tuple(text for _, text in rows))
        return len(item.rows) < min(MAX_ROWS, len(names))


def _match_row(text: str) -> re.Match[str] | None:
    """Match a line as the row of a snapshot; `further` is None if the line has only one number."""
    return _ROW.match(text) or _LABEL.match(text) or _ONE_NUMBER_FILE.match(text)


def _needed_lines(begin: bytes, chunks: Iterable[bytes], scan: _TextScan, limit: int) -> Iterator[tuple[int, str]]:
    """Yield the needed lines; far from them, a long text is skipped by counting line ends.

    A heading may be above its row, up to an empty line.
    """
    if utf16_of(begin) or b"\n" not in begin:
        yield from number_lines(begin, chunks, limit, LineDamage())
        return
    lines_before, buffer, buffer_bytes = 0, list[tuple[int, bytes]](), 0
    for chunk in chunks:
        count = chunk.count(b"\n")
        is_near = scan.wants(lines_before, lines_before + count + 1)  # the previous line is not yet scanned either
        table_start = 0 if is_near else chunk.rfind(b"\n\n") + 1
        if table_start:
            buffer, buffer_bytes = [], 0
        if is_near or (lines_before < MAX_SCANNED_LINES and scan.needs_headings):
            buffer.append((lines_before + chunk.count(b"\n", 0, table_start), chunk[table_start:]))
            buffer_bytes += len(chunk)
        if is_near or buffer_bytes > MAX_BUFFER_BYTES:
            for first, part in buffer:
                yield from ((first + line, text) for line, text in number_lines(b"\n", (part,), limit, LineDamage()))
            buffer, buffer_bytes = [], 0
        lines_before += count


def _rejoin_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield lines with the parts that carriage returns separate in them."""
    current, parts = 0, [""]
    for number, text in lines:
        if number == current:
            parts.append(text)
            continue
        if current:
            yield current, "\r".join(parts)
        current, parts = number, [text]
    if current:
        yield current, "\r".join(parts)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARS else f"{text[: MAX_LINE_CHARS - 1]}…"


_Excerpts = Mapping[ExcerptRequest, Excerpt]
MATCHED_CHARS = 40  # of a citation's text, to identify the member


def read_excerpts(
    requests: Iterable[ExcerptRequest],
    cache: TextCache,
    paths: Sequence[Path],
    limits: Limits,
    stdin: BinaryIO | None = None,
) -> dict[ExcerptRequest, Excerpt]:
    """Return the available excerpts; not available are text that a pipe did not keep, binary and changed members."""
    by_member: dict[str, set[ExcerptRequest]] = {}
    for request in requests:
        by_member.setdefault(request.member, set()).add(request)
    found: dict[str, dict[str, _Excerpts]] = {path: {} for path in by_member}  # by member and SHA-256
    to_reread: dict[str, set[str]] = {}
    for path, wanted in by_member.items():
        for sha256, text in cache.texts(path).items():
            begin, data = b"".join(text.begin[:2]), b"".join(text.begin)
            if not text.whole:
                data = data[: data.rfind(b"\n") + 1]  # without an incomplete last line
            cut = not text.whole
            excerpts = find_excerpts(begin, line_blocks(data), wanted, limits.line, is_cut=cut) if begin else {}
            found[path][sha256] = excerpts
            if cut and len(excerpts) < len(wanted):
                to_reread.setdefault(path, set()).add(sha256)
    for member in reread(to_reread, paths, limits, stdin):
        excerpts = find_excerpts(member.head(), member.chunks_of_lines(), by_member[member.path], limits.line)
        member.finish()
        if member.sha256 in to_reread[member.path]:
            found[member.path][member.sha256] = excerpts
    requested = ((request, path) for path, wanted in by_member.items() for request in wanted)
    chosen = ((request, _unambiguous(request, found[path].values())) for request, path in requested)
    return {request: excerpt for request, excerpt in chosen if excerpt}


def cited_lines(
    cited: Iterable[Citation], cache: TextCache, paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> dict[Citation, tuple[int, str]]:
    """Return the number and text of each cited line; the `text` of a citation names the rows of a snapshot."""
    requests = {c: ExcerptRequest(c.member, c.line, "", tuple(c.text.split())) for c in cited if c.line}
    found = read_excerpts(requests.values(), cache, paths, limits, stdin)
    excerpts = ((cite, found[request]) for cite, request in requests.items() if request in found)
    return {cite: (excerpt.line, excerpt.lines[excerpt.cited]) for cite, excerpt in excerpts}


def _unambiguous(request: ExcerptRequest, versions: Iterable[_Excerpts]) -> Excerpt | None:
    """Return the excerpt if all members of the name that can be meant have the same one."""
    excerpts = {version[request] for version in versions if request in version}
    if len(excerpts) > 1:
        matched_text = request.text.strip()[:MATCHED_CHARS]
        excerpts = {e for e in excerpts if request.text and matched_text in clean(e.lines[e.cited])}
    return excerpts.pop() if len(excerpts) == 1 else None
