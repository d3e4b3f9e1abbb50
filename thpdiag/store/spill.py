"""Temporary tables on disk for data that grows with the store, such as sorted rows of a report.

They are in an unlinked SQLite file in the folder of the store, or in the default temporary folder if that is not
writable. The file disappears with the process, however that ends. Up to `CACHE_KIB` of it are cached in memory.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from thpdiag.errors import StoreError, StoreFullError
from thpdiag.store.schema import describe_full_disk

CACHE_KIB: Final = 256
Key = int | str
Order = tuple[int | float | str, ...]
_Cells = tuple[int | float | bytes, ...]


class SpillFile:
    """The file, created on first use. Like the store it may be used by one thread only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._database: sqlite3.Connection | None = None

    def table(self, columns: str) -> str:
        """Create a table; return its name."""
        name = f"t{next(self._numbers)}"
        self.run(f"CREATE TABLE {name} ({columns}) WITHOUT ROWID")
        return name

    def run(self, query: str, *values: object) -> sqlite3.Cursor:
        """Execute one statement. Raises StoreFullError if the disk is full."""
        if self._database is None:
            self._database = self._open()
        with _spill_errors(self._folder):
            return self._database.execute(query, values)

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        with closing(self.run(query, *values)) as cursor, _spill_errors(self._folder):
            yield from iter(cursor.fetchone, None)

    def flush(self) -> None:
        """Write everything to the disk. Raises StoreFullError if it is full."""
        if self._database is not None:
            self.run("COMMIT")
            self.run("BEGIN EXCLUSIVE")

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        """Open the database in one endless transaction: the data is temporary, so no journal is needed."""
        place = self._folder if os.access(self._folder, os.W_OK) else None
        with _spill_errors(self._folder), tempfile.NamedTemporaryFile(prefix=".aside-", dir=place) as file:
            database = sqlite3.connect(file.name, isolation_level=None)
            for line in (
                "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"PRAGMA cache_size = -{CACHE_KIB}",
                "BEGIN EXCLUSIVE",
            ):  # fmt: skip
                database.execute(line)
        return database


class SpilledTexts:
    """A mapping of keys (numbers or ASCII strings) to texts."""

    def __init__(self, spill: SpillFile) -> None:
        self._spill = spill
        self._table = spill.table("key PRIMARY KEY, text TEXT NOT NULL")

    def __setitem__(self, key: Key, text: str) -> None:
        self._spill.run(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", key, text)

    def __delitem__(self, key: Key) -> None:
        self._spill.run(f"DELETE FROM {self._table} WHERE key = ?", key)

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        count: int = self._spill.run(f"SELECT count(*) FROM {self._table}").fetchone()[0]
        return count

    def get(self, key: Key) -> str | None:
        row = self._spill.run(f"SELECT text FROM {self._table} WHERE key = ?", key).fetchone()
        return None if row is None else str(row[0])


class SpilledFirst:
    """The first `limit` of many texts in sorted order; texts with equal keys stay in the order of insertion.

    `total` counts all texts that were added. All keys have the same length and the same types at the same places.
    """

    def __init__(self, spill: SpillFile, limit: int = sys.maxsize) -> None:
        self.total, self._kept = 0, 0
        self._spill, self._limit = spill, limit
        self._last: _Cells | None = None  # key of the last text that is kept; texts after it are dropped
        self._table = self._columns = ""

    def add(self, order: Order, text: Callable[[], str]) -> None:
        """Add a text with its sort key; `text` is called only if the text is kept."""
        self.total += 1
        key = (*(_bind(part) for part in order), self.total)
        if self._last is not None and key > self._last:
            return
        if not self._table:
            self._columns = ", ".join(f"k{part}" for part in range(len(key)))
            self._table = self._spill.table(f"{self._columns}, text BLOB NOT NULL, PRIMARY KEY ({self._columns})")
        marks = ", ".join("?" * (len(key) + 1))
        self._spill.run(f"INSERT INTO {self._table} VALUES ({marks})", *key, _bind(text()))
        self._kept += 1
        if self._kept >= 2 * self._limit:
            self._drop_last()

    def __len__(self) -> int:
        return min(self.total, self._limit)

    def __iter__(self) -> Iterator[str]:
        if self._table:
            query = f"SELECT text FROM {self._table} ORDER BY {self._columns} LIMIT {self._limit}"
            yield from (text.decode("utf-8", "surrogatepass") for (text,) in self._spill.rows(query))

    def _drop_last(self) -> None:
        where = f"SELECT {self._columns} FROM {self._table} ORDER BY {self._columns} LIMIT 1 OFFSET {self._limit - 1}"
        last: _Cells = self._spill.run(where).fetchone()
        marks = ", ".join("?" * len(last))
        self._spill.run(f"DELETE FROM {self._table} WHERE ({self._columns}) > ({marks})", *last)
        self._last, self._kept = last, self._limit


def _bind(part: float | str) -> int | float | bytes:
    """Encode strings as bytes, which SQLite sorts as Python sorts the strings, also with lone surrogates."""
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


@contextmanager
def _spill_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreFullError(f"{folder}: {describe_full_disk(error)}. What is stored is whole.") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{folder}: no temporary file can be used there ({error})") from error
