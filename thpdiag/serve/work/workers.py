"""The threads that do the queue's jobs, as many at a time as there are workers.

    with Workers(storage, analysis, 2) as workers:
        workers.wake()    # a job waits

At the end what is under way is given back within seconds, and every process is gone.
"""

from __future__ import annotations

import logging
import shutil
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self

from thpdiag.guard.limits import Limits
from thpdiag.serve.storage.jobs import Claim
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.work.doing import PAUSE, STORE, Doing
from thpdiag.serve.work.process import warm
from thpdiag.triage.store.bundle import Analysis

LOGGER: Final = logging.getLogger("thpdiag.serve.work")
LIMITS: Final = Limits()
SCRATCH: Final = "work"  # in the data folder
SILENT: Final = 120.0  # seconds without a beat after which a worker counts as dead
POLL: Final = 10.0  # seconds after which a worker looks by itself whether something waits


class Workers:
    """To be used as a context; `wake` may be called at any time, from any thread, and returns at once."""

    def __init__(self, storage: Storage, analysis: Analysis, count: int, limits: Limits = LIMITS) -> None:
        self._storage = storage
        self._scratch = storage.folder / SCRATCH
        self._over = Event()
        self._doing = Doing(storage, analysis, limits, self._scratch, self._over)
        self._bells = tuple(Event() for _ in range(count))
        self._threads: list[Thread] = []
        self._lock = Lock()

    def wake(self) -> None:
        """A job waits."""
        for bell in self._bells:
            bell.set()

    def __enter__(self) -> Self:
        shutil.rmtree(self._scratch, ignore_errors=True)  # of a server that was killed
        self._scratch.mkdir(mode=0o700, exist_ok=True)
        warm()
        for bell in self._bells:
            self._begin(bell)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._over.set()
        self.wake()
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self, bell: Event) -> None:
        with self._lock:
            if not self._over.is_set():
                thread = Thread(target=self._run, args=(bell,), name="worker")
                self._threads.append(thread)
                thread.start()

    def _run(self, bell: Event) -> None:
        try:
            while not self._over.is_set():
                bell.clear()  # before the look: who rings from now on is heard
                if (claim := self._claimed()) is not None:
                    self._doing.do(claim)
                elif not self._over.is_set():
                    bell.wait(POLL)
        finally:
            if not self._over.wait(PAUSE):  # a mistake of ours ended it; its job falls silent, and another takes it up
                self._begin(bell)

    def _claimed(self) -> Claim | None:
        try:
            self._storage.jobs.take_up(self._storage.clock() - SILENT)
            return self._storage.jobs.claim()
        except STORE as error:
            LOGGER.warning("no job can be taken: %s", error)
            return None
