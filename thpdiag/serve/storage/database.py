"""Opens the database, makes its tables, and refuses one that is not of this form.

SQLite in WAL mode with `synchronous=FULL`: what a transaction has returned from outlives kill -9 and a power cut, and
readers wait for nobody. What is deleted there is overwritten (`secure_delete`). A database of a later version of the
form is refused, since rows that this version does not know would be lost without a word. A database belongs to one
folder of bundles: with another it would speak of files that are not there.

    with writing(engine) as connection:   # all of it is stored, or nothing; one writer at a time on SQLite
    with reading(engine) as connection:   # one moment on SQLite; on PostgreSQL a moment per statement
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError

from thpdiag.errors import StoreError, UsageError
from thpdiag.serve.storage.form import TABLES, VERSION, form
from thpdiag.serve.storage.trouble import told

NO_DRIVER: Final = "PostgreSQL is spoken to by psycopg, which is not installed: pip install 'thpdiag[postgres]'"
WAIT_FOR_WRITER: Final = 30  # seconds
CONNECTIONS: Final = 60  # a few more than the threads of a server
WAL_KEPT: Final = 4 << 20  # bytes of the log that stay on disk once a checkpoint has emptied it
_MAKING: Final = 0x54687053  # the lock of PostgreSQL under which tables are made: "ThpS"
_WRITES: Final = "thpdiag_writes"


def address(database: str) -> URL:
    """The address of a database as it was given; the message repeats nothing of it, since it may carry a password."""
    try:
        url = make_url(database)
    except (ArgumentError, ValueError) as error:
        raise UsageError("the address of the database makes no sense; postgresql+psycopg://USER@HOST/NAME") from error
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise UsageError("a database other than the file in the data folder is at postgresql+psycopg://USER@HOST/NAME")


def connected(url: URL) -> Engine:
    """An engine that nothing was asked of yet."""
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        return _postgresql(url)
    except ModuleNotFoundError as missing:
        raise UsageError(NO_DRIVER) from missing


def opened(url: URL, folder: str) -> Engine:
    """The database with its tables, made if there is none; `folder` is the identity of the folder of bundles."""
    engine = connected(url)
    with ExitStack() as undo:
        undo.callback(engine.dispose)
        with writing(engine) as connection:
            alone(connection, _MAKING)  # two that begin at once: the second finds it made
            _prepare(connection, url, folder)
        if connection.dialect.name == "sqlite":
            _log_ahead(engine)
        undo.pop_all()
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    with told(engine.url), engine.connect() as connection:
        connection.execution_options(**{_WRITES: True})
        with connection.begin():
            yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    with told(engine.url), engine.connect() as connection, connection.begin():
        yield connection


def emptied_log(engine: Engine) -> None:
    """Have what was deleted overwritten in SQLite's log too, as far as no reader needs it still."""
    if engine.dialect.name == "sqlite":
        with told(engine.url), closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def alone(connection: Connection, key: int) -> None:
    """Have others that ask for the same key wait until the end of this transaction, as SQLite does by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def adding(connection: Connection, table: Table) -> Any:
    """An INSERT that knows ON CONFLICT, which both databases have and no standard."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _prepare(connection: Connection, url: URL, folder: str) -> None:
    names = set(inspect(connection).get_table_names())
    if not names:
        _takes_all_texts(connection, url)
        TABLES.create_all(connection)
        connection.execute(insert(form).values(version=VERSION, folder=folder))
        return
    place = url.database if connection.dialect.name == "sqlite" else url.render_as_string(hide_password=True)
    if form.name not in names:
        raise StoreError(f"{place} is a database, but none of thpdiag serve; it was not touched")
    found = connection.execute(select(text("version, folder")).select_from(text(form.name))).first()
    version, owner = found or (0, "")
    if version > VERSION:
        told = f"was written by a later version of thpdiag (form {version}; this one knows {VERSION})"
    elif version < 1:
        told = "is a database of thpdiag serve without a version"
    elif owner != folder:
        told = "belongs to another data folder"
    else:
        return
    raise StoreError(f"{place} {told}; it was not touched")


def _takes_all_texts(connection: Connection, url: URL) -> None:
    if connection.dialect.name == "postgresql":
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":
            place = url.render_as_string(hide_password=True)
            raise StoreError(f"{place} has the encoding {encoding}; thpdiag serve needs a database in UTF8")


def _postgresql(url: URL) -> Engine:
    engine = create_engine(
        url, hide_parameters=True, pool_pre_ping=True, pool_size=5, max_overflow=CONNECTIONS - 5,
        isolation_level="READ COMMITTED",
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        connection.execute(f"SET lock_timeout = '{WAIT_FOR_WRITER}s'")
        connection.commit()

    return engine


def _log_ahead(engine: Engine) -> None:
    """Have the file in WAL mode, which it stays in; only once it is known to be ours."""
    with told(engine.url), closing(engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA journal_mode = WAL")


def _sqlite(url: URL) -> Engine:
    engine = create_engine(
        url, hide_parameters=True, pool_size=5, max_overflow=CONNECTIONS - 5,
        connect_args={"timeout": WAIT_FOR_WRITER},
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver's guess
        for pragma in (
            "synchronous = FULL", f"journal_size_limit = {WAL_KEPT}", "foreign_keys = ON", "secure_delete = ON",
            "trusted_schema = OFF",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
