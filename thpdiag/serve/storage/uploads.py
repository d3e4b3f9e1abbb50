"""Uploads: a row in the database and a growing file in the folder `uploads`, named by a random id.

The size of the file is the offset, which is valid after any crash. States of an upload:

    receiving   bytes arrive; it expires after a time without any
    held        complete, waits for others of the same case; it expires if they do not arrive
    arrived     complete on the disk with known sha256; after a crash the next start continues from here
    finished    it is a bundle and has a job

The expiry is stored as wall-clock time, for the next start. Within a process a monotonic clock decides, so that a jump
of the wall clock ends no upload.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from sqlalchemy import Engine, delete, insert, select, update

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.storage.bundles import Room, sync_folder
from thpdiag.serve.storage.database import (
    ARRIVED,
    DAY,
    FINISHED,
    HELD,
    RECEIVING,
    Clock,
    fetch_column,
    fetch_row,
    fetch_rows,
    is_id,
    new_id,
    upload,
    write_transaction,
)
from thpdiag.store.schema import DISK_FULL_ERRNOS

RESERVED_STEP_BYTES: Final = 8 << 20  # reserved at a time
MAX_DIGEST_STATES: Final = 1_000  # uploads whose hash state is in memory; files of older ones are read again
BLOCK_BYTES: Final = 1 << 20


class OffsetError(StoreError):
    """The offset is not the end of the file, or the bytes exceed the announced size."""


class FilesGoneError(StoreError):
    """Files of a case are no longer stored, so that it cannot be analysed again."""


class GoneError(StoreError):
    """There is no such upload: unknown, expired, finished or abandoned."""


@dataclass(frozen=True, slots=True)
class Upload:
    """`size` is None if it was not announced; `offset` is the number of bytes in the file."""

    id: str
    name: str
    owner: str
    size: int | None
    offset: int
    state: str
    sha256: str | None
    begun: float
    expires: float
    held: bool


class RunningDigests:
    """Hashes of growing files: updated in memory, computed again from the file after a restart.

    Thread-safe for different uploads; an upload has one writer at a time.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[str, tuple[int, hashlib._Hash]] = OrderedDict()
        self._lock = Lock()

    def add(self, key: str, file: Path, offset: int, block: bytes) -> str:
        """Add a block written at `offset`, the previous end of the file; return the digest of the complete file."""
        with self._lock:
            hashed, state = self._states.pop(key, (0, hashlib.sha256()))
        if hashed != offset:
            state = _hash_file(file, offset)
        state.update(block)
        with self._lock:
            self._states[key] = (offset + len(block), state)
            while len(self._states) > MAX_DIGEST_STATES:
                self._states.popitem(last=False)
        return state.hexdigest()

    def drop(self, key: str) -> None:
        with self._lock:
            self._states.pop(key, None)


def _hash_file(file: Path, size: int) -> hashlib._Hash:
    state = hashlib.sha256()
    with file.open("rb", buffering=0) as source:
        while size and (block := source.read(min(BLOCK_BYTES, size))):
            state.update(block)
            size -= len(block)
    return state


class Uploads:
    """`patience` is the time in seconds after which an upload without new bytes expires."""

    def __init__(
        self, engine: Engine, spool: Path, room: Room, clock: Clock, steady: Clock, patience: float = DAY
    ) -> None:
        self._engine, self._spool, self._room, self._patience = engine, spool, room, patience
        self._clock, self._steady = clock, steady
        self._digests = RunningDigests()
        self._lock, self._writing = Lock(), set[str]()
        self._reserved: dict[str, int] = {}
        self._deadlines: dict[str, float] = {}  # by the monotonic clock, of uploads that this process has seen

    def begin(self, name: str, size: int | None, owner: str, *, held: bool = False) -> str:
        """Reserve the first step, create the file and return the id; StoreFullError if the announced size has no room.

        `name` is for display. A `held` upload waits until it is combined with others.
        """
        key, now = new_id(), self._clock()
        reserved = RESERVED_STEP_BYTES if size is None else min(size, RESERVED_STEP_BYTES)
        with write_transaction(self._engine) as connection:
            self._room.admit(connection, owner, now)
            self._room.reserve(connection, owner, reserved if size is None else size)
            row = {"id": key, "name": name, "owner": owner, "size": size, "reserved": reserved, "state": RECEIVING}
            times = {"begun": now, "expires": now + self._patience}
            connection.execute(insert(upload).values(row | times | {"held": held}))
            with disk_full_as_store_error():
                os.close(os.open(self.file(key), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                sync_folder(self._spool)
        self._deadlines[key] = self._steady() + self._patience
        return key

    def find(self, key: str) -> Upload | None:
        """Return an upload; None if there is none or it has expired."""
        row = fetch_row(self._engine, select(upload).where(upload.c.id == key)) if is_id(key) else None
        if row is None or (row.state in (RECEIVING, HELD) and self._is_late(key, row.expires)):
            return None
        offset = row.size
        if row.state == RECEIVING:
            file = self.file(key)
            offset = file.stat().st_size if file.exists() else 0
        cells = (row.id, row.name, row.owner, row.size, offset, row.state, row.sha256)
        return Upload(*cells, row.begun, row.expires, row.held)

    def append(self, key: str, offset: int, block: bytes) -> int:
        """Write a block at the end and return the new end. StoreBusyError for a concurrent writer."""
        with self._writer(key):
            current = self.find(key)
            if current is None or current.state != RECEIVING:
                raise GoneError("no such upload")
            if offset != current.offset:
                raise OffsetError(f"the upload is at byte {current.offset}")
            if current.size is not None and offset + len(block) > current.size:
                raise OffsetError(f"more than the {current.size} bytes that were announced")
            self._reserve(current, offset + len(block))
            file = self.file(key)
            try:
                with disk_full_as_store_error():
                    _write_block(file, offset, block)
            except FileNotFoundError as error:
                raise GoneError("no such upload") from error
            self._digests.add(key, file, offset, block)
            self._deadlines[key] = self._steady() + self._patience
        return offset + len(block)

    def arrive(self, key: str, *, held: bool = False) -> tuple[str, int]:
        """Sync a complete upload to the disk, store its sha256 and return it with the size."""
        with self._writer(key):
            current = self.find(key)
            if current is None or current.state == FINISHED:
                raise GoneError("no such upload")
            if current.sha256 is not None:
                return current.sha256, current.offset
            size = current.offset
            if current.size not in (None, size):
                raise OffsetError(f"the upload is at byte {size} of {current.size}")
            file = self.file(key)
            sha256 = self._digests.add(key, file, size, b"")
            with disk_full_as_store_error(), file.open("rb") as content:
                os.fsync(content.fileno())
            with write_transaction(self._engine) as connection:
                values = {"state": HELD if held else ARRIVED, "sha256": sha256, "size": size, "reserved": size}
                connection.execute(update(upload).where(upload.c.id == key).values(values))
            self._forget(key)
        return sha256, size

    def abandon(self, key: str) -> bool:
        """Delete an unfinished upload with its file; return whether there was one."""
        if not is_id(key):
            return False
        with self._writer(key):
            with write_transaction(self._engine) as connection:
                unfinished = (upload.c.id == key) & (upload.c.state != FINISHED)
                is_deleted = connection.execute(delete(upload).where(unfinished)).rowcount > 0
                if is_deleted:
                    self.file(key).unlink(missing_ok=True)
            self._forget(key)
        return is_deleted

    def list_unfinished(self) -> list[Upload]:
        """Return unfinished uploads of all owners, oldest first, without expired ones."""
        begun = select(upload.c.id).where(upload.c.state != FINISHED).order_by(upload.c.begun, upload.c.id)
        return list(filter(None, map(self.find, fetch_column(self._engine, begun))))

    def list_expired(self) -> list[str]:
        rows = select(upload.c.id, upload.c.expires).where(upload.c.state.in_((RECEIVING, HELD)))
        waiting = dict(map(tuple, fetch_rows(self._engine, rows.order_by(upload.c.id))))
        for key in set(self._deadlines) - waiting.keys():
            self._deadlines.pop(key, None)
        return [key for key, expires in waiting.items() if self._is_late(key, expires)]

    def list_arrived(self) -> list[str]:
        """Return uploads that did not become bundles because of a crash."""
        return fetch_column(self._engine, select(upload.c.id).where(upload.c.state == ARRIVED).order_by(upload.c.id))

    def files(self) -> Iterator[tuple[Path, float]]:
        """Yield each file that is named like an upload, with its modification time."""
        for file in sorted(self._spool.iterdir()):
            with suppress(FileNotFoundError):  # it became a bundle meanwhile
                if is_id(file.name):
                    yield file, file.stat().st_mtime

    def file(self, key: str) -> Path:
        if not is_id(key):
            raise ValueError("no id of an upload")
        return self._spool / key

    def _is_late(self, key: str, expires: float) -> bool:
        left = expires - self._clock()
        deadline = self._deadlines.get(key)
        if deadline is None and left > 0:
            deadline = self._deadlines[key] = self._steady() + left
        return deadline is None or deadline <= self._steady()

    def _reserve(self, current: Upload, needed: int) -> None:
        """Extend reservation and expiry of an upload; the database is written only when necessary."""
        now = self._clock()
        if self._reserved.get(current.id, 0) >= needed and current.expires - now > self._patience * 0.9:
            return
        with write_transaction(self._engine) as connection:
            row = upload.c.id == current.id
            reserved = int(connection.scalar(select(upload.c.reserved).where(row)) or 0)
            if reserved < needed:
                more = max(RESERVED_STEP_BYTES, needed - reserved)
                more = more if current.size is None else min(more, current.size - reserved)
                self._room.reserve(connection, current.owner, more)
                reserved += more
            connection.execute(update(upload).where(row).values(reserved=reserved, expires=now + self._patience))
        self._reserved[current.id] = reserved

    def _forget(self, key: str) -> None:
        self._digests.drop(key)
        self._reserved.pop(key, None)

    @contextmanager
    def _writer(self, key: str) -> Iterator[None]:
        with self._lock:
            if key in self._writing:
                raise StoreBusyError("another request writes to this upload")
            self._writing.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._writing.discard(key)


@contextmanager
def disk_full_as_store_error() -> Iterator[None]:
    """Turn a full-disk error of the operating system into a StoreFullError."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise StoreFullError(f"no room for more bytes ({error.strerror}); delete cases or prune") from error


def _write_block(file: Path, offset: int, block: bytes) -> None:
    """Write a complete block, or truncate the file to its previous size on an error."""
    handle = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[os.pwrite(handle, rest, offset + len(block) - len(rest)) :]
    except OSError:
        os.ftruncate(handle, offset)
        raise
    finally:
        os.close(handle)
