"""Deletion of cases, and retention: `prune` removes expired data.

Bundles expire before their cases. A case marked `kept` and its bundle never expire, and a bundle with a queued or
running analysis stays until that has ended. Each item is removed in a transaction of its own, so that a large prune
does not block others and can be interrupted.

Deleting a case also deletes the fleet files, and the last case of a bundle its file, uploads and jobs. A bundle stays
if another case uses it or an analysis of it is queued or running, since another user has just sent it. SQLite
overwrites deleted content, in the log too; PostgreSQL does so when it is vacuumed.
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
from thpdiag.serve.storage.cases import update_superseded
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

FLEET_FOLDER: Final = "fleet"  # files built from all cases, in the data folder; they can be rebuilt
STRAY_SECONDS: Final = 3_600.0  # after which a file without a row belongs to no operation in progress
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletes cases and failed jobs. `folder` contains the ballast: on a full disk SQLite cannot even delete."""

    engine: Engine
    content: Content
    folder: Path

    def delete_case(self, key: str) -> bool:
        """Delete a case; False if there is none."""
        is_deleted = is_id(key) and self.retry_with_ballast(lambda: self._delete_case(key))
        if is_deleted:
            rmtree(self.folder / FLEET_FOLDER, ignore_errors=True)
            truncate_wal(self.engine)
        return is_deleted

    def delete_failed_job(self, key: str) -> bool:
        """Delete a failed job with its bundle; False if there is no such job."""
        is_deleted = is_id(key) and self.retry_with_ballast(lambda: self._delete_failed_job(key))
        if is_deleted:
            truncate_wal(self.engine)
        return is_deleted

    def retry_with_ballast(self, work: Callable[[], T]) -> T:
        """Call `work`; on a full disk release the ballast, call it again, and restore the ballast."""
        try:
            return work()
        except StoreFullError:
            ballast.drop_ballast(self.folder)
        result = work()
        try:
            ballast.load_ballast(self.folder)
        except OSError:  # still full: the next start restores the ballast
            ballast.drop_ballast(self.folder)
        return result

    def _delete_case(self, key: str) -> bool:
        with write_transaction(self.engine) as connection:
            row = connection.execute(select(case.c.sha256, case.c.thread).where(case.c.id == key)).first()
            if row is None or not lock_bundle(connection, row.sha256):
                return False
            is_deleted = connection.execute(delete(case).where(case.c.id == key)).rowcount > 0
            update_superseded(connection, row.thread)
            index_case(connection, row.thread)
            remove_work(connection, row.thread)
            self._delete_unused(connection, row.sha256)
        return is_deleted

    def _delete_failed_job(self, key: str) -> bool:
        with write_transaction(self.engine) as connection:
            sha256 = connection.scalar(select(job.c.sha256).where(job.c.id == key))
            if sha256 is None or not lock_bundle(connection, sha256):
                return False
            is_deleted = connection.execute(delete(job).where(job.c.id == key, job.c.state == FAILED)).rowcount > 0
            if is_deleted:
                self._delete_unused(connection, sha256)
        return is_deleted

    def _delete_unused(self, connection: Connection, sha256: str) -> None:
        delete_orphaned_uploads(connection, sha256)
        remove_unused_bundle(connection, self.content, sha256)


@dataclass(frozen=True, slots=True)
class Terms:
    """Retention times in seconds: of bundles since the last upload of their content, of cases since their creation."""

    bundles: float = 14 * DAY
    cases: float = 180 * DAY
    audit: float = 400 * DAY


@dataclass(frozen=True, slots=True)
class Pruned:
    """The numbers of removed items, and the bytes of bundles that were freed."""

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
        entries = self.removal.retry_with_ballast(lambda: self.audit.prune(now - terms.audit))
        truncate_wal(self.engine)
        return Pruned(uploads, len(freed), cases, strays, entries, sum(freed))

    def _prune_uploads(self) -> int:
        removed = 0
        for key in self.uploads.list_expired():
            with suppress(StoreBusyError):  # a sender has just resumed it
                removed += self.uploads.abandon(key)
        return removed

    def _prune_cases(self, before: float) -> int:
        """Delete cases, and failed jobs of the same age; return the number of cases."""
        expired = select(case.c.id).where(case.c.made < before, case.c.kept.is_(False)).order_by(case.c.number)
        failed = select(job.c.id).where(job.c.ended < before, job.c.state == FAILED).order_by(job.c.number)
        cases = fetch_column(self.engine, expired)
        for key in fetch_column(self.engine, failed):
            self.removal.delete_failed_job(key)
        return sum(self.removal.delete_case(key) for key in cases)

    def _prune_bundles(self, before: float) -> list[int]:
        """Remove files of bundles and return their sizes; the condition is checked again under the lock of the row."""
        is_expired = (bundle.c.stored < before) & bundle.c.removed.is_(None) & ~has_kept_case() & ~has_live_job()
        expired = select(bundle.c.sha256).where(is_expired)
        freed = []
        for sha256 in fetch_column(self.engine, expired.order_by(bundle.c.sha256)):
            with write_transaction(self.engine) as connection:
                is_locked = lock_bundle(connection, sha256)
                if is_locked and connection.execute(expired.where(bundle.c.sha256 == sha256)).first() is not None:
                    freed.append(remove_bundle_file(connection, self.content, sha256, self.clock()))
        return freed

    def _remove_stray_uploads(self, before: float) -> int:
        """Remove files of uploads without a row, left by a process that ended in between; return their number."""
        removed = 0
        for file in [file for file, changed in self.uploads.files() if changed < before]:
            with write_transaction(self.engine) as connection:
                if connection.execute(select(upload.c.id).where(upload.c.id == file.name)).first() is None:
                    file.unlink(missing_ok=True)
                    removed += 1
        return removed

    def _remove_stray_bundles(self, before: float) -> int:
        removed = 0
        for sha256 in [sha256 for sha256, changed in self.content.files() if changed < before]:
            with write_transaction(self.engine) as connection:
                row = connection.execute(
                    select(bundle.c.removed).where(bundle.c.sha256 == sha256).with_for_update()
                ).first()
                arrived = select(upload.c.id).where(upload.c.sha256 == sha256, upload.c.state == ARRIVED)
                if connection.execute(arrived).first() is None and (row is None or row.removed is not None):
                    self.content.remove(sha256)
                    removed += 1
        return removed
