"""Threads that run the jobs of the queue.

    with Workers(storage, analysis, 2) as workers:
        workers.wake()    # a job was queued

Each job runs in a process of its own (`thpdiag.sandbox.preload`), which the thread supervises, reporting its stage and
storing its result. The process parses no customer data: it reads the JSON answer of a sandboxed child. A job ends as
done, failed, requeued or claimed by another worker. If its bundle is deleted meanwhile, the next heartbeat ends the
process. On shutdown, running jobs are requeued within seconds and all processes are ended.
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
PRELOAD: tuple[str, ...] = ()  # further modules that the fork server imports; tests add parsers here
LOGGER: Final = logging.getLogger("thpdiag.serve.work")
ANSWER_POLL_SECONDS: Final = 0.25
HEARTBEAT_SECONDS: Final = 5.0  # between two heartbeats of the same stage
RETRY_SECONDS: Final = 5.0  # after a failure for lack of resources
PACKING_SECONDS: Final = 300.0  # to pack the result, in addition to the time limit of the child
MAX_TRIES: Final = 2
TRANSIENT_ERRNOS: Final = (*DISK_FULL_ERRNOS, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
STAGE_BEGINNING: Final = "beginning"
PROCESS_KILLED: Final = "the worker process was killed from outside, twice"
TIMED_OUT: Final = "no result within {:.1f} hours"
START_FAILED: Final = "the analysis could not start ({})"
SCRATCH_FOLDER: Final = "work"  # in the data folder
MAX_SILENT_SECONDS: Final = 120.0  # without a heartbeat, after which a worker counts as dead
POLL_SECONDS: Final = 10.0  # after which a worker checks the queue without being woken


def analysis_handler() -> Callable[[AnalysisOrder], PackedResult]:
    """Return the handler of a job process; only there the engine is imported."""
    from thpdiag.serve.worker_process import analyse_order

    return analyse_order


class JobLostError(Exception):
    """The claim of this worker has ended: the job was requeued, deleted or claimed by another worker."""


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs single jobs. `stopping` is set when the server shuts down."""

    storage: Storage
    analysis: Analysis
    limits: Limits
    scratch: Path
    stopping: Event
    rules: tuple[Path, ...] = ()  # folders with further rules

    def run(self, claim: Claim) -> None:
        """Run a job to its end. Only bugs raise exceptions."""
        begun, end = monotonic(), "left to others"
        with suppress(JobLostError):
            result = self._analyse(claim)
            self._store(claim, result)
            end = result.status
        LOGGER.info("job %s: %s after %.1f s", claim.job.id, end, monotonic() - begun)

    def _analyse(self, claim: Claim) -> PackedResult:
        """Return the result, without a document if the analysis failed. A killed process is tried again."""
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
                return self._start_failed(claim, error)
        return _failed_analysis(claim, "killed", PROCESS_KILLED)

    def _contents(self, claim: Claim) -> Mapping[str, Path] | None:
        """Return the files of a job by name; None if one of them is gone. Waits while the database is unavailable."""
        while True:
            try:
                parts = self.storage.bundles.parts(claim.job.sha256) or (Part(claim.job.sha256, claim.job.name),)
                break
            except StorageError as error:
                LOGGER.warning("job %s cannot start yet: %s", claim.job.id, error)
                if self.stopping.wait(RETRY_SECONDS):
                    raise JobLostError from error
        paths = {part.name: self.storage.content.path(part.sha256) for part in parts}
        return paths if all(path.is_file() for path in paths.values()) else None

    def _watch(self, claim: Claim, order: AnalysisOrder, worker: Worker) -> PackedResult:
        """Wait for the result; send heartbeats with the stage, at once when it changes."""
        worker.answer()  # the process is set up
        worker.send(order)
        last_stage, last_heartbeat, deadline = "", 0.0, monotonic() + self.limits.wall_seconds + PACKING_SECONDS
        while not worker.has_answer(ANSWER_POLL_SECONDS):
            if self.stopping.is_set():
                self._requeue(claim)
                raise JobLostError
            now, stage = monotonic(), read_stage(order.scratch) or STAGE_BEGINNING
            if stage != last_stage or now - last_heartbeat >= HEARTBEAT_SECONDS:
                last_stage, last_heartbeat = stage, now
                self._send_heartbeat(claim, stage)
            if now > deadline:
                return _failed_analysis(claim, str(Status.TIMEOUT), TIMED_OUT.format(self.limits.wall_seconds / 3600))
        result: PackedResult = worker.answer()
        return result

    def _send_heartbeat(self, claim: Claim, stage: str) -> None:
        try:
            is_ours = self.storage.jobs.heartbeat(claim, stage)
        except StorageError as error:
            LOGGER.warning("job %s: %s", claim.job.id, error)
        else:
            if not is_ours:
                raise JobLostError

    def _start_failed(self, claim: Claim, error: OSError) -> PackedResult:
        """Requeue the job if resources are lacking; fail it on other errors."""
        LOGGER.warning("job %s could not start: %s", claim.job.id, error.strerror)
        if error.errno not in TRANSIENT_ERRNOS:
            return _failed_analysis(claim, "not begun", START_FAILED.format(error.strerror))
        self._requeue(claim)
        self.stopping.wait(RETRY_SECONDS)
        raise JobLostError

    def _requeue(self, claim: Claim) -> None:
        try:
            self.storage.jobs.requeue(claim)
        except StorageError as error:
            LOGGER.warning("job %s is taken up at the next start: %s", claim.job.id, error)

    def _store(self, claim: Claim, result: PackedResult) -> None:
        """Store the result; retry while the database is unavailable or full, until the server shuts down."""
        while True:
            try:
                if result.document is None:
                    is_ours = self.storage.jobs.fail(claim, result.reason, result.status)
                else:
                    is_ours = self.storage.cases.complete(claim, result, self.analysis) is not None
            except StorageError as error:
                LOGGER.warning("the result of job %s cannot be stored yet: %s", claim.job.id, error)
                if self.stopping.wait(RETRY_SECONDS):
                    raise JobLostError from error
            else:
                if not is_ours:
                    raise JobLostError
                return


def _failed_analysis(claim: Claim, status: str, reason: str) -> PackedResult:
    return PackedResult(claim.job.sha256, claim.job.name, 0, status, reason)


class Workers:
    """A context manager with the worker threads; `wake` is thread-safe and returns at once."""

    def __init__(
        self, storage: Storage, analysis: Analysis, count: int, limits: Limits | None = None,
        *, rules: tuple[Path, ...] = (),
    ) -> None:  # fmt: skip
        self._storage, self._scratch, self._stopping = storage, storage.folder / SCRATCH_FOLDER, Event()
        self._runner = JobRunner(storage, analysis, limits or Limits(), self._scratch, self._stopping, rules)
        self._wakeups = tuple(Event() for _ in range(count))
        self._threads: list[Thread] = []
        self._lock = Lock()

    def wake(self) -> None:
        """Notify the workers of a new job."""
        for wakeup in self._wakeups:
            wakeup.set()

    def __enter__(self) -> Self:
        shutil.rmtree(self._scratch, ignore_errors=True)  # left by a killed server
        self._scratch.mkdir(mode=0o700, exist_ok=True)
        start_fork_server([PRELOADED_MODULE, *PRELOAD])  # loads the engine before the first job
        for wakeup in self._wakeups:
            self._start_thread(wakeup)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._stopping.set()
        self.wake()
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start_thread(self, wakeup: Event) -> None:
        with self._lock:
            if not self._stopping.is_set():
                thread = Thread(target=self._run, args=(wakeup,), name="worker")
                self._threads.append(thread)
                thread.start()

    def _run(self, wakeup: Event) -> None:
        try:
            while not self._stopping.is_set():
                wakeup.clear()  # before the query, so that no later job is missed
                if (claim := self._claim()) is not None:
                    self._runner.run(claim)
                elif not self._stopping.is_set():
                    wakeup.wait(POLL_SECONDS)
        finally:  # after a bug the thread is replaced; its job gets no heartbeats and is requeued
            if not self._stopping.wait(RETRY_SECONDS):
                self._start_thread(wakeup)

    def _claim(self) -> Claim | None:
        if self._storage.problem():  # `Health` logs it
            return None
        try:
            self._storage.jobs.requeue_lost(MAX_SILENT_SECONDS)
            return self._storage.jobs.claim()
        except StorageError as error:
            LOGGER.warning("no job can be taken: %s", error)
            return None
