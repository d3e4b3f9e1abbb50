"""Content of bundles on disk, and the room for more. `bundles/ab/cdef...`: no name of a stranger is part of a path.

A file comes in by a rename, whole or not at all, and is read-only from then on. Who puts and who removes holds the row
of the bundle in the database, so that none removes what another has just put.

Room for more bytes is what the quota leaves and the disk has, and of it what one owner may have. It is reserved in the
database before a byte is written, so that two senders are not given the same room. What counts is what bundles take and
what uploads under way have reserved: what has arrived of each and a step more, whatever was announced, so that who
announces much and sends nothing keeps nobody out. Rows of the database are small and covered by `spare`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from thpdiag.errors import StoreFullError
from thpdiag.serve.storage.database import advisory_lock, bundle, is_sha256, upload

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

    def taken(self, connection: Connection) -> tuple[int, int]:
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
        reserved, stored = self.taken(connection)
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
