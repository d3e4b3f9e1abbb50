"""What a person at a terminal sees and does: sentences on stderr, progress, Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import Any, Final

import rich_click as click

from thpdiag.report.escaping import visible

QUIET_SECONDS = 1.0  # seconds before anything is shown
MAX_PATH_COLUMNS = 70  # columns of a member's path, from its end


def notice(text: str) -> None:
    """Something that only a person at a terminal wants to know."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


def complain(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"thpdiag: {text}", err=True)


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """A function that takes the path of the member whose reading begins; shown to who waits for more than a second."""
    from rich.console import Console  # only who watches waits for it
    from rich.markup import escape

    status = Console(stderr=True).status("reading")
    timer = Timer(QUIET_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda member: status.update(f"reading {escape(visible(member)[-MAX_PATH_COLUMNS:])}")
    finally:
        timer.cancel()
        timer.join()
        status.stop()


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(safe: str) -> Iterator[Callable[[], None]]:
    """All of them raise KeyboardInterrupt, once: those that come while it ends would cut the end short.

    What was ignored stays so (`nohup`, a job in the background). `safe` is told to who interrupts. An exception out of
    a signal can be lost, as in a finalizer, where Python would print its traceback: what is given raises it again, and
    is to be called now and then.
    """
    print_unraisable = sys.unraisablehook
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    came = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        _set_handlers(dict.fromkeys(before, signal.SIG_IGN))
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    def drop_interrupt(lost: sys.UnraisableHookArgs) -> None:
        if not (came and issubclass(lost.exc_type, KeyboardInterrupt)):
            print_unraisable(lost)

    sys.unraisablehook = drop_interrupt
    _set_handlers(dict.fromkeys(before, stop))
    try:
        yield check
        check()
    except KeyboardInterrupt:
        complain(f"interrupted; {safe}")
        raise
    finally:
        sys.unraisablehook = print_unraisable
        if not came:
            _set_handlers(before)


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
