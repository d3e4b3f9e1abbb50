"""Cases (lists, details, deletion, reports, comparisons) and jobs.

    GET    /api/v1/cases?q=&host=&verdict=&mechanism=&rule=&sha256=&state=&assignee=&since=&until=&limit=&below=
    GET    /api/v1/cases/ID
    DELETE /api/v1/cases/ID
    PUT    /api/v1/cases/ID/kept      excludes the case from retention
    DELETE /api/v1/cases/ID/kept
    GET    /api/v1/cases/ID/report.html      shown, with the policy of its page; all others are downloads
    GET    /api/v1/cases/ID/report.json      and .txt .md .xml (JUnit) .sarif .csv .gitlab.json .github.txt
    GET    /api/v1/compare/html?before=ID&after=ID
    GET    /api/v1/jobs/ID
    GET    /api/v1/jobs/ID/events            server-sent events

`redact=1` replaces the customer's names in a report by pseudonyms. The uploaded files are not available here. Events
are for a browser's EventSource. Each contains the complete state, so that a client that reconnects misses nothing. The
last one has the id `end`; a client that reconnects with it gets 204, which ends an EventSource.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from thpdiag.report import FORMATS
from thpdiag.report.html import policy
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.http import RefusedError, content_disposition, report_headers
from thpdiag.serve.api.responses import (
    CASES_PATH,
    NOTHING_HERE,
    case_json,
    hosts_json,
    job_json,
    json_line,
    json_response,
    read_query,
)
from thpdiag.serve.server import JobState, JobWatcher, Server
from thpdiag.serve.storage.cases import CASES_PER_PAGE, Case, CaseFilter
from thpdiag.serve.storage.database import is_sha256
from thpdiag.serve.storage.jobs import QUEUED, Job
from thpdiag.store.results import REFUSED

TEXT: Final = "text/plain; charset=utf-8"
KINDS: Final = MappingProxyType(  # by format: file name extension and media type
    {
        "html": ("html", "text/html; charset=utf-8"),
        "json": ("json", "application/json"),
        "text": ("txt", TEXT),
        "markdown": ("md", "text/markdown; charset=utf-8"),
        "junit": ("xml", "application/xml"),
        "sarif": ("sarif", "application/sarif+json"),
        "csv": ("csv", "text/csv; charset=utf-8"),
        "gitlab": ("gitlab.json", "application/json"),
        "github": ("github.txt", TEXT),
    }
)
COMPARISONS: Final = MappingProxyType({"html": "html", "json": "json", "txt": "text"})
MAX_CASES: Final = 200
MAX_DIGITS: Final = 18  # of a number that fits into a BIGINT
TEXT_FILTERS: Final = ("host", "verdict", "mechanism", "rule", "sha256")


def list_cases(request: Request, server: Server) -> Response:
    query = read_query(request, *TEXT_FILTERS, "since", "until", "limit", "below", "q", "state", "assignee")
    if query.get("sha256") and not is_sha256(query["sha256"]):
        raise RefusedError(400, "sha256 is 64 hexadecimal digits, in small letters")
    texts: dict[str, Any] = {name: query.get(name, "") for name in TEXT_FILTERS}
    texts |= {"words": query.get("q", ""), "state": query.get("state", ""), "assignee": query.get("assignee", "")}
    question = CaseFilter(**texts, since=_time(query, "since"), until=_time(query, "until"))
    limit, below = _number(query, "limit"), _number(query, "below")
    if limit is not None and not 1 <= limit <= MAX_CASES:
        raise RefusedError(400, f"limit is a number from 1 to {MAX_CASES}")
    limit = CASES_PER_PAGE if limit is None else limit
    stored = server.storage.cases
    if below is None:
        cases, total = stored.first_page(question, limit + 1)
    else:
        cases, total = stored.page(question, below, limit + 1), stored.size(question)
    shown = cases[:limit]
    next_page = f"{CASES_PATH}?{urlencode({**query, 'below': shown[-1].number})}" if len(cases) > limit else None
    page = {"total": total.number, "more": total.more, "cases": list(map(case_json, shown)), "next": next_page}
    return json_response(page, headers={"Link": f'<{next_page}>; rel="next"'} if next_page else None)


def _time(query: Mapping[str, str], name: str) -> float | None:
    """Parse a date or time into seconds since 1970; without a zone it is UTC."""
    if not query.get(name):
        return None
    try:
        time = datetime.fromisoformat(query[name])
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise RefusedError(400, f"{name} is a date or a time like 2026-01-31 or 2026-01-31T12:00:00Z") from None


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
        raise RefusedError(400, f"{name} is a number")
    return int(text)


def get_case(request: Request, server: Server) -> Response:
    read_query(request)
    case, document = _read_case(server, request.path_params["id"])
    files = [f"{CASES_PATH}/{case.id}/{name}" for name in report_files()]
    return json_response({**case_json(case), "hosts": hosts_json(document), "files": files})


def _read_case(server: Server, key: str) -> tuple[Case, dict[str, Any]]:
    case, document = server.storage.cases.find(key), server.storage.cases.document(key)
    if case is None or document is None:
        raise RefusedError(404, NOTHING_HERE)
    return case, document


def delete_case(request: Request, server: Server) -> Response:
    read_query(request)
    key = request.path_params["id"]
    return _change_response(request, server, Action.DELETE, key, exists=server.storage.removal.delete_case(key))


def set_kept(request: Request, server: Server) -> Response:
    read_query(request)
    key, kept = request.path_params["id"], request.method == "PUT"
    exists = server.storage.cases.set_kept(key, kept=kept)
    return _change_response(request, server, Action.KEEP if kept else Action.RELEASE, key, exists=exists)


def _change_response(request: Request, server: Server, action: Action, key: str, *, exists: bool) -> Response:
    if not exists:
        raise RefusedError(404, NOTHING_HERE)
    server.record_action(request, action, key)
    return Response(status_code=204)


@cache
def report_files() -> Mapping[str, str]:
    """Return the file names of reports (`report.html` and so on) with their formats."""
    return {f"report.{KINDS[form][0]}": form for form in FORMATS}


def get_report(request: Request, server: Server) -> Response:
    redact = read_query(request, "redact").get("redact", "0")
    if redact not in ("0", "1"):
        raise RefusedError(400, "redact is 0 or 1")
    form = report_files().get(request.path_params["report"])
    if form is None:
        raise RefusedError(404, NOTHING_HERE)
    case, document = _read_case(server, request.path_params["id"])
    title = _file_title(case)
    if redact == "1":
        from thpdiag.redact.document import redact_result  # imported on first use, since it loads long lists
        from thpdiag.redact.names import Names

        document, title = redact_result(document, Names()), f"thpdiag-{case.id[:8]}"
    text = FORMATS[form](document)
    server.record_action(request, Action.DOWNLOAD, case.id)
    return _file_response(form, text, policy(), title)


def _file_title(case: Case) -> str:
    """Return the name of a downloaded report without extension: host name and beginning of the case id."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in case.host or "")[:60].strip("-.")
    return "-".join(filter(None, ("thpdiag", host, case.id[:8])))


def get_comparison(request: Request, server: Server) -> Response:
    from thpdiag.compare import FORMATS as COMPARISON_FORMATS
    from thpdiag.compare.document import document as compare
    from thpdiag.compare.page import policy as comparison_policy

    query = read_query(request, "before", "after")
    form = COMPARISONS.get(request.path_params["format"])
    if form is None:
        raise RefusedError(404, NOTHING_HERE)
    if len(query) < 2:
        raise RefusedError(400, "before and after are the ids of two cases")
    documents = [_read_case(server, query[side])[1] for side in ("before", "after")]
    compared = compare(*documents)
    if not compared.hosts:
        raise RefusedError(422, "nothing to compare: the cases have no host in common")
    text = COMPARISON_FORMATS[form](compared)
    for side in ("before", "after"):
        server.record_action(request, Action.DOWNLOAD, query[side])
    return _file_response(form, text, comparison_policy(), "thpdiag-comparison")


def _file_response(form: str, text: str, page_policy: str, title: str) -> Response:
    """Return an HTML page with its policy, or any other format as a download."""
    extension, media_type = KINDS[form]
    download = {"Content-Disposition": content_disposition(f"{title}.{extension}")}
    headers = report_headers(page_policy) if form == "html" else download
    return Response(text.encode("utf-8", "backslashreplace"), headers={**headers, "Content-Type": media_type})


HEARTBEAT_SECONDS: Final = 15.0  # proxies close connections that are idle for a minute
RETRY_MILLISECONDS: Final = 2000  # after which a browser reconnects
LAST_EVENT: Final = "end"


def get_job(request: Request, server: Server) -> Response:
    read_query(request)
    job = _visible_job(request, server)
    return json_response(job_json(job, server.storage.jobs.count_ahead(job.id) if job.state == QUEUED else 0))


def _visible_job(request: Request, server: Server) -> Job:
    job = server.find_job(request.state.principal, request.path_params["id"])
    if job is None:
        raise RefusedError(404, NOTHING_HERE)
    return job


async def get_job_events(request: Request, server: Server) -> Response:
    read_query(request)
    job = await run_in_threadpool(_visible_job, request, server)
    if request.headers.get("last-event-id") == LAST_EVENT:
        return Response(status_code=204)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_events(server.watcher, job.id), headers=headers, media_type="text/event-stream")


async def _events(watcher: JobWatcher, key: str) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    async with aclosing(watcher.states(key, HEARTBEAT_SECONDS)) as states:
        async for job in states:
            yield ": still there\n\n" if job is None else _event(key, job)
            if job is not None and job.has_ended:
                return
    yield f"id: {LAST_EVENT}\nevent: gone\ndata: {{}}\n\n"  # the job was deleted with its case


def _event(key: str, job: JobState) -> str:
    event = {
        **{"id": key, "state": job.state, "stage": job.stage, "ahead": job.ahead, "reason": job.reason},
        **{"case": job.case, "page": None if job.case is None else f"/cases/{job.case}"},
        **({"status": REFUSED} if job.status == REFUSED else {}),
    }
    event_id = f"id: {LAST_EVENT}\n" if job.has_ended else ""
    return f"{event_id}data: {json_line(event)}\n\n"
