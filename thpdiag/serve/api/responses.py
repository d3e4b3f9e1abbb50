"""Answers for programs: jobs, cases and verdicts as JSON, the query of a request, the exit code for a gate.

`thpdiag.serve.api.description` has the schemas. Times are RFC 3339 in UTC.
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
    """A failure as it is told; of a storage that cannot be used the log says more, not the answer."""
    match error:
        case RefusedError():
            return problem_response(error.status, error.words, error.headers)
        case StoreFullError():
            return problem_response(507, "the disk of this server is full; nothing was changed")
        case StoreBusyError():
            words = "the storage of this server is busy; try again in a moment"
            return problem_response(503, words, {"Retry-After": "5"})
        case _:  # its folder became read-only, its database is gone or damaged: `/readyz` says so too
            LOG.error("the storage cannot be used: %s", error)
            return problem_response(503, "the storage of this server cannot be used at the moment")


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_line(value), status, dict(headers or {}), "application/json")


def json_line(value: Any) -> str:
    """JSON on one line, in ASCII: half characters of a stranger's file name are no UTF-8."""
    return json.dumps(value, allow_nan=False)


def query_of(request: Request, *names: str) -> dict[str, str]:
    """The query, each name once and none but these: what is not understood must not seem to have been heeded."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != CSRF_FIELD]
    if any(name not in names for name, _ in pairs):
        known = f"known are {', '.join(names)}" if names else "this address takes none"
        raise RefusedError(400, f"a parameter of the query is unknown; {known}")
    if len(dict(pairs)) < len(pairs):
        raise RefusedError(400, "a parameter of the query comes twice")
    return dict(pairs)


def format_rfc3339(at: float | None) -> str | None:
    """Seconds since 1970 as `2026-01-31T12:00:00.000Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_json(job: Job, ahead: int) -> dict[str, Any]:
    return {
        **{"id": job.id, "state": job.state, "stage": job.stage, "ahead": ahead, "reason": job.reason},
        **{"case": job.case, "name": job.name, "sha256": job.sha256, "attempts": job.attempts},
        **{name: format_rfc3339(getattr(job, name)) for name in ("queued", "started", "ended")},
        **{"events": f"{JOBS_PATH}/{job.id}/events", "page": f"/jobs/{job.id}"},
    }


def case_json(case: Case) -> dict[str, Any]:
    """A case in a list: with the host that leads."""
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
    """The hosts of a result document, the one that leads first: verdict, leading finding and all findings of each."""
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
    """The first host leads; `sentence`, `leading` and `confidence` at the top are its own."""
    hosts = hosts_json(document)
    leading = {key: hosts[0]["verdict"][key] for key in ("status", "sentence", "confidence")}
    return {**leading, "leading": hosts[0]["leading"], "hosts": hosts, **_addresses(case)}


def exit_code_of_case(case: Case, document: Mapping[str, Any], fail_on: str) -> int:
    """The exit code of `thpdiag analyze --isolate --fail-on` for the same bundle (`thpdiag.errors.EXIT_CODES`)."""
    if exit_code_of_end(case.status) == BUG:
        return BUG
    code = exit_code(document, fail_on)
    unread = code == NO_INPUT and case.status not in ("ok", "partial")
    return CUT_SHORT if unread else code  # the child was ended before it could tell anything
