r"""The database of the upload page, SQLite or PostgreSQL: tables, text types, transactions and translated errors.

    with write_transaction(engine) as connection:   # atomic; one writer at a time on SQLite
    with read_transaction(engine) as connection:    # one snapshot on SQLite; on PostgreSQL one per statement

SQLite is in WAL mode with `synchronous=FULL`: committed transactions survive kill -9 and a power failure, and readers
do not wait. Deleted content is overwritten (`secure_delete`). A database with a later schema version is refused, since
data that this version does not know would be lost silently; an earlier one is migrated when it is opened. A database
belongs to one data folder, since its rows refer to files there.

    thpdiag_serve  the schema version, and the identity of the data folder
    upload         uploads; the file is in the folder `uploads` until it is complete
    bundle         a content by its sha256; `removed` is when its file was removed, while its cases stay
    part           the files of a bundle that is a file set
    job            one analysis: the queue
    case           the result of an analysis, under a random id; cases of one `thread` are versions of one case, with
                   more files or other rules: all but the latest are `superseded`
    document       the result document of a case: zlib-compressed JSON; a table of its own keeps lists fast
    host           one row per host of a case with its verdict and attributes; place 0 is the leading host
    finding        one row per finding of a host
    work           state, assignee and ticket of a thread
    note           notes of people on a case
    word           the search index of cases and the work on them
    delivery       pending notifications of receivers (webhooks and mail)
    link           hashes of share links, which need no login
    token          hashes of API tokens
    login          sessions begun with OpenID Connect
    audit          the audit log

Times are seconds since 1970 in UTC. PostgreSQL accepts neither NUL nor lone surrogates (from file names that are not
UTF-8) in texts, refuses index entries of more than some 2,700 bytes and sorts texts by the locale of the server. So
these characters are escaped as `\x00` and `\udc80`, searchable texts are cut, and the collation is by bytes everywhere,
as in SQLite. Columns serve lists and searches: the result document contains the complete original texts.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    false,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeDecorator, TypeEngine

from thpdiag.errors import (
    UNWRITABLE_ERRNOS,
    StorageError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreUnwritableError,
    UsageError,
    describe_unwritable,
)
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS
from thpdiag.store.schema import describe_full_disk, is_disk_full

_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def new_id() -> str:
    """Return 128 random bits in hexadecimal. Only ids and digests are used as parts of paths."""
    return secrets.token_hex(16)


def is_id(text: str) -> bool:
    """Whether a text has the form of `new_id`."""
    return _ID.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


Clock = Callable[[], float]  # seconds since 1970 in UTC; tests inject their own
DAY = 86_400.0


def steady_seconds() -> float:
    """Return a monotonic time, which includes suspend where the platform supports it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


MAX_SHORT_CHARS: Final = 255  # of an indexed text; at most four bytes each
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def escape_text(text: str) -> str:
    """Escape characters that PostgreSQL does not accept."""
    return _UNSTORABLE.sub(_escape, str(text))  # `str` because psycopg does not accept enums


def shorten(text: str) -> str:
    """Escape a text and cut it to MAX_SHORT_CHARS, with an ellipsis."""
    escaped = escape_text(text)
    return escaped if len(escaped) <= MAX_SHORT_CHARS else f"{escaped[: MAX_SHORT_CHARS - 1]}…"


def _escape(match: re.Match[str]) -> str:
    return "\\x00" if match[0] == "\x00" else f"\\u{ord(match[0]):04x}"


class LongText(TypeDecorator[str]):
    """A text of any length that is not searched."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape_text(value)


class ShortText(LongText):
    """A text of limited length that can be indexed."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else shorten(value)


# 2: indexes of jobs and uploads by owner; 3: cases of several files, and work on cases; 4: words by case
SCHEMA_VERSION: Final = 4
SEARCHED_HOST_COLUMNS: Final = ("name", "verdict", "rule", "mechanism", "severity", "confidence")
TABLES: Final = MetaData()
_SERIAL: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements only INTEGER columns

schema: Final = Table(
    "thpdiag_serve", TABLES,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("folder", ShortText, nullable=False),
)  # fmt: skip

bundle: Final = Table(
    "bundle", TABLES,
    Column("sha256", ShortText, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("stored", Double, nullable=False),  # time of the last upload of this content
    Column("removed", Double),
    Index("bundle_by_time", "stored"),
)  # fmt: skip

part: Final = Table(
    "part", TABLES,
    Column("whole", ShortText, ForeignKey("bundle.sha256", ondelete="CASCADE"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("sha256", ShortText, ForeignKey("bundle.sha256"), nullable=False),
    Column("name", ShortText, nullable=False),
    Index("part_by_bundle", "sha256"),
)  # fmt: skip

case: Final = Table(
    "case", TABLES,
    Column("number", _SERIAL, primary_key=True),  # in order of creation
    Column("id", ShortText, nullable=False, unique=True),
    Column("sha256", ShortText, ForeignKey("bundle.sha256"), nullable=False),
    Column("analysis", ShortText, nullable=False),  # digest of the next three, which determine the result of a bundle
    Column("tool_version", ShortText, nullable=False),
    Column("rules_digest", ShortText, nullable=False),
    Column("options", LongText, nullable=False),
    Column("name", ShortText, nullable=False),
    Column("status", ShortText, nullable=False),
    Column("reason", LongText, nullable=False),
    Column("made", Double, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("thread", BigInteger, nullable=False, server_default="0"),  # number of the first version of the case
    Column("superseded", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("sha256", "analysis"),
    Index("case_by_time", "made"),
    Index("case_by_thread", "thread", "number"),
    Index("case_by_version", "superseded", "number"),
)  # fmt: skip

document: Final = Table(
    "document", TABLES,
    Column("case", _SERIAL, ForeignKey("case.number", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("packed", LargeBinary, nullable=False),
)  # fmt: skip

host: Final = Table(
    "host", TABLES,
    Column("case", _SERIAL, ForeignKey("case.number", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *(
        Column(name, Integer if name == "undecided" else ShortText if name in SEARCHED_HOST_COLUMNS else LongText)
        for name in HOST_FIELDS
    ),
    Index("host_by_name", "name", "case"),  # includes the case, so that a search need not read these long rows
    Index("host_by_verdict", "verdict", "mechanism", "case"),
    Index("host_by_mechanism", "mechanism", "case"),
)  # fmt: skip

finding: Final = Table(
    "finding", TABLES,
    Column("case", _SERIAL, primary_key=True, autoincrement=False),
    Column("host", Integer, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *(Column(name, ShortText) for name in FINDING_FIELDS),
    ForeignKeyConstraint(("case", "host"), ("host.case", "host.place"), ondelete="CASCADE"),
    Index("finding_by_rule", "rule", "case", "host"),
)  # fmt: skip

job: Final = Table(
    "job", TABLES,
    Column("number", _SERIAL, primary_key=True),  # the order of the queue
    Column("id", ShortText, nullable=False, unique=True),
    Column("sha256", ShortText, ForeignKey("bundle.sha256"), nullable=False),
    Column("options", LongText, nullable=False),
    Column("name", ShortText, nullable=False),
    Column("owner", ShortText, nullable=False),
    Column("state", ShortText, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("claim", ShortText),  # secret of the worker that holds the job
    Column("queued", Double, nullable=False),
    Column("started", Double),
    Column("heartbeat", Double),
    Column("ended", Double),
    Column("stage", ShortText, nullable=False),
    Column("status", ShortText, nullable=False),  # how a failed job ended, in the terms of `sandbox.outcome`
    Column("reason", LongText, nullable=False),
    Column("case", _SERIAL, ForeignKey("case.number", ondelete="CASCADE")),
    Column("thread", BigInteger),  # of the case of which the job makes a new version
    Index("job_by_state", "state", "number"),
    Index("job_by_owner", "owner", "started"),
    Index("job_by_bundle", "sha256"),
    Index("job_by_case", "case"),
)  # fmt: skip

RECEIVING: Final = "receiving"  # states of an upload, see `storage.uploads`
HELD: Final = "held"
ARRIVED: Final = "arrived"
FINISHED: Final = "finished"

upload: Final = Table(
    "upload", TABLES,
    Column("id", ShortText, primary_key=True),
    Column("name", ShortText, nullable=False),
    Column("owner", ShortText, nullable=False),
    Column("size", BigInteger),  # as announced; NULL if it was not
    Column("reserved", BigInteger, nullable=False),  # bytes on the disk
    Column("state", ShortText, nullable=False),
    Column("sha256", ShortText),
    Column("begun", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("ended", Double),
    Column("job", _SERIAL, ForeignKey("job.number", ondelete="SET NULL")),
    Column("held", Boolean, nullable=False, server_default=false()),  # waits for others of the same case
    Index("upload_by_state", "state", "expires"),
    Index("upload_by_owner", "owner", "job"),
    Index("upload_by_bundle", "sha256"),
    Index("upload_by_job", "job"),
)  # fmt: skip

work: Final = Table(
    "work", TABLES,
    Column("thread", BigInteger, primary_key=True, autoincrement=False),  # of a case
    Column("state", ShortText, nullable=False),
    Column("assignee", ShortText, nullable=False),
    Column("ticket", LongText, nullable=False),
    Column("changed", Double, nullable=False),
    Index("work_by_state", "state", "thread"),
    Index("work_by_assignee", "assignee", "thread"),
)  # fmt: skip

note: Final = Table(
    "note", TABLES,
    Column("number", _SERIAL, primary_key=True),
    Column("id", ShortText, nullable=False, unique=True),
    Column("thread", BigInteger, nullable=False),  # of a case
    Column("at", Double, nullable=False),
    Column("author", ShortText, nullable=False),
    Column("owner", ShortText, nullable=False),  # may delete it, like admins
    Column("text", LongText, nullable=False),
    Index("note_by_thread", "thread", "number"),
)  # fmt: skip

word: Final = Table(
    "word", TABLES,
    Column("text", ShortText, primary_key=True),
    Column("thread", BigInteger, primary_key=True, autoincrement=False),  # of a case
    Column("source", ShortText, primary_key=True),
    Index("word_by_case", "thread", "text"),  # for searches combined with other filters
    sqlite_with_rowid=False,
)  # fmt: skip

delivery: Final = Table(
    "delivery", TABLES,
    Column("number", _SERIAL, primary_key=True),
    Column("id", ShortText, nullable=False),
    Column("receiver", ShortText, nullable=False),  # digest of its address, which may contain a secret
    Column("case", _SERIAL, ForeignKey("case.number", ondelete="CASCADE"), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Double, nullable=False),
    Index("delivery_by_time", "due"),
    Index("delivery_by_case", "case"),
)  # fmt: skip

link: Final = Table(
    "link", TABLES,
    Column("sha256", ShortText, primary_key=True),
    Column("thread", BigInteger, nullable=False),  # of a case
    Column("kind", ShortText, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("author", ShortText, nullable=False),
    Column("used", Double),
    Index("link_by_thread", "thread"),
)  # fmt: skip

token: Final = Table(
    "token", TABLES,
    Column("prefix", ShortText, primary_key=True),  # the public part of a token, by which it is found
    Column("sha256", ShortText, nullable=False),
    Column("label", ShortText, nullable=False),
    Column("scopes", ShortText, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("used", Double),
)  # fmt: skip

login: Final = Table(
    "login", TABLES,
    Column("id", ShortText, primary_key=True),
    Column("subject", ShortText, nullable=False),  # digest of issuer and user
    Column("name", ShortText, nullable=False),
    Column("scopes", ShortText, nullable=False),
    Column("begun", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Index("login_by_time", "expires"),
)  # fmt: skip

audit: Final = Table(
    "audit", TABLES,
    Column("number", _SERIAL, primary_key=True),
    Column("at", Double, nullable=False),
    Column("action", ShortText, nullable=False),
    Column("outcome", ShortText, nullable=False),
    Column("actor", ShortText, nullable=False),
    Column("address", ShortText, nullable=False),
    Column("subject", ShortText, nullable=False),
    Index("audit_by_time", "at"),
    Index("audit_by_subject", "subject"),
)  # fmt: skip


_FULL_STATES: Final = {"53100", "53200"}  # SQLSTATE: disk full, out of memory
_BUSY_STATES: Final = {"55P03", "40P01", "40001"}  # SQLSTATE: lock not available, deadlock, serialization failure
_SCHEMA_STATES: Final = {"42501", "42P01", "42703", "3F000"}  # no permission; no such table, column, schema
_PROGRAMMING_ERRORS: Final = (IntegrityError, ProgrammingError, DataError, NotSupportedError)


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Turn an error of the database into a StorageError with one sentence; errors of our statements pass through."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error, _PROGRAMMING_ERRORS) and _sql_state(error) not in _SCHEMA_STATES:
            raise
        raise _store_error(url, error) from error
    except PoolTimeoutError as error:
        raise StoreBusyError(f"{_database_name(url)}: all connections are in use") from error


def _store_error(url: URL, error: DBAPIError) -> StorageError:
    place = _database_name(url)
    reason = str(getattr(error, "orig", error)).strip().partition("\n")[0] or type(error).__name__  # no statement
    if isinstance(error.orig, sqlite3.Error):
        if is_disk_full(error.orig):
            if refused := _write_refusal(Path(place).parent):
                return StoreUnwritableError(describe_unwritable(Path(place), refused))
            return StoreFullError(f"{place}: {describe_full_disk(error.orig)}; what was stored before is whole")
        busy = error.orig.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    elif _sql_state(error) in _FULL_STATES:
        return StoreFullError(f"{place}: no room on the server ({reason}); what was stored before is whole")
    else:
        busy = _sql_state(error) in _BUSY_STATES
    if busy:
        return StoreBusyError(f"{place}: another process has kept the database to itself for too long")
    return StoreError(f"{place}: the database cannot be used ({reason})")


def _write_refusal(folder: Path) -> OSError | None:
    """Return why a folder is not writable, other than a full disk: SQLite reports both as a disk error."""
    try:
        with TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error if error.errno in UNWRITABLE_ERRNOS else None


def _sql_state(error: DBAPIError) -> str:
    """Return the SQLSTATE of PostgreSQL, empty for SQLite."""
    return getattr(error.orig, "sqlstate", None) or ""


def _database_name(url: URL) -> str:
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


LOST_ADVICE: Final = (
    "restore a backup with `thpdiag serve restore`, or have `thpdiag serve check --repair` make a new database, for "
    "which all bundles are analyzed again; nothing was changed"
)
NO_DRIVER: Final = "PostgreSQL needs psycopg, which is not installed: pip install 'thpdiag[postgres]'"
LOCK_SECONDS: Final = 30
MAX_CONNECTIONS: Final = 60  # a few more than the threads of a server
WAL_BYTES: Final = 4 << 20  # size of the log file after a checkpoint
_CREATION_LOCK: Final = 0x54687053  # advisory lock of PostgreSQL for creating tables: "ThpS"
_WRITE_OPTION: Final = "thpdiag_writes"


def parse_database_url(database: str) -> URL:
    """Parse the URL of a database. Error messages do not contain it, since it may include a password."""
    try:
        url = make_url(database)
    except (ArgumentError, ValueError) as error:
        raise UsageError("the address of the database is invalid; postgresql+psycopg://USER@HOST/NAME") from error
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError("a database other than the file in the data folder is at postgresql+psycopg://USER@HOST/NAME")


def engine_of_url(url: URL) -> Engine:
    """Return an engine that has not connected yet."""
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        return _postgresql(url)
    except ModuleNotFoundError as missing:
        raise UsageError(NO_DRIVER) from missing


def open_database(url: URL, folder: str, *, create: bool = True) -> Engine:
    """Open a database and create or migrate its tables; `folder` is the identity of the data folder.

    Without `create` an empty database is refused, since the previous one is missing.
    """
    engine = engine_of_url(url)
    with ExitStack() as undo:
        undo.callback(engine.dispose)
        with write_transaction(engine) as connection:
            advisory_lock(connection, _CREATION_LOCK)  # of two concurrent starts the second finds the tables
            _prepare(connection, url, folder, create=create)
        if connection.dialect.name == "sqlite":
            _enable_wal(engine)
        undo.pop_all()
    return engine


def schema_problem(engine: Engine, folder: str) -> str:
    """Return why the database no longer belongs to this folder and version; empty if it does."""
    with write_transaction(engine) as connection:
        row = connection.execute(select(schema.c.version, schema.c.folder).with_for_update()).first()
        for table in TABLES.sorted_tables:
            connection.execute(select(table).limit(0))
    if row is None or row.version != SCHEMA_VERSION:
        return "the database was changed by another version of thpdiag"
    return "" if row.folder == folder else "the database belongs to another data folder"


def find_damage(engine: Engine, check: str = "quick_check") -> str:
    """Return the first damage that SQLite finds in its file, in a line. Reads the whole file; skips PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return ""
    try:
        with closing(engine.raw_connection()) as connection:
            row = connection.cursor().execute(f"PRAGMA {check}(1)").fetchone()
    except (sqlite3.Error, DBAPIError) as error:
        return str(getattr(error, "orig", error))
    return "" if row is None or row[0] == "ok" else " ".join(str(row[0]).split())


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    with translate_errors(engine.url), engine.connect() as connection:
        connection.execution_options(**{_WRITE_OPTION: True})
        with connection.begin():
            yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    with translate_errors(engine.url), engine.connect() as connection, connection.begin():
        yield connection


def fetch_rows(engine: Engine, statement: Select[Any]) -> Sequence[Any]:
    """Return all rows of a query in one transaction."""
    with read_transaction(engine) as connection:
        return connection.execute(statement).all()


def fetch_row(engine: Engine, statement: Select[Any]) -> Any:
    """Return the first row, None if there is none."""
    with read_transaction(engine) as connection:
        return connection.execute(statement).first()


def fetch_value(engine: Engine, statement: Select[Any]) -> Any:
    """Return the first column of the first row."""
    with read_transaction(engine) as connection:
        return connection.scalar(statement)


def fetch_column(engine: Engine, statement: Select[tuple[str]]) -> list[str]:
    """Return the first column of all rows."""
    return [row[0] for row in fetch_rows(engine, statement)]


def lock_bundle(connection: Connection, sha256: str) -> bool:
    """Lock the row of a bundle until the end of the transaction; return whether there is one."""
    row = connection.execute(select(bundle.c.sha256).where(bundle.c.sha256 == sha256).with_for_update())
    return row.first() is not None


def truncate_wal(engine: Engine) -> None:
    """Truncate the WAL of SQLite, so that deleted content is overwritten there too, unless a reader needs it."""
    if engine.dialect.name == "sqlite":
        with translate_errors(engine.url), closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def advisory_lock(connection: Connection, key: int) -> None:
    """Take a lock of PostgreSQL until the end of the transaction; SQLite serializes writers by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that supports ON CONFLICT, which is not standard SQL but in both dialects."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _prepare(connection: Connection, url: URL, folder: str, *, create: bool) -> None:
    names = set(inspect(connection).get_table_names())
    if not names and not create:
        raise StoreError(f"{_database_name(url)} is empty, although its data folder has bundles; {LOST_ADVICE}")
    if not names:
        _check_encoding(connection, url)
        TABLES.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION, folder=folder))
        return
    place = _database_name(url)
    if schema.name not in names:
        raise StoreError(f"{place} is a database, but none of thpdiag serve; it was not touched")
    row = connection.execute(select(text("version, folder")).select_from(text(schema.name))).first()
    version, owner = row or (0, "")
    if version > SCHEMA_VERSION:
        problem = f"was written by a later version of thpdiag (form {version}; this one knows {SCHEMA_VERSION})"
    elif version < 1:
        problem = "is a database of thpdiag serve without a version"
    elif owner != folder:
        problem = "belongs to another data folder"
    else:
        if version < SCHEMA_VERSION:
            _migrate(connection)
            connection.execute(update(schema).values(version=SCHEMA_VERSION))
        return
    raise StoreError(f"{place} {problem}; it was not touched")


ADDED_COLUMNS: Final = (case.c.thread, case.c.superseded, job.c.thread, upload.c.held)  # in version 3


def _migrate(connection: Connection) -> None:
    """Add missing columns, tables and indexes of earlier versions, and fill new columns."""
    for column in ADDED_COLUMNS:
        if column.name not in {known["name"] for known in inspect(connection).get_columns(column.table.name)}:
            definition = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f'ALTER TABLE "{column.table.name}" ADD COLUMN {definition}')
    TABLES.create_all(connection)
    connection.exec_driver_sql("DROP INDEX IF EXISTS word_by_thread")
    for table in TABLES.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    connection.execute(update(case).where(case.c.thread == 0).values(thread=case.c.number))


def _check_encoding(connection: Connection, url: URL) -> None:
    if connection.dialect.name == "postgresql":
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":
            raise StoreError(
                f"{_database_name(url)} has the encoding {encoding}; thpdiag serve needs a database in UTF8"
            )


def _postgresql(url: URL) -> Engine:
    engine = create_engine(
        url, hide_parameters=True, pool_pre_ping=True, pool_size=5, max_overflow=MAX_CONNECTIONS - 5,
        isolation_level="READ COMMITTED",
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
        connection.commit()

    return engine


def _enable_wal(engine: Engine) -> None:
    """Switch the file to WAL mode permanently, after it is known to be a database of thpdiag.

    SQLite does not wait for the lock of this change, so it is retried if another process starts at the same time.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    with translate_errors(engine.url), closing(engine.raw_connection()) as connection:
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise _store_error(engine.url, DBAPIError("PRAGMA journal_mode", None, error)) from error
                time.sleep(0.01)
            else:
                return


def _sqlite(url: URL) -> Engine:
    address = f"file:{quote(str(url.database))}?mode=rw"  # does not create a missing file

    def _connect() -> sqlite3.Connection:
        return sqlite3.connect(address, LOCK_SECONDS, uri=True, check_same_thread=False)

    engine = create_engine(
        url, hide_parameters=True, pool_size=5, max_overflow=MAX_CONNECTIONS - 5, creator=_connect,
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # `_begin` starts transactions, not the driver
        for pragma in (
            "synchronous = FULL", f"journal_size_limit = {WAL_BYTES}", "foreign_keys = ON", "secure_delete = ON",
            "trusted_schema = OFF",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITE_OPTION)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
