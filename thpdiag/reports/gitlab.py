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
from thpdiag.reports.located import Located, accepted, hashed, located, undecided
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.visible import prose, visible

FORMAT = "gitlab"
SEVERITIES = {"critical": "blocker", "high": "critical", "medium": "major", "low": "minor", "info": "info"}


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    issues = [_issue(one) for one in located(document, presentation)]
    for host, path in undecided(document):
        name = verdict.name(host)
        told = prose(f"{name}: {verdict.sentence(host)}")
        issues.append(_entry(told, "cannot-tell", hashed("cannot-tell", name), "info", path, 1))
    return written(issues)


def _issue(one: Located) -> dict[str, Any]:
    finding = one.finding
    aside = f" ({accepted(finding)})" if finding["suppressed"] else ""
    told = prose(f"{verdict.name(one.host)}: {summary(finding)}{aside}")
    severity = "info" if finding["suppressed"] else SEVERITIES.get(finding["severity"], "info")
    return _entry(told, visible(finding["rule"]), one.fingerprint, severity, one.path, one.line)


def _entry(told: str, check: str, fingerprint: str, severity: str, path: str, line: int) -> dict[str, Any]:
    return {
        "description": told, "check_name": check, "fingerprint": fingerprint, "severity": severity,
        "location": {"path": visible(path), "lines": {"begin": line}},
    }  # fmt: skip
