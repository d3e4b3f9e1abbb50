"""What this process has done since it started: requests by route and answer, bundles that came in."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.types import ASGIApp, Receive, Scope, Send

from thpdiag.serve.access.audit import StatusRecorder
from thpdiag.serve.access.gate import Routes

METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, of when it began


class Counts:
    """Counters that only grow. Labels are ours, never a stranger's: their number has a bound."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, means: str, *labels: str) -> Counter:
            return Counter(name, means, labels, registry=self.registry)

        self._uploads = counter("thpdiag_uploads_total", "Bundles that came in, by way.", "way")
        self._upload_bytes = counter("thpdiag_upload_bytes_total", "Bytes of bundles that came in, by way.", "way")
        self._requests = counter(
            "thpdiag_http_requests_total",
            "Requests by method, route and status; 499: no answer was sent.",
            *("method", "route", "status"),
        )
        self._seconds = counter(
            "thpdiag_http_request_seconds_total",
            "Seconds from requests to the end of their answers.",
            *("method", "route"),
        )

    def count_upload(self, way: str, size: int) -> None:
        """A bundle that came in by put, tus or form."""
        self._uploads.labels(way).inc()
        self._upload_bytes.labels(way).inc(size)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).inc(seconds)


class RequestCounter:
    """ASGI middleware, outermost: what the gate refuses is counted as well."""

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
