"""Sign-in and sign-out, and API tokens (created, listed, revoked).

A token is shown once, in the answer to the form that created it. `to` in the query is the page to return to after the
sign-in.

The session cookie is not sent with a link from another site (SameSite=Strict), so a signed-in user who opens a link in
a ticket is redirected here. `Sec-Fetch-Site` marks such a request; the answer reloads itself once as a page of this
site, now with the cookie, and redirects to the page.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from thpdiag.errors import UsageError
from thpdiag.serve.access import credentials
from thpdiag.serve.access.audit import Action, Outcome, audit_event, request_address
from thpdiag.serve.access.credentials import is_alive, mint_token
from thpdiag.serve.access.gate import local_path, path_with_return
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.access.oidc import BEGIN_PATH, CALLBACK_PATH, FLOW_SECONDS, Flow, SignInError, User
from thpdiag.serve.access.principals import ANONYMOUS, AuthMethod, Mode, Principal, Scope, address_prefix, parse_scopes
from thpdiag.serve.pages.render import (
    PageError,
    error_page,
    form_field,
    not_found,
    origin_of_request,
    parse_number,
    render_page,
)
from thpdiag.serve.server import Server
from thpdiag.serve.settings import SIGN_IN_PATH
from thpdiag.serve.storage.access import LoginRow, TokenRow
from thpdiag.serve.storage.database import DAY, new_id

LOG: Final = logging.getLogger(__name__)
OTHER_SITES: Final = ("cross-site", "same-site")
REFUSAL_SENTENCES: Final = {
    HTTPStatus.UNAUTHORIZED: "This token is not valid: it is mistyped, expired or revoked.",
    HTTPStatus.TOO_MANY_REQUESTS: "This token is not valid, and too many wrong ones came. Try again in {} seconds.",
    HTTPStatus.BAD_REQUEST: "Paste a token into the field.",
}


def sign_in_page(request: Request, server: Server) -> Response:
    principal: Principal = request.state.principal
    if principal.auth_method in (AuthMethod.SESSION, AuthMethod.OIDC) and "to" in request.query_params:
        return RedirectResponse(_return_path(request), 303)
    answer = _sign_in_form(request, server)
    is_link = request.headers.get("sec-fetch-site") in OTHER_SITES and principal.auth_method is AuthMethod.ANONYMOUS
    if is_link and server.access.mode in (Mode.TOKENS, Mode.OIDC):
        answer.headers["Refresh"] = f"0;url={SIGN_IN_PATH}?to={quote(_return_path(request), safe='/')}"
    return answer


async def sign_in(request: Request, server: Server) -> Response:
    if server.access.mode is not Mode.TOKENS:
        return await run_in_threadpool(_sign_in_form, request, server, status=409)
    token, address = form_field(request, "token").strip(), request_address(request.scope, server.access)
    if not token:
        return await run_in_threadpool(_refused_form, request, server, RefusedError(400, "paste a token first"))
    try:
        cookie = await credentials.sign_in(token, address, server.bearer, server.access, server.key)
    except RefusedError as refused:
        return await run_in_threadpool(_refused_form, request, server, refused)
    return RedirectResponse(_return_path(request), 303, {"Set-Cookie": cookie})


def _refused_form(request: Request, server: Server, refused: RefusedError) -> Response:
    words = REFUSAL_SENTENCES[HTTPStatus(refused.status)].format(refused.headers.get("Retry-After", ""))
    answer = _sign_in_form(request, server, status=refused.status, mistake=words)
    answer.headers.update(refused.headers)
    return answer


def sign_out(request: Request, server: Server) -> Response:
    """Delete the session cookie; the answer is the same without a session."""
    principal: Principal = request.state.principal
    if principal.auth_method is AuthMethod.OIDC:
        server.storage.logins.remove(principal.binding.partition(".")[0])
    if principal.auth_method in (AuthMethod.SESSION, AuthMethod.OIDC):
        server.record_action(request, Action.SIGN_OUT, principal.key)
    deleted = credentials.set_cookie_header("", over_tls=server.access.over_tls)
    page = f"{SIGN_IN_PATH}?ended" if principal.auth_method is AuthMethod.OIDC else SIGN_IN_PATH
    return RedirectResponse(page, 303, {"Set-Cookie": deleted})


SIGN_IN_FAILED: Final = "The sign-in did not succeed. Try again; if it fails again, the log of this server says why."


def begin_oidc(request: Request, server: Server) -> Response:
    """Redirect to the provider; what it has to return is in a cookie of the browser."""
    if server.oidc is None:
        return _sign_in_form(request, server, status=409)
    try:
        address, flow = server.oidc.begin(_callback(request, server), _return_path(request))
    except SignInError as error:
        return _not_signed_in(request, server, error)
    sealed = credentials.seal_flow(server.key, json.dumps(asdict(flow)), server.clock())
    cookie = credentials.flow_cookie_header(sealed, FLOW_SECONDS, over_tls=server.access.over_tls)
    return RedirectResponse(address, 303, {"Set-Cookie": cookie})


def finish_oidc(request: Request, server: Server) -> Response:
    """Begin a session after the return from the provider.

    A page with a refresh continues, since the strict cookie would not be sent with a redirect from another site.
    """
    tls = server.access.over_tls
    if server.oidc is None:
        return _sign_in_form(request, server, status=409)
    try:
        user, target = _user_of_callback(request, server)
    except SignInError as error:
        return _not_signed_in(request, server, error)
    now, key = server.clock(), new_id()
    scopes = frozenset(map(str, user.scopes))
    server.storage.logins.add(LoginRow(key, user.subject, user.name, scopes, now, now + credentials.SESSION_SECONDS))
    request.state.principal = Principal(user.name, AuthMethod.OIDC, user.scopes, user.subject)
    server.record_action(request, Action.SIGN_IN, user.subject)
    onward = local_path(target, but=SIGN_IN_PATH)
    refresh = {"Refresh": f"0;url={onward}"}
    signed_in = PageError(200, "You are signed in.", "Signed in", (onward, "Go on"), refresh)
    answer = error_page(request, server, signed_in)
    cookie = credentials.begin_session(server.key, key, now)
    answer.headers.append("Set-Cookie", credentials.set_cookie_header(cookie, over_tls=tls))
    answer.headers.append("Set-Cookie", credentials.flow_cookie_header("", 0, over_tls=tls))
    return answer


def _user_of_callback(request: Request, server: Server) -> tuple[User, str]:
    """Return the verified user and the page to continue at; SignInError on failure or without scopes."""
    query = request.query_params
    sealed = credentials.flow_cookie(request.headers, over_tls=server.access.over_tls)
    opened = credentials.open_flow(server.key, sealed, server.clock(), FLOW_SECONDS)
    if server.oidc is None or opened is None or any(len(query.getlist(name)) > 1 for name in ("code", "state")):
        raise SignInError("no sign-in was started with this browser, or it was too long ago")
    flow = Flow(**json.loads(opened))
    code, state, issuer = (query.get(name, "") for name in ("code", "state", "iss"))
    user = server.oidc.finish(flow, state, code, _callback(request, server), issuer)
    if not user.scopes:
        raise SignInError(f"the user {user.subject} has no permissions here")
    return user, flow.onward


def _callback(request: Request, server: Server) -> str:
    return f"{origin_of_request(request, server.access)}{CALLBACK_PATH}"


def _not_signed_in(request: Request, server: Server, error: SignInError) -> Response:
    LOG.warning("sign-in refused: %s", error)
    address = request_address(request.scope, server.access)
    entry = audit_event(server.clock(), Action.SIGN_IN, Outcome.REFUSED, ANONYMOUS, address, "OpenID Connect")
    if not server.bearer.attempts.count_failure(address_prefix(address)):
        server.storage.audit.add(entry)
    answer = _sign_in_form(request, server, status=401, mistake=SIGN_IN_FAILED)
    answer.headers.append("Set-Cookie", credentials.flow_cookie_header("", 0, over_tls=server.access.over_tls))
    return answer


def _return_path(request: Request) -> str:
    """Return the page to continue at, if it is a path of this server; otherwise the start page."""
    return local_path(request.query_params.get("to", ""), but=SIGN_IN_PATH)


def _sign_in_form(request: Request, server: Server, *, status: int = 200, mistake: str = "") -> Response:
    """Return the page with the form for the access mode."""
    mode, onward = server.access.mode.value, _return_path(request)
    action = path_with_return(SIGN_IN_PATH, onward)
    return render_page(
        request,
        server,
        "sign_in.html",
        title="Sign in",
        status=status,
        mode=mode,
        mistake=mistake,
        onward=onward,
        action=action,
        begin=path_with_return(BEGIN_PATH, onward),
        provider=urlsplit(server.oidc.settings.issuer).hostname if server.oidc else "",
        end_session=server.oidc.end_session() if server.oidc and "ended" in request.query_params else "",
    )


TOKENS_PATH: Final = "/tokens"
MAX_LIFE_DAYS: Final = 3_650
MAX_NAME_CHARS: Final = 100
PREFIX_SHAPE: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
SCOPE_DESCRIPTIONS: Final = {
    Scope.UPLOAD: "send bundles and see the results of your own: for CI and for a customer's shell",
    Scope.READ: "see all cases",
    Scope.WORK: "the same, and ask the customer, write notes, share cases, analyze them again",
    Scope.ADMIN: "everything: delete and keep cases, make and revoke tokens",
}
NO_LOGIN: Final = "This server runs without login and uses no tokens."


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The fields of the form for a new token; `days` is empty for one that does not expire."""

    name: str = ""
    scopes: tuple[str, ...] = (Scope.READ,)
    days: str = "90"

    @property
    def lifetime(self) -> float | None:
        """The lifetime in seconds; UsageError if it is not a valid number of days."""
        if not self.days:
            return None
        days = parse_number(self.days, len(str(MAX_LIFE_DAYS)))
        if days is None:
            raise UsageError("a token is valid for a number of days, or until it is revoked")
        if not 1 <= days <= MAX_LIFE_DAYS:
            raise UsageError(f"a token is valid for 1 to {MAX_LIFE_DAYS:,} days, or until it is revoked")
        return days * DAY


def token_list(request: Request, server: Server) -> Response:
    return _token_page(request, server, TokenRequest())


def create_token(request: Request, server: Server) -> Response:
    """Create a token and show its secret, or show what is wrong with the form."""
    name, days = form_field(request, "name").strip(), form_field(request, "days").strip()
    form = TokenRequest(name, tuple(request.state.form.get("scope", ())), days)
    if server.access.mode is Mode.NONE:
        return _token_page(request, server, form, status=409, mistake=NO_LOGIN)
    try:
        secret, token = _mint_token(form, server.clock())
    except UsageError as error:
        words = str(error)
        return _token_page(request, server, form, status=400, mistake=f"{words[:1].upper()}{words[1:]}.")
    server.storage.tokens.add(token)
    server.record_action(request, Action.CREATE_TOKEN, token.prefix)
    return _token_page(request, server, TokenRequest(), secret=secret, fresh=token.prefix)


def _mint_token(form: TokenRequest, now: float) -> tuple[str, TokenRow]:
    lifetime = form.lifetime
    if len(form.name) > MAX_NAME_CHARS:
        raise UsageError(f"the name of a token has {MAX_NAME_CHARS} characters at the most")
    return mint_token(form.name, parse_scopes(form.scopes), now, None if lifetime is None else now + lifetime)


def revoke_token(request: Request, server: Server) -> Response:
    """Delete a token, which also ends every session that was begun with it."""
    prefix = request.path_params["prefix"]
    if not (PREFIX_SHAPE.fullmatch(prefix) and server.storage.tokens.remove(prefix)):
        raise not_found("There is no such token. It may have been revoked already.")
    server.record_action(request, Action.REVOKE_TOKEN, prefix)
    return RedirectResponse(TOKENS_PATH, 303)


def end_session(request: Request, server: Server) -> Response:
    """Delete a session that was begun with OpenID Connect."""
    key = request.path_params["id"]
    if not server.storage.logins.remove(key):
        raise not_found("There is no such session. It may have ended already.")
    server.record_action(request, Action.END_SESSION, key)
    return RedirectResponse(f"{TOKENS_PATH}#sessions", 303)


def _token_page(request: Request, server: Server, form: TokenRequest, **context: Any) -> Response:
    """Return the list with the form; `context`: status, mistake, secret and prefix of a new token."""
    now = server.clock()
    return render_page(
        request,
        server,
        "tokens.html",
        title="Tokens",
        tokens=server.storage.tokens.all(),
        alive=lambda token: is_alive(token, now),
        wanted=form,
        means=SCOPE_DESCRIPTIONS,
        without_login=server.access.mode is Mode.NONE,
        sessions=server.storage.logins.list_active(now) if server.oidc else None,
        own_session=request.state.principal.binding.partition(".")[0],
        longest_name=MAX_NAME_CHARS,
        longest_life=MAX_LIFE_DAYS,
        **{"mistake": "", "secret": "", "fresh": "", **context},
    )
