"""Dask plugins: each Dask worker gets a pool of processes for the time of a run.

A Dask worker has threads, so it must not fork: each of its threads passes one bundle to the pool and waits. Dask starts
the plugin in workers that join later too, and ends it with the worker or at the end of the run. The plugin is named
after its run, since runs with other rules may share the workers.
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
    """The pool of one Dask worker. Its scratch files go to the worker's local directory."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._workers: Workers | None = None
        self._problem = "the worker did not start"

    def setup(self, worker: Worker) -> None:
        """Start the pool. Raises UsageError if this machine has another version of thpdiag or other rules."""
        ours, wanted = (__version__, rules_digest(self._config)), self._config.analysis
        if ours != (wanted.tool_version, wanted.rules_digest):
            self._problem = (
                f"worker {worker.address} has thpdiag {ours[0]} with rules {ours[1]}, this run {wanted.tool_version} "
                f"with {wanted.rules_digest}; install the same on all"
            )
            raise UsageError(self._problem)
        # Dask marks its processes as daemonic, and multiprocessing allows these no children. The processes of the pool
        # end with their parent anyway, since their pipe closes.
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        self._workers = Workers(replace(self._config, scratch=Path(worker.local_directory)), worker.state.nthreads)

    def teardown(self, worker: Worker) -> None:
        """Stop the pool, which wakes the threads that wait for results."""
        if self._workers is not None:
            self._workers.stop()

    def work_on(self, item: BundleItem) -> list[ItemResult]:
        """Return the results of an item."""
        if self._workers is None:  # Dask does not report an error of `setup` in a worker that joins later
            raise UsageError(self._problem)
        return self._workers.work_on(item)


class CleanupPlugin(SchedulerPlugin):  # type: ignore[misc]
    """Scheduler plugin that removes the pools of a run from all workers when its client disconnects."""

    def __init__(self, client: str, name: str) -> None:
        self._client, self.name = client, name

    async def start(self, scheduler: Scheduler) -> None:
        """Store the scheduler; Dask calls this on registration."""
        self._scheduler = scheduler

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Schedule the cleanup; Dask calls this when a client disconnects."""
        if client == self._client:
            scheduler._ongoing_background_tasks.call_soon(self._unregister)

    async def _unregister(self) -> None:
        with suppress(ValueError):  # the run has unregistered it itself
            await self._scheduler.unregister_worker_plugin(None, self.name)
        await self._scheduler.unregister_scheduler_plugin(self.name)


def work_in_thread(name: str, item: BundleItem) -> list[ItemResult]:
    """Return the results of an item, in a thread of a Dask worker."""
    plugin: Any = get_worker().plugins[name]
    results: list[ItemResult] = plugin.work_on(item)
    return results
