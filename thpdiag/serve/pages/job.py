"""What becomes of an upload, as it happens: its place in the queue, what is being done with it, how it ended.

With script the page follows the job's events, without it loads itself again. Once there is a case, who may read is sent
on to it; who may only upload is told the verdict of their own. The id of an upload leads to its job, too: a browser
that missed the last answer of an upload knows no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.scopes import Scope
from thpdiag.serve.pages.answering import endpoint
from thpdiag.serve.pages.shown import missing, shown
from thpdiag.serve.server import Server
from thpdiag.serve.storage.clock import DAY
from thpdiag.serve.storage.jobs import DONE, FAILED, QUEUED, RUNNING, Job

NO_SUCH: Final = "There is no such upload. It may have been deleted, or it is somebody else's."
TITLES: Final = {
    QUEUED: "Waiting to be analysed",
    RUNNING: "Being analysed",
    DONE: "Analysed",
    FAILED: "The analysis failed",
}


def routes(server: Server) -> list[BaseRoute]:
    return [Route("/jobs/{id}", endpoint(server, followed))]


def followed(request: Request, server: Server) -> Response:
    key, who = request.path_params["id"], request.state.principal
    jobs = server.storage.jobs
    job = jobs.found(key) if who.may(Scope.READ) else jobs.sent_by(key, who.owner)
    if job is None:
        return _of_upload(request, server, key)
    if job.state == DONE and who.may(Scope.READ):
        return RedirectResponse(f"/cases/{job.case}", 303)
    case = server.storage.cases.found(job.case or "")
    return shown(
        request, server, "job.html", title=TITLES[job.state], job=job, ahead=server.storage.jobs.ahead(job.id),
        elapsed=elapsed(job, server.clock()), case=case and replace(case, name=job.name),
        days=round(server.terms.bundles / DAY), end=kind(job.status),
    )  # fmt: skip


def kind(status: str) -> str:
    """How an analysis ended, without the number of the signal or the name of the limit."""
    return "signal" if status.startswith("signal ") else status.partition(" (")[0]


def elapsed(job: Job, now: float) -> int:
    """Whole seconds that it waited so far, or was worked on so far or in all."""
    return round(max(0.0, (job.ended or now) - (job.started or job.queued)))


def _of_upload(request: Request, server: Server, key: str) -> Response:
    upload, accepted = server.storage.uploads.found(key), server.storage.accepted(key)
    if upload is None or accepted is None or not request.state.principal.may_touch(upload.owner):
        return missing(request, server, NO_SUCH)
    return RedirectResponse(f"/jobs/{accepted.job}", 303)
