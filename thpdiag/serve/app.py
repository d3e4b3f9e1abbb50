"""The whole server as one ASGI application: what programs ask, what people look at, and the bytes that come in."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from thpdiag.serve.access.answers import wants_page
from thpdiag.serve.access.around import around
from thpdiag.serve.api import api_routes
from thpdiag.serve.api.counting import Counted, Counts
from thpdiag.serve.api.endpoint import problem
from thpdiag.serve.api.watching import Watching
from thpdiag.serve.pages import page_routes
from thpdiag.serve.sending import upload_routes
from thpdiag.serve.server import Server
from thpdiag.serve.table import ROUTES

OURS = "this server made a mistake; its log says more"


def application(server: Server) -> ASGIApp:
    """To be run with `uvicorn.Config(application(server), **SERVER)`; the server's workers are run beside it."""
    watching, counts = Watching(server.storage.jobs), Counts()
    routes = [
        *upload_routes(server, watching, counts),
        *api_routes(server, watching, counts),
        *page_routes(server),
    ]
    app = Starlette(routes=routes, exception_handlers={Exception: failed})
    return Counted(around(app, server.access, ROUTES, server.bearer, server.key), ROUTES, counts)


async def failed(request: Request, _error: Exception) -> Response:
    """What nobody expected, without details; it is raised again, so that the log has it."""
    return PlainTextResponse(f"{OURS}\n", 500) if wants_page(request.headers) else problem(500, OURS)
