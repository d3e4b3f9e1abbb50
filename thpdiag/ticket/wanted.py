"""What the verdict lacks, as sections of the capture script and as things that somebody has to do by hand.

Where nothing is decided, nearly everything is missing. The first request is for the few sections that touch most of the
questions whose answer can be the verdict; the others are named as what may follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.capture import Section, fewest, script_of, sections, with_beside
from thpdiag.reports import verdict
from thpdiag.result.requests import AGAIN, LONGER, request

Document = Mapping[str, Any]
SECONDS, AT_ONCE = 120, 1  # how long the script runs: where something is recorded over time, and where nothing is
INTERVAL = 10
MOST = 4  # sections of the first request, beside those that every script has
_DECISIVE = ("root_cause", "alternative")  # roles that a verdict can have


@dataclass(frozen=True, slots=True)
class Wanted:
    """`hosts` are the completed documents of those that lack something.

    `ranked` are the sections of the script that supply something, the most useful first; `later` those that wait.
    """

    hosts: Sequence[Document]
    ranked: Sequence[Section]
    later: Sequence[Section]
    by_hand: Sequence[str]

    @property
    def sections(self) -> list[Section]:
        """What the script records, in the order in which it does."""
        always = [section.name for section in sections() if section.always and self.ranked]
        return with_beside({*always, *(section.name for section in self.ranked)})

    @property
    def again(self) -> bool:
        """Whether the script has run already, and what it recorded shows nothing."""
        return any(AGAIN in verdict.ask(host)[1] for host in self.hosts)

    @property
    def seconds(self) -> int:
        """How long the script runs if nobody says otherwise."""
        if not any(section.lasts for section in self.sections):
            return AT_ONCE
        return LONGER if self.again else SECONDS

    def script(self, seconds: int = 0, interval: int = INTERVAL, pid: str = "") -> str:
        """The script; empty if there is nothing that one could record."""
        if not self.sections:
            return ""
        seconds = seconds or self.seconds
        return script_of(self.sections, (), seconds, min(interval, seconds), pid)


def wanted(document: Document) -> Wanted:
    """What all hosts of a document lack together."""
    hosts = [host for host in verdict.hosts(document) if verdict.ask(host)[1]]
    names = list(dict.fromkeys(name for host in hosts for name in missing(host)))
    ranked = _ranked(fewest(names), hosts)
    first = ranked if any(map(verdict.leading, hosts)) else _first(ranked)
    taken = with_beside({section.name for section in first})
    return Wanted(hosts, first, [section for section in ranked if section not in taken], _by_hand(hosts, names))


def _first(ranked: Sequence[Section]) -> list[Section]:
    """Those of the first request; a single one does not wait for a second."""
    counted = [section for section in ranked if not section.always]
    waiting = counted[MOST:] if len(counted) > MOST + 1 else []
    return [section for section in ranked if section not in waiting]


def _ranked(found: Iterable[Section], hosts: Sequence[Document]) -> list[Section]:
    """Each next the section that touches most of the questions that none before it touches; those of use only."""
    open_ = questions = [names for host in hosts for names in _questions(host)]
    left = [section for section in found if _touched(section, questions)]
    ranked: list[Section] = []
    while left:
        ranked.append(max(left, key=lambda section: (_touched(section, open_), _touched(section, questions))))
        left.remove(ranked[-1])
        open_ = [names for names in open_ if not any(map(ranked[-1].gives, names))]
    return ranked


def _touched(section: Section, questions: Iterable[Sequence[str]]) -> int:
    return sum(1 for names in questions if any(map(section.gives, names)))


def _questions(host: Document) -> list[list[str]]:
    """What each open question lacks; where a finding leads, or no question tells it, each name is one."""
    names = missing(host)
    roles = {rule["id"]: rule["role"] for rule in host["rules"]}
    counts = [u for u in host["unknown"] if roles.get(u["rule"]) in (*_DECISIVE, None)]
    found = [[name for name in unknown["missing"] if name in names] for unknown in counts]
    return [[name] for name in names] if verdict.leading(host) or not any(found) else found


def missing(host: Document) -> list[str]:
    """The names that the verdict lacks; of documents that do not tell them, all that open rules lack."""
    told = host["ask"]["missing"]
    return list(told) or [name for unknown in host["unknown"] for name in unknown["missing"]]


def _by_hand(hosts: Iterable[Document], names: Iterable[str]) -> list[str]:
    """What no script records: a switch of a setting, the log of an application, the symbols of an old recording."""
    recorded = {request(name) for name in names if _recorded(name)}
    others = [request(name) for name in names if not _recorded(name)]
    told = [command for host in hosts for command in verdict.ask(host)[1]]
    of_names = recorded | {*others, AGAIN}
    return list(dict.fromkeys(c for c in (*(t for t in told if t not in of_names), *others) if c and c not in recorded))


def _recorded(name: str) -> bool:
    return any(section.gives(name) for section in sections())
