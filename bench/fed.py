"""A program that takes bundles from a pipe: what a few of them cost it, so that two programs can take turns.

A machine that many share is a fifth faster or slower from one half minute to the next, and CPU seconds with it. Turns
of a few seconds, one program idle while the other works, let both have the same.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

TICK = os.sysconf("SC_CLK_TCK")


class Fed:
    """To be used as a context. `done` says of a line that it prints how many bundles are done; it prints to `told`."""

    def __init__(self, command: Sequence[str], told: str, done: Callable[[str], int]) -> None:
        pipes: dict[str, int] = {"stdout": subprocess.DEVNULL, told: subprocess.PIPE}
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **pipes)  # type: ignore[call-overload]
        self._given = 0
        self._told: IO[str] = getattr(self._program, told)
        self._done = done

    def cost(self, bundles: Sequence[Path]) -> float:
        """CPU seconds of all its processes from the bundles' names to their results."""
        before = self._spent()
        self._given += len(bundles)
        self._program.stdin.writelines(f"{path}\n" for path in bundles)
        self._program.stdin.flush()
        while self._done(self._told.readline()) < self._given:
            pass
        return self._spent() - before

    def _spent(self) -> float:
        """Of processes that have ended their parents know."""
        return sum(ticks for pid in tree(self._program.pid) for ticks in _ticks(pid)) / TICK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.stdin.close()
        self._told.read()
        self._told.close()
        self._program.wait()


def tree(pid: int) -> Iterator[int]:
    """A process and all below it, of whatever thread."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from tree(int(child))


def _ticks(pid: int) -> list[int]:
    """utime, stime, cutime and cstime (proc_pid_stat(5))."""
    return [int(word) for word in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]
