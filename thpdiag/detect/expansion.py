"""Expand a command line into the commands that the shell runs, and assign the lines of its output to them.

    for v in always never; do echo $v > /sys/kernel/mm/transparent_hugepage/enabled; time ./job; done

writes two settings after one prompt, and its output has the times of two jobs. Loops over words, variables, functions,
groups, here documents, `sh -c` and scripts whose text is known are executed; conditions are not.

The output of one setting is separated from the next by printed marks (`echo "== $v"`, tee, `cat` of the setting,
`set -x`), or else by the form of the lines: each part begins (or ends) with the output of the same command, so a line
with the form of the first (or last) line occurs equally often in each part. Otherwise the parts remain unassigned.
Source: POSIX 2.9.

    $ for h in db1 db2; do echo "== $h"; ssh $h cat /sys/kernel/mm/transparent_hugepage/enabled; done
    == db1
    [always] madvise never
    == db2
    always madvise [never]

Commands that ssh runs on other hosts: a line printed before the output names the host, also if the list of hosts is
unknown (`$(cat hosts)`). Without such lines, the output consists of one line per host, or the output of each host
begins with a line of the same form. `oc debug node/NAME -- chroot /host` and `kubectl debug` do the same on nodes, and
`kubectl exec` in pods; Salt prints the host name and a colon above the output of each.
Source: ssh(1), oc debug --help, Salt's nested outputter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from thpdiag.detect.shell import (
    MAX_COMMAND_CHARS,
    MAX_DEPTH,
    SHELLS,
    SILENT,
    IncompleteError,
    UnknownError,
    base_name,
    goes_to_file,
    here_documents,
    tokens,
    without_quotes,
    without_wrappers,
    words_of,
)

MAX_STEPS = 400  # commands that one line runs
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,60})=(.*)", re.ASCII | re.DOTALL)
_COUNTING_LOOP = re.compile(r"\(\(\s*(\w+)\s*=\s*(\d{1,4})\s*;\s*\1\s*(<=?)\s*(\d{1,4})\s*;\s*(?:\1\+\+|\+\+\1)\s*\)\)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TEE = re.compile(r"(?:echo|printf) [^|]*\| (?:sudo (?:-\S+ )*)?tee\b")
_SHOWN = re.compile(r"(?:sudo )?(?:cat|grep\b.*?|head(?: -\S+)*) \S*transparent_hugepage/\w+")
_CLOSING_WORDS = {"do": "done", "{": "}", "(": ")"}
Tokens = Sequence[tuple[str, str]]


class Step(NamedTuple):
    """One command that the shell runs."""

    text: str
    prints: bool = True  # may print to the terminal
    line: str = ""  # the line that it prints, if known

    @property
    def program(self) -> str:
        words = without_wrappers(self.text.split())
        return base_name(words[0]) if words else ""


class Part(NamedTuple):
    """The commands from one change of a setting to the next: those that make changes, and those that print."""

    writes: tuple[Step, ...]
    prints: tuple[Step, ...]


def steps_of(
    command: str,
    scripts: Mapping[str, str],
    variables: MutableMapping[str, str],
    functions: MutableMapping[str, Tokens],
) -> list[Step] | None:
    """Return the commands in order, None if they cannot be determined. Updates variables and functions."""
    try:
        return _Expansion(scripts, variables, functions).run_text(command)
    except (IncompleteError, UnknownError, RecursionError):
        return None


@dataclass
class _Expansion:
    """Executes a command line symbolically and collects its steps."""

    scripts: Mapping[str, str]
    variables: MutableMapping[str, str]
    functions: MutableMapping[str, Tokens]
    steps: list[Step] = field(default_factory=list)
    depth: int = 0
    documents: list[str] = field(default_factory=list)

    def run_text(self, text: str) -> list[Step]:
        if len(text) > MAX_COMMAND_CHARS:
            raise UnknownError
        text, self.documents = here_documents(_COUNTING_LOOP.sub(self._expand_counting_loop, text))
        self._run(list(tokens(text)))
        return self.steps

    @staticmethod
    def _expand_counting_loop(loop: re.Match[str]) -> str:
        first, last = int(loop[2]), int(loop[4]) + (loop[3] == "<=")
        return f"{loop[1]} in {' '.join(map(str, range(first, min(last, first + MAX_STEPS))))}"

    def _run(self, words: Tokens) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnknownError
        index = 0
        while index < len(words):
            index = self._command(words, index)
            if index < len(words) and words[index] == ("end", "||"):  # runs only if the first command fails
                count = len(self.steps)
                index = self._command(words, index + 1)
                del self.steps[count:]
        self.depth -= 1

    def _command(self, words: Tokens, index: int, feed: Sequence[str] | None = None) -> int:
        """Run the command that begins at an index and return the index of the next one. `feed`: its input lines."""
        kind, text = words[index]
        if kind == "end" and text != "(":
            return index + 1
        if text in ("if", "case", "select", "until"):
            raise UnknownError
        if text in ("for", "function") and index + 1 == len(words):
            raise IncompleteError
        if text == "for":
            return self._for_loop(words, index + 1)
        if text == "while":
            return self._while_loop(words, index + 1, feed)
        if text in ("{", "("):
            body, index = _block(words, index)
            return self._run_and_redirect(words, index, [lambda: self._run(body)])
        if text == "function" or words[index + 1 : index + 3] == [("end", "("), ("end", ")")]:
            index += text == "function"
            name = words[index][1]
            index += 3 if words[index + 1 : index + 2] == [("end", "(")] else 1
            while index < len(words) and words[index][1] == "\n":
                index += 1
            self.functions[name], index = _block(words, index)
            return index
        return self._pipeline(words, index)

    def _run_and_redirect(self, words: Tokens, index: int, runs: Sequence[Callable[[], None]]) -> int:
        """Run a loop or group whose output may be redirected to a file after its end, and return the next index."""
        end = index
        while end < len(words) and (words[end][0] == "word" or words[end][1] in ("|", "|&")):
            end += 1
        count = len(self.steps)
        for run in runs:
            run()
        if goes_to_file(" ".join(text for _, text in words[index:end])):
            self._hide_output(count)
        return end

    def _hide_output(self, first: int) -> None:
        self.steps[first:] = [step._replace(prints=False) for step in self.steps[first:]]

    def _for_loop(self, words: Tokens, index: int) -> int:
        name, index = words[index][1], index + 1
        values: list[str] = []
        if index < len(words) and words[index][1] == "in":
            index += 1
            while index < len(words) and words[index][0] == "word":
                for value in words_of(self._expand(words[index][1])):
                    values += value.split() if words[index][1].startswith("$") else [without_quotes(value)]
                index += 1
        while index < len(words) and words[index][1] in (";", "\n"):
            index += 1
        body, index = _block(words, index)
        return self._run_and_redirect(words, index, [partial(self._round, name, value, body) for value in values])

    def _round(self, name: str, value: str, body: Tokens) -> None:
        self.variables[name] = value
        self._run(body)

    def _while_loop(self, words: Tokens, index: int, feed: Sequence[str] | None) -> int:
        """Run `while read NAME` over known lines."""
        header: list[str] = []
        while index < len(words) and words[index] != ("word", "do"):
            header += [words[index][1]] if words[index][0] == "word" else []
            index += 1
        names = [word for word in header if not word.startswith("-")]
        body, index = _block(words, index)
        if names[:1] != ["read"] or len(names) != 2:
            raise UnknownError
        if feed is None and self.documents:
            feed = self.documents.pop(0).split("\n")
        if feed is None and words[index : index + 1] == [("word", "<<<")] and index + 1 < len(words):
            feed = without_quotes(self._expand(words[index + 1][1]).removeprefix("$")).replace("\\n", "\n").split("\n")
        if feed is None:
            raise UnknownError
        return self._run_and_redirect(
            words, index, [partial(self._round, names[1], value, body) for value in feed if value.strip()]
        )

    def _pipeline(self, words: Tokens, index: int) -> int:
        parts: list[list[str]] = [[]]
        while index < len(words):
            kind, text = words[index]
            if kind == "end" and text not in ("|", "|&"):
                break
            index += 1
            if kind == "word":
                parts[-1].append(self._expand(text))
            elif words[index : index + 1] == [("word", "while")]:
                return self._command(words, index, _echo_lines(parts[-1]))
            else:
                parts.append([])
        if index < len(words) and words[index] == ("end", "("):
            raise UnknownError
        bare = without_wrappers(parts[0])
        if not bare or (bare[0] == "export" and len(parts) == 1):
            for word in parts[0]:
                if assigned := _ASSIGNMENT.fullmatch(word):
                    self.variables[assigned[1]] = without_quotes(assigned[2])
            return index
        if not self._runs_text(parts, bare):
            self._step(" | ".join(" ".join(part) for part in parts), parts)
        return index

    def _runs_text(self, parts: Sequence[Sequence[str]], bare: Sequence[str]) -> bool:
        """Run the command if it is a function, or a shell or script whose text is known; return whether it is."""
        program = base_name(without_quotes(bare[0]))
        hidden = goes_to_file(" ".join(word for word in parts[-1] if word[:1] not in ("'", '"')))
        count = len(self.steps)
        arguments = [without_quotes(word) for word in bare[1:] if not word.startswith((">", "2>", "<"))]
        if program in self.functions:
            self._with_arguments(arguments, lambda: self._run(self.functions[program]))
        else:
            options = program in SHELLS or program in ("source", ".")
            while options and arguments and re.fullmatch(r"-[a-bd-z]{1,4}", arguments[0]):
                del arguments[0]
            text = None
            if options and arguments[:1] == ["-c"] and len(arguments) > 1:
                text, arguments = arguments[1], arguments[3:]
            elif options and arguments:
                text, arguments = self.scripts.get(base_name(arguments[0])), arguments[1:]
            elif options and self.documents:
                text = self.documents.pop(0)
            elif "/" in bare[0]:
                text = self.scripts.get(program)
            if text is None:
                return False
            inner = _Expansion(self.scripts, dict(self.variables), self.functions, self.steps, self.depth + 1)
            inner._with_arguments(arguments, lambda: inner.run_text(text))
        if hidden:
            self._hide_output(count)
        return True

    def _with_arguments(self, arguments: Sequence[str], run: Callable[[], object]) -> None:
        outer = {name: text for name, text in self.variables.items() if name.isdecimal()}
        for name in outer:
            del self.variables[name]
        self.variables.update({str(number): text for number, text in enumerate(arguments, 1)})
        run()
        for number, _ in enumerate(arguments, 1):
            self.variables.pop(str(number), None)
        self.variables.update(outer)

    def _expand(self, word: str) -> str:
        """Return the word with known variables replaced, except within single quotes."""
        if "$" not in word or (word[:1] == "'" == word[-1:]):
            return word
        return _VARIABLE.sub(lambda name: self.variables.get(name[1] or name[2], name[0]), word)

    def _step(self, text: str, parts: Sequence[Sequence[str]]) -> None:
        if len(self.steps) >= MAX_STEPS:
            raise UnknownError
        bare = without_wrappers(parts[-1])
        program = base_name(bare[0]) if bare else ""
        printed = _echo_lines(parts[0])
        line = printed[0] if printed and (len(parts) == 1 or _TEE.match(text)) and "$" not in printed[0] else ""
        prints = not goes_to_file(text) or text.startswith("time ")  # the shell prints times to the terminal
        if program in SILENT and program not in ("echo", "printf", "date"):
            prints = False
        self.steps.append(Step(text, prints, line if prints else ""))


def _block(words: Tokens, index: int) -> tuple[Tokens, int]:
    """Return the words between `do`, `{` or `(` and its closing word, and the index after that."""
    if index >= len(words):
        raise IncompleteError
    begin = words[index][1]
    if begin not in _CLOSING_WORDS:
        raise UnknownError
    depth, end = 0, _CLOSING_WORDS[begin]
    for number in range(index, len(words)):
        depth += (words[number][1] == begin) - (words[number][1] == end)
        if not depth:
            return words[index + 1 : number], number + 1
    raise IncompleteError


def _echo_lines(words: Sequence[str]) -> list[str]:
    """Return the lines that an echo or printf prints; empty for other commands."""
    if not words or words[0] not in ("echo", "printf"):
        return []
    texts = [without_quotes(word) for word in words[1:] if not re.fullmatch(r"-[neE]{1,3}", word)]
    text = " ".join(texts).replace("\\n", "\n").strip("\n")
    return text.replace("%s\n", "").split("\n") if text else []


# Parts of the output


def parts_of(
    steps: Sequence[Step], switches_setting: Callable[[Step], bool], changes_host: Callable[[Step], bool]
) -> list[Part]:
    """Split the steps before each command that switches a setting, and before the steps that announce or prepare it."""
    parts, written, printing, pending = list[Part](), list[Step](), list[Step](), list[Step]()
    for step in steps:
        if switches_setting(step):
            announcing = list[Step]()
            while printing and printing[-1].line and (len(printing) > 1 or not written):
                announcing.insert(0, printing.pop())
            if printing:
                parts.append(Part(tuple(written), tuple(printing)))
                written = []
            written, printing, pending = [*written, *pending, step], announcing, []
            printing += [step] * bool(step.line)
        elif changes_host(step):
            (pending if printing else written).append(step)
        elif step.prints:
            written, pending = [*written, *pending], []
            printing.append(step)
    return [*parts, Part((*written, *pending), tuple(printing))]


def first_lines(parts: Sequence[Part], lines: Sequence[str], *, traced: bool) -> list[int] | None:
    """Return the index of the first output line of each part that prints; None if it cannot be determined."""
    starts = _find_marks(parts, lines, traced=traced)
    if starts is not None:
        return starts
    forms = [_NUMBER.sub("#", " ".join(line.split())) for line in lines]
    filled = [index for index, form in enumerate(forms) if form]
    if not filled:
        return None
    begins = _find_form(parts, forms, forms[filled[0]], first=True)
    ends = _find_form(parts, forms, forms[filled[-1]], first=False)
    # the next part begins at the first non-empty line after the last line of a part
    after_ends = ends and [filled[0], *(next(i for i in filled if i > end) for end in ends[0][:-1])]
    if begins and after_ends:
        return begins[0] if begins[0] == after_ends else None
    return begins[0] if begins and begins[1] else after_ends if ends and ends[1] else None


def _find_form(parts: Sequence[Part], forms: Sequence[str], form: str, *, first: bool) -> tuple[list[int], bool] | None:
    """Return the lines of a form that begin (or end) the parts, and whether each command prints exactly one of them."""
    end = 0 if first else -1
    programs = {part.prints[end].program for part in parts}
    runs = {sum(step.program == part.prints[end].program for step in part.prints) for part in parts}
    indexes = [index for index, other in enumerate(forms) if other == form]
    if len(programs) > 1 or len(runs) > 1:
        return None
    count, remainder = divmod(len(indexes), len(parts))
    if remainder or not count or count % min(runs):
        return None
    return indexes[0 if first else count - 1 :: count], count == min(runs)


def _find_marks(parts: Sequence[Part], lines: Sequence[str], *, traced: bool) -> list[int] | None:
    """Return the lines of known marks: each part prints one first, and the marks are in the order of the parts."""
    marks = [_mark_of_part(part, traced=traced) for part in parts]
    if not all(marks[1:]):
        return None
    starts: list[int] = []
    for number, mark in enumerate(marks):
        if mark is None:  # before the first write
            starts.append(0)
            continue
        matches = [index for index, line in enumerate(lines) if mark.fullmatch(line.strip())]
        repeats = sum(other == mark for other in marks)
        following = [index for index in matches if index > (starts[-1] if starts else -1)]
        if not following or len(matches) % repeats:
            return None
        starts.append(following[0])
        if number + 1 < len(parts) and not marks[number + 1]:
            return None
    return starts


def _mark_of_part(part: Part, *, traced: bool) -> re.Pattern[str] | None:
    """Return a pattern of the first line of a part, None if it is unknown."""
    if traced and part.writes:
        bare = re.sub(r" ?(?:&>|[12]?>)\S* .*| \|.*", "", part.writes[0].text)
        return re.compile(r"\++ ?" + re.escape(bare).replace("\\ ", " "))
    first = part.prints[0]
    if first.line:
        return re.compile(re.escape(first.line.strip()))
    echo = re.search(r"(?:echo|printf) (\S+)", part.writes[-1].text) if part.writes else None
    if echo and _SHOWN.match(first.text):
        return re.compile(rf".*\[{re.escape(without_quotes(echo[1]))}\].*")
    return None


# Commands on other hosts

_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252}|\$\{?\w{1,60}\}?)"
_WRAPPER = (  # a command that runs another command
    r"(?:(?:[A-Z_]\w{0,40}=\S*+|time|nohup|command|env|!|(?:sudo|doas)(?:\s+-(?:u\s+\S++|[A-Za-z]++)){0,6}|timeout\s+\S++"
    r"|nice(?:\s+-n\s*\S++)?|stdbuf(?:\s+-\S++){0,6}|sshpass\s+-(?:[pf]\s*\S++|e))\s++){0,6}(?:\\|/(?:usr/)?bin/)?"
)
_POD_OPTION = r"(?:-[nc]\s+\S++\s++|--(?:namespace|container|context)\s+\S++\s++|-{1,2}[^\s-]\S*+\s++){0,10}"
_CALLS = (
    re.compile(
        rf"{_WRAPPER}\bssh\s+"
        r"(?:-[bcDeFIiJLlmOopQRSWw]\s*\S++\s++|-[46AaCfGgKkMNnqsTtVvXxYy]++\s++|--\s++){0,20}"
        rf"['\"]?(?:[\w.-]{{1,60}}@)?{_HOST}['\"]?(?:\s+-(?:l\s*\S++|[46AaCfGgKkMNnqsTtVvXxYy]++)(?=\s)){{0,4}}"
        r"\s+(?P<command>[^\s-].*)",
        re.DOTALL,
    ),
    re.compile(
        rf"{_WRAPPER}\b(?:rsh|mosh|(?:vagrant|juju|virtctl|gcloud\s+compute)\s+ssh|(?:multipass|virtctl)\s+exec|oc\s+rsh)\s+"
        rf"{_HOST}\s+(?:--\s+|--command=|-c\s+)?(?P<command>[^\s-].*)",
        re.DOTALL,
    ),
    re.compile(  # the node on which a pod runs is unknown
        rf"{_WRAPPER}\b(?:oc|kubectl)\s+{_POD_OPTION}exec\s+{_POD_OPTION}(?:pod/)?{_HOST}\s+{_POD_OPTION}--\s+"
        r"(?P<command>\S.*)",
        re.DOTALL,
    ),
    re.compile(
        rf"(?:oc|kubectl)\s+debug\s+(?:-\S++\s++){{0,20}}(?:node/)?{_HOST}\s+(?:-\S*[^\s-]\S*\s+){{0,20}}--\s+"
        r"(?:chroot\s+/host\s+)?(?P<command>\S.*)",
        re.DOTALL,
    ),
)
_REMOTE_LOOP = re.compile(
    r"\b(?:for|read)\s+(?:-\w+\s+)?(?P<name>\w{1,60})\b.{1,400}?\b(?:ssh|oc|kubectl)\b[^;|]{0,80}?\$\{?(?P=name)\b"
    r"|\b(?:xargs|parallel)\s.{0,200}?\bssh\s",
    re.DOTALL,
)
_SALT = re.compile(
    r"\bsalt(?:-ssh)?\s.{0,200}?\bcmd\.run\s+(?P<quote>['\"])(?P<command>.{1,2000}?)(?P=quote)", re.DOTALL
)
_ECHO = re.compile(r"\becho\s+(?:-\w{1,3}\s+)?(?P<text>\"[^\"]{1,200}\"|[^;|&\"']{1,200})")


class RemoteCommand(NamedTuple):
    """A command that runs on another host."""

    host: str
    command: str
    mark: str = ""  # the line printed before it, if known


class RemoteOutput(NamedTuple):
    """The output of a host: index of the line that announces it, and of its first line."""

    host: str
    command: str
    mark: int
    first: int


def remote_commands(steps: Sequence[Step] | None, command: str) -> list[RemoteCommand]:
    """Return the commands that a command line runs on other hosts; one with host "" if the hosts are unknown."""
    if len(command) > MAX_COMMAND_CHARS or not any(
        word in command for word in ("ssh", "debug", "salt", "exec", "rsh", "mosh")
    ):
        return []
    if salt := _SALT.search(command):
        return [RemoteCommand("", salt["command"])]
    calls, mark = list[RemoteCommand](), ""
    for step in steps or ():
        if call := _call(step.text):
            calls.append(call._replace(mark=mark))
            mark = ""
        elif step.line:
            mark = step.line.strip()
    if any(call.host for call in calls):
        return calls
    if not _REMOTE_LOOP.search(command):  # a single command whose host is a variable is treated as local
        return []
    match = next(filter(None, (call.search(command) for call in _CALLS)), None)
    return [RemoteCommand("", _remote_part(match["command"]) if match else "")]


def without_remote(command: str) -> str:
    """Return the command line as its only remote host runs it."""
    for call in _CALLS:
        command = call.sub(lambda match: ("sh -c " if match["command"][0] in "'\"" else "") + match["command"], command)
    return command


def remote_outputs(calls: Sequence[RemoteCommand], command: str, lines: Sequence[str]) -> list[RemoteOutput] | None:
    """Return the output of each host; None if it cannot be determined."""
    if not all(call.host for call in calls):
        return _announced_outputs(calls[0].command, command, lines)
    parts = [
        Part((), (*(Step(mark, line=mark) for mark in (call.mark,) if mark), Step(call.command))) for call in calls
    ]
    filled = [index for index, line in enumerate(lines) if line.strip()]
    marked = all(call.mark for call in calls)
    starts = filled if len(filled) == len(calls) and not marked else first_lines(parts, lines, traced=False)
    if not starts:
        return None
    return [RemoteOutput(call.host, call.command, i, i + marked) for call, i in zip(calls, starts, strict=True)]


def _announced_outputs(inner: str, command: str, lines: Sequence[str]) -> list[RemoteOutput] | None:
    """Return the outputs of hosts that are named only by lines of Salt, or of an `echo` of the loop's variable."""
    prefix, suffix = "", ":"
    if not _SALT.search(command):
        loop, echo = _REMOTE_LOOP.search(command), _ECHO.search(command)
        if loop is None or echo is None or not loop["name"]:
            return None
        variable = re.compile(rf"\$(?:{loop['name']}\b|\{{{loop['name']}\}})")
        affixes = variable.split(echo["text"].strip().strip('"'))
        if len(affixes) != 2:
            return None
        prefix, suffix = affixes
    form = re.compile(rf"{re.escape(prefix)}(?P<host>[A-Za-z0-9][\w.-]{{0,252}}){re.escape(suffix)}")
    marks = [(i, match["host"]) for i, line in enumerate(lines) if (match := form.fullmatch(line.strip()))]
    return [RemoteOutput(host, inner, i, i + 1) for i, host in marks] or None


def _call(text: str) -> RemoteCommand | None:
    """Parse a command that runs another command on another host."""
    match = next(filter(None, (call.match(text) for call in _CALLS)), None)
    if match is None:
        return None
    return RemoteCommand("" if "$" in match["host"] else match["host"], _remote_part(match["command"]))


def _remote_part(command: str) -> str:
    """Return the part of a command that the remote shell runs: a quoted word, or the words up to `;` or `&&`."""
    quote = command[0]
    if quote in "'\"" and command.find(quote, 1) > 0:
        return command[1 : command.find(quote, 1)]
    return re.split(r"\s*(?:;|&&)", command, maxsplit=1)[0]
