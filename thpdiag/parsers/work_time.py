"""How long a job took, as bash, zsh, POSIX `time -p`, GNU time and `time -v` print it.

    real    1m0.123s
    user    0m55.010s
    sys     0m4.004s

Units: minutes and seconds, or seconds, or hours:minutes:seconds. The job is what was typed after `time`; zsh and
`time -v` print it themselves.
Varies: decimal comma in some locales; zsh prints `./job 1 0.01s user 0.00s system 12% cpu 1:00.12 total`, GNU time
`0.01user 0.00system 1:00.12elapsed 12%CPU`.
Source: bash, zsh and GNU time manuals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._cpu import cpu_seconds
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

NUMBER = r"\d{1,9}(?:[.,]\d{1,6})?"
SHELL = re.compile(rf"(real|user|sys)\s+(?:(?:(\d{{1,6}})h)?(\d{{1,9}})m)?({NUMBER})s?\s*$", re.ASCII)
ZSH = re.compile(
    rf"(.*?)\s{{1,8}}({NUMBER})s user ({NUMBER})s system \d+% cpu ((?:\d{{1,6}}:){{0,2}}{NUMBER}) total\s*$", re.ASCII
)
GNU = re.compile(rf"({NUMBER})user ({NUMBER})system ((?:\d{{1,6}}:){{0,2}}{NUMBER})elapsed \S+CPU", re.ASCII)
GNU_REST = re.compile(r"\(\d+avgtext\+\d+avgdata |\d+inputs\+\d+outputs ")
VERBOSE = re.compile(r"\s*Command being timed: \"(.*)\"\s*$")
VERBOSE_TIME = re.compile(
    rf"\s*(User time|System time|Elapsed \(wall clock\) time) \(.*\): ((?:\d{{1,6}}:){{0,2}}{NUMBER})\s*$"
)
VERBOSE_REST = re.compile(
    r"\s*(?:Percent of CPU|Average \w|Maximum resident|M(?:aj|in)or \(|(?:V|Inv)oluntary context|Swaps|File system|"
    r"Socket messages|Signals delivered|Page size|Exit status)[^:]{0,50}: \S+\s*$"
)
ORDER = ("user", "sys", "real")
KINDS = {"User time": "user", "System time": "sys", "Elapsed (wall clock) time": "real"}
_FOLDERS = r"(?>(?:[^\s/]{0,80}+/){0,9})"
TIME = re.compile(rf"{_FOLDERS}(?:command\s{{1,8}}{_FOLDERS})?time\s{{1,8}}(?:-\S{{1,80}}\s{{1,8}}){{0,8}}")
_WORD = r"(?:(?!2>)[^'\"|>&;\s])"
OUTPUT = re.compile(rf"((?>{_WORD}*(?:\s++(?>{_WORD}+))*))\s*+(?:2?>>?&?|\|&?)[^;]*$")


def job(command: str) -> str:
    """What was measured: the command without `time` and its options, and without where its output goes.

    >>> job("time -p ./load 64 2>&1 | tee always.txt")
    './load 64'
    """
    command = TIME.sub("", command.strip(), count=1).strip()
    return found[1] if (found := OUTPUT.fullmatch(command)) else command


def _times_of_line(text: str, name: str) -> list[tuple[str, str, float | None]]:
    """(job, kind, seconds) of one line."""
    if line := SHELL.match(text):
        rest = cpu_seconds(line[4])
        minutes = int(line[2] or 0) * 60 + int(line[3] or 0)
        return [(name, line[1], None if rest is None else minutes * 60 + rest)]
    if line := GNU.match(text):
        return [(name, kind, cpu_seconds(number)) for kind, number in zip(ORDER, line.groups(), strict=True)]
    if line := VERBOSE_TIME.match(text):
        return [(name, KINDS[line[1]], cpu_seconds(line[2]))]
    if line := ZSH.match(text):
        typed = job(line[1]) or name
        return [(typed, kind, cpu_seconds(number)) for kind, number in zip(ORDER, line.groups()[1:], strict=True)]
    return []


belongs = any_of(SHELL, GNU, GNU_REST, VERBOSE_TIME, VERBOSE_REST)


@with_errors("work_time")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Fact work.seconds for each of real, user and sys."""
    name = job(source.command)
    for line, text in lines:
        if timed := VERBOSE.match(text):
            name = timed[1]
            continue
        found = _times_of_line(text, name)
        if not found and text.strip() and not belongs(text):
            odd.note(line, text, "not a time of a job")
        for what, kind, value in found:
            if value is None:
                odd.note(line, text, "an impossible time of a job: not used")
                continue
            labels = (("job", what), ("kind", kind)) if what else (("kind", kind),)
            yield Fact("work.seconds", value, source.cite(line, text), labels, source.time)


PARSER = Parser(
    "work_time", "time of a job", read, continues=belongs,
    opens=re.compile(
        rf"(?:real|user|sys)\s+(?:\d{{1,9}}m)?{NUMBER}s?\s*$|{GNU.pattern}|{VERBOSE.pattern}|"
        rf"\S.{{0,160}}?s user {NUMBER}s system \d+% cpu "
    ),
    confirm=lambda lines: (
        not lines[0].startswith(("user", "sys")) and (not lines[0].startswith("real") or len(lines) > 1)
    ),
)  # fmt: skip
