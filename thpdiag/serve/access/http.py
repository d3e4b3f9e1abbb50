"""HTTP: how slowly and how large a request may come in, refusals, and the headers of every answer.

uvicorn with httptools has no limit for the head of a request: it collects headers as long as they come, before any
application is called, and waits for ever for the first ones of a connection. Trailers of a chunked body it adds to the
headers of a request that is being served. Here bytes are counted that were read and led to nothing: no whole head, no
byte of a body. That holds for a head, for trailers and for the extensions of chunks alike. Trailers are dropped. A
proxy in front is one address; it can have as many connections as anybody, and has to limit its clients itself.

Headers of security go by the kind of the answer:

    page      of this server: scripts and styles from this server only, in no frame
    report    made of what a customer sent: an origin of its own, its own script by digest, in a frame of ours only
    download  saved, never shown
    other     data, refusals, and whatever forgot to say what it is: shows nothing, runs nothing

A page tells its address to pages of this server alone: with `no-referrer` a form without script would send its origin
as `null`, which nobody could tell from a stranger's where the server has no TLS.

A refusal is a status and one sentence, as problem JSON (RFC 9457) for programs, as text for a browser.
"""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class LimitedHttpProtocol(HttpToolsProtocol):
    """The protocol of one connection; `uvicorn.Config(http=LimitedHttpProtocol)`."""

    most_bytes: ClassVar[int] = 32 << 10  # beyond the read in which it begins, which is 256 KiB at most
    most_seconds: ClassVar[float] = 10.0
    most_connections: ClassVar[int] = 512  # of one address: half of the files that a process may have open by default

    _in_head = False  # from the first byte of a request to the end of its headers
    _in_body = False  # from there to the end of its body and trailers
    _fruitless = 0  # bytes since the last progress
    _progress = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._is_crowded():
            transport.close()
        else:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._progress = False
        super().data_received(data)
        self._fruitless = 0 if self._progress else self._fruitless + len(data)
        if self._fruitless > self.most_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._deadline is None and not self._in_body and not self._is_answering():
            self._start_deadline()  # empty lines between two requests

    def on_message_begin(self) -> None:
        self._progress = self._in_head = True
        self._start_deadline()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._progress, self._in_head, self._in_body = True, False, True
        self._cancel_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress, self._in_body = True, False
        super().on_message_complete()

    def _is_crowded(self) -> bool:
        """Whether this is one connection too many of its address; on a Unix socket there is none to count by."""
        if self.client is None:
            return False
        clients = [getattr(connection, "client", None) for connection in self.connections]
        same = [client for client in clients if client is not None and client[0] == self.client[0]]
        return len(same) > self.most_connections

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.most_seconds, self._on_deadline)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._is_answering():  # of a second request nothing is read while the first is being answered
            self._start_deadline()
        else:
            self._refuse(b"408 Request Timeout")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: bytes) -> None:
        """Ends the connection, with an answer if a request has begun and no other is being answered."""
        self._cancel_deadline()
        if not self.transport.is_closing():
            if self._in_head and not self._is_answering():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()


UVICORN_OPTIONS: Final = MappingProxyType[str, Any](
    {
        "http": LimitedHttpProtocol,
        "ws": "none",
        "interface": "asgi3",
        "proxy_headers": False,  # would put what X-Forwarded-For claims in the place of the address that is trusted
        "access_log": False,  # would write queries
        "log_config": None,  # its own handlers would write past the formatter that blots out secrets
        "server_header": False,
    }
)


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
