"""Deleting: a case with all that is known of it, and whatever nothing else uses.

With it goes what was made of all cases together, and with the last case of a bundle its file, uploads and jobs. What
another case was made of stays, and so does a bundle whose analysis is to be made: somebody else has just sent it.
SQLite overwrites what is deleted, in the log too; PostgreSQL does so when it is vacuumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, delete, select

from thpdiag.errors import StoreFullError
from thpdiag.serve.storage.bundles import hold, release
from thpdiag.serve.storage.content import Content
from thpdiag.serve.storage.database import emptied_log, writing
from thpdiag.serve.storage.form import case, job, upload
from thpdiag.serve.storage.ids import is_id
from thpdiag.serve.storage.jobs import FAILED
from thpdiag.serve.storage.uploads import FINISHED
from thpdiag.triage.store import ballast

DERIVED: Final = "fleet"  # what is made of all cases together, in the folder of the data; it can be made again
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletes; `folder` is that of the data, where the ballast is: a full disk stops SQLite even from deleting."""

    engine: Engine
    content: Content
    folder: Path

    def case(self, key: str) -> bool:
        """Delete a case; False if it is not there."""
        if not is_id(key):
            return False
        gone = self.with_ballast(lambda: self._case(key))
        if gone:
            rmtree(self.folder / DERIVED, ignore_errors=True)
        emptied_log(self.engine)
        return gone

    def failed(self, key: str) -> bool:
        """Delete a job that came to no case, with its bundle; False if there is no such job."""
        if not is_id(key):
            return False
        gone = self.with_ballast(lambda: self._failed(key))
        emptied_log(self.engine)
        return gone

    def with_ballast(self, work: Callable[[], T]) -> T:
        """Do it; on a full disk once more with the room that is kept back for that, and keep it back again after."""
        try:
            return work()
        except StoreFullError:
            ballast.drop(self.folder)
        done = work()
        try:
            ballast.load(self.folder)
        except OSError:  # still full: the next start tries again
            ballast.drop(self.folder)
        return done

    def _case(self, key: str) -> bool:
        with writing(self.engine) as connection:
            row = connection.execute(select(case.c.sha256).where(case.c.id == key)).first()
            if row is None or not hold(connection, row.sha256):
                return False
            gone = connection.execute(delete(case).where(case.c.id == key)).rowcount > 0
            self._rest(connection, row.sha256)
        return gone

    def _failed(self, key: str) -> bool:
        with writing(self.engine) as connection:
            row = connection.execute(select(job.c.sha256).where(job.c.id == key)).first()
            if row is None or not hold(connection, row.sha256):
                return False
            failed = delete(job).where(job.c.id == key, job.c.state == FAILED)
            gone = connection.execute(failed).rowcount > 0
            if gone:
                self._rest(connection, row.sha256)
        return gone

    def _rest(self, connection: Connection, sha256: str) -> None:
        """Uploads whose job went with a case, and the bundle."""
        orphaned = (upload.c.sha256 == sha256) & upload.c.job.is_(None) & (upload.c.state == FINISHED)
        connection.execute(delete(upload).where(orphaned))
        release(connection, self.content, sha256)
