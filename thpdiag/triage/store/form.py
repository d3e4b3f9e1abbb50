"""The tables of a store, its version, and how the database is opened.

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
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from thpdiag.errors import StoreError

NAME: Final = "results.sqlite"
VERSION: Final = 1
APPLICATION: Final = 0x54687044  # "ThpD", in the head of the file: tells a store from other databases
WAIT_FOR_WRITER: Final = 30.0  # seconds, for a checkpoint or a merge of another process
WAL_KEPT: Final = 4 << 20  # bytes of the log that stay on disk once a checkpoint has emptied it

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
    """CREATE TABLE host (
        bundle INTEGER NOT NULL REFERENCES bundle, place INTEGER NOT NULL, name TEXT, title TEXT, os TEXT, kernel TEXT,
        era TEXT, platform TEXT, apps TEXT NOT NULL, settings TEXT NOT NULL, measures TEXT NOT NULL, verdict TEXT,
        rule TEXT, mechanism TEXT, severity TEXT, confidence TEXT, state TEXT, sentence TEXT,
        undecided INTEGER, recorded TEXT, PRIMARY KEY (bundle, place))""",
    """CREATE TABLE finding (
        bundle INTEGER NOT NULL, host INTEGER NOT NULL, place INTEGER NOT NULL, rule TEXT, mechanism TEXT,
        severity TEXT, confidence TEXT, role TEXT, state TEXT, entity TEXT, fingerprint TEXT,
        PRIMARY KEY (bundle, host, place), FOREIGN KEY (bundle, host) REFERENCES host) WITHOUT ROWID""",
    "CREATE TABLE mark (run INTEGER NOT NULL REFERENCES run, at TEXT NOT NULL, kind TEXT NOT NULL)",
)
INDEXES: Final = (  # made at the end of a batch: while rows are added one by one they would cost several times the rows
    "CREATE INDEX IF NOT EXISTS host_by_verdict ON host (verdict, mechanism, confidence, severity)",
    "CREATE INDEX IF NOT EXISTS host_by_kernel ON host (kernel, os, platform)",
    "CREATE INDEX IF NOT EXISTS finding_by_rule ON finding (rule, severity, confidence)",
    "CREATE INDEX IF NOT EXISTS bundle_by_status ON bundle (status)",
)


def located(place: Path) -> Path:
    """The database of a store that is named by its folder, or by the file itself."""
    return place / NAME if place.is_dir() else place


def to_write(file: Path) -> sqlite3.Connection:
    """The database for adding; made if there is none. Transactions are begun and ended by hand."""
    with ExitStack() as undo:
        database = undo.enter_context(closing(_connected(file.absolute().as_uri())))
        _prepare(database, file)
        undo.pop_all()
    return database


def _prepare(database: sqlite3.Connection, file: Path) -> None:
    _known_form(database, file)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA journal_size_limit = {WAL_KEPT}")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("BEGIN IMMEDIATE")  # two that begin a store at once: the second finds it made
    if not _version(database)[1]:
        for table in TABLES:
            database.execute(table)
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def to_read(file: Path) -> sqlite3.Connection:
    """The database for reading, also while a batch writes to it and on a file system that is read-only."""
    return _connected(address(file))


def address(file: Path) -> str:
    """The address of a store as it can be read, once it is known that this can be done.

    Readers of a log share a file beside it. Where that cannot be made, and there is no log, none is needed.
    """
    if not file.is_file():
        raise StoreError(f"{file}: no such store")
    whole = file.absolute().as_uri()
    try:
        version = _version_at(f"{whole}?mode=ro", file)
    except sqlite3.OperationalError:
        log = Path(f"{file}-wal")
        if log.exists() and log.stat().st_size:
            raise
        whole, version = f"{whole}?immutable=1", _version_at(f"{whole}?immutable=1", file)
    else:
        whole = f"{whole}?mode=ro"
    if not version:
        raise StoreError(f"{file}: the store is empty, its run ended before it began")
    return whole


def _version_at(whole: str, file: Path) -> int:
    with closing(_connected(whole)) as database:
        return _known_form(database, file)


def _known_form(database: sqlite3.Connection, file: Path) -> int:
    """The version of the form, 0 for a database without anything; else an error that says what it is."""
    application, version = _version(database)
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version > VERSION and application == APPLICATION:
        told = f"was written by a later version of thpdiag (form {version}; this one knows {VERSION})"
    elif (application, bool(version), bool(tables)) not in {(APPLICATION, True, True), (0, False, False)}:
        told = "is a database, but no store of thpdiag"
    else:
        return version
    raise StoreError(f"{file} {told}; it was not touched")


def text(value: str | None) -> str | bytes | None:
    """A string as it is bound to `CAST(? AS TEXT)`; SQLite takes no lone surrogates in a string."""
    if value is None or value.isascii():
        return value
    data = value.encode("utf-8", "surrogatepass")
    return value if data == value.encode("utf-8", "replace") else data


def _connected(whole: str) -> sqlite3.Connection:
    database = sqlite3.connect(whole, timeout=WAIT_FOR_WRITER, isolation_level=None, uri=True)
    database.execute("PRAGMA trusted_schema = OFF")  # a shard of somebody else runs nothing of its own
    database.text_factory = lambda data: data.decode("utf-8", "surrogatepass")
    return database


def _version(database: sqlite3.Connection) -> tuple[int, int]:
    return (
        database.execute("PRAGMA application_id").fetchone()[0],
        database.execute("PRAGMA user_version").fetchone()[0],
    )
