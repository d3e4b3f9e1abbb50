"""Join table rows that a terminal or mail program wrapped, and drop words that a terminal or ticket system cut off.

    10:13:04        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %so
    ft    %guest    %gnice     %idle

A line is wrapped at a certain width: within a word (a terminal) or at a blank, which is lost (a mail program). Rows are
joined only below the complete header of a known table, which determines the number of cells of a row: the parts of a
row are joined until it has exactly that many cells. Parts that do not add up to a row remain as they are.

    /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/anon_fault_alloc:1898
    27242 root      20   0   13.8g  12.1g   9876 R  99.7 77.3   1:02.11 /usr/lib/jvm/jav...

The last word of a line that was cut on the right may be only a part of a value, so it is dropped. Lines count as cut if
several of them end with `...` (an ellipsis is read as such) at the same column. Without that mark, they count as cut
if several lines are exactly as wide as a terminal, none is wider, and they have no aligned columns: the rows of a
complete table end at the same column too, and the header of a cut table is unknown. Lines that still have line numbers
or timestamps before them are not as wide as they were printed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, takewhile

from thpdiag.detect.layout import prefix_of
from thpdiag.detect.transcript import TextLine, parse_prompt

MIN_WIDTH, MAX_WIDTH = 70, 132  # columns of terminals and mail programs
MAX_CELL_WIDTH = 24  # columns by which a part may be shorter than the others: a cell that did not fit, trailing blanks
MIN_PART_WIDTH = 30  # columns of the first part of a wrapped line
MAX_PARTS = 8  # lines of a row
MIN_COLUMNS = 4
TERMINAL_WIDTHS = (80, 100, 120, 132)  # usual widths, in columns
PEEKED_LINES = 60  # lines after a header that are examined to determine whether a text is wrapped
MAX_HEADERS = 4  # headers examined in a piece of text
MAX_PARAGRAPH_LINES = 60  # lines of a paragraph that are examined together for cuts
MIN_CUT_WIDTH = 40  # columns
MIN_MARKED_LINES, MIN_CUT_LINES = 2, 3  # lines that end at the same column, with `...` and without
RIGHT_EDGE, TABLE_GAPS = 30, 2  # rightmost columns, and how many of them are blank in most lines of a table
CUT_MARK = "..."

_WORDS = frozenset(
    """
    CPU INTR IFACE DEV TTY BUS FILESYSTEM NODE UID PID TGID TID PPID LWP NLWP USER PR NI PRI VIRT RES SHR S F C P SZ RSS
    VSZ SIZE STAT WCHAN ADDR TT TIME TIME+ STIME START STARTED ELAPSED COMMAND CMD COMM Command ZEIT+ BEFEHL MINFL
    MAJFL MINFLT
    MAJFLT SWAP nDRT CODE DATA StkSize StkRef iodelay threads fd-nr prio policy runq-sz plist-sz ldavg-1 ldavg-5
    ldavg-15 blocked tps rtps wtps dtps Ifree Iused MHz wghMHz totsck tcpsck udpsck rawsck tcp-tw dentunusd file-nr
    inode-nr pty-nr r b swpd free frei buff cache Cache inact active si so bi bo in cs us sy id wa st gu UTC total used
    shared buff/cache buffers cached available avg-cpu: Device Device: await svctm OBJS ACTIVE USE OBJ SLABS OBJ/SLAB
    CACHE NAME #Date #Time Date Time cpu sys inter ctxsw Free Buff Cach Inac Slab Map KBRead Reads KBWrit Writes KBIn
    PktIn KBOut PktOut Fragments samples pcnt function DSO
    """.split()  # noqa: SIM905  column names as printed
)
_SHAPE = re.compile(
    r"%[A-Za-z][\w-]*|[A-Za-z][\w-]*/s|kb[a-z]+|(?:k[bB]|MB)_?\w+|\w{1,8}_await|\w{1,6}q[ru]?-sz|Blk_\w+|ip6?-?frag"
)
_COLUMNS_WITH_BLANKS = frozenset({"COMMAND", "CMD", "Command", "COMM", "BEFEHL"})
_TIME = (
    r"(?:\d{1,2}[:.時时시] ?\d\d[:.分분] ?\d\d[秒초]?)"
    r"(?: [AaPp]\.?[Mm]\.?)?(?: (?!CPU|UID|PID|DEV|TTY)[A-Z]{3,5}(?= ))?"
)
_CLOCK = re.compile(rf"{_TIME}(?=\s|$)", re.ASCII)
_AVERAGE = re.compile(r"[^\W\d]\S{0,20}\s?:(?=\s)")
_NUMBER = re.compile(r"-?\d[\d.,:+-]*[%kKMGTiB]{0,3}$|-$|all$")
_NUMERIC = re.compile(r"%|PID|RSS|VSZ|VIRT|RES$|LWP|TID|free|swpd|/s$")
_GROUPS = re.compile(r"(?:-*procs-*|#?\s*<-+\w+-+>?)")
_REST_OF_GROUPS = re.compile(r"[<>\w\s-]*[->]\s*$")
_ZONE = re.compile(r"Node\s+\d+,\s+zone\s+\w+(?:\s+\d+){4}")
_OTHER = re.compile(r"top - |(?:Tasks|Threads|Mem|Swap|[KMG]iB \w+)\s?:|%?Cpu")
_SHAPES = tuple(  # the beginning of lines of a known kind, and the complete line
    (re.compile(begin), re.compile(whole))
    for begin, whole in (
        (r"Linux \S{1,80} \(\S{0,255}\)?\s", r"Linux \S+ \(\S*\)\s+\S.{0,40}\s_\w+_\s+\(\d+ CPUs?\)$"),
        (r"top - \d", r".*load average: \d+[.,]\d\d, +\d+[.,]\d\d, +\d+[.,]\d\d$"),
        (r"%?C[Pp][Uu]\S{0,4}\s{0,3}:", r".*\d\s?%?st$"),
        (r"[KMGT]iB \w{2,8}\s?:|(?:Mem|Swap)\s?:", r".*(?:buff/cache|buffers|cached|avail \w+)$"),
        (r"\s{0,4}PerfTop:\s+\d", r"[^\]]*\],\s+\(.*\d CPUs?\)$"),
        (r"\s{0,30}\d+\.\d\d\s+\d+\.\d%\s+\S", r".*\S\s+(?:\[[\w.]+\]|/\S+|\S+\.(?:so|ko)[\w.]*)$"),
        (r"\s*\d{1,3}\.\d\d%\s.*\s\[[k.guHhm]\]\s+\S", r".*\s\[[k.guHhm]\]\s+\S+$"),
        (r"(?!-)[^\s;]{1,80}(?: [^\s;]{1,80}){0,3};\S", r"(?:[^;]{1,300};)+[^;]{1,300} \d{1,18}$"),
        (r"[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-][x-][ps] ", r"\S+ \S+ \S+ \S+ \d+\s+(?:/\S+|\[.*\])$"),
    )
)
_SYMBOL_END = re.compile(r"[\w.:$@<>(),&*~-]+")  # the rest of a symbol, which may be missing from a complete line
_PERF_COMMENT = re.compile(r"#\s+(?:[a-z][\w ]{1,30} : |\.{6}|To display the perf|\(Tip: |(?:Overhead|Children)\b)")
GRAPH_INDENT = " " * 12
_PERF_ROW = re.compile(r"\s*\d{1,3}\.\d\d%\s")
ZONE_WORDS = 4  # words before the counts of /proc/buddyinfo
ORDERS = 11  # orders of free blocks on nearly all kernels
_HEADERS = re.compile(
    r"^[^\n]{0,60}(?:%(?:user|usr|CPU|idle|nice|vmeff|memused|swpused)|\bswpd\b|\bkbmemfree\b|/s +\w+/s|\bctxsw\b|"
    r"\bused +free +shared\b|\b(?:PID|VSZ|RSS|OBJS) +[A-Z%]|^Node +\d+, +zone +\w+ +\d+)|"
    r"^(?:top - \d|#\s+(?:event :|\.{6}|To display|Overhead|Children)|Linux \S+ \(| {0,30}\d{1,9}\.\d\d%? |"
    r" {12}\||[^\S\n]{1,60}PerfTop:|[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-])",
    re.MULTILINE,
)
_LAST_WORD = re.compile(r"(?<=\S)\s*(?!\.{4})\S+$")  # excludes rulers of dots
_RULER = re.compile(r"([-=~_*#+])\1{3}$")
_LAST_CELL = re.compile(r"(?<=,)[^,]*$")
_CSV_ROW = re.compile(r"[^\s,\"{]+,(?:[^,\"{]+,){3}")  # cells may contain blanks: 30.2 is not 30.2 GB
_GRAPH_LINE = re.compile(r" {12}[ |-]")  # not shortened: its columns and final marks have a meaning
_PERF_SYMBOL_ROW = re.compile(r"\s*\d{1,3}\.\d\d%\s.*\s\[[k.guH]\]\s")


def is_name(word: str) -> bool:
    """Whether a word is a column name of a table that a parser reads."""
    return word in _WORDS or _SHAPE.fullmatch(word) is not None


@dataclass(frozen=True)
class Header:
    """The columns of a table."""

    names: tuple[str, ...]  # without the time before them
    timed: bool = False

    @cached_property
    def columns(self) -> int:
        """The number of cells of a row after its time."""
        names = self.names
        two_word_names = sum(pair in (("OBJ", "SIZE"), ("CACHE", "SIZE")) for pair in pairwise(names))
        label = (names[0] == "total") - (names[0] == "avg-cpu:") + (names[-1] == "UTC")
        return len(names) - two_word_names + label + 4 * ("STARTED" in names)

    @property
    def is_open(self) -> bool:
        """Whether the last cell may contain blanks, so that a row may have more words than columns."""
        return self.names[-1] in _COLUMNS_WITH_BLANKS

    def cells(self, text: str) -> list[str]:
        """Return the cells of a row, or of a part of it, after its time."""
        if self.timed and (time := _CLOCK.match(text.lstrip()) or _AVERAGE.match(text.lstrip())):
            text = text.lstrip()[time.end() :]
        return text.split()

    def cell_count(self, text: str) -> int:
        return len(self.cells(text))

    def begins_row(self, text: str) -> bool:
        """Whether a line begins like a row: with a time, or with numbers in numeric columns."""
        start = text.lstrip()
        if self.timed or self.names[0].startswith("#"):
            return bool(_CLOCK.match(start) or _AVERAGE.match(start) or re.match(r"\d{8,10}\s", start))
        return len(start.split()) >= max(3, self.columns // 2) and self.has_numbers(start)

    def has_numbers(self, text: str) -> bool:
        """Whether the cells of numeric columns are numbers."""
        cells = zip(self.names, self.cells(text), strict=False)
        numbers = [_NUMBER.match(cell) for name, cell in cells if _NUMERIC.search(name)]
        return bool(numbers) and all(numbers)


def header_of(text: str) -> Header | None:
    """Parse a line as the complete header of a table."""
    start = text.strip()
    time = _CLOCK.match(start) or _AVERAGE.match(start)
    names = start[time.end() :].split() if time else start.split()
    if names[:2] == ["#", "Time"]:
        return Header(tuple(names[2:]), timed=True) if _are_names(names[2:]) else None
    return Header(tuple(names), bool(time)) if _are_names(names) else None


def _are_names(names: Sequence[str]) -> bool:
    return len(names) >= MIN_COLUMNS and all(map(is_name, names))


def may_be_wrapped(text: str) -> bool:
    """Whether a piece of text has wrapped lines."""
    for header in islice(_HEADERS.finditer(text), MAX_HEADERS):
        end = header.start()
        for _ in range(PEEKED_LINES):
            end = text.find("\n", end + 1)
            if end < 0:
                end = len(text)
                break
        lines = [TextLine(0, line.rstrip()) for line in text[header.start() : end].split("\n")]
        if sum(1 for _ in join_wrapped_rows(iter(lines))) < len(lines):
            return True
    return False


class _Lookahead:
    """An iterator over lines with lookahead."""

    def __init__(self, lines: Iterator[TextLine]) -> None:
        self._lines = lines
        self._buffer: deque[TextLine] = deque()

    def peek(self, index: int) -> TextLine | None:
        """Return the line at an index from the next line on, without taking it."""
        while len(self._buffer) <= index:
            if (line := next(self._lines, None)) is None:
                return None
            self._buffer.append(line)
        return self._buffer[index]

    def take(self, count: int) -> TextLine:
        """Take lines and return the first of them."""
        first, *_ = (self._buffer.popleft() for _ in range(count))
        return first

    def parts(self) -> list[str]:
        """Return the next line and the lines that may be further parts of it."""
        parts, first = list[str](), self.peek(0)
        for index in range(MAX_PARTS):
            line = self.peek(index)
            if first is None or line is None or not line.text.strip() or line.depth != first.depth:
                break
            if parts and line.text.lstrip().startswith("```"):
                break
            parts.append(line.text)
        return parts

    def width(self) -> int:
        """Return the length of the longest line up to the next empty one, within PEEKED_LINES."""
        longest = 0
        for index in range(PEEKED_LINES):
            if (line := self.peek(index)) is None or not line.text:
                break
            longest = max(longest, len(line.text))
        return longest


@dataclass(slots=True)
class _Table:
    """The current table: its header, the width of its lines, and whether one of them was wrapped."""

    header: Header
    width: int
    wrapped: bool
    in_words: bool | None = None  # whether lines are also wrapped within words, if the header determines that

    def row(self, parts: Sequence[str]) -> tuple[int, str]:
        """Return how many parts make up the next row, and its text; (1, first part) if it is not wrapped."""
        if not MIN_WIDTH <= self.width <= MAX_WIDTH or parse_prompt(parts[0]):
            return 1, parts[0]
        count, text = self._open_row(parts) if self.header.is_open else self._closed_row(parts)
        self.wrapped |= count > 1
        return count, text

    def _closed_row(self, parts: Sequence[str]) -> tuple[int, str]:
        """Join a row with a known number of cells."""
        if self.header.cell_count(parts[0]) >= self.header.columns:
            return self._join_last_digits(parts)
        rows: list[tuple[int, str]] = []
        for count in range(2, len(parts) + 1):
            if len(parts[count - 2]) < self.width - MAX_CELL_WIDTH or self._begins(parts[count - 1]):
                break
            for in_words in (False,) if self.in_words is False else (True, False):
                text = self._join(parts[:count], in_words=in_words)
                if self.header.cell_count(text) == self.header.columns:
                    rows.append((count, text))
        if self.header.timed:  # the row must end where the next one begins
            rows = [row for row in rows if row[0] == len(parts) or self._begins(parts[row[0]])]
        return rows[0] if rows else (1, parts[0])

    def _join_last_digits(self, parts: Sequence[str]) -> tuple[int, str]:
        """Join a row whose last number was wrapped."""
        if len(parts) < 2 or len(parts[0]) != self.width or self.in_words is False:
            return 1, parts[0]
        digits = re.fullmatch(r"[\d.,:]{1,8}%?|%", parts[1]) is not None
        return (2, parts[0] + parts[1]) if digits and not self._begins(parts[1]) else (1, parts[0])

    def _begins(self, text: str) -> bool:
        return parse_prompt(text) is not None or (self.header.timed and self.header.begins_row(text))

    def _open_row(self, parts: Sequence[str]) -> tuple[int, str]:
        """Join a row whose last cell may contain blanks, up to the next row."""
        if len(parts[0]) < self.width - MAX_CELL_WIDTH or not self.header.has_numbers(parts[0]):
            return 1, parts[0]
        count = 1
        in_words = self.width in TERMINAL_WIDTHS if self.in_words is None else self.in_words
        while count < len(parts) and not (self.header.begins_row(parts[count]) or _is_other(parts[count])):
            complete = self.header.cell_count(self._join(parts[:count], in_words=in_words)) >= self.header.columns
            if not complete and len(parts[count - 1]) < self.width - MAX_CELL_WIDTH:
                break
            if complete and not self._is_full(parts[count - 1], parts[count]):
                break
            count += 1
        text = self._join(parts[:count], in_words=in_words)
        if count == 1 or self.header.cell_count(text) < self.header.columns:
            return 1, parts[0]
        ends = count == len(parts) < MAX_PARTS or (count < len(parts) and self.header.begins_row(parts[count]))
        incomplete = self.header.cell_count(parts[0]) < self.header.columns
        is_wrapped = self.wrapped or incomplete or self.width in TERMINAL_WIDTHS
        return (count, text) if ends and is_wrapped else (1, parts[0])

    def _is_full(self, line: str, following: str) -> bool:
        """Whether a line has no room for the first word of the following one."""
        if len(line) == self.width:
            return True
        return self.wrapped and len(line) + 1 + len(following.split(maxsplit=1)[0]) > self.width

    def _join(self, parts: Sequence[str], *, in_words: bool) -> str:
        text, last = parts[0], parts[0]
        for part in parts[1:]:
            if part[:1] == " ":
                text += " " * (self.width - len(last)) + part
            else:
                text += part if in_words and len(last) == self.width else " " + part
            last = part
        return text


def join_wrapped_rows(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """Yield the lines with wrapped rows joined. A joined line has the number of its first part."""
    ahead = _Lookahead(iter(lines))
    table: _Table | None = None
    while (line := ahead.peek(0)) is not None:
        text, count = line.text, 1
        if not text:
            table = None
        elif (joined := _join_header(text, ahead)) is not None:
            header, count, text = joined
            width = ahead.width()
            first, second = [*ahead.parts(), ""][:2]
            in_words = _is_wrapped_in_words(first, second, width) if count > 1 else None
            table = _Table(header, max(width, MIN_WIDTH) if count > 1 else width, count > 1, in_words)
        elif text.startswith(GRAPH_INDENT):
            count, text = _join_graph_line(ahead)
        elif (known_line := _join_known_line(ahead))[0] > 1:
            count, text = known_line
        elif _GROUPS.match(text.lstrip()):
            count, text = _join_group_line(ahead.parts())
        elif table is not None:
            count, text = table.row(ahead.parts())
        elif _ZONE.match(text) and len(text.split()) < ORDERS + ZONE_WORDS:
            count, text = _join_zone(ahead.parts())
        taken = ahead.take(count)
        yield taken._replace(text=text) if count > 1 else taken


def _is_wrapped_in_words(first: str, second: str, width: int) -> bool | None:
    """Whether lines are also wrapped within words, by the parts of a header; None if both are possible."""
    if second[:1] == " " or not (is_name(first.split()[-1]) and is_name(second.split()[0])):
        return True
    return False if len(first) == width else None


def _join_header(first: str, ahead: _Lookahead) -> tuple[Header, int, str] | None:
    """Return the header that begins at the next line, its number of lines, and its text; None if there is none."""
    names = first.split()
    if len(first) > 2 * MAX_WIDTH or sum(map(is_name, names[:8])) < min(3, len(names)):
        return None
    header = header_of(first)
    found = (header, 1, first) if header else None
    if len(first) < MIN_WIDTH - MAX_CELL_WIDTH or len(first) > MAX_WIDTH:
        return found
    text = first
    for count, part in enumerate(ahead.parts()[1:], 2):
        before, after = text.split()[-1], part.split()[0]
        if _CLOCK.match(part.lstrip()):
            break
        text += part if part[:1] != " " and not (is_name(before) and is_name(after)) else " " + part
        if (header := header_of(text)) is not None:
            found = header, count, text
        elif header_of(text.rsplit(maxsplit=1)[0]) is None:
            break
    return found


def _join_group_line(parts: Sequence[str]) -> tuple[int, str]:
    """Join the line of column groups above the header of vmstat and collectl: `procs ------memory------`."""
    if len(parts) < 2 or len(parts[0]) < MIN_WIDTH - MAX_CELL_WIDTH or not _REST_OF_GROUPS.fullmatch(parts[1]):
        return 1, parts[0]
    between = re.search(r"[a-z]-+$", parts[0]) and re.match(r"-+[a-z]", parts[1])
    return 2, parts[0] + (" " if between else "") + parts[1]


def _join_known_line(ahead: _Lookahead) -> tuple[int, str]:
    """Join a line of a known kind whose end is on the next line."""
    line = ahead.peek(0)
    first = line.text if line else ""
    if not MIN_PART_WIDTH <= len(first) <= MAX_WIDTH:
        return 1, first
    if _PERF_COMMENT.match(first):
        return _join_comment(ahead.parts(), ahead)
    for begin, complete in _SHAPES:
        if begin.match(first) and len(parts := ahead.parts()) > 1 and not begin.match(parts[1]):
            is_cut = len(first) == ahead.width() and len(first) in TERMINAL_WIDTHS
            if is_cut and ";" in first and (count := _count_folded_parts(parts, len(first), complete)) > 2:
                return count, "".join(parts[:count])
            if complete.match(first) and not (is_cut and _SYMBOL_END.fullmatch(parts[1])):
                continue
            candidates = (first + parts[1], f"{first} {parts[1].lstrip()}")
            for text in candidates if is_cut else candidates[::-1]:
                if complete.match(text):
                    return 2, text
    return 1, first


def _count_folded_parts(parts: Sequence[str], width: int, complete: re.Pattern[str]) -> int:
    """Return how many parts make up a folded stack; all but the last part are as wide as the terminal."""
    count = 1 + sum(1 for _ in takewhile(lambda part: len(part) == width, parts))
    return count if count <= len(parts) and complete.match("".join(parts[:count])) else 0


def _join_graph_line(ahead: _Lookahead) -> tuple[int, str]:
    """Join a line of a call graph of perf report.

    All lines of a graph begin with twelve blanks, and each repeats the bars of the line above up to its own first
    non-blank character. The rest of a wrapped line does not, unless there is no bar to the left of it.
    """
    parts = ahead.parts()
    text, count = parts[0], 1
    if len(parts) < 2 or not _is_rest_of_graph(text, parts[1]):
        return 1, text
    if (width := ahead.width()) not in TERMINAL_WIDTHS or ("|" not in text and len(text) < width):
        return 1, text
    while count < len(parts) and _is_rest_of_graph(parts[0], parts[count]):
        text = text.ljust(count * width) + parts[count]
        count += 1
    return count, text


def _is_rest_of_graph(first: str, following: str) -> bool:
    """Whether a line is the rest of a graph line rather than a graph line of its own."""
    if following[0] == "#" or _PERF_ROW.match(following):
        return False
    start = len(following) - len(following.lstrip())
    branch = start - 1 if following.startswith("--", start) else -1  # perf omits the bar of the last branch
    return start < len(GRAPH_INDENT) or any(first[i] == "|" for i in range(min(start, len(first))) if i != branch)


def _join_comment(parts: Sequence[str], ahead: _Lookahead) -> tuple[int, str]:
    """Join a comment line in the header of a perf report, up to the next comment."""
    text, count, width = parts[0], 1, 0
    while (
        count < len(parts)
        and not parts[count].startswith(("#", "  "))
        and len(parts[count - 1]) >= MIN_WIDTH - MAX_CELL_WIDTH
    ):
        width = width or ahead.width()
        text += parts[count] if len(parts[count - 1]) == width or parts[count][0] == " " else " " + parts[count]
        count += 1
    ends = 1 < count < len(parts) and parts[count][0] == "#"
    return (count, text) if ends and width <= MAX_WIDTH else (1, parts[0])


def _join_zone(parts: Sequence[str]) -> tuple[int, str]:
    """Join a row of /proc/buddyinfo."""
    if len(parts) > 1 and re.fullmatch(r"[\d\s]+", parts[1]):
        words = len(parts[0].split()) + len(parts[1].split())
        glue = {ORDERS + ZONE_WORDS: " ", ORDERS + ZONE_WORDS + 1: ""}.get(words)
        if glue == " " or (glue == "" and parts[1][:1] != " "):
            return 2, parts[0] + glue + parts[1]
    return 1, parts[0]


def _is_other(text: str) -> bool:
    """Whether a line cannot belong to a row: a prompt, the next screen of top, a summary line."""
    return parse_prompt(text) is not None or _OTHER.match(text.lstrip()) is not None


def may_be_cut(lines: Sequence[str]) -> bool:
    """Whether lines may have been cut; a cheap test. Some rows of any long table are as wide as a terminal."""
    if sum(line.endswith(CUT_MARK) for line in lines) >= MIN_MARKED_LINES:
        return True
    if frozenset(TERMINAL_WIDTHS).isdisjoint(map(len, lines)):
        return False
    begin = 0
    while begin < len(lines):
        part = lines[begin : begin + MAX_PARAGRAPH_LINES]
        part = part[: part.index("") + 1] if "" in part else part
        widths = list(map(len, part))
        if (widest := max(widths)) in TERMINAL_WIDTHS and widths.count(widest) >= MIN_CUT_LINES:
            return True
        begin += len(part)
    return False


def without_cut_words(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """Yield the lines, without the last word of those that were cut."""
    paragraph: list[TextLine] = []
    for line in lines:
        paragraph.append(line)
        if not line.text or len(paragraph) == MAX_PARAGRAPH_LINES:
            yield from _without_cut_words(paragraph)
            paragraph = []
    yield from _without_cut_words(paragraph)


def _without_cut_words(lines: Sequence[TextLine]) -> Iterator[TextLine]:
    width = max((len(line.text) for line in lines), default=0)
    widest = [line.text for line in lines if len(line.text) == width and not _GRAPH_LINE.match(line.text)]
    are_marked = len(widest) >= MIN_MARKED_LINES and all(text.endswith(CUT_MARK) for text in widest)
    is_cut = width >= MIN_CUT_WIDTH and (
        are_marked or (width in TERMINAL_WIDTHS and _are_cut(widest) and not prefix_of(lines))
    )
    for line in lines:
        is_complete = not is_cut or len(line.text) < width or _GRAPH_LINE.match(line.text)
        last = _LAST_CELL if " " in line.text and _CSV_ROW.match(line.text) else _LAST_WORD
        yield line if is_complete else line._replace(text=last.sub("", line.text))


def _are_cut(lines: Sequence[str]) -> bool:
    """Whether lines as wide as a terminal have no aligned columns at their right edge, or are rows of perf."""
    lines = [line for line in lines if not _RULER.search(line)]  # programs print rulers as wide as the terminal
    edges = zip(*(line[-RIGHT_EDGE:] for line in lines), strict=True)
    gaps = sum(sum(map(column.count, " |")) >= 0.75 * len(lines) for column in edges)
    return len(set(lines)) >= MIN_CUT_LINES and (gaps < TABLE_GAPS or all(map(_PERF_SYMBOL_ROW.match, lines)))
