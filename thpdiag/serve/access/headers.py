"""Headers of security, by the kind of the answer, and refusals of requests.

    page      of this server: scripts and styles from this server only, in no frame
    report    made of what a customer sent: an origin of its own, its own script by digest, in a frame of ours only
    download  saved, never shown
    other     data, refusals, and whatever forgot to say what it is: shows nothing, runs nothing

A page tells its address to pages of this server alone: with `no-referrer` a form without script would send its origin
as `null`, which nobody could tell from a stranger's where the server has no TLS.

A refusal is a status and one sentence, as problem JSON (RFC 9457) for programs, as text for a browser.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))  # they change nothing, and their requests have no body


class RefusedError(Exception):
    """Why a request is not served. The words say what to do differently, and nothing of what there is to find."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, dict(headers or {})


def problem_response(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    problem = {"title": HTTPStatus(status).phrase, "status": status, "detail": words}
    return Response(json.dumps(problem), status, dict(headers or {}), "application/problem+json")


def wants_page(headers: Headers) -> bool:
    """Whether somebody looks at the answer in a browser."""
    return "text/html" in headers.get("accept", "")


async def send_refusal(refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers in place of the application. A body that is still coming is not waited for."""
    headers = refused.headers | ({} if scope["method"] in SAFE_METHODS else {"Connection": "close"})
    if wants_page(Headers(scope=scope)):
        response: Response = PlainTextResponse(f"{refused.words}\n", refused.status, headers)
    else:
        response = problem_response(refused.status, refused.words, headers)
    await response(scope, receive, send)


FIXED_HEADERS: Final = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Permitted-Cross-Domain-Policies": "none",
    }
)
DEFAULT_HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
        ),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
)
PAGE_HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
            "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        "Referrer-Policy": "same-origin",
    }
)
# Of a script or style of ours, whose address has its digest in it: the same for ever.
STATIC_HEADERS: Final = MappingProxyType({"Cache-Control": "public, max-age=31536000, immutable"})
MAX_FILENAME_CHARS: Final = 120


class SecurityHeaders:
    """ASGI middleware: no answer leaves without them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                for name, value in FIXED_HEADERS.items():
                    headers[name] = value
                for name, value in DEFAULT_HEADERS.items():
                    headers.setdefault(name, value)
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def report_headers(policy: str) -> dict[str, str]:
    """Of a report, with the policy that stands in its own page: digests of its script and its style."""
    parts = [part.split() for part in policy.split(";")]
    loose = [word for part in parts for word in part[1:] if not (word == "'none'" or word.startswith("'sha256-"))]
    if loose or ["default-src", "'none'"] not in parts or not policy.isascii() or not policy.isprintable():
        raise ValueError(f"a report is served with its script and style by digest only, not with {policy}")
    return {"Content-Security-Policy": f"sandbox allow-scripts; {policy}; frame-ancestors 'self'"}


def download_headers(name: str) -> dict[str, str]:
    """Of a file that is saved under a name which somebody else chose; its bytes are never shown as a page."""
    return {"Content-Disposition": content_disposition(name), "Content-Type": "application/octet-stream"}


def content_disposition(name: str) -> str:
    """`attachment` with a file name, by RFC 6266 in ASCII and by RFC 8187 whole, without folders and what hides."""
    last = name.replace("\\", "/").rpartition("/")[2]
    shown = "".join("_" if unicodedata.category(c).startswith(("C", "Z")) else c for c in last).lstrip(".")
    shown = shown[:MAX_FILENAME_CHARS] or "download"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in shown)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe='')}"
