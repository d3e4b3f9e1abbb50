"""One case: its report, its files, what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.reports.html import render
from thpdiag.reports.html.script import policy
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import report_headers
from thpdiag.serve.pages import cited, told
from thpdiag.serve.pages.answering import endpoint, failed, note
from thpdiag.serve.pages.shown import missing, shown
from thpdiag.serve.server import Server
from thpdiag.serve.storage.bundles import Bundle
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.search import Question

PATH: Final = "/cases/{id}"
DOWNLOADS: Final = (  # as the API has them, in words
    ("Web page", "report.html"),
    ("JSON", "report.json"),
    ("Text", "report.txt"),
    ("Markdown", "report.md"),
    ("CSV", "report.csv"),
    ("SARIF", "report.sarif"),
    ("JUnit", "report.xml"),
    ("GitLab Code Quality", "report.gitlab.json"),
    ("GitHub annotations", "report.github.txt"),
)
OTHERS: Final = 20  # cases of the same host that are listed
NO_CASE: Final = "There is no such case. It may have been deleted, or its time was over."
NO_FORM: Final = "The stored result of this case does not have the form of a result. Analyse the bundle again."
MISTAKES: Final = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)  # of a document without form


@dataclass(frozen=True, slots=True)
class Around:
    """What stands beside a case: its bundle, what its findings cite, other cases."""

    bundle: Bundle | None
    findings: list[cited.Finding]
    same_host: list[Case]
    same_bundle: list[Case]

    @property
    def places(self) -> int:
        return sum(len(finding.places) for finding in self.findings)


def routes(server: Server) -> list[BaseRoute]:
    return [
        Route(PATH, endpoint(server, case_page)),
        Route(f"{PATH}/page", endpoint(server, report)),
        Route(f"{PATH}/keep", endpoint(server, keep), methods=["POST"]),
        Route(f"{PATH}/release", endpoint(server, release), methods=["POST"]),
        Route(f"{PATH}/delete", endpoint(server, delete), methods=["POST"]),
    ]


def case_page(request: Request, server: Server) -> Response:
    case = server.storage.cases.found(request.path_params["id"])
    if case is None:
        return missing(request, server, NO_CASE)
    around = _around(server, case)
    title = ": ".join(filter(None, (told.named(case), told.said(case))))
    return shown(request, server, "case.html", title=title, case=case, around=around, formats=DOWNLOADS)


def report(request: Request, server: Server) -> Response:
    """The report's own page, for a frame of ours: an origin of its own, its own script only."""
    document = server.storage.cases.document(request.path_params["id"])
    if document is None:
        return missing(request, server, NO_CASE)
    try:
        page = render(document)
    except MISTAKES:
        return failed(request, server, 500, NO_FORM, title="No report")
    note(request, server, Action.DOWNLOAD, request.path_params["id"])
    return HTMLResponse(page, headers=report_headers(policy()))


def keep(request: Request, server: Server) -> Response:
    return _changed(request, server, server.storage.cases.keep, Action.KEEP)


def release(request: Request, server: Server) -> Response:
    return _changed(request, server, server.storage.cases.release, Action.RELEASE)


def delete(request: Request, server: Server) -> Response:
    """Asks first; the form of the page that asks says that somebody is sure."""
    case = server.storage.cases.found(request.path_params["id"])
    if case is None:
        return missing(request, server, NO_CASE)
    if request.query_params.get("sure") != "yes":
        alone = not _same_bundle(server, case)
        return shown(request, server, "delete.html", title="Delete this case?", case=case, alone=alone)
    if not server.storage.removal.case(case.id):
        return missing(request, server, NO_CASE)
    note(request, server, Action.DELETE, case.id)
    return RedirectResponse("/cases", 303)


def _changed(request: Request, server: Server, change: Callable[[str], bool], action: Action) -> Response:
    key = request.path_params["id"]
    if not change(key):
        return missing(request, server, NO_CASE)
    note(request, server, action, key)
    return RedirectResponse(f"/cases/{key}", 303)


def _around(server: Server, case: Case) -> Around:
    storage = server.storage
    document: Mapping[str, Any] = storage.cases.document(case.id) or {}
    try:
        findings = cited.findings(document)
    except MISTAKES:
        findings = []
    return Around(storage.bundles.found(case.sha256), findings, _same_host(server, case), _same_bundle(server, case))


def _same_host(server: Server, case: Case) -> list[Case]:
    """The latest others; a host that has no name is nobody's."""
    if not case.host:
        return []
    found = server.storage.search.page(Question(same_host=case.host), limit=OTHERS + 1)
    return [other for other in found if other.id != case.id][:OTHERS]


def _same_bundle(server: Server, case: Case) -> list[Case]:
    found = server.storage.search.page(Question(sha256=case.sha256), limit=OTHERS + 1)
    return [other for other in found if other.id != case.id][:OTHERS]
