"""Jobs, cases and verdicts as the API tells them (openapi.json has their schemas). Times are RFC 3339 in UTC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from thpdiag.reports import verdict
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.jobs import Job

JOBS: Final = "/api/v1/jobs"
CASES: Final = "/api/v1/cases"
_VERDICT: Final = ("status", "rule", "mechanism", "severity", "confidence", "state")
_FINDING: Final = ("rule", "mechanism", "title", "severity", "confidence", "role", "state", "entity")


def moment(at: float | None) -> str | None:
    """Seconds since 1970 as `2026-01-31T12:00:00.000Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_told(job: Job, ahead: int) -> dict[str, Any]:
    return {
        "id": job.id, "state": job.state, "stage": job.stage, "ahead": ahead, "reason": job.reason, "case": job.case,
        "name": job.name, "sha256": job.sha256, "attempts": job.attempts,
        "queued": moment(job.queued), "started": moment(job.started), "ended": moment(job.ended),
        "events": f"{JOBS}/{job.id}/events", "page": f"/jobs/{job.id}",
    }  # fmt: skip


def case_told(case: Case) -> dict[str, Any]:
    """A case in a list: with the host that leads."""
    return {
        "id": case.id, "name": case.name, "sha256": case.sha256, "status": case.status, "reason": case.reason,
        "made": moment(case.made), "recorded": case.recorded, "kept": bool(case.kept),
        "tool": {"version": case.tool_version, "rules_digest": case.rules_digest, "options": json.loads(case.options)},
        "host": {"name": case.host, "title": case.title, "kernel": case.kernel},
        "verdict": {
            "status": case.verdict, "rule": case.rule, "mechanism": case.mechanism, "severity": case.severity,
            "confidence": case.confidence, "sentence": case.sentence,
        },
        "undecided": case.undecided, "page": f"/cases/{case.id}", "report": f"{CASES}/{case.id}/report.html",
    }  # fmt: skip


def hosts_told(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The hosts of a result document, the one that leads first: verdict, leading finding and all findings of each."""
    return [_host(one) for one in verdict.hosts(document)]


def _host(document: Mapping[str, Any]) -> dict[str, Any]:
    leads = verdict.leading(document)
    return {
        "name": verdict.name(document),
        "kernel": document["host"]["kernel"],
        "verdict": {key: document["verdict"][key] for key in _VERDICT} | {"sentence": verdict.sentence(document)},
        "leading": None if leads is None else _finding(leads),
        "findings": [_finding(finding) for finding in document["findings"]],
        "undecided": [one["rule"] for one in document["unknown"]],
        "problems": len(document["problems"]),
    }


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {key: finding[key] for key in _FINDING} | {"accepted": bool(finding["suppressed"])}
