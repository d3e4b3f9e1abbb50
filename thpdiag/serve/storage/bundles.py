"""Bundles: their files, disk space, file sets, and their rows.

Files are `bundles/ab/cdef...` by digest: untrusted names are never part of a path. A file is moved in by an atomic
rename and is read-only afterwards. Changes to the row or the file of a bundle hold a lock on the row, so that a removal
cannot race with an addition.

Disk space is limited by the quota, by the free space and per owner. It is reserved in the database before bytes are
written, so that two senders do not get the same space. Stored bundles and reservations of uploads count. A reservation
is what has arrived plus one step, independent of the announced size, so that announcing a large upload does not block
others. Rows of the database are small and covered by `spare`.

Several files that are analysed together are a bundle that lists other bundles (a file set): a small JSON manifest among
the bundles, named by its own digest, so that the same files in any order are the same bundle. The rows of `part` have
the same content; a lost database is rebuilt from the manifests. Names are unique within the set and used for detection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256 as digest
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, delete, exists, func, or_, select, update

from thpdiag.errors import StoreFullError
from thpdiag.model.document import compact
from thpdiag.serve.storage.database import (
    FINISHED,
    advisory_lock,
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
from thpdiag.serve.storage.jobs import FAILED, FILE_GONE, LIVE_STATES

SPARE_BYTES: Final = 1 << 30
_RESERVATION_LOCK: Final = 0x54687052  # the lock of PostgreSQL under which room is given: "ThpR"


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """`quota`: bytes of all bundles and uploads (None: as many as fit); `spare`: bytes that stay free on the disk.

    Per owner: `owner_quota` in bytes (None: `owner_share` of the total), bundles with their cases, unfinished uploads
    and concurrent analyses; None: no limit.
    """

    quota: int | None = None
    spare: int = SPARE_BYTES
    owner_quota: int | None = None
    owner_share: float = 1.0
    owner_cases: int | None = None
    owner_uploads: int | None = None
    owner_jobs: int | None = None


def free_bytes(folder: Path) -> int:
    """Return the bytes available to an unprivileged user."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


class Room:
    def __init__(self, spool: Path, limits: StorageLimits, free: Callable[[Path], int] = free_bytes) -> None:
        self._spool, self._limits, self._free = spool, limits, free

    @property
    def quota(self) -> int | None:
        return self._limits.quota

    def free(self) -> int:
        """Return the free bytes of the disk."""
        return self._free(self._spool)

    def used_bytes(self, connection: Connection) -> tuple[int, int]:
        """Return the bytes reserved by uploads and the bytes of stored bundles."""
        reserved = connection.scalar(select(func.sum(upload.c.reserved)))
        stored = connection.scalar(select(func.sum(bundle.c.size)).where(bundle.c.removed.is_(None)))
        return int(reserved or 0), int(stored or 0)

    def admit(self, connection: Connection, owner: str, now: float) -> None:
        """StoreFullError if the owner has too many uploads or cases; `connection` is in a write transaction."""
        advisory_lock(connection, _RESERVATION_LOCK)
        unfinished = (upload.c.owner == owner) & upload.c.job.is_(None) & (upload.c.expires > now)
        uploads = select(func.count()).where(unfinished)
        cases = select(func.count(upload.c.sha256.distinct())).where(_is_accepted_from(owner))
        for limit, count, advice in (
            (self._limits.owner_uploads, uploads, "unfinished uploads; finish or end some"),
            (self._limits.owner_cases, cases, "cases; delete some or wait until they expire"),
        ):
            if limit is not None and int(connection.scalar(count) or 0) >= limit:
                raise StoreFullError(f"this sender already has {limit:,} {advice}")

    def reserve(self, connection: Connection, owner: str, more: int) -> None:
        """StoreFullError if there is no room for `more` bytes; `connection` is in a write transaction."""
        advisory_lock(connection, _RESERVATION_LOCK)
        reserved, stored = self.used_bytes(connection)
        quota = self._limits.quota
        if quota is not None and reserved + stored + more > quota:
            raise StoreFullError(f"the quota of {quota} bytes has no room for {more} more; delete cases or prune")
        rows = connection.execute(select(upload.c.id, upload.c.reserved).where(upload.c.reserved > 0))
        pending = sum(max(0, reserved - _file_size(self._spool / key)) for key, reserved in rows)  # not on disk yet
        left = self.free() - pending - self._limits.spare
        if left < more:
            raise StoreFullError(f"the disk has no room for {more} more bytes; delete cases or prune")
        total = reserved + stored + left if quota is None else min(quota, reserved + stored + left)
        limit, used = self._limits.owner_quota or int(total * self._limits.owner_share), _owner_bytes(connection, owner)
        if used + more > limit:
            raise StoreFullError(
                f"this sender has {used} of at most {limit} bytes, so there is no room for {more} more; delete cases"
            )


def _is_accepted_from(owner: str) -> ColumnElement[bool]:
    """Condition on an upload: it was sent by the owner and has become a bundle."""
    return (upload.c.owner == owner) & upload.c.job.is_not(None)


def _owner_bytes(connection: Connection, owner: str) -> int:
    """Return the bytes reserved by uploads of an owner and those of bundles that they have sent."""
    reserved = connection.scalar(select(func.sum(upload.c.reserved)).where(upload.c.owner == owner))
    sent = select(upload.c.sha256).where(_is_accepted_from(owner))
    stored = select(func.sum(bundle.c.size)).where(bundle.c.removed.is_(None), bundle.c.sha256.in_(sent))
    return int(reserved or 0) + int(connection.scalar(stored) or 0)


def _file_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it became a bundle meanwhile
        return 0


class Content:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the path of a bundle, stored or not; ValueError if `sha256` is not a digest."""
        if not is_sha256(sha256):
            raise ValueError("no sha256 in hexadecimal")
        return self._folder / sha256[:2] / sha256[2:]

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def put(self, file: Path, sha256: str) -> None:
        """Move in a file that was synced; it replaces one of the same content."""
        path = self.path(sha256)
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._folder)
        file.chmod(0o400)
        os.utime(file)  # protects it from the removal of stray files until its row is committed
        file.replace(path)
        sync_folder(path.parent)

    def remove(self, sha256: str) -> int:
        """Delete a file and return its size, 0 if there is none."""
        path = self.path(sha256)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        sync_folder(path.parent)
        return size

    def files(self) -> Iterator[tuple[str, float]]:
        """Yield digest and modification time of each file that is named like a bundle."""
        for file in self._folder.glob("??/*"):
            sha256 = file.parent.name + file.name
            if is_sha256(sha256) and file.is_file():
                yield sha256, file.stat().st_mtime


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


MANIFEST_KIND: Final = "thpdiag file set 1"
MAX_FILES: Final = 200
MAX_MANIFEST_BYTES: Final = MAX_FILES * 2_000


class Part(NamedTuple):
    """One file of a set: the digest of its content, and its name within the set."""

    sha256: str
    name: str


def distinct_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return each content once, sorted by name; a repeated name gets a number before its extension: `sar-2.txt`."""
    by_content: dict[str, str] = {}
    for sha256, name in parts:
        by_content.setdefault(sha256, name)
    used_names: set[str] = set()
    distinct = []
    for name, sha256 in sorted((name, sha256) for sha256, name in by_content.items()):
        stem, dot, extension = name.partition(".") if not name.startswith(".") else (name, "", "")
        unique, number = name, 2
        while unique.casefold() in used_names:
            unique, number = f"{stem}-{number}{dot}{extension}", number + 1
        used_names.add(unique.casefold())
        distinct.append(Part(sha256, unique))
    return tuple(distinct)


def manifest(parts: Sequence[Part]) -> bytes:
    """Return the content of the manifest of a file set."""
    return compact({"kind": MANIFEST_KIND, "files": [list(part) for part in parts]}).encode()


def manifest_digest(parts: Sequence[Part]) -> str:
    return digest(manifest(parts)).hexdigest()


def read_manifest(file: Path) -> tuple[Part, ...]:
    """Return the files of a manifest; none if the stored bundle is not a valid manifest."""
    if file.stat().st_size > MAX_MANIFEST_BYTES:
        return ()
    try:
        value: Any = json.loads(file.read_bytes())
        parts = tuple(Part(sha256, name) for sha256, name in value["files"]) if value["kind"] == MANIFEST_KIND else ()
    except (ValueError, TypeError, LookupError, RecursionError):
        return ()
    is_valid = all(is_sha256(part.sha256) and isinstance(part.name, str) for part in parts)
    return parts if is_valid and manifest(parts) == file.read_bytes() else ()


def set_name(parts: Sequence[Part]) -> str:
    """Return the name of a case of these files, after the first one."""
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def add_parts(connection: Connection, whole: str, parts: Sequence[Part]) -> None:
    """Add the rows of a file set; the rows of all its bundles must exist."""
    rows = [{"whole": whole, "place": place, **file._asdict()} for place, file in enumerate(parts)]
    connection.execute(upsert(connection, part).on_conflict_do_nothing(), rows)


def read_parts(connection: Connection, whole: str) -> tuple[Part, ...]:
    """Return the files of a set in order; none if the bundle is a single file."""
    rows = select(part.c.sha256, part.c.name).where(part.c.whole == whole).order_by(part.c.place)
    return tuple(Part(*row) for row in connection.execute(rows))


def is_part_of(whole: ColumnElement[str]) -> ColumnElement[bool]:
    """Condition on a bundle: it is a file of that set."""
    return exists().where(part.c.sha256 == bundle.c.sha256, part.c.whole == whole)


@dataclass(frozen=True, slots=True)
class Bundle:
    """`stored` is the time of the last upload of the content, `removed` that of the removal of its file, if any."""

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
        """Return the files of a set; none if the bundle is a single file."""
        with read_transaction(self._engine) as connection:
            return read_parts(connection, sha256)

    def files(self, sha256: str) -> list[tuple[Part, Bundle]]:
        """Return the files of a set with their rows, or a single file with an empty name."""
        parts = self.parts(sha256) or (Part(sha256, ""),)
        pairs = ((part, self.find(part.sha256)) for part in parts)
        return [(part, row) for part, row in pairs if row is not None]

    def total(self) -> int:
        """Return the number of bundles, including those whose file was removed."""
        return int(fetch_value(self._engine, select(func.count()).select_from(bundle)) or 0)


def add_bundle(connection: Connection, sha256: str, size: int, now: float) -> None:
    """Add or update the row of a stored content and lock it until the end of the transaction."""
    add = upsert(connection, bundle).values(sha256=sha256, size=size, stored=now, removed=None)
    changes = {"size": add.excluded.size, "stored": add.excluded.stored, "removed": None}
    connection.execute(add.on_conflict_do_update(index_elements=["sha256"], set_=changes))


def has_live_job() -> ColumnElement[bool]:
    """Condition on a bundle: an analysis of it, or of a set that contains it, is queued or running."""
    same = or_(job.c.sha256 == bundle.c.sha256, is_part_of(job.c.sha256))
    return exists().where(same, job.c.state.in_(LIVE_STATES))


def has_kept_case() -> ColumnElement[bool]:
    """Condition on a bundle: a case of it, or of a set that contains it, is excluded from retention."""
    return exists().where(or_(case.c.sha256 == bundle.c.sha256, is_part_of(case.c.sha256)), case.c.kept.is_(True))


def delete_orphaned_uploads(connection: Connection, sha256: str) -> None:
    """Delete rows of finished uploads whose job was deleted with its case."""
    orphaned = (upload.c.sha256 == sha256) & upload.c.job.is_(None) & (upload.c.state == FINISHED)
    connection.execute(delete(upload).where(orphaned))


def remove_unused_bundle(connection: Connection, content: Content, sha256: str) -> int:
    """Remove a locked bundle with its rows if no case, set or live job uses it; return the bytes freed.

    The files of a set are removed with it unless they are used otherwise. Uploads that have arrived but are not
    accepted yet stay. The file is removed within the transaction, so that no process can add the same content in
    between. If the process ends before the commit, the row remains and the next start marks it as removed.
    """
    same = bundle.c.sha256 == sha256
    used = or_(exists().where(case.c.sha256 == bundle.c.sha256), exists().where(part.c.sha256 == bundle.c.sha256))
    if connection.execute(select(bundle.c.sha256).where(same, ~used, ~has_live_job())).first() is None:
        return 0
    files = sorted(read_parts(connection, sha256))
    connection.execute(delete(upload).where(upload.c.sha256 == sha256, upload.c.state == FINISHED))
    connection.execute(delete(job).where(job.c.sha256 == sha256))
    connection.execute(delete(bundle).where(same))
    freed = content.remove(sha256)
    for file in files:
        if lock_bundle(connection, file.sha256):
            delete_orphaned_uploads(connection, file.sha256)
            freed += remove_unused_bundle(connection, content, file.sha256)
    return freed


def remove_bundle_file(connection: Connection, content: Content, sha256: str, now: float) -> int:
    """Remove the file of a locked bundle, whose cases stay; return the bytes freed."""
    connection.execute(update(bundle).where(bundle.c.sha256 == sha256).values(removed=now))
    return content.remove(sha256)


def mark_lost(connection: Connection, content: Content, now: float) -> None:
    """Mark bundles whose file is missing as removed, and fail their queued and running jobs."""
    for sha256 in connection.scalars(select(bundle.c.sha256).where(bundle.c.removed.is_(None))).all():
        if not content.has(sha256):
            remove_bundle_file(connection, content, sha256, now)
            failed = {"state": FAILED, "claim": None, "ended": now, "status": "gone", "reason": FILE_GONE}
            wholes = select(part.c.whole).where(part.c.sha256 == sha256)
            waiting = or_(job.c.sha256 == sha256, job.c.sha256.in_(wholes)) & job.c.state.in_(LIVE_STATES)
            connection.execute(update(job).where(waiting).values(failed))
