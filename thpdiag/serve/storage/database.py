r"""The database of the upload page, SQLite or PostgreSQL: its tables, texts of strangers, errors as sentences.

    with write_transaction(engine) as connection:   # all of it is stored, or nothing; one writer at a time on SQLite
    with read_transaction(engine) as connection:    # one moment on SQLite; on PostgreSQL a moment per statement

SQLite is in WAL mode with `synchronous=FULL`: what a transaction has returned from outlives kill -9 and a power cut,
and readers wait for nobody. What is deleted there is overwritten (`secure_delete`). A database of a later version of
the form is refused, since rows that this version does not know would be lost without a word; one of an earlier version
is brought up to this one when it is opened. A database belongs to one
folder of bundles: with another it would speak of files that are not there.

    thpdiag_serve  the version of this form, and the folder of bundles that the database belongs to
    upload         what is being sent or was: its file is in the folder `uploads` until all of it is there
    bundle         a content by its sha256; `removed` says when its file was, while cases of it stay
    part           the files of a bundle that is a list of others, which are judged together
    job            one analysis to be made: the queue
    case           what came of an analysis of a bundle, under a random id; those of one `thread` are versions of one
                   case, with more files or other rules: the latest counts, `superseded` are the others
    document       the result document of a case: JSON, packed with zlib; apart, so that lists do not read past it
    host           one row per host of a case: its verdict and what groups it with others; place 0 leads
    finding        one row per finding of a host
    work           of the versions of a case: its state, who works on it, its ticket
    note           what people write down about a case
    word           the words of a case and of the work on it, for searching
    delivery       news of a case that a webhook is to be told
    link           hashes of addresses that lead to a case without a login
    token          hashes of API tokens
    login          sessions of who signed in with OpenID Connect
    audit          who did what

Times are seconds since 1970 in UTC. PostgreSQL takes neither NUL nor lone surrogates (of a file name that is no UTF-8)
in a text and refuses an index entry of more than some 2,700 bytes; it orders texts by the language of the server. So
both are written as `\x00` and `\udc80`, texts that can be searched for are cut, and the order is that of the bytes
everywhere, as in SQLite. Columns are for lists and searches: the result document has every text whole and as it was.
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
    """A name that nobody can guess: 128 random bits. Only these, and digests, are parts of paths."""
    return secrets.token_hex(16)


def is_id(text: str) -> bool:
    """Whether it has the form of `new_id`; what has not is no name of anything here."""
    return _ID.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


Clock = Callable[[], float]  # seconds since 1970 in UTC, which tests give themselves
DAY = 86_400.0


def steady_seconds() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps where the platform has such a one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


MAX_SHORT_CHARS: Final = 255  # characters of a text that is indexed, of four bytes at most
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def escape_text(text: str) -> str:
    """The text with what PostgreSQL refuses written as an escape."""
    return _UNSTORABLE.sub(_escape, str(text))  # of an enum its value, which psycopg would not take


def shorten(text: str) -> str:
    """The same, cut; three dots say so."""
    whole = escape_text(text)
    return whole if len(whole) <= MAX_SHORT_CHARS else f"{whole[: MAX_SHORT_CHARS - 1]}…"


def _escape(found: re.Match[str]) -> str:
    return "\\x00" if found[0] == "\x00" else f"\\u{ord(found[0]):04x}"


class LongText(TypeDecorator[str]):
    """A text of any length, for reading."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape_text(value)


class ShortText(LongText):
    """A text that can be searched for."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else shorten(value)


# 2: indexes of jobs and uploads by owner; 3: cases of several files, and work on cases; 4: words by case
SCHEMA_VERSION: Final = 4
SEARCHED_HOST_COLUMNS: Final = ("name", "verdict", "rule", "mechanism", "severity", "confidence")
TABLES: Final = MetaData()
_SERIAL: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts in a column of this name only

schema: Final = Table(
    "thpdiag_serve", TABLES,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("folder", ShortText, nullable=False),
)  # fmt: skip

bundle: Final = Table(
    "bundle", TABLES,
    Column("sha256", ShortText, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("stored", Double, nullable=False),  # when its content came last
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
    Column("number", _SERIAL, primary_key=True),  # the order in which they were made
    Column("id", ShortText, nullable=False, unique=True),
    Column("sha256", ShortText, ForeignKey("bundle.sha256"), nullable=False),
    Column("analysis", ShortText, nullable=False),  # digest of the next three: what changes a result but the bundle
    Column("tool_version", ShortText, nullable=False),
    Column("rules_digest", ShortText, nullable=False),
    Column("options", LongText, nullable=False),
    Column("name", ShortText, nullable=False),
    Column("status", ShortText, nullable=False),
    Column("reason", LongText, nullable=False),
    Column("made", Double, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("thread", BigInteger, nullable=False, server_default="0"),  # number of the first version of this case
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
    Index("host_by_name", "name", "case"),  # with the case, so that a search need not read these long rows
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
    Column("claim", ShortText),  # of whoever works on it now; another one's word no longer counts
    Column("queued", Double, nullable=False),
    Column("started", Double),
    Column("heartbeat", Double),
    Column("ended", Double),
    Column("stage", ShortText, nullable=False),
    Column("status", ShortText, nullable=False),  # how a job ended that has failed, as `sandbox.outcome` names it
    Column("reason", LongText, nullable=False),
    Column("case", _SERIAL, ForeignKey("case.number", ondelete="CASCADE")),
    Column("thread", BigInteger),  # of the case that this makes a new version of
    Index("job_by_state", "state", "number"),
    Index("job_by_owner", "owner", "started"),
    Index("job_by_bundle", "sha256"),
    Index("job_by_case", "case"),
)  # fmt: skip

RECEIVING: Final = "receiving"  # the states of an upload, see `storage.uploads`
HELD: Final = "held"
ARRIVED: Final = "arrived"
FINISHED: Final = "finished"

upload: Final = Table(
    "upload", TABLES,
    Column("id", ShortText, primary_key=True),
    Column("name", ShortText, nullable=False),
    Column("owner", ShortText, nullable=False),
    Column("size", BigInteger),  # as it was announced, if it was
    Column("reserved", BigInteger, nullable=False),  # bytes of the disk that are spoken for
    Column("state", ShortText, nullable=False),
    Column("sha256", ShortText),
    Column("begun", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("ended", Double),
    Column("job", _SERIAL, ForeignKey("job.number", ondelete="SET NULL")),
    Column("held", Boolean, nullable=False, server_default=false()),  # waits for others that it is judged with
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
    Column("owner", ShortText, nullable=False),  # who may delete it beside admins
    Column("text", LongText, nullable=False),
    Index("note_by_thread", "thread", "number"),
)  # fmt: skip

word: Final = Table(
    "word", TABLES,
    Column("text", ShortText, primary_key=True),
    Column("thread", BigInteger, primary_key=True, autoincrement=False),  # of a case
    Column("source", ShortText, primary_key=True),
    Index("word_by_case", "thread", "text"),  # whether a case has a word is asked for many
    sqlite_with_rowid=False,
)  # fmt: skip

delivery: Final = Table(
    "delivery", TABLES,
    Column("number", _SERIAL, primary_key=True),
    Column("id", ShortText, nullable=False),
    Column("receiver", ShortText, nullable=False),  # digest of its address, which may carry a secret
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
    Column("prefix", ShortText, primary_key=True),  # the part of a token that may be shown, to find it by
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
_SCHEMA_STATES: Final = {"42501", "42P01", "42703", "3F000"}  # the role may not; no table, column, schema (any more)
_PROGRAMMING_ERRORS: Final = (IntegrityError, ProgrammingError, DataError, NotSupportedError)


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Turn an error of the database into one sentence; a mistake of our own statements stays what it is."""
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
    said = str(getattr(error, "orig", error)).strip().partition("\n")[0] or type(error).__name__  # no statement
    if isinstance(error.orig, sqlite3.Error):
        if is_disk_full(error.orig):
            if refused := _write_refusal(Path(place).parent):
                return StoreUnwritableError(describe_unwritable(Path(place), refused))
            return StoreFullError(f"{place}: {describe_full_disk(error.orig)}; what was stored before is whole")
        busy = error.orig.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    elif _sql_state(error) in _FULL_STATES:
        return StoreFullError(f"{place}: no room on the server ({said}); what was stored before is whole")
    else:
        busy = _sql_state(error) in _BUSY_STATES
    if busy:
        return StoreBusyError(f"{place}: another process has kept the database to itself for too long")
    return StoreError(f"{place}: the database cannot be used ({said})")


def _write_refusal(folder: Path) -> OSError | None:
    """Why no file can be made there, other than for want of room: SQLite tells both as an error of the disk."""
    try:
        with TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error if error.errno in UNWRITABLE_ERRNOS else None


def _sql_state(error: DBAPIError) -> str:
    """The code of PostgreSQL, empty for SQLite."""
    return getattr(error.orig, "sqlstate", None) or ""


def _database_name(url: URL) -> str:
    return str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


LOST_ADVICE: Final = (
    "restore a backup with `thpdiag serve restore`, or have `thpdiag serve check --repair` make a new database, for "
    "which all bundles are analyzed again; nothing was changed"
)
NO_DRIVER: Final = "PostgreSQL needs psycopg, which is not installed: pip install 'thpdiag[postgres]'"
LOCK_SECONDS: Final = 30  # seconds
MAX_CONNECTIONS: Final = 60  # a few more than the threads of a server
WAL_BYTES: Final = 4 << 20  # bytes of the log that stay on disk once a checkpoint has emptied it
_CREATION_LOCK: Final = 0x54687053  # the lock of PostgreSQL under which tables are made: "ThpS"
_WRITE_OPTION: Final = "thpdiag_writes"


def parse_database_url(database: str) -> URL:
    """The address of a database as it was given; the message repeats nothing of it, since it may carry a password."""
    try:
        url = make_url(database)
    except (ArgumentError, ValueError) as error:
        raise UsageError("the address of the database is invalid; postgresql+psycopg://USER@HOST/NAME") from error
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError("a database other than the file in the data folder is at postgresql+psycopg://USER@HOST/NAME")


def engine_of_url(url: URL) -> Engine:
    """An engine that nothing was asked of yet."""
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        return _postgresql(url)
    except ModuleNotFoundError as missing:
        raise UsageError(NO_DRIVER) from missing


def open_database(url: URL, folder: str, *, create: bool = True) -> Engine:
    """The database with its tables, made if there are none; `folder` is the identity of the folder of bundles.

    Without `create` one that is empty is refused: there was another.
    """
    engine = engine_of_url(url)
    with ExitStack() as undo:
        undo.callback(engine.dispose)
        with write_transaction(engine) as connection:
            advisory_lock(connection, _CREATION_LOCK)  # two that begin at once: the second finds it made
            _prepare(connection, url, folder, create=create)
        if connection.dialect.name == "sqlite":
            _enable_wal(engine)
        undo.pop_all()
    return engine


def schema_problem(engine: Engine, folder: str) -> str:
    """Why this is no longer the database of this folder and version, or takes no changes; empty if all is well."""
    with write_transaction(engine) as connection:
        row = connection.execute(select(schema.c.version, schema.c.folder).with_for_update()).first()
        for table in TABLES.sorted_tables:
            connection.execute(select(table).limit(0))
    if row is None or row.version != SCHEMA_VERSION:
        return "the database was changed by another version of thpdiag"
    return "" if row.folder == folder else "the database belongs to another data folder"


def damage_of(engine: Engine, check: str = "quick_check") -> str:
    """What SQLite finds wrong with its file, in a line; PostgreSQL looks after itself. Reads the whole file."""
    if engine.dialect.name != "sqlite":
        return ""
    try:
        with closing(engine.raw_connection()) as connection:
            found = connection.cursor().execute(f"PRAGMA {check}(1)").fetchone()
    except (sqlite3.Error, DBAPIError) as error:
        return str(getattr(error, "orig", error))
    return "" if found is None or found[0] == "ok" else " ".join(str(found[0]).split())


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
    """All rows, read at one moment."""
    with read_transaction(engine) as connection:
        return connection.execute(statement).all()


def fetch_row(engine: Engine, statement: Select[Any]) -> Any:
    """The first row, None if there is none."""
    with read_transaction(engine) as connection:
        return connection.execute(statement).first()


def fetch_value(engine: Engine, statement: Select[Any]) -> Any:
    """The first column of the first row."""
    with read_transaction(engine) as connection:
        return connection.scalar(statement)


def fetch_column(engine: Engine, statement: Select[tuple[str]]) -> list[str]:
    """The first column."""
    return [row[0] for row in fetch_rows(engine, statement)]


def lock_bundle(connection: Connection, sha256: str) -> bool:
    """Keep others from the row of a bundle until the end of the transaction; False if there is none."""
    row = connection.execute(select(bundle.c.sha256).where(bundle.c.sha256 == sha256).with_for_update())
    return row.first() is not None


def truncate_wal(engine: Engine) -> None:
    """Have what was deleted overwritten in SQLite's log too, as far as no reader needs it still."""
    if engine.dialect.name == "sqlite":
        with translate_errors(engine.url), closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def advisory_lock(connection: Connection, key: int) -> None:
    """Have others that ask for the same key wait until the end of this transaction, as SQLite does by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT that knows ON CONFLICT, which both databases have and no standard."""
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
    found = connection.execute(select(text("version, folder")).select_from(text(schema.name))).first()
    version, owner = found or (0, "")
    if version > SCHEMA_VERSION:
        told = f"was written by a later version of thpdiag (form {version}; this one knows {SCHEMA_VERSION})"
    elif version < 1:
        told = "is a database of thpdiag serve without a version"
    elif owner != folder:
        told = "belongs to another data folder"
    else:
        if version < SCHEMA_VERSION:
            _migrate(connection)
            connection.execute(update(schema).values(version=SCHEMA_VERSION))
        return
    raise StoreError(f"{place} {told}; it was not touched")


ADDED_COLUMNS: Final = {3: (case.c.thread, case.c.superseded, job.c.thread, upload.c.held)}


def _migrate(connection: Connection) -> None:
    """Make what this version has and the one before had not: columns, tables, indexes; rows get what they lack."""
    for added in ADDED_COLUMNS.values():
        for column in added:
            if column.name not in {one["name"] for one in inspect(connection).get_columns(column.table.name)}:
                told = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f'ALTER TABLE "{column.table.name}" ADD COLUMN {told}')
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
    """Have the file in WAL mode, which it stays in; only once it is known to be ours.

    SQLite does not wait for the lock that the change takes: where two begin at once, one has to ask again.
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
    address = f"file:{quote(str(url.database))}?mode=rw"  # a file that is gone is not made again

    def _connect() -> sqlite3.Connection:
        return sqlite3.connect(address, LOCK_SECONDS, uri=True, check_same_thread=False)

    engine = create_engine(
        url, hide_parameters=True, pool_size=5, max_overflow=MAX_CONNECTIONS - 5, creator=_connect,
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver's guess
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
