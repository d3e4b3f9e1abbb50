"""What a database says when it cannot be read or written, as sentences for the user; never values or passwords."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.triage.store.trouble import disk_full, no_room

_FULL: Final = {"53100", "53200"}  # SQLSTATE: disk full, out of memory
_BUSY: Final = {"55P03", "40P01", "40001"}  # SQLSTATE: lock not available, deadlock, serialization failure
_CHANGED: Final = {
    "42501",
    "42P01",
    "42703",
    "3F000",
}  # SQLSTATE: the role may not; no table, column, schema (any more)
_OURS: Final = (IntegrityError, ProgrammingError, DataError, NotSupportedError)


@contextmanager
def told(url: URL) -> Iterator[None]:
    """Turn an error of the database into one sentence; a mistake of our own statements stays what it is."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error, _OURS) and _state(error) not in _CHANGED:
            raise
        raise _named(url, error) from error
    except PoolTimeoutError as error:
        raise StoreBusyError(f"{_place(url)}: all connections are in use") from error


def _named(url: URL, error: DBAPIError) -> StoreError | StoreBusyError | StoreFullError:
    place, said = _place(url), _said(error)
    if isinstance(error.orig, sqlite3.Error):
        if disk_full(error.orig):
            return StoreFullError(f"{place}: {no_room(error.orig)}; what was stored before is whole")
        busy = error.orig.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    elif _state(error) in _FULL:
        return StoreFullError(f"{place}: no room on the server ({said}); what was stored before is whole")
    else:
        busy = _state(error) in _BUSY
    if busy:
        return StoreBusyError(f"{place}: another process has kept the database to itself for too long")
    return StoreError(f"{place}: the database cannot be used ({said})")


def _state(error: DBAPIError) -> str:
    """The code of PostgreSQL, empty for SQLite."""
    return getattr(error.orig, "sqlstate", None) or ""


def _said(error: SQLAlchemyError) -> str:
    """The first line of what the driver says, without the statement."""
    said = str(getattr(error, "orig", error)).strip()
    return said.partition("\n")[0] or type(error).__name__


def _place(url: URL) -> str:
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
