"""Bundles as the database knows them. Whoever changes the row or the file of one holds the row, so that none removes
what another has just put."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Exists, delete, exists, func, select, update

from thpdiag.serve.storage.content import Content
from thpdiag.serve.storage.database import bundle, case, fetch_row, fetch_value, is_sha256, job, upload, upsert
from thpdiag.serve.storage.jobs import FAILED, FILE_GONE, LIVE_STATES
from thpdiag.serve.storage.uploads import FINISHED


@dataclass(frozen=True, slots=True)
class Bundle:
    """`stored` is when its content came last; `removed` when its file went, if it did."""

    sha256: str
    size: int
    stored: float
    removed: float | None


class Bundles:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, sha256: str) -> Bundle | None:
        row = fetch_row(self._engine, select(bundle).where(bundle.c.sha256 == sha256)) if is_sha256(sha256) else None
        return None if row is None else Bundle(*row)

    def total(self) -> int:
        """How many contents are known, those whose file was removed too."""
        return int(fetch_value(self._engine, select(func.count()).select_from(bundle)) or 0)


def add_bundle(connection: Connection, sha256: str, size: int, now: float) -> None:
    """Write down that a content is here, and hold its row until the end of the transaction."""
    add = upsert(connection, bundle).values(sha256=sha256, size=size, stored=now, removed=None)
    again = {"size": add.excluded.size, "stored": add.excluded.stored, "removed": None}
    connection.execute(add.on_conflict_do_update(index_elements=["sha256"], set_=again))


def has_live_job() -> Exists:
    """Of a bundle: that an analysis of it is to be made."""
    return exists().where(job.c.sha256 == bundle.c.sha256, job.c.state.in_(LIVE_STATES))


def remove_unused_bundle(connection: Connection, content: Content, sha256: str) -> int:
    """Remove a bundle that is held, with all that is known of it, if no case has it and no job waits for it.

    How many bytes that made. What has arrived and is no bundle yet is another's. The file goes within the transaction:
    none that puts the same content comes between. If the process ends before its end, the row is still there; the next
    start marks it.
    """
    own = bundle.c.sha256 == sha256
    used = exists().where(case.c.sha256 == bundle.c.sha256)
    if connection.execute(select(bundle.c.sha256).where(own, ~used, ~has_live_job())).first() is None:
        return 0
    connection.execute(delete(upload).where(upload.c.sha256 == sha256, upload.c.state == FINISHED))
    connection.execute(delete(job).where(job.c.sha256 == sha256))
    connection.execute(delete(bundle).where(own))
    return content.remove(sha256)


def remove_bundle_file(connection: Connection, content: Content, sha256: str, now: float) -> int:
    """Remove the file of a bundle that is held, whose cases stay; how many bytes that made."""
    connection.execute(update(bundle).where(bundle.c.sha256 == sha256).values(removed=now))
    return content.remove(sha256)


def mark_lost(connection: Connection, content: Content, now: float) -> None:
    """Write down which bundles have no file any more, and that their analysis cannot be made."""
    for sha256 in connection.scalars(select(bundle.c.sha256).where(bundle.c.removed.is_(None))).all():
        if not content.has(sha256):
            remove_bundle_file(connection, content, sha256, now)
            failed = {"state": FAILED, "claim": None, "ended": now, "status": "gone", "reason": FILE_GONE}
            waiting = (job.c.sha256 == sha256) & job.c.state.in_(LIVE_STATES)
            connection.execute(update(job).where(waiting).values(failed))
