"""The page where bundles are uploaded: by a form, by its script with progress and resumption, or by curl."""

from __future__ import annotations

from shlex import quote
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.access.modes import Access, Mode
from thpdiag.serve.access.origins import ours
from thpdiag.serve.access.scopes import Scope
from thpdiag.serve.pages.answering import endpoint
from thpdiag.serve.pages.shown import shown
from thpdiag.serve.server import Server
from thpdiag.serve.storage.search import Question

LATEST: Final = 10  # cases
LOGIN: Final = '-H "Authorization: Bearer $TOKEN" '


def routes(server: Server) -> list[BaseRoute]:
    return [Route("/", endpoint(server, start))]


def start(request: Request, server: Server) -> Response:
    reads = request.state.principal.may(Scope.READ)
    latest = server.storage.search.page(Question(), limit=LATEST) if reads else []
    return shown(
        request, server, "start.html", title="Upload", limit=server.intake.limit, latest=latest,
        curl=curl(server.access, origin(request, server.access)), login=server.access.mode is not Mode.NONE,
    )  # fmt: skip


def curl(access: Access, at: str) -> str:
    """The command that uploads a file from a shell; curl adds its name to the address."""
    login = "" if access.mode is Mode.NONE else LOGIN
    return f"curl -fT bundle.tar.xz {login}{quote(f'{at}/api/v1/bundles/')}"


def origin(request: Request, access: Access) -> str:
    """How the reader's browser names this server, by the names that it may be called."""
    host = request.headers.get("host", "").lower()
    named = sorted(ours(request.headers, access)) or sorted(access.origins)
    return next((one for one in named if one.partition("//")[2] == host), named[0] if named else f"http://{host}")
