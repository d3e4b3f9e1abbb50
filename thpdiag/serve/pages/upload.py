"""The upload page (a form, a script with resumable uploads, or curl), the page of a job, and unfinished uploads.

The page of a job shows its place in the queue, its stage and its end. With script it follows the events of the job,
without it reloads itself. When the case exists, a user with the scope read is redirected to it; one with only the scope
upload sees the verdict of their own upload. `/jobs/` also accepts the id of an upload, since a browser that missed the
last answer of an upload has no other id. Admins see all unfinished uploads.
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
    """List the visible jobs of a query: of files that were sent as separate cases."""
    keys = request.query_params.getlist("id")[:MAX_LISTED_JOBS]
    jobs = [job for key in keys if (job := server.find_job(request.state.principal, key)) is not None]
    return render_page(request, server, "jobs.html", title="Uploads", jobs=jobs, titles=JOB_TITLES)


def job_page(request: Request, server: Server) -> Response:
    key, principal, storage = request.path_params["id"], request.state.principal, server.storage
    job = server.find_job(principal, key)
    if job is None:
        upload, accepted = storage.uploads.find(key), storage.find_accepted(key)
        if upload is None or accepted is None or not principal.may_manage(upload.owner):
            raise not_found(NO_UPLOAD)
        return RedirectResponse(f"/jobs/{accepted.job}", 303)
    if job.state == DONE and principal.may(Scope.READ):
        return RedirectResponse(f"/cases/{job.case}", 303)
    case = storage.cases.find(job.case or "")
    # without the number of the signal or the name of the limit
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
    """List the unfinished uploads of all owners."""
    uploads = server.storage.uploads.list_unfinished()
    return render_page(request, server, "uploads.html", title="Unfinished uploads", uploads=uploads)


def end_upload(request: Request, server: Server) -> Response:
    """Delete an unfinished upload at once; its sender is refused with the next block."""
    key = request.path_params["id"]
    if not server.storage.uploads.abandon(key):
        raise not_found(NO_UNFINISHED)
    server.record_action(request, Action.END_UPLOAD, key)
    return RedirectResponse(UPLOADS_PATH, 303)
