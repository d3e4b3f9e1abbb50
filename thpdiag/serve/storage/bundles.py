"""Bundles as the database knows them. Whoever changes the row or the file of one holds the row, so that none removes
what another has just put."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, exists, func, or_, select, update

from thpdiag.serve.storage.content import Content
from thpdiag.serve.storage.database import (
    bundle,
    case,
    fetch_row,
    fetch_value,
    is_sha256,
    job,
    lock_bundle,
    part,
    read_transaction,
    upload,
    upsert,
)
from thpdiag.serve.storage.file_sets import Part, is_part_of, parts_of
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

    def parts(self, sha256: str) -> tuple[Part, ...]:
        """The files of a set; none of a bundle that is one file."""
        with read_transaction(self._engine) as connection:
            return parts_of(connection, sha256)

    def files(self, sha256: str) -> list[tuple[Part, Bundle]]:
        """The files of a bundle with what is known of them: those of a set, or itself, without a name."""
        parts = self.parts(sha256) or (Part(sha256, ""),)
        found = ((one, self.find(one.sha256)) for one in parts)
        return [(one, known) for one, known in found if known is not None]

    def total(self) -> int:
        """How many contents are known, those whose file was removed too."""
        return int(fetch_value(self._engine, select(func.count()).select_from(bundle)) or 0)


def add_bundle(connection: Connection, sha256: str, size: int, now: float) -> None:
    """Write down that a content is here, and hold its row until the end of the transaction."""
    add = upsert(connection, bundle).values(sha256=sha256, size=size, stored=now, removed=None)
    again = {"size": add.excluded.size, "stored": add.excluded.stored, "removed": None}
    connection.execute(add.on_conflict_do_update(index_elements=["sha256"], set_=again))


def has_live_job() -> ColumnElement[bool]:
    """Of a bundle: that an analysis of it, or of a set that it is a file of, is to be made."""
    own = or_(job.c.sha256 == bundle.c.sha256, is_part_of(job.c.sha256))
    return exists().where(own, job.c.state.in_(LIVE_STATES))


def has_kept_case() -> ColumnElement[bool]:
    """Of a bundle: that a case of it, or of a set that it is a file of, is spared by retention."""
    return exists().where(or_(case.c.sha256 == bundle.c.sha256, is_part_of(case.c.sha256)), case.c.kept.is_(True))


def delete_orphaned_uploads(connection: Connection, sha256: str) -> None:
    """Uploads of a content whose job went with its case."""
    orphaned = (upload.c.sha256 == sha256) & upload.c.job.is_(None) & (upload.c.state == FINISHED)
    connection.execute(delete(upload).where(orphaned))


def remove_unused_bundle(connection: Connection, content: Content, sha256: str) -> int:
    """Remove a bundle that is held, with all that is known of it, if no case or set has it and no job waits for it.

    With a set go its files, unless something else has them. How many bytes that made. What has arrived and is no bundle
    yet is another's. The file goes within the transaction: none that puts the same content comes between. If the
    process ends before its end, the row is still there; the next start marks it.
    """
    own = bundle.c.sha256 == sha256
    used = or_(exists().where(case.c.sha256 == bundle.c.sha256), exists().where(part.c.sha256 == bundle.c.sha256))
    if connection.execute(select(bundle.c.sha256).where(own, ~used, ~has_live_job())).first() is None:
        return 0
    parts = parts_of(connection, sha256)
    connection.execute(delete(upload).where(upload.c.sha256 == sha256, upload.c.state == FINISHED))
    connection.execute(delete(job).where(job.c.sha256 == sha256))
    connection.execute(delete(bundle).where(own))
    freed = content.remove(sha256)
    for one in sorted(parts):
        if lock_bundle(connection, one.sha256):
            delete_orphaned_uploads(connection, one.sha256)
            freed += remove_unused_bundle(connection, content, one.sha256)
    return freed


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
            wholes = select(part.c.whole).where(part.c.sha256 == sha256)
            waiting = or_(job.c.sha256 == sha256, job.c.sha256.in_(wholes)) & job.c.state.in_(LIVE_STATES)
            connection.execute(update(job).where(waiting).values(failed))
