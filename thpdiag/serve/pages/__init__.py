"""What people look at in a browser; all of it works without script, uploads and progress are better with it."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def page_routes(server: Server) -> list[BaseRoute]:
    return []
