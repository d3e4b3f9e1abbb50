"""How long things are kept, and what goes when their time is over: `prune`.

Bundles go before the cases that were made of them; a case that is marked `kept` stays for ever with its bundle, and a
bundle whose analysis is to be made stays until it is. Each thing is removed in a transaction of its own, so that a
prune of much keeps nobody waiting, and one that is ended half-way has lost nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, Engine, exists, select

from thpdiag.errors import StoreBusyError
from thpdiag.serve.storage.audit import AuditTable
from thpdiag.serve.storage.bundles import hold, in_work, without_file
from thpdiag.serve.storage.clock import DAY, Clock
from thpdiag.serve.storage.content import Content
from thpdiag.serve.storage.database import emptied_log, reading, writing
from thpdiag.serve.storage.form import bundle, case, job, upload
from thpdiag.serve.storage.jobs import FAILED
from thpdiag.serve.storage.removal import Removal
from thpdiag.serve.storage.uploads import ARRIVED, Uploads

SETTLED: Final = 3_600.0  # seconds after which a file that no row names is nobody's work in progress


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
    clock: Clock

    def prune(self, terms: Terms) -> Pruned:
        now = self.clock()
        uploads = self._uploads()
        cases = self._cases(now - terms.cases)
        freed = self._bundles(now - terms.bundles)
        strays = self._stray_uploads(now) + self._stray_bundles(now)
        entries = self.removal.with_ballast(lambda: self.audit.prune(now - terms.audit))
        emptied_log(self.engine)
        return Pruned(uploads, len(freed), cases, strays, entries, sum(freed))

    def _uploads(self) -> int:
        gone = 0
        for key in self.uploads.expired():
            with suppress(StoreBusyError):  # somebody goes on with it in this moment after all
                gone += self.uploads.abandon(key)
        return gone

    def _cases(self, before: float) -> int:
        """Cases, and jobs that came to none, which are kept as long."""
        old = select(case.c.id).where(case.c.made < before, case.c.kept.is_(False)).order_by(case.c.number)
        failed = select(job.c.id).where(job.c.ended < before, job.c.state == FAILED).order_by(job.c.number)
        with reading(self.engine) as connection:
            cases, jobs = list(connection.scalars(old)), list(connection.scalars(failed))
        for key in jobs:
            self.removal.failed(key)
        return sum(self.removal.case(key) for key in cases)

    def _bundles(self, before: float) -> list[int]:
        """Bytes of each that went."""
        over = _over(before)
        with reading(self.engine) as connection:
            found = list(connection.scalars(select(bundle.c.sha256).where(over).order_by(bundle.c.sha256)))
        return [freed for sha256 in found if (freed := self._bundle(sha256, over)) is not None]

    def _bundle(self, sha256: str, over: ColumnElement[bool]) -> int | None:
        """Remove one, unless it has come again or was marked meanwhile."""
        with writing(self.engine) as connection:
            if not hold(connection, sha256):
                return None
            if connection.execute(select(bundle.c.sha256).where(bundle.c.sha256 == sha256, over)).first() is None:
                return None
            return without_file(connection, self.content, sha256, self.clock())

    def _stray_uploads(self, now: float) -> int:
        """Files of uploads that no row names: their process ended between the one and the other."""
        strays = [file for file, changed in self.uploads.files() if changed < now - SETTLED]
        return sum(self._stray_upload(file) for file in strays)

    def _stray_upload(self, file: Path) -> bool:
        with writing(self.engine) as connection:
            known = connection.execute(select(upload.c.id).where(upload.c.id == file.name)).first()
            if known is None:
                file.unlink(missing_ok=True)
        return known is None

    def _stray_bundles(self, now: float) -> int:
        gone = 0
        for sha256, changed in self.content.found():
            if changed >= now - SETTLED:
                continue
            with writing(self.engine) as connection:
                there = bundle.c.sha256 == sha256
                row = connection.execute(select(bundle.c.removed).where(there).with_for_update()).first()
                arrived = select(upload.c.id).where(upload.c.sha256 == sha256, upload.c.state == ARRIVED)
                if connection.execute(arrived).first() is None and (row is None or row.removed is not None):
                    self.content.remove(sha256)
                    gone += 1
        return gone


def _over(before: float) -> ColumnElement[bool]:
    """Of a bundle: that its time is over and nothing spares it."""
    kept = exists().where(case.c.sha256 == bundle.c.sha256, case.c.kept.is_(True))
    return (bundle.c.stored < before) & bundle.c.removed.is_(None) & ~kept & ~in_work()
