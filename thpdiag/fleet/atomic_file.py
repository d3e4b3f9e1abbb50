"""Files that are whole or not there: written under another name, on the disk, and then renamed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, TextIO

from thpdiag.errors import StoreFullError, UsageError
from thpdiag.store.schema import DISK_FULL_ERRNOS

_PART_NUMBERS: Final = count()
SURROGATES: Final = "backslashreplace"  # of lone surrogates, which no encoding has


@contextmanager
def atomic_file(file: Path) -> Iterator[TextIO]:
    """A stream to a file that is there once it ends without an error; UTF-8, line ends as they are written."""
    with write_errors(file), ExitStack() as undo:
        part, out = _part_file(file)
        undo.enter_context(out)
        undo.callback(part.unlink, missing_ok=True)
        yield out
        out.flush()
        os.fsync(out.fileno())
        part.replace(file)
        undo.pop_all()
        out.close()


def _part_file(file: Path) -> tuple[Path, TextIO]:
    """Where a file is written before it has its name: what a kill left is used again, what somebody writes is not."""
    part = file.with_name(f".{file.name}.part")
    out = part.open("a", encoding="utf-8", newline="", errors=SURROGATES)
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(out.fileno()), part.stat()):
            out.truncate(0)
            return part, out
    except OSError:  # somebody is at it, has just given it its name, or the file system has no locks
        pass
    out.close()
    part = file.with_name(f".{file.name}.{os.getpid()}-{next(_PART_NUMBERS)}.part")
    return part, part.open("w", encoding="utf-8", newline="", errors=SURROGATES)


@contextmanager
def write_errors(file: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence about the file."""
    try:
        yield
    except OSError as error:
        full = StoreFullError if error.errno in DISK_FULL_ERRNOS else UsageError
        raise full(f"{file}: cannot be written ({error.strerror})") from error
