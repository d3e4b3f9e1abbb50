"""All that the upload page keeps, in one folder:

    serve.sqlite   the database, unless it is a PostgreSQL server
    bundles/       contents by their sha256
    uploads/       what is being sent, by random ids
    folder         the identity of this folder, which its database knows
    ballast        room that is kept back for a full disk
    lock           held by the server that runs

    storage = Storage.open(folder)
    key = storage.uploads.begin("web1.tar.xz", size, "ci")
    storage.uploads.append(key, 0, block)
    accepted = storage.accept(key, analysis)      # a bundle once, a job, or at once the case that is there
    claim = storage.jobs.claim()
    storage.cases.complete(claim, packed(result), analysis)

Functions wait for disk and database: an event loop calls them in threads. Every one may be called in several threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final, Self

from sqlalchemy import URL, Connection, Engine, select, update

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.storage.access import AuditTable, TokenTable
from thpdiag.serve.storage.bundles import Bundles, add_bundle, mark_lost
from thpdiag.serve.storage.cases import Cases, case_number
from thpdiag.serve.storage.content import Content, Room, StorageLimits, free_bytes, sync_folder
from thpdiag.serve.storage.database import (
    DAY,
    Clock,
    case,
    is_id,
    job,
    new_id,
    open_database,
    parse_database_url,
    read_transaction,
    upload,
    write_transaction,
)
from thpdiag.serve.storage.jobs import JobRequest, Jobs, add_job, find_live_job
from thpdiag.serve.storage.retention import Removal, Retention
from thpdiag.serve.storage.uploads import ARRIVED, FINISHED, GoneError, Uploads
from thpdiag.store import folder as ballast
from thpdiag.store.folder import Busy, Lock
from thpdiag.store.results import Analysis
from thpdiag.store.schema import DISK_FULL_ERRNOS

DATABASE_FILE: Final = "serve.sqlite"
NO_LIMITS: Final = StorageLimits()


@dataclass(frozen=True, slots=True)
class Accepted:
    """An upload that is a bundle now: its job, and its case if the same was analysed before."""

    sha256: str
    size: int
    job: str
    case: str | None


@dataclass(frozen=True, slots=True)
class Storage:
    folder: Path
    engine: Engine
    content: Content
    uploads: Uploads
    bundles: Bundles
    jobs: Jobs
    cases: Cases
    removal: Removal
    retention: Retention
    tokens: TokenTable
    audit: AuditTable
    room: Room
    clock: Clock

    @classmethod
    def open(
        cls,
        folder: Path,
        database: str | None = None,
        bounds: StorageLimits = NO_LIMITS,
        clock: Clock = time,
        patience: float = DAY,
        free: Callable[[Path], int] = free_bytes,
    ) -> Self:
        """Make what is not there. `patience` is how long an upload waits for its next byte, in seconds."""
        spool = folder / "uploads"
        with _os_errors_as_store_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool.mkdir(mode=0o700, exist_ok=True)
            content, identity = Content(folder / "bundles"), _folder_identity(folder)
            if database is None:  # nobody else on this machine may read it, though the folder may be open to others
                os.close(os.open(folder / DATABASE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            own = URL.create("sqlite", database=str((folder / DATABASE_FILE).absolute()))
            url = own if database is None else parse_database_url(database)
            ballast.load_ballast(folder)
        engine = open_database(url, identity)
        room, audit = Room(spool, bounds, free), AuditTable(engine)
        uploads = Uploads(engine, spool, room, clock, patience)
        jobs, removal = Jobs(engine, clock, per_owner=bounds.owner_jobs), Removal(engine, content, folder)
        retention = Retention(engine, content, uploads, removal, audit, clock)
        return cls(
            *(folder, engine, content, uploads, Bundles(engine), jobs, Cases(engine, clock)),
            *(removal, retention, TokenTable(engine), audit, room, clock),
        )

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def served(self, analysis: Analysis) -> Iterator[None]:
        """Be the server of this folder, which there is one of, and take up what the last one left.

        Commands beside it (tokens, prune) need no such thing.
        """
        try:
            lock = Lock(self.folder, Busy.REFUSE, lambda _: None)
        except StoreBusyError as error:
            raise StoreBusyError(f"{self.folder}: another server runs on this folder") from error
        try:
            self.take_up(analysis)
            yield
        finally:
            lock.release()

    def take_up(self, analysis: Analysis) -> None:
        """What had arrived becomes a bundle, what was running waits again, and what has no file any more says so."""
        for key in self.uploads.arrived():
            with suppress(GoneError):  # its file is not there either
                self.accept(key, analysis)
        with write_transaction(self.engine) as connection:
            mark_lost(connection, self.content, self.clock())
        self.jobs.take_up()

    def accept(self, key: str, analysis: Analysis) -> Accepted:
        """Make a bundle of an upload that has come whole, and queue its analysis; a second time it changes nothing.

        What is known by its content is not stored again; its analysis is not made again, if it was made in the same way
        or waits to be.
        """
        done = self.accepted(key)
        if done is not None:
            return done
        sha256, size = self.uploads.arrive(key)
        with write_transaction(self.engine) as connection:
            arrived = (upload.c.id == key) & (upload.c.state == ARRIVED)
            row = connection.execute(select(upload.c.name, upload.c.owner).where(arrived)).first()
            if row is None:
                raise GoneError("no such upload")
            now = self.clock()
            add_bundle(connection, sha256, size, now)
            wanted = JobRequest(sha256, row.name, row.owner, analysis.options)
            number = case_number(connection, sha256, analysis)
            again = find_live_job(connection, wanted) if number is None else None
            task = add_job(connection, wanted, now, number) if again is None else again
            ended = {"state": FINISHED, "reserved": 0, "ended": now, "job": task}
            connection.execute(update(upload).where(upload.c.id == key).values(ended))
            file = self.uploads.file(key)
            if file.exists():  # last of all; if a process ended between that and the rows, it is in already
                self.content.put(file, sha256)
            elif not self.content.has(sha256):
                raise GoneError("the file of the upload is gone")
            made = _find_accepted(connection, key)
        if made is None:
            raise GoneError("no such upload")
        return made

    def accepted(self, key: str) -> Accepted | None:
        """What became of an upload; None as long as nothing has."""
        if not is_id(key):
            return None
        with read_transaction(self.engine) as connection:
            return _find_accepted(connection, key)


def _find_accepted(connection: Connection, key: str) -> Accepted | None:
    columns = (upload.c.sha256, upload.c.size, job.c.id.label("job"), case.c.id.label("case"))
    whole = upload.join(job, upload.c.job == job.c.number).outerjoin(case, job.c.case == case.c.number)
    row = connection.execute(select(*columns).select_from(whole).where(upload.c.id == key)).first()
    return None if row is None else Accepted(*row)


def _folder_identity(folder: Path) -> str:
    """The identity of a folder, which is made with it."""
    file = folder / "folder"
    if file.exists():
        return file.read_text("ascii").strip()
    part = folder / f".folder.{new_id()}"
    part.write_text(f"{new_id()}\n", "ascii")
    try:
        os.link(part, file)  # of two that begin at once the first names it
    except FileExistsError:
        pass
    finally:
        part.unlink()
    sync_folder(folder)
    return file.read_text("ascii").strip()


@contextmanager
def _os_errors_as_store_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = StoreFullError if error.errno in DISK_FULL_ERRNOS else StoreError
        raise full(f"{folder}: cannot be written ({error.strerror})") from error
