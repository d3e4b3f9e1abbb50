"""The page where bundles are uploaded, by a form, by its script with progress and resumption, or by curl; and the page
of a job: its place in the queue, what is being done with it, how it ended; for admins all unfinished uploads too.

With script the page of a job follows its events, without it loads itself again. Once there is a case, who may read is
sent on to it; who may only upload is told the verdict of their own. The id of an upload leads to its job, too: a
browser that missed the last answer of an upload knows no other.
"""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.principals import Mode, Scope
from thpdiag.serve.pages.render import not_found, origin_of_request, render_page
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.jobs import DONE, FAILED, QUEUED, RUNNING
from thpdiag.store.results import REFUSED

MAX_LATEST_CASES: Final = 10
MAX_LISTED_JOBS: Final = 200
CURL_LOGIN: Final = '-H "Authorization: Bearer $TOKEN" '
NO_UPLOAD: Final = "There is no such upload. It may have been deleted, or it belongs to someone else."
NOTHING_RECOGNISED: Final = "Nothing in it was recognized"
JOB_TITLES: Final = {
    QUEUED: "Waiting for analysis",
    RUNNING: "Being analyzed",
    DONE: "Analyzed",
    FAILED: "The analysis failed",
}


def start_page(request: Request, server: Server) -> Response:
    reads = request.state.principal.may(Scope.READ)
    latest = server.storage.cases.page(CaseFilter(), limit=MAX_LATEST_CASES) if reads else []
    login = server.access.mode is not Mode.NONE
    address = quote(f"{origin_of_request(request, server.access)}/api/v1/bundles/")  # curl adds the file's name to it
    curl = f"curl -fT bundle.tar.xz {CURL_LOGIN if login else ''}{address}"
    limit = server.intake.limit
    return render_page(
        request, server, "start.html", title="Upload", limit=limit, latest=latest, curl=curl, login=login
    )


def job_list(request: Request, server: Server) -> Response:
    """The jobs that a query names, as far as somebody may see them: of files that were sent as separate cases."""
    who, storage = request.state.principal, server.storage
    keys = request.query_params.getlist("id")[:MAX_LISTED_JOBS]
    found = [storage.jobs.find(key) if who.may(Scope.READ) else storage.jobs.sent_by(key, who.owner) for key in keys]
    jobs = [job for job in found if job is not None]
    return render_page(request, server, "jobs.html", title="Uploads", jobs=jobs, titles=JOB_TITLES)


def job_page(request: Request, server: Server) -> Response:
    key, who, storage = request.path_params["id"], request.state.principal, server.storage
    job = storage.jobs.find(key) if who.may(Scope.READ) else storage.jobs.sent_by(key, who.owner)
    if job is None:
        upload, accepted = storage.uploads.find(key), storage.acceptance_of(key)
        if upload is None or accepted is None or not who.may_touch(upload.owner):
            raise not_found(NO_UPLOAD)
        return RedirectResponse(f"/jobs/{accepted.job}", 303)
    if job.state == DONE and who.may(Scope.READ):
        return RedirectResponse(f"/cases/{job.case}", 303)
    case = storage.cases.find(job.case or "")
    # how an analysis ended, without the number of the signal or the name of the limit
    end = "signal" if job.status.startswith("signal ") else job.status.partition(" (")[0]
    return render_page(
        request,
        server,
        "job.html",
        title=NOTHING_RECOGNISED if job.state == DONE and job.status == REFUSED else JOB_TITLES[job.state],
        job=job,
        ahead=storage.jobs.count_ahead(job.id),
        elapsed=round(max(0.0, (job.ended or server.clock()) - (job.started or job.queued))),
        case=case and replace(case, name=job.name),
        days=round(server.terms.bundles / DAY),
        end=end,
    )


UPLOADS_PATH: Final = "/uploads"
NO_UNFINISHED: Final = "There is no such unfinished upload. It may have been finished or ended already."


def upload_list(request: Request, server: Server) -> Response:
    """The unfinished uploads of all owners."""
    uploads = server.storage.uploads.list_unfinished()
    return render_page(request, server, "uploads.html", title="Unfinished uploads", uploads=uploads)


def end_upload(request: Request, server: Server) -> Response:
    """Its bytes are removed with this answer; whoever still sends is refused with the next block."""
    key = request.path_params["id"]
    if not server.storage.uploads.abandon(key):
        raise not_found(NO_UNFINISHED)
    server.record_action(request, Action.END_UPLOAD, key)
    return RedirectResponse(UPLOADS_PATH, 303)
