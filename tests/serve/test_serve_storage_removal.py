"""Deleting and retention: what goes is gone from the disk, what another needs stays."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, func, select

from serve_storage_fixtures import ANALYSIS, OTHER, Hands, Opened, accepted, cased, content, digest, files, sent
from small_results import document
from thpdiag.errors import StoreFullError
from thpdiag.serve.storage import retention
from thpdiag.serve.storage.access import AuditEntry
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import DAY, TABLES, read_transaction
from thpdiag.serve.storage.retention import Pruned, Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.store import schema as ballast

WORD = "zanzibar-secret-host"
OURS = {"thpdiag_serve"}


def left(storage: Storage) -> dict[str, int]:
    """Rows of each table that has any."""
    with read_transaction(storage.engine) as connection:
        counted = {t.name: connection.scalar(select(func.count()).select_from(t)) for t in TABLES.sorted_tables}
    return {name: number for name, number in counted.items() if number and name not in OURS}


def test_deleted_is_gone(storage: Storage) -> None:
    """Of a case nothing is left: no row, no file, and on SQLite not a byte of its host's name."""
    whole = {**document(1), "host": {"name": WORD}, "case": WORD}
    accepted(storage, 1)
    key = cased(storage, 1, whole)
    storage.accept(sent(storage, 1, name=WORD), ANALYSIS)

    assert storage.removal.delete_case(key)

    assert left(storage) == {}
    assert files(storage.folder / "bundles") == []
    assert files(storage.folder / "uploads") == []
    told = [f for f in files(storage.folder) if WORD.encode() in (storage.folder / f).read_bytes()]
    assert told == []
    assert not storage.removal.delete_case(key)
    assert storage.cases.document(key) is None


def test_the_word_would_be_seen(storage: Storage, database: str | None) -> None:
    """The search of the test above finds what is not deleted."""
    if database is not None:
        pytest.skip("the files of the server are its own")
    cased(storage, 1, {**document(1), "host": {"name": WORD}})

    assert [f for f in files(storage.folder) if WORD.encode() in (storage.folder / f).read_bytes()]


def test_what_another_case_uses_stays(storage: Storage) -> None:
    """Two analyses of one bundle: the file goes with the last."""
    first = cased(storage, 1)
    second = cased(storage, 1, analysis=OTHER)
    other = cased(storage, 2)

    assert storage.removal.delete_case(first)
    assert storage.content.has(digest(1))
    assert storage.cases.document(second) == document(1)
    assert storage.cases.count(CaseFilter()) == 2
    assert storage.removal.delete_case(second)
    assert not storage.content.has(digest(1))
    assert storage.cases.document(other) == document(2)
    assert storage.content.path(digest(2)).read_bytes() == content(2)


def test_a_bundle_that_waits_stays(storage: Storage) -> None:
    """Somebody has just sent the same content for a newer version: that job finds its bundle."""
    key = cased(storage, 1)
    waiting = accepted(storage, 1, OTHER)

    assert storage.removal.delete_case(key)

    assert storage.content.has(digest(1))
    claim = storage.jobs.claim()
    assert claim is not None
    assert claim.job.id == waiting.job


def test_a_failed_job_can_be_deleted(storage: Storage) -> None:
    """With its bundle; one that waits, works or has its case is not deleted so."""
    made = accepted(storage, 1)
    assert not storage.removal.delete_failed_job(made.job)
    claim = storage.jobs.claim()
    assert claim is not None
    assert not storage.removal.delete_failed_job(made.job)
    storage.jobs.fail(claim, "timeout")

    assert storage.removal.delete_failed_job(made.job)

    assert left(storage) == {}
    assert files(storage.folder / "bundles") == []


def test_bundles_go_before_cases(storage: Storage, hands: Hands) -> None:
    """After two weeks the file, after half a year the case; sooner nothing."""
    key = cased(storage, 1)
    hands.now += 14 * DAY
    assert storage.retention.prune(Terms()) == Pruned(0, 0, 0, 0, 0, 0)

    hands.now += 1
    assert storage.retention.prune(Terms()) == Pruned(0, 1, 0, 0, 0, 1_000)
    assert files(storage.folder / "bundles") == []
    assert storage.cases.document(key) == document(1)
    assert storage.retention.prune(Terms()) == Pruned(0, 0, 0, 0, 0, 0)

    hands.now += 166 * DAY
    assert storage.retention.prune(Terms()) == Pruned(0, 0, 1, 0, 0, 0)
    assert left(storage) == {}


def test_what_comes_again_is_kept_again(storage: Storage, hands: Hands) -> None:
    """A bundle whose file went is stored again; its case is recognised all the same."""
    key = cased(storage, 1)
    hands.now += 15 * DAY
    storage.retention.prune(Terms())

    assert accepted(storage, 1).case == key
    assert storage.content.path(digest(1)).read_bytes() == content(1)
    assert storage.retention.prune(Terms()).bundles == 0


def test_a_kept_case_stays_with_its_bundle(storage: Storage, hands: Hands) -> None:
    """Until the mark is taken away; it is no hindrance to deleting."""
    kept, other = cased(storage, 1), cased(storage, 2)
    assert storage.cases.set_kept(kept, kept=True)
    assert not storage.cases.set_kept("0" * 32, kept=True)
    hands.now += 400 * DAY

    pruned = storage.retention.prune(Terms())
    assert (pruned.cases, pruned.bundles) == (1, 0)
    assert storage.cases.find(other) is None
    assert storage.content.has(digest(1))

    assert storage.cases.set_kept(kept, kept=False)
    assert storage.retention.prune(Terms()).cases == 1
    assert left(storage) == {}


def test_a_bundle_in_work_is_not_pruned(storage: Storage, hands: Hands) -> None:
    """However long it waits."""
    accepted(storage, 1)
    hands.now += 400 * DAY

    assert storage.retention.prune(Terms()) == Pruned(0, 0, 0, 0, 0, 0)
    assert storage.content.has(digest(1))


def test_failed_jobs_and_audit_have_their_time(storage: Storage, hands: Hands) -> None:
    """A job without a case is kept like a case, its bundle like others."""
    accepted(storage, 1)
    claim = storage.jobs.claim()
    assert claim is not None
    storage.jobs.fail(claim, "timeout")
    storage.audit.add(AuditEntry(hands.now, "upload", "done", "token:ci", "127.0.0.1", claim.job.id))
    hands.now += 20 * DAY
    assert storage.retention.prune(Terms()).bundles == 1

    hands.now += 381 * DAY
    assert storage.retention.prune(Terms()) == Pruned(0, 0, 0, 0, 1, 0)

    assert left(storage) == {}


def test_unfinished_and_stray_files_go(storage: Storage, hands: Hands) -> None:
    """Expired uploads, and files that no row names once they are an hour old; what is in work stays."""
    idle = storage.uploads.begin("idle", 10, "ci")
    hands.now += DAY + 1
    fresh = storage.uploads.begin("fresh", 10, "ci")
    arrived = sent(storage, 3)
    storage.uploads.arrive(arrived)
    storage.content.put(storage.uploads.file(arrived), digest(3))
    for folder, name in (("uploads", "a" * 32), ("uploads", "b" * 32), ("bundles", "x"), ("bundles", "y")):
        file = storage.folder / folder / name
        file.write_bytes(content(1 if name in "ax" else 2))
        if folder == "bundles":
            storage.content.put(file, digest(1 if name == "x" else 2))
    old = [storage.folder / "uploads" / ("a" * 32), *(storage.content.path(digest(n)) for n in (1, 3))]
    for file in old:
        os.utime(file, (hands.now - 3_601, hands.now - 3_601))
    for file in (storage.folder / "uploads" / ("b" * 32), storage.content.path(digest(2))):
        os.utime(file, (hands.now - 3_000, hands.now - 3_000))

    pruned = storage.retention.prune(Terms())

    assert (pruned.uploads, pruned.stray_files) == (1, 2)
    assert storage.uploads.find(idle) is None
    assert files(storage.folder / "uploads") == sorted([fresh, "b" * 32])
    assert [storage.content.has(digest(n)) for n in (1, 2, 3)] == [False, True, True]


def test_sending_and_deleting_at_once(storage: Storage) -> None:
    """Whatever the order, a bundle that has a row has its file, and the other way round."""

    def _send(_: int) -> None:
        accepted(storage, 1)
        while claim := storage.jobs.claim():
            storage.jobs.fail(claim, "timeout")

    def _delete(_: int) -> None:
        with read_transaction(storage.engine) as connection:
            failed = list(connection.scalars(select(TABLES.tables["job"].c.id)))
        for job in failed:
            storage.removal.delete_failed_job(job)

    with ThreadPoolExecutor(6) as threads:
        jobs: list[Callable[[int], None]] = [_send, _delete]
        for done in [threads.submit(jobs[n % 2], n) for n in range(60)]:
            done.result()

    bundle = storage.bundles.find(digest(1))
    assert (bundle is not None) == storage.content.has(digest(1))
    _delete(0)
    assert left(storage) == {}
    assert files(storage.folder / "bundles") == []


def test_a_full_disk_stops_nobody_from_deleting(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that is kept back is given up for it, and taken back afterwards."""
    storage = opened()
    key = cased(storage, 1)
    file, real = storage.folder / ballast.BALLAST_NAME, retention.lock_bundle
    assert file.stat().st_size == ballast.BALLAST_BYTES

    def _full(*arguments: object) -> bool:
        if file.exists():
            raise StoreFullError("no room")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(retention, "lock_bundle", _full)

    assert storage.removal.delete_case(key)
    assert left(storage) == {}
    assert file.stat().st_size == ballast.BALLAST_BYTES


def takes_no_more(storage: Storage) -> None:
    """Have the file of the database as large as it may become."""
    with read_transaction(storage.engine) as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    storage.engine.dispose()

    @event.listens_for(storage.engine, "connect")
    def _limit(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute(f"PRAGMA max_page_count = {pages}")


def test_what_has_no_room_in_the_audit_log_is_in_the_log_of_the_server(
    storage: Storage, database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Who reads a report on a full disk gets it."""
    if database is not None:
        pytest.skip("the disk of the server is its own")
    takes_no_more(storage)
    subjects = [f"{number:0200}" for number in range(400)]
    for subject in subjects:
        storage.audit.add(AuditEntry(1.0, "download", "done", "token:ci", "10.0.0.1", subject))

    kept = {entry.subject for _, entry in storage.audit.page(limit=1_000)}
    told = {record.getMessage().rpartition(" ")[2] for record in caplog.records}
    assert (kept | told, kept & told) == (set(subjects), set())
    assert 0 < len(told) < 400


def test_a_full_disk_is_told_as_such(storage: Storage, database: str | None, tmp_path: Path) -> None:
    """SQLite's own error becomes ours; what was stored is whole and is there afterwards."""
    if database is not None:
        pytest.skip("the disk of the server is its own")
    key = cased(storage, 1)
    takes_no_more(storage)
    accepted_all: list[str] = []

    def _send_many() -> None:
        for number in range(2, 400):
            accepted_all.append(accepted(storage, number).sha256)

    with pytest.raises(StoreFullError, match="no room"):
        _send_many()
    assert storage.cases.document(key) == document(1)
    assert all(storage.content.has(sha256) for sha256 in accepted_all)


def test_no_room_for_a_file_is_told_as_such(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that cannot even begin leaves no row."""

    def _full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", _full)
    with pytest.raises(StoreFullError):
        storage.uploads.begin("a", 1, "ci")
    monkeypatch.undo()

    assert left(storage) == {}
