"""The time plan of a command line: seconds between its outputs, from its pauses and from tools that print at intervals.

    grep compact_ /proc/vmstat; sleep 300; grep compact_ /proc/vmstat     two rounds, 300 s apart
    while sleep 10; do cat /proc/buddyinfo; done                          a round every 10 s, without end
    for i in $(seq 12); do grep thp_ /proc/vmstat; sleep 2.5m; done       twelve, 150 s apart
    grep pswp /proc/vmstat; vmstat 5 12; grep pswp /proc/vmstat           twelve rows over 55 s, between two outputs

A line has a plan only if every command in it ends immediately or takes the time that it names: the duration of
`./job; sleep 5` is unknown. Supported shell grammar: lists, pipes, loops, groups, `sh -c`, here documents and scripts
whose text is known. Source: POSIX 2.9, coreutils sleep(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

MAX_COMMAND_CHARS = 8192  # of a typed command line
MAX_DEPTH = 8  # nested loops, or scripts that run scripts
MAX_ROUNDS = 10_000_000  # of a loop; a day has 86,400 seconds
MAX_SILENT_RUNS = 10_000  # consecutive commands without output
MAX_PAUSE_SECONDS = 7 * 86_400.0  # nobody waits for a longer pause in a session
SHELLS = frozenset({"sh", "bash", "ksh", "dash", "zsh"})
# Programs that end immediately with any arguments, and those of them that print nothing a parser reads.
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
# Tools that print periodically: their options with a value, and whether the first output comes immediately.
_SAMPLERS = {
    "vmstat": ("SpT", True), "iostat": ("pjgo", True), "mpstat": ("PIN", False), "sar": ("nmIPofse", False),
    "pidstat": ("pCGTeU", False), "dstat": ("CDNSo", True),
}  # fmt: skip
TOOLS = frozenset((*_SAMPLERS, "free", "ps", "top", "numastat", "slabtop"))  # parsers named after a program

_TOKEN = re.compile(
    r"[ \t]*(?:(?P<comment>#[^\n]*)|(?P<end>;;|&&|\|\||\|&|[;\n|()]|&(?!>))|(?P<word>(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|"
    r"\$\(\((?:[^()])*\)\)|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\\.|[<>]&|&>|[^\s;&|()'\"`\\])+))",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"['\"`({]|\\$|[|&]\s*$|<<|(?:^|[;&|\s])(?:for|while|until|if|case|do)\b")
_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]{0,8}(?P<quote>['\"]?)(?P<end>[A-Za-z_]\w{0,40})(?P=quote)")
_REDIRECTION = re.compile(r"(?:>{1,2}|\btee)\s{0,8}(?P<name>[\w./~-]{1,200})")
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
_COLLECTL_SLOW = re.compile(r"\s-s\s?[YZ]{1,2}(?:\s|$)")  # only processes and slabs, which have their own interval
_PLAYBACK = re.compile(r"\s(?:-p|--playback)\b")
_SLEEP_AT_END = re.compile(r"(?:^|\s)(?:--\s+)?sleep\s+(\S+)\s*$")


class IncompleteError(Exception):
    """The command continues on the next line."""


class UnknownError(Exception):
    """The duration of the command, or the effect of its syntax, is unknown."""


class Round(NamedTuple):
    """Outputs at one moment: seconds since the start and the printing commands; `once` are those outside of loops."""

    seconds: float
    texts: tuple[str, ...] = ()
    once: tuple[str, ...] = ()

    def may_be_of(self, reader: str) -> bool:
        """Whether one of the commands may print the format of a parser."""
        return any(_is_printed_by(reader, text) for text in self.texts)


class _Run(NamedTuple):
    """A command that takes `seconds`, or longer if `is_rough`. Only commands that print make a round."""

    text: str
    prints: bool
    seconds: float = 0.0
    pause: str = ""  # as typed: `sleep 5`
    is_rough: bool = False


class _Loop(NamedTuple):
    """Commands that are repeated."""

    rounds: int | None  # None: unknown
    body: Sequence[_Run | _Loop]


_Node = _Run | _Loop


@dataclass(frozen=True)
class Plan:
    """The commands of a command line in order."""

    nodes: Sequence[_Node]

    @property
    def has_loop(self) -> bool:
        """Whether there is a loop. It may have fewer rounds than planned, if it was stopped or its output was cut."""
        return any(isinstance(node, _Loop) for node in self.nodes)

    @property
    def prints(self) -> bool:
        return any(map(_prints, self.nodes))

    @property
    def seconds(self) -> float | None:
        """The duration from start to end; None if it is not bounded."""
        return _total_seconds(self.nodes)

    @property
    def pauses(self) -> list[str]:
        return [pause for node in self.nodes for pause in _pauses(node)]

    @property
    def is_rough(self) -> bool:
        """Whether the line may have taken much longer than its pauses."""
        return any(map(_is_rough, self.nodes))

    def rounds(self) -> Iterator[Round]:
        """Yield the outputs in order of time."""
        seconds, silent_runs, texts, once = 0.0, 0, list[str](), list[str]()
        for run, in_loop in _unroll(self.nodes):
            texts += [run.text] * run.prints
            once += [run.text] * (run.prints and not in_loop)
            if run.seconds:
                if texts:
                    yield Round(seconds, tuple(texts), tuple(once))
                seconds, texts, once = seconds + run.seconds, [], []
            silent_runs = 0 if run.prints else silent_runs + 1
            if silent_runs > MAX_SILENT_RUNS:
                return
        if texts:
            yield Round(seconds, tuple(texts), tuple(once))

    def names(self, reader: str) -> bool:
        """Whether a command of the line prints the format of a parser."""
        return any(_is_printed_by(reader, text) for node in self.nodes for text in _texts(node))


def _is_printed_by(reader: str, text: str) -> bool:
    """Whether a command prints the format of a parser, by its name.

    `proc_vmstat` reads the output of `grep x /proc/vmstat`, `vmstat` that of the program.
    """
    program = base_name(text.split(None, 1)[0]) if text else ""
    if reader in TOOLS:
        return program == reader
    return f"/{reader.removeprefix('proc_').removeprefix('pid_')}" in text or program == reader


def _texts(node: _Node) -> Iterator[str]:
    if isinstance(node, _Run):
        yield node.text
    else:
        yield from (text for part in node.body for text in _texts(part))


def _unroll(nodes: Sequence[_Node], *, in_loop: bool = False) -> Iterator[tuple[_Run, bool]]:
    """Yield the commands in order of execution, and whether each is in a loop."""
    for node in nodes:
        if isinstance(node, _Run):
            yield node, in_loop
        elif any(_seconds(part) != 0 for part in node.body):
            for _ in repeat(None) if node.rounds is None else range(min(node.rounds, MAX_ROUNDS)):
                yield from _unroll(node.body, in_loop=True)
        else:  # a loop without pauses, such as over files
            yield from _unroll(node.body, in_loop=in_loop)


def _prints(node: _Node) -> bool:
    return node.prints if isinstance(node, _Run) else any(map(_prints, node.body))


def _is_rough(node: _Node) -> bool:
    return node.is_rough if isinstance(node, _Run) else any(map(_is_rough, node.body))


def _seconds(node: _Node) -> float | None:
    if isinstance(node, _Run):
        return node.seconds
    total = _total_seconds(node.body)
    return total if not total else None if node.rounds is None else total * node.rounds


def _total_seconds(nodes: Sequence[_Node]) -> float | None:
    """Return the sum of the durations; None if one of them is unknown."""
    total = 0.0
    for node in nodes:
        if (seconds := _seconds(node)) is None:
            return None
        total += seconds
    return total


def _pauses(node: _Node) -> list[str]:
    if isinstance(node, _Run):
        return [node.pause] * bool(node.pause)
    return [pause for part in node.body for pause in _pauses(part)]


def plan_of(command: str, scripts: Mapping[str, str] | None = None) -> Plan | None:
    """Return the plan of a command line, None if its duration is unknown. `scripts` are texts by file name."""
    try:
        return Plan(_Shell(command, scripts or {}).nodes())
    except (IncompleteError, UnknownError, RecursionError):
        return None


def is_complete(command: str) -> bool:
    """Whether a command ends with this line: no quote, loop, here document or list continues on the next line."""
    if "\n" not in command and not _UNFINISHED.search(command):
        return True
    try:
        _Shell(command, {}).nodes()
    except IncompleteError:
        return False
    except (UnknownError, RecursionError):
        return _is_balanced(command)
    return True


def _is_balanced(command: str) -> bool:
    """Whether every loop, condition and group is closed."""
    try:
        words = [text for _, text in tokens(here_documents(command)[0])]
    except IncompleteError:
        return False
    pairs = (("do", "done"), ("then", "fi"), ("case", "esac"), ("{", "}"))
    return all(words.count(first) <= words.count(last) for first, last in pairs)


def script_of(command: str) -> tuple[str, str] | None:
    """Return name and text of a script that a here document writes to a file."""
    head, newline, body = command.partition("\n")
    heredoc = _HEREDOC.search(head)
    if heredoc is None or not newline:
        return None
    file = _REDIRECTION.search(head[: heredoc.start()] + " " + head[heredoc.end() :])
    if file is None:
        return None
    lines = body.split("\n")
    return base_name(file["name"]), "\n".join(lines[:-1] if lines[-1].strip() == heredoc["end"] else lines)


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass
class _Shell:
    """A parser of the shell's grammar that returns the time plan of a command line."""

    text: str
    scripts: Mapping[str, str]
    depth: int = 0
    _tokens: list[tuple[str, str]] = field(default_factory=list)
    _index: int = 0

    def nodes(self) -> list[_Node]:
        """Parse the text."""
        if len(self.text) > MAX_COMMAND_CHARS or self.depth > MAX_DEPTH:
            raise UnknownError
        text, self._documents = here_documents(self.text)
        self._tokens = list(tokens(text))
        nodes = self._list(())
        if self._index < len(self._tokens):
            raise UnknownError
        return nodes

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._index] if self._index < len(self._tokens) else ("", "")

    def _list(self, ends: Sequence[str]) -> list[_Node]:
        """Parse commands up to and including one of the words `ends`, or up to a closing bracket or the end."""
        nodes: list[_Node] = []
        while True:
            kind, text = self._peek()
            if not kind:
                if ends:
                    raise IncompleteError
                return nodes
            if kind == "end":
                if text == ")":
                    if ")" in ends:
                        self._index += 1
                    return nodes
                if text not in (";", "\n", ";;", "("):
                    raise UnknownError
                self._index += 1
                if text == "(":
                    nodes += self._list((")",))
                    self._skip_separator()
                continue
            if text in ends:
                self._index += 1
                return nodes
            nodes += self._command()
            self._skip_separator()

    def _skip_separator(self) -> None:
        """Skip the operator between two commands."""
        kind, text = self._peek()
        if kind != "end" or text in (";", "\n", ";;", ")"):
            return
        self._index += 1
        if text == "&":
            return
        if text == "||":  # the next command runs only if this one fails
            raise UnknownError
        while self._peek() == ("end", "\n"):
            self._index += 1
        if not self._peek()[0]:
            raise IncompleteError

    def _command(self) -> list[_Node]:
        match self._peek()[1]:
            case "for":
                return [self._for_loop()]
            case "while" | "until":
                self._index += 1
                condition = self._list(("do",))
                return [_Loop(None, [*condition, *self._list(("done",))])]
            case "{":
                self._index += 1
                return self._list(("}",))
            case "if" | "case" | "select" | "function":
                self._skip_block()
                raise UnknownError
            case _:
                return self._pipeline()

    def _skip_block(self) -> None:
        """Check that the end of a compound command that is not interpreted is present."""
        ends = {"if": "fi", "case": "esac", "select": "done", "function": "}"}
        end = ends[self._peek()[1]]
        if not any(text == end for _, text in self._tokens[self._index :]):
            raise IncompleteError

    def _for_loop(self) -> _Loop:
        self._index += 1
        rounds: int | None = 0
        if self._peek() == ("end", "("):  # for ((i = 0; i < 10; i++))
            depth = 0
            while True:
                kind, text = self._peek()
                if not kind:
                    raise IncompleteError
                self._index += 1
                depth += (text == "(") - (text == ")") if kind == "end" else 0
                if not depth:
                    break
            rounds = None
        else:
            self._index += 1
            if self._peek()[1] == "in":
                self._index += 1
                while self._peek()[0] == "word":
                    count = _count_words(self._peek()[1])
                    rounds = None if count is None or rounds is None else rounds + count
                    self._index += 1
        while self._peek()[1] in (";", "\n"):
            self._index += 1
        if not self._peek()[0]:
            raise IncompleteError
        if self._peek()[1] not in ("do", "{"):
            raise UnknownError
        end = "done" if self._peek()[1] == "do" else "}"
        self._index += 1
        return _Loop(rounds, self._list((end,)))

    def _pipeline(self) -> list[_Node]:
        """Parse commands joined by pipes, which run at the same time."""
        words = self._piped_words()
        hidden = goes_to_file(" ".join(words[-1]))
        parts = [without_wrappers(part) for part in words]
        text = " | ".join(" ".join(part) for part in parts)
        if self._peek()[1] == "&":  # runs in the background
            return [_Run(text, prints=False)]
        if len(parts) == 1 and parts[0] and (inner := self._script(base_name(without_quotes(parts[0][0])), parts[0])):
            return [_hide_output(inner)] if hidden else inner
        first, *others = [_program(part) for part in parts]
        readers = [node for other in others for node in other]
        if any(_seconds(node) != 0 for node in readers):
            raise UnknownError
        if hidden:
            return [_hide_output(first)]
        if readers and len(first) == 1 and isinstance(first[0], _Run):
            return [first[0]._replace(text=text, prints=any(map(_prints, (*first, *readers))))]
        return first  # vmstat 5 | tee, | grep

    def _piped_words(self) -> list[list[str]]:
        """Return the words of each command of a pipe."""
        parts: list[list[str]] = [[]]
        while True:
            kind, text = self._peek()
            if kind == "word":
                parts[-1].append(text)
            elif text in ("|", "|&"):
                parts.append([])
                if self._index + 1 >= len(self._tokens):
                    raise IncompleteError
            else:
                break
            self._index += 1
        if text == "(":  # a function, or a pipe into a group
            raise UnknownError
        return parts

    def _script(self, program: str, words: Sequence[str]) -> list[_Node]:
        """Parse a script that is run by its name, as a shell's argument or as a here document."""
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
    """Return the plan of one program with its arguments."""
    if not words:
        return [_Run("", prints=False)]
    program, text = base_name(without_quotes(words[0])), " ".join(words)
    if program == "sleep":
        return [_Run(text, prints=False, seconds=_sleep_seconds(words[1:]), pause=text)]
    if program == "perf":
        return [_recording(words)]
    if sampler := _sampler(program, words):
        return sampler
    if program not in QUICK or (program == "tail" and any(re.match(r"-\w*[fF]|--follow", word) for word in words)):
        raise UnknownError
    return [_Run(text, prints=program not in SILENT)]


def _sampler(program: str, words: Sequence[str]) -> list[_Node]:
    """Return the plan of a tool that prints periodically; empty for other tools and for a single output."""
    text = " ".join(words)
    if program == "free" and (step := _FREE_STEP.search(text)):
        count = _FREE_COUNT.search(text)
        return _repeat_tool(text, "free -s", step[1], count[1] if count else None, at_once=True)
    if program == "top" and "-b" in words and (step := _TOP_STEP.search(text)):
        count = _TOP_COUNT.search(text)
        return _repeat_tool(text, "top -d", step[1], count[1] if count else None, at_once=True)
    if program == "collectl" and not _PLAYBACK.search(text):
        step, count = _COLLECTL_STEP.search(text), _COLLECTL_COUNT.search(text)
        group, seconds = ("second", "60") if _COLLECTL_SLOW.search(text) else ("first", "1")
        seconds = (step[group] if step else None) or seconds
        return _repeat_tool(text, "collectl -i", seconds, count[1] if count else None, at_once=False)
    if program not in _SAMPLERS:
        return []
    value_options, at_once = _SAMPLERS[program]
    numbers = _numbers(words[1:], value_options)
    if numbers and not (program == "sar" and "-f" in words):
        return _repeat_tool(text, program, numbers[0], numbers[1] if len(numbers) > 1 else None, at_once=at_once)
    if program != "vmstat":
        raise UnknownError
    return []


def _hide_output(nodes: Sequence[_Node]) -> _Run:
    """Return a run that takes the time of the commands but prints nothing, as their output goes to a file."""
    if (seconds := _total_seconds(nodes)) is None:
        raise UnknownError
    pauses = [pause for node in nodes for pause in _pauses(node)]
    return _Run("", prints=False, seconds=seconds, pause="".join(pauses[:1]), is_rough=any(map(_is_rough, nodes)))


def _recording(words: Sequence[str]) -> _Run:
    """Return the plan of perf. `perf record ... sleep 30` takes the time it names; the duration of a report varies."""
    text = " ".join(words)
    sleep = _SLEEP_AT_END.search(text)
    if words[1:2] in (["record"], ["stat"], ["trace"]) and sleep:
        return _Run(text, prints=True, seconds=_sleep_seconds([sleep[1]]), pause=f"sleep {sleep[1]}", is_rough=True)
    if words[1:2] in (["report"], ["script"]):
        return _Run(text, prints=True, is_rough=True)
    raise UnknownError


def _numbers(arguments: Sequence[str], value_options: str) -> list[str]:
    """Return the arguments of a tool that are numbers: interval and count."""
    numbers: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word.startswith("-") and len(word) > 1:
            if word[-1] in value_options and not word.startswith("--"):
                next(rest, None)
        elif _NUMBER.fullmatch(word):
            numbers.append(word)
    return numbers


def _repeat_tool(text: str, name: str, interval: str, count: str | None, *, at_once: bool) -> list[_Node]:
    """Return the plan of a tool that prints every `interval` seconds, `count` times or until it is stopped."""
    seconds = float(interval)
    if not 0 < seconds <= MAX_PAUSE_SECONDS:
        raise UnknownError
    pause, row = _Run("", prints=False, seconds=seconds, pause=f"{name} {seconds:g}"), _Run(text, prints=True)
    if count is None:
        return [_Loop(None, [row, pause])]
    if not count.isdecimal() or not 0 < int(count) <= MAX_ROUNDS:
        raise UnknownError
    if at_once:
        return [row, _Loop(int(count) - 1, [pause, row])] if int(count) > 1 else [row]
    return [_Loop(int(count), [pause, row])]


def here_documents(text: str) -> tuple[str, list[str]]:
    """Return the text without its here documents, and the here documents."""
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
    """Yield words (kind "word") and the operators between commands (kind "end"), without comments."""
    position = 0
    text = re.sub(r"\\\n[ \t]*", " ", text).rstrip(" \t")
    if text.endswith("\\"):
        raise IncompleteError
    while position < len(text):
        if text[position] in " \t":
            position += 1
            continue
        token = _TOKEN.match(text, position)
        if token is None:  # an unclosed quote or bracket
            raise IncompleteError
        position = token.end()
        if token["end"]:
            yield "end", token["end"]
        elif token["word"]:
            yield "word", token["word"]


def goes_to_file(command: str) -> bool:
    """Whether the output of a command is redirected to a file."""
    return _TO_FILE.search(command) is not None


def without_wrappers(words: Sequence[str]) -> list[str]:
    """Return a command without assignments and commands such as `sudo -u root`, `time`, `nice -n 5` before it."""
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
    """Return the sum of sleep's arguments in seconds."""
    total = 0.0
    for word in words:
        if word.startswith((">", "2>")):
            continue
        duration = _SLEEP.fullmatch(without_quotes(word))
        if duration is None:
            raise UnknownError
        total += float(duration["number"].replace(",", ".")) * _UNITS[duration["unit"]]
    if not 0 < total <= MAX_PAUSE_SECONDS:
        raise UnknownError
    return total


def words_of(word: str) -> list[str]:
    """Return the words to which the shell expands a word: the numbers of a sequence, or the word itself."""
    if (seq := _SEQ.fullmatch(word)) and (count := _count_words(word)) is not None:
        first, step, _ = _seq_arguments(seq)
        return [str(first + i * step) for i in range(min(count, MAX_COMMAND_CHARS))]
    if (braces := _LIST_IN_BRACES.fullmatch(word)) and "$" not in word:
        return [item for part in braces["list"].split(",") for item in words_of(f"{braces[1]}{part}{braces['end']}")]
    if (part := _PART_IN_BRACES.fullmatch(word)) and (part[1] or part[3]) and "$" not in word:
        first_number = part[2][1:].split("..")[0]  # numbers are padded to its width if it has leading zeros
        width = len(first_number) if first_number.startswith("0") else 0
        return [f"{part[1]}{number.zfill(width)}{part[3]}" for number in words_of(part[2])]
    if (braces := _BRACES.fullmatch(word)) and (count := _count_words(word)) is not None:
        step = abs(int(braces[3] or 1)) * (1 if int(braces[2]) >= int(braces[1]) else -1)
        return [str(int(braces[1]) + i * step) for i in range(min(count, MAX_COMMAND_CHARS))]
    return [word]


def _seq_arguments(seq: re.Match[str]) -> tuple[int, int, int]:
    """Return first, step and last of `seq [FIRST [STEP]] LAST`."""
    numbers = [int(number) for number in seq[1].split()]
    return numbers[0] if len(numbers) > 1 else 1, numbers[1] if len(numbers) > 2 else 1, numbers[-1]


def _count_words(word: str) -> int | None:
    """Return the number of words to which the shell expands a word; None if it depends on the file system."""
    if seq := _SEQ.fullmatch(word):
        first, step, last = _seq_arguments(seq)
        return max((last - first) // step + 1, 0) if step else None
    if braces := _BRACES.fullmatch(word):
        step = abs(int(braces[3] or 1)) or 1
        return abs(int(braces[2]) - int(braces[1])) // step + 1
    return None if re.search(r"[$`*?{]|\[", word) else 1
