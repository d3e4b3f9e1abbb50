"""What only a server of PostgreSQL does: it ends connections, speaks other encodings, makes tables for two at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from postgres_server import PostgresServer
from serve_storage_fixtures import PLENTY, Opened, accepted, cased
from small_results import document
from thpdiag.errors import StoreBusyError, StoreError
from thpdiag.serve.storage import database
from thpdiag.serve.storage.database import write_transaction
from thpdiag.serve.storage.storage import Storage


def test_a_server_that_was_restarted_is_found_again(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """Connections that it has ended are made again; no request is answered with an error."""
    with closing(Storage.open(tmp_path / "data", postgres_server.fresh(), free=lambda _: PLENTY)) as storage:
        key = cased(storage, 1)
        postgres_server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

        assert storage.cases.document(key) == document(1)


def test_a_database_of_another_encoding_is_refused(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """It could not hold what a customer's host may be called."""
    postgres_server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'")
    address = postgres_server.fresh().replace("@/postgres", "@/latin")

    with pytest.raises(StoreError, match="has the encoding LATIN1; thpdiag serve needs a database in UTF8"):
        Storage.open(tmp_path / "data", address)
    postgres_server.run("DROP DATABASE latin")


def test_two_that_begin_at_once_find_one_storage(opened: Opened) -> None:
    """Tables and the identity of the folder are made once; on SQLite too."""
    with ThreadPoolExecutor(4) as processes:
        storages = [done.result() for done in [processes.submit(opened) for _ in range(4)]]

    made = {accepted(storage, 1).job for storage in storages}

    assert len(made) == 1


def test_a_lock_that_somebody_keeps_is_told_as_such(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever: on SQLite for the only writer, on PostgreSQL for the same row."""
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    first, second = opened(), opened()
    accepted(first, 1)

    def _wait() -> None:
        accepted(second, 1)

    with write_transaction(first.engine) as connection:
        connection.exec_driver_sql("UPDATE bundle SET stored = 1")
        with pytest.raises(StoreBusyError, match="kept the database to itself"):
            _wait()
    _wait()
