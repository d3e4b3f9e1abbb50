"""What programs ask: jobs, cases, files, the state of the server; under /api/v1, /healthz and /metrics."""

from __future__ import annotations

from starlette.routing import BaseRoute

from thpdiag.serve.api import cases, description, files, health, jobs, metrics
from thpdiag.serve.api.counting import Counts
from thpdiag.serve.api.watching import Watching
from thpdiag.serve.server import Server


def api_routes(server: Server, watching: Watching, counts: Counts) -> list[BaseRoute]:
    """Routes of fixed paths come first: the file of a case has a name of any kind."""
    return [
        *jobs.routes(server, watching),
        *cases.routes(server),
        *files.routes(server),
        *description.routes(server),
        *health.routes(server),
        *metrics.routes(server, counts),
    ]
