"""The archives in an archive, written out one by one: what the child of `collections` does.

Reads the customer's bytes, so it runs in the guard only. What it writes has names made here, never those of members.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from thpdiag.bundle.codecs import codec_of, unpacked
from thpdiag.bundle.entry import Entry
from thpdiag.bundle.failure import StreamError
from thpdiag.bundle.file import read_file
from thpdiag.bundle.header import BLOCK, is_tar
from thpdiag.bundle.limits import KIB, MIB, Budget, Limits
from thpdiag.bundle.magic import SNIFF, is_zip
from thpdiag.bundle.names import inside
from thpdiag.bundle.stream import Stream
from thpdiag.bundle.tar import TarWalker
from thpdiag.bundle.zip import open_zip
from thpdiag.errors import InputError
from thpdiag.guard.outcome import Answer
from thpdiag.triage.worklist.beside import Beside
from thpdiag.triage.worklist.companions import is_archive
from thpdiag.triage.worklist.folder import FOLDER_MARKS, OF_COLLECTOR
from thpdiag.triage.worklist.listing import harmless

DEEPEST: Final = 3  # folders of the collection above an archive
_FEW: Final = 2  # fewer archives are no collection: they are read with what lies beside them
_FILES_BEFORE: Final = 64  # files without an archive among them
_BYTES_BEFORE: Final = {False: 64 * MIB, True: 2 * MIB}  # by whether they must be decompressed
_HOST: Final = FOLDER_MARKS - OF_COLLECTOR  # sos collect has these two as well
_ONE_HOST: Final = re.compile(r"sosreport-|thp-capture-", re.I)
_NO_ROOM: Final = "its archives need more room than there is for scratch files"
_END, _HEAD = 10 * KIB, 3 * BLOCK  # of a tar: what stands behind all members, and at most before an ordinary one
_COLLECTOR: Final = re.compile(r"sos-?collect", re.I)


@dataclass(slots=True)
class Inner:
    """An archive of the collection: its path there and the size of the file that was written, numbered in order."""

    path: str
    size: int = 0
    trouble: str = ""


@dataclass(slots=True)
class Inside:
    """What a collection holds: its archives, what lies beside them, and what of it could not be read."""

    archives: list[Inner] = field(default_factory=list)
    beside: Beside = field(default_factory=Beside)
    trouble: str = ""


class OneBundleError(Exception):
    """The archive is no collection."""


def written(place: Path, folder: Path, room: int) -> Answer:
    """Write the archives of a collection into `folder` (`file_of`), and what lies beside them (`beside`).

    The answer is `Inside` as JSON, or empty. Raises InputError if the archives need more than `room` bytes.
    """
    try:
        file = place.open("rb", buffering=0)
    except OSError:
        return Answer(b"")  # whoever reads it next says why it cannot be read
    with file:
        try:
            inside_of = _Collection(Budget(Limits()), folder, room).read(file)
        except OneBundleError:
            return Answer(b"")
    return Answer(json.dumps(asdict(inside_of)).encode())


class _Collection:
    def __init__(self, budget: Budget, folder: Path, room: int) -> None:
        self._budget, self._folder, self._room = budget, folder, room
        self._found = Inside()
        self._in_archives = 0  # bytes, as their headers say
        self._passed = 0  # bytes of the collection that came by
        self._before = 0  # bytes that may come by before there is an archive
        self._others = 0  # files that are no archive
        self._surely = False  # it says itself that it is one

    def read(self, file: BinaryIO) -> Inside:
        stream = Stream(read_file(file, self._budget))
        head = stream.peek(SNIFF)
        if is_zip(head):
            self._zip(file)
            return self._found
        codec = codec_of(head)
        self._before = _BYTES_BEFORE[bool(codec)]
        chunks = unpacked(codec, stream, self._budget.limits.codec_memory, self._budget) if codec else stream.chunks()
        self._tar(Stream(self._watched(chunks)))
        return self._found

    def _zip(self, file: BinaryIO) -> None:
        """Its list tells everything before anything is read."""
        memory = self._budget.limits.codec_memory
        try:
            archive = open_zip(file, self._budget)
            files = [e for e in archive.entries() if e.name[-1:] != "/" and not e.is_link and not e.is_special]
        except StreamError as failure:
            raise OneBundleError from failure
        packed = [entry for entry in files if _is_inner(inside(entry.name)[0])]
        if len(packed) < _FEW or 2 * sum(entry.packed for entry in packed) <= sum(entry.packed for entry in files):
            raise OneBundleError
        for entry in (entry for entry in files if not _of_collector(inside(entry.name)[0])):
            self._write(inside(entry.name)[0], archive.content(entry, memory))

    def _tar(self, stream: Stream) -> None:
        if not is_tar(stream.peek(SNIFF)):
            raise OneBundleError
        try:
            for entry in TarWalker("", stream, self._budget, self._interesting).entries():
                if not isinstance(entry, Entry):
                    self._found.trouble = self._found.trouble or entry.text
                elif entry.wanted:
                    self._in_archives += entry.size if _is_inner(entry.path) else 0
                    self._write(entry.path, entry.chunks)
        except StreamError as failure:
            self._found.trouble = self._found.trouble or failure.text
        members = len(self._found.archives) + self._others
        if len(self._found.archives) < _FEW or 2 * self._in_archives <= stream.offset - _END - members * _HEAD:
            raise OneBundleError

    def _watched(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Ends as soon as what is no archive outweighs what is."""
        for chunk in chunks:
            self._passed += len(chunk)
            if not self._surely and self._passed > self._before + 2 * self._in_archives:
                raise OneBundleError
            yield chunk

    def _interesting(self, path: str) -> bool:
        """Asked once for every file of a tar."""
        first, *below = path.split("/")
        if below and (_ONE_HOST.match(first) or not _HOST.isdisjoint((first, below[0]))):
            raise OneBundleError
        self._surely = self._surely or bool(below and _COLLECTOR.match(first))
        if not _is_inner(path):
            self._others += 1
            if self._others > _FILES_BEFORE and not self._found.archives and not self._surely:
                raise OneBundleError
        return not _of_collector(path)

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        if _is_inner(path):
            self._write_archive(path, chunks)
        else:
            before = self._found.beside.size
            trouble = self._found.beside.keep(self._folder, path, chunks, self._room)
            self._room -= self._found.beside.size - before
            self._found.trouble = self._found.trouble or trouble

    def _write_archive(self, path: str, chunks: Iterable[bytes]) -> None:
        one = Inner(path)
        place = self._folder / file_of(len(self._found.archives), path)
        try:
            place.parent.mkdir()
            with place.open("wb", buffering=0) as file:
                self._copy(one, chunks, file)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise InputError(_NO_ROOM) from error
            raise
        self._found.archives.append(one)

    def _copy(self, one: Inner, chunks: Iterable[bytes], file: BinaryIO) -> None:
        try:
            for chunk in chunks:
                self._room -= len(chunk)
                if self._room < 0:
                    raise InputError(_NO_ROOM)
                left = memoryview(chunk)
                while left:
                    left = left[file.write(left) :]
                one.size += len(chunk)
        except StreamError as failure:
            one.trouble = failure.text


def file_of(number: int, path: str) -> Path:
    """Where an archive of a collection is written: a folder of its own, and what is harmless of its name."""
    return Path(str(number), harmless(path.rpartition("/")[2]))


def _of_collector(path: str) -> bool:
    """Whether a file is what sos collect tells of itself: a reader knows it, but it is evidence of no host."""
    *folders, name = path.split("/")
    return not OF_COLLECTOR.isdisjoint(folders[:2]) or (name == "version.txt" and len(folders) < 2)


def _is_inner(path: str) -> bool:
    return path.count("/") <= DEEPEST and is_archive(path.rpartition("/")[2])
