"""A process with one thread that has imported what a call needs, from which children are forked cheaply.

For parents that have threads (a scheduler's worker, a web server, a pool) or whose memory is large. The process comes
from multiprocessing's fork server, which has no customer's bytes and no thread; it reads nothing but calls of ours and
the answers of its children. What a child does cannot end it.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from types import TracebackType

from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Outcome
from thpdiag.guard.supervise import Call, guarded

FIRST = "thpdiag.guard.one_thread"
YOUNG = 10_000  # containers made before the collector looks at them; Python's 700 cost a child a hundredth of its time


def fork_server(modules: Sequence[str]) -> ForkServerContext:
    """The context in which processes begin with these modules; the fork server is one for the whole program.

    What their import loads and fills (rules, patterns, caches) each child has without work of its own; what a child
    adds ends with it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([FIRST, __name__, *modules])
    return context


def settled() -> None:
    """What is there stays: the collector does not touch it again, so that children go on sharing its memory.

    What is made from now on it looks at rarely, for most of that is a child's and ends with it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


class Preloaded:
    """To be used as a context. A call must be one that pickle knows: a function of a module, a partial of one."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=fork_server(modules), initializer=settled)

    def __enter__(self) -> Preloaded:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.shutdown(wait=True, cancel_futures=True)

    def submit(self, call: Call, limits: Limits = Limits(), cell: Cell = Cell()) -> Future[Outcome]:  # noqa: B008
        """Make the call in a child of this process; one after the other."""
        return self._process.submit(guarded, call, limits, cell)
