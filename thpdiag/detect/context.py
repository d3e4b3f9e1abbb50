"""What the lines of a text so far say about those that come: who speaks, of which host, what was typed, which file."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from thpdiag.detect.expansion import Tokens
from thpdiag.detect.named_files import Section
from thpdiag.detect.remains import Remains
from thpdiag.detect.services import Services
from thpdiag.detect.session import folder_after, with_absolute_settings
from thpdiag.detect.session_clock import SessionClock
from thpdiag.detect.testimony import MAX_LINES
from thpdiag.detect.transcript import Prompt, TextLine, parse_prompt
from thpdiag.model import Moment
from thpdiag.model.parser import Source

_FILE_COMMAND = re.compile(r"(?:sudo\s+)?(?:cat|head|tail|more|less|grep|egrep)\b(?P<rest>.*)")
# Commands that print a bare value; named like a file of it.
_BARE_VALUE = re.compile(r"(?:sudo\s+)?(?:(getconf)\s+(PAGE_?SIZE)|(uname)\s+(-r)|(uptime)\s+(-s|--since))\s*$")
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


@dataclass(slots=True)
class Context:
    """What the lines above say about the next block."""

    member: str
    path: str
    session: SessionClock
    speaker: str = MAIN
    host: str = ""
    time: Moment | None = None
    command: str = ""
    folder: str = ""
    paths: deque[str] = field(default_factory=deque)
    looping: bool = False
    timed: int = 0  # the line of that time
    looked_at: int = 0  # the last line of which it is known that nothing is to be taken off
    looks: int = 0  # in vain, one after another
    ahead: int | None = None  # of UTC, in seconds, as the last time line that tells it
    accounts: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)  # lines of prose, by group
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
    def group(self) -> tuple[str, str]:
        return (self.speaker, self.host)

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

    def take_prompt(self, typed: Prompt) -> None:
        if typed.folder.startswith("/"):
            self.folder = typed.folder
        self.folder = folder_after(self.folder, typed.command)
        self.command = with_absolute_settings(typed.command, self.folder)
        if typed.host:
            self.host = typed.host.split(".")[0]
        if self.looping:  # the time of a loop's last round says nothing of the next command
            self.time = None
        found = _FILE_COMMAND.search(self.command)
        paths = [p.lstrip("/") for p in _PATH_WORD.findall(found["rest"])] if found else []
        if asked := _BARE_VALUE.match(self.command):
            paths = ["/".join(filter(None, asked.groups()))]
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

    def set_quoting(self, depth: int) -> None:
        """Quoted lines of a mail are another speaker than the lines around them."""
        if self.is_report:
            return
        speaker = f"quoted {depth}" if depth else MAIN
        if self.speaker != speaker and (depth or self.speaker.startswith("quoted ")):
            self.set_speaker(speaker)
