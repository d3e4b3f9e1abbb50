"""Archives of archives, as `sos collect` makes them of many hosts: each archive in it is a bundle by itself.

An archive is a collection if it holds two archives at least, named as such and at most three folders deep, and most of
its bytes are theirs. Nothing is decompressed twice to find that out: an ordinary bundle shows in its first members that
it is one. The reading ends

- before it begins, if the file is not named as an archive, or is named as a report of one host (`sosreport-...`);
- at the first folder of a host (`proc`, `etc`, `sos_commands` ...), or if the outermost is named as such a report;
- when 64 files have come and no archive, or 2 MiB (64 MiB of a tar that is not compressed) more than twice what the
  archives so far have; unless the outermost folder is named as sos collect names it.

A zip is judged by its list. What lies beside the archives is written out as a folder and is one bundle more: mostly
logs of the collector, which nobody misses if nothing in them is recognised, but it may be a host that came unpacked.

The customer's bytes are read in one confined child, `_CollectionReader`; this process never looks at them. Archives
are written under names made here, never those of members; of the files beside them the harmless part of their paths is
kept, for a path says which file of a host it is.
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
RESERVED_BYTES: Final = 512 * MIB  # that others may still need there
LOST_FILES: Final = "{} of the files beside its archives could not be written to the scratch folder and were not read"
SIBLING_FOLDER: Final = "beside"
MAX_FOLDERS_ABOVE: Final = 3  # folders of the collection above an archive
_MIN_ARCHIVES: Final = 2  # fewer archives are no collection: they are read with what lies beside them
_MAX_SIBLINGS: Final = 10_000  # files beside the archives
_MAX_FILES_BEFORE: Final = 64  # files without an archive among them
_MAX_BYTES_BEFORE: Final = {False: 64 * MIB, True: 2 * MIB}  # by whether they must be decompressed
_TAR_END, _TAR_HEAD = 10 * KIB, 3 * BLOCK  # what stands behind all members, and at most before an ordinary one
_FULL_ERRNOS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_HOST_FOLDERS: Final = FOLDER_MARKS - COLLECTOR_FOLDERS  # sos collect has these two as well
_HOST_REPORT: Final = re.compile(r"sosreport-|thp-capture-", re.I)
_NAMED_AS_ONE_HOST: Final = re.compile(r"(?:secured-)?sosreport-|thp-capture-", re.I)
_COLLECTOR: Final = re.compile(r"sos-?collect", re.I)
_NO_ROOM: Final = "its archives need more room than there is for scratch files"


@dataclass(frozen=True, slots=True)
class Collection:
    """Its archives, named as in the collection without the folder that all lie in; and what lies `beside` them.

    Where the collection is damaged or too large, so that bundles may be missing, one item more says so.
    """

    items: tuple[BundleItem, ...]
    beside: BundleItem | None = None

    def __iter__(self) -> Iterator[BundleItem]:
        return iter(self.items)


def open_collection(place: Path, scratch: Path, most: int = MAX_COLLECTION_BYTES) -> Collection | None:
    """The archives in an archive, as files in a folder of `scratch`; None if it is a bundle itself.

    Raises UnreadError if there is no room for them. For a process with one thread, as a worker is.
    """
    if not is_archive(place.name) or _NAMED_AS_ONE_HOST.match(place.name) or place.is_dir():
        return None
    folder = scratch / "collection"
    folder.mkdir()
    room = max(min(most, shutil.disk_usage(folder).free - RESERVED_BYTES), 0)
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
    return None  # whatever is wrong with it, its analysis says


def _collection(content: dict[str, Any], place: Path, folder: Path) -> Collection:
    archives, beside = content["archives"], content["beside"]
    paths = [PurePosixPath(str(archive["path"])) for archive in archives]
    folders = Counter(path.parts[0] for path in paths if len(path.parts) > 1)
    root = next((name for name, count in folders.items() if count == len(paths)), "")
    labels: set[str] = set()
    items = []
    for number, (path, archive) in enumerate(zip(paths, archives, strict=True)):
        label = unused_name(str(path.relative_to(root)), labels)
        labels.add(label)
        refused = str(archive["trouble"]) if archive["trouble"] and not archive["size"] else ""
        _check_folder(folder / str(number))
        items.append(BundleItem(str(folder / file_of(number, str(path))), label, int(archive["size"]), refused))
    lost = LOST_FILES.format(int(beside["lost"])) if beside["lost"] else ""
    if trouble := str(content["trouble"]) or lost:
        items.append(BundleItem(str(place), unused_name("(what is lost)", labels), refused=trouble))
    _check_folder(folder / SIBLING_FOLDER)
    if not beside["kept"]:
        return Collection(tuple(items))
    label = unused_name("(beside its archives)", labels)
    return Collection(tuple(items), BundleItem(str(folder / SIBLING_FOLDER), label, int(beside["size"])))


def _check_folder(folder: Path) -> None:
    """A folder that the child made a link: it obeyed somebody else."""
    if folder.is_symlink():
        raise UnreadError("the child process that reads it cannot be trusted")


def file_of(number: int, path: str) -> Path:
    """Where an archive of a collection is written: a folder of its own, and what is harmless of its name."""
    return Path(str(number), safe_name(path.rpartition("/")[2]))


@dataclass(slots=True)
class InnerArchive:
    """An archive of the collection: its path there and the size of the file that was written, numbered in order."""

    path: str
    size: int = 0
    trouble: str = ""


@dataclass(slots=True)
class SiblingFiles:
    """How many files were written and their bytes; how many could not be, for want of room or for their names."""

    kept: int = 0
    size: int = 0
    lost: int = 0


@dataclass(slots=True)
class CollectionContent:
    """What a collection holds: its archives, what lies beside them, and what of it could not be read."""

    archives: list[InnerArchive] = field(default_factory=list)
    beside: SiblingFiles = field(default_factory=SiblingFiles)
    trouble: str = ""


class OneBundleError(Exception):
    """The archive is no collection."""


def unpack_collection(place: Path, folder: Path, room: int) -> Answer:
    """Write the archives of a collection into `folder` (`file_of`), and what lies beside them (`beside`).

    The answer is `CollectionContent` as JSON, or empty. Raises InputError if the archives need more than `room` bytes.
    """
    with suppress(OneBundleError):
        try:
            file = place.open("rb", buffering=0)
        except OSError:
            return Answer(b"")  # whoever reads it next says why it cannot be read
        with file:
            content = _CollectionReader(Budget(ReadLimits()), folder, room).read(file)
            return Answer(json.dumps(asdict(content)).encode())
    return Answer(b"")


class _CollectionReader:
    def __init__(self, budget: Budget, folder: Path, room: int) -> None:
        self._budget, self._folder, self._room = budget, folder, room
        self._content = CollectionContent()
        self._in_archives = 0  # bytes, as their headers say
        self._passed = 0  # bytes of the collection that came by
        self._before = 0  # bytes that may come by before there is an archive
        self._others = 0  # files that are no archive
        self._surely = False  # it says itself that it is one

    def read(self, file: BinaryIO) -> CollectionContent:
        stream, memory = Stream(read_file(file, self._budget)), self._budget.limits.codec_memory
        head = stream.peek(SNIFF)
        if is_zip(head):
            self._read_zip(file)
            return self._content
        codec = codec_of(head)
        self._before = _MAX_BYTES_BEFORE[bool(codec)]
        chunks = decompress(codec, stream, memory, self._budget) if codec else stream.chunks()
        self._read_tar(Stream(self._watch(chunks)))
        return self._content

    def _read_zip(self, file: BinaryIO) -> None:
        """Its list tells everything before anything is read."""
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
                    content.trouble = content.trouble or entry.text
                elif entry.wanted:
                    self._in_archives += entry.size if _is_inner(entry.path) else 0
                    self._write(entry.path, entry.chunks)
        except StreamError as failure:
            content.trouble = content.trouble or failure.text
        members = len(content.archives) + self._others
        total = stream.offset - _TAR_END - members * _TAR_HEAD
        if len(content.archives) < _MIN_ARCHIVES or 2 * self._in_archives <= total:
            raise OneBundleError

    def _watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Ends as soon as what is no archive outweighs what is."""
        for chunk in chunks:
            self._passed += len(chunk)
            if not self._surely and self._passed > self._before + 2 * self._in_archives:
                raise OneBundleError
            yield chunk

    def _is_wanted(self, path: str, _size: int) -> bool:
        """Asked once for every file of a tar."""
        first, *below = path.split("/")
        if below and (_HOST_REPORT.match(first) or not _HOST_FOLDERS.isdisjoint((first, below[0]))):
            raise OneBundleError
        self._surely = self._surely or bool(below and _COLLECTOR.match(first))
        if not _is_inner(path):
            self._others += 1
            if self._others > _MAX_FILES_BEFORE and not self._content.archives and not self._surely:
                raise OneBundleError
        return not _is_of_collector(path)

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        if _is_inner(path):
            self._write_archive(InnerArchive(path), chunks)
        elif self._content.beside.kept + self._content.beside.lost < _MAX_SIBLINGS:
            self._write_sibling(path, chunks)
        else:
            self._content.beside.lost += 1

    def _write_archive(self, archive: InnerArchive, chunks: Iterable[bytes]) -> None:
        place = self._folder / file_of(len(self._content.archives), archive.path)
        try:
            place.parent.mkdir()
            with place.open("wb") as file:
                for chunk in self._within_room(chunks):
                    archive.size += file.write(chunk)
        except StreamError as failure:
            archive.trouble = failure.text
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise InputError(_NO_ROOM) from error
            raise
        self._content.archives.append(archive)

    def _write_sibling(self, path: str, chunks: Iterable[bytes]) -> None:
        """A file beside the archives; one that finds no room is lost and gives its room back."""
        siblings, room = self._content.beside, self._room
        place = self._folder / SIBLING_FOLDER / Path(*(safe_name(part) or "_" for part in path.split("/")))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.writelines(self._within_room(chunks))
        except StreamError as failure:  # it ends early
            self._content.trouble = self._content.trouble or failure.text
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
        """The chunks; raises what a full disk does if they are more than there is room for."""
        for chunk in chunks:
            self._room -= len(chunk)
            if self._room < 0:
                raise OSError(errno.ENOSPC, "no room")
            yield chunk


def _is_of_collector(path: str) -> bool:
    """Whether a file is what sos collect tells of itself: a reader knows it, but it is evidence of no host."""
    *folders, name = path.split("/")
    return not COLLECTOR_FOLDERS.isdisjoint(folders[:2]) or (name == "version.txt" and len(folders) < 2)


def _is_inner(path: str) -> bool:
    return path.count("/") <= MAX_FOLDERS_ABOVE and is_archive(path.rpartition("/")[2])
