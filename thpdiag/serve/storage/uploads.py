"""What is being sent: a row in the database and a growing file in the folder `uploads`, named by a random id.

The length of the file is the offset: it is true after any crash. An upload goes through these states:

    receiving   bytes come; it expires if none came for long
    held        all of it is there and waits for others that it is judged with; it expires if they do not come
    arrived     all of it is on the disk and its sha256 is known; after a crash the next start takes it up from here
    finished    it is a bundle, and a job of the queue is named

When one expires is stored as a time of day, for the next start. Within a process a clock that nobody sets decides, so
that a time of day that jumps ends no upload.
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

RESERVED_STEP_BYTES: Final = 8 << 20  # that are reserved at a time beyond what has arrived
MAX_DIGEST_STATES: Final = 1_000  # uploads whose hash is in memory; of more the oldest are read again
BLOCK_BYTES: Final = 1 << 20


class OffsetError(StoreError):
    """Bytes for another place than the end of the file, or beyond the size that was announced."""


class FilesGoneError(StoreError):
    """Files of a case are no longer stored, so that it cannot be judged again."""


class GoneError(StoreError):
    """No upload of this id: never begun, expired, finished or given up."""


@dataclass(frozen=True, slots=True)
class Upload:
    """`size` is None if it was not announced; `offset` is how many bytes came and would outlive a crash."""

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
    """Hashes of files that are still growing: kept in memory while they grow, made again from the file after a restart.

    One writer per upload calls; different uploads may do so at once.
    """

    def __init__(self) -> None:
        self._states: OrderedDict[str, tuple[int, hashlib._Hash]] = OrderedDict()
        self._lock = Lock()

    def add(self, key: str, file: Path, offset: int, block: bytes) -> str:
        """Take in what was written at `offset`, where the file ended; the digest of all of it."""
        with self._lock:
            known, state = self._states.pop(key, (0, hashlib.sha256()))
        if known != offset:
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
    def __init__(
        self, engine: Engine, spool: Path, room: Room, clock: Clock, steady: Clock, patience: float = DAY
    ) -> None:
        self._engine, self._spool, self._room, self._patience = engine, spool, room, patience
        self._clock, self._steady = clock, steady
        self._digests = RunningDigests()
        self._lock, self._writing = Lock(), set[str]()
        self._reserved: dict[str, int] = {}
        self._deadlines: dict[str, float] = {}  # by the steady clock, of those that this process has seen

    def begin(self, name: str, size: int | None, owner: str, *, held: bool = False) -> str:
        """Reserve the first room and make the file; StoreFullError if all of it has none. The name is for people.

        One that is `held` becomes a bundle with others, once somebody says which.
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
        """What is known of it; None if it is not there or has expired."""
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
        """Write a block at the end; the new end. One writer at a time, another gets StoreBusyError."""
        with self._writer(key):
            known = self.find(key)
            if known is None or known.state != RECEIVING:
                raise GoneError("no such upload")
            if offset != known.offset:
                raise OffsetError(f"the upload is at byte {known.offset}")
            if known.size is not None and offset + len(block) > known.size:
                raise OffsetError(f"more than the {known.size} bytes that were announced")
            self._reserve(known, offset + len(block))
            file = self.file(key)
            try:
                with disk_full_as_store_error():
                    _write_block(file, offset, block)
            except FileNotFoundError as error:
                raise GoneError("no such upload") from error
            self._digests.add(key, file, offset, block)
            self._deadlines[key] = self._steady() + self._patience
        return offset + len(block)

    def arrive(self, key: str) -> tuple[str, int]:
        """Have all of it on the disk and write down its sha256, which is returned with the size."""
        return self._arrive(key, ARRIVED)

    def hold(self, key: str) -> tuple[str, int]:
        """The same of one that waits for others."""
        return self._arrive(key, HELD)

    def _arrive(self, key: str, state: str) -> tuple[str, int]:
        with self._writer(key):
            known = self.find(key)
            if known is None or known.state == FINISHED:
                raise GoneError("no such upload")
            if known.sha256 is not None:
                return known.sha256, known.offset
            if known.size not in (None, known.offset):
                raise OffsetError(f"the upload is at byte {known.offset} of {known.size}")
            file = self.file(key)
            sha256 = self._digests.add(key, file, known.offset, b"")
            with disk_full_as_store_error(), file.open("rb") as whole:
                os.fsync(whole.fileno())
            with write_transaction(self._engine) as connection:
                values = {"state": state, "sha256": sha256, "size": known.offset, "reserved": known.offset}
                connection.execute(update(upload).where(upload.c.id == key).values(values))
            self._forget(key)
        return sha256, known.offset

    def abandon(self, key: str) -> bool:
        """Give up what is not finished and remove what came of it."""
        if not is_id(key):
            return False
        with self._writer(key):
            with write_transaction(self._engine) as connection:
                unfinished = (upload.c.id == key) & (upload.c.state != FINISHED)
                gone = connection.execute(delete(upload).where(unfinished)).rowcount > 0
                if gone:
                    self.file(key).unlink(missing_ok=True)
            self._forget(key)
        return gone

    def list_unfinished(self) -> list[Upload]:
        """Those that are under way or given up, of all owners, oldest first; expired ones are left out."""
        begun = select(upload.c.id).where(upload.c.state != FINISHED).order_by(upload.c.begun, upload.c.id)
        return list(filter(None, map(self.find, fetch_column(self._engine, begun))))

    def list_expired(self) -> list[str]:
        wanted = select(upload.c.id, upload.c.expires).where(upload.c.state.in_((RECEIVING, HELD)))
        waiting = dict(map(tuple, fetch_rows(self._engine, wanted.order_by(upload.c.id))))
        for key in set(self._deadlines) - waiting.keys():
            self._deadlines.pop(key, None)
        return [key for key, expires in waiting.items() if self._is_late(key, expires)]

    def list_arrived(self) -> list[str]:
        """Those that a crash has kept from becoming bundles."""
        return fetch_column(self._engine, select(upload.c.id).where(upload.c.state == ARRIVED).order_by(upload.c.id))

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

    def _is_late(self, key: str, expires: float) -> bool:
        left = expires - self._clock()
        deadline = self._deadlines.get(key)
        if deadline is None and left > 0:
            deadline = self._deadlines[key] = self._steady() + left
        return deadline is None or deadline <= self._steady()

    def _reserve(self, known: Upload, needed: int) -> None:
        """More room and more time for an upload, written down now and then."""
        now = self._clock()
        if self._reserved.get(known.id, 0) >= needed and known.expires - now > self._patience * 0.9:
            return
        with write_transaction(self._engine) as connection:
            mine = upload.c.id == known.id
            reserved = int(connection.scalar(select(upload.c.reserved).where(mine)) or 0)
            if reserved < needed:
                more = max(RESERVED_STEP_BYTES, needed - reserved)
                more = more if known.size is None else min(more, known.size - reserved)
                self._room.reserve(connection, known.owner, more)
                reserved += more
            connection.execute(update(upload).where(mine).values(reserved=reserved, expires=now + self._patience))
        self._reserved[known.id] = reserved

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
    """An error of the operating system that means: no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        raise StoreFullError(f"no room for more bytes ({error.strerror}); delete cases or prune") from error


def _write_block(file: Path, offset: int, block: bytes) -> None:
    """Write all of a block, or nothing: what a full disk cut goes away again."""
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
