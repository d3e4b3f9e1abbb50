"""The tables of a store, its version, how the database is opened; the lock and the ballast of its folder.

One SQLite file in WAL mode with `synchronous=FULL`: what `add` has returned from outlives kill -9 and a power cut, and
readers need no lock. Rows are only added, but for attempts that came to nothing. A store of a later version of this
form is refused, since rows that this version does not know would be left out without a word.

    analysis   what changes a result: version of thpdiag, digest of the rules, options
    run        one call of triage, with the time it began (UTC); not the machine that it ran on
    bundle     one input by the sha256 of its content: once per analysis
    document   the result document of a bundle: JSON, packed with zlib
    host       one row per host of a bundle: its verdict and what groups it with others
    finding    one row per finding of a host
    mark       what befell a run: `disk full`

`document` stands apart, so that questions about bundles do not read past it.

A text of a customer can have lone surrogates (a file name that is no UTF-8): it is bound as bytes and cast to text, and
read back by the same rule, so that every string returns as it was.

One run at a time writes to a folder; readers need no lock. A record lock (fcntl) rather than flock: children that the
run forks for its bundles do not inherit it, so it ends with the run itself, however that ends. It does not keep a
process from locking twice, hence the set of what this one holds.

A full disk stops SQLite even from deleting, since its log cannot grow. A ballast of 1 MiB is written beside the store
before the first result; given up, it leaves room to write down what happened and to close the store properly.
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


DATABASE_NAME: Final = "results.sqlite"
SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x54687044  # "ThpD", in the head of the file: tells a store from other databases
BUSY_TIMEOUT_S: Final = 30.0  # seconds, for a checkpoint or a merge of another process
CACHE_KIB: Final = 512
MAX_WAL_BYTES: Final = 4 << 20  # bytes of the log that stay on disk once a checkpoint has emptied it

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
INDEXES: Final = (  # made at the end of a batch: while rows are added one by one they would cost several times the rows
    "CREATE INDEX IF NOT EXISTS host_by_verdict ON host (verdict, mechanism, confidence, severity)",
    "CREATE INDEX IF NOT EXISTS host_by_kernel ON host (kernel, os, platform)",
    "CREATE INDEX IF NOT EXISTS finding_by_rule ON finding (rule, severity, confidence)",
    "CREATE INDEX IF NOT EXISTS bundle_by_status ON bundle (status)",
)


def database_path(place: Path) -> Path:
    """The database of a store that is named by its folder, or by the file itself."""
    return place / DATABASE_NAME if place.is_dir() else place


def open_for_writing(file: Path) -> sqlite3.Connection:
    """The database for adding; made if there is none. Transactions are begun and ended by hand."""
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
    database.execute("BEGIN IMMEDIATE")  # two that begin a store at once: the second finds it made
    if not _version(database)[1]:
        for table in TABLES:
            database.execute(table)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    database.execute("COMMIT")


def open_for_reading(file: Path) -> sqlite3.Connection:
    """The database for reading, also while a batch writes to it and on a file system that is read-only."""
    return _connect(database_uri(file))


def database_uri(file: Path) -> str:
    """The address of a store as it can be read, once it is known that this can be done.

    Readers of a log share a file beside it. Where that cannot be made, and there is no log, none is needed.
    """
    if not file.is_file():
        raise StoreError(f"{file}: no such store; expected the output folder of `thpdiag triage`")
    whole = file.absolute().as_uri()
    try:
        return _checked_uri(f"{whole}?mode=ro", file)
    except sqlite3.OperationalError:
        log = Path(f"{file}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _checked_uri(f"{whole}?immutable=1", file)


def _checked_uri(address: str, file: Path) -> str:
    with closing(_connect(address)) as database:
        if not _check_version(database, file):
            raise StoreError(f"{file}: the store is empty, its run ended before it began")
    return address


def _check_version(database: sqlite3.Connection, file: Path) -> int:
    """The version of the form, 0 for a database without anything; else an error that says what it is."""
    application, version = _version(database)
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        told = f"was written by a later version of thpdiag (form {version}; this one knows {SCHEMA_VERSION})"
    elif (application, bool(version), bool(tables)) not in {(APPLICATION_ID, True, True), (0, False, False)}:
        told = "is a database, but no store of thpdiag"
    else:
        return version
    raise StoreError(f"{file} {told}; it was not touched")


def bind_text(value: str | None) -> str | bytes | None:
    """A string as it is bound to `CAST(? AS TEXT)`; SQLite takes no lone surrogates in a string."""
    if value is None or value.isascii():
        return value
    data = value.encode("utf-8", "surrogatepass")
    return value if data == value.encode("utf-8", "replace") else data


def set_temporary_folder(folder: Path) -> None:
    """Where SQLite puts what it sorts and undoes beyond some megabytes, in this process: a guarded child may write
    nowhere else. An environment variable would be too late, for SQLite reads it once."""
    with closing(sqlite3.connect(":memory:")) as database:
        quoted = str(folder).replace("'", "''")
        database.execute(f"PRAGMA temp_store_directory = '{quoted}'")


def _connect(whole: str) -> sqlite3.Connection:
    database = sqlite3.connect(whole, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")  # also the most that a sort keeps in memory
    database.execute("PRAGMA trusted_schema = OFF")  # a shard of somebody else runs nothing of its own
    database.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
    return database


def _version(database: sqlite3.Connection) -> tuple[int, int]:
    return (
        database.execute("PRAGMA application_id").fetchone()[0],
        database.execute("PRAGMA user_version").fetchone()[0],
    )


DISK_FULL_ERRNOS: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PRIMARY = 0xFF  # the low byte of an extended code of SQLite is its family
_READING = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}


def is_disk_full(error: sqlite3.Error) -> bool:
    """Whether there was no room. A quota or a limit on the size of files is told as an error of writing."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY == sqlite3.SQLITE_IOERR:
        return code not in _READING
    return bool(code & _PRIMARY == sqlite3.SQLITE_FULL)


def describe_full_disk(error: sqlite3.Error) -> str:
    """What happened, as far as it is told."""
    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY == sqlite3.SQLITE_FULL:
        return f"no room for results ({error})"
    return f"no room for results, a quota or limit, or a failing disk ({error})"


@contextmanager
def write_errors(path: Path, otherwise: type[ThpdiagError]) -> Iterator[None]:
    """Turn an error of the disk into one sentence about the path: StoreFullError if there is no room."""
    try:
        yield
    except OSError as error:
        kind = StoreFullError if error.errno in DISK_FULL_ERRNOS else otherwise
        raise kind(describe_unwritable(path, error)) from error


@contextmanager
def store_errors(file: Path) -> Iterator[None]:
    """Turn an error of SQLite into one sentence about the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{file}: {_describe(error)}") from error


def _describe(error: sqlite3.Error) -> str:
    family = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if family in _DAMAGED:
        return f"the store is damaged ({error}); run the batch into another folder, or bring this file back"
    if family == sqlite3.SQLITE_BUSY:
        return "another process has kept the store to itself for too long"
    return f"the store cannot be used ({error})"
