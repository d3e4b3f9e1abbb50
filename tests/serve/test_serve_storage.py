"""Opening what the upload page keeps: made once, refused if it is another's; tokens and the audit log in it."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from serve_storage_fixtures import ANALYSIS, PLENTY, Hands, Opened, cased, content, digest, sent
from small_results import document
from thpdiag.errors import StoreBusyError, StoreError, UsageError
from thpdiag.serve.access.audit import Action, Outcome
from thpdiag.serve.access.credentials import find_token, mint_token
from thpdiag.serve.access.principals import Scope
from thpdiag.serve.storage.access import AuditEntry
from thpdiag.serve.storage.database import SCHEMA_VERSION, write_transaction
from thpdiag.serve.storage.storage import DATABASE_FILE, Storage


def told(storage: Storage, statement: str) -> None:
    with write_transaction(storage.engine) as connection:
        connection.execute(text(statement))


def test_what_is_stored_is_there_again(opened: Opened) -> None:
    """A second process, and one after both, see the same."""
    first = opened()
    key = cased(first, 1)
    second = opened()
    assert second.cases.document(key) == document(1)
    first.close()
    second.close()

    assert opened().content.path(digest(1)).read_bytes() == content(1)


def test_only_its_owner_can_read_it(storage: Storage) -> None:
    """Bundles of customers: no folder lets others in, no file of them can be changed."""
    cased(storage, 1)

    assert storage.folder.stat().st_mode & 0o777 == 0o700
    assert storage.content.path(digest(1)).stat().st_mode & 0o777 == 0o400
    assert {(storage.folder / name).stat().st_mode & 0o77 for name in ("uploads", "bundles")} == {0}


def test_a_later_version_is_refused(opened: Opened) -> None:
    """Its rows could be lost without a word; nothing is changed."""
    storage = opened()
    key = cased(storage, 1)
    told(storage, f"UPDATE thpdiag_serve SET version = {SCHEMA_VERSION + 1}")

    with pytest.raises(
        StoreError, match=f"later version of thpdiag .form {SCHEMA_VERSION + 1}; this one knows {SCHEMA_VERSION}"
    ):
        opened()

    told(storage, f"UPDATE thpdiag_serve SET version = {SCHEMA_VERSION}")
    assert opened().cases.document(key) == document(1)


def test_an_earlier_version_is_brought_up_to_this_one(opened: Opened) -> None:
    """Version 1 had no indexes by owner; what was in it stays."""
    storage = opened()
    key = cased(storage, 1)
    for statement in ("DROP INDEX job_by_owner", "DROP INDEX upload_by_owner", "UPDATE thpdiag_serve SET version = 1"):
        told(storage, statement)

    again = opened()

    names = {one["name"] for table in ("job", "upload") for one in inspect(again.engine).get_indexes(table)}
    assert {"job_by_owner", "upload_by_owner"} <= names
    told(again, f"DELETE FROM thpdiag_serve WHERE version <> {SCHEMA_VERSION}")
    assert opened().cases.document(key) == document(1)


def test_a_database_belongs_to_a_folder(opened: Opened, database: str | None, tmp_path: Path) -> None:
    """With another folder it would speak of bundles that are not there."""
    storage = opened()
    if database is None:
        (tmp_path / "other").mkdir()
        storage.close()
        (storage.folder / DATABASE_FILE).rename(tmp_path / "other" / DATABASE_FILE)

    with pytest.raises(StoreError, match="belongs to another data folder"):
        Storage.open(tmp_path / "other", database, free=lambda _: PLENTY)


def test_a_foreign_database_is_not_touched(tmp_path: Path, opened: Opened, database: str | None) -> None:
    """One with tables of somebody else, whatever they are called."""
    if database is None:
        (tmp_path / "data").mkdir()
        with closing(sqlite3.connect(tmp_path / "data" / DATABASE_FILE)) as foreign:
            foreign.execute("CREATE TABLE upload (id)")
            foreign.commit()
        before = (tmp_path / "data" / DATABASE_FILE).read_bytes()
    else:
        storage = opened()
        told(storage, "DROP TABLE thpdiag_serve")

    with pytest.raises(StoreError, match="none of thpdiag serve; it was not touched"):
        opened()

    if database is None:
        assert (tmp_path / "data" / DATABASE_FILE).read_bytes() == before


def test_a_damaged_file_is_told_as_such(tmp_path: Path) -> None:
    """In one sentence, with the name of the file."""
    (tmp_path / DATABASE_FILE).write_bytes(b"no database at all" * 1_000)

    with pytest.raises(StoreError, match=r"serve\.sqlite: the database cannot be used \(file is not a database\)"):
        Storage.open(tmp_path, free=lambda _: PLENTY)


def test_a_folder_that_cannot_be_made_is_told_as_such(tmp_path: Path) -> None:
    """A file is in its place."""
    (tmp_path / "data").write_text("")

    with pytest.raises(StoreError, match=r"data: cannot be written \(.*\)"):
        Storage.open(tmp_path / "data")


def test_there_is_one_server(opened: Opened) -> None:
    """Commands run beside it; a second server is refused until the first has ended."""
    first, second = opened(), opened()
    with first.claim_folder(ANALYSIS):
        with pytest.raises(StoreBusyError, match="another server runs on this folder"), second.claim_folder(ANALYSIS):
            pass
        second.uploads.begin("a", 1, "ci")
    with second.claim_folder(ANALYSIS):
        pass


def test_a_server_takes_up_what_the_last_one_left(opened: Opened) -> None:
    """What was running waits again; what had arrived is a bundle."""
    storage = opened()
    storage.accept(sent(storage, 1), ANALYSIS)
    storage.jobs.claim()
    storage.uploads.arrive(sent(storage, 2))

    with opened().claim_folder(ANALYSIS):
        assert storage.jobs.counts() == {"queued": 2}


def test_a_bundle_without_its_file_says_so(storage: Storage, hands: Hands) -> None:
    """Somebody removed it, or a crash in the middle of deleting: its job cannot be done, its case stays."""
    key, made = cased(storage, 1), storage.accept(sent(storage, 2), ANALYSIS)
    storage.content.remove(digest(1))
    storage.content.remove(digest(2))

    with storage.claim_folder(ANALYSIS):
        pass

    job = storage.jobs.find(made.job)
    assert job is not None
    assert (job.state, job.reason) == ("failed", "the file of the bundle is gone")
    assert [(b.removed, b.size) for n in (1, 2) if (b := storage.bundles.find(digest(n)))] == [(hands.now, 1_000)] * 2
    assert storage.cases.document(key) == document(1)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://root:hunter2@db/x", "postgresql+asyncpg://u:hunter2@db/x", "sqlite:////tmp/hunter2",
        "hunter2", "postgresql://u:hunter2@db:port/x", "",
    ],
)  # fmt: skip
def test_an_address_that_makes_no_sense_is_not_repeated(tmp_path: Path, address: str) -> None:
    """It may carry a password; nor is the file of the folder taken instead of what was meant."""
    with pytest.raises(UsageError) as refused:
        Storage.open(tmp_path, address)

    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / DATABASE_FILE).exists()


def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    """Nor does any argument of the error carry it."""
    with pytest.raises(StoreError) as refused:
        Storage.open(tmp_path / "data", f"postgresql+psycopg://u:hunter2@/x?host={tmp_path}")

    said = str(refused.value)
    assert "hunter2" not in said
    assert "postgresql+psycopg://u:***@/x" in said


def test_a_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(UsageError, match=r"thpdiag\[postgres\]"):
        Storage.open(tmp_path / "data", "postgresql://u@db/x")


def test_tokens_are_kept_by_their_digest(storage: Storage, hands: Hands, database: str | None) -> None:
    """What access asks of a table of tokens holds; the token itself is nowhere."""
    secret, token = mint_token("build é", frozenset({Scope.UPLOAD, Scope.READ}), hands.now, hands.now + 60.5)
    tokens = storage.tokens
    storage.tokens.add(token)

    found = find_token(secret, tokens, hands.now)

    assert found is not None
    assert (found.label, set(found.scopes), found.expires, found.used) == (
        "build é", {"upload", "read"}, hands.now + 60.5, None,
    )  # fmt: skip
    tokens.touch(token.prefix, hands.now + 1.25)
    assert [kept.used for kept in storage.tokens.all()] == [hands.now + 1.25]
    assert tokens.find("0" * 16) is None
    tokens.touch("0" * 16, 1.0)
    if database is None:
        digits = secret.rpartition("_")[2].encode()
        assert [f for f in storage.folder.iterdir() if f.is_file() and digits in f.read_bytes()] == []
    assert storage.tokens.remove(token.prefix)
    assert not storage.tokens.remove(token.prefix)
    assert find_token(secret, tokens, hands.now) is None


def test_tokens_are_listed_by_age(storage: Storage, hands: Hands) -> None:
    """The oldest first, expired ones too."""
    made = [mint_token(f"t{n}", frozenset({Scope.READ}), hands.now - n, hands.now + 1 - n / 2)[1] for n in range(4)]
    for token in made:
        storage.tokens.add(token)

    assert [kept.label for kept in storage.tokens.all()] == ["t3", "t2", "t1", "t0"]


def test_the_audit_log_tells_who_did_what(storage: Storage, hands: Hands) -> None:
    """The latest first, page by page, of one case or of all."""
    for number in range(5):
        subject = f"case{number % 2}"
        event = AuditEntry(hands.now + number, Action.DOWNLOAD, Outcome.DONE, "token:ci\x00", "::1", subject)
        storage.audit.add(event)

    pages = storage.audit.page(limit=2)
    rest = storage.audit.page(below=pages[-1][0])

    assert [entry.at - hands.now for _, entry in (*pages, *rest)] == [4, 3, 2, 1, 0]
    assert pages[0][1] == AuditEntry(hands.now + 4, "download", "done", "token:ci\\x00", "::1", "case0")
    assert len(storage.audit.page("case1")) == 2
