"""What the lines of a text so far say about those that come: who speaks, of which host, what was typed, which file."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from thpdiag.detect.expansion import Tokens
from thpdiag.detect.named_files import Section
from thpdiag.detect.session import folder_after, with_absolute_settings
from thpdiag.detect.session_clock import Group, SessionClock
from thpdiag.detect.testimony import MAX_LINES
from thpdiag.detect.text_parts import TextParts
from thpdiag.detect.transcript import HostNames, Prompt, TextLine, parse_prompt
from thpdiag.knowledge.workloads import changes_of, configured_switch
from thpdiag.model import Citation, Event, Moment, Problem, ProblemKind
from thpdiag.model.parser import Parser, Source

# A row of a table: up to three words, numbers, up to two words; or a share first. Few such lines may be anything.
_NUMBER = r"[-+]?\d[\d.:%/]*[A-Za-z]{0,2}"
_ROW_OF_NUMBERS = re.compile(
    rf"\s*(?:[^\s,;]+[\s,;]+){{0,3}}?{_NUMBER}(?:[\s,;]+{_NUMBER}){{3,400}}(?:[\s,;]+[^\s,;]+){{0,2}}[\s,;]*$"
    r"|\s*\d{1,3}[.,]\d{1,4}%\s"
)
_NUMBERS = re.compile(r"(?<![^\s,;])[-+]?\d[\d.:%]{0,20}(?![^\s,;])")  # as words: not those of times and versions
MIN_ROWS = 5
MIN_ROWS_BELOW_HEADER = 2  # a row of names above them says what they are, though no parser knows it
MANY = 8  # numbers of a row of a table, whatever words stand between them
MIN_ALIKE, MIN_COLUMNS = 10, 3  # lines of which the same words are numbers, at least half of all
_COLUMN_NAME = re.compile(r"[A-Z%][A-Z0-9%_/().-]*|%[a-z]\w*|[a-z]+/s")
MIN_NAMES = 4  # of a header: at least half of its words
_NUMBER_WORD = re.compile(r"[-+]?\d[\d.,]*%?")
MAX_FRAME_GAP = 6  # lines from one frame to the next: a count, names without an underscore
MIN_FIGURES, FIGURES = 10, 3  # lines of a text that is none of sentences, and numbers in each of them
MAX_CHARS = 200  # of a line that are looked at
_FRAME = re.compile(r"\s*[A-Za-z_][\w.]{2,200}(?:\+0x[0-9a-f]{1,16})?\s*$")  # of a call stack: a function alone
_INDENTED = " \t|-+"  # what lines of call graphs begin with


@dataclass(slots=True)
class Remains:
    """Lines that no parser reads, of tables and call graphs whose beginning was lost or is not known.

    `rows` are those of the last table so far, `alike` the lines with numbers in the same columns, whatever stands
    between them, `graph` the indented lines that would have belonged to the block before; few are not counted, of rows
    below a line of column names more than one. `above` are the latest lines that no parser knows.
    """

    lines: int = 0
    first: int = 0
    rows: int = 0
    row: int = 0  # the line of the last one
    header: int = 0  # the line of the last column names
    alike: int = 0
    alike_since: int = 0
    columns: frozenset[int] = frozenset()  # of numbers in all of them
    stacks: list[tuple[int, int]] = field(default_factory=list)  # first line and frames of what may be call stacks
    frame: int = 0  # the line of the last one
    parser: Parser | None = None  # of the block before
    graph: int = 0
    since: int = 0  # the line of the first row, or of the graph
    above: deque[TextLine] = field(default_factory=partial(deque, maxlen=2 * MIN_ROWS))
    unknown: int = 0  # lines in a row that no parser knows
    figures: int = 0  # lines with several numbers, as long as no block was found
    first_figure: int = 0  # the first of them

    def see(self, line: TextLine) -> None:
        """Take a line that no parser knows."""
        self.unknown = self.unknown + 1 if self.above and line.number <= self.above[-1].number + 1 else 1
        self.above.append(line)
        if self.parser is None and len(_NUMBERS.findall(line.text[:MAX_CHARS])) >= FIGURES:
            self.first_figure = self.first_figure or line.number
            self.figures += 1
        if _ROW_OF_NUMBERS.match(line.text) or len(_NUMBERS.findall(line.text[:MAX_CHARS])) >= MANY:
            self.rows = self.rows + 1 if line.number <= self.row + 1 else 1
            self.since = line.number if self.rows == 1 else self.since
            self.row = line.number
            self._count(self.rows, self._least(self.since, MIN_ROWS), self.since)
            self.alike = 0
        elif self._is_alike(line):
            self._count(self.alike, self._least(self.alike_since, MIN_ALIKE), self.alike_since)
        else:
            self.graph = self.graph + 1 if self.parser and self._is_of(self.parser, line) else 0
            self.since = line.number if self.graph == 1 else self.since
            self._count(self.graph, 2 * MIN_ROWS, self.since)
            if not self.graph and "_" in line.text and _FRAME.match(line.text):  # other lists of words rarely have one
                if not self.stacks or line.number > self.frame + MAX_FRAME_GAP:
                    self.stacks.append((line.number, 0))
                self.stacks[-1] = (self.stacks[-1][0], self.stacks[-1][1] + 1)
                self.frame = line.number

    def _least(self, first: int, rows: int) -> int:
        """How many rows are a table: fewer if a line of names above the first says what they are."""
        return MIN_ROWS_BELOW_HEADER if 0 < self.header == first - 1 else rows

    def _is_alike(self, line: TextLine) -> bool:
        """Whether a line has numbers in the columns of the lines above, or is the first one of a table."""
        words = line.text[:MAX_CHARS].split()
        here = frozenset(at for at, word in enumerate(words) if _NUMBER_WORD.fullmatch(word))
        names = sum(_COLUMN_NAME.fullmatch(word) is not None for word in words)
        if names >= max(MIN_NAMES, len(words) / 2):
            self.header = line.number
        least = max(MIN_COLUMNS, len(words) / 2)
        if self.alike and self.unknown > 1 and len(common := self.columns & here) >= least:
            self.alike, self.columns = self.alike + 1, common
        else:
            self.alike, self.columns, self.alike_since = 1, here, line.number
        return len(self.columns) >= least

    def begin_block(self, parser: Parser, first: TextLine) -> None:
        """A block begins: indented lines right above it may be the end of one of its kind."""
        is_full = len(self.above) == self.above.maxlen and self.above[-1].number + 1 >= first.number > self.row + 1
        if is_full and not self.graph and all(self._is_of(parser, line) for line in self.above):
            self.since = self.above[-1].number - self.unknown + 1
            self._count(self.unknown, self.unknown, self.since)
            self.stacks = [stack for stack in self.stacks if stack[0] < self.since]
        self.parser, self.graph = parser, 0
        self.above.clear()

    @staticmethod
    def _is_of(parser: Parser, line: TextLine) -> bool:
        return line.text[0] in _INDENTED and bool(parser.continues(line.text))

    def _count(self, lines: int, least: int, since: int) -> None:
        if lines >= least:
            self.first = self.first or since
            self.lines += lines if lines == least else 1

    def problem(self, member: str) -> Problem | None:
        """What was not read, if that is more than a few lines."""
        for since, frames in self.stacks:
            self._count(frames, frames if frames >= 2 * MIN_ROWS else frames + 1, since)
        if self.lines:
            text = f"{self.lines} lines belong to tables or call graphs whose beginning is missing or unknown; not read"
            return Problem(Citation(member, self.first), text, ProblemKind.UNRECOGNISED)
        if self.parser is None and self.figures >= MIN_FIGURES:
            text = f"only prose was read; {self.figures} lines with numbers are in no known format"
            return Problem(Citation(member, self.first_figure), text, ProblemKind.UNRECOGNISED)
        return None


_WRITES = re.compile(r">|\btee\b|\bsed\b.{0,40}\s-\w*i|\bsystemctl (?:set-property|set-environment|edit)\b|\bcrudini\b")
_REMOVES = re.compile(r"(?:sudo )?(?:rm|systemctl revert)\b")
_COMMENT = re.compile(r"\s*+(?:[\w./-]+:)?(?:\d+:)?\s*[#;]")  # what grep prints before it
_NOT_IN_FORCE = re.compile(r"/usr/share/|/doc/|\.(?:bak|orig|old|example|sample|md|rpmsave|dpkg-\w+)\b")
_SHOWS = re.compile(r"(?:sudo )?(?:cat|[ef]?grep|tail|head|less|systemctl (?:cat|show))\b")
_UNIT = re.compile(
    r"/systemd/system/(?P<a>[\w@.-]+?)\.service\b|\bsystemctl (?:cat|show|edit|revert|set-property) (?:-\S+ )*"
    r"(?P<b>[\w@.-]+)|/etc/(?:default|sysconfig|conf\.d)/(?P<c>[\w-]+)|/etc/(?!systemd/)(?P<d>[\w-]+)/"
)
_BOOT = re.compile(
    r"(?:\bgrubby\b.*--args\b|/etc/default/grub\b|/etc/kernel/cmdline\b|\bkargs\b.*--append).*?"
    r"\btransparent_hugepage=(?P<value>always|madvise|never)|"
    r"\btransparent_hugepage=(?P<other>always|madvise|never).*/etc/(?:default/grub|kernel/cmdline)\b"
)


@dataclass(slots=True)
class Services:
    """A service's own switch for huge pages: an option in its unit or configuration, in force from a restart on.

        # sed -i 's/-XX:+UseTransparentHugePages/-XX:-UseTransparentHugePages/' /etc/default/tomcat9
        # systemctl restart tomcat9

    What a command writes to a file, or shows of one, is remembered by service (no name where the file tells none); the
    next restart makes it a switch of the setting thp.service.NAME. An application that refuses to change the option
    while it runs changes nothing. So it is with the boot line (`grubby --args=transparent_hugepage=never`) and the next
    reboot.
    """

    configured: dict[str, str] = field(default_factory=dict)
    boot: str = ""

    def take(self, command: str, output: Sequence[str]) -> None:
        """A command that was run, with what it printed."""
        if (found := _BOOT.search(command)) and "remove-args" not in command and not _SHOWS.match(command):
            self.boot = found["value"] or found["other"]
        in_force = [] if ">" in command or _NOT_IN_FORCE.search(command) else output
        shown = "\n".join(line for line in in_force if not _COMMENT.match(line)) if _SHOWS.match(command) else ""
        value = configured_switch(shown or (command if _WRITES.search(command) else ""))
        unit = _UNIT.search(command)
        name = unit[unit.lastgroup or 0].removesuffix(".service") if unit else ""
        if value or (name in self.configured and _REMOVES.match(command)):
            self.configured[name] = value or "default"

    def restarts(self, cite: Citation, command: str) -> Iterator[Event]:
        """The switches that come with a command that restarts services."""
        for what, service in changes_of(command):
            if what == "reboot" and self.boot:
                fields = {"setting": "thp.enabled", "value": self.boot, "path": "the boot line", "how": "prompt"}
                yield Event("setting_written", cite, fields=fields)
            names = [n for n in self.configured if n.startswith(service) or service.startswith(n)]
            if what == "restart" and service and names:
                fields = {
                    "setting": f"thp.service.{service}",
                    "value": self.configured[max(names, key=len)],
                    "how": "prompt",
                }
                yield Event("setting_written", cite, fields=fields)


_FILE_COMMAND = re.compile(r"(?:sudo\s+)?(?:cat|head|tail|more|less|grep|egrep)\b(?P<rest>.*)")
# Commands that print a bare value; named like a file of it.
_BARE_VALUE = re.compile(
    r"(?:sudo\s+)?(?:(getconf)\s+(PAGE_?SIZE)|(uname)\s+(-r)|(uptime)\s+(-s|--since))\s*$"
    r"|(?P<name>(?:sudo\s+)?(?:hostname(?:\s+-s)?|uname\s+-n)\s*$)"
)
# What awk adds up of smaps is one bare value too; named like a file beside it.
_SUM_OF_SMAPS = re.compile(r".{0,200}/(proc/[^/\s]{1,60}(?: [^/\s]{1,60}){0,3}/smaps)(?:_rollup)?(?![\w/])")
_ADDS_UP = re.compile(r"\bawk\b.{0,200}\+=\s{0,4}\$2\b.{0,100}\bEND\b")
_LOOP = re.compile(r"(?:^|[;&|(]\s*)(?:while|for|until|watch)\b")  # then the output is of several commands, in turn
_PATH_WORD = re.compile(r"(?<![\w>])/(?:[\w.+@*-]+/)*[\w.+@*-]+")
TRACED = re.compile(r"\+{1,3} ?(?P<cmd>\S.*)")
MAX_LOOKS, SKIPPED_LINES = 10, 400  # at a log of something else, after which only a part of it is looked at
MAIN = ""  # the speaker of the text itself


class PartBelow(NamedTuple):
    """A part of a command's output: its first line, what was done before it, and the commands that print it."""

    line: int
    done: tuple[str, ...]
    command: str
    how: str
    host: str = ""  # on which it ran, where that is another one than the shell's


@dataclass(slots=True)
class Context:
    """What the lines above say about the next block."""

    member: str
    path: str
    session: SessionClock
    text_parts: TextParts
    speaker: str = MAIN
    host: str = ""
    names: HostNames = field(default_factory=HostNames)
    headed: dict[str, set[str]] = field(default_factory=dict)  # names in headings, by what they have in common
    local: str | None = None  # the host of the shell, while a command of it runs on another one
    time: Moment | None = None
    command: str = ""
    folder: str = ""
    paths: deque[str] = field(default_factory=deque)
    looping: bool = False
    timed: int = 0  # the line of that time
    looked_at: int = 0  # the last line of which it is known that nothing is to be taken off
    looks: int = 0  # in vain, one after another
    ahead: int | None = None  # of UTC, in seconds, as the last time line that tells it
    accounts: dict[Group, list[tuple[int, str]]] = field(default_factory=dict)  # lines of prose, by group
    variables: dict[str, str] = field(default_factory=dict)  # of the shell, as far as they are known
    functions: dict[str, Tokens] = field(default_factory=dict)
    parts: deque[PartBelow] = field(default_factory=deque)  # of the output that comes next
    tracing: bool = False  # the shell prints each command behind a `+`
    traced: list[str] = field(default_factory=list)  # both sides of a pipe, in either order
    services: Services = field(default_factory=Services)
    remains: Remains = field(default_factory=Remains)
    is_report: bool = False  # of supportconfig: nobody types or tells anything in it
    json_from: int = 0  # the line from which on a document of JSON is looked for

    @property
    def group(self) -> Group:
        return (self.speaker, self.host) if self.local is None else (self.speaker, self.host, True)

    def name_host(self, name: str) -> None:
        """What comes next is of this host, if there is a name."""
        self.host = self.names.label(name, self.host) if name else self.host

    def write_down(self, line: TextLine) -> None:
        """Keep a line of prose, or an empty one, as part of what the speaker writes; not what he quotes, no tables."""
        if line.depth or self.is_report or (line.text and line.number == self.remains.row):
            return
        if len(written := self.accounts.setdefault(self.group, [])) <= MAX_LINES:
            written.append((line.number, line.text))

    def look_past(self, line: TextLine) -> None:
        """Up to this line nothing is to be taken off; soon it is not looked for in each piece of a long text."""
        self.looks += 1
        self.looked_at = line.number + SKIPPED_LINES * (self.looks > MAX_LOOKS)

    def source(self) -> Source:
        path = self.paths[0] if self.paths else self.path
        return Source(self.member, time=self.time, command=self.command, path=path)

    def tracing_allows(self, text: str) -> bool:
        """Whether a line is still of the output of the command above."""
        return parse_prompt(text) is None or (self.tracing and TRACED.match(text) is not None)

    def take_prompt(self, typed: Prompt, *, remote: bool = False) -> None:
        """What a typed command says of its output; a remote one is of its own host, and of none after it."""
        if self.local is not None:
            self.host, self.local = self.local, None
        if remote:
            self.local = self.host
        if typed.folder.startswith("/"):
            self.folder = typed.folder
        self.folder = folder_after(self.folder, typed.command)
        self.command = with_absolute_settings(typed.command, self.folder)
        if typed.host:
            self.name_host(typed.host)
        if self.looping:  # the time of a loop's last round says nothing of the next command
            self.time = None
        found = _FILE_COMMAND.search(self.command)
        paths = [p.lstrip("/") for p in _PATH_WORD.findall(found["rest"])] if found else []
        if (asked := _BARE_VALUE.match(self.command)) and asked["name"]:
            paths = [] if typed.host else ["hostname"]  # what a prompt calls the host may be no name of it
        elif asked:
            paths = ["/".join(filter(None, asked.groups()))]
        elif _ADDS_UP.search(self.command) and (of := _SUM_OF_SMAPS.match(self.command)):
            paths = [f"{of[1]}_sum"]
        self.looping = bool(_LOOP.search(self.command))
        if self.looping:  # the outputs of several commands in turn: only what has no name of its own needs the path
            paths = [p for p in paths if "transparent_hugepage/" in p]
            paths = paths if len(paths) == 1 else []
        self.paths = deque(paths)

    def take_name(self, path: str, command: str = "") -> None:
        """What a name above some content says: the same as a command that prints that file."""
        self.paths = deque([path] if path else [])
        self.command, self.looping = command or f"cat /{path}", False

    def take_section(self, section: Section) -> None:
        """The same for a section of supportconfig; the time of an earlier one says nothing of it."""
        self.take_name(section.path)
        self.command, self.time = section.command, None

    def set_speaker(self, name: str) -> None:
        self.speaker, self.host, self.time, self.command, self.folder = name, "", None, "", ""
        self.tracing = False
        for known in (self.paths, self.variables, self.functions, self.parts, self.traced):
            known.clear()
        self.session.speaker()

    def set_quoting(self, line: TextLine) -> None:
        """Quoted lines of a mail are another speaker than the lines around them."""
        if self.is_report:
            return
        self.text_parts.quote(line)
        speaker = f"quoted {line.depth}" if line.depth else MAIN
        if self.speaker != speaker and (line.depth or self.speaker.startswith("quoted ")):
            self.set_speaker(speaker)
