"""A Code Quality report for GitLab (`artifacts:reports:codequality`): a JSON list, one issue per finding.

GitLab reads description, check_name, fingerprint, severity (info, minor, major, critical, blocker), location.path and
location.lines.begin, drops an issue whose fingerprint comes again, and takes no byte order mark. A host of which
nothing can be told is an issue of severity info, because an empty list would read as all-clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.finding_text import summary
from thpdiag.reports.json import written
from thpdiag.reports.located import Fingerprints, Located, accepted, hashed, located, undecided
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.visible import prose, visible

FORMAT = "gitlab"
SEVERITIES = {"critical": "blocker", "high": "critical", "medium": "major", "low": "minor", "info": "info"}
NO_RESULT, INCOMPLETE = "no-result", "incomplete-result"

Issue = dict[str, Any]


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    hosts, prints = verdict.hosts(document), Fingerprints()
    issues = [issue(one) for one in located(hosts, presentation, prints)]
    return written([*issues, *(cannot_tell(host, path, prints) for host, path in undecided(hosts))])


def issue(one: Located) -> Issue:
    finding = one.finding
    aside = f" ({accepted(finding)})" if finding["suppressed"] else ""
    told = prose(f"{_name(one.host, one.bundle)}: {summary(finding)}{aside}")
    severity = "info" if finding["suppressed"] else SEVERITIES.get(finding["severity"], "info")
    return _entry(told, visible(finding["rule"]), one.fingerprint, severity, one.path, one.line)


def cannot_tell(host: Mapping[str, Any], path: str, prints: Fingerprints, bundle: str = "") -> Issue:
    """The issue of a host of which nothing can be told; `path` is a file of it."""
    told = prose(f"{_name(host, bundle)}: {verdict.sentence(host)}")
    return _entry(told, "cannot-tell", prints(hashed("cannot-tell", verdict.name(host))), "info", path, 1)


def unfinished(bundle: str, kind: str, why: str, prints: Fingerprints) -> Issue:
    """The issue of a bundle that nothing came of (NO_RESULT), or that was not read whole (INCOMPLETE)."""
    told, own = prose(f"{bundle}: {kind.replace('-', ' ')} ({why})"), prints(hashed(kind, bundle))
    return _entry(told, kind, own, SEVERITIES["medium" if kind == NO_RESULT else "low"], bundle, 1)


def _name(host: Mapping[str, Any], bundle: str) -> str:
    name = prose(verdict.name(host))
    return f"{name} ({bundle})" if bundle else name


def _entry(told: str, check: str, fingerprint: str, severity: str, path: str, line: int) -> Issue:
    return {
        "description": told, "check_name": check, "fingerprint": fingerprint, "severity": severity,
        "location": {"path": visible(path), "lines": {"begin": line}},
    }  # fmt: skip
