"""The threads that do the queue's jobs, as many at a time as there are workers.

    with Workers(storage, analysis, 2) as workers:
        workers.wake()    # a job waits

A job is done by a process of its own (`thpdiag.sandbox.preload`), which is watched, whose stage is told, and whose
result is stored. It reads nothing of a customer but the guarded child's answer, which is our own JSON. Whatever happens
to the machine meanwhile, the job is done, failed, given back, or somebody else's; a bundle that is deleted while it is
analysed ends its process with the next beat. At the end what is under way is given back within seconds, and every
process is gone.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Final, Self

from thpdiag.errors import StorageError
from thpdiag.sandbox.outcome import Limits, Status
from thpdiag.sandbox.preload import Worker, WorkerDiedError, start_fork_server
from thpdiag.serve.storage.bundles import Part
from thpdiag.serve.storage.jobs import FILE_GONE, Claim
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.work_order import AnalysisOrder, prepare_order, read_stage
from thpdiag.store.results import Analysis, PackedResult
from thpdiag.store.schema import DISK_FULL_ERRNOS

PRELOADED_MODULE: Final = "thpdiag.serve.worker_process"
PRELOAD: tuple[str, ...] = ()  # what else the fork server imports; tests plant readers there
LOGGER: Final = logging.getLogger("thpdiag.serve.work")
LOOK_SECONDS: Final = 0.25  # between two looks at a process
BEAT_SECONDS: Final = 5.0  # between two beats of the same stage
RETRY_SECONDS: Final = 5.0  # until something is tried again that the machine did not allow
PACKING_SECONDS: Final = 300.0  # beyond the limit of the child: to pack what came of it
MAX_TRIES: Final = 2
TRANSIENT_ERRNOS: Final = (*DISK_FULL_ERRNOS, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
STAGE_BEGINNING: Final = "beginning"
KILLED: Final = "the worker process was killed from outside, twice"
TOO_LATE: Final = "no result within {:.1f} hours"
NOT_BEGUN: Final = "the analysis could not start ({})"
SCRATCH_FOLDER: Final = "work"  # in the data folder
SILENT_SECONDS: Final = 120.0  # without a beat after which a worker counts as dead
POLL_SECONDS: Final = 10.0  # after which a worker looks by itself whether something waits


def analysis_handler() -> Callable[[AnalysisOrder], PackedResult]:
    """Called in the process of a job: the engine, which the server itself never loads."""
    from thpdiag.serve.worker_process import analyse_order

    return analyse_order


class JobLostError(Exception):
    """The job is not this worker's any more: it was given back, or lost."""


@dataclass(frozen=True, slots=True)
class JobRunner:
    """What is the same for all jobs. `over` is set when the server ends."""

    storage: Storage
    analysis: Analysis
    limits: Limits
    scratch: Path
    over: Event
    rules: tuple[Path, ...] = ()  # folders with further rules

    def run(self, claim: Claim) -> None:
        """One job from its claim to its end; nothing is raised but a mistake of ours."""
        begun, end = monotonic(), "left to others"
        with suppress(JobLostError):
            result = self._analyse(claim)
            self._store(claim, result)
            end = result.status
        LOGGER.info("job %s: %s after %.1f s", claim.job.id, end, monotonic() - begun)

    def _analyse(self, claim: Claim) -> PackedResult:
        """What came of it, without a document where nothing did. That a process dies is not the bundle's doing."""
        for _ in range(MAX_TRIES):
            contents = self._contents(claim)
            if contents is None:
                return _failed_analysis(claim, "gone", FILE_GONE)
            try:
                with TemporaryDirectory(prefix="job-", dir=self.scratch, ignore_cleanup_errors=True) as folder:
                    order = prepare_order(
                        claim.job, contents, Path(folder), self.limits, self.rules, self.analysis.rules_digest
                    )
                    with Worker(analysis_handler, [PRELOADED_MODULE, *PRELOAD]) as worker:
                        return self._watch(claim, order, worker)
            except WorkerDiedError as died:
                LOGGER.warning("job %s: its process ended %s", claim.job.id, died)
            except OSError as error:
                return self._not_begun(claim, error)
        return _failed_analysis(claim, "killed", KILLED)

    def _contents(self, claim: Claim) -> Mapping[str, Path] | None:
        """The files of a job by name; None if one of them is gone."""
        parts = self.storage.bundles.parts(claim.job.sha256) or (Part(claim.job.sha256, claim.job.name),)
        paths = {one.name: self.storage.content.path(one.sha256) for one in parts}
        return paths if all(path.is_file() for path in paths.values()) else None

    def _watch(self, claim: Claim, order: AnalysisOrder, worker: Worker) -> PackedResult:
        """Say that the job is being done: at once when its stage changes, and now and then as long as it does not."""
        worker.answer()  # it is set up
        worker.send(order)
        last, beaten, deadline = "", 0.0, monotonic() + self.limits.wall_seconds + PACKING_SECONDS
        while not worker.has_answer(LOOK_SECONDS):
            if self.over.is_set():
                self._give_back(claim)
                raise JobLostError
            now, stage = monotonic(), read_stage(order.room) or STAGE_BEGINNING
            if stage != last or now - beaten >= BEAT_SECONDS:
                last, beaten = stage, now
                self._beat(claim, stage)
            if now > deadline:
                return _failed_analysis(claim, str(Status.TIMEOUT), TOO_LATE.format(self.limits.wall_seconds / 3600))
        result: PackedResult = worker.answer()
        return result

    def _beat(self, claim: Claim, stage: str) -> None:
        try:
            ours = self.storage.jobs.beat(claim, stage)
        except StorageError as error:
            LOGGER.warning("job %s: %s", claim.job.id, error)
        else:
            if not ours:
                raise JobLostError

    def _not_begun(self, claim: Claim, error: OSError) -> PackedResult:
        """The machine has no room or no processes: later it may. What else is wrong is told to who uploaded it."""
        LOGGER.warning("job %s could not start: %s", claim.job.id, error.strerror)
        if error.errno not in TRANSIENT_ERRNOS:
            return _failed_analysis(claim, "not begun", NOT_BEGUN.format(error.strerror))
        self._give_back(claim)
        self.over.wait(RETRY_SECONDS)
        raise JobLostError

    def _give_back(self, claim: Claim) -> None:
        try:
            self.storage.jobs.give_back(claim)
        except StorageError as error:
            LOGGER.warning("job %s is taken up at the next start: %s", claim.job.id, error)

    def _store(self, claim: Claim, result: PackedResult) -> None:
        """As long as the database is away or full, the result waits for it; at the end of the server it is lost."""
        while True:
            try:
                if result.document is None:
                    ours = self.storage.jobs.fail(claim, result.reason, result.status)
                else:
                    ours = self.storage.cases.complete(claim, result, self.analysis) is not None
            except StorageError as error:
                LOGGER.warning("the result of job %s cannot be stored yet: %s", claim.job.id, error)
                if self.over.wait(RETRY_SECONDS):
                    raise JobLostError from error
            else:
                if not ours:
                    raise JobLostError
                return


def _failed_analysis(claim: Claim, status: str, why: str) -> PackedResult:
    return PackedResult(claim.job.sha256, claim.job.name, 0, status, why)


class Workers:
    """To be used as a context; `wake` may be called at any time, from any thread, and returns at once."""

    def __init__(
        self, storage: Storage, analysis: Analysis, count: int, limits: Limits | None = None,
        *, rules: tuple[Path, ...] = (),
    ) -> None:  # fmt: skip
        self._storage, self._scratch, self._over = storage, storage.folder / SCRATCH_FOLDER, Event()
        self._runner = JobRunner(storage, analysis, limits or Limits(), self._scratch, self._over, rules)
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
        start_fork_server([PRELOADED_MODULE, *PRELOAD])  # the first job does not wait for the engine
        for bell in self._bells:
            self._start_thread(bell)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._over.set()
        self.wake()
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start_thread(self, bell: Event) -> None:
        with self._lock:
            if not self._over.is_set():
                thread = Thread(target=self._run, args=(bell,), name="worker")
                self._threads.append(thread)
                thread.start()

    def _run(self, bell: Event) -> None:
        try:
            while not self._over.is_set():
                bell.clear()  # before the look: who rings from now on is heard
                if (claim := self._claim()) is not None:
                    self._runner.run(claim)
                elif not self._over.is_set():
                    bell.wait(POLL_SECONDS)
        finally:  # if a mistake of ours ended it, its job falls silent, and another takes it up
            if not self._over.wait(RETRY_SECONDS):
                self._start_thread(bell)

    def _claim(self) -> Claim | None:
        if self._storage.problem():  # the health of the server says so in the log
            return None
        try:
            self._storage.jobs.take_up(SILENT_SECONDS)
            return self._storage.jobs.claim()
        except StorageError as error:
            LOGGER.warning("no job can be taken: %s", error)
            return None
