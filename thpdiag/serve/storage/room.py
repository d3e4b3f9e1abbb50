"""Whether there is room for more bytes: within the quota, and without filling the disk.

Room is reserved in the database before a byte is written, so that two senders are not given the same room. What counts
is what bundles take and what uploads under way have reserved; rows of the database are small and covered by `spare`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, func, select

from thpdiag.errors import StoreFullError
from thpdiag.serve.storage.database import alone
from thpdiag.serve.storage.form import bundle, upload

SPARE: Final = 1 << 30
_GIVING: Final = 0x54687052  # the lock of PostgreSQL under which room is given: "ThpR"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes that all bundles and uploads may take (None: as many as fit), and bytes that stay free on the disk."""

    quota: int | None = None
    spare: int = SPARE


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class Room:
    def __init__(self, spool: Path, bounds: Bounds, free: Callable[[Path], int] = free_bytes) -> None:
        self._spool, self._bounds, self._free = spool, bounds, free

    def take(self, connection: Connection, more: int) -> None:
        """StoreFullError if `more` bytes cannot be promised; `connection` is one that writes."""
        alone(connection, _GIVING)
        reserved, stored = self.taken(connection)
        quota = self._bounds.quota
        if quota is not None and reserved + stored + more > quota:
            raise StoreFullError(f"the quota of {quota} bytes has no room for {more} more; delete cases or prune")
        if self._free(self._spool) - self._promised(connection) - more < self._bounds.spare:
            raise StoreFullError(f"the disk has no room for {more} more bytes; delete cases or prune")

    @property
    def quota(self) -> int | None:
        return self._bounds.quota

    def free(self) -> int:
        """Bytes that may still be written on the disk."""
        return self._free(self._spool)

    def taken(self, connection: Connection) -> tuple[int, int]:
        """Bytes that uploads have reserved, and bytes of bundles."""
        reserved = connection.scalar(select(func.sum(upload.c.reserved)))
        stored = connection.scalar(select(func.sum(bundle.c.size)).where(bundle.c.removed.is_(None)))
        return int(reserved or 0), int(stored or 0)

    def _promised(self, connection: Connection) -> int:
        """Bytes of uploads under way that are not on the disk yet."""
        rows = connection.execute(select(upload.c.id, upload.c.reserved).where(upload.c.reserved > 0))
        return sum(max(0, reserved - _size(self._spool / key)) for key, reserved in rows)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it became a bundle in this moment
        return 0
