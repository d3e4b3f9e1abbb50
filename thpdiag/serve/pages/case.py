"""One case: its report, its files, what can be done with it."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def routes(server: Server) -> list[BaseRoute]:
    return []
