"""What SQLite says when a store cannot be read or written, as sentences for the user."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from thpdiag.errors import StoreError

NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PRIMARY = 0xFF  # the low byte of an extended code of SQLite is its family
_READING = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


def disk_full(error: sqlite3.Error) -> bool:
    """Whether there was no room. A quota or a limit on the size of files is told as an error of writing."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY == sqlite3.SQLITE_IOERR:
        return code not in _READING
    return bool(code & _PRIMARY == sqlite3.SQLITE_FULL)


def no_room(error: sqlite3.Error) -> str:
    """What happened, as far as it is told."""
    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY == sqlite3.SQLITE_FULL:
        return f"no room for results ({error})"
    return f"no room for results, a quota or limit, or a failing disk ({error})"


@contextmanager
def told(file: Path) -> Iterator[None]:
    """Turn an error of SQLite into one sentence about the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {_sentence(error)}") from error


def _sentence(error: sqlite3.Error) -> str:
    family = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if family in _DAMAGED:
        return f"the store is damaged ({error}); run the batch into another folder, or bring this file back"
    if family == sqlite3.SQLITE_BUSY:
        return "another process has kept the store to itself for too long"
    return f"the store cannot be used ({error})"
