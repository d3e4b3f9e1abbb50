"""The gate: each request has a rule, somebody who is known, a page of ours if a browser sends it, and the scope.

What a request may do is decided here, before a byte of its body is read and before the application sees it. The
application finds who it was in `request.state.principal`.

In which order: what the request says of itself counts alone. One with a token is who the token says, or refused; a
cookie beside it changes nothing. Only without a token is a proxy, a cookie or the missing login looked at, and then the
request has to come from a page of ours, since a browser sends those by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from thpdiag.serve.access import csrf, sessions
from thpdiag.serve.access.addresses import client, is_listed
from thpdiag.serve.access.answers import Refusal, answer, wants_page
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.bearer import CHALLENGE, Bearer
from thpdiag.serve.access.local import with_onward
from thpdiag.serve.access.modes import Access, Mode
from thpdiag.serve.access.origins import SAFE, is_forwarded, is_from_elsewhere, ours
from thpdiag.serve.access.principal import LOCAL, NOBODY, Principal, Way
from thpdiag.serve.access.routes import Routes, Rule
from thpdiag.serve.access.tokens import MARK

NO_SUCH = Refusal(404, "there is nothing here")
ELSEWHERE = Refusal(403, "this request was sent by a page of another site")
NOT_OUR_NAME = Refusal(421, "this server is not known by that name")
BEHIND_A_PROXY = Refusal(403, "a proxy stands in front of this server, which has no login: name a mode of access")
CLAIMED = Refusal(403, "the name of a user is taken from a trusted proxy only")
NOT_GIVEN = Refusal(403, "this page is too old or not ours: load it again")
OTHER_METHOD = Refusal(400, "the method of a request is that of its first line")
NO_LOGIN = Refusal(401, "this needs a token", CHALLENGE)


@dataclass(frozen=True, slots=True)
class Gate:
    """ASGI middleware. `key` is the server's own: 32 random bytes or more, which nobody else can read."""

    app: ASGIApp
    access: Access
    routes: Routes
    bearer: Bearer
    key: bytes

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
        elif isinstance(decided := await self._decided(scope), Refusal):
            await answer(self._for_people(decided, scope), scope, receive, send)
        else:
            scope.setdefault("state", {})["principal"] = decided
            await self.app(scope, receive, send)

    async def _decided(self, scope: Request) -> Principal | Refusal:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        rule = self.routes.find(method, path)
        if rule is None:
            others = ", ".join(self.routes.methods(path))
            return Refusal(405, f"this takes {others}", {"Allow": others}) if others else NO_SUCH
        if "x-http-method-override" in headers and not (method == "POST" and rule.streams):
            return OTHER_METHOD
        who = await self._who(scope, headers)
        if isinstance(who, Refusal):
            return await self._noted(who, NOBODY, rule, scope)
        refused = self._foreign(rule, who, method, headers) or self._unfit(rule, who, scope, headers)
        return await self._noted(refused, who, rule, scope) if refused else who

    async def _who(self, scope: Request, headers: Headers) -> Principal | Refusal:
        """Who sends it; NOBODY if nothing says so."""
        if is_forwarded(self.access, headers):
            return BEHIND_A_PROXY
        if self.access.mode is Mode.NONE:
            return LOCAL
        given = headers.get("authorization")
        if given is not None and (is_ours(given) or self.access.mode is Mode.TOKENS):
            return await self.bearer.principal(secret_of(given), address_of(scope, self.access))
        if self.access.mode is Mode.PROXY:
            return proxied(self.access, peer(scope), headers)
        value = sessions.cookie(headers, over_tls=self.access.over_tls)
        session = sessions.read(self.key, value, self.bearer.clock())
        return (await self.bearer.session(session.prefix, session.nonce) if session else None) or NOBODY

    def _foreign(self, rule: Rule, who: Principal, method: str, headers: Headers) -> Refusal | None:
        """Whether another site has a hand in it; of what anybody may read that does not matter."""
        if not who.ambient or (rule.needs is None and method in SAFE):
            return None
        origins = ours(headers, self.access)
        if not origins:
            return NOT_OUR_NAME
        return ELSEWHERE if is_from_elsewhere(method, headers, origins) else None

    def _unfit(self, rule: Rule, who: Principal, scope: Request, headers: Headers) -> Refusal | None:
        """Whether they may not do this, or nothing shows that they meant to."""
        if rule.needs is None:
            return None
        if who.way is Way.NOBODY:
            return NO_LOGIN
        if not any(map(who.may, rule.enough)):
            return Refusal(403, f"this needs the scope {' or '.join(rule.enough)}")
        if scope["method"] in SAFE or who.way not in (Way.SESSION, Way.PROXY):
            return None
        given = csrf.presented(headers, scope["query_string"])
        return None if csrf.is_right(self.key, who, given, self.bearer.clock()) else NOT_GIVEN

    async def _noted(self, refused: Refusal, who: Principal, rule: Rule, scope: Request) -> Refusal:
        """Writes down what somebody was not allowed to do; the failures of tokens are written where they are found."""
        if refused.status == 403:
            told = f"{scope['method']} {rule.told(scope['path'])}: {refused.words}"
            address = address_of(scope, self.access)
            line = event(self.bearer.clock(), Action.REQUEST, Outcome.REFUSED, who, address, told)
            await run_in_threadpool(self.bearer.record, line)
        return refused

    def _for_people(self, refused: Refusal, scope: Request) -> Refusal:
        """Somebody without a session is shown where to begin one, and goes on from there."""
        looked_at = scope["method"] == "GET" and wants_page(Headers(scope=scope))
        if refused is NO_LOGIN and looked_at and self.access.sign_in and self.access.mode is Mode.TOKENS:
            return Refusal(303, refused.words, {"Location": with_onward(self.access.sign_in, asked_for(scope))})
        return refused


def asked_for(scope: Request) -> str:
    """Path and query of a request, as they were sent."""
    path: bytes = scope.get("raw_path") or b""
    query: bytes = scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


def secret_of(authorization: str) -> str:
    """What a header presents as a token; empty if it presents something else."""
    kind, _, presented = authorization.partition(" ")
    return presented.strip() if kind.lower() == "bearer" else ""


def is_ours(authorization: str) -> bool:
    """Whether it is meant for this server: a proxy may pass on what its own login consists of, Basic or Bearer."""
    return secret_of(authorization).startswith(MARK)


def peer(scope: Request) -> str:
    """The address of the other end of the connection; empty on a Unix socket, which no list of addresses holds."""
    return str(scope["client"][0]) if scope.get("client") else ""


def address_of(scope: Request, access: Access) -> str:
    """Whom a request comes from, behind trusted proxies too."""
    return client(peer(scope), Headers(scope=scope).getlist("x-forwarded-for"), access.proxies)


def proxied(access: Access, came_from: str, headers: Headers) -> Principal | Refusal:
    """The user whom a trusted proxy names. Any other that sends its header is refused, not just ignored."""
    named = [name.strip() for name in headers.getlist(access.user_header)]
    if not named:
        return NOBODY
    if len(named) != 1 or not is_listed(came_from, access.proxies):
        return CLAIMED
    if not named[0]:
        return NOBODY
    scopes = LOCAL.scopes if named[0] in access.admins else access.user_scopes
    return Principal(named[0], Way.PROXY, scopes, binding=named[0])
