"""Triage on a Dask cluster.

When a machine is lost, Dask runs its bundles again elsewhere; the store counts each bundle once. The number of futures
in flight is limited, since the scheduler keeps 7 KB for each.
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
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.work import ItemResult, RunConfig, failed_result, unread_result

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL: Final = "local"
_ADDRESS: Final = re.compile(r"(?:tcp|tls)://(?:[^:/]+|\[[0-9a-f:]+\]):[0-9]{1,5}")
ITEMS_PER_THREAD: Final = 4  # bundles per thread of a worker that are submitted in advance
MAX_FUTURES: Final = 1_000
FIRST_WORKER_TIMEOUT_S: Final = 60.0  # to wait for the first worker
NO_WORKER_TIMEOUT_S: Final = 300.0  # to wait for a new worker when all have left
COUNT_INTERVAL_S: Final = 5.0  # between two counts of the workers
MAX_ATTEMPTS: Final = 2  # each of which Dask ends when the machine of a bundle has died three times
RESUME_HINT: Final = "earlier results are stored, and --resume continues from there"
NO_CERTIFICATES: Final = (
    "tls:// takes its certificates (distributed.comm.tls: ca-file, client.key, client.cert) from Dask's configuration, "
    "~/.config/dask/*.yaml or the folder that DASK_CONFIG names"
)
NO_DASK: Final = "a cluster needs Dask: pip install 'thpdiag[cluster]'"
DIFFERENT_INSTALL: Final = "the scheduler and all workers need what this machine has, pip install 'thpdiag[cluster]'"
SCHEDULER_GONE: Final = f"the scheduler does not respond; {RESUME_HINT}"
NO_FIRST_WORKER: Final = f"no worker has come to the scheduler within {FIRST_WORKER_TIMEOUT_S:.0f} s"
NO_WORKERS: Final = (
    f"all workers have left the scheduler, and none has come within {NO_WORKER_TIMEOUT_S:.0f} s; {RESUME_HINT}"
)


class Cluster:
    """The workers of a Dask scheduler (`tcp://host:8786`), or `count` threads of a worker on this machine (`local`).

    For `tls://host:8786` Dask's own configuration names the certificates.
    """

    def __init__(self, config: RunConfig, scheduler: str, count: int) -> None:
        self._config = config
        with ExitStack() as undo:
            self._client = _connect(scheduler, config, count, undo)
            self._last_count = self._last_worker_time = time.monotonic()
            try:
                self._client.wait_for_workers(1, timeout=FIRST_WORKER_TIMEOUT_S)
            except TimeoutError as error:
                raise ClusterError(NO_FIRST_WORKER) from error
            self._threads: int = sum(self._client.nthreads().values())
            self._name = undo.enter_context(self._register_plugins())
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._undo.close()

    @property
    def room(self) -> int:
        return min(MAX_FUTURES, ITEMS_PER_THREAD * self._threads)

    def submit(self, item: BundleItem, /) -> Future:
        from distributed.client import ClosedClientError

        from thpdiag.fleet.dask_worker import work_in_thread

        try:
            return self._client.submit(work_in_thread, self._name, item, pure=False)
        except ClosedClientError as error:
            raise ClusterError(SCHEDULER_GONE) from error

    def collect(self, future: Future, item: BundleItem, attempt: int) -> list[ItemResult] | None:
        from distributed import KilledWorker

        if future.status not in ("finished", "error"):
            raise ClusterError(SCHEDULER_GONE)
        with _scheduler_errors():
            if future.status == "finished":
                results: list[ItemResult] = future.result()
                return results
            error = future.exception()
        if isinstance(error, KilledWorker):
            reason = "the machines that worked on it were lost, one after another"
            return [unread_result(item, "lost", reason, attempt)] if attempt >= MAX_ATTEMPTS else None
        if isinstance(error, ImportError):
            raise UsageError(f"a worker cannot start ({error}); {DIFFERENT_INSTALL}") from error
        if isinstance(error, ThpdiagError):
            raise error
        return [failed_result(item, error, attempt)] if attempt >= MAX_ATTEMPTS else None

    def check_alive(self) -> None:
        """Raise ClusterError if the scheduler is gone, or if there was no worker for too long."""
        if self._client.status != "running":
            raise ClusterError(SCHEDULER_GONE)
        now = time.monotonic()
        if now - self._last_count < COUNT_INTERVAL_S:
            return
        with _scheduler_errors():
            threads = sum(self._client.nthreads().values())
        self._last_count = now
        if threads:
            self._threads, self._last_worker_time = threads, now
        elif now - self._last_worker_time > NO_WORKER_TIMEOUT_S:
            raise ClusterError(NO_WORKERS)

    @contextmanager
    def _register_plugins(self) -> Iterator[str]:
        """Give each worker, also those that join later, a pool for this run; yields the name of the plugin."""
        from thpdiag.fleet.dask_worker import PLUGIN_PREFIX, CleanupPlugin, WorkersPlugin

        name = f"{PLUGIN_PREFIX}{uuid.uuid4().hex}"
        try:
            self._client.register_plugin(CleanupPlugin(self._client.id, name), name=name)
            self._client.register_plugin(WorkersPlugin(self._config), name=name)
        except ImportError as error:
            raise UsageError(f"the cluster cannot start ({error}); {DIFFERENT_INSTALL}") from error
        try:
            yield name
        finally:
            with suppress(OSError, ValueError):  # the scheduler is gone, or has unregistered the plugin itself
                if self._client.status == "running":
                    self._client.unregister_worker_plugin(name)


def _connect(scheduler: str, config: RunConfig, count: int, undo: ExitStack) -> Client:
    if scheduler != LOCAL and not _ADDRESS.fullmatch(scheduler):
        raise UsageError(f"--scheduler takes tcp://HOST:PORT, tls://HOST:PORT or {LOCAL}, not {scheduler!r}")
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(NO_DASK) from error
    if scheduler.startswith("tls:"):
        _check_certificates()
    for name in ("distributed", "distributed.client", "asyncio", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # errors are reported as ClusterError instead
    try:
        # The local cluster has threads in this process instead of processes, so no signal can end a part of it.
        address: str | LocalCluster = scheduler if scheduler != LOCAL else undo.enter_context(
            LocalCluster(
                n_workers=1, threads_per_worker=count, processes=False, dashboard_address=None,
                local_directory=str(config.scratch), silence_logs=logging.CRITICAL + 1,
            )
        )  # fmt: skip
        client: Client = undo.enter_context(Client(address, set_as_default=False))
    except (OSError, ValueError) as error:
        raise ClusterError(f"{scheduler}: no scheduler answers ({error})") from error
    return client


def _check_certificates() -> None:
    """Raise UsageError if Dask has no certificates for `tls://`: its own message names internals only."""
    import dask
    from distributed.security import Security

    if dask.config.get("distributed.client.security-loader", None):
        return
    try:
        context = Security().get_connection_args("client").get("ssl_context")
    except (OSError, ValueError) as error:
        raise UsageError(f"{NO_CERTIFICATES}: {error}") from error
    if context is None:
        raise UsageError(f"{NO_CERTIFICATES}; it names none")


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    """Turn the errors of calls to a lost scheduler into ClusterError."""
    from concurrent.futures import CancelledError

    from distributed.client import FutureCancelledError

    try:
        yield
    except (OSError, CancelledError, FutureCancelledError) as error:
        raise ClusterError(SCHEDULER_GONE) from error
