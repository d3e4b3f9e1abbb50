"""A Code Quality report for GitLab (`artifacts:reports:codequality`): a JSON list, one issue per finding.

GitLab reads description, check_name, fingerprint, severity (info, minor, major, critical, blocker), location.path and
location.lines.begin, drops an issue with a repeated fingerprint, and accepts no byte order mark. The most severe come
first. A host without a verdict is an issue of severity info, because an empty list would read as all-clear; a bundle
without a result or with an incomplete one is an issue too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from thpdiag.model.result import Result
from thpdiag.report import messages
from thpdiag.report.ci import (
    Bundle,
    Fingerprints,
    Located,
    Spool,
    Writer,
    file_of,
    hash_name,
    undecided_hosts,
    write_one,
)
from thpdiag.report.escaping import prose, visible
from thpdiag.report.json import json_list, to_json
from thpdiag.report.messages import acceptance, summary
from thpdiag.report.presentation import Presentation, rank

SEVERITIES = {"critical": "blocker", "high": "critical", "medium": "major", "low": "minor", "info": "info"}
NO_RESULT, INCOMPLETE = "no-result", "incomplete-result"
LAST_RANK = -2  # after findings of unknown severity


class GitLab(Writer):
    """One list of issues, the most severe first, then undecided hosts and bundles without a complete result."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._issues, self._prints = new_spool(), Fingerprints()

    def add(self, bundle: Bundle) -> None:
        issues = [(rank(located.finding.severity), _finding(located)) for located in bundle.findings]
        for host, path in undecided_hosts(bundle.hosts):
            fingerprint = self._prints(hash_name("cannot-tell", messages.name(host)))
            description = f"{_host_name(host, bundle.path)}: {messages.sentence(host)}"
            place = file_of(bundle.path, path)
            issues.append((LAST_RANK, _issue(description, "cannot-tell", fingerprint, "info", place, 1)))
        if not bundle.is_complete:
            kind = INCOMPLETE if bundle.hosts else NO_RESULT
            severity = "low" if bundle.hosts else "info" if bundle.is_stray else "medium"
            description = f"{bundle.path}: {kind.replace('-', ' ')} ({bundle.outcome})"
            fingerprint = self._prints(hash_name(kind, bundle.path))
            issues.append((LAST_RANK, _issue(description, kind, fingerprint, SEVERITIES[severity], bundle.path, 1)))
        for weight, text in issues:
            self._issues.add(weight, text)

    def pieces(self) -> Iterator[str]:
        yield from json_list(self._issues.texts())
        yield "\n"


render = partial(write_one, GitLab)


def _finding(located: Located) -> str:
    finding = located.finding
    aside = f" ({acceptance(finding)})" if finding.suppressed else ""
    description = f"{_host_name(located.host, located.bundle)}: {summary(finding)}{aside}"
    severity = "info" if finding.suppressed else SEVERITIES.get(finding.severity or "", "info")
    return _issue(description, visible(finding.rule), located.fingerprint, severity, located.file, located.line)


def _host_name(host: Result, bundle: str) -> str:
    name = prose(messages.name(host))
    return f"{name} ({bundle})" if bundle else name


def _issue(description: str, check: str, fingerprint: str, severity: str, path: str, line: int) -> str:
    location = {"path": visible(path), "lines": {"begin": line}}
    return to_json({
        "description": prose(description), "check_name": check, "fingerprint": fingerprint, "severity": severity,
        "location": location,
    })  # fmt: skip
