"""A command line as the shell runs it, command by command, and which lines of its output belong to which.

    for v in always never; do echo $v > /sys/kernel/mm/transparent_hugepage/enabled; time ./job; done

wrote two settings behind one prompt, and the times of two jobs stand below one another. Loops over words, variables,
functions, groups, here documents, `sh -c` and scripts of which the text is known are followed; conditions are not.

Where the output of one setting ends and the next begins is told by what is printed (`echo "== $v"`, tee, `cat` of the
setting, `set -x`), else by its form: each part begins, or ends, with the same command, so that a line of the form of
the first, or the last, comes equally often in each. If that does not come out even, nothing is told.
Source: POSIX 2.9.
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
_COUNTED = re.compile(r"\(\(\s*(\w+)\s*=\s*(\d{1,4})\s*;\s*\1\s*(<=?)\s*(\d{1,4})\s*;\s*(?:\1\+\+|\+\+\1)\s*\)\)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TEE = re.compile(r"(?:echo|printf) [^|]*\| (?:sudo (?:-\S+ )*)?tee\b")
_SHOWN = re.compile(r"(?:sudo )?(?:cat|grep\b.*?|head(?: -\S+)*) \S*transparent_hugepage/\w+")
_ENDS = {"do": "done", "{": "}", "(": ")"}
Tokens = Sequence[tuple[str, str]]


class Step(NamedTuple):
    """One command as the shell runs it. `prints`: whether it may print to the terminal. `line`: what it prints, if that
    is known."""

    text: str
    prints: bool = True
    line: str = ""

    @property
    def program(self) -> str:
        words = without_wrappers(self.text.split())
        return base_name(words[0]) if words else ""


class Part(NamedTuple):
    """What is done and printed from one switch of a setting to the next: the commands that change, those that print."""

    writes: tuple[Step, ...]
    prints: tuple[Step, ...]


def steps_of(
    command: str,
    scripts: Mapping[str, str],
    variables: MutableMapping[str, str],
    functions: MutableMapping[str, Tokens],
) -> list[Step] | None:
    """The commands in turn, None if that depends on what is not known. Variables and functions are kept."""
    try:
        return _Expansion(scripts, variables, functions).run_text(command)
    except (IncompleteError, UnknownError, RecursionError):
        return None


@dataclass
class _Expansion:
    """Runs a command line as far as that is known."""

    scripts: Mapping[str, str]
    variables: MutableMapping[str, str]
    functions: MutableMapping[str, Tokens]
    steps: list[Step] = field(default_factory=list)
    depth: int = 0
    documents: list[str] = field(default_factory=list)

    def run_text(self, text: str) -> list[Step]:
        if len(text) > MAX_COMMAND_CHARS:
            raise UnknownError
        for_loops = _COUNTED.sub(self._words_of_count, text)
        text, self.documents = here_documents(for_loops)
        self._run(list(tokens(text)))
        return self.steps

    @staticmethod
    def _words_of_count(loop: re.Match[str]) -> str:
        first, last = int(loop[2]), int(loop[4]) + (loop[3] == "<=")
        return f"{loop[1]} in {' '.join(map(str, range(first, min(last, first + MAX_STEPS))))}"

    def _run(self, words: Tokens) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnknownError
        at = 0
        while at < len(words):
            at = self._command(words, at)
            if at < len(words) and words[at] == ("end", "||"):  # runs only if the other one fails
                kept = len(self.steps)
                at = self._command(words, at + 1)
                del self.steps[kept:]
        self.depth -= 1

    def _command(self, words: Tokens, at: int, feed: Sequence[str] | None = None) -> int:
        """Run one command that begins here; where the next one does."""
        kind, text = words[at]
        if kind == "end" and text != "(":
            return at + 1
        if text in ("if", "case", "select", "until"):
            raise UnknownError
        if text in ("for", "function") and at + 1 == len(words):
            raise IncompleteError
        if text == "for":
            return self._for_loop(words, at + 1)
        if text == "while":
            return self._while_loop(words, at + 1, feed)
        if text in ("{", "("):
            body, at = _block(words, at)
            return self._run_and_redirect(words, at, [lambda: self._run(body)])
        if text == "function" or words[at + 1 : at + 3] == [("end", "("), ("end", ")")]:
            at += text == "function"
            name = words[at][1]
            at += 3 if words[at + 1 : at + 2] == [("end", "(")] else 1
            while at < len(words) and words[at][1] == "\n":
                at += 1
            self.functions[name], at = _block(words, at)
            return at
        return self._pipeline(words, at)

    def _run_and_redirect(self, words: Tokens, at: int, runs: Sequence[Callable[[], None]]) -> int:
        """Run a loop or group; what stands behind its end may lead its output to a file."""
        end = at
        while end < len(words) and (words[end][0] == "word" or words[end][1] in ("|", "|&")):
            end += 1
        kept = len(self.steps)
        for run in runs:
            run()
        if goes_to_file(" ".join(text for _, text in words[at:end])):
            self.steps[kept:] = [step._replace(prints=False) for step in self.steps[kept:]]
        return end

    def _for_loop(self, words: Tokens, at: int) -> int:
        name, at = words[at][1], at + 1
        values: list[str] = []
        if at < len(words) and words[at][1] == "in":
            at += 1
            while at < len(words) and words[at][0] == "word":
                for value in words_of(self._expand(words[at][1])):
                    values += value.split() if words[at][1].startswith("$") else [without_quotes(value)]
                at += 1
        while at < len(words) and words[at][1] in (";", "\n"):
            at += 1
        body, at = _block(words, at)
        return self._run_and_redirect(words, at, [partial(self._round, name, value, body) for value in values])

    def _round(self, name: str, value: str, body: Tokens) -> None:
        self.variables[name] = value
        self._run(body)

    def _while_loop(self, words: Tokens, at: int, feed: Sequence[str] | None) -> int:
        """`while read NAME` of lines that are known."""
        header: list[str] = []
        while at < len(words) and words[at] != ("word", "do"):
            header += [words[at][1]] if words[at][0] == "word" else []
            at += 1
        names = [word for word in header if not word.startswith("-")]
        body, at = _block(words, at)
        if names[:1] != ["read"] or len(names) != 2:
            raise UnknownError
        if feed is None and self.documents:
            feed = self.documents.pop(0).split("\n")
        if feed is None and words[at : at + 1] == [("word", "<<<")] and at + 1 < len(words):
            feed = without_quotes(self._expand(words[at + 1][1]).removeprefix("$")).replace("\\n", "\n").split("\n")
        if feed is None:
            raise UnknownError
        return self._run_and_redirect(
            words, at, [partial(self._round, names[1], value, body) for value in feed if value.strip()]
        )

    def _pipeline(self, words: Tokens, at: int) -> int:
        parts: list[list[str]] = [[]]
        while at < len(words):
            kind, text = words[at]
            if kind == "end" and text not in ("|", "|&"):
                break
            at += 1
            if kind == "word":
                parts[-1].append(self._expand(text))
            elif words[at : at + 1] == [("word", "while")]:
                return self._command(words, at, _echo_lines(parts[-1]))
            else:
                parts.append([])
        if at < len(words) and words[at] == ("end", "("):
            raise UnknownError
        bare = without_wrappers(parts[0])
        if not bare or (bare[0] == "export" and len(parts) == 1):
            for word in parts[0]:
                if assigned := _ASSIGNMENT.fullmatch(word):
                    self.variables[assigned[1]] = without_quotes(assigned[2])
            return at
        if not self._runs_text(parts, bare):
            self._step(" | ".join(" ".join(part) for part in parts), parts)
        return at

    def _runs_text(self, parts: Sequence[Sequence[str]], bare: Sequence[str]) -> bool:
        """Whether the command is a function, a shell or a script of which the text is known; then it is run."""
        program = base_name(without_quotes(bare[0]))
        hidden = goes_to_file(" ".join(word for word in parts[-1] if word[:1] not in ("'", '"')))
        kept = len(self.steps)
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
            self.steps[kept:] = [step._replace(prints=False) for step in self.steps[kept:]]
        return True

    def _with_arguments(self, arguments: Sequence[str], run: Callable[[], object]) -> None:
        before = {name: text for name, text in self.variables.items() if name.isdecimal()}
        for name in before:
            del self.variables[name]
        self.variables.update({str(number): text for number, text in enumerate(arguments, 1)})
        run()
        for number, _ in enumerate(arguments, 1):
            self.variables.pop(str(number), None)
        self.variables.update(before)

    def _expand(self, word: str) -> str:
        """The word with the variables that are known; between single quotes nothing is one."""
        if "$" not in word or (word[:1] == "'" == word[-1:]):
            return word
        return _VARIABLE.sub(lambda found: self.variables.get(found[1] or found[2], found[0]), word)

    def _step(self, text: str, parts: Sequence[Sequence[str]]) -> None:
        if len(self.steps) >= MAX_STEPS:
            raise UnknownError
        bare = without_wrappers(parts[-1])
        program = base_name(bare[0]) if bare else ""
        printed = _echo_lines(parts[0])
        line = printed[0] if printed and (len(parts) == 1 or _TEE.match(text)) and "$" not in printed[0] else ""
        prints = not goes_to_file(text) or text.startswith("time ")  # of the shell, which prints to the terminal
        if program in SILENT and program not in ("echo", "printf", "date"):
            prints = False
        self.steps.append(Step(text, prints, line if prints else ""))


def _block(words: Tokens, at: int) -> tuple[Tokens, int]:
    """What stands from `do`, `{` or `(` to the end of it, and where that is."""
    if at >= len(words):
        raise IncompleteError
    begin = words[at][1]
    if begin not in _ENDS:
        raise UnknownError
    depth, end = 0, _ENDS[begin]
    for number in range(at, len(words)):
        depth += (words[number][1] == begin) - (words[number][1] == end)
        if not depth:
            return words[at + 1 : number], number + 1
    raise IncompleteError


def _echo_lines(words: Sequence[str]) -> list[str]:
    """The lines that an echo or printf prints; none of another command."""
    if not words or words[0] not in ("echo", "printf"):
        return []
    texts = [without_quotes(word) for word in words[1:] if not re.fullmatch(r"-[neE]{1,3}", word)]
    text = " ".join(texts).replace("\\n", "\n").strip("\n")
    return text.replace("%s\n", "").split("\n") if text else []


# Which lines belong to which part


def parts_of(steps: Sequence[Step], switches: Callable[[Step], bool], acts: Callable[[Step], bool]) -> list[Part]:
    """Cut before each command that switches a setting; what announces or prepares a switch belongs to it."""
    parts, written, printing, coming = list[Part](), list[Step](), list[Step](), list[Step]()
    for step in steps:
        if switches(step):
            announced = list[Step]()
            while printing and printing[-1].line and (len(printing) > 1 or not written):
                announced.insert(0, printing.pop())
            if printing:
                parts.append(Part(tuple(written), tuple(printing)))
                written = []
            written, printing, coming = [*written, *coming, step], announced, []
            printing += [step] * bool(step.line)
        elif acts(step):
            (coming if printing else written).append(step)
        elif step.prints:
            written, coming = [*written, *coming], []
            printing.append(step)
    return [*parts, Part((*written, *coming), tuple(printing))]


def first_lines(parts: Sequence[Part], lines: Sequence[str], *, traced: bool) -> list[int] | None:
    """Of each part that prints the first line of its output; None if that cannot be told."""
    by_mark = _by_marks(parts, lines, traced=traced)
    if by_mark is not None:
        return by_mark
    forms = [_NUMBER.sub("#", " ".join(line.split())) for line in lines]
    filled = [number for number, form in enumerate(forms) if form]
    if not filled:
        return None
    begins = _by_form(parts, forms, forms[filled[0]], first=True)
    ends = _by_form(parts, forms, forms[filled[-1]], first=False)
    # the last line of a part ends it: the first one below that holds something begins the next
    starts = ends and [filled[0], *(next(n for n in filled if n > end) for end in ends[0][:-1])]
    if begins and starts:
        return begins[0] if begins[0] == starts else None
    sure = begins if begins and begins[1] else (starts, True) if ends and ends[1] else None
    return sure[0] if sure else None


def _by_form(parts: Sequence[Part], forms: Sequence[str], form: str, *, first: bool) -> tuple[list[int], bool] | None:
    """The lines of a form at which the parts begin, or end, and whether each part prints it once for each command."""
    at = 0 if first else -1
    programs = {part.prints[at].program for part in parts}
    own = {sum(step.program == part.prints[at].program for step in part.prints) for part in parts}
    places = [number for number, other in enumerate(forms) if other == form]
    if len(programs) > 1 or len(own) > 1:
        return None
    count, odd = divmod(len(places), len(parts))
    if odd or not count or count % min(own):
        return None
    return places[0 if first else count - 1 :: count], count == min(own)


def _by_marks(parts: Sequence[Part], lines: Sequence[str], *, traced: bool) -> list[int] | None:
    """By lines that are known: each part prints one before all else, and the lines of all parts come in turn."""
    marks = [_marks(part, traced=traced) for part in parts]
    if not all(marks[1:]):
        return None
    places = [[n for n, line in enumerate(lines) if any(mark.fullmatch(line.strip()) for mark in m)] for m in marks]
    found: list[int] = []
    for number, (mark, place) in enumerate(zip(marks, places, strict=True)):
        if not mark:  # before the first write
            found.append(0)
            continue
        same = sum({one.pattern for one in other} == {one.pattern for one in mark} for other in marks)
        above = [n for n in place if n > (found[-1] if found else -1)]
        if not above or len(place) % same:
            return None
        found.append(above[0])
        if number + 1 < len(parts) and not marks[number + 1]:
            return None
    return found


def _marks(part: Part, *, traced: bool) -> list[re.Pattern[str]]:
    """What the first line of a part looks like."""
    if traced and part.writes:
        bare = re.sub(r" ?(?:&>|[12]?>)\S* .*| \|.*", "", part.writes[0].text)
        return [re.compile(r"\++ ?" + re.escape(bare).replace("\\ ", " "))]
    first = part.prints[0]
    if first.line:
        return [re.compile(re.escape(first.line.strip()))]
    value = next((found[1] for w in part.writes[-1:] if (found := re.search(r"(?:echo|printf) (\S+)", w.text))), "")
    if value and _SHOWN.match(first.text):
        return [re.compile(rf".*\[{re.escape(without_quotes(value))}\].*")]
    return []
