"""The fork server of the workers: what it loads, and its beginning, for which the engine need not be loaded here.

A program that is going to work on this machine begins it first, so that both load what they need side by side.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from typing import Final

from thpdiag.guard.preloaded import fork_server

WARMED: Final = "thpdiag.triage.warmed"
TIED: Final = "thpdiag.guard.tied"
OURS: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
PRELOAD: tuple[str, ...] = ()  # what else the fork server imports; tests plant readers there


def begin() -> None:
    """Have it begin to load the engine; returns at once. It ends with this program, even while it loads.

    If it cannot begin, that is left to whoever needs it. A thread other than the first may end before the program, and
    what is tied would end with it.
    """
    if threading.current_thread() is threading.main_thread():
        fork_server([TIED, WARMED, *PRELOAD])
        with suppress(OSError), undisturbed():
            forkserver.ensure_running()


def context() -> ForkServerContext:
    """For processes of it; it begins with the first of them unless it has begun."""
    return fork_server([WARMED, *PRELOAD])


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is begun within never hears what is for us, to whatever group it is sent; we hear it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OURS)
    try:
        resource_tracker.ensure_running()  # it unblocks two of them
        signal.pthread_sigmask(signal.SIG_BLOCK, OURS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
