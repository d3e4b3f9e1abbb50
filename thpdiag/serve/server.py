"""The shared state of request handlers: storage, access, health, counters and a watcher of jobs.

The watcher polls the database once for all clients that wait for jobs.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Final

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from thpdiag.engine.load import Rule
from thpdiag.errors import StorageError, StoreBusyError
from thpdiag.serve.access.audit import Action, Outcome, audit_event, request_address
from thpdiag.serve.access.credentials import Bearer
from thpdiag.serve.access.oidc import OidcClient
from thpdiag.serve.access.principals import Access, Principal, Scope
from thpdiag.serve.fleet import FleetCache
from thpdiag.serve.storage.database import schema_problem
from thpdiag.serve.storage.jobs import DONE, FAILED, Job, Jobs
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.uploads.intake import Intake
from thpdiag.store.results import Analysis

POLL_SECONDS: Final = 0.4
LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobState:
    """The part of a job that clients are notified of; `ahead` is the number of jobs before it in the queue."""

    state: str
    stage: str
    ahead: int
    status: str
    reason: str
    case: str | None

    @property
    def has_ended(self) -> bool:
        return self.state in (DONE, FAILED)


@dataclass(slots=True)
class _WatchedJob:
    """A job with its number of watchers; `state` is None before the first poll and after a deletion."""

    watchers: int = 0
    state: JobState | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, state: JobState | None) -> None:
        if state != self.state:
            self.state = state
            self.changed.set()
            self.changed = asyncio.Event()


class JobWatcher:
    """Polls watched jobs. An instance belongs to one event loop at a time."""

    def __init__(self, jobs: Jobs, poll_seconds: float = POLL_SECONDS) -> None:
        self._jobs, self._poll_seconds = jobs, poll_seconds
        self._watched: dict[str, _WatchedJob] = {}
        self._polling: asyncio.Task[None] | None = None

    async def states(self, key: str, heartbeat: float) -> AsyncGenerator[JobState | None, None]:
        """Yield the current state of a job and each change until it ends or is deleted.

        None is yielded after each `heartbeat` seconds without a change.
        """
        with self._watch(key) as watched:
            if watched.state is None:
                watched.update((await run_in_threadpool(self._read, [key])).get(key))
            last: JobState | None = None
            while (state := watched.state) is not None:
                changed = watched.changed
                if state != last:
                    yield (last := state)
                    if state.has_ended:
                        return
                    continue
                try:
                    async with asyncio.timeout(heartbeat):
                        await changed.wait()
                except TimeoutError:
                    yield None

    @contextmanager
    def _watch(self, key: str) -> Iterator[_WatchedJob]:
        watched = self._watched.setdefault(key, _WatchedJob())
        watched.watchers += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            yield watched
        finally:
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[key]

    async def _poll(self) -> None:
        while self._watched:
            await asyncio.sleep(self._poll_seconds)
            keys = list(self._watched)
            try:
                states = await run_in_threadpool(self._read, keys)
            except StorageError as error:
                LOG.warning("jobs cannot be watched at the moment: %s", error)
                continue
            for key in keys:
                watched = self._watched.get(key)
                if watched is not None and watched.state is not None:  # else `states` makes the first query
                    watched.update(states.get(key))

    def _read(self, keys: Collection[str]) -> Mapping[str, JobState]:
        return {
            key: JobState(job.state, job.stage, ahead, job.status, job.reason, job.case)
            for key, (job, ahead) in self._jobs.find_many(keys).items()
        }


HEALTH_SECONDS: Final = 2.0  # for which a result is cached, since health checks need no login
PROBE_FILE: Final = ".healthz"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Problems of the database and the data folder, without paths; empty if there are none."""

    database: str = ""
    disk: str = ""

    @property
    def reason(self) -> str:
        return self.database or self.disk


class Health:
    """Whether the server is operational. Changes are logged once."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = monotonic) -> None:
        self._storage, self._clock = storage, clock
        self._lock, self._expires, self._last = Lock(), float("-inf"), Readiness()
        self._logged = ""

    def check(self) -> Readiness:
        """Check the database and write to the disk, or return a result that is not older than HEALTH_SECONDS."""
        with self._lock:
            if self._clock() >= self._expires:
                self._last = Readiness(self._storage.problem() or self._database_problem(), self._disk_problem())
                self._expires = self._clock() + HEALTH_SECONDS
            self._log(self._last.reason)
            return self._last

    def problem(self) -> str:
        """Return the known reason why the store cannot be used, without checking; empty if there is none."""
        problem = self._storage.problem() or self._last.database
        if problem:
            self._log(problem)
        return problem

    def _log(self, reason: str) -> None:
        if reason != self._logged:
            if reason:
                LOG.error("not ready: %s (%s)", reason, self._storage.folder)
            else:
                LOG.warning("ready again")
            self._logged = reason

    def _database_problem(self) -> str:
        try:
            return schema_problem(self._storage.engine, self._storage.identity)
        except StoreBusyError:
            return ""  # another process works with it
        except StorageError as error:
            if not self._logged:
                LOG.warning("the database does not answer: %s", error)
            return self._storage.problem() or "the database cannot be used"

    def _disk_problem(self) -> str:
        """Return why a file cannot be written to the data folder; empty if it can. The file is removed."""
        probe = self._storage.folder / PROBE_FILE
        try:
            with probe.open("wb") as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
            probe.unlink()
        except OSError as error:
            return f"the data folder is not writable ({error.strerror})"
        return ""


disable_created_metrics()  # type: ignore[no-untyped-call]  # the `_created` series of each counter


class Counts:
    """Counters for Prometheus. Label values never come from clients, so that their number is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(name, description, labels, registry=self.registry)

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
        """Count a bundle; `way` is put, tus, form or link."""
        self._uploads.labels(way).inc()
        self._upload_bytes.labels(way).inc(size)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).inc(seconds)


@dataclass
class Server:
    """The state of a server. All parts are thread-safe; most functions wait for a disk.

    `analysis` and `rules` are used for each bundle. `wake` notifies the workers of a new job and returns at once.
    `clock` returns seconds since 1970 in UTC. `max_wait` limits how long a request waits for a verdict.
    """

    storage: Storage
    access: Access
    key: bytes  # signs sessions and CSRF tokens
    bearer: Bearer
    intake: Intake
    rules: tuple[Rule, ...]
    analysis: Analysis
    terms: Terms
    workers: int
    wake: Callable[[], None]
    clock: Callable[[], float]
    max_wait: float = 600.0  # seconds
    oidc: OidcClient | None = None
    watcher: JobWatcher = field(init=False)
    counts: Counts = field(init=False)
    health: Health = field(init=False)
    fleet: FleetCache = field(init=False)

    def __post_init__(self) -> None:
        self.watcher, self.counts = JobWatcher(self.storage.jobs), Counts()
        self.health, self.fleet = Health(self.storage), FleetCache(self.storage, self.clock)

    def record_action(self, request: Request, action: Action, subject: str) -> None:
        """Record an action of the sender of a request in the audit log."""
        principal, address = request.state.principal, request_address(request.scope, self.access)
        self.storage.audit.add(audit_event(self.clock(), action, Outcome.DONE, principal, address, subject))

    def find_job(self, principal: Principal, key: str) -> Job | None:
        """Return a job that a principal may see: any with the scope read, otherwise those of their own uploads."""
        jobs = self.storage.jobs
        return jobs.find(key) if principal.may(Scope.READ) else jobs.find_for_owner(key, principal.owner)
