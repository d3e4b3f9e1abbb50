"""What is being sent: a row in the database and a growing file in the folder `uploads`, named by a random id.

The length of the file is the offset: it is true after any crash. An upload goes through these states:

    receiving   bytes come; it expires if none came for long
    arrived     all of it is on the disk and its sha256 is known; after a crash the next start takes it up from here
    finished    it is a bundle, and a job of the queue is named
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Engine, delete, insert, select, update

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.storage.clock import DAY, Clock
from thpdiag.serve.storage.content import sync_folder
from thpdiag.serve.storage.database import reading, writing
from thpdiag.serve.storage.digests import Digests
from thpdiag.serve.storage.form import upload
from thpdiag.serve.storage.ids import is_id, new_id
from thpdiag.serve.storage.room import Room
from thpdiag.triage.store.trouble import NO_ROOM

RECEIVING: Final = "receiving"
ARRIVED: Final = "arrived"
FINISHED: Final = "finished"
STEP: Final = 64 << 20  # bytes that are reserved at a time for an upload whose size is not known


class OffsetError(StoreError):
    """Bytes for another place than the end of the file, or beyond the size that was announced."""


class GoneError(StoreError):
    """No upload of this id: never begun, expired, finished or given up."""


@dataclass(frozen=True, slots=True)
class Upload:
    """`size` is None if it was not announced; `offset` is how many bytes are on the disk."""

    id: str
    name: str
    owner: str
    size: int | None
    offset: int
    state: str
    sha256: str | None
    begun: float
    expires: float


_TOLD: Final = ("id", "name", "owner", "size", "state", "sha256", "begun", "expires")


class Uploads:
    def __init__(self, engine: Engine, spool: Path, room: Room, clock: Clock, patience: float = DAY) -> None:
        self._engine, self._spool, self._room, self._clock, self._patience = engine, spool, room, clock, patience
        self._digests = Digests()
        self._lock, self._written = Lock(), set[str]()
        self._reserved: dict[str, int] = {}

    def begin(self, name: str, size: int | None, owner: str) -> str:
        """Reserve room and make the file; StoreFullError if there is none. The name is for people only."""
        key, now, reserved = new_id(), self._clock(), STEP if size is None else size
        with writing(self._engine) as connection:
            self._room.take(connection, reserved)
            row = {
                "id": key, "name": name, "owner": owner, "size": size, "reserved": reserved, "state": RECEIVING,
                "begun": now, "expires": now + self._patience,
            }  # fmt: skip
            connection.execute(insert(upload).values(row))
            with full_disk():
                os.close(os.open(self.file(key), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                sync_folder(self._spool)
        return key

    def found(self, key: str) -> Upload | None:
        """What is known of it; None if it is not there or has expired."""
        if not is_id(key):
            return None
        with reading(self._engine) as connection:
            row = connection.execute(select(upload).where(upload.c.id == key)).mappings().first()
        if row is None or (row["state"] == RECEIVING and row["expires"] <= self._clock()):
            return None
        return self._of(row)

    def append(self, key: str, offset: int, block: bytes) -> int:
        """Write a block at the end; the new end. One writer at a time, another gets StoreBusyError."""
        with self._writer(key):
            known = self.found(key)
            if known is None or known.state != RECEIVING:
                raise GoneError("no such upload")
            if offset != known.offset:
                raise OffsetError(f"the upload is at byte {known.offset}")
            if known.size is not None and offset + len(block) > known.size:
                raise OffsetError(f"more than the {known.size} bytes that were announced")
            self._reserve(known, offset + len(block))
            self._write(known, block)
        return offset + len(block)

    def arrive(self, key: str) -> tuple[str, int]:
        """Have all of it on the disk and write down its sha256, which is returned with the size."""
        with self._writer(key):
            known = self.found(key)
            if known is None or known.state == FINISHED:
                raise GoneError("no such upload")
            if known.sha256 is not None:
                return known.sha256, known.offset
            if known.size not in (None, known.offset):
                raise OffsetError(f"the upload is at byte {known.offset} of {known.size}")
            file = self.file(key)
            sha256 = self._digests.hexdigest(key, file, known.offset)
            with full_disk(), file.open("rb") as whole:
                os.fsync(whole.fileno())
            with writing(self._engine) as connection:
                values = {"state": ARRIVED, "sha256": sha256, "size": known.offset, "reserved": known.offset}
                connection.execute(update(upload).where(upload.c.id == key).values(values))
            self._forget(key)
        return sha256, known.offset

    def abandon(self, key: str) -> bool:
        """Give up what is not finished and remove what came of it."""
        if not is_id(key):
            return False
        with self._writer(key):
            with writing(self._engine) as connection:
                gone = given_up(connection, key)
                if gone:
                    self.file(key).unlink(missing_ok=True)
            self._forget(key)
        return gone

    def expired(self) -> list[str]:
        with reading(self._engine) as connection:
            late = (upload.c.state == RECEIVING) & (upload.c.expires <= self._clock())
            return list(connection.scalars(select(upload.c.id).where(late).order_by(upload.c.id)))

    def arrived(self) -> list[str]:
        """Those that a crash has kept from becoming bundles."""
        with reading(self._engine) as connection:
            return list(connection.scalars(select(upload.c.id).where(upload.c.state == ARRIVED).order_by(upload.c.id)))

    def files(self) -> Iterator[tuple[Path, float]]:
        """Every file that has the name of an upload, with the time of its last change."""
        for file in sorted(self._spool.iterdir()):
            with suppress(FileNotFoundError):  # it became a bundle in this moment
                if is_id(file.name):
                    yield file, file.stat().st_mtime

    def file(self, key: str) -> Path:
        if not is_id(key):
            raise ValueError("no id of an upload")
        return self._spool / key

    def _of(self, row: Any) -> Upload:
        offset = row["size"]
        if row["state"] == RECEIVING:
            file = self.file(row["id"])
            offset = file.stat().st_size if file.exists() else 0
        return Upload(**{name: row[name] for name in _TOLD}, offset=offset)

    def _reserve(self, known: Upload, needed: int) -> None:
        """More room for an upload whose size is not known, and more time for any: written down now and then."""
        now = self._clock()
        have = self._reserved.get(known.id, 0) if known.size is None else needed
        if have >= needed and known.expires - now > self._patience * 0.9:
            return
        with writing(self._engine) as connection:
            mine = upload.c.id == known.id
            reserved = int(connection.scalar(select(upload.c.reserved).where(mine)) or 0)
            if reserved < needed:
                more = max(STEP, needed - reserved)
                self._room.take(connection, more)
                reserved += more
            values = {"reserved": reserved, "expires": now + self._patience}
            connection.execute(update(upload).where(mine).values(values))
        self._reserved[known.id] = reserved

    def _write(self, known: Upload, block: bytes) -> None:
        file = self.file(known.id)
        try:
            with full_disk():
                handle = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    _whole(handle, known.offset, block)
                finally:
                    os.close(handle)
        except FileNotFoundError as error:
            raise GoneError("no such upload") from error
        self._digests.add(known.id, file, known.offset, block)

    def _forget(self, key: str) -> None:
        self._digests.drop(key)
        self._reserved.pop(key, None)

    @contextmanager
    def _writer(self, key: str) -> Iterator[None]:
        with self._lock:
            if key in self._written:
                raise StoreBusyError("another request writes to this upload")
            self._written.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._written.discard(key)


def given_up(connection: Connection, key: str) -> bool:
    """Remove the row of an upload that is no bundle yet; whether there was one."""
    unfinished = (upload.c.id == key) & (upload.c.state != FINISHED)
    return connection.execute(delete(upload).where(unfinished)).rowcount > 0


@contextmanager
def full_disk() -> Iterator[None]:
    """An error of the operating system that means: no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise StoreFullError(f"no room for more bytes ({error.strerror}); delete cases or prune") from error


def _whole(handle: int, offset: int, block: bytes) -> None:
    """Write all of a block, or nothing: what a full disk cut goes away again."""
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[os.pwrite(handle, rest, offset + len(block) - len(rest)) :]
    except OSError:
        os.ftruncate(handle, offset)
        raise
