"""Processes that do the work: a pool of pebble's, which names a task whose process has died and loses no other.

They come from a fork server that has loaded the program; each forks a guarded child per bundle, so the workers
themselves see nothing of a bundle but its bytes, blindly, and our own JSON. That a worker dies is not the bundle's
doing but that of the machine (want of memory, somebody's kill), so the bundle is tried once more. All of them end with
the fork server, and that ends with us, however we do.
"""

from __future__ import annotations

import errno
import signal
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Self

from pebble import ProcessExpired, ProcessPool

from thpdiag.errors import ThpdiagError, WorkersError
from thpdiag.guard.kernel import die_with_parent
from thpdiag.triage.engines import fork_server, worker
from thpdiag.triage.engines.fork_server import undisturbed
from thpdiag.triage.item import Item
from thpdiag.triage.store.packed import Packed
from thpdiag.triage.work import Asked, Done, failed, late, lost, warmed

ATTEMPTS: Final = 2
BROKEN: Final = 3  # times that all processes may end before there is any result
LONGEST: Final = 86_400.0  # seconds for an item: of an archive of archives for all that is in it
LOOK: Final = 1.0  # seconds
Results = Future[list[Done]]


class Workers:
    """To be used as a context. Processes are begun with the first item."""

    def __init__(self, asked: Asked, count: int) -> None:
        self._asked, self._count = asked, count
        self._context: _Context | None = None
        self._lock = Lock()
        self._pool: ProcessPool | None = None
        self._waiting: set[Results] = set()
        self._broken = 0
        self._stopped = False

    def submit(self, item: Item) -> Results:
        """Begin with an item; it may wait for a process."""
        with self._lock:
            pool = self._working()
            try:
                future: Results = pool.schedule(worker.worked, args=(item,), timeout=LONGEST)
            except RuntimeError:  # it broke just now
                future = Future()
                future.set_exception(BrokenProcessPool())
            self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def done(self, item: Item) -> list[Done]:
        """The results of an item, once they are there; for a thread that waits."""
        attempt = 1
        while True:
            begun = self.submit(item)
            while not begun.done():
                with suppress(TimeoutError, CancelledError):
                    begun.exception(LOOK)
                self.look()
            if (found := finished(begun, item, attempt)) is not None:
                self.settled()
                return found
            attempt += 1

    def look(self) -> None:
        """Whoever waits for a pool that is broken has waited in vain, and is told so."""
        with self._lock:
            broken = self._pool is not None and not self._pool.active
        if broken:
            self._give_up()

    def settled(self) -> None:
        """There was a result: the processes work."""
        self._broken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes, whatever they are at; who waits for a result is told so, and nothing begins again."""
        with self._lock:
            self._stopped = True
            self._end()
        self._give_up()

    def _give_up(self) -> None:
        for future in tuple(self._waiting):
            future.cancel()

    def _end(self) -> None:
        pool, context = self._pool, self._context
        self._pool = self._context = None
        if pool is not None and context is not None:
            context.kill()
            pool.stop()
            # An exception out of a signal in the midst of Queue.put costs a later wakeup (Condition.notify leaves its
            # waiter in the list). The pool's thread is woken once by `join`, and once more here.
            pool._context.task_queue.put(None)
            pool.join()

    def _working(self) -> ProcessPool:
        """The pool; another one if it broke, which it does when a process without an item is ended."""
        if self._stopped:
            raise WorkersError("the run is over")
        if self._pool is not None and self._pool.active:
            return self._pool
        if self._pool is not None:
            self._broken += 1
            self._end()
        if self._broken > BROKEN:
            raise WorkersError(
                "the processes that work on bundles end as soon as they begin; the machine may be out of memory or of "
                "processes. What is stored is whole, and --resume goes on from there"
            )
        self._context = _Context(fork_server.context())
        self._pool = ProcessPool(self._count, initializer=_begin, initargs=(self._asked,), context=self._context)
        # An exception out of a signal comes in the main thread. In the midst of a start it would leave a process behind
        # of which nobody knows.
        thread = Thread(target=_begun, args=(self._pool,), daemon=True)
        with undisturbed():
            thread.start()
        thread.join()
        return self._pool


class _Context:
    """The context of one pool, which knows the processes of that pool, and ends them for good.

    The pool itself replaces processes that end, also while it is being stopped. One that begins then complains of
    what is gone already.
    """

    def __init__(self, context: ForkServerContext) -> None:
        self.Pipe, self.RLock = context.Pipe, context.RLock
        self.lock = Lock()
        self.over = False
        self._all: list[_Process] = []

    def Process(self, *arguments: Any, **named: Any) -> _Process:  # noqa: N802 - as multiprocessing has it
        process = _Process(*arguments, **named)
        process.context = self
        with self.lock:
            self._all = [*(one for one in self._all if one.is_alive()), process]
        return process

    def kill(self) -> None:
        """End all at once, also one that is stopped."""
        with self.lock:
            self.over = True
        begun = [process for process in self._all if process.pid is not None]
        for process in begun:
            process.kill()
        for process in begun:
            process.join()


class _Process(ForkServerProcess):
    """A process that does not begin once its pool is over."""

    context: _Context | None = None

    def start(self) -> None:
        if self.context is None:
            raise OSError(errno.ESRCH, "it belongs to no pool")
        with self.context.lock:
            if self.context.over:
                raise OSError(errno.ECANCELED, "the pool is over")
            super().start()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "context"}


def finished(future: Results, item: Item, attempt: int) -> list[Done] | None:
    """The results of an item; None if it is to be tried again. Raises what is wrong with the run, not with the item."""
    if future.cancelled():
        return None
    error = future.exception()
    if error is None:
        return [replace(one, attempts=attempt) if isinstance(one, Packed) else one for one in future.result()]
    if isinstance(error, BrokenProcessPool):
        return None
    if isinstance(error, ThpdiagError):
        raise error
    if isinstance(error, TimeoutError):
        return [late(item, LONGEST, attempt)]
    if not isinstance(error, ProcessExpired | OSError | MemoryError):
        return [failed(item, error, attempt)]
    return [lost(item, _how(error), attempt)] if attempt >= ATTEMPTS else None


def _how(error: BaseException) -> str:
    if not isinstance(error, ProcessExpired):
        return f"the process that worked on it failed ({error or 'no memory'}), and so did a second one"
    code = error.exitcode
    how = f"by signal {-code}" if isinstance(code, int) and code < 0 else f"with code {code}"
    return f"the process that worked on it was ended {how}, and so was a second one"


def _begun(pool: ProcessPool) -> None:
    """Begin with its processes; it is not active if that fails."""
    with suppress(OSError, EOFError, BrokenProcessPool):
        forkserver.ensure_running()
        _ = pool.active


def _begin(asked: Asked) -> None:
    """In a worker."""
    with suppress(OSError):
        die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warmed(asked.folders, asked.changes)
    worker.asked = asked
