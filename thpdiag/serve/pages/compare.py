"""A case beside another, as a rule of the same host: the comparison in a frame, the older one first."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.compare.document import document
from thpdiag.compare.page import policy, render
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import report_headers
from thpdiag.serve.pages.answering import endpoint, failed, note
from thpdiag.serve.pages.case import MISTAKES, NO_CASE, NO_FORM
from thpdiag.serve.pages.shown import missing, shown
from thpdiag.serve.pages.told import older_first
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case

PATH: Final = "/cases/{id}"
NO_OTHER: Final = "The case to compare with is not there. It may have been deleted, or its time was over."
ITSELF: Final = "This is the same case twice. Choose another one of the host."


def routes(server: Server) -> list[BaseRoute]:
    return [Route(f"{PATH}/compare", endpoint(server, around)), Route(f"{PATH}/comparison", endpoint(server, compared))]


def around(request: Request, server: Server) -> Response:
    """Our page around the comparison; it says which two cases they are."""
    pair = _pair(request, server)
    if isinstance(pair, str):
        return missing(request, server, pair)
    before, after = pair
    return shown(
        request, server, "compare.html", title="Before and after", before=before, after=after,
        asked=request.path_params["id"], other=request.query_params["with"],
        different=bool(before.host and after.host and not _alike(before.host, after.host)),
    )  # fmt: skip


def compared(request: Request, server: Server) -> Response:
    """The comparison's own page."""
    pair = _pair(request, server)
    if isinstance(pair, str):
        return missing(request, server, pair)
    results = [server.storage.cases.document(case.id) for case in pair]
    try:
        page = render(document(*(result or {} for result in results)))
    except MISTAKES:
        return failed(request, server, 500, NO_FORM, title="No comparison")
    for case in pair:
        note(request, server, Action.DOWNLOAD, case.id)
    return HTMLResponse(page, headers=report_headers(policy()))


def _pair(request: Request, server: Server) -> tuple[Case, Case] | str:
    """The two cases, the older first; or why there are none."""
    one = server.storage.cases.found(request.path_params["id"])
    other = server.storage.cases.found(request.query_params.get("with", ""))
    if one is None or other is None:
        return NO_CASE if one is None else NO_OTHER
    return ITSELF if one.id == other.id else older_first(one, other)


def _alike(one: str, other: str) -> bool:
    """Whether two names may be of one host, with its domain or without."""
    short = one.partition(".")[0] == other.partition(".")[0]
    return one == other or (short and not ("." in one and "." in other))
