"""What a worker of Dask has of ours: a pool of processes, from its start to its end.

A worker has threads, so it must not fork; each of its threads gives one bundle to the pool and waits. Dask starts this
also in workers that join later, and ends it with the worker or when the run is over. Each run has its own, by name:
runs with other rules may use the same workers.
"""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from distributed import Scheduler, SchedulerPlugin, Worker, WorkerPlugin, get_worker

from thpdiag import __version__
from thpdiag.errors import UsageError
from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.work import ItemResult, RunConfig, Workers, rules_digest

PLUGIN_PREFIX: Final = "thpdiag-"


class WorkersPlugin(WorkerPlugin):  # type: ignore[misc]
    """The pool. What is fetched and unpacked goes to the worker's own folder."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._workers: Workers | None = None
        self._trouble = "the worker did not start"

    def setup(self, worker: Worker) -> None:
        """Begin; raises UsageError where another thpdiag or other rules would give other results."""
        ours, wanted = (__version__, rules_digest(self._config)), self._config.analysis
        if ours != (wanted.tool_version, wanted.rules_digest):
            self._trouble = (
                f"worker {worker.address} has thpdiag {ours[0]} with rules {ours[1]}, this run {wanted.tool_version} "
                f"with {wanted.rules_digest}; install the same on all"
            )
            raise UsageError(self._trouble)
        # Dask marks its processes so that they end with their nanny, and multiprocessing lets such have no children.
        # Ours end with them all the same: their pipe closes.
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        self._workers = Workers(replace(self._config, scratch=Path(worker.local_directory)), worker.state.nthreads)

    def teardown(self, worker: Worker) -> None:
        """End all that was begun; threads that wait for it wait no longer."""
        if self._workers is not None:
            self._workers.stop()

    def results_of(self, item: BundleItem) -> list[ItemResult]:
        """The results of an item."""
        if self._workers is None:  # a worker that joined later, whose refusal nobody else hears
            raise UsageError(self._trouble)
        return self._workers.results_of(item)


class CleanupPlugin(SchedulerPlugin):  # type: ignore[misc]
    """In the scheduler: when the run is gone, however it went, no worker keeps a pool for it."""

    def __init__(self, client: str, name: str) -> None:
        self._client, self.name = client, name

    async def start(self, scheduler: Scheduler) -> None:
        """Called when it is registered."""
        self._scheduler = scheduler

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Called when a client goes or is gone."""
        if client == self._client:
            scheduler._ongoing_background_tasks.call_soon(self._leave)

    async def _leave(self) -> None:
        with suppress(ValueError):  # the run has taken it away itself
            await self._scheduler.unregister_worker_plugin(None, self.name)
        await self._scheduler.unregister_scheduler_plugin(self.name)


def work_in_thread(name: str, item: BundleItem) -> list[ItemResult]:
    """In a thread of a worker: the results of an item."""
    pool: Any = get_worker().plugins[name]
    found: list[ItemResult] = pool.results_of(item)
    return found
