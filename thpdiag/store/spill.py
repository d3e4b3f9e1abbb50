"""What is worked out of a store and grows with it: tables in a file that has no name, instead of in memory.

The file lies in the folder of the store if that can be written, else where temporary files are kept. Whatever ends the
program, nothing of it is left. In memory are `CACHE` kilobytes of it.
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
    """The file, made when something is first put into it. All of it is of one thread, as the store is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self._database: sqlite3.Connection | None = None

    def table(self, columns: str) -> str:
        """A new table; its name."""
        name = f"t{next(self._numbers)}"
        self.run(f"CREATE TABLE {name} ({columns}) WITHOUT ROWID")
        return name

    def run(self, query: str, *values: object) -> sqlite3.Cursor:
        """One statement; raises StoreFullError if there is no room."""
        if self._database is None:
            self._database = self._open()
        with _spill_errors(self._folder):
            return self._database.execute(query, values)

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """What a question finds, one after the other."""
        with closing(self.run(query, *values)) as found, _spill_errors(self._folder):
            yield from iter(found.fetchone, None)

    def flush(self) -> None:
        """Have all of it on the disk; raises StoreFullError if there is no room."""
        if self._database is not None:
            self.run("COMMIT")
            self.run("BEGIN EXCLUSIVE")

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        """One transaction that never ends: nothing of this outlives the program, so there is nothing to take back."""
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
    """A text for each of many keys, which are numbers or ASCII. One is replaced by another of the same key."""

    def __init__(self, aside: SpillFile) -> None:
        self._aside = aside
        self._table = aside.table("key PRIMARY KEY, text TEXT NOT NULL")

    def __setitem__(self, key: Key, text: str) -> None:
        self._aside.run(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", key, text)

    def __delitem__(self, key: Key) -> None:
        self._aside.run(f"DELETE FROM {self._table} WHERE key = ?", key)

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        found: int = self._aside.run(f"SELECT count(*) FROM {self._table}").fetchone()[0]
        return found

    def get(self, key: Key) -> str | None:
        found = self._aside.run(f"SELECT text FROM {self._table} WHERE key = ?", key).fetchone()
        return None if found is None else str(found[0])


class SpilledFirst:
    """Of texts that come in any order the `most` that stand first, those of equal order as they came.

    `all` counts every one. Places in an order are as long as each other, with numbers and texts in the same parts.
    """

    def __init__(self, aside: SpillFile, most: int = sys.maxsize) -> None:
        self.all, self._kept = 0, 0
        self._aside, self._most = aside, most
        self._last: _Cells | None = None  # what stands behind it is not among the first
        self._table = self._columns = ""

    def add(self, order: Order, text: Callable[[], str]) -> None:
        """`text` is made if there is need of it."""
        self.all += 1
        at = (*(_bind(part) for part in order), self.all)
        if self._last is not None and at > self._last:
            return
        if not self._table:
            self._begin(len(at))
        marks = ", ".join("?" * (len(at) + 1))
        self._aside.run(f"INSERT INTO {self._table} VALUES ({marks})", *at, _bind(text()))
        self._kept += 1
        if self._kept >= 2 * self._most:
            self._drop_last()

    def __len__(self) -> int:
        return min(self.all, self._most)

    def __iter__(self) -> Iterator[str]:
        if self._table:
            query = f"SELECT text FROM {self._table} ORDER BY {self._columns} LIMIT {self._most}"
            yield from (text.decode("utf-8", "surrogatepass") for (text,) in self._aside.rows(query))

    def _begin(self, parts: int) -> None:
        self._columns = ", ".join(f"k{part}" for part in range(parts))
        self._table = self._aside.table(f"{self._columns}, text BLOB NOT NULL, PRIMARY KEY ({self._columns})")

    def _drop_last(self) -> None:
        where = f"SELECT {self._columns} FROM {self._table} ORDER BY {self._columns} LIMIT 1 OFFSET {self._most - 1}"
        last: _Cells = self._aside.run(where).fetchone()
        marks = ", ".join("?" * len(last))
        self._aside.run(f"DELETE FROM {self._table} WHERE ({self._columns}) > ({marks})", *last)
        self._last, self._kept = last, self._most


def _bind(part: float | str) -> int | float | bytes:
    """Texts as bytes, which SQLite compares as Python compares the texts, lone surrogates too."""
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


@contextmanager
def _spill_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreFullError(f"{folder}: {describe_full_disk(error)}. What is stored is whole.") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{folder}: no temporary file can be used there ({error})") from error
