"""Line prefixes, margins and double spacing that pagers, loggers and editors add to printed output; strips them.

         12\tcompact_stall 700                          cat -n, nl; editors and viewers with other signs
    83:compact_stall 700                                grep -n
    2026-11-20T03:35:43.123456789Z compact_stall 700    docker logs -t, kubectl logs --timestamps; ts
    Nov 20 03:35:43 db1 recorder[4711]: compact_stall 700    journald and rsyslog, for a program that logs its output
    recorder-1  | compact_stall 700                     docker compose logs; `[pod/web-1/app] ` of kubectl logs
    db1: compact_stall 700                              output of pdsh, clush, pssh; `[db1] out: ` of Fabric
    - compact_stall 700                                 lists and quotes: `*`, `|` too
    | compact_stall | 700 |                             tables of Markdown, and the line of dashes below their header

Interleaved output of several hosts is grouped by host, with a heading in Ansible's form above the lines of each host.
A number is a line number if the next line has the next number. A prefix is stripped only if a parser reads a line
without it and none reads the first line with it, since logs and tables have timestamps and numbers of their own. Of
blanks and tabs, only what all lines of the first paragraph share is stripped, so that a format keeps its indentation.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from thpdiag.detect.transcript import TextLine, clean_line

PEEKED_LINES = 40  # lines that are searched for one that a parser reads
MIN_NUMBERED, MIN_BLANK_NUMBERED, MIN_STAMPED = 3, 6, 2  # consecutive lines; more for blanks, as in many tables
MIN_GAPS = 5  # consecutive lines that are each followed by an empty one; prose has paragraphs of one line
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
_HOST_PREFIX = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,80}|\d{1,3}(?:\.\d{1,3}){3}): (?P<rest>.*)$"
    r"|\[(?P<host2>[\w.@-]{1,81})\] (?:out|(?P<typed>run|sudo)):(?: (?P<rest2>.*)|$)"
)
_MARKS = (_LOGGED, _STAMPED, _NAMED, _BULLET)
_ROW = re.compile(r"[ \t]{0,8}\|(?P<cells>.*)\|$")
_RULER = re.compile(r"(?=.*--)[\s|:=+-]*")
_BAR = re.compile(r"(?<!\\)\|")
_STARTS = frozenset("[-|*\u2022\u00b7\u25aa\u2023\u25e6")
NUMBERING = re.compile(r"\b(?:cat\s+-\w*[nb]|nl\b|z?[ef]?grep\s+(?:-\S+\s+){0,4}-\w*n|less\s+-\w*N)")  # commands
REMOTE = re.compile(r"\b(?:pdsh|pssh|parallel-ssh|clush|dsh|fab)\b")  # commands that run another command on many hosts
MAX_GROUPED_LINES = 100_000  # lines of several hosts that are grouped at a time

_Raw = Callable[[], "TextLine | None"]
Change = Callable[[_Raw, "deque[TextLine]"], Iterator[TextLine]]


@dataclass(slots=True)
class Numbers:
    """Line numbers followed by a separator; `next` is the number expected on the next line."""

    sign: str
    next: int
    grep: bool = False  # numbers of matching lines, which increase with gaps

    def __call__(self, line: TextLine) -> TextLine | None:
        """Return the line without the prefix; None if it has none."""
        if not line.text and self.sign != ":":  # nl does not number empty lines
            return line
        if (match := _NUMBERED.match(line.text)) is None:
            return None
        number, sign, rest = int(match["number"]), match["sign"], match["rest"]
        is_next = number >= self.next if self.grep else number == self.next
        if not is_next or (sign and _separator(sign) != self.sign):
            return None
        self.next = number + 1
        return _strip_to(line, " " * (len(sign) - 1) + rest if self.sign == " " and rest else rest)

    @property
    def is_certain(self) -> bool:
        """Whether no table has a first column like this."""
        return self.sign != " " and not self.grep


def _strip_to(line: TextLine, rest: str, stamp: str = "") -> TextLine:
    """Return the line with only the text after its prefix or margin, which may itself be quoted."""
    quoted = clean_line(line.number, rest) if rest.lstrip()[:1] == ">" else TextLine(line.number, rest.rstrip())
    return quoted._replace(depth=line.depth + quoted.depth, stamp=stamp or line.stamp)


def _separator(sign: str) -> str:
    """Return the class of a separator: `grep -n -C` prints `:` after matches and `-` after context lines."""
    return ":" if sign in (":", "-") else sign.strip(" ") or " "


@dataclass(frozen=True, slots=True)
class Mark:
    """A prefix that is the same on each line except for the time in it."""

    pattern: re.Pattern[str]
    who: str
    is_certain = False  # log formats have it too

    def __call__(self, line: TextLine) -> TextLine | None:
        """Return the line without the prefix; None if it has none."""
        if not line.text and self.pattern is _BULLET:
            return line
        match = self.pattern.match(line.text)
        if match is None or match["who"] != self.who:
            return None
        return _strip_to(line, match["rest"] or "", match["stamp"])


@dataclass(frozen=True, slots=True)
class Rows:
    """The bars between the cells of a Markdown table; its line of dashes becomes an empty line."""

    is_certain = False  # prose has such tables too

    def __call__(self, line: TextLine) -> TextLine | None:
        """Return the cells separated by blanks; None if the line is not a row."""
        if (match := _ROW.match(line.text)) is None:
            return None if line.text else line
        if _RULER.fullmatch(line.text):
            return line._replace(text="")
        cells = (cell.strip(" \t").replace("\\|", "|") for cell in _BAR.split(match["cells"]))
        return line._replace(text=" ".join(cells).rstrip())


@dataclass(frozen=True, slots=True)
class Margin:
    """The blanks or tabs with which all lines of a paste begin."""

    blanks: str

    def __call__(self, line: TextLine) -> TextLine | None:
        """Return the line without the margin; None if it is indented less."""
        if not line.text.startswith(self.blanks):
            return None if line.text else line
        return _strip_to(line, line.text[len(self.blanks) :])


@dataclass(frozen=True, slots=True)
class Hosts:
    """A host name before each line; the names may differ."""

    is_certain = False  # many tables have a word and a colon at the start of each line

    def __call__(self, line: TextLine) -> TextLine | None:
        """Return the line without the host name; None if it has none."""
        match = _HOST_PREFIX.match(line.text)
        if match is None:
            return None
        text = match["rest"] or match["rest2"] or ""
        return _strip_to(line, f"$ {text}" if match["typed"] else text)


Prefix = Numbers | Mark | Rows | Hosts


def host_of(text: str) -> str:
    """Return the host name with which a line begins; empty if there is none."""
    match = _HOST_PREFIX.match(text)
    return (match["host"] or match["host2"].rpartition("@")[2]) if match else ""


def margin_of(lines: Sequence[TextLine]) -> Margin | None:
    """Return the common margin of the paragraph that begins with the first of the lines."""
    texts = [line.text for line in takewhile(lambda line: line.text, lines)]
    blanks = texts[0][: len(texts[0]) - len(texts[0].lstrip(" \t"))]
    while not all(text.startswith(blanks) for text in texts):
        blanks = blanks[:-1]
    return Margin(blanks) if len(blanks.expandtabs()) >= MIN_MARGIN else None


def is_double_spaced(lines: Sequence[TextLine]) -> bool:
    """Whether an empty line follows each of the lines, in a whole text or in several consecutive lines."""
    gaps = [line.text for line in islice(lines[1::2], MIN_GAPS)]
    return not any(gaps) and len(lines) > 2 and (len(gaps) == MIN_GAPS or lines[0].number == 1)


def without_gaps(raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    """Yield the lines of a double-spaced text without the empty line after each."""
    while (line := raw()) is not None:
        yield line
        if (gap := raw()) is not None and gap.text:
            back.appendleft(gap)
            return


def may_have_prefix(text: str) -> bool:
    """Whether a line may begin with a prefix; a cheap test."""
    start = text.lstrip(" \t")[:1]
    if start.isalpha():
        return " | " in text[:130] or text[6:7] == " "
    return start.isdigit() or start in _STARTS


def prefix_of(lines: Sequence[TextLine], *, expected: bool = False, remote: bool = False) -> Prefix | None:
    """Return the prefix of the lines, None if there is none.

    `expected`: the last command numbers its output lines; `remote`: it prints a host name before each of them. Fewer
    than PEEKED_LINES `lines` are the rest of the text.
    """
    first = lines[0]
    remaining = sum(bool(line.text) for line in lines) if len(lines) < PEEKED_LINES else PEEKED_LINES
    if (match := _NUMBERED.match(first.text)) and match["sign"]:
        sign, number = _separator(match["sign"]), int(match["number"])
        min_lines = 1 if expected else MIN_BLANK_NUMBERED if sign == " " else MIN_NUMBERED
        if number == 1:
            min_lines = min(min_lines, max(remaining, 2 if sign == " " else 1))
        if _count_prefixed(Numbers(sign, number), lines) >= min_lines:
            return Numbers(sign, number)
        grep = Numbers(sign, number, grep=True)
        if sign == ":" and not match["pad"] and _count_prefixed(grep, lines) >= min(min_lines, 2):
            return Numbers(sign, number, grep=True)
    if (remote or first.text.startswith("[")) and host_of(first.text):
        return Hosts()
    if _ROW.match(first.text) and _count_prefixed(Rows(), lines) >= min(MIN_STAMPED, remaining):
        return Rows()
    for pattern in _MARKS:
        if match := pattern.match(first.text):
            mark = Mark(pattern, match["who"])
            min_lines = min(MIN_STAMPED if match["stamp"] else MIN_NUMBERED, remaining)
            return mark if _count_prefixed(mark, lines) >= min_lines else None
    return None


def _count_prefixed(strip: Prefix, lines: Sequence[TextLine]) -> int:
    """Return how many consecutive lines have the prefix."""
    count = 0
    for line in lines:
        if strip(line) is None:
            break
        count += bool(line.text)
    return count


def without_prefix(strip: Prefix | Margin, raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    """Yield the lines without their prefix and put back the first line without one. Lines are grouped by host."""
    if isinstance(strip, Hosts):
        yield from _group_by_host(strip, raw, back)
        return
    while (line := raw()) is not None:
        if (bare := strip(line)) is None:
            back.appendleft(line)
            return
        if bare.text or not line.text or not isinstance(strip, Rows):  # the line of dashes was not printed by a tool
            yield bare


def _group_by_host(strip: Hosts, raw: _Raw, back: deque[TextLine]) -> Iterator[TextLine]:
    lines: dict[str, list[TextLine]] = {}
    for _ in range(MAX_GROUPED_LINES):
        if (line := raw()) is None:
            break
        if (bare := strip(line)) is None:
            back.appendleft(line)
            break
        host = host_of(line.text)
        lines.setdefault(host, [line._replace(text=f"{host} | SUCCESS | rc=0 >>")]).append(bare)
    for host_lines in lines.values():
        yield from host_lines
