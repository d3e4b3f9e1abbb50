"""Pages for people. Each module has `routes(server)`; templates and static files lie beside it."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.pages import case, cases, compare, fleet, job, lines, rules, sign_in, start, static, tokens
from thpdiag.serve.server import Server

PAGES = (start, job, cases, case, lines, compare, fleet, rules, tokens, sign_in, static)


def page_routes(server: Server) -> list[BaseRoute]:
    return [route for page in PAGES for route in page.routes(server)]
