"""The tables and version of a store, opening its database, and the lock and ballast files of its folder.

One SQLite file in WAL mode with `synchronous=FULL`: a result is durable once `add` returns, even after kill -9 or a
power cut, and readers need no lock. Rows are only added, except that attempts without a document are replaced. A store
with a later schema version is refused, since this version would silently ignore its unknown rows.

    analysis   what determines a result: version of thpdiag, digest of the rules, options
    run        one call of triage with its start time (UTC), without the machine that it ran on
    bundle     one input by the sha256 of its content, once per analysis
    document   the result document of a bundle: JSON, compressed with zlib
    host       one row per host of a bundle: its verdict and the attributes that define its groups
    finding    one row per finding of a host
    mark       an incident of a run: `disk full`

`document` is a table of its own, so that queries about bundles do not read the documents.

A text of a customer can have lone surrogates (from a file name that is not UTF-8). It is bound as bytes, cast to text
and decoded by the same rule, so that every string is restored exactly.

One run at a time writes to a folder. The lock is a record lock (fcntl), not flock: forked children do not inherit it,
so it ends with the run itself, however that ends. It does not prevent a second lock by the same process, hence
`_LOCKED_INODES`.

On a full disk SQLite cannot even delete, since its log cannot grow. So a ballast file of 1 MiB is written next to the
store before the first result; deleting it makes room to record the failure and to close the store properly.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Final

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError, ThpdiagError, describe_unwritable
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS

LOCK_NAME: Final = "lock"
_LOCKED_INODES: set[tuple[int, int]] = set()  # device and inode of the locks that this process holds


class Busy(Enum):
    """What to do when another run writes to the folder."""

    REFUSE = "refuse"
    WAIT = "wait"


class Lock:
    """The lock of a folder, held until `release` or the end of the process. `on_wait` gets a message before waiting."""

    def __init__(self, folder: Path, busy: Busy, on_wait: Callable[[str], None]) -> None:
        file = folder / LOCK_NAME
        if file.exists() and _inode(file.stat()) in _LOCKED_INODES:
            raise StoreBusyError(f"{folder}: this run writes to it already")
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with ExitStack() as undo:
            undo.callback(os.close, self._file)
            self._acquire(folder, busy, on_wait)
            undo.pop_all()
        self._identity = _inode(os.fstat(self._file))
        _LOCKED_INODES.add(self._identity)

    def _acquire(self, folder: Path, busy: Busy, on_wait: Callable[[str], None]) -> None:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            message = f"{folder}: another run of triage{_holder(self._file)} writes to it"
            if busy is Busy.REFUSE:
                raise StoreBusyError(message) from None
            on_wait(message)
            fcntl.lockf(self._file, fcntl.LOCK_EX)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        _LOCKED_INODES.discard(self._identity)
        os.close(self._file)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _holder(file: int) -> str:
    """Return the process id that the holder has written to the lock file; it may be one of another machine."""
    pid = os.pread(file, 20, 0).strip()
    return f" (process {int(pid)})" if pid.isdigit() else ""


BALLAST_NAME: Final = "ballast"
BALLAST_BYTES: Final = 1 << 20


def load_ballast(folder: Path) -> None:
    """Write the ballast file; OSError if the disk is full. Random bytes, so that no file system compresses it."""
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
    """Delete the ballast file; the next run writes it again."""
    (folder / BALLAST_NAME).unlink(missing_ok=True)


DATABASE_NAME: Final = "results.sqlite"
SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x54687044  # "ThpD" in the file header distinguishes a store from other databases
BUSY_TIMEOUT_S: Final = 30.0  # to wait for a checkpoint or a merge of another process
CACHE_KIB: Final = 512
MAX_WAL_BYTES: Final = 4 << 20  # size to which the log is truncated after a checkpoint

_COLUMN_TYPES: Final = {
    "undecided": "INTEGER", **dict.fromkeys(("apps", "settings", "measures"), "TEXT NOT NULL"),
}  # fmt: skip
_HOST_COLUMNS: Final = ", ".join(f"{name} {_COLUMN_TYPES.get(name, 'TEXT')}" for name in HOST_FIELDS)
_FINDING_COLUMNS: Final = ", ".join(f"{name} TEXT" for name in FINDING_FIELDS)
TABLES: Final = (
    """CREATE TABLE analysis (
        id INTEGER PRIMARY KEY, tool_version TEXT NOT NULL, rules_digest TEXT NOT NULL, options TEXT NOT NULL,
        UNIQUE (tool_version, rules_digest, options))""",
    """CREATE TABLE run (
        id INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, begun TEXT NOT NULL,
        analysis INTEGER NOT NULL REFERENCES analysis)""",
    """CREATE TABLE bundle (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run, analysis INTEGER NOT NULL REFERENCES analysis,
        sha256 TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
        attempts INTEGER NOT NULL, UNIQUE (sha256, analysis))""",
    "CREATE TABLE document (bundle INTEGER PRIMARY KEY REFERENCES bundle, packed BLOB NOT NULL)",
    f"""CREATE TABLE host (
        bundle INTEGER NOT NULL REFERENCES bundle, place INTEGER NOT NULL, {_HOST_COLUMNS},
        PRIMARY KEY (bundle, place))""",
    f"""CREATE TABLE finding (
        bundle INTEGER NOT NULL, host INTEGER NOT NULL, place INTEGER NOT NULL, {_FINDING_COLUMNS},
        PRIMARY KEY (bundle, host, place), FOREIGN KEY (bundle, host) REFERENCES host) WITHOUT ROWID""",
    "CREATE TABLE mark (run INTEGER NOT NULL REFERENCES run, at TEXT NOT NULL, kind TEXT NOT NULL)",
)
INDEXES: Final = (  # made at the end of a run: updating them per row would cost several times the insert
    "CREATE INDEX IF NOT EXISTS host_by_verdict ON host (verdict, mechanism, confidence, severity)",
    "CREATE INDEX IF NOT EXISTS host_by_kernel ON host (kernel, os, platform)",
    "CREATE INDEX IF NOT EXISTS finding_by_rule ON finding (rule, severity, confidence)",
    "CREATE INDEX IF NOT EXISTS bundle_by_status ON bundle (status)",
)


def database_path(place: Path) -> Path:
    """Return the database of a store, given its folder or the file itself."""
    return place / DATABASE_NAME if place.is_dir() else place


def open_for_writing(file: Path) -> sqlite3.Connection:
    """Open the database for writing, creating it if needed. The caller begins and ends transactions."""
    with ExitStack() as undo:
        database = undo.enter_context(closing(_connect(file.absolute().as_uri())))
        _create_tables(database, file)
        undo.pop_all()
    return database


def _create_tables(database: sqlite3.Connection, file: Path) -> None:
    _check_version(database, file)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("BEGIN IMMEDIATE")  # of two processes that create a store at once, the second finds the tables
    if not _version(database)[1]:
        for table in TABLES:
            database.execute(table)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    database.execute("COMMIT")


def open_for_reading(file: Path) -> sqlite3.Connection:
    """Open the database for reading, also while a run writes to it or on a read-only file system."""
    return _connect(database_uri(file))


def database_uri(file: Path) -> str:
    """Return the URI under which a store can be read, after trying it.

    Readers in WAL mode need a shared-memory file. If that cannot be created and there is no log, the database can be
    opened as immutable.
    """
    if not file.is_file():
        raise StoreError(f"{file}: no such store; expected the output folder of `thpdiag triage`")
    uri = file.absolute().as_uri()
    try:
        return _checked_uri(f"{uri}?mode=ro", file)
    except sqlite3.OperationalError:
        log = Path(f"{file}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _checked_uri(f"{uri}?immutable=1", file)


def _checked_uri(uri: str, file: Path) -> str:
    with closing(_connect(uri)) as database:
        if not _check_version(database, file):
            raise StoreError(f"{file}: the store is empty, its run ended before it began")
    return uri


def _check_version(database: sqlite3.Connection, file: Path) -> int:
    """Return the schema version, 0 for an empty database. Raises StoreError for any other database."""
    application, version = _version(database)
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        problem = f"was written by a later version of thpdiag (form {version}; this one knows {SCHEMA_VERSION})"
    elif (application, bool(version), bool(tables)) not in {(APPLICATION_ID, True, True), (0, False, False)}:
        problem = "is a database, but no store of thpdiag"
    else:
        return version
    raise StoreError(f"{file} {problem}; it was not touched")


def bind_text(value: str | None) -> str | bytes | None:
    """Return a string in the form to bind to `CAST(? AS TEXT)`: SQLite accepts lone surrogates only as bytes."""
    if value is None or value.isascii():
        return value
    data = value.encode("utf-8", "surrogatepass")
    return value if data == value.encode("utf-8", "replace") else data


def set_temporary_folder(folder: Path) -> None:
    """Set the folder for SQLite's temporary files in this process: a sandboxed child may write nowhere else.

    The environment variable would be too late, since SQLite reads it only once.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        quoted = str(folder).replace("'", "''")
        database.execute(f"PRAGMA temp_store_directory = '{quoted}'")


def _connect(uri: str) -> sqlite3.Connection:
    database = sqlite3.connect(uri, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")  # also limits the memory of a sort
    database.execute("PRAGMA trusted_schema = OFF")  # the schema of a foreign shard must not call functions
    database.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
    return database


def _version(database: sqlite3.Connection) -> tuple[int, int]:
    return (
        database.execute("PRAGMA application_id").fetchone()[0],
        database.execute("PRAGMA user_version").fetchone()[0],
    )


DISK_FULL_ERRNOS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PRIMARY_CODE_MASK = 0xFF  # the low byte of an extended result code of SQLite is the primary code
_READ_CODES = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_DAMAGE_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


def is_disk_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full. SQLite reports a quota or a limit on the file size as a write error."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY_CODE_MASK == sqlite3.SQLITE_IOERR:
        return code not in _READ_CODES
    return bool(code & _PRIMARY_CODE_MASK == sqlite3.SQLITE_FULL)


def describe_full_disk(error: sqlite3.Error) -> str:
    """Describe an error for which `is_disk_full` is true."""
    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK == sqlite3.SQLITE_FULL:
        return f"no room for results ({error})"
    return f"no room for results, a quota or limit, or a failing disk ({error})"


@contextmanager
def write_errors(path: Path, error_type: type[ThpdiagError]) -> Iterator[None]:
    """Turn an OSError into StoreFullError if the disk is full, else into an error of the given type."""
    try:
        yield
    except OSError as error:
        kind = StoreFullError if error.errno in DISK_FULL_ERRNOS else error_type
        raise kind(describe_unwritable(path, error)) from error


@contextmanager
def store_errors(file: Path) -> Iterator[None]:
    """Turn an error of SQLite into StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {_describe(error)}") from error


def _describe(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK
    if code in _DAMAGE_CODES:
        return f"the store is damaged ({error}); run the batch into another folder, or bring this file back"
    if code == sqlite3.SQLITE_BUSY:
        return "another process has kept the store to itself for too long"
    return f"the store cannot be used ({error})"
