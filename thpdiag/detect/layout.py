"""What a stretch of text has more than what was printed, and what is taken off here: a prefix of all its lines, or
an empty line behind each.

         12\tcompact_stall 700                          cat -n, nl; editors and viewers with other signs
    83:compact_stall 700                                grep -n
    2026-11-20T03:35:43.123456789Z compact_stall 700    docker logs -t, kubectl logs --timestamps; ts
    Nov 20 03:35:43 db1 recorder[4711]: compact_stall 700    journald and rsyslog, of a program that prints there
    recorder-1  | compact_stall 700                     docker compose logs; `[pod/web-1/app] ` of kubectl logs
    db1: compact_stall 700                              below a command pdsh, clush, pssh; `[db1] out: ` of Fabric
    - compact_stall 700                                 lists and quotes: `*`, `|` too
    | compact_stall | 700 |                             tables of Markdown, and the line of dashes below their header

What several hosts printed at the same time is put in order: a line as Ansible's stands before the lines of each host.
A number is that of a line if the next line has the next one. None of it is taken off unless a parser knows a line
without it and none knows the first line with it: logs and tables have stamps and numbers of their own. Of blanks and
tabs, that is taken off which all lines of the first paragraph have: what a format indents stays indented.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from thpdiag.detect.transcript import TextLine, clean_line

PEEKED_LINES = 40  # looked at for one that a parser knows
MIN_NUMBERED, MIN_BLANK_NUMBERED, MIN_STAMPED = 3, 6, 2  # lines in a row; more behind blanks, as tables begin so
MIN_GAPS = 5  # lines in a row with an empty one behind each; prose has paragraphs of one line
MIN_MARGIN = 2  # columns

_NUMBERED = re.compile(
    r"(?P<pad> {0,8})(?P<number>\d{1,7})(?P<sign>\t| ?[|│](?: |$)|[:-]| {1,4}|$)(?P<rest>.*)$", re.ASCII
)
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LOGGED = re.compile(
    rf"(?P<stamp>{_ISO}|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?) "
    r"(?P<who>[\w.-]{1,255} (?!kernel[:\[])[\w./@-]{1,64}(?:\[\d{1,10}\])?):(?: (?P<rest>.*)|$)",
    re.ASCII,
)
_STAMPED = re.compile(
    rf"(?P<stamp>{_ISO}|[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d)(?P<who>)"
    r"(?: (?:std(?:out|err) [FP](?: |$))?(?P<rest>.*)|$)",
    re.ASCII,
)
_NAMED = re.compile(
    r"(?P<stamp>)(?P<who>[A-Za-z][\w.-]{0,80} {1,40}\||\[pod/[^\]\s]{1,250}\])(?: (?P<rest>.*)|$)", re.ASCII
)
_BULLET = re.compile(r"(?P<stamp>)(?P<who>[ \t]{0,8}[-|*\u2022\u00b7\u25aa\u2023\u25e6])(?:[ \t](?P<rest>.*)|$)")
_OF_HOST = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,80}|\d{1,3}(?:\.\d{1,3}){3}): (?P<rest>.*)$"
    r"|\[(?P<host2>[\w.@-]{1,81})\] (?:out|(?P<typed>run|sudo)):(?: (?P<rest2>.*)|$)"
)
_MARKS = (_LOGGED, _STAMPED, _NAMED, _BULLET)
_ROW = re.compile(r"[ \t]{0,8}\|(?P<cells>.*)\|$")
_RULER = re.compile(r"(?=.*--)[\s|:=+-]*")
_BAR = re.compile(r"(?<!\\)\|")
_STARTS = frozenset("[-|*\u2022\u00b7\u25aa\u2023\u25e6")
NUMBERING = re.compile(r"\b(?:cat\s+-\w*[nb]|nl\b|z?[ef]?grep\s+(?:-\S+\s+){0,4}-\w*n|less\s+-\w*N)")  # commands

REMOTE = re.compile(r"\b(?:pdsh|pssh|parallel-ssh|clush|dsh|fab)\b")  # commands that run another one on many hosts
MAX_HELD = 100_000  # lines of several hosts that are put in order at a time

_Raw = Callable[[], "TextLine | None"]
Change = Callable[[_Raw, "deque[TextLine]"], Iterator[TextLine]]


@dataclass(slots=True)
class Numbers:
    """Line numbers, with the sign behind them; the number that comes next."""

    sign: str
    next: int
    grep: bool = False  # numbers of the lines that were found: they rise

    def __call__(self, line: TextLine) -> TextLine | None:
        """The line without it; None if it has none."""
        if not line.text and self.sign != ":":  # nl numbers no empty lines
            return line
        found = _NUMBERED.match(line.text)
        if found is None or not self._is_next(int(found["number"])) or not self._is_sign(found["sign"]):
            return None
        self.next = int(found["number"]) + 1
        rest = found["rest"]
        return _line_behind(line, " " * (len(found["sign"]) - 1) + rest if self.sign == " " and rest else rest)

    @property
    def is_certain(self) -> bool:
        """Whether no table has such columns of its own."""
        return self.sign != " " and not self.grep

    def _is_next(self, number: int) -> bool:
        return number >= self.next if self.grep else number == self.next

    def _is_sign(self, sign: str) -> bool:
        return not sign or _kind_of_sign(sign) == self.sign


def _line_behind(line: TextLine, rest: str, stamp: str = "") -> TextLine:
    """What stands behind a prefix or a margin, which may be quoted."""
    quoted = clean_line(line.number, rest) if rest.lstrip()[:1] == ">" else TextLine(line.number, rest.rstrip())
    return quoted._replace(depth=line.depth + quoted.depth, stamp=stamp or line.stamp)


def _kind_of_sign(sign: str) -> str:
    return ":" if sign in (":", "-") else sign.strip(" ") or " "


@dataclass(frozen=True, slots=True)
class Mark:
    """The same mark before each line, but for the time in it."""

    pattern: re.Pattern[str]
    who: str
    is_certain = False  # logs have it too

    def __call__(self, line: TextLine) -> TextLine | None:
        """The line without it; None if it has none."""
        if not line.text and self.pattern is _BULLET:
            return line
        found = self.pattern.match(line.text)
        if found is None or found["who"] != self.who:
            return None
        return _line_behind(line, found["rest"] or "", found["stamp"])


@dataclass(frozen=True, slots=True)
class Rows:
    """The bars between the cells of a table of Markdown; its line of dashes becomes an empty one."""

    is_certain = False  # prose has such tables too

    def __call__(self, line: TextLine) -> TextLine | None:
        """The cells, with blanks between them; None if it is no row."""
        if (found := _ROW.match(line.text)) is None:
            return None if line.text else line
        if _RULER.fullmatch(line.text):
            return line._replace(text="")
        cells = (cell.strip(" \t").replace("\\|", "|") for cell in _BAR.split(found["cells"]))
        return line._replace(text=" ".join(cells).rstrip())


@dataclass(frozen=True, slots=True)
class Margin:
    """The blanks or tabs that all lines of a paste begin with."""

    blanks: str

    def __call__(self, line: TextLine) -> TextLine | None:
        """The line without it; None if it has less."""
        if not line.text.startswith(self.blanks):
            return None if line.text else line
        return _line_behind(line, line.text[len(self.blanks) :])


@dataclass(frozen=True, slots=True)
class Hosts:
    """The name of a host before each line, which need not be the same one."""

    is_certain = False  # many a table has a word and a colon before each line

    def __call__(self, line: TextLine) -> TextLine | None:
        """The line without it; None if it has none."""
        found = _OF_HOST.match(line.text)
        if found is None:
            return None
        text = found["rest"] or found["rest2"] or ""
        return _line_behind(line, f"$ {text}" if found["typed"] else text)


Prefix = Numbers | Mark | Rows | Hosts


def host_of(text: str) -> str:
    """The host whose name a line begins with; empty if it begins with none."""
    found = _OF_HOST.match(text)
    return (found["host"] or found["host2"].rpartition("@")[2]) if found else ""


def margin_of(lines: Sequence[TextLine]) -> Margin | None:
    """That of the paragraph which begins with the first of the lines."""
    texts = [line.text for line in takewhile(lambda line: line.text, lines)]
    blanks = texts[0][: len(texts[0]) - len(texts[0].lstrip(" \t"))]
    while not all(text.startswith(blanks) for text in texts):
        blanks = blanks[:-1]
    return Margin(blanks) if len(blanks.expandtabs()) >= MIN_MARGIN else None


def is_double_spaced(lines: Sequence[TextLine]) -> bool:
    """Whether an empty line stands behind each of the lines, of a whole text or of some in a row."""
    gaps = [line.text for line in islice(lines[1::2], MIN_GAPS)]
    return not any(gaps) and len(lines) > 2 and (len(gaps) == MIN_GAPS or lines[0].number == 1)


def without_gaps(raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    """The lines of a double-spaced stretch without the empty ones behind them."""
    while (line := raw()) is not None:
        yield line
        if (gap := raw()) is not None and gap.text:
            back.appendleft(gap)
            return


def may_have_prefix(text: str) -> bool:
    """A quick look at what a line begins with."""
    start = text.lstrip(" \t")[:1]
    if start.isalpha():
        return " | " in text[:130] or text[6:7] == " "
    return start.isdigit() or start in _STARTS


def prefix_of(lines: Sequence[TextLine], *, expected: bool = False, remote: bool = False) -> Prefix | None:
    """What stands before each of the lines, the first of which has it. `expected`: a command numbers the lines, or
    (`remote`) names the host of each.

    `lines` that are fewer than were asked for are the rest of the text.
    """
    first = lines[0]
    rest = sum(bool(line.text) for line in lines) if len(lines) < PEEKED_LINES else PEEKED_LINES
    if (found := _NUMBERED.match(first.text)) and found["sign"]:
        sign, number = _kind_of_sign(found["sign"]), int(found["number"])
        least = 1 if expected else MIN_BLANK_NUMBERED if sign == " " else MIN_NUMBERED
        if number == 1:
            least = min(least, max(rest, 2 if sign == " " else 1))
        if _length(Numbers(sign, number), lines) >= least:
            return Numbers(sign, number)
        if sign == ":" and not found["pad"] and _length(Numbers(sign, number, grep=True), lines) >= min(least, 2):
            return Numbers(sign, number, grep=True)
    if (remote or first.text.startswith("[")) and host_of(first.text):
        return Hosts()
    if _ROW.match(first.text) and _length(Rows(), lines) >= min(MIN_STAMPED, rest):
        return Rows()
    for pattern in _MARKS:
        if found := pattern.match(first.text):
            mark = Mark(pattern, found["who"])
            return mark if _length(mark, lines) >= min(MIN_STAMPED if found["stamp"] else MIN_NUMBERED, rest) else None
    return None


def _length(strip: Prefix, lines: Sequence[TextLine]) -> int:
    """How many of the lines have it, one after another."""
    count = 0
    for line in lines:
        if strip(line) is None:
            break
        count += bool(line.text)
    return count


def without_prefix(strip: Prefix | Margin, raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    """The lines of the stretch without it; the first behind it is given back. Those of each host in one piece."""
    if isinstance(strip, Hosts):
        yield from _by_host(strip, raw, back)
        return
    while (line := raw()) is not None:
        if (bare := strip(line)) is None:
            back.appendleft(line)
            return
        if bare.text or not line.text or not isinstance(strip, Rows):  # a line of dashes is none of what was printed
            yield bare


def _by_host(strip: Hosts, raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    lines: dict[str, list[TextLine]] = {}
    for _ in range(MAX_HELD):
        if (line := raw()) is None:
            break
        if (bare := strip(line)) is None:
            back.appendleft(line)
            break
        lines.setdefault(host_of(line.text), [line._replace(text=f"{host_of(line.text)} | SUCCESS | rc=0 >>")]).append(
            bare
        )
    for of_host in lines.values():
        yield from of_host
