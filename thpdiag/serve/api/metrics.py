"""`GET /metrics` in the text format of Prometheus, version 0.0.4, and `GET /healthz`, `GET /readyz`: 200 or 503.

Requests by route and status and received bundles are counted since the start of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from thpdiag import __version__
from thpdiag.serve.access.audit import StatusRecorder
from thpdiag.serve.access.gate import Routes
from thpdiag.serve.api.responses import json_response, read_query
from thpdiag.serve.server import Counts, Server
from thpdiag.serve.storage.database import read_transaction
from thpdiag.serve.storage.jobs import DONE, FAILED, QUEUED, RUNNING

METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class RequestCounter:
    """The outermost ASGI middleware: counts all requests, including those that the gate refuses."""

    def __init__(self, app: ASGIApp, routes: Routes, counts: Counts, clock: Callable[[], float] = monotonic) -> None:
        self._app, self._routes, self._counts, self._clock = app, routes, counts, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = self._clock(), StatusRecorder(send)
        try:
            await self._app(scope, receive, answer)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            rule = self._routes.find(method, scope["path"])
            self._counts.count_request(method, rule.path if rule else "", answer.status, self._clock() - began)


METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
VERDICTS: Final = ("found", "nothing_found", "cannot_tell", "not_applicable")


def get_metrics(request: Request, server: Server) -> Response:
    read_query(request)
    return Response(generate_latest(ServerMetrics(server)), headers={"Content-Type": METRICS_TYPE})


@dataclass(frozen=True)
class ServerMetrics(Collector):
    """Gauges of the database and the disk, and the counters of this process."""

    server: Server

    def collect(self) -> Iterator[Metric]:
        storage, room = self.server.storage, self.server.storage.room
        info = {"version": __version__, "rules_digest": self.server.analysis.rules_digest}
        build = Gauge(
            "thpdiag_build_info", "The version that runs, and the rules it diagnoses with.", labels=list(info)
        )
        build.add_metric(list(info.values()), 1)
        yield build
        yield Gauge("thpdiag_workers", "Analyses that may run at once.", self.server.workers)
        jobs = {state: 0 for state in (QUEUED, RUNNING, DONE, FAILED)} | storage.jobs.counts()
        yield gauges("thpdiag_jobs", "Analyses by state.", "state", jobs)
        cases = {verdict: 0 for verdict in VERDICTS} | storage.cases.counts()
        yield gauges("thpdiag_cases", "Cases by the verdict of the host that leads.", "verdict", cases)
        yield Gauge(
            "thpdiag_bundles", "Contents that are known, those whose file was removed too.", storage.bundles.total()
        )
        with read_transaction(storage.engine) as connection:
            reserved, stored = room.used_bytes(connection)
        yield Gauge("thpdiag_bundle_bytes", "Bytes of the bundles that are kept.", stored)
        yield Gauge("thpdiag_upload_reserved_bytes", "Bytes that uploads under way have reserved.", reserved)
        yield Gauge("thpdiag_disk_free_bytes", "Bytes that are free on the disk of the data folder.", room.free())
        if room.quota is not None:
            yield Gauge("thpdiag_quota_bytes", "Bytes that bundles and uploads may take.", room.quota)
        yield from self.server.counts.registry.collect()


def gauges(name: str, description: str, label: str, values: Mapping[str, float]) -> Metric:
    family = Gauge(name, description, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def get_health(request: Request, server: Server) -> Response:
    read_query(request)
    health = server.health.check()
    answer = {"status": "failing" if health.reason else "ok", "database": not health.database, "disk": not health.disk}
    return json_response({**answer, "reason": health.reason}, 503 if health.reason else 200)
