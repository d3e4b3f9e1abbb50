"""`GET /metrics` in the text format of Prometheus, version 0.0.4.

Written here: the client library keeps one register for the process, and what is told is in the database already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag import __version__
from thpdiag.serve.api.counting import Counts
from thpdiag.serve.api.endpoint import asked, endpoint
from thpdiag.serve.server import Server
from thpdiag.serve.storage.database import reading
from thpdiag.serve.storage.jobs import DONE, FAILED, QUEUED, RUNNING

KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
VERDICTS: Final = ("found", "nothing_found", "cannot_tell", "not_applicable")
Labels = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str  # gauge or counter
    means: str
    values: Iterable[tuple[Labels, float]]


def routes(server: Server, counts: Counts) -> list[BaseRoute]:
    def metrics(request: Request, server: Server) -> Response:
        asked(request)
        text = "".join(written(one) for one in (*kept(server), *happened(counts)))
        return Response(text, headers={"Content-Type": KIND})

    return [Route("/metrics", endpoint(server, metrics), methods=["GET"])]


def kept(server: Server) -> Iterator[Metric]:
    """What there is now, by the database and the disk."""
    storage = server.storage
    jobs = {state: 0 for state in (QUEUED, RUNNING, DONE, FAILED)} | storage.jobs.counts()
    cases = {verdict: 0 for verdict in VERDICTS} | storage.cases.counts()
    with reading(storage.engine) as connection:
        reserved, stored = storage.room.taken(connection)
    info = {"version": __version__, "rules_digest": server.analysis.rules_digest}
    yield _one("thpdiag_build_info", "The version that runs, and the rules it diagnoses with.", 1, info)
    yield _one("thpdiag_workers", "Analyses that may run at once.", server.workers)
    yield _by("thpdiag_jobs", "gauge", "Analyses by state.", "state", jobs)
    yield _by("thpdiag_cases", "gauge", "Cases by the verdict of the host that leads.", "verdict", cases)
    yield _one("thpdiag_bundles", "Contents that are known, those whose file was removed too.", storage.bundles.total())
    yield _one("thpdiag_bundle_bytes", "Bytes of the bundles that are kept.", stored)
    yield _one("thpdiag_upload_reserved_bytes", "Bytes that uploads under way have reserved.", reserved)
    yield _one("thpdiag_disk_free_bytes", "Bytes that are free on the disk of the data folder.", storage.room.free())
    if storage.room.quota is not None:
        yield _one("thpdiag_quota_bytes", "Bytes that bundles and uploads may take.", storage.room.quota)


def happened(counts: Counts) -> Iterator[Metric]:
    """What this process has done since it started."""
    with counts.lock:
        requests, seconds = dict(counts.requests), dict(counts.seconds)
        uploads, sizes = dict(counts.uploads), dict(counts.upload_bytes)
    yield _by("thpdiag_uploads_total", "counter", "Bundles that came in, by way.", "way", uploads)
    yield _by("thpdiag_upload_bytes_total", "counter", "Bytes of bundles that came in, by way.", "way", sizes)
    yield Metric(
        "thpdiag_http_requests_total", "counter", "Requests by method, route and status; 499: no answer was sent.",
        [({"method": m, "route": r, "status": s}, n) for (m, r, s), n in sorted(requests.items())],
    )  # fmt: skip
    yield Metric(
        "thpdiag_http_request_seconds_total", "counter", "Seconds from requests to the end of their answers.",
        [({"method": m, "route": r}, n) for (m, r), n in sorted(seconds.items())],
    )  # fmt: skip


def _one(name: str, means: str, value: float, labels: Labels | None = None) -> Metric:
    return Metric(name, "gauge", means, [(labels or {}, value)])


def _by(name: str, kind: str, means: str, label: str, values: Mapping[str, float]) -> Metric:
    return Metric(name, kind, means, [({label: key}, value) for key, value in sorted(values.items())])


def written(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.means}", f"# TYPE {metric.name} {metric.kind}"]
    lines += [f"{metric.name}{_labels(labels)} {value}" for labels, value in metric.values]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    told = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
