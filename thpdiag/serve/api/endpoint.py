"""From a function to an endpoint for programs: it runs in a thread, answers JSON, and each refusal is problem JSON.

Problem JSON is that of RFC 9457. Its words say what to do differently, and nothing of what there is to find.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.csrf import FIELD
from thpdiag.serve.access.gate import address_of
from thpdiag.serve.server import Server

Respond = Callable[[Request, Server], Response]
LOG: Final = logging.getLogger(__name__)
STORE: Final = (StoreError, StoreBusyError, StoreFullError)


class ProblemError(Exception):
    """Why a request is not answered: a status and one sentence."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


NO_SUCH: Final = "there is nothing here"


def endpoint(server: Server, respond: Respond) -> Callable[[Request], Response]:
    """What Starlette calls in a thread, since it is no coroutine: all that is asked waits for disk and processor."""

    def answered(request: Request) -> Response:
        try:
            return respond(request, server)
        except (ProblemError, *STORE) as error:
            return refusal(error)

    return answered


def refusal(error: Exception) -> Response:
    """A failure as it is told; of a storage that cannot be used the log says more, not the answer."""
    match error:
        case ProblemError():
            return problem(error.status, error.words)
        case StoreFullError():
            return problem(507, "the disk of this server is full; nothing was changed")
        case StoreBusyError():
            return problem(503, "the storage of this server is busy; try again in a moment", {"Retry-After": "5"})
        case _:
            LOG.error("the storage failed: %s", error)
            return problem(500, "the storage of this server failed")


def problem(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    told = {"title": HTTPStatus(status).phrase, "status": status, "detail": words}
    return Response(json.dumps(told), status, dict(headers or {}), "application/problem+json")


def data(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON in ASCII: half characters of a stranger's file name are no UTF-8."""
    return Response(json.dumps(value, allow_nan=False), status, dict(headers or {}), "application/json")


def asked(request: Request, *names: str) -> dict[str, str]:
    """The query, each name once and none but these: what is not understood must not seem to have been heeded."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != FIELD]
    for name, _ in pairs:
        if name not in names:
            known = f"known are {', '.join(names)}" if names else "none is known here"
            raise ProblemError(400, f"a parameter of the query is unknown; {known}")
    if len(dict(pairs)) < len(pairs):
        raise ProblemError(400, "a parameter of the query comes twice")
    return dict(pairs)


def note(request: Request, server: Server, action: Action, subject: str) -> None:
    """Write down that somebody did this."""
    who, address = request.state.principal, address_of(dict(request.scope), server.access)
    server.storage.audit.add(event(server.clock(), action, Outcome.DONE, who, address, subject))


def written(value: Any) -> str:
    """JSON on one line, for events."""
    return json.dumps(value, allow_nan=False)
