"""Lines of a customer's file, around one that a finding cites."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def routes(server: Server) -> list[BaseRoute]:
    return []
