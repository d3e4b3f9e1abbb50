"""Machines of a cluster, by Dask distributed: it hands out the bundles, and again when a machine dies.

A bundle is worked on again elsewhere when its machine is lost; the store counts it once. Few futures are in flight at a
time, since a scheduler keeps 7 KB of each.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from thpdiag.errors import ClusterError, ThpdiagError, UsageError
from thpdiag.triage.engines.engine import Ended
from thpdiag.triage.engines.flow import flow
from thpdiag.triage.engines.local_cluster import local_cluster
from thpdiag.triage.item import Item
from thpdiag.triage.work import Asked, Done, failed, lost
from thpdiag.triage.worklist.ahead import Ahead

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL: Final = "local"
_ADDRESS: Final = re.compile(r"(?:tcp|tls)://(?:[^:/]+|\[[0-9a-f:]+\]):[0-9]{1,5}")
AHEAD: Final = 4  # bundles per thread of a worker that are handed over before they are worked on
MOST: Final = 1_000
JOINING: Final = 60.0  # seconds in which the first worker must have come
ABSENT: Final = 300.0  # seconds without any worker after which no more is waited for
COUNTED: Final = 5.0  # seconds after which the workers are counted again
ATTEMPTS: Final = 2  # beyond those of Dask, which gives a bundle up when its machine has died three times
SAFE: Final = "what came before is stored, and --resume goes on from there"
MISSING: Final = "a cluster needs Dask: pip install 'thpdiag[cluster]'"
UNEQUAL: Final = "the scheduler and all workers need what this machine has, pip install 'thpdiag[cluster]'"
GONE: Final = f"the scheduler is gone; {SAFE}"
ALONE: Final = f"all workers have left the scheduler, and none has come within {ABSENT:.0f} s; {SAFE}"


class Cluster:
    """The workers of a scheduler (`tcp://host:8786`), or a scheduler and `count` workers on this machine (`local`)."""

    def __init__(self, asked: Asked, scheduler: str, count: int) -> None:
        self._asked = asked
        with ExitStack() as undo:
            self._client = _client(scheduler, asked, count, undo)
            self._counted = self._peopled = time.monotonic()
            self._threads = self._first_threads()
            self._name = undo.enter_context(self._equipped())
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo.close()

    @property
    def room(self) -> int:
        return min(MOST, AHEAD * self._threads)

    def results(self, ahead: Ahead) -> Iterator[Ended | None]:
        ahead.settle()
        yield from flow(self, ahead)

    def begin(self, item: Item) -> Future:
        from distributed.client import ClosedClientError

        from thpdiag.triage.engines.dask_worker import worked

        try:
            return self._client.submit(worked, self._name, item, pure=False)
        except ClosedClientError as error:
            raise ClusterError(GONE) from error

    def ended(self, begun: Future, item: Item, attempt: int) -> list[Done] | None:
        from distributed import KilledWorker

        if begun.status not in ("finished", "error"):
            raise ClusterError(GONE)
        with _answering():
            if begun.status == "finished":
                found: list[Done] = begun.result()
                return found
            error = begun.exception()
        if isinstance(error, KilledWorker):
            told = "the machines that worked on it were lost, one after the other"
            return [lost(item, told, attempt)] if attempt >= ATTEMPTS else None
        if isinstance(error, ImportError):
            raise UsageError(f"a worker cannot begin ({error}); {UNEQUAL}") from error
        if isinstance(error, ThpdiagError):
            raise error
        return [failed(item, error, attempt)] if attempt >= ATTEMPTS else None

    def look(self) -> None:
        """The scheduler is there, and so is somebody who works."""
        if self._client.status != "running":
            raise ClusterError(GONE)
        now = time.monotonic()
        if now - self._counted < COUNTED:
            return
        with _answering():
            threads = sum(self._client.nthreads().values())
        self._counted = now
        if threads:
            self._threads, self._peopled = threads, now
        elif now - self._peopled > ABSENT:
            raise ClusterError(ALONE)

    def _first_threads(self) -> int:
        try:
            self._client.wait_for_workers(1, timeout=JOINING)
        except TimeoutError as error:
            raise ClusterError(f"no worker has come to the scheduler within {JOINING:.0f} s") from error
        return sum(self._client.nthreads().values())

    @contextmanager
    def _equipped(self) -> Iterator[str]:
        """Give each worker a pool of this run, also those that join later; its name."""
        from thpdiag.triage.engines.dask_worker import PREFIX, Farewell, Pool

        name = f"{PREFIX}{uuid.uuid4().hex}"
        try:
            self._client.register_plugin(Farewell(self._client.id, name), name=name)
            self._client.register_plugin(Pool(self._asked), name=name)
        except ImportError as error:
            raise UsageError(f"the cluster cannot begin ({error}); {UNEQUAL}") from error
        try:
            yield name
        finally:
            with suppress(OSError, ValueError):  # it is gone, or has taken it away itself
                if self._client.status == "running":
                    self._client.unregister_worker_plugin(name)


def _client(scheduler: str, asked: Asked, count: int, undo: ExitStack) -> Client:
    if scheduler != LOCAL and not _ADDRESS.fullmatch(scheduler):
        raise UsageError(f"--scheduler takes tcp://HOST:PORT or {LOCAL}, not {scheduler!r}")
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(MISSING) from error
    for name in ("distributed", "distributed.client", "asyncio", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # we tell what concerns the user
    if scheduler == LOCAL:
        scheduler = undo.enter_context(local_cluster(count, asked.scratch))
    try:
        client: Client = undo.enter_context(Client(scheduler, set_as_default=False))
    except (OSError, ValueError, TypeError) as error:  # the last one for TLS without its configuration
        raise ClusterError(f"{scheduler}: no scheduler answers ({error})") from error
    return client


@contextmanager
def _answering() -> Iterator[None]:
    """Questions to a scheduler that may be gone."""
    from concurrent.futures import CancelledError

    from distributed.client import FutureCancelledError

    try:
        yield
    except (OSError, CancelledError, FutureCancelledError) as error:
        raise ClusterError(GONE) from error
