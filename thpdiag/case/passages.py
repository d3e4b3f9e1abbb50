"""The passages of one text: cited lines as they stand there, with what makes them readable.

Line numbers are those of the readers (`thpdiag.bundle.lines`). Parts of a line that carriage returns separate stand as
one line again. With a sample of call stacks go its frames, with a row of a table the line that names its columns; of a
snapshot, which is cited by its first line, the rows that name what it is cited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from thpdiag.bundle.lines import Undecoded, numbered
from thpdiag.bundle.transcript import TextLine, cleaned
from thpdiag.case.columns_named import ColumnNames
from thpdiag.model.passage import Passage, Quote

LONGEST = 300  # characters of a line
FRAMES = 12  # lines of a sample
ROWS = 6  # of one snapshot
SNAPSHOT = 400  # lines of one; /proc/vmstat has some 200
LOOKED_AT = 200_000  # lines; behind them only what is near to cited ones, so that names of columns may be missing
PIECE = 1 << 16  # bytes
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ROW = re.compile(
    r"\s*(?:[^\s:]+:(?=\w))?(?P<name>[\w()]+):?\s+(?P<value>-?\d+)(?P<unit> kB)?(?P<further>\s+\S.*)?\s*$"
)
_LABEL = re.compile(r"\s*%?(?:[KMGT]iB )?(?P<name>Tasks|Threads|Cpu\(s\)|Mem|Swap) *:(?P<further>)")  # of top
_FRAME = re.compile(r"(?:\s*[0-9a-f]{3,16} |\t| {8})(?!.*\d\.\d{6,9}:)\s*\S")
_SHARE = re.compile(r"[-+]?\s*\d{1,3}(?:\.\d+)?%")  # a row of perf report, whose graph may stand below an empty line
_UNFOLDED = re.compile(r" +[-+|]?\s*\S")  # below a row that begins with `-`, as perf report shows it at a terminal
_TABLE = re.compile(r"\s*(?:\d[\d.]*\s+){0,3}\d{1,3}\.\d+%\s")  # of perf top, whose rows are indented
_SAMPLED = frozenset(("counter", "effect", "toggle", "total", "cpu"))


def passages(begin: bytes, chunks: Iterable[bytes], wanted: Iterable[Passage], limit: int) -> dict[Passage, Quote]:
    """Those that are there. `chunks` end at line ends; `begin` are their first bytes, `limit` the most of a line."""
    return _page(begin, chunks, wanted, limit).found


def sure_passages(begin: bytes, chunks: Iterable[bytes], wanted: Iterable[Passage], limit: int) -> dict[Passage, Quote]:
    """The same of a text that was cut short: without those that may go on behind its end."""
    page = _page(begin, chunks, wanted, limit)
    cut = {item.passage for item in page.open}
    return {passage: quote for passage, quote in page.found.items() if passage not in cut}


def _page(begin: bytes, chunks: Iterable[bytes], wanted: Iterable[Passage], limit: int) -> _Page:
    page = _Page()
    for passage in wanted:
        page.later.setdefault(passage.line, []).append(passage)
    page.read(_near(begin, chunks, page, limit))
    return page


def whole_lines(text: bytes) -> bytes:
    """A text that was cut short, without its last line if that is cut."""
    return text[: text.rfind(b"\n") + 1]


def pieces(text: bytes) -> Iterator[bytes]:
    """A text that is held, in pieces that end at line ends."""
    at, end = 0, len(text)
    while at < end:
        after = text.find(b"\n", at + PIECE, end) + 1 or end
        yield text[at:after]
        at = after


@dataclass(slots=True)
class _Open:
    """A passage whose further lines are still looked for.

    `left` is how many lines it may reach. Of a snapshot `first` is the name in the cited row, `rows` are those found.
    """

    passage: Passage
    left: int
    lines: list[str] = field(default_factory=list)
    first: str = ""
    rows: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Page:
    """What is looked for in one text, and what was found."""

    later: dict[int, list[Passage]] = field(default_factory=dict)
    found: dict[Passage, Quote] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)
    columns: ColumnNames = field(default_factory=ColumnNames)

    def wants(self, first: int, last: int) -> bool:
        """Whether lines of that stretch are needed."""
        return bool(self.open) or any(first <= line <= last for line in self.later)

    @property
    def names_columns(self) -> bool:
        return any(passage.kind != "stack" for found in self.later.values() for passage in found)

    def read(self, lines: Iterable[tuple[int, str]]) -> None:
        for number, text in _whole(lines):
            said = (
                next(cleaned([(number, text[:LONGEST])], markup=False)) if self.open or number in self.later else None
            )
            if said:
                self.open = [item for item in self.open if self._goes_on(item, text, said)]
                for passage in self.later.pop(number, ()):
                    self._begin(passage, text, said)
            if not (self.later or self.open):
                return
            self.columns.look(number, text)

    def _begin(self, passage: Passage, text: str, said: TextLine) -> None:
        """The cited line itself."""
        tabled = passage.kind != "stack" and said.number <= LOOKED_AT
        named = self.columns.above(said) if tabled else ""
        lines = (_cut(named), _cut(text)) if named else (_cut(text),)
        row = _row(said.text)
        if not (row and passage.kind in _SAMPLED and row["further"] is None):  # else of another counter, mostly
            self.found[passage] = Quote(said.number, lines, len(lines) - 1)
        if passage.kind == "stack":
            self.open.append(_Open(passage, FRAMES - 1, [_cut(text)]))
        elif passage.names and not (named and row and row["name"] in passage.names):
            item = _Open(passage, SNAPSHOT, first=row["name"] if row else "")
            if not row or self._named(item, row["name"], text, said):
                self.open.append(item)

    def _goes_on(self, item: _Open, text: str, said: TextLine) -> bool:
        """Takes a further line in; whether there may be more."""
        item.left -= 1
        more = self._frame(item, text, said) if item.passage.kind == "stack" else self._row(item, text, said)
        return more and item.left > 0

    def _frame(self, item: _Open, text: str, said: TextLine) -> bool:
        shared = _SHARE.match(item.lines[0])
        if not said.text.strip() and len(item.lines) == 1 and shared:
            return True
        frame = _UNFOLDED if shared and item.lines[0].startswith("-") else _FRAME
        if not frame.match(said.text) or _TABLE.match(said.text):
            return False
        item.lines.append(_cut(text))
        self.found[item.passage] = Quote(item.passage.line, tuple(item.lines))
        return True

    def _row(self, item: _Open, text: str, said: TextLine) -> bool:
        """A snapshot ends where a line has another form, or begins anew."""
        row = _row(said.text)
        return row is not None and row["name"] != item.first and self._named(item, row["name"], text, said)

    def _named(self, item: _Open, name: str, text: str, said: TextLine) -> bool:
        """Takes in a row of a snapshot if it is asked for; whether there may be more."""
        asked = item.passage.names
        if name in asked and name not in item.rows:
            item.rows[name] = (said.number, _cut(text))
            rows = [item.rows[wanted] for wanted in asked if wanted in item.rows]
            self.found[item.passage] = Quote(rows[0][0], tuple(text for _, text in rows))
        return len(item.rows) < min(ROWS, len(asked))


def _row(text: str) -> re.Match[str] | None:
    """A line as the row of a snapshot; `further` is None where one number is all that stands there."""
    return _ROW.match(text) or _LABEL.match(text)


def _near(begin: bytes, chunks: Iterable[bytes], page: _Page, limit: int) -> Iterator[tuple[int, str]]:
    """The lines that are needed; of a long text what lies far from them is passed over by counting line ends."""
    if begin.startswith(_UTF16) or b"\n" not in begin:
        yield from numbered(begin, chunks, limit, Undecoded())
        return
    before = 0
    for chunk in chunks:
        count = chunk.count(b"\n")
        near = page.wants(before, before + count + 1)  # the line before is the last that the page has not seen yet
        if near or (before < LOOKED_AT and page.names_columns):
            yield from ((before + line, text) for line, text in numbered(b"\n", (chunk,), limit, Undecoded()))
        before += count


def _whole(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
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


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
