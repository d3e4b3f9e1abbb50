"""Ctrl-C, SIGTERM and a terminal that closes end a long command in order, once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from thpdiag.cli.options import complain

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(safe: str) -> Iterator[Callable[[], None]]:
    """All of them raise KeyboardInterrupt, once: those that come while it ends would cut the end short.

    What was ignored stays so (`nohup`, a job in the background). `safe` is told to who interrupts. An exception out of
    a signal can be lost, as in a finalizer: what is given raises it again, and is to be called now and then.
    """
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    came = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        _set(dict.fromkeys(before, signal.SIG_IGN))
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    _set(dict.fromkeys(before, stop))
    try:
        yield check
        check()
    except KeyboardInterrupt:
        complain(f"interrupted; {safe}")
        raise
    finally:
        if not came:
            _set(before)


def _set(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
