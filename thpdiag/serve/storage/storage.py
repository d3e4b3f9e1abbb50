"""The data folder of the upload page:

    serve.sqlite   the database, unless it is a PostgreSQL server
    bundles/       contents by their sha256
    uploads/       unfinished uploads by random ids
    folder         the identity of this folder, which the database stores too
    ballast        space reserved for deletions on a full disk
    lock           held by the running server

    storage = Storage.open(folder)
    key = storage.uploads.begin("web1.tar.xz", size, "ci")
    storage.uploads.append(key, 0, block)
    accepted = storage.accept(key, analysis)      # a bundle with a job, or with the existing case of the same analysis
    accepted = storage.accept_together([key, other], analysis)    # several files, or further files of a case
    claim = storage.jobs.claim()
    storage.cases.complete(claim, packed(result), analysis)

Functions block: an event loop calls them in threads. All are thread-safe.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time
from typing import Final, Self

from sqlalchemy import URL, Connection, Engine, ExceptionContext, event, func, select, update

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.storage.access import AuditTable, LoginTable, TokenTable
from thpdiag.serve.storage.bundles import (
    MAX_FILES,
    Bundles,
    Content,
    Part,
    Room,
    StorageLimits,
    add_bundle,
    add_parts,
    distinct_parts,
    free_bytes,
    manifest,
    manifest_digest,
    mark_lost,
    read_parts,
    set_name,
    sync_folder,
)
from thpdiag.serve.storage.cases import Cases, Deliveries, analysis_key, case_number
from thpdiag.serve.storage.database import (
    DAY,
    FINISHED,
    LOST_ADVICE,
    Clock,
    bundle,
    case,
    fetch_row,
    find_damage,
    is_id,
    job,
    lock_bundle,
    new_id,
    open_database,
    parse_database_url,
    upload,
    write_transaction,
)
from thpdiag.serve.storage.jobs import JobRequest, Jobs, add_job, find_live_job
from thpdiag.serve.storage.retention import Removal, Retention
from thpdiag.serve.storage.uploads import FilesGoneError, GoneError, Uploads, disk_full_as_store_error
from thpdiag.serve.storage.work import Links, Work, index_missing
from thpdiag.store import schema as ballast
from thpdiag.store.results import Analysis
from thpdiag.store.schema import Busy, Lock, write_errors

DATABASE_FILE: Final = "serve.sqlite"
IDENTITY_FILE: Final = "folder"
DAMAGED: Final = "the database is damaged"
DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
NO_LIMITS: Final = StorageLimits()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A bundle made of uploads with its job, and its case if the same analysis was made before.

    `known`: whether the same content was uploaded before.
    """

    sha256: str
    size: int
    job: str
    case: str | None
    known: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Storage:
    """`places` are files that must not disappear, with their inodes; `damage` collects damage of the database."""

    folder: Path
    identity: str
    places: Mapping[Path, int]
    damage: list[str]
    engine: Engine
    content: Content
    uploads: Uploads
    bundles: Bundles
    jobs: Jobs
    cases: Cases
    removal: Removal
    retention: Retention
    tokens: TokenTable
    logins: LoginTable
    audit: AuditTable
    links: Links
    work: Work
    deliveries: Deliveries
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
        *,
        steady: Clock | None = None,
        recreate: bool = False,
        receivers: Sequence[str] = (),
    ) -> Self:
        """Open the store and create missing parts.

        `patience` is how many seconds an upload waits for its next byte, `steady` a monotonic clock for timeouts
        (default: `clock`). StoreError if there are bundles without their database, unless `recreate` is set.
        """
        spool = folder / "uploads"
        with write_errors(folder, StoreError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool.mkdir(mode=0o700, exist_ok=True)
            content, identity = Content(folder / "bundles"), _folder_identity(folder)
            create = recreate or not any((folder / "bundles").iterdir())
            if database is None and not create and not (folder / DATABASE_FILE).exists():
                raise StoreError(f"{folder}: {DATABASE_FILE} is gone, although bundles are there; {LOST_ADVICE}")
            if database is None:  # private even if the folder is open to other users
                os.close(os.open(folder / DATABASE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sqlite_url = URL.create("sqlite", database=str((folder / DATABASE_FILE).absolute()))
            url = sqlite_url if database is None else parse_database_url(database)
            ballast.load_ballast(folder)
        engine, damage = open_database(url, identity, create=create), list[str]()
        places = [folder / IDENTITY_FILE, *([folder / DATABASE_FILE] if database is None else [])]
        inodes = {place: place.stat().st_ino for place in places}
        event.listen(engine, "handle_error", partial(_note_damage, damage))
        room, audit, links = Room(spool, bounds, free), AuditTable(engine), Links(engine, clock)
        steady = steady or clock
        uploads = Uploads(engine, spool, room, clock, steady, patience)
        jobs, removal = Jobs(engine, clock, steady, per_owner=bounds.owner_jobs), Removal(engine, content, folder)
        retention = Retention(engine, content, uploads, removal, audit, links, clock)
        return cls(
            folder, identity, inodes, damage, engine, content, uploads, Bundles(engine), jobs,
            Cases(engine, clock, receivers), removal, retention, TokenTable(engine), LoginTable(engine), audit, links,
            Work(engine, clock), Deliveries(engine, clock), room, clock,
        )  # fmt: skip

    def close(self) -> None:
        self.engine.dispose()

    def problem(self) -> str:
        """Return why the store cannot be trusted, without paths; empty if no problem is known. Cheap."""
        if self.damage:
            return self.damage[-1]
        for place, inode in self.places.items():
            subject = "the data folder" if place.name == IDENTITY_FILE else "the file of the database"
            try:
                if place.stat().st_ino != inode:
                    return f"{subject} was replaced while the server ran; restart it"
            except OSError:
                return f"{subject} is gone"
        return ""

    def verify(self) -> str:
        """Check the complete database and return its damage; empty without any."""
        damage = find_damage(self.engine)
        if damage and DAMAGED not in self.damage:
            self.damage.append(DAMAGED)
        return damage

    @contextmanager
    def claim_folder(self, analysis: Analysis) -> Iterator[None]:
        """Lock the folder as its only server, and resume the work of the previous one.

        Commands (tokens, prune) can run concurrently and do not need this.
        """
        with lock_folder(self.folder):
            self.resume(analysis)
            yield

    def resume(self, analysis: Analysis) -> None:
        """Accept uploads that have arrived, requeue running jobs, and mark bundles without a file."""
        for key in self.uploads.list_arrived():
            with suppress(GoneError):  # its file is missing
                self.accept(key, analysis)
        with write_transaction(self.engine) as connection:
            mark_lost(connection, self.content, self.clock())
        self.jobs.requeue_lost()
        index_missing(self.engine)

    def accept(self, key: str, analysis: Analysis) -> Accepted:
        """Make a bundle of a complete upload and queue its analysis; repeated calls return the same result."""
        return self.find_accepted(key) or self.accept_together([key], analysis)

    def accept_together(self, keys: Sequence[str], analysis: Analysis, case_id: str = "") -> Accepted:
        """Make one bundle of complete uploads, added to the files of a case if one is given, and queue its analysis.

        Known contents are not stored again, and an analysis that was made, or is queued, is not repeated. GoneError if
        an upload or the case does not exist; FilesGoneError if a file of the case is missing.
        """
        sent = {key: self._upload_digest(key) for key in dict.fromkeys(keys)}
        with write_transaction(self.engine) as connection:
            rows = connection.execute(select(upload.c.id, upload.c.name, upload.c.owner).where(upload.c.id.in_(sent)))
            uploads = {row.id: row for row in rows}
            if not uploads or len(uploads) < len(sent):
                raise GoneError("no such upload")
            thread, case_files = self._case_files(connection, case_id)
            parts = distinct_parts([*case_files, *(Part(sent[key], uploads[key].name) for key in sent)])
            if len(parts) > MAX_FILES:
                raise StoreFullError(f"a case has at most {MAX_FILES} files; pack them")
            now, owner = self.clock(), uploads[keys[0]].owner
            whole = parts[0].sha256 if len(parts) == 1 else manifest_digest(parts)
            known = connection.scalar(select(bundle.c.sha256).where(bundle.c.sha256 == whole)) is not None
            self._add_bundles(connection, whole, parts, sent.values(), now)
            request = JobRequest(whole, set_name(parts), owner, analysis.options, thread)
            job_number = _queue(connection, request, analysis, now)
            self._finish(connection, sent, job_number, now)
            row = connection.execute(
                select(job.c.sha256, job.c.id.label("job"), case.c.id.label("case"))
                .select_from(job.outerjoin(case, job.c.case == case.c.number))
                .where(job.c.number == job_number)
            ).one()
            size = select(func.sum(bundle.c.size)).where(bundle.c.sha256.in_([part.sha256 for part in parts]))
            return Accepted(row.sha256, int(connection.scalar(size) or 0), row.job, row.case, known)

    def analyse_again(self, key: str, analysis: Analysis, owner: str) -> str | None:
        """Queue an analysis for a new version of a case and return the job; None if the case was made by the same one.

        GoneError without such a case, FilesGoneError if its files are no longer stored.
        """
        with write_transaction(self.engine) as connection:
            columns = (case.c.thread, case.c.sha256, case.c.name, case.c.analysis)
            row = connection.execute(select(*columns).where(case.c.id == key)).first()
            if row is None or not lock_bundle(connection, row.sha256):
                raise GoneError("no such case")
            if row.analysis == analysis_key(analysis):
                return None
            files = (row.sha256, *(part.sha256 for part in read_parts(connection, row.sha256)))
            if not all(map(self.content.has, files)):
                raise FilesGoneError("files of the case are no longer stored")
            request = JobRequest(row.sha256, row.name, owner, analysis.options, row.thread)
            number = _queue(connection, request, analysis, self.clock())
            return str(connection.scalar(select(job.c.id).where(job.c.number == number)))

    def _upload_digest(self, key: str) -> str:
        """Return the digest of a complete upload, which is marked as arrived or is a bundle already."""
        sent = self.uploads.find(key)
        if sent is None:
            raise GoneError("no such upload")
        if sent.state != FINISHED:
            return self.uploads.arrive(key)[0]
        if sent.sha256 is None or not self.content.has(sent.sha256):
            raise GoneError("the file of the upload is gone")
        return sent.sha256

    def _case_files(self, connection: Connection, key: str) -> tuple[int | None, Sequence[Part]]:
        """Return the thread of a case and its files; FilesGoneError if one is missing. Nothing for an empty key."""
        if not key:
            return None, ()
        row = connection.execute(select(case.c.thread, case.c.sha256, case.c.name).where(case.c.id == key)).first()
        if row is None:
            raise GoneError("no such case")
        parts = read_parts(connection, row.sha256) or (Part(row.sha256, row.name),)
        if not all(self.content.has(part.sha256) for part in parts):
            raise FilesGoneError("files of the case are no longer stored")
        return row.thread, parts

    def _add_bundles(
        self, connection: Connection, whole: str, parts: Sequence[Part], sent: Iterable[str], now: float
    ) -> None:
        """Add and lock the rows of a set and of its files, in the order that a removal uses, and store the manifest.

        The files of uploads are moved in by `_finish`.
        """
        new = set(sent)
        if len(parts) > 1:
            text = manifest(parts)
            add_bundle(connection, whole, len(text), now)
            if not self.content.has(whole):
                file = self.uploads.file(new_id())
                with disk_full_as_store_error(), file.open("xb") as out:
                    out.write(text)
                    out.flush()
                    os.fsync(out.fileno())
                self.content.put(file, whole)
        for part in sorted(parts):
            file = self.content.path(part.sha256)
            if file.exists():
                size = file.stat().st_size
            elif part.sha256 in new:
                known_size = select(upload.c.size).where(upload.c.sha256 == part.sha256).limit(1)
                size = int(connection.scalar(known_size) or 0)
            else:
                raise FilesGoneError("files of the case are no longer stored")
            add_bundle(connection, part.sha256, size, now)
        if len(parts) > 1:
            add_parts(connection, whole, parts)

    def _finish(self, connection: Connection, sent: Mapping[str, str], job_number: int, now: float) -> None:
        """Mark uploads as finished and move their files in; the rows of their bundles exist."""
        ended = {"state": FINISHED, "reserved": 0, "ended": now, "job": job_number}
        connection.execute(update(upload).where(upload.c.id.in_(sent)).values(ended))
        for key, sha256 in sent.items():
            file = self.uploads.file(key)
            if file.exists():  # after a crash between this and the commit, the file is moved in already
                self.content.put(file, sha256)
            elif not self.content.has(sha256):
                raise GoneError("the file of the upload is gone")

    def find_accepted(self, key: str) -> Accepted | None:
        """Return the bundle and job of an upload; None if it was not accepted yet."""
        if not is_id(key):
            return None
        columns = (upload.c.sha256, upload.c.size, job.c.id.label("job"), case.c.id.label("case"))
        joined = upload.join(job, upload.c.job == job.c.number).outerjoin(case, job.c.case == case.c.number)
        row = fetch_row(self.engine, select(*columns).select_from(joined).where(upload.c.id == key))
        return None if row is None else Accepted(*row)


def _queue(connection: Connection, request: JobRequest, analysis: Analysis, now: float) -> int:
    """Return the number of a job for a request: a live one, or a new one, which is done if the case exists."""
    number = case_number(connection, request.sha256, analysis)
    live = find_live_job(connection, request) if number is None else None
    return add_job(connection, request, now, number) if live is None else live


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against servers; StoreBusyError if one is running on it."""
    try:
        lock = Lock(folder, Busy.REFUSE, lambda _: None)
    except StoreBusyError as error:
        raise StoreBusyError(f"{folder}: another server runs on this folder") from error
    try:
        yield
    finally:
        lock.release()


def _note_damage(damage: list[str], context: ExceptionContext) -> None:
    """Event handler: note an error that means a damaged database file, which is not trusted from then on."""
    code = getattr(context.original_exception, "sqlite_errorcode", 0) & 0xFF
    if code in DAMAGE_CODES and DAMAGED not in damage:
        damage.append(DAMAGED)


def _folder_identity(folder: Path) -> str:
    """Return the identity of a folder; create it in a new one."""
    file = folder / IDENTITY_FILE
    if file.exists():
        return file.read_text("ascii").strip()
    part = folder / f".folder.{new_id()}"
    with part.open("x", encoding="ascii") as out:
        out.write(f"{new_id()}\n")
        out.flush()
        os.fsync(out.fileno())  # a power failure must not leave an empty file
    try:
        with suppress(FileExistsError):  # of two concurrent starts the first one wins
            os.link(part, file)
    finally:
        part.unlink()
    sync_folder(folder)
    return file.read_text("ascii").strip()
