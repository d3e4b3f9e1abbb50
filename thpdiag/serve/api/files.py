"""The report of a case in every format, and two cases compared.

    GET /api/v1/cases/ID/report.html      shown, under the policy of its page; all others are saved
    GET /api/v1/cases/ID/report.json      and .txt .md .xml (JUnit) .sarif .csv .gitlab.json .github.txt
    GET /api/v1/compare/html?before=ID&after=ID

`redact=1` gives a report with pseudonyms for all that is the customer's own. Uploads themselves are given to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.reports import FORMATS
from thpdiag.reports.html.script import policy
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import disposition, report_headers
from thpdiag.serve.api.endpoint import NO_SUCH, ProblemError, asked, endpoint, note
from thpdiag.serve.api.forms import CASES
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case

TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
KINDS: Final = MappingProxyType(  # by format: how a file of it ends, and its media type
    {
        "html": ("html", HTML),
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


def routes(server: Server) -> list[BaseRoute]:
    return [
        Route(f"{CASES}/{{id}}/{{report}}", endpoint(server, report), methods=["GET"]),
        Route("/api/v1/compare/{format}", endpoint(server, comparison), methods=["GET"]),
    ]


@cache
def names() -> Mapping[str, str]:
    """The files of a case, `report.html` and so on, with their formats."""
    return {f"report.{KINDS[form][0] if form in KINDS else form}": form for form in FORMATS}


def report(request: Request, server: Server) -> Response:
    redact = asked(request, "redact").get("redact", "0")
    if redact not in ("0", "1"):
        raise ProblemError(400, "redact is 0 or 1")
    key, form = str(request.path_params["id"]), names().get(str(request.path_params["report"]))
    case, document = (server.storage.cases.found(key), _document(server, key)) if form else (None, None)
    if form is None or case is None or document is None:
        raise ProblemError(404, NO_SUCH)
    if redact == "1":
        document = _redacted(document)
    text = FORMATS[form](document)
    note(request, server, Action.DOWNLOAD, key)
    return _file(form, text, policy(), _title(case) if redact == "0" else f"thpdiag-{case.id[:8]}")


def comparison(request: Request, server: Server) -> Response:
    query = asked(request, "before", "after")
    form = COMPARISONS.get(str(request.path_params["format"]))
    if form is None:
        raise ProblemError(404, NO_SUCH)
    if len(query) < 2:
        raise ProblemError(400, "before and after are the ids of two cases")
    sides = [_document(server, query[side]) for side in ("before", "after")]
    if None in sides:
        raise ProblemError(404, NO_SUCH)
    text, rule = _compared(form, *(side or {} for side in sides))
    for side in ("before", "after"):
        note(request, server, Action.DOWNLOAD, query[side])
    return _file(form, text, rule, "thpdiag-comparison")


def _compared(form: str, before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    """The comparison in a format, and the policy of its page."""
    from thpdiag.compare.document import document
    from thpdiag.compare.formats import FORMATS as OF_COMPARISON
    from thpdiag.compare.page import policy as of_comparison

    compared = document(before, after)
    if not compared["hosts"]:
        raise ProblemError(422, "nothing to compare: no host of one case is in the other")
    return OF_COMPARISON[form](compared), of_comparison()


def _document(server: Server, key: str) -> dict[str, Any] | None:
    return server.storage.cases.document(key)


def _redacted(document: dict[str, Any]) -> dict[str, Any]:
    """Its lists of what is no secret are loaded by whoever asks for it first."""
    from thpdiag.redact.document import redacted
    from thpdiag.redact.names import Names

    return redacted(document, Names())


def _file(form: str, text: str, rule: str, title: str) -> Response:
    """A page is shown where its policy holds; every other file is saved."""
    ending, kind = KINDS.get(form, (form, "application/octet-stream"))
    saved = {"Content-Disposition": disposition(f"{title}.{ending}")}
    headers = report_headers(rule) if form == "html" else saved
    return Response(text.encode("utf-8", "backslashreplace"), headers={**headers, "Content-Type": kind})


def _title(case: Case) -> str:
    """What a saved file is called: by host, and by the case, of which a host has many."""
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in case.host or "")[:60].strip("-.")
    return "-".join(filter(None, ("thpdiag", host, case.id[:8])))
