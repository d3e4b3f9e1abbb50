"""What the verdict lacks, as sections of the capture script and as things that somebody has to do by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.capture import Section, fewest, script_of, sections
from thpdiag.reports import verdict
from thpdiag.result.requests import request

Document = Mapping[str, Any]
SECONDS, AT_ONCE = 120, 1  # how long the script runs: where something is recorded over time, and where nothing is
INTERVAL = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """`hosts` are the completed documents of those that lack something, `names` the names that they lack."""

    hosts: Sequence[Document]
    names: Sequence[str]
    sections: Sequence[Section]
    by_hand: Sequence[str]

    @property
    def seconds(self) -> int:
        """How long the script runs if nobody says otherwise."""
        return SECONDS if any(section.lasts for section in self.sections) else AT_ONCE

    def supplied(self, section: Section) -> list[str]:
        """The names that a section is taken for."""
        return [name for name in self.names if section.gives(name)]

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
    return Wanted(hosts, names, fewest(names), _by_hand(hosts, names))


def missing(host: Document) -> list[str]:
    """The names that the verdict lacks; of documents that do not tell them, all that open rules lack."""
    told = host["ask"]["missing"]
    return list(told) or [name for unknown in host["unknown"] for name in unknown["missing"]]


def _by_hand(hosts: Iterable[Document], names: Iterable[str]) -> list[str]:
    """What no script records: a switch of a setting, the log of an application, the symbols of an old recording."""
    recorded = {request(name) for name in names if _recorded(name)}
    others = [request(name) for name in names if not _recorded(name)]
    told = [command for host in hosts for command in verdict.ask(host)[1]]
    of_names = recorded | set(others)
    return list(dict.fromkeys(c for c in (*(t for t in told if t not in of_names), *others) if c and c not in recorded))


def _recorded(name: str) -> bool:
    return any(section.gives(name) for section in sections())
