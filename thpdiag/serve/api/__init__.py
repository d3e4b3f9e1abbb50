"""What programs ask, below /api/v1; and whether the server is well, and how it does."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def api_routes(server: Server) -> list[BaseRoute]:
    return []
