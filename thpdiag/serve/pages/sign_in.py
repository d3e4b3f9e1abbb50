"""A session begins with a token, and ends.

Where somebody wanted to go comes in the query as `to`, and is a path of this server or nothing.

The cookie of a session is not sent with a link of another site (SameSite=Strict): somebody who is signed in and opens a
link in a ticket comes here. Such a request says that it is from elsewhere; the page that answers it loads itself once
more, now as a page of ours, and so finds out who it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access import sessions
from thpdiag.serve.access.answers import Refusal
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.gate import address_of
from thpdiag.serve.access.local import local, with_onward
from thpdiag.serve.access.modes import Mode
from thpdiag.serve.access.principal import Principal, Way
from thpdiag.serve.access.signing import signed_in
from thpdiag.serve.pages.answering import endpoint, note
from thpdiag.serve.pages.posted import one, posted
from thpdiag.serve.pages.shown import shown
from thpdiag.serve.server import Server

PATH: Final = "/sign-in"
OUT: Final = "/sign-out"
ELSEWHERE: Final = ("cross-site", "same-site")
NO_TOKEN: Final = Refusal(400, "paste a token first")
WORDS: Final = {
    HTTPStatus.UNAUTHORIZED: "This token is not valid: it is mistyped, expired or revoked.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many wrong tokens came from this address. Try again in {} seconds.",
    HTTPStatus.BAD_REQUEST: "Paste a token into the field.",
}


def routes(server: Server) -> list[BaseRoute]:
    async def sign_in(request: Request) -> Response:
        fields, onward = await posted(request), to(request)
        if server.access.mode is not Mode.TOKENS:
            return await run_in_threadpool(asked, request, server, status=409)
        token, address = one(fields, "token").strip(), address_of(dict(request.scope), server.access)
        done = await signed_in(token, address, server.bearer, server.access, server.key) if token else NO_TOKEN
        if isinstance(done, Refusal):
            return await run_in_threadpool(refused, request, server, done)
        return RedirectResponse(onward, 303, {"Set-Cookie": done})

    return [
        Route(PATH, endpoint(server, page), methods=["GET"]),
        Route(PATH, sign_in, methods=["POST"]),
        Route(OUT, endpoint(server, sign_out), methods=["POST"]),
    ]


def to(request: Request) -> str:
    """Where to go on, if that is a path of this server."""
    return local(request.query_params.get("to", ""), but=PATH)


def page(request: Request, server: Server) -> Response:
    who: Principal = request.state.principal
    if who.way is Way.SESSION and "to" in request.query_params:
        return RedirectResponse(to(request), 303)
    answer = asked(request, server)
    is_link = request.headers.get("sec-fetch-site") in ELSEWHERE and who.way is Way.NOBODY
    if is_link and server.access.mode is Mode.TOKENS:
        answer.headers["Refresh"] = f"0;url={PATH}?to={quote(to(request), safe='/')}"
    return answer


def asked(request: Request, server: Server, *, status: int = 200, mistake: str = "") -> Response:
    """The page with the form, or with why there is none."""
    mode, onward = server.access.mode, to(request)
    return shown(
        request, server, "sign_in.html", title="Sign in", status=status,
        mode=mode.value, mistake=mistake, onward=onward, action=with_onward(PATH, onward),
    )  # fmt: skip


def refused(request: Request, server: Server, refusal: Refusal) -> Response:
    words = WORDS[HTTPStatus(refusal.status)].format(refusal.headers.get("Retry-After", ""))
    answer = asked(request, server, status=refusal.status, mistake=words)
    answer.headers.update(refusal.headers)
    return answer


def sign_out(request: Request, server: Server) -> Response:
    """The browser forgets the session; who has none is shown the same."""
    who: Principal = request.state.principal
    if who.way is Way.SESSION:
        note(request, server, Action.SIGN_OUT, who.key)
    ended = sessions.set_cookie("", over_tls=server.access.over_tls)
    return RedirectResponse(PATH, 303, {"Set-Cookie": ended})
