"""Check, repair, backup and restore of the data folder and the database of a server.

check    verifies the database, then its consistency with the files of bundles and uploads; repairs on request
back_up  writes a tar archive: a consistent copy of serve.sqlite, folder, key, and optionally bundles
restore  extracts a backup into a folder without a database
"""

from __future__ import annotations

import os
import re
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from sqlalchemy import select

from thpdiag.errors import InputError, StoreError, UsageError
from thpdiag.serve.storage.bundles import add_bundle, add_parts, read_manifest, sync_folder
from thpdiag.serve.storage.database import (
    ARRIVED,
    RECEIVING,
    bundle,
    fetch_column,
    fetch_rows,
    find_damage,
    translate_errors,
    upload,
    write_transaction,
)
from thpdiag.serve.storage.jobs import JobRequest, add_job
from thpdiag.serve.storage.storage import DATABASE_FILE, IDENTITY_FILE, Storage, lock_folder
from thpdiag.store.results import Analysis
from thpdiag.store.schema import write_errors

KEY_FILE: Final = "key"
MEMBER: Final = re.compile(r"serve\.sqlite|folder|key|bundles/[0-9a-f]{2}/[0-9a-f]{62}", re.ASCII)
RECOVERED_OWNER: Final = "local:command"


class Flaw(NamedTuple):
    """A description of what is wrong, and of the repair; empty without one."""

    words: str
    repair: str = ""


def check(storage: Storage, analysis: Analysis, *, repair: bool, read: bool) -> Iterator[Flaw]:
    """Yield flaws; `read` compares the content of each bundle with its digest.

    A repair requires that no server runs. Bundles without a row are queued for an analysis.
    """
    if damage := find_damage(storage.engine, "integrity_check"):
        repaired = repair and _rebuild_indexes(storage)
        yield Flaw(f"database: {damage}", "its indexes were made again" if repaired else "")
        if not repaired:
            return  # a damaged database cannot be compared with the files
    if repair:
        for key in storage.uploads.list_arrived():
            with suppress(StoreError):
                storage.accept(key, analysis)
    yield from _check_bundles(storage, analysis, repair=repair, read=read)
    yield from _check_uploads(storage, repair=repair)


def _rebuild_indexes(storage: Storage) -> bool:
    """Rebuild the indexes; return whether the database is intact after that."""
    with suppress(sqlite3.Error), closing(storage.engine.raw_connection()) as connection:
        connection.cursor().execute("REINDEX")
    return not find_damage(storage.engine, "integrity_check")


def _check_bundles(storage: Storage, analysis: Analysis, *, repair: bool, read: bool) -> Iterator[Flaw]:
    files = {sha256 for sha256, _ in storage.content.files()}
    rows = {row.sha256: row for row in fetch_rows(storage.engine, select(bundle))}
    arrived = set(fetch_column(storage.engine, select(upload.c.sha256).where(upload.c.state == ARRIVED)))
    for sha256, row in sorted(rows.items()):
        if sha256 not in files:
            if row.removed is None:
                yield Flaw(f"bundle {sha256}: its file is gone", "it is marked as gone" if repair else "")
        elif row.removed is not None:
            if repair:
                storage.content.remove(sha256)
            yield Flaw(f"bundle {sha256}: its file had to be deleted", "it was deleted" if repair else "")
        elif words := _content_problem(storage.content.path(sha256), sha256, row.size, read=read):
            yield Flaw(f"bundle {sha256}: {words}; delete its cases")
    contents = {key: storage.content.path(key) for key in files - rows.keys() - arrived}
    for sha256 in sorted(contents, key=lambda key: (bool(read_manifest(contents[key])), key)):  # file sets last
        if repair:
            _recover(storage, sha256, analysis)
        yield Flaw(f"bundle {sha256}: not in the database", "it is queued to be analyzed" if repair else "")
    if repair:
        storage.resume(analysis)


def _recover(storage: Storage, sha256: str, analysis: Analysis) -> None:
    """Add rows for a stored bundle and queue its analysis. The files of a set have rows already."""
    request = JobRequest(sha256, f"{sha256[:12]}.recovered", RECOVERED_OWNER, analysis.options)
    with write_transaction(storage.engine) as connection:
        now, file = storage.clock(), storage.content.path(sha256)
        add_bundle(connection, sha256, file.stat().st_size, now)
        add_job(connection, request, now, None)
        parts = read_manifest(file)
        if parts and {part.sha256 for part in parts} <= set(connection.scalars(select(bundle.c.sha256))):
            add_parts(connection, sha256, parts)


def _content_problem(file: Path, sha256: str, size: int, *, read: bool) -> str:
    actual = file.stat().st_size
    if actual != size:
        return f"its file has {actual} bytes in place of {size}"
    if read:
        with file.open("rb") as content:
            if file_digest(content, "sha256").hexdigest() != sha256:
                return "its file has other bytes"
    return ""


def _check_uploads(storage: Storage, *, repair: bool) -> Iterator[Flaw]:
    files = {file.name: file for file, _ in storage.uploads.files()}
    known = set(fetch_column(storage.engine, select(upload.c.id)))
    receiving = select(upload.c.id).where(upload.c.state == RECEIVING)
    for key in fetch_column(storage.engine, receiving.order_by(upload.c.id)):
        if key not in files:
            if repair:
                storage.uploads.abandon(key)
            yield Flaw(f"upload {key}: its file is gone", "it was ended" if repair else "")
    for key, file in files.items():
        if key not in known:
            if repair:
                file.unlink(missing_ok=True)
            yield Flaw(f"upload {key}: not in the database", "its file was deleted" if repair else "")


def back_up(storage: Storage, file: Path, *, bundles: bool) -> None:
    """Write an archive that only its owner can read; a server may be running. UsageError for PostgreSQL."""
    if storage.engine.dialect.name != "sqlite":
        raise UsageError("the database is PostgreSQL: back it up with pg_dump, and the data folder by copying")
    place = file.absolute().parent
    with write_errors(file, UsageError), TemporaryDirectory(prefix=".thpdiag-backup-", dir=place) as folder:
        copy, part = Path(folder) / DATABASE_FILE, Path(folder) / "backup.tar"
        with (
            translate_errors(storage.engine.url),
            closing(storage.engine.raw_connection()) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.driver_connection.backup(target)  # type: ignore[union-attr]
        if damage := storage.verify():
            raise StoreError(f"{storage.folder}: the database is damaged ({damage}); there is no backup of it")
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with tarfile.open(part, "w") as tar:
            tar.add(copy, DATABASE_FILE)
            for name in (IDENTITY_FILE, KEY_FILE):
                if (storage.folder / name).exists():
                    tar.add(storage.folder / name, name)
            for sha256, _ in storage.content.files() if bundles else ():
                with suppress(FileNotFoundError):  # it was deleted meanwhile
                    tar.add(storage.content.path(sha256), f"bundles/{sha256[:2]}/{sha256[2:]}")
        with part.open("rb") as whole:
            os.fsync(whole.fileno())
        part.replace(file)
    sync_folder(place)


def restore(folder: Path, file: Path) -> None:
    """Restore a backup into a folder without a database: a new one, or the one whose database is lost.

    Existing files stay. The database is moved in last, so that an interrupted restore can be repeated.
    """
    database, identity = folder / DATABASE_FILE, folder / IDENTITY_FILE
    with ExitStack() as stack:
        stack.enter_context(write_errors(folder, StoreError))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stack.enter_context(lock_folder(folder))
        temporary = stack.enter_context(TemporaryDirectory(prefix=".restore-", dir=folder))
        if database.exists():
            raise UsageError(f"{database} is there: move it away first")
        parts = Path(temporary)
        saved = _unpack(file, parts)
        if identity.exists() and identity.read_bytes() != (parts / IDENTITY_FILE).read_bytes():
            raise UsageError(f"{file} is of another data folder than {folder}")
        for part in sorted(parts.rglob("*"), key=lambda part: part == saved):
            place = folder / part.relative_to(parts)
            if part.is_dir():
                place.mkdir(mode=0o700, exist_ok=True)
            elif not place.exists():
                part.chmod(0o400 if part.parent != parts else 0o600)
                for log in ("-wal", "-shm") if part == saved else ():  # SQLite would apply the log of the lost database
                    Path(f"{database}{log}").unlink(missing_ok=True)
                part.replace(place)
    sync_folder(folder)


def _unpack(file: Path, parts: Path) -> Path:
    """Unpack a backup and return the path of its database; InputError if it is not a valid backup."""
    invalid = InputError(f"{file}: not a backup of thpdiag serve")
    try:
        with tarfile.open(file) as tar:
            for member in tar:
                if not (MEMBER.fullmatch(member.name) and member.isfile()):
                    raise invalid
                tar.extract(member, parts, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"{file}: cannot be read as a backup ({error})") from error
    database = parts / DATABASE_FILE
    if not (database.is_file() and (parts / IDENTITY_FILE).is_file()):
        raise invalid
    try:
        with closing(sqlite3.connect(database)) as connection:
            is_intact = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    except sqlite3.DatabaseError:
        is_intact = False
    if not is_intact:
        raise InputError(f"{file}: the database in it is damaged")
    return database
