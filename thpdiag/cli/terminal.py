"""What a person at a terminal sees and does: sentences on stderr, progress, colours, Ctrl-C.

What `--quiet`, `--progress` and `--color` say is remembered in the context of the command (`remember`, `setting`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from thpdiag.report.escaping import visible

if TYPE_CHECKING:
    from thpdiag.host.reading import Progress, Step

REDRAW_SECONDS = 0.1
LINE_SECONDS = {"log": 10.0, "json": 1.0}  # between two lines of progress
PROGRESS_SCHEMA = "thpdiag/analysis-progress/1"
_META = "thpdiag.cli."
MAX_PATH_COLUMNS = 70  # columns of a member's path, from its end
ERASED, UNWRAPPED, WRAPPED = "\x1b[2K\r", "\x1b[?7l", "\x1b[?7h"  # the terminal cuts a line that is too long for it
STAGES = {"read": "Reading", "judge": "Judging", "write": "Writing"}


def remember(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The callback of an option that holds for whatever the command does; the last of two such options wins."""
    if value is not None and parameter.name:
        context.meta[_META + parameter.name] = value
    return value


def setting(name: str, default: Any = None) -> Any:
    """What such an option says; outside of a command its default."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_META + name, default) if context else default


def shows_color() -> bool:
    """Whether what is printed has colours: as asked for, else on a terminal; NO_COLOR and FORCE_COLOR decide before."""
    mode = setting("color", "auto")
    if mode != "auto":
        return bool(mode == "always")
    if os.environ.get("NO_COLOR"):
        return False
    terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return terminal or bool(os.environ.get("FORCE_COLOR"))


def notice(text: str) -> None:
    """Something that only a person at a terminal wants to know."""
    if sys.stderr.isatty() and not setting("quiet"):
        click.echo(text, err=True)


def complain(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"thpdiag: {text}", err=True)


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A line that says how far the analysis is, drawn only when that changes, and gone at the end."""
    from thpdiag.host.reading import throttle  # only who watches waits for it

    try:
        yield throttle(lambda step: _draw(f"{UNWRAPPED}{_describe(step)}{WRAPPED}"), REDRAW_SECONDS)
    finally:
        _draw("")


@contextmanager
def print_progress(kind: str) -> Iterator[Progress]:
    """Lines on stderr that say how far the analysis is: for a log, or as JSON for another program."""
    from thpdiag.host.reading import throttle

    def show(step: Step) -> None:
        text = _describe(step)
        if kind == "json":
            known = {"stage": step.stage, "done": step.done, "total": step.total, "what": step.what}
            text = json.dumps({"schema": PROGRESS_SCHEMA, **known}, sort_keys=True)
        with suppress(OSError):
            click.echo(text if kind == "json" else f"thpdiag: {text}", err=True)

    yield throttle(show, LINE_SECONDS[kind])


def _draw(line: str) -> None:
    with suppress(OSError):  # a terminal that is gone is no matter of the analysis
        sys.stderr.write(f"{ERASED}{line}")
        sys.stderr.flush()


def _describe(step: Step) -> str:
    from thpdiag.report.messages import plural
    from thpdiag.report.quantity import quantity

    if step.stage == "read":
        total = f" of {quantity(step.total, 'bytes')}" if step.total and step.done <= step.total else ""
        counts = [f"{quantity(step.done, 'bytes')}{total}", plural(step.files, "file")]
    elif step.stage == "judge":
        counts = [f"{step.done} of {step.total} rules"]
    else:
        counts = [f"report {step.done + 1} of {step.total}" if step.total else "cited lines"]
    counts += [f"{noun} {number} of {total}" for noun, number, total in step.places if total > 1]
    what = [visible(step.what)[-MAX_PATH_COLUMNS:]] if step.what else []
    return f"{STAGES[step.stage]}: {', '.join([*counts, *what])}"


SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


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
