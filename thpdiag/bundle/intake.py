"""Opens whatever a stream of bytes turns out to be, and what lies in it: the recursion of the bundle stage."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle.codecs import codec_of, unpacked
from thpdiag.bundle.directory import Found, open_regular, size_of, walk
from thpdiag.bundle.entry import Entry, EntryKind
from thpdiag.bundle.failure import StreamError
from thpdiag.bundle.file import expected_size, read_file
from thpdiag.bundle.header import is_tar
from thpdiag.bundle.limits import Budget, Limits
from thpdiag.bundle.magic import SNIFF, foreign, is_encrypted, is_packed, is_zip, named_as_archive, named_as_encrypted
from thpdiag.bundle.member import Member
from thpdiag.bundle.namespace import Namespace
from thpdiag.bundle.place import Place
from thpdiag.bundle.stream import Stream
from thpdiag.bundle.tar import TarWalker
from thpdiag.bundle.zip import ZipFile, open_zip
from thpdiag.bundle.zip_cut import cut_zip
from thpdiag.knowledge.paths import of_kernel
from thpdiag.model import Citation, Problem, ProblemKind

_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
LEAST_PACKED = 40  # bytes: no archive is smaller; a compressed line that is says by its name what it is


@dataclass(slots=True)
class Intake:
    """Reads one input. `late` are members that a link wanted after they had passed."""

    wants: Callable[[str], object]
    budget: Budget
    late: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        return self.budget.limits

    def directory(self, root: Path, name: str) -> Iterator[Member | Problem]:
        space = self._namespace(Place(name))
        for found in walk(root, self.limits, stat.S_IFLNK):
            if not found.failure:
                space.link(Entry(found.path, EntryKind.SYMLINK, target=found.target))
        yield from self._opened(space, self._files(root, name, space))

    def file(self, file: BinaryIO, name: str) -> Iterator[Member | Problem]:
        """A file or a stream that the user named."""
        place = Place(name, given=True, size=expected_size(file))
        yield from self.open(place, Stream(read_file(file, self.budget)), file if file.seekable() else None)

    def open(self, place: Place, stream: Stream, file: BinaryIO | None = None) -> Iterator[Member | Problem]:
        """What a stream holds. `file` is where it comes from if one can seek in it."""
        head = stream.peek(SNIFF)
        if codec := codec_of(head):
            yield from self._unpack(codec, place, stream)
        elif is_zip(head):
            yield from self._zip(place, stream, file)
        elif is_tar(head):
            yield from self._tar(place, stream)
        elif reason := _closed(place, head):
            yield Problem(Citation(place.path), reason, ProblemKind.UNREADABLE)
        elif place.wanted:
            self.budget.gives()
            yield Member(place.path, place.size, stream, self.limits, place.aliases, _on_disk(file))
        elif stream.failure and named_as_archive(place.path):
            yield stream.failure.problem(place.path, hides=True)

    def _unpack(self, codec: str, place: Place, stream: Stream) -> Iterator[Member | Problem]:
        if place.chain >= self.limits.nesting:
            yield self._too_deep(place)
            return
        memory = self.limits.codec_memory >> place.codecs
        stem, dot, suffix = place.path.rpartition(".")
        wanted = place.wanted or (dot + suffix in _SUFFIXES and bool(self.wants(stem)))
        yield from self.open(place.unpacked(wanted=wanted), Stream(unpacked(codec, stream, memory, self.budget)))

    def _tar(self, place: Place, stream: Stream) -> Iterator[Member | Problem]:
        if place.archives >= self.limits.nesting:
            yield self._too_deep(place)
            return
        space = self._namespace(place.inside())
        yield from self._opened(space, TarWalker(place.path, stream, self.budget, space.interesting).entries())

    def _zip(self, place: Place, stream: Stream, file: BinaryIO | None) -> Iterator[Member | Problem]:
        if place.archives >= self.limits.nesting:
            yield self._too_deep(place)
            return
        space = self._namespace(place.inside())
        try:
            file = file or self._held(stream)
            entries = self._zipped(place, open_zip(file, self.budget), space)
        except StreamError as failure:
            yield failure.problem(place.path, hides=True)
            if file is None or failure.kind is not ProblemKind.DAMAGED:
                return
            file.seek(0)
            entries = cut_zip(Stream(read_file(file, self.budget)), self.budget, space.interesting)
        yield from self._opened(space, entries)

    def _held(self, stream: Stream) -> BinaryIO:
        data = stream.take(self.limits.held_bytes + 1)
        if len(data) > self.limits.held_bytes:
            text = f"is a zip of more than {self.limits.held_bytes} bytes where one cannot seek (limit held_bytes)"
            raise StreamError(ProblemKind.LIMIT, text)
        return io.BytesIO(data)

    def _zipped(self, place: Place, archive: ZipFile, space: Namespace) -> Iterator[Entry | Problem]:
        memory = self.limits.codec_memory >> place.codecs
        try:
            yield from archive.links(memory)
            yield from archive.files(memory, space.interesting)
        except StreamError as failure:
            yield failure.problem(place.path, "; members after it are missing", hides=True)

    def _files(self, root: Path, name: str, space: Namespace) -> Iterator[Entry | Problem]:
        for found in walk(root, self.limits):
            if found.failure:
                yield found.failure.problem(found.path or name, hides=True)
            elif stat.S_ISREG(found.mode):
                self.budget.met(1)
                yield from self._regular(found, space)
            elif not stat.S_ISLNK(found.mode):
                yield Entry(found.path, EntryKind.SPECIAL)

    def _regular(self, found: Found, space: Namespace) -> Iterator[Entry | Problem]:
        wanted = space.interesting(found.path)
        if not wanted and not _may_hold_members(found):
            return
        try:
            opened = open_regular(found.name, found.folder)
        except StreamError as failure:
            if wanted or named_as_archive(found.path):
                yield failure.problem(found.path, hides=True)
            return
        with os.fdopen(opened, "rb", buffering=0) as file:
            if wanted or is_packed(_first(file)):
                size = os.fstat(opened).st_size
                yield Entry(found.path, EntryKind.FILE, size, read_file(file, self.budget), wanted=wanted)

    def _namespace(self, place: Place) -> Namespace:
        return Namespace(place, self.wants, self.limits, self.late)

    def _opened(self, space: Namespace, entries: Iterator[Entry | Problem]) -> Iterator[Member | Problem]:
        for found in space.admitted(entries):
            if isinstance(found, Problem):
                yield found
            else:
                entry, place = found
                yield from self.open(place, Stream(entry.chunks))

    def _too_deep(self, place: Place) -> Problem:
        text = f"lies in more than {self.limits.nesting} archives and was not opened (limit nesting)"
        return Problem(Citation(place.path), text, ProblemKind.LIMIT, hides=True)


def _may_hold_members(found: Found) -> bool:
    """Whether a file that nobody wants is worth opening, because an archive may lie there under any name."""
    if found.name.endswith(_SUFFIXES) or named_as_archive(found.name):
        return True
    return not of_kernel(found.path) and size_of(found) >= LEAST_PACKED


def _closed(place: Place, head: bytes) -> str:
    """Why a file that should have members or text cannot be opened, or empty."""
    if is_encrypted(head) and (place.given or named_as_encrypted(place.path)):
        return "is encrypted by GnuPG; decrypt it first (gpg -d) and give the result"
    if name := foreign(head):
        return f"is {name}, which is not read; send it as tar or zip"
    return ""


def _first(file: BinaryIO) -> bytes:
    try:
        return os.pread(file.fileno(), SNIFF, 0)
    except OSError:
        return b""


def _on_disk(file: BinaryIO | None) -> Path | None:
    """A path by which another process can open an open file of a disk again, whatever becomes of its name (Linux)."""
    if file is None or expected_size(file) is None:
        return None
    path = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
    return path if path.exists() else None
