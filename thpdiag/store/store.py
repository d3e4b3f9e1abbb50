"""Writing a store: adding the results of a run, and merging shards.

    with Store.open(folder, analysis) as store:
        if not store.has_document(sha256, analysis):
            store.add(result)

A result is on the disk when `add` returns. A bundle is stored once per analysis: adding it again, after a crash or from
another shard, changes nothing unless the first attempt has no document. `has_document` tells that before the work.

A SQLite connection must not cross a fork: a child forked while a store is open must not use it and ends by `os._exit`.

A merge copies the results that this store does not have, in portions of one transaction each.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, Self

from thpdiag.errors import StoreError, StoreFullError, describe_unwritable
from thpdiag.store.reading import StoreReader, Totals
from thpdiag.store.results import (
    FINDING_FIELDS,
    HOST_FIELDS,
    UNREAD_PREFIX,
    Analysis,
    BundleResult,
    PackedResult,
    pack_result,
    public_path,
    unread_key,
)
from thpdiag.store.schema import (
    DATABASE_NAME,
    DISK_FULL_ERRNOS,
    INDEXES,
    Busy,
    Lock,
    bind_text,
    database_path,
    database_uri,
    describe_full_disk,
    drop_ballast,
    is_disk_full,
    load_ballast,
    open_for_writing,
    store_errors,
    write_errors,
)

BUNDLES_PER_TRANSACTION: Final = 200  # a crash or a full disk loses at most one portion
_MERGE_RUNS: Final = (
    """INSERT INTO analysis (tool_version, rules_digest, options)
       SELECT tool_version, rules_digest, options FROM other.analysis WHERE true ON CONFLICT DO NOTHING""",
    """INSERT INTO run (token, begun, analysis)
       SELECT theirs.token, theirs.begun, ours.id FROM other.run theirs
       JOIN other.analysis a ON a.id = theirs.analysis
       JOIN analysis ours USING (tool_version, rules_digest, options) WHERE true ON CONFLICT (token) DO NOTHING""",
)
_MERGE_BUNDLES: Final = """
    INSERT INTO bundle (run, analysis, sha256, path, size, status, reason, attempts)
    SELECT ours.id, ours.analysis, b.sha256, b.path, b.size, b.status, b.reason, b.attempts
    FROM other.bundle b JOIN other.run theirs ON theirs.id = b.run JOIN run ours ON ours.token = theirs.token
    WHERE b.id > ? AND b.id <= ? ORDER BY b.id ON CONFLICT (sha256, analysis) DO NOTHING"""
_DROP_WITHOUT_DOCUMENT: Final = """
    DELETE FROM bundle WHERE id IN (
        SELECT ours.id FROM other.bundle b JOIN other.document d ON d.bundle = b.id
        JOIN other.run theirs ON theirs.id = b.run JOIN run here ON here.token = theirs.token
        JOIN bundle ours ON ours.sha256 = b.sha256 AND ours.analysis = here.analysis
        WHERE b.id > ? AND b.id <= ? AND NOT EXISTS (SELECT 1 FROM document WHERE document.bundle = ours.id))"""
# Failed reads of a path that another run has read; the sha256 column of such a row is derived from the path.
_DROP_UNREAD: Final = f"""
    DELETE FROM bundle WHERE sha256 LIKE '{UNREAD_PREFIX}%' AND (path, analysis) IN (
        SELECT path, analysis FROM bundle WHERE sha256 NOT LIKE '{UNREAD_PREFIX}%')"""
# The new rows of a portion, with their numbers in the other store.
_NEW_BUNDLES: Final = """
    FROM other.bundle b JOIN other.run theirs ON theirs.id = b.run JOIN run ours ON ours.token = theirs.token
    JOIN bundle new ON new.sha256 = b.sha256 AND new.analysis = ours.analysis"""
_IN_PORTION: Final = "WHERE b.id > ? AND b.id <= ? AND new.id > ?"
_MERGE_DETAILS: Final = (
    f"""INSERT INTO document (bundle, packed)
        SELECT new.id, d.packed {_NEW_BUNDLES} JOIN other.document d ON d.bundle = b.id {_IN_PORTION}""",
    f"""INSERT INTO host (bundle, place, {", ".join(HOST_FIELDS)})
        SELECT new.id, h.place, {", ".join(f"h.{name}" for name in HOST_FIELDS)}
        {_NEW_BUNDLES} JOIN other.host h ON h.bundle = b.id {_IN_PORTION}""",
    f"""INSERT INTO finding (bundle, host, place, {", ".join(FINDING_FIELDS)})
        SELECT new.id, f.host, f.place, {", ".join(f"f.{name}" for name in FINDING_FIELDS)}
        {_NEW_BUNDLES} JOIN other.finding f ON f.bundle = b.id {_IN_PORTION}""",
)
_MERGE_MARKS: Final = """
    INSERT INTO mark (run, at, kind) SELECT ours.id, m.at, m.kind
    FROM other.mark m JOIN other.run theirs ON theirs.id = m.run JOIN run ours ON ours.token = theirs.token
    WHERE NOT EXISTS (SELECT 1 FROM mark WHERE mark.run = ours.id AND mark.at = m.at AND mark.kind = m.kind)"""


def merge_into(database: sqlite3.Connection, place: Path) -> int:
    """Add the results of the store at `place` to a database; return the number of new bundles. It is idempotent.

    A document replaces an attempt without one, and any result replaces a failed read of the same path.
    """
    database.execute("ATTACH ? AS other", (database_uri(database_path(place)),))
    try:
        with database:  # commits or rolls back
            database.execute("BEGIN IMMEDIATE")
            for query in (*_MERGE_RUNS, _MERGE_MARKS):
                database.execute(query)
        (last,) = database.execute("SELECT coalesce(max(id), 0) FROM other.bundle").fetchone()
        new = sum(_merge_portion(database, first) for first in range(0, last, BUNDLES_PER_TRANSACTION))
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_DROP_UNREAD)
        return new
    finally:
        database.execute("DETACH other")


def _merge_portion(database: sqlite3.Connection, first: int) -> int:
    with database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(_DROP_WITHOUT_DOCUMENT, (first, first + BUNDLES_PER_TRANSACTION))
        (before,) = database.execute("SELECT coalesce(max(id), 0) FROM bundle").fetchone()
        new = database.execute(_MERGE_BUNDLES, (first, first + BUNDLES_PER_TRANSACTION)).rowcount
        for query in _MERGE_DETAILS:
            database.execute(query, (first, first + BUNDLES_PER_TRANSACTION, before))
    return max(new, 0)


DISK_FULL: Final = "disk full"
_TEXT = "CAST(? AS TEXT)"
_INSERT_HOST: Final = (
    f"INSERT INTO host (bundle, place, {', '.join(HOST_FIELDS)}) VALUES (?, ?{f', {_TEXT}' * len(HOST_FIELDS)})"
)
_INSERT_FINDING: Final = (
    f"INSERT INTO finding (bundle, host, place, {', '.join(FINDING_FIELDS)}) "
    f"VALUES (?, ?, ?{f', {_TEXT}' * len(FINDING_FIELDS)})"
)
_INSERT_BUNDLE: Final = (
    "INSERT INTO bundle (run, analysis, sha256, path, size, status, reason, attempts) "
    f"VALUES (?, ?, {_TEXT}, {_TEXT}, ?, {_TEXT}, {_TEXT}, ?) ON CONFLICT (sha256, analysis) DO UPDATE SET "
    "run = excluded.run, path = excluded.path, size = excluded.size, status = excluded.status, "
    "reason = excluded.reason, attempts = bundle.attempts + excluded.attempts "
    "WHERE NOT EXISTS (SELECT 1 FROM document WHERE document.bundle = bundle.id) RETURNING id"
)


class Store(StoreReader):
    """A store opened for reading and writing by one run; locked until `close`."""

    def __init__(self, folder: Path, database: sqlite3.Connection, lock: Lock, analysis: Analysis) -> None:
        super().__init__(folder / DATABASE_NAME, database)
        self._folder, self._lock = folder, lock
        self._run, self._analysis = self._begin_run(analysis)
        query = f"SELECT sha256 FROM bundle WHERE analysis = ? AND sha256 LIKE '{UNREAD_PREFIX}%'"
        self._unread = {sha256 for (sha256,) in self._rows(query, self._analysis)}

    @classmethod
    def open(
        cls, folder: Path, analysis: Analysis, busy: Busy = Busy.REFUSE, on_wait: Callable[[str], None] = lambda _: None
    ) -> Self:
        """Create the folder if needed, lock it, and begin a run. `on_wait` gets a message before waiting."""
        with write_errors(folder, StoreError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder, busy, on_wait)
        with store_errors(folder / DATABASE_NAME), _start_errors(folder), ExitStack() as undo:
            undo.callback(lock.release)
            database = undo.enter_context(closing(open_for_writing(folder / DATABASE_NAME)))
            load_ballast(folder)
            store = cls(folder, database, lock, analysis)
            undo.pop_all()
        return store

    def totals_of_run(self) -> Totals:
        """The totals of this run's analysis, over all runs with the same one."""
        return self.totals(self._analysis)

    def add(self, result: BundleResult) -> bool:
        """Store a result durably; return False if the store already had it."""
        return self.put(pack_result(result))

    def put(self, result: PackedResult) -> bool:
        """Store a packed result like `add`. An existing result without a document is replaced."""
        with self._transaction():
            return self._put(result)

    def put_all(self, results: Iterable[PackedResult]) -> int:
        """Store results in one transaction, which takes the time of one; return the number of new ones."""
        with self._transaction():
            return sum(map(self._put, results))

    def forget_unread(self, paths: Iterable[str]) -> None:
        """Delete the failed reads that earlier runs stored for these paths, which could be read now."""
        for name in self._unread.intersection(map(unread_key, paths)):
            with self._transaction():
                self._database.execute("DELETE FROM bundle WHERE analysis = ? AND sha256 = ?", (self._analysis, name))
            self._unread.discard(name)

    def merge(self, others: Iterable[Path]) -> int:
        """Copy the results of other stores that this one does not have; return the number of new bundles."""
        with store_errors(self.file), self._full_disk():
            return sum(merge_into(self._database, other) for other in others)

    def mark(self, kind: str) -> None:
        """Record an incident of this run."""
        with self._transaction():
            self._mark(kind)

    def close(self) -> None:
        """Create the indexes for readers, if the disk has room, and release the lock."""
        try:
            with suppress(sqlite3.Error):  # without an index queries are only slower
                for index in INDEXES:
                    self._database.execute(index)
        finally:
            super().close()
            self._lock.release()

    def _begin_run(self, analysis: Analysis) -> tuple[int, int]:
        key = tuple(map(bind_text, (analysis.tool_version, analysis.rules_digest, analysis.options_text)))
        same = f"tool_version = {_TEXT} AND rules_digest = {_TEXT} AND options = {_TEXT}"
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute(
            f"INSERT INTO analysis (tool_version, rules_digest, options) VALUES ({_TEXT}, {_TEXT}, {_TEXT}) "
            "ON CONFLICT DO NOTHING",
            key,
        )
        (analysis_id,) = self._database.execute(f"SELECT id FROM analysis WHERE {same}", key).fetchone()
        run = self._database.execute(
            "INSERT INTO run (token, begun, analysis) VALUES (?, ?, ?)", (uuid.uuid4().hex, _now(), analysis_id)
        ).lastrowid
        self._database.execute("COMMIT")
        return int(run or 0), int(analysis_id)

    def _put(self, result: PackedResult) -> bool:
        bundle = self._insert_bundle(result)
        if bundle is None:
            return False
        if result.document is not None:
            self._database.execute("INSERT INTO document (bundle, packed) VALUES (?, ?)", (bundle, result.document))
        for number, (host, findings) in enumerate(result.hosts):
            self._database.execute(_INSERT_HOST, (bundle, number, *map(bind_text, host)))
            cells = ((bundle, number, place, *map(bind_text, finding)) for place, finding in enumerate(findings))
            self._database.executemany(_INSERT_FINDING, cells)
        return True

    def _insert_bundle(self, result: PackedResult) -> int | None:
        texts = map(bind_text, (result.sha256, public_path(result.path), result.status, result.reason))
        sha256, path, status, reason = texts
        values = (self._run, self._analysis, sha256, path, result.size, status, reason, result.attempts)
        inserted = self._database.execute(_INSERT_BUNDLE, values).fetchall()
        return int(inserted[0][0]) if inserted else None

    def _mark(self, kind: str) -> None:
        self._database.execute(
            "INSERT INTO mark (run, at, kind) VALUES (?, ?, ?)", (self._run, _now(), bind_text(kind))
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with store_errors(self.file), self._full_disk():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        if self._database.in_transaction:  # SQLite may have rolled back itself on a full disk
            self._database.execute("ROLLBACK")

    @contextmanager
    def _full_disk(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not is_disk_full(error):
                raise
            self._stop(error)

    def _stop(self, error: sqlite3.Error) -> NoReturn:
        """Delete the ballast, record why the run ends, and raise StoreFullError."""
        drop_ballast(self._folder)
        try:
            self._roll_back()
            self._mark(DISK_FULL)
            (stored,) = self._database.execute("SELECT count(*) FROM bundle").fetchone()
        except sqlite3.Error:
            raise StoreFullError(
                f"{self._folder}: {describe_full_disk(error)}. Results stored before are complete."
            ) from error
        raise StoreFullError(
            f"{self._folder}: {describe_full_disk(error)}. The results of {stored} bundles are stored. "
            "Free space and run it again with --resume to continue with the next one."
        ) from error


@contextmanager
def _start_errors(folder: Path) -> Iterator[None]:
    """Report a disk that is already full when a run begins."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise StoreError(describe_unwritable(folder, error)) from error
        raise StoreFullError(
            f"{folder}: no room for results ({error.strerror}). A run needs 1 MiB to begin; what is stored is safe."
        ) from error
    except sqlite3.Error as error:
        if not is_disk_full(error):
            raise
        raise StoreFullError(
            f"{folder}: {describe_full_disk(error)}. The run did not begin; what is stored is safe."
        ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
