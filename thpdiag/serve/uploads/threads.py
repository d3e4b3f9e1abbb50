"""Threads of their own for uploads: many bundles at once keep no other request waiting for a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

MOST: Final = 12  # a disk is not faster with more of them, and each may have a connection to the database
_LIMITER: Final = RunVar[CapacityLimiter]("uploads")  # one per event loop

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what waits for a disk."""
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(MOST)
        _LIMITER.set(limiter)
    return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=limiter)
