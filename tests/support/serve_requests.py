"""Helpers of the tests of access to the upload page: an application behind the access check, and in-memory requests."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from thpdiag.serve.access import credentials
from thpdiag.serve.access.credentials import Attempts, Bearer, mint_token
from thpdiag.serve.access.gate import RouteRule, Routes, protect
from thpdiag.serve.access.http import UVICORN_OPTIONS, LimitedHttpProtocol
from thpdiag.serve.access.principals import Access, AuthMethod, Mode, Principal, Scope, parse_scopes
from thpdiag.serve.storage.access import AuditEntry, TokenRow

KEY = bytes(range(32))
ORIGIN = "https://thpdiag.example.org"
TOKENS = Access(Mode.TOKENS, "0.0.0.0", frozenset((ORIGIN,)))
CASE = "/api/v1/cases/0123456789abcdef0123456789abcdef"
ROUTES = Routes(
    (
        RouteRule("GET", "/healthz", ()),
        RouteRule("GET", "/", (Scope.READ,)),
        RouteRule("POST", "/sign-in", ()),
        RouteRule("GET", "/api/v1/cases/{id}", (Scope.READ,)),
        RouteRule("DELETE", "/api/v1/cases/{id}", (Scope.ADMIN,)),
        RouteRule("POST", "/api/v1/cases/{id}/keep", (Scope.READ,)),
        RouteRule("PUT", "/api/v1/bundles/{name}", (Scope.UPLOAD,), streams=True),
        RouteRule("POST", "/files", (Scope.UPLOAD,), streams=True),
        RouteRule("POST", "/files/{id}", (Scope.UPLOAD,), streams=True),
    )
)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes

    @property
    def told(self) -> Any:
        return json.loads(self.body)


class KeptTokens:
    """Tokens in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, TokenRow] = {}
        self.looked_up = 0

    def find(self, prefix: str) -> TokenRow | None:
        self.looked_up += 1
        return self.kept.get(prefix)

    def touch(self, prefix: str, at: float) -> None:
        self.kept[prefix] = replace(self.kept[prefix], used=at)


class House:
    """A server: its time, tokens, audit log, and the requests that reached the application."""

    def __init__(self, access: Access = TOKENS) -> None:
        self.now = 1_700_000_000.0
        self.access = access
        self.tokens = KeptTokens()
        self.events: list[AuditEntry] = []
        self.through: list[tuple[str, str, Principal, bytes]] = []
        self.headers: list[list[str]] = []
        self.bearer = Bearer(self.tokens, Attempts(lambda: self.now), self.events.append, lambda: self.now)
        self.app = protect(self._app, access, ROUTES, self.bearer, KEY)

    async def _app(self, scope: Request, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.headers.append([name.decode() for name, _ in scope["headers"]])
        self.through.append((scope["method"], scope["path"], scope["state"]["principal"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"served"})

    def token(self, *names: str, expires: float | None = None, label: str = "ci") -> str:
        secret, kept = mint_token(label, parse_scopes(names), self.now, expires)
        self.tokens.kept[kept.prefix] = kept
        return secret

    def cookie(self, secret: str) -> tuple[str, str]:
        """Return the header of a browser with a session of a token."""
        return "cookie", f"__Host-thpdiag={credentials.begin_session(KEY, prefix(secret), self.now)}"

    def csrf(self, cookie: tuple[str, str]) -> tuple[str, str]:
        """Return the header of a page for the session of a cookie."""
        session = credentials.read_session(KEY, cookie[1].partition("=")[2], self.now)
        assert session
        who = Principal("", AuthMethod.SESSION, frozenset(), session.prefix, session.nonce)
        return "x-csrf-token", credentials.issue_csrf_token(KEY, who, self.now)

    def ask(self, method: str, path: str, *headers: tuple[str, str], **more: Any) -> Answer:
        hosted = headers if any(name == "host" for name, _ in headers) else (("host", "thpdiag.example.org"), *headers)
        return ask(self.app, method, path, hosted, **more)


@contextmanager
def serving(
    app: ASGIApp, listening: socket.socket, protocol: type[LimitedHttpProtocol] = LimitedHttpProtocol
) -> Iterator[None]:
    """Run the real server with access control in a thread; at the end requests have a second."""
    options = {**UVICORN_OPTIONS, "http": protocol, "lifespan": "off", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def finish(work: Awaitable[None]) -> None:
    """Run a coroutine in a thread of its own: that of the tests may have the loop of a browser."""

    async def awaited() -> None:
        await work

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(awaited())).result()


def prefix(secret: str) -> str:
    return secret.split("_")[1]


def bearer(secret: str) -> tuple[str, str]:
    return "authorization", f"Bearer {secret}"


def request(
    method: str, target: str, headers: Sequence[tuple[str, str]] = (), peer: str = "203.0.113.7"
) -> dict[str, Any]:
    """Return the scope of a request as uvicorn makes it: the decoded path, and the raw one."""
    path, _, query = target.partition("?")
    return {
        "type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": (peer, 50_000) if peer else None, "scheme": "http", "state": {},
    }  # fmt: skip


def ask(
    app: ASGIApp,
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]] = (),
    peer: str = "203.0.113.7",
    body: Sequence[bytes] = (b"",),
) -> Answer:
    """Return the answer to one request, without a server."""
    sent: list[Message] = []
    coming = [{"type": "http.request", "body": part, "more_body": True} for part in body]
    coming[-1]["more_body"] = False

    async def receive() -> Message:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    finish(app(request(method, target, headers, peer), receive, send))
    parts = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], Headers(raw=list(sent[0]["headers"])), parts)
