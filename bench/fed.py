"""A program that takes bundles from a pipe, so that the costs of two programs can be measured in turns.

The speed of a shared machine varies by a fifth from one half minute to the next, and CPU seconds with it. In turns of a
few seconds, one program idle while the other works, both get the same conditions.
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
    """A context manager. `done` parses the number of finished bundles from a line; `told` is the stream of lines."""

    def __init__(self, command: Sequence[str], told: str, done: Callable[[str], int]) -> None:
        pipes: dict[str, int] = {"stdout": subprocess.DEVNULL, told: subprocess.PIPE}
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **pipes)  # type: ignore[call-overload]
        self._given = 0
        self._told: IO[str] = getattr(self._program, told)
        self._done = done

    def cost(self, bundles: Sequence[Path]) -> float:
        """Return CPU seconds of all its processes from the bundles' names to their results."""
        before = self._spent()
        self._given += len(bundles)
        self._program.stdin.writelines(f"{path}\n" for path in bundles)
        self._program.stdin.flush()
        while self._done(self._told.readline()) < self._given:
            pass
        return self._spent() - before

    def _spent(self) -> float:
        """Return CPU seconds; parents account for processes that have ended."""
        return sum(ticks for pid in tree(self._program.pid) for ticks in _ticks(pid)) / TICK

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._program.stdin.close()
        self._told.read()
        self._told.close()
        self._program.wait()


def tree(pid: int) -> Iterator[int]:
    """Return a process and all its descendants, of any thread."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from tree(int(child))


def _ticks(pid: int) -> list[int]:
    """Return utime + stime + cutime + cstime (proc_pid_stat(5))."""
    return [int(word) for word in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]
