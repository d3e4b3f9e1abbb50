"""The gate: checks route, identity, origin and scope of each request before its body is read.

The application finds the sender in `request.state.principal`.

**Routes** name the scopes that they need; a request without a route is refused. All routes are in one table
(`thpdiag.serve.routes`), so that a new route is closed until it names its scopes. `{...}` is one segment of a path;
HEAD is handled like GET.

    RouteRule("GET", "/api/v1/cases/{id}", (Scope.READ,), get_case)
    RouteRule("PUT", "/api/v1/bundles/{name}", (Scope.UPLOAD,), put_bundle, streams=True)

**Identity.** A token in the request determines the principal, or the request is refused; a cookie next to it is
ignored. Without a token, the header of a proxy, a cookie or the mode without login identifies the sender. A browser
sends these by itself, so the request has to come from a page of this server.

**Origins.** In the mode without login this is the only protection: any page in a browser on this machine can send
requests to a loopback address, and with DNS rebinding (a name of its own that resolves to loopback) it could read the
answers. So Host must be a name of this server, changes have to come from its pages, and only its pages may embed parts
of it. Browsers send `Sec-Fetch-Site` only over TLS and to loopback; current browsers send `Origin` with every change,
as `null` where the referrer policy hides it; programs send neither.

**Limits** on malformed requests and on bodies that are not uploads. The server has decoded the path already: `%2F`
became a slash and `%2E%2E` two dots, so the raw path is checked. Headers with a single value may occur once: of two,
the gate and the application could each use a different one. A body that is not an upload is small and read completely
before the application is called, so that a slow sender occupies neither a worker nor memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from thpdiag.errors import StorageError
from thpdiag.serve.access import credentials
from thpdiag.serve.access.audit import Action, Outcome, RequestLog, audit_event, peer_address, request_address
from thpdiag.serve.access.credentials import CHALLENGE, TOKEN_MARK, Bearer
from thpdiag.serve.access.http import SAFE_METHODS, RefusedError, SecurityHeaders, send_refusal, wants_page
from thpdiag.serve.access.principals import (
    ANONYMOUS,
    LOCAL,
    Access,
    AuthMethod,
    Mode,
    Principal,
    Scope,
    is_in_networks,
    parse_address,
)

ID_SHAPE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}", re.ASCII)  # id of a case or an upload, digest of a bundle
Handler = Callable[..., Any]  # (request, server) -> response; `async`, or called in a thread


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A route with its scopes and its handler."""

    method: str
    path: str
    scopes: tuple[Scope, ...]  # one of these is needed; none: open to everyone without a login
    handler: Handler | None = None
    streams: bool = False  # an upload: limits its body itself; a POST may be a PATCH by X-HTTP-Method-Override

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", self.path))))

    @property
    def is_page(self) -> bool:
        """Whether it is for people; the other routes are for programs and refuse with problem JSON."""
        return not self.path.startswith(("/api/", "/files", "/healthz", "/readyz", "/metrics"))

    def anonymous_path(self, path: str) -> str:
        """Return a path for the audit log: with ids, without names that a customer chose."""
        pairs = zip(self.path.split("/"), path.split("/"), strict=True)
        return "/".join(sent if ID_SHAPE.fullmatch(sent) else pattern for pattern, sent in pairs)


class Routes:
    """The table of routes; the first match wins."""

    def __init__(self, rules: Iterable[RouteRule]) -> None:
        self.rules = tuple(rules)
        self._patterns = tuple((rule, rule.pattern) for rule in self.rules)

    def find(self, method: str, path: str) -> RouteRule | None:
        matches = {rule.method: rule for rule, pattern in reversed(self._patterns) if pattern.fullmatch(path)}
        return matches.get(method) or (matches.get("GET") if method == "HEAD" else None)

    def methods(self, path: str) -> tuple[str, ...]:
        """Return the methods of a path, for a 405; none if there is no such path."""
        return tuple(sorted({rule.method for rule, pattern in self._patterns if pattern.fullmatch(path)}))


HOST_SHAPE: Final = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
START_PATH: Final = "/"
MAX_LOCAL_CHARS: Final = 2_000
# One slash that no second one follows, nor a backslash (read as a slash) or a control character (skipped by browsers).
_LOCAL_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*", re.ASCII)


def allowed_origins(headers: Headers, access: Access) -> frozenset[str]:
    """Return the origins of pages of this server for a request; none if Host is another name.

    Without configured origins these are loopback names with any port, since a tunnel may use another port.
    """
    host = headers.get("host", "").lower()
    if not HOST_SHAPE.fullmatch(host):
        return frozenset()
    if access.origins:
        return access.origins if host in {urlsplit(origin).netloc for origin in access.origins} else frozenset()
    name = urlsplit(f"//{host}").hostname or ""
    address = parse_address(name)
    local = name == "localhost" or (address is not None and address.is_loopback)
    return frozenset((f"http://{host}",)) if local else frozenset()


def is_cross_site(method: str, headers: Headers, origins: Collection[str]) -> bool:
    """Whether a page of another site made a browser send this request."""
    site = headers.get("sec-fetch-site")
    if method in SAFE_METHODS:  # links from other sites are allowed, embedding and framing are not
        navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("cross-site", "same-site") and not navigates
    origin = headers.get("origin")
    if site is not None and site != "same-origin":
        return True
    if origin == "null":
        return site != "same-origin"
    return origin is not None and origin not in origins


def local_path(address: str, *, but: str = "") -> str:
    """Return an untrusted address if it is a path of this server other than `but`; otherwise the start page."""
    is_local = len(address) <= MAX_LOCAL_CHARS and _LOCAL_PATH.fullmatch(address) is not None
    return address if is_local and address.partition("?")[0] != but else START_PATH


def path_with_return(page: str, address: str) -> str:
    """Return the path of a page with the address to continue at in `to`, unless that is the start page."""
    return page if local_path(address, but=page) == START_PATH else f"{page}?to={quote(address, safe='/')}"


MAX_HEADERS: Final = 100
MAX_HEAD_BYTES: Final = 16 << 10  # names and values together
MAX_TARGET_BYTES: Final = 8 << 10  # path and query
MAX_BODY_BYTES: Final = 64 << 10
BODY_SECONDS: Final = 10.0
SINGLE_HEADERS: Final = (
    *("host", "authorization", "content-length", "content-type", "cookie", "origin", "sec-fetch-site", "x-csrf-token"),
    *("upload-offset", "upload-length"),
)
OVERRIDE_HEADERS: Final = ("x-http-method", "x-method-override", "x-original-url", "x-rewrite-url")
HIDDEN_SEPARATORS: Final = re.compile(rb"%(?:2f|5c|[01][0-9a-f]|7f)|[\\\x00-\x20\x7f]", re.IGNORECASE)


def check_shape(scope: Request) -> None:
    """RefusedError if a request is malformed."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    if len(pairs) > MAX_HEADERS or sum(len(name) + len(value) for name, value in pairs) > MAX_HEAD_BYTES:
        raise RefusedError(431, "the headers of this request are too large")
    path = scope.get("raw_path") or scope["path"].encode()
    if len(path) + len(scope["query_string"]) > MAX_TARGET_BYTES:
        raise RefusedError(414, "this address is too long")
    if is_deceptive_path(path):
        raise RefusedError(400, "this path is not in normal form")
    headers = Headers(scope=scope)
    if "host" not in headers or any(len(headers.getlist(name)) > 1 for name in SINGLE_HEADERS):
        raise RefusedError(400, "a header is missing or comes twice")
    if any(name in headers for name in OVERRIDE_HEADERS):
        raise RefusedError(400, "a header must not override the method or address of the request")


def is_deceptive_path(path: bytes) -> bool:
    """Whether a raw path has encoded separators, control characters, empty segments, `.` or `..`."""
    segments = [unquote_to_bytes(segment) for segment in path.split(b"/")]
    has_dots = any(segment in (b".", b"..") for segment in segments)
    return not path.startswith(b"/") or b"" in segments[1:-1] or has_dots or HIDDEN_SEPARATORS.search(path) is not None


class BodyLimit:
    """ASGI middleware: reads the body of a request that is not an upload, up to a limit."""

    def __init__(self, app: ASGIApp, routes: Routes, seconds: float = BODY_SECONDS) -> None:
        self._app, self._routes, self._seconds = app, routes, seconds

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        rule = self._routes.find(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if scope["type"] != "http" or (rule and rule.streams):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except RefusedError as refused:
            await send_refusal(refused, scope, receive, send)
            return
        if body is None:
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:  # after the body: later messages, such as a disconnect
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body; None if the client left. The server has refused a length that is not a number."""
        too_large = RefusedError(413, f"more than {MAX_BODY_BYTES >> 10} KiB are for uploads only")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > MAX_BODY_BYTES:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > MAX_BODY_BYTES:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusedError(408, "the rest of this request did not come in time") from None
        return None


RETRY: Final = {"Retry-After": "10"}
LOG: Final = logging.getLogger(__name__)
CSRF_METHODS: Final = (AuthMethod.SESSION, AuthMethod.PROXY, AuthMethod.OIDC)  # need a CSRF token for changes
FORWARDING_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def protect(
    app: ASGIApp, access: Access, routes: Routes, bearer: Bearer, key: bytes, problem: Callable[[], str] = str
) -> ASGIApp:
    """Wrap an application in the middleware of access."""
    gate = Gate(BodyLimit(app, routes), access, routes, bearer, key, problem)
    return RequestLog(SecurityHeaders(gate), access)


@dataclass(frozen=True, slots=True)
class Gate:
    """ASGI middleware. `key` is the signing key of the server: at least 32 random bytes.

    `problem` returns why the store cannot be used; until it is empty, nothing is answered from the store.
    """

    app: ASGIApp
    access: Access
    routes: Routes
    bearer: Bearer
    key: bytes
    problem: Callable[[], str]

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            try:
                check_shape(scope)
                scope.setdefault("state", {})["principal"] = await self._admit(scope)
            except StorageError as error:
                LOG.warning("a request cannot be checked: %s", error)
                unready = RefusedError(503, self.problem() or "the storage cannot be used at the moment", RETRY)
                await send_refusal(unready, scope, receive, send)
                return
            except RefusedError as refused:
                await send_refusal(refused, scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _admit(self, scope: Request) -> Principal:
        """Return the sender of an allowed request. Refusals with 403 are recorded here, bad tokens by `Bearer`."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        rule = self.routes.find(method, path)
        if rule is None:
            if others := ", ".join(self.routes.methods(path)):
                raise RefusedError(405, f"this takes {others}", {"Allow": others})
            raise RefusedError(404, "there is nothing at this address")
        if "x-http-method-override" in headers and not (method == "POST" and rule.streams):
            raise RefusedError(400, "a header must not override the method of the request")
        principal = ANONYMOUS
        if words := self.problem():
            if rule.scopes or method not in SAFE_METHODS:
                raise RefusedError(503, f"this server is not ready: {words}", RETRY)
            return principal
        try:
            principal = await self._identify(scope, headers)
            self._check_site(rule, principal, method, headers)
            self._check_scopes(rule, principal, scope, headers)
        except RefusedError as refused:
            if refused.status == 403:
                subject = f"{method} {rule.anonymous_path(path)}: {refused.words}"
                address = request_address(scope, self.access)
                entry = audit_event(self.bearer.clock(), Action.REQUEST, Outcome.REFUSED, principal, address, subject)
                await run_in_threadpool(self.bearer.record, entry)
            raise
        return principal

    async def _identify(self, scope: Request, headers: Headers) -> Principal:
        """Return the sender of a request; ANONYMOUS without credentials."""
        if self.access.mode is Mode.NONE:
            if any(name in headers for name in FORWARDING_HEADERS):  # all clients of the proxy would have access
                raise RefusedError(403, "a proxy is in front of this server, which has no login: set --access")
            return LOCAL
        authorization = headers.get("authorization")
        if authorization is not None:
            kind, _, presented = authorization.partition(" ")
            secret = presented.strip() if kind.lower() == "bearer" else ""
            # a proxy may forward the credentials of its own login, Basic or Bearer
            if secret.startswith(TOKEN_MARK) or self.access.mode in (Mode.TOKENS, Mode.OIDC):
                return await self.bearer.principal(secret, request_address(scope, self.access))
        if self.access.mode is Mode.PROXY:
            return self._user_of_proxy(peer_address(scope), headers)
        cookie = credentials.session_cookie(headers, over_tls=self.access.over_tls)
        session = credentials.read_session(self.key, cookie, self.bearer.clock())
        if session is None:
            return ANONYMOUS
        find = self.bearer.login_session if self.access.mode is Mode.OIDC else self.bearer.session
        return await find(session.prefix, session.nonce) or ANONYMOUS

    def _user_of_proxy(self, peer: str, headers: Headers) -> Principal:
        """Return the user that a trusted proxy names. The header from another peer is refused, not just ignored."""
        users = [name.strip() for name in headers.getlist(self.access.user_header)]
        if not users:
            return ANONYMOUS
        if len(users) != 1 or not is_in_networks(peer, self.access.proxies):
            raise RefusedError(403, "only a trusted proxy may name the user")
        if not users[0]:
            return ANONYMOUS
        scopes = LOCAL.scopes if users[0] in self.access.admins else self.access.user_scopes
        return Principal(users[0], AuthMethod.PROXY, scopes, binding=users[0])

    def _check_site(self, rule: RouteRule, principal: Principal, method: str, headers: Headers) -> None:
        """RefusedError if another site triggered the request; not checked for reading what is open to everyone."""
        if not principal.ambient or (not rule.scopes and method in SAFE_METHODS):
            return
        origins = allowed_origins(headers, self.access)
        if not origins:
            raise RefusedError(421, "this server does not accept that host name")
        if is_cross_site(method, headers, origins):
            raise RefusedError(403, "this request was sent by a page of another site")

    def _check_scopes(self, rule: RouteRule, principal: Principal, scope: Request, headers: Headers) -> None:
        """RefusedError without one of the scopes, or without a CSRF token where one is needed."""
        if not rule.scopes:
            return
        if principal.auth_method is AuthMethod.ANONYMOUS:
            self._ask_for_login(scope, headers)
        if not any(map(principal.may, rule.scopes)):
            raise RefusedError(403, f"this needs the scope {' or '.join(rule.scopes)}")
        if scope["method"] in SAFE_METHODS or principal.auth_method not in CSRF_METHODS:
            return
        presented = credentials.presented_csrf_token(headers, scope["query_string"])
        if not credentials.is_csrf_token_of(self.key, principal, presented, self.bearer.clock()):
            raise RefusedError(403, "this page is too old or from another server: load it again")

    def _ask_for_login(self, scope: Request, headers: Headers) -> None:
        """Refuse a program with 401, redirect a browser to the sign-in page and back from there."""
        words, page = "this needs a token", self.access.sign_in
        if page and self.access.mode in (Mode.TOKENS, Mode.OIDC) and scope["method"] == "GET" and wants_page(headers):
            path: bytes = scope.get("raw_path") or b""
            query: bytes = scope["query_string"]
            target = (path + b"?" + query if query else path).decode("latin-1")
            raise RefusedError(303, words, {"Location": path_with_return(page, target)})
        raise RefusedError(401, words, CHALLENGE)
