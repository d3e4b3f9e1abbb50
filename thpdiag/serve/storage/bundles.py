"""The row of a bundle: whoever changes it or its file holds it, so that none removes what another has just put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, Exists, delete, exists, func, select, update

from thpdiag.serve.storage.content import Content
from thpdiag.serve.storage.database import adding, reading
from thpdiag.serve.storage.form import bundle, case, job, upload
from thpdiag.serve.storage.ids import is_sha256
from thpdiag.serve.storage.jobs import FAILED, LIVE
from thpdiag.serve.storage.uploads import FINISHED

GONE: Final = "the file of the bundle is gone"


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

    def found(self, sha256: str) -> Bundle | None:
        if not is_sha256(sha256):
            return None
        with reading(self._engine) as connection:
            row = connection.execute(select(bundle).where(bundle.c.sha256 == sha256)).first()
        return None if row is None else Bundle(*row)

    def total(self) -> int:
        """How many contents are known, those whose file was removed too."""
        with reading(self._engine) as connection:
            return int(connection.scalar(select(func.count()).select_from(bundle)) or 0)


def came(connection: Connection, sha256: str, size: int, now: float) -> None:
    """Write down that a content is here, and hold its row until the end of the transaction."""
    add = adding(connection, bundle).values(sha256=sha256, size=size, stored=now, removed=None)
    again = {"size": add.excluded.size, "stored": add.excluded.stored, "removed": None}
    connection.execute(add.on_conflict_do_update(index_elements=["sha256"], set_=again))


def hold(connection: Connection, sha256: str) -> bool:
    """Keep others from the row until the end of the transaction; False if there is none."""
    return (
        connection.execute(select(bundle.c.sha256).where(bundle.c.sha256 == sha256).with_for_update()).first()
        is not None
    )


def in_work() -> Exists:
    """Of a bundle: that an analysis of it is to be made."""
    return exists().where(job.c.sha256 == bundle.c.sha256, job.c.state.in_(LIVE))


def release(connection: Connection, content: Content, sha256: str) -> int:
    """Remove a bundle that is held, with all that is known of it, if no case has it and no job waits for it.

    How many bytes that made. What has arrived and is no bundle yet is another's. The file goes within the transaction:
    none that puts the same content comes between. If the process ends before its end, the row is still there; the next
    start marks it.
    """
    own = bundle.c.sha256 == sha256
    used = exists().where(case.c.sha256 == bundle.c.sha256)
    if connection.execute(select(bundle.c.sha256).where(own, ~used, ~in_work())).first() is None:
        return 0
    connection.execute(delete(upload).where(upload.c.sha256 == sha256, upload.c.state == FINISHED))
    connection.execute(delete(job).where(job.c.sha256 == sha256))
    connection.execute(delete(bundle).where(own))
    return content.remove(sha256)


def mark_lost(connection: Connection, content: Content, now: float) -> int:
    """Write down which bundles have no file any more, and that their analysis cannot be made; how many those were."""
    known = connection.scalars(select(bundle.c.sha256).where(bundle.c.removed.is_(None)))
    lost = [sha256 for sha256 in known if not content.has(sha256)]
    for sha256 in lost:
        without_file(connection, content, sha256, now)
        failed = {"state": FAILED, "claim": None, "ended": now, "status": "gone", "reason": GONE}
        connection.execute(update(job).where(job.c.sha256 == sha256, job.c.state.in_(LIVE)).values(failed))
    return len(lost)


def without_file(connection: Connection, content: Content, sha256: str, now: float) -> int:
    """Remove the file of a bundle that is held, whose cases stay; how many bytes that made."""
    connection.execute(update(bundle).where(bundle.c.sha256 == sha256).values(removed=now))
    return content.remove(sha256)
