"""HTTP: limits on the head of a request, refusals, and security headers of every answer.

uvicorn with httptools does not limit the head of a request: it collects headers before any application is called, waits
forever for the first ones of a connection, and adds trailers of a chunked body to the headers of the request that is
being served. `LimitedHttpProtocol` counts bytes that complete no head and belong to no body, which covers heads,
trailers and chunk extensions alike, and drops trailers. A proxy in front counts as one address with the same limit of
connections; it has to limit its clients itself.

Security headers by kind of answer:

    page      scripts and styles from this server only, in no frame
    report    made from customer data: an origin of its own, its own script by digest, framed by this server only
    download  saved, never shown
    other     data, refusals and the default: shows nothing, runs nothing

Pages send their referrer to this server only: with `no-referrer` a form without script would send `Origin: null`, which
without TLS cannot be told from the origin of another site.

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

    max_unparsed_bytes: ClassVar[int] = 32 << 10  # beyond the read in which they begin, which is 256 KiB at most
    max_head_seconds: ClassVar[float] = 10.0
    max_connections: ClassVar[int] = 512  # of one address: half of the open files of a process by default

    _in_head = False  # from the first byte of a request to the end of its headers
    _in_body = False  # from there to the end of its body and trailers
    _unparsed_bytes = 0  # since the last progress
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
        self._unparsed_bytes = 0 if self._progress else self._unparsed_bytes + len(data)
        if self._unparsed_bytes > self.max_unparsed_bytes:
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
        """Whether the address has too many connections; a Unix socket has no address to count by."""
        if self.client is None:
            return False
        clients = [getattr(connection, "client", None) for connection in self.connections]
        same = [client for client in clients if client is not None and client[0] == self.client[0]]
        return len(same) > self.max_connections

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.max_head_seconds, self._on_deadline)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._is_answering():  # a second request is not read while the first is being answered
            self._start_deadline()
        else:
            self._refuse(b"408 Request Timeout")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: bytes) -> None:
        """End the connection, with an answer if a request has begun and no other is being answered."""
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
        "proxy_headers": False,  # would replace the peer address with an untrusted X-Forwarded-For
        "access_log": False,  # would write queries
        "log_config": None,  # its own handlers would bypass the formatter that masks secrets
        "server_header": False,
    }
)


SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))  # they change nothing, and their requests have no body


class RefusedError(Exception):
    """Why a request is not served. `words` are for the client and do not reveal what exists on the server."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, dict(headers or {})


def problem_response(status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    problem = {"title": HTTPStatus(status).phrase, "status": status, "detail": words}
    return Response(json.dumps(problem), status, dict(headers or {}), "application/problem+json")


def wants_page(headers: Headers) -> bool:
    """Whether the client is a browser that shows the answer."""
    return "text/html" in headers.get("accept", "")


async def send_refusal(refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in place of the application, without waiting for the rest of the request body."""
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
# The address of a static file contains its digest, so that its content never changes.
STATIC_HEADERS: Final = MappingProxyType({"Cache-Control": "public, max-age=31536000, immutable"})
MAX_FILENAME_CHARS: Final = 120


class SecurityHeaders:
    """ASGI middleware: adds security headers to every answer."""

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
    """Return the headers of a report; `policy` is that of its own page: digests of its script and style."""
    parts = [part.split() for part in policy.split(";")]
    unsafe = [word for part in parts for word in part[1:] if not (word == "'none'" or word.startswith("'sha256-"))]
    if unsafe or ["default-src", "'none'"] not in parts or not policy.isascii() or not policy.isprintable():
        raise ValueError(f"a report is served with its script and style by digest only, not with {policy}")
    return {"Content-Security-Policy": f"sandbox allow-scripts; {policy}; frame-ancestors 'self'"}


def download_headers(name: str) -> dict[str, str]:
    """Return the headers of a file that is saved under an untrusted name and never shown as a page."""
    return {"Content-Disposition": content_disposition(name), "Content-Type": "application/octet-stream"}


def content_disposition(name: str) -> str:
    """Return `attachment` with a file name, in ASCII (RFC 6266) and in full (RFC 8187), without folders."""
    base = name.replace("\\", "/").rpartition("/")[2]
    full = "".join("_" if unicodedata.category(c).startswith(("C", "Z")) else c for c in base).lstrip(".")
    full = full[:MAX_FILENAME_CHARS] or "download"
    ascii_name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in full)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(full, safe='')}"
