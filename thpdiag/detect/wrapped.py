"""Tables whose lines a terminal or a mail program has broken, joined again.

    10:13:04        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %so
    ft    %guest    %gnice     %idle

A line is broken at a width, in the middle of a word (a terminal) or at a blank that is lost (a mail program). Nothing
is joined unless the header above is that of a known table, all of it: then it tells how many cells a row has, and the
parts of a row are joined until it has just as many. What the parts do not sum up to stays as it is.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, takewhile

from thpdiag.detect.transcript import TextLine, parse_prompt

MIN_WIDTH, MAX_WIDTH = 70, 132  # columns of terminals and mail programs
MAX_CELL = 24  # columns by which a part may be shorter than the others: a cell that did not fit, blanks at the end
MIN_PART = 30  # columns of a line of which some are shown to the right, behind blanks
MAX_PARTS = 8  # lines of a row
MIN_COLUMNS = 4
TERMINALS = (80, 100, 120, 132)  # usual widths, in columns
PEEKED_LINES = 60  # behind a header, to tell whether a text is to be joined
LOOKS = 4  # at headers of a piece of text

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
    """.split()  # noqa: SIM905  columns, as they are printed
)
_SHAPE = re.compile(
    r"%[A-Za-z][\w-]*|[A-Za-z][\w-]*/s|kb[a-z]+|(?:k[bB]|MB)_?\w+|\w{1,8}_await|\w{1,6}q[ru]?-sz|Blk_\w+|ip6?-?frag"
)
_LAST = frozenset({"COMMAND", "CMD", "Command", "COMM", "BEFEHL"})  # whose cells hold blanks
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
_SHAPES = tuple(  # how lines of a known kind begin, and what they are as a whole
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
_SYMBOL_END = re.compile(r"[\w.:$@<>(),&*~-]+")  # the rest of a word: a line that looks whole may lack it
_PERF_COMMENT = re.compile(r"#\s+(?:[a-z][\w ]{1,30} : |\.{6}|To display the perf|\(Tip: |(?:Overhead|Children)\b)")
GRAPH = " " * 12
_PERF_ROW = re.compile(r"\s*\d{1,3}\.\d\d%\s")
FRONT = 4  # words before the counts of /proc/buddyinfo
ORDERS = 11  # of free blocks, on nearly all kernels
_HEADERS = re.compile(
    r"^[^\n]{0,60}(?:%(?:user|usr|CPU|idle|nice|vmeff|memused|swpused)|\bswpd\b|\bkbmemfree\b|/s +\w+/s|\bctxsw\b|"
    r"\bused +free +shared\b|\b(?:PID|VSZ|RSS|OBJS) +[A-Z%]|^Node +\d+, +zone +\w+ +\d+)|"
    r"^(?:top - \d|#\s+(?:event :|\.{6}|To display|Overhead|Children)|Linux \S+ \(| {0,30}\d{1,9}\.\d\d%? |"
    r" {12}\||[^\S\n]{1,60}PerfTop:|[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-])",
    re.MULTILINE,
)


def is_name(word: str) -> bool:
    """Whether a word names a column of a table that a parser knows."""
    return word in _WORDS or _SHAPE.fullmatch(word) is not None


@dataclass(frozen=True)
class Header:
    """The columns of a table."""

    names: tuple[str, ...]  # without a time before them
    timed: bool = False

    @cached_property
    def columns(self) -> int:
        """Cells of a row behind its time."""
        names = self.names
        two = sum(pair in (("OBJ", "SIZE"), ("CACHE", "SIZE")) for pair in pairwise(names))
        label = (names[0] == "total") - (names[0] == "avg-cpu:") + (names[-1] == "UTC")
        return len(names) - two + label + 4 * ("STARTED" in names)

    @property
    def is_open(self) -> bool:
        """Whether the last cell may hold blanks, so that a row may have more."""
        return self.names[-1] in _LAST

    def cells(self, text: str) -> list[str]:
        """The cells of a row, or of a part of it, behind its time."""
        if self.timed and (time := _CLOCK.match(text.lstrip()) or _AVERAGE.match(text.lstrip())):
            text = text.lstrip()[time.end() :]
        return text.split()

    def cell_count(self, text: str) -> int:
        """How many cells a row, or a part of it, has."""
        return len(self.cells(text))

    def begins_row(self, text: str) -> bool:
        """Whether a line begins as a row does: with a time, or with numbers where the columns have such."""
        start = text.lstrip()
        if self.timed or self.names[0].startswith("#"):
            return bool(_CLOCK.match(start) or _AVERAGE.match(start) or re.match(r"\d{8,10}\s", start))
        return len(start.split()) >= max(3, self.columns // 2) and self.has_numbers(start)

    def has_numbers(self, text: str) -> bool:
        """Whether numbers stand where the columns have such."""
        cells = zip(self.names, self.cells(text), strict=False)
        numbers = [_NUMBER.match(cell) for name, cell in cells if _NUMERIC.search(name)]
        return bool(numbers) and all(numbers)


def header_of(text: str) -> Header | None:
    """A line as the whole header of a table."""
    start = text.strip()
    time = _CLOCK.match(start) or _AVERAGE.match(start)
    names = start[time.end() :].split() if time else start.split()
    if names[:2] == ["#", "Time"]:
        return Header(tuple(names[2:]), timed=True) if _are_names(names[2:]) else None
    return Header(tuple(names), bool(time)) if _are_names(names) else None


def _are_names(names: Sequence[str]) -> bool:
    return len(names) >= MIN_COLUMNS and all(map(is_name, names))


def may_be_wrapped(text: str) -> bool:
    """Whether lines of a piece of text are to be joined."""
    for found in islice(_HEADERS.finditer(text), LOOKS):
        end = found.start()
        for _ in range(PEEKED_LINES):
            end = text.find("\n", end + 1)
            if end < 0:
                end = len(text)
                break
        lines = [TextLine(0, line.rstrip()) for line in text[found.start() : end].split("\n")]
        if sum(1 for _ in joined_tables(iter(lines))) < len(lines):
            return True
    return False


class _Ahead:
    """Lines that can be looked ahead into."""

    def __init__(self, lines: Iterator[TextLine]) -> None:
        self._lines = lines
        self._held: deque[TextLine] = deque()

    def peek(self, place: int) -> TextLine | None:
        """The line at a place from the next one on."""
        while len(self._held) <= place:
            if (line := next(self._lines, None)) is None:
                return None
            self._held.append(line)
        return self._held[place]

    def take(self, count: int) -> TextLine:
        """Takes lines, and gives the first."""
        taken = [self._held.popleft() for _ in range(count)]
        return taken[0]

    def parts(self) -> list[str]:
        """The next line, and those that may belong to it."""
        found, first = list[str](), self.peek(0)
        for place in range(MAX_PARTS):
            line = self.peek(place)
            if first is None or line is None or not line.text.strip() or line.depth != first.depth:
                break
            if found and line.text.lstrip().startswith("```"):
                break
            found.append(line.text)
        return found

    def width(self) -> int:
        """The longest line up to the next empty one, or to the last that is looked at."""
        longest = 0
        for place in range(PEEKED_LINES):
            if (line := self.peek(place)) is None or not line.text:
                break
            longest = max(longest, len(line.text))
        return longest


@dataclass(slots=True)
class _Table:
    """The table that is being read, how wide its lines are, and whether one of them was broken."""

    header: Header
    width: int
    broken: bool
    in_words: bool | None = None  # whether lines are broken in the middle of a word too, as far as the header tells

    def row(self, parts: Sequence[str]) -> tuple[int, str]:
        """How many of the parts make the next row, and its text; (1, the first part) if it stands in one line."""
        if not MIN_WIDTH <= self.width <= MAX_WIDTH or parse_prompt(parts[0]):
            return 1, parts[0]
        found = self._open_row(parts) if self.header.is_open else self._closed_row(parts)
        self.broken |= found[0] > 1
        return found

    def _closed_row(self, parts: Sequence[str]) -> tuple[int, str]:
        """A row with a number of cells that is known."""
        if self.header.cell_count(parts[0]) >= self.header.columns:
            return self._with_last_digits(parts)
        found: list[tuple[int, str]] = []
        for count in range(2, len(parts) + 1):
            if len(parts[count - 2]) < self.width - MAX_CELL or self._begins(parts[count - 1]):
                break
            for in_words in (False,) if self.in_words is False else (True, False):
                text = self._join(parts[:count], in_words=in_words)
                if self.header.cell_count(text) == self.header.columns:
                    found.append((count, text))
        if self.header.timed:  # the next row tells where this one ends
            found = [one for one in found if one[0] == len(parts) or self._begins(parts[one[0]])]
        return found[0] if found else (1, parts[0])

    def _with_last_digits(self, parts: Sequence[str]) -> tuple[int, str]:
        """A row whose last number was broken."""
        if len(parts) < 2 or len(parts[0]) != self.width or self.in_words is False:
            return 1, parts[0]
        digits = re.fullmatch(r"[\d.,:]{1,8}%?|%", parts[1]) is not None
        return (2, parts[0] + parts[1]) if digits and not self._begins(parts[1]) else (1, parts[0])

    def _begins(self, text: str) -> bool:
        return parse_prompt(text) is not None or (self.header.timed and self.header.begins_row(text))

    def _open_row(self, parts: Sequence[str]) -> tuple[int, str]:
        """A row whose last cell may hold blanks: up to the next one."""
        if len(parts[0]) < self.width - MAX_CELL or not self.header.has_numbers(parts[0]):
            return 1, parts[0]
        count = 1
        in_words = self.width in TERMINALS if self.in_words is None else self.in_words
        while count < len(parts) and not (self.header.begins_row(parts[count]) or _is_other(parts[count])):
            whole = self.header.cell_count(self._join(parts[:count], in_words=in_words)) >= self.header.columns
            if not whole and len(parts[count - 1]) < self.width - MAX_CELL:
                break
            if whole and not self._has_no_room(parts[count - 1], parts[count]):
                break
            count += 1
        text = self._join(parts[:count], in_words=in_words)
        if count == 1 or self.header.cell_count(text) < self.header.columns:
            return 1, parts[0]
        ends = count == len(parts) < MAX_PARTS or (count < len(parts) and self.header.begins_row(parts[count]))
        alone = self.header.cell_count(parts[0]) < self.header.columns
        return (count, text) if ends and (self.broken or alone or self.width in TERMINALS) else (1, parts[0])

    def _has_no_room(self, last: str, following: str) -> bool:
        """Whether the first word of the following line had no room in the last one."""
        if not self.broken:
            return len(last) == self.width
        return len(last) == self.width or len(last) + 1 + len(following.split(maxsplit=1)[0]) > self.width

    def _join(self, parts: Sequence[str], *, in_words: bool) -> str:
        text, last = parts[0], parts[0]
        for part in parts[1:]:
            if part[:1] == " ":
                text += " " * (self.width - len(last)) + part
            else:
                text += part if in_words and len(last) == self.width else " " + part
            last = part
        return text


def joined_tables(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """The lines, those of wrapped tables joined; a joined one has the number of its first part."""
    ahead = _Ahead(iter(lines))
    table: _Table | None = None
    while (line := ahead.peek(0)) is not None:
        text, count = line.text, 1
        if not text:
            table = None
        elif (found := _header(text, ahead)) is not None:
            header, count, text = found
            table = None
            if header:
                width = ahead.width()
                first, second = [*ahead.parts(), ""][:2]
                in_words = _in_words(first, second, width) if count > 1 else None
                table = _Table(header, max(width, MIN_WIDTH) if count > 1 else width, count > 1, in_words)
        elif text.startswith(GRAPH):
            count, text = _graph_line(ahead)
        elif (known := _known_line(ahead))[0] > 1:
            count, text = known
        elif _GROUPS.match(text.lstrip()):
            count, text = _group_line(ahead.parts())
        elif table is not None:
            count, text = table.row(ahead.parts())
        elif _ZONE.match(text) and len(text.split()) < ORDERS + FRONT:
            count, text = _zone(ahead.parts())
        taken = ahead.take(count)
        yield taken._replace(text=text) if count > 1 else taken


def _in_words(first: str, second: str, width: int) -> bool | None:
    """Whether lines are broken in words too, as the parts of a header tell: between names only if a blank was lost."""
    if second[:1] == " " or not (is_name(first.split()[-1]) and is_name(second.split()[0])):
        return True
    return False if len(first) == width else None


def _header(first: str, ahead: _Ahead) -> tuple[Header | None, int, str] | None:
    """The header that begins at the next line, of how many lines, and its text; None if there is none."""
    names = first.split()
    if len(first) > 2 * MAX_WIDTH or sum(map(is_name, names[:8])) < min(3, len(names)):
        return None
    whole = header_of(first)
    found = (whole, 1, first) if whole else None
    if len(first) < MIN_WIDTH - MAX_CELL or len(first) > MAX_WIDTH:
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


def _group_line(parts: Sequence[str]) -> tuple[int, str]:
    """The line of groups of columns above the header of vmstat and collectl: `procs ------memory------`."""
    if len(parts) < 2 or len(parts[0]) < MIN_WIDTH - MAX_CELL or not _REST_OF_GROUPS.fullmatch(parts[1]):
        return 1, parts[0]
    between = re.search(r"[a-z]-+$", parts[0]) and re.match(r"-+[a-z]", parts[1])
    return 2, parts[0] + (" " if between else "") + parts[1]


def _known_line(ahead: _Ahead) -> tuple[int, str]:
    """A line of a known kind that lacks its end, which the next one holds."""
    line = ahead.peek(0)
    first = line.text if line else ""
    if not MIN_PART <= len(first) <= MAX_WIDTH:
        return 1, first
    if _PERF_COMMENT.match(first):
        return _comment(ahead.parts(), ahead)
    for begin, whole in _SHAPES:
        if begin.match(first) and len(parts := ahead.parts()) > 1 and not begin.match(parts[1]):
            is_cut = len(first) == ahead.width() and len(first) in TERMINALS
            if is_cut and ";" in first and (several := _count_folded(parts, len(first), whole)) > 2:
                return several, "".join(parts[:several])
            if whole.match(first) and not (is_cut and _SYMBOL_END.fullmatch(parts[1])):
                continue
            both = (first + parts[1], f"{first} {parts[1].lstrip()}")
            for text in both if is_cut else both[::-1]:
                if whole.match(text):
                    return 2, text
    return 1, first


def _count_folded(parts: Sequence[str], width: int, whole: re.Pattern[str]) -> int:
    """How many of the parts make a folded stack, of which all but the last are as wide as the terminal."""
    count = 1 + sum(1 for _ in takewhile(lambda part: len(part) == width, parts))
    return count if count <= len(parts) and whole.match("".join(parts[:count])) else 0


def _graph_line(ahead: _Ahead) -> tuple[int, str]:
    """A line of a call graph of perf report.

    All of them begin with twelve blanks, and each has the bars of the one above that are left of its own first sign.
    The rest of a broken one does not, unless no bar is left of it.
    """
    parts = ahead.parts()
    text, count = parts[0], 1
    if len(parts) < 2 or not _is_rest_of_graph(text, parts[1]):
        return 1, text
    if (width := ahead.width()) not in TERMINALS or ("|" not in text and len(text) < width):
        return 1, text
    while count < len(parts) and _is_rest_of_graph(parts[0], parts[count]):
        text = text.ljust(count * width) + parts[count]
        count += 1
    return count, text


def _is_rest_of_graph(first: str, following: str) -> bool:
    """Whether a line is no line of a graph by itself."""
    if following[0] == "#" or _PERF_ROW.match(following):
        return False
    start = len(following) - len(following.lstrip())
    own = start - 1 if following.startswith("--", start) else -1  # the bar of the last branch is left out
    return start < len(GRAPH) or any(first[at] == "|" for at in range(min(start, len(first))) if at != own)


def _comment(parts: Sequence[str], ahead: _Ahead) -> tuple[int, str]:
    """A line of the header of perf's reports, up to the next one."""
    text, count, width = parts[0], 1, 0
    while (
        count < len(parts)
        and not parts[count].startswith(("#", "  "))
        and len(parts[count - 1]) >= MIN_WIDTH - MAX_CELL
    ):
        width = width or ahead.width()
        text += parts[count] if len(parts[count - 1]) == width or parts[count][0] == " " else " " + parts[count]
        count += 1
    ends = 1 < count < len(parts) and parts[count][0] == "#"
    return (count, text) if ends and width <= MAX_WIDTH else (1, parts[0])


def _zone(parts: Sequence[str]) -> tuple[int, str]:
    """A row of /proc/buddyinfo."""
    if len(parts) > 1 and re.fullmatch(r"[\d\s]+", parts[1]):
        both = len(parts[0].split()) + len(parts[1].split())
        glue = {ORDERS + FRONT: " ", ORDERS + FRONT + 1: ""}.get(both)
        if glue == " " or (glue == "" and parts[1][:1] != " "):
            return 2, parts[0] + glue + parts[1]
    return 1, parts[0]


def _is_other(text: str) -> bool:
    """Whether a line is surely none of a row: a prompt, a further screen of top, a sum."""
    return parse_prompt(text) is not None or _OTHER.match(text.lstrip()) is not None
