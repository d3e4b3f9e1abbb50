"""What a command line says of the seconds between its outputs: the pauses in it, and the tools that print at intervals.

    grep compact_ /proc/vmstat; sleep 300; grep compact_ /proc/vmstat     two rounds, 300 s apart
    while sleep 10; do cat /proc/buddyinfo; done                          a round every 10 s, without end
    for i in $(seq 12); do grep thp_ /proc/vmstat; sleep 2.5m; done       twelve, 150 s apart
    grep pswp /proc/vmstat; vmstat 5 12; grep pswp /proc/vmstat           twelve rows over 55 s, and what is around them

Only a line of which every command is known to be over at once, or to take the time that it names, has a plan: of
`./job; sleep 5` nobody knows how long it took. The shell's grammar as far as people type it: lists, pipes, loops,
groups, `sh -c`, here documents and scripts of which the text is known. Source: POSIX 2.9, coreutils sleep(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

MAX_COMMAND_CHARS = 8192  # characters of what was typed; nobody types more
MAX_DEPTH = 8  # loops within loops, scripts that run scripts
MAX_ROUNDS = 10_000_000  # of a loop; a day has 86,400 seconds
MAX_IDLE_RUNS = 10_000  # commands in a row that print nothing
MAX_PAUSE_SECONDS = 7 * 86_400.0  # a longer one was not waited for
SHELLS = frozenset({"sh", "bash", "ksh", "dash", "zsh"})
# Programs that are over at once, whatever they are asked, and those of them that print nothing a parser reads.
SILENT = frozenset(
    ("echo", "printf", "true", "false", ":", "[", "[[", "test", "cd", "export", "set", "unset", "local", "declare",
     "clear", "sync", "date", "let", "((", "shopt", "umask", "trap", "break", "continue", "exit", "shift", "mkdir")
)  # fmt: skip
QUICK = SILENT | frozenset(
    ("cat", "grep", "egrep", "fgrep", "zgrep", "rg", "awk", "gawk", "mawk", "sed", "head", "tail", "cut", "tr", "sort",
     "uniq", "wc", "tee", "column", "paste", "xargs", "find", "ls", "ps", "free", "uptime", "uname", "hostname",
     "numastat", "numactl", "sysctl", "pgrep", "pidof", "nproc", "getconf", "basename", "dirname", "seq", "expr", "bc",
     "df", "vmstat", "lscpu", "id", "whoami", "tac", "nl", "fold", "rev", "jq", "swapon", "slabtop", "cgget", "vmtouch")
)  # fmt: skip
_WRAPPERS = frozenset(("sudo", "time", "command", "exec", "nohup", "nice", "ionice", "stdbuf", "env", "builtin"))
# Tools that print again and again: options that take a value, and whether the first print is at once.
_SAMPLERS = {
    "vmstat": ("SpT", True), "iostat": ("pjgo", True), "mpstat": ("PIN", False), "sar": ("nmIPofse", False),
    "pidstat": ("pCGTeU", False), "dstat": ("CDNSo", True),
}  # fmt: skip
TOOLS = frozenset((*_SAMPLERS, "free", "ps", "top", "numastat", "slabtop"))  # parsers with the name of a program

_TOKEN = re.compile(
    r"[ \t]*(?:(?P<comment>#[^\n]*)|(?P<end>;;|&&|\|\||\|&|[;\n|()]|&(?!>))|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|"
    r"\$\(\((?:[^()])*\)\)|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\\.|[<>]&|&>|[^\s;&|()'\"`\\])+))",
    re.DOTALL,
)
_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]{0,8}(?P<quote>['\"]?)(?P<end>[A-Za-z_]\w{0,40})(?P=quote)")
_INTO = re.compile(r"(?:>{1,2}|\btee)\s{0,8}(?P<name>[\w./~-]{1,200})")
_SLEEP = re.compile(r"(?P<number>\d{1,9}(?:[.,]\d{0,6})?|\.\d{1,6})(?P<unit>[smhd]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_ASSIGNED = re.compile(r"[A-Za-z_]\w{0,60}=")
_SEQ = re.compile(r"(?:\$\(|`)\s*seq(?:\s+-\w+)?((?:\s+-?\d{1,9}){1,3})\s*(?:\)|`)$", re.ASCII)
_LIST_IN_BRACES = re.compile(r"([^{}]{0,200})\{(?P<list>[^{}]{0,2000},[^{}]{0,2000})\}(?P<end>[^{}]{0,200})")
_PART_IN_BRACES = re.compile(r"([^{}]{0,200})(\{-?\d{1,9}\.\.-?\d{1,9}(?:\.\.-?\d{1,9})?\})([^{}]{0,200})", re.ASCII)
_BRACES = re.compile(r"\{(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?\}$", re.ASCII)
_TO_FILE = re.compile(r"(?:^|[^<>&\d])[1&]?>{1,2}(?!&)\s*(?!/dev/(?:std(?:out|err)|tty|fd/[12])\b)[^\s&]")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_FREE_STEP, _FREE_COUNT = (re.compile(rf"\s-\w{{0,4}}{letter}\s?(\d{{1,9}}(?:\.\d{{1,6}})?)") for letter in "sc")
_TOP_STEP, _TOP_COUNT = (re.compile(rf"\s-{letter}\s?(\d{{1,9}}(?:\.\d{{1,6}})?)") for letter in "dn")
_STEP = r"\d{1,9}(?:\.\d{1,6})?"
_COLLECTL_STEP = re.compile(rf"\s-i\s?(?P<first>{_STEP})?(?::(?P<second>{_STEP}))?")
_COLLECTL_COUNT = re.compile(r"\s-c\s?(\d{1,9})")
_COLLECTL_SLOW = re.compile(r"\s-s\s?[YZ]{1,2}(?:\s|$)")  # processes and slabs alone have an interval of their own
_PLAYBACK = re.compile(r"\s(?:-p|--playback)\b")
_LASTS = re.compile(r"(?:^|\s)(?:--\s+)?sleep\s+(\S+)\s*$")


class IncompleteError(Exception):
    """The command goes on in the next line."""


class UnknownError(Exception):
    """How long it takes is not known."""


class Round(NamedTuple):
    """Outputs at one moment: seconds since the command began, and the commands that print; `once` those of no loop."""

    seconds: float
    texts: tuple[str, ...] = ()
    once: tuple[str, ...] = ()

    def may_be_of(self, reader: str) -> bool:
        """Whether one of the commands may print what a parser reads."""
        return any(_is_printed_by(reader, text) for text in self.texts)


class _Run(NamedTuple):
    """A command that takes so many seconds, or some more if that is `rough`. Only what prints makes a round."""

    text: str
    prints: bool
    seconds: float = 0.0
    words: str = ""
    rough: bool = False


class _Loop(NamedTuple):
    """Commands that run again and again; None: nobody knows how often."""

    rounds: int | None
    body: Sequence[_Run | _Loop]


_Node = _Run | _Loop


@dataclass(frozen=True)
class Plan:
    """What a command line does, in order."""

    nodes: Sequence[_Node]

    @property
    def loops(self) -> bool:
        """Whether there may be fewer rounds than it says: it may have been stopped, or the output cut."""
        return any(isinstance(node, _Loop) for node in self.nodes)

    @property
    def prints(self) -> bool:
        return any(map(_prints, self.nodes))

    @property
    def seconds(self) -> float | None:
        """From its begin to its end; None if it has none of its own."""
        lasts = [_seconds(node) for node in self.nodes]
        return None if any(one is None for one in lasts) else sum(one for one in lasts if one is not None)

    @property
    def words(self) -> list[str]:
        """The pauses in it."""
        return [words for node in self.nodes for words in _words(node)]

    @property
    def is_rough(self) -> bool:
        """Whether it may have taken much longer than its pauses."""
        return any(map(_is_rough, self.nodes))

    def rounds(self) -> Iterator[Round]:
        """The moments at which something is printed, in order."""
        at, idle, texts, once = 0.0, 0, list[str](), list[str]()
        for run, in_loop in _in_turn(self.nodes):
            texts += [run.text] * run.prints
            once += [run.text] * (run.prints and not in_loop)
            if run.seconds:
                if texts:
                    yield Round(at, tuple(texts), tuple(once))
                at, texts, once = at + run.seconds, [], []
            idle = 0 if run.prints else idle + 1
            if idle > MAX_IDLE_RUNS:
                return
        if texts:
            yield Round(at, tuple(texts), tuple(once))

    def names(self, reader: str) -> bool:
        """Whether a command in it is known to print what a parser reads."""
        return any(_is_printed_by(reader, text) for node in self.nodes for text in _texts(node))


def _is_printed_by(reader: str, text: str) -> bool:
    """By its name: `proc_vmstat` reads what `grep x /proc/vmstat` prints, `vmstat` what the program does."""
    program = base_name(text.split(None, 1)[0]) if text else ""
    if reader in TOOLS:
        return program == reader
    return f"/{reader.removeprefix('proc_').removeprefix('pid_')}" in text or program == reader


def _texts(node: _Node) -> Iterator[str]:
    if isinstance(node, _Run):
        yield node.text
    else:
        yield from (text for part in node.body for text in _texts(part))


def _in_turn(nodes: Sequence[_Node], *, in_loop: bool = False) -> Iterator[tuple[_Run, bool]]:
    """The commands one by one, and whether they are of a loop."""
    for node in nodes:
        if isinstance(node, _Run):
            yield node, in_loop
        elif any(_seconds(part) != 0 for part in node.body):
            for _ in repeat(None) if node.rounds is None else range(min(node.rounds, MAX_ROUNDS)):
                yield from _in_turn(node.body, in_loop=True)
        else:  # a loop over files
            yield from _in_turn(node.body, in_loop=in_loop)


def _prints(node: _Node) -> bool:
    return node.prints if isinstance(node, _Run) else any(map(_prints, node.body))


def _is_rough(node: _Node) -> bool:
    return node.rough if isinstance(node, _Run) else any(map(_is_rough, node.body))


def _seconds(node: _Node) -> float | None:
    if isinstance(node, _Run):
        return node.seconds
    parts = [_seconds(part) for part in node.body]
    if any(part is None for part in parts):
        return None
    whole = sum(part for part in parts if part is not None)
    return 0.0 if not whole else None if node.rounds is None else whole * node.rounds


def _words(node: _Node) -> list[str]:
    if isinstance(node, _Run):
        return [node.words] * bool(node.words)
    return [words for part in node.body for words in _words(part)]


def plan_of(command: str, scripts: Mapping[str, str] | None = None) -> Plan | None:
    """What a command line does, None if nobody knows how long that takes. `scripts` are texts by file name."""
    try:
        return Plan(_Shell(command, scripts or {}).nodes())
    except (IncompleteError, UnknownError, RecursionError):
        return None


def is_complete(command: str) -> bool:
    """Whether a command ends with this line: no quote, loop, here document or list goes on in the next one."""
    if "\n" not in command and not _MAY_GO_ON.search(command):
        return True
    try:
        _Shell(command, {}).nodes()
    except IncompleteError:
        return False
    except (UnknownError, RecursionError):
        return _is_balanced(command)
    return True


def _is_balanced(command: str) -> bool:
    """Whether no loop, condition or group is left open."""
    try:
        words = [text for _, text in tokens(here_documents(command)[0])]
    except IncompleteError:
        return False
    pairs = (("do", "done"), ("then", "fi"), ("case", "esac"), ("{", "}"))
    return all(words.count(first) <= words.count(last) for first, last in pairs)


_MAY_GO_ON = re.compile(r"['\"`({]|\\$|[|&]\s*$|<<|(?:^|[;&|\s])(?:for|while|until|if|case|do)\b")


def script_of(command: str) -> tuple[str, str] | None:
    """Name and text of a script that a here document writes."""
    found = _HEREDOC.search(command.partition("\n")[0])
    if found is None or "\n" not in command:
        return None
    head, _, body = command.partition("\n")
    into = _INTO.search(head[: found.start()] + " " + head[found.end() :])
    if into is None:
        return None
    kept = body.split("\n")
    return base_name(into["name"]), "\n".join(kept[:-1] if kept[-1].strip() == found["end"] else kept)


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass
class _Shell:
    """Reads a command line by the shell's grammar."""

    text: str
    scripts: Mapping[str, str]
    depth: int = 0
    _tokens: list[tuple[str, str]] = field(default_factory=list)
    _at: int = 0

    def nodes(self) -> list[_Node]:
        """What the commands do, in order."""
        if len(self.text) > MAX_COMMAND_CHARS or self.depth > MAX_DEPTH:
            raise UnknownError
        text, self._documents = here_documents(self.text)
        self._tokens = list(tokens(text))
        found = self._list(())
        if self._at < len(self._tokens):
            raise UnknownError
        return found

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _list(self, ends: Sequence[str]) -> list[_Node]:
        """Commands up to one of these words, which is taken; without any to the end, or a bracket."""
        found: list[_Node] = []
        while True:
            kind, text = self._peek()
            if not kind:
                if ends:
                    raise IncompleteError
                return found
            if kind == "end":
                if text == ")":
                    if ")" in ends:
                        self._at += 1
                    return found
                if text not in (";", "\n", ";;"):
                    if text != "(":
                        raise UnknownError
                    self._at += 1
                    found += self._list((")",))
                    self._skip_separator()
                    continue
                self._at += 1
                continue
            if text in ends:
                self._at += 1
                return found
            found += self._command()
            self._skip_separator()

    def _skip_separator(self) -> None:
        """What joins a command to the next one."""
        kind, text = self._peek()
        if kind != "end" or text in (";", "\n", ";;", ")"):
            return
        self._at += 1
        if text == "&":
            return
        if text == "||":  # what runs only if the other fails
            raise UnknownError
        while self._peek() == ("end", "\n"):
            self._at += 1
        if not self._peek()[0]:
            raise IncompleteError

    def _command(self) -> list[_Node]:
        match self._peek()[1]:
            case "for":
                return [self._for_loop()]
            case "while" | "until":
                self._at += 1
                condition = self._list(("do",))
                return [_Loop(None, [*condition, *self._list(("done",))])]
            case "{":
                self._at += 1
                return self._list(("}",))
            case "if" | "case" | "select" | "function":
                self._skip_block()
                raise UnknownError
            case _:
                return self._pipeline()

    def _skip_block(self) -> None:
        """To the end of what is not followed, to know whether it is there."""
        ends = {"if": "fi", "case": "esac", "select": "done", "function": "}"}
        end = ends[self._peek()[1]]
        if not any(text == end for _, text in self._tokens[self._at :]):
            raise IncompleteError

    def _for_loop(self) -> _Loop:
        self._at += 1
        rounds: int | None = 0
        if self._peek() == ("end", "("):  # for ((i = 0; i < 10; i++))
            depth = 0
            while True:
                kind, text = self._peek()
                if not kind:
                    raise IncompleteError
                self._at += 1
                depth += (text == "(") - (text == ")") if kind == "end" else 0
                if not depth:
                    break
            rounds = None
        else:
            self._at += 1
            if self._peek()[1] == "in":
                self._at += 1
                while self._peek()[0] == "word":
                    many = _many(self._peek()[1])
                    rounds = None if many is None or rounds is None else rounds + many
                    self._at += 1
        while self._peek()[1] in (";", "\n"):
            self._at += 1
        if not self._peek()[0]:
            raise IncompleteError
        if self._peek()[1] not in ("do", "{"):
            raise UnknownError
        end = "done" if self._peek()[1] == "do" else "}"
        self._at += 1
        return _Loop(rounds, self._list((end,)))

    def _pipeline(self) -> list[_Node]:
        """Commands joined by pipes, which run at the same time."""
        words = self._piped_words()
        hidden = goes_to_file(" ".join(words[-1]))
        parts = [without_wrappers(part) for part in words]
        text = " | ".join(" ".join(part) for part in parts)
        if self._peek()[1] == "&":  # it goes on while others run
            return [_Run(text, prints=False)]
        if len(parts) == 1 and parts[0] and (inner := self._script(base_name(without_quotes(parts[0][0])), parts[0])):
            return [_time_only(inner)] if hidden else inner
        first, *others = [_program(part) for part in parts]
        behind = [node for other in others for node in other]
        if any(_seconds(node) != 0 for node in behind):
            raise UnknownError
        if hidden:
            return [_time_only(first)]
        if behind and len(first) == 1 and isinstance(first[0], _Run):
            return [first[0]._replace(text=text, prints=any(map(_prints, (*first, *behind))))]
        return first  # vmstat 5 | tee, | grep

    def _piped_words(self) -> list[list[str]]:
        """The words of each command of a pipe."""
        parts: list[list[str]] = [[]]
        while True:
            kind, text = self._peek()
            if kind == "word":
                parts[-1].append(text)
            elif text in ("|", "|&"):
                parts.append([])
                if self._at + 1 >= len(self._tokens):
                    raise IncompleteError
            else:
                break
            self._at += 1
        if text == "(":  # a function, or a pipe into a group
            raise UnknownError
        return parts

    def _script(self, program: str, words: Sequence[str]) -> list[_Node]:
        """The commands of a script that is run by its name, a shell's argument or a here document."""
        body: str | None = None
        if program in SHELLS or program in ("source", "."):
            arguments = [word for word in words[1:] if not re.fullmatch(r"-[a-bd-z]{1,4}", word)]
            if arguments[:1] == ["-c"] and len(arguments) > 1:
                body = without_quotes(arguments[1])
            elif arguments and not arguments[0].startswith(("<", ">")):
                body = self.scripts.get(base_name(without_quotes(arguments[0])))
            elif self._documents:
                body = self._documents.pop(0)
            if body is None:
                raise UnknownError
        elif "/" in words[0]:
            body = self.scripts.get(program)
        if body is None:
            return []
        return _Shell(body, self.scripts, self.depth + 1).nodes()


def _program(words: Sequence[str]) -> list[_Node]:
    """One program with its arguments."""
    if not words:
        return [_Run("", prints=False)]
    program, text = base_name(without_quotes(words[0])), " ".join(words)
    if program == "sleep":
        return [_Run(text, prints=False, seconds=_sleep_seconds(words[1:]), words=text)]
    if program == "perf":
        return [_recording(words)]
    if sampled := _sampler(program, words):
        return sampled
    if program not in QUICK or (program == "tail" and any(re.match(r"-\w*[fF]|--follow", word) for word in words)):
        raise UnknownError
    return [_Run(text, prints=program not in SILENT)]


def _sampler(program: str, words: Sequence[str]) -> list[_Node]:
    """A tool that prints again and again; nothing if it is not, or prints once."""
    text = " ".join(words)
    if program == "free" and (step := _FREE_STEP.search(text)):
        many = _FREE_COUNT.search(text)
        return _repeat_tool(text, "free -s", step[1], many[1] if many else None, at_once=True)
    if program == "top" and "-b" in words and (step := _TOP_STEP.search(text)):
        many = _TOP_COUNT.search(text)
        return _repeat_tool(text, "top -d", step[1], many[1] if many else None, at_once=True)
    if program == "collectl" and not _PLAYBACK.search(text):
        step, many = _COLLECTL_STEP.search(text), _COLLECTL_COUNT.search(text)
        which, seconds = ("second", "60") if _COLLECTL_SLOW.search(text) else ("first", "1")
        seconds = (step[which] if step else None) or seconds
        return _repeat_tool(text, "collectl -i", seconds, many[1] if many else None, at_once=False)
    if program not in _SAMPLERS:
        return []
    with_value, at_once = _SAMPLERS[program]
    numbers = _numbers(words[1:], with_value)
    if numbers and not (program == "sar" and "-f" in words):
        return _repeat_tool(text, program, numbers[0], numbers[1] if len(numbers) > 1 else None, at_once=at_once)
    if program != "vmstat":
        raise UnknownError
    return []


def _time_only(nodes: Sequence[_Node]) -> _Run:
    """What goes to a file: it only takes its time."""
    lasts = [_seconds(node) for node in nodes]
    seconds = sum(one for one in lasts if one is not None)
    if None in lasts:
        raise UnknownError
    words = [words for node in nodes for words in _words(node)]
    return _Run("", prints=False, seconds=seconds, words=words[0] if words else "", rough=any(map(_is_rough, nodes)))


def _recording(words: Sequence[str]) -> _Run:
    """`perf record ... sleep 30` lasts as long as it names; how long a report takes depends on what was recorded."""
    text = " ".join(words)
    found = _LASTS.search(text)
    if words[1:2] in (["record"], ["stat"], ["trace"]) and found:
        return _Run(text, prints=True, seconds=_sleep_seconds([found[1]]), words=f"sleep {found[1]}", rough=True)
    if words[1:2] in (["report"], ["script"]):
        return _Run(text, prints=True, rough=True)
    raise UnknownError


def _numbers(arguments: Sequence[str], with_value: str) -> list[str]:
    """The bare numbers among the arguments of a tool, interval and count."""
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word.startswith("-") and len(word) > 1:
            if word[-1] in with_value and not word.startswith("--"):
                next(rest, None)
        elif _NUMBER.fullmatch(word):
            found.append(word)
    return found


def _repeat_tool(text: str, name: str, interval: str, many: str | None, *, at_once: bool) -> list[_Node]:
    """A tool that prints every so many seconds, so often or until it is stopped."""
    seconds = float(interval)
    if not 0 < seconds <= MAX_PAUSE_SECONDS:
        raise UnknownError
    words = f"{name} {seconds:g}"
    if many is None:
        return [_Loop(None, [_Run(text, prints=True), _Run("", prints=False, seconds=seconds, words=words)])]
    if not many.isdecimal() or not 0 < int(many) <= MAX_ROUNDS:
        raise UnknownError
    pause, row = _Run("", prints=False, seconds=seconds, words=words), _Run(text, prints=True)
    if at_once:
        return [row, _Loop(int(many) - 1, [pause, row])] if int(many) > 1 else [row]
    return [_Loop(int(many), [pause, row])]


def here_documents(text: str) -> tuple[str, list[str]]:
    """The text without its here documents, and what stands in them."""
    kept, documents, lines = [], [], iter(text.split("\n"))
    for line in lines:
        kept.append(_HEREDOC.sub(" ", line))
        for mark in _HEREDOC.finditer(line):
            body: list[str] = []
            for inner in lines:
                if (inner.lstrip("\t") if mark["tabs"] else inner).rstrip() == mark["end"]:
                    break
                body.append(inner)
            else:
                raise IncompleteError
            documents.append("\n".join(body))
    return "\n".join(kept), documents


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Words and what stands between commands; comments are left out."""
    at = 0
    text = re.sub(r"\\\n[ \t]*", " ", text).rstrip(" \t")
    if text.endswith("\\"):
        raise IncompleteError
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        found = _TOKEN.match(text, at)
        if found is None:  # a quote or a bracket that nothing closes
            raise IncompleteError
        at = found.end()
        if found["end"]:
            yield "end", found["end"]
        elif found["word"]:
            yield "word", found["word"]


def goes_to_file(command: str) -> bool:
    """Whether what a command prints is led to a file."""
    return _TO_FILE.search(command) is not None


def without_wrappers(words: Sequence[str]) -> list[str]:
    """A command without assignments, and without `sudo -u root`, `time`, `nice -n 5` and the like before it."""
    rest = list(words)
    while rest:
        if _ASSIGNED.match(rest[0]) or rest[0] == "!":
            del rest[0]
        elif base_name(rest[0]) in _WRAPPERS:
            del rest[0]
            while rest and rest[0].startswith("-"):
                takes_value = rest[0] in ("-u", "-g", "-n", "-c")
                del rest[: 2 if takes_value else 1]
        else:
            break
    return rest


def without_quotes(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word


def _sleep_seconds(words: Sequence[str]) -> float:
    """The seconds of sleep's arguments, which add up."""
    total = 0.0
    for word in words:
        if word.startswith((">", "2>")):
            continue
        found = _SLEEP.fullmatch(without_quotes(word))
        if found is None:
            raise UnknownError
        total += float(found["number"].replace(",", ".")) * _UNITS[found["unit"]]
    if not 0 < total <= MAX_PAUSE_SECONDS:
        raise UnknownError
    return total


def words_of(word: str) -> list[str]:
    """The words that the shell makes of one: of a sequence its numbers, else the word itself."""
    if (found := _SEQ.fullmatch(word)) and (many := _many(word)) is not None:
        numbers = [int(one) for one in found[1].split()]
        first, step = numbers[0] if len(numbers) > 1 else 1, numbers[1] if len(numbers) > 2 else 1
        return [str(first + at * step) for at in range(min(many, MAX_COMMAND_CHARS))]
    if (braces := _LIST_IN_BRACES.fullmatch(word)) and "$" not in word:
        return [one for part in braces["list"].split(",") for one in words_of(f"{braces[1]}{part}{braces['end']}")]
    if (part := _PART_IN_BRACES.fullmatch(word)) and (part[1] or part[3]) and "$" not in word:
        return [f"{part[1]}{number.zfill(_width(part[2]))}{part[3]}" for number in words_of(part[2])]
    if (found := _BRACES.fullmatch(word)) and (many := _many(word)) is not None:
        step = abs(int(found[3] or 1)) * (1 if int(found[2]) >= int(found[1]) else -1)
        return [str(int(found[1]) + at * step) for at in range(min(many, MAX_COMMAND_CHARS))]
    return [word]


def _width(braces: str) -> int:
    """How many digits the shell gives each number of a sequence in braces: those of a first one with leading zeros."""
    first = braces[1:].split("..")[0]
    return len(first) if first.startswith("0") else 0


def _many(word: str) -> int | None:
    """How many words the shell makes of one; None if that depends on what is there."""
    if found := _SEQ.fullmatch(word):
        numbers = [int(one) for one in found[1].split()]
        first, step, last = {1: (1, 1, numbers[-1]), 2: (numbers[0], 1, numbers[-1])}.get(
            len(numbers), (numbers[0], numbers[len(numbers) // 2], numbers[-1])
        )
        return max((last - first) // step + 1, 0) if step else None
    if found := _BRACES.fullmatch(word):
        step = abs(int(found[3] or 1)) or 1
        return abs(int(found[2]) - int(found[1])) // step + 1
    return None if re.search(r"[$`*?{]|\[", word) else 1
