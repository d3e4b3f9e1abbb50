"""API tokens: made, listed, revoked. A token is seen once, in the answer to the form that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.errors import UsageError
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.modes import Mode
from thpdiag.serve.access.scopes import Scope, scopes
from thpdiag.serve.access.tokens import alive, mint
from thpdiag.serve.pages.answering import endpoint, note
from thpdiag.serve.pages.posted import Fields, one, posted
from thpdiag.serve.pages.shown import missing, shown
from thpdiag.serve.server import Server

PATH: Final = "/tokens"
DAY: Final = 86_400.0
LONGEST_LIFE: Final = 3_650  # days
LONGEST_NAME: Final = 100  # characters
PREFIX: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
MEANS: Final = {
    Scope.UPLOAD: "send bundles and see what comes of the own ones: for CI and for a customer's shell",
    Scope.READ: "see all cases",
    Scope.ADMIN: "everything: delete and keep cases, make and revoke tokens",
}
NO_LOGIN: Final = "This server runs without login and looks at no token, so it makes none."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token that somebody asks for, as they wrote it; `days` is empty for one that does not expire."""

    name: str = ""
    scopes: tuple[str, ...] = (Scope.READ,)
    days: str = "90"

    @classmethod
    def of(cls, fields: Fields) -> Wanted:
        return cls(one(fields, "name").strip(), tuple(fields.get("scope", ())), one(fields, "days").strip())

    @property
    def lifetime(self) -> float | None:
        """Seconds; UsageError if it is no number of days."""
        if not self.days:
            return None
        if not (self.days.isascii() and self.days.isdigit() and len(self.days) <= len(str(LONGEST_LIFE))):
            raise UsageError("a token is valid for a whole number of days, or as long as nobody revokes it")
        if not 1 <= int(self.days) <= LONGEST_LIFE:
            raise UsageError(f"a token is valid for 1 to {LONGEST_LIFE:,} days, or as long as nobody revokes it")
        return int(self.days) * DAY


def routes(server: Server) -> list[BaseRoute]:
    async def create(request: Request) -> Response:
        request.state.fields = await posted(request)
        return await run_in_threadpool(endpoint(server, created), request)

    return [
        Route(PATH, endpoint(server, listed), methods=["GET"]),
        Route(PATH, create, methods=["POST"]),
        Route(f"{PATH}/{{prefix}}/revoke", endpoint(server, revoked), methods=["POST"]),
    ]


def listed(request: Request, server: Server) -> Response:
    return _page(request, server, Wanted())


def created(request: Request, server: Server) -> Response:
    """A new token with its secret, or what is wrong with the form."""
    wanted = Wanted.of(request.state.fields)
    if server.access.mode is Mode.NONE:
        return _page(request, server, wanted, status=409, mistake=NO_LOGIN)
    try:
        secret, prefix = _made(server, wanted)
    except UsageError as error:
        words = str(error)
        return _page(request, server, wanted, status=400, mistake=f"{words[:1].upper()}{words[1:]}.")
    note(request, server, Action.CREATE_TOKEN, prefix)
    return _page(request, server, Wanted(), secret=secret, fresh=prefix)


def revoked(request: Request, server: Server) -> Response:
    """The token ends with this answer, and every session that was begun with it."""
    prefix = request.path_params["prefix"]
    if not (PREFIX.fullmatch(prefix) and server.storage.tokens.remove(prefix)):
        return missing(request, server, "There is no such token. It may have been revoked already.")
    note(request, server, Action.REVOKE_TOKEN, prefix)
    return RedirectResponse(PATH, 303)


def _made(server: Server, wanted: Wanted) -> tuple[str, str]:
    """The secret and the prefix of a token that is kept now."""
    now, lifetime = server.clock(), wanted.lifetime
    if len(wanted.name) > LONGEST_NAME:
        raise UsageError(f"the name of a token has {LONGEST_NAME} characters at the most")
    secret, kept = mint(wanted.name, scopes(wanted.scopes), now, None if lifetime is None else now + lifetime)
    server.storage.tokens.add(kept)
    return secret, kept.prefix


def _page(
    request: Request, server: Server, wanted: Wanted, *, status: int = 200, mistake: str = "", secret: str = "",
    fresh: str = "",
) -> Response:  # fmt: skip
    now = server.clock()
    return shown(
        request, server, "tokens.html", title="Tokens", status=status,
        tokens=server.storage.tokens.all(), alive=lambda token: alive(token, now), wanted=wanted, mistake=mistake,
        secret=secret, fresh=fresh, means=MEANS, without_login=server.access.mode is Mode.NONE,
        longest_name=LONGEST_NAME, longest_life=LONGEST_LIFE,
    )  # fmt: skip
