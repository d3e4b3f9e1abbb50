"""One job: `GET /api/v1/jobs/ID`, and its changes as they happen: `GET /api/v1/jobs/ID/events`.

Events are those of a browser's EventSource. Each says all there is to say, so that who comes again has missed nothing;
behind the last one, whose id is `end`, the answer to who comes again is 204, which ends an EventSource.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from thpdiag.serve.access.headers import RefusedError
from thpdiag.serve.access.principals import Principal, Scope
from thpdiag.serve.api.responses import NOTHING_HERE, job_json, json_line, json_response, query_of
from thpdiag.serve.server import JobState, JobWatcher, Server
from thpdiag.serve.storage.jobs import QUEUED, Job
from thpdiag.store.results import REFUSED

HEARTBEAT_SECONDS: Final = 15.0  # proxies end a connection on which nothing comes for a minute
RETRY_MILLISECONDS: Final = 2000  # after which a browser whose connection broke comes again
LAST_EVENT: Final = "end"


def get_job(request: Request, server: Server) -> Response:
    query_of(request)
    job = _visible_job(request, server)
    return json_response(job_json(job, server.storage.jobs.ahead(job.id) if job.state == QUEUED else 0))


def _visible_job(request: Request, server: Server) -> Job:
    """A job that somebody may see: all of them with the scope read, else those of their own uploads."""
    jobs, key = server.storage.jobs, request.path_params["id"]
    principal: Principal = request.state.principal
    job = jobs.find(key) if principal.may(Scope.READ) else jobs.sent_by(key, principal.owner)
    if job is None:
        raise RefusedError(404, NOTHING_HERE)
    return job


async def get_job_events(request: Request, server: Server) -> Response:
    query_of(request)
    job = await run_in_threadpool(_visible_job, request, server)
    if request.headers.get("last-event-id") == LAST_EVENT:
        return Response(status_code=204)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_events(server.watcher, job.id), headers=headers, media_type="text/event-stream")


async def _events(watcher: JobWatcher, key: str) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    async with aclosing(watcher.states(key, HEARTBEAT_SECONDS)) as states:
        async for seen in states:
            yield ": still there\n\n" if seen is None else _event(key, seen)
            if seen is not None and seen.ended:
                return
    yield f"id: {LAST_EVENT}\nevent: gone\ndata: {{}}\n\n"  # its case was deleted


def _event(key: str, seen: JobState) -> str:
    event = {
        **{"id": key, "state": seen.state, "stage": seen.stage, "ahead": seen.ahead, "reason": seen.reason},
        **{"case": seen.case, "page": None if seen.case is None else f"/cases/{seen.case}"},
        **({"status": REFUSED} if seen.status == REFUSED else {}),
    }
    mark = f"id: {LAST_EVENT}\n" if seen.ended else ""
    return f"{mark}data: {json_line(event)}\n\n"
