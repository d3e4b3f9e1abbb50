"""Answers for programs: jobs, cases and verdicts as JSON, parsing of queries, exit codes for `fail-on`.

The schemas are in `thpdiag.serve.api.description`. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.errors import StoreBusyError, StoreFullError
from thpdiag.model.finding import SEVERITIES
from thpdiag.model.result import Finding, Result
from thpdiag.report import messages
from thpdiag.report.presentation import CUT_SHORT, NEVER, exit_code
from thpdiag.sandbox.outcome import exit_code as exit_code_of_end
from thpdiag.serve.access.credentials import CSRF_FIELD
from thpdiag.serve.access.http import RefusedError, problem_response
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.jobs import Job

LOG: Final = logging.getLogger(__name__)
NOTHING_HERE: Final = "there is nothing at this address"
JOBS_PATH: Final = "/api/v1/jobs"
CASES_PATH: Final = "/api/v1/cases"
GATES: Final = (*SEVERITIES, NEVER)
BUG: Final = 70
NO_INPUT: Final = 3
_VERDICT_KEYS: Final = ("status", "rule", "mechanism", "severity", "confidence", "state")
_FINDING_KEYS: Final = ("rule", "mechanism", "title", "severity", "confidence", "role", "state", "entity")


def error_response(error: Exception) -> Response:
    """Return the answer for an error. Details of a storage error are logged and not shown to the client."""
    match error:
        case RefusedError():
            return problem_response(error.status, error.words, error.headers)
        case StoreFullError():
            return problem_response(507, "the disk of this server is full; nothing was changed")
        case StoreBusyError():
            words = "the storage of this server is busy; try again in a moment"
            return problem_response(503, words, {"Retry-After": "5"})
        case _:  # the folder is read-only, or the database is missing or damaged; `/readyz` reports it too
            LOG.error("the storage cannot be used: %s", error)
            return problem_response(503, "the storage of this server cannot be used at the moment")


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_line(value), status, dict(headers or {}), "application/json")


def json_line(value: Any) -> str:
    """Return JSON on one line, in ASCII, since surrogates in file names cannot be encoded as UTF-8."""
    return json.dumps(value, allow_nan=False)


def read_query(request: Request, *names: str) -> dict[str, str]:
    """Return the query; RefusedError for unknown or repeated names, which must not be ignored silently."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != CSRF_FIELD]
    if any(name not in names for name, _ in pairs):
        known = f"known are {', '.join(names)}" if names else "this address takes none"
        raise RefusedError(400, f"a parameter of the query is unknown; {known}")
    if len(dict(pairs)) < len(pairs):
        raise RefusedError(400, "a parameter of the query comes twice")
    return dict(pairs)


def format_rfc3339(seconds: float | None) -> str | None:
    """Format seconds since 1970 as `2026-01-31T12:00:00.000Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_json(job: Job, ahead: int) -> dict[str, Any]:
    return {
        **{"id": job.id, "state": job.state, "stage": job.stage, "ahead": ahead, "reason": job.reason},
        **{"case": job.case, "name": job.name, "sha256": job.sha256, "attempts": job.attempts},
        **{name: format_rfc3339(getattr(job, name)) for name in ("queued", "started", "ended")},
        **{"events": f"{JOBS_PATH}/{job.id}/events", "page": f"/jobs/{job.id}"},
    }


def case_json(case: Case) -> dict[str, Any]:
    """Return a case of a list, with its leading host."""
    verdict = {key: getattr(case, key) for key in ("rule", "mechanism", "severity", "confidence", "sentence")}
    options = json.loads(case.options)
    return {
        **{key: getattr(case, key) for key in ("id", "name", "sha256", "status", "reason")},
        **{"made": format_rfc3339(case.made), "recorded": case.recorded, "kept": bool(case.kept)},
        "tool": {"version": case.tool_version, "rules_digest": case.rules_digest, "options": options},
        "host": {"name": case.host, "title": case.title, "kernel": case.kernel},
        "verdict": {"status": case.verdict, **verdict},
        "undecided": case.undecided,
        **_addresses(case),
    }


def _addresses(case: Case) -> dict[str, str]:
    return {"page": f"/cases/{case.id}", "report": f"{CASES_PATH}/{case.id}/report.html"}


def hosts_json(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the hosts of a result document, the leading one first, each with verdict and findings."""
    return [_host_json(host) for host in messages.hosts(document)]


def _host_json(host: Result) -> dict[str, Any]:
    leading = messages.lead_finding(host)
    return {
        "name": messages.name(host),
        "kernel": host.host.kernel,
        "verdict": {key: getattr(host.verdict, key) for key in _VERDICT_KEYS} | {"sentence": messages.sentence(host)},
        "leading": None if leading is None else _finding_json(leading),
        "findings": list(map(_finding_json, host.findings)),
        "undecided": [unknown.rule for unknown in host.unknown],
        "problems": len(host.problems),
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {key: getattr(finding, key) for key in _FINDING_KEYS} | {"accepted": bool(finding.suppressed)}


def verdict_json(case: Case, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict of a case; status, `sentence`, `leading` and `confidence` are those of the leading host."""
    hosts = hosts_json(document)
    leading = {key: hosts[0]["verdict"][key] for key in ("status", "sentence", "confidence")}
    return {**leading, "leading": hosts[0]["leading"], "hosts": hosts, **_addresses(case)}


def exit_code_of_case(case: Case, document: Mapping[str, Any], fail_on: str) -> int:
    """Return the exit code of `thpdiag analyze --isolate --fail-on` for the same bundle (`errors.EXIT_CODES`)."""
    if exit_code_of_end(case.status) == BUG:
        return BUG
    code = exit_code(document, fail_on)
    is_unread = code == NO_INPUT and case.status not in ("ok", "partial")  # the child was killed before it had a result
    return CUT_SHORT if is_unread else code
