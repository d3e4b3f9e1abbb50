"""`GET /api/v1/openapi.json`: the description of the API, written by hand; tests hold it against the routes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.api.endpoint import asked, endpoint
from thpdiag.serve.server import Server


def routes(server: Server) -> list[BaseRoute]:
    return [Route("/api/v1/openapi.json", endpoint(server, description), methods=["GET"])]


def description(request: Request, _server: Server) -> Response:
    asked(request)
    return Response(_bytes(), media_type="application/json")


@cache
def _bytes() -> bytes:
    return files(__package__).joinpath("openapi.json").read_bytes()
