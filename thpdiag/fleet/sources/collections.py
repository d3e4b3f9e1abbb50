"""Collections: archives of archives, as `sos collect` makes them of many hosts. Each inner archive is one bundle.

An archive is a collection if it contains at least two members with names of archives, at most three folders deep, that
have most of its bytes. This is decided from the first members, so an ordinary bundle is not decompressed twice. Reading
stops

- before it begins, if the name of the file is not that of an archive, or is that of one host (`sosreport-...`);
- at the first folder of a host (`proc`, `etc`, `sos_commands` ...), or if the top folder has the name of one host;
- after 64 files without an archive, or 2 MiB (64 MiB of an uncompressed tar) more than twice the bytes of the archives
  so far; unless the top folder has a name of sos collect.

A zip is judged by its central directory. The other files are extracted to a folder, which is one more bundle: mostly
logs of the collector, whose result is dropped if nothing in them is recognised, but possibly an unpacked host.

The customer's bytes are read in one confined child (`_CollectionReader`), never in this process. Inner archives are
written under generated names, not those of members; the other files keep a sanitized path, since it identifies files
of a host.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from thpdiag.bundle.codecs import Stream, codec_of, decompress
from thpdiag.bundle.limits import GIB, KIB, MIB, Budget, StreamError
from thpdiag.bundle.limits import Limits as ReadLimits
from thpdiag.bundle.magic import SNIFF, is_zip
from thpdiag.bundle.open import read_file
from thpdiag.bundle.tar import TarWalker
from thpdiag.bundle.tar_format import BLOCK, is_tar
from thpdiag.bundle.tree import Entry, canonical_path
from thpdiag.bundle.zip import open_zip
from thpdiag.errors import InputError
from thpdiag.fleet.sources.item import BundleItem, UnreadError, is_archive, safe_name, unused_name
from thpdiag.fleet.sources.local import COLLECTOR_FOLDERS, FOLDER_MARKS
from thpdiag.sandbox.outcome import Allowed, Answer, Limits, Status
from thpdiag.sandbox.supervise import run_in_child

MAX_COLLECTION_BYTES: Final = 64 * GIB  # of one collection in the scratch folder
RESERVED_BYTES: Final = 512 * MIB  # of the disk, left free for other processes
LOST_FILES: Final = "{} of the files beside its archives could not be written to the scratch folder and were not read"
SIBLING_FOLDER: Final = "beside"
MAX_FOLDERS_ABOVE: Final = 3  # folders of the collection above an archive
_MIN_ARCHIVES: Final = 2  # with fewer archives it is one bundle
_MAX_SIBLINGS: Final = 10_000  # other files that are extracted
_MAX_FILES_BEFORE: Final = 64  # files without an archive, after which reading stops
_MAX_BYTES_BEFORE: Final = {False: 64 * MIB, True: 2 * MIB}  # the same in bytes, by whether the tar is compressed
_TAR_END, _TAR_HEAD = 10 * KIB, 3 * BLOCK  # bytes after the last member, and at most before an ordinary one
_FULL_ERRNOS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_HOST_FOLDERS: Final = FOLDER_MARKS - COLLECTOR_FOLDERS  # archives of sos collect have the latter two as well
_HOST_REPORT: Final = re.compile(r"sosreport-|thp-capture-", re.I)
_NAMED_AS_ONE_HOST: Final = re.compile(r"(?:secured-)?sosreport-|thp-capture-", re.I)
_COLLECTOR: Final = re.compile(r"sos-?collect", re.I)
_NO_ROOM: Final = "its archives need more room than there is for scratch files"


@dataclass(frozen=True, slots=True)
class Collection:
    """The archives of a collection, labelled without their common top folder; `siblings` is the folder of other files.

    If the collection is damaged or too large, so that bundles may be missing, a refused item states the reason.
    """

    items: tuple[BundleItem, ...]
    siblings: BundleItem | None = None

    def __iter__(self) -> Iterator[BundleItem]:
        return iter(self.items)


def open_collection(place: Path, scratch: Path, max_bytes: int = MAX_COLLECTION_BYTES) -> Collection | None:
    """Extract the archives in an archive to a folder of `scratch`; None if the archive itself is a bundle.

    Raises UnreadError if the disk has no room for them. The process must have one thread only, since it forks.
    """
    if not is_archive(place.name) or _NAMED_AS_ONE_HOST.match(place.name) or place.is_dir():
        return None
    folder = scratch / "collection"
    folder.mkdir()
    room = max(min(max_bytes, shutil.disk_usage(folder).free - RESERVED_BYTES), 0)
    outcome = run_in_child(
        partial(unpack_collection, place, folder, room),
        Limits(file_size=room + MIB, scratch=room + 64 * MIB),
        Allowed(read=(place,), scratch=folder),
    )
    if outcome.status is Status.OK and outcome.content:
        return _collection(json.loads(outcome.content), place, folder)
    shutil.rmtree(folder)
    if outcome.status in {Status.REFUSED, Status.BUG}:
        raise UnreadError(outcome.sentence)
    return None  # the analysis reports what is wrong with it


def _collection(content: dict[str, Any], place: Path, folder: Path) -> Collection:
    archives, siblings = content["archives"], content["siblings"]
    paths = [PurePosixPath(str(archive["path"])) for archive in archives]
    folders = Counter(path.parts[0] for path in paths if len(path.parts) > 1)
    root = next((name for name, count in folders.items() if count == len(paths)), "")
    labels: set[str] = set()
    items = []
    for number, (path, archive) in enumerate(zip(paths, archives, strict=True)):
        label = unused_name(str(path.relative_to(root)), labels)
        labels.add(label)
        refused = str(archive["problem"]) if archive["problem"] and not archive["size"] else ""
        _check_folder(folder / str(number))
        items.append(BundleItem(str(folder / file_of(number, str(path))), label, int(archive["size"]), refused))
    lost = LOST_FILES.format(int(siblings["lost"])) if siblings["lost"] else ""
    if problem := str(content["problem"]) or lost:
        items.append(BundleItem(str(place), unused_name("(what is lost)", labels), refused=problem))
    _check_folder(folder / SIBLING_FOLDER)
    if not siblings["kept"]:
        return Collection(tuple(items))
    label = unused_name("(beside its archives)", labels)
    return Collection(tuple(items), BundleItem(str(folder / SIBLING_FOLDER), label, int(siblings["size"])))


def _check_folder(folder: Path) -> None:
    """Raise UnreadError if the child replaced a folder by a link, which shows that it was compromised."""
    if folder.is_symlink():
        raise UnreadError("the child process that reads it cannot be trusted")


def file_of(number: int, path: str) -> Path:
    """Return the path of an extracted archive: a folder with its number, and a safe name."""
    return Path(str(number), safe_name(path.rpartition("/")[2]))


@dataclass(slots=True)
class InnerArchive:
    """An inner archive: its path in the collection, the size of the extracted file, and what could not be read."""

    path: str
    size: int = 0
    problem: str = ""


@dataclass(slots=True)
class SiblingFiles:
    """The number and bytes of extracted files; `lost` counts those that failed, for lack of room or by their names."""

    kept: int = 0
    size: int = 0
    lost: int = 0


@dataclass(slots=True)
class CollectionContent:
    """The extracted content of a collection, and the first problem of reading it."""

    archives: list[InnerArchive] = field(default_factory=list)
    siblings: SiblingFiles = field(default_factory=SiblingFiles)
    problem: str = ""


class OneBundleError(Exception):
    """The archive is no collection."""


def unpack_collection(place: Path, folder: Path, room: int) -> Answer:
    """Extract the archives of a collection (to `file_of`) and its other files (to `SIBLING_FOLDER`) in `folder`.

    The answer is `CollectionContent` as JSON, empty for an ordinary bundle. Raises InputError if the archives need more
    than `room` bytes.
    """
    with suppress(OneBundleError):
        try:
            file = place.open("rb", buffering=0)
        except OSError:
            return Answer(b"")  # the analysis reports why it cannot be read
        with file:
            content = _CollectionReader(Budget(ReadLimits()), folder, room).read(file)
            return Answer(json.dumps(asdict(content)).encode())
    return Answer(b"")


class _CollectionReader:
    def __init__(self, budget: Budget, folder: Path, room: int) -> None:
        self._budget, self._folder, self._room = budget, folder, room
        self._content = CollectionContent()
        self._archive_bytes = 0  # according to the headers
        self._read_bytes = 0
        self._max_other_bytes = 0  # of files other than archives, before reading stops
        self._other_files = 0
        self._is_certain = False  # the name of the top folder is that of a collection

    def read(self, file: BinaryIO) -> CollectionContent:
        stream, memory = Stream(read_file(file, self._budget)), self._budget.limits.codec_memory
        head = stream.peek(SNIFF)
        if is_zip(head):
            self._read_zip(file)
            return self._content
        codec = codec_of(head)
        self._max_other_bytes = _MAX_BYTES_BEFORE[bool(codec)]
        chunks = decompress(codec, stream, memory, self._budget) if codec else stream.chunks()
        self._read_tar(Stream(self._watch(chunks)))
        return self._content

    def _read_zip(self, file: BinaryIO) -> None:
        """Decide by the central directory, then extract."""
        memory = self._budget.limits.codec_memory
        try:
            archive = open_zip(file, self._budget)
            files = [
                (canonical_path(entry.name)[0], entry)
                for entry in archive.entries()
                if not (entry.name.endswith("/") or entry.is_link or entry.is_special)
            ]
        except StreamError as failure:
            raise OneBundleError from failure
        inner = [entry for path, entry in files if _is_inner(path)]
        total = sum(entry.packed for _, entry in files)
        if len(inner) < _MIN_ARCHIVES or 2 * sum(entry.packed for entry in inner) <= total:
            raise OneBundleError
        for path, entry in files:
            if not _is_of_collector(path):
                self._write(path, archive.content(entry, memory))

    def _read_tar(self, stream: Stream) -> None:
        if not is_tar(stream.peek(SNIFF)):
            raise OneBundleError
        content = self._content
        try:
            for entry in TarWalker("", stream, self._budget, self._is_wanted).entries():
                if not isinstance(entry, Entry):
                    content.problem = content.problem or entry.text
                elif entry.wanted:
                    self._archive_bytes += entry.size if _is_inner(entry.path) else 0
                    self._write(entry.path, entry.chunks)
        except StreamError as failure:
            content.problem = content.problem or failure.text
        members = len(content.archives) + self._other_files
        total = stream.offset - _TAR_END - members * _TAR_HEAD
        if len(content.archives) < _MIN_ARCHIVES or 2 * self._archive_bytes <= total:
            raise OneBundleError

    def _watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the bytes; raise OneBundleError when other files outweigh the archives."""
        for chunk in chunks:
            self._read_bytes += len(chunk)
            if not self._is_certain and self._read_bytes > self._max_other_bytes + 2 * self._archive_bytes:
                raise OneBundleError
            yield chunk

    def _is_wanted(self, path: str, _size: int) -> bool:
        """Whether to extract a member. The tar walker calls this once for every file."""
        first, *below = path.split("/")
        if below and (_HOST_REPORT.match(first) or not _HOST_FOLDERS.isdisjoint((first, below[0]))):
            raise OneBundleError
        self._is_certain = self._is_certain or bool(below and _COLLECTOR.match(first))
        if not _is_inner(path):
            self._other_files += 1
            if self._other_files > _MAX_FILES_BEFORE and not self._content.archives and not self._is_certain:
                raise OneBundleError
        return not _is_of_collector(path)

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        if _is_inner(path):
            self._write_archive(InnerArchive(path), chunks)
        elif self._content.siblings.kept + self._content.siblings.lost < _MAX_SIBLINGS:
            self._write_sibling(path, chunks)
        else:
            self._content.siblings.lost += 1

    def _write_archive(self, archive: InnerArchive, chunks: Iterable[bytes]) -> None:
        place = self._folder / file_of(len(self._content.archives), archive.path)
        try:
            place.parent.mkdir()
            with place.open("wb") as file:
                for chunk in self._within_room(chunks):
                    archive.size += file.write(chunk)
        except StreamError as failure:
            archive.problem = failure.text
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise InputError(_NO_ROOM) from error
            raise
        self._content.archives.append(archive)

    def _write_sibling(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a file that is not an archive. One without enough room counts as lost, and its room is freed."""
        siblings, room = self._content.siblings, self._room
        place = self._folder / SIBLING_FOLDER / Path(*(safe_name(part) or "_" for part in path.split("/")))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.writelines(self._within_room(chunks))
        except StreamError as failure:  # the file is incomplete
            self._content.problem = self._content.problem or failure.text
        except OSError as error:
            siblings.lost += 1
            self._room = room
            if error.errno in _FULL_ERRNOS:
                with suppress(OSError):
                    place.unlink()
            return
        siblings.kept += 1
        siblings.size += place.stat().st_size

    def _within_room(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on the chunks; raise ENOSPC, as a full disk does, if they exceed the room."""
        for chunk in chunks:
            self._room -= len(chunk)
            if self._room < 0:
                raise OSError(errno.ENOSPC, "no room")
            yield chunk


def _is_of_collector(path: str) -> bool:
    """Whether a file is about the run of sos collect: a parser knows it, but it describes no host."""
    *folders, name = path.split("/")
    return not COLLECTOR_FOLDERS.isdisjoint(folders[:2]) or (name == "version.txt" and len(folders) < 2)


def _is_inner(path: str) -> bool:
    return path.count("/") <= MAX_FOLDERS_ABOVE and is_archive(path.rpartition("/")[2])
