"""How far a batch has come: a bar on a terminal, a line every 30 s in a log, lines of JSON for a machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from thpdiag.model import SEVERITIES
from thpdiag.triage.tally import Tally

KINDS = ("auto", "no", "log", "json")
EVERY = {"log": 30.0, "json": 1.0}  # seconds
BEAT = 30.0  # seconds after which a line comes although nothing has ended
SCHEMA = "thpdiag/progress/1"
Watch = Callable[[Tally], None]
Clock = Callable[[], float]


@contextmanager
def watching(kind: str, out: TextIO | None = None, clock: Clock = time.monotonic) -> Iterator[Watch]:
    """A function that is told how far it has come. `auto` is a bar on a terminal and `log` elsewhere."""
    out = out or sys.stderr
    if kind == "auto":
        kind = "bar" if out.isatty() else "log"
    if kind == "no":
        yield lambda _tally: None
    elif kind == "bar":
        with Progress(
            TextColumn("{task.fields[rate]}"), BarColumn(12), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[told]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=Console(file=out), transient=True,
        ) as bar:  # fmt: skip
            yield _Bar(bar, clock)
    else:
        lines = _Lines(_log if kind == "log" else _json, EVERY[kind], out, clock)
        yield lines
        lines.end()


class _Bar:
    def __init__(self, bar: Progress, clock: Clock) -> None:
        self._bar, self._clock, self._begun = bar, clock, clock()
        self._task = bar.add_task("", total=None, rate="", told="")

    def __call__(self, tally: Tally) -> None:
        rate = _rate(tally, self._clock() - self._begun)
        total = tally.found if tally.listed else None
        self._bar.update(self._task, completed=tally.done, total=total, rate=f"{rate:.1f}/s", told=_told(tally))


class _Lines:
    """A line now and then, and one at the end."""

    def __init__(self, line: Callable[[Tally, float], str], every: float, out: TextIO, clock: Clock) -> None:
        self._line, self._every, self._out, self._clock = line, every, out, clock
        self._begun = self._last = clock()
        self._untold: Tally | None = None
        self._done = 0

    def __call__(self, tally: Tally) -> None:
        self._untold = tally
        if self._clock() - self._last >= (self._every if tally.done != self._done else max(self._every, BEAT)):
            self._tell(tally)

    def end(self) -> None:
        """What was not told yet."""
        if self._untold is not None and (self._untold.done != self._done or not self._done):
            self._tell(self._untold)

    def _tell(self, tally: Tally) -> None:
        self._last, self._untold, self._done = self._clock(), None, tally.done
        self._out.write(self._line(tally, self._last - self._begun) + "\n")
        self._out.flush()


def _log(tally: Tally, seconds: float) -> str:
    rate = _rate(tally, seconds)
    left = (
        f", about {(tally.found - tally.done) / rate:.0f} s left"
        if tally.listed and rate and tally.found > tally.done
        else ""
    )
    return f"triage: {tally.done} of {tally.found}{'' if tally.listed else ' or more'} bundles{left}; {_told(tally)}"


def _json(tally: Tally, seconds: float) -> str:
    return json.dumps(
        {
            "schema": SCHEMA, "seconds": round(seconds, 1), "found": tally.found, "listed": tally.listed,
            "done": tally.done, "skipped": tally.skipped, "twice": tally.twice, "statuses": dict(tally.statuses),
            "hosts": tally.hosts, "findings": dict(tally.findings),
        },
        sort_keys=True,
    )  # fmt: skip


def _told(tally: Tally) -> str:
    found = tally.findings
    findings = ", ".join(f"{found[severity]} {severity}" for severity in reversed(SEVERITIES) if found[severity])
    failed = f", {tally.incomplete} incomplete" if tally.incomplete else ""
    return f"findings: {findings or 'none'}{failed}"


def _rate(tally: Tally, seconds: float) -> float:
    """Bundles per second of this run; those of earlier runs take no time."""
    return (tally.done - tally.skipped) / seconds if seconds else 0.0
