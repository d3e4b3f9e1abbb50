"""Deleting, and how long things are kept: `prune` removes what is past its time.

Bundles go before the cases that were made of them; a case that is marked `kept` stays for ever with its bundle, and a
bundle whose analysis is to be made stays until it is. Each thing is removed in a transaction of its own, so that a
prune of much keeps nobody waiting, and one that is ended half-way has lost nothing.

With a case goes what was made of all cases together, and with the last case of a bundle its file, uploads and jobs.
What another case was made of stays, and so does a bundle whose analysis is to be made: somebody else has just sent it.
SQLite overwrites what is deleted, in the log too; PostgreSQL does so when it is vacuumed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, delete, select

from thpdiag.errors import StoreBusyError, StoreFullError
from thpdiag.serve.storage.access import AuditTable
from thpdiag.serve.storage.bundles import (
    Content,
    delete_orphaned_uploads,
    has_kept_case,
    has_live_job,
    remove_bundle_file,
    remove_unused_bundle,
)
from thpdiag.serve.storage.cases import settle_thread
from thpdiag.serve.storage.database import (
    ARRIVED,
    DAY,
    Clock,
    bundle,
    case,
    fetch_column,
    is_id,
    job,
    lock_bundle,
    truncate_wal,
    upload,
    write_transaction,
)
from thpdiag.serve.storage.jobs import FAILED
from thpdiag.serve.storage.uploads import Uploads
from thpdiag.serve.storage.work import Links, index_case, remove_work
from thpdiag.store import schema as ballast

FLEET_FOLDER: Final = "fleet"  # what is made of all cases together, in the folder of the data; it can be made again
STRAY_SECONDS: Final = 3_600.0  # after which a file that no row names is nobody's work in progress
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletes; `folder` is that of the data, where the ballast is: a full disk stops SQLite even from deleting."""

    engine: Engine
    content: Content
    folder: Path

    def delete_case(self, key: str) -> bool:
        """False if it is not there."""
        gone = is_id(key) and self.with_ballast(lambda: self._delete_case(key))
        if gone:
            rmtree(self.folder / FLEET_FOLDER, ignore_errors=True)
            truncate_wal(self.engine)
        return gone

    def delete_failed_job(self, key: str) -> bool:
        """Delete a job that came to no case, with its bundle; False if there is no such job."""
        gone = is_id(key) and self.with_ballast(lambda: self._delete_failed_job(key))
        if gone:
            truncate_wal(self.engine)
        return gone

    def with_ballast(self, work: Callable[[], T]) -> T:
        """Do it; on a full disk once more with the room that is kept back for that, and keep it back again after."""
        try:
            return work()
        except StoreFullError:
            ballast.drop_ballast(self.folder)
        result = work()
        try:
            ballast.load_ballast(self.folder)
        except OSError:  # still full: the next start tries again
            ballast.drop_ballast(self.folder)
        return result

    def _delete_case(self, key: str) -> bool:
        with write_transaction(self.engine) as connection:
            row = connection.execute(select(case.c.sha256, case.c.thread).where(case.c.id == key)).first()
            if row is None or not lock_bundle(connection, row.sha256):
                return False
            gone = connection.execute(delete(case).where(case.c.id == key)).rowcount > 0
            settle_thread(connection, row.thread)
            index_case(connection, row.thread)
            remove_work(connection, row.thread)
            self._delete_unused(connection, row.sha256)
        return gone

    def _delete_failed_job(self, key: str) -> bool:
        with write_transaction(self.engine) as connection:
            sha256 = connection.scalar(select(job.c.sha256).where(job.c.id == key))
            if sha256 is None or not lock_bundle(connection, sha256):
                return False
            gone = connection.execute(delete(job).where(job.c.id == key, job.c.state == FAILED)).rowcount > 0
            if gone:
                self._delete_unused(connection, sha256)
        return gone

    def _delete_unused(self, connection: Connection, sha256: str) -> None:
        """Uploads whose job went with a case, and the bundle."""
        delete_orphaned_uploads(connection, sha256)
        remove_unused_bundle(connection, self.content, sha256)


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds that things are kept: bundles since their content came last, cases since they were made."""

    bundles: float = 14 * DAY
    cases: float = 180 * DAY
    audit: float = 400 * DAY


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many went, and the bytes of bundles that this made room for."""

    uploads: int
    bundles: int
    cases: int
    stray_files: int
    audit_entries: int
    freed: int


@dataclass(frozen=True, slots=True)
class Retention:
    engine: Engine
    content: Content
    uploads: Uploads
    removal: Removal
    audit: AuditTable
    links: Links
    clock: Clock

    def prune(self, terms: Terms) -> Pruned:
        now = self.clock()
        uploads = self._prune_uploads()
        cases = self._prune_cases(now - terms.cases)
        freed = self._prune_bundles(now - terms.bundles)
        strays = self._remove_stray_uploads(now - STRAY_SECONDS) + self._remove_stray_bundles(now - STRAY_SECONDS)
        self.links.prune()
        entries = self.removal.with_ballast(lambda: self.audit.prune(now - terms.audit))
        truncate_wal(self.engine)
        return Pruned(uploads, len(freed), cases, strays, entries, sum(freed))

    def _prune_uploads(self) -> int:
        gone = 0
        for key in self.uploads.list_expired():
            with suppress(StoreBusyError):  # somebody goes on with it in this moment after all
                gone += self.uploads.abandon(key)
        return gone

    def _prune_cases(self, before: float) -> int:
        """Cases, and jobs that came to none, which are kept as long."""
        old = select(case.c.id).where(case.c.made < before, case.c.kept.is_(False)).order_by(case.c.number)
        failed = select(job.c.id).where(job.c.ended < before, job.c.state == FAILED).order_by(job.c.number)
        cases = fetch_column(self.engine, old)
        for key in fetch_column(self.engine, failed):
            self.removal.delete_failed_job(key)
        return sum(self.removal.delete_case(key) for key in cases)

    def _prune_bundles(self, before: float) -> list[int]:
        """Bytes of each that went; one stays that has come again or was marked meanwhile."""
        over = (bundle.c.stored < before) & bundle.c.removed.is_(None) & ~has_kept_case() & ~has_live_job()
        expired = select(bundle.c.sha256).where(over)
        freed = []
        for sha256 in fetch_column(self.engine, expired.order_by(bundle.c.sha256)):
            with write_transaction(self.engine) as connection:
                held = lock_bundle(connection, sha256)
                if held and connection.execute(expired.where(bundle.c.sha256 == sha256)).first() is not None:
                    freed.append(remove_bundle_file(connection, self.content, sha256, self.clock()))
        return freed

    def _remove_stray_uploads(self, before: float) -> int:
        """Files of uploads that no row names: their process ended between the one and the other."""
        gone = 0
        for file in [file for file, changed in self.uploads.files() if changed < before]:
            with write_transaction(self.engine) as connection:
                if connection.execute(select(upload.c.id).where(upload.c.id == file.name)).first() is None:
                    file.unlink(missing_ok=True)
                    gone += 1
        return gone

    def _remove_stray_bundles(self, before: float) -> int:
        gone = 0
        for sha256 in [sha256 for sha256, changed in self.content.files() if changed < before]:
            with write_transaction(self.engine) as connection:
                there = select(bundle.c.removed).where(bundle.c.sha256 == sha256).with_for_update()
                row = connection.execute(there).first()
                arrived = select(upload.c.id).where(upload.c.sha256 == sha256, upload.c.state == ARRIVED)
                if connection.execute(arrived).first() is None and (row is None or row.removed is not None):
                    self.content.remove(sha256)
                    gone += 1
        return gone
