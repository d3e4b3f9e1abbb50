"""What is being read, for a person who waits at a terminal for more than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.markup import escape

from thpdiag.reports.visible import visible

QUIET = 1.0  # seconds before anything is shown
LONGEST = 70  # columns of a member's path, from its end


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that takes the path of the member whose reading begins."""
    status = Console(stderr=True).status("reading")
    timer = Timer(QUIET, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda member: status.update(f"reading {escape(visible(member)[-LONGEST:])}")
    finally:
        timer.cancel()
        timer.join()
        status.stop()
