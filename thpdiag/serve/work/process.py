"""The process of one job: begun by the fork server, watched by a thread of the server, ended with all that it began.

It reads nothing of a customer but the guarded child's answer, which is our own JSON. If the server goes away, so does
the fork server, and the kernel tells this process: it ends its child, and programs that the child has started.
"""

from __future__ import annotations

import importlib
import os
import signal
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from types import FrameType, TracebackType
from typing import Final, Self

from thpdiag.guard.kernel import die_with_parent
from thpdiag.guard.preloaded import fork_server
from thpdiag.serve.work.order import Order
from thpdiag.triage.store.packed import Packed

WARMED: Final = "thpdiag.serve.work.warmed"
PRELOAD: tuple[str, ...] = ()  # what else the fork server imports; tests plant readers there
GRACE: Final = 3.0  # seconds in which a process that is asked to end has to


def warm() -> None:
    """Have the fork server begin to load the engine, so that the first job does not wait for it; returns at once."""
    fork_server([WARMED, *PRELOAD])
    forkserver.ensure_running()


class Working:
    """An analysis under way; to be used as a context, at whose end the process is gone. OSError if none can begin."""

    def __init__(self, order: Order) -> None:
        context = fork_server([WARMED, *PRELOAD])
        self._takes, gives = context.Pipe(duplex=False)
        self._process = context.Process(target=_done, args=(order, gives), daemon=True)
        with gives:
            self._process.start()

    def ended(self, seconds: float) -> bool:
        """Wait so long for its end."""
        return self._takes.poll(seconds)

    def result(self) -> Packed | None:
        """What came of it, once it has ended; None if the process died."""
        with suppress(EOFError, OSError):
            found: Packed = self._takes.recv()
            return found
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._takes.close()
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(GRACE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _done(order: Order, gives: Connection) -> None:
    """Be the process."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # sent to a whole terminal; the server decides what is ended
    signal.signal(signal.SIGTERM, _leave)
    with suppress(OSError):
        die_with_parent(signal.SIGTERM)
    _hold_nothing_but(gives.fileno())
    importlib.import_module(WARMED)  # done already, unless the fork server of this program began for somebody else
    from thpdiag.serve.work.analysis import analysed  # the engine, which the server itself never loads

    result = analysed(order)
    with suppress(OSError):  # nobody waits for it any more
        gives.send(result)
    os._exit(0)


def _hold_nothing_but(pipe: int) -> None:
    """The fork server gives its children the pipe by which it knows that the server lives: who holds it keeps both."""
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, pipe)
    os.closerange(pipe + 1, most if most > 0 else 1 << 20)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Leave by an exception: what holds a child ends it on the way."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)
