"""What the findings of a result document cite, and which files of a bundle it speaks of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thpdiag.reports.verdict import hosts, name


@dataclass(frozen=True, slots=True)
class Cited:
    """A place in a customer's file that a finding cites; `line` counts from 1 (a byte where there are no lines)."""

    member: str
    line: int | None
    rule: str
    text: str
    excerpt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding with the places that it cites, each once."""

    host: str
    rule: str
    title: str
    severity: str
    places: tuple[Cited, ...]


def findings(document: Mapping[str, Any]) -> list[Finding]:
    """Of all hosts, those that cite something; what only describes a host comes last."""
    return [
        Finding(name(host), one["rule"], one["title"] or one["mechanism"] or "", one["severity"] or "", places)
        for host in hosts(document)
        for one in sorted(host["findings"], key=lambda one: one["role"] == "context")
        if (places := tuple(_places(one)))
    ]


def members(document: Mapping[str, Any]) -> frozenset[str]:
    """The files that the document speaks of: those that were read, and those that anything in it cites."""
    return frozenset(_members(document))


def _places(finding: Mapping[str, Any]) -> Iterator[Cited]:
    seen = set()
    for said in (*finding["evidence"], *finding["against"]):
        place = said["member"], said["line"]
        if said["member"] and place not in seen:
            seen.add(place)
            yield Cited(*place, finding["rule"], said["text"] or "", tuple(said["excerpt"]))


def _members(part: object) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(part.get("member"), str):
            yield part["member"]
        for one in part.values():
            yield from _members(one)
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _members(one)
