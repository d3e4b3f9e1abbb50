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
    accepted = storage.accept_together([key, other], analysis)    # the same of several files, or of a case and more
    claim = storage.jobs.claim()
    storage.cases.complete(claim, packed(result), analysis)

Functions wait for disk and database: an event loop calls them in threads. Every one may be called in several threads.
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
    parts_of,
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
    damage_of,
    is_id,
    job,
    lock_bundle,
    new_id,
    open_database,
    parse_database_url,
    read_transaction,
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
    """An upload that is a bundle now: its job, and its case if the same was analysed before.

    `known` says whether the same content had come before.
    """

    sha256: str
    size: int
    job: str
    case: str | None
    known: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Storage:
    """`places` are files whose loss is noticed, with their inodes; `damage` is what was found to be wrong since."""

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
        anew: bool = False,
        receivers: Sequence[str] = (),
    ) -> Self:
        """Make what is not there. `patience` is how long an upload waits for its next byte, in seconds.

        `steady` is a clock that nobody sets, by which silence is measured; the other one if none is given.

        StoreError if bundles are there and their database is not, unless it shall be made `anew`.
        """
        spool = folder / "uploads"
        with write_errors(folder, StoreError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool.mkdir(mode=0o700, exist_ok=True)
            content, identity = Content(folder / "bundles"), _folder_identity(folder)
            create = anew or not any((folder / "bundles").iterdir())
            if database is None and not create and not (folder / DATABASE_FILE).exists():
                raise StoreError(f"{folder}: {DATABASE_FILE} is gone, although bundles are there; {LOST_ADVICE}")
            if database is None:  # nobody else on this machine may read it, though the folder may be open to others
                os.close(os.open(folder / DATABASE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            own = URL.create("sqlite", database=str((folder / DATABASE_FILE).absolute()))
            url = own if database is None else parse_database_url(database)
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
            *(folder, identity, inodes, damage, engine, content, uploads, Bundles(engine), jobs),
            *(
                Cases(engine, clock, receivers),
                removal,
                retention,
                TokenTable(engine),
                LoginTable(engine),
                audit,
                links,
            ),
            *(Work(engine, clock), Deliveries(engine, clock), room, clock),
        )

    def close(self) -> None:
        self.engine.dispose()

    def problem(self) -> str:
        """Why what is kept cannot be believed now, in words without a path; empty if nothing is known. Costs little."""
        if self.damage:
            return self.damage[-1]
        for place, inode in self.places.items():
            what = "the data folder" if place.name == IDENTITY_FILE else "the file of the database"
            try:
                if place.stat().st_ino != inode:
                    return f"{what} was replaced while the server ran; restart it"
            except OSError:
                return f"{what} is gone"
        return ""

    def verify(self) -> str:
        """Have the whole database looked through; what is wrong with it."""
        found = damage_of(self.engine)
        if found and DAMAGED not in self.damage:
            self.damage.append(DAMAGED)
        return found

    @contextmanager
    def own_folder(self, analysis: Analysis) -> Iterator[None]:
        """Be the server of this folder, which there is one of, and take up what the last one left.

        Commands beside it (tokens, prune) need no such thing.
        """
        with lock_folder(self.folder):
            self.take_up(analysis)
            yield

    def take_up(self, analysis: Analysis) -> None:
        """What had arrived becomes a bundle, what was running waits again, and what has no file any more says so."""
        for key in self.uploads.list_arrived():
            with suppress(GoneError):  # its file is not there either
                self.accept(key, analysis)
        with write_transaction(self.engine) as connection:
            mark_lost(connection, self.content, self.clock())
        self.jobs.take_up()
        index_missing(self.engine)

    def accept(self, key: str, analysis: Analysis) -> Accepted:
        """Make a bundle of an upload that has come whole, and queue its analysis; a second time it changes nothing."""
        return self.acceptance_of(key) or self.accept_together([key], analysis)

    def accept_together(self, keys: Sequence[str], analysis: Analysis, case_id: str = "") -> Accepted:
        """Have uploads that have come whole judged as one case, with the files of a case that becomes a new version.

        What is known by its content is not stored again; its analysis is not made again, if it was made in the same way
        or waits to be.
        GoneError if one of them is not there any more, or the case; FilesGoneError if a file of it is not.
        """
        sent = {key: self._content_of(key) for key in dict.fromkeys(keys)}
        with write_transaction(self.engine) as connection:
            rows = connection.execute(select(upload.c.id, upload.c.name, upload.c.owner).where(upload.c.id.in_(sent)))
            found = {row.id: row for row in rows}
            if not found or len(found) < len(sent):
                raise GoneError("no such upload")
            thread, before = self._files_of_case(connection, case_id)
            parts = distinct_parts([*before, *(Part(sent[key], found[key].name) for key in sent)])
            if len(parts) > MAX_FILES:
                raise StoreFullError(f"a case has at most {MAX_FILES} files; pack them")
            now, owner = self.clock(), found[keys[0]].owner
            whole = parts[0].sha256 if len(parts) == 1 else manifest_digest(parts)
            name = set_name(parts)
            known = connection.scalar(select(bundle.c.sha256).where(bundle.c.sha256 == whole)) is not None
            self._hold_contents(connection, whole, parts, sent.values(), now)
            task = _queue(connection, JobRequest(whole, name, owner, analysis.options, thread), analysis, now)
            self._finish(connection, sent, task, now)
            row = connection.execute(
                select(job.c.sha256, job.c.id.label("job"), case.c.id.label("case"))
                .select_from(job.outerjoin(case, job.c.case == case.c.number))
                .where(job.c.number == task)
            ).one()
            sizes = select(func.sum(bundle.c.size)).where(bundle.c.sha256.in_([one.sha256 for one in parts]))
            return Accepted(row.sha256, int(connection.scalar(sizes) or 0), row.job, row.case, known)

    def analyse_again(self, key: str, analysis: Analysis, owner: str) -> str | None:
        """The job that makes a new version of a case by this analysis; None if it was made by that.

        GoneError without such a case, FilesGoneError if its files are no longer stored.
        """
        with write_transaction(self.engine) as connection:
            columns = (case.c.thread, case.c.sha256, case.c.name, case.c.analysis)
            row = connection.execute(select(*columns).where(case.c.id == key)).first()
            if row is None or not lock_bundle(connection, row.sha256):
                raise GoneError("no such case")
            if row.analysis == analysis_key(analysis):
                return None
            whole = (row.sha256, *(one.sha256 for one in parts_of(connection, row.sha256)))
            if not all(map(self.content.has, whole)):
                raise FilesGoneError("files of the case are no longer stored")
            wanted = JobRequest(row.sha256, row.name, owner, analysis.options, row.thread)
            task = _queue(connection, wanted, analysis, self.clock())
            return str(connection.scalar(select(job.c.id).where(job.c.number == task)))

    def _content_of(self, key: str) -> str:
        """The digest of an upload that has come whole, on its way or as a bundle."""
        known = self.uploads.find(key)
        if known is None:
            raise GoneError("no such upload")
        if known.state != FINISHED:
            return self.uploads.arrive(key)[0]
        if known.sha256 is None or not self.content.has(known.sha256):
            raise GoneError("the file of the upload is gone")
        return known.sha256

    def _files_of_case(self, connection: Connection, key: str) -> tuple[int | None, Sequence[Part]]:
        """The thread of a case and its files, which are all there; nothing if no case is named."""
        if not key:
            return None, ()
        row = connection.execute(select(case.c.thread, case.c.sha256, case.c.name).where(case.c.id == key)).first()
        if row is None:
            raise GoneError("no such case")
        parts = parts_of(connection, row.sha256) or (Part(row.sha256, row.name),)
        if not all(self.content.has(one.sha256) for one in parts):
            raise FilesGoneError("files of the case are no longer stored")
        return row.thread, parts

    def _hold_contents(
        self, connection: Connection, whole: str, parts: Sequence[Part], came: Iterable[str], now: float
    ) -> None:
        """Hold the rows of a set and of its files, which are made where there are none: the set first, as who deletes.

        The files of uploads come in later; the list of files is put here.
        """
        new = set(came)
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
        for one in sorted(parts):
            at = self.content.path(one.sha256)
            if not at.exists() and one.sha256 not in new:
                raise FilesGoneError("files of the case are no longer stored")
            add_bundle(connection, one.sha256, self._size_of(connection, one.sha256), now)
        if len(parts) > 1:
            add_parts(connection, whole, parts)

    def _size_of(self, connection: Connection, sha256: str) -> int:
        place = self.content.path(sha256)
        if place.exists():
            return place.stat().st_size
        return int(connection.scalar(select(upload.c.size).where(upload.c.sha256 == sha256).limit(1)) or 0)

    def _finish(self, connection: Connection, sent: Mapping[str, str], task: int, now: float) -> None:
        """Uploads become bundles, whose rows are there; their files come in."""
        ended = {"state": FINISHED, "reserved": 0, "ended": now, "job": task}
        connection.execute(update(upload).where(upload.c.id.in_(sent)).values(ended))
        for key, sha256 in sent.items():
            file = self.uploads.file(key)
            if file.exists():  # last of all; if a process ended between that and the rows, it is in already
                self.content.put(file, sha256)
            elif not self.content.has(sha256):
                raise GoneError("the file of the upload is gone")

    def acceptance_of(self, key: str) -> Accepted | None:
        """What became of an upload; None as long as nothing has."""
        if not is_id(key):
            return None
        with read_transaction(self.engine) as connection:
            return _find_accepted(connection, key)


def _queue(connection: Connection, wanted: JobRequest, analysis: Analysis, now: float) -> int:
    """The number of the job that does it: one that is done if the case is there, one that waits, or a new one."""
    number = case_number(connection, wanted.sha256, analysis)
    again = find_live_job(connection, wanted) if number is None else None
    return add_job(connection, wanted, now, number) if again is None else again


def _find_accepted(connection: Connection, key: str) -> Accepted | None:
    columns = (upload.c.sha256, upload.c.size, job.c.id.label("job"), case.c.id.label("case"))
    whole = upload.join(job, upload.c.job == job.c.number).outerjoin(case, job.c.case == case.c.number)
    row = connection.execute(select(*columns).select_from(whole).where(upload.c.id == key)).first()
    return None if row is None else Accepted(*row)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep servers from a folder; StoreBusyError if one runs on it."""
    try:
        lock = Lock(folder, Busy.REFUSE, lambda _: None)
    except StoreBusyError as error:
        raise StoreBusyError(f"{folder}: another server runs on this folder") from error
    try:
        yield
    finally:
        lock.release()


def _note_damage(damage: list[str], context: ExceptionContext) -> None:
    """Remember that the file of the database is damaged: nothing that it says later is believed."""
    code = getattr(context.original_exception, "sqlite_errorcode", 0) & 0xFF
    if code in DAMAGE_CODES and DAMAGED not in damage:
        damage.append(DAMAGED)


def _folder_identity(folder: Path) -> str:
    """The identity of a folder, which is made with it."""
    file = folder / IDENTITY_FILE
    if file.exists():
        return file.read_text("ascii").strip()
    part = folder / f".folder.{new_id()}"
    with part.open("x", encoding="ascii") as out:
        out.write(f"{new_id()}\n")
        out.flush()
        os.fsync(out.fileno())  # or a power failure leaves an empty file, to which no database belongs
    try:
        os.link(part, file)  # of two that begin at once the first names it
    except FileExistsError:
        pass
    finally:
        part.unlink()
    sync_folder(folder)
    return file.read_text("ascii").strip()
