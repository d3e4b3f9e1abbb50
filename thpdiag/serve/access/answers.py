"""Answers to requests that are refused: a status, one sentence, and no page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

WITHOUT_BODY: Final = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served. The words say nothing of what there is to find."""

    status: int
    words: str
    headers: dict[str, str] = field(default_factory=dict)


async def answer(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends it: RFC 9457 for programs, a sentence for a browser. A body that is still coming is not waited for."""
    method, headers = scope["method"], Headers(scope=scope)
    more = {} if method in WITHOUT_BODY else {"Connection": "close"}
    if wants_page(headers):
        body, kind = f"{refusal.words}\n", "text/plain; charset=utf-8"
    else:
        told = {"title": HTTPStatus(refusal.status).phrase, "status": refusal.status, "detail": refusal.words}
        body, kind = json.dumps(told), "application/problem+json"
    response = Response(body, refusal.status, {**refusal.headers, **more}, media_type=kind)
    await response(scope, receive, send)


def wants_page(headers: Headers) -> bool:
    """Whether somebody looks at the answer in a browser."""
    return "text/html" in headers.get("accept", "")
