"""Cases: lists of them, one, and what is done to one.

GET    /api/v1/cases?host=&verdict=&mechanism=&rule=&sha256=&since=&until=&limit=&below=
GET    /api/v1/cases/ID
DELETE /api/v1/cases/ID
PUT    /api/v1/cases/ID/kept      spared by retention
DELETE /api/v1/cases/ID/kept
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.audit import Action
from thpdiag.serve.api.endpoint import NO_SUCH, ProblemError, asked, data, endpoint, note
from thpdiag.serve.api.files import names
from thpdiag.serve.api.forms import CASES, case_told, hosts_told
from thpdiag.serve.server import Server
from thpdiag.serve.storage.ids import is_sha256
from thpdiag.serve.storage.search import PAGE, Question

MOST: Final = 200
DIGITS: Final = 18  # of a number that fits into a column
FILTERS: Final = ("host", "verdict", "mechanism", "rule", "sha256", "since", "until")


def routes(server: Server) -> list[BaseRoute]:
    one = f"{CASES}/{{id}}"
    return [
        Route(CASES, endpoint(server, cases), methods=["GET"]),
        Route(one, endpoint(server, case), methods=["GET"]),
        Route(one, endpoint(server, delete), methods=["DELETE"]),
        Route(f"{one}/kept", endpoint(server, keep), methods=["PUT"]),
        Route(f"{one}/kept", endpoint(server, release), methods=["DELETE"]),
    ]


def cases(request: Request, server: Server) -> Response:
    query = asked(request, *FILTERS, "limit", "below")
    question = _question(query)
    limit, below = _limit(query.get("limit")), _number("below", query.get("below"))
    found = server.storage.search.page(question, below, limit + 1)
    shown = found[:limit]
    further = f"{CASES}?{urlencode({**query, 'below': shown[-1].number})}" if len(found) > limit else None
    told = {
        "total": server.storage.search.count(question),
        "cases": [case_told(one) for one in shown],
        "next": further,
    }
    return data(told, headers={"Link": f'<{further}>; rel="next"'} if further else None)


def case(request: Request, server: Server) -> Response:
    asked(request)
    key = str(request.path_params["id"])
    found, document = server.storage.cases.found(key), server.storage.cases.document(key)
    if found is None or document is None:
        raise ProblemError(404, NO_SUCH)
    files = [f"{CASES}/{key}/{name}" for name in names()]
    return data({**case_told(found), "hosts": hosts_told(document), "files": files})


def delete(request: Request, server: Server) -> Response:
    return _changed(request, server, server.storage.removal.case(_of(request)), Action.DELETE)


def keep(request: Request, server: Server) -> Response:
    return _changed(request, server, server.storage.cases.keep(_of(request)), Action.KEEP)


def release(request: Request, server: Server) -> Response:
    return _changed(request, server, server.storage.cases.release(_of(request)), Action.RELEASE)


def _of(request: Request) -> str:
    asked(request)
    return str(request.path_params["id"])


def _changed(request: Request, server: Server, was_there: object, action: Action) -> Response:
    if not was_there:
        raise ProblemError(404, NO_SUCH)
    note(request, server, action, str(request.path_params["id"]))
    return Response(status_code=204)


def _question(query: Mapping[str, str]) -> Question:
    if query.get("sha256") and not is_sha256(query["sha256"]):
        raise ProblemError(400, "sha256 is 64 hexadecimal digits, in small letters")
    texts = {name: query.get(name, "") for name in ("host", "verdict", "mechanism", "rule", "sha256")}
    return Question(**texts, since=_time("since", query.get("since")), until=_time("until", query.get("until")))


def _time(name: str, text: str | None) -> float | None:
    """Seconds since 1970 of a date or a time; without a zone it is UTC."""
    if not text:
        return None
    try:
        told = datetime.fromisoformat(text)
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ProblemError(400, f"{name} is a date or a time like 2026-01-31 or 2026-01-31T12:00:00Z") from None


def _limit(text: str | None) -> int:
    number = _number("limit", text)
    if number is not None and not 1 <= number <= MOST:
        raise ProblemError(400, f"limit is a number from 1 to {MOST}")
    return PAGE if number is None else number


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > DIGITS:
        raise ProblemError(400, f"{name} is a number")
    return int(text)
