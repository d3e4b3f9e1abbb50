"""One run at a time writes to a folder; readers need no lock.

A record lock (fcntl) rather than flock: children that the run forks for its bundles do not inherit it, so it ends with
the run itself, however that ends. It does not keep a process from locking twice, hence the set of what this one holds.

Room that is kept back for the day the disk is full.

A full disk stops SQLite even from deleting, since its log cannot grow. A file of 1 MiB is written beside the store
before the first result; given up, it leaves room to write down what happened and to close the store properly.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Final

from thpdiag.errors import StoreBusyError

LOCK_NAME: Final = "lock"
_LOCKED_HERE: set[tuple[int, int]] = set()


class Busy(Enum):
    """What to do when another run writes to the folder."""

    REFUSE = "refuse"
    WAIT = "wait"


class Lock:
    """Held until `release`, or until the process ends."""

    def __init__(self, folder: Path, busy: Busy, waiting: Callable[[str], None]) -> None:
        file = folder / LOCK_NAME
        if file.exists() and _inode(file.stat()) in _LOCKED_HERE:
            raise StoreBusyError(f"{folder}: this run writes to it already")
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with ExitStack() as undo:
            undo.callback(os.close, self._file)
            self._take(folder, busy, waiting)
            undo.pop_all()
        self._identity = _inode(os.fstat(self._file))
        _LOCKED_HERE.add(self._identity)

    def _take(self, folder: Path, busy: Busy, waiting: Callable[[str], None]) -> None:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            told = f"{folder}: another run of triage{_holder(self._file)} writes to it"
            if busy is Busy.REFUSE:
                raise StoreBusyError(told) from None
            waiting(told)
            fcntl.lockf(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        _LOCKED_HERE.discard(self._identity)
        os.close(self._file)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _holder(file: int) -> str:
    """Who holds it, as far as it has written it down; on another machine the number says little."""
    number = os.pread(file, 20, 0).strip()
    return f" (process {int(number)})" if number.isdigit() else ""


BALLAST_NAME: Final = "ballast"
BALLAST_BYTES: Final = 1 << 20


def load_ballast(folder: Path) -> None:
    """Have the whole of it on the disk; OSError if there is no room. Random, so that no file system packs it away."""
    file = folder / BALLAST_NAME
    if file.is_file() and file.stat().st_size == BALLAST_BYTES:
        return
    try:
        with file.open("wb") as out:
            out.write(os.urandom(BALLAST_BYTES))
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        drop_ballast(folder)
        raise


def drop_ballast(folder: Path) -> None:
    """Give the room back; the next run loads it again."""
    (folder / BALLAST_NAME).unlink(missing_ok=True)
