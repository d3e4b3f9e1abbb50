"""The text for the customer's ticket, at 80 columns, with the script at its end.

It says what is known in two sentences, what is missing and which question that decides, how to run the script and how
long, what it costs the host, what it names and what it leaves out: people read it before they run it as root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.capture import Section, shows
from thpdiag.reports import confidence, verdict
from thpdiag.reports.columns import fold
from thpdiag.reports.visible import lines, prose
from thpdiag.ticket.wanted import Wanted, missing

Document = Mapping[str, Any]
FILE = "thp-capture.sh"
FENCE = "```"
MOST_HOSTS = 5
MOST_REASONS = 3
_PROCESS = re.compile(r"(.{1,64}) \(\d{1,9}\)")
NOTHING = "Nothing is missing: the verdict needs no further data."
_NOT_READ = (
    "memory and files of programs, environment variables, what goes over the network, contents of databases or logs of "
    "applications"
)


def letter(wanted: Wanted, seconds: int = 0) -> str:
    """The text without the script."""
    seconds = seconds or wanted.seconds
    parts = [_known(wanted), _missing(wanted)]
    if wanted.sections:
        parts += [_run(wanted, seconds), _cost(wanted.sections), _privacy(wanted.sections)]
    if wanted.by_hand:
        parts.append(_by_hand(wanted))
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts) + "\n"


def with_script(text: str, script: str) -> str:
    """Both in one piece; the marks around the script are those of Markdown."""
    return f"{text}\n{FENCE}sh\n{script}{FENCE}\n" if script else text


def _known(wanted: Wanted) -> Iterator[str]:
    """Two sentences for each host."""
    yield "What we know so far"
    for host in wanted.hosts[:MOST_HOSTS]:
        name = verdict.name(host)
        about = "The host" if name == verdict.NAMELESS else f"Host {name}"
        yield from fold(_text(f"{about}: {verdict.sentence(host)} {_so_far(host)}"), "- ")
    if len(wanted.hosts) > MOST_HOSTS:
        yield f"- and {len(wanted.hosts) - MOST_HOSTS} more hosts"


def _so_far(host: Document) -> str:
    finding = verdict.leading(host)
    if finding:
        return f"This is {finding['confidence']}, not certain: {_lower(confidence.why(finding))}"
    out = len(verdict.ruled_out(host))
    ruled = f"rules out {verdict.plural(out, 'explanation')} and " if out else ""
    return f"What was sent {ruled}leaves {verdict.plural(len(host['unknown']), 'question')} open."


def _missing(wanted: Wanted) -> Iterator[str]:
    """What to record, a line each with what it tells, the most useful first; what may follow."""
    status = {host["verdict"]["status"] for host in wanted.hosts}
    yield "What is missing, and why" if status & {"found", "cannot_tell"} else "If the host is slow all the same"
    if wanted.again:
        yield from fold("What was recorded does not show it. Once more, while the host is slow, and for longer:")
    for section in wanted.ranked:
        yield from fold(f"{section.what}: {section.tells}", "- ", "  ")
    if wanted.later:
        more = ", ".join(section.what for section in wanted.later)
        yield from fold(f"If that does not decide it, we shall ask for {more}.")
    because = dict.fromkeys(b for host in wanted.hosts for unknown in _open(host) for b in unknown["because"])
    for reason in list(because)[:MOST_REASONS]:
        yield from fold(_text(reason), "  ")


def _open(host: Document) -> list[Mapping[str, Any]]:
    """The open rules that the verdict waits for; where a finding leads, others make no difference."""
    if verdict.leading(host):
        return []
    names = set(missing(host))
    return [unknown for unknown in host["unknown"] if names & set(unknown["missing"])]


def _run(wanted: Wanted, seconds: int) -> Iterator[str]:
    names = ", ".join(name for host in wanted.hosts[:MOST_HOSTS] if (name := verdict.name(host)) != verdict.NAMELESS)
    where = f"on the host ({names})" if names else "on the host"
    timely = any(section.lasts for section in wanted.sections)
    yield "How to record it"
    yield from fold(_text(f"1. Save the script below as {FILE} {where}."), "", "   ")
    yield from fold(f"2. Read it. `sh {FILE} -n` prints what it would do, and does nothing.", "", "   ")
    when = "WHILE THE HOST IS SLOW, as root" if timely else "As root, at any time"
    yield from fold(f"3. {when}: `sh {FILE}`. It takes about {seconds + 20} seconds; Ctrl-C ends it early.", "", "   ")
    if process := _process(wanted):
        text = f"If {process} is not among the largest processes, add `-p PID` with its process number."
        yield from fold(_text(text), "   ")
    yield from fold("4. Send us the file thp-capture-HOST-DATE.tar.gz that it names at its end.", "", "   ")


def _process(wanted: Wanted) -> str:
    """The process that a finding is about, where processes are watched."""
    if not any(section.name == "processes" for section in wanted.sections):
        return ""
    found = (_PROCESS.fullmatch(f["entity"] or "") for host in wanted.hosts if (f := verdict.leading(host)))
    return next((match[1] for match in found if match), "")


def _cost(sections: Sequence[Section]) -> Iterator[str]:
    yield "What it costs the host"
    yield from fold("It changes no setting and installs nothing; it writes only to a new folder where it is started.")
    for section in sections:
        if section.load:
            yield from fold(f"{section.load}.", "- ", "  ")


def _privacy(sections: Sequence[Section]) -> Iterator[str]:
    yield "What it names, and what it does not collect"
    yield from fold(f"In the result stand {shows(sections)}.")
    without = [] if any(section.name == "tasks" for section in sections) else ["command lines of processes"]
    yield from fold(f"It does not read: {', '.join([*without, _NOT_READ])}.")


def _by_hand(wanted: Wanted) -> Iterator[str]:
    yield "What no script can record" if wanted.sections else "By hand"
    for command in wanted.by_hand:
        first, *rest = lines(command)
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _text(text: str) -> str:
    """Words of strangers on one line, which cannot end the block of the script."""
    return prose(text).replace(FENCE, "'''")
