"""What all cases have in common."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def routes(server: Server) -> list[BaseRoute]:
    return []
