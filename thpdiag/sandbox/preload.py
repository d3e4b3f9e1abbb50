"""Processes with one thread that have imported what their calls need, so that children are forked from them cheaply.

For parents that have threads (a scheduler's worker, a web server, a batch) or whose memory is large. The processes come
from multiprocessing's fork server, which has no customer's bytes and no thread; they read nothing but our calls and the
answers of their children. A process that dies costs the call that it was at, is named by its exit code, and replaced.
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

TIED: Final = "thpdiag.sandbox.tied"
GC_THRESHOLD: Final = 10_000  # new containers between two collections; Python's 700 cost a child 1 % of its time
MAX_FAILED_STARTS: Final = 3  # in a row
TERMINAL_SIGNALS: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
LEAVE_SIGNAL: Final = signal.SIGUSR1  # to a worker, which ends its child and what that has begun; no terminal sends it
LEAVE_SECONDS: Final = 3.0  # in which it has to
CANNOT_START: Final = (
    "worker processes exit as soon as they start; the machine may be out of memory or processes. Stored results are "
    "complete, and --resume continues from there"
)
Handler = Callable[[Any], Any]


def fork_server_context(modules: Sequence[str]) -> ForkServerContext:
    """The context in which processes begin with these modules; the fork server is one for the whole program.

    What their import loads and fills (rules, patterns, caches) each child has without work of its own; what a child
    adds ends with it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads would be in the way of a fork
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *modules])
    return context


def start_fork_server(modules: Sequence[str]) -> None:
    """Have the fork server begin to load these modules; returns at once. It ends with this program, even as it loads.

    If it cannot begin, that is left to whoever needs it. Only from the main thread: the kernel ties a process to the
    thread that forked it, and another thread may end before the program.
    """
    if threading.current_thread() is threading.main_thread():
        fork_server_context([TIED, *modules])
        with suppress(OSError), signals_blocked():
            forkserver.ensure_running()


def freeze_memory() -> None:
    """Take all objects that exist out of the garbage collector's sight, so that children go on sharing their memory.

    New ones it looks at rarely, for most of them are a child's and end with it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


@contextmanager
def signals_blocked() -> Iterator[None]:
    """A process begun within never gets what a terminal sends to all its processes; this one gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        resource_tracker.ensure_running()  # it unblocks two of them
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerDiedError(Exception):
    """A process ended while it was at a message; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"by signal {-self.code}" if self.code is not None and self.code < 0 else f"with code {self.code}"


WORKER_ERRORS: Final = (WorkerDiedError, WorkersError, TimeoutError, OSError)
MESSAGE_ERRORS: Final = (pickle.PicklingError, TypeError, AttributeError)  # of a message that pickle does not know


class Worker:
    """A process of the fork server. `setup`, called there once, gives the handler that answers one message at a time.

    It ends with this program, however that ends: at the end of its pipe, and with the fork server. To be used as a
    context, at whose end it is gone with all that it began.
    """

    def __init__(self, setup: Callable[[], Handler], modules: Sequence[str] = ()) -> None:
        context = fork_server_context(modules)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_be_worker, args=(theirs, setup), daemon=True)
        with theirs, signals_blocked():
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
        """Wait so long for the next answer, or for its death."""
        return self._pipe.poll(seconds)

    def receive(self) -> tuple[bool, Any]:
        """The next answer, or what the handler raised. WorkerDiedError if there is none.

        The first one says that `setup` is done.
        """
        try:
            well, answer = self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            self._process.join()
            raise WorkerDiedError(self._process.exitcode) from error
        return well, answer

    def answer(self) -> Any:
        """The next answer; what the handler raised is raised here."""
        well, answer = self.receive()
        if well:
            return answer
        raise answer

    def stop(self) -> None:
        """End it whatever it is at, with its child and the programs that the child has started."""
        if self._process.is_alive() and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, LEAVE_SIGNAL)
            self._process.join(LEAVE_SECONDS)
        self._process.kill()
        self._process.join()


def _be_worker(pipe: Connection, setup: Callable[[], Handler]) -> None:
    signal.signal(LEAVE_SIGNAL, _leave)
    with suppress(OSError):
        die_with_parent(LEAVE_SIGNAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The fork server gives its children the pipe by which it knows that the program lives: who holds it keeps both.
    os.closerange(3, pipe.fileno())
    os.closerange(pipe.fileno() + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 20))
    handlers: list[Handler] = []
    with suppress(EOFError, OSError):
        well = _send_result(pipe, lambda: handlers.append(setup()))
        while well:
            message = pipe.recv()
            _send_result(pipe, lambda: handlers[0](message))  # noqa: B023 - called at once
    os._exit(0)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Leave by an exception: what holds a child ends it on the way."""
    signal.signal(LEAVE_SIGNAL, signal.SIG_IGN)
    raise SystemExit(1)


def _send_result(pipe: Connection, call: Callable[[], Any]) -> bool:
    """Make a call, and send what came of it; a mistake with its traceback as a note, as far as pickle knows it."""
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
    """Up to `count` workers for the messages of any thread; each is begun when there is work for it.

    A message that takes longer than `seconds` ends in TimeoutError, one whose worker dies in WorkerDiedError; the
    worker is replaced, and no other message is lost. To be used as a context.
    """

    def __init__(
        self, count: int, setup: Callable[[], Handler], modules: Sequence[str] = (), seconds: float | None = None
    ) -> None:
        self._count, self._begin, self._seconds = count, partial(Worker, setup, modules), seconds
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
        """Have a worker handle it; WorkersError once the pool is stopped."""
        future: Future[Any] = Future()
        with self._lock:
            self._check()
            self._open.add(future)
            self._messages.put((future, message))
            if len(self._threads) < self._count:
                self._threads.append(threading.Thread(target=self._run, daemon=True, name="worker"))
                self._threads[-1].start()
        future.add_done_callback(self._open.discard)
        return future

    def stop(self) -> None:
        """End all workers, whatever they are at; the futures of what was not answered are cancelled."""
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

    def _check(self) -> None:
        if self._stopped:
            raise WorkersError("the run is over")

    def _run(self) -> None:
        """The thread of one worker."""
        worker: Worker | None = None
        while task := self._messages.get():
            future, message = task
            if future.cancelled():
                continue
            with suppress(InvalidStateError):  # cancelled meanwhile
                try:
                    well, answer = True, None
                    if worker is None or not worker.alive:
                        worker, well, answer = self._start()
                    if well:
                        worker.send(message)
                        if not worker.has_answer(self._seconds):
                            worker.stop()
                            raise TimeoutError
                        well, answer = worker.receive()
                except (*WORKER_ERRORS, *MESSAGE_ERRORS) as error:
                    well, answer = False, error
                if well:
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _start(self) -> tuple[Worker, bool, Any]:
        """A worker with what its setup came to."""
        for _ in range(MAX_FAILED_STARTS):
            with suppress(WorkerDiedError, EOFError, OSError):
                worker = self._begin()
                with self._lock:
                    if not self._stopped:
                        self._workers[threading.get_ident()] = worker
                if self._stopped:
                    worker.stop()
                    self._check()
                return worker, *worker.receive()
        raise WorkersError(CANNOT_START)


def run_in_child_of_worker(call: Call, limits: Limits, allowed: Allowed) -> Outcome:
    """`run_in_child` for a parent with threads: the child is that of a process without.

    The call must be one that pickle knows: a function of a module, a partial of one.
    """
    with WorkerPool(1, call_handler) as pool:
        outcome: Outcome = pool.submit((call, limits, allowed)).result()
    return outcome


def call_handler() -> Handler:
    """What a worker makes calls with, each in a child of its own; a message is what `run_in_child` is given."""
    freeze_memory()
    return lambda message: run_in_child(*message)


_SINCE = {1: "files", 4: "TCP", 5: "ioctl", 6: "signals"}  # what each version of Landlock restricts besides


def layers_in_force() -> dict[Layer, str]:
    """Of each layer what it is here, empty where it is not."""
    ended = run_in_child_of_worker(try_layers, Limits(), Allowed())
    if ended.status is not Status.OK:
        raise RuntimeError(ended.sentence)
    return describe_layers(ended)


def check_layers() -> None:
    """SandboxError if this machine lacks a layer."""
    ended = run_in_child_of_worker(try_layers, Limits(every_layer=True), Allowed())
    if ended.status is not Status.OK:
        raise SandboxError(ended.sentence)


def describe_layers(ended: Outcome) -> dict[Layer, str]:
    """The same from what a child answered."""
    version = json.loads(ended.content)
    found = {layer: "" if layer in ended.missing else "yes" for layer in Layer}
    if found[Layer.FILES]:
        restricts = ", ".join(what for since, what in _SINCE.items() if since <= version)
        found[Layer.FILES] = f"yes, version {version}: {restricts}"
    return found


def try_layers() -> Answer:
    """The version of Landlock; the layers in force are told with every answer."""
    return Answer(json.dumps(landlock_version()).encode())
