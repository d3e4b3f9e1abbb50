"""State of a text while it is read: speaker, host, last command, file name, shell variables, unread tables."""

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

# A row of a table: up to three words, numbers, up to two words; or a percentage first. A few such lines prove nothing.
_NUMBER = r"[-+]?\d[\d.:%/]*[A-Za-z]{0,2}"
_ROW_OF_NUMBERS = re.compile(
    rf"\s*(?:[^\s,;]+[\s,;]+){{0,3}}?{_NUMBER}(?:[\s,;]+{_NUMBER}){{3,400}}(?:[\s,;]+[^\s,;]+){{0,2}}[\s,;]*$"
    r"|\s*\d{1,3}[.,]\d{1,4}%\s"
)
_NUMBERS = re.compile(r"(?<![^\s,;])[-+]?\d[\d.:%]{0,20}(?![^\s,;])")  # whole words: not those in times and versions
MIN_ROWS = 5
MIN_ROWS_BELOW_HEADER = 2  # rows of a table whose column names are visible, although no parser knows it
MIN_NUMBERS_IN_ROW = 8  # numbers that make a line a row, whatever words are between them
MIN_ALIGNED_ROWS, MIN_ALIGNED_COLUMNS = 10, 3  # lines with numbers at the same word positions, and those positions
_COLUMN_NAME = re.compile(r"[A-Z%][A-Z0-9%_/().-]*|%[a-z]\w*|[a-z]+/s")
MIN_HEADER_NAMES = 4  # column names in a header, which are at least half of its words
_NUMBER_WORD = re.compile(r"[-+]?\d[\d.,]*%?")
MAX_FRAME_GAP = 6  # lines from one frame to the next: a count, names without an underscore
MIN_FIGURE_LINES, MIN_FIGURES = 10, 3  # lines with numbers in a text that is not prose, and numbers in each of them
MAX_CHARS = 200  # characters of a line that are examined
_FRAME = re.compile(r"\s*[A-Za-z_][\w.]{2,200}(?:\+0x[0-9a-f]{1,16})?\s*$")  # in a call stack: only a function name
_INDENTED = " \t|-+"  # first characters of the lines of call graphs


@dataclass(slots=True)
class UnreadLines:
    """Counts the lines of tables and call graphs that no parser reads because their beginning is missing or unknown.

    Only runs of a minimal length are counted: `rows` of the current table, `aligned` lines with numbers at the same
    word positions, indented `graph` lines that would have continued the previous block. `recent` are the latest lines
    that no parser read.
    """

    lines: int = 0  # counted so far
    first: int = 0  # number of the first counted line
    rows: int = 0
    last_row: int = 0  # line number
    header: int = 0  # line number of the last column names
    aligned: int = 0
    aligned_since: int = 0  # line number
    columns: frozenset[int] = frozenset()  # word positions at which all aligned lines have numbers
    stacks: list[tuple[int, int]] = field(default_factory=list)  # first line and frame count of possible call stacks
    last_frame: int = 0  # line number
    parser: Parser | None = None  # of the previous block
    graph: int = 0
    since: int = 0  # line number of the first row, or of the first line of the graph
    recent: deque[TextLine] = field(default_factory=partial(deque, maxlen=2 * MIN_ROWS))
    consecutive: int = 0  # lines without a gap that no parser read
    figure_lines: int = 0  # lines with several numbers before the first block
    first_figure_line: int = 0

    def add(self, line: TextLine) -> None:
        """Add a line that no parser reads."""
        self.consecutive = self.consecutive + 1 if self.recent and line.number <= self.recent[-1].number + 1 else 1
        self.recent.append(line)
        numbers = len(_NUMBERS.findall(line.text[:MAX_CHARS]))
        if self.parser is None and numbers >= MIN_FIGURES:
            self.first_figure_line = self.first_figure_line or line.number
            self.figure_lines += 1
        if numbers >= MIN_NUMBERS_IN_ROW or _ROW_OF_NUMBERS.match(line.text):
            self.rows = self.rows + 1 if line.number <= self.last_row + 1 else 1
            self.since = line.number if self.rows == 1 else self.since
            self.last_row = line.number
            self._count(self.rows, self._min_rows(self.since, MIN_ROWS), self.since)
            self.aligned = 0
        elif self._is_aligned(line):
            self._count(self.aligned, self._min_rows(self.aligned_since, MIN_ALIGNED_ROWS), self.aligned_since)
        else:
            self.graph = self.graph + 1 if self.parser and self._continues(self.parser, line) else 0
            self.since = line.number if self.graph == 1 else self.since
            self._count(self.graph, 2 * MIN_ROWS, self.since)
            if (
                not self.graph and "_" in line.text and _FRAME.match(line.text)
            ):  # lists of words rarely have underscores
                if not self.stacks or line.number > self.last_frame + MAX_FRAME_GAP:
                    self.stacks.append((line.number, 0))
                self.stacks[-1] = (self.stacks[-1][0], self.stacks[-1][1] + 1)
                self.last_frame = line.number

    def _min_rows(self, first: int, default: int) -> int:
        """Return how many rows make a table: fewer if column names are right above the first row."""
        return MIN_ROWS_BELOW_HEADER if 0 < self.header == first - 1 else default

    def _is_aligned(self, line: TextLine) -> bool:
        """Whether a line has numbers in the columns of the lines above, or may be the first row of a table."""
        words = line.text[:MAX_CHARS].split()
        columns = frozenset(i for i, word in enumerate(words) if _NUMBER_WORD.fullmatch(word))
        names = sum(_COLUMN_NAME.fullmatch(word) is not None for word in words)
        if names >= max(MIN_HEADER_NAMES, len(words) / 2):
            self.header = line.number
        min_columns = max(MIN_ALIGNED_COLUMNS, len(words) / 2)
        if self.aligned and self.consecutive > 1 and len(common := self.columns & columns) >= min_columns:
            self.aligned, self.columns = self.aligned + 1, common
        else:
            self.aligned, self.columns, self.aligned_since = 1, columns, line.number
        return len(self.columns) >= min_columns

    def begin_block(self, parser: Parser, first: TextLine) -> None:
        """Note that a block begins. Indented lines right above it may be the end of a block of the same format."""
        is_full = len(self.recent) == self.recent.maxlen
        is_adjacent = is_full and self.recent[-1].number + 1 >= first.number > self.last_row + 1
        if is_adjacent and not self.graph and all(self._continues(parser, line) for line in self.recent):
            self.since = self.recent[-1].number - self.consecutive + 1
            self._count(self.consecutive, self.consecutive, self.since)
            self.stacks = [stack for stack in self.stacks if stack[0] < self.since]
        self.parser, self.graph = parser, 0
        self.recent.clear()

    @staticmethod
    def _continues(parser: Parser, line: TextLine) -> bool:
        return line.text[0] in _INDENTED and bool(parser.continues(line.text))

    def _count(self, lines: int, minimum: int, since: int) -> None:
        """Count a run of lines: all of them when it reaches the minimum, then each further line."""
        if lines >= minimum:
            self.first = self.first or since
            self.lines += lines if lines == minimum else 1

    def problem(self, member: str) -> Problem | None:
        """Return the problem that describes the unread lines, None if there are only a few."""
        for since, frames in self.stacks:
            self._count(frames, frames if frames >= 2 * MIN_ROWS else frames + 1, since)
        if self.lines:
            text = f"{self.lines} lines belong to tables or call graphs whose beginning is missing or unknown; not read"
            return Problem(Citation(member, self.first), text, ProblemKind.UNRECOGNISED)
        if self.parser is None and self.figure_lines >= MIN_FIGURE_LINES:
            text = f"only prose was read; {self.figure_lines} lines with numbers are in no known format"
            return Problem(Citation(member, self.first_figure_line), text, ProblemKind.UNRECOGNISED)
        return None


_WRITES = re.compile(r">|\btee\b|\bsed\b.{0,40}\s-\w*i|\bsystemctl (?:set-property|set-environment|edit)\b|\bcrudini\b")
_REMOVES = re.compile(r"(?:sudo )?(?:rm|systemctl revert)\b")
_COMMENT = re.compile(r"\s*+(?:[\w./-]+:)?(?:\d+:)?\s*[#;]")  # with the prefix that grep prints
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
    """Options for huge pages in the units or configuration files of services, which take effect at a restart.

        # sed -i 's/-XX:+UseTransparentHugePages/-XX:-UseTransparentHugePages/' /etc/default/tomcat9
        # systemctl restart tomcat9

    The option that a command writes to a file, or prints from one, is remembered by service (name "" if the file does
    not determine it). The next restart of the service makes it a change of the setting thp.service.NAME. The boot line
    (`grubby --args=transparent_hugepage=never`) takes effect at the next reboot in the same way.
    """

    configured: dict[str, str] = field(default_factory=dict)
    boot: str = ""

    def add_command(self, command: str, output: Sequence[str]) -> None:
        """Remember the option that a command writes, or that its output shows."""
        if (match := _BOOT.search(command)) and "remove-args" not in command and not _SHOWS.match(command):
            self.boot = match["value"] or match["other"]
        in_force = [] if ">" in command or _NOT_IN_FORCE.search(command) else output
        shown = "\n".join(line for line in in_force if not _COMMENT.match(line)) if _SHOWS.match(command) else ""
        value = configured_switch(shown or (command if _WRITES.search(command) else ""))
        unit = _UNIT.search(command)
        name = unit[unit.lastgroup or 0].removesuffix(".service") if unit else ""
        if value or (name in self.configured and _REMOVES.match(command)):
            self.configured[name] = value or "default"

    def settings_after_restart(self, cite: Citation, command: str) -> Iterator[Event]:
        """Yield the settings that take effect with a command that restarts services or the host."""
        for change, service in changes_of(command):
            if change == "reboot" and self.boot:
                fields = {"setting": "thp.enabled", "value": self.boot, "path": "the boot line", "how": "prompt"}
                yield Event("setting_written", cite, fields=fields)
            names = [n for n in self.configured if n.startswith(service) or service.startswith(n)]
            if change == "restart" and service and names:
                value = self.configured[max(names, key=len)]
                fields = {"setting": f"thp.service.{service}", "value": value, "how": "prompt"}
                yield Event("setting_written", cite, fields=fields)


_FILE_COMMAND = re.compile(r"(?:sudo\s+)?(?:cat|head|tail|more|less|grep|egrep)\b(?P<rest>.*)")
# Commands that print a bare value; their output is read like a file with that name.
_BARE_VALUE = re.compile(
    r"(?:sudo\s+)?(?:(getconf)\s+(PAGE_?SIZE)|(uname)\s+(-r)|(uptime)\s+(-s|--since))\s*$"
    r"|(?P<name>(?:sudo\s+)?(?:hostname(?:\s+-s)?|uname\s+-n)\s*$)"
)
# The sum that awk computes from smaps is a bare value too; it is read like a file next to smaps.
_SUM_OF_SMAPS = re.compile(r".{0,200}/(proc/[^/\s]{1,60}(?: [^/\s]{1,60}){0,3}/smaps)(?:_rollup)?(?![\w/])")
_ADDS_UP = re.compile(r"\bawk\b.{0,200}\+=\s{0,4}\$2\b.{0,100}\bEND\b")
_LOOP = re.compile(r"(?:^|[;&|(]\s*)(?:while|for|until|watch)\b")  # the output repeats that of several commands
_PATH_WORD = re.compile(r"(?<![\w>])/(?:[\w.+@*-]+/)*[\w.+@*-]+")
TRACED = re.compile(r"\+{1,3} ?(?P<cmd>\S.*)")
MAX_FAILED_CHECKS, SKIPPED_LINES = 10, 400  # prefix checks without result, after which many lines are skipped
MAIN = ""  # the speaker of the text itself


class OutputPart(NamedTuple):
    """A part of a command's output."""

    line: int  # its first line
    writes: tuple[str, ...]  # commands that change settings before it
    command: str  # commands that print it
    how: str
    host: str = ""  # on which the command ran, if it is not the host of the shell


@dataclass(slots=True)
class Context:
    """What the lines read so far determine about the next block."""

    member: str
    path: str
    session: SessionClock
    text_parts: TextParts
    speaker: str = MAIN
    host: str = ""
    names: HostNames = field(default_factory=HostNames)
    heading_hosts: dict[str, set[str]] = field(default_factory=dict)  # host names in headings, by their common stem
    shell_host: str | None = None  # the host of the shell while a command runs on another host
    time: Moment | None = None
    command: str = ""
    folder: str = ""
    paths: deque[str] = field(default_factory=deque)
    looping: bool = False
    time_line: int = 0  # number of the line that printed `time`
    checked_until: int = 0  # the last line that is known to have no prefix
    failed_checks: int = 0  # consecutive prefix checks without result
    utc_offset: int | None = None  # seconds that local time is ahead of UTC, from the last time line with both
    prose: dict[Group, list[tuple[int, str]]] = field(default_factory=dict)  # lines of prose, by group
    variables: dict[str, str] = field(default_factory=dict)  # known variables of the shell
    functions: dict[str, Tokens] = field(default_factory=dict)
    parts: deque[OutputPart] = field(default_factory=deque)  # of the output that follows
    tracing: bool = False  # the shell prints each command after a `+`
    traced: list[str] = field(default_factory=list)  # both sides of a pipe, in either order
    services: Services = field(default_factory=Services)
    unread: UnreadLines = field(default_factory=UnreadLines)
    is_report: bool = False  # a file of supportconfig, which has neither prompts nor prose
    json_from: int = 0  # the line from which JSON documents are searched

    @property
    def group(self) -> Group:
        return (self.speaker, self.host) if self.shell_host is None else (self.speaker, self.host, True)

    def name_host(self, name: str) -> None:
        """Assign what follows to this host, unless the name is empty."""
        self.host = self.names.label(name, self.host) if name else self.host

    def add_prose(self, line: TextLine) -> None:
        """Add a line of prose, or an empty one, to the text of the speaker; quoted lines and rows are left out."""
        if line.depth or self.is_report or (line.text and line.number == self.unread.last_row):
            return
        if len(prose := self.prose.setdefault(self.group, [])) <= MAX_LINES:
            prose.append((line.number, line.text))

    def skip_prefix_check(self, line: TextLine) -> None:
        """Note that there is no prefix up to this line; after several failures, skip the checks of many lines."""
        self.failed_checks += 1
        self.checked_until = line.number + SKIPPED_LINES * (self.failed_checks > MAX_FAILED_CHECKS)

    def source(self) -> Source:
        path = self.paths[0] if self.paths else self.path
        return Source(self.member, time=self.time, command=self.command, path=path)

    def is_output(self, text: str) -> bool:
        """Whether a line still belongs to the output of the last command."""
        return parse_prompt(text) is None or (self.tracing and TRACED.match(text) is not None)

    def take_prompt(self, typed: Prompt, *, remote: bool = False) -> None:
        """Note what a command determines about its output. A remote command sets the host only for its own output."""
        if self.shell_host is not None:
            self.host, self.shell_host = self.shell_host, None
        if remote:
            self.shell_host = self.host
        if typed.folder.startswith("/"):
            self.folder = typed.folder
        self.folder = folder_after(self.folder, typed.command)
        self.command = with_absolute_settings(typed.command, self.folder)
        if typed.host:
            self.name_host(typed.host)
        if self.looping:  # the time of a loop's last round does not apply to the next command
            self.time = None
        match = _FILE_COMMAND.search(self.command)
        paths = [p.lstrip("/") for p in _PATH_WORD.findall(match["rest"])] if match else []
        if (bare_value := _BARE_VALUE.match(self.command)) and bare_value["name"]:
            paths = [] if typed.host else ["hostname"]  # the name in a prompt may differ from the host name
        elif bare_value:
            paths = ["/".join(filter(None, bare_value.groups()))]
        elif _ADDS_UP.search(self.command) and (smaps := _SUM_OF_SMAPS.match(self.command)):
            paths = [f"{smaps[1]}_sum"]
        self.looping = bool(_LOOP.search(self.command))
        if (
            self.looping
        ):  # alternating outputs of several commands: only those without a format of their own need a path
            paths = [p for p in paths if "transparent_hugepage/" in p]
            paths = paths if len(paths) == 1 else []
        self.paths = deque(paths)

    def take_name(self, path: str, command: str = "") -> None:
        """Note a file name above some content, which has the effect of a command that prints that file."""
        self.paths = deque([path] if path else [])
        self.command, self.looping = command or f"cat /{path}", False

    def take_section(self, section: Section) -> None:
        """Note the name of a section of supportconfig; the time of an earlier section does not apply to it."""
        self.take_name(section.path)
        self.command, self.time = section.command, None

    def set_speaker(self, name: str) -> None:
        self.speaker, self.host, self.time, self.command, self.folder = name, "", None, "", ""
        self.tracing = False
        for state in (self.paths, self.variables, self.functions, self.parts, self.traced):
            state.clear()
        self.session.end_stretch()

    def set_quoting(self, line: TextLine) -> None:
        """Assign quoted lines of a mail to another speaker than the lines around them."""
        if self.is_report:
            return
        self.text_parts.add_line(line)
        speaker = f"quoted {line.depth}" if line.depth else MAIN
        if self.speaker != speaker and (line.depth or self.speaker.startswith("quoted ")):
            self.set_speaker(speaker)
