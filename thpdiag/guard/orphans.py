"""What a child leaves behind when it ends: programs that it started. They are found and ended.

They have sessions of their own, so no signal to a group reaches them. This process adopts them instead, and what it
adopted is what is a child of it now and was none before; so nobody else may start one meanwhile.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from thpdiag.guard import kernel


class Orphans:
    """As a context: when it ends, so does all that was left behind within it."""

    def __enter__(self) -> Orphans:
        with suppress(OSError):
            kernel.adopt_orphans()
        self._before = children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while left := children() - self._before:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def children() -> frozenset[int]:
    """The processes whose parent is this one, those that ended and were not asked for among them."""
    try:
        lists = [file.read_text(encoding="ascii") for file in Path("/proc/self/task").glob("*/children")]
    except OSError:
        lists = []
    if lists:
        return frozenset(int(pid) for text in lists for pid in text.split())
    return frozenset(pid for pid in _processes() if _parent(pid) == os.getpid())  # a kernel without these lists


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _parent(pid: int) -> int:
    """The fourth word of /proc/PID/stat, behind the name in brackets; 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()
    return int(words[1]) if len(words) > 1 else 0
