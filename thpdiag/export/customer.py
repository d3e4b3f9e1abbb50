"""The data that a verdict lacks, as sections of the capture script and manual steps, and the letter that asks for it.

Without a verdict nearly everything is missing. The first request has the few sections that help with most of the
questions that can lead to a verdict; the others are named as possible later requests.

The letter is text for the customer's ticket, at 80 columns, with the script at its end. It describes what is known in
two sentences, what is missing and which question that answers, how to run the script and how long, its cost for the
host, what it records and what it leaves out: people read it before they run the script as root.
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

SECONDS, AT_ONCE = 120, 1  # duration of the script, with and without recordings over time
INTERVAL = 10
MAX_SECTIONS = 4  # of the first request, in addition to those of every script
_DECISIVE = ("root_cause", "alternative")  # roles of a lead finding


@dataclass(frozen=True, slots=True)
class Wanted:
    """The missing data. `hosts` are the complete documents of the hosts that lack something.

    `ranked` are the sections of the script that provide it, the most useful first; `later` those of a later request.
    """

    hosts: Sequence[Result]
    ranked: Sequence[Section]
    later: Sequence[Section]
    by_hand: Sequence[str]

    @property
    def sections(self) -> list[Section]:
        """The sections of the script in its order."""
        always = [section.name for section in sections() if section.always and self.ranked]
        return with_companions({*always, *(section.name for section in self.ranked)})

    @property
    def was_run(self) -> bool:
        """Whether the script was run before, and its data shows nothing."""
        return any(REPEAT_COMMAND in messages.customer_request(host)[1] for host in self.hosts)

    @property
    def seconds(self) -> int:
        """The default duration of the script."""
        if not any(section.lasts for section in self.sections):
            return AT_ONCE
        return REPEAT_SECONDS if self.was_run else SECONDS

    def script(self, seconds: int = 0, interval: int = INTERVAL, pid: str = "") -> str:
        """Return the script; empty if nothing can be recorded."""
        if not self.sections:
            return ""
        seconds = seconds or self.seconds
        return script_of(self.sections, (), seconds, min(interval, seconds), pid)


def missing_questions(document: AnyResult) -> Wanted:
    """Return what all hosts of a document lack together."""
    hosts = [host for host in messages.hosts(document) if messages.customer_request(host)[1]]
    names = list(dict.fromkeys(name for host in hosts for name in missing(host)))
    ranked = _rank_sections(min_sections(names), hosts)
    first = ranked if any(map(messages.lead_finding, hosts)) else _first_request(ranked)
    taken = with_companions({section.name for section in first})
    return Wanted(hosts, first, [section for section in ranked if section not in taken], _by_hand(hosts, names))


def _first_request(ranked: Sequence[Section]) -> list[Section]:
    """Return the sections of the first request; a single further one is included."""
    counted = [section for section in ranked if not section.always]
    waiting = counted[MAX_SECTIONS:] if len(counted) > MAX_SECTIONS + 1 else []
    return [section for section in ranked if section not in waiting]


def _rank_sections(candidates: Iterable[Section], hosts: Sequence[Result]) -> list[Section]:
    """Order sections so that each helps with most of the questions that those before do not; drop useless ones."""
    open_ = questions = [names for host in hosts for names in _questions(host)]
    remaining = [section for section in candidates if _count_questions(section, questions)]
    ranked: list[Section] = []
    while remaining:
        ranked.append(
            max(remaining, key=lambda section: (_count_questions(section, open_), _count_questions(section, questions)))
        )
        remaining.remove(ranked[-1])
        open_ = [names for names in open_ if not any(map(ranked[-1].gives, names))]
    return ranked


def _count_questions(section: Section, questions: Iterable[Sequence[str]]) -> int:
    return sum(1 for names in questions if any(map(section.gives, names)))


def _questions(host: Result) -> list[list[str]]:
    """Return the missing names of each open question; with a lead finding, or without questions, each name is one."""
    names = missing(host)
    roles = {rule.id: rule.role for rule in host.rules}
    decisive = [u for u in host.unknown if roles.get(u.rule) in (*_DECISIVE, None)]
    questions = [[name for name in unknown.missing if name in names] for unknown in decisive]
    return [[name] for name in names] if messages.lead_finding(host) or not any(questions) else questions


def missing(host: Result) -> list[str]:
    """Return the names that the verdict lacks; in documents without them all that undecided rules lack."""
    return list(host.ask.missing) or [name for unknown in host.unknown for name in unknown.missing]


def _by_hand(hosts: Iterable[Result], names: Iterable[str]) -> list[str]:
    """Return what no script records: a changed setting, the log of an application, symbols of an old recording."""
    recorded = {request(name) for name in names if _is_recorded(name)}
    others = [request(name) for name in names if not _is_recorded(name)]
    asked = [command for host in hosts for command in messages.customer_request(host)[1]]
    covered = {*recorded, *others, *map(over_time, recorded), REPEAT_COMMAND}
    return list(dict.fromkeys(c for c in (*(t for t in asked if t not in covered), *others) if c and c not in recorded))


def _is_recorded(name: str) -> bool:
    return any(section.gives(name) for section in sections())


FILE = "thp-capture.sh"
FENCE = "```"
MAX_HOSTS = 5
MAX_REASONS = 3
_PROCESS = re.compile(r"(.{1,64}) \(\d{1,9}\)")
NOTHING = "Nothing is missing: the verdict needs no further data."
_NOT_READ = (
    "memory and files of programs, environment variables, network traffic, contents of databases or logs of "
    "applications"
)


def letter(wanted: Wanted, seconds: int = 0) -> str:
    """Return the text without the script."""
    seconds = seconds or wanted.seconds
    parts = [_host_sentences(wanted), _missing(wanted)]
    if wanted.sections:
        parts += [_run(wanted, seconds), _cost(wanted.sections), _privacy(wanted.sections)]
    if wanted.by_hand:
        parts.append(_letter_by_hand(wanted))
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts) + "\n"


def with_script(text: str, script: str) -> str:
    """Return text and script; the fence around the script is that of Markdown."""
    return f"{text}\n{FENCE}sh\n{script}{FENCE}\n" if script else text


def _host_sentences(wanted: Wanted) -> Iterator[str]:
    """Yield two sentences for each host."""
    yield "Known so far"
    for host in wanted.hosts[:MAX_HOSTS]:
        name = messages.name(host)
        about = "The host" if name == messages.NAMELESS else f"Host {name}"
        yield from fold(_text(f"{about}: {messages.sentence(host)} {_so_far(host)}"), "- ")
    if len(wanted.hosts) > MAX_HOSTS:
        yield f"- and {len(wanted.hosts) - MAX_HOSTS} more hosts"


def _so_far(host: Result) -> str:
    finding = messages.lead_finding(host)
    if finding:
        reason = messages.confidence_reason(finding)
        return f"This is {finding.confidence}, not certain: {reason[:1].lower()}{reason[1:]}"
    denials = len(messages.ruled_out(host))
    ruled = f"rules out {messages.plural(denials, 'explanation')} and " if denials else ""
    return f"What was sent {ruled}leaves {messages.plural(len(host.unknown), 'question')} open."


def _missing(wanted: Wanted) -> Iterator[str]:
    """Yield what to record, one line each, the most useful first, and what may be requested later."""
    status = {host.verdict.status for host in wanted.hosts}
    yield "What is missing, and why" if status & {"found", "cannot_tell"} else "If the host is slow anyway"
    if wanted.was_run:
        yield from fold("What was recorded does not show it. Record again, for longer, while the host is slow:")
    for section in wanted.ranked:
        yield from fold(f"{section.what}: {section.tells}", "- ", "  ")
    if wanted.later:
        more = ", ".join(section.what for section in wanted.later)
        yield from fold(f"If that does not decide it, we will ask for {more}.")
    because = dict.fromkeys(b for host in wanted.hosts for unknown in _open_rules(host) for b in unknown.because)
    for reason in list(because)[:MAX_REASONS]:
        yield from fold(_text(reason), "  ")


def _open_rules(host: Result) -> list[UnknownRule]:
    """Return the undecided rules that the verdict waits for; with a lead finding, others make no difference."""
    if messages.lead_finding(host):
        return []
    names = set(missing(host))
    return [unknown for unknown in host.unknown if names & set(unknown.missing)]


def _run(wanted: Wanted, seconds: int) -> Iterator[str]:
    names = ", ".join(name for host in wanted.hosts[:MAX_HOSTS] if (name := messages.name(host)) != messages.NAMELESS)
    where = f"on the host ({names})" if names else "on the host"
    has_recordings = any(section.lasts for section in wanted.sections)
    yield "How to record it"
    yield from fold(_text(f"1. Save the script below as {FILE} {where}."), "", "   ")
    yield from fold(f"2. Read it. `sh {FILE} -n` prints what it would do, and does nothing.", "", "   ")
    when = "WHILE THE HOST IS SLOW, as root" if has_recordings else "As root, at any time"
    yield from fold(f"3. {when}: `sh {FILE}`. It takes about {seconds + 20} seconds; Ctrl-C ends it early.", "", "   ")
    if process := _process(wanted):
        text = f"If {process} is not among the largest processes, add `-p PID` with its process number."
        yield from fold(_text(text), "   ")
    yield from fold("4. Send us the file thp-capture-HOST-DATE.tar.gz whose name it prints at the end.", "", "   ")


def _process(wanted: Wanted) -> str:
    """Return the process that a finding is about, if the script records processes."""
    if not any(section.name == "processes" for section in wanted.sections):
        return ""
    matches = (_PROCESS.fullmatch(f.entity or "") for host in wanted.hosts if (f := messages.lead_finding(host)))
    return next((match[1] for match in matches if match), "")


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
    """Return untrusted text on one line that cannot end the block of the script."""
    return prose(text).replace(FENCE, "'''")
