"""What the handlers of a running server share, its health and the watcher of jobs among it.

However many wait for a job, the database is asked now and then for all of them.
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
from thpdiag.serve.access.audit import Action, Outcome, address_of, audit_event
from thpdiag.serve.access.credentials import Bearer
from thpdiag.serve.access.oidc import OidcClient
from thpdiag.serve.access.principals import Access
from thpdiag.serve.fleet import FleetCache
from thpdiag.serve.storage.database import schema_problem
from thpdiag.serve.storage.jobs import DONE, FAILED, Jobs
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.uploads.intake import Intake
from thpdiag.store.results import Analysis

POLL_SECONDS: Final = 0.4  # between two looks
LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobState:
    """What of a job is worth telling when it changes."""

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
    """One job, and who waits for a change of it; `seen` is None before the first look and once it is deleted."""

    watchers: int = 0
    seen: JobState | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, seen: JobState | None) -> None:
        if seen != self.seen:
            self.seen = seen
            self.changed.set()
            self.changed = asyncio.Event()


class JobWatcher:
    """It belongs to one event loop at a time."""

    def __init__(self, jobs: Jobs, step: float = POLL_SECONDS) -> None:
        self._jobs, self._step = jobs, step
        self._watched: dict[str, _WatchedJob] = {}
        self._polling: asyncio.Task[None] | None = None

    async def states(self, key: str, pause: float) -> AsyncGenerator[JobState | None, None]:
        """What a job is now, and what it becomes, until it ends or is deleted; None: no news for `pause` seconds."""
        with self._watch(key) as watched:
            if watched.seen is None:
                watched.update((await run_in_threadpool(self._read, [key])).get(key))
            last: JobState | None = None
            while (seen := watched.seen) is not None:
                changed = watched.changed
                if seen != last:
                    yield (last := seen)
                    if seen.has_ended:
                        return
                    continue
                try:
                    async with asyncio.timeout(pause):
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
            await asyncio.sleep(self._step)
            keys = list(self._watched)
            try:
                states = await run_in_threadpool(self._read, keys)
            except StorageError as error:
                LOG.warning("jobs cannot be watched at the moment: %s", error)
                continue
            for key in keys:
                watched = self._watched.get(key)
                if watched is not None and watched.seen is not None:  # else somebody's first look is under way
                    watched.update(states.get(key))

    def _read(self, keys: Collection[str]) -> Mapping[str, JobState]:
        return {
            key: JobState(job.state, job.stage, ahead, job.status, job.reason, job.case)
            for key, (job, ahead) in self._jobs.several(keys).items()
        }


HEALTH_SECONDS: Final = 2.0  # in which the disk is not tried again: anybody may ask
PROBE_FILE: Final = ".healthz"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is wrong with the database and the folder, each in words without a path; empty if nothing is."""

    database: str = ""
    disk: str = ""

    @property
    def reason(self) -> str:
        return self.database or self.disk


class Health:
    """Whether the server can do its work. What changes is logged once."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = monotonic) -> None:
        self._storage, self._clock = storage, clock
        self._lock, self._until, self._last = Lock(), float("-inf"), Readiness()
        self._logged = ""

    def check(self) -> Readiness:
        """Ask the database and try the disk, unless that was done a moment ago."""
        with self._lock:
            if self._clock() >= self._until:
                self._last = Readiness(self._storage.problem() or self._database_problem(), self._disk_problem())
                self._until = self._clock() + HEALTH_SECONDS
            self._log(self._last.reason)
            return self._last

    def problem(self) -> str:
        """Why no request may be answered from the store, as far as is known; costs little."""
        found = self._storage.problem() or self._last.database
        if found:
            self._log(found)
        return found

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
            return ""  # somebody works with it
        except StorageError as error:
            if not self._logged:
                LOG.warning("the database does not answer: %s", error)
            return self._storage.problem() or "the database cannot be used"

    def _disk_problem(self) -> str:
        """Why no file with bytes in it can be made there; nothing stays."""
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


@dataclass
class Server:
    """Made once at the start; everything in it may be used by several threads, and waits for a disk unless said.

    `analysis` and `rules` are what each bundle is diagnosed with. `wake` tells the workers that a job waits; it returns
    at once. `clock` gives seconds since 1970 in UTC. `max_wait` is how long somebody is kept waiting for a verdict.
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
        """Write down that somebody did this."""
        who, address = request.state.principal, address_of(request.scope, self.access)
        self.storage.audit.add(audit_event(self.clock(), action, Outcome.DONE, who, address, subject))
