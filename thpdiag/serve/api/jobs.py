"""One job: `GET /api/v1/jobs/ID`, and its changes as they happen: `GET /api/v1/jobs/ID/events`.

Events are those of a browser's EventSource. Each says all there is to say, so that who comes again has missed nothing;
behind the last one, whose id is `end`, the answer to who comes again is 204, which ends an EventSource.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.principal import Principal
from thpdiag.serve.access.scopes import Scope
from thpdiag.serve.api.endpoint import NO_SUCH, STORE, ProblemError, asked, data, endpoint, refusal, written
from thpdiag.serve.api.forms import JOBS, job_told
from thpdiag.serve.api.watching import Seen, Watching
from thpdiag.serve.server import Server
from thpdiag.serve.storage.jobs import Job

HEARTBEAT: Final = 15.0  # seconds; proxies end a connection on which nothing comes for a minute
AGAIN: Final = 2000  # milliseconds after which a browser whose connection broke comes again
END: Final = "end"


def routes(server: Server, watching: Watching) -> list[BaseRoute]:
    return [
        Route(f"{JOBS}/{{id}}", endpoint(server, job), methods=["GET"]),
        Route(f"{JOBS}/{{id}}/events", events(server, watching), methods=["GET"]),
    ]


def job(request: Request, server: Server) -> Response:
    asked(request)
    found = theirs(server, request.state.principal, str(request.path_params["id"]))
    return data(job_told(found, server.storage.jobs.ahead(found.id) if found.state == "queued" else 0))


def theirs(server: Server, principal: Principal, key: str) -> Job:
    """A job that somebody may see: all of them with the scope read, else those of their own uploads."""
    jobs = server.storage.jobs
    found = jobs.found(key) if principal.may(Scope.READ) else jobs.sent_by(key, principal.owner)
    if found is None:
        raise ProblemError(404, NO_SUCH)
    return found


def events(server: Server, watching: Watching) -> Callable[[Request], object]:
    async def answered(request: Request) -> Response:
        try:
            asked(request)
            key = str(request.path_params["id"])
            found = await run_in_threadpool(theirs, server, request.state.principal, key)
        except (ProblemError, *STORE) as error:
            return refusal(error)
        if request.headers.get("last-event-id") == END:
            return Response(status_code=204)
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(watching, found.id), headers=headers, media_type="text/event-stream")

    return answered


async def _stream(watching: Watching, key: str) -> AsyncIterator[str]:
    yield f"retry: {AGAIN}\n\n"
    async with aclosing(watching.states(key, HEARTBEAT)) as states:
        async for seen in states:
            yield ": still there\n\n" if seen is None else _event(key, seen)
            if seen is not None and seen.ended:
                return
    yield f"id: {END}\nevent: gone\ndata: {{}}\n\n"  # its case was deleted


def _event(key: str, seen: Seen) -> str:
    told = {
        "id": key, "state": seen.state, "stage": seen.stage, "ahead": seen.ahead, "reason": seen.reason,
        "case": seen.case, "page": None if seen.case is None else f"/cases/{seen.case}",
    }  # fmt: skip
    mark = f"id: {END}\n" if seen.ended else ""
    return f"{mark}data: {written(told)}\n\n"
