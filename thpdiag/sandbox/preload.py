"""Single-threaded worker processes with preloaded modules, from which sandboxed children are forked cheaply.

They serve parents with threads (a Dask worker, a web server, triage) or large memory. The workers come from
multiprocessing's fork server, which has no threads and no customer data; they read only messages of the parent and the
answers of their children. The death of a worker fails only its current call, and the worker is replaced.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, Self

from thpdiag.errors import SandboxError, WorkersError
from thpdiag.sandbox.confine import die_with_parent, landlock_version
from thpdiag.sandbox.outcome import Allowed, Answer, Layer, Limits, Outcome, Status
from thpdiag.sandbox.supervise import Call, run_in_child

TIED_MODULE: Final = "thpdiag.sandbox.tied"
GC_THRESHOLD: Final = 10_000  # allocations between two collections; Python's 700 cost a child 1 % of its time
MAX_FAILED_STARTS: Final = 3  # in a row
TERMINAL_SIGNALS: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
STOP_SIGNAL: Final = signal.SIGUSR1  # makes a worker kill its child and exit; terminals do not send it
STOP_TIMEOUT_S: Final = 3.0  # after which a worker is killed
CANNOT_START: Final = (
    "worker processes exit as soon as they start; the machine may be out of memory or processes. Stored results are "
    "complete, and --resume continues from there"
)
Handler = Callable[[Any], Any]


def fork_server_context(modules: Sequence[str]) -> ForkServerContext:
    """Return the multiprocessing context whose processes start with these modules loaded.

    There is one fork server per program. Children share what the modules load at import (rules, patterns, caches).
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads of numpy would make forks unsafe
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *modules])
    return context


def start_fork_server(modules: Sequence[str]) -> None:
    """Start the fork server, which loads these modules in the background and ends with this program.

    A failure is ignored here, since the first worker reports it. Other threads than the main one do nothing: the kernel
    ties the fork server to the thread that forked it, which may end before the program.
    """
    if threading.current_thread() is threading.main_thread():
        fork_server_context([TIED_MODULE, *modules])
        with suppress(OSError), signals_blocked():
            forkserver.ensure_running()


def freeze_memory() -> None:
    """Exempt all existing objects from garbage collection, so that children keep sharing their memory.

    New objects are collected rarely, since most of them belong to a child and end with it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the terminal signals: processes started in this context inherit the mask; this one gets them afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        resource_tracker.ensure_running()  # unblocks two of the signals
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerDiedError(Exception):
    """A worker died while it handled a message; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"by signal {-self.code}" if self.code is not None and self.code < 0 else f"with code {self.code}"


WORKER_ERRORS: Final = (WorkerDiedError, WorkersError, TimeoutError, OSError)
MESSAGE_ERRORS: Final = (pickle.PicklingError, TypeError, AttributeError)  # for a message that cannot be pickled


class Worker:
    """A worker process. `setup` is called there once and returns the handler, which answers one message at a time.

    It ends with this program, however that ends, since its pipe closes. A context manager, which stops the worker and
    all its descendants.
    """

    def __init__(self, setup: Callable[[], Handler], modules: Sequence[str] = ()) -> None:
        context = fork_server_context(modules)
        self._pipe, worker_end = context.Pipe()
        self._process = context.Process(target=_run_worker, args=(worker_end, setup), daemon=True)
        with worker_end, signals_blocked():
            self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        self._pipe.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, message: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._pipe.send(message)

    def has_answer(self, seconds: float | None = None) -> bool:
        """Wait at most this long for the next answer, or for the death of the worker."""
        return self._pipe.poll(seconds)

    def receive(self) -> tuple[bool, Any]:
        """Return success and the next answer, or the exception of the handler. Raises WorkerDiedError.

        The first answer reports that `setup` is done.
        """
        try:
            is_ok, answer = self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            self._process.join()
            raise WorkerDiedError(self._process.exitcode) from error
        return is_ok, answer

    def answer(self) -> Any:
        """Return the next answer, or raise the exception of the handler."""
        is_ok, answer = self.receive()
        if is_ok:
            return answer
        raise answer

    def stop(self) -> None:
        """Stop the worker with its child and the programs that the child has started."""
        if self._process.is_alive() and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, STOP_SIGNAL)
            self._process.join(STOP_TIMEOUT_S)
        self._process.kill()
        self._process.join()


def _run_worker(pipe: Connection, setup: Callable[[], Handler]) -> None:
    signal.signal(STOP_SIGNAL, _exit_on_signal)
    with suppress(OSError):
        die_with_parent(STOP_SIGNAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A worker inherits the pipe by which the fork server notices the end of the program; it would keep both alive.
    os.closerange(3, pipe.fileno())
    os.closerange(pipe.fileno() + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 20))
    handlers: list[Handler] = []
    with suppress(EOFError, OSError):
        is_ok = _send_result(pipe, lambda: handlers.append(setup()))
        while is_ok:
            message = pipe.recv()
            _send_result(pipe, lambda: handlers[0](message))  # noqa: B023 - called at once
    os._exit(0)


def _exit_on_signal(_number: int, _frame: FrameType | None) -> None:
    """Exit by an exception, so that the context of a child kills it."""
    signal.signal(STOP_SIGNAL, signal.SIG_IGN)
    raise SystemExit(1)


def _send_result(pipe: Connection, call: Callable[[], Any]) -> bool:
    """Make a call and send its result, or its exception with the traceback as a note; return whether it succeeded."""
    try:
        answer = call()
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        error.add_note(text)
        try:
            pickle.loads(pickle.dumps(error))
        except (pickle.PickleError, TypeError, AttributeError, ValueError, LookupError, ImportError):
            pipe.send((False, RuntimeError(text)))
        else:
            pipe.send((False, error))
        return False
    pipe.send((True, answer))
    return True


class WorkerPool:
    """A pool of up to `count` workers, each started when there is work for it. Messages may come from any thread.

    A message that takes longer than `seconds` fails with TimeoutError, one whose worker dies with WorkerDiedError; the
    worker is replaced, and other messages are unaffected. A context manager.
    """

    def __init__(
        self, count: int, setup: Callable[[], Handler], modules: Sequence[str] = (), seconds: float | None = None
    ) -> None:
        self._count, self._make_worker, self._seconds = count, partial(Worker, setup, modules), seconds
        self._lock = threading.Lock()
        self._messages: SimpleQueue[tuple[Future[Any], Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: dict[int, Worker] = {}  # by thread
        self._open: set[Future[Any]] = set()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def submit(self, message: Any) -> Future[Any]:
        """Queue a message for a worker. Raises WorkersError once the pool is stopped."""
        future: Future[Any] = Future()
        with self._lock:
            self._check_running()
            self._open.add(future)
            self._messages.put((future, message))
            if len(self._threads) < self._count:
                self._threads.append(threading.Thread(target=self._run, daemon=True, name="worker"))
                self._threads[-1].start()
        future.add_done_callback(self._open.discard)
        return future

    def stop(self) -> None:
        """Stop all workers, and cancel the futures without a result."""
        with self._lock:
            self._stopped = True
            workers, futures = tuple(self._workers.values()), tuple(self._open)
        for future in futures:
            future.cancel()
        for worker in workers:
            worker.stop()
        for _ in self._threads:
            self._messages.put(None)
        for thread in self._threads:
            thread.join()

    def _check_running(self) -> None:
        if self._stopped:
            raise WorkersError("the run is over")

    def _run(self) -> None:
        """Run the thread of one worker."""
        worker: Worker | None = None
        while task := self._messages.get():
            future, message = task
            if future.cancelled():
                continue
            with suppress(InvalidStateError):  # the future was cancelled meanwhile
                try:
                    is_ok, answer = True, None
                    if worker is None or not worker.alive:
                        worker, is_ok, answer = self._start()
                    if is_ok:
                        worker.send(message)
                        if not worker.has_answer(self._seconds):
                            worker.stop()
                            raise TimeoutError
                        is_ok, answer = worker.receive()
                except (*WORKER_ERRORS, *MESSAGE_ERRORS) as error:
                    is_ok, answer = False, error
                if is_ok:
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _start(self) -> tuple[Worker, bool, Any]:
        """Return a worker with the outcome of its setup."""
        for _ in range(MAX_FAILED_STARTS):
            with suppress(WorkerDiedError, EOFError, OSError):
                worker = self._make_worker()
                with self._lock:
                    if not self._stopped:
                        self._workers[threading.get_ident()] = worker
                if self._stopped:
                    worker.stop()
                    self._check_running()
                return worker, *worker.receive()
        raise WorkersError(CANNOT_START)


def run_in_child_of_worker(call: Call, limits: Limits, allowed: Allowed) -> Outcome:
    """Make a call like `run_in_child` from a process with threads, in a child of a worker.

    The call must be picklable: a function of a module, or a partial of one.
    """
    with WorkerPool(1, call_handler) as pool:
        outcome: Outcome = pool.submit((call, limits, allowed)).result()
    return outcome


def call_handler() -> Handler:
    """Prepare a worker; return a handler that makes each call in a child. Messages are arguments of `run_in_child`."""
    freeze_memory()
    return lambda message: run_in_child(*message)


_LANDLOCK_RESTRICTS = {1: "files", 4: "TCP", 5: "ioctl", 6: "signals"}  # by the version that added it


def layers_in_force() -> dict[Layer, str]:
    """Return a description of each layer on this machine, empty for a missing one."""
    outcome = run_in_child_of_worker(try_layers, Limits(), Allowed())
    if outcome.status is not Status.OK:
        raise RuntimeError(outcome.sentence)
    return describe_layers(outcome)


def check_layers() -> None:
    """Raise SandboxError if this machine lacks a layer."""
    outcome = run_in_child_of_worker(try_layers, Limits(every_layer=True), Allowed())
    if outcome.status is not Status.OK:
        raise SandboxError(outcome.sentence)


def describe_layers(outcome: Outcome) -> dict[Layer, str]:
    """Return the descriptions of `layers_in_force` from the outcome of `try_layers`."""
    version = json.loads(outcome.content)
    layers = {layer: "" if layer in outcome.missing else "yes" for layer in Layer}
    if layers[Layer.FILES]:
        restricts = ", ".join(word for since, word in _LANDLOCK_RESTRICTS.items() if since <= version)
        layers[Layer.FILES] = f"yes, version {version}: {restricts}"
    return layers


def try_layers() -> Answer:
    """Return the version of Landlock; every answer also reports the missing layers."""
    return Answer(json.dumps(landlock_version()).encode())
