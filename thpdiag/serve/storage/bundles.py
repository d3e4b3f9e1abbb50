"""Bundles: their content on disk with the room for more, sets of files that are one bundle, and their rows.

`bundles/ab/cdef...`: no name of a stranger is part of a path. A file comes in by a rename, whole or not at all, and is
read-only from then on. Whoever changes the row or the file of a bundle holds the row in the database, so that none
removes what another has just put.

Room for more bytes is what the quota leaves and the disk has, and of it what one owner may have. It is reserved in the
database before a byte is written, so that two senders are not given the same room. What counts is what bundles take and
what uploads under way have reserved: what has arrived of each and a step more, whatever was announced, so that who
announces much and sends nothing keeps nobody out. Rows of the database are small and covered by `spare`.

Several files that are judged together are a bundle that is a list of others: a small JSON file among the bundles, named
by its own digest like all of them, so that the same files make the same bundle in whatever order they came. The rows of
`part` say the same; a database that is lost is made again from the files. Names tell the files apart within the set and
decide what a file is taken for.
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
    """Bytes that all bundles and uploads may take (None: as many as fit), and bytes that stay free on the disk.

    The others are of one owner: bytes (None: a share of what all may take), bundles with their cases, uploads that are
    not finished, analyses at a time; None for as many as they like.
    """

    quota: int | None = None
    spare: int = SPARE_BYTES
    owner_quota: int | None = None
    owner_share: float = 1.0
    owner_cases: int | None = None
    owner_uploads: int | None = None
    owner_jobs: int | None = None


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


class Room:
    def __init__(self, spool: Path, limits: StorageLimits, free: Callable[[Path], int] = free_bytes) -> None:
        self._spool, self._limits, self._free = spool, limits, free

    @property
    def quota(self) -> int | None:
        return self._limits.quota

    def free(self) -> int:
        """Bytes that may still be written on the disk."""
        return self._free(self._spool)

    def used_bytes(self, connection: Connection) -> tuple[int, int]:
        """Bytes that uploads have reserved, and bytes of bundles."""
        reserved = connection.scalar(select(func.sum(upload.c.reserved)))
        stored = connection.scalar(select(func.sum(bundle.c.size)).where(bundle.c.removed.is_(None)))
        return int(reserved or 0), int(stored or 0)

    def admit(self, connection: Connection, owner: str, now: float) -> None:
        """StoreFullError if this owner may not begin another upload; `connection` is one that writes."""
        advisory_lock(connection, _RESERVATION_LOCK)
        finished, most = _is_bundle_of(owner), self._limits
        unfinished = (upload.c.owner == owner) & upload.c.job.is_(None) & (upload.c.expires > now)
        for limit, counted, advice in (
            (most.owner_uploads, select(func.count()).where(unfinished), "unfinished uploads; finish or end some"),
            (
                most.owner_cases, select(func.count(upload.c.sha256.distinct())).where(finished),
                "cases; delete some or wait until they expire",
            ),
        ):  # fmt: skip
            if limit is not None and int(connection.scalar(counted) or 0) >= limit:
                raise StoreFullError(f"this sender already has {limit:,} {advice}")

    def reserve(self, connection: Connection, owner: str, more: int) -> None:
        """StoreFullError if `more` bytes cannot be promised to this owner; `connection` is one that writes."""
        advisory_lock(connection, _RESERVATION_LOCK)
        reserved, stored = self.used_bytes(connection)
        quota = self._limits.quota
        if quota is not None and reserved + stored + more > quota:
            raise StoreFullError(f"the quota of {quota} bytes has no room for {more} more; delete cases or prune")
        rows = connection.execute(select(upload.c.id, upload.c.reserved).where(upload.c.reserved > 0))
        promised = sum(max(0, reserved - _file_size(self._spool / key)) for key, reserved in rows)  # not on disk yet
        left = self.free() - promised - self._limits.spare
        if left < more:
            raise StoreFullError(f"the disk has no room for {more} more bytes; delete cases or prune")
        whole = reserved + stored + left if quota is None else min(quota, reserved + stored + left)
        limit, own = self._limits.owner_quota or int(whole * self._limits.owner_share), _taken_by(connection, owner)
        if own + more > limit:
            raise StoreFullError(
                f"this sender has {own} of at most {limit} bytes, so there is no room for {more} more; delete cases"
            )


def _is_bundle_of(owner: str) -> ColumnElement[bool]:
    """Of an upload: that it has become a bundle, and was theirs."""
    return (upload.c.owner == owner) & upload.c.job.is_not(None)


def _taken_by(connection: Connection, owner: str) -> int:
    """Bytes that uploads of an owner have reserved, and of the bundles that they have sent; others may have too."""
    reserved = connection.scalar(select(func.sum(upload.c.reserved)).where(upload.c.owner == owner))
    sent = select(upload.c.sha256).where(_is_bundle_of(owner))
    theirs = select(func.sum(bundle.c.size)).where(bundle.c.removed.is_(None), bundle.c.sha256.in_(sent))
    return int(reserved or 0) + int(connection.scalar(theirs) or 0)


def _file_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it became a bundle in this moment
        return 0


class Content:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Where a bundle is, or would be; ValueError for what is no digest."""
        if not is_sha256(sha256):
            raise ValueError("no sha256 in hexadecimal")
        return self._folder / sha256[:2] / sha256[2:]

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def put(self, file: Path, sha256: str) -> None:
        """Move a file in, which is on the disk already; it replaces one of the same content."""
        place = self.path(sha256)
        if not place.parent.is_dir():
            place.parent.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._folder)
        file.chmod(0o400)
        os.utime(file)  # from now on it counts as new: its row may not be seen by others yet
        file.replace(place)
        sync_folder(place.parent)

    def remove(self, sha256: str) -> int:
        """Unlink it; how many bytes that were."""
        place = self.path(sha256)
        try:
            size = place.stat().st_size
            place.unlink()
        except FileNotFoundError:
            return 0
        sync_folder(place.parent)
        return size

    def files(self) -> Iterator[tuple[str, float]]:
        """Digest and time of change of every file that has the name of a bundle."""
        for file in self._folder.glob("??/*"):
            sha256 = file.parent.name + file.name
            if is_sha256(sha256) and file.is_file():
                yield sha256, file.stat().st_mtime


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


KIND: Final = "thpdiag file set 1"
MAX_FILES: Final = 200
MAX_MANIFEST_BYTES: Final = MAX_FILES * 2_000


class Part(NamedTuple):
    """One file of a set: its content, and its name within the set."""

    sha256: str
    name: str


def distinct_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Each content once, by name; of two of one name the second gets a number before its ending: `sar-2.txt`."""
    by_content: dict[str, str] = {}
    for sha256, name in parts:
        by_content.setdefault(sha256, name)
    taken: set[str] = set()
    found = []
    for name, sha256 in sorted((name, sha256) for sha256, name in by_content.items()):
        stem, dot, ending = name.partition(".") if not name.startswith(".") else (name, "", "")
        own, number = name, 2
        while own.casefold() in taken:
            own, number = f"{stem}-{number}{dot}{ending}", number + 1
        taken.add(own.casefold())
        found.append(Part(sha256, own))
    return tuple(found)


def manifest(parts: Sequence[Part]) -> bytes:
    """The file that stands for the set."""
    return compact({"kind": KIND, "files": [list(one) for one in parts]}).encode()


def manifest_digest(parts: Sequence[Part]) -> str:
    return digest(manifest(parts)).hexdigest()


def read_manifest(file: Path) -> tuple[Part, ...]:
    """The files that a stored bundle lists; none if it is no list of this form."""
    if file.stat().st_size > MAX_MANIFEST_BYTES:
        return ()
    try:
        told: Any = json.loads(file.read_bytes())
        parts = tuple(Part(sha256, name) for sha256, name in told["files"]) if told["kind"] == KIND else ()
    except (ValueError, TypeError, LookupError, RecursionError):
        return ()
    proper = all(is_sha256(one.sha256) and isinstance(one.name, str) for one in parts)
    return parts if proper and manifest(parts) == file.read_bytes() else ()


def set_name(parts: Sequence[Part]) -> str:
    """What a case of these files is called: by the first of them."""
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def add_parts(connection: Connection, whole: str, parts: Sequence[Part]) -> None:
    """Write down the files of a set; rows of all these bundles are there."""
    rows = [{"whole": whole, "place": at, **one._asdict()} for at, one in enumerate(parts)]
    connection.execute(upsert(connection, part).on_conflict_do_nothing(), rows)


def parts_of(connection: Connection, whole: str) -> tuple[Part, ...]:
    """The files of a bundle that is a set, in order; none of any other."""
    rows = select(part.c.sha256, part.c.name).where(part.c.whole == whole).order_by(part.c.place)
    return tuple(Part(*row) for row in connection.execute(rows))


def is_part_of(whole: ColumnElement[str]) -> ColumnElement[bool]:
    """Of a bundle: that it is a file of that set."""
    return exists().where(part.c.sha256 == bundle.c.sha256, part.c.whole == whole)


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
