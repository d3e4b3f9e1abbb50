"""The whole server as one ASGI application: what programs ask, what people look at, and the bytes that come in."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from thpdiag.serve.access.around import around
from thpdiag.serve.api import api_routes
from thpdiag.serve.pages import page_routes
from thpdiag.serve.sending import upload_routes
from thpdiag.serve.server import Server
from thpdiag.serve.table import ROUTES


def application(server: Server) -> ASGIApp:
    """To be run with `uvicorn.Config(application(server), **SERVER)`; the server's workers are run beside it."""
    app = Starlette(routes=[*upload_routes(server), *api_routes(server), *page_routes(server)])
    return around(app, server.access, ROUTES, server.bearer, server.key)
