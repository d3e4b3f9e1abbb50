"""The terminal: messages on stderr, progress, colours, Ctrl-C.

The values of `--quiet`, `--progress` and `--color` are in the context of the command (`save_option`, `saved_option`).
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
MAX_PATH_COLUMNS = 70  # of the end of a member's path
ERASE_LINE, WRAP_OFF, WRAP_ON = "\x1b[2K\r", "\x1b[?7l", "\x1b[?7h"  # without wrapping long lines are cut
STAGES = {"read": "Reading", "judge": "Judging", "write": "Writing"}


def save_option(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Click callback that saves the value of an option in the context; the last of several options wins."""
    if value is not None and parameter.name:
        context.meta[_META + parameter.name] = value
    return value


def saved_option(name: str, default: Any = None) -> Any:
    """Return a saved value, or the default if the option is not given or no command runs."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_META + name, default) if context else default


def shows_color() -> bool:
    """Whether to print colours: by `--color`, else NO_COLOR, FORCE_COLOR, and whether stdout is a terminal."""
    mode = saved_option("color", "auto")
    if mode != "auto":
        return bool(mode == "always")
    if os.environ.get("NO_COLOR"):
        return False
    terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return terminal or bool(os.environ.get("FORCE_COLOR"))


def notice(text: str) -> None:
    """Print a message only if stderr is a terminal."""
    if sys.stderr.isatty() and not saved_option("quiet"):
        click.echo(text, err=True)


def print_message(text: str) -> None:
    """Print a sentence on stderr."""
    click.echo(f"thpdiag: {text}", err=True)


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show the progress of the analysis in a line of the terminal, which is erased at the end."""
    from thpdiag.host.reading import throttle  # slow import, needed for progress only

    try:
        yield throttle(lambda step: _draw(f"{WRAP_OFF}{_describe(step)}{WRAP_ON}"), REDRAW_SECONDS)
    finally:
        _draw("")


@contextmanager
def print_progress(kind: str) -> Iterator[Progress]:
    """Print the progress of the analysis as lines on stderr: for a log, or as JSON for another program."""
    from thpdiag.host.reading import throttle

    def show(step: Step) -> None:
        text = _describe(step)
        if kind == "json":
            fields = {"stage": step.stage, "done": step.done, "total": step.total, "what": step.what}
            text = json.dumps({"schema": PROGRESS_SCHEMA, **fields}, sort_keys=True)
        with suppress(OSError):
            click.echo(text if kind == "json" else f"thpdiag: {text}", err=True)

    yield throttle(show, LINE_SECONDS[kind])


def _draw(line: str) -> None:
    with suppress(OSError):  # the analysis continues without its terminal
        sys.stderr.write(f"{ERASE_LINE}{line}")
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
    path = [visible(step.what)[-MAX_PATH_COLUMNS:]] if step.what else []
    return f"{STAGES[step.stage]}: {', '.join([*counts, *path])}"


SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def interruptible(hint: str) -> Iterator[Callable[[], None]]:
    """Turn the first of `SIGNALS` into KeyboardInterrupt, and ignore further ones, which would interrupt the cleanup.

    Ignored signals stay ignored (`nohup`, a background job). `hint` is printed after an interrupt. An exception from a
    signal handler can be lost, for instance in a finalizer, where Python would print its traceback. The yielded
    function raises it again and must be called regularly.
    """
    print_unraisable = sys.unraisablehook
    before = {number: handler for number in SIGNALS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    interrupted = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        _set_handlers(dict.fromkeys(before, signal.SIG_IGN))
        raise KeyboardInterrupt

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    def drop_interrupt(lost: sys.UnraisableHookArgs) -> None:
        if not (interrupted and issubclass(lost.exc_type, KeyboardInterrupt)):
            print_unraisable(lost)

    sys.unraisablehook = drop_interrupt
    _set_handlers(dict.fromkeys(before, stop))
    try:
        yield check
        check()
    except KeyboardInterrupt:
        print_message(f"interrupted; {hint}")
        raise
    finally:
        sys.unraisablehook = print_unraisable
        if not interrupted:
            _set_handlers(before)


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
