"""What this process has done since it started, for /metrics: requests by route and answer, bundles that came in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from thpdiag.serve.access.answered import Answered
from thpdiag.serve.access.routes import Routes

METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


@dataclass(slots=True)
class Counts:
    """Counters that only grow. Labels are ours, never a stranger's: their number has a bound."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)  # by method, route, status
    seconds: dict[tuple[str, str], float] = field(default_factory=dict)  # by method, route; until the answer has ended
    uploads: Counter[str] = field(default_factory=Counter)  # by way: put, tus, form
    upload_bytes: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def upload(self, way: str, size: int) -> None:
        with self.lock:
            self.uploads[way] += 1
            self.upload_bytes[way] += size

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        with self.lock:
            self.requests[method, route, status] += 1
            self.seconds[method, route] = self.seconds.get((method, route), 0.0) + seconds


class Counted:
    """ASGI middleware, outermost: what the gate refuses is counted as well."""

    def __init__(
        self, app: ASGIApp, routes: Routes, counts: Counts, clock: Callable[[], float] = monotonic
    ) -> None:  # fmt: skip
        self._app, self._routes, self._counts, self._clock = app, routes, counts, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = self._clock(), Answered(send)
        try:
            await self._app(scope, receive, answered)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            rule = self._routes.find(method, scope["path"])
            self._counts.request(method, rule.path if rule else "", answered.status, self._clock() - began)
