"""What the verdict lacks, as sections of the capture script and as things that somebody has to do by hand.

Where nothing is decided, nearly everything is missing. The first request is for the few sections that touch most of the
questions whose answer can be the verdict; the others are named as what may follow.

The text for the customer's ticket, at 80 columns, with the script at its end.

It says what is known in two sentences, what is missing and which question that decides, how to run the script and how
long, what it costs the host, what it names and what it leaves out: people read it before they run it as root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from thpdiag.diagnosis.capture import Section, min_sections, script_of, sections, shows, with_companions
from thpdiag.diagnosis.missing_data import REPEAT_COMMAND, REPEAT_SECONDS, over_time, request
from thpdiag.model.result import Result, UnknownRule
from thpdiag.report import AnyResult, messages
from thpdiag.report.escaping import lines, prose
from thpdiag.report.layout import fold

SECONDS, AT_ONCE = 120, 1  # how long the script runs: where something is recorded over time, and where nothing is
INTERVAL = 10
MOST = 4  # sections of the first request, beside those that every script has
_DECISIVE = ("root_cause", "alternative")  # roles that a verdict can have


@dataclass(frozen=True, slots=True)
class Wanted:
    """`hosts` are the completed documents of those that lack something.

    `ranked` are the sections of the script that supply something, the most useful first; `later` those that wait.
    """

    hosts: Sequence[Result]
    ranked: Sequence[Section]
    later: Sequence[Section]
    by_hand: Sequence[str]

    @property
    def sections(self) -> list[Section]:
        """What the script records, in the order in which it does."""
        always = [section.name for section in sections() if section.always and self.ranked]
        return with_companions({*always, *(section.name for section in self.ranked)})

    @property
    def was_run(self) -> bool:
        """Whether the script has run already, and what it recorded shows nothing."""
        return any(REPEAT_COMMAND in messages.customer_request(host)[1] for host in self.hosts)

    @property
    def seconds(self) -> int:
        """How long the script runs if nobody says otherwise."""
        if not any(section.lasts for section in self.sections):
            return AT_ONCE
        return REPEAT_SECONDS if self.was_run else SECONDS

    def script(self, seconds: int = 0, interval: int = INTERVAL, pid: str = "") -> str:
        """The script; empty if there is nothing that one could record."""
        if not self.sections:
            return ""
        seconds = seconds or self.seconds
        return script_of(self.sections, (), seconds, min(interval, seconds), pid)


def missing_questions(document: AnyResult) -> Wanted:
    """What all hosts of a document lack together."""
    hosts = [host for host in messages.hosts(document) if messages.customer_request(host)[1]]
    names = list(dict.fromkeys(name for host in hosts for name in missing(host)))
    ranked = _rank_sections(min_sections(names), hosts)
    first = ranked if any(map(messages.leading, hosts)) else _first(ranked)
    taken = with_companions({section.name for section in first})
    return Wanted(hosts, first, [section for section in ranked if section not in taken], _by_hand(hosts, names))


def _first(ranked: Sequence[Section]) -> list[Section]:
    """Those of the first request; a single one does not wait for a second."""
    counted = [section for section in ranked if not section.always]
    waiting = counted[MOST:] if len(counted) > MOST + 1 else []
    return [section for section in ranked if section not in waiting]


def _rank_sections(found: Iterable[Section], hosts: Sequence[Result]) -> list[Section]:
    """Each next the section that touches most of the questions that none before it touches; those of use only."""
    open_ = questions = [names for host in hosts for names in _questions(host)]
    left = [section for section in found if _count_questions(section, questions)]
    ranked: list[Section] = []
    while left:
        ranked.append(
            max(left, key=lambda section: (_count_questions(section, open_), _count_questions(section, questions)))
        )
        left.remove(ranked[-1])
        open_ = [names for names in open_ if not any(map(ranked[-1].gives, names))]
    return ranked


def _count_questions(section: Section, questions: Iterable[Sequence[str]]) -> int:
    return sum(1 for names in questions if any(map(section.gives, names)))


def _questions(host: Result) -> list[list[str]]:
    """What each open question lacks; where a finding leads, or no question tells it, each name is one."""
    names = missing(host)
    roles = {rule.id: rule.role for rule in host.rules}
    counts = [u for u in host.unknown if roles.get(u.rule) in (*_DECISIVE, None)]
    found = [[name for name in unknown.missing if name in names] for unknown in counts]
    return [[name] for name in names] if messages.leading(host) or not any(found) else found


def missing(host: Result) -> list[str]:
    """The names that the verdict lacks; of documents that do not tell them, all that open rules lack."""
    return list(host.ask.missing) or [name for unknown in host.unknown for name in unknown.missing]


def _by_hand(hosts: Iterable[Result], names: Iterable[str]) -> list[str]:
    """What no script records: a switch of a setting, the log of an application, the symbols of an old recording."""
    recorded = {request(name) for name in names if _is_recorded(name)}
    others = [request(name) for name in names if not _is_recorded(name)]
    told = [command for host in hosts for command in messages.customer_request(host)[1]]
    of_names = {*recorded, *others, *map(over_time, recorded), REPEAT_COMMAND}
    return list(dict.fromkeys(c for c in (*(t for t in told if t not in of_names), *others) if c and c not in recorded))


def _is_recorded(name: str) -> bool:
    return any(section.gives(name) for section in sections())


FILE = "thp-capture.sh"
FENCE = "```"
MOST_HOSTS = 5
MOST_REASONS = 3
_PROCESS = re.compile(r"(.{1,64}) \(\d{1,9}\)")
NOTHING = "Nothing is missing: the verdict needs no further data."
_NOT_READ = (
    "memory and files of programs, environment variables, network traffic, contents of databases or logs of "
    "applications"
)


def letter(wanted: Wanted, seconds: int = 0) -> str:
    """The text without the script."""
    seconds = seconds or wanted.seconds
    parts = [_host_sentences(wanted), _missing(wanted)]
    if wanted.sections:
        parts += [_run(wanted, seconds), _cost(wanted.sections), _privacy(wanted.sections)]
    if wanted.by_hand:
        parts.append(_letter_by_hand(wanted))
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts) + "\n"


def with_script(text: str, script: str) -> str:
    """Both in one piece; the marks around the script are those of Markdown."""
    return f"{text}\n{FENCE}sh\n{script}{FENCE}\n" if script else text


def _host_sentences(wanted: Wanted) -> Iterator[str]:
    """Two sentences for each host."""
    yield "Known so far"
    for host in wanted.hosts[:MOST_HOSTS]:
        name = messages.name(host)
        about = "The host" if name == messages.NAMELESS else f"Host {name}"
        yield from fold(_text(f"{about}: {messages.sentence(host)} {_so_far(host)}"), "- ")
    if len(wanted.hosts) > MOST_HOSTS:
        yield f"- and {len(wanted.hosts) - MOST_HOSTS} more hosts"


def _so_far(host: Result) -> str:
    finding = messages.leading(host)
    if finding:
        reason = messages.confidence_reason(finding)
        return f"This is {finding.confidence}, not certain: {reason[:1].lower()}{reason[1:]}"
    out = len(messages.ruled_out(host))
    ruled = f"rules out {messages.plural(out, 'explanation')} and " if out else ""
    return f"What was sent {ruled}leaves {messages.plural(len(host.unknown), 'question')} open."


def _missing(wanted: Wanted) -> Iterator[str]:
    """What to record, a line each with what it tells, the most useful first; what may follow."""
    status = {host.verdict.status for host in wanted.hosts}
    yield "What is missing, and why" if status & {"found", "cannot_tell"} else "If the host is slow anyway"
    if wanted.was_run:
        yield from fold("What was recorded does not show it. Record again, for longer, while the host is slow:")
    for section in wanted.ranked:
        yield from fold(f"{section.what}: {section.tells}", "- ", "  ")
    if wanted.later:
        more = ", ".join(section.what for section in wanted.later)
        yield from fold(f"If that does not decide it, we will ask for {more}.")
    because = dict.fromkeys(b for host in wanted.hosts for unknown in _open(host) for b in unknown.because)
    for reason in list(because)[:MOST_REASONS]:
        yield from fold(_text(reason), "  ")


def _open(host: Result) -> list[UnknownRule]:
    """The open rules that the verdict waits for; where a finding leads, others make no difference."""
    if messages.leading(host):
        return []
    names = set(missing(host))
    return [unknown for unknown in host.unknown if names & set(unknown.missing)]


def _run(wanted: Wanted, seconds: int) -> Iterator[str]:
    names = ", ".join(name for host in wanted.hosts[:MOST_HOSTS] if (name := messages.name(host)) != messages.NAMELESS)
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
    yield from fold("4. Send us the file thp-capture-HOST-DATE.tar.gz whose name it prints at the end.", "", "   ")


def _process(wanted: Wanted) -> str:
    """The process that a finding is about, where processes are watched."""
    if not any(section.name == "processes" for section in wanted.sections):
        return ""
    found = (_PROCESS.fullmatch(f.entity or "") for host in wanted.hosts if (f := messages.leading(host)))
    return next((match[1] for match in found if match), "")


def _cost(sections: Sequence[Section]) -> Iterator[str]:
    yield "What it costs the host"
    yield from fold(
        "It changes no setting and installs nothing; it writes only to a new folder in the current directory."
    )
    for section in sections:
        if section.load:
            yield from fold(f"{section.load}.", "- ", "  ")


def _privacy(sections: Sequence[Section]) -> Iterator[str]:
    yield "What it records, and what it does not collect"
    yield from fold(f"The archive contains: {shows(sections)}.")
    without = [] if any(section.name == "tasks" for section in sections) else ["command lines of processes"]
    yield from fold(f"It does not read: {', '.join([*without, _NOT_READ])}.")


def _letter_by_hand(wanted: Wanted) -> Iterator[str]:
    yield "What no script can record" if wanted.sections else "By hand"
    for command in wanted.by_hand:
        first, *rest = lines(command)
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)


def _text(text: str) -> str:
    """Words of strangers on one line, which cannot end the block of the script."""
    return prose(text).replace(FENCE, "'''")
