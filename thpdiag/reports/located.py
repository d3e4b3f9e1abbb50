"""The findings of all hosts as a list for programs: the gravest first, each with one place and one fingerprint.

What lists problems by file and line (SARIF, Code Quality, annotations) wants exactly one place of each, and drops a
second entry with the same fingerprint. Findings of role `context` describe the host; they are no problems to list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.distinct import Distinct
from thpdiag.reports.presentation import PLAIN, Presentation, Suppressed
from thpdiag.reports.severities import rank

MOST_LINES = 2**31 - 1  # consumers read a line as 32 bits; a byte offset may be more


@dataclass(frozen=True, slots=True)
class Located:
    """`line` counts from 1, and is 1 where the file has no lines; `path` is the customer's.

    `bundle` names the bundle among many, empty if there is one.
    """

    host: Mapping[str, Any]
    finding: Mapping[str, Any]
    path: str
    line: int
    fingerprint: str
    bundle: str = ""


class Fingerprints(Distinct):
    """Of a fingerprint that comes again (two processes of one name, two bundles of one host) the later are numbered."""

    def __init__(self) -> None:
        super().__init__(form="{}-{}")


def located(
    hosts: Iterable[Mapping[str, Any]], presentation: Presentation = PLAIN, prints: Fingerprints | None = None,
    bundle: str = "",
) -> list[Located]:  # fmt: skip
    """The findings of these hosts; `prints` are those that were given to others before."""
    found = [(host, finding) for host in hosts for finding in shown(host, presentation) if finding["role"] != "context"]
    found.sort(key=lambda pair: -rank(pair[1]["severity"]))
    return list(_numbered(found, prints or Fingerprints(), bundle))


def shown(host: Mapping[str, Any], presentation: Presentation) -> list[dict[str, Any]]:
    """The findings of a host, without those that somebody accepted unless these are asked for."""
    every = presentation.suppressed is Suppressed.SHOWN
    return [finding for finding in host["findings"] if every or not finding["suppressed"]]


def undecided(hosts: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    """The hosts of which nothing can be told, each with a file: their lists are empty, and that is no all-clear."""
    return [(host, _any_file(host)) for host in hosts if host["verdict"]["status"] == "cannot_tell"]


def accepted(finding: Mapping[str, Any]) -> str:
    """By what a finding is accepted, until when and why; empty if nobody has."""
    said = finding["suppressed"]
    if not said:
        return ""
    until = f" until {said['expires']}" if said["expires"] else ""
    why = f": {said['reason']}" if said["reason"] else ""
    return f"accepted by a {said['by'] or 'file'}{until}{why}"


def _numbered(
    found: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], prints: Fingerprints, bundle: str
) -> Iterator[Located]:
    for host, finding in found:
        own = finding["fingerprint"] or hashed(finding["rule"], verdict.name(host), finding["entity"] or "")
        path, line = _place(host, finding)
        yield Located(host, finding, path, line, prints(own), bundle)


def hashed(*parts: str) -> str:
    """A name for what has no fingerprint of its own."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _place(host: Mapping[str, Any], finding: Mapping[str, Any]) -> tuple[str, int]:
    """The strongest evidence with a file; else any file that was read, since every consumer wants one."""
    for said in (*verdict.proof(finding), *finding["evidence"], *finding["against"]):
        if said["member"]:
            return said["member"], line(said)
    return _any_file(host), 1


def line(said: Mapping[str, Any]) -> int:
    """The line of evidence as consumers want it."""
    return min(max(said["line"] or 1, 1), MOST_LINES)


def _any_file(host: Mapping[str, Any]) -> str:
    read = (row["member"] for row in host["inputs"] if row["reader"])
    return next(read, "") or host["case"] or "input"
