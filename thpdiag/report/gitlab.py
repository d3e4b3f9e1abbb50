"""A Code Quality report for GitLab (`artifacts:reports:codequality`): a JSON list, one issue per finding.

GitLab reads description, check_name, fingerprint, severity (info, minor, major, critical, blocker), location.path and
location.lines.begin, drops an issue whose fingerprint comes again, and takes no byte order mark. The gravest come
first. A host of which nothing can be told is an issue of severity info, because an empty list would read as all-clear;
so is a bundle of many that nothing came of, or that was not read whole.
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
LAST_RANK = -2  # behind findings of unknown severity


class GitLab(Writer):
    """One list of issues, the gravest first, then what could not be told or came to nothing."""

    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None:
        self._issues, self._prints = new_spool(), Fingerprints()

    def add(self, bundle: Bundle) -> None:
        issues = [(rank(one.finding.severity), _finding(one)) for one in bundle.found]
        for host, path in undecided_hosts(bundle.hosts):
            own = self._prints(hash_name("cannot-tell", messages.name(host)))
            told = f"{_host_name(host, bundle.path)}: {messages.sentence(host)}"
            place = file_of(bundle.path, path)
            issues.append((LAST_RANK, _issue(told, "cannot-tell", own, "info", place, 1)))
        if not bundle.whole:
            kind, severity = (INCOMPLETE, "low") if bundle.hosts else (NO_RESULT, "info" if bundle.stray else "medium")
            told = f"{bundle.path}: {kind.replace('-', ' ')} ({bundle.why})"
            own = self._prints(hash_name(kind, bundle.path))
            issues.append((LAST_RANK, _issue(told, kind, own, SEVERITIES[severity], bundle.path, 1)))
        for weight, text in issues:
            self._issues.add(weight, text)

    def pieces(self) -> Iterator[str]:
        yield from json_list(self._issues.texts())
        yield "\n"


render = partial(write_one, GitLab)


def _finding(one: Located) -> str:
    finding = one.finding
    aside = f" ({acceptance(finding)})" if finding.suppressed else ""
    told = f"{_host_name(one.host, one.bundle)}: {summary(finding)}{aside}"
    severity = "info" if finding.suppressed else SEVERITIES.get(finding.severity or "", "info")
    return _issue(told, visible(finding.rule), one.fingerprint, severity, one.file, one.line)


def _host_name(host: Result, bundle: str) -> str:
    name = prose(messages.name(host))
    return f"{name} ({bundle})" if bundle else name


def _issue(told: str, check: str, fingerprint: str, severity: str, path: str, line: int) -> str:
    location = {"path": visible(path), "lines": {"begin": line}}
    return to_json({
        "description": prose(told), "check_name": check, "fingerprint": fingerprint, "severity": severity,
        "location": location,
    })  # fmt: skip
