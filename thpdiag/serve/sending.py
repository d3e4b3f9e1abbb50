"""The three ways in which a bundle comes in, and what each is answered."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.server import Server


def upload_routes(server: Server) -> list[BaseRoute]:
    return []
