"""Commands that ssh runs on other hosts, and which lines of the output are of which host.

    $ for h in db1 db2; do echo "== $h"; ssh $h cat /sys/kernel/mm/transparent_hugepage/enabled; done
    == db1
    [always] madvise never
    == db2
    always madvise [never]

A line that the command prints before the output names the host, also where the hosts are not known (`$(cat hosts)`);
without one, as many lines as hosts are of each in turn, or each output begins with a line of the same form.
`oc debug node/NAME -- chroot /host` and `kubectl debug` do the same on nodes, and `kubectl exec` in pods; Salt prints
the name and a colon above the output of each. Source: ssh(1), oc debug --help, Salt's nested outputter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from thpdiag.detect.expansion import Part, Step, first_lines
from thpdiag.detect.shell import MAX_COMMAND_CHARS

_HOST = r"(?P<host>[A-Za-z0-9][\w.-]{0,252}|\$\{?\w{1,60}\}?)"
_BEFORE = (  # a command that runs a command
    r"(?:(?:[A-Z_]\w{0,40}=\S*+|time|nohup|command|env|!|(?:sudo|doas)(?:\s+-(?:u\s+\S++|[A-Za-z]++)){0,6}|timeout\s+\S++"
    r"|nice(?:\s+-n\s*\S++)?|stdbuf(?:\s+-\S++){0,6}|sshpass\s+-(?:[pf]\s*\S++|e))\s++){0,6}(?:\\|/(?:usr/)?bin/)?"
)
_POD_OPTION = r"(?:-[nc]\s+\S++\s++|--(?:namespace|container|context)\s+\S++\s++|-{1,2}[^\s-]\S*+\s++){0,10}"
_CALLS = (
    re.compile(
        rf"{_BEFORE}\bssh\s+"
        r"(?:-[bcDeFIiJLlmOopQRSWw]\s*\S++\s++|-[46AaCfGgKkMNnqsTtVvXxYy]++\s++|--\s++){0,20}"
        rf"['\"]?(?:[\w.-]{{1,60}}@)?{_HOST}['\"]?(?:\s+-(?:l\s*\S++|[46AaCfGgKkMNnqsTtVvXxYy]++)(?=\s)){{0,4}}"
        r"\s+(?P<command>[^\s-].*)",
        re.DOTALL,
    ),
    re.compile(
        rf"{_BEFORE}\b(?:rsh|mosh|(?:vagrant|juju|virtctl|gcloud\s+compute)\s+ssh|(?:multipass|virtctl)\s+exec|oc\s+rsh)\s+"
        rf"{_HOST}\s+(?:--\s+|--command=|-c\s+)?(?P<command>[^\s-].*)",
        re.DOTALL,
    ),
    re.compile(  # a pod is where its node is, which nothing tells
        rf"{_BEFORE}\b(?:oc|kubectl)\s+{_POD_OPTION}exec\s+{_POD_OPTION}(?:pod/)?{_HOST}\s+{_POD_OPTION}--\s+"
        r"(?P<command>\S.*)",
        re.DOTALL,
    ),
    re.compile(
        rf"(?:oc|kubectl)\s+debug\s+(?:-\S++\s++){{0,20}}(?:node/)?{_HOST}\s+(?:-\S*[^\s-]\S*\s+){{0,20}}--\s+"
        r"(?:chroot\s+/host\s+)?(?P<command>\S.*)",
        re.DOTALL,
    ),
)
_OF_EACH = re.compile(
    r"\b(?:for|read)\s+(?:-\w+\s+)?(?P<name>\w{1,60})\b.{1,400}?\b(?:ssh|oc|kubectl)\b[^;|]{0,80}?\$\{?(?P=name)\b"
    r"|\b(?:xargs|parallel)\s.{0,200}?\bssh\s",
    re.DOTALL,
)
_SALT = re.compile(
    r"\bsalt(?:-ssh)?\s.{0,200}?\bcmd\.run\s+(?P<quote>['\"])(?P<command>.{1,2000}?)(?P=quote)", re.DOTALL
)
_ECHO = re.compile(r"\becho\s+(?:-\w{1,3}\s+)?(?P<text>\"[^\"]{1,200}\"|[^;|&\"']{1,200})")


class RemoteCommand(NamedTuple):
    """What is run on a host; `mark`: the line that is printed before it, if that is known."""

    host: str
    command: str
    mark: str = ""


class RemoteOutput(NamedTuple):
    """What a host printed: the line that announces it, and its first line, by their numbers."""

    host: str
    command: str
    mark: int
    first: int


def remote_commands(steps: Sequence[Step] | None, command: str) -> list[RemoteCommand]:
    """What a command line runs on other hosts, in turn; one without a host if these depend on what is not known."""
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
    # What one variable names is as good as the host of the shell.
    return [_inner(command)] if _OF_EACH.search(command) else []


def without_remote(command: str) -> str:
    """The command line as its only remote host runs it."""
    for call in _CALLS:
        command = call.sub(lambda found: ("sh -c " if found["command"][0] in "'\"" else "") + found["command"], command)
    return command


def remote_outputs(calls: Sequence[RemoteCommand], command: str, lines: Sequence[str]) -> list[RemoteOutput] | None:
    """Of each host what it printed; None if that cannot be told."""
    if not all(call.host for call in calls):
        return _announced_outputs(calls[0].command, command, lines)
    parts = [Part((), (*(Step(one, line=one) for one in (call.mark,) if one), Step(call.command))) for call in calls]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    marked = all(call.mark for call in calls)
    starts = filled if len(filled) == len(calls) and not marked else first_lines(parts, lines, traced=False)
    if not starts:
        return None
    return [RemoteOutput(call.host, call.command, at, at + marked) for call, at in zip(calls, starts, strict=True)]


def _announced_outputs(inner: str, command: str, lines: Sequence[str]) -> list[RemoteOutput] | None:
    """The same for hosts that only the lines name which `echo` prints of the loop's variable, or Salt."""
    before, behind = "", [":"]
    if not _SALT.search(command):
        loop, echo = _OF_EACH.search(command), _ECHO.search(command)
        if loop is None or echo is None or not loop["name"]:
            return None
        name = re.compile(rf"\$(?:{loop['name']}\b|\{{{loop['name']}\}})")
        before, *behind = name.split(echo["text"].strip().strip('"'))
        if len(behind) != 1:
            return None
    form = re.compile(rf"{re.escape(before)}(?P<host>[A-Za-z0-9][\w.-]{{0,252}}){re.escape(behind[0])}")
    named = [(at, found["host"]) for at, line in enumerate(lines) if (found := form.fullmatch(line.strip()))]
    return [RemoteOutput(host, inner, at, at + 1) for at, host in named] or None


def _call(text: str) -> RemoteCommand | None:
    found = next(filter(None, (call.match(text) for call in _CALLS)), None)
    if found is None:
        return None
    return RemoteCommand("" if "$" in found["host"] else found["host"], _unquoted(found["command"]))


def _inner(command: str) -> RemoteCommand:
    """What a loop runs on hosts that are not known."""
    found = next(filter(None, (call.search(command) for call in _CALLS)), None)
    return RemoteCommand("", _unquoted(found["command"]) if found else "")


def _unquoted(command: str) -> str:
    quote = command[0]
    if quote in "'\"" and command.find(quote, 1) > 0:
        return command[1 : command.find(quote, 1)]
    return re.split(r"\s*(?:;|&&)", command, maxsplit=1)[0]
