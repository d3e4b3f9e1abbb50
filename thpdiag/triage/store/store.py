"""The store of a batch, for the one run that adds to it.

    with Store.open(folder, analysis) as store:
        if not store.done(sha256, analysis):
            store.add(result)

What `add` has returned from is on the disk. A bundle is stored once per analysis: adding it again, after a crash or
from another shard, changes nothing unless the first attempt came to no document, and `done` says so before the work is
done twice.

A connection of SQLite is of one process: what is forked while a store is open leaves it alone and ends by `os._exit`.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, Self

from thpdiag.errors import StoreError, StoreFullError
from thpdiag.triage.store import ballast
from thpdiag.triage.store.bundle import Analysis, BundleResult
from thpdiag.triage.store.form import INDEXES, NAME, text, to_write
from thpdiag.triage.store.given import told_path
from thpdiag.triage.store.lock import Busy, Lock
from thpdiag.triage.store.merged import merge_into
from thpdiag.triage.store.packed import UNREAD, Packed, packed, unread
from thpdiag.triage.store.reading import Reading
from thpdiag.triage.store.rows import FINDING, HOST
from thpdiag.triage.store.trouble import NO_ROOM, disk_full, no_room, told

FULL: Final = "disk full"
_TEXT = "CAST(? AS TEXT)"
_HOST: Final = f"INSERT INTO host (bundle, place, {', '.join(HOST)}) VALUES (?, ?{f', {_TEXT}' * len(HOST)})"
_FINDING: Final = (
    f"INSERT INTO finding (bundle, host, place, {', '.join(FINDING)}) VALUES (?, ?, ?{f', {_TEXT}' * len(FINDING)})"
)
_BUNDLE: Final = (
    "INSERT INTO bundle (run, analysis, sha256, path, size, status, reason, attempts) "
    f"VALUES (?, ?, {_TEXT}, {_TEXT}, ?, {_TEXT}, {_TEXT}, ?) ON CONFLICT (sha256, analysis) DO UPDATE SET "
    "run = excluded.run, path = excluded.path, size = excluded.size, status = excluded.status, "
    "reason = excluded.reason, attempts = bundle.attempts + excluded.attempts "
    "WHERE NOT EXISTS (SELECT 1 FROM document WHERE document.bundle = bundle.id) RETURNING id"
)


class Store(Reading):
    """A store that this run alone adds to, locked until `close`. All that can be read of one can be read here too."""

    def __init__(self, folder: Path, database: sqlite3.Connection, lock: Lock, analysis: Analysis) -> None:
        super().__init__(folder / NAME, database)
        self._folder, self._lock = folder, lock
        self._run, self._analysis = self._begun(analysis)
        query = f"SELECT sha256 FROM bundle WHERE analysis = ? AND sha256 LIKE '{UNREAD}%'"
        self._unread = {sha256 for (sha256,) in self._rows(query, self._analysis)}

    @classmethod
    def open(
        cls, folder: Path, analysis: Analysis, busy: Busy = Busy.REFUSE, waiting: Callable[[str], None] = lambda _: None
    ) -> Self:
        """Lock the folder, make it if it is not there, and begin a run. `waiting` is told whom it waits for."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder, busy, waiting)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written ({error.strerror})") from error
        with told(folder / NAME), _room(folder), ExitStack() as undo:
            undo.callback(lock.release)
            database = undo.enter_context(closing(to_write(folder / NAME)))
            ballast.load(folder)
            store = cls(folder, database, lock, analysis)
            undo.pop_all()
        return store

    def add(self, result: BundleResult) -> bool:
        """Store what came of a bundle; False if it was there. Once it returns, nothing but the disk can lose it."""
        return self.put(packed(result))

    def put(self, result: Packed) -> bool:
        """The same of a result that is packed. What is there without a document is replaced."""
        with self._transaction():
            return self._put(result)

    def put_all(self, results: Iterable[Packed]) -> int:
        """Store all of them or, if something comes between, none; how many were new. It takes the time of one."""
        with self._transaction():
            return sum(map(self._put, results))

    def read(self, paths: Iterable[str]) -> None:
        """These could be read now: what earlier runs stored of bundles that they could not read goes."""
        for name in self._unread.intersection(map(unread, paths)):
            with self._transaction():
                self._database.execute("DELETE FROM bundle WHERE analysis = ? AND sha256 = ?", (self._analysis, name))
            self._unread.discard(name)

    def merge(self, others: Iterable[Path]) -> int:
        """Take over what other stores have and this one has not; how many bundles were new."""
        with told(self.file), self._full_disk():
            return sum(merge_into(self._database, other) for other in others)

    def mark(self, kind: str) -> None:
        """Write down that something befell this run."""
        with self._transaction():
            self._mark(kind)

    def close(self) -> None:
        """Make the indexes that readers group by, as far as there is room, and let the next run in."""
        try:
            with suppress(sqlite3.Error):  # without them questions take longer; what is stored is stored
                for index in INDEXES:
                    self._database.execute(index)
        finally:
            super().close()
            self._lock.release()

    def _begun(self, analysis: Analysis) -> tuple[int, int]:
        key = tuple(map(text, (analysis.tool_version, analysis.rules_digest, analysis.options_text)))
        same = f"tool_version = {_TEXT} AND rules_digest = {_TEXT} AND options = {_TEXT}"
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute(
            f"INSERT INTO analysis (tool_version, rules_digest, options) VALUES ({_TEXT}, {_TEXT}, {_TEXT}) "
            "ON CONFLICT DO NOTHING",
            key,
        )
        (known,) = self._database.execute(f"SELECT id FROM analysis WHERE {same}", key).fetchone()
        run = self._database.execute(
            "INSERT INTO run (token, begun, analysis) VALUES (?, ?, ?)", (uuid.uuid4().hex, _now(), known)
        ).lastrowid
        self._database.execute("COMMIT")
        return int(run or 0), int(known)

    def _put(self, result: Packed) -> bool:
        bundle = self._bundle(result)
        if bundle is None:
            return False
        if result.document is not None:
            self._database.execute("INSERT INTO document (bundle, packed) VALUES (?, ?)", (bundle, result.document))
        for at, (host, findings) in enumerate(result.hosts):
            self._database.execute(_HOST, (bundle, at, *map(text, host)))
            cells = ((bundle, at, place, *map(text, finding)) for place, finding in enumerate(findings))
            self._database.executemany(_FINDING, cells)
        return True

    def _bundle(self, result: Packed) -> int | None:
        texts = map(text, (result.sha256, told_path(result.path), result.status, result.reason))
        sha256, path, status, reason = texts
        values = (self._run, self._analysis, sha256, path, result.size, status, reason, result.attempts)
        made = self._database.execute(_BUNDLE, values).fetchall()
        return int(made[0][0]) if made else None

    def _mark(self, kind: str) -> None:
        self._database.execute("INSERT INTO mark (run, at, kind) VALUES (?, ?, ?)", (self._run, _now(), text(kind)))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it is stored, or nothing."""
        with told(self.file), self._full_disk():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            finally:
                self._take_back()

    def _take_back(self) -> None:
        if self._database.in_transaction:  # SQLite itself takes back what a full disk has cut
            self._database.execute("ROLLBACK")

    @contextmanager
    def _full_disk(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not disk_full(error):
                raise
            self._stop(error)

    def _stop(self, error: sqlite3.Error) -> NoReturn:
        """Give up the ballast, write down why the run ends, and say what is safe."""
        ballast.drop(self._folder)
        try:
            self._take_back()
            self._mark(FULL)
            (stored,) = self._database.execute("SELECT count(*) FROM bundle").fetchone()
        except sqlite3.Error:
            raise StoreFullError(f"{self._folder}: {no_room(error)}. What was stored before is whole.") from error
        raise StoreFullError(
            f"{self._folder}: {no_room(error)}. The results of {stored} bundles are stored and whole. Make room and "
            "run it again with --resume: it goes on with the next one."
        ) from error


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """A disk that is full already when a run begins."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise StoreError(f"{folder}: cannot be written ({error.strerror})") from error
        raise StoreFullError(
            f"{folder}: no room for results ({error.strerror}). A run needs 1 MiB to begin; what is stored is safe."
        ) from error
    except sqlite3.Error as error:
        if not disk_full(error):
            raise
        raise StoreFullError(f"{folder}: {no_room(error)}. The run did not begin; what is stored is safe.") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
